# SPDX-License-Identifier: BSD-3-Clause
"""
The steps that make up a row of the table. Steps send and expect exact bytes on one connection between our peer
(test/e2e/wire.py) and the device under test, in order. A step is a function of the Exchange. Where a step takes bytes,
a function of the Exchange may stand in their place, for values that are known only at run time (STags, addresses).
"""
import dataclasses
import re
import select
import socket
import struct
import time

import wire
from dut import DEPTH
from wire import C, R, S, READ_REQ, READ_RESP, SEND, TERMINATE, WRITE, Closed, Peer, tagged, terminate, untagged

RDMAP, DDP, LLP = 0, 1, 2
WATCHED = ("rw", "wo", "ro", "lo", "other", "at")
# in the order of target.c, from which the first content of a region follows (content())
REGIONS = ("rw", "wo", "ro", "lo", "other", "gone", "inv", "inv2", "at")
FREE = 40960  # rows may write to region rw from this offset on; the target sends the bytes before it
MODEST = {"ird": DEPTH, "ord_": DEPTH}
RECV = 128  # IBV_WC_RECV
HDRCT = {"none": 0, "ddp": 0xC0, "read": 0xE0}
NAMES = {WRITE: "Write", READ_REQ: "Read Request", READ_RESP: "Read Response", SEND: "Send", 4: "Send with Invalidate",
         5: "Send with SE", 6: "Send with SE and Invalidate", TERMINATE: "Terminate", 8: "Immediate Data",
         9: "Immediate Data with SE", 10: "Atomic Request", 11: "Atomic Response"}


WC = re.compile(r"wc \d+ \d+ (.*) (\d+) [0-9a-f]+ [0-9a-f]+ ([0-9a-f]*)")


class Differs(AssertionError):
    """The device breaks the rule; the text continues "rnicd ..." or "siw ..."."""


class Mirrored(Differs):
    """
    The device keeps the rule, but the bits of the Terminate's first octets are in mirrored order (see rc_quirk.h).
    """


@dataclasses.dataclass
class Row:
    name: str
    section: str  # RFC and section, as "5044 7.1.2"
    level: str     # MUST, SHOULD, MAY
    role: str  # the device's: responder or initiator
    text: str
    steps: tuple
    variant: str = "plain"
    note: str = ""


TABLE = []


def row(name, section, role, text, *steps, level="MUST", variant="plain", note=""):
    assert name not in [r.name for r in TABLE], name
    TABLE.append(Row(name, section, level, {"R": "responder", "I": "initiator"}[role], text, steps, variant, note))


def describe(u):
    """Describes an ULPDU in words."""
    if len(u) < 14:
        return f"an FPDU of {len(u)} bytes"
    name = NAMES.get(u[1] & 15, f"opcode {u[1] & 15}")
    if u[1] & 15 == TERMINATE:
        return f"Terminate {u[18:22].hex(' ')}"
    return f"{name} {u[:18].hex()} and {len(u) - (14 if u[0] & 0x80 else 18)} bytes"


