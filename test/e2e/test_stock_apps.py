#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The distribution's programs of layers on top of verbs: rsockets, uDAPL, libfabric, MPI."""
import glob
import os
import re
import subprocess
import sys

import programs
from programs import A, meet, on_device, random_file
from rig import RNICRUN, Daemon, Skip, case, main, need, pair_conf


def run(d, *argv, **env):
    need(argv[0])
    return d.run(RNICRUN, *argv, RNIC_REG_VERBOSE="0", **env)


@case
def rdma_xclient_and_xserver():
    with Daemon(pair_conf()) as d:
        assert "rdma_xclient: end 0" in meet((d, d), ["rdma_xserver"], ["rdma_xclient", "-s", A], on_device(7471))[0]
        p = run(d, "rdma_xserver", "-c", "x")  # a service of InfiniBand's connection manager
        assert p.wait() != 0 and "rdma_xserver: end -1" in p.stdout(), p.tail()


# ---- rsockets ----

@case
def rcopy():
    with Daemon(pair_conf()) as d:
        programs.rcopy((d, d), 20000003)


def stream(d, program, *args):
    programs.stream((d, d), program, *args)


@case
def rstream():
    with Daemon(pair_conf()) as d:
        for size in ("64", "4099", "300000"):
            for mode in ("b", "n", "a"):
                stream(d, "rstream", "-T", mode, "-S", size, "-C", "20", "-I", "20")
        stream(d, "rstream", "-T", "r", "-S", "1000", "-C", "50", "-I", "20", "-k", "30")
        stream(d, "rstream", "-S", "1000000", "-C", "4", "-I", "4", "-B", "20000", "-i", "480")
        stream(d, "rstream", "-S", "200", "-C", "50", "-I", "20", "-i", "0")


@case
def rstreams_own_sweep():
    """Without options: ping-pong and streams of 64 B to 1 MiB, 250,000 messages."""
    with Daemon(pair_conf()) as d:
        out, _ = meet((d, d), ["rstream", "-b", A], ["rstream", "-s", A], on_device(7471), patience=600)
        rows = re.findall(r"^(\w+_(?:lat|bw)) .*\d\.\d", out, re.M)
        assert rows == [f"{size}_{what}" for what in ("lat", "bw") for size in ("64", "4k", "64k", "1m")], out


@case
def riostream():
    with Daemon(pair_conf()) as d:
        for mode in ("b", "n", "a"):
            stream(d, "riostream", "-T", mode, "-S", "40000", "-C", "1", "-I", "20")


@case
def a_tcp_program_through_librspreload():
    preload = glob.glob("/usr/lib/*/rsocket/librspreload.so")
    if not preload:
        raise Skip("librspreload.so (librdmacm1) is not installed")
    need("nm")
    calls = subprocess.run(["nm", "-D", "--defined-only", preload[0]], check=True, capture_output=True, text=True).stdout
    assert not re.search(r" (epoll_\w+|accept4)\b", calls), "librspreload.so has epoll now: correct doc/programs.md"
    with Daemon(pair_conf()) as d:
        data = random_file(d.dir + "/from", 4000000)
        need("iperf3")
        # iperf3's client decides when the run ends: at the -n bytes. With -R the client receives, and so waits for the
        # file's last byte; without it the client would end once it had sent, whatever the server had received. The
        # buffers (-w) take the whole file, because iperf3 loses the rest of a partial send.
        out, _ = meet((d, d), ["iperf3", "-s", "-1", "-B", A, "-F", d.dir + "/from"],
                      ["iperf3", "-c", A, "-R", "-n", str(len(data)), "-w", "8M", "-F", d.dir + "/to"], on_device(5201),
                      LD_PRELOAD=preload[0])
        assert "iperf Done" in out, out
        with open(d.dir + "/to", "rb") as f:
            got = f.read()
        what = "the beginning" if data.startswith(got) else "not the bytes"
        assert got == data, f"{len(got)} of {len(data)} bytes arrived, {what} of the file"


@case
def datagram_rsockets_are_refused_in_words():
    with Daemon(pair_conf()) as d:
        p = run(d, "udpong", "-s", A)
        assert p.wait() != 0 and "Socket type not supported" in p.stderr(), p.tail()


# ---- uDAPL ----

@case
def dtest():
    programs.own_network()
    with Daemon(pair_conf()) as d:
        programs.dtest((d, d))


@case
def dapltest():
    with Daemon(pair_conf()) as d:
        programs.dapltest((d, d))


# ---- libfabric ----

def pingpong(provider, endpoint, largest="1m", **how):
    programs.own_network()
    with Daemon(pair_conf(**how)) as d:
        programs.fi_pingpong((d, d), provider, endpoint, largest)


@case
def fi_pingpong_messages():
    pingpong("verbs", "msg")


@case
def fi_pingpong_reliable_datagrams_over_connections():
    pingpong("verbs;ofi_rxm", "rdm")


@case
def fi_pingpong_unreliable_datagrams():
    """Adapters only. libfabric's memory monitor is on: it follows what the program maps and unmaps."""
    pingpong("verbs", "dgram", "1k", both="personality = roce")


# ---- MPI ----

@case
def openmpi():
    need("mpicc.openmpi")
    programs.own_network()
    with Daemon(pair_conf()) as d:
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpi_cases.c")
        subprocess.run(["mpicc.openmpi", "-O2", "-o", d.dir + "/mpi", source], check=True)
        for ranks in ("2", "4"):
            out = run(d, "mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", ranks, "--mca", "btl", "self", "--mca",
                      "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "verbs;ofi_rxm", d.dir + "/mpi").ok(600)
            for name in ("ring", "all_to_all", "stencil"):
                assert f"ok {name} of {ranks} ranks" in out.splitlines(), out


@case
def openmpi_over_ucx():
    need("mpicc.openmpi")
    programs.own_network()
    with Daemon(pair_conf(both="personality = roce")) as d:
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpi_cases.c")
        subprocess.run(["mpicc.openmpi", "-O2", "-o", d.dir + "/mpi", source], check=True)
        for ranks in ("2", "4"):
            out = run(d, "mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", ranks, "--mca", "btl", "self", "--mca",
                      "pml", "ucx", "-x", "UCX_TLS=rc_v,ud_v,self", d.dir + "/mpi").ok(600)
            for name in ("ring", "all_to_all", "stencil"):
                assert f"ok {name} of {ranks} ranks" in out.splitlines(), out
            assert d.telemetry("/rnic/counters")["ud_in"] > 0


sys.exit(main())
