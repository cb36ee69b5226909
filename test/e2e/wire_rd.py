# SPDX-License-Identifier: BSD-3-Clause
"""
A peer of reliable datagrams in Python, on UDP sockets of the kernel, which can send anything. It is written from
doc/datagram-iwarp.md only and uses nothing of the project's own C code. A Device is an address with its flows: it
checks each arriving datagram by the rules of the transport, acknowledges DATA and passes on what DATA carries. A Pair
is one end of a pair of queue pairs: it puts segments in order. A Store is a Pair whose memory the other end may use.
"""
import os
import random
import select
import socket
import struct
import time
from collections import deque, namedtuple

from rig import PATIENCE
from wire import READ_REQ, READ_RESP, SEND, SEND_SE, WRITE, tagged, untagged
from wire_check import crc32c

PORT = 4793
HELLO, COOKIE, DATA, ACK, UNKNOWN = range(32, 37)
F_COOKIE, F_TWICE, F_LATE, F_MUCH = 1, 2, 4, 8
SEGMENT, TAKEN, REFUSED, SEGMENTS = 1, 2, 3, 4
LOOSE, FIRST, LAST, MORE, MUCH, BACK, PACKS = 1, 2, 4, 8, 16, 32, 64
ATOMIC_REQ, ATOMIC_RESP = 10, 11
HEAD, RD_HEAD, SEG_MAX, WINDOW, SEGS = 28, 32, 1360, 256, 16
SPAN, MAP = 64, 8
PART, PARTS = 8, 16  # octets before each segment of a SEGMENTS, and how many segments it has at most
AGAIN = 0.2  # seconds; what is not answered within this time is sent again

Packet = namedtuple("Packet", "kind flags ranges src dst flow token number stamp hold body")
Carried = namedtuple("Carried", "kind flags dst src qkey run peer_run number taken more body rnr room packs")


def now_us():
    return time.monotonic_ns() // 1000 & 0xFFFFFFFF


def summed(data):
    return data + struct.pack("<I", crc32c(data))


def packet(kind, flags=0, ranges=0, src=0, dst=0, flow=0, token=0, number=0, stamp=0, hold=0, body=b"", first=0x10):
    return struct.pack(">BBBBHHIIIII", first, kind, flags, ranges, src, dst, flow, token, number & 0xFFFFFFFF, stamp,
                       hold) + body


def carried(kind, dst, src, qkey=0, run=0, peer_run=0, number=0, taken=0, body=b"", flags=0, more=0, rnr=0,
            room=0):
    word = kind << 24 | (flags | (MORE if more else 0)) << 16 | rnr << 8 | room
    return struct.pack(">8I", word, dst, src, qkey, run, peer_run, number & 0xFFFFFFFF, taken) + \
        (struct.pack(">Q", more) if more else b"") + body


def decode(data):
    """Decodes a datagram of the transport, by the table of the document."""
    assert len(data) >= HEAD + 4, f"{len(data)} octets"
    assert struct.unpack("<I", data[-4:])[0] == crc32c(data[:-4]), "CRC"
    first, *rest = struct.unpack_from(">BBBBHHIIIII", data)
    p = Packet(*rest, data[HEAD:-4])
    assert first == 0x10 and p.flow != 0, p
    assert p.flags & ~{DATA: F_COOKIE | F_MUCH, ACK: F_TWICE | F_LATE | 0xF0}.get(p.kind, 0) == 0, p
    assert p.ranges <= 16 if p.kind == ACK else p.ranges == 0, p
    assert p.kind in (COOKIE, DATA, ACK) or p.number == 0, p
    assert p.kind == ACK or p.hold == 0, p
    if p.kind == HELLO:
        assert p.token == 0 and p.body == bytes(16), p
    elif p.kind == COOKIE:
        assert len(p.body) == 16, p
    elif p.kind == ACK:
        assert len(p.body) == 8 * p.ranges, p
        assert all(p.number < at < to for at, to in ranges_of(p)), ("ranges are above the number", p)
    elif p.kind == UNKNOWN:
        assert p.body == b"" and p.stamp == 0, p
    else:
        assert p.kind == DATA and len(p.body) >= (16 if p.flags & F_COOKIE else 0), p
    return p


def ranges_of(p):
    return [struct.unpack_from(">II", p.body, 8 * i) for i in range(p.ranges)]


