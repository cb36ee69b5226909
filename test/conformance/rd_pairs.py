# SPDX-License-Identifier: BSD-3-Clause
"""A case for each rule of doc/datagram-iwarp.md, chapter "Reliable datagrams"."""
import struct
import time

import wire_rd
from rd_scene import COUNTER, QKEY, REM_ACCESS, SLOTS, counters, customer, device, scene, text
from rig import helper, until
from rules import rule
from wire import ADDR, READ_RESP, WRITE, tagged, untagged
from wire_rd import F_COOKIE, REFUSED, SEGMENT, SEGS, TAKEN, Pair, decode_carried
from wire_world import daemon

# ---- reliable datagrams: rnicd receives ----

@scene(length=5000)
def a_message_of_many_segments_arrives(x):
    for _ in range(20):
        x.send()
    x.pair.taken()
    assert x.came() == (20, 0)


@rule("A receiver MUST tell what it has taken with its next packet of the pair")
@scene()
def segments_have_their_turn_in_the_order_of_their_numbers(x):
    parts = [x.pair.segment(x.pair.message(text(m, x.length))[0]) for m in range(SEGS)]
    for part in reversed(parts):
        assert x.pair.told == 0
        x.d.deliver(part)
        x.pair.turn()
    x.m = SEGS
    x.pair.taken()
    assert x.came() == (SEGS, 0)


@scene(length=3000)
def memory_is_written_read_and_added_to(x):
    data = text(5, 3000)
    x.pair.put(*x.pair.write(x.stag, x.where + COUNTER, data))
    assert x.pair.read(x.stag, x.where + COUNTER, 3000) == data
    assert [x.pair.add(x.stag, x.where, 5, ident) for ident in (9, 8)] == [0, 5]
    assert x.came() == (0, 10)
    x.works()


@rule("It MUST NOT count a segment that waits")
@scene(later=True)
def a_send_without_a_receive_waits_and_holds_up_no_other_pair(x):
    x.send()
    other = Pair(x.d, 0x4343, x.qpn, QKEY)
    other.put(x.attack())
    other.taken()
    x.pair.turn()
    assert x.pair.told == 0, "a segment that waits for a receive was reported as taken"
    x.say()  # now the store posts its receives
    x.pair.taken()
    x.works()


@scene(later=True)
def a_send_waits_no_longer_than_its_patience(x):
    p = Pair(x.d, 0x4343, x.qpn, QKEY)
    p.put(*p.message(text(0, x.length)), rnr=1)
    c = p.is_refused()
    assert c.body[:2] == bytes((0x12, 0x02)), c
    p.refused = None  # a later segment gets the same answer again, since segments may have overtaken the first answer
    p.put(*p.message(text(1, x.length)))
    assert p.is_refused().body == c.body, (p.refused, c)
    p.begin()
    p.put(*p.message(text(0, x.length)), rnr=200)
    x.d.barrier()
    p.turn()
    assert p.told == 0 and not p.refused
    x.say()
    p.taken()


@rule("| 0 | kind | a receiver MUST drop a kind that it does not know",
      "a receiver MUST drop the packet if the high octet is not 0",
      "the sender's run. MUST NOT be 0 but in a REFUSED",
      "below; the others MUST be sent as 0, and a receiver ignores them")
@scene()
def a_header_that_cannot_be_is_dropped_and_acknowledged(x):
    x.works()
    p, ddp = x.pair, x.attack()
    good = lambda **how: p.packet(SEGMENT, ddp, **{"number": p.number, **how})
    for wrong in (lambda: b"\0" + good()[1:], lambda: b"\5" + good()[1:], lambda: good(dst=1 << 24 | x.qpn),
                  lambda: good(src=1 << 24 | p.mine), lambda: good(run=0), lambda: good()[:31], lambda: b"",
                  lambda: p.packet(SEGMENT, tagged(WRITE, x.stag, x.where, bytes(1347)), number=p.number)):
        x.dropped("rd_bad", lambda wrong=wrong: x.d.deliver(wrong()))
    ignored = good()
    x.d.deliver(ignored[:1] + b"\xe6\xff\xff" + ignored[4:])
    p.number += 1
    x.works()
    assert x.memory()[COUNTER:COUNTER + 64] == b"\xee" * 64, "the receiver did not ignore the octets"


