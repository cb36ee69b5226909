#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The benchmark itself: every bar and chart finds its figures, a row leaves results and a page, a failure is reported.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]

import datagram  # pylint: disable=wrong-import-position
import embedded
import mpi
import page  # pylint: disable=wrong-import-position
import plots  # pylint: disable=wrong-import-position
import report
import siw
from rig import PATIENCE, Skip, case, main
from rivals import rival_rows
from rows import Active, Versus, project_rows
from sockets import socket_rows
from stage import Stage, cpu_ns

BUILD = os.environ["RNIC_BUILD"]


def figures(full):
    args = argparse.Namespace(full=full, seconds=0.1, daemon_cpu=0, client_cpu=1)
    return [f for r in [*project_rows(args), *datagram.datagram_rows(args), *mpi.mpi_rows(args), *socket_rows(args),
                        *embedded.embedded_rows(args), *rival_rows(args)] for f in r.figures]


def bench(*argv):
    """Runs the benchmark for two rounds on the rows that argv selects; returns its output, results and page."""
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
def cpu_time_contains_that_of_threads_that_have_ended():
    program = ("import os, sys, threading, time\n"
               "def work():\n"
               "    while time.thread_time_ns() < 20_000_000: pass\n"
               "for _ in range(2):\n"
               "    print('ready', flush=True)\n"
               "    sys.stdin.readline()\n"
               "    t = threading.Thread(target=work)\n"
               "    t.start()\n"
               "    while len(os.listdir('/proc/self/task')) > 1: pass\n")
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as p:
        p.stdout.readline()
        before = cpu_ns(p.pid)
        print("begin", file=p.stdin, flush=True)
        p.stdout.readline()
        took = cpu_ns(p.pid) - before
        p.communicate("end\n")
    assert took >= 20_000_000, took


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
    with tempfile.TemporaryDirectory() as folder:
        compare_designs(folder)
        if shutil.which("gnuplot") is not None:
            with open(os.path.join(folder, "designs.html"), encoding="utf-8") as f:
                text = f.read()
            # sizes 5, cold 4, markers 4, connections 4, isosurface 5, computation 4, paths 3, and 2 of the adapter
            assert text.count("<svg") == 31 and "Where iWARP runs" in text and "| 4096 |" in text, text.count("<svg")


def compare_designs(folder):
    p = subprocess.run([sys.executable, os.path.join(HERE, "designs.py"), "--build", BUILD, "--rounds", "1",
                        "--seconds", "0.05", "--sizes", "64,4k", "--computation", "0,100", "--compute-sizes", "4k",
                        "--spacings", "512,none", "--units", "8k", "--dims", "40", "--paths", "2:1000",
                        "--touched", "64k", "--connections", "2,16", "--json", "--page", folder],
                       capture_output=True, text=True, timeout=PATIENCE * 5, check=False)
    assert p.returncode == 0, p.stdout + p.stderr
    found = json.loads(p.stdout)
    figures = {name: (found[name], 4) for name in ("cold", "markers", "connections")}
    # one more figure in front: latency, or time
    figures.update({name: (found[name], 5) for name in ("sizes", "isosurface")})
    figures["computation"] = (found["computation"]["4096"], 4)
    for name, (designs, n) in figures.items():
        assert list(designs) == ["offloaded", "assisted", "host", "embedded"], (name, found)
        for design, points in designs.items():
            for row in points.values():
                assert len(row) == n and min(row[:-2] + row[-1:]) > 0, (name, design, found)
                assert row[-2] > 0 or design == "embedded", (name, design, found)  # CPU time of rnicd
    for design, times in found["computation"]["4096"].items():
        # at most one Write in 100 us, and up to 16 Writes may have been under way when the 0.05 s began
        assert list(times) == ["0", "100"] and 0 < times["100"][0] < 4096 / 100e3 * 1.1, (design, found)
    for spacing in ("512", "none"):
        row = found["nic"][spacing][0]  # the way contiguous, with CRC and SEND as two engines
        assert 4.9 < row["touched_per_byte"] <= 5 and row["payload"] >= 32 * 65536, found["nic"]
    assert found["nic"]["512"][2]["dmas"] > 4 * found["nic"]["none"][2]["dmas"], found["nic"]
    for way, by in found["paths"].items():
        for design, row in ((d, points["2 paths, 1000 us"]) for d, points in by.items()):
            assert row[0] > 0 if way != "drop" else row[1] > 0, (way, design, row)  # drop may move next to nothing
    # each byte is summed and copied once at either end (offloaded); host and assisted copy once more, through a ring
    for design, sender, receiver in (("offloaded", 0, 0), ("assisted", 1, 1), ("host", 1, 1), ("embedded", 1, 1)):
        row = found["touched"]["65536"][design]
        # a row is the difference of two runs: on a busy machine one of them may have sent more segments again
        assert row[0] >= 0.9 * sender and row[6] >= 0.9 * receiver, (design, row)
        assert sender or row[0] == row[6] == 0, (design, row)
        assert (sum(row[2:6]) > 1.5) == (design != "embedded"), (design, row)
        summed = row[1] + row[3], row[5] + row[7]
        assert all(0.9 < v < 1.2 for v in summed), (design, row)
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
        # each byte is read from, or written to, buffers that the last cache cannot hold
        first, last = found["embedded"][role]
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
        *(datagram.lost_chart(k, m, keys) for m, k, keys in datagram.LOST)}, charts
    assert {c for c in charts if c and c.startswith("MPI")} == {
        "MPI latency", "MPI bandwidth", "MPI memory, CG", "MPI memory, radix sort",
        *(kind + what for kind in (mpi.RUN, mpi.CALLS) for what in mpi.KERNELS)}, charts
    assert {mpi.RUN, mpi.CALLS} < {kind for kind, _, _ in plots.MPI}


