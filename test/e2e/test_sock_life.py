#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Programs of `rnicrun --sockets` that live longer than their rnicd, and programs that have all descriptors that they may
have.
"""
import contextlib
import os
import signal
import sys
import tempfile

from rig import RNICRUN, Daemon, Process, Skip, case, main, need, pair_conf
from sock_rig import nothing_left, ours, python

A, B = "10.77.0.1", "10.77.0.2"

# Makes a connection and a pair of datagram sockets at each address, and says what happened; does so for each line.
AGAIN = """
import errno, socket, sys
def use(at):
    with socket.socket() as l, socket.socket(type=socket.SOCK_DGRAM) as u, socket.socket(type=socket.SOCK_DGRAM) as v:
        l.bind((at, 0))
        l.listen(1)
        with socket.create_connection(l.getsockname()) as c, l.accept()[0] as s:
            c.sendall(b"bytes")
            u.bind((at, 0))
            v.sendto(b"datagram", u.getsockname())
            return s.recv(9).decode() + " " + u.recv(9).decode()
old = socket.socket()
old.bind((sys.argv[1], 0))
n = 0
while True:
    for at in sys.argv[1:]:
        try:
            print(at, use(at), flush=True)
        except OSError as e:
            print(at, errno.errorcode[e.errno], flush=True)
    try:
        old.listen(1)
        print("listens", flush=True)
    except OSError as e:
        print("listen", errno.errorcode[e.errno], flush=True)
    print("done", n, flush=True)
    n += 1
    sys.stdin.readline()
"""


def round_of(p, n):
    """The lines of the program's round n. The first one runs at once, each other one when it is told."""
    if n > 0:
        p.p.stdin.write("go\n")
        p.p.stdin.flush()
    p.wait_line(f"done {n}")
    lines = p.stdout().splitlines()
    return lines[lines.index(f"done {n - 1}") + 1 if n > 0 else 0:lines.index(f"done {n}")]


@case
def a_program_goes_on_with_an_rnicd_that_was_started_again():
    """The second rnicd has another port as well; sockets of the first one stay dead."""
    with tempfile.TemporaryDirectory(prefix="rnic-test-") as folder:
        first = pair_conf().replace("{dir}", folder)
        second = first.replace("10.77.0.2/24", "10.78.0.2/24")
        with contextlib.closing(Daemon(first)) as d:
            p = Process([RNICRUN, "--socket", os.path.join(folder, "rnicd.sock"), "--sockets",
                         *python(AGAIN, A, "10.78.0.2")])
            assert round_of(p, 0) == [f"{A} bytes datagram", "10.78.0.2 EADDRNOTAVAIL", "listens"], p.tail()
            d.stop(signal.SIGKILL)
        assert round_of(p, 1) == [f"{A} ENETDOWN", "10.78.0.2 EADDRNOTAVAIL", "listen ENETDOWN"], p.tail()
        with Daemon(second):
            for n in (2, 3):
                assert round_of(p, n) == [f"{A} bytes datagram", "10.78.0.2 bytes datagram", "listen EBADF"], p.tail()
        p.stop()


@case
def a_program_outlives_many_rnicds():
    """The program keeps nothing of an rnicd that has ended, apart from what the program's one old socket needs."""
    with tempfile.TemporaryDirectory(prefix="rnic-test-") as folder:
        conf = pair_conf().replace("{dir}", folder)
        p, fds = None, []
        for n in range(20):
            with contextlib.closing(Daemon(conf)) as d:
                if p is None:
                    p = Process([RNICRUN, "--socket", os.path.join(folder, "rnicd.sock"), "--sockets",
                                 *python(AGAIN, A)])
                said = round_of(p, n)
                assert said[0] == f"{A} bytes datagram", (n, said, p.tail())
                fds.append(len(os.listdir(f"/proc/{p.p.pid}/fd")))
                d.stop(signal.SIGKILL)
        assert fds[-1] == fds[1], fds
        p.stop()