def decode_carried(body):
    """Decodes what DATA carries, by the table of the document."""
    assert RD_HEAD <= len(body) <= RD_HEAD + SEG_MAX, len(body)
    word, *rest = struct.unpack_from(">8I", body)
    flags = word >> 16 & 255
    more = struct.unpack_from(">Q", body, RD_HEAD)[0] if flags & MORE else 0
    c = Carried(word >> 24, flags & ~MORE & ~PACKS, *rest, more, body[RD_HEAD + (MAP if flags & MORE else 0):],
                word >> 8 & 255, word & 255, bool(flags & PACKS))
    assert c.rnr <= (7 if c.kind == SEGMENT else 0) and c.kind in (SEGMENT, TAKEN, REFUSED, SEGMENTS), c
    assert flags <= 127 and bool(flags & MORE) == (more != 0), ("flags", flags, c)
    assert c.flags in {TAKEN: (0, BACK), REFUSED: (0,), SEGMENT: (0, MUCH), SEGMENTS: (0, MUCH, LOOSE)}[c.kind] or \
        c.flags & LOOSE and c.kind == SEGMENT and c.flags < MUCH, c
    assert not c.packs or c.kind != REFUSED, c
    assert c.kind != REFUSED or c.room == 0, c
    assert c.dst < 1 << 24 and c.src < 1 << 24 and (c.run or c.kind == REFUSED), c
    assert c.kind != REFUSED or c.number == 0, c
    assert c.kind in (SEGMENT, SEGMENTS) and c.body or c.kind == TAKEN and not c.body or c.kind == REFUSED, c
    return c


def part(ddp, qkey, flags=0, rnr=0, length=None):
    """A part of a SEGMENTS."""
    return struct.pack(">HBBI", len(ddp) if length is None else length, flags, rnr, qkey) + ddp


def parts_of(c):
    """Takes a SEGMENTS apart: for each segment, what a SEGMENT of its own would have said."""
    at, out = 0, []
    while at < len(c.body):
        length, flags, rnr, qkey = struct.unpack_from(">HBBI", c.body, at)
        at += PART + length
        assert 0 < length and at <= len(c.body) and rnr <= 7, (length, flags, rnr, c)
        assert flags & ~(FIRST | LAST) == 0 and (c.flags & LOOSE or not flags), (flags, c)
        out.append(c._replace(kind=SEGMENT, flags=c.flags | flags, qkey=qkey, number=c.number + len(out) & 0xFFFFFFFF,
                              rnr=rnr, body=c.body[at - length:at]))
    assert 2 <= len(out) <= PARTS, ("segments of a packet", len(out), c)
    return out


class Incoming:
    """An incoming flow: its cookie, which only its receiver knows, and the numbers that have come."""

    def __init__(self):
        self.cookie, self.token = os.urandom(16), random.getrandbits(32)
        self.seen, self.acked, self.first = set(), False, {}