@case
def each_kind_of_datagram_stands_beside_connections():
    drawn = {}
    for f in figures(False):
        if f.chart in ("grams latency", "grams bandwidth"):
            drawn.setdefault(f.chart, {}).setdefault(f.line, set()).add(f.x)
    want = {"RC Send", "RC Write", "UD Send", "UD Write-Record", "RD Send", "RD Write"}
    also = {"grams bandwidth": {"UD Write-Record, segments = 64k"}}
    for chart, lines in drawn.items():
        assert set(lines) == want | also.get(chart, set()), (chart, lines)
        assert len(set(map(frozenset, lines.values()))) == 1, (chart, lines)
        assert {1, 1 << 20} <= lines["RC Send"], (chart, lines)
    sides = [s for r in datagram.ratios(argparse.Namespace(full=False, seconds=0.1, daemon_cpu=0, client_cpu=1))
             for s in r.sides]
    assert all(s.keys["port"]["crc"] == "always" for s in sides), "one side of the ratio does not sum CRCs"


@case
def memory_is_shared_among_the_peers():
    assert datagram.Peers.share(1 << 20, 3 << 20, 1024) == 2
    assert datagram.Peers.share(5000, 4000, 10) == 0  # other queue pairs have given pages back


@case
def a_ratio_of_turns_is_their_median_and_of_the_first_to_the_second():
    values = iter([(6.0, 2.0), (8.0, 2.0), (100.0, 2.0)])

    class Fixed(Versus):
        def __init__(self):
            self.turns, self.sides, self.seen, self.figures, self.now, self.first = 3, (), ([], []), [], None, []

        def turn(self, i):
            if len(self.first) % 2 == 0:
                self.now = next(values)
            self.first.append(i)
            return self.now[i]

    r = Fixed()
    assert r.run(None) == [4.0] and r.first[::2] == [0, 1, 0] and r.seen[1] == [2.0] * 3, (r.first, r.seen)


@case
def datagrams_are_measured():
    _, doc, _ = bench("--only", "UD Write-Record 64, summed, one way")
    rows = {r["name"]: r for r in doc["rows"]}
    row = rows["UD Write-Record 64, summed, one way, median"]
    assert row["values"] or row["failure"] == "no request was completed in time", row
    assert "--qp-type ud" in row["command"] and "crc=always" in row["command"], row
    _, doc, _ = bench("--only", "memory for a peer, RD, 10 ")
    row, = doc["rows"]
    assert row["failure"] is None and len(row["values"]) == 2 and row["median"] < 1000, row


