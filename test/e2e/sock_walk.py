#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Random sequences of calls on TCP and UDP sockets, both ends in this process: `sock_walk.py ADDRESS SEEDS [FILE]` walks
the seeds ("0-199,731") and prints one line of JSON a seed: the result of each call, and which sockets were ready after
it. FILE has the lines of an earlier run on the kernel's sockets. With FILE the walk waits after each call until the
sockets are as ready as FILE says, because a network has delays, and prints the seeds that differed. test_sock_walks.py
runs both.

Left out, because these are known to differ (doc/programs.md): connect() on a socket whose connect() has failed, POLLHUP
and POLLERR by epoll, shutdown() of a listener by a child.

A call that would block forever is limited by SO_RCVTIMEO. A call that waits for a peer gets what the peer does
meanwhile.
"""
import array
import errno
import fcntl
import json
import os
import random
import select
import socket
import struct
import sys
import termios
import threading
import time

ADDR = sys.argv[1]
LIMIT = 20  # seconds until a different readiness counts as a failure
STEPS = 30
WAIT = struct.pack("ll", 0, 12_000)  # SO_RCVTIMEO of 12 ms: a multiple of the tick of all kernels
MASK = select.POLLIN | select.POLLOUT | select.POLLRDHUP | select.POLLHUP | select.POLLERR
DONTWAIT, PEEK, NOSIGNAL = socket.MSG_DONTWAIT, socket.MSG_PEEK, socket.MSG_NOSIGNAL
MOST = 20_000  # most unread bytes: both kinds of sockets have room for them


def code(call, *args):
    try:
        return call(*args)
    except OSError as e:
        return errno.errorcode[e.errno] if e.errno else type(e).__name__


class Different(Exception):
    pass


class Behind:
    """wait() returns when everything that the step before has sent has arrived, as on the kernel's loopback. It makes
    two sockets, one after the other, and sends a datagram from each. Once both datagrams have arrived, no byte and no
    FIN that was sent earlier is still on its way. Once both sockets have been made, the peers know of every socket that
    was closed before."""

    def __init__(self):
        self.other = self.made()

    @staticmethod
    def made():
        s = socket.socket(type=socket.SOCK_DGRAM)
        s.bind((ADDR, 0))
        s.settimeout(LIMIT)
        return s

    def wait(self):
        for _ in range(2):
            with self.made() as one:
                one.sendto(b"behind", self.other.getsockname())
                self.other.recv(6)


class Walk:
    def __init__(self, seed, expected, behind):
        self.behind = behind
        self.random = random.Random(seed)
        self.seed = seed
        self.expected = expected
        self.socks = []
        self.names = {}
        self.named = 0
        self.steps = []
        self.not_in_child = ()
        self.sent = 0

    # ---- names and bytes, which are the same on the kernel's sockets and on rnicd's ----

    def name(self, s, at):
        """A short name for a socket's address: the same number for the same address."""
        if not isinstance(at, tuple):
            return at
        if at[0] == "0.0.0.0":
            return "none" if at[1] == 0 else "any"
        if (s.type, at) not in self.names:
            self.names[s.type, at] = self.named
            self.named += 1
        return self.names[s.type, at]

    def new_name(self, s):
        """Forgets the name of the socket's address: the address may have been another socket's before, as ports repeat
        by chance."""
        self.names.pop((s.type, s.getsockname()), None)

    def bytes_of(self, n):
        self.sent += 1
        return bytes((self.sent * 31 + i) & 0xff for i in range(n))

    def tell(self, what, result):
        if isinstance(result, (bytes, bytearray)):
            result = result.hex() if len(result) <= 8 else f"{len(result)} bytes {hash_of(result)}"
        step = [what, result]
        i = len(self.steps)
        if self.expected is not None and (i >= len(self.expected) or self.expected[i][:2] != step):
            kernels = self.expected[i][:2] if i < len(self.expected) else None
            raise Different(f"{what}: {result}, the kernel says {kernels}")
        self.behind.wait()
        self.steps.append(step + [self.settled(i)])

    def settled(self, i):
        """Returns the state of each socket; with an expectation, waits until the states are as expected."""
        end = time.monotonic() + LIMIT
        while True:
            now = [self.state(s) for s in self.socks]
            if self.expected is None or now == self.expected[i][2]:
                return now
            if time.monotonic() > end:
                raise Different(f"behind {self.steps[-1:]} and {self.expected[i][:2]}: {now}, the kernel says "
                                f"{self.expected[i][2]}")
            time.sleep(0.0005)

    @staticmethod
    def state(s):
        n = array.array("i", [0])
        p = select.poll()
        p.register(s, MASK)
        ready = sum(e for _, e in p.poll(0))
        return [ready, code(fcntl.ioctl, s, termios.FIONREAD, n), n[0], isinstance(code(s.getpeername), tuple)]

    # ---- sockets ----

    def add(self, s):
        if isinstance(s, str):
            return s
        self.socks.append(s)
        return f"socket {len(self.socks) - 1}"

    def new(self, kind):
        s = self.like(kind)
        if self.random.random() < 0.3:
            s.setblocking(False)
        return s

    @staticmethod
    def like(kind, blocking=True):
        s = socket.socket(type=kind)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, WAIT)
        if kind == socket.SOCK_STREAM:  # without this a small segment may wait for the kernel's delayed ACK
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        s.setblocking(blocking)
        return s

    def any(self, kind=None):
        fits = [s for s in self.socks if kind is None or s.type & 0xf == kind]
        return self.random.choice(fits) if fits else None

    def index(self, s):
        return next((i for i, t in enumerate(self.socks) if t is s), -1)

    def make_pair(self):
        l = self.new(socket.SOCK_STREAM)
        l.bind((ADDR, 0))
        l.listen(8)
        c = self.new(socket.SOCK_STREAM)
        result = code(c.connect, l.getsockname())
        while any(code(t.getsockname) == c.getsockname() for t in self.socks):
            # by chance Linux has given c the port of a connection with another peer: a name would stand for two sockets
            kinds = l.getblocking(), c.getblocking()
            l.close()
            c.close()
            l, c = (self.like(socket.SOCK_STREAM, k) for k in kinds)
            l.bind((ADDR, 0))
            l.listen(8)
            result = code(c.connect, l.getsockname())
        self.add(l)
        self.add(c)
        self.new_name(l)
        self.new_name(c)
        self.tell("connect", result)
        return self.accept(l)

    def accept(self, l=None):
        l = l or self.any(socket.SOCK_STREAM)
        if l is None:
            return None
        got = code(l.accept)
        if isinstance(got, str):
            return self.tell(f"accept {self.index(l)}", got)
        s, at = got
        s.setblocking(True)
        same = code(s.getpeername) == at
        self.tell(f"accept {self.index(l)}", [self.add(s), self.name(s, at), same])
        return None

    def make_grams(self):
        """Makes a bound datagram socket, sometimes connected to another one."""
        s = self.new(socket.SOCK_DGRAM)
        s.bind((ADDR, 0))
        self.new_name(s)
        self.add(s)
        self.tell("bound datagram socket", self.name(s, s.getsockname()))
        other = self.any(socket.SOCK_DGRAM)
        if self.random.random() < 0.6:
            self.tell(f"its peer is {self.index(other)}", code(s.connect, other.getsockname()))

    def make_other(self):
        """Makes a TCP socket that is only bound, or listens, or whose connection was refused."""
        s = self.new(socket.SOCK_STREAM)
        how = self.random.randrange(3)
        s.bind((ADDR, 0))
        self.new_name(s)
        self.add(s)
        if how == 1:
            self.tell("listen", code(s.listen, 4))
        elif how == 2:
            with socket.socket() as gone:
                gone.bind((ADDR, 0))
                at = gone.getsockname()
            self.tell("refused", code(s.connect, at))
        else:
            self.tell("bound", self.name(s, s.getsockname()))

    def connect(self):
        s, to = self.any(), self.any()
        if s.type == socket.SOCK_DGRAM and to.type != s.type:
            return
        at = code(to.getsockname)
        if s.type != socket.SOCK_DGRAM and self.state(s)[0] & select.POLLHUP:
            return
        if isinstance(at, str) or at[1] == 0 or (to is s and s.type != socket.SOCK_DGRAM):
            return
        self.tell(f"connect {self.index(s)} to {self.index(to)}", code(s.connect, at))

    # ---- bytes ----

    def send(self):
        s = self.any()
        if self.waits_too_much():
            return
        n = self.random.choice((0, 1, 1, 2, 100, 1000, 1400))
        how = self.random.randrange(4)
        data = self.bytes_of(n)
        flags = self.random.choice((0, DONTWAIT, NOSIGNAL, 0x8000 if s.type == socket.SOCK_STREAM else 0))
        calls = (lambda: s.send(data, flags), lambda: os.write(s.fileno(), data),
                 lambda: os.writev(s.fileno(), [data[:n // 3], data[n // 3:]]),
                 lambda: s.sendmsg([data[:n // 2], data[n // 2:]], [], flags))
        if flags == 0x8000:
            flags = 0  # MSG_MORE would hold bytes back
            calls = calls[:3]
            how %= 3
        self.tell(f"send {n} by {how} on {self.index(s)}", code(calls[how]))

    def waits_too_much(self):
        return sum(self.state(s)[2] for s in self.socks) > MOST

    def send_to(self):
        s, to = self.any(socket.SOCK_DGRAM), self.any(socket.SOCK_DGRAM)
        if s is None or self.waits_too_much():
            return
        data = self.bytes_of(self.random.choice((0, 1, 50, 1472)))
        at = code(to.getsockname)
        if self.random.random() < 0.05:
            at = (ADDR, 0)
        self.tell(f"send {len(data)} from {self.index(s)} to {self.index(to)}", code(s.sendto, data, at))

    def receive(self):
        s = self.any()
        ready = self.state(s)
        flags = self.random.choice((0, 0, 0, PEEK, DONTWAIT, socket.MSG_WAITALL, socket.MSG_TRUNC))
        if not ready[0] & select.POLLIN and self.random.random() < 0.8:
            flags |= DONTWAIT
        n = self.random.choice((0, 1, 2, 50, 1000, 4000))
        if s.type == socket.SOCK_STREAM and flags & socket.MSG_TRUNC and ready[2] == 0:
            flags &= ~socket.MSG_TRUNC
        how = self.random.randrange(4) if not flags else self.random.randrange(2)
        what = f"receive {n} flags {flags:x} by {how} on {self.index(s)}"
        self.tell(what, (self.recv_from, self.recv_message, self.read, self.read_list)[how](s, n, flags))

    def recv_from(self, s, n, flags):
        buf = bytearray(b"\xee" * n)
        got = code(s.recvfrom_into, buf, n, flags)
        if isinstance(got, str):
            return got
        return [got[0], hash_of(buf), self.name(s, got[1])]

    def recv_message(self, s, n, flags):
        a, b = bytearray(b"\xee" * (n // 2)), bytearray(b"\xee" * (n - n // 2))
        got = code(s.recvmsg_into, [a, b], 0, flags)
        if isinstance(got, str):
            return got
        return [got[0], hash_of(a + b), got[2], self.name(s, got[3])]

    @staticmethod
    def read(s, n, _):
        return code(os.read, s.fileno(), n)

    @staticmethod
    def read_list(s, n, _):
        a, b = bytearray(b"\xee" * (n // 3)), bytearray(b"\xee" * n)
        return [code(os.readv, s.fileno(), [a, b]), hash_of(a + b)]

    def receive_waiting(self):
        """Begins a receive before its bytes are there; another thread then sends them."""
        fits = [(s, t) for s in self.socks for t in self.socks
                if s.getblocking() and s.type == t.type and self.state(s)[0] & MASK == select.POLLOUT
                and self.state(t)[0] & MASK == select.POLLOUT and code(s.getpeername) == t.getsockname()
                and code(t.getpeername) == s.getsockname()]
        if not fits:
            return
        s, t = self.random.choice(fits)
        n = self.random.randrange(1, 1000)
        data = self.bytes_of(n)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 10, 0))
        flags = self.random.choice((0, socket.MSG_WAITALL, PEEK))
        later = threading.Timer(0.001, t.send, (data,))
        later.start()
        got = code(s.recv, n, flags)
        later.join()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, WAIT)
        self.tell(f"receive {n} flags {flags:x} on {self.index(s)} as {self.index(t)} sends", got)

    # ---- the rest ----

    def shut(self):
        s = self.any()
        if s in self.not_in_child:
            return
        how = self.random.choice((socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_WR, socket.SHUT_RDWR))
        self.tell(f"shutdown {how} on {self.index(s)}", code(s.shutdown, how))

    def close(self):
        s = self.any()
        i = self.index(s)
        self.socks.remove(s)
        s.close()
        self.tell(f"close {i}", None)

    def copy(self):
        s = self.any()
        c = s.dup()
        c.setblocking(s.getblocking())
        self.tell(f"copy of {self.index(s)}", self.add(c))

    def copy_over(self):
        s, to = self.any(), self.any()
        if s is to or s.type != to.type:
            return
        os.dup2(s.fileno(), to.fileno())
        to.setblocking(s.getblocking())  # O_NONBLOCK is the file's; Python keeps a copy of it in each object
        self.tell(f"{self.index(s)} in the place of {self.index(to)}", None)

    def block(self):
        s = self.any()
        s.setblocking(not s.getblocking())
        for t in self.socks:  # descriptors of one socket share O_NONBLOCK; Python keeps a copy of it in each object
            t.setblocking(not fcntl.fcntl(t, fcntl.F_GETFL) & os.O_NONBLOCK)
        self.tell(f"blocking of {self.index(s)}", [t.getblocking() for t in self.socks])

    def ask(self):
        s = self.any()
        which = self.random.choice(("SO_ERROR", "SO_TYPE", "SO_ACCEPTCONN", "SO_DOMAIN", "SO_PROTOCOL", "SO_RCVTIMEO",
                                    "SO_LINGER", "SO_KEEPALIVE", "SO_BROADCAST"))
        got = code(s.getsockopt, socket.SOL_SOCKET, getattr(socket, which), 16)
        self.tell(f"{which} of {self.index(s)}", got)

    def ask_names(self):
        s = self.any()
        self.tell(f"names of {self.index(s)}", [self.name(s, code(s.getsockname)), self.name(s, code(s.getpeername))])

    def in_child(self):
        """Makes one call in a child process that has inherited the sockets."""
        call = self.random.choice((self.send, self.shut, self.receive, self.send_to, self.accept))
        before = len(self.steps)
        r, w = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                self.settled_later(call)
                said = self.steps[before][:2] if len(self.steps) > before else []
            except Different:
                said = ["different", None]
            os.write(w, json.dumps(said).encode())
            os._exit(0)
        os.close(w)
        said = json.loads(os.read(r, 65536) or "null")
        os.close(r)
        os.waitpid(pid, 0)
        self.tell("child", said)

    def settled_later(self, call):
        self.settled = lambda i: None
        self.expected = None
        self.not_in_child = [s for s in self.socks
                             if s.type == socket.SOCK_STREAM and code(s.getpeername) == "ENOTCONN"]
        call()

    def lend(self):
        """A child process keeps a socket open a while longer than this process."""
        s = self.any()
        i = self.index(s)
        r, w = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(w)
            for t in self.socks:
                if t is not s:
                    t.close()
            os.read(r, 1)
            os._exit(0)
        os.close(r)
        self.socks.remove(s)
        s.close()
        self.tell(f"{i} is with a child", None)
        os.close(w)
        os.waitpid(pid, 0)
        self.tell("which has ended", None)

    def epoll(self):
        """epoll must report each event that poll has reported. POLLHUP and POLLERR are left out."""
        e = select.epoll()
        want = {}
        fits = [s for s in self.socks if not self.state(s)[0] & (select.POLLHUP | select.POLLERR)]
        for s in self.random.sample(fits, min(3, len(fits))):
            mask = self.random.choice((select.EPOLLIN, select.EPOLLIN | select.EPOLLOUT, select.EPOLLOUT,
                                       select.EPOLLIN | select.EPOLLRDHUP))
            want[s] = mask, mask | self.random.choice((0, 0, select.EPOLLONESHOT))
            e.register(s, want[s][1])
        mine = {s.fileno(): self.state(s)[0] & mask for s, (mask, _) in want.items() if self.state(s)[0] & mask}
        end = time.monotonic() + LIMIT
        while True:
            told = {f: m & mask for f, m in e.poll(0) for s, (mask, _) in want.items() if s.fileno() == f and m & mask}
            if told == mine or time.monotonic() > end:
                break
            for s, (_, how) in want.items():
                e.modify(s, how)
                self.state(s)
        e.close()
        self.tell(f"epoll of {[self.index(s) for s in want]}", [told.get(s.fileno(), 0) for s in want])

    def walk(self):
        makers = (self.make_pair, self.make_pair, self.make_grams, self.make_grams, self.make_other)
        usual = (self.send, self.send, self.send, self.receive, self.receive, self.receive, self.receive, self.send_to,
                 self.send_to, self.receive_waiting, self.shut, self.close, self.copy, self.copy_over, self.block,
                 self.ask, self.ask_names, self.connect, self.accept, self.epoll)
        rare = (self.in_child, self.lend, self.close)
        for _ in range(2):
            self.random.choice(makers)()
        while len(self.steps) < STEPS:
            if not self.socks or (len(self.socks) < 8 and self.random.random() < 0.1):
                self.random.choice(makers)()
            else:
                self.random.choice(rare if self.random.random() < 0.1 else usual)()

    def end(self):
        for s in self.socks:
            s.close()


def hash_of(data):
    h = 5381
    for b in data:
        h = (h * 33 + b) & 0xffffffff
    return h


def main():
    seeds = [n for part in sys.argv[2].split(",") for first, _, last in [part.partition("-")]
             for n in range(int(first), int(last or first) + 1)]
    expected = {}
    if len(sys.argv) > 3:
        with open(sys.argv[3], encoding="utf-8") as f:
            expected = dict(json.loads(line) for line in f)
    behind = Behind()
    different = 0
    for seed in seeds:
        w = Walk(seed, expected[seed] if expected else None, behind)
        try:
            w.walk()
            if not expected:
                print(json.dumps([seed, w.steps]), flush=True)
        except Different as d:
            different += 1
            print(f"seed {seed}, step {len(w.steps)}: {d}", flush=True)
        finally:
            w.end()
    print(f"# {len(seeds)} seeds, {different} different", file=sys.stderr)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
