#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
rnic/esock.h between two of our programs, over the kernel's sockets (an ordinary user) and over rnicd's streams; and
with two peers in Python: one written from doc/extended-sockets.md, and one that knows the RFCs of iWARP only.
"""
import os
import signal
import socket
import sys
import urllib.request

import programs
import wire
import wire_esock
from host_rig import Host
from rig import PATIENCE, RNICRUN, Daemon, case, example, helper, main, pair_conf, until
from wire_esock import CREDIT, DATA, END, Bytes, hello, message

A = programs.A
ADDRESS = 0x40000000
SIZE = 4 << 20


def pattern(begin, end):
    return bytes((i * 2654435761 & 0xFFFFFFFF) >> 24 ^ i & 255 for i in range(begin, end))


class End:
    """The program esock_end, which runs commands from its stdin."""

    def __init__(self, run, *argv):
        self.p = run(helper("esock_end"), *[str(a) for a in argv])
        self.seen = 0

    def line(self):
        until(lambda: len(self.p.out) > self.seen or self.p.p.poll() is not None, self.p.tail)
        self.p.p.poll() is None or self.p.join()
        assert len(self.p.out) > self.seen, self.p.tail()
        self.seen += 1
        return self.p.out[self.seen - 1]

    def opened(self):
        word, addr, key = self.line().split()
        assert word == "open", self.p.tail()
        self.addr, self.key = int(addr), int(key)
        return self

    def say(self, *words):
        self.p.p.stdin.write(" ".join(str(w) for w in words) + "\n")
        self.p.p.stdin.flush()

    def says(self, *words):
        self.say(*words)
        return self.line()

    def ok(self, *words):
        """Returns the result of this command, or without words that of the command which say() has sent before."""
        if words:
            self.say(*words)
        line = self.line()
        assert line.startswith("ok"), f"{words}: {line}\n{self.p.tail()}"
        return line.split()[1:]

    def fails(self, errno, *words):
        if words:
            self.say(*words)
        line = self.line()
        assert line.split()[:2] == ["failed", errno], f"{words}: {line}\n{self.p.tail()}"
        return line

    def over(self):
        self.p.p.stdin.close()
        assert self.p.wait() == 0, self.p.tail()


def on_daemon(d, design):
    return lambda *argv: d.run(RNICRUN, "--sockets", "--design", design, *argv)


def pair(run, port, kinds=("bytes", "bytes"), roles=("passive", "active"), sizes=((), ())):
    s = End(run, "listen", A, port, roles[0], kinds[0], *sizes[0])
    assert s.line() == "listening", s.p.tail()
    c = End(run, "connect", A, port, roles[1], kinds[1], *sizes[1])
    return s.opened(), c.opened()


def embedded(h):
    return lambda *argv: h.run(RNICRUN, *argv)


def wakes(end):
    """poll() must find the descriptor readable, although no call before has found nothing."""
    assert end.ok("poll", 500 * PATIENCE) == ["1"], "poll() sleeps"


def quiet(end, *call, says):
    """Waits until this call finds nothing and poll() does not find the descriptor readable. A completion that a call
    has taken may make it readable a little later."""
    until(lambda: end.says(*call).startswith(says) and end.ok("poll", 0) == ["0"], end.p.tail)


def everywhere(job):
    """Runs the job over the kernel's sockets, and over rnicd's streams in the designs host and assisted."""
    with Host() as h:
        job(embedded(h), 0)
    with Daemon(pair_conf()) as d:
        job(on_daemon(d, "host"), 1)
        job(on_daemon(d, "assisted"), 2)


@case
def cancelled_threads_hinder_no_other():
    with Host() as h:
        s, c = pair(embedded(h), 7490)
        c.say("cancelled")
        assert c.line() == "cancelled", c.p.tail()
        s.ok("send", 1)
        assert c.ok() == ["0"]
        s.ok("send", 3000)
        assert c.ok("recv", 3000) == ["3000"]
        for end in (c, s):
            end.ok("close")
            end.over()


def bytes_go_on(run, row):
    """Bytes in both directions, more than all slots hold, also at the same time; with small slots and with slots of
    unequal size; then each end is shut down."""
    sizes = (((4, 64), (4, 64)), ((32, 16384), (5, 100)), ((), ()))[row]
    n = 3000 if row == 0 else 30000 if row == 1 else 3000000
    s, c = pair(run, 7400 + row, sizes=sizes, roles=("active", "passive") if row == 1 else ("passive", "active"))
    for out, way in ((c, "send"), (s, "send"), (c, "writev"), (s, "writev")):
        into = s if out is c else c
        out.say(way, n)
        assert into.ok("recv", n) == [str(n)]
        out.ok()
    for e in (s, c):
        e.say("both", n)
    for e in (s, c):
        assert e.ok() == [str(n)]
    # with few slots, bytes that were sent may wait until the other end reads
    c.say("send", 1)
    c.say("shutdown")
    assert s.ok("recv", 10) == ["1"] and s.ok("recv", 10) == ["0"]
    c.ok(), c.ok()
    c.fails("EPIPE", "send", 1)
    s.say("send", 5)
    assert c.ok("recv", 5) == ["5"]
    s.ok()
    s.say("close")
    assert c.ok("recv", 1) == ["0"]
    s.ok()
    c.ok("close")
    s.over(), c.over()


@case
def bytes_go_on_as_before_over_every_kind_of_socket():
    everywhere(bytes_go_on)


def messages(run, row):
    """Sends to receives that were posted before and after the switch to iWARP; Writes and Reads; a forbidden Write."""
    s, c = pair(run, 7410 + row, ("messages", "messages"))
    half = SIZE // 2
    for i, size in enumerate((1, 65536, 7, 3000)):
        c.ok("post_send", i * 65536, size)
        assert c.ok("send_done", 1, -1) == ["1", f"{i * 65536}:{size}:0"]
        assert s.ok("recv_done", 1, -1) == ["1", f"{half + i * 65536}:{size}:0"]
    quiet(s, "recv_done", 1, 0, says="ok 0")
    s.fails("EOPNOTSUPP", "recv", 1)
    assert "rnic_sock_post_send" in c.fails("EOPNOTSUPP", "send", 1)
    assert "rnic_sock_register" in s.fails("EFAULT", "unregistered")
    c.ok("set", 0, 1000000, 0x5A)
    c.ok("write", 0, 1000000, s.addr + 17, s.key)
    assert c.ok("send_done", 4, -1) == ["1", "0:1000000:0"]
    c.ok("read", 2000000, 1000017, s.addr, s.key)
    assert c.ok("send_done", 4, -1) == ["1", "2000000:1000017:0"]
    assert s.ok("is", 17, 1000000, 0x5A) == c.ok("is", 2000017, 1000000, 0x5A) == ["1000000"]
    assert int(c.ok("qp")[0]) > 0
    for i in range(128):
        s.ok("post_recv", half + i * 16, 16)
    s.fails("EAGAIN", "post_recv", 0, 16)
    assert s.ok("poll", 0) == ["0"]
    c.ok("post_send", 0, 16)
    assert s.ok("poll", -1) == ["1"] and s.ok("recv_done", 64, 0) == ["1", f"{half}:16:0"]
    assert c.ok("send_done", 1, -1) == ["1", "0:16:0"]
    c.ok("write", 0, 1000, s.addr + SIZE - 10, s.key)
    c.ok("send_done", 1, -1)
    assert s.ok("recv_done", 64, -1)[1].endswith(":ECANCELED")
    c.ok("close"), s.ok("close")
    s.over(), c.over()


@case
def messages_and_one_sided_calls_use_the_programs_own_memory():
    everywhere(messages)


@case
def bytes_messages_and_writes_go_together():
    with Host() as h:
        s, c = pair(embedded(h), 7420)
        s.ok("post_recv", 0, 100)
        s.ok("post_recv", 1000, 65536)
        c.ok("post_send", 0, 5000)
        assert c.ok("send_done", 1, -1) == ["1", "0:5000:0"]
        assert s.ok("recv_done", 1, -1) == ["1", "0:100:0"]
        assert s.ok("recv_done", 1, -1) == ["1", "1000:4900:0"]
        c.fails("EMSGSIZE", "post_send", 0, 20000)
        c.ok("set", 0, 300, 0x77)
        c.ok("write", 0, 300, s.addr + 2000000, s.key)
        c.ok("send", 10)
        assert s.ok("recv", 10) == ["10"] and s.ok("is", 2000000, 300, 0x77) == ["300"]
        for e in (s, c):
            e.ok("nonblock")
        quiet(s, "recv", 1, says="failed EAGAIN")
        c.ok("send", 3)
        assert s.ok("poll", -1) == ["1"] and s.ok("recv", 2) == ["2"] and s.ok("poll", 0) == ["1"]
        assert s.ok("recv", 1) == ["1"]
        s.fails("EAGAIN", "recv", 1)
        assert "no slot" in c.fails("EAGAIN", "send", 2000000)
        s.p.p.send_signal(signal.SIGKILL)
        while "EAGAIN" in (said := c.says("recv", 1)):  # the connection's queues may be flushed before its end is told
            assert c.ok("poll", -1) == ["1"]
        assert said.startswith("failed ECONNRESET") and "gone" in said, said
        c.fails("EPIPE", "send", 1)
        c.ok("close")
        c.over()


def uses_all_slots(end):
    """Posts messages of 100 bytes until the peer has no slot free; returns the number of bytes."""
    n = 0
    while (said := end.says("post_send", n, 100)) == "ok 0":
        n += 100
    assert said.startswith("failed EAGAIN") and "no slot" in said, said
    return n


@case
def poll_wakes_for_what_comes_after_a_call_that_has_taken_everything():
    with Host() as h:
        s, c = pair(embedded(h), 7424)
        c.ok("send", 1)
        assert s.ok("recv", 1) == ["1"]
        for e in (s, c):
            e.ok("nonblock")
        quiet(s, "recv", 1, says="failed EAGAIN")
        for _ in range(2):
            c.ok("send", 3)
            wakes(s)
            assert s.ok("recv", 3) == ["3"]
        for i in range(2):
            s.ok("post_recv", 100 * i, 100)
            c.ok("send", 5)
            wakes(s)
            assert s.ok("recv_done", 1, 0) == ["1", f"{100 * i}:5:0"]
        s.ok("post_send", 0, 7)
        wakes(s)
        until(lambda: s.ok("send_done", 1, 0) == ["1", "0:7:0"], s.p.tail)
        c.ok("send", 3)
        wakes(s)
        until(lambda: s.says("recv", 3) == "ok 3", s.p.tail)
        # the end of the stream is found by the call that takes the last byte, or comes after it
        c.ok("send", 1)
        c.ok("shutdown")
        wakes(s)
        until(lambda: s.says("recv", 1) == "ok 1", s.p.tail)
        wakes(s)
        until(lambda: s.says("recv", 1) == "ok 0", s.p.tail)
        wakes(s)
        for e in (c, s):
            e.ok("close")
            e.over()


@case
def poll_wakes_for_bytes_that_a_call_to_send_has_received():
    with Host() as h:
        s, c = pair(embedded(h), 7428)
        s.ok("nonblock")
        n = uses_all_slots(s)
        done = 0
        while done < n // 100:
            done += int(s.ok("send_done", 64, -1)[0])
        c.ok("send", 5)
        wakes(s)
        s.fails("EAGAIN", "post_send", n, 100)
        wakes(s)
        until(lambda: s.says("recv", 5) == "ok 5", s.p.tail)
        for e in (c, s):
            e.ok("close")
            e.over()


@case
def a_send_that_may_not_block_fails_while_the_peer_has_no_slot_free():
    with Host() as h:
        s, c = pair(embedded(h), 7422)
        c.ok("nonblock")
        n = uses_all_slots(c)
        assert n == 3000  # of the 32 credits the first was for a CREDIT, and so is the last
        assert s.ok("recv", n) == [str(n)]
        until(lambda: c.says("post_send", n, 100) == "ok 0", c.p.tail)
        assert s.ok("recv", 100) == ["100"]
        for e in (c, s):
            e.ok("close")
            e.over()


@case
def a_shutdown_that_may_not_block_returns_and_the_end_follows_when_the_peer_has_a_slot_free():
    with Host() as h:
        s, c = pair(embedded(h), 7423)
        c.ok("nonblock")
        n = uses_all_slots(c)
        c.ok("shutdown")
        for call in (("send", 1), ("post_send", n, 100), ("shutdown",)):
            assert "ended its byte stream" in c.fails("EPIPE", *call)
        assert s.ok("recv", n) == [str(n)]
        s.say("recv", 1)
        until(lambda: c.fails("EAGAIN", "recv", 1) and len(s.p.out) > s.seen, s.p.tail)
        assert s.ok() == ["0"]
        for e in (c, s):
            e.ok("close")
            e.over()


@case
def an_end_that_wants_messages_alone_has_no_bytes():
    with Host() as h:
        for row, kinds in enumerate((("bytes", "messages"), ("messages", "bytes"))):
            s, c = pair(embedded(h), 7425 + row, kinds)
            for e in (s, c):
                e.fails("EOPNOTSUPP", "send", 1)
                e.fails("EOPNOTSUPP", "recv", 1)
                e.fails("EOPNOTSUPP", "shutdown")
            c.ok("close"), s.ok("close")
            s.over(), c.over()


@case
def the_end_that_lives_hears_of_the_end_that_is_killed():
    with Host() as h:
        for row, dies in enumerate((0, 1)):
            both = pair(embedded(h), 7430 + row)
            victim, other = both[dies], both[1 - dies]
            other.say("recv", 100)
            victim.ok("send", 10)
            victim.p.p.send_signal(signal.SIGKILL)
            other.fails("ECONNRESET")
            other.ok("close")
            other.over()


class Raw:
    """One of our programs, and a peer in Python on the kernel's TCP, with extended sockets or without."""

    def __init__(self, h, port, role="passive", kind="bytes", priv=hello(), slots=8):
        self.slots = slots
        if role == "passive":
            self.e = End(embedded(h), "listen", A, port, role, kind)
            assert self.e.line() == "listening"
            self.s = socket.create_connection((A, port), timeout=PATIENCE)
        else:
            listener = socket.create_server((A, port))
            self.e = End(embedded(h), "connect", A, port, role, kind)
            self.s, _ = listener.accept()
            listener.close()
        self.s.sendall(b"streams\n")
        got = b""
        while not got.endswith(b"\n"):
            got += self.s.recv(1)
        self.p = wire.Peer(self.s)
        if role == "passive":
            self.p.raw(wire.mpa_request(priv=priv))
            self.flags, _, self.priv = self.p.frame()
            self.priv = self.priv[4:]
        else:
            self.flags, _, self.priv = self.p.frame(wire.REQ)
            self.priv = self.priv[4:]
            self.p.raw(wire.mpa_request(flags=self.flags & ~wire.M, key=wire.REP, priv=priv))
        self.p.crc = bool(self.flags & wire.C)

    def bytes(self):
        return Bytes(self.p, self.slots, self.priv)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.s.close()


