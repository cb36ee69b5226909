# SPDX-License-Identifier: BSD-3-Clause
"""The table, the ratios that the design expects, and a page with pictures."""
import html
import os
import shutil
import subprocess

# Name, numerator row, denominator row (or a number), expected ratio, and whether it is a lower or an upper bound.
SHAPED = 1428 / (1500 + 14 + 4 + 20) * 10  # Gb/s: payload of a full frame over its length on the wire, with TCP timestamps
BARS = (
    ("Write 64 KiB, MTU 1500 / kernel TCP without offloads", "RC Write 64k, MTU 1500, CRC on",
     "kernel TCP, MTU 1500, segmentation offloads off", 4, "at least"),
    ("Write 64 KiB, MTU 1500 / kernel TCP with offloads", "RC Write 64k, MTU 1500, CRC on",
     "kernel TCP, MTU 1500, segmentation offloads on", 1, "at least"),
    ("Write 64 KiB, MTU 9000 / CRC+CRC+copy", "RC Write 64k, MTU 9000, CRC on",
     "limit: CRC+CRC+copy, segments of MTU 9000", 0.6, "at least"),
    ("CRC on / CRC off, Write 64 KiB, MTU 1500", "RC Write 64k, MTU 1500, CRC on", "RC Write 64k, MTU 1500, CRC off", 0.75,
     "at least"),
    ("markers on / off, Write 64 KiB, MTU 1500", "RC Write 64k, MTU 1500, markers on", "RC Write 64k, MTU 1500, CRC on", 0.85,
     "at least"),
    ("10 Gb/s port, Write 64 KiB / what the framing allows", "10 Gb/s port, Write 64k, MTU 1500", SHAPED, 0.97, "at least"),
    ("10 Gb/s port, Write 256 B / the same", "10 Gb/s port, Write 256, MTU 1500",
     10 * 256 / (256 + 20) * (SHAPED / 10 / (1428 / 1448)), 0.97, "at least"),
    ("64 B Writes, 128 outstanding, M/s", "64 B Writes, 128 outstanding", 1, 2, "at least"),
    ("1024 QPs / 1 QP, 64 B Writes", "64 B Writes, 16 outstanding on each of 1024 QPs", "64 B Writes, 128 outstanding", 0.7,
     "at least"),
    ("Write latency 64 B, median, us", "Write latency, 64 B, median", 1, 3, "at most"),
    ("Write latency 64 B, p99 / median", "Write latency, 64 B, p99", "Write latency, 64 B, median", 3, "at most"),
    ("two clients and a floating daemon, p99.9, us", "Write latency, 64 B, daemon floats and sleeps, p99.9", 1, 200, "at most"),
)


def bars(results):
    median = {r["name"]: r["median"] for r in results}
    out = []
    for name, a, b, want, sense in BARS:
        over = median.get(b) if isinstance(b, str) else b
        if median.get(a) is None or not over:
            continue
        ratio = median[a] / over
        out.append({"name": name, "ratio": ratio, "expected": want, "sense": sense,
                    "reached": ratio >= want if sense == "at least" else ratio <= want})
    return out


def number(v):
    if v is None:
        return "-"
    return f"{v:.0f}" if v >= 1000 else f"{v:.3g}" if v < 10 else f"{v:.1f}"


def table(doc, out):
    print(f"\n{doc['machine']}; {doc['rounds']} interleaved rounds of {doc['seconds']} s\n", file=out)
    print(f"{'':<58} {'median':>8} {'least':>8} {'most':>8}  unit", file=out)
    for r in doc["rows"]:
        v = r["values"]
        note = "" if v else f"   failed: {doc['failures'].get(r['name'], '')}"
        print(f"{r['name']:<58} {number(r['median']):>8} {number(min(v, default=None)):>8} {number(max(v, default=None)):>8}"
              f"  {r['unit']}{note}", file=out)
    print(f"\n{'ratio of medians':<58} {'here':>8} {'expected':>17}", file=out)
    for b in doc["bars"]:
        print(f"{b['name']:<58} {number(b['ratio']):>8} {b['sense'] + ' ' + number(b['expected']):>17}"
              f"  {'reached' if b['reached'] else 'not reached'}", file=out)


