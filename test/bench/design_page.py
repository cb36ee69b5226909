# SPDX-License-Identifier: BSD-3-Clause
"""The page of designs.py, one file: a picture for each table of designs over something, and all tables as text."""
import html
import os
import shutil

import plots
from page import inline, top


def lines(chart, by):
    """Rows of a chart. by: {line: {point: value}}; the points stand at equal distances."""
    return [{"chart": chart, "line": line, "x": x, "values": [v], "median": v}
            for line, points in by.items() for x, v in enumerate(points.values())]


def draw(directory, name, title, what, by):
    """Draws one picture; returns its HTML, or nothing without gnuplot."""
    path = os.path.join(directory, f"{name}.svg")
    points = next(iter(by.values()))
    if shutil.which("gnuplot") is None or not plots.chart(lines(name, by), name, path, xlabel=what, ylabel="",
                                                          more=plots.evenly(list(points)) + "\nset yrange [0:*]"):
        return ""
    return f"<figure><figcaption>{html.escape(title)}</figcaption>{inline(path, name)}</figure>"


def behind(pictures):
    """
    Sentences that name the points at which another design moves over 5 % more bytes for each CPU second than design
    offloaded does.
    """
    for title, _, by in pictures:
        if "for each CPU second" not in title or "offloaded" not in by:
            continue
        points = [str(x) for x, v in by["offloaded"].items() if v < .95 * max(other.get(x, 0) for other in by.values())]
        if points:
            yield (f"{title}: at {', '.join(points)} another design moves more than offloaded. "
                   "doc/performance.md says why.")


def make(pictures, text, head, directory):
    """
    Writes designs.html; returns its path. pictures: (title, what the x axis shows, {line: {point: value}}). text: the
    tables. head: machine, version and date.
    """
    drawn = "".join(draw(directory, f"designs-{i}", *picture) for i, picture in enumerate(pictures))
    behinds = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in behind(pictures))
    path = os.path.join(directory, "designs.html")
    with open(path, "w", encoding="utf-8") as f:
        f.write(top("Where iWARP runs", f"{html.escape(head)}. Every design computes every CRC and uses markers, "
                    "unless a figure says otherwise.") +
                f"<h2>Pictures</h2><div class=charts>{drawn}</div>{behinds}"
                f"<h2>Tables</h2><pre class=wide>{html.escape(text)}</pre>")
    return path
