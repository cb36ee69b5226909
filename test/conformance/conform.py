#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
An executable iWARP conformance suite: a peer of our own making says and expects exact bytes at each point of RFC 5040,
5041, 5044, 6581 and 7306. One row for each rule, in rows_*.py.

usage: conform.py [ROW ...]            TAP, rnicd
       conform.py --dut siw [ROW ...]  TAP, Linux siw in a guest
       conform.py --matrix             a table of both
       conform.py --list               the rows
"""
import collections
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e"), os.path.join(HERE, "..", "interop")]

# A row that expects something waits this long for it. siw, under emulation, is silent where a rule is not kept.
PATIENCE = {"rnicd": "20", "siw": "6"}


def works(dut):
    """Whether a plain connection still does."""
    from steps import TABLE, Exchange  # pylint: disable=import-outside-toplevel
    try:
        Exchange(dut, TABLE[0]).run()
    except Exception:  # pylint: disable=broad-except
        return False
    return True


KEPT, MIRRORED, BROKEN = "ok", "mirror", "FAILS"


def judge(dut, r):
    """One row on a device: a verdict, and what the device does instead."""
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
        text += "; after that nothing works any more"
        dut.restart()
    return BROKEN, text


def run(name, rows, out):
    """Runs rows on a device and calls out(row, verdict, text). Returns {row: (verdict, text)}, or a reason why not."""
    from dut import DUTS  # pylint: disable=import-outside-toplevel
    from rig import Skip  # pylint: disable=import-outside-toplevel
    results = {}
    try:
        dut = DUTS[name]()
    except Skip as s:
        return str(s)
    try:
        for r in rows:
            results[r.name] = judge(dut, r)
            out(r, *results[r.name])
    finally:
        dut.close()
    return results


def table():
    """The rows; late, because what they import reads the environment."""
    for name in ("rows_mpa", "rows_6581", "rows_ddp", "rows_rdmap", "rows_7306"):
        importlib.import_module(name)
    from steps import TABLE  # pylint: disable=import-outside-toplevel
    return TABLE


def tap(name, rows):
    print(f"1..{len(rows)}", flush=True)
    failed = []

    def out(r, verdict, text):
        if verdict != KEPT:
            failed.append(r)
        number = rows.index(r) + 1
        print(f"{'ok' if verdict == KEPT else 'not ok'} {number} - {r.name} [RFC {r.section}, {r.role}] {r.text}")
        if text:
            print(f"# {name} {text}")
        sys.stdout.flush()

    results = run(name, rows, out)
    if isinstance(results, str):
        for i, r in enumerate(rows, 1):
            print(f"ok {i} - {r.name} # SKIP {results}")
    return 1 if failed else 0


def column(name):
    """Runs one device in a process of its own; returns what run() does."""
    with tempfile.NamedTemporaryFile("r", suffix=".json") as f:
        p = subprocess.run([sys.executable, os.path.abspath(__file__), "--dut", name, "--json", f.name], check=False)
        try:
            return json.load(f)
        except ValueError:
            return f"the run ended with {p.returncode}"


def cells(column_of, r):
    """A row's verdict and note for each device."""
    for name, c in column_of.items():
        verdict, text = c.get(r.name, ("-", "")) if isinstance(c, dict) else ("-", "")
        yield verdict, f"{name} {text}" if text else ""


def matrix():
    start = time.monotonic()
    column_of = {name: column(name) for name in PATIENCE}
    rows = table()
    width = max(len(r.name) for r in rows)
    print(f"{'row':{width}}  {'RFC':11} {'level':6} {'role':9}  " + "  ".join(f"{n:6}" for n in column_of) + "  note")
    for r in rows:
        verdicts, notes = zip(*cells(column_of, r))
        notes = [n for n in notes if n] + ([r.note] if r.note and any(notes) else [])
        print(f"{r.name:{width}}  {r.section:11} {r.level:6} {r.role:9}  " +
              "  ".join(f"{v:6}" for v in verdicts) + "  " + "; ".join(notes))
    print(f"\n{KEPT}: kept. {MIRRORED}: kept, but layer and type, and M D R, of the Terminate are the wrong way round "
          "(RFC 5040, 4.8). -: not tested.")
    for name, c in column_of.items():
        if isinstance(c, dict):
            count = collections.Counter(v for v, _ in c.values())
            print(f"{name}: {len(c)} rows, " + ", ".join(f"{count[v]} {v}" for v in (KEPT, MIRRORED, BROKEN)))
        else:
            print(f"{name}: {c}")
    print(f"{time.monotonic() - start:.0f} s")
    ours = column_of["rnicd"]
    return 0 if isinstance(ours, dict) and all(v == KEPT for v, _ in ours.values()) else 1


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
    results = run(name, rows, lambda *_: None)
    with open(to, "w", encoding="utf-8") as f:
        json.dump(results, f)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    os.environ.setdefault("RNIC_TEST_PATIENCE", "20")
    sys.exit(main())
