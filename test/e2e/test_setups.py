#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Other set-ups than the plain pair: several workers, VLANs, addresses that nobody has, what a killed daemon leaves
behind; the examples.
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from rig import BUILD, PATIENCE, TESTPMD, Daemon, Soak, case, example, main, moves, need, pair_conf
import wire_check
from shark import fields

ADDR = "10.77.0.1"
RNICRUN = os.path.join(BUILD, "app", "rnicrun", "rnicrun")


def soak(d, port, *args):
    s = d.run(TESTPMD, "-s", "-a", ADDR, "-p", str(port), "--once")
    s.wait_line("listening")
    return s, d.run(TESTPMD, "--mode", "soak", "-p", str(port), *args, ADDR)


@case
def two_workers_and_two_clients():
    for extra in ("", "loss = 1%\nreorder = 1%\nseed = 3\nmarkers = on"):
        with Daemon(pair_conf(rnicd="workers = 0,1", both=extra)) as d:
            assert "2 workers" in d.wait_line("ready")
            running = [soak(d, 7100 + i, "--iters", "400", "--qps", "4") for i in range(2)]
            for s, c in running:
                assert "verified" in c.ok()
                s.ok()
            assert len(d.telemetry("/rnic/workers")) == 2
            # Flows are spread by a hash: with 32 connections both workers have some.
            out = d.run(TESTPMD, "-s", "-a", ADDR, "--once")
            out.wait_line("listening")
            c = d.run(TESTPMD, "--mode", "write_bw", "--sizes", "4k", "--qps", "32", "--seconds", "3", ADDR)
            end = time.monotonic() + PATIENCE
            used = set()
            while used != {"0", "1"} and time.monotonic() < end and c.p.poll() is None:
                used = {m.group(1) for q in d.telemetry("/rnic/qps") or [] for m in [re.search(r"worker (\d+)", q)] if m}
                time.sleep(0.05)
            assert used == {"0", "1"}, used
            c.ok()
            out.ok()


@case
def connections_that_have_ended_leave_room_for_new_ones():
    """The ends of each run stay in TIME_WAIT for a second; TIME_WAIT may occupy at most 8 of the 64 places."""
    with Daemon(pair_conf(rnicd="flows = 64")) as d:
        server = d.run(TESTPMD, "-s", "-a", ADDR)
        server.wait_line("listening")
        cut = 0
        for _ in range(100):
            d.run(TESTPMD, "--mode", "send_bw", "--qps", "18", "--iters", "1", "--warmup", "0", ADDR).ok()
            cut = sum(d.telemetry(f"/rnic/ports,{p}")["time_wait_overflow"] for p in "ab")
            if cut > 20:
                break
        assert cut > 20, cut
        server.stop()


@case
def killed_client_with_two_workers():
    with Daemon(pair_conf(rnicd="workers = 0,1")) as d:
        s = d.run(TESTPMD, "-s", "-a", ADDR, "-p", "7200", "--once")
        s.wait_line("listening")
        bystander = Soak(d, ADDR, 7200, "--qps", "4")
        for _ in range(3):
            s2 = d.run(TESTPMD, "-s", "-a", ADDR, "-p", "7201", "--once")
            s2.wait_line("listening")
            victim = d.run(TESTPMD, "--mode", "write_bw", "--sizes", "64k", "--qps", "8", "--seconds", "600", "-p", "7201", ADDR)
            moves(d, 7201, qps=8)
            os.kill(victim.pid, signal.SIGKILL)
            victim.wait()
            s2.wait()
        bystander.end()
        s.ok()


@case
def vlan_tags_every_frame():
    need("tshark")
    d = Daemon(pair_conf(both="vlan = 42", a="capture = {dir}/a.pcapng"))
    try:
        s, c = soak(d, 7300, "--iters", "60")
        assert "verified" in c.ok()
        s.ok()
        d.end()
        rows = fields(os.path.join(d.dir, "a.pcapng"), "vlan.id", "eth.type", "vlan.etype", "iwarp_mpa.bad_length", "_ws.malformed",
                      "arp.opcode")
        assert len(rows) > 100
        assert {r[0] for r in rows} == {"42"}, {r[0] for r in rows}
        assert {r[1] for r in rows} == {"0x8100"} and {r[2] for r in rows} == {"0x0800", "0x0806"}
        assert not any(r[3] or r[4] for r in rows), [r for r in rows if r[3] or r[4]][:3]
        assert {"1", "2"} <= {r[5] for r in rows}
    finally:
        d.close()


@case
def each_kind_of_rtr_opens_a_connection():
    for word, kinds in (("send", (True, False, False)), ("write", (False, True, False)), ("read", (False, False, True))):
        d = Daemon(pair_conf(both=f"rtr = {word}", a="capture = {dir}/a.pcapng"))
        try:
            s = d.run(TESTPMD, "-s", "-a", ADDR, "--once")
            s.wait_line("listening")
            d.run(TESTPMD, "--mode", "send_lat", "--sizes", "64", "--iters", "20", "--warmup", "0", ADDR).ok()
            s.ok()
            d.end()
            conns = wire_check.check(os.path.join(d.dir, "a.pcapng"), checksums=False)
            for f in [f for c in conns for f in (c.req, c.rep)]:
                assert (f["A"], f["B"], f["C_"], f["D"]) == (True, *kinds), f"rtr = {word}: {f}"
            assert conns, "the capture has no connection"
        finally:
            d.close()


