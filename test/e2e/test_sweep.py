#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
testpmd-rdma's sweeps: lists of sizes, queue pairs and depths; what the JSON document says of the place of measurement
and of what spoils the figures; and the picture.
"""
import json
import os
import re
import sys
import xml.etree.ElementTree as xml

from rig import TESTPMD, Daemon, case, main, need, pair_conf

ADDR = "10.77.0.1"
# iterations, not seconds: on a busy machine a short time may complete nothing
SHORT = ("--iters", "50", "--warmup", "10")


def sweep(d, *argv, **env):
    """Runs a server, and a client with these options; returns the client's output."""
    server = d.run(TESTPMD, "-s", "-a", ADDR, "--once")
    server.wait_line("listening")
    out = d.run(TESTPMD, *SHORT, *argv, ADDR, **env).ok()
    server.ok()
    return out


@case
def every_combination_of_lists_is_measured_and_says_where():
    with Daemon(pair_conf(mtu=9000)) as d:
        doc = json.loads(sweep(d, "--size", "64,4k", "--qps", "1,2", "--depth", "4..8", "--json"))
    got = [(r["qps"], r["depth"], r["size"]) for r in doc["results"]]
    assert got == [(q, n, s) for q in (1, 2) for n in (4, 8) for s in (64, 4096)], got
    assert doc["schema"] == 1 and doc["error"] is None and doc["host"] and "cpu" in doc, doc
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", doc["date"]), doc["date"]
    assert f"(commit {doc['commit']})" in doc["version"] or doc["commit"] == "", doc
    for r in doc["results"]:
        assert (r["device"], r["mtu"], r["crc"]) == ("b", 9000, "on"), r
        assert isinstance(r["retransmits"], int) and isinstance(r["drops"], int), r


@case
def what_spoils_a_figure_stands_behind_it():
    with Daemon(pair_conf(b="loss = 5%\ncrc = always")) as d:
        out = sweep(d, "--iters", "2000")
        row = next(line for line in out.splitlines() if line.lstrip().startswith("64k "))
        assert re.search(r"verified, \d+ segments sent again, \d+ frames dropped$", row), out
        head, row = (line.split(",") for line in sweep(d, "--iters", "2000", "--csv").splitlines())
        told = dict(zip(head, row))
        assert int(told["retransmits"]) > 0 and int(told["drops"]) > 0 and told["crc"] == "always", told


@case
def who_may_not_ask_rnicd_measures_all_the_same():
    with Daemon(pair_conf()) as d:
        user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups") if os.geteuid() == 0 else ()
        os.chmod(d.dir, 0o711)
        server = d.run(TESTPMD, "-s", "-a", ADDR, "--once")
        server.wait_line("listening")
        r, = json.loads(d.run(*user, TESTPMD, *SHORT, "--json", ADDR).ok())["results"]
        server.ok()
        assert r["ops"] > 0, r
        if user:
            assert r["retransmits"] is None and r["drops"] is None and r["mtu"] is None and r["crc"] == "", r


@case
def a_sweep_is_drawn():
    need("gnuplot")
    with Daemon(pair_conf()) as d:
        file = os.path.join(d.dir, "it's.svg")
        sweep(d, "-m", "write_bw,write_lat", "--size", "64..256", "--qps", "1,2", "--plot", file)
        text = ["".join(t.itertext()).strip() for t in xml.parse(file).iter("{http://www.w3.org/2000/svg}text")]
        for word in ("write_bw, 1 queue pairs", "write_lat, 2 queue pairs", "GB/s", "median latency, us",
                     "message size in bytes"):
            assert word in text, (word, text)


@case
def without_gnuplot_nothing_is_measured_for_a_picture():
    with Daemon(pair_conf()) as d:
        p = d.run("env", "PATH=/nonexistent", TESTPMD, *SHORT, "--plot", "x.svg", ADDR)
        assert p.wait() == 2 and p.stdout() == "", p.tail()
        assert "--plot needs the program gnuplot" in p.stderr() and "install gnuplot-nox" in p.stderr(), p.tail()


@case
def a_run_that_fails_says_why_in_the_document():
    with Daemon(pair_conf()) as d:
        p = d.run(TESTPMD, *SHORT, "--json", ADDR)
        assert p.wait() == 1, p.tail()
        doc = json.loads(p.stdout())
        assert doc["results"] == [] and doc["error"] in p.stderr() and "refused" in doc["error"], doc


if __name__ == "__main__":
    sys.exit(main())
