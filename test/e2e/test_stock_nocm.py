#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The distribution's own programs that connect without rdma_cm: they exchange GID and QP number over a socket of the host
and bring their QPs up with ibv_modify_qp(). Both ends use one port, or two wired ones.
"""
import re
import sys

from programs import A, figures, meet, on_device
from rig import PATIENCE, RNICRUN, case, main, need
from stock import ONE, TWO, begin, daemon, nothing_is_left, pair, perftest, wait_listen, world

@case
def rc_pingpong():
    for on, args in ((ONE, ["-g", "0", "-c"]), (TWO, ["-e"]), (TWO, ["-g", "0", "-N", "-c"]), (TWO, ["-g", "0", "-t"]), (ONE, ["-e", "-s", "100000"])):
        for out in pair("ibv_rc_pingpong", ["-n", "200", *args], on):
            assert "200 iters in" in out and "invalid data" not in out, out


@case
def uc_pingpong():
    for on, args in ((ONE, []), (TWO, ["-g", "0", "-e"])):
        for out in pair("ibv_uc_pingpong", ["-n", "200", *args], on):
            assert "200 iters in" in out, out


@case
def perftest_of_each_kind():
    for kind in ("write", "read", "send", "atomic"):
        perftest(f"ib_{kind}_lat", "-n", "100", on=TWO)
        perftest(f"ib_{kind}_bw", "-n", "100", personality="roce")


@case
def perftest_on_eight_qps_and_both_ways():
    perftest("ib_write_bw", "-n", "50", "-q", "8", "-s", "8192")
    perftest("ib_read_bw", "-n", "50", "-q", "8", "-s", "8192", on=TWO)
    perftest("ib_send_bw", "-n", "50", "-q", "8", "-s", "8192", on=TWO, personality="roce")
    perftest("ib_write_bw", "-n", "50", "-b", on=TWO)
    perftest("ib_send_bw", "-n", "50", "-b", personality="roce")


@case
def perftest_with_events_and_inline():
    perftest("ib_send_lat", "-n", "50", "-e", on=TWO)
    perftest("ib_send_bw", "-n", "300", "-e", "-s", "4096", on=TWO, personality="roce")
    perftest("ib_send_lat", "-n", "50", "-I", "60")
    perftest("ib_write_lat", "-n", "50", "-I", "60", on=TWO)


@case
def perftest_of_all_sizes():
    """Three tests run side by side, because each spends its time waiting for the other end between two sizes. Six
    programs that spin share the CPUs with everything else, so the limit for a hang is longer."""
    runs = []
    for i, (name, on, personality) in enumerate((("write", TWO, "iwarp"), ("send", TWO, "roce"), ("read", ONE, "iwarp"))):
        port = 18600 + i
        runs.append(begin(f"ib_{name}_bw", ["-F", "-n", "5", "-a", "-p", str(port)], on, port, personality))
    for s, c in runs:
        figures(c.ok(10 * PATIENCE), 23)
        s.ok()


@case
def perftest_unreliably_connected():
    perftest("ib_write_bw", "-n", "50", "-c", "UC", on=TWO)
    perftest("ib_send_lat", "-n", "50", "-c", "UC", personality="roce")


@case
def immediate_data_atomics_and_shared_receive_queues():
    perftest("ib_atomic_lat", "-n", "50", on=TWO)
    perftest("ib_atomic_bw", "-n", "50", "-A", "CMP_AND_SWAP", personality="roce")
    # Few receives for many messages on several QPs: perftest relies on InfiniBand's RNR retry.
    perftest("ib_send_bw", "-n", "50", "-s", "4096", "--use-srq", on=TWO, personality="roce")
    perftest("ib_send_bw", "-n", "500", "--use-srq", "-q", "8", personality="roce")
    perftest("ib_send_bw", "-n", "500", "-s", "4096", "--use-srq", "-q", "8", "-r", "16", on=TWO, personality="roce")
    # Without -b: with both -e and -b each end of perftest may sleep waiting for an event of the other.
    perftest("ib_send_bw", "-n", "200", "-s", "4096", "--use-srq", "-q", "8", "-r", "16", "-e", personality="roce")
    # Connections wait for receives and for their port's turn at the same time; each must get its turn again. A
    # connection that lost its turn was once seen in one run of fifteen.
    for _ in range(30):
        perftest("ib_send_bw", "-n", "200", "-s", "4096", "--use-srq", "-q", "8", "-r", "16", "-b", personality="roce")
    waits = daemon("roce").telemetry("/rnic/counters")
    assert waits["rnr_waits"] > 0 and waits["rnr_timeouts"] == 0, waits
    for out in pair("ibv_srq_pingpong", ["-n", "200", "-g", "0"], TWO):
        assert "200 iters in" in out, out


QPERF = (
    ("iwarp", ["rc_lat", "uc_lat", "rc_rdma_read_bw", "rc_rdma_write_lat", "rc_rdma_write_poll_lat"]),
    ("iwarp", ["rc_compare_swap_mr", "rc_fetch_add_mr", "ver_rc_compare_swap", "ver_rc_fetch_add"]),
    # rc_bw and rc_bi_bw go on sending after the server has stopped receiving, which ends an iWARP stream with an error.
    ("roce", ["rc_bw", "rc_bi_bw", "rc_rdma_read_lat", "rc_rdma_write_bw", "uc_rdma_write_bw", "rc_fetch_add_mr"]),
    ("iwarp", ["-cm1", "rc_lat", "ver_rc_compare_swap", "rc_fetch_add_mr"]),
    ("roce", ["-cm1", "rc_bw", "rc_rdma_read_bw", "rc_compare_swap_mr", "ver_rc_fetch_add"]))


@case
def qperf():
    """The lists run side by side, as each test lasts a second. The tests called ver_ verify each value."""
    need("qperf")
    servers, clients = [], []
    for i, (personality, tests) in enumerate(QPERF):
        on = ["-lp", str(19765 + i)]
        servers.append(daemon(personality).run(RNICRUN, "qperf", *on))
        wait_listen(servers[i], 19765 + i)
        clients.append(daemon(personality).run(RNICRUN, "qperf", *on, "127.0.0.1", "-t", "1", *tests))
    for i, (_, tests) in enumerate(QPERF):
        out = clients[i].ok()
        servers[i].stop()
        tests = [t for t in tests if t[0] != "-"]
        assert len(re.findall(r"^ +(latency|bw|send_bw|msg_rate) ", out, re.M)) == len(tests), out


@case
def ucx_over_rc_verbs():
    """On adapters only: UCX takes no iWARP devices. test_stock_ud.py tests UCP, the upper half of UCX."""
    for on, args in ((ONE, ["-t", "am_lat"]), (TWO, ["-t", "am_bw", "-s", "4096", "-D", "bcopy"]),
                     (TWO, ["-t", "am_bw", "-s", "900", "-D", "zcopy"]), (ONE, ["-t", "put_lat"]),
                     (TWO, ["-t", "put_bw", "-s", "100000", "-D", "zcopy"]), (ONE, ["-t", "get", "-s", "65536", "-D", "zcopy"])):
        ends = [("-d", f"{dev[1] if dev else 'a'}:1") for dev in on]
        out = pair("ucx_perftest", ["-x", "rc_verbs", *args, "-n", "200", "-w", "20", "-f"], ends, port=13337,
                   personality="roce")[1]
        assert re.search(r"^ +200 +[\d.]+", out, re.M), out


@case
def tools_of_rdma_cm_with_a_channel_adapter():
    out = daemon("roce").run(RNICRUN, "ibv_devinfo", "-v").ok()
    for text in ("InfiniBand (0)", "link_layer:\t\tEthernet", "::ffff:10.77.0.1, RoCE v2", "PORT_ACTIVE (4)"):
        assert text in out, out
    ends = (daemon("roce"), daemon("roce"))
    meet(ends, ["rping", "-s", "-a", A, "-C", "5", "-V"], ["rping", "-c", "-a", A, "-C", "5", "-V"], on_device(7174))
    meet(ends, ["ucmatose", "-b", A], ["ucmatose", "-s", A], on_device(7471))


@case
def what_was_left_behind():
    for name in ("iwarp", "roce"):
        if name in world:
            d = world[name]
            nothing_is_left(d)
            n = d.telemetry("/rnic/counters")
            assert n["qp_port_connections"] > 0 and n["qp_port_bad"] == 0, n
            d.end()
            d.close()


sys.exit(main())
