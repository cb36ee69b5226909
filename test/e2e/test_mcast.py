#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Multicast: Debian's mckey as it is, from one port of a daemon to another and to its own. What the ports send is read
from captures by tshark.
"""
import os
import re
import sys
import time

from rig import PATIENCE, RNICRUN, Daemon, case, main, need, pair_conf
from shark import fields

A, B = "10.77.0.1", "10.77.0.2"


def mckey(d, *args):
    need("mckey")
    return d.run(RNICRUN, "mckey", *args)


def done(*programs):
    for p in programs:
        out = p.ok()
        assert "data transfers complete" in out and "return status 0" in out, out


def until(what, f, *want):
    end = time.monotonic() + PATIENCE
    while f() not in want and time.monotonic() < end:
        time.sleep(0.02)
    assert f() in want, f"{what}: {f()}, not {want}"


def groups(d):
    return sorted(d.telemetry("/rnic/groups"))


def members(group, dev, n):
    return f"239.1.1.{group} device {dev} ids {n} qps {n}"


def counter(d, name):
    return d.telemetry("/rnic/counters")[name]


CAPTURED = {"a": "capture = {dir}/a.pcapng", "b": "capture = {dir}/b.pcapng"}


@case
def mckey_from_port_to_port():
    """mckey waits three seconds before it sends, so several run at a time: receivers first, each with its group."""
    with Daemon(pair_conf(**CAPTURED)) as d:
        ends = [mckey(d, *args) for args in (
            ["-m", "239.1.1.1", "-b", B], ["-m", "239.1.1.1", "-b", B],
            ["-m", "239.1.1.1", "-b", A],  # beside the sender on its device
            ["-m", "239.1.1.2", "-b", A, "-c", "3", "-S", "1024"],
            ["-M", "::ffff:239.1.1.3", "-b", B],
            ["-m", "239.1.1.4"])]  # the first device
        until("all in their groups", lambda: groups(d), [members(1, "a", 1), members(1, "b", 2), members(2, "a", 3),
                                                       members(3, "b", 1), members(4, "a", 1)])
        ends += [mckey(d, "-s", *args) for args in (
            ["-m", "239.1.1.1", "-b", A], ["-m", "239.1.1.2", "-b", B, "-o", "-c", "2", "-S", "1024"],
            ["-M", "::ffff:239.1.1.3", "-b", A, "-l"], ["-m", "239.1.1.4", "-b", B])]
        done(*ends)
        until("groups that nobody is in", lambda: groups(d), [])
        until("clients", lambda: d.telemetry("/rnic/clients"), [])
        # A sender that is in its group had its own.
        assert counter(d, "ud_out") == 10 + 20 + 10 + 10, counter(d, "ud_out")
        assert counter(d, "ud_bad") == counter(d, "ud_crc") == counter(d, "ud_qkey") == 0
        sent = [r for r in fields(d.dir + "/a.pcapng", "ip.src", "ip.dst", "eth.dst", "ip.ttl", "udp.dstport", of="udp")
                if r[0] == A]
        assert len(sent) == 20 and all(r[3:] == ["64", "4793"] for r in sent), sent
        assert {(r[1], r[2]) for r in sent} == {("239.1.1.1", "01:00:5e:01:01:01"), ("239.1.1.3", "01:00:5e:01:01:03")}


if __name__ == "__main__":
    sys.exit(main())
