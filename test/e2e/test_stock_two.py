#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The distribution's own programs between two daemons, as between two machines: over memif and over a veth pair, each with
iWARP devices and with RoCE adapters. What the programs exchange over sockets goes through a network namespace of the
test's own.
"""
import sys

import programs
import wire
from programs import SAME, A, B
from rig import Daemon, case, main, until
from stock import nothing_is_left

world = {}


def conf(device, addr, personality):
    return f"[rnicd]\nsocket = {{dir}}/rnicd.sock\nhugepages = auto\n" \
           f"[port a]\ndevice = {device}\naddress = {addr}/24\npersonality = {personality}\n"


def two(link, personality):
    """The two daemons of a link, which all cases of the link share."""
    programs.own_network()
    if (link, personality) in world:
        return world[link, personality]
    if link == "memif":
        options = "id=0,bsize=16384,socket-abstract=no,socket="
        a = Daemon(conf("memif:role=server," + options + "{dir}/memif.sock", A, personality))
        b = Daemon(conf("memif:role=client," + options + a.dir + "/memif.sock", B, personality))
    else:
        ends = [personality + "0", personality + "1"]
        wire.run("ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for dev in ends:
            wire.run("ip", "link", "set", dev, "up")
        a, b = (Daemon(conf(f"af_packet:{dev}", addr, personality)) for dev, addr in zip(ends, (A, B)))
    # Each daemon notices only at its next look that its line is up; a program that starts earlier gives up too soon.
    for d in (a, b):
        until(lambda at=d: at.telemetry("/rnic/ports,a")["link"] == "up", f"the {link} line does not come up")
    world[link, personality] = (a, b)
    return a, b


def tools(link):
    ends = two(link, "iwarp")
    programs.rping(ends)
    programs.cm_tools(ends)
    programs.rcopy(ends)
    programs.stream(ends, "rstream", "-S", "4099", "-C", "20", "-I", "20")
    programs.stream(ends, "riostream", "-S", "40000", "-C", "1", "-I", "20")


def pingpongs(link):
    programs.pingpongs(two(link, "roce"), SAME)


def perftest(link):
    """Each row runs over each link: over one link with a connection manager, over the other link without."""
    half = link == "veth"
    programs.perftest(two(link, "iwarp"), True, programs.PERFTEST[half::2])
    programs.perftest(two(link, "roce"), False, programs.PERFTEST[not half::2] + programs.ADAPTERS_ONLY, SAME)


def qperf(link):
    programs.qperf(((two(link, "iwarp"), ["-cm1", "rc_lat", "rc_rdma_read_bw", "rc_rdma_write_lat"]),
                    (two(link, "roce"), ["-cm1", "rc_bw", "rc_bi_bw", "rc_rdma_write_bw"]),
                    (two(link, "roce"), ["-cm1", "rc_rdma_read_lat", "ver_rc_compare_swap", "ver_rc_fetch_add"])))


def datagrams(link):
    ends = two(link, "iwarp")
    before = [d.telemetry("/rnic/counters") for d in ends]
    for args in (["-n", "300"], ["-n", "300", "-e", "-s", "1"]):
        argv = ["ibv_ud_pingpong", "-g", "0", *args]
        for out in programs.meet(ends, argv, [*argv, "127.0.0.1"], programs.on_host(18515)):
            assert "300 iters in" in out, out
    for d, was in zip(ends, before):
        now = d.telemetry("/rnic/counters")
        assert all(now[k] - was[k] == 600 for k in ("ud_in", "ud_out")), (was, now)
    programs.udaddy(ends)
    programs.perftest(ends, False, [("ib_send_lat", "-n 100 -c UD")], SAME)


def dapl(link):
    ends = two(link, "iwarp")
    programs.dtest(ends)
    programs.dtestcm(ends)
    programs.dapltest(ends)


def libfabric(link):
    ends = two(link, "iwarp")
    programs.fi_pingpong(ends, "verbs", "msg")
    programs.fi_pingpong(ends, "verbs;ofi_rxm", "rdm")


def ucx(link):
    ends = two(link, "roce")
    programs.ucx_rc(ends, SAME)
    programs.ucx(ends, "-t", "tag_bw", "-s", "100000", "-n", "50", "-w", "5", devices=SAME, UCX_TLS="rc_v,ud_v,self")


def openmpi(link):
    for ranks in (2, 4):
        programs.openmpi_over_libfabric(two(link, "iwarp"), ranks)


def mpich(link):
    for ranks in (2, 4):
        programs.mpich(two(link, "roce"), ranks, UCX_TLS="rc_v,ud_v,self")


def over(link, f):
    def run():
        f(link)
    run.__name__ = f"{f.__name__}_over_{link}"
    case(run)


def what_was_left_behind(link):
    for personality in ("iwarp", "roce"):
        for d in world.get((link, personality), ()):
            nothing_is_left(d)
            d.end()
            d.close()


for each in ("memif", "veth"):
    for part in (tools, pingpongs, perftest, datagrams, qperf, dapl, libfabric, ucx, openmpi, mpich,
                 what_was_left_behind):
        over(each, part)
sys.exit(main())