@case
def vlans_that_differ_do_not_meet():
    for a, b in (("vlan = 42", "vlan = 43"), ("vlan = 42", "")):
        with Daemon(pair_conf(a=a, b=b)) as d:
            s = d.run(TESTPMD, "-s", "-a", ADDR)
            s.wait_line("listening")
            c = d.run(TESTPMD, "--mode", "send_lat", "--iters", "10", "--timeout", "3", ADDR)
            assert c.wait() == 1, c.tail()
            assert ADDR in c.stderr(), c.tail()
            s.stop()


@case
def addresses_that_are_nobodys_are_refused_in_words():
    with Daemon(pair_conf()) as d:
        for argv in (["-s", "-a", "10.77.0.77"], ["192.0.2.1"], ["-a", "10.77.0.9", ADDR]):
            p = d.run(TESTPMD, *argv)
            assert p.wait() != 0, p.tail()
            assert re.search(r"(10\.77\.0\.77|192\.0\.2\.1|10\.77\.0\.9)", p.stderr()), p.tail()


@case
def what_a_killed_daemon_left_goes_with_the_next_start():
    with tempfile.TemporaryDirectory() as place:  # in the common place a daemon of another test may start first
        under = ("env", "RUNTIME_DIRECTORY=" + place)
        d = Daemon(pair_conf(), under=under)
        left = os.path.dirname(d.runtime_socket())
        d.stop(signal.SIGKILL)
        d.close()
        assert left.startswith(place) and os.path.exists(left)
        with Daemon(pair_conf(), under=under) as second:
            assert not os.path.exists(left)
            mine = os.path.dirname(second.runtime_socket())
            assert os.path.exists(mine)
        assert not os.path.exists(mine)


@case
def a_connection_takes_few_requests():
    """
    Each further connection takes 6 requests of the client (open, queue pair, connect, disconnect, two destroys) and 5
    of the server (queue pair, accept, disconnect, two destroys). The route is known from the connection before. It has
    to be asked for again when a second has gone by, for each of the 32 connections that are set up at a time.
    """
    with Daemon(pair_conf()) as d:
        seen = {}
        for qps in (10, 210):
            before = d.telemetry("/rnic/counters")["requests"]
            s = d.run(TESTPMD, "-s", "-a", ADDR, "--once")
            s.wait_line("listening")
            start = time.monotonic()
            d.run(TESTPMD, "--mode", "idle", "--qps", str(qps), "--seconds", "0.1", ADDR).ok()
            s.ok()
            seen[qps] = d.telemetry("/rnic/counters")["requests"] - before
            seconds = time.monotonic() - start
        assert seen[210] - seen[10] <= 200 * 11 + 32 * (seconds + 1), (seen, seconds)


@case
def examples_for_the_system_libraries_run_over_librnic():
    """The same source, linked with libibverbs and librdmacm as for any RDMA device, runs over librnic."""
    with Daemon(pair_conf()) as d:
        for name, args in (("hello", []), ("onesided", []), ("kvget", ["apple"])):
            exe = example(name + "-verbs")
            assert "librnic" not in subprocess.run(["ldd", exe], check=True, capture_output=True, text=True).stdout
            s = d.run(RNICRUN, exe, "-s", ADDR)
            s.wait_line("listening")
            assert d.run(RNICRUN, exe, ADDR, *args).ok().strip()
            s.stop() if name == "kvget" else s.ok()


@case
def a_program_of_your_own_is_linked_as_the_document_says():
    source = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
    with open(os.path.join(source, "doc", "programs.md"), encoding="utf-8") as f:
        line = re.search(r"^cc -o hello .*$", f.read(), re.M).group()
    with Daemon(pair_conf()) as d:
        os.symlink(os.path.join(source, "examples"), os.path.join(d.dir, "examples"))
        os.symlink(BUILD, os.path.join(d.dir, "build"))
        subprocess.run(["sh", "-ec", line], cwd=d.dir, check=True, timeout=PATIENCE)
        s = d.run(d.dir + "/hello", "-s", ADDR)
        s.wait_line("listening")
        assert d.run(d.dir + "/hello", ADDR).ok().strip()
        s.ok()


@case
def examples_are_short_and_explain_themselves():
    for name in ("hello", "onesided", "kvget"):
        path = os.path.join(os.path.dirname(__file__), "..", "..", "examples", name + ".c")
        assert len(open(path, encoding="utf-8").read().splitlines()) < 200
        p = subprocess.run([example(name), "--help"], capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert p.returncode == 0 and "usage: " + name in p.stdout, p


if __name__ == "__main__":
    sys.exit(main())
