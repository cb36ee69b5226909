#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
rnicrun --embedded --sockets: UDP sockets of unchanged programs run datagram-iWARP over the kernel's UDP, without a
daemon and without privilege (doc/datagram-sockets.md). Here all ends are on one host: they behave as the kernel's
sockets, and a program that ends, or breaks the rules of the rings, harms no other one.
"""
import contextlib
import mmap
import os
import re
import signal
import socket
import struct
import sys

from embedded_rig import AT, control_socket, embedded, serving
from gram_embedded_rig import IWARP, LENGTHS, Seen, ours, theirs
from gram_peer import ASKS, NUMBER, SENDS, put
from nets import In, netns
from rig import RNICRUN, Process, case, main, until
from sock_raw import SIZE, Raw, addr
from sock_rig import BIND, READS, WAITS, lines, port_of, python

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gram_table.py")


@case
def sockets_do_what_the_kernels_do():
    with netns() as ns, Seen(ns) as seen:
        kernel = lines(theirs(ns, sys.executable, TABLE, AT))
        p = ours(ns, sys.executable, TABLE, AT)
        mine = lines(p)
        wrong = [f"{n}: {mine.get(n)}, the kernel says {kernel[n]}" for n in kernel if mine.get(n) != kernel[n]]
        assert kernel and not wrong, "\n".join(wrong)
        assert not p.stderr(), p.stderr()
        assert sum(g.kind in IWARP for g in seen.grams()) > 2000, "few datagrams went by iWARP"


# What no wire but plain carries, and what the kernel alone knows: groups, broadcast, IPv6, errors of routes, options.
STRANGE = """
import errno, os, socket, struct, sys
def code(f, *a):
    try:
        return f(*a)
    except OSError as e:
        return errno.errorcode[e.errno]
def gram(family=socket.AF_INET):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(60)
    return s
AT, GROUP = sys.argv[1], "239.7.7.7"
a, b, six, both = gram(), gram(), gram(socket.AF_INET6), gram(socket.AF_INET6)
a.bind((AT, 0))
b.bind(("", 0))
six.bind(("::1", 0))
both.bind(("::", 0))
def port(s):
    return s.getsockname()[1]
b.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(GROUP) + socket.inet_aton(AT))
a.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(AT))
for word in (b"one", b"two"):
    a.sendto(word, (GROUP, port(b)))
    print("group", *[x if x != port(a) else "a" for x in (lambda d, who: (d, *who))(*b.recvfrom(99))])
print("broadcast", code(a.sendto, b"x", ("255.255.255.255", 9)), code(a.sendto, b"x", ("127.255.255.255", 9)))
a.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
for word in (b"all", b"all again", b"all once more"):
    a.sendto(word, ("127.255.255.255", port(b)))
    print("broadcast", b.recv(99))
print("no route", code(a.sendto, b"x", ("192.0.2.1", 9)), code(b.sendto, b"x", ("192.0.2.1", 9)))
print("wrong", code(a.sendto, b"x", (AT, 0)), code(a.sendto, bytes(65508), (AT, port(b))), code(gram().send, b"x"))
for s in (six, both):
    for word in (b"v6 one", b"v6 two"):
        s.sendto(word, ("::1", port(both)))
        got, who = both.recvfrom(99)
        print(got, who[0], who[1] == port(s))
for word in (b"mapped one", b"mapped two", b"mapped three"):
    both.sendto(word, ("::ffff:" + AT, port(a)))
    got, who = a.recvfrom(99)
    print(got, who == (AT, port(both)))
    a.sendto(word.upper(), who)
    got, who = both.recvfrom(99)
    print(got, who[0], who[1] == port(a))
IP_PKTINFO, PMTU = 8, 10
b.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
for to in (AT, "127.0.0.5", AT):
    a.sendto(b"x", (to, port(b)))
    _, control, _, who = b.recvmsg(9, 99)
    info = control[0][2]
    print("came to", socket.inet_ntoa(info[8:12]))
    b.sendmsg([b"back"], [(socket.IPPROTO_IP, IP_PKTINFO, bytes(4) + info[8:12] + bytes(4))], 0, who)
    print("from", a.recvfrom(9)[1][0])
