#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
UDP sockets of unchanged programs: `rnicrun --sockets` between two ports and against the kernel's UDP; the calls behave
as the kernel's (gram_table.py); programs die, and break the rules of the shared memory.
"""
import hashlib
import itertools
import os
import signal
import struct

from nets import KERNEL, OURS, tap
from rig import PATIENCE, Daemon, Process, case, main, pair_conf, until
from sock_raw import Raw, addr
from sock_rig import BIND, kernels, killed_daemon, nothing_left, ours, port_of, python, same_as_the_kernel

A, B = "10.77.0.1", "10.77.0.2"
TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gram_table.py")
RING = 1 << 18
TX_TAIL, RX_HEAD, STATE, TX = 0, 64, 260, 4096  # offsets in struct ipc_gram; TX is the transmit ring
BROKEN = 1

# Sends each datagram back in upper case, until a datagram says that it is the last one.
ECHO = """
import socket, sys
s = socket.socket(type=socket.SOCK_DGRAM)
s.bind((sys.argv[1], int(sys.argv[2])))
print("listening", s.getsockname()[1], flush=True)
d = b""
while d != b"last":
    d, who = s.recvfrom(70000)
    s.sendto(d.upper(), who)
"""

# Waits for the answer to each question before the next question; sends a question again when it or its answer is lost.
ASK = """
import os, random, socket, sys
s = socket.socket(type=socket.SOCK_DGRAM)
s.connect((sys.argv[1], int(sys.argv[2])))
r = random.Random(int(sys.argv[3]))
def ask(d):
    while True:
        s.send(d)
        s.settimeout(1)
        try:
            while s.recv(70000) != d.upper():
                pass  # of a question before, which was answered twice
            return
        except socket.timeout:
            pass
for i in range(int(sys.argv[4])):
    ask(b"%06d" % i + bytes(r.choice(b"abcdef") for _ in range(r.randrange(1400))))
s.send(b"last")
print("answered", flush=True)
"""

# Counts received datagrams until the process is ended.
SINK = """
import socket, sys
s = socket.socket(type=socket.SOCK_DGRAM)
s.bind((sys.argv[1], int(sys.argv[2])))
print("listening", s.getsockname()[1], flush=True)
while True:
    d, who = s.recvfrom(70000)
    print("got", len(d), flush=True)
"""


def table_with(conf):
    with Daemon(conf) as d, nothing_left(d):
        same_as_the_kernel(d, TABLE, A)
        assert d.telemetry("/rnic/ports,a")["gram_rx"] > 3000


@case
def udp_sockets_do_what_the_kernels_do():
    table_with(pair_conf())


@case
def udp_sockets_do_what_the_kernels_do_with_two_workers():
    table_with(pair_conf(rnicd="workers = 0,1"))


@case
def programs_at_both_ends_talk_over_a_line_that_loses():
    with Daemon(pair_conf(both="loss = 5%\nduplicate = 1%\nreorder = 5%")) as d, nothing_left(d):
        s = ours(d, *python(ECHO, A, 0))
        ours(d, *python(ASK, A, port_of(s), 1, 50)).ok()
        s.stop()


@case
def a_program_talks_to_the_kernels_udp_both_ways():
    with tap() as (ns, d):
        s = kernels(d, *python(ECHO, KERNEL, 0), netns=ns)
        ours(d, *python(ASK, KERNEL, port_of(s), 2, 300), netns=ns).ok()
        s.ok()
        s = ours(d, *python(ECHO, OURS, 0), netns=ns)
        kernels(d, *python(ASK, OURS, port_of(s), 3, 300), netns=ns).ok()
        s.ok()


# Sends to an address without a socket; prints the error of the next receive.
KNOCK = """
import errno, socket, sys
s = socket.socket(type=socket.SOCK_DGRAM)
s.connect((sys.argv[1], 9))
s.settimeout(1)
told = "ETIMEDOUT"
while told == "ETIMEDOUT":
    try:
        s.send(b"anybody there?")
        s.recv(9)
    except OSError as e:
        told = errno.errorcode.get(e.errno) or "ETIMEDOUT"