class Device:
    def __init__(self, host, to):
        self.host, self.to = host, (to, PORT)
        self.s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.s.bind((host, PORT))
        self.incoming = {}      # by flow number
        self.carried = deque()  # what DATA packets carried and no Pair has taken yet
        self.answers = deque()  # COOKIE, ACK and UNKNOWN
        self.hellos = []
        self.data = []          # every DATA packet that has come, including repeated ones
        self.answer = lambda p: True  # whether to answer a HELLO or to take a DATA packet
        self.flow = self.token = self.number = 0
        self.cookie, self.opened, self.had = b"", False, set()
        self.way = {}           # the workers of our own flow, if they are not 0: src, dst
        self.much = False       # True: our DATA has the flag MUCH
        self.asked = False      # True: some DATA of ours has had the flag MUCH
        self.window = 0         # our ACKs tell a window of WINDOW << self.window numbers
        self.takes = WINDOW     # the window, in numbers, that the other end's last ACK told
        self.numbers = 1        # how many workers this device has
        self.ports = set()      # (UDP source port, source worker, destination worker) of each datagram that has come

    # ---- what comes ----

    def put(self, data):
        self.s.sendto(summed(data), self.to)

    def pump(self, timeout=0.0):
        """Receives one datagram, if one comes within the time; returns it."""
        if not select.select([self.s], [], [], timeout)[0]:
            return None
        data, peer = self.s.recvfrom(4000)
        assert peer[0] == self.to[0], peer
        p = decode(data)
        assert peer[1] == PORT or (p.src, p.dst) != (0, 0), peer
        self.ports.add((peer[1], p.src, p.dst))
        if p.kind == HELLO:
            self.hello(p)
        elif p.kind == DATA:
            self.take(p)
        else:
            self.answers.append(p)
            if p.kind == ACK and p.flow == self.flow and p.token == self.token:
                self.opened = True
                ends = [p.number, *(n for r in ranges_of(p) for n in r)]
                assert self.asked or p.flags >> 4 == 0 and p.ranges <= 4 and ends == sorted(set(ends)), \
                    ("a larger window, many ranges, or ranges that are not apart and in order", p)
                self.takes = WINDOW << (p.flags >> 4)
                for at, to in [(0, p.number), *ranges_of(p)]:
                    self.had.update(range(at, to))
        return p

    def hello(self, p):
        self.hellos.append(p)
        if self.answer(p):
            f = self.incoming.setdefault(p.flow, Incoming())
            self.put(packet(COOKIE, src=p.dst, dst=p.src, flow=p.flow, token=f.token, stamp=p.stamp, body=f.cookie,
                            number=self.numbers if self.numbers > 1 else 0))

    def take(self, p):
        self.data.append(p)
        f = self.incoming.get(p.flow)
        if f is None:
            self.put(packet(UNKNOWN, src=p.dst, dst=p.src, flow=p.flow, token=p.token))
            return
        assert p.token == f.token, "the packet has another token than the COOKIE"
        assert p.flags & F_COOKIE or f.acked, "DATA without the cookie before the first ACK"
        body = p.body
        if p.flags & F_COOKIE:
            assert body[:16] == f.cookie, "the packet has another cookie than ours"
            body = body[16:]
        assert f.first.setdefault(p.number, body) == body, "a repeated packet has other contents"
        missing = min(n for n in range(len(f.seen) + 1) if n not in f.seen)
        assert p.number - missing < WINDOW << self.window, "the number lies beyond the window"
        if not self.answer(p):
            return
        if p.number not in f.seen:
            f.seen.add(p.number)
            c = decode_carried(body)
            assert c.dst % self.numbers == p.dst, ("not the queue pair's worker", p, c)
            self.carried.append(c)
        missing = min(n for n in range(len(f.seen) + 1) if n not in f.seen)
        spans = []
        for n in sorted(x for x in f.seen if x > missing):
            if spans and spans[-1][1] == n:
                spans[-1][1] += 1
            else:
                spans.append([n, n + 1])
        f.acked = True
        self.put(packet(ACK, flags=self.window << 4, ranges=len(spans[:4]), src=p.dst, dst=p.src, flow=p.flow,
                        token=p.token, number=missing, stamp=p.stamp,
                        body=b"".join(struct.pack(">II", *s) for s in spans[:4])))

    def until(self, what, why="", each=lambda: None, later=False):
        """Receives until what() is true. each() is called at once (later: after 0.2 s), and then every 0.2 s."""
        end, again = time.monotonic() + PATIENCE, time.monotonic() + AGAIN * later
        while not what():
            now = time.monotonic()
            assert now < end, (why() if callable(why) else why) or "the device sends nothing"
            if now >= again:
                each()
                again = now + AGAIN
            self.pump(0.05)

    # ---- what we send ----

    def ask(self, **other):
        """Sends HELLO for a new flow until its COOKIE comes."""
        self.flow, self.number, self.opened, self.had = random.randrange(1, 1 << 32), 0, False, set()
        return self.ask_again(**other)

    def ask_again(self, **other):
        got = lambda: [p for p in self.answers if p.kind == COOKIE and p.flow == self.flow]
        self.answers.clear()
        self.until(got, "no COOKIE", lambda: self.put(packet(HELLO, flow=self.flow, stamp=now_us(), body=bytes(16),
                                                              **self.way, **other)))
        p = got()[0]
        self.answers.clear()
        self.cookie, self.token = p.body, p.token
        return p

    def put_data(self, body, number, **other):
        how = {"flow": self.flow, "token": self.token, "cookie": None if self.opened else self.cookie, **self.way,
               **other}
        cookie = how.pop("cookie")
        self.asked |= self.much
        flags = (F_COOKIE if cookie is not None else 0) | F_MUCH * self.much
        self.put(packet(DATA, flags=flags, number=number, stamp=now_us(),
                        body=(cookie or b"") + body, **how))

    def give(self, body):
        """Sends the next packet of the flow once. Returns its number."""
        if not self.flow:
            self.ask()
        number, self.number = self.number, self.number + 1
        self.put_data(body, number)
        return number

    def deliver(self, body):
        """Sends the next packet of the flow until an ACK covers it."""
        number = self.give(body)
        self.delivered(number, body)

    def delivered(self, number, body):
        self.until(lambda: number in self.had, "no ACK comes", lambda: self.put_data(body, number), True)

    def barrier(self):
        """Waits until rnicd has received all that was sent before, including repetitions: the wire keeps the order."""
        flow = random.randrange(1, 1 << 32)
        got = lambda: any(p.kind == COOKIE and p.flow == flow for p in self.answers)
        self.until(got, "no COOKIE comes", lambda: self.put(packet(HELLO, flow=flow, body=bytes(16))))

    def answered(self, kind):
        """Waits for the next answer of this kind; drops answers that came before it."""
        self.until(lambda: [p for p in self.answers if p.kind == kind], f"no packet of kind {kind} answers")
        while True:
            p = self.answers.popleft()
            if p.kind == kind:
                return p

    def close(self):
        self.s.close()


