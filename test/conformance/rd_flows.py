# SPDX-License-Identifier: BSD-3-Clause
"""A case for each rule of doc/datagram-iwarp.md, chapter "Reliable transport"."""
import itertools
import struct
import time

import wire_rd
from rd_scene import QKEY, RETRY_EXC, counters, customer, device, flow_of, scene, text
from rig import case, helper, until
from rules import rule
from wire import ADDR
from wire_rd import ACK, COOKIE, DATA, F_TWICE, HELLO, SEGMENT, SEGS, TAKEN, UNKNOWN, WINDOW
from wire_rd import Pair, packet, ranges_of
from wire_world import daemon

# ---- the transport: rnicd receives ----

@rule("16 octets; MUST be sent as 0, a receiver ignores them",
      "An answer MUST have the two of the packet that it answers",
      "A receiver MUST NOT keep anything for a HELLO, and its answer MUST NOT be longer than the HELLO")
@scene()
def a_hello_is_answered_by_a_cookie_as_long_and_nothing_is_kept(x):
    d = device()
    for body in (bytes(16), b"\xff" * 16):
        d.flow += 0x11223344
        d.put(packet(HELLO, flow=d.flow, stamp=0x01020304, body=body))
        p = d.answered(COOKIE)
        assert (p.flow, p.stamp, p.src, p.dst, p.number) == (d.flow, 0x01020304, 0, 0, 0) and p.token, p
    assert flow_of(d) is None
    d.close()
    x.works()


@scene()
def data_with_the_cookie_opens_the_flow_and_is_acknowledged(x):
    assert flow_of(x.d) is None
    x.works()
    assert flow_of(x.d)["from"] == "open" and x.d.opened
    x.works()  # once the flow is open, DATA needs no cookie
    x.d.put_data(x.pair.packet(TAKEN), x.d.number, cookie=x.d.cookie)  # DATA may still have a cookie
    x.d.number += 1
    x.works()


def strangers(x):
    """
    DATA that must not open a flow: with a forged cookie, without a cookie, with another token or flow, or with the
    cookie of another device. Yields (device, function that sends).
    """
    d, other = device(), device()
    d.ask()
    body = Pair(d, 0x4242, x.qpn, QKEY).segment(x.attack())
    flip = lambda i: bytes(b ^ (1 if k == i else 0) for k, b in enumerate(d.cookie))
    yield from ((d, lambda i=i: d.put_data(body, 0, cookie=flip(i))) for i in (0, 7, 8, 15))
    yield d, lambda: d.put_data(body, 0, cookie=bytes(16))
    yield d, lambda: d.put_data(body, 0, cookie=None)
    yield d, lambda: d.put_data(body, 0, token=d.token ^ 1)
    yield d, lambda: d.put_data(body, 0, flow=d.flow ^ 1)
    yield other, lambda: other.put_data(body, 0, flow=d.flow, token=d.token, cookie=d.cookie)
    d.close()
    other.close()


@rule("The cookie MUST prove")
@scene()
def a_cookie_that_is_forged_or_of_another_opens_nothing(x):
    for d, put in strangers(x):
        x.dropped("rd_unknown", put)
        d.answered(UNKNOWN)
        assert flow_of(d) is None


@rule("The cookie MUST prove")
@scene()
def a_cookie_is_good_for_four_seconds(x):
    d = device()
    d.ask()
    asked = time.monotonic()
    body = Pair(d, 0x4242, x.qpn, QKEY).segment(x.attack())
    until(lambda: time.monotonic() - asked > 4.1)
    x.dropped("rd_unknown", lambda: d.put_data(body, 0))
    d.answered(UNKNOWN)
    d.close()


@rule("a receiver MUST NOT open a flow whose cookie is not younger")
@scene()
def a_replaced_flow_does_not_come_back(x):
    x.works()
    flow, token, cookie = x.d.flow, x.d.token, x.d.cookie
    body = x.pair.segment(x.attack(), number=x.pair.number)
    x.pair.number -= 1
    x.d.ask()
    x.works()
    for old in (cookie, None):
        x.dropped("rd_unknown", lambda old=old: x.d.put_data(body, 1, flow=flow, token=token, cookie=old))
        p = x.d.answered(UNKNOWN)
        assert (p.flow, p.token) == (flow, token), p