def speaks(h, port, role):
    with Raw(h, port, role) as r:
        assert r.priv == hello(32, 16384), r.priv
        b = r.bytes()
        if role == "active":  # the initiator's first message allows the responder to send
            assert b.get() == (CREDIT, b"")
        b.put(DATA, pattern(0, 5))
        e = r.e.opened()
        assert e.ok("recv", 5) == ["5"]
        e.say("send", 40000)  # ten times as many bytes as the peer's slots hold
        assert b.read(40000) == pattern(0, 40000)
        e.ok()
        assert set(b.kinds) <= {DATA, CREDIT} and len(b.kinds) >= 10
        e.say("recv", 200000)
        at = 5
        while at < 200005:
            while b.credits < 2:
                assert b.get() == (CREDIT, b"")
            n = min(3000, 200005 - at)
            b.put(DATA, pattern(at, at + n))
            at += n
        assert e.ok() == ["200000"]
        while b.credits < 2:
            b.get()
        b.put(END)
        assert e.ok("recv", 1) == ["0"]
        e.say("close")
        while not b.ended:
            b.get()
        r.s.close()
        e.ok()
        e.over()


@case
def a_peer_that_was_written_from_the_document_exchanges_bytes():
    with Host() as h:
        speaks(h, 7440, "passive")
        speaks(h, 7441, "active")


