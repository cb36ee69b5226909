# SPDX-License-Identifier: BSD-3-Clause
"""
The conformance matrix: a column for each device. A column is {"about": the device's version, "rows": {row: [verdict,
what it does instead]}}, or {"reason": why there is none}. Columns lie as JSON in the build; matrix.txt is a matrix that
was kept.
"""
import collections
import json
import os
import re
import textwrap

import siw

KEPT, MIRRORED, BROKEN = "ok", "mirror", "FAILS"
HERE = os.path.dirname(os.path.abspath(__file__))
KEPT_FILE = os.path.join(HERE, "matrix.txt")
TITLES = {"5044": "MPA", "6581": "enhanced MPA", "5041": "DDP", "5040": "RDMAP", "7306": "RDMAP extensions"}
UNEXPLAINED = "UNEXPLAINED"


def column_file(name):
    from rig import BUILD  # pylint: disable=import-outside-toplevel  # it reads the environment
    return os.path.join(BUILD, "test", "conformance", f"{name}.json")


def write_column(name, column):
    with open(column_file(name), "w", encoding="utf-8") as f:
        json.dump(column, f)


def read_column(name):
    try:
        with open(column_file(name), encoding="utf-8") as f:
            return json.load(f)
    except (OSError, ValueError):
        return {"reason": "not run"}


def kept():
    """siw's column, from matrix.txt."""
    rows = {}
    with open(KEPT_FILE, encoding="utf-8") as f:
        about = next(f).rstrip("\n").rpartition(" beside siw of ")[2]
        for line in f:
            m = re.match(r"(\S+) +\d{4} [\d.]+ +[A-Z]+ +(?:responder|initiator) +\S+ +(\S+)(?: +(.*))?$", line)
            if m and m[2] != "-":
                rows[m[1]] = [m[2], m[3] or ""]
    return {"about": about, "rows": rows}


def verdict(column, r):
    return column.get("rows", {}).get(r.name, ["-", ""])


def note(columns, r):
    """The note of a row: what the devices do instead, and why."""
    notes = []
    for name, c in columns.items():
        v, text = verdict(c, r)
        if v in (MIRRORED, BROKEN):
            notes.append(f"{name} {text}")
        if v == BROKEN:
            notes.append((name == "siw" and siw.why(r)) or UNEXPLAINED)
    return "; ".join(notes)


def full(columns, rows):
    width = max(len(r.name) for r in rows)
    print("make conformance: rnicd " + " beside siw of ".join(c.get("about", "-") for c in columns.values()))
    print(f"\n{'row':{width}}  {'RFC':11} {'level':6} {'role':9}  " + "  ".join(f"{n:6}" for n in columns) + "  note")
    for r in rows:
        cells = "  ".join(f"{verdict(c, r)[0]:6}" for c in columns.values())
        print(f"{r.name:{width}}  {r.section:11} {r.level:6} {r.role:9}  {cells}  {note(columns, r)}".rstrip())
    print()


def tally(columns, rows):
    """Prints a line for each RFC: the number of rows, and how many of each verdict each device has."""
    print(f"{'':26} {'rows':>4}" + "".join(f"   {n:26}" for n in columns).rstrip())
    groups = {f"RFC {n} {t}": [r for r in rows if r.section.startswith(n)] for n, t in TITLES.items()}
    for title, members in {**groups, "all": rows}.items():
        line = f"{title:26} {len(members):4}"
        for c in columns.values():
            count = collections.Counter(verdict(c, r)[0] for r in members)
            words = {KEPT: "ok", MIRRORED: "mirror", BROKEN: "FAIL", "-": "not run"}
            line += f"   {', '.join(f'{count[v]} {w}' for v, w in words.items() if count[v]):26}"
        print(line.rstrip())
    for name, c in columns.items():
        print(f"{name}: " + (c["about"] if "about" in c else f"no column: {c['reason']}"))
    print(textwrap.fill(f"mirror: {siw.MIRRORED}; the device keeps the rest of the row", 120))


def listing(title, names):
    print(textwrap.fill(f"{title}: {len(names)} row{'s' if len(names) != 1 else ''}", 120, initial_indent="  ",
                        subsequent_indent="    "))
    indent = " " * 6
    print(textwrap.fill(", ".join(names), 120, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False))


def differences(columns, rows):
    """Prints the rows that are not kept, grouped by their reason; returns the number of rows without a known reason."""
    behind = collections.OrderedDict()
    unexplained = []
    for r in rows:
        for name, c in columns.items():
            v, text = verdict(c, r)
            reason = siw.why(r) if name == "siw" else None
            if v == MIRRORED:
                behind.setdefault(siw.MIRRORED, []).append(r.name)
            elif v == BROKEN and reason:
                behind.setdefault(reason, []).append(r.name)
            elif v == BROKEN:
                unexplained.append(f"{r.name} [RFC {r.section}, {r.role}] {name} {text}")
    print("\nHow siw differs:")
    for title, names in behind.items():
        listing(title, names)
    print("\nFailed rows without a known reason: " + ("none" if not unexplained else str(len(unexplained))))
    for line in unexplained:
        print(f"  {line}")
    return len(unexplained)


def summary(columns, rows):
    tally(columns, rows)
    return differences(columns, rows)