runs = int(time.time() * 64) & 0x7FFFFFFF


def next_run():
    global runs  # pylint: disable=global-statement
    runs += 1
    return runs


def segments(op, head, data):
    """Makes the DDP segments of one message; head(offset, last) makes the header of each."""
    size = SEG_MAX - len(head(0, True))
    for at in range(0, max(len(data), 1), size):
        yield head(at, at + size >= len(data)) + data[at:at + size]


class Pair:
    """Our end of a pair: queue pair `mine` of device `dev`, paired with queue pair `qpn` of the other end."""

    def __init__(self, dev, mine, qpn, qkey, my_qkey=0):
        self.dev, self.mine, self.qpn, self.qkey, self.my_qkey = dev, mine, qpn, qkey, my_qkey
        self.begin()

    def begin(self):
        """Begins a new run on our side; the other end's run is not known yet."""
        self.run, self.peer_run, self.number, self.told = next_run(), 0, 0, 0
        self.next, self.held, self.ddp, self.refused = 0, {}, deque(), None
        self.msn = {0: 0, 1: 0}
        self.quiet = False    # True: takes no segment, and so reports none as taken
        self.loose = False    # True: our run is unordered
        self.turned, self.flags, self.told_too = set(), {}, set()
        self.asked = []       # for each segment of a response that has come, the MSN of its request
        self.much = False     # True: our segments ask for room
        self.may = SEGS       # we may send segments whose number is below this one
        self.void = 0         # a promise of room in a packet with this number as `taken` does not count
        self.room = 0         # the room that our packets promise, in units of SEGS segments
        self.edge = SEGS      # the other end may send segments whose number is below this one
        self.given_back = 0   # how often the other end has given room back
        self.waits = set()    # numbers of the other end's unordered run whose turn this pair holds back
        self.packs = False    # True: our packets tell that we take SEGMENTS
        self.said = False     # True: a packet of ours has told so
        self.packed = []      # of each SEGMENTS that has come, how many segments it had
        self.takes = None     # whether the packets of the other end's run tell that it takes SEGMENTS

    # ---- sending ----

    def packet(self, kind, body=b"", **other):
        how = {"dst": self.qpn, "src": self.mine, "qkey": self.qkey, "run": self.run, "peer_run": self.peer_run,
               "taken": self.next, "room": self.room * (kind != REFUSED),
               "more": sum(1 << n - self.next - 1 for n in self.turned if n > self.next), **other}
        if self.packs and kind != REFUSED:
            how["flags"] = how.get("flags", 0) | PACKS
            self.said = True
        if how["room"] and how["taken"] == self.next:
            self.edge = max(self.edge, self.next + SEGS * how["room"])
        return carried(kind, body=body, **how)

    def segment(self, ddp, **other):
        number, self.number = self.number, self.number + 1
        return self.packet(SEGMENT, ddp, **{"number": number, "flags": (LOOSE | FIRST | LAST) * self.loose |
                                              MUCH * self.much, **other})

    def together(self, *ddp, flags=None, **other):
        """One packet with these segments. flags: of each segment; None: each is a chain, if our run is unordered."""
        number, self.number = self.number, self.number + len(ddp)
        flags = flags or [(FIRST | LAST) * self.loose] * len(ddp)
        return self.packet(SEGMENTS, b"".join(part(d, self.qkey, f) for d, f in zip(ddp, flags)),
                           **{"number": number, "qkey": 0, "flags": LOOSE * self.loose | MUCH * self.much, **other})

    def chain(self, *ddp, **other):
        """Makes the packets of one message."""
        place = lambda k: (FIRST if k == 0 else 0) | (LAST if k == len(ddp) - 1 else 0)
        flags = lambda k: (LOOSE | place(k)) * self.loose | MUCH * self.much
        return [self.segment(d, **{"flags": flags(k), **other}) for k, d in enumerate(ddp)]

    def put(self, *ddp, **other):
        for body in self.chain(*ddp, **other):
            self.dev.deliver(body)

    def next_msn(self, queue):
        self.msn[queue] += 1
        return self.msn[queue]

    def message(self, data):
        msn = self.next_msn(0)
        return list(segments(SEND, lambda at, last: untagged(SEND, 0, msn, mo=at, last=last), data))

    @staticmethod
    def write(stag, to, data):
        return list(segments(WRITE, lambda at, last: tagged(WRITE, stag, to + at, last=last), data))

    def read_request(self, sink, size, source):
        return untagged(READ_REQ, 1, self.next_msn(1), struct.pack(">IQIIQ", *sink, size, *source))

    def add_request(self, ident, stag, to, value):
        body = struct.pack(">IIIQQQQQ", 0, ident, stag, to, value, 1 << 63, 0, 0)
        return untagged(ATOMIC_REQ, 1, self.next_msn(1), body)

    # ---- what comes ----

    def turn(self):
        """Takes what the device has received for this pair; appends segments to self.ddp in order."""
        mine = [c for c in self.dev.carried if (c.dst, c.src) == (self.mine, self.qpn)]
        for c in mine:
            self.dev.carried.remove(c)
            self.one(c)

    def one(self, c):
        if c.kind == REFUSED:
            self.refused = c
            return
        assert c.peer_run in (0, self.run), ("peer_run is not our run", c)
        assert self.peer_run in (0, c.run), ("the other end's run has changed", c)
        self.peer_run = c.run
        assert self.takes in (None, c.packs), ("some packets of a run have the flag PACKS, and some have not", c)
        self.takes = c.packs
        if c.peer_run:
            assert c.taken <= self.number, ("the other end reports a number that was not sent", self.number, c)
            self.told = max(self.told, c.taken)  # packets may arrive in any order
            assert self.much or not c.room, ("room is promised to an end that has not asked", c)
            if c.room and c.taken != self.void:
                self.may = max(self.may, c.taken + SEGS * c.room)
            more = {c.taken + 1 + i for i in range(64) if c.more >> i & 1}
            assert self.loose or not more, ("an ordered run has a map", c)
            assert all(n < self.number for n in more), ("more has numbers that were not sent", self.number, c)
            self.told_too |= more
        if c.kind == TAKEN:
            if c.flags & BACK:
                assert c.qkey == self.next and not self.held, ("gives back before all is taken", c)
                self.given_back, self.edge = self.given_back + 1, 0
            return
        if c.kind == SEGMENTS:
            assert self.said, ("an end that has not told that it takes SEGMENTS gets one", c)
            self.packed.append(len(parts_of(c)))
        for s in parts_of(c) if c.kind == SEGMENTS else [c]:
            self.keep(s)
        self.take()

    def keep(self, c):
        """Keeps a segment until its turn."""
        answer = c.body[1] & 15 in (READ_RESP, ATOMIC_RESP)
        assert c.qkey == self.my_qkey or answer, ("the Q_Key is wrong", c)
        assert not answer or 1 <= c.qkey <= self.msn[1], ("c.qkey is not the MSN of a request", c)
        self.asked += [c.qkey] * answer
        span = SPAN if c.flags & LOOSE else max(SEGS, self.edge - self.next)
        assert self.next <= c.number < self.next + span and c.number not in self.held, ("number", self.next, c)
        assert c.number not in self.turned and len(self.held) < (SEGS if c.flags & LOOSE else span), (self.next, c)
        self.held[c.number], self.flags[c.number] = c.body, c.flags

    def take(self):
        """Takes the held segments whose turn has come."""
        for n in sorted(self.held):
            chained = self.flags[n] & LOOSE
            first = self.flags[n] & FIRST
            before = n == 0 or n - 1 in self.turned or n - 1 < self.next
            assert not first or n == 0 or self.flags.get(n - 1, LAST) & LAST, ("a chain begins within another chain", n)
            if self.quiet or n in self.waits or not (first or before and (n > 0 or not chained)):
                continue
            self.turned.add(n)
            self.ddp.append(self.held.pop(n))
            while self.next in self.turned:
                self.turned.remove(self.next)
                self.next += 1

    def until(self, what, why="", **how):
        def so():
            self.turn()
            return what()
        self.dev.until(so, why, **how)

    def tell(self):
        self.dev.deliver(self.packet(TAKEN))

    def get(self):
        """The next DDP segment in order; reports it as taken."""
        self.until(lambda: self.ddp, "the device sends no segment")
        self.tell()
        return self.ddp.popleft()

    def taken(self, number=None):
        """Waits until the other end has taken all that we sent."""
        self.until(lambda: self.told == (self.number if number is None else number), "the segment is not taken")

    def is_refused(self):
        self.until(lambda: self.refused, "the segment is not refused")
        return self.refused

    def read(self, stag, to, size, sink=(0x77, 0x4000)):
        """Reads the other end's memory by RDMA Read."""
        self.put(self.read_request(sink, size, (stag, to)))
        out = b""
        while len(out) < size:
            d = self.get()
            assert d[:2] == bytes([0xC1 if len(out) + len(d) - 14 == size else 0x81, 0x40 | READ_RESP]), d[:14].hex()
            assert struct.unpack_from(">IQ", d, 2) == (sink[0], sink[1] + len(out)), d[:14].hex()
            out += d[14:]
        return out

    def add(self, stag, to, value, ident=7):
        """Adds to a word of the other end's memory atomically; returns its old value."""
        self.put(self.add_request(ident, stag, to, value))
        d = self.get()
        assert d[1] == 0x40 | ATOMIC_RESP and struct.unpack_from(">I", d, 6)[0] == 3 and len(d) == 30, d.hex()
        assert struct.unpack_from(">I", d, 18)[0] == ident, d.hex()
        return struct.unpack_from(">Q", d, 22)[0]