print(told)
"""


@case
def a_closed_port_is_told_both_ways():
    with tap() as (ns, d):
        assert kernels(d, *python(KNOCK, OURS), netns=ns).ok() == "ECONNREFUSED"
        assert ours(d, *python(KNOCK, KERNEL), netns=ns).ok() == "ECONNREFUSED"
        assert d.telemetry("/rnic/ports,a")["gram_refused"] > 0


@case
def what_no_port_reaches_stays_the_kernels():
    with Daemon(pair_conf()) as d:
        s = Process(python(ECHO, "127.0.0.1", 0))
        ours(d, *python(ASK, "127.0.0.1", port_of(s), 4, 10)).ok()
        s.ok()
        s = ours(d, *python(ECHO, "127.0.0.1", 0))
        Process(python(ASK, "127.0.0.1", port_of(s), 5, 10)).ok()
        s.ok()


@case
def a_server_on_all_addresses_serves_the_ports_and_the_kernel():
    with Daemon(pair_conf()) as d, nothing_left(d):
        free = port_of(Process(python(SINK, "0.0.0.0", 0)))
        s = ours(d, *python(ECHO.replace('d != b"last"', 'True'), "0.0.0.0", free + 1))
        at = port_of(s)
        ours(d, *python(ASK, A, at, 6, 10)).ok()
        Process(python(ASK, "127.0.0.1", at, 7, 10)).ok()
        ours(d, *python(ASK, B, at, 8, 10)).ok()
        s.stop()


@case
def a_port_belongs_to_one_program_and_the_daemons_own_to_none():
    with Daemon(pair_conf()) as d:
        s = ours(d, *python(SINK, A, 0))
        at = port_of(s)
        assert ours(d, *python(BIND, A, at)).ok() == "EADDRINUSE"
        assert ours(d, *python(BIND, "0.0.0.0", at)).ok() == "EADDRINUSE"
        assert ours(d, *python(BIND, B, at)).ok() == "taken"
        assert ours(d, *python(BIND, A, 4793)).ok() == "EACCES"
        s.stop(signal.SIGKILL)
        until(lambda: ours(d, *python(BIND, A, at)).ok() == "taken")


@case
def a_killed_program_leaves_nothing_and_its_port_is_closed():
    with Daemon(pair_conf()) as d, nothing_left(d):
        s = ours(d, *python(SINK, A, 0))
        at = port_of(s)
        c = ours(d, *python("""
import socket, sys, time
s = socket.socket(type=socket.SOCK_DGRAM)
s.connect((sys.argv[1], int(sys.argv[2])))
s.settimeout(0.01)
while True:
    try:
        s.send(b"x")
        print("sent", flush=True)
        s.recv(9)
    except ConnectionRefusedError:
        print("refused", flush=True)
    except TimeoutError:
        pass
""", A, at))
        s.wait_line("got")
        s.stop(signal.SIGKILL)
        c.wait_line("refused")
        c.stop(signal.SIGKILL)


@case
def datagrams_leave_after_their_program_has_ended():
    with Daemon(pair_conf()) as d, nothing_left(d):
        s = ours(d, *python(SINK, A, 0))
        ours(d, *python("""
import os, socket, sys
s = socket.socket(type=socket.SOCK_DGRAM)
for _ in range(5):
    s.sendto(b"x", (sys.argv[1], int(sys.argv[2])))
os._exit(0)
""", A, port_of(s))).ok()
        until(lambda: sum("got 1" in x for x in s.out) == 5, s.tail)
        s.stop()


@case
def a_killed_daemon_ends_what_waits_for_it():
    killed_daemon("""
s = socket.socket(type=socket.SOCK_DGRAM)
s.bind((sys.argv[1], 0))
def send(): s.sendto(bytes(1000), ("10.77.0.2", 9))
""", A, "ENETDOWN")


def record(to, port, data, length=None, dev=1):
    head = struct.pack("<IHH", len(data) if length is None else length, port, dev) + addr(to)[:16] + bytes(8)
    return head + data + bytes(-len(data) % 32)


def put(r, rec, tail=None):
    r.mem[TX:TX + len(rec)] = rec
    r.put(TX_TAIL, len(rec) if tail is None else tail)
    r.bell()


@case
def a_raw_client_that_keeps_the_rules_is_heard():
    with Daemon(pair_conf()) as d, nothing_left(d):
        s = ours(d, *python(SINK, A, 0))
        with Raw(d.sock) as r:
            r.join()
            assert r.gram(B)[0] == 0
            put(r, record(A, port_of(s), b"hello"))
            s.wait_line("got 5")
            assert not r.word(STATE)
        s.stop()


def broken(change):
    """Lets `change` break a rule in a raw client's socket: the daemon must mark the socket broken, send nothing of it,
    and live."""
    with Daemon(pair_conf()) as d, nothing_left(d):
        s = ours(d, *python(SINK, A, 0))
        with Raw(d.sock) as r:
            r.join()
            assert r.gram(B)[0] == 0
            change(r, port_of(s))
            until(lambda: r.word(STATE) == BROKEN, "the socket is not broken")
        ours(d, *python("""
import socket, sys
socket.socket(type=socket.SOCK_DGRAM).sendto(b"afterwards", (sys.argv[1], int(sys.argv[2])))
""", A, port_of(s))).ok()
        s.wait_line("got 10")
        assert sum("got" in x for x in s.out) == 1, s.tail()
        s.stop()


@case
def a_tail_beyond_the_ring_breaks_the_socket():
    broken(lambda r, at: put(r, record(A, at, b"x"), RING + 32))


@case
def a_tail_that_cuts_a_record_breaks_the_socket():
    broken(lambda r, at: put(r, record(A, at, bytes(100)), 64))
    broken(lambda r, at: put(r, record(A, at, bytes(100)), 8))


@case
def a_length_beyond_the_ring_or_the_port_breaks_the_socket():
    broken(lambda r, at: put(r, record(A, at, b"", 0xffffffff), 32))
    broken(lambda r, at: put(r, record(A, at, bytes(65508))))


@case
def another_ports_number_breaks_the_socket():
    broken(lambda r, at: put(r, record(A, at, b"x", dev=0)))
    broken(lambda r, at: put(r, record(A, at, b"x", dev=7)))


@case
def a_head_beyond_what_has_come_breaks_the_socket():
    with Daemon(pair_conf()) as d, nothing_left(d), Raw(d.sock) as r:
        r.join()
        assert r.gram(A, 5000)[0] == 0
        r.put(RX_HEAD, 64)
        ours(d, *python("""
