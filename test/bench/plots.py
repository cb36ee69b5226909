# SPDX-License-Identifier: BSD-3-Clause
"""Charts drawn by gnuplot. Each figure says where it is drawn (chart, line, x)."""
import os
import re
import subprocess

from report import number

COLOURS = ("#1f5fa8", "#d1661f", "#2a8a4a", "#8a3fa0", "#b8982a", "#4aa3b8", "#c0392b", "#666666")
PAINT = {"kernel": "#b5b5b5", "UCX": "#b5b5b5", "libfabric": "#b5b5b5", "limit": "#e3d3b0"}
HEAD = """set terminal svg size 760,{height} font 'sans,13' background '#ffffff' noenhanced
set output '{out}'
set grid lc rgb '#dddddd' lt 1
set border 3 lc rgb '#888888'
set tics nomirror textcolor rgb '#333333'
set format y '%g'
set key {key} samplen 1.5 spacing 1.1 textcolor rgb '#333333'
set xlabel '{xlabel}'
set ylabel '{ylabel}'
{more}
"""
TICKS = (("8 B", 8), ("64 B", 64), ("512 B", 512), ("4 KiB", 4096), ("32 KiB", 32768), ("256 KiB", 262144),
         ("2 MiB", 2097152))
LOST = "grams lost, "  # a chart's name: this, then the kind of datagram (datagram.lost_chart())
# beginning of a chart's name, which the kernel's name follows; unit; caption
MPI = (("MPI run, ", "ms", "MPI {}: time of a run (all ranks share a CPU)"),
       ("MPI calls, ", "ms", "MPI {}: time of a rank inside of MPI's calls"),
       ("MPI memory, ", "MiB", "MPI {}: registered buffers and queues of all ranks, and what rnicd needs for them"))
SIZES = "set logscale x 2\nset xtics (" + ", ".join(f"'{n}' {v}" for n, v in TICKS) + ")"

ALL_SIZES = SIZES.replace("('8 B' 8", "('1 B' 1, '8 B' 8") + "\nset xrange [0.8:1.5e6]"

SPEED = ("limit: CRC+CRC+copy, MTU 1500, in cache", "RC Write 64k, MTU 1500, CRC on",
         "RC Read 64k, MTU 1500, CRC on", "RC Send 64k, MTU 1500, CRC on",
         "kernel TCP, MTU 1500, segmentation offloads off", "kernel TCP, MTU 1500, segmentation offloads on",
         "UCX over TCP, tag_bw 64k, MTU 1500, offloads on", "libfabric tcp, fi_pingpong 64k, MTU 1500, offloads on")
WAIT = ("Write latency, 64 B, median", "Send latency, 64 B, median", "Send latency, 64 B, events, median",
        "Read latency, 64 B, median", "kernel TCP latency, 64 B one way",
        "UCX over TCP latency, tag_lat 64 B, median", "libfabric tcp latency, fi_pingpong 64 B")


def gnuplot(script):
    p = subprocess.run(["gnuplot"], input=script, text=True, capture_output=True, check=False)
    return p.returncode == 0


def block(name, points):
    return f"${name} << EOD\n" + "\n".join(" ".join(str(v) for v in p) for p in points) + "\nEOD\n"


def lines_of(rows, chart):
    lines = {}
    for r in rows:
        if r["chart"] == chart and r["values"]:
            lines.setdefault(r["line"], []).append((r["x"], r["median"], min(r["values"]), max(r["values"])))
    return {name: sorted(points) for name, points in lines.items()}