@case
def a_peer_of_iwarp_alone_gets_messages_and_no_bytes():
    with Host() as h:
        for row, (role, priv) in enumerate((("passive", b""), ("active", b""), ("passive", b"RNX1 something"),
                                            ("active", b"other private data"))):
            with Raw(h, 7450 + row, role, "bytes", priv) as r:
                assert r.priv == (b"" if role == "passive" else hello(32, 16384)), r.priv
                e = r.e.opened()
                e.ok("post_recv", 0, 100)
                assert "extended sockets" in e.fails("EOPNOTSUPP", "recv", 1)
                e.fails("EOPNOTSUPP", "send", 1)
                r.p.put(wire.send(1, pattern(0, 50)))
                assert e.ok("recv_done", 1, -1) == ["1", "0:50:0"]
                e.ok("post_send", 1000, 70)
                u = r.p.get()
                while u[1] & 15 == wire.WRITE:
                    u = r.p.get()
                assert u[18:] == pattern(0, 70)
                r.s.shutdown(socket.SHUT_WR)
                e.ok("close")
                e.over()


@case
def private_data_that_begins_right_and_is_wrong_ends_the_switch():
    bad = (b"RNXS", hello()[:11], hello(version=0), hello(slots=3), hello(slots=4097), hello(size=63),
           hello(size=(1 << 20) + 1))
    with Host() as h:
        for row, priv in enumerate((*bad, hello(version=2))):
            # the Reply has the version of the Request, so only an active program can meet a Reply of another version
            role = "active" if row >= len(bad) - 1 else "passive"
            with Raw(h, 7460 + row, role, "bytes", priv) as r:
                assert "private data" in r.e.fails("EPROTO"), r.e.p.tail()
                assert role == "active" or r.flags & wire.R, r.flags
                assert r.e.p.wait() == 1


