#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark itself: every bar and picture finds its figures, a row leaves results and a page, a failure is told."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]

import datagram  # pylint: disable=wrong-import-position
import plots  # pylint: disable=wrong-import-position
import report
from rig import PATIENCE, case, main
from rivals import rival_rows
from rows import project_rows
from sockets import socket_rows

BUILD = os.environ["RNIC_BUILD"]


def figures(full):
    args = argparse.Namespace(full=full, seconds=0.1, daemon_cpu=0, client_cpu=1)
    return [f for r in [*project_rows(args), *datagram.datagram_rows(args), *socket_rows(args), *rival_rows(args)]
            for f in r.figures]


def bench(*argv):
    """Two rounds of the rows that argv chooses: exit status, what it printed, results, page."""
    with tempfile.TemporaryDirectory() as out:
        p = subprocess.run([sys.executable, os.path.join(HERE, "bench.py"), "--build", BUILD, "--rounds", "2", "--seconds",
                            "0.1", "--no-kernel", "--out", out, *argv], capture_output=True, text=True, timeout=120,
                           check=False)
        assert p.returncode == 0, p.stdout + p.stderr
        with open(os.path.join(out, "results.json"), encoding="utf-8") as f:
            doc = json.load(f)
        with open(os.path.join(out, "report.html"), encoding="utf-8") as f:
            return p.stdout, doc, f.read()


@case
def no_two_figures_have_the_same_name():
    for full in (False, True):
        names = [f.name for f in figures(full)]
        assert len(names) == len(set(names)), sorted(n for n in names if names.count(n) > 1)


