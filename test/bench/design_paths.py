# SPDX-License-Identifier: BSD-3-Clause
"""
Streams over one, two and four paths of different delay, with each way to treat segments that arrive out of order
(out-of-order = place, buffer or drop). Each path is a line of its own rate, so the rate of a port grows with its paths.
The messages are Sends. Once the first segment of a Send has found its receive ("open"), later segments of that Send can
be placed before the segments between have arrived.
"""
import contextlib
import os
import statistics
import sys

from design_place import Place

DESIGNS = ("offloaded", "assisted", "host")  # in the embedded design the kernel's TCP decides
WAYS = ("place", "buffer", "drop")
POINTS = "1:0,2:0,2:100,2:1000,4:0,4:100,4:1000"  # paths : us from the fastest to the slowest
RATE = "1G"  # of a path
SIZE = 65536
LEAST = 0.5  # seconds: where segments are dropped, a stream waits for time-outs of 0.2 s each
TITLES = ("bandwidth, GB/s", "segments sent again, of 1,000", "CPU of rnicd and the programs, ns per 1,000 bytes")


def points(text):
    return [tuple(map(int, p.split(":"))) for p in text.split(",")]


def name_of(point):
    paths, us = point
    return f"{paths} path" if paths == 1 else f"{paths} paths, {us} us"


def delays(point):
    paths, us = point
    return ", ".join(f"{us * i // max(paths - 1, 1)}us" for i in range(paths))


def segments(stage):
    """TCP segments with data that the daemon's ports have sent so far, and those of them that were sent again."""
    ports = [stage.d.telemetry(f"/rnic/ports,{p}") for p in ("left", "right")]
    return [sum(p[key] for p in ports) for key in ("tx_data", "tx_again")]


def one(stage, place, seconds):
    before = segments(stage)
    row, clients, workers = place.run("send_bw", SIZE, max(seconds, LEAST))
    sent, again = (now - was for now, was in zip(segments(stage), before))
    each = (clients + workers) * 1e12 / row["bytes"] if row["bytes"] > 0 else float("inf")
    return row["gbytes_per_s"], 1000 * again / sent, each


def measure(stage, keys, where, rounds, seconds):
    """[way][design][name of the point]: medians of TITLES. In each round every design runs once."""
    found = {w: {d: {} for d in DESIGNS} for w in WAYS}
    for point in where:
        for way in WAYS:
            port = dict(keys["port"], **{"out-of-order": way, "rate": RATE, "delay": delays(point)})
            with contextlib.ExitStack() as stack:
                stack.enter_context(stage.pair(dict(keys, port=port), serve=False, links=point[0]))
                places = [stack.enter_context(Place(stage, d, keys["port"]).open()) for d in DESIGNS]
                seen = {p.design: [] for p in places}
                for _ in range(rounds):
                    for p in places:
                        seen[p.design].append(one(stage, p, seconds))
            for design, rows in seen.items():
                found[way][design][name_of(point)] = [statistics.median(v) for v in zip(*rows)]
        print(f"{name_of(point)}: done", file=sys.stderr, flush=True)
    return found


def table(found):
    columns = [f"{d}, {w}" for d in DESIGNS for w in WAYS]
    for i, title in enumerate(TITLES):
        print(f"\n{title}, Sends of {SIZE} bytes, each path {RATE}bit/s\n\n| | " + " | ".join(columns) + " |\n" +
              "|---" * (1 + len(columns)) + "|")
        for point in found["place"]["host"]:
            print(f"| {point} | " + " | ".join(f"{found[w][d][point][i]:.3g}" for d in DESIGNS for w in WAYS) + " |")


def figures_of(found):
    """(title, what is varied, {way: {point: GB/s}}) for each design."""
    for design in DESIGNS if found else ():
        yield (f"design {design}, each way to treat segments out of order: bandwidth, GB/s",
               "paths, and delay from the fastest to the slowest",
               {way: {point: row[0] for point, row in found[way][design].items()} for way in WAYS})