# Listens on a socket of the first rnicd when it is told: nothing comes before that looks at the session.
FIRST_AGAIN = """
import errno, socket, sys
old = socket.socket()
old.bind((sys.argv[1], 0))
print("bound", flush=True)
sys.stdin.readline()
try:
    old.listen(1)
    print("listens", flush=True)
except OSError as e:
    print(errno.errorcode[e.errno], flush=True)
"""


@case
def the_first_request_after_a_restart_reaches_the_new_rnicd():
    with tempfile.TemporaryDirectory(prefix="rnic-test-") as folder:
        conf = pair_conf().replace("{dir}", folder)
        with contextlib.closing(Daemon(conf)) as d:
            p = Process([RNICRUN, "--socket", os.path.join(folder, "rnicd.sock"), "--sockets", *python(FIRST_AGAIN, A)])
            p.wait_line("bound")
            d.stop(signal.SIGKILL)
        with Daemon(conf):
            p.p.stdin.write("go\n")
            p.p.stdin.flush()
            assert p.ok().splitlines() == ["bound", "EBADF"], p.tail()


# Connects to an address that nobody has: at first with a time limit, twice, then until the end, and without blocking.
NOBODY = """
import errno, select, socket, struct, sys
s, t = socket.socket(), socket.socket()
limit = socket.SOL_SOCKET, socket.SO_SNDTIMEO
t.setblocking(False)
def connect(s):
    print(errno.errorcode[s.connect_ex((sys.argv[1], 80))], flush=True)
s.setsockopt(*limit, struct.pack("ll", 0, 100_000))
connect(s)
connect(s)
connect(t)
s.setsockopt(*limit, bytes(16))
connect(s)
select.select([], [t], [], 60)
print(errno.errorcode[t.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)], flush=True)
"""


@case
def a_host_that_is_not_there_is_unreachable():
    with Daemon(pair_conf()) as d, nothing_left(d):
        p = ours(d, *python(NOBODY, "10.77.0.99"))
        assert p.ok().split() == ["EINPROGRESS", "EALREADY", "EINPROGRESS", "EHOSTUNREACH", "EHOSTUNREACH"], p.tail()


# Accepts connections that wait already, between two lines that a trace shows.
ACCEPTS = """
import os, socket, sys
n = int(sys.argv[2])
l = socket.socket()
l.bind((sys.argv[1], 0))
l.listen(n)
clients = [socket.create_connection(l.getsockname()) for _ in range(n)]
got = [None] * n
os.write(1, b"begin\\n")
for i in range(n):
    got[i] = l._accept()[0]
os.write(1, b"end\\n")
"""


@case
def an_accepted_connection_costs_eleven_system_calls():
    need("strace")
    n = 40
    with Daemon(pair_conf()) as d:
        trace = os.path.join(d.dir, "trace")
        p = ours(d, "strace", "-o", trace, *python(ACCEPTS, A, n))
        p.ok()
        with open(trace, encoding="utf-8", errors="replace") as f:
            lines = f.read().splitlines()
        first, last = (next(i for i, line in enumerate(lines) if line.startswith(f'write(1, "{word}'))
                       for word in ("begin", "end"))
        between = [line.partition("(")[0] for line in lines[first + 1:last]]
        assert between.count("recvmsg") == n and len(between) <= 11 * n + 10, between[:40]


# Binds and connects with all descriptors in use, then with three free ones.
FULL = """
import errno, os, resource, socket, sys
def code(call, *args):
    try:
        return call(*args)
    except OSError as e:
        return errno.errorcode[e.errno]
l = socket.socket()
l.bind((sys.argv[1], 0))
l.listen(8)
u = socket.socket(type=socket.SOCK_DGRAM)
u.bind((sys.argv[1], 0))
made = [socket.socket(), socket.socket(), socket.socket(type=socket.SOCK_DGRAM)]
def begin():
    at = (sys.argv[2], 0)
    return code(made[0].bind, at), code(made[1].connect, l.getsockname()), code(made[2].bind, at)
resource.setrlimit(resource.RLIMIT_NOFILE, (600, 600))
before = len(os.listdir("/proc/self/fd"))
more = []
try:
    while True:
        more.append(os.dup(0))
except OSError:
    pass
print(*begin())
for _ in range(3):
    os.close(more.pop())
print(*begin())
print(code(made[0].connect, l.getsockname()), code(made[2].sendto, b"datagram", u.getsockname()))
for fd in more:
    os.close(fd)
print(len(os.listdir("/proc/self/fd")) - before - 1)
for s in (made[1], made[0]):
    t, _ = l.accept()
    s.sendall(b"bytes")
    print(t.recv(9).decode())
print(u.recv(9).decode())
"""


