# SPDX-License-Identifier: BSD-3-Clause
"""
The printed table, and the bars: ratios and figures with a target and a goal. A run does not fail when a bar is missed.
"""

# Payload rate of a 10 Gb/s port, Gb/s. A full frame carries 1428 B of payload in 1538 B on the wire (IP and TCP take 40
# B, timestamps 12, DDP and MPA 20). Small messages are packed into frames; each costs 20 B of framing.
FULL_FRAME = 1428 / (1500 + 14 + 4 + 20) * 10
MOST_RANKS = 16
PACKED = {n: n / (n + 20) * 1448 / 1538 * 10 for n in (64, 256)}


def ratio(name, *bar):
    """A bar on a figure that already is a ratio."""
    return (name, f"ratio: {name}", 1, *bar)


def rivals(name, figure, *bar):
    """Bars of a figure to those of both libraries that a program would use over the kernel's TCP."""
    return [(f"{name} / {rival.partition(' ')[0]} over kernel TCP with offloads", figure, rival, *bar)
            for rival in ("UCX over TCP, tag_bw 64k, MTU 1500, offloads on",
                          "libfabric tcp, fi_pingpong 64k, MTU 1500, offloads on")]


# Name of the bar, its figure, divisor (a figure or a number), "at least" or "at most", target (None: none), goal.
BARS = (
    ("Write 64 KiB, MTU 1500 / kernel TCP without offloads", "RC Write 64k, MTU 1500, CRC on",
     "kernel TCP, MTU 1500, segmentation offloads off", "at least", 4, 6),
    ("Write 64 KiB, MTU 1500 / kernel TCP with offloads", "RC Write 64k, MTU 1500, CRC on",
     "kernel TCP, MTU 1500, segmentation offloads on", "at least", 1, 1),
    *rivals("Write 64 KiB, MTU 65280", "RC Write 64k, MTU 65280", "at least", 3, 6),
    ratio("Write 64k, MTU 65280 / memcpy, in cache", "at least", 0.5, 0.8),
    ratio("Write 64k, MTU 65280 / memcpy, out of cache", "at least", 0.7, 0.9),
    *(ratio(f"{what} 64k, MTU 65280 / Write", "at least", 0.9, 1.0) for what in ("Read", "Send")),
    ratio("Write 64k, MTU 1500 / CRC+CRC+copy, in cache", "at least", 0.5, 0.7),
    ("Write 64 KiB, MTU 9000 / CRC+CRC+copy, in cache", "ratio: Write 64k, MTU 9000 / CRC+CRC+copy, in cache", 1,
     "at least", 0.75, 0.9),
    ("Write 64 KiB, MTU 9000 / CRC+CRC+copy, out of cache", "ratio: Write 64k, MTU 9000 / CRC+CRC+copy, out of cache", 1,
     "at least", 0.7, 0.9),
    ("CRC summed / off, Write 64 KiB, MTU 1500", "ratio: Write 64k, MTU 1500, CRC summed / off", 1, "at least", 0.75, 0.85),
    ("markers on / off, Write 64 KiB, MTU 1500", "ratio: Write 64k, MTU 1500, markers on / off", 1, "at least", 0.88, 0.95),
    ("10 Gb/s port, Write 64 KiB / what the framing allows", "10 Gb/s port, Write 64k, MTU 1500", FULL_FRAME,
     "at least", 0.97, 0.97),
    ("10 Gb/s port, Write 256 B / the same", "10 Gb/s port, Write 256, MTU 1500", PACKED[256], "at least", 0.97, 0.99),
    ("10 Gb/s port, Write 64 B / the same", "10 Gb/s port, Write 64, MTU 1500", PACKED[64], "at least", 0.8, 0.97),
    ("64 B Writes, 128 outstanding, M/s", "64 B Writes, 128 outstanding", 1, "at least", 8, 12),
    ("1024 QPs / 1 QP, 64 B Writes", "ratio: Write 64 B on 1024 QPs / on 1 QP", 1, "at least", 0.7, 0.9),
    ratio("64 B Writes, one outstanding on each, 100 of 10000 QPs / 100 QPs", "at least", 0.7, 0.9),
    ratio("64 B Writes, one outstanding on each, 10000 QPs / 100 QPs", "at least", 0.4, 0.6),
    ("Write latency 64 B, median, us", "Write latency, 64 B, median", 1, "at most", 1.6, 1.0),
    ("Write of 64 B, post to completion, p99 / median", "Write of 64 B, post to completion, p99",
     "Write of 64 B, post to completion, median", "at most", 3, 3),
    ("two clients and a floating daemon, p99.9, us", "Write latency, 64 B, daemon floats and sleeps, p99.9", 1,
     "at most", 200, 50),
    ("idle daemon, 1,000 connections, % of a core", "daemon's CPU with 1000 idle connections", 1, "at most", 2, 0.5),
    ("memory for one end of an idle connection, KiB",
     "daemon's memory for one end of a connection, 1000 idle connections", 1, "at most", 1.5, 0.75),
    ("memory of a daemon without clients, MB", "daemon's memory, ordinary pages, without clients", 1, "at most", 64,
     32),
    ("connections set up a second, 32 at a time", "connections set up, 32 at a time, 1000 idle connections", 1,
     "at least", 10000, 40000),
    ("connections taken down a second", "connections taken down, one after the other, 1000 idle connections", 1,
     "at least", 10000, 40000),
    ("two daemons over memif, Write 64 KiB, GB/s", "RC Write 64k, MTU 1500, two daemons over memif", 1, "at least", 4,
     6),
    ("two daemons over memif, Send 64 B, us", "Send latency, 64 B, two daemons over memif, median", 1, "at most", 4,
     2),
    ("host port over veth, Write 64 KiB / kernel TCP without offloads", "RC Write 64k, MTU 1500, a host port over veth",
     "kernel TCP, MTU 1500, segmentation offloads off", "at least", 1.5, 3),
    ("host port over veth, Send 64 B latency / spinning sockperf", "Send latency, 64 B, a host port over veth, median",
     "kernel TCP, sockperf ping-pong of 64 B, spinning, one way, median", "at most", 0.8, 0.5),
    ("sockets, iperf3, MTU 1500 / kernel TCP without offloads",
     "ratio: iperf3, sockets / kernel over veth, MTU 1500, offloads off", 1, "at least", 3, 5),
    ("sockets, iperf3, MTU 1500 / kernel TCP with offloads",
     "ratio: iperf3, sockets / kernel over veth, MTU 1500, offloads on", 1, "at least", 1.5, 2.5),
    ratio("iperf3 with calls of 1 MiB, wire iwarp / plain, MTU 1500", "at least", 1.3, 2),
    ("sockets, ping-pong of 64 B: the kernel's time / ours", "ratio: ping-pong of 64 B, kernel over veth / sockets", 1,
     "at least", 5, 12),
    ratio("embedded Write 64k over loopback, CRC off / iperf3", "at least", 0.8, 1.0),
    ratio("embedded Write 64k over loopback, CRC on / iperf3", "at least", 0.5, 0.7),
    ratio("embedded Send 64 B over loopback / sockperf, latency", "at most", 1.3, 1.0),
    ratio("embedded Write 64 B over loopback / sockperf, latency", "at most", 3.0, 1.5),
    ("embedded, memory for one end of an idle connection, KiB",
     "embedded, memory for one end of a connection, 1000 idle connections", 1, "at most", 16, 8),
    *(ratio(f"{what}, {size} latency{where}", "at most", bar, goal)
      for where in ("", ", both ends in one program")
      for what in ("UD Send / RC Send", "UD Write-Record / RC Write")
      for size, bar, goal in (("64", 0.9, 0.8), ("2k", 0.9, 0.75))),
    *(ratio(f"UD Write-Record / RC Write with immediate, {size} latency, both ends in one program", "at most", bar,
            goal)
      for size, bar, goal in (("64", 0.9, 0.8), ("2k", 0.9, 0.75))),
    *(ratio(f"UD Write-Record / RC Write, {size} bandwidth", "at least", bar, goal)
      for size, bar, goal in (("1k", 1.2, 2.0), ("64k", 1.1, 1.5), ("512k", 1.1, 1.5))),
    ratio("UD Send / RC Send, 64 rate", "at least", 1.0, 1.5),
    ratio("UD Send / RC Send, 4k bandwidth", "at least", 1.5, 2.0),
    ratio("RD Send / RC Send, 64 rate", "at least", 0.85, 1.0),
    ratio("RD Send / RC Send, 64k bandwidth", "at least", 0.85, 1.0),
    ratio("UD Write-Record 64k, 5 % lost / none", "at least", 0.9, 0.94),
    ratio("UD Write-Record 1m, 5 % lost / none", "at least", 0.9, 0.94),
    ratio("RD Write 64k / RC with bbr, 1 % lost, RTT 1 ms", "at least", 1.0, 1.5),
    ("64 B beside 16 senders, 10 Gb/s, p99.9: RD / RC", "RD Send 64 B beside 16 senders of 64 KiB, 10 Gb/s, p99.9",
     "RC Send 64 B beside 16 senders of 64 KiB, 10 Gb/s, p99.9", "at most", 1.0, 0.3),
    *((f"MPI {what}, {MOST_RANKS} ranks, memory: {kind} / RC", f"MPI memory, {what}, {MOST_RANKS} ranks, {kind}",
       f"MPI memory, {what}, {MOST_RANKS} ranks, RC", "at most", 0.7, 0.7)
      for what in ("CG", "radix sort") for kind in ("UD", "RD")),
    *(ratio(f"MPI kernels, {MOST_RANKS} ranks, {kind} / RC run time", "at most", 1.0, 1.0) for kind in ("UD", "RD")),
    ("memory for a peer of reliable datagrams, B", "daemon's memory for a peer, RD, 1000 peers", 1 / 1024,
     "at most", 160, 96),
    ("memory for a device of reliable datagrams, B", "daemon's memory for a device, RD, 10000 devices", 1 / 1024,
     "at most", 160, 96),
)


