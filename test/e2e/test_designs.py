#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Where iWARP runs: in rnicd (design offloaded), in the program over rnicd's TCP (design host), or in the program with
CRCs computed by rnicd (design assisted). The two ends are paired in several designs over the ports of one daemon.
"""
import re
import signal
import sys

import programs
from rig import PATIENCE, RNICRUN, TESTPMD, Daemon, case, helper, main, need, pair_conf, until

A, B = programs.A, programs.B
PAIRINGS = (("host", "host"), ("host", "offloaded"), ("offloaded", "host"), ("assisted", "assisted"),
            ("assisted", "offloaded"), ("offloaded", "assisted"), ("host", "assisted"))  # server, client


class End:
    """Offers what the functions of programs.py call on a Daemon; the programs run in one design."""

    def __init__(self, d, design):
        self.d, self.design, self.dir = d, design, d.dir

    def run(self, *argv, **env):
        argv = list(argv)
        if argv[0] == RNICRUN:
            argv[1:1] = ["--design", self.design]
        return self.d.run(*argv, **env)

    def telemetry(self, command):
        return self.d.telemetry(command)


def pairings(d, job):
    programs.side_by_side([lambda p=p: job((End(d, p[0]), End(d, p[1]))) for p in PAIRINGS], 1)


@case
def the_devices_are_rnicds_ports():
    with Daemon(pair_conf()) as d:
        shown = [End(d, design).run(RNICRUN, "ibv_devices").ok() for design in ("host", "offloaded", "assisted")]
        names = [re.findall(r"^\s+(\w+)\s+[0-9a-f]{16}$", out, re.M) for out in shown]
        assert names[0] == names[1] == names[2] != [], shown


@case
def a_datagram_queue_pair_is_refused_with_the_reason():
    with Daemon(pair_conf()) as d:
        for design in ("host", "assisted"):
            p = End(d, design).run(RNICRUN, "ibv_ud_pingpong", "-d", "a")
            assert p.wait() != 0, p.tail()
            assert "no datagram queue pairs with the designs host and assisted" in p.stderr(), p.tail()


@case
def no_design_connects_to_or_listens_on_the_port_of_queue_pairs():
    with Daemon(pair_conf()) as d:
        for design in ("host", "assisted"):
            p = End(d, design).run(RNICRUN, TESTPMD, "-s", "-a", A, "-p", "4791")
            assert p.wait() != 0, p.tail()
            p = End(d, design).run(RNICRUN, TESTPMD, "--mode", "send_lat", "--iters", "1", "-p", "4791", A)
            assert p.wait() != 0, p.tail()
        made = [k for k, v in d.telemetry("/rnic/counters").items() if k.startswith("qp_port_") and v]
        assert not made, f"a connection to qp-port was made: {made}"


@case
def a_program_of_its_own_iwarp_is_not_sent_to_rnicds_configuration():
    with Daemon(pair_conf()) as d:
        need("ibv_xsrq_pingpong")
        for design in ("host", "assisted"):
            p = End(d, design).run(RNICRUN, "ibv_xsrq_pingpong", "-d", "a", "-g", "0")
            assert p.wait() != 0 and "run the program without --design" in p.stderr(), p.tail()
            s = End(d, design).run(RNICRUN, "ibv_rc_pingpong", "-d", "a", "-g", "0")
            until(lambda: s.p.poll() is not None or programs.on_host(18515)(d), s.tail)
            c = End(d, design).run(RNICRUN, "ibv_rc_pingpong", "-d", "b", "-g", "0", "127.0.0.1")
            assert s.wait() != 0 and "connect by rdma_cm only: run the program without --design" in s.stderr(), s.tail()
            c.wait()


@case
def port_0_is_no_port_that_a_program_over_rnicd_takes_before_listen():
    with Daemon(pair_conf()) as d:
        for design in ("host", "assisted"):
            p = End(d, design).run(RNICRUN, helper("port_zero"), A)
            port = p.wait_line("port").split()[1]
            other = End(d, "offloaded").run(RNICRUN, "rping", "-s", "-a", A, "-p", port)
            assert other.wait() != 0 and "Address already in use" in other.stdout() + other.stderr(), other.tail()
            p.p.stdin.write("\n\n")
            p.p.stdin.flush()
            p.ok()
            assert p.out[-2:] == ["listen", "destroy"], p.tail()


@case
def rping_between_the_designs():
    with Daemon(pair_conf()) as d:
        pairings(d, programs.rping)


@case
def perftest_between_the_designs():
    table = (("ib_write_bw", "-n 100"), ("ib_read_bw", "-n 200 -e"), ("ib_send_lat", "-n 50 -e"),
             ("ib_write_lat", "-n 20 -s 5000"), ("ib_atomic_bw", "-n 50 -e"))
    with Daemon(pair_conf()) as d:
        pairings(d, lambda ends: programs.perftest(ends, True, table))


@case
def every_byte_is_verified_between_the_designs():
    with Daemon(pair_conf()) as d:
        pairings(d, programs.rcopy)


@case
def many_connections_come_and_go():
    with Daemon(pair_conf()) as d:
        pairings(d, programs.cm_tools)


@case
def testpmd_takes_the_design_as_an_option():
    with Daemon(pair_conf()) as d:
        for server, client in PAIRINGS:
            s = d.run(TESTPMD, "-s", "-a", A, "--once", "--design", server)
            s.wait_line("listening")
            c = d.run(TESTPMD, "--design", client, "--mode", "soak", "--iters", "2000", A)
            assert "verified" in c.ok(), c.tail()
            s.ok()


@case
def a_lossy_wire_loses_nothing():
    with Daemon(pair_conf(a="loss = 0.01\nreorder = 0.02", b="loss = 0.01\nreorder = 0.02")) as d:
        pairings(d, lambda ends: programs.rcopy(ends, 300001))


@case
def a_box_that_cuts_and_joins_segments_changes_no_byte():
    """With markers, with CRCs, and under loss: segment boundaries need not be FPDU boundaries."""
    for how in ("split", "merge", "random"):
        line = f"resegment = {how}\ncrc = always\nmarkers = on\nloss = 0.2%\nreorder = 0.5%"
        with Daemon(pair_conf(both=line)) as d:
            for server, client in (("offloaded", "offloaded"), ("host", "offloaded"), ("assisted", "host")):
                s = d.run(TESTPMD, "-s", "-a", A, "--once", "--design", server, RNIC_EMBEDDED_KEYS="markers=on")
                s.wait_line("listening")
                c = d.run(TESTPMD, "--design", client, "--mode", "soak", "--iters", "1000", A,
                          RNIC_EMBEDDED_KEYS="markers=on")
                assert "verified" in c.ok(2 * PATIENCE), c.tail()
                s.ok(2 * PATIENCE)
            port = d.telemetry("/rnic/ports,a")
            assert port["impair_split"] > 1000 or how == "merge", port
            assert port["impair_joined"] > 0 or how == "split", port


def killed(d, server, client, victim):
    ends = End(d, server), End(d, client)
    s = ends[0].run(RNICRUN, "rping", "-s", "-a", A, "-p", "7201", "-V")
    until(lambda: programs.on_device(7201)(d), s.tail)
    c = ends[1].run(RNICRUN, "rping", "-c", "-a", A, "-p", "7201", "-V", "-v")
    until(lambda: len(c.out) > 20, c.tail)
    dies, lives = (s, c) if victim == "server" else (c, s)
    dies.p.send_signal(signal.SIGKILL)
    assert lives.wait() >= 0, lives.tail()
    until(lambda: not programs.on_device(7201)(d), "port 7201 is still taken")


@case
def an_end_that_is_killed_ends_the_other_one():
    with Daemon(pair_conf()) as d:
        for pairing in PAIRINGS:
            for victim in ("server", "client"):
                killed(d, *pairing, victim)


@case
def a_program_ends_with_its_rnicd():
    d = Daemon(pair_conf())
    try:
        s = End(d, "host").run(RNICRUN, "rping", "-s", "-a", A, "-V")
        until(lambda: programs.on_device(7174)(d), s.tail)
        c = End(d, "host").run(RNICRUN, "rping", "-c", "-a", A, "-V", "-v")
        until(lambda: len(c.out) > 20, c.tail)
        d.end()
        assert c.wait() >= 0, c.tail() + s.tail()
        assert s.wait() >= 0, s.tail()
    finally:
        d.close()


@case
def a_port_for_the_offloaded_design_alone_is_no_device_of_the_other_designs():
    with Daemon(pair_conf(a="designs = offloaded")) as d:
        for design in ("host", "assisted"):
            out = End(d, design).run(RNICRUN, "ibv_devices").ok()
            assert re.findall(r"^\s+(\w+)\s+[0-9a-f]{16}$", out, re.M) == ["b"], out
    with Daemon(pair_conf(a="designs = offloaded", b="designs = offloaded")) as d:
        p = End(d, "host").run(RNICRUN, "ibv_devices")
        p.wait()
        assert "designs = offloaded" in p.stderr(), p.tail()


@case
def what_cannot_be_is_said_in_one_line():
    with Daemon(pair_conf()) as d:
        p = d.run(RNICRUN, "--socket", "/nonexistent/sock", "--design", "host", "ibv_devices")
        p.wait()
        assert [line for line in p.err if "design host needs rnicd" in line] == p.err[:1], p.tail()
        p = d.run(RNICRUN, "ibv_devices", RNIC_DESIGN="sideways")
        p.wait()
        assert "RNIC_DESIGN=sideways is not a design" in p.stderr(), p.tail()
        for argv in (("--design", "sideways"), ("--embedded", "--design", "host")):
            p = d.run(RNICRUN, *argv, "ibv_devices")
            assert p.wait() == 2 and "--design" in p.stderr(), p.tail()


# Left out, as with the embedded design: a Write or Send completes when rnicd's stream has its bytes, not when the peer
# has them. What the peer refuses is therefore told by the event, not by the completion.
OTHERWISE = {
    "op_cases": ("a_window_opens_part_of_a_region", "a_window_of_type_1_moves"),
}


def every_operation_in(design):
    with Daemon(pair_conf()) as d:
        names = [n for n in d.run(helper("op_cases"), "--list").ok().split() if n not in OTHERWISE["op_cases"]]
        p = d.run(helper("op_cases"), A, B, *names, RNIC_DESIGN=design)
        rc = p.wait(5 * PATIENCE)
        good = re.findall(r"^ok (\w+)$", p.stdout(), re.M)
        assert rc == 0 and sorted(good) == sorted(names), p.tail(60)


@case
def every_operation():
    every_operation_in("host")


@case
def every_operation_with_sums_of_rnicd():
    every_operation_in("assisted")


@case
def a_message_that_finds_no_receive_waits_for_one_where_that_is_asked_for():
    with Daemon(pair_conf()) as d:
        p = d.run(helper("option_cases"), A, B, "no_receive_is_no_bad_request_of_an_adapter", RNIC_DESIGN="host",
                  RNIC_EMBEDDED_KEYS="rnr=wait", RNR_WAITS="1")
        assert re.findall(r"^ok (\w+)$", p.ok(), re.M), p.tail()


def sums(d):
    ports = [d.telemetry(f"/rnic/ports,{name}") for name in ("a", "b")]
    return [sum(p[key] for p in ports) for key in ("sums_tx", "sums_rx")]


@case
def a_queue_pair_has_the_design_that_it_asks_for():
    """rnicd's counters tell whether it computes CRCs: for the process's own design, and for another one that a queue
    pair asks for."""
    name = "a_queue_pair_has_the_design_that_it_asks_for_or_is_refused"
    with Daemon(pair_conf(both="crc = always")) as d:
        for design, only, summed in (("host", "03", False), ("host", "2", True), ("host", "1456", False),
                                     ("assisted", "3", False), ("assisted", "02", True)):
            before = sums(d)
            p = d.run(helper("option_cases"), A, B, name, RNIC_DESIGN=design, DESIGNS="23", TRIES=only)
            assert f"ok {name}" in p.ok(), p.tail()
            grown = [now > was for now, was in zip(sums(d), before)]
            assert grown == [summed, summed], (design, only, before, sums(d))
            if only == "1456":
                assert "a queue pair in it cannot have design offloaded" in p.stderr(), p.tail()


sys.exit(main())