@case
def memory_for_a_device_is_measured_with_many_devices():
    if os.geteuid() != 0 or not os.path.exists("/dev/net/tun"):
        raise Skip("needs root and a tap")
    _, doc, _ = bench("--only", "memory for a device, RD, 1000 ")
    row, = doc["rows"]
    assert row["failure"] is None and len(row["values"]) == 2 and 0 < row["median"] < 2, row


@case
def kernels_of_mpi_are_measured_over_every_channel():
    _, doc, html = bench("--only", "MPI radix sort, 2 ranks")
    rows = {r["name"]: r for r in doc["rows"]}
    for channel in ("RC", "UD", "hybrid", "RD"):
        run, calls = (rows[f"MPI radix sort, 2 ranks, {channel}, {what}"] for what in ("run", "inside of calls"))
        assert run["failure"] is None and run["median"] > calls["median"] > 0, (run, calls)
    assert "MPI radix sort: time of a run" in html or not shutil.which("gnuplot"), html
    _, doc, _ = bench("--only", "MPI ping-pong 64 B, RD", "--seconds", "0.02")
    assert len(doc["rows"]) == 11 and all(r["failure"] is None and r["median"] > 0 for r in doc["rows"]), doc["rows"]


@case
def memory_of_mpi_is_that_of_its_ranks_and_of_the_daemon():
    _, doc, _ = bench("--only", "MPI memory, radix sort, 4 ranks, RD")
    both, shared, own = doc["rows"]
    assert both["failure"] is None and len(both["values"]) == 2, both
    assert shared["median"] > 4 * 256 * 4096 / 2**20, shared  # at least the receives of each rank
    assert 0 <= own["median"] < 16, own  # tables that nobody needs cost nothing


@case
def a_bar_is_judged_both_ways():
    assert report.judge(5, "at least", 4, 6) == "target met"
    assert report.judge(6, "at least", 4, 6) == "goal met"
    assert report.judge(3, "at least", 4, 6) == "target missed"
    assert report.judge(3, "at most", 2, 1) == "target missed"
    assert report.judge(1, "at most", 2, 1) == "goal met"
    assert report.judge(3, "at least", None, 4) == "goal missed"


@case
def a_row_leaves_results_and_a_page():
    name = "limit: CRC+CRC+copy, MTU 1500, in cache"
    text, doc, html = bench("--only", name)
    row, = doc["rows"]
    assert len(row["values"]) == 2 and min(row["values"]) <= row["median"] <= max(row["values"]), row
    assert name in text and name in html and "--loop 1440" in html, text
    for word in (doc["date"], "(commit ", " CPUs, Linux "):
        assert word in text and word in html, (word, text)
    run = subprocess.run(["sh", "-c", row["command"]], capture_output=True, text=True, timeout=PATIENCE, check=False)
    # the command of the row can be pasted into a shell
    assert run.returncode == 0 and float(run.stdout.split()[0]) > 0, run


@case
def the_page_is_one_file_with_the_rivals_in_it():
    row = {"name": plots.WAIT[0], "unit": "us", "command": "a <b>   # c", "values": [1, 2], "median": 1.5,
           "failure": None, "chart": "latency", "line": "a", "x": 64, "quiet": False, "sides": []}
    doc = {"date": "2020-01-02", "version": "rnicd 1 (commit 2)", "machine": "m", "rounds": 2, "seconds": 1, "took": 3,
           "rows": [row], "left_out": [], "bars": report.bars([row])}
    rival = {"name": "Write 64 KiB, siw", "unit": "GB/s", "command": "testpmd-rdma", "values": [0.1], "median": 0.1,
             "failure": None, "of_tcp": 0.5}
    with tempfile.TemporaryDirectory() as out:
        with open(page.make(doc, out), encoding="utf-8") as f:
            assert "make bench-rivals" in f.read()
        with open(os.path.join(out, "rivals.json"), "w", encoding="utf-8") as f:
            json.dump({"date": "2020-02-03", "kernel": "6.1", "caveat": siw.CAVEAT, "rounds": 1, "rows": [rival]}, f)
        with open(page.make(doc, out), encoding="utf-8") as f:
            text = f.read()
    assert "Write 64 KiB, siw" in text and "TCG" in text and "2020-02-03" in text and "a &lt;b&gt;" in text, text
    assert not re.search(r"<img|<link|<script|\bsrc=", text) and "name=viewport" in text, text
    pictures = text.count("<svg")
    assert pictures == (2 if shutil.which("gnuplot") else 0), pictures
    ids = re.findall(r"""\bid=['"]([^'"]+)""", text)
    used = re.findall(r"""(?:href=['"]#|url\(['"]?#)([^'")]+)""", text)
    assert len(ids) == len(set(ids)) and set(used) <= set(ids), (ids, used)