def behind_bars():
    """The names of all figures that a bar needs."""
    return {name for _, a, b, *_ in BARS for name in (a, b) if isinstance(name, str)}


def judge(value, sense, bar, goal):
    def good(want):
        return value >= want if sense == "at least" else value <= want
    if good(goal):
        return "goal met"
    return "goal missed" if bar is None else "target met" if good(bar) else "target missed"


def absolute(row, b, over):
    """The numbers behind a bar: those of the row itself, and the divisor."""
    sides = row.get("sides") or [(row["median"], row["unit"])]
    if isinstance(b, str):
        sides = [*sides, (over, row["unit"])]
    return " / ".join(f"{number(v)} {unit}".strip() for v, unit in sides)


def bars(results):
    median = {r["name"]: r["median"] for r in results}
    of = {r["name"]: r for r in results}
    out = []
    for name, a, b, sense, bar, goal in BARS:
        over = median.get(b) if isinstance(b, str) else b
        if median.get(a) is None or not over:
            continue
        value = median[a] / over
        out.append({"name": name, "value": value, "sense": sense, "bar": bar, "goal": goal,
                    "verdict": judge(value, sense, bar, goal), "absolute": absolute(of[a], b, over)})
    return out


def number(v):
    if v is None:
        return "-"
    return f"{v:.0f}" if v >= 1000 else f"{v:.3g}" if v < 10 else f"{v:.1f}"


def spread(r):
    return [number(v) for v in (r["median"], min(r["values"], default=None), max(r["values"], default=None))]


def headline(doc):
    return (f"{doc['date']}; {doc['version']}; {doc['machine']}; {doc['rounds']} interleaved rounds, "
            f"{doc['seconds']} s a measurement; took {doc['took']:.0f} s")


def table(doc, out):
    print(f"\n{headline(doc)}\n\n{'':<68} {'median':>8} {'least':>8} {'most':>8}  unit", file=out)
    for r in doc["rows"]:
        if r["quiet"] and not r["failure"]:
            continue
        note = f"   failed: {r['failure']}" if r["failure"] else ""
        print("{:<68} {:>8} {:>8} {:>8}  {}{}".format(r["name"], *spread(r), r["unit"], note), file=out)
    for line in doc["left_out"]:
        print(line, file=out)
    print(f"\n{'medians':<58} {'here':>8} {'':>8} {'target':>6} {'goal':>5}", file=out)
    for b in doc["bars"]:
        print(f"{b['name']:<58} {number(b['value']):>8} {b['sense']:>8} {number(b['bar']):>6} {number(b['goal']):>5}"
              f"  {b['verdict']}; {b['absolute']}", file=out)