@case
def two_builds_are_compared_in_turns():
    p = subprocess.run([sys.executable, os.path.join(HERE, "turns.py"), BUILD, BUILD, "--rounds", "1", "--seconds",
                        "0.05", "--rows", "1500: write_(bw|lat) 64$"], capture_output=True, text=True,
                       timeout=PATIENCE * 5, check=False)
    assert p.returncode == 0, p.stdout + p.stderr
    rows = [line for line in p.stdout.splitlines() if line.startswith("| MTU 1500: write_")]
    assert len(rows) == 2 and "median of new : old over all rows: " in p.stdout, p.stdout
    p = subprocess.run([sys.executable, os.path.join(HERE, "turns.py"), BUILD, BUILD, "--rows", "no such row"],
                       capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert p.returncode != 0 and "no row matches" in p.stderr, p.stderr


@case
def the_designs_are_compared_in_one_run():
    p = subprocess.run([sys.executable, os.path.join(HERE, "designs.py"), "--build", BUILD, "--rounds", "1",
                        "--seconds", "0.05", "--sizes", "64,4k", "--computation", "0,100", "--compute-sizes", "4k",
                        "--spacings", "512,none", "--units", "8k", "--dims", "40", "--json"], capture_output=True,
                       text=True, timeout=PATIENCE * 5, check=False)
    assert p.returncode == 0, p.stdout + p.stderr
    found = json.loads(p.stdout)
    figures = {name: (found[name], 4) for name in ("cold", "markers")}
    figures.update({name: (found[name], 5) for name in ("sizes", "isosurface")})  # latency or time before them
    figures["computation"] = (found["computation"]["4096"], 4)
    for name, (designs, n) in figures.items():
        assert list(designs) == ["offloaded", "assisted", "host", "embedded"], (name, found)
        for design, points in designs.items():
            for row in points.values():
                assert len(row) == n and min(row[:-2] + row[-1:]) > 0, (name, design, found)
                assert row[-2] > 0 or design == "embedded", (name, design, found)  # rnicd's CPU
    for design, times in found["computation"]["4096"].items():
        # one Write in each 100 us at most; and up to 16 were under way when the 0.05 s began
        assert list(times) == ["0", "100"] and 0 < times["100"][0] < 4096 / 100e3 * 1.1, (design, found)
    for spacing in ("512", "none"):
        row = found["nic"][spacing][0]  # DMAs of 2 KiB, CRC and SEND on their own
        assert 4.9 < row["touched_per_byte"] <= 5 and row["payload"] >= 32 * 65536, found["nic"]
    assert found["nic"]["512"][2]["dmas"] > 4 * found["nic"]["none"][2]["dmas"], found["nic"]
    assert list(found["cold"]["host"]) == ["4096"] and list(found["markers"]["host"]) == ["512", "none"], found


@case
def a_program_touches_bytes_where_iwarp_runs_in_it_and_only_there():
    p = subprocess.run([sys.executable, os.path.join(HERE, "designs.py"), "--build", BUILD, "--cachegrind",
                        "offloaded,embedded", "--json"], capture_output=True, text=True, timeout=PATIENCE * 5,
                       check=False)
    assert p.returncode == 0, p.stdout + p.stderr
    found = json.loads(p.stdout)
    for role in ("transmit", "receive"):
        assert max(found["offloaded"][role]) < 0.1, found
        first, last = found["embedded"][role]  # each byte is read or written in buffers that the last cache cannot hold
        assert first >= last > 0.8, found


@case
def every_bar_finds_its_figures():
    names = {f.name for f in figures(False)}
    for name, a, b, _, _, _ in report.BARS:
        assert a in names and (b in names or not isinstance(b, str)), name


@case
def every_picture_finds_its_figures():
    names = {f.name for f in figures(False)}
    assert set(plots.SPEED) | set(plots.WAIT) <= names, (set(plots.SPEED) | set(plots.WAIT)) - names
    charts = {f.chart for f in figures(False)}
    assert {"bandwidth", "latency", "distribution", "loss", "cost", "level", "cost level"} <= charts, charts
    assert {c for c in charts if c and c.startswith("grams")} == {
        "grams latency", "grams bandwidth", "grams memory",
        *(datagram.lost_chart(k, m) for m, k in datagram.LOST)}, charts


@case
def each_kind_of_datagram_stands_beside_connections():
    drawn = {}
    for f in figures(False):
        if f.chart in ("grams latency", "grams bandwidth"):
            drawn.setdefault(f.chart, {}).setdefault(f.line, set()).add(f.x)
    want = {"RC Send", "RC Write", "UD Send", "UD Write-Record", "RD Send", "RD Write"}
    for chart, lines in drawn.items():
        assert set(lines) == want and len(set(map(frozenset, lines.values()))) == 1, (chart, lines)
        assert {1, 1 << 20} <= lines["RC Send"], (chart, lines)
    sides = [s for r in datagram.ratios(argparse.Namespace(full=False, seconds=0.1, daemon_cpu=0, client_cpu=1))
             for s in r.sides]
    assert all(s.keys["port"]["crc"] == "always" for s in sides), "a side does not sum"


@case
def memory_is_shared_among_the_peers():
    assert datagram.Peers.share(1 << 20, 3 << 20, 1024) == 2
    assert datagram.Peers.share(5000, 4000, 10) == 0  # pages that others gave back


@case
def a_ratio_of_turns_is_their_median_and_of_the_first_to_the_second():
    values = iter([(6.0, 2.0), (8.0, 2.0), (100.0, 2.0)])

    class Fixed(datagram.Turns):
        def __init__(self):
            self.sides, self.figures, self.now, self.first = (), [], None, []

        def turn(self, i):
            if len(self.first) % 2 == 0:
                self.now = next(values)
            self.first.append(i)
            return self.now[i]

    r = Fixed()
    assert r.run(None) == [4.0] and r.first[::2] == [0, 1, 0], r.first


@case
def datagrams_are_measured():
    _, doc, _ = bench("--only", "UD Write-Record 64, summed, one way")
    rows = {r["name"]: r for r in doc["rows"]}
    row = rows["UD Write-Record 64, summed, one way, median"]
    assert row["values"] or row["failure"] == "nothing was completed in the time", row
    assert "--qp-type ud" in row["command"] and "crc=always" in row["command"], row
    _, doc, _ = bench("--only", "memory for a peer, RD, 10 ")
    row, = doc["rows"]
    assert row["failure"] is None and len(row["values"]) == 2 and row["median"] < 1000, row


@case
def a_bar_is_judged_both_ways():
    assert report.judge(5, "at least", 4, 6) == "reached"
    assert report.judge(6, "at least", 4, 6) == "reached, and the goal"
    assert report.judge(3, "at least", 4, 6) == "not reached"
    assert report.judge(3, "at most", 2, 1) == "not reached"
    assert report.judge(1, "at most", 2, 1) == "reached, and the goal"
    assert report.judge(3, "at least", None, 4) == "no bar, goal not reached"


@case
def a_row_leaves_results_and_a_page():
    name = "limit: memcpy, MTU 9000, in cache"
    text, doc, html = bench("--only", name)
    row, = doc["rows"]
    assert len(row["values"]) == 2 and min(row["values"]) <= row["median"] <= max(row["values"]), row
    assert name in text and name in html and "--copy 8936" in html, text


@case
def a_run_over_the_daemon_is_measured_or_says_why_not():
    name = "10 Gb/s port, Write 64k, MTU 1500"
    text, doc, html = bench("--only", name)
    row, = doc["rows"]
    assert row["values"] or row["failure"] == "nothing was completed in the time", row  # another one had the CPU
    assert "rate=10G" in row["command"] and "--size 64k" in row["command"] and "rate=10G" in html, row
    assert ("what the framing allows" in text) == bool(row["values"]), text


@case
def a_ping_pong_over_sockets_is_measured():
    _, doc, _ = bench("--only", "sockets, ping-pong of 64 B")
    rows = {r["name"]: r for r in doc["rows"]}
    row = rows["sockets, ping-pong of 64 B, one way, median"]
    assert row["failure"] is None and min(row["values"]) > 0, row


@case
def connections_that_idle_are_measured():
    _, doc, _ = bench("--only", "1 idle connection")
    for r in doc["rows"]:
        assert len(r["values"]) == 2 and r["failure"] is None, r


if __name__ == "__main__":
    raise SystemExit(main())