@rule("A receiver MUST deliver each number of a flow at most once")
@scene()
def a_number_is_delivered_once(x):
    x.works()
    body = x.pair.segment(x.pair.message(text(x.m, x.length))[0])
    number = x.d.give(body)
    x.m += 1
    x.d.delivered(number, body)
    x.d.answers.clear()
    x.dropped("rd_twice", lambda: x.d.put_data(body, number))
    x.d.answers.clear()
    x.d.put_data(x.pair.segment(x.attack()), number)  # the number makes it a repetition, whatever its content
    x.pair.number -= 1
    p = x.d.answered(ACK)
    assert p.flags & F_TWICE and p.number > number, p
    x.works()


@scene()
def a_number_outside_the_window_is_dropped(x):
    x.works()
    body = x.pair.segment(x.attack())
    x.pair.number -= 1
    for far in (WINDOW, WINDOW + 1, 1 << 30, (1 << 31) - 1):
        x.dropped("rd_far", lambda far=far: x.d.put_data(body, x.d.number + far))
    for behind in (1, 1 << 20, (1 << 31) - 1):
        x.dropped("rd_twice", lambda behind=behind: x.d.put_data(body, x.d.number - behind))


@rule("A receiver MUST NOT forget a flow while a cookie is good")
@scene()
def a_flow_is_not_forgotten_while_its_cookie_is_good(x):
    d = device()
    d.ask()
    asked = time.monotonic()
    p = Pair(d, 0x4242, x.qpn, QKEY)
    body = p.segment(p.message(text(x.m, x.length))[0])
    number = d.give(body)
    x.m += 1
    until(lambda: time.monotonic() - asked > 3.5)
    x.dropped("rd_twice", lambda: d.put_data(body, number, cookie=d.cookie))
    d.close()


@case
def an_ack_tells_the_lowest_ranges_in_order():
    d = device()
    d.ask()
    nothing = bytes(32)  # packets of a kind that does not exist
    for n in (2, 4, 5, 7, 9, 11, WINDOW - 1):
        d.put_data(nothing, n, cookie=d.cookie)
    told = lambda: {p.number: ranges_of(p) for p in d.answers if p.kind == ACK}
    d.until(lambda: told().get(0) == [(2, 3), (4, 6), (7, 8), (9, 10)])
    for n in (0, 1, 3):
        d.put_data(nothing, n, cookie=d.cookie)
    d.until(lambda: told().get(6) == [(7, 8), (9, 10), (11, 12), (WINDOW - 1, WINDOW)])
    d.close()


@rule("each flow; MUST NOT be 0.", "a receiver MUST drop a datagram whose body is not as long",
      "| as of any datagram; a receiver MUST compare the CRC before it believes anything")
@scene()
def datagrams_that_cannot_be_are_dropped(x):
    x.works()
    good = lambda **how: packet(**{"kind": DATA, "flow": x.d.flow, "token": x.d.token, "number": x.d.number, "body":
                                   x.pair.segment(x.attack(), number=x.pair.number), **how})
    held = x.pair.number
    for wrong in (good(first=0x20), good(first=0), good(kind=37), good(kind=47), good()[:20], good(src=16), good(dst=1),
                  good(kind=HELLO), good(kind=COOKIE), good(kind=UNKNOWN), good(kind=ACK, ranges=1),
                  good(kind=ACK, ranges=17, body=bytes(136)), good(flags=1, body=bytes(15))):
        x.pair.number = held
        x.dropped("ud_bad", lambda wrong=wrong: x.d.put(wrong))
        held = x.pair.number
    x.pair.number = held
    wrong = good()
    x.pair.number = held
    sum_ = struct.pack("<I", wire_rd.crc32c(wrong) ^ 1)
    x.dropped("ud_crc", lambda: x.d.s.sendto(wrong + sum_, x.d.to))