import socket
s = socket.socket(type=socket.SOCK_DGRAM)
s.sendto(b"x", ("10.77.0.1", 5000))
""")).ok()
        until(lambda: r.word(STATE) == BROKEN, "the socket is not broken")


def scribble(d, seed):
    """Writes garbage into a socket's memory. Returns whether the daemon marked the socket broken meanwhile; it looks
    only when it gets the CPU."""
    seen = False
    with Raw(d.sock) as r:
        r.join()
        assert r.gram(B)[0] == 0
        for i in range(100):
            junk = hashlib.sha256(f"{seed} {i}".encode()).digest()
            place = int.from_bytes(junk[:2], "little") % 512 if i % 2 else TX + junk[0] % 128
            r.mem[place:place + 8] = junk[8:16]
            r.bell()
            seen |= r.word(STATE) == BROKEN
    return seen


@case
def memory_that_is_scribbled_over_harms_nobody_else():
    with Daemon(pair_conf()) as d, nothing_left(d):
        s = ours(d, *python(ECHO, A, 0))
        good = ours(d, *python(ASK, A, port_of(s), 9, 3000))
        seeds = itertools.count()
        broken_ones = [scribble(d, next(seeds)) for _ in range(30)]
        until(lambda: any(broken_ones) or scribble(d, next(seeds)), "no socket was broken, so the case proves nothing")
        good.ok(4 * PATIENCE)
        s.ok()


@case
def a_program_whose_memory_is_scribbled_over_ends_in_bounded_time():
    """A child process writes garbage into the socket's memory. The parent's calls fail or go on; none hangs or
    crashes."""
    with Daemon(pair_conf()) as d, nothing_left(d):
        p = ours(d, *python("""
import mmap, os, random, signal, socket, sys
a, b = (socket.socket(type=socket.SOCK_DGRAM) for _ in range(2))
a.bind((sys.argv[1], 0)); b.bind((sys.argv[1], 0))
a.connect(b.getsockname()); b.connect(a.getsockname())
maps = [x.split() for x in open("/proc/self/maps") if "memfd:rnicd-stream" in x]
assert len(maps) == 2, maps
import ctypes
r = random.Random(5)
seen = set()
for _ in range(3000):
    base, end = (int(x, 16) for x in r.choice(maps)[0].split("-"))
    at = base + r.choice((r.randrange(0, 384, 4), r.randrange(4096, 8192, 4)))
    ctypes.c_uint32.from_address(at).value = r.choice((0, 1, 32, 64, 1 << 18, 0xffffffff, r.getrandbits(32)))
    for call in (lambda: a.send(b"x" * r.randrange(1472), socket.MSG_DONTWAIT),
                 lambda: b.recv(2000, socket.MSG_DONTWAIT)):
        try:
            call()
            seen.add("went")
        except OSError:
            seen.add("failed")
print(sorted(seen), flush=True)
""", A))
        assert "failed" in p.ok(4 * PATIENCE), p.tail()


@case
def requests_that_make_no_sense_are_refused():
    with Daemon(pair_conf()) as d, nothing_left(d), Raw(d.sock) as r:
        assert r.gram(A)[0] != 0, "a request before SOCK_JOIN was accepted"
    with Daemon(pair_conf()) as d, nothing_left(d), Raw(d.sock) as r:
        r.join()
        assert r.gram("10.99.0.1")[0] == 99, "EADDRNOTAVAIL"
        assert r.gram(A, 4793)[0] == 13, "EACCES"

        def peer(sock):
            return r.ask("IPC_SOCK_PEER", struct.pack("<QII", sock, 0, 0) + addr("0.0.0.0") + addr(B, 5))[0]
        assert peer(0) != 0 and peer(1 << 63) != 0
        status, m, _ = r.bind(A)
        assert status == 0 and peer(int.from_bytes(m[:8], "little")) != 0, "a stream socket got a datagram peer"
        status, sock = r.gram(A)
        assert status == 0 and peer(sock) == 0
        assert r.connect(sock, B, 5)[0] != 0
        assert r.ask("IPC_SOCK_LISTEN", struct.pack("<QQ", sock, 0))[0] != 0
        assert r.ask("IPC_SOCK_ACCEPT", struct.pack("<QQ", sock, 0))[0] != 0


@case
def a_user_gets_no_more_than_its_share():
    with Daemon(pair_conf(rnicd="flows = 16\nuser-share = 50")) as d, nothing_left(d):
        def made():
            with Raw(d.sock) as r:
                r.join()
                return [r.gram(B)[0] for _ in range(20)]
        got = made()
        assert got.count(0) == 8 and set(got) == {0, 105}, got
        until(lambda: made().count(0) == 8, "the closed sockets' places are not free again")


main()
