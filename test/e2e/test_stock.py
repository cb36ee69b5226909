#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The distribution's own RDMA programs, as they are installed, run by rnicrun."""
import re
import sys
import time

from rig import RNICRUN, Daemon, Process, case, main, need, pair_conf

ADDR = "10.77.0.1"
REFUSED = re.compile(r"refused|rejected|CM event|could ?n.t connect", re.I)


def run(d, *argv):
    need(argv[0])
    return d.run(RNICRUN, *argv)


def pair(d, server, client, quits=True, spare=()):
    """
    Runs both and returns the client's output. These servers do not say in time that they listen, as they do not flush what
    they print: when a client was refused, or says one of `spare`, both begin anew and the client waits longer.
    """
    for attempt in range(10):
        s = run(d, *server)
        time.sleep(0.5 + attempt / 2)
        c = run(d, *client)
        if c.wait() == 0:
            if quits:
                s.ok()
            else:
                s.stop()
            return c.stdout()
        told = c.stdout() + c.stderr()
        assert REFUSED.search(told) or any(w in told for w in spare), c.tail() + s.tail()
        s.stop()
    raise AssertionError(f"refused ten times\n{c.tail()}\n{s.tail()}")


def perftest(d, name, *args):
    """
    perftest's client connects twice. When the server has not come to listening for the second time, the client retries
    with an id it has freed and crashes: that is a refusal too, and so is a CPU whose clock it cannot measure.
    """
    out = pair(d, [name, "-R", *args], [name, "-R", *args, ADDR], spare=["Correlation coefficient"])
    assert re.search(r"#bytes.*\n\s*\d+\s+\d+\s+[\d.]+", out), out


@case
def devices_are_listed():
    with Daemon(pair_conf()) as d:
        assert re.search(r"^\s+a\s", run(d, "ibv_devices").ok(), re.M)
        out = run(d, "ibv_devinfo", "-v").ok()
        assert "iWARP (1)" in out and "PORT_ACTIVE (4)" in out and "::ffff:10.77.0.1" in out, out


@case
def rping():
    with Daemon(pair_conf()) as d:
        out = pair(d, ["rping", "-s", "-a", ADDR, "-C", "20", "-V"], ["rping", "-c", "-a", ADDR, "-C", "20", "-V", "-v"])
        assert out.count("ping data:") == 20, out


@case
def ucmatose():
    with Daemon(pair_conf()) as d:
        for args in ([], ["-m"], ["-c", "8", "-C", "50"]):
            pair(d, ["ucmatose", "-b", ADDR, *args], ["ucmatose", "-s", ADDR, *args])


@case
def rdma_client_and_server():
    with Daemon(pair_conf()) as d:
        assert "rdma_client: end 0" in pair(d, ["rdma_server"], ["rdma_client", "-s", ADDR])


@case
def cmtime():
    with Daemon(pair_conf()) as d:
        assert "disconnect" in pair(d, ["cmtime", "-b", ADDR], ["cmtime", "-s", ADDR, "-c", "20"], quits=False)


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
        # Over iWARP perftest's sender waits for credits, which are written into its memory, and with -e it sleeps on its
        # completions meanwhile: out of credits with all but its unsignalled requests completed it sleeps for good. With
        # receives (-r) for all messages it never runs out.
        perftest(d, "ib_send_bw", "-n", "2000", "-e", "-r", "2048")
        perftest(d, "ib_read_bw", "-n", "2000", "-e")
        perftest(d, "ib_send_lat", "-n", "200", "-e")
        perftest(d, "ib_write_bw", "-n", "200", "-b")


@case
def perftest_with_a_shared_receive_queue():
    with Daemon(pair_conf()) as d:
        perftest(d, "ib_send_bw", "-n", "400", "--use-srq", "-r", "512")
        perftest(d, "ib_send_bw", "-n", "400", "--use-srq", "-r", "512", "-q", "4")
        perftest(d, "ib_send_lat", "-n", "200", "--use-srq", "-r", "512")


@case
def srq_pingpong():
    with Daemon(pair_conf()) as d:
        for args in ([], ["-e"], ["-q", "4", "-n", "200"]):
            out = pair(d, ["ibv_srq_pingpong", "-d", "a", "-g", "0", *args],
                       ["ibv_srq_pingpong", "-d", "b", "-g", "0", *args, "127.0.0.1"])
            assert "iters in" in out, out


@case
def xrc_is_refused_in_words():
    """What asks for them ends at once and says why."""
    with Daemon(pair_conf()) as d:
        xrc = "use a shared receive queue"
        p = run(d, "ibv_xsrq_pingpong", "-g", "0")
        assert p.wait() != 0 and xrc in p.stderr(), p.tail()
        ends = [run(d, "ib_write_bw", "-c", "XRC", "-p", "18655"), None]
        time.sleep(0.5)
        ends[1] = run(d, "ib_write_bw", "-c", "XRC", "-p", "18655", "127.0.0.1")
        for p in ends:
            assert p.wait() != 0 and xrc in p.stderr(), p.tail()


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