@case
def a_later_version_is_answered_with_ours_and_what_is_behind_a_hello_is_left_alone():
    with Host() as h:
        for row, priv in enumerate((hello(version=7), hello(flags=255) + bytes(100))):
            with Raw(h, 7470 + row, "passive", "bytes", priv) as r:
                r.bytes().put(DATA, pattern(0, 3))
                assert r.priv[4] == 1 and r.e.opened().ok("recv", 3) == ["3"]


@case
def messages_against_the_rules_end_the_connection_with_a_sentence():
    rules = ((message(DATA), "length"), (message(CREDIT, data=b"x"), "length"), (message(END, data=b"x"), "length"),
             (b"short", "shorter"), (message(0), "kind"), (message(4, data=b"x"), "kind"),
             (message(DATA, zero=1, data=b"x"), "kind"), (message(DATA, grant=1, data=b"x"), "more receives"),
             (message(CREDIT, grant=0xFFFFFFFF), "more receives"))
    with Host() as h:
        for row, (text, _) in enumerate(rules):
            with Raw(h, 7480 + row) as r:
                e = r.e.opened()
                e.say("recv", 1)
                r.p.put(wire.send(1, text))
                assert "rules" in e.fails("EPROTO"), e.p.tail()
                try:
                    while True:
                        r.p.get()
                except wire.Closed:
                    pass
                e.ok("close")
                e.over()
        with Raw(h, 7495) as r:
            b = r.bytes()
            b.put(END)
            b.put(DATA, b"x")
            e = r.e.opened()
            until(lambda: e.say("send", 1) or e.line() != "ok 1", e.p.tail)
            assert "EPROTO" in e.p.out[-1] and "behind its end" in e.p.out[-1], e.p.tail()


