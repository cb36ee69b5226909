# SPDX-License-Identifier: BSD-3-Clause
"""A case for each rule of doc/datagram-iwarp.md about any datagram, Sends and their segments."""
import struct

import wire_ud
from rig import PATIENCE, Daemon, case, helper, nothing_is_left, pair_conf, until
from rules import rule
from ud_scene import CM_KEY, GROUP_QPN, HEADER, MY_QPN, PINGPONG_KEY, WIRE_KEY, Wire, counted, counters, header, message
from ud_scene import peer, pingpong, program, question, segment, segments, send_segment, sink, text_of, whole
from wire import ADDR, HOST
from wire_check import crc32c
from wire_world import daemon

GROUP = "239.7.7.9"


@case
def messages_and_their_answers():
    w = peer()
    p, qpn = pingpong(3)
    for i in range(3):
        w.put(message(qpn, qkey=PINGPONG_KEY))
        d = w.get()
        assert (d.kind, d.dst_qpn, d.src_qpn, d.qkey, d.msn, len(d.body)) == (1, MY_QPN, qpn, PINGPONG_KEY, i + 1, 64), d
    assert "3 iters in" in p.ok(), p.tail()


ended = set()  # QPNs of programs that first_of() has killed


def first_of(kind, *argv):
    """The first datagram of this kind that rnicd sends for ud_long.c or ud_record.c, read by the rules of wire_ud.py."""
    w = peer()
    p = daemon().run(*argv)
    if "reader" in argv or "writer" in argv:
        p.p.stdin.write("go\n")
        p.p.stdin.flush()
    d = w.get()
    while d.src_qpn in ended:  # a datagram of a killed program, which rnicd had still to send
        d = w.get()
    p.p.kill()
    p.wait()
    w.rest()
    ended.add(d.src_qpn)
    assert (d.kind, d.src, d.dst_qpn) == (kind, ADDR, MY_QPN), d
    return d


@rule("| 0 | version, high nibble | MUST be 1;", "MUST be sent as 0; a receiver ignores the nibble",
      "a flag that the kind does not have MUST be sent as 0",
      "Kinds 7 and 8 have a rule of their own. Other kinds: MUST be sent as 0",
      "Kind 6 has a rule of its own. Other kinds: MUST be sent as 0", "A sender MUST write the CRC",
      "MUST be 0x41: untagged, last segment", "MUST be 0x43 (Send) or 0x45", "| queue number | MUST be 0 |",
      "| message offset | MUST be 0 |", "in 12 bits; MUST NOT be 0 |", "octets of the whole message; MUST NOT be 0;",
      "RDMAP control | MUST be 0x40: RDMA Write", "The Q_Key MUST be that of the destination queue pair")
@case
def what_is_sent_is_as_the_tables_say():
    to = (HOST, str(MY_QPN))
    one = first_of(1, helper("ud_long"), ADDR, "source", *to, "100")
    assert one.body == text_of(0, 100) and one.qkey == WIRE_KEY, one
    part = first_of(4, helper("ud_long"), ADDR, "source", *to, "5000")
    assert (part.unit, part.total, part.qkey, part.body) == (1408, 5000, WIRE_KEY, text_of(0, 5000)[:1408]), part
    stored = first_of(5, helper("ud_record"), ADDR, "writer", *to, "4096", "7", "5000", "5000")
    assert (stored.unit, stored.total, stored.qkey, stored.stag, stored.to) == (1408, 5000, WIRE_KEY, 7, 4096), stored
    asked = first_of(6, helper("ud_record"), ADDR, "reader", *to, "4096", "7", "5000", "5000")
    assert asked.qkey == WIRE_KEY and struct.unpack_from(">IIQ", asked.body, 12) == (5000, 7, 4096), asked


@rule("see below; a receiver MUST drop a kind that it does not know",
      "a receiver MUST drop the datagram if the high octet is not 0", "| 0 | version, high nibble | MUST be 1;",
      "MUST be 0x41: untagged, last segment", "MUST be 0x43 (Send) or 0x45", "| queue number | MUST be 0 |",
      "| message offset | MUST be 0 |", "The Q_Key MUST be that of the destination queue pair",
      "Both QPNs of the datagram MUST be 1")
