#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The cost of iWARP by the place where it runs: the designs offloaded, assisted, host and embedded, measured in turns.
Each figure has the bandwidth of Writes and the CPU time of all programs together and of rnicd. rnicd's workers run all
of iWARP (offloaded), TCP and the sums of CRCs (assisted), TCP alone (host), or nothing (embedded). Figures:

  sizes        over message sizes, with the latency of a Write that is answered by a Write
  cold         the same with buffers that no cache holds, each run four times as long: the programs' CPU time contains
               the making and registering of 128 MiB of buffers
  markers      over the spacing of markers, messages of 64 KiB
  computation  over the time of computation between requests: the client computes after each request that it posts, and
               does not poll meanwhile. The programs' CPU time contains this computation
  connections  over the number of connections that take turns, messages of 4 KiB: what it costs to find the connection
               of a segment
  isosurface   an application over the size of its units of work: examples/isosurface, eight processes. The time is that
               of the whole picture, and the programs' CPU time contains the drawing
  paths        streams over one, two and four paths of different delay, with out-of-order = place, buffer and drop
               (design_paths.py)
  touched      bytes copied and summed for each byte that is moved, by program and rnicd, as their code counts them
               (design_touched.py)
  nic          the load of an adapter's memory for the FPDUs that design offloaded sent: nic_model.py, fed with a
               capture of messages of 64 KiB

With --cachegrind, instead of these: bytes between cores and caches for each byte that is transferred (design_cache.py).

The first three designs run over a pair of ports of one rnicd; embedded runs over the kernel's loopback. All designs sum
every CRC (crc = always) and use markers. Each figure but nic is the median of the rounds.
"""
import argparse
import contextlib
import io
import json
import os
import statistics
import sys
import time

import bench
import design_cache
import design_page
import design_paths
import design_touched
import nic_model
from design_place import BUFFERS, DESIGNS, Place
from stage import BenchError, Stage, run

HERE = os.path.dirname(os.path.abspath(__file__))
FIGURES = ("sizes", "cold", "markers", "computation", "connections", "isosurface", "paths", "touched", "nic")
SIZES = "64,1k,4k,16k,64k,256k,1m"
COMPUTATION = "0,10,20,50,100,200"  # us
COMPUTE_SIZES = "4k,128k"
SPACINGS = "512,1024,2048,4096,none"
MARKED = 65536  # bytes of a message of the figures markers and nic
CONNECTIONS = "1,4,16,64,256,1k"
CONNECTED = 4096  # bytes of a message of the figure connections
UNITS = "8k,64k,1m"
BANDWIDTH = ("bandwidth, GB/s", "CPU of the programs, ns per 1,000 bytes", "CPU of rnicd, ns per 1,000 bytes",
             "GB for each CPU second of both")
RNICD = {"workers": 1}
PORT = {"mtu": 9000, "crc": "always", "markers": "on"}


@contextlib.contextmanager
def places_of(stage, more):
    """Starts a daemon and a server in each design; yields their Places. more: further keys of the ports."""
    keys = dict(PORT, **more)
    with contextlib.ExitStack() as stack:
        stack.enter_context(stage.pair({"rnicd": RNICD, "port": keys}, serve=False))
        yield [stack.enter_context(Place(stage, d, keys).open()) for d in DESIGNS]


def in_turns(places, points, rounds, figures):
    """
    [design][point]: the median of each value of figures(place, point). In each round every design runs every point.
    """
    seen = {p.design: {point: [] for point in points} for p in places}
    for r in range(rounds):
        for point in points:
            for p in places:
                seen[p.design][point].append(figures(p, point))
        print(f"round {r + 1} of {rounds} has ended", file=sys.stderr, flush=True)
    return {d: {point: [statistics.median(v) for v in zip(*rows)] for point, rows in by.items()}
            for d, by in seen.items()}


def captured(stage, place, spacing):
    """The FPDUs of some messages, from a capture at the sending port."""
    path = os.path.join(stage.directory, f"nic-{spacing}.pcapng")
    ctl = [os.path.join(stage.args.build, "app", "rnicctl", "rnicctl"), "--socket",
           stage.env["RNICD_SOCKET"], "set", "port", "right"]
    run([*ctl, f"capture={path}"], env=stage.env)
    place.ended([stage.testpmd, "-m", "write_bw", "-S", str(MARKED), "-n", "32", "--warmup", "1", "--depth", "4",
                 "--batch", "1", "--no-verify", "--quiet", "-p", place.port, place.addr[0]])
    run([*ctl, "capture="], env=stage.env)
    run([*ctl, "capture="], env=stage.env)  # returns only when the capture has been written to its end
    try:
        return nic_model.capture_fpdus(path, 0 if spacing == "none" else int(spacing))
    except nic_model.wire_check.WireError as e:
        raise BenchError(f"capture with markers every {spacing}: {e}") from None


def measure(stage, a):
    """Returns {figure: {design: {point: numbers}}}; the figure computation has such a dictionary for each size."""
    found, n, s = {}, a.rounds, a.seconds
    with places_of(stage, {}) as places:
        if "sizes" in a.figures:
            found["sizes"] = in_turns(places, a.sizes, n, lambda p, size: p.latency(size, s))
        if "cold" in a.figures:
            sizes = [size for size in a.sizes if size >= 1024 and size <= BUFFERS // 16]
            found["cold"] = in_turns(places, sizes, n, lambda p, size: p.cold(size, s))
        if "computation" in a.figures:
            found["computation"] = {size: in_turns(places, a.computation, n, lambda p, us, size=size: p.computing(
                size, us, s)) for size in a.compute_sizes}
        if "connections" in a.figures:
            found["connections"] = in_turns(places, a.connections, n, lambda p, qps: p.connected(CONNECTED, qps, s))
        if "isosurface" in a.figures:
            found["isosurface"] = in_turns(places, a.units, n, lambda p, unit: p.isosurface(unit, a.dims))
    found.update({f: {} for f in ("markers", "nic") if f in a.figures})
    for spacing in a.spacings if "markers" in found or "nic" in found else ():
        with places_of(stage, {"marker-spacing": spacing}) as places:
            if "markers" in found:
                for d, by in in_turns(places, [spacing], n, lambda p, _: p.bandwidth(MARKED, s)).items():
                    found["markers"].setdefault(d, {}).update(by)
            if "nic" in found:
                found["nic"][spacing] = nic_model.every_way(captured(stage, places[0], spacing))
    if "paths" in a.figures:
        found["paths"] = design_paths.measure(stage, {"rnicd": RNICD, "port": PORT}, a.paths, n, s)
    if "touched" in a.figures:
        found["touched"] = design_touched.measure(stage, {"rnicd": RNICD, "port": PORT}, a.touched)
    return found


def figures_of(found):
    """(title, what is varied, {design: {point: value}}) for each table of designs over something."""
    for figure, what, titles, of in (
            ("sizes", "bytes", ("latency, us (median)", *BANDWIDTH), ""),
            ("cold", "bytes", BANDWIDTH, ", buffers that no cache holds"),
            ("markers", "bytes between markers", BANDWIDTH, f", messages of {MARKED} bytes"),
            ("connections", "connections", BANDWIDTH, f", messages of {CONNECTED} bytes, by the number of connections"),
            ("isosurface", "bytes of a unit", ("time of the picture, s", *BANDWIDTH), ", isosurface")):
        if figure in found:
            yield from columns(found[figure], what, titles, of)
    for size, by in found.get("computation", {}).items():
        yield from columns(by, "us of computation", BANDWIDTH, f", with computation between requests of {size} bytes")


def columns(by, what, titles, of):
    for i, title in enumerate(titles):
        yield title + of, what, {d: {point: values[i] for point, values in points.items()} for d, points in by.items()}


def tables(found):
    for title, what, by in figures_of(found):
        print(f"\n{title}\n\n| {what} | " + " | ".join(by) + " |\n" + "|---" * (1 + len(by)) + "|")
        for point in next(iter(by.values())):
            print(f"| {point} | " + " | ".join(f"{points[point]:.3g}" for points in by.values()) + " |")
    if "paths" in found:
        design_paths.table(found["paths"])
    design_touched.table(found.get("touched", {}))
    for spacing, rows in found.get("nic", {}).items():
        print(f"\nmemory of an adapter, {spacing} bytes between markers\n")
        nic_model.table(rows)


def page(found, stage, directory):
    """Writes the page; returns its path."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        tables(found)
    pictures = [*figures_of(found), *design_paths.figures_of(found.get("paths", {})),
                *nic_model.figures_of(found.get("nic", {}))]
    os.makedirs(directory, exist_ok=True)
    return design_page.make(pictures, text.getvalue(), f"{bench.version(stage)}; {bench.machine()}; "
                            f"{time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}", directory)


