#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The distribution's programs that use datagram queue pairs: over one port, two wired ones, two workers, and a line that
loses. An independent decoder checks what they send, from a capture.
"""
import os
import re
import subprocess
import sys
import time

import stock
import wire_ud
from rig import RNICRUN, Daemon, case, main, need, pair_conf
from stock import ONE, TWO, daemon, pair, perftest

BOTH = ("iwarp", "roce")
MPICH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpi_cases.c")


def with_daemon(conf, f):
    """Runs f while a daemon with another configuration takes the place of the roce daemon."""
    daemon("roce")
    usual = stock.world["roce"]
    try:
        with Daemon(conf) as stock.world["roce"]:
            f()
    finally:
        stock.world["roce"] = usual


def counters(personality="roce"):
    return {k[3:]: v for k, v in daemon(personality).telemetry("/rnic/counters").items() if k.startswith("ud_")}


def pingpong(args, on, personality):
    for out in pair("ibv_ud_pingpong", ["-g", "0", *args], on, personality=personality):
        assert re.search(r"^\d+ iters in", out, re.M), out


@case
def ud_pingpong():
    for personality in BOTH:
        before = counters(personality)
        pingpong(["-n", "300"], TWO, personality)
        pingpong(["-n", "300", "-e"], ONE, personality)
        pingpong(["-n", "300", "-e", "-s", "1"], TWO, personality)
        now = counters(personality)
        assert now["in"] == now["out"] == before["in"] + 1800, (before, now)


def udaddy(personality, server, client):
    """udaddy's server does not say when it listens. A client that comes too soon is refused with UNREACHABLE; then both
    are started again, since the server may have answered some of the client's connections already."""
    d = daemon(personality)
    for n in range(1, 100):
        s = d.run(RNICRUN, "udaddy", *server)
        time.sleep(0.1 * n)
        c = d.run(RNICRUN, "udaddy", *client)
        if c.wait() == 0 or "UNREACHABLE, error: 1" not in c.stdout():
            break
        s.stop()
    for out in (c.ok(), s.ok()):
        assert "data transfers complete" in out and "return status 0" in out, out


@case
def udaddy_through_the_connection_manager():
    for personality in BOTH:
        udaddy(personality, ["-b", "10.77.0.1"], ["-s", "10.77.0.1", "-b", "10.77.0.2"])
        udaddy(personality, ["-c", "8", "-C", "20", "-S", "900"], ["-c", "8", "-C", "20", "-S", "900", "-s", "10.77.0.2"])


@case
def the_bytes_on_the_wire():
    for _ in range(5):  # on a busy machine a capture may lack frames; its counter tells
        seen = []

        def look():
            d = daemon("roce")
            pingpong(["-n", "50", "-s", "1000"], TWO, "roce")
            holes = d.telemetry("/rnic/ports,a")["capture_drops"]
            d.end()
            seen.append(None if holes else wire_ud.datagrams(os.path.join(d.dir, "a.pcapng")))

        with_daemon(pair_conf(both="personality = roce", a="capture = {dir}/a.pcapng"), look)
        if seen[0] is not None:
            break
    assert seen[0], "frames are missing in each of five captures"
    for src, dst in (("10.77.0.1", "10.77.0.2"), ("10.77.0.2", "10.77.0.1")):
        flow = [d for d in seen[0] if d.src == src]
        assert len(flow) == 50 and [d.msn for d in flow] == list(range(1, 51)), flow
        assert all(d.dst == dst and d.kind == 1 and d.qkey == 0x11111111 and d.imm is None for d in flow)
        assert len({(d.src_qpn, d.dst_qpn) for d in flow}) == 1 and {len(d.body) for d in flow} == {1000}
    a, b = (next(d for d in seen[0] if d.src == src) for src in ("10.77.0.1", "10.77.0.2"))
    assert (a.src_qpn, a.dst_qpn) == (b.dst_qpn, b.src_qpn)
    assert {d.body for d in seen[0] if d.src == "10.77.0.2"} == {b"\x7b" * 1000}, "a datagram has other bytes"


