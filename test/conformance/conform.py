#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
An executable iWARP conformance suite: a peer of our own making says and expects exact bytes at each point of RFC 5040,
5041, 5044 and 6581. One row for each rule, in rows_*.py.

usage: conform.py [ROW ...]            TAP, rnicd
       conform.py --dut siw [ROW ...]  TAP, Linux siw in a guest
       conform.py --matrix             a table of both
       conform.py --list               the rows
"""
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e"), os.path.join(HERE, "..", "interop")]

# A row that expects something waits this long for it. siw, under emulation, is silent where a rule is not kept.
PATIENCE = {"rnicd": "20", "siw": "6"}


def run(name, rows, out=print):
    """Runs rows on a device; returns {row: None when kept, else what it does instead}, or a reason why not."""
    from dut import DUTS
    from rig import Skip
    from steps import Differs, Exchange
    results = {}
    try:
        dut = DUTS[name]()
    except Skip as s:
        return str(s)
    try:
        for r in rows:
            try:
                Exchange(dut, r).run()
                results[r.name] = None
            except Differs as d:
                results[r.name] = str(d)
            except Exception:  # pylint: disable=broad-except
                results[r.name] = "cannot be tested: " + traceback.format_exc().strip().splitlines()[-1]
                out("".join(f"# {line}\n" for line in traceback.format_exc().splitlines()), end="")
            out(r, results[r.name])
    finally:
        dut.close()
    return results


def table():
    """The rows; late, because what they import reads the environment."""
    for name in ("rows_mpa", "rows_6581", "rows_ddp", "rows_rdmap"):
        importlib.import_module(name)
    from steps import TABLE  # pylint: disable=import-outside-toplevel
    return TABLE


def tap(name, rows):
    print(f"1..{len(rows)}", flush=True)
    count = {"n": 0, "bad": 0}

    def out(r, instead=None, end=None):
        if isinstance(r, str):
            print(r, end=end)
            return
        count["n"] += 1
        count["bad"] += instead is not None
        verdict = "ok" if instead is None else "not ok"
        print(f"{verdict} {count['n']} - {r.name} [RFC {r.section}, {r.role}] {r.text}")
        if instead is not None:
            print(f"# {name} {instead}")
        sys.stdout.flush()

    results = run(name, rows, out)
    if isinstance(results, str):
        for i, r in enumerate(rows, 1):
            print(f"ok {i} - {r.name} # SKIP {results}")
    return 1 if count["bad"] else 0


def column(name):
    """Runs one device in a process of its own; returns what run() does."""
    with tempfile.NamedTemporaryFile("r", suffix=".json") as f:
        p = subprocess.run([sys.executable, os.path.abspath(__file__), "--dut", name, "--json", f.name], check=False)
        try:
            return json.load(f)
        except ValueError:
            return f"the run ended with {p.returncode}"


def matrix():
    start = time.monotonic()
    names = list(PATIENCE)
    columns = {n: column(n) for n in names}
    rows = table()
    width = max(len(r.name) for r in rows)
    print(f"{'row':{width}}  {'RFC':11} {'level':6} {'role':9}  " + "  ".join(f"{n:5}" for n in names) + "  note")
    for r in rows:
        cells, notes = [], []
        for n in names:
            c = columns[n]
            instead = c.get(r.name, "not run") if isinstance(c, dict) else None
            cells.append("-" if not isinstance(c, dict) else "ok" if instead is None else "FAILS")
            if instead is not None:
                notes.append(f"{n} {instead}")
        if r.note and any(c == "FAILS" for c in cells):
            notes.append(r.note)
        cells = "  ".join(f"{c:5}" for c in cells)
        print(f"{r.name:{width}}  {r.section:11} {r.level:6} {r.role:9}  {cells}  {'; '.join(notes)}")
    for n in names:
        c = columns[n]
        kept = f"{sum(v is None for v in c.values())} of {len(rows)} rows kept" if isinstance(c, dict) else c
        print(f"{n}: {kept}")
    print(f"{time.monotonic() - start:.0f} s")
    return 0 if isinstance(columns["rnicd"], dict) and not any(columns["rnicd"].values()) else 1


def main():
    args = sys.argv[1:]
    if args == ["--matrix"]:
        return matrix()
    name, to = "rnicd", None
    if args[:1] == ["--dut"]:
        name, args = args[1], args[2:]
    if args[:1] == ["--json"]:
        to, args = args[1], args[2:]
    os.environ["RNIC_TEST_PATIENCE"] = PATIENCE[name]
    rows = [r for r in table() if not args or r.name in args]
    if args == ["--list"]:
        for r in table():
            print(f"{r.name}\tRFC {r.section}\t{r.level}\t{r.role}\t{r.text}")
        return 0
    if to is None:
        return tap(name, rows)
    results = run(name, rows, lambda *a, **k: None)
    with open(to, "w", encoding="utf-8") as f:
        json.dump(results, f)
    return 0


if __name__ == "__main__":
    os.environ.setdefault("RNIC_TEST_PATIENCE", "20")
    sys.exit(main())
