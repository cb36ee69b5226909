# SPDX-License-Identifier: BSD-3-Clause
"""
The report page, one file: targets, charts, the rivals that test/bench/siw.py has measured, and every row with its
command.
"""
import html
import json
import os
import re
import shutil

import plots
from report import headline, number, spread

STYLE = """
body{font:15px/1.45 system-ui,sans-serif;color:#222;max-width:1180px;margin:2em auto;padding:0 1em}
h1{font-size:1.6em;margin-bottom:.1em} h2{font-size:1.2em;margin-top:2em} .sub{color:#666;margin-top:0}
table{border-collapse:collapse;width:100%} td,th{padding:.25em .7em;text-align:right;border-bottom:1px solid #e5e5e5}
td:first-child,th:first-child{text-align:left} th{color:#666;font-weight:600}
.good{color:#1c7a3c} .best{color:#1c7a3c;font-weight:600} .bad{color:#b03020;font-weight:600}
.charts{display:grid;grid-template-columns:1fr 1fr;gap:1.6em 2em} figure{margin:0} svg{width:100%;height:auto}
.wide{overflow-x:auto}
figcaption{color:#444}
code{font-size:12px;color:#777;overflow-wrap:anywhere;white-space:pre-wrap} td.n{white-space:nowrap}
@media(max-width:800px){.charts{grid-template-columns:1fr} body{margin:1em auto;padding:0 .6em}
td,th{padding:.25em .35em}}
"""
CLASS = {"goal met": "best", "target met": "good", "target missed": "bad", "goal missed": "sub"}
HOW = """To repeat a row, run <code>test/bench/bench.py --build build --only 'NAME'</code> with the name of one of its
figures: the benchmark starts all that the row needs. The row's command line stands above its figures. Two command lines
are two sides of a ratio, and take turns. Behind a # stand the keys of rnicd's configuration that differ from
<code>config/pair.conf</code>. To paste the command line yourself, start rnicd with these keys, then
<code>testpmd-rdma -s -a 10.77.0.1</code>."""


def bars_table(doc):
    out = "<table><tr><th>medians of this run<th>here<th>absolute<th><th>target<th>goal<th>"
    for b in doc["bars"]:
        out += (f"<tr><td>{html.escape(b['name'])}<td>{number(b['value'])}<td class=n>{html.escape(b['absolute'])}"
                f"<td class=n>{b['sense']}<td>{number(b['bar'])}"
                f"<td>{number(b['goal'])}<td class={CLASS[b['verdict']]}>{b['verdict']}")
    return f"<div class=wide>{out}</table></div>"


def rivals_section(directory):
    """The results that test/bench/siw.py has left in the directory, if there are any."""
    path = os.path.join(directory, "rivals.json")
    if not os.path.exists(path):
        return "<p class=sub>Linux siw and rxe were not measured: <code>make bench-rivals</code> measures them."
    with open(path, encoding="utf-8") as f:
        doc = json.load(f)
    out = "<table><tr><th>row<th>median<th>unit<th>of TCP"
    for r in doc["rows"]:
        note = f"<br><span class=bad>{html.escape(r['failure'])}</span>" if r["failure"] else ""
        out += (f"<tr><td>{html.escape(r['name'])}{note}<br><code>{html.escape(r['command'])}</code>"
                f"<td>{number(r['median'])}<td class=n>{r['unit']}<td>{number(r['of_tcp'])}")
    head = f"{doc['date']}; the guest's kernel is Linux {doc['kernel']}; medians of {doc['rounds']}. {doc['caveat']}"
    return f"<p class=sub>{html.escape(head)}<div class=wide>{out}</table></div>"


def inline(path, name):
    """
    The SVG of a chart as part of the page. Ids inside the SVG get the chart's name as a prefix, since all charts share
    a page.
    """
    with open(path, encoding="utf-8") as f:
        text = f.read()
    text = text[text.index("<svg"):]
    text = re.sub(r"(<svg\b[^>]*?) width=\"\d+\" height=\"\d+\"", r"\1", text, count=1)
    return re.sub(r"""(\bid=['"]|href=['"]#|url\(['"]?#)""", rf"\g<1>{name}-", text)


def rows_table(doc):
    out, command = "<table><tr><th>row<th>median<th>least<th>most<th>unit", None
    for r in doc["rows"]:
        if r["command"] != command:
            command = r["command"]
            out += f"<tr><td colspan=5><code>{html.escape(command)}</code>"
        cells = "".join(f"<td>{c}" for c in spread(r))
        note = f"<br><span class=bad>{html.escape(r['failure'])}</span>" if r["failure"] else ""
        out += f"<tr><td>{html.escape(r['name'])}{note}{cells}<td class=n>{r['unit']}"
    return f"<div class=wide>{out}</table></div>"


def top(title, sub):
    """The beginning of a page up to its title, and below it the line `sub`, which is HTML."""
    return ("<!doctype html><html lang=en><meta charset=utf-8>"
            f"<meta name=viewport content='width=device-width,initial-scale=1'><title>{title}</title>"
            f"<style>{STYLE}</style><h1>{title}</h1><p class=sub>{sub}</p>")


def make(doc, directory):
    """Writes report.html, with charts if gnuplot is installed; returns its path."""
    charts = plots.all_charts(doc["rows"], directory) if shutil.which("gnuplot") else []
    pictures = "".join(f"<figure><figcaption>{html.escape(text)}</figcaption>"
                       f"{inline(os.path.join(directory, name), name.removesuffix('.svg'))}</figure>"
                       for name, text in charts)
    left_out = "".join(f"<p class=sub>{html.escape(line)}" for line in doc["left_out"])
    path = os.path.join(directory, "report.html")
    with open(path, "w", encoding="utf-8") as f:
        f.write(top("rnic benchmark", f"{html.escape(headline(doc))}. Each row is the median of its rounds, with the "
                    "least and the most. The daemon has one CPU, both clients share the other, unless a row says "
                    "otherwise.") +
                f"<h2>Targets</h2>{bars_table(doc)}<h2>Pictures</h2><div class=charts>{pictures}</div>"
                f"<h2>Rivals in the kernel</h2>{rivals_section(directory)}"
                f"<h2>Rows</h2><p class=sub>{HOW}</p>"
                f"{rows_table(doc)}{left_out}")
    return path
