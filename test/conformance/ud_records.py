# SPDX-License-Identifier: BSD-3-Clause
"""A case for each rule of doc/datagram-iwarp.md about RDMA Write-Records and Read-Records."""
import time

from rig import PATIENCE, case, helper, until
from rules import rule
from ud_scene import GROUP_QPN, MY_QPN, WIRE_KEY, counted, counters, peer, read_request, record, record_of, records, target
from wire import ADDR, HOST
from wire_world import daemon

GROUP, TAG = "239.7.7.8", 300


@rule("A receiver MUST NOT report an octet as valid that it has not placed")
@case
def of_a_record_only_what_came_is_told():
    w = peer()
    p, qpn, where, stag = target(3, 5000)
    came = counters()["in"]
    for m, lost in ((0, ()), (1, (1, 3)), (2, ())):
        parts = records(qpn, 77 + m, record_of(m, 5000), stag, where + m * 5000, imm=m)
        order = [*range(1, len(parts), 2), *range(0, len(parts), 2)]
        for n in order:
            if m == 2 and n == 5:
                until(lambda: counters()["in"] == came, counters)
                # a segment whose STag names no memory belongs to no record
                counted("refused", lambda: w.put(record(qpn, 79, record_of(2, 5000), 5 * 576, stag ^ 0x100,
                                                        where + 10000, imm=2)))
            elif n not in lost:
                w.put(parts[n])
                came += 1
    assert f"told 3 whole 1 valid {15000 - 3 * 576}" in p.ok(), p.tail()


@rule("A record MUST have at least one octet", "RDMAP control | MUST be 0x40: RDMA Write")
@case
def a_segment_of_a_record_that_cannot_be_is_dropped():
    w = peer()
    p, qpn, where, stag = target(1, 5000)
    body = record_of(0, 5000)
    odd = lambda at=0, **how: record(qpn, 7, body, at, stag, where, **how)
    for data in (odd(total=0), odd(total=0, part=b""), odd(total=0, part=b"", control=0xc1), odd(part=b""), odd(unit=0),
                 odd(rdmap=0x43), odd(rdmap=0x00), odd(rdmap=0x80), odd(control=0xc1), odd(at=4608, control=0x81),
                 odd(control=0x41), odd(control=0x83), odd(step=1), odd(at=576, step=575), odd(step=5184),
                 odd(part=body[:575]), odd(part=body[:577]), odd(unit=64, total=64 * 1024 + 1, part=body[:64])):
        counted("bad", lambda data=data: w.put(data))
    for part in records(qpn, 7, body, stag, where, imm=0):
        w.put(part)
    assert "told 1 whole 1 valid 5000" in p.ok(), p.tail()


@rule("The segment MUST lie within what is bound")
@case
def a_record_to_a_group_names_a_tag_in_place_of_an_stag():
    w = peer()
    p, *_ = target(1, 2000, GROUP, str(TAG), mode="member")
    body = record_of(0, 2000)
    part = lambda at, tag=TAG, to=0: record(GROUP_QPN, tag, body, at, tag, to, imm=0)
    # the first tag is bound to no memory; the other segments end beyond the bound memory, or their TO wraps around
    for data in (part(0, tag=TAG + 1), part(0, to=2000), part(0, to=1425), part(576, to=1 << 63), part(0, to=(1 << 64) - 576)):
        counted("refused", lambda data=data: w.put(data, to=GROUP))
    for at in (576, 0, 1728, 1152):
        w.put(part(at), to=GROUP)
    assert "told 1 whole 1 valid 2000" in p.ok(), p.tail()


@rule("A tag that is bound anew in the middle of a record MUST NOT make one record")
@case
def a_tag_that_is_bound_anew_makes_no_record_in_two_places():
    w = peer()
    p, *_ = target(2, 2000, GROUP, str(TAG), mode="member")
    parts = [records(GROUP_QPN, number, record_of(number, 2000), TAG, 0, imm=number) for number in range(2)]
    came = counters()["in"]
    for part in parts[0][:2]:
        w.put(part, to=GROUP)
    until(lambda: counters()["in"] == came + 2, counters)
    p.p.stdin.write("\n")
    p.p.stdin.flush()
    p.wait_line("bound")
    before = counters()
    for part in parts[0][2:]:  # counted as `bad`, or as `again` if the record has been reported meanwhile
        w.put(part, to=GROUP)
    p.wait_line("record 0")
    now = counters()
    assert now["bad"] + now["again"] == before["bad"] + before["again"] + 2, (before, now)
    for part in parts[1]:
        w.put(part, to=GROUP)
    assert f"told 2 whole 1 valid {2 * 576 + 2000}" in p.ok(), p.tail()


