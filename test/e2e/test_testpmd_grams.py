#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
testpmd-rdma over datagram queue pairs: every mode over good wires; over wires that lose, where each byte reported as
valid is compared and losses are counted; the sweep over losses; and a device that has no such queue pairs.
"""
import json

from rig import TESTPMD, Daemon, case, main, nothing_is_left, pair_conf

ADDR = "10.77.0.1"
BAD = "loss = 3%\nduplicate = 2%\nreorder = 3%\ncorrupt = 1%"
MODES = ("write_bw", "read_bw", "send_bw", "write_lat", "read_lat", "send_lat")


def run(d, *args):
    """The result rows of a client's run."""
    s = d.run(TESTPMD, "-s", "-a", ADDR, "--once")
    s.wait_line("listening")
    c = d.run(TESTPMD, "--json", "--warmup", "10", *args, ADDR)
    out = c.ok()
    s.ok()
    rows = json.loads(out)["results"]
    assert rows and all(r["wrong"] == 0 for r in rows), rows
    return rows


@case
def every_mode_runs_over_reliable_datagrams():
    with Daemon(pair_conf()) as d:
        rows = run(d, "--mode", "all", "--size", "64,5000,64k", "--iters", "300", "--qp-type", "rd", "--qps", "2")
        assert [r["mode"] for r in rows[::3]] == list(MODES) and len(rows) == 18
        assert all(r["qp_type"] == "rd" and r["checked_bytes"] > 0 and r["sent"] == 0 for r in rows), rows
        nothing_is_left(d)


@case
def every_mode_runs_over_unreliable_datagrams():
    with Daemon(pair_conf()) as d:
        rows = run(d, "--mode", "all", "--size", "64,5000,64k", "--iters", "300", "--qp-type", "ud", "--qps", "2")
        assert [r["mode"] for r in rows[::3]] == list(MODES) and len(rows) == 18
        for r in rows:
            assert r["qp_type"] == "ud" and r["checked_bytes"] > 0 and r["ops"] >= 300, r
            assert r["valid_bytes"] >= 0.5 * r["sent_bytes"] > 0, r
        nothing_is_left(d)


def soaked(kind, conf):
    with Daemon(pair_conf(both=conf)) as d:
        row, = run(d, "--mode", "soak", "--size", "20k", "--iters", "400", "--bidir", "--qps", "2", "--qp-type", kind)
        nothing_is_left(d)
    assert row["checked_bytes"] > 1000000, row
    return row


@case
def what_is_told_as_valid_is_right_and_the_rest_is_known():
    r = soaked("ud", BAD)
    assert r["partial"] > 0 and r["arrived"] + r["partial"] < r["sent"], r
    # a lost segment of 1408 bytes does not lose the rest of its record, but loses the whole Send
    assert 0.5 * r["sent_bytes"] < r["valid_bytes"] < r["sent_bytes"], r
    assert r["checked_bytes"] == r["valid_bytes"], r


@case
def all_that_is_sent_comes_over_a_good_wire():
    r = soaked("ud", "")
    assert r["sent"] >= 800 and r["valid_bytes"] >= 0.95 * r["sent_bytes"], r


@case
def reliable_datagrams_bring_everything_over_a_bad_wire():
    r = soaked("rd", BAD)
    assert r["ops"] >= 800 and r["sent"] == 0, r


@case
def losses_are_swept_and_the_port_is_left_without():
    with Daemon(pair_conf()) as d:
        def loss():
            return d.telemetry("/rnic/ports,b")["impair_lost"]
        rows = run(d, "--mode", "write_bw,send_bw", "--size", "64,64k", "--iters", "600", "--qp-type", "ud", "--loss",
                   "0,10%", "--no-verify")
        assert [(r["mode"], r["loss_percent"], r["size"]) for r in rows] == [
            (m, p, s) for m in ("write_bw", "send_bw") for p in (0, 10) for s in (64, 65536)], rows
        for good, bad in zip(rows[0:2] + rows[4:6], rows[2:4] + rows[6:8]):
            assert bad["valid_bytes"] / bad["sent_bytes"] < 0.95, bad
            assert good["valid_bytes"] / good["sent_bytes"] > bad["valid_bytes"] / bad["sent_bytes"], (good, bad)
        records, sends = rows[3], rows[7]
        assert records["partial"] > 0 and records["valid_bytes"] > 10 * sends["valid_bytes"], (records, sends)
        before = loss()
        run(d, "--mode", "write_bw", "--size", "64", "--iters", "20000")
        assert 0 < loss() == before, "the port still has the loss of the sweep"


@case
def idle_queue_pairs_of_datagrams_are_alive():
    with Daemon(pair_conf()) as d:
        for kind in ("ud", "rd"):
            row, = run(d, "--mode", "idle", "--qps", "100", "--seconds", "0.1", "--qp-type", kind)
            assert row["ops"] == 100, row
        nothing_is_left(d)


@case
def a_device_without_reliable_datagrams_is_told_as_such():
    with Daemon(pair_conf()) as d:
        s = d.run(TESTPMD, "-s", "-a", "127.0.0.1", "-p", "7311", "--design", "embedded")
        s.wait_line("listening")
        c = d.run(TESTPMD, "--design", "embedded", "--qp-type", "rd", "-p", "7311", "127.0.0.1")
        assert c.wait() == 1
        assert "this device has no such queue pairs" in c.tail(), c.tail()
        c = d.run(TESTPMD, "--design", "embedded", "--loss", "1%", "-p", "7311", "127.0.0.1")
        assert c.wait() == 1
        assert "--loss is for devices of rnicd" in c.tail(), c.tail()
        s.stop()


main()