class Store(Pair):
    """A Pair with memory that the other end writes, reads and adds to; also takes Sends."""

    def __init__(self, *ends, stag=0, where=0, size=0, **more):
        super().__init__(*ends, **more)
        self.stag, self.where, self.memory = stag, where, bytearray(size)
        self.messages, self.part, self.resp = [], {}, 0
        self.at = {0: 1, 1: 1}  # the next MSN of queue 0 and of queue 1

    def place(self, stag, to, size):
        at = to - self.where
        assert stag == self.stag and 0 <= at and at + size <= len(self.memory), (stag, to, size)
        return at

    def serve(self, d):
        op, data = d[1] & 15, d[14:]
        assert d[1] >> 6 == 1 and d[0] & 0x3F == 1, d[:2].hex()
        if d[0] & 0x80:
            assert op == WRITE, op
            at = self.place(*struct.unpack_from(">IQ", d, 2), len(data))
            self.memory[at:at + len(data)] = data
            return
        queue, msn, offset = struct.unpack_from(">III", d, 6)
        any_order = any(f & LOOSE for f in self.flags.values())
        assert queue == (1 if op in (READ_REQ, ATOMIC_REQ) else 0), (op, queue, msn)
        assert any_order or msn == self.at[queue], (op, queue, msn)
        data = d[18:]
        if op in (SEND, SEND_SE):
            part = self.part[msn] = self.part.get(msn, b"") + data
            assert offset + len(data) == len(part), (offset, len(part))
        if d[0] & 0x40:
            self.at[queue] += 1
        if op in (SEND, SEND_SE):
            if d[0] & 0x40:
                self.messages.append(self.part.pop(msn))
        elif op == READ_REQ:
            sink, sink_to, size, stag, to = struct.unpack(">IQIIQ", data)
            at = self.place(stag, to, size)
            self.put(*segments(READ_RESP, lambda o, last: tagged(READ_RESP, sink, sink_to + o, last=last),
                               bytes(self.memory[at:at + size])), qkey=msn)
        else:
            assert op == ATOMIC_REQ, op
            kind, ident, stag, to, value = struct.unpack_from(">IIIQQ", data)
            at = self.place(stag, to, 8)
            assert kind & 15 == 0 and len(data) == 52, data.hex()
            old = struct.unpack_from("<Q", self.memory, at)[0]
            struct.pack_into("<Q", self.memory, at, old + value)
            self.resp += 1
            self.put(untagged(ATOMIC_RESP, 3, self.resp, struct.pack(">IQ", ident, old)), qkey=msn)

    def serve_until(self, what):
        while not what():
            self.serve(self.get())
