#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
RDMA Write-Record between two processes: over a good wire, where all records are complete and an independent checker
reads the capture; over a wire that loses, repeats, reorders and corrupts datagrams, where every byte reported as valid
must be right; and without the access right.
"""
import wire_ud
from rig import PATIENCE, Daemon, case, helper, main, nothing_is_left, pair_conf, until

A, B = "10.77.0.1", "10.77.0.2"
MIB = 1 << 20


def ends(d, count, lens, stag=lambda s: s, maps=()):
    """
    A target, and a writer that gets `count` orders to write a record. At most 16 orders are ahead of the records that
    the target has reported.
    """
    target = d.run(helper("ud_record"), B, "target", str(count), str(max(lens)), *maps)
    _, qpn, where, rkey = target.wait_line("target").split()
    writer = d.run(helper("ud_record"), A, "writer", B, qpn, where, str(stag(int(rkey))), str(max(lens)),
                   *map(str, lens))
    for n in range(count):
        # if the receiving worker gets no CPU, its queue is soon full; a record of which no segment arrives is not
        # reported
        until(lambda n=n: n < 16 + sum("record" in line for line in list(target.out)), target.tail)
        writer.p.stdin.write("w\n")
        writer.p.stdin.flush()
    writer.p.stdin.close()
    return target, writer


def told(target):
    """The target's result: number of records reported, number of complete ones, valid bytes."""
    words = target.ok(5 * PATIENCE).splitlines()[-1].split()
    return int(words[1]), int(words[3]), int(words[5])


def counters(d):
    return {k[3:]: v for k, v in d.telemetry("/rnic/counters").items() if k.startswith("ud_")}


@case
def every_size_is_written_and_told_whole():
    with Daemon(pair_conf()) as d:
        lens = [1, 1408, 1409, 4096, 65536, MIB]
        target, writer = ends(d, 3 * len(lens), lens)
        assert told(target) == (18, 18, 3 * sum(lens))
        writer.ok()
        nothing_is_left(d)
        c = counters(d)
        assert c["bad"] == c["crc"] == c["qkey"] == c["refused"] == c["incomplete"] == 0, c


@case
def an_independent_reader_puts_a_record_together():
    with Daemon(pair_conf(a="capture = {dir}/a.pcapng")) as d:
        target, writer = ends(d, 1, [5000])
        assert told(target) == (1, 1, 5000)
        writer.ok()
        nothing_is_left(d)
        d.end()
        parts = [g for g in wire_ud.datagrams(d.dir + "/a.pcapng") if g.kind == 5]
        assert [g.offset for g in parts] == [0, 1408, 2816, 4224] and all(g.total == 5000 for g in parts), parts
        body = b"".join(g.body for g in parts)
        assert body == bytes((i * 7 + (i >> 8) * 13 | 1) & 255 for i in range(5000))
        assert len({(g.to - g.offset, g.stag, g.msn, g.imm) for g in parts}) == 1 and parts[0].imm == 0


def told_over_a_bad_wire(workers, maps=()):
    bad = "loss = 2%\nduplicate = 2%\nreorder = 5%\ncorrupt = 1%"
    lens, count = [30000, 65536], 100
    with Daemon(pair_conf(a=bad, rnicd=f"workers = {workers}\nrecord-timeout = 1s")) as d:
        target, writer = ends(d, count, lens, maps=maps)
        records, whole, valid = told(target)
        writer.ok()
        assert records == count and 0 < whole < count, (records, whole)
        # a lost or corrupted datagram, 3 % of them, costs its segment of 1408 bytes and not its record
        assert 0.9 * sum(lens) * count / 2 < valid < sum(lens) * count / 2, valid
        assert counters(d)["incomplete"] > 0
        nothing_is_left(d)


@case
def what_is_told_over_a_bad_wire_is_right():
    told_over_a_bad_wire("0")


@case
def what_a_map_tells_over_a_bad_wire_is_right_and_all_that_came():
    told_over_a_bad_wire("0,0", ("100",))