@scene()
def answers_of_no_flow_are_dropped(x):
    x.works()
    for kind, body in ((COOKIE, bytes(16)), (ACK, b""), (UNKNOWN, b"")):
        strange = device()
        for d in (x.d, strange):
            x.dropped("rd_strange", lambda d=d, p=packet(kind, flow=77, token=1, body=body): d.put(p))
        strange.close()


# ---- the transport: rnicd sends ----

@rule("Others MUST be sent as 0 and are ignored",
      "or 16 when a DATA of the flow had the flag 0x08. Other kinds: MUST be sent as 0",
      "below; the others MUST be sent as 0, and a receiver ignores them")
@customer(length=4000)
def a_sender_writes_reads_adds_and_sends(c):
    c.tell("go 8")
    c.serves(c.store(), 8)


@rule("16 octets; MUST be sent as 0, a receiver ignores them", "each flow; MUST NOT be 0.")
@customer()
def a_hello_is_repeated_until_its_cookie_comes(c):
    c.d.answer = lambda p: p.kind != HELLO or len(c.d.hellos) > 3
    c.tell("go 1")
    c.serves(c.store(), 1)
    assert len({p.flow for p in c.d.hellos}) == 1 and len(c.d.hellos) > 3, c.d.hellos
    assert len({p.stamp for p in c.d.hellos}) > 3, "repeated HELLOs have the same time stamp"


@rule("a sender MUST return the octets unchanged")
@customer(length=4000)
def data_is_repeated_with_its_number_and_its_cookie_until_an_ack(c):
    c.d.answer = lambda p: p.kind != DATA or len(c.d.data) > 6
    c.tell("go 2")
    c.serves(c.store(), 2)
    assert all(p.flags & 1 for p in c.d.data[:6]), c.d.data[:6]
    assert len({p.number for p in c.d.data[:6]}) < 6, "no DATA was repeated"
    assert not c.d.data[-1].flags & 1 and c.d.data[0].number == 0


@customer(length=8000)
def lost_packets_are_sent_again(c):
    count = itertools.count()
    c.d.answer = lambda p: p.kind != DATA or next(count) % 4 != 1
    c.tell("go 10")
    c.serves(c.store(), 10)


@rule("A sender MUST NOT send a segment whose number is 16 or more above")
@customer(length=60000)
def no_more_than_sixteen_segments_wait_to_be_taken(c):
    c.tell("go 1")
    s = c.store()
    s.quiet = True
    s.until(lambda: len(s.held) == SEGS)
    end = time.monotonic() + 0.5
    s.until(lambda: time.monotonic() > end)  # if rnicd sent one more segment, Pair would raise
    s.quiet = False
    while s.next in s.held:
        s.ddp.append(s.held.pop(s.next))
        s.next += 1
    c.serves(s, 1)


@rule("A sender MUST NOT send 256 numbers or more beyond the lowest one")
@case
def a_sender_keeps_to_the_window_behind_a_packet_that_does_not_come():
    d = device()
    p = daemon().run(helper("rd_ends"), ADDR, "client", "8")
    first = []
    d.answer = lambda x: x.kind != DATA or x.number != 0 or len(first) > 8 or first.append(x)
    pairs = WINDOW // SEGS + 2
    for k in range(pairs):  # each pair may have at most 16 Reads (SEGS) that are not answered yet
        p.p.stdin.write(f"to {d.host} {0x6000 + k} 4096 7\nask {SEGS}\n")
    p.p.stdin.flush()
    # Device raises when a number is beyond the window. rnicd keeps the window's last number free for an answer
    d.until(lambda: len(first) > 8 and max(x.number for x in d.data) >= WINDOW - 2,
            lambda: sorted({x.number for x in d.data}))
    d.until(lambda: len([c for c in d.carried if c.kind == SEGMENT]) == pairs * SEGS, lambda: len(d.carried))
    p.stop()
    d.close()


@rule("A sender MUST NOT send 256 numbers or more beyond the lowest one")
@customer(length=900000)
def a_sender_keeps_to_a_larger_window_that_it_is_told(c):
    d, first, hole = c.d, [], 400
    d.answer = lambda x: x.kind != DATA or x.number != hole or len(first) > 8 or first.append(x)
    d.window = 1
    c.tell("go 1")
    s = c.store()
    s.room = 100  # the window of the flow, not the pair's window of segments, must stop the sender
    c.serves(s, 1)  # Device raises when a number is beyond the window
    assert len(first) == 9


