# SPDX-License-Identifier: BSD-3-Clause
"""The report page: the bars, the pictures, every row with its command line."""
import html
import os
import shutil

import plots
from report import headline, number, spread

STYLE = """
body{font:15px/1.45 system-ui,sans-serif;color:#222;max-width:1180px;margin:2em auto;padding:0 1em}
h1{font-size:1.6em;margin-bottom:.1em} h2{font-size:1.2em;margin-top:2em} .sub{color:#666;margin-top:0}
table{border-collapse:collapse;width:100%} td,th{padding:.25em .7em;text-align:right;border-bottom:1px solid #e5e5e5}
td:first-child,th:first-child{text-align:left} th{color:#666;font-weight:600}
.good{color:#1c7a3c} .best{color:#1c7a3c;font-weight:600} .bad{color:#b03020;font-weight:600}
.charts{display:grid;grid-template-columns:1fr 1fr;gap:1.6em 2em} figure{margin:0} img{width:100%}
figcaption{color:#444}
code{font-size:12px;color:#777;overflow-wrap:anywhere} td.n{white-space:nowrap}
@media(max-width:800px){.charts{grid-template-columns:1fr}}
"""
CLASS = {"reached, and the goal": "best", "reached": "good", "not reached": "bad",
         "no bar, goal not reached": "sub"}


def bars_table(doc):
    out = "<table><tr><th>medians of this run<th>here<th><th>bar<th>goal<th>"
    for b in doc["bars"]:
        out += (f"<tr><td>{html.escape(b['name'])}<td>{number(b['value'])}<td>{b['sense']}<td>{number(b['bar'])}"
                f"<td>{number(b['goal'])}<td class={CLASS[b['verdict']]}>{b['verdict']}")
    return out + "</table>"


def rows_table(doc):
    out, command = "<table><tr><th>row<th>median<th>least<th>most<th>unit", None
    for r in doc["rows"]:
        if r["command"] != command:
            command = r["command"]
            out += f"<tr><td colspan=5><code>{html.escape(command)}</code>"
        cells = "".join(f"<td>{c}" for c in spread(r))
        note = f"<br><span class=bad>{html.escape(r['failure'])}</span>" if r["failure"] else ""
        out += f"<tr><td>{html.escape(r['name'])}{note}{cells}<td class=n>{r['unit']}"
    return out + "</table>"


def make(doc, directory):
    """Writes report.html and its pictures (where gnuplot is installed); returns its path."""
    charts = plots.all_charts(doc["rows"], directory) if shutil.which("gnuplot") else []
    pictures = "".join(f"<figure><figcaption>{html.escape(text)}</figcaption><img src={name}></figure>"
                       for name, text in charts)
    left_out = "".join(f"<p class=sub>{html.escape(line)}" for line in doc["left_out"])
    path = os.path.join(directory, "report.html")
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"<!doctype html><html lang=en><meta charset=utf-8><title>rnic benchmark</title><style>{STYLE}</style>"
                f"<h1>rnic benchmark</h1><p class=sub>{html.escape(headline(doc))}. Each row is the median of "
                "its rounds, with the least and the most. The daemon has one CPU, both clients share the other, unless "
                "a row says otherwise.</p>"
                f"<h2>Bars</h2>{bars_table(doc)}<h2>Pictures</h2><div class=charts>{pictures}</div>"
                f"<h2>Rows</h2><p class=sub>The command line stands above the figures that it gave.</p>"
                f"{rows_table(doc)}{left_out}")
    return path