@case
def perftest_of_datagrams():
    perftest("ib_send_lat", "-c", "UD", "-n", "200", on=TWO)
    perftest("ib_send_lat", "-c", "UD", "-n", "200", "-I", "60", "-e", personality="roce")
    # A bandwidth test fails when a datagram is lost. With few outstanding and receives for all, none is lost.
    for args, on, personality in ((["-s", "1024"], TWO, "roce"), (["-s", "64", "-q", "4"], ONE, "roce"), (["-b"], TWO, "roce")):
        perftest("ib_send_bw", "-c", "UD", "-n", "400", "-t", "16", "-r", "512", *args, on=on, personality=personality)


def ucx(*args, on=ONE, **env):
    ends = [("-d", f"{dev[1]}:1") if dev else () for dev in on]
    out = pair("ucx_perftest", [*args, "-f"], ends, port=13337, personality="roce", **env)[1]
    assert re.search(r"^ +\d+ +[\d.]+", out, re.M), out


@case
def ucx_over_ud_verbs():
    for args in (["-t", "am_lat"], ["-t", "am_bw", "-s", "900", "-D", "bcopy"], ["-t", "am_bw", "-s", "900", "-D", "zcopy"]):
        ucx("-x", "ud_verbs", *args, "-n", "500", "-w", "50", on=TWO)


@case
def ucx_upper_half():
    """UCP connects over datagrams, then uses the transports that it finds."""
    for tls in ("rc_v,ud_v,self", "ud_v,self"):
        for args in (["tag_lat", "-s", "8"], ["tag_bw", "-s", "4000"], ["tag_bw", "-s", "100000"], ["tag_lat", "-s", "1000000"],
                     ["ucp_put_lat", "-s", "64"], ["stream_bw", "-s", "3000"]):
            ucx("-t", *args, "-n", "50", "-w", "5", UCX_TLS=tls)


def mpich(d, ranks, **env):
    need("mpicc.mpich")
    subprocess.run(["mpicc.mpich", "-O2", "-o", d.dir + "/mpi", MPICH], check=True)
    out = d.run(RNICRUN, "mpirun.mpich", "-np", ranks, d.dir + "/mpi", RNIC_REG_VERBOSE="0", **env).ok(240)
    for name in ("ring", "all_to_all", "stencil"):
        assert f"ok {name} of {ranks} ranks" in out.splitlines(), out


@case
def mpich_over_datagrams():
    for ranks in ("2", "4"):
        before = counters()
        mpich(daemon("roce"), ranks, UCX_TLS="ud_v,self")
        assert counters()["in"] > before["in"] + 500, "UCX did not use datagrams"


@case
def mpich_over_connections_set_up_by_datagrams():
    for ranks in ("2", "4"):
        before = daemon("roce").telemetry("/rnic/counters")
        mpich(daemon("roce"), ranks, UCX_TLS="rc_v,ud_v,self")
        now = daemon("roce").telemetry("/rnic/counters")
        assert now["ud_in"] > before["ud_in"] and now["bytes_placed"] > before["bytes_placed"] + 1000000, (before, now)
    mpich(daemon("roce"), "4")  # with all that UCX finds by itself


@case
def ucx_over_a_line_that_loses_and_two_workers():
    """UCX sends lost datagrams again; a datagram that arrives at the wrong worker is passed to the owner of its queue
    pair."""
    bad = "personality = roce\nloss = 1%\nduplicate = 1%\nreorder = 2%\ncorrupt = 1%\nseed = 7"

    def run():
        for args in (["tag_lat", "-s", "1000"], ["tag_bw", "-s", "20000"]):
            ucx("-t", *args, "-n", "200", "-w", "5", UCX_TLS="ud_v,self")
        n = counters()
        # crc is not looked at: the UDP checksum finds most of the corrupted bits before the CRC does
        assert n["in"] > 1000 and n["no_qp"] == 0, n

    with_daemon(pair_conf(both=bad, rnicd="workers = 0,1"), run)


@case
def what_was_left_behind():
    for name in BOTH:
        if name in stock.world:
            d = stock.world[name]
            stock.nothing_is_left(d)
            n = counters(name)
            assert n["in"] > 0 and n["crc"] == n["bad"] == n["qkey"] == 0, n
            d.end()
            d.close()


sys.exit(main())
