#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
An executable iWARP conformance suite: a peer of our own making says and expects exact bytes at each point of RFC 5040,
5041, 5044, 6581 and 7306. One row for each rule, in rows_*.py.

usage: conform.py [ROW ...]            TAP, rnicd
       conform.py --dut siw [ROW ...]  TAP, Linux siw in a guest
       conform.py --again              TAP, Linux siw: the rows that matrix.txt says it keeps
       conform.py --matrix             a table of both
       conform.py --summary            a summary of the last runs; siw's column is that of matrix.txt if siw was not run
       conform.py --list               the rows
"""
import importlib
import os
import signal
import subprocess
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e"), os.path.join(HERE, "..", "interop")]
import siw  # pylint: disable=wrong-import-position
import matrix  # pylint: disable=wrong-import-position
from matrix import BROKEN, KEPT, MIRRORED  # pylint: disable=wrong-import-position

# Seconds that a row waits for expected bytes. siw, which is slow under emulation, needs some seconds. No more are given
# to siw, since many rows that siw breaks wait to the end: siw then sends nothing.
PATIENCE = {"rnicd": "20", "siw": "6"}


def works(dut):
    """True: a plain connection still works."""
    from steps import TABLE, Exchange  # pylint: disable=import-outside-toplevel
    try:
        Exchange(dut, TABLE[0]).run()
    except Exception:  # pylint: disable=broad-except
        return False
    return True


def judge(dut, r):
    """Runs one row on a device; returns the verdict, and what the device does instead."""
    from steps import Differs, Exchange, Mirrored  # pylint: disable=import-outside-toplevel
    try:
        Exchange(dut, r).run()
        return KEPT, ""
    except Mirrored as d:
        return MIRRORED, str(d)
    except Differs as d:
        text = str(d)
    except Exception:  # pylint: disable=broad-except
        text = "cannot be tested: " + traceback.format_exc().strip().splitlines()[-1]
    if not works(dut):
        text += "; after this row a plain connection no longer works"
        dut.restart()
    return BROKEN, text


def run(name, rows, out):
    """
    Runs rows on a device and calls out(row, verdict, text) for each; returns the matrix's column of the device
    (matrix.py).
    """
    from dut import DUTS  # pylint: disable=import-outside-toplevel
    from rig import Skip  # pylint: disable=import-outside-toplevel
    results = {}
    try:
        dut = DUTS[name]()
    except Skip as s:
        return {"reason": str(s)}
    try:
        for r in rows:
            results[r.name] = judge(dut, r)
            out(r, *results[r.name])
        return {"about": dut.about(), "rows": results}
    finally:
        dut.close()


def table():
    """All rows. Imported late, because what the rows import reads the environment."""
    for name in ("rows_mpa", "rows_6581", "rows_ddp", "rows_rdmap", "rows_7306"):
        importlib.import_module(name)
    from steps import TABLE  # pylint: disable=import-outside-toplevel
    return TABLE


def tap(name, rows, due):
    """Prints the rows' results as TAP. due: {row: verdict}, the verdicts to expect of a row in place of KEPT."""
    print(f"1..{len(rows)}", flush=True)
    failed = []

    def out(r, verdict, text):
        good = verdict == due.get(r.name, KEPT)
        if not good:
            failed.append(r)
        print(f"{'ok' if good else 'not ok'} {rows.index(r) + 1} - {r.name} [RFC {r.section}, {r.role}] {r.text}")
        if text:
            print(f"# {name} {text}")
        sys.stdout.flush()

    column = run(name, rows, out)
    if "reason" in column:
        for i, r in enumerate(rows, 1):
            print(f"ok {i} - {r.name} # SKIP {column['reason']}")
    return column, 1 if failed else 0


def column(name):
    """Runs one device in a process of its own; returns its column."""
    argv = [sys.executable, os.path.abspath(__file__), "--dut", name]
    p = subprocess.run(argv, check=False, stdout=subprocess.DEVNULL)
    c = matrix.read_column(name)
    return c if p.returncode in (0, 1) else {"reason": f"the run ended with exit status {p.returncode}"}


def both():
    """Runs all rows on both devices; prints the whole table, then the summary."""
    start = time.monotonic()
    columns = {name: column(name) for name in PATIENCE}
    matrix.full(columns, table())
    red = matrix.summary(columns, table())
    print(f"{time.monotonic() - start:.0f} s")
    return 1 if red or "reason" in columns["rnicd"] else 0


def summary():
    rows, kept, again = table(), matrix.kept(), matrix.read_column("siw-again")
    if "rows" in again:
        same = sum(kept["rows"].get(name, [""])[0] == v for name, (v, _) in again["rows"].items())
        kept["about"] += f", as matrix.txt has it; {len(again['rows'])} of its rows run again here, {same} as kept"
        kept["rows"].update(again["rows"])
    else:
        kept["about"] += f", as matrix.txt has it; none of it run again here: {again['reason']}"
    return 1 if matrix.summary({"rnicd": matrix.read_column("rnicd"), "siw": kept}, rows) else 0


def main():
    args = sys.argv[1:]
    if args == ["--matrix"]:
        return both()
    if args == ["--summary"]:
        return summary()
    name, keep, due = "rnicd", None, {}
    if args == ["--again"]:
        known = {r.name for r in table() if siw.why(r)}
        due = {row: v for row, (v, _) in matrix.kept()["rows"].items() if v != BROKEN and row not in known}
        name, keep, args = "siw", "siw-again", list(due)
    elif args[:1] == ["--dut"]:
        name, args = args[1], args[2:]
    os.environ["RNIC_TEST_PATIENCE"] = PATIENCE["rnicd" if due else name]
    rows = [r for r in table() if not args or r.name in args]
    if args == ["--list"]:
        for r in table():
            print(f"{r.name}\tRFC {r.section}\t{r.level}\t{r.role}\t{r.text}")
        return 0
    # a run with RNIC_DESIGN has no column in the matrix
    keep = keep or (name if not args and "RNIC_DESIGN" not in os.environ else None)
    if keep:
        matrix.write_column(keep, {"reason": "the run has not ended"})
    result, status = tap(name, rows, due)
    if keep:
        matrix.write_column(keep, result)
    return status


if __name__ == "__main__":
    # SIGTERM ends Python in order, so that the processes that were started are ended, too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.environ.setdefault("RNIC_TEST_PATIENCE", "20")
    sys.exit(main())