@scene()
def the_longest_segment_is_taken(x):
    data = text(3, wire_rd.SEG_MAX - 14)
    x.pair.put(tagged(WRITE, x.stag, x.where + COUNTER, data))
    x.pair.taken()
    assert x.pair.read(x.stag, x.where + COUNTER, len(data)) == data


@scene()
def a_queue_pair_that_there_is_not_refuses(x):
    ud = daemon().run(helper("ud_long"), ADDR, "sink", "1", "5000")
    for qpn in (x.qpn ^ 0x800000, 0, 1, 0xffffff, int(ud.wait_line("qpn").split()[1])):
        p = Pair(x.d, 0x4343, qpn, QKEY)
        p.put(x.attack())
        c = p.is_refused()
        assert (c.run, c.peer_run, c.taken, c.body) == (0, p.run, 0, b""), c
    ud.stop()
    x.works()


@scene()
def a_wrong_key_is_refused_with_its_segment(x):
    c = x.refused(Pair(x.d, 0x4343, x.qpn, QKEY + 1), x.attack(), term=(0x01, 0x02))
    assert (c.run, c.taken) == (0, 0), ("a stranger has got a pair", c)
    answer = tagged(READ_RESP, 0x77, 0x4000, b"x" * 8)
    c = x.refused(Pair(x.d, 0x4344, x.qpn, QKEY + 1), answer, term=(0x01, 0x02))
    assert (c.run, c.taken) == (0, 0), ("an answer to nothing has got a pair", c)
    x.works()


@scene()
def what_memory_does_not_allow_is_refused(x):
    end = x.where + COUNTER + SLOTS * x.length
    sink = (0x77, 0x4000)
    for term, ddp in (((0x11, 0x00), tagged(WRITE, x.stag ^ 0x100, x.where, b"x" * 8)),
                      ((0x11, 0x01), tagged(WRITE, x.stag, end - 7, b"x" * 8)),
                      ((0x11, 0x01), tagged(WRITE, x.stag, x.where - 1, b"x" * 8)),
                      ((0x01, 0x00), lambda p: p.read_request(sink, 8, (x.stag ^ 0x100, x.where))),
                      ((0x01, 0x01), lambda p: p.read_request(sink, 8, (x.stag, end - 7))),
                      ((0x01, 0x01), lambda p: p.add_request(1, x.stag, end, 1))):
        p = Pair(x.d, 0x4343, x.qpn, QKEY)
        x.refused(p, ddp(p) if callable(ddp) else ddp, term=term)
        x.works()


@scene()
def a_segment_that_is_none_is_refused(x):
    for term, ddp in (((0x12, 0x06), untagged(3, 0, 1, b"x" * 8, dv=0)), ((0x12, 0x01), untagged(3, 9, 1, b"x" * 8)),
                      ((0x02, 0x06), untagged(7, 2, 1, b"\0" * 4)), ((0x02, 0x06), untagged(15, 0, 1, b"x" * 8))):
        x.refused(Pair(x.d, 0x4343, x.qpn, QKEY), ddp, term=term)
        x.works()


@scene()
def no_segment_has_its_turn_behind_one_that_failed(x):
    p = Pair(x.d, 0x4343, x.qpn, QKEY)
    x.d.deliver(p.segment(x.attack(), number=1))
    p.number = 0
    x.refused(p, tagged(WRITE, x.stag ^ 0x100, x.where, b"x" * 8), term=(0x11, 0x00))
    x.works()


@scene()
def a_run_that_is_not_known_is_refused(x):
    x.works()
    for run_ in (x.pair.peer_run + 1, x.pair.peer_run - 1, 1):
        p = Pair(x.d, 0x4343, x.qpn, QKEY)
        x.d.deliver(p.segment(x.attack(), peer_run=run_))
        c = p.is_refused()
        assert (c.run, c.peer_run, c.taken, c.body) == (run_, p.run, 0, b""), c
    x.d.deliver(x.pair.segment(x.attack(), peer_run=x.pair.peer_run ^ 1, number=x.pair.number))
    c = x.pair.is_refused()
    assert (c.run, c.peer_run) == (x.pair.peer_run ^ 1, x.pair.run), c
    x.pair.number -= 1
    x.works()
    assert x.memory()[COUNTER:] == bytes(SLOTS * x.length)


