#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The distribution's own programs between two daemons, as between two machines: over memif (iWARP devices) and over a veth
pair (RoCE adapters). What they tell each other by sockets goes over the loopback of a network namespace of our own.
"""
import hashlib
import os
import re
import subprocess
import sys
import time

import wire
from rig import PATIENCE, RNICRUN, Daemon, Skip, case, main, need

A, B = "10.79.0.1", "10.79.0.2"
REFUSED = re.compile(r"refused|rejected|CM event|could ?n.t connect|could not connect|connect error|unable to connect|_UNREACHABLE",
                     re.I)
world = {}


def conf(device, addr, personality):
    return f"[rnicd]\nsocket = {{dir}}/rnicd.sock\nhugepages = auto\n[port p]\ndevice = {device}\naddress = {addr}/24\n" \
           f"personality = {personality}\n"


def two(link):
    """Both daemons of a link; the same for all of its cases."""
    if "error" in world:
        raise Skip(world["error"])
    if not world:
        try:
            wire.own_network()
        except Skip as s:
            world["error"] = str(s)
            raise
        world["net"] = True
    if link == "memif" and link not in world:
        options = "id=0,bsize=16384,socket-abstract=no,socket="
        a = Daemon(conf("memif:role=server," + options + "{dir}/memif.sock", A, "iwarp"))
        b = Daemon(conf("memif:role=client," + options + a.dir + "/memif.sock", B, "iwarp"))
        world[link] = (a, b)
    if link == "veth" and link not in world:
        wire.run("ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1")
        for dev in ("v0", "v1"):
            wire.run("ip", "link", "set", dev, "up")
        world[link] = tuple(Daemon(conf(f"af_packet:{d}", a, "roce")) for d, a in (("v0", A), ("v1", B)))
    return world[link]


def listens(port):
    with open("/proc/net/tcp", encoding="ascii") as v4, open("/proc/net/tcp6", encoding="ascii") as v6:
        return any(re.search(rf":{port:04X} [0-9A-F]+:0000 0A ", line) for line in list(v4) + list(v6))


def pair(link, server, client, port=0, quits=True):
    """Both ends' output. port: of the host's, at which the server listens; 0: it does not say when it does."""
    need(server[0])
    a, b = two(link)
    for _ in range(20):
        s = a.run(RNICRUN, *server, RNIC_REG_VERBOSE="0")
        end = time.monotonic() + PATIENCE
        while port and not listens(port):
            assert s.p.poll() is None and time.monotonic() < end, s.tail()
            time.sleep(0.02)
        time.sleep(0 if port else 0.3)
        c = b.run(RNICRUN, *client, RNIC_REG_VERBOSE="0")
        if c.wait() == 0:
            break
        assert not port and REFUSED.search(c.stdout() + c.stderr()), c.tail() + s.tail()
        s.stop()
    assert c.p.returncode == 0, c.tail() + s.tail()
    if quits:
        s.ok()
    else:
        s.stop()
    return c.stdout(), s.stdout()


def perftest(link, name, *args):
    managed = "-R" in args
    out, _ = pair(link, [name, *args], [name, *args, A if managed else "127.0.0.1"], 0 if managed else 18515)
    assert re.search(r"^\s*\d+\s+\d+\s+[\d.]+\s+[\d.]+", out, re.M), out


def managed(link):
    out, _ = pair(link, ["rping", "-s", "-a", A, "-C", "10", "-V"], ["rping", "-c", "-a", A, "-C", "10", "-V", "-v"])
    assert out.count("ping data:") == 10, out
    pair(link, ["ucmatose", "-b", A, "-c", "4"], ["ucmatose", "-s", A, "-c", "4"])
    assert "rdma_client: end 0" in pair(link, ["rdma_server"], ["rdma_client", "-s", A])[0]
    data = hashlib.shake_256(link.encode()).digest(3000001)
    path = two(link)[0].dir
    with open(path + "/from", "wb") as f:
        f.write(data)
    pair(link, ["rcopy"], ["rcopy", path + "/from", f"{A}:{path}/to"], quits=False)
    with open(path + "/to", "rb") as f:
        assert f.read() == data, "the copy differs"
    perftest(link, "ib_write_bw", "-R", "-n", "200")
    perftest(link, "ib_read_bw", "-R", "-n", "100", "-q", "8")
    perftest(link, "ib_send_lat", "-R", "-n", "100")


def unmanaged(link):
    for args in (["-c"], ["-c", "-e", "-s", "100000"]):
        for out in pair(link, ["ibv_rc_pingpong", "-g", "0", "-n", "100", *args],
                        ["ibv_rc_pingpong", "-g", "0", "-n", "100", *args, "127.0.0.1"], 18515):
            assert "100 iters in" in out and "invalid data" not in out, out
    perftest(link, "ib_write_bw", "-n", "100", "-b")
    perftest(link, "ib_read_bw", "-n", "100", "-q", "8", "-s", "8192")
    perftest(link, "ib_atomic_lat", "-n", "50")


def datagrams(link):
    before = [d.telemetry("/rnic/counters") for d in two(link)]
    for args in (["-n", "300"], ["-n", "300", "-e", "-s", "1"]):
        for out in pair(link, ["ibv_ud_pingpong", "-g", "0", *args], ["ibv_ud_pingpong", "-g", "0", *args, "127.0.0.1"], 18515):
            assert "300 iters in" in out, out
    for d, was in zip(two(link), before):
        now = d.telemetry("/rnic/counters")
        assert all(now[k] - was[k] == 600 for k in ("ud_in", "ud_out")), (was, now)
    for out in pair(link, ["udaddy", "-b", A, "-C", "20"], ["udaddy", "-b", B, "-s", A, "-C", "20"]):
        assert "data transfers complete" in out and "return status 0" in out, out
    perftest(link, "ib_send_lat", "-c", "UD", "-n", "100")


@case
def datagrams_over_memif():
    datagrams("memif")


@case
def datagrams_over_veth():
    datagrams("veth")


@case
def managed_over_memif():
    managed("memif")


@case
def unmanaged_over_memif():
    unmanaged("memif")


@case
def managed_over_veth():
    managed("veth")


@case
def unmanaged_over_veth():
    unmanaged("veth")
    perftest("veth", "ib_send_bw", "-n", "400", "-s", "4096", "--use-srq", "-q", "8", "-r", "16")


@case
def ucx_over_veth():
    for args in (["-t", "am_lat"], ["-t", "put_bw", "-s", "100000", "-D", "zcopy"], ["-t", "get", "-s", "65536", "-D", "zcopy"]):
        argv = ["ucx_perftest", "-x", "rc_verbs", "-d", "p:1", *args, "-n", "200", "-w", "20", "-f"]
        out, _ = pair("veth", argv, [*argv, "127.0.0.1"], 13337)
        assert re.search(r"^ +200 +[\d.]+", out, re.M), out


@case
def openmpi_over_memif():
    """Ranks 0 and 2 are the one daemon's, 1 and 3 the other's. libfabric looks for devices at the kernel's addresses."""
    need("mpicc.openmpi")
    a, b = two("memif")
    wire.run("ip", "link", "add", "ra", "type", "veth", "peer", "name", "rb")
    for dev, addr in (("ra", A), ("rb", B)):
        wire.run("ip", "addr", "add", f"{addr}/24", "dev", dev)
        wire.run("ip", "link", "set", dev, "up")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpi_cases.c")
    subprocess.run(["mpicc.openmpi", "-O2", "-o", a.dir + "/mpi", source], check=True)
    count = [d.telemetry("/rnic/counters")["clients_accepted"] for d in (a, b)]
    for ranks in (2, 4):
        parts = []
        for i in range(ranks):
            parts += [":"] * (i > 0) + ["-np", "1", "-x", "RNICD_SOCKET=" + (b if i & 1 else a).sock, a.dir + "/mpi"]
        out = a.run(RNICRUN, "mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self", "--mca", "pml", "cm",
                    "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "verbs;ofi_rxm", *parts, RNIC_REG_VERBOSE="0").ok(120)
        for name in ("ring", "all_to_all", "stencil"):
            assert f"ok {name} of {ranks} ranks" in out.splitlines(), out
    for d, n in zip((a, b), count):
        assert d.telemetry("/rnic/counters")["clients_accepted"] >= n + 3, "the ranks were not on both"


@case
def what_was_left_behind():
    for link in ("memif", "veth"):
        for d in world.get(link, ()):
            end = time.monotonic() + 20
            while time.monotonic() < end and any(d.telemetry(k) for k in ("/rnic/clients", "/rnic/qps")):
                time.sleep(0.1)
            assert not any(d.telemetry(k) for k in ("/rnic/clients", "/rnic/qps")), "something is left in the daemon"
            d.end()
            d.close()


sys.exit(main())