PLOT = """set terminal svg size 900,{height} font 'sans,11' background '#ffffff'
set output '{out}'
set style fill solid 0.8 noborder
set yrange [{high}:{low}]
{scale}
set xlabel '{unit}'
set grid xtics
set lmargin 52
unset key
set ytics ({tics})
plot '{data}' using 2:1:({left}):2:($1-0.35):($1+0.35) with boxxyerrorbars lc rgb '#3b6ea5', \\
     '{data}' using 3:1:3:4 with xerrorbars lc rgb '#222222' pt 0
"""


def picture(rows, unit, out):
    """Horizontal bars of one unit: median, with a line from the least to the most."""
    data = out + ".dat"
    with open(data, "w", encoding="utf-8") as f:
        for i, r in enumerate(rows):
            f.write(f"{i} {r['median']} {min(r['values'])} {max(r['values'])}\n")
    tics = ", ".join("'" + r["name"].replace("'", "") + f"' {i}" for i, r in enumerate(rows))
    left = 0.5 if unit == "us" else 0  # latencies span decades
    scale = f"set xrange [{left}:*]" + ("\nset logscale x" if left else "")
    script = PLOT.format(scale=scale, left=left, height=70 + 24 * len(rows), out=out, low=-0.7, high=len(rows) - 0.3, unit=unit, tics=tics, data=data)
    done = subprocess.run(["gnuplot"], input=script, text=True, capture_output=True, check=False)
    os.unlink(data)
    return done.returncode == 0


def page(doc, directory):
    """report.html with the table, the ratios, the command lines, and a picture for each unit where gnuplot is installed."""
    pictures = []
    for unit in dict.fromkeys(r["unit"] for r in doc["rows"]):
        rows = [r for r in doc["rows"] if r["unit"] == unit and r["values"]]
        name = "bars-" + "".join(c for c in unit if c.isalnum()) + ".svg"
        if rows and shutil.which("gnuplot") and picture(rows, unit, os.path.join(directory, name)):
            pictures.append(name)
    path = os.path.join(directory, "report.html")
    with open(path, "w", encoding="utf-8") as f:
        f.write("<!doctype html><meta charset=utf-8><title>rnic benchmark</title><style>body{font:15px sans-serif;max-width:70em;"
                "margin:2em auto}td,th{padding:.15em .8em;text-align:right}td:first-child{text-align:left}code{font-size:12px}"
                "tr:nth-child(even){background:#f2f2f2}img{max-width:100%}</style>")
        f.write(f"<h1>rnic benchmark</h1><p>{html.escape(doc['machine'])}; {doc['rounds']} interleaved rounds of "
                f"{doc['seconds']} s</p><h2>Ratios</h2><table><tr><th>ratio of medians<th>here<th>expected<th>")
        for b in doc["bars"]:
            f.write(f"<tr><td>{html.escape(b['name'])}<td>{number(b['ratio'])}<td>{b['sense']} {number(b['expected'])}"
                    f"<td>{'reached' if b['reached'] else '<b>not reached</b>'}")
        f.write("</table><h2>Pictures</h2>" + "".join(f"<p><img src={p}>" for p in pictures))
        f.write("<h2>Rows</h2><table><tr><th>row<th>median<th>least<th>most<th>unit")
        for r in doc["rows"]:
            v = r["values"]
            f.write(f"<tr><td>{html.escape(r['name'])}<br><code>{html.escape(r['command'])}</code><td>{number(r['median'])}"
                    f"<td>{number(min(v, default=None))}<td>{number(max(v, default=None))}<td>{r['unit']}")
        f.write("</table>")
    return path
