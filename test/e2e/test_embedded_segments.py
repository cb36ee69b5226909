#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Segments of 64 KiB of embedded programs (RNIC_EMBEDDED_KEYS="segments=64k"), which the kernel cuts into IP fragments and
joins: between two embedded programs, on one host and on two, and between one and a program over rnicd. Each device
takes the other mode's segments.
"""
import nets
from gram_ends import End, all_records, send
from host_rig import Host
from rig import PATIENCE, RNICRUN, case, helper, main

A, B = "10.77.0.1", "10.77.0.2"
MIB = 1 << 20
LARGE = 65408  # octets of a segment of 64 KiB
SEND = 1430    # octets of a Send, and of a record, that fit a packet of an MTU of 1500
RECORD = 1422
LENS = [1, SEND, SEND + 1, LARGE, LARGE + 1, MIB]
RECORD_LENS = [1, RECORD, RECORD + 1, LARGE, LARGE + 1, MIB]
MODES = ("64k", "mtu")


def joined(ns):
    """How many datagrams the kernel has joined from fragments."""
    rows = [line.split()[1:] for line in nets.sh("ip", "netns", "exec", ns, "cat", "/proc/net/snmp").stdout.splitlines()
            if line.startswith("Ip:")]
    return int(dict(zip(*rows))["ReasmOKs"])


def long_ones(length, fits):
    """How many segments of a message are longer than a packet, in which `fits` octets have room."""
    return length // LARGE + (length % LARGE > fits)


@case
def sends_of_every_size_between_processes_of_one_host():
    with Host() as h:
        for source_has, sink_has in (("64k", "64k"), ("64k", "mtu"), ("mtu", "64k")):
            sink = h.run(RNICRUN, helper("ud_long"), B, "sink", "18", str(MIB),
                         RNIC_EMBEDDED_KEYS=f"segments={sink_has}")
            source = h.run(RNICRUN, helper("ud_long"), A, "source", B, sink.wait_line("qpn").split()[1],
                           *map(str, LENS), RNIC_EMBEDDED_KEYS=f"segments={source_has}")
            sink.ok(3 * PATIENCE)
            source.p.stdin.close()
            source.ok()


@case
def sends_of_every_size_between_two_hosts():
    with nets.two_hosts(A, B) as (here, there):
        for source_has, sink_has in (("64k", "64k"), ("64k", "mtu"), ("mtu", "64k")):
            ends = End(here, A, keys=f"segments={source_has}"), End(there, B, keys=f"segments={sink_has}")
            for length in LENS:
                had = joined(there)
                send(*ends, length, 2)
                least = 2 * long_ones(length, SEND) if source_has == "64k" else 0
                got = joined(there) - had
                assert got >= least and (got == 0) == (least == 0), (source_has, sink_has, length, got, least)


@case
def records_of_every_size_between_two_hosts():
    with nets.two_hosts(A, B) as (here, there):
        ends = End(here, A, keys="segments=64k"), End(there, B, keys="segments=64k")
        least = sum(long_ones(length, RECORD) for length in RECORD_LENS)
        for kind, where, maps in (("writer", there, ()), ("writer", there, ("64",)), ("reader", here, ())):
            had = joined(where)
            all_records(kind, *ends, RECORD_LENS, maps)
            assert joined(where) - had >= least, (kind, maps, joined(where) - had, least)


@case
def what_goes_to_a_group_fits_a_packet():
    with nets.two_hosts(A, B) as (here, there):
        all_records("writer", End(here, A, keys="segments=64k"), End(there, B, keys="segments=64k"), RECORD_LENS,
                    group="239.7.0.9")
        assert joined(there) == 0, joined(there)


def at_a_tap(mode):
    """rnicd with segments = mode at a tap, and an embedded program of each mode at the kernel's end of the tap."""
    with nets.tap(f"segments = {mode}", "record-timeout = 5s") as (ns, d):
        def frags(which):
            return d.telemetry("/rnic/ports,a")[f"frag_{which}"]

        over = End(ns, nets.OURS, daemon=d)
        for own in MODES:
            here = End(ns, nets.KERNEL, keys=f"segments={own}")
            for length in LENS:
                whole, tx = frags("whole"), frags("tx")
                send(here, over, length, 2)
                least = 2 * long_ones(length, SEND) if own == "64k" else 0
                whole = frags("whole") - whole
                assert whole >= least and (whole == 0) == (least == 0), (own, mode, length, whole, least)
                send(over, here, length, 2)
                least = 2 * long_ones(length, SEND) if mode == "64k" else 0
                tx = frags("tx") - tx
                assert tx >= 2 * least and (tx == 0) == (least == 0), (own, mode, length, tx, least)
            all_records("writer", here, over, RECORD_LENS)
            all_records("writer", over, here, RECORD_LENS, ("64",))
        c = d.telemetry("/rnic/counters")
        assert c["ud_bad"] == c["ud_crc"] == c["ud_refused"] == 0, c


@case
def rnicd_with_segments_of_64k_is_a_peer_in_both_roles():
    at_a_tap("64k")


@case
def rnicd_with_segments_that_fit_a_packet_is_a_peer_in_both_roles():
    at_a_tap("mtu")


main()
