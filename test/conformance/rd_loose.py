# SPDX-License-Identifier: BSD-3-Clause
"""A case for each rule of doc/datagram-iwarp.md, chapter "Reliable datagrams", about unordered runs."""
import struct

from rd_scene import COUNTER, QKEY, counters, customer, scene, text
from rig import until
from rules import rule
from wire import READ_REQ, READ_RESP, SEND, WRITE, tagged, untagged
from wire_rd import FIRST, LAST, LOOSE, REFUSED, SEGMENT, SEGS, SPAN, Pair

ANY = ("unordered",)
BROKEN = (0x02, 0x07)  # RDMAP, remote operation error, catastrophic error of the stream


def loose(x, mine=0x4343):
    p = Pair(x.d, mine, x.qpn, QKEY)
    p.loose = True
    return p


def send(m, length, msn):
    """The segments of message m."""
    data, size = text(m, length), 1200
    return [untagged(SEND, 0, msn, data[at:at + size], mo=at, last=at + size >= length)
            for at in range(0, length, size)]


def has_taken(p, *numbers):
    p.until(lambda: all(n < p.told or n in p.told_too for n in numbers), f"not taken: {numbers}")


@rule("MUST be sent when a bit of the map is set, and not otherwise")
@scene(length=3000, how=ANY)
def a_lost_segment_delays_its_chain_alone(x):
    p = loose(x)
    chains = [p.chain(*send(m, 3000, m + 1)) for m in range(3)]
    for part in (chains[1][0], chains[2][0], chains[0][1], chains[2][1], chains[2][2], chains[0][2], chains[1][1]):
        x.d.deliver(part)
    has_taken(p, 3, 4, 6, 7, 8)
    assert p.told == 0 and not {1, 2, 5} & p.told_too and x.came()[0] == 1
    x.d.deliver(chains[1][2])
    has_taken(p, 5)
    assert x.came()[0] == 2
    x.d.deliver(chains[0][0])
    p.taken()
    assert x.came()[0] == 3


@rule("A receiver MUST NOT judge messages of different chains by their MSNs")
@scene(how=ANY)
def messages_of_chains_are_not_judged_by_their_msns(x):
    p = loose(x)
    for m, msn in enumerate((7, 3, 0, 0xFFFFFFFF, 3)):
        p.put(*send(m, x.length, msn))
    p.taken()
    assert x.came()[0] == 5


@scene(length=3000, how=ANY)
def within_a_chain_they_are(x):
    p = loose(x)
    parts = send(0, 3000, 5)
    x.refused(p, parts[0], untagged(SEND, 0, 6, parts[1][18:], mo=1200, last=False), term=(0x12, 0x03))


@rule("The numbers of a chain's segments MUST follow each other")
@scene(length=3000, how=ANY)
def chains_that_cannot_be_end_the_run(x):
    a, b = send(0, 3000, 1), send(1, 3000, 2)
    p = loose(x)
    x.d.deliver(p.segment(a[0], flags=LOOSE | FIRST))
    x.d.deliver(p.segment(b[0], flags=LOOSE | FIRST))
    assert p.is_refused().body[:2] == bytes(BROKEN), "the chain begins inside another chain"
    p = loose(x, 0x4344)
    x.d.deliver(p.segment(a[0], flags=LOOSE | FIRST | LAST))
    assert p.is_refused().body[:2] == bytes(BROKEN), "the chain ends within a Send"
    p = loose(x, 0x4345)
    p.number = 2 * SEGS + 4
    for k in range(SEGS + 2):
        x.d.deliver(p.segment(tagged(WRITE, x.stag, x.where + COUNTER, b"x", last=False), number=2 * k,
                              flags=LOOSE | FIRST))
    c = p.is_refused()
    assert c.body[:2] == bytes(BROKEN), ("too many chains are open", c)
    p = loose(x, 0x4346)
    p.put(*send(0, 3000, 1))
    p.taken()


