# SPDX-License-Identifier: BSD-3-Clause
"""
Runs programs over `rnicrun --sockets` beside the same programs on the kernel's sockets, and checks what they leave
behind.
"""
import contextlib
import json
import os
import signal
import sys

from rig import PATIENCE, RNICRUN, Daemon, Process, pair_conf, until
from sock_raw import Raw


def ours(d, *argv, netns=None):
    pre = ["ip", "netns", "exec", netns] if netns else []
    return d.run(*pre, RNICRUN, "--sockets", *argv)


def kernels(d, *argv, netns):
    return d.run("ip", "netns", "exec", netns, *argv)


def python(text, *argv):
    return [sys.executable, "-c", text, *[str(a) for a in argv]]


def port_of(p):
    return int(p.wait_line("listening").split()[1])


def descriptors(d):
    return len(os.listdir(f"/proc/{d.pid}/fd"))


@contextlib.contextmanager
def nothing_left(d):
    """The daemon's descriptors, apart from those of its clients, must be as many afterwards as before. The first socket
    of a user makes descriptors that stay; so one is made before counting."""
    with Raw(d.sock) as r:
        r.join()
    before = until(lambda: descriptors(d))
    yield
    until(lambda: descriptors(d) <= before, lambda: f"rnicd has {descriptors(d)} open descriptors, {before} before")


# Receives each connection to its end, then answers with length and sum; argv[3] is the number of connections.
SERVE = """
import hashlib, socket, sys
l = socket.socket()
l.bind((sys.argv[1], int(sys.argv[2])))
l.listen(8)
print("listening", l.getsockname()[1], flush=True)
for _ in range(int(sys.argv[3])):
    s, _ = l.accept()
    n, h = 0, hashlib.sha256()
    while b := s.recv(100000):
        n += len(b)
        h.update(b)
    s.sendall(f"{n} {h.hexdigest()}".encode())
    s.close()
"""

# Listens as root; a worker that has changed its user answers a connection of its parent's.
CHANGES_USER = f"""
import os, signal, socket, sys
signal.alarm({PATIENCE})
with socket.create_server((sys.argv[1], 0)) as l:
    if os.fork() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        s, _ = l.accept()
        s.sendall(s.recv(9) + b" of %d" % os.getuid())
        os._exit(0)
    c = socket.create_connection(l.getsockname())
c.sendall(b"answer")
print(c.recv(99).decode(), "by wire", c.getsockopt(0x524e, 1))
assert os.wait()[1] == 0
"""

# Sends random bytes in pieces of random sizes; the answer must be the sum of the bytes.
SEND = """
import hashlib, random, socket, sys
r = random.Random(int(sys.argv[3]))
c = socket.create_connection((sys.argv[1], int(sys.argv[2])))
n, h = 0, hashlib.sha256()
while n < int(sys.argv[4]):
    b = r.randbytes(r.choice((1, 100, 1460, 5000, 300000)))
    c.sendall(b)
    h.update(b)
    n += len(b)
c.shutdown(socket.SHUT_WR)
got = b""
while b := c.recv(4096):
    got += b
assert got.decode() == f"{n} {h.hexdigest()}", (n, got)
print("sum is right", flush=True)
"""

# Receives connections without end; answers each with length, sum and wire.
SERVE_BY_WIRE = """
import hashlib, socket, sys
l = socket.socket()
l.bind((sys.argv[1], 0))
l.listen(8)
print("listening", l.getsockname()[1], flush=True)
while True:
    s, _ = l.accept()
    n, h = 0, hashlib.sha256()
    try:
        wire = s.getsockopt(0x524e, 1)
    except OSError:
        wire = "kernel"
    try:
        while b := s.recv(100000):
            n += len(b)
            h.update(b)
        s.sendall(f"{n} {h.hexdigest()} {wire}".encode())
        print("end", flush=True)
    except OSError as e:
        print(type(e).__name__, flush=True)
    s.close()
"""

# Sends random bytes in pieces of random sizes; the answer must be the sum of the bytes. Prints the wire, which argv[5]
# sets by the socket's option.
SEND_BY_WIRE = """
import hashlib, random, socket, sys
r = random.Random(int(sys.argv[3]))
c = socket.socket()
if len(sys.argv) > 5:
    c.setsockopt(0x524e, 1, int(sys.argv[5]))
c.connect((sys.argv[1], int(sys.argv[2])))
n, h = 0, hashlib.sha256()
while n < int(sys.argv[4]):
    b = r.randbytes(r.choice((1, 100, 3000, 70000, 300000)))
    c.sendall(b)
    n += len(b)
    h.update(b)
c.shutdown(socket.SHUT_WR)
got = b""
while b := c.recv(1000):
    got += b
assert got.decode().split()[:2] == [str(n), h.hexdigest()], got
try:
    wire = c.getsockopt(0x524e, 1)
except OSError:
    wire = "kernel"
print("wires", wire, got.decode().split()[2], flush=True)
"""

# Prints the length, the CRC and the sender of each datagram. A datagram that asks for it is sent back, its last byte
# first.
READS = """
import socket, sys, zlib
s = socket.socket(type=socket.SOCK_DGRAM)
s.bind((sys.argv[1], 0))
print("listening", s.getsockname()[1], flush=True)
while True:
    d, who = s.recvfrom(70000)
    print("got", len(d), zlib.crc32(d), *who, flush=True)
    if d[:4] == b"tell":
        s.sendto(d[::-1], who)
"""

BIND = """
import errno, socket, sys
s = socket.socket(type=socket.SOCK_DGRAM)
try:
    s.bind((sys.argv[1], int(sys.argv[2])))
    print("taken")
except OSError as e:
    print(errno.errorcode[e.errno])
"""

WAITS = """
if sys.argv[2] == "poll":
    s.setblocking(False)
print("waits", flush=True)
if sys.argv[2] == "poll":
    select.select([s], [], [])
try:
    while True:
        if sys.argv[2] == "send":
            send()
        else:
            s.recv(9)
except OSError as e:
    print(errno.errorcode[e.errno], flush=True)
"""


def killed_daemon(socket_and_send, address, told):
    """Programs that receive, poll or send while their daemon is killed must end with the errno `told`."""
    with contextlib.closing(Daemon(pair_conf())) as d:
        text = "import errno, select, socket, sys\n" + socket_and_send + WAITS
        waits = [ours(d, *python(text, address, how)) for how in ("recv", "poll", "send")]
        for p in waits:
            p.wait_line("waits")
        d.stop(signal.SIGKILL)
        for p in waits:
            assert p.ok().split()[-1] == told, p.tail()


def lines(p):
    return {n: r for n, r in map(json.loads, p.ok(4 * PATIENCE).splitlines())}


def same_as_the_kernel(d, table, address):
    """Each case of a table of calls must give the same result on rnicd's sockets as on the kernel's."""
    kernel = lines(Process([sys.executable, table, "127.0.0.1"]))
    p = ours(d, sys.executable, table, address)
    mine = lines(p)
    wrong = [f"{n}: {mine.get(n)}, the kernel says {kernel[n]}" for n in kernel if mine.get(n) != kernel[n]]
    assert kernel and not wrong, "\n".join(wrong)
    assert not p.stderr(), p.stderr()