@rule("MUST NOT tell more than 256 to a sender that has never set the flag")
@scene()
def a_window_grows_for_a_sender_with_much_to_send(x):
    x.works()  # Device raises when rnicd tells a larger window though our DATA has not had the flag MUCH
    d, p = x.d, x.pair
    d.much = True
    x.works()
    d.until(lambda: (x.works(), d.takes)[1] == 16 * WINDOW, "the window does not grow")
    body = p.packet(TAKEN)
    far = d.number + 16 * WINDOW - 1  # the last number of the window; none of the numbers before it has come
    before = counters()["rd_far"]
    d.until(lambda: far in d.had, "a number within the window is not taken", lambda: d.put_data(body, far))
    for n in range(d.number + 2, d.number + 62, 2):  # more ranges than one ACK tells
        d.put_data(body, n)
    d.until(lambda: all(n in d.had for n in range(d.number + 2, d.number + 62, 2)), "not all ranges are told",
            lambda: d.put_data(body, far))
    assert counters()["rd_far"] == before
    d.put_data(body, far + 2)
    until(lambda: counters()["rd_far"] == before + 1)
    for n in range(d.number, far):
        d.put_data(body, n)
        d.pump()
    d.until(lambda: set(range(d.number, far + 1)) <= d.had, "not all numbers come",
            lambda: [d.put_data(body, n) for n in range(d.number, far) if n not in d.had])
    d.number, d.much = far + 1, False
    x.works()
    d.until(lambda: (x.works(), d.takes)[1] == WINDOW, "the window does not shrink")


@rule("A sender MUST drop an answer of another flow",
      "A sender MUST drop an ACK that tells a number which was never sent")
@customer()
def answers_that_break_a_rule_are_dropped(c):
    c.d.answer = lambda p: False
    c.tell("go 1")
    c.d.until(lambda: c.d.hellos)
    flow = c.d.hellos[0].flow
    wrong = [packet(COOKIE, flow=flow ^ 1, token=1, body=bytes(16)), packet(ACK, flow=flow),
             packet(UNKNOWN, flow=flow)]

    def each():
        for w in wrong:
            c.d.barrier()
            before = counters()["rd_strange"]
            c.d.put(w)
            until(lambda before=before: counters()["rd_strange"] == before + 1, f"{w.hex()}")

    each()
    c.d.answer = lambda p: p.kind == HELLO
    c.d.until(lambda: c.d.data)
    p = c.d.data[0]
    how = {"flow": flow, "token": p.token}
    pairs = lambda *r: b"".join(struct.pack(">II", *x) for x in r)
    wrong = [packet(ACK, flow=flow, token=p.token ^ 1), packet(ACK, flow=flow ^ 1, token=p.token),
             packet(UNKNOWN, flow=flow, token=p.token ^ 1), packet(ACK, number=1000, **how),
             packet(ACK, ranges=1, body=pairs((1, 1000)), **how), packet(ACK, ranges=1, body=pairs((1, 1)), **how),
             packet(COOKIE, body=bytes(16), **how)]
    each()
    c.d.answer = lambda p: True
    c.serves(c.store(), 1)


@rule("a sender MUST NOT give the packet to the next flow")
@customer()
def a_lost_flow_fails_what_is_under_way_and_the_next_is_another(c):
    c.tell("go 2")
    s = c.store()
    c.serves(s, 2)
    flow, run_ = c.d.data[-1].flow, s.peer_run
    c.d.incoming.clear()  # we forget the flow, as a restarted device does: DATA is answered with UNKNOWN
    c.tell("go 1")
    assert c.answer() == (2, RETRY_EXC)
    c.d.data.clear()
    c.d.flow = 0
    c.tell("go 1")
    t = c.store()
    t.memory = s.memory
    c.serves(t, 1, before=2)
    assert {p.flow for p in c.d.data} != {flow} and 0 < t.peer_run - run_ < 1 << 31, (flow, run_, t.peer_run)
