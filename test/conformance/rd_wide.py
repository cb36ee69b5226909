# SPDX-License-Identifier: BSD-3-Clause
"""A case for each rule of doc/datagram-iwarp.md, chapter "Reliable datagrams", about room."""
import time

from rd_scene import COUNTER, SLOTS, counters, customer, scene, text
from rig import until
from rules import rule
from wire import WRITE, tagged
from wire_rd import BACK, LOOSE, MUCH, SEGMENT, SEGS, TAKEN


def asked(x, n):
    """Asks for room, and sends until rnicd's promises allow n segments to be on the way."""
    x.pair.much = True
    while x.pair.may - x.pair.number < n:
        x.send()
        x.pair.taken()


@rule("MUST keep, whatever it promises later")
@scene()
def what_is_promised_is_kept_behind_a_missing_segment(x):
    asked(x, 5 * SEGS)
    assert x.pair.may - x.pair.number < 4096, "more is promised than a field of one octet tells"
    n = x.pair.may - x.pair.number
    first = x.pair.segment(x.pair.message(text(x.m, x.length))[0])
    for k in range(1, n):
        size = x.length * SLOTS // n
        x.d.deliver(x.pair.segment(tagged(WRITE, x.stag, x.where + COUNTER + k * size, bytes([k & 255]) * size)))
    before = counters()["rd_bad"]
    x.d.deliver(x.pair.packet(SEGMENT, x.attack(), number=x.pair.number + SEGS))
    until(lambda: counters()["rd_bad"] == before + 1, "a segment beyond the promise was not dropped")
    x.pair.turn()
    assert x.pair.told == x.pair.number - n
    x.d.deliver(first)
    x.m += 1
    x.pair.taken()
    held = x.memory()[COUNTER:]
    for k in range(1, n):
        assert held[k * size:(k + 1) * size] == bytes([k & 255]) * size, k
    x.works()


@rule("MUST be sent as 0 to an end that has not asked",
      "A receiver MUST ignore the flag BACK when the number is not its own `taken`")
@scene()
def what_is_given_back_is_promised_no_longer(x):
    x.works()  # Pair raises when rnicd promises room to an end that has not asked for room
    asked(x, 3 * SEGS)
    p = x.pair
    for number in (p.number - 1, p.number + 1):
        x.d.deliver(p.packet(TAKEN, flags=BACK, qkey=number))
    first = p.packet(SEGMENT, p.message(text(x.m, x.length))[0], number=p.number)
    x.d.deliver(p.packet(SEGMENT, x.attack(), number=p.number + 1))
    x.d.deliver(p.packet(TAKEN, flags=BACK, qkey=p.number))  # rnicd keeps a later segment: room is not given back yet
    x.d.deliver(p.packet(SEGMENT, x.attack(), number=p.number + 2 * SEGS))
    before = counters()["rd_bad"]
    x.d.deliver(p.packet(SEGMENT, x.attack(), number=p.number + 2 * SEGS))
    until(lambda: counters()["rd_bad"] == before + 1, "the segment was not kept the first time")
    x.d.deliver(first)
    for k in range(2, 2 * SEGS):
        x.d.deliver(p.packet(SEGMENT, x.attack(), number=p.number + k))
    p.number += 2 * SEGS + 1
    x.m += 1
    p.taken()
    p.much, p.void = False, p.number
    x.d.deliver(p.packet(TAKEN, flags=BACK, qkey=p.number))
    x.dropped("rd_bad", lambda: x.d.deliver(p.packet(SEGMENT, x.attack(), number=p.number + SEGS)))


@scene(how=("unordered",))
def an_unordered_run_is_promised_nothing(x):
    x.pair.loose = True
    for _ in range(3):
        x.d.deliver(x.pair.segment(x.pair.message(text(x.m, x.length))[0], flags=LOOSE | 6 | MUCH))
        x.m += 1
        x.pair.taken()
    assert x.came()[0] == 3


@rule("A sender MUST NOT send a segment whose number is 16 or more above", "MUST give it back before it rests")
@customer(length=100000)
def a_sender_keeps_to_what_it_was_promised(c):
    c.tell("go 1")
    s = c.store()
    s.until(lambda: len(s.ddp) == SEGS)
    assert s.flags[SEGS - 1] & MUCH, "the sender does not ask"
    s.room = 2
    s.quiet = True
    s.tell()
    s.until(lambda: len(s.held) == 2 * SEGS)
    end = time.monotonic() + 0.5
    s.until(lambda: time.monotonic() > end)  # if rnicd sent one more segment, Pair would raise
    s.quiet = False
    s.take()
    c.serves(s, 1)
    s.until(lambda: s.given_back == 1, "the sender does not give room back")


@rule("MUST NOT use a promise that comes with a `taken` which is not greater")
@customer(length=60000)
def a_promise_from_before_the_giving_back_is_not_used(c):
    c.tell("go 1")
    s = c.store()
    s.room = 4
    c.serves(s, 1)
    s.until(lambda: s.given_back == 1, "the sender does not give room back")
    s.room = 0
    edge, s.quiet = s.edge, True
    c.tell("go 1")
    s.until(lambda: len(s.held) == SEGS)
    c.d.deliver(s.packet(TAKEN, room=4, taken=s.next))
    s.edge = edge
    end = time.monotonic() + 0.5
    s.until(lambda: time.monotonic() > end)  # if rnicd sent one more segment, Pair would raise
    s.quiet = False
    s.take()
    c.serves(s, 1, before=1)