class Exchange:
    """One row on one device."""

    names = 0

    def __init__(self, dut, r):
        self.dut, self.row = dut, r
        self.place = dut.place(r.variant)
        self.t = self.place.target
        self.port = self.place.port
        self.at = self.t.mark()
        self.p = None
        self.number = None
        self.sent = []
        self.mss = 0
        self.read_msn = 0
        self.taken = {}
        self.altered = False
        self.mirrored = None

    def run(self):
        guarded = any(getattr(s, "guards", False) for s in self.row.steps)
        before = [self.t.sum(r) for r in WATCHED] if guarded else None
        try:
            for s in self.row.steps:
                s(self)
            if guarded and before != [self.t.sum(r) for r in WATCHED]:
                raise Differs("has placed bytes")
            if self.mirrored:
                raise Mirrored(self.mirrored)
        except socket.timeout:
            raise Differs("says nothing and keeps the connection") from None
        except Closed as c:
            raise Differs("resets the connection" if c.reset else "closes the connection") from None
        finally:
            if self.p is not None:
                self.p.close()
            if self.altered:
                self.place.listen("accept")

    # ---- the connection ----

    def adopt(self, peer):
        self.p = peer
        peer.s.settimeout(wire.PATIENCE)
        self.mss = peer.s.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)

    def open(self):
        self.adopt(Peer(port=self.port, addr=self.place.addr))

    def get(self):
        """
        Receives the next FPDU. Empty Writes of an initiator are skipped: they may come at any time, as rc_quirk.h's
        nudges do.
        """
        while True:
            u = self.p.get()
            if not (self.row.role == "initiator" and self.row.variant != "p2p" and len(u) == 14 and u[1] & 15 == WRITE):
                return u

    def value(self, v):
        return v(self) if callable(v) else v

    # ---- what the target has said about this connection ----

    def lines(self, prefix):
        return [s for s in self.t.out[self.at:] if s.startswith(prefix)]

    def said(self, prefix, nth=0, what=None, patience=None):
        end = time.monotonic() + (patience or wire.PATIENCE)
        while time.monotonic() < end:
            found = self.lines(prefix)
            if len(found) > nth:
                return found[nth]
            time.sleep(0.002)
        raise Differs(what or f"application prints no '{prefix}'")

    # ---- memory ----

    def mr(self, name):
        return self.t.mr[name]

    def content(self, name, off, n):
        """The bytes with which the target has filled a region."""
        i = REGIONS.index(name)
        return bytes((b * 7 + i) & 0xFF for b in range(off, off + n))

    def write(self, name, off, data, **bits):
        stag, addr, _ = self.mr(name)
        return tagged(WRITE, stag, (addr + off) & 0xFFFFFFFFFFFFFFFF, data, **bits)

    def read(self, name, off, n, sink=(0x5151, 0x1000)):
        """A Read Request with the next MSN."""
        self.read_msn += 1
        stag, addr, _ = self.mr(name)
        return wire.read_req(self.read_msn, sink, n, (stag, (addr + off) & 0xFFFFFFFFFFFFFFFF))


def step(f):
    """Decorator: calling the function with the arguments of a step returns the step, a function of the Exchange."""
    def make(*a, **k):
        def run(x):
            return f(x, *a, **k)
        run.guards = f.__name__ == "terminated" and k.pop("guard", True)
        return run
    return make


# ---- set-up, we as initiator ----

@step
def request(x, **how):
    """Opens a connection and sends an MPA Request."""
    x.open()
    how = {**MODEST, "flags": C | S, **how}
    if "priv" not in how:
        Exchange.names += 1
        how["priv"] = b"row%08x" % Exchange.names
    pieces = how.pop("pieces", None)
    x.how = how
    trickle(x, wire.mpa_request(**how), pieces)


def trickle(x, data, size=None):
    """Sends the data in one piece, or in pieces of `size` bytes with a pause between them."""
    for i in range(0, len(data), size or len(data)):
        x.p.raw(data[i:i + (size or len(data))])
        if size:
            time.sleep(0.001)


@step
def reply(x, key=wire.REP, set_=0, clear=R, rev=None, ird=None, ord_=None, a=None, kinds=None, priv=None):
    """
    Receives the Reply and checks it. set_, clear: flags that must, and must not, be there. Of the enhanced words: the
    values allowed as IRD and ORD (ird, ord_), the A bit, and the allowed sets of RTR kinds (B, C, D count as 4, 2, 1).
    """
    x.flags, x.rev, x.words = x.p.frame(key)
    if x.flags & set_ != set_:
        raise Differs(f"replies without flags {set_ & ~x.flags:#04x} (flags {x.flags:#04x}, revision {x.rev})")
    if x.flags & clear:
        raise Differs(f"replies with flags {x.flags & clear:#04x} set (flags {x.flags:#04x}, revision {x.rev})")
    if rev is not None and x.rev != rev:
        raise Differs(f"replies in revision {x.rev}")
    x.p.crc = bool(x.flags & C)
    if x.flags & S and x.rev >= 2:
        if len(x.words) < 4:
            raise Differs("replies with S and without IRD and ORD")
        w0, w1 = struct.unpack(">HH", x.words[:4])
        x.kinds = (4 if w0 & 0x4000 else 0) | w1 >> 14
        if ird is not None and w0 & 0x3FFF not in ird:
            raise Differs(f"replies IRD {w0 & 0x3FFF}")
        if ord_ is not None and w1 & 0x3FFF not in ord_:
            raise Differs(f"replies ORD {w1 & 0x3FFF}")
        if a is not None and (w0 >> 15) != a:
            raise Differs(f"replies A={w0 >> 15}")
        if kinds is not None and x.kinds not in kinds:
            raise Differs(f"replies RTR kinds {x.kinds} (B C D as 4 2 1)")
        x.words = x.words[4:]
    elif ird is not None or a is not None:
        raise Differs("replies without IRD and ORD")
    if priv is not None and x.words != priv:
        raise Differs(f"replies private data {x.words.hex()}")


