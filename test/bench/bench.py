#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The benchmark: this project's RNIC, the alternatives that a user has without it, and the limits of the machine, side by
side in one run.

Every row is a command line that anyone can repeat. Every row is measured once in each round (interleaved, so that a
slow minute of the machine affects all rows alike), and the table shows median, minimum and maximum. A row that only
draws a point of a picture, and has no target, is measured in the first round alone, unless --full; so is memory. The
ratios that have targets ("bars") are also measured in turns of a fraction of a second. The run does not fail because
something is slow. Two CPUs are used: one for the daemon, the other one for both clients.
"""
import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time

import page
import report
from datagram import datagram_rows
from embedded import embedded_rows
from mpi import mpi_rows
from rivals import Kernel, rival_rows
from rows import project_rows
from sockets import socket_rows
from stage import BenchError, Stage


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--build", default="build", help="build directory (default: build)")
    a.add_argument("--rounds", type=int, default=3, help="how often each row is measured (default: 3)")
    a.add_argument("--seconds", type=float, default=0.4, help="length of one measurement (default: 0.4)")
    a.add_argument("--full", action="store_true",
                   help="more sizes, every message rate, 20,000 connections, each point of the pictures in each round")
    a.add_argument("--only", default="", metavar="TEXT", help="only rows with a figure whose name contains TEXT")
    a.add_argument("--no-kernel", action="store_true", help="leave out the rows over the kernel's TCP, which need root")
    a.add_argument("--out", default=None, metavar="DIR", help="folder for the results (default: BUILD/bench)")
    a.add_argument("--daemon-cpu", type=int, default=0)
    a.add_argument("--client-cpu", type=int, default=1)
    a.add_argument("--list", action="store_true", help="show the rows and their command lines, measure nothing")
    a.add_argument("--redraw", action="store_true", help="write the page again from DIR/results.json, measure nothing")
    return a.parse_args()


def machine():
    model = "unknown CPU"
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            model = next(line.split(":", 1)[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{model}, {os.cpu_count()} CPUs, Linux {platform.release()}"


def version(stage):
    """The version of rnicd that is measured, with the commit that it was built from."""
    return subprocess.run([stage.rnicd, "--version"], capture_output=True, text=True, check=False).stdout.strip()


def choose(rows, args):
    out, why = [], []
    for r in rows:
        name = r.figures[0].name
        if not any(args.only in f.name for f in r.figures) or (args.no_kernel and isinstance(r, Kernel)):
            continue
        missing = [p for p in r.needs() if shutil.which(p) is None]
        if missing:
            why.append(f"{name}: left out, {', '.join(missing)} is not installed")
        elif r.needs() and os.geteuid() != 0:
            why.append(f"{name}: left out, network namespaces need root")
        else:
            out.append(r)
    return out, why


def in_round(rows, n, args):
    """The rows that are measured in round n. --only measures what it names in each."""
    if n == 0 or args.full or args.only:
        return rows
    targets = report.behind_bars()
    return [r for r in rows if not r.steady and
            (all(f.chart is None for f in r.figures) or any(f.name in targets for f in r.figures))]


def groups(rows):
    """Lists of rows: the rows of a list need the same daemon, or the same pair of namespaces, and share one set-up."""
    out = {}
    for r in rows:
        out.setdefault(r.group(), []).append(r)
    return list(out.values())


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def measure_row(row, stage, values, failures):
    try:
        for f, v in zip(row.figures, row.run(stage)):
            if v is None:
                failures[f.name] = "no request was completed in time"
            else:
                values[f.name].append(v)
    except (BenchError, OSError, ValueError, KeyError, subprocess.TimeoutExpired) as e:
        for f in row.figures:
            failures[f.name] = str(e)


def measure(rows, args, stage):
    values = {f.name: [] for r in rows for f in r.figures}
    failures = {}
    for n in range(args.rounds):
        for group in groups(in_round(rows, n, args)):
            try:
                with group[0].scene(stage):
                    for r in group:
                        progress(f"round {n + 1} of {args.rounds}: {r.figures[0].name}")
                        measure_row(r, stage, values, failures)
            except BenchError as e:
                for f in (f for r in group for f in r.figures):
                    failures[f.name] = str(e)
    progress("")
    return values, failures


def result(f, row, stage, values, failures):
    return {"name": f.name, "unit": f.unit, "command": row.command(stage), "values": values, "sides": row.absolute(),
            "median": statistics.median(values) if values else None,
            "failure": None if values else failures.get(f.name),
            "chart": f.chart, "line": f.line, "x": f.x, "quiet": f.quiet}


def run(rows, args, stage, left_out):
    start = time.monotonic()
    values, failures = measure(rows, args, stage)
    results = [result(f, r, stage, values[f.name], failures) for r in rows for f in r.figures]
    return {"date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "version": version(stage), "machine": machine(),
            "rounds": args.rounds, "seconds": args.seconds, "took": time.monotonic() - start,
            "rows": results, "bars": report.bars(results), "left_out": left_out}


def main():
    args = arguments()
    stage = Stage(args)
    out = args.out or os.path.join(args.build, "bench")
    file = os.path.join(out, "results.json")
    if args.redraw:
        with open(file, encoding="utf-8") as f:
            print(page.make(json.load(f), out))
        return 0
    rows, left_out = choose([*project_rows(args), *datagram_rows(args), *mpi_rows(args), *socket_rows(args),
                             *embedded_rows(args), *rival_rows(args)], args)
    if args.list:
        for r in rows:
            print("\n".join(f.name for f in r.figures) + f"\n    {r.command(stage)}")
        return 0
    if not rows:
        print("bench: no row has a figure with this name: --list shows all", file=sys.stderr)
        return 2
    for program in (stage.rnicd, stage.testpmd, stage.limits, stage.ring):
        if not os.path.exists(program):
            print(f"bench: {program} is not there: build first (make build)", file=sys.stderr)
            return 2
    doc = run(rows, args, stage, left_out)
    os.makedirs(out, exist_ok=True)
    with open(file, "w", encoding="utf-8") as f:
        json.dump(doc, f, indent=1)
    report.table(doc, sys.stdout)
    print(f"\nresults: {file}, report: {page.make(doc, out)}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
