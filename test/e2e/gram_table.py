#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Tests what a UDP socket does, one call sequence a case: `gram_table.py ADDRESS` makes both ends in this process and
prints one line of JSON a case. test_grams.py runs the table on the kernel's sockets and on rnicd's; the kernel's
results are the expectation.
"""
import array
import errno
import fcntl
import os
import select
import signal
import socket
import struct
import termios
import threading

import gram_ports  # pylint: disable=unused-import
from gram_rig import bound, events, get, libc_disconnect, new, nobody, pair, wait
from sock_mmsg import recv_several, send_several
from sock_twice import ADDR, IN, LIMIT, case, code, epoll_of, main

UDP_CORK = 1     # of linux/udp.h
LONGEST = 1472  # a datagram of this many bytes fits into one packet on every path here


@case
def datagrams_keep_their_ends_and_tell_their_sender():
    a, b = bound(), bound()
    out = []
    for data in (b"one", b"", b"x" * LONGEST, b"four"):
        a.sendto(data, b.getsockname())
        got, who = b.recvfrom(2000)
        out.append([got == data, who == a.getsockname()])
    b.sendto(b"back", a.getsockname())
    return out + [a.recv(10).decode()]


@case
def many_datagrams_arrive_as_they_were_sent():
    a, b = pair()
    for i in range(3000):
        d = os.urandom(i % LONGEST)
        a.send(d)
        if b.recv(2000) != d:
            return i
    return "all"


@case
def datagrams_longer_than_a_packet_arrive_whole():
    a, b = pair()
    out = []
    for n in (1472, 1473, 2953, 8192, 65000, 65507):
        d = os.urandom(n)
        out.append([a.send(d), code(b.recv, n - 1, socket.MSG_PEEK) == d[:-1]])
        got, _, flags, who = b.recvmsg(70000)
        out += [got == d, flags, who == a.getsockname()]
    out += [code(a.send, bytes(65508)), code(a.sendto, bytes(65536), b.getsockname()), events(b)]
    a.sendmsg([d[:20000], d[20000:]])
    a.send(b"next")
    return out + [b.recv(70000) == d, b.recv(9).decode()]


@case
def long_datagrams_to_nobody_are_refused_as_short_ones():
    a = bound()
    a.connect(nobody())
    return [a.send(bytes(20000)), code(a.recv, 9)]


@case
def a_socket_that_was_never_bound_sends_and_gets_the_answer():
    a, b = new(), bound()
    out = [a.sendto(b"hello", b.getsockname())]
    data, who = b.recvfrom(10)
    out.append(data.decode())
    b.sendto(b"answer", who)
    out += [a.recv(10).decode(), a.getsockname()[0], a.getsockname()[1] == who[1]]
    return out + [code(a.bind, (ADDR, 0)), code(a.getpeername)]


@case
def a_peer_is_the_only_one_that_is_heard():
    a, b, c = bound(), bound(), bound()
    b.connect(a.getsockname())
    c.sendto(b"stranger", b.getsockname())
    a.sendto(b"peer", b.getsockname())
    out = [b.recv(20).decode(), code(b.recv, 20, socket.MSG_DONTWAIT)]
    c.connect(b.getsockname())
    return out + [b.getpeername() == a.getsockname(), c.getpeername() == b.getsockname()]


@case
def a_peer_may_be_changed_and_be_no_more():
    a, b, c = bound(), bound(nobody()[1]), bound()
    b.connect(a.getsockname())
    b.connect(c.getsockname())
    c.sendto(b"c", b.getsockname())
    out = [b.recv(9).decode(), b.getpeername() == c.getsockname()]
    libc_disconnect(b)
    out.append(code(b.getpeername))
    a.sendto(b"a", b.getsockname())
    return out + [b.recv(9).decode(), code(b.send, b"x")]


@case
def names_of_a_socket_that_was_connected_only():
    b, a = bound(), new()
    a.connect(b.getsockname())
    out = [a.getsockname()[0] != "0.0.0.0", a.getsockname()[1] != 0, a.getpeername() == b.getsockname()]
    a.send(b"x")
    out.append(b.recvfrom(9)[1] == a.getsockname())
    libc_disconnect(a)
    return out + [a.getsockname()[0]]


@case
def an_explicit_address_goes_before_the_peer():
    a, b = pair()
    c = bound()
    a.sendto(b"to c", c.getsockname())
    a.send(b"to b")
    return [c.recv(9).decode(), b.recv(9).decode()]


@case
def readiness_follows_what_is_there():
    a, b = pair()
    out = [events(b)]
    a.send(b"1")
    a.send(b"")
    out.append(wait(b))
    out.append(b.recv(9).decode())
    out.append(wait(b))
    out.append(b.recv(9).decode())
    out.append(wait(b, gone=True))
    out.append(code(b.recv, 9, socket.MSG_DONTWAIT))
    a.send(b"2")
    return out + [wait(b)]


@case
def select_with_datagrams_and_pipes_together():
    a, b = pair()
    r, w = os.pipe()
    os.write(w, b"x")
    ready = select.select([b, r], [a], [], LIMIT)
    out = [[r in ready[0], b in ready[0], a in ready[1]]]
    a.send(b"y")
    wait(b)
    ready = select.select([b, r], [], [], LIMIT)
    return out + [[r in ready[0], b in ready[0]]]


@case
def epoll_level():
    a, b = pair()
    e = epoll_of(b, select.EPOLLIN)
    out = [len(e.poll(0))]
    a.send(b"1")
    a.send(b"2")
    out += [e.poll(LIMIT)[0][1], b.recv(9).decode(), e.poll(LIMIT)[0][1], b.recv(9).decode()]
    wait(b, gone=True)
    return out + [len(e.poll(0))]


@case
def epoll_edge():
    a, b = pair()
    b.setblocking(False)
    e = epoll_of(b, select.EPOLLIN | select.EPOLLET)
    a.send(b"1")
    out = [e.poll(LIMIT)[0][1], len(e.poll(0)), b.recv(9).decode(), code(b.recv, 9)]
    a.send(b"2")
    return out + [e.poll(LIMIT)[0][1], b.recv(9).decode(), code(b.recv, 9), len(e.poll(0))]


@case
def epoll_one_shot():
    a, b = pair()
    e = epoll_of(b, select.EPOLLIN | select.EPOLLONESHOT)
    a.send(b"1")
    out = [e.poll(LIMIT)[0][1], len(e.poll(0))]
    e.modify(b, select.EPOLLIN | select.EPOLLONESHOT)
    return out + [e.poll(LIMIT)[0][1]]


@case
def flags_of_recv():
    a, b = pair()
    a.send(b"abcdef")
    a.send(b"next")
    a.send(b"third")
    out = [b.recv(3, socket.MSG_PEEK).decode(), b.recv(3, socket.MSG_PEEK | socket.MSG_TRUNC) == b"abc"]
    data, _, flags, who = b.recvmsg(3)
    out += [data.decode(), flags == socket.MSG_TRUNC, who == a.getsockname()]
    buffer = bytearray(2)
    out += [b.recv_into(buffer, 2, socket.MSG_TRUNC), buffer.decode()]
    data, _, flags, _ = b.recvmsg(9)
    return out + [data.decode(), flags, code(b.recv, 9, socket.MSG_DONTWAIT)]


@case
def pieces_of_a_datagram_are_sent_together():
    more, later = socket.MSG_MORE, socket.MSG_DONTWAIT
    a, b = pair()
    c = new()
    out = [a.send(b"head ", more), a.sendmsg([b"mid", b"dle "], [], more), code(b.recv, 99, later), a.send(b"tail")]
    out += [b.recv(99).decode(), a.send(bytes(40_000), more), code(a.send, bytes(40_000), more), a.send(b"anew"),
            b.recv(99).decode()]
    out += [c.sendto(b"by ", more, a.getsockname()), c.send(b"the first", more), c.send(b"")]
    out.append(code(a.recv, 99, later))  # a has another peer
    d = bound()
    out += [c.sendto(b"to the ", more, d.getsockname()), c.send(b"first address"), d.recv(99).decode()]
    out.append(code(c.send, b"x"))
    a.setsockopt(socket.IPPROTO_UDP, UDP_CORK, 1)
    out += [a.send(b"one "), a.send(b"two"), code(b.recv, 99, later), a.getsockopt(socket.IPPROTO_UDP, UDP_CORK)]
    a.setsockopt(socket.IPPROTO_UDP, UDP_CORK, 0)
    out += [b.recv(99).decode(), a.send(b"at once"), b.recv(99).decode()]
    return out + [a.send(b"forgotten", more), a.close()]


@case
def an_empty_read_of_a_datagram_takes_it():
    a, b = pair()
    a.send(b"abc")
    a.send(b"def")
    return [b.recvmsg(0)[2] == socket.MSG_TRUNC, b.recv(9).decode()]


@case
def lists_of_buffers():
    a, b = pair()
    out = [os.writev(a.fileno(), [b"ab", b"", b"cdefg"])]
    x, y = bytearray(3), bytearray(10)
    out += [os.readv(b.fileno(), [x, y]), x.decode(), y[:4].decode()]
    out.append(a.sendmsg([b"x", b"yz"], [], 0))
    data, control, flags, who = b.recvmsg_into([x])
    out += [data, control, flags, who == a.getsockname()]
    return out + [os.write(a.fileno(), b"w"), os.read(b.fileno(), 9).decode()]


@case
def several_messages_in_one_call():
    a, b = pair()
    out = [recv_several(b, [9], socket.MSG_DONTWAIT), send_several(a, [b"ab", b"cdef", b"", b"g"])]
    for _ in range(4):
        wait(b)
    out.append(recv_several(b, [9, 3, 9], 0))
    out.append(recv_several(b, [9, 9], 0x10000))
    return out + [recv_several(b, [9], socket.MSG_DONTWAIT), recv_several(b, [], 0)]


@case
def errors_of_addresses():
    a, b = bound(), bound()
    host = b.getsockname()[0]
    return [code(a.send, b"x"), code(a.sendto, b"x", (host, 0)), code(a.bind, (ADDR, 0)),
            code(new().bind, b.getsockname()), code(a.listen, 1), code(a.accept), code(a.getpeername),
            code(a.send, b"x", socket.MSG_OOB), code(a.recv, 1, socket.MSG_OOB | socket.MSG_DONTWAIT)]


@case
def too_long_for_a_datagram():
    a, b = pair()
    return [code(a.send, bytes(65508)), code(a.sendto, bytes(70000), b.getsockname())]


@case
def a_port_is_free_again_when_its_socket_is_closed():
    out = []
    with bound() as s:
        at = s.getsockname()
        out.append(code(new().bind, at))
    for _ in range(50):
        with new() as s:
            out.append(code(s.bind, at))
    return out


@case
def two_sockets_that_both_agree_have_one_port():
    a, b, c = new(), new(), new()
    for s in (a, b):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    a.bind((ADDR, 0))
    out = [code(b.bind, a.getsockname()), code(c.bind, a.getsockname())]
    c.bind((ADDR, 0))
    b.connect(c.getsockname())
    c.sendto(b"for the one with this peer", a.getsockname())
    out.append(b.recv(99).decode())
    d = bound()
    d.sendto(b"for the other one", a.getsockname())
    return out + [a.recv(99).decode()]


@case
def a_refusal_is_told_once():
    a = bound()
    a.connect(nobody())
    out = [a.send(b"x"), code(a.recv, 9), code(a.recv, 9, socket.MSG_DONTWAIT)]
    a.send(b"x")
    for _ in range(LIMIT * 100):
        e = get(a, socket.SOL_SOCKET, socket.SO_ERROR)
        if e:
            break
        select.select([], [], [], 0.01)
    return out + [errno.errorcode.get(e), get(a, socket.SOL_SOCKET, socket.SO_ERROR)]


@case
def a_refusal_wakes_who_waits():
    a = bound()
    a.connect(nobody())
    t = threading.Timer(0.05, a.send, (b"x",))
    t.start()
    select.select([a], [], [], LIMIT)
    return code(a.recv, 9)


@case
def a_refusal_ends_the_next_send():
    a = bound()
    to = nobody()
    a.connect(to)
    a.send(b"x")
    select.select([a], [], [], LIMIT)
    return [code(a.send, b"y"), code(a.send, b"z")]


@case
def without_a_peer_no_refusal_is_told():
    a, b = bound(), bound()
    a.sendto(b"x", nobody())
    b.sendto(b"y", a.getsockname())
    return [a.recv(9).decode(), get(a, socket.SOL_SOCKET, socket.SO_ERROR)]


def controls(b):
    _, control, flags, _ = b.recvmsg(99, 256)
    out = {}
    for level, kind, data in control:
        if (level, kind) == (socket.IPPROTO_IP, IP_PKTINFO):
            out["pktinfo"] = socket.inet_ntoa(data[8:12]) == ADDR
        else:
            out[f"{level} {kind}"] = int.from_bytes(data, "little")
    return [out, flags]


IP_PKTINFO, IP_RECVTOS, IP_RECVTTL = 8, 13, 12


@case
def control_messages():
    a, b = pair()
    for name in (IP_PKTINFO, IP_RECVTOS, IP_RECVTTL):
        b.setsockopt(socket.IPPROTO_IP, name, 1)
    a.send(b"x")
    out = [controls(b)]
    a.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0x28)
    a.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 7)
    a.send(b"y")
    out.append(controls(b))
    a.sendmsg([b"z"], [(socket.IPPROTO_IP, socket.IP_TTL, struct.pack("i", 9)),
                       (socket.IPPROTO_IP, socket.IP_TOS, struct.pack("i", 0x10))])
    out.append(controls(b))
    a.sendmsg([b"w"])
    data, control, flags, _ = b.recvmsg(99, 20)
    out += [data.decode(), len(control), bool(flags & socket.MSG_CTRUNC)]
    return out + [code(a.sendmsg, [b"z"], [(socket.IPPROTO_IP, socket.IP_TTL, struct.pack("i", 300))]),
                  get(a, socket.IPPROTO_IP, socket.IP_TTL), get(a, socket.IPPROTO_IP, socket.IP_TOS)]


UDP_SEGMENT = 103


@case
def one_send_makes_several_datagrams():
    a, b = pair()
    a.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 1000)
    data = os.urandom(3500)
    out = [a.send(data)]
    got = [b.recv(2000) for _ in range(4)]
    out += [[len(g) for g in got], b"".join(got) == data]
    a.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 0)
    out.append(a.sendmsg([data[:30]], [(socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("H", 20))]))
    return out + [len(b.recv(99)), len(b.recv(99)), code(b.recv, 9, socket.MSG_DONTWAIT)]


@case
def bytes_of_the_next_datagram_are_counted():
    a, b = pair()
    n = array.array("i", [7])
    fcntl.ioctl(b, termios.FIONREAD, n)
    out = [n[0]]
    a.send(b"12345")
    a.send(b"678")
    wait(b)
    fcntl.ioctl(b, termios.FIONREAD, n)
    return out + [n[0]]


@case
def time_limits():
    _, b = pair()
    b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, (0).to_bytes(8, "little") + (50_000).to_bytes(8, "little"))
    return code(b.recv, 1)


@case
def options():
    a, _ = pair()
    a.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 20000)
    a.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    sol = socket.SOL_SOCKET
    return [get(a, sol, socket.SO_TYPE) == socket.SOCK_DGRAM, get(a, sol, socket.SO_ERROR),
            get(a, sol, socket.SO_RCVBUF), get(a, sol, socket.SO_PROTOCOL),
            get(a, sol, socket.SO_DOMAIN) == socket.AF_INET, get(a, sol, socket.SO_BROADCAST), get(a, sol, socket.SO_ACCEPTCONN), code(a.setsockopt, 250, 1, 1),
            fcntl.fcntl(a, fcntl.F_GETFD), os.get_inheritable(a.fileno())]


@case
def what_nobody_reads_is_dropped_and_later_ones_arrive():
    a, b = pair()
    b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 20000)
    for _ in range(2000):
        a.send(bytes(1000))
    n = 0
    while b.recv(2000) != b"later":
        n += 1
        if not events(b) & IN:
            a.send(b"later")
    return 0 < n < 1900


@case
def shut_both_ways():
    a, b = pair()
    out = [code(new().shutdown, socket.SHUT_RDWR)]
    t = threading.Timer(0.05, b.shutdown, (socket.SHUT_RD,))
    t.start()
    out.append(b.recv(9).decode())
    a.shutdown(socket.SHUT_WR)
    return out + [code(a.send, b"x"), code(a.shutdown, 9)]


@case
def a_copy_keeps_the_socket():
    a, b = pair()
    d = os.dup(a.fileno())
    a.close()
    os.write(d, b"x")
    out = [b.recv(9).decode()]
    b.send(b"y")
    out.append(os.read(d, 9).decode())
    os.close(d)
    return out


@case
def a_child_goes_on_with_the_socket():
    a, b = pair()
    pid = os.fork()
    if pid == 0:
        b.send(b.recv(100).upper())
        os._exit(0)
    a.send(b"from the parent")
    out = [a.recv(99).decode(), os.waitpid(pid, 0)[1]]
    a.send(b"once more")
    return out + [b.recv(99).decode()]


@case
def children_share_a_socket_and_each_datagram_is_read_once():
    a, b = pair()
    r, w = os.pipe()
    pids = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            signal.alarm(LIMIT)
            while (d := b.recv(99)) != b"end":
                os.write(w, d + b"\n")
            os._exit(0)
        pids.append(pid)
    for i in range(2000):
        a.send(b"%04d" % i)
        if i % 16 == 15:  # waits every 16 datagrams, so that no receive queue overflows and drops one
            lines = b""
            while lines.count(b"\n") < 16:
                lines += os.read(r, 16 * 5 - len(lines))
            if sorted(lines.split()) != [b"%04d" % j for j in range(i - 15, i + 1)]:
                return lines.decode()
    for _ in pids:
        a.send(b"end")
    return [os.waitpid(p, 0)[1] for p in pids]


@case
def threads_send_on_one_socket_and_no_datagram_is_mixed():
    a, b = pair()
    go = threading.Semaphore(4)

    def send(i):
        for _ in range(500):
            go.acquire()
            a.send(bytes([i]) * (100 + i))
    threads = [threading.Thread(target=send, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    good = 0
    for _ in range(2000):
        d = b.recv(2000)
        good += d == bytes([d[0]]) * (100 + d[0])
        go.release()
    for t in threads:
        t.join()
    return good


@case
def many_sockets_one_epoll():
    server = bound()
    socks = {}
    e = select.epoll()
    for i in range(100):
        s = new()
        s.connect(server.getsockname())
        s.send(b"%03d" % i)
        socks[s.fileno()] = s
        e.register(s, select.EPOLLIN)
    for _ in socks:
        d, who = server.recvfrom(9)
        server.sendto(d, who)
    got = []
    while len(got) < 100:
        got += [socks[fd].recv(9).decode() for fd, _ in e.poll(LIMIT)]
    return [sorted(got)[0], sorted(got)[-1], len(set(got))]


@case
def addresses_of_ipv6_sockets():
    a, b = bound(), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    b.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    b.connect(("::ffff:" + ADDR, a.getsockname()[1]))
    b.send(b"six")
    d, who = a.recvfrom(9)
    a.sendto(b"four", who)
    d2, who2 = b.recvfrom(9)
    mine = b.getsockname()
    out = [d.decode(), who == (mine[0].removeprefix("::ffff:"), mine[1]), len(mine)]
    return out + [d2.decode(), who2[0] == "::ffff:" + ADDR, len(who2)]


@case
def an_end_of_all_addresses_hears_both_the_port_and_the_kernel():
    every, here, there = new(), bound(), new()
    there.bind(("127.0.0.1", 0))
    every.bind(("0.0.0.0", nobody()[1]))
    at = every.getsockname()
    out = [at[0]]
    e = epoll_of(every, select.EPOLLIN)
    for s, host in ((here, ADDR), (there, "127.0.0.1")):
        s.sendto(b"x", (host, at[1]))
        out += [wait(every), select.select([every], [], [], LIMIT)[0] == [every], e.poll(LIMIT)[0][1]]
        d, who = every.recvfrom(9)
        out += [d.decode(), who == s.getsockname()]
        every.sendto(b"answer", who)
        out += [s.recvfrom(9) == (b"answer", (host, at[1])), wait(every, gone=True), len(e.poll(0))]
    t = threading.Timer(0.05, there.sendto, (b"late", ("127.0.0.1", at[1])))
    t.start()
    return out + [every.recv(9).decode()]


main()