@scene()
def a_segment_of_an_earlier_run_is_dropped(x):
    x.works()
    for run_ in (x.pair.run - 1, x.pair.run - (1 << 31) + 1):
        x.dropped("rd_bad", lambda run_=run_: x.d.deliver(x.pair.packet(SEGMENT, x.attack(), run=run_ & 0xFFFFFFFF,
                                                                        number=x.pair.number, peer_run=0)))


@scene()
def a_later_run_begins_anew(x):
    x.works()
    first = x.pair.peer_run
    x.pair.begin()
    x.works()
    assert x.pair.peer_run != first, "the other end has not begun a new run"
    x.pair.begin()
    x.d.deliver(x.pair.segment(x.attack(), number=1))  # waits for segment number 0
    x.pair.begin()
    x.works()
    x.works()
    assert x.memory()[COUNTER:] == bytes(SLOTS * x.length), "a segment of the old run was placed"


@scene()
def a_segment_out_of_the_window_or_again_is_dropped(x):
    x.works()
    for number in (SEGS, SEGS + 1, 1 << 30, -1):
        x.dropped("rd_bad", lambda number=number: x.d.deliver(x.pair.packet(SEGMENT, x.attack(),
                                                                            number=x.pair.number + number)))
    first, second = x.pair.message(text(x.m, x.length)) + x.pair.message(text(x.m + 1, x.length))
    body = x.pair.packet(SEGMENT, second, number=x.pair.number + 1)
    before = counters()["rd_bad"]
    x.d.deliver(body)
    x.d.deliver(body)
    until(lambda: counters()["rd_bad"] == before + 1, "rd_bad does not count a segment that is held already")
    x.pair.put(first)
    x.pair.number += 1
    x.m += 2
    x.pair.taken()
    x.works()


@scene()
def what_is_told_as_taken_beyond_what_was_sent_is_not_believed(x):
    x.works()
    for taken in (1, 1000, 1 << 31, (1 << 32) - 1):
        x.d.deliver(x.pair.packet(TAKEN, taken=taken))
    x.works()
    assert x.pair.read(x.stag, x.where, 8) == bytes(8)


@rule("the sender's run. MUST NOT be 0 but in a REFUSED")
@scene()
def taken_is_refused_by_an_end_that_knows_no_such_pair_and_is_silent_otherwise(x):
    x.works()
    x.d.deliver(x.pair.packet(TAKEN))
    x.d.deliver(x.pair.packet(TAKEN, peer_run=0))
    x.works()
    assert x.pair.refused is None
    for how in ({"peer_run": 0}, {"peer_run": 5}):
        p = Pair(x.d, 0x4343, x.qpn, QKEY)
        x.d.deliver(p.packet(TAKEN, **how))
        c = p.is_refused()
        assert (c.run, c.peer_run, c.taken) == (how["peer_run"], p.run, 0), c
    x.d.deliver(x.pair.packet(TAKEN, run=x.pair.run + 1))
    assert x.pair.is_refused().peer_run == x.pair.run + 1
    x.works()


@rule("A REFUSED MUST NOT be answered with a REFUSED")
@scene()
def a_refusal_of_other_runs_is_dropped_and_never_answered(x):
    x.works()
    p = x.pair
    for how in ({"peer_run": p.peer_run ^ 1}, {"peer_run": 0, "run": p.run ^ 1}, {"src": p.mine + 1},
                {"dst": 0x800001}):
        x.dropped("rd_bad", lambda how=how: x.d.deliver(p.packet(REFUSED, **how)))
    assert p.refused is None
    x.d.deliver(p.packet(REFUSED))
    p.begin()
    x.works()


@scene()
def another_device_cannot_use_the_pair(x):
    x.works()
    d = device()
    other = Pair(d, x.pair.mine, x.qpn, QKEY)
    other.run, other.peer_run, other.number = x.pair.run, x.pair.peer_run, x.pair.number
    d.deliver(other.segment(x.attack()))
    assert other.is_refused().peer_run == x.pair.run
    other.refused = None
    d.deliver(other.packet(TAKEN))
    assert other.is_refused().peer_run == x.pair.run
    x.dropped("rd_bad", lambda: d.deliver(other.packet(REFUSED)))
    assert x.memory()[COUNTER:] == bytes(SLOTS * x.length)
    d.close()