a.setsockopt(socket.IPPROTO_IP, PMTU, 2)
print("whole", a.sendto(bytes(1000), (AT, port(b))), len(b.recv(2000)), a.sendto(bytes(9000), (AT, port(b))),
      len(b.recv(9999)))
b.setsockopt(socket.SOL_SOCKET, 29, 1)  # SO_TIMESTAMP
a.sendto(b"timed", (AT, port(b)))
print("timed", b.recvmsg(9, 99)[0])
c = gram()
print(code(c.bind, ("192.0.2.1", 0)), code(c.bind, (AT, port(a))), code(c.connect, ("255.255.255.255", 9)))
"""


@case
def what_only_the_kernel_carries_or_refuses_is_the_kernels():
    with netns() as ns, Seen(ns) as seen:
        kernel = theirs(ns, *python(STRANGE, AT)).ok().splitlines()
        assert not seen.grams()
        mine = ours(ns, *python(STRANGE, AT)).ok().splitlines()
        wrong = [f"{m}, the kernel says {k}" for m, k in zip(mine, kernel) if m != k]
        assert len(mine) == len(kernel) > 20 and not wrong, "\n".join(wrong)
        assert seen.kinds() & IWARP, "no datagram went by iWARP"


@case
def the_wire_is_chosen_by_program_and_socket():
    with netns() as ns, Seen(ns) as seen:
        s = ours(ns, *python(READS, AT))
        at = port_of(s)

        def wires(iwarp, *argv, **how):
            """Whether datagrams go by iWARP, after all of them have come."""
            p = ours(ns, *python(SENDS, AT, at, *argv), **how)
            port, before = int(p.wait_line("sending").split()[1]), len(s.out)

            def went():
                put(p, 700)
                return any(g.kind in IWARP and g.src_qpn == NUMBER + port for g in seen.grams())
            if iwarp:
                until(went, "no datagram goes by iWARP")
            else:
                for _ in range(20):
                    went()
                until(lambda: len(s.out) >= before + 20, s.tail)
                assert not any(g.src_qpn == NUMBER + port for g in seen.grams())
            p.stop()
        wires(True)
        wires(False, 1)
        wires(False, wire_of="plain")
        wires(False, wire_of=None)
        wires(True, 2, wire_of=None)
        s.stop()
        p = ours(ns, *python("""
import socket, sys
s = socket.socket(type=socket.SOCK_DGRAM)
s.bind((sys.argv[1], 0))
print("listening", s.getsockname()[1], s.getsockopt(0x524e, 1), flush=True)
sys.stdin.readline()
s.setsockopt(0x524e, 1, 2)
print("chosen", s.getsockopt(0x524e, 1), flush=True)
sys.stdin.readline()
""", AT), wire_of="plain")
        number = NUMBER + port_of(p)
        q = ours(ns, *python(SENDS, AT, number - NUMBER))

        def sent():
            n = sum("sent" in x for x in list(q.out))
            put(q, 700)
            until(lambda: sum("sent" in x for x in list(q.out)) > n, q.tail)
            return any(g.kind in IWARP and g.dst_qpn == number for g in seen.grams())
        assert not any(sent() for _ in range(20)), "the socket's wire was still plain"
        put(p, "")
        p.wait_line("chosen 2")
        until(sent, "no datagram goes by iWARP")
        q.stop()
        p.stop()


# Asks for what only the kernel does before the socket has a port, and prints its wire then.
SPECIAL = """
import socket, sys
for level, name in ((1, 29), (0, 11), (0, 8), (0, 12), (17, 104), (17, 1)):
    s = socket.socket(type=socket.SOCK_DGRAM)
    s.setsockopt(level, name, 1)
    s.bind((sys.argv[1], 0))
    print(s.getsockopt(0x524e, 1), s.getsockopt(level, name), end=" ")
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IPV6, 49, 1)  # IPV6_RECVPKTINFO
s.bind(("::", 0))
print(s.getsockopt(0x524e, 1))
import ctypes
s = socket.socket(type=socket.SOCK_DGRAM)
s.setsockopt(0, 12, 1)
for _ in range(2):  # a socket that gives its port back has its options at the kernel's socket, and may be taken again
    s.connect((sys.argv[1], 9))
    none = bytes(16)
    print(ctypes.CDLL(None).connect(s.fileno(), none, 16), s.getsockname()[1], s.getsockopt(0, 8), s.getsockopt(0, 12),
          s.getsockopt(0, 13))