def chart(rows, what, out, levels=None, **head):
    """A chart of lines with their spread. levels: a chart whose figures are drawn as horizontal lines."""
    lines = lines_of(rows, what)
    if not lines:
        return False
    script, parts = HEAD.format(out=out, height=420, key="above maxrows 2", **head), []
    for i, (name, points) in enumerate(lines.items()):
        colour = COLOURS[i % len(COLOURS)]
        script += block(f"d{i}", points)
        parts += [f"$d{i} using 1:2:3:4 with yerrorbars lc rgb '{colour}' pt 0 lw 1 notitle",
                  f"$d{i} using 1:2 with linespoints lc rgb '{colour}' pt 7 ps 0.5 lw 2 title '{name}'"]
    for i, r in enumerate(r for r in rows if levels and r["chart"] == levels and r["values"]):
        parts.append(f"{r['median']} with lines lc rgb '#000000' dt {i + 2} lw 1.5 title '{r['line']}'")
    return gnuplot(script + "plot " + ", \\\n     ".join(parts) + "\n")


def bars(rows, names, out, xlabel, logscale=False):
    """A chart of horizontal bars, in order from above; the value stands at the end of each bar."""
    chosen = [r for name in names for r in rows if r["name"] == name and r["values"]]
    if not chosen:
        return False
    widest = max(r["median"] for r in chosen)
    low = min(r["median"] for r in chosen) / 3 if logscale else 0
    n = len(chosen)
    script = HEAD.format(out=out, height=90 + 34 * n, key="off", xlabel=xlabel, ylabel="", more=(
        f"set yrange [{n - 0.4}:-0.6]\nset xrange [{low}:{widest * (3 if logscale else 1.15)}]\n"
        "set lmargin 44\nunset ytics\nset style fill solid 1 noborder\n" + ("set logscale x\n" if logscale else "")))
    script += block("d", [(i, r["median"]) for i, r in enumerate(chosen)])
    for i, r in enumerate(chosen):
        colour = next((c for k, c in PAINT.items() if r["name"].startswith(k)), COLOURS[0])
        script += (f"set object {i + 1} rectangle from {low},{i - 0.36} to {r['median']},{i + 0.36} "
                   f"fc rgb '{colour}' fs solid 1 noborder\n"
                   f"set label {2 * i + 1} '{r['name']}' at graph -0.02,first {i} right\n"
                   f"set label {2 * i + 2} ' {number(r['median'])}' at {r['median']},{i} left\n")
    return gnuplot(script + "plot $d using 2:1 with points pt 0 notitle\n")


def places(rows, what):
    return sorted({r["x"] for r in rows if r["chart"] == what})


def spaced(rows, what):
    """The rows of a chart with x replaced by its rank among the chart's x, so that points are evenly spaced."""
    order = places(rows, what)
    return [dict(r, x=order.index(r["x"])) for r in rows if r["chart"] == what]


def evenly(names):
    tics = [f"'{n}' {i}" for i, n in enumerate(names)]
    return f"set xtics ({', '.join(tics)})\nset xrange [-0.2:{len(tics) - 0.8}]"


def lost_charts(rows, directory):
    """A chart for each kind of datagram, with a line for each rate of loss."""
    out = []
    for i, what in enumerate(sorted({r["chart"] for r in rows if (r["chart"] or "").startswith(LOST)})):
        name = f"grams-lost-{i}"
        out.append((name, f"{what[len(LOST):]} with frames lost at random, both ways: what arrives",
                    chart(rows, what, os.path.join(directory, f"{name}.svg"), xlabel="message size", ylabel="GB/s",
                          more=ALL_SIZES + "\nset yrange [0:*]")))
    return out


def mpi_charts(rows, directory):
    """A chart for each kernel and each thing that is measured of the kernel."""
    out = []
    for kind, unit, text in MPI:
        for what in sorted({r["chart"] for r in rows if (r["chart"] or "").startswith(kind)}):
            name = re.sub(r"\W+", "-", what).lower()
            out.append((name, text.format(what[len(kind):]),
                        chart(rows, what, os.path.join(directory, f"{name}.svg"), xlabel="ranks", ylabel=unit,
                              more="set logscale x 2\nset xrange [1.8:18]\nset yrange [0:*]")))
    return out