@case
def what_is_incomplete_is_told():
    w = peer()
    p, qpn, where, stag = target(1, 5000)
    assert daemon().telemetry("/rnic/records") == []
    said, number, end = [], 100, time.monotonic() + PATIENCE
    # rnicd forgets a record after record-timeout, maybe before it answers telemetry: then another record is begun
    while not said and time.monotonic() < end:
        number += 1
        w.put(record(qpn, number, bytes(5000), 576, stag, where))
        said = daemon().telemetry("/rnic/records")
    ours = {f"rnic0 qpn {qpn} record {n} of {HOST}:{MY_QPN} bytes 576 of 5000" for n in range(101, number + 1)}
    for row in said:  # two rows, if the segment of the record before came only after telemetry's answer before
        text, waits = row.split(" waits ")
        assert text in ours and waits.endswith("us"), said
    p.stop()


@rule("the answer MUST have this Q_Key", "A repeated request MUST NOT be answered again within")
@case
def a_read_is_answered_by_a_record_once():
    w = peer()
    p, qpn, where, stag = target(1, 4000)
    before = counters()["again"]
    for part in records(qpn, 7, record_of(0, 4000), stag, where, imm=0)[:-1]:
        w.put(part)
    for _ in range(7):
        w.put(read_request(qpn, 8, 0x777, (0x55, 1 << 40), 4000, (stag, where)))
    parts = [w.get() for _ in range(3)]
    assert all((d.kind, d.dst_qpn, d.qkey) == (5, MY_QPN, 0x777) for d in parts), parts
    assert all((d.stag, d.total, d.imm) == (0x55, 4000, None) for d in parts), parts
    assert [d.to - (1 << 40) for d in parts] == [d.offset for d in parts] == [0, 1408, 2816]
    assert b"".join(d.body for d in parts)[:3456] == record_of(0, 4000)[:3456]
    w.put(read_request(qpn, 9, 0x778, (0x55, 1 << 40), 1, (stag, where)))  # behind all answers to the first request
    assert w.get().qkey == 0x778 and counters()["again"] == before + 6
    p.stop()


@rule("The size MUST NOT be 0 or more than a record may have", "The request MUST NOT go to a group")
@case
def a_read_that_cannot_be_is_dropped():
    w = peer()
    p, qpn, where, stag = target(1, 4000)
    odd = lambda dst=qpn, size=4000, source=(stag, where), sink=(0x55, 1 << 40), **how: \
        read_request(dst, 8, 0x777, sink, size, source, **how)
    for data in (odd(size=0), odd(size=(1 << 20) + (1 << 19)), odd(size=0xffffffff), odd(control=0x01), odd(qn=0),
                 odd(sink=(0x55, (1 << 64) - 1)), odd()[:-1], odd() + b"\0"):
        counted("bad", lambda data=data: w.put(data))
    counted("no_qp", lambda: w.put(odd(GROUP_QPN)))
    for data in (odd(source=(stag ^ 0x100, where)), odd(source=(stag, where + 1)), odd(source=(stag, where - 1))):
        counted("refused", lambda data=data: w.put(data))
    member, *_ = target(1, 2000, GROUP, str(TAG), mode="member")
    counted("bad", lambda: w.put(odd(GROUP_QPN), to=GROUP))
    for to in (GROUP, str(GROUP_QPN)), (GROUP, str(qpn)), (HOST, str(GROUP_QPN)):
        reader = daemon().run(helper("ud_record"), ADDR, "reader", *to, "0", str(TAG), "2000", "2000")
        reader.p.stdin.write("go\n")
        reader.p.stdin.close()
        assert reader.wait() != 0 and "local QP operation error" in reader.tail(), reader.tail()
    w.put(odd())
    assert [w.get().qkey for _ in range(3)] == [0x777] * 3  # the answer is read to its end, so the next case gets none
    member.stop()
    p.stop()