"""


@case
def sockets_that_ask_the_kernel_for_more_stay_the_kernels():
    # SO_TIMESTAMP and IP_RECVERR are the kernel's; IP_PKTINFO, IP_RECVTTL, UDP_GRO and UDP_CORK are not
    assert embedded(*python(SPECIAL, AT)).ok().split("\n") == ["1 1 1 1 2 1 2 1 2 1 2 1 1", "0 0 0 1 0", "0 0 0 1 0"]


# Two programs of one rnicrun, or of two, or of two users, ask each other.
@case
def programs_of_one_host_hear_each_other_whoever_started_them():
    with netns() as ns:
        for one, other in ((False, False), (True, True), (False, True), (True, False)):
            s = ours(ns, *python(READS, AT), own=one)
            ours(ns, *python(ASKS, AT, port_of(s), LENGTHS, "127.0.0.2"), own=other).ok()
            s.stop()


# A socket that goes through fork and exec, and is passed to another process, by which each sends and receives.
PASSED = """
import os, signal, socket, sys
signal.alarm(120)
if sys.argv[1] == "exec":
    s, fd, who = None, int(sys.argv[2]), (sys.argv[3], int(sys.argv[4]))
    s = socket.socket(fileno=fd)
    s.send(b"after exec")
    print("exec", s.recv(99), s.getpeername() == who)
    sys.exit()
a, b = (socket.socket(type=socket.SOCK_DGRAM) for _ in range(2))
for s in (a, b):
    s.bind((sys.argv[1], 0))
b.connect(a.getsockname())
a.connect(b.getsockname())
for i in range(3):
    a.send(b"%d" % i)
    print(b.recv(9))
if os.fork() == 0:
    b.send(b"child " + b.recv(99))
    os._exit(0)
a.send(b"hears")
print(a.recv(99), os.wait()[1])
left, right = socket.socketpair()
if os.fork() == 0:
    b.close()
    _, (fd,), _, _ = socket.recv_fds(right, 1, 1)
    with socket.socket(fileno=fd) as got:
        got.sendto(b"passed", a.getsockname())
        left.close()
        right.send(got.recv(99))
    os._exit(0)
socket.send_fds(left, [b"x"], [b.fileno()])
print(a.recv(99))
a.send(b"to who has it")
right.close()
print(left.recv(99), os.wait()[1])
b.set_inheritable(True)
if os.fork() == 0:
    os.execv(sys.executable, [sys.executable, "-c", sys.argv[2], "exec", str(b.fileno()), *map(str, a.getsockname())])