@case
def records_in_segments_of_64k_are_told_as_far_as_they_came():
    with Daemon(pair_conf(a="segments = 64k\nloss = 0.5%", rnicd="record-timeout = 1s")) as d:
        lens, count = [MIB], 20
        target, writer = ends(d, count, lens, maps=("64",))
        records, whole, valid = told(target)
        writer.ok()
        # a segment is 45 IP fragments: a fifth of the segments are lost, and hardly a record is complete
        assert records == count and whole < count and 0.5 * count * MIB < valid < count * MIB, (records, whole, valid)
        nothing_is_left(d)
    # segments to a group are no longer than one packet on the path, whatever `segments` says
    with Daemon(pair_conf(a="segments = 64k")) as d:
        assert written_to_group(d, 6, [1, 65536]) == [(6, 6, 3 * 65537)] * 3
        nothing_is_left(d)


GROUP, TAG = "239.7.7.7", "9"


def written_to_group(d, count, lens):
    """The results of three members, one of them on the writer's own device: records, complete ones, valid bytes."""
    members = [d.run(helper("ud_record"), at, "member", str(count), str(max(lens)), GROUP, TAG) for at in (A, B, B)]
    for m in members:
        assert m.wait_line("target").split()[1:] == [str(0xffffff), "0", TAG], m.tail()
    writer = d.run(helper("ud_record"), A, "writer", GROUP, str(0xffffff), "0", TAG, str(max(lens)), *map(str, lens))
    writer.p.stdin.write("w\n" * count)
    writer.p.stdin.close()
    writer.ok()
    return [told(m) for m in members]


@case
def a_record_to_a_group_is_in_the_memory_that_each_member_has_bound():
    lens = [1, 1409, 65536]
    for workers in ("0", "0,0"):
        with Daemon(pair_conf(rnicd=f"workers = {workers}")) as d:
            assert written_to_group(d, 9, lens) == [(9, 9, 3 * sum(lens))] * 3
            nothing_is_left(d)
    with Daemon(pair_conf(a="loss = 2%", rnicd="record-timeout = 1s")) as d:
        for records, whole, valid in written_to_group(d, 20, [65536]):
            assert records == 20 and 0.9 * 20 * 65536 < valid <= 20 * 65536, (records, whole, valid)
        nothing_is_left(d)


def read_from_store(d, count, lens, stag=lambda s: s):
    """The result of a reader of `count` records: records, complete ones, lost ones, valid bytes."""
    store = d.run(helper("ud_record"), B, "store", str(count), str(max(lens)))
    _, qpn, where, rkey = store.wait_line("target").split()
    reader = d.run(helper("ud_record"), A, "reader", B, qpn, where, str(stag(int(rkey))), str(max(lens)),
                   *map(str, lens))
    reader.p.stdin.write("r\n" * count)
    reader.p.stdin.close()
    words = reader.ok(5 * PATIENCE).split()
    store.p.stdin.close()
    store.ok()
    nothing_is_left(d)
    return tuple(int(w) for w in words[1::2])


@case
def records_are_read():
    with Daemon(pair_conf()) as d:
        lens = [1, 1408, 1409, 65536, MIB]
        assert read_from_store(d, 10, lens) == (10, 10, 0, 2 * sum(lens))
        assert read_from_store(d, 1, [3000], stag=lambda s: s ^ 1) == (1, 0, 1, 0)
        assert counters(d)["refused"] == 1, counters(d)


@case
def what_is_read_over_a_bad_wire_is_right():
    bad = "loss = 2%\nduplicate = 2%\nreorder = 5%\ncorrupt = 1%"
    with Daemon(pair_conf(both=bad, rnicd="workers = 0,0,0\nrecord-timeout = 20ms")) as d:
        records, whole, lost, valid = read_from_store(d, 40, [30000, 65536])
        assert records == 40 and 0 < whole < records and lost < records / 2 and valid > 0, (records, whole, lost, valid)


@case
def who_has_no_right_writes_nothing():
    with Daemon(pair_conf()) as d:
        target, writer = ends(d, 1, [3000], stag=lambda s: s ^ 1)
        writer.ok()
        until(lambda: counters(d)["refused"] == 3, lambda: counters(d))
        assert "record" not in target.stdout()


main()