@step
def known(x):
    """The application gets the event of our request."""
    x.number = x.t.event("CONNECT_REQUEST", x.at, x.how["priv"][:200])


@step
def settled(x):
    time.sleep(x.dut.settle)


def accepted(**how):
    """Set-up to Full Operation, with us as an initiator of small IRD and ORD: the beginning of most rows."""
    return then(request(**how), reply(), known(), settled())


def then(*steps):
    def run(x):
        for s in steps:
            s(x)
    return run


# ---- set-up, we as responder ----

@step
def called(x, priv=0):
    """Makes the target connect to us, and receives its Request."""
    mark = x.at = x.t.mark()
    x.t.tell(f"connect {x.place.host} {x.place.s.getsockname()[1]} {priv}")
    x.number = x.t.event("ADDR_RESOLVED", mark)
    s, _ = x.place.s.accept()
    x.adopt(Peer(sock=s))
    x.flags, x.rev, x.words = x.p.frame(wire.REQ)


@step
def requested(x, clear, rev, priv=None, a=None):
    """Checks the Request."""
    if x.flags & clear:
        raise Differs(f"requests with flags {x.flags & clear:#04x} set")
    if x.rev not in rev:
        raise Differs(f"requests in revision {x.rev}")
    words = x.words[:4] if x.flags & S and x.rev >= 2 else b""
    if words and a is not None and words[0] >> 7 != a:
        raise Differs(f"requests A={words[0] >> 7}")
    if priv is not None and x.words[len(words):][:priv] != bytes(range(priv)):
        raise Differs("requests with other private data than the application's")


@step
def answer(x, key=wire.REP, set_=0, flags=None, rev=None, plain=False, words=None, ird=DEPTH, ord_=DEPTH, a=None,
           rtr=0, priv=b"", pd_len=None, pieces=None):
    """
    Sends a Reply that takes what the Request asks for. plain: without the enhanced words; words: other octets in their
    place.
    """
    enhanced = x.flags & S and x.rev >= 2 and not plain
    asked_a = x.words[0] >> 7 if enhanced else 0
    a = asked_a if a is None else a
    body = words if words is not None else struct.pack(
        ">HH", a << 15 | (0x4000 if rtr & 4 else 0) | ird, (rtr & 3) << 14 | ord_) if enhanced else b""
    f = (x.flags & C) | (S if enhanced else 0) | set_ if flags is None else flags
    body += priv
    x.p.crc = bool((f | x.flags) & C)
    frame = key + struct.pack(">BBH", f, x.rev if rev is None else rev, len(body) if pd_len is None else pd_len) + body
    trickle(x, frame, pieces)


@step
def established(x):
    x.said(f"cm {x.number} RDMA_CM_EVENT_ESTABLISHED", what="application gets no event ESTABLISHED")


@step
def told(x, *events, priv=None, patience=None):
    """The application gets one of these events."""
    line = x.said(tuple(f"cm {x.number} RDMA_CM_EVENT_{e}" for e in events), patience=patience,
                  what=f"application gets no event {' or '.join(events)}")
    if priv is not None and priv.hex() not in line:
        raise Differs("does not give the application the private data")


def connected(**how):
    """Set-up to Full Operation, with the device as initiator."""
    return then(called(), answer(**how), established())


# ---- Full Operation ----

@step
def put(x, *ulpdus, **how):
    """Sends FPDUs, all in one write."""
    us = []
    for u in ulpdus:
        u = x.value(u)
        us += [u] if isinstance(u, bytes) else list(u)
    x.sent += us
    x.p.put(*us, **how)


