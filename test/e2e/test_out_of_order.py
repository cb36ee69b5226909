#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The key out-of-order: what becomes of TCP segments that arrive before an earlier one, in each design whose TCP is
rnicd's. The data are verified over a line that loses and reorders; the counters tell which way is in use.
"""
import os
import signal
import subprocess
import sys
import tempfile

from rig import BUILD, PATIENCE, RNICD, TESTPMD, Daemon, case, main, pair_conf, until

RNICCTL = os.path.join(BUILD, "app", "rnicctl", "rnicctl")
BAD, GOOD = "loss=0.5% reorder=2%", "loss=0 reorder=0"
DESIGNS = ("offloaded", "assisted", "host")
COUNTERS = ("ooo_placed", "ooo_held", "ooo_drops")
# Whether each of COUNTERS grows. "host" stands for assisted, too. A TCP connection of design offloaded counts each
# segment that comes early as held, also when some of the segment's bytes have been placed.
GROW = {("place", "offloaded"): (True, True, False), ("place", "host"): (True, False, False),
        ("buffer", "offloaded"): (False, True, False), ("buffer", "host"): (False, True, False),
        ("drop", "offloaded"): (False, False, True), ("drop", "host"): (False, False, True)}


def counted(d):
    told = d.telemetry("/rnic/counters")
    return [told[c] for c in COUNTERS]


def lines(d, what):
    for port in "ab":
        until(lambda port=port: d.telemetry(f"/rnic/set,port {port} {what}")["done"], what)


def in_design(d, design, port, grow):
    """
    Runs verified data until each counter that must grow has grown by more than 20; no other counter may grow. The lines
    are good again before the run ends: otherwise the last message of testpmd's second connection might be late, and
    come after the end of the first connection.
    """
    before = counted(d)
    lines(d, BAD)
    grown = lambda: [now - was for now, was in zip(counted(d), before)]
    d.run(TESTPMD, "-s", "-a", "10.77.0.2", "-p", str(port), "--design", design).wait_line("listening")
    # -a: without it a program in design host or assisted would call from 10.77.0.2, and no frame would pass the line
    soak = d.run(TESTPMD, "--mode", "soak", "--sizes", "16k", "--seconds", "600", "--bidir", "-p", str(port),
                 "--design", design, "-a", "10.77.0.1", "10.77.0.2")
    until(lambda: all(n > 20 for n, g in zip(grown(), grow) if g), lambda: f"{design}: {grown()}\n{soak.tail()}")
    lines(d, GOOD)
    soak.p.send_signal(signal.SIGINT)
    assert "verified" in soak.ok(), soak.tail()
    assert all((n > 0) == g for n, g in zip(grown(), grow)), (design, grown())


def the_way(way, more=""):
    with Daemon(pair_conf(both=f"out-of-order = {way}\n{more}")) as d:
        for n, design in enumerate(DESIGNS):
            in_design(d, design, 7470 + n, GROW[way, "offloaded" if design == "offloaded" else "host"])
        table = subprocess.run((RNICCTL, "--socket", d.sock, "ports"), check=True, capture_output=True, text=True)
        head, *rows = table.stdout.splitlines()
        assert [r.split()[head.split().index("out_of_order")] for r in rows] == [way, way], table.stdout


@case
def early_segments_are_placed():
    the_way("place")


@case
def early_segments_are_kept_until_their_turn():
    the_way("buffer")


@case
def early_segments_are_dropped_and_sent_again():
    the_way("drop")


@case
def early_segments_are_dropped_with_markers():
    the_way("drop", "markers = on\ncrc = always")


@case
def ends_of_one_connection_may_differ():
    with Daemon(pair_conf(a="out-of-order = drop", b="out-of-order = buffer")) as d:
        for n, design in enumerate(DESIGNS):
            in_design(d, design, 7480 + n, (False, True, True))


@case
def another_value_is_refused_with_a_sentence():
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as f:
        f.write(pair_conf(both="out-of-order = keep").replace("{dir}", "/tmp"))
        f.flush()
        p = subprocess.run([RNICD, "--check", f.name], capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert p.returncode != 0 and "must be place, buffer or drop" in p.stderr, p.stderr
    with Daemon(pair_conf()) as d:
        p = subprocess.run((RNICCTL, "--socket", d.sock, "set", "port", "a", "out-of-order=drop"), check=False,
                           capture_output=True, text=True, timeout=PATIENCE)
        assert p.returncode != 0 and "takes a restart" in p.stdout + p.stderr, p


if __name__ == "__main__":
    sys.exit(main())