print(a.recv(99))
a.send(b"as before")
print(os.wait()[1])
a.send(b"kept")
print(b.recv(99))
"""


@case
def sockets_go_through_fork_and_exec_and_to_other_processes():
    with netns() as ns, Seen(ns) as seen:
        argv = python(PASSED, AT, PASSED)
        kernel, mine = theirs(ns, *argv).ok(), ours(ns, *argv).ok()
        assert mine == kernel and len(kernel.splitlines()) == 10, f"{mine}\nthe kernel says\n{kernel}"
        assert seen.kinds() & IWARP, "no datagram went by iWARP"


@case
def a_killed_program_frees_its_port_and_its_peers_are_refused():
    with netns() as ns, Seen(ns) as seen:
        s = ours(ns, *python(READS, AT))
        at = port_of(s)
        p = ours(ns, *python(SENDS, AT, at))
        p.wait_line("sending")

        def by_iwarp():
            put(p, 700)
            return seen.kinds() & IWARP
        until(by_iwarp)
        assert ours(ns, *python(BIND, AT, at)).ok() == "EADDRINUSE"
        os.kill(int(Process(["pgrep", "-P", str(s.pid), "python3"]).ok()), signal.SIGKILL)
        until(lambda: theirs(ns, *python(BIND, AT, at)).ok() == "taken")

        def refused():
            put(p, 700)
            return any("ConnectionRefusedError" in x for x in list(p.out))
        until(refused, p.tail)
        p.stop()
        s.wait()


@case
def programs_whose_serving_process_is_killed_get_errors():
    with netns() as ns:
        for how in ("recv", "poll", "send"):
            p = ours(ns, *python("""
import errno, select, socket, sys
s, to = (socket.socket(type=socket.SOCK_DGRAM) for _ in range(2))
s.bind((sys.argv[1], 0))
to.bind((sys.argv[1], 0))
s.sendto(b"x", to.getsockname())
def send():
    s.sendto(bytes(1000), to.getsockname())
""" + WAITS, AT, how))
            p.wait_line("waits")
            os.kill(serving(p), signal.SIGKILL)
            p.wait()
            assert p.out[-1] == "ENETDOWN", p.tail()


@case
def rings_that_break_a_rule_harm_no_other_socket():
    tail, head, state, ring = 0, 64, 260, 4096  # of struct ipc_gram
    with netns() as ns, raw_in(ns) as (s, raw):
        at = port_of(s)

        def record(length, port):
            return struct.pack("<IHH", length, port, 0) + addr(AT)[:16] + bytes(8)
        for rec, put_at, value in ((record(1, at), tail, 1 << 20), (record(100, at), tail, 64),
                                   (record(0xffffffff, at), tail, 32), (record(65508, at), tail, 65568),
                                   (record(0, 0), tail, 32), (b"", head, 64)):
            r, u = raw()
            with r, u:
                r.mem[ring:ring + len(rec)] = rec
                r.put(put_at, value)
                r.bell()
                u.sendto(b"x", u.getsockname())  # the receive ring is looked at when something comes
                until(lambda r=r: r.word(state) & 1, "the socket is not broken")
            ours(ns, *python(ASKS, AT, at, "4,1400,9000", AT)).ok()
        s.stop()


@contextlib.contextmanager
def raw_in(ns):
    """A reader, and a function that makes a socket whose shared memory it returns: (Raw, the kernel's socket)."""
    s = ours(ns, *python(READS, AT), own=True)
    s.wait_line("listening")

    def raw():
        u = In(ns).run(lambda: socket.socket(type=socket.SOCK_DGRAM))
        u.bind((AT, 0))
        r = Raw(control_socket(s))
        r.join()
        status, m, fds = r.ask("IPC_SOCK_TAKE", bytes(32), shows=[u.fileno()])
        assert status == 0 and len(fds) == 2, (status, fds)
        r.worker, r.bit = struct.unpack_from("<II", m, 8)
        r.mem = mmap.mmap(fds[1], SIZE)
        return r, u
    yield s, raw


@case
def ss_lists_the_sockets_and_their_wires():
    with netns() as ns:
        s = ours(ns, *python(READS, AT), own=True)
        at = port_of(s)
        path = control_socket(s)

        def row():
            out = Process([RNICRUN, "--ss", "--socket", path]).ok()
            return re.search(rf"^udp +(\S+) +\d+ +\d+ +{AT}:{at} +\S+ +(\S+) .*python", out, re.M)
        until(row)
        assert row().group(1) == "UNCONN", row()
        ours(ns, *python(ASKS, AT, at, ",".join(["100"] * 50), AT), own=True).ok()
        until(lambda: row().group(2) == "iwarp", row)
        s.stop()


main()