@case
def what_cannot_be_delivered_is_dropped_and_counted():
    w = peer()
    p, qpn = pingpong(1)
    to = lambda dst=qpn, qkey=PINGPONG_KEY, **how: message(dst, qkey=qkey, **how)
    good = to()
    bad = [("qkey", to(qkey=PINGPONG_KEY + 1)), ("no_qp", to(qpn + 1)), ("no_qp", to(GROUP_QPN)),
           ("bad", good[:16]), ("bad", to(first=0x20)), ("bad", to(first=0)), ("bad", to(0x1000000 + qpn)),
           ("bad", to(src=0x1000000 + MY_QPN)), ("bad", to(control=0x01)), ("bad", to(control=0xc1)),
           ("bad", to(control=0x42)), ("bad", to(rdmap=0x41)), ("bad", to(rdmap=0x44)), ("bad", to(rdmap=0x48)),
           ("bad", to(rdmap=0x83)), ("bad", to(qn=1)), ("bad", to(mo=4)),
           ("bad", header(1, qpn, MY_QPN, PINGPONG_KEY) + b"\x41\x43"), ("bad", header(2, 7, 1) + question(1)[20:])]
    bad += [("bad", header(kind, qpn, qkey=PINGPONG_KEY) + send_segment(b"x" * 64)) for kind in (0, 7, 9, 15, 16, 31, 48, 255)]
    for name, data in bad:
        counted(name, lambda data=data: w.put(data))
    w.put(good)
    assert w.get().dst_qpn == MY_QPN
    assert "1 iters in" in p.ok(), p.tail()


@rule("A receiver MUST compare the CRC before it believes anything but the header, and MUST drop a datagram whose CRC is "
      "wrong")
@case
def a_wrong_crc_is_dropped():
    w = peer()
    p, qpn = sink(1, 100)
    # the CRC is checked before Q_Key and DDP: each datagram counts as `crc`
    for good in (message(qpn, text_of(1, 100)), message(qpn, text_of(1, 100), qkey=WIRE_KEY + 1),
                 message(qpn, text_of(1, 100), control=0x42)):
        turned = struct.unpack("<I", struct.pack(">I", crc32c(good)))[0]
        for crc in (crc32c(good) ^ 1, turned, crc32c(good[:-1])):
            counted("crc", lambda good=good, crc=crc: w.put(good, crc))
    whole(p, lambda n: [message(qpn, text_of(n, 100))])


@rule("MUST be sent as 0; a receiver ignores the nibble", "a flag that the kind does not have MUST be sent as 0",
      "Kinds 7 and 8 have a rule of their own. Other kinds: MUST be sent as 0",
      "Kind 6 has a rule of its own. Other kinds: MUST be sent as 0", "a receiver MUST NOT judge a Send by its MSN")
@case
def reserved_fields_and_the_msn_are_ignored():
    w = peer()
    odd = {0: 0x1f, 2: 0xfe, 3: 0xff, 16: 0xff, 19: 0xff}
    msns = (1, 0, 7, 7, 3, 0xffffffff)
    p, qpn = pingpong(len(odd) + len(msns))
    for at, octet in odd.items():
        data = bytearray(message(qpn, qkey=PINGPONG_KEY))
        data[at] = octet
        w.put(bytes(data))
        assert w.get().dst_qpn == MY_QPN, (at, octet)
    for msn in msns:
        w.put(message(qpn, qkey=PINGPONG_KEY, msn=msn))
        assert w.get().dst_qpn == MY_QPN, msn
    assert f"{len(odd) + len(msns)} iters in" in p.ok(), p.tail()


@rule("then its QPN MUST be 0xFD0000 +", "A sender MUST use as destination port", "A receiver MUST drop a datagram that "
      "came to another port")
@case
def a_number_that_tells_a_udp_port_goes_with_this_port_alone():
    w, own, theirs = peer(), Wire(7007), 0xfd0000 | 7000
    mine, body = 0xfd0000 | own.port, text_of(1, 100)
    p, qpn = sink(2, 200, "port=7000")
    assert qpn == theirs, p.tail()
    good = message(theirs, body)
    for sock, data, port in ((w, good, wire_ud.PORT),  # the destination port is not the destination queue pair's
                             (w, message(0xfd0000 | 7001, body), 7000), (w, message(5, body), 7000),
                             (w, message(theirs, body, src=mine), 7000),  # the source port is not the source's
                             (w, question(9), 7000), (w, struct.pack(">BB", 0x10, 32) + bytes(42), 7000)):
        counted("bad", lambda sock=sock, data=data, port=port: sock.put(data, port=port))
    w.put(good, port=7000)
    own.put(message(theirs, body, src=mine), port=7000)
    assert p.ok().endswith(f"whole 2 from {mine}"), p.tail()
    p = daemon().run(helper("ud_long"), ADDR, "source", HOST, str(mine), "100", "port=7003")
    d = own.get()
    assert (d.src_qpn, d.sport, d.dport, len(d.body)) == (0xfd0000 | 7003, 7003, 7007, 100), d
    p.p.stdin.close()
    p.ok()
    own.s.close()


@rule("A queue pair MUST NOT have one of them", "A queue pair without a UDP port of its own MUST NOT have a QPN from "
      "0xFD0000 to 0xFDFFFF")
@case
def the_numbers_of_sockets_and_of_udp_ports_are_given_to_no_other_queue_pair():
    # if rnicd drew QPNs from all 2^24 numbers, 3,000 QPNs would have none of these 2 * 65,536 with a probability of
    # 10^-10
    out = daemon().run(helper("ud_long"), ADDR, "numbers", "3000").ok(PATIENCE)
    seen = {int(word) for word in out.split()[1:]}
    assert len(seen) > 2900 and not {q for q in seen if q >> 16 in (0xfd, 0xfe)}, sorted(seen)[:3]


