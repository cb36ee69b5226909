#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The benchmark: this project's RNIC, the kernel's TCP and the machine's own limit, side by side in one run.

Every row is a command line that anyone can repeat. All rows are measured once per round, round after round (interleaved, so
that a slow minute of the machine meets all of them), and the table shows the median, the least and the most. Nothing passes
or fails by time. Two CPUs are used: the daemon has one, the two clients share the other.
"""
import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import time

import report
from rows import Kernel, Limit, Rnic, all_rows
from stage import BenchError, Stage


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--build", default="build", help="build directory (default: build)")
    a.add_argument("--rounds", type=int, default=5, help="how often each row is measured (default: 5)")
    a.add_argument("--seconds", type=float, default=0.4, help="length of one measurement (default: 0.4)")
    a.add_argument("--only", default="", metavar="TEXT", help="only rows whose name contains TEXT")
    a.add_argument("--no-kernel", action="store_true", help="leave out the kernel's TCP (it needs root for namespaces)")
    a.add_argument("--out", default=None, metavar="DIR", help="where results go (default: BUILD/bench)")
    a.add_argument("--daemon-cpu", type=int, default=0)
    a.add_argument("--client-cpu", type=int, default=1)
    a.add_argument("--list", action="store_true", help="show the rows and their command lines, measure nothing")
    return a.parse_args()


def machine():
    model = "unknown CPU"
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            model = next(line.split(":", 1)[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{model}, {os.cpu_count()} CPUs, Linux {platform.release()}"


def choose(rows, args):
    out, why = [], []
    for r in rows:
        if args.only not in r.name:
            continue
        if isinstance(r, Kernel) and args.no_kernel:
            continue
        missing = [p for p in r.needs() if shutil.which(p) is None]
        if missing:
            why.append(f"{r.name}: left out, {', '.join(missing)} is not installed")
        elif isinstance(r, Kernel) and os.geteuid() != 0:
            why.append(f"{r.name}: left out, network namespaces need root")
        else:
            out.append(r)
    return out, why


def groups(rows):
    """Rows that use the same daemon, or the same pair of namespaces, run behind one set-up."""
    out = {}
    for r in rows:
        out.setdefault(r.group(), []).append(r)
    return list(out.values())


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def measure(rows, args, stage):
    values = {r.name: [] for r in rows}
    failures = {}
    start = time.monotonic()
    for n in range(args.rounds):
        for group in groups(rows):
            try:
                with stage.scene(group[0]):
                    for r in group:
                        progress(f"round {n + 1} of {args.rounds}: {r.name}")
                        try:
                            values[r.name].append(r.run(stage))
                        except BenchError as e:
                            failures[r.name] = str(e)
            except BenchError as e:
                for r in group:
                    failures[r.name] = str(e)
    progress("")
    print(f"{args.rounds} rounds in {time.monotonic() - start:.0f} s")
    return values, failures


def main():
    args = arguments()
    stage = Stage(args)
    rows, left_out = choose(all_rows(args), args)
    if args.list:
        for r in rows:
            print(f"{r.name}\n    {r.command(stage)}")
        return 0
    if not rows:
        print("bench: no row has that name", file=sys.stderr)
        return 2
    for cls, program in ((Rnic, stage.rnicd), (Limit, stage.limits)):
        if any(isinstance(r, cls) for r in rows) and not os.path.exists(program):
            print(f"bench: {program} is not there: build first (make build)", file=sys.stderr)
            return 2
    values, failures = measure(rows, args, stage)
    results = [{
        "name": r.name, "unit": r.unit, "better": r.better, "command": r.command(stage), "values": values[r.name],
        "median": statistics.median(values[r.name]) if values[r.name] else None,
    } for r in rows]
    out = args.out or os.path.join(args.build, "bench")
    os.makedirs(out, exist_ok=True)
    doc = {"machine": machine(), "rounds": args.rounds, "seconds": args.seconds, "rows": results,
           "bars": report.bars(results), "failures": failures}
    with open(os.path.join(out, "results.json"), "w", encoding="utf-8") as f:
        json.dump(doc, f, indent=1)
    report.table(doc, sys.stdout)
    for line in left_out:
        print(line)
    page = report.page(doc, out)
    print(f"\nresults: {os.path.join(out, 'results.json')}, report: {page}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