def number(text):
    unit = {"k": 1 << 10, "m": 1 << 20}.get(text[-1:].lower())
    return int(text[:-1]) * unit if unit else int(text)


def numbers(text):
    return [number(s) for s in text.split(",")]


def names(text):
    wrong = set(text.split(",")) - set(FIGURES)
    if wrong:
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(wrong))}: figures are {', '.join(FIGURES)}")
    return text.split(",")


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--build", default=os.path.join(HERE, "..", "..", "build"))
    a.add_argument("--figures", type=names, default=list(FIGURES), help=f"of {','.join(FIGURES)} (default: all)")
    for name, values, what in (
            ("--sizes", SIZES, "bytes of a message"), ("--computation", COMPUTATION, "us of computation"),
            ("--compute-sizes", COMPUTE_SIZES, "bytes of a message with computation between requests"),
            ("--connections", CONNECTIONS, "connections of the figure connections"),
            ("--touched", "4k,64k", "bytes of a message whose touched bytes are counted"),
            ("--units", UNITS, "bytes of a unit of the application")):
        a.add_argument(name, type=numbers, default=numbers(values), help=f"{what} (default {values})")
    a.add_argument("--spacings", type=lambda t: t.split(","), default=SPACINGS.split(","),
                   help=f"bytes between markers (default {SPACINGS})")
    a.add_argument("--paths", type=design_paths.points, default=design_paths.points(design_paths.POINTS),
                   help=f"paths, and us from the fastest to the slowest (default {design_paths.POINTS})")
    a.add_argument("--dims", type=int, default=160, help="samples of the application's volume along an axis")
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--seconds", type=float, default=0.3, help="length of one run, seconds (default 0.3)")
    a.add_argument("--cachegrind", metavar="DESIGNS", nargs="?", const=",".join(DESIGNS), type=lambda t: t.split(","),
                   help="bytes that go between cores and caches, by valgrind's model (default: all designs)")
    a.add_argument("--page", metavar="DIRECTORY", help="also make a page with pictures there, designs.html")
    a.add_argument("--json", action="store_true", help="one JSON document in place of the tables")
    args = a.parse_args()
    stage = Stage(args)
    try:
        if args.cachegrind:
            found = design_cache.traffic(stage, args.cachegrind, {"rnicd": RNICD, "port": PORT})
        else:
            found = measure(stage, args)
    except BenchError as e:
        print(f"designs.py: {e}", file=sys.stderr)
        return 1
    if args.page and not args.cachegrind:
        print(f"page: {page(found, stage, args.page)}", file=sys.stderr)
    if args.json:
        print(json.dumps(found))
    elif args.cachegrind:
        design_cache.table(found)
    else:
        tables(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
