#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Segments of 64 KiB between two daemons, which leave as IP fragments: Sends, Write-Records and Read-Records from 1 byte
to 1 MiB, each byte verified, over a link that loses nothing and over one that loses frames.
"""
import contextlib

from rig import PATIENCE, Daemon, case, helper, main, memif_conf, nothing_is_left, until

A, B = "10.77.0.1", "10.77.0.2"
MIB = 1 << 20
LARGE = 65408  # octets of a segment; its datagram is 45 fragments
LENS = [1, 1408, 1500, LARGE, LARGE + 1, MIB]


@contextlib.contextmanager
def two(loss=""):
    """Two daemons, between which a datagram has passed. loss: of the first one's port."""
    # without loss each message must be complete, also when a busy machine stops a daemon in the middle of a message
    patient = "" if loss else "record-timeout = 5s"
    with Daemon(memif_conf("server", "{dir}/wire.sock", A, "segments = 64k\n" + loss, patient)) as d, \
            Daemon(memif_conf("client", d.dir + "/wire.sock", B, "segments = 64k", patient)) as e:
        sends_arrive(d, e, [1], 1)  # after this the link is up, and each daemon knows the other's MAC address
        yield d, e
        for one in (d, e):
            nothing_is_left(one)
            c, f = one.telemetry("/rnic/counters"), one.telemetry("/rnic/ports,m")
            assert c["ud_bad"] == c["ud_crc"] == c["ud_refused"] == f["frag_bad"] == 0, (c, f)


def frags(d):
    return {k[5:]: v for k, v in d.telemetry("/rnic/ports,m").items() if k.startswith("frag_")}


def sends_arrive(d, e, lens, count):
    """Sends messages of these lengths in turn until `count` of them have come whole."""
    sink = e.run(helper("ud_long"), B, "sink", str(count), str(max(lens)))
    source = d.run(helper("ud_long"), A, "source", B, sink.wait_line("qpn").split()[1], *map(str, lens))
    sink.ok(3 * PATIENCE)
    source.p.stdin.close()
    source.ok()


def records(d, e, lens, count, maps=(), paced=False):
    """
    Writes `count` records of these lengths in turn. paced: a record is written when the one before has been reported.
    Returns how many were reported, how many of these were whole, and the number of valid bytes.
    """
    target = e.run(helper("ud_record"), B, "target", str(count), str(max(lens)), *maps)
    _, qpn, where, rkey = target.wait_line("target").split()
    writer = d.run(helper("ud_record"), A, "writer", B, qpn, where, rkey, str(max(lens)), *map(str, lens))
    for n in range(1, count + 1):
        writer.p.stdin.write("w\n")
        writer.p.stdin.flush()
        if paced:
            until(lambda n=n: sum("record" in line for line in list(target.out)) == n, target.tail)
    writer.p.stdin.close()
    writer.ok()
    return tuple(map(int, target.ok(3 * PATIENCE).splitlines()[-1].split()[1::2]))


def reads(d, e, lens, count):
    """
    Reads `count` records of these lengths in turn. Returns how many were asked for, how many came whole, how many were
    lost, and the number of valid bytes.
    """
    store = e.run(helper("ud_record"), B, "store", str(count), str(max(lens)))
    _, qpn, where, rkey = store.wait_line("target").split()
    reader = d.run(helper("ud_record"), A, "reader", B, qpn, where, rkey, str(max(lens)), *map(str, lens))
    reader.p.stdin.write("r\n" * count)
    reader.p.stdin.close()
    told = tuple(map(int, reader.ok(3 * PATIENCE).splitlines()[-1].split()[1::2]))
    store.p.stdin.close()
    store.ok()
    return told


@case
def sends_of_every_size_arrive_at_another_daemon():
    with two() as (d, e):
        for length in LENS:
            had = frags(e)["whole"]
            sends_arrive(d, e, [length], 5)
            came = frags(e)["whole"] - had  # a message that fits a packet takes no fragments
            assert came >= 5 * max(length // LARGE, 1) if length > 1408 else came == 0, (length, came)
        sends_arrive(d, e, LENS, 20)
        assert frags(d)["tx"] >= frags(e)["rx"] >= 5 * 3 * 44 and frags(d)["rx"] == 0, (frags(d), frags(e))


@case
def records_of_every_size_are_told_whole_at_another_daemon():
    with two() as (d, e):
        for maps in ((), ("64",)):
            assert records(d, e, LENS, 3 * len(LENS), maps) == (3 * len(LENS), 3 * len(LENS), 3 * sum(LENS))
        assert reads(d, e, LENS, 3 * len(LENS)) == (3 * len(LENS), 3 * len(LENS), 0, 3 * sum(LENS))
        assert frags(d)["tx"] == frags(e)["rx"] > 0 and frags(e)["tx"] == frags(d)["rx"] > 0, (frags(d), frags(e))
        assert frags(d)["late"] == frags(e)["late"] == 0, (frags(d), frags(e))


@case
def sends_of_every_size_arrive_over_a_link_that_loses_frames():
    with two("loss = 0.1%") as (d, e):
        for length in LENS:
            sends_arrive(d, e, [length], 5)
        sends_arrive(d, e, LENS, 60)
        until(lambda: frags(e)["late"] > 0, lambda: frags(e))
        assert d.telemetry("/rnic/ports,m")["impair_lost"] > 0


@case
def records_are_told_as_far_as_they_came_over_a_link_that_loses_frames():
    with two("loss = 0.1%") as (d, e):
        for maps in ((), ("64",)):
            # 1 segment of 22 is lost. Each record has several segments, since a record that is lost as a whole is never
            # reported.
            lens, count = [300000, MIB], 30
            told, whole, valid = records(d, e, lens, count, maps, paced=True)
            all_of_it = count * sum(lens) / 2
            assert told == count and 0 < whole < count and 0.5 * all_of_it < valid < all_of_it, (told, whole, valid)
        until(lambda: frags(e)["late"] > 0, lambda: frags(e))
        assert d.telemetry("/rnic/ports,m")["impair_lost"] > 0
        assert e.telemetry("/rnic/counters")["ud_incomplete"] > 0


main()