@rule("A receiver MUST drop a Send to a group's address with any other destination QPN")
@case
def a_send_to_a_group_names_no_queue_pair():
    w = peer()
    numbers = lambda: {int(line.split()[0]) for line in daemon().telemetry("/rnic/qps")}
    others = numbers()
    p = program("mckey", "-m", GROUP, "-b", ADDR, "-C", "2", "-S", "64")
    until(lambda: daemon().telemetry("/rnic/groups") and len(numbers() - others) == 1, p.tail)
    for qpn in (*(numbers() - others), MY_QPN, 1, 0):
        counted("bad", lambda qpn=qpn: w.put(message(qpn, qkey=CM_KEY), to=GROUP))
    while p.p.poll() is None:
        came = counters()["in"]
        w.put(message(GROUP_QPN, qkey=CM_KEY), to=GROUP)
        until(lambda came=came: p.p.poll() is not None or counters()["in"] > came, p.tail)
    p.ok()


@case
def segments_of_one_message_in_any_order():
    w = peer()
    p, qpn = sink(3, 5000)
    before = counters()
    for msn, unit in ((1, 64), (2, 576), (3, 1408)):
        parts = segments(qpn, text_of(msn, 5000), msn, unit)
        for part in (*parts[1::2], *parts[1::2][:1], *parts[::2]):
            w.put(part)
    p.ok()
    assert counters()["again"] == before["again"] + 3, counters()


@rule("in 12 bits; MUST NOT be 0 |", "octets of the whole message; MUST NOT be 0; MUST NOT take more than 1,024 segments")
@case
def a_segment_that_cannot_be_is_dropped():
    w = peer()
    p, qpn = sink(1, 65536)
    body = text_of(9, 65536)
    odd = lambda at=0, unit=64, **how: segment(qpn, body, 9, at, unit, **how)
    for data in (odd(unit=0, size=64), odd(total=0), odd(total=64 * 1024 + 1), odd(total=0xffffffff),
                 segment(qpn, body, 9, 32, 64), odd(size=63), odd(size=65), odd(size=0), odd(control=0x41),
                 odd(at=65472, control=0x01), odd(at=65472, control=0xc1), odd(at=65536, size=0, total=65536),
                 odd(at=64, total=64, control=0x41)):
        counted("bad", lambda data=data: w.put(data))
    whole(p, lambda n: segments(qpn, text_of(n, 65536), n, 64))  # 1,024 segments


@rule("Its receive MUST NOT complete with it")
@case
def a_message_that_stays_incomplete_completes_no_receive():
    w = peer()
    p, qpn = sink(1, 5000)
    before = counters()["incomplete"]
    for msn in range(1, 41):  # more than rnicd keeps open, and more than there are receives
        w.put(segment(qpn, text_of(msn, 5000), msn, 0, 1408))
    until(lambda: counters()["incomplete"] == before + 40, counters)
    assert p.p.poll() is None, "a receive has completed"
    whole(p, lambda n: segments(qpn, text_of(100 + n, 5000), 100 + n, 1408))


@case
def segments_that_came_as_fragments_of_ip():
    w = peer()
    p, qpn = sink(4, 150000)
    msn, bad = 0, counters()["bad"]
    for unit in (1472, 16384, 65344):
        whole_one = False
        while not whole_one:
            msn, had = msn + 1, counters()["in"]
            parts = segments(qpn, text_of(msn, 150000), msn, unit)
            for part in parts[::-1]:
                w.put(part)
            whole_one = comes_to("in", had + len(parts))
    one = message(qpn, text_of(99, 60000))  # a Send of one segment
    crc = counters()["crc"]
    w.put(one, crc32c(one) ^ 1)
    while not comes_to("crc", crc + 1):
        w.put(one, crc32c(one) ^ 1)
    whole(p, lambda n: [one])
    assert counters()["bad"] == bad, counters()


def comes_to(name, count):
    """Whether a counter reaches a value within a second. On a busy machine the tap may lose a frame, or the time limit
    of an incomplete message may pass."""
    try:
        until(lambda: counters()[name] >= count, patience=1)
    except AssertionError:
        return False
    return True


@rule("what goes to a group MUST NOT")
@case
def what_goes_to_a_group_is_not_cut_by_ip():
    with Daemon(pair_conf(a="segments = 64k\ncapture = {dir}/a.pcapng")) as d:
        p = d.run(helper("ud_record"), "10.77.0.1", "writer", GROUP, str(GROUP_QPN), "0", "9", "50000", "50000")
        p.p.stdin.write("go\n")
        p.p.stdin.close()
        p.ok()
        nothing_is_left(d)
        d.end()
        packets = []
        seen = wire_ud.datagrams(d.dir + "/a.pcapng", fragments=packets)
        assert len(seen) == len(packets) == -(-50000 // 1408) and {g.dst for g in seen} == {GROUP}, (seen, packets)