@scene(how=ANY)
def what_is_out_of_the_window_or_of_the_other_kind_is_dropped(x):
    p = loose(x)
    bad = lambda **how: x.d.deliver(p.packet(SEGMENT, x.attack(), **{"flags": LOOSE | FIRST | LAST, **how}))
    last = p.packet(SEGMENT, x.attack(), number=SPAN - 1, flags=LOOSE | FIRST | LAST)
    x.d.deliver(last)
    until(lambda: x.memory()[COUNTER] == 0xee, "a segment within the window was not placed")
    x.d.barrier()
    for how in ({"number": SPAN}, {"number": 1 << 31}, {"number": -1}, {"number": SPAN - 1}, {"number": 0, "flags": 0}):
        before = counters()["rd_bad"]
        bad(**how)
        until(lambda before=before: counters()["rd_bad"] == before + 1, how)
    for k in range(SEGS):  # segments that wait for their predecessors
        x.d.deliver(p.packet(SEGMENT, x.attack(), number=2 * k + 1, flags=LOOSE))
    before = counters()["rd_bad"]
    bad(number=2 * SEGS + 1, flags=LOOSE)
    until(lambda: counters()["rd_bad"] == before + 1, "rd_bad does not count a segment too many")
    assert p.refused is None
    p.number = SPAN
    x.d.deliver(p.packet(SEGMENT, x.attack(), number=0, flags=LOOSE))  # the first missing one; no chain goes on
    assert p.is_refused().body[:2] == bytes(BROKEN), "a segment too many is kept"


@scene(later=True, how=ANY)
def a_send_without_a_receive_waits_alone(x):
    p = loose(x)
    p.put(*send(0, x.length, 1))
    p.put(x.attack())
    has_taken(p, 1)
    assert p.told == 0
    x.say()
    p.taken()
    until(lambda: x.came()[0] == 1)


@scene(length=3000, how=ANY)
def an_answer_names_its_request(x):
    p = loose(x)
    sink = (0x77, 0x4000)
    x.pair.put(*x.pair.write(x.stag, x.where + COUNTER, text(1, 6000)))
    x.pair.taken()
    p.msn[1] = 40
    for k in range(2):
        p.put(p.read_request((sink[0], sink[1] + k * 3000), 3000, (x.stag, x.where + COUNTER + k * 3000)))
    got = bytearray(6000)
    for _ in range(6):  # three segments for each of two answers
        d = p.get()
        assert d[1] & 15 == READ_RESP, d[:2].hex()
        at = struct.unpack_from(">Q", d, 6)[0] - sink[1]
        got[at:at + len(d) - 14] = d[14:]
    assert sorted(p.asked) == [41] * 3 + [42] * 3 and bytes(got) == text(1, 6000), p.asked


@rule("The numbers of a chain's segments MUST follow each other")
@customer(length=3000, how=ANY)
def a_client_makes_chains_and_takes_what_the_map_tells(c):
    c.tell("burst 40")
    s = c.store()
    s.waits = {0}  # the first segment is held back, so its message stays open
    s.until(lambda: len(s.turned) >= 12)
    while s.ddp:
        s.serve(s.ddp.popleft())
    assert all(s.flags[n] & LOOSE for n in s.flags) and s.flags[0] == LOOSE | FIRST, s.flags
    s.tell()
    s.waits = set()
    s.take()
    while c.p.p.poll() is None and not [line for line in c.p.out if line.startswith("overtaken")]:
        s.turn()
        while s.ddp:
            s.serve(s.ddp.popleft())
            s.tell()
        c.d.pump(0.01)
    assert int([line for line in c.p.out if line.startswith("overtaken")][0].split()[1]) > 0
    assert sorted(s.messages) == sorted(text(m, 3000) for m in range(20))


@rule("The end that asked MUST look at this number")
@customer(length=3000, how=ANY)
def an_answer_to_no_request_ends_the_run(c):
    c.tell("go 1")
    s = c.store()
    while (d := s.get())[1] & 15 != READ_REQ:
        s.serve(d)
    sink = struct.unpack_from(">IQ", d, 18)
    s.put(tagged(READ_RESP, sink[0], sink[1], b"x" * 8, last=False), qkey=77)
    assert s.is_refused().kind == REFUSED
    assert c.answer()[1] != 0