@step
def raw(x, data, pieces=None):
    """Sends bytes as they are."""
    trickle(x, x.value(data), pieces)


@step
def do(x, command):
    """The application carries out a command, such as a post; {n} stands for the number of the connection."""
    x.t.tell(command.format(n=x.number))


@step
def tries(x, command):
    """The application tries a command that may be refused."""
    x.t.say(command.format(n=x.number))


@step
def expects(x, *ulpdus):
    """Receives exactly these FPDUs, in this order."""
    for u in ulpdus:
        want = x.value(u)
        got = x.get()
        if got != want:
            if got[:18] == want[:18] and len(got) == len(want):
                raise Differs(f"sends a {NAMES[got[1] & 15]} with other bytes")
            raise Differs(f"sends {describe(got)}; {describe(want)} was due")


@step
def message(x, first, data, most=None):
    """
    Receives a message of one or more segments; `first` is the ULPDU header of the first segment. MO or TO must continue
    where the segment before ended, L must be set in the last segment only, and the other fields must not change. most:
    the octets by which an FPDU may be longer than TCP's MSS, since the kernel reports the MSS without the room for
    timestamps.
    """
    first, data, have = x.value(first), x.value(data), b""
    head = 14 if first[0] & 0x80 else 18
    while True:
        u = x.get()
        if head == 14:
            want = struct.pack(">Q", struct.unpack_from(">Q", first, 6)[0] + len(have))
        else:
            want = struct.pack(">I", len(have))
        want = first[1:head - len(want)] + want
        if u[1:head] != want or u[0] & 0xBF != first[0] & 0xBF:
            raise Differs(f"sends {describe(u)} after {len(have)} bytes of a {NAMES[first[1] & 15]}")
        if most and 2 + len(u) + 4 > x.mss + most:
            raise Differs(f"sends an FPDU of {len(u) + 6} bytes, TCP's MSS is {x.mss}")
        have += u[head:]
        if u[0] & 0x40:
            break
    if have != data:
        raise Differs(f"sends a {NAMES[first[1] & 15]} of {len(have)} bytes that differ from the {len(data)} due")


@step
def terminated(x, layer, etype, code, copies="none", of=-1, also=(), answered=False):
    """
    Receives exactly one Terminate, then the end of the stream. copies: the headers of the offending segment that the
    Terminate must contain, or a tuple of the allowed choices. of: index of that segment among those sent; None: any of
    them. also: other (layer, type, code) that the RFC's text allows. answered: Responses to Reads may come first.
    A row with this step also checks that no region has changed, unless step() is given guard=False.
    """
    u = x.get()
    while answered and u[1] & 15 == READ_RESP:
        u = x.get()
    blamed = x.sent if of is None else x.sent[of:][:1] or [b""]
    judge(x, u, [untagged(TERMINATE, 2, 1, bytes([la << 4 | ty, co, HDRCT[what], 0]) + copied(bad, what))
                 for la, ty, co in ((layer, etype, code), *also) for bad in blamed
                 for what in ((copies,) if isinstance(copies, str) else copies)])


def copied(bad, copies):
    if copies == "none":
        return b""
    head = 14 if bad[0] & 0x80 else 18
    return struct.pack(">H", len(bad)) + bad[:head + (28 if copies == "read" else 0)]


def judge(x, u, wants):
    """Checks that a Terminate is one of these, and that the stream ends after it."""
    if u[1] & 15 != TERMINATE:
        raise Differs(f"sends {describe(u)}; a Terminate was due")
    if u not in wants:
        got, due = u[18:22], wants[0][18:22]
        text = f"sends Terminate {got.hex(' ')}, {due.hex(' ')} is due"
        if u[:18] != wants[0][:18]:
            raise Differs(f"{text}; the header of this Terminate: {u[:18].hex()}")
        if got == due:
            raise Differs(f"sends a Terminate with the headers {u[22:].hex()}, {wants[0][22:].hex()} is due")
        if got not in [mirror(w[18:22]) for w in wants]:
            raise Differs(text)
        x.mirrored = text
    try:
        more = x.get()
    except Closed:
        return
    raise Differs(f"sends {describe(more)} after its Terminate")