# ---- reliable datagrams: rnicd sends ----

@rule("An end MUST NOT have more than 16 Read Requests and Atomic Requests of a run")
@customer(length=8)
def no_more_than_sixteen_reads_are_without_their_answers(c):
    c.tell("ask 24")
    s = c.store()
    s.until(lambda: len(s.ddp) == SEGS)
    s.tell()  # the limit of 16 requests, not the window of segments, must stop the sender
    end = time.monotonic() + 0.5
    s.until(lambda: time.monotonic() > end)
    assert len(s.ddp) == SEGS, "a request more"
    c.tell("told")
    while not c.over():
        s.turn()
        while s.ddp:
            s.serve(s.ddp.popleft())
            s.tell()
    assert c.answer() == (24, 0) and s.msn[0] == 0

@rule("A run's number MUST be greater (RFC 1982)")
@customer()
def a_refusal_fails_the_request_that_it_names_and_nothing_else(c):
    c.tell("go 1")
    s = c.store()
    s.until(lambda: s.ddp)
    ddp = s.ddp[0]
    c.d.deliver(s.packet(REFUSED, taken=0, body=bytes([0x01, 0x02, 0xC0, 0]) + struct.pack(">H", len(ddp)) + ddp[:14]))
    done = c.answer()
    assert done == (0, REM_ACCESS), done
    c.tell("go 1")
    t = c.store()
    c.serves(t, 1)
    assert 0 < t.peer_run - s.peer_run < 1 << 31, (s.peer_run, t.peer_run)


@customer()
def a_refusal_of_another_run_or_of_another_device_fails_nothing(c):
    c.tell("go 1")
    s = c.store()
    s.until(lambda: s.ddp)
    other = device()
    wrong = s.packet(REFUSED, peer_run=s.peer_run ^ 1), s.packet(REFUSED, peer_run=0, run=s.run)
    for d, body in ((c.d, wrong[0]), (c.d, wrong[1]), (other, s.packet(REFUSED))):
        before = counters()["rd_bad"]
        d.deliver(body)
        until(lambda before=before: counters()["rd_bad"] == before + 1)
    c.serves(s, 1)
    other.close()


@rule("as long as the receiver wants. Other kinds: MUST be sent as 0",
      "MUST be sent as 0 to an end that has not asked")
@customer(how=("rnr=2",))
def segments_tell_how_often_their_message_may_wait(c):
    c.tell("go 2")
    c.serves(c.store(), 2)
    came = [decode_carried(p.body[16:] if p.flags & F_COOKIE else p.body) for p in c.d.data]
    assert {s.rnr for s in came if s.kind == SEGMENT} == {3} and {s.room for s in came} == {0}, came


@rule("Of a REFUSED: MUST be sent as 0; a receiver ignores the octets")
@scene()
def a_taken_that_counts_a_segment_which_is_lacking_ends_the_pair(x):
    x.works()
    x.d.deliver(x.pair.packet(TAKEN, number=x.pair.number))
    x.works()
    x.d.deliver(x.pair.packet(TAKEN, number=x.pair.number + 1))
    c = x.pair.is_refused()
    assert (c.kind, c.peer_run, c.number, c.body) == (REFUSED, x.pair.run, 0, b""), c
    x.pair.begin()
    x.works()


@rule("as long as the receiver wants. Other kinds: MUST be sent as 0")
@customer()
def a_silent_end_is_asked_whether_it_knows_the_pair(c):
    c.tell("go 1")
    s = c.store()
    s.until(lambda: s.ddp)
    asked = lambda: [x for x in c.d.carried if x.kind == TAKEN]
    c.d.until(asked, "no TAKEN comes")
    a = asked()[0]
    assert (a.run, a.peer_run) == (s.peer_run, 0), a
    c.d.deliver(s.packet(REFUSED, run=0, taken=0))
    done, status = c.answer()
    assert done == 0 and status != 0, status