def all_charts(rows, directory):
    """File name and caption of each chart that could be drawn."""
    rate = [r["name"] for r in rows if " B Writes, " in r["name"]]
    names = ("speed", "wait", "bandwidth", "latency", "distribution", "loss", "cost", "rate", "grams-latency",
             "grams-bandwidth", "grams-memory", "mpi-latency", "mpi-bandwidth")
    at = {n: os.path.join(directory, f"{n}.svg") for n in names}
    done = (
        ("speed", "64 KiB messages: what the bytes need at least, this project (blue), what one would take instead",
         bars(rows, SPEED, at["speed"], "GB/s, more is better")),
        ("wait", "64 B messages, one way: this project (blue), what one would take instead (logarithmic; a Read goes "
         "there and back)", bars(rows, WAIT, at["wait"], "us, less is better", logscale=True)),
        ("rate", "Message rate: outstanding requests, queue pairs", bars(rows, rate, at["rate"], "million a second")),
        ("bandwidth", "Bandwidth over message size; broken lines: kernel TCP with 64 KiB writes",
         chart(rows, "bandwidth", at["bandwidth"], levels="level", xlabel="message size", ylabel="GB/s",
               more=SIZES + "\nset xrange [48:12e6]\nset yrange [0:*]")),
        ("latency", "Median latency over message size",
         chart(rows, "latency", at["latency"], xlabel="message size", ylabel="us",
               more=SIZES + "\nset xrange [6:9e4]\nset logscale y")),
        ("distribution", "Latency of 64 B messages, from the least to the most",
         chart(spaced(rows, "distribution"), "distribution", at["distribution"], xlabel="", ylabel="us",
               more=evenly(("least", "median", "p99", "p99.9", "most")) + "\nset logscale y")),
        ("loss", "Goodput with frames lost at random, both ways (repeatable)",
         chart(spaced(rows, "loss"), "loss", at["loss"], xlabel="frames lost", ylabel="GB/s",
               more=evenly(f"{x:g} %%" for x in places(rows, "loss")) + "\nset yrange [0:*]")),
        ("cost", "CPU time for a GB over message size; the daemon spins, all of its core counts",
         chart(rows, "cost", at["cost"], levels="cost level", xlabel="message size", ylabel="CPU seconds",
               more=SIZES + "\nset xrange [48:12e6]\nset logscale y")),
        ("grams-latency", "Connections and datagrams, latency one way (every CRC summed)",
         chart(rows, "grams latency", at["grams-latency"], xlabel="message size", ylabel="us",
               more=ALL_SIZES + "\nset logscale y")),
        ("grams-bandwidth", "Connections and datagrams, bandwidth (every CRC summed)",
         chart(rows, "grams bandwidth", at["grams-bandwidth"], xlabel="message size", ylabel="GB/s",
               more=ALL_SIZES + "\nset yrange [0:*]")),
        *lost_charts(rows, directory),
        ("grams-memory", "The daemon's memory for a peer",
         chart(rows, "grams memory", at["grams-memory"], xlabel="peers of one queue pair", ylabel="KiB",
               more="set logscale x\nset xrange [8:13000]\nset yrange [0:*]")),
        ("mpi-latency", "MPI: half of a round of a ping-pong (every CRC summed)",
         chart(rows, "MPI latency", at["mpi-latency"], xlabel="message size", ylabel="us",
               more=ALL_SIZES + "\nset logscale y")),
        ("mpi-bandwidth", "MPI: bandwidth of two pairs of ranks in opposite directions (every CRC summed)",
         chart(rows, "MPI bandwidth", at["mpi-bandwidth"], xlabel="message size", ylabel="GB/s",
               more=ALL_SIZES + "\nset yrange [0:*]")),
        *mpi_charts(rows, directory),
    )
    return [(f"{name}.svg", caption) for name, caption, drawn in done if drawn]
