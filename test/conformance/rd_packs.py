# SPDX-License-Identifier: BSD-3-Clause
"""A case for each rule of doc/datagram-iwarp.md, chapter "Reliable datagrams", about packets with several segments."""
from rd_scene import COUNTER, QKEY, counters, customer, scene, text
from rig import until
from rules import rule
from wire import WRITE, tagged, untagged, SEND
from wire_rd import FIRST, LAST, LOOSE, PARTS, SEGMENTS, SEGS, Pair, part

# ---- rnicd receives ----

def writes(x, n, octet=0xee, size=4):
    """Segments that write to n places of the store."""
    return [tagged(WRITE, x.stag, x.where + COUNTER + k * size, bytes([octet]) * size) for k in range(n)]


def written(x, n, octet=0xee, size=4):
    return x.memory()[COUNTER:COUNTER + (n + 1) * size] == bytes([octet]) * n * size + bytes(size)


@scene(length=64)
def segments_of_one_packet_are_taken(x):
    for _ in range(3):
        x.d.deliver(x.pair.together(*(x.pair.message(text(x.m + k, x.length))[0] for k in range(15))))
        x.m += 15
        x.pair.taken()
    assert x.came() == (45, 0)
    p = x.pair
    first, second = writes(x, 2)
    x.d.deliver(p.together(first, p.add_request(9, x.stag, x.where, 5), second, p.add_request(8, x.stag, x.where, 2)))
    p.taken()
    assert written(x, 2) and x.came() == (45, 7)
    assert [int.from_bytes(p.get()[22:30], "big") for _ in range(2)] == [0, 5]
    x.works()


@rule("octets of the segment, with its DDP header; MUST NOT be 0",
      "A receiver MUST take no segment of a SEGMENTS in which a length is 0")
@scene()
def a_packet_with_wrong_parts_is_dropped_whole(x):
    x.works()
    good = [part(w, QKEY) for w in writes(x, 3)]
    wrong = part(x.attack(), QKEY)[8:]
    many = b"".join(part(w, QKEY) for w in writes(x, PARTS + 1))
    for body in (b"", good[0] + part(b"", QKEY), part(b"", QKEY) + good[0], good[0] + part(b"", QKEY) + good[1],
                 good[0] + part(wrong, QKEY, length=len(wrong) + 1), part(wrong, QKEY, length=0xffff),
                 good[0] + part(wrong, QKEY, length=len(wrong) - 1), b"".join(good) + b"\0", b"".join(good) + bytes(7),
                 b"".join(good)[:-1], many, good[0] + bytes(8),
                 good[0] + part(tagged(WRITE, x.stag, x.where, bytes(1313)), QKEY)):
        x.dropped("rd_bad", lambda body=body: x.d.deliver(x.pair.packet(SEGMENTS, body, number=x.pair.number)))
    x.d.deliver(x.pair.together(*writes(x, PARTS)))
    x.pair.taken()
    assert written(x, PARTS)


@rule("0x02 and 0x04 as of a SEGMENT; the others MUST be sent as 0")
@scene()
def octets_without_a_meaning_are_ignored(x):
    body = b"".join(part(w, QKEY, flags=0xff, rnr=k) for k, w in enumerate(writes(x, 4)))
    packet = x.pair.packet(SEGMENTS, body, number=x.pair.number, qkey=0x55)
    x.pair.number += 4
    x.d.deliver(packet[:1] + b"\xe6\xff\xff" + packet[4:])
    x.pair.taken()
    assert written(x, 4)
    x.works()


@scene()
def each_segment_is_in_the_window_or_not(x):
    x.works()
    p, begin = x.pair, x.pair.number
    for number, size, bad in ((12, 8, 4), (4, SEGS, 8), (0, 4, 0)):
        before = counters()["rd_bad"]
        p.number = begin + number
        x.d.deliver(p.together(*writes(x, size, octet=number + 1)))
        x.d.barrier()
        until(lambda: counters()["rd_bad"] == before + bad, (number, size, bad))  # pylint: disable=cell-var-from-loop
    p.number = begin + 20
    p.until(lambda: p.told >= begin + SEGS, "the segments in the window are not taken")
    assert p.told == begin + SEGS, (p.told, begin)
    p.number = begin + SEGS
    x.works()


