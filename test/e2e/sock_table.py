#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Tests what a TCP socket does, one call sequence a case: `sock_table.py ADDRESS` makes both ends of each connection in
this process and prints one line of JSON a case. test_sockets.py runs the table on the kernel's sockets and on rnicd's;
the kernel's results are the expectation.
"""
import array
import errno
import fcntl
import hashlib
import os
import select
import signal
import socket
import struct
import tempfile
import termios
import threading

import sock_again  # pylint: disable=unused-import
import sock_calls  # pylint: disable=unused-import
import sock_edges  # pylint: disable=unused-import
import sock_exec  # pylint: disable=unused-import
import sock_pipes  # pylint: disable=unused-import
import sock_servers  # pylint: disable=unused-import
import sock_threads  # pylint: disable=unused-import
from sock_case import RDHUP, events, listener, pair, plain, read_all, wait
from sock_options import LINGER_SET, linger_of, lingering, sizes_of_segments
from sock_mmsg import recv_several, send_several
from sock_twice import ADDR, IN, LIMIT, OUT, case, code, epoll_of, main


@case
def bytes_arrive_as_they_were_sent_both_ways():
    c, s = pair()
    data = os.urandom(3_000_001)
    sums = []

    def echo():
        while b := s.recv(70_000):
            s.sendall(b)
        s.shutdown(socket.SHUT_WR)
    t = threading.Thread(target=echo)
    t.start()
    r = threading.Thread(target=lambda: sums.append(hashlib.sha256(read_all(c)).digest()))
    r.start()
    c.sendall(data)
    c.shutdown(socket.SHUT_WR)
    t.join()
    r.join()
    return sums[0] == hashlib.sha256(data).digest()


@case
def a_half_closed_connection_still_carries_the_other_half():
    c, s = pair()
    c.shutdown(socket.SHUT_WR)
    out = [s.recv(10).decode(), wait(s, RDHUP)]
    s.sendall(b"answer")
    s.close()
    return out + [read_all(c).decode(), code(c.send, b"x")]


@case
def readiness_of_a_fresh_connection():
    c, s = pair()
    return [wait(c, OUT), wait(s, OUT)]


@case
def readiness_follows_what_is_there_to_read():
    c, s = pair()
    out = [events(s)]
    c.sendall(b"1234")
    out.append(wait(s, IN))
    out.append(s.recv(2).decode())
    out.append(events(s))
    out.append(s.recv(2).decode())
    out.append(wait(s, IN, gone=True))
    c.sendall(b"5")
    out.append(wait(s, IN))
    return out


@case
def readiness_to_write_goes_and_comes():
    c, s = pair()
    c.setblocking(False)
    now = events(c)
    # bytes that are not yet in the peer's receive window may still move after the first EAGAIN
    for _ in range(100_000):
        if code(c.send, bytes(65536)) == "EAGAIN" and not (now := events(c)) & OUT:
            break
    out = [now]
    threading.Thread(target=read_all, args=(s,), daemon=True).start()
    out.append(wait(c, OUT))
    out.append(c.send(b"x"))
    return out


@case
def readiness_at_the_end_of_the_stream():
    c, s = pair()
    c.sendall(b"last")
    c.close()
    return [wait(s, IN | RDHUP), s.recv(10).decode(), events(s), s.recv(10).decode(), events(s)]


@case
def select_with_sockets_and_pipes_together():
    c, s = pair()
    r, w = os.pipe()
    out = []
    os.write(w, b"x")
    ready = select.select([s, r], [c], [], LIMIT)
    out.append([r in ready[0], s in ready[0], c in ready[1]])
    c.sendall(b"y")
    wait(s, IN)
    ready = select.select([s, r], [], [], LIMIT)
    out.append([r in ready[0], s in ready[0]])
    return out


@case
def epoll_level():
    c, s = pair()
    e = epoll_of(s, select.EPOLLIN)
    out = [len(e.poll(0))]
    c.sendall(b"ab")
    out += [e.poll(LIMIT)[0][1], s.recv(1).decode(), e.poll(LIMIT)[0][1], s.recv(1).decode()]
    wait(s, IN, gone=True)
    return out + [len(e.poll(0))]


@case
def epoll_edge():
    c, s = pair()
    s.setblocking(False)
    e = epoll_of(s, select.EPOLLIN | select.EPOLLET)
    c.sendall(b"ab")
    out = [e.poll(LIMIT)[0][1], len(e.poll(0)), s.recv(9).decode(), code(s.recv, 9)]
    c.sendall(b"c")
    out += [e.poll(LIMIT)[0][1], s.recv(9).decode(), code(s.recv, 9), len(e.poll(0))]
    c.close()
    wait(s, RDHUP)
    return out + [bool(e.poll(LIMIT)[0][1] & select.EPOLLIN), s.recv(9).decode()]


@case
def epoll_one_shot():
    c, s = pair()
    e = epoll_of(s, select.EPOLLIN | select.EPOLLONESHOT)
    c.sendall(b"ab")
    out = [e.poll(LIMIT)[0][1], len(e.poll(0))]
    e.modify(s, select.EPOLLIN | select.EPOLLONESHOT)
    return out + [e.poll(LIMIT)[0][1]]


@case
def a_listener_is_readable_while_somebody_waits():
    with listener() as l:
        out = [events(l)]
        a = socket.create_connection(l.getsockname())
        out.append(wait(l, IN))
        b = socket.create_connection(l.getsockname())
        l.accept()[0].close()
        out.append(wait(l, IN))
        l.accept()[0].close()
        out.append(wait(l, IN, gone=True))
        l.setblocking(False)
        out.append(code(l.accept))
        a.close()
        b.close()
        return out


@case
def bytes_sent_before_accept_arrive():
    with listener() as l:
        c = socket.create_connection(l.getsockname())
        c.sendall(b"early")
        c.close()
        s, who = l.accept()
        return [read_all(s).decode(), who[0] != "", s.getpeername() == who]


@case
def a_port_is_free_again_when_its_listener_is_closed():
    with listener() as l:
        at = l.getsockname()
    out = []
    for _ in range(50):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        out.append(code(s.bind, at))
        out.append(code(s.listen, 1))
        s.close()
    return out


@case
def refused():
    with listener() as l:
        at = l.getsockname()
    c = socket.socket()
    return code(c.connect, at)


@case
def refused_without_blocking():
    with listener() as l:
        at = l.getsockname()
    c = socket.socket()
    c.setblocking(False)
    out = [code(c.connect, at)]
    return out + [wait(c, OUT) & OUT, c.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED,
                  c.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)]


@case
def connect_without_blocking():
    with listener() as l:
        c = socket.socket()
        c.setblocking(False)
        out = [code(c.connect, l.getsockname()), wait(c, OUT), c.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)]
        s, _ = l.accept()
        c.send(b"hello")
        return out + [s.recv(10).decode(), code(c.connect_ex, l.getsockname()) in (0, errno.EISCONN)]


@case
def names():
    with listener() as l:
        c = socket.create_connection(l.getsockname())
        s, _ = l.accept()
        return [c.getpeername() == l.getsockname(), s.getpeername() == c.getsockname(),
                s.getsockname() == l.getsockname(), c.family, len(l.getsockname())]


@case
def errors_of_sockets_in_the_wrong_state():
    with listener() as l:
        c, s = pair()
        fresh = socket.socket()
        fresh.bind((ADDR, 0))
        return [code(l.recv, 1), code(l.getpeername), code(fresh.getpeername), code(fresh.recv, 1),
                code(fresh.bind, (ADDR, 0)), code(socket.socket().bind, l.getsockname()), code(s.accept),
                code(c.connect, l.getsockname()), code(fresh.send, b"x"), code(c.shutdown, 7)]


@case
def errors_after_a_reset():
    c, s = pair()
    c.sendall(b"never read")
    wait(s, IN)
    s.close()
    out = [wait(c, IN) & IN, code(c.recv, 10), code(c.recv, 10), code(c.send, b"x")]
    return out


@case
def a_close_that_lingers_for_no_time_resets():
    out = []
    for where in LINGER_SET:
        with listener() as l:
            ends, other = lingering(l, where)
        out.append(linger_of(ends))
        copy = ends.dup()
        ends.close()
        out.append(events(other))
        copy.close()
        wait(other, IN)
        out.append(code(other.recv, 10))
    return out


@case
def two_options_tell_the_same_size_of_a_segment():
    """Only the equality is told: the segment size itself differs between rnicd's network and the kernel's loopback."""
    told, size = sizes_of_segments(pair()[0])
    return [size > 536, told == size]


@case
def what_has_come_is_read_before_the_end_is_told():
    c, s = pair()
    c.sendall(b"abc")
    c.shutdown(socket.SHUT_RDWR)
    c.close()
    wait(s, RDHUP)
    return [s.recv(2).decode(), s.recv(2).decode(), s.recv(2).decode()]


@case
def flags_of_recv():
    c, s = pair()
    c.sendall(b"abcdef")
    wait(s, IN)
    out = [s.recv(3, socket.MSG_PEEK).decode(), s.recv(3).decode(), s.recv(9, socket.MSG_DONTWAIT).decode(),
           code(s.recv, 9, socket.MSG_DONTWAIT), code(s.recv, 0)]
    threading.Timer(0.05, c.sendall, (b"45678",)).start()
    c.sendall(b"123")
    return out + [s.recv(8, socket.MSG_WAITALL).decode()]


@case
def lists_of_buffers():
    c, s = pair()
    out = [os.writev(c.fileno(), [b"ab", b"", b"cdefg"])]
    wait(s, IN)
    a, b = bytearray(3), bytearray(10)
    out += [os.readv(s.fileno(), [a, b]), a.decode(), b[:4].decode()]
    out.append(c.sendmsg([b"x", b"yz"]))
    wait(s, IN)
    data, control, flags, _ = s.recvmsg(10)
    return out + [data.decode(), control, flags]


@case
def several_messages_in_one_call_carry_only_the_programs_bytes():
    c, s = pair()
    events(s)
    out = [recv_several(s, [1], socket.MSG_DONTWAIT), send_several(c, [b"ab", b"cdef", b"g"])]
    wait(s, IN)
    bytes_there = s.recv(7, socket.MSG_PEEK | socket.MSG_WAITALL).decode()
    out += [bytes_there, recv_several(s, [3, 3, 3, 3], socket.MSG_DONTWAIT), recv_several(s, [1], socket.MSG_DONTWAIT)]
    c.sendall(b"xyz")
    out += [s.recv(3, socket.MSG_PEEK | socket.MSG_WAITALL).decode(), recv_several(s, [2, 2, 2], 0x10000)]
    c.sendall(b"1234")
    return out + [recv_several(s, [1, 1, 1, 1]), recv_several(s, [1], 0, (-1, 0)), recv_several(s, [1], 0, (0, 10**9)),
                  recv_several(s, [], 0)]


@case
def a_time_limit_ends_several_messages_behind_the_first():
    c, s = pair()
    c.sendall(b"123")
    s.recv(3, socket.MSG_PEEK | socket.MSG_WAITALL)
    return [recv_several(s, [1, 1, 1], 0, (0, 1)), s.recv(9).decode()]


@case
def several_messages_at_the_end_of_the_stream():
    c, s = pair()
    c.sendall(b"ab")
    c.shutdown(socket.SHUT_WR)
    wait(s, RDHUP)
    return [recv_several(s, [9, 9, 9]), send_several(c, [b"x", b"y"], socket.MSG_NOSIGNAL)]


@case
def several_messages_in_the_wrong_state():
    fresh = socket.socket()
    fresh.bind((ADDR, 0))
    return [recv_several(fresh, [1, 1]), send_several(fresh, [b"x"], socket.MSG_NOSIGNAL)]


@case
def bytes_that_wait_are_counted():
    c, s = pair()
    c.sendall(b"12345")
    wait(s, IN)
    n = array.array("i", [0])
    fcntl.ioctl(s, termios.FIONREAD, n)
    return n[0]


@case
def time_limits():
    c, s = pair()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, (0).to_bytes(8, "little") + (50_000).to_bytes(8, "little"))
    return code(s.recv, 1)


@case
def a_copy_keeps_the_connection():
    c, s = pair()
    d = os.dup(c.fileno())
    c.close()
    os.write(d, b"x")
    out = [s.recv(9).decode()]
    s.sendall(b"y")
    out.append(os.read(d, 9).decode())
    os.close(d)
    return out + [s.recv(9).decode()]


@case
def a_child_goes_on_with_the_connection():
    c, s = pair()
    pid = os.fork()
    if pid == 0:
        s.sendall(s.recv(100).upper())
        os._exit(0)
    s.close()
    c.sendall(b"from the parent")
    out = [read_all(c).decode()]
    return out + [os.waitpid(pid, 0)[1]]


@case
def children_accept_at_a_listener_they_inherit():
    with listener() as l:
        pids = []
        for i in range(3):
            pid = os.fork()
            if pid == 0:
                os.environ.clear()  # nginx clears the environment in the same way
                s, _ = l.accept()
                s.sendall(b"child")
                os._exit(0)
            pids.append(pid)
        got = []
        for _ in pids:
            with socket.create_connection(l.getsockname()) as c:
                got.append(read_all(c).decode())
        return got + [os.waitpid(p, 0)[1] for p in pids]


@case
def children_of_a_parent_whose_threads_connect_have_sockets_too():
    with listener(64) as l:
        stop, done, at = [], [], l.getsockname()

        def connect():
            while not stop:
                plain(at)
                select.select([], [], [], 0.001)

        def accept():  # without recv(): it would wait for the end of a child that has a copy of the other end
            while not done:
                l.accept()[0].close()
        threads = [threading.Thread(target=f) for f in (connect, accept)]
        for t in threads:
            t.start()
        codes = []
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                signal.alarm(LIMIT // 2)
                plain(at)
                os._exit(0)
            codes.append(os.waitpid(pid, 0)[1])
        stop.append(1)
        threads[0].join()
        done.append(1)
        plain(at)
        threads[1].join()
        return codes


@case
def two_processes_send_on_one_connection_at_the_same_time():
    c, s = pair()
    count, size = 300, 4000
    pid = os.fork()
    if pid == 0:
        signal.alarm(LIMIT // 2)
        for _ in range(count):
            c.sendall(b"c" * size)
        os._exit(0)

    def send():
        for _ in range(count):
            c.sendall(b"p" * size)
    t = threading.Thread(target=send)
    t.start()
    got = b""
    while len(got) < 2 * count * size and (piece := s.recv(1 << 16)):
        got += piece
    t.join()
    return got.count(b"p"), got.count(b"c"), os.waitpid(pid, 0)[1]


@case
def two_processes_receive_from_one_connection_at_the_same_time():
    """Each byte goes to one of the two processes."""
    c, s = pair()
    data = bytes(range(256)) * 8000
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(LIMIT // 2)
        c.close()
        os.write(tell, struct.pack("Q", sum(map(sum, iter(lambda: s.recv(3000), b"")))))
        os._exit(0)
    t = threading.Thread(target=lambda: (c.sendall(data), c.close()))
    t.start()
    here = sum(map(sum, iter(lambda: s.recv(3000), b"")))
    t.join()
    there, = struct.unpack("Q", os.read(told, 8))
    return here + there == sum(data), os.waitpid(pid, 0)[1]


@case
def a_file_is_sent():
    c, s = pair()
    data = os.urandom(1_000_000)
    with tempfile.TemporaryFile() as f:
        f.write(data)
        f.flush()
        t = threading.Thread(target=lambda: (c.sendfile(f), c.close()))
        f.seek(0)
        t.start()
        got = read_all(s)
        t.join()
    return got == data


@case
def a_broken_pipe_is_a_signal():
    c, s = pair()
    c.shutdown(socket.SHUT_WR)
    told = []
    signal.signal(signal.SIGPIPE, lambda *_: told.append(1))
    out = [code(os.write, c.fileno(), b"x"), len(told)]
    out += [code(c.send, b"x", socket.MSG_NOSIGNAL), len(told)]
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    return out


@case
def shut_for_reading():
    c, s = pair()
    s.shutdown(socket.SHUT_RD)
    return s.recv(1).decode()


@case
def options():
    c, s = pair()
    get = c.getsockopt
    return [get(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM, get(socket.SOL_SOCKET, socket.SO_ERROR),
            get(socket.SOL_SOCKET, socket.SO_ACCEPTCONN), get(socket.SOL_SOCKET, socket.SO_PROTOCOL),
            get(socket.SOL_SOCKET, socket.SO_DOMAIN) == socket.AF_INET,
            code(c.setsockopt, socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
            get(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0,
            fcntl.fcntl(c, fcntl.F_GETFD), os.get_inheritable(s.fileno())]


@case
def many_connections_one_epoll():
    with listener(128) as l:
        clients = [socket.create_connection(l.getsockname()) for _ in range(100)]
        servers = {}
        e = select.epoll()
        for _ in clients:
            s, _ = l.accept()
            servers[s.fileno()] = s
            e.register(s, select.EPOLLIN)
        for i, c in enumerate(clients):
            c.sendall(b"%03d" % i)
        got = []
        while len(got) < 100:
            for fd, _ in e.poll(LIMIT):
                b = servers[fd].recv(3, socket.MSG_WAITALL)
                servers[fd].sendall(b)
                got.append(b.decode())
        back = [c.recv(3, socket.MSG_WAITALL).decode() for c in clients]
        return [sorted(got)[0], sorted(got)[-1], len(set(got)), back == ["%03d" % i for i in range(100)]]


signal.signal(signal.SIGPIPE, signal.SIG_IGN)
main()
