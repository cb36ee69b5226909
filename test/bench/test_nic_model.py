#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The model of an adapter's engines compared with a published study that counted and measured such adapters: how often
each byte is touched in the adapter's memory, how many DMAs a message takes, and the bandwidth that results.
"""
import hashlib
import os
import struct
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]

import nic_model as model  # pylint: disable=wrong-import-position
import wire
from rig import case, main

BULK = model.message(1 << 20, 512)
CAPTURES = os.path.join(HERE, "..", "captures")


def rows(fpdus, **how):
    return {(r["way"], r["joined"]): r for r in model.every_way(fpdus, **how)}


@case
def each_byte_is_touched_five_times_or_four_when_summed_on_the_way_out():
    found = rows(BULK)
    assert abs(found["contiguous", False]["touched_per_byte"] - 5) < 0.05, found
    assert abs(found["contiguous", True]["touched_per_byte"] - 4) < 0.05, found
    engines = found["contiguous", False]["by_engine"]
    assert [round(engines[e]) for e in ("SDMA", "process", "CRC", "SEND")] == [1, 2, 1, 1], engines


@case
def a_list_of_dmas_touches_each_byte_two_times_less():
    for joined, left in ((False, 3), (True, 2)):
        found = rows(BULK)
        assert abs(found["scatter", joined]["touched_per_byte"] - left) < 0.05, found
        assert "process" not in found["scatter", joined]["by_engine"], found


@case
def the_way_in_touches_as_often_as_the_way_out():
    out, way_in = rows(BULK), rows(BULK, receive=True)
    assert {k: r["touched_per_byte"] for k, r in out.items()} == {k: r["touched_per_byte"] for k, r in way_in.items()}


@case
def a_message_of_16_kib_takes_64_dmas_with_markers_512_bytes_apart_and_32_with_1024():
    for spacing, dmas in ((512, 64), (1024, 32)):
        f = model.message(16384, spacing, ulpdu=16384)  # one FPDU, so there are no headers in between
        n = sum(len(model.dmas(x, "scatter")) for x in f)
        assert dmas <= n <= dmas + 2, (spacing, n)  # the payload may begin and end between two markers


@case
def a_full_ethernet_frame_takes_five_to_seven_dmas():
    for start in range(0, 512, 4):
        f, _ = model.split(start, 16, 1428, 512)
        assert 5 <= len(model.dmas(f, "scatter")) <= 7, (start, f)
        assert len(model.dmas(f, "contiguous")) == len(model.dmas(f, "assisted")) == 1, (start, f)


@case
def no_dma_is_longer_than_2_kib():
    for spacing in (0, 512, 8192):
        for way in model.WAYS:
            f, _ = model.split(4, 16, 9000, spacing)
            pieces = model.dmas(f, way)
            assert max(pieces) <= 2048 and sum(pieces) >= 9000, (spacing, way, pieces)


@case
def the_costs_of_one_measurement_predict_the_others():
    """
    7.2 Gb/s without markers gives the cost of a DMA. With markers 3.5 Gb/s (offloaded) and 6 Gb/s (assisted) were
    measured.
    """
    plain = rows(model.message(1 << 20, 0))["scatter", False]["gbits_per_s"]
    assert abs(plain - 7.2) < 0.1, plain
    marked = rows(BULK)
    assert 0.9 < marked["scatter", False]["gbits_per_s"] / 3.5 < 1.1, marked
    assert 0.9 < marked["assisted", False]["gbits_per_s"] / 6 < 1.1, marked


@case
def memory_that_is_slow_limits_what_moves_bytes_most():
    """
    With 1 ns for each access to a byte, one at a time, a byte takes as many ns as it is touched: that limits the
    bandwidth.
    """
    found = rows(BULK, costs=model.Costs(0, 0, 1))
    for r in found.values():
        limit = r["payload"] * 8 / (r["wire"] * r["touched_per_byte"])
        assert 0.97 * limit < r["gbits_per_s"] <= 1.001 * limit, (limit, r)
    rate = [found[way, joined]["gbits_per_s"] for way, joined in (("contiguous", False), ("contiguous", True),
                                                                  ("scatter", False), ("scatter", True))]
    assert rate == sorted(rate), rate


@case
def an_engine_that_is_alone_hides_the_others():
    """With a slow DMA the time is that of all DMAs, and the other engines work beside it."""
    r = model.run(BULK, "scatter", costs=model.Costs(1000, 0, 0.01))
    assert abs(r["payload"] * 8 / r["gbits_per_s"] / (r["dmas"] * 1000) - 1) < 0.01, r


def written(path, spacing, start):
    """
    Writes a capture of one connection with markers from the initiator, in segments of 1,000 bytes; returns the
    payload's sizes.
    """
    sizes = [1, 500, 1300, 1428, 3000] * 4
    stream, payload = bytearray(), 0
    for n in sizes:  # the FPDU from wire.py, with markers inserted
        plain, at = wire.fpdu(wire.tagged(wire.WRITE, 7, payload, hashlib.shake_256(bytes([n & 255])).digest(n))), 0
        length_at = len(stream) + (4 if len(stream) % spacing == 0 else 0)
        while at < len(plain):
            if len(stream) % spacing == 0:
                stream += struct.pack(">HH", 0, max(len(stream) - length_at, 0))
            take = min(len(plain) - at, spacing - len(stream) % spacing)
            stream += plain[at:at + take]
            at += take
        payload += n
    sides = (("10.0.0.1", 1000, wire.mpa_request(flags=wire.C) + stream),
             ("10.0.0.2", 2000, wire.mpa_request(key=wire.REP, flags=wire.C | wire.M)))
    with open(path, "wb") as f:
        f.write(struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for (src, sport, data), (dst, dport, _) in (sides, sides[::-1]):
            parts = [(start, 2, b"")] + [(start + 1 + i, 16, data[i:i + 1000]) for i in range(0, len(data), 1000)]
            for seq, flags, part in parts:
                frame = wire.tcp_frame(b"\2" * 6, b"\4" * 6, src, dst, sport, dport, seq & 0xFFFFFFFF, 0, flags, part)
                f.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)
    return sizes


@case
def the_fpdus_of_a_capture_are_found_with_their_markers():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "marked.pcap")
        for spacing, start in ((512, 5000), (2048, 0xFFFFFC00)):
            sizes = written(path, spacing, start)
            found = model.capture_fpdus(path, spacing)
            assert [sum(f.host) for f in found] == sizes, found
            assert sum(f.markers for f in found) == -(-sum(f.wire for f in found) // spacing), found
        try:
            model.capture_fpdus(path, 1024)
            raise AssertionError("a capture with another spacing of markers was accepted")
        except model.wire_check.WireError:
            pass


@case
def captures_of_linux_siw_have_the_payload_that_was_sent():
    for name, size in (("crc_17_write_65536", 65536), ("crc_21_read_1", 1), ("jumbo_10_write_65536", 65536)):
        found = model.capture_fpdus(os.path.join(CAPTURES, name + ".pcap"), 512)
        assert sum(sum(f.host) for f in found) >= size and not any(f.markers for f in found), (name, found)
        assert all(len(f.host) == 1 for f in found), (name, found)


if __name__ == "__main__":
    sys.exit(main())