@scene()
def a_segment_in_the_middle_ends_the_run(x):
    good = writes(x, 3)
    for n, (ddp, term) in enumerate(((tagged(WRITE, x.stag ^ 0x100, x.where, b"x" * 8), (0x11, 0x00)),
                                     (untagged(15, 0, 1, b"x" * 8), (0x02, 0x06)))):
        p = Pair(x.d, 0x4343 + n, x.qpn, QKEY)
        x.d.deliver(p.together(good[0], ddp, good[1], good[2]))
        c = p.is_refused()
        assert c.taken == 1 and c.body[:2] == bytes(term) and c.body[6:6 + 14] == ddp[:14], c
    p = Pair(x.d, 0x4345, x.qpn, QKEY)
    x.d.deliver(p.packet(SEGMENTS, part(good[0], QKEY) + part(good[1], QKEY + 1) + part(good[2], QKEY), number=0))
    c = p.is_refused()
    assert c.taken == 1 and c.body[:2] == bytes((0x01, 0x02)), c
    assert written(x, 1), "a segment behind the wrong one was placed"
    x.works()


@scene(length=64, later=True)
def a_message_in_the_middle_waits_for_a_receive(x):
    p = x.pair
    x.d.deliver(p.together(writes(x, 1)[0], p.message(text(0, x.length))[0], p.message(text(1, x.length))[0]))
    p.until(lambda: p.told == 1, "the segment before is not taken")
    x.d.barrier()
    p.turn()
    assert p.told == 1
    x.say()
    p.taken()
    x.m = 2
    x.works()


@scene(length=64, how=("unordered",))
def chains_lie_in_packets_in_any_way(x):
    p = Pair(x.d, 0x4343, x.qpn, QKEY)
    p.loose = True
    parts = lambda m: [untagged(SEND, 0, m + 1, text(m, 64)[at:at + 32], mo=at, last=at == 32) for at in (0, 32)]
    a, b, c = map(parts, range(3))
    first = p.together(*a, b[0], flags=[FIRST, LAST, FIRST])
    x.d.deliver(p.together(b[1], *c, flags=[LAST, FIRST, LAST]))
    p.until(lambda: {4, 5} <= p.told_too, "the chain that is whole is not taken")
    assert p.told == 0 and 3 not in p.told_too and x.came()[0] == 1
    x.d.deliver(first)
    p.taken()
    assert x.came()[0] == 3


# ---- rnicd sends ----

def burst(c, n, packs):
    """The client posts n short messages, many at a time; returns our store, which has served them."""
    c.tell(f"burst {n}")
    s = c.store()
    s.packs, s.quiet = packs, True
    s.until(lambda: len(s.held) == SEGS)  # further messages wait until these are told as taken
    s.quiet = False
    s.take()
    while not [line for line in c.p.out if line.startswith("overtaken")]:
        s.turn()
        while s.ddp:
            s.serve(s.ddp.popleft())
        s.tell()
        c.d.pump(0.01)
    assert sorted(s.messages) == sorted(text(m, c.length) for m in range(n // 2))
    return s


@rule("A sender MUST NOT send a SEGMENTS before a packet of the other end's run")
@customer(length=64)
def an_end_that_does_not_tell_that_it_takes_such_packets_gets_none(c):
    s = burst(c, 200, packs=False)  # Pair raises when such a packet comes
    assert s.takes is True and not s.packed


@rule("0x02 and 0x04 as of a SEGMENT; the others MUST be sent as 0")
@customer(length=64)
def messages_that_wait_share_packets(c):
    s = burst(c, 200, packs=True)
    assert max(s.packed) >= SEGS // 2, s.packed


@customer(length=64, how=("unordered",))
def messages_of_an_unordered_run_share_packets(c):
    s = burst(c, 200, packs=True)
    assert max(s.packed) >= SEGS // 2, s.packed
    assert all(f & LOOSE and f & FIRST and f & LAST for f in s.flags.values())