@case
def a_ratio_shows_the_numbers_behind_it():
    def row(name, median, unit, sides=()):
        return {"name": name, "median": median, "unit": unit, "sides": list(sides)}
    told = {b["name"]: b["absolute"] for b in report.bars([
        row("RC Write 64k, MTU 1500, CRC on", 20, "GB/s"),
        row("kernel TCP, MTU 1500, segmentation offloads on", 5, "GB/s"),
        row("ratio: Write 64 B on 1024 QPs / on 1 QP", 0.75, "", [(0.3, "GB/s"), (0.4, "GB/s")]),
        row("Write latency, 64 B, median", 1.25, "us")])}
    assert told == {"Write 64 KiB, MTU 1500 / kernel TCP with offloads": "20.0 GB/s / 5 GB/s",
                    "1024 QPs / 1 QP, 64 B Writes": "0.3 GB/s / 0.4 GB/s",
                    "Write latency 64 B, median, us": "1.25 us"}, told


@case
def a_run_over_the_daemon_is_measured_or_says_why_not():
    name = "10 Gb/s port, Write 64k, MTU 1500"
    text, doc, html = bench("--only", name)
    row, = doc["rows"]
    assert row["values"] or row["failure"] == "no request was completed in time", row  # other processes had the CPU
    assert "rate=10G" in row["command"] and "--size 64k" in row["command"] and "rate=10G" in html, row
    assert ("what the framing allows" in text) == bool(row["values"]), text


@case
def a_ping_pong_over_sockets_is_measured():
    _, doc, _ = bench("--only", "sockets, ping-pong of 64 B")
    rows = {r["name"]: r for r in doc["rows"]}
    row = rows["sockets, ping-pong of 64 B, one way, median"]
    assert row["failure"] is None and min(row["values"]) > 0, row


@case
def both_ends_of_datagrams_and_connections_in_one_program_are_measured():
    _, doc, _ = bench("--only", "64, summed, both ends in one program")
    rows = {r["name"]: r for r in doc["rows"]}
    assert len(rows) == 9, sorted(rows)
    imm = "RC Write with immediate"
    for rc, ud, beside in (("RC Send", "UD Send", ""), ("RC Write", "UD Write-Record", ""),
                           (imm, "UD Write-Record", f", beside {imm}")):
        first, second = (rows[f"{k} 64, summed, both ends in one program{b}, one way, median"]
                         for k, b in ((rc, ""), (ud, beside)))
        ratio = rows[f"ratio: {ud} / {rc}, 64 latency, both ends in one program"]
        assert first["failure"] is None and min(first["values"]) > 0, first
        assert [round(b / a, 6) for a, b in zip(first["values"], second["values"])] == [
            round(r, 6) for r in ratio["values"]], ratio


@case
def active_queue_pairs_are_measured_alone_beside_idle_ones_and_all_together():
    class Few(Active):
        CLIENTS, EACH, FEW = 2, 8, 4

    args = argparse.Namespace(build=BUILD, seconds=0.1, daemon_cpu=0, client_cpu=1)
    row, stage = Few(args), Stage(args)
    with row.scene(stage):
        alone, beside, every, *ratios = row.run(stage)
    assert min(alone, beside, every) > 0 and ratios == [beside / alone, every / alone], (alone, beside, every, ratios)


@case
def connections_that_idle_are_measured():
    _, doc, _ = bench("--only", "1 idle connection")
    for r in doc["rows"]:
        assert len(r["values"]) == 2 and r["failure"] is None, r


if __name__ == "__main__":
    raise SystemExit(main())
