#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
A program writes to memory while that memory is read by RDMA, written by RDMA and sent, over each kind of port, with and
without loss, and in each design: no operation fails, and no CRC is wrong. RNIC_CHANGING=SECONDS sets how long each case
runs.
"""
import contextlib
import os
import re
import subprocess
import sys

import programs
from host_rig import Host
from rig import PATIENCE, Daemon, Skip, case, helper, main, need, pair_conf

SECONDS = os.environ.get("RNIC_CHANGING", "1")
OURS, FAR = "10.79.0.2", "10.79.0.3"
LOSSY = "loss = 0.5%\nreorder = 0.5%\nseed = 5"


def conf(device, address, mtu, extra):
    return f"""
[rnicd]
socket = {{dir}}/rnicd.sock
hugepages = no
[port a]
device = {device}
address = {address}/24
mtu = {mtu}
{extra}
"""


@contextlib.contextmanager
def veth(mtu):
    need("ip")
    if os.geteuid() != 0:
        raise Skip("needs root for a network namespace")
    ns = f"rnic-{os.getpid()}"
    ip = ("ip", "-n", ns, "link")
    subprocess.run(("ip", "netns", "add", ns), check=True)
    try:
        subprocess.run((*ip, "add", "v0", "type", "veth", "peer", "name", "v1"), check=True)
        for dev in ("v0", "v1"):
            subprocess.run((*ip, "set", dev, "mtu", str(mtu), "up"), check=True)
        yield ns
    finally:
        subprocess.run(("ip", "netns", "del", ns), check=False)


def changing(server, client, addr, designs=("offloaded", "offloaded")):
    s = server.run(helper("changing"), "-s", addr, RNIC_DESIGN=designs[0])
    s.wait_line("listening")
    c = client.run(helper("changing"), addr, SECONDS, RNIC_DESIGN=designs[1])
    daemons = [d for d in (server, client) if isinstance(d, Daemon)]
    try:
        out = c.ok(timeout=float(SECONDS) + PATIENCE)
    except AssertionError as e:
        raise AssertionError("\n".join([str(e), s.tail(), *(d.tail() for d in daemons)])) from e
    assert int(re.search(r"done (\d+)", out)[1]) >= 1000, out
    s.ok()
    for d in daemons:
        counters = d.telemetry("/rnic/counters")
        assert counters["crc_errors"] == 0 and counters["terms_sent"] == 0, counters


def over_pair(extra, designs=("offloaded", "offloaded")):
    for mtu in (1500, 9000):
        with Daemon(pair_conf(mtu=mtu, both=extra)) as d:
            changing(d, d, "10.77.0.1", designs)


def over_memif(extra):
    for mtu in (1500, 9000):
        device = "memif:role={},id=0,bsize=16384,socket-abstract=no,socket={}/memif.sock"
        with Daemon(conf(device.format("server", "{dir}"), OURS, mtu, extra)) as server:
            with Daemon(conf(device.format("client", server.dir), FAR, mtu, extra)) as client:
                changing(server, client, OURS)


def over_veth(extra):
    for mtu in (1500, 9000):
        with veth(mtu) as ns:
            a, b = (conf(f"af_packet:{dev}", addr, mtu, extra) for dev, addr in (("v0", OURS), ("v1", FAR)))
            with Daemon(a, netns=ns) as server, Daemon(b, netns=ns) as client:
                changing(server, client, OURS)


@case
def changing_memory_over_a_wired_pair():
    over_pair("")


@case
def changing_memory_over_a_lossy_wired_pair():
    over_pair(LOSSY)


@case
def changing_memory_over_a_wired_pair_with_markers():
    over_pair(LOSSY + "\nmarkers = on")


@case
def changing_memory_over_a_wired_pair_that_sums():
    over_pair("crc = always")


@case
def changing_memory_over_a_lossy_wired_pair_that_sums():
    over_pair("crc = always\n" + LOSSY)


@case
def changing_memory_past_a_box_that_cuts_and_loses():
    over_pair("crc = always\nresegment = random\n" + LOSSY)


@case
def changing_memory_over_memif():
    over_memif("")


@case
def changing_memory_over_lossy_memif():
    over_memif(LOSSY)


@case
def changing_memory_over_af_packet():
    over_veth("")


@case
def changing_memory_over_lossy_af_packet():
    over_veth(LOSSY)


@case
def changing_memory_in_design_host():
    over_pair("crc = always\n" + LOSSY, ("host", "host"))


@case
def changing_memory_in_design_assisted():
    over_pair("crc = always\n" + LOSSY, ("assisted", "assisted"))


@case
def changing_memory_between_designs():
    over_pair("crc = always\n" + LOSSY, ("host", "offloaded"))
    over_pair("crc = always\n" + LOSSY, ("offloaded", "assisted"))


@case
def changing_memory_in_embedded_programs():
    with Host() as h:
        changing(h, h, programs.A, ("embedded", "embedded"))


if __name__ == "__main__":
    sys.exit(main())