@case
def a_socket_is_used_when_there_is_a_descriptor_again():
    with Daemon(pair_conf()) as d, nothing_left(d):
        p = ours(d, *python(FULL, A, B))
        assert p.ok().splitlines() == ["EMFILE EMFILE EMFILE", "None None None", "None 8", "0", "bytes", "bytes",
                                       "datagram"], p.tail()


# Binds and connects sockets in a process that may have few descriptors.
FEW = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), int(sys.argv[2])))
udp = [socket.socket(type=socket.SOCK_DGRAM) for _ in range(3)]
udp[0].bind((sys.argv[1], 0))
udp[1].bind(("0.0.0.0", 0))
udp[2].connect(udp[0].getsockname())
udp[2].send(b"datagram")
print(udp[0].recv(9).decode(), udp[2].getsockname()[0])
l = socket.socket()
l.bind(("0.0.0.0", 0))
l.listen(1)
with socket.create_connection((sys.argv[1], l.getsockname()[1])) as c:
    print(c.getsockname()[0])
"""


@case
def sockets_are_rnicds_also_where_a_process_may_have_few_descriptors():
    with Daemon(pair_conf()) as d, nothing_left(d):
        for most in (64, 512, 513):
            p = ours(d, *python(FEW, A, most))
            assert p.ok().splitlines() == [f"datagram {B}", B], p.tail()
            assert not p.stderr(), p.stderr()


# Descriptors with numbers from 65,536 on, for which librnicsock has no place.
FAR = """
import errno, fcntl, os, resource, socket, sys
FAR = 65536
def code(call, *args):
    try:
        return call(*args)
    except OSError as e:
        return errno.errorcode[e.errno]
try:
    resource.setrlimit(resource.RLIMIT_NOFILE, (FAR + 100, FAR + 100))
except (OSError, ValueError):
    print("no limit")
    sys.exit()
l = socket.socket()
l.bind((sys.argv[1], 0))
l.listen(8)
c = socket.create_connection(l.getsockname())
s, _ = l.accept()
near = [socket.socket(type=t) for t in (socket.SOCK_STREAM, socket.SOCK_STREAM, socket.SOCK_DGRAM)]
far = [socket.socket(fileno=fcntl.fcntl(n.fileno(), fcntl.F_DUPFD, FAR)) for n in near]
print(code(far[0].bind, (sys.argv[1], 0)), code(far[1].connect, l.getsockname()), code(far[2].bind, (sys.argv[1], 0)))
print(code(fcntl.fcntl, c.fileno(), fcntl.F_DUPFD, FAR), code(os.dup2, c.fileno(), FAR + 50))
second = socket.create_connection(l.getsockname())
second.sendall(b"second")
more = []
while not more or more[-1] < FAR:
    more.append(os.dup(0))
print(code(l.accept), code(os.dup, c.fileno()))
for fd in more:
    os.close(fd)
t, _ = l.accept()
print(t.recv(9).decode())
c.sendall(b"first")
print(s.recv(9).decode())
"""


@case
def a_number_too_large_for_a_socket_is_refused():
    with Daemon(pair_conf()) as d, nothing_left(d):
        p = ours(d, *python(FAR, A))
        lines = p.ok().splitlines()
        if lines == ["no limit"]:
            raise Skip("the limit of descriptors cannot be raised to 65,636")
        assert lines == ["EMFILE EMFILE EMFILE", "EMFILE EMFILE", "EMFILE EMFILE", "second", "first"], p.tail()


if __name__ == "__main__":
    sys.exit(main())