def mirror(control):
    """
    A Terminate's control octets as a compiler for x86 lays out C bit-fields: nibbles are swapped, M, D and R are 1, 2,
    4.
    """
    bits = sum(m for n, m in ((0x80, 1), (0x40, 2), (0x20, 4)) if control[2] & n)
    return bytes([control[0] >> 4 | (control[0] & 15) << 4, control[1], bits, 0])


@step
def ends_somehow(x, *layers):
    """Receives a Terminate of one of these layers, with any code, then the end of the stream."""
    try:
        u = x.get()
    except Closed:
        raise Differs("closes without a Terminate") from None
    if u[1] & 15 != TERMINATE:
        raise Differs(f"sends {describe(u)}; a Terminate was due")
    if u[18] >> 4 not in layers and u[18] & 15 not in layers:
        raise Differs(f"sends {describe(u)}")
    judge(x, u, [u])


@step
def closes_or_says(x, layer, etype, code):
    """The stream ends, with or without this Terminate."""
    try:
        u = x.get()
    except Closed:
        return
    judge(x, u, [terminate(layer, etype, code)])


@step
def pause(_, seconds=0.2):
    """Before a step that expects nothing: what must not come has no event, and a longer pause only finds more."""
    time.sleep(seconds)


@step
def closes(x, reset=None):
    """
    The stream ends and no further byte comes, except an initiator's nudges. reset: False asks for a FIN, not a reset.
    """
    try:
        x.p.need(1)
        if x.row.role == "initiator":
            raise Differs(f"sends {x.get()[:40].hex()}; nothing was due")
    except Closed as c:
        if reset is False and c.reset:
            raise Differs("resets the connection") from None
        if not x.p.buf:
            return
    raise Differs(f"sends {x.p.buf[:40].hex()}; nothing was due")


@step
def silent(x, seconds=0.2):
    """For some time nothing comes."""
    end = time.monotonic() + seconds
    while x.p.buf or select.select([x.p.s], [], [], max(0, end - time.monotonic()))[0]:
        x.p.need(1)
        if x.row.role == "responder" or x.p.buf != wire.fpdu(x.p.buf[2:16], crc=x.p.crc) or x.p.buf[3] & 15 != WRITE:
            raise Differs(f"sends {x.p.buf[:40].hex()} too early")
        x.p.buf = b""


@step
def delivered(x, data, opcode=RECV):
    """The application's next receive completes with this message."""
    data = x.value(data)
    nth = x.taken[opcode] = x.taken.get(opcode, -1) + 1
    line = x.said(f"wc {x.number} {opcode} ", nth, what="does not deliver")
    status, size, first = WC.fullmatch(line).groups()
    if status != "success":
        raise Differs(f"completes with '{status}'")
    if int(size) != len(data) or first != data[:16].hex():
        raise Differs(f"delivers {size} bytes {first}")


@step
def undelivered(x, opcode=RECV):
    """No receive has completed with success, beyond those that were checked."""
    good = [s for s in x.lines(f"wc {x.number} {opcode} ") if "success" in s]
    if len(good) > x.taken.get(opcode, -1) + 1:
        raise Differs("delivers it")


@step
def completed(x, opcode, status="success"):
    """A work request of the application completes. opcode: 0 Send, 1 Write, 2 Read."""
    line = x.said(f"wc {x.number} ", what="completes nothing")
    if f" {opcode} " not in line or (status == "success") != ("success" in line):
        raise Differs(f"completes '{line}'")


@step
def finished(x, opcode):
    """A work request of this kind completes with success; other completions may come before it."""
    x.said(f"wc {x.number} {opcode} success", what="does not complete it")


@step
def holds(x, name, off, data):
    """The region has these bytes; checked by an RDMA Read of ours."""
    data = x.value(data)
    sink = (0x7777, 0x4000)
    x.p.put(x.read(name, off, len(data), sink))
    message(tagged(READ_RESP, *sink), data)(x)


@step
def shuts(x):
    """We end our direction of the stream."""
    x.p.s.shutdown(socket.SHUT_WR)


@step
def listens(x, how):
    """From now on this row's connections go to a new listener of the target. how: accept, reject or hold."""
    x.place.listen(how)
    x.port, x.altered = x.place.port, True