def fetched(run, h, port):
    """Fetches files of several lengths by RDMA Write and compares each; the same server also answers a plain HTTP
    client."""
    folder = os.path.join(h.dir, f"files{port}")
    os.mkdir(folder)
    for name, size in (("empty", 0), ("small", 5), ("large", 10000001)):
        with open(os.path.join(folder, name), "wb") as f:
            f.write(os.urandom(size))
    s = run(example("httpd_rdma"), "-s", A, str(port), folder)
    s.wait_line("listening")
    for name in sorted(os.listdir(folder)):
        got = os.path.join(h.dir, f"got{port}-{name}")
        out = run(example("httpd_rdma"), A, str(port), name, got).ok()
        with open(got, "rb") as mine, open(os.path.join(folder, name), "rb") as theirs:
            data = theirs.read()
            assert mine.read() == data and out == f"{len(data)} bytes by RDMA Write", out
    c = run(example("httpd_rdma"), A, str(port), "none", os.path.join(h.dir, f"none{port}"))
    assert c.wait() == 1 and "does not have it" in c.stderr(), c.tail()
    return folder


@case
def a_server_answers_headers_by_bytes_and_bodies_by_rdma_write():
    with Host() as h:
        folder = fetched(embedded(h), h, 7500)
        with urllib.request.urlopen(f"http://{A}:7500/large", timeout=PATIENCE) as r, \
                open(os.path.join(folder, "large"), "rb") as f:
            assert r.read() == f.read()
    with Daemon(pair_conf()) as d:
        fetched(on_daemon(d, "host"), d, 7501)


sys.exit(main())
