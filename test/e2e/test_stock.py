#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The distribution's own RDMA programs, unmodified, run by rnicrun."""
import re
import sys

import programs
from rig import RNICRUN, Daemon, Process, case, main, need, pair_conf

ADDR = "10.77.0.1"


def run(d, *argv):
    need(argv[0])
    return d.run(RNICRUN, *argv)


def pair(d, port, server, client, quits=True):
    """Runs server and client; the server listens at that port of the device. Returns the client's output."""
    return programs.meet((d, d), server, client, programs.on_device(port), quits)[0]


def perftest(d, name, *args):
    out = pair(d, 18515, [name, "-F", "-R", *args], [name, "-F", "-R", *args, ADDR])
    programs.figures(out)


@case
def devices_are_listed():
    with Daemon(pair_conf()) as d:
        assert re.search(r"^\s+a\s", run(d, "ibv_devices").ok(), re.M)
        out = run(d, "ibv_devinfo", "-v").ok()
        assert "iWARP (1)" in out and "PORT_ACTIVE (4)" in out and "::ffff:10.77.0.1" in out, out


@case
def rping():
    with Daemon(pair_conf()) as d:
        out = pair(d, 7174, ["rping", "-s", "-a", ADDR, "-C", "20", "-V"], ["rping", "-c", "-a", ADDR, "-C", "20", "-V", "-v"])
        assert out.count("ping data:") == 20, out


@case
def ucmatose():
    with Daemon(pair_conf()) as d:
        for args in ([], ["-m"], ["-c", "8", "-C", "50"]):
            pair(d, 7471, ["ucmatose", "-b", ADDR, *args], ["ucmatose", "-s", ADDR, *args])


@case
def rdma_client_and_server():
    with Daemon(pair_conf()) as d:
        assert "rdma_client: end 0" in pair(d, 7471, ["rdma_server"], ["rdma_client", "-s", ADDR])


@case
def cmtime():
    with Daemon(pair_conf()) as d:
        assert "disconnect" in pair(d, 7471, ["cmtime", "-b", ADDR], ["cmtime", "-s", ADDR, "-c", "20"], quits=False)


@case
def perftest_bandwidth():
    with Daemon(pair_conf()) as d:
        for name in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
            perftest(d, name, "-n", "200")
            perftest(d, name, "-n", "200", "-q", "8", "-s", "8192")


@case
def perftest_latency():
    with Daemon(pair_conf()) as d:
        for name in ("ib_write_lat", "ib_read_lat", "ib_send_lat"):
            perftest(d, name, "-n", "200")


@case
def perftest_atomics():
    with Daemon(pair_conf()) as d:
        perftest(d, "ib_atomic_bw", "-n", "200")
        perftest(d, "ib_atomic_bw", "-n", "200", "-A", "CMP_AND_SWAP", "-q", "4", "-o", "8")
        perftest(d, "ib_atomic_lat", "-n", "200")


@case
def perftest_events_and_both_ways():
    with Daemon(pair_conf()) as d:
        perftest(d, "ib_read_bw", "-n", "2000", "-e")
        perftest(d, "ib_send_lat", "-n", "200", "-e")
        perftest(d, "ib_write_bw", "-n", "200", "-b")
    with Daemon(pair_conf(both="personality = roce")) as d:
        perftest(d, "ib_send_bw", "-n", "2000", "-e")  # programs.ADAPTERS_ONLY says why


@case
def perftest_with_a_shared_receive_queue():
    with Daemon(pair_conf()) as d:
        perftest(d, "ib_send_bw", "-n", "400", "--use-srq", "-r", "512")
        perftest(d, "ib_send_lat", "-n", "200", "--use-srq", "-r", "512")
    # perftest posts 400 receives for the 1,600 messages of four queue pairs, and each of the four senders sends as if
    # all receives were its own. A message without a receive must wait, as on an adapter.
    with Daemon(pair_conf(both="personality = roce")) as d:
        perftest(d, "ib_send_bw", "-n", "400", "--use-srq", "-r", "512", "-q", "4")


@case
def srq_pingpong():
    programs.own_network()
    with Daemon(pair_conf()) as d:
        for args in ([], ["-e"], ["-q", "4", "-n", "200"]):
            argv = ["ibv_srq_pingpong", "-g", "0", *args]
            out, _ = programs.meet((d, d), [*argv, "-d", "a"], [*argv, "-d", "b", "127.0.0.1"], programs.on_host(18515))
            assert "iters in" in out, out


@case
def doctor_tells_what_is_there_and_what_is_not():
    with Daemon(pair_conf()) as d:
        out = d.run(RNICRUN, "--doctor").ok()
        assert "device a, address ::ffff:10.77.0.1, link up" in out and "Programs can run" in out, out
    p = Process([RNICRUN, "--socket", "/nonexistent/rnicd.sock", "--doctor"])
    assert p.wait() == 1
    assert "no rnicd at /nonexistent/rnicd.sock: start it" in p.stdout(), p.stdout()


@case
def a_program_that_is_not_there_is_named():
    p = Process([RNICRUN, "/nonexistent/program"])
    assert p.wait() == 127
    assert "/nonexistent/program" in p.stderr(), p.stderr()


sys.exit(main())
