#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Programs that stand on something on top of verbs, as the distribution has them: rsockets, uDAPL, libfabric, MPI."""
import glob
import hashlib
import os
import re
import subprocess
import sys
import time

from rig import RNICRUN, Daemon, Skip, case, main, need, pair_conf

ADDR = "10.77.0.1"
NS = f"rnicapps{os.getpid()}"
REFUSED = re.compile(r"refused|rejected|could ?n.t connect|could not connect|connect error", re.I)


def run(d, *argv, netns=None, **env):
    need(argv[0])
    return d.run(*(["ip", "netns", "exec", netns] if netns else []), RNICRUN, *argv, RNIC_REG_VERBOSE="0", **env)


def pair(d, server, client, quits=True, **how):
    """
    Runs both and returns the client's output, the server's when it ends by itself. Servers do not say in time that they
    listen, so a client that was refused comes again.
    """
    s = run(d, *server, **how)
    for _ in range(60):
        time.sleep(0.3)
        c = run(d, *client, **how)
        rc = c.wait()
        if rc == 0:
            return c.stdout(), s.ok() if quits else s.stop()
        assert REFUSED.search(c.stdout() + c.stderr()), c.tail() + s.tail()
        assert s.p.poll() is None, s.tail()
    raise AssertionError(f"refused for good\n{c.tail()}\n{s.tail()}")


class HostNames:
    """
    A network namespace whose kernel has the daemon's addresses too, as that of a machine with a NIC has them: some programs
    talk over ordinary sockets first, and libfabric looks for a device at each of the machine's addresses.
    """

    def __enter__(self):
        for args in (["netns", "add", NS], ["-n", NS, "link", "add", "ra", "type", "veth", "peer", "name", "rb"],
                     ["-n", NS, "link", "set", "lo", "up"],
                     ["-n", NS, "addr", "add", "10.77.0.1/24", "dev", "ra"], ["-n", NS, "link", "set", "ra", "up"],
                     ["-n", NS, "addr", "add", "10.77.0.2/24", "dev", "rb"], ["-n", NS, "link", "set", "rb", "up"]):
            p = subprocess.run(["ip", *args], capture_output=True, text=True, check=False)
            if p.returncode != 0:
                self.__exit__()
                raise Skip(f"no network namespace of its own: {p.stderr.strip()}")
        return NS

    def __exit__(self, *_):
        subprocess.run(["ip", "netns", "del", NS], capture_output=True, check=False)


def random_file(path, size):
    data = hashlib.shake_256(b"rnic").digest(size)
    with open(path, "wb") as f:
        f.write(data)
    return data


@case
def rdma_xclient_and_xserver():
    with Daemon(pair_conf()) as d:
        assert "rdma_xclient: end 0" in pair(d, ["rdma_xserver"], ["rdma_xclient", "-s", ADDR])[0]


# ---- rsockets ----

@case
def rcopy():
    with Daemon(pair_conf()) as d:
        data = random_file(d.dir + "/from", 20000003)
        out, _ = pair(d, ["rcopy"], ["rcopy", d.dir + "/from", f"{ADDR}:{d.dir}/to"], quits=False)
        assert "20000003 bytes" in out, out
        with open(d.dir + "/to", "rb") as f:
            assert f.read() == data, "the copy differs"


def stream(d, program, *args):
    """One test of rstream or riostream with its data verified."""
    argv = [program, "-T", "v", *args]
    out, back = pair(d, [*argv, "-b", ADDR], [*argv, "-s", ADDR])
    assert "custom" in out and "custom" in back and "mismatch" not in out + back, out + back


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
    """As it runs without options: ping-pong and streams of 64 B to 1 MiB, a quarter of a million messages."""
    need("rstream")
    with Daemon(pair_conf()) as d:
        server, client = ["rstream", "-b", ADDR], ["rstream", "-s", ADDR]
        for _ in range(60):
            s = run(d, *server)
            time.sleep(0.3)
            c = run(d, *client)
            if c.wait(280) == 0:
                break
            s.stop()
            assert REFUSED.search(c.stdout() + c.stderr()), c.tail() + s.tail()
        s.ok()
        rows = re.findall(r"^(\w+_(?:lat|bw)) .*\d\.\d", c.stdout(), re.M)
        assert rows == [f"{size}_{what}" for what in ("lat", "bw") for size in ("64", "4k", "64k", "1m")], c.tail()


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
    with Daemon(pair_conf()) as d:
        data = random_file(d.dir + "/from", 4000000)
        pre = ["env", "-u", "X", "sh", "-c", f'LD_PRELOAD="$LD_PRELOAD {preload[0]}" exec "$@"', "sh"]
        need("iperf3")
        # The client ends the run when all the bytes that -n names are there; as the receiver (-R) it waits for the file's
        # last byte. A client that sends would end the run when it has sent, wherever the receiver is. The buffers (-w)
        # have room for the whole file: iperf3 loses what a send left over.
        out, _ = pair(d, [*pre, "iperf3", "-s", "-1", "-B", ADDR, "-F", d.dir + "/from"],
                      [*pre, "iperf3", "-c", ADDR, "-R", "-n", str(len(data)), "-w", "8M", "-F", d.dir + "/to"])
        assert "iperf Done" in out, out
        with open(d.dir + "/to", "rb") as f:
            got = f.read()
        assert got == data, f"{len(got)} bytes of {len(data)}, {'a beginning' if data.startswith(got) else 'not those'} of the file"


@case
def datagram_rsockets_are_refused_in_words():
    with Daemon(pair_conf()) as d:
        p = run(d, "udpong", "-s", ADDR)
        assert p.wait() != 0 and "Socket type not supported" in p.stderr(), p.tail()


# ---- uDAPL ----

def dat(d):
    """The stock registry's configuration, with an entry for each device."""
    path = d.dir + "/dat.conf"
    with open(path, "w", encoding="utf-8") as f:
        for name, addr in (("rnic-a", ADDR), ("rnic-b", "10.77.0.2")):
            f.write(f'{name} u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "{addr} 0" ""\n')
    return {"DAT_OVERRIDE": path}


@case
def dtest():
    need("dtest")
    with Daemon(pair_conf()) as d, HostNames() as ns:
        for how in ([], ["-c"], ["-p"]):
            args = ["-b", "8192", "-B", "50", *how]
            out, back = pair(d, ["dtest", "-P", "rnic-a", "-s", *args], ["dtest", "-P", "rnic-b", "-h", ADDR, *args],
                             netns=ns, **dat(d))
            for text, peer in ((out, "server"), (back, "client")):
                # What it reads it may read before the peer has put it there: a race of its own.
                assert "PASSED" in text and f"RDMA write buffer contains: {peer} RDMA write data" in text, out + back
                assert "RDMA read buffer contains: " in text, out + back


@case
def dapltest():
    need("dapltest")
    with Daemon(pair_conf()) as d:
        env = dat(d)
        s = run(d, "dapltest", "-T", "S", "-D", "rnic-a", **env)
        s.wait_line("Service Point Ready")
        ask = ["-s", ADDR, "-D", "rnic-b"]
        out = run(d, "dapltest", "-T", "T", *ask, "-i", "50", "-t", "2", "-w", "2", "-V", "client", "SR", "256", "server", "SR",
                  "256", "client", "RW", "4096", "server", "RW", "4096", "client", "RR", "1000", "server", "RR", "1000",
                  **env).ok()
        assert "End of Work" in out and "Total WQE" in out, out
        out = run(d, "dapltest", "-T", "P", *ask, "-i", "200", "RW", "4096", "2", **env).ok()
        assert "Operation Throughput" in out, out
        run(d, "dapltest", "-T", "Q", *ask, **env).ok()
        s.ok()


# ---- libfabric ----

def pingpong(provider, endpoint):
    need("fi_pingpong")
    with Daemon(pair_conf()) as d, HostNames() as ns:
        argv = ["fi_pingpong", "-p", provider, "-e", endpoint, "-c"]
        out, back = pair(d, argv, [*argv, ADDR], netns=ns)
        for text in (out, back):
            assert re.search(r"^1m\s+10\s+=10\s", text, re.M), out + back


@case
def fi_pingpong_messages():
    pingpong("verbs", "msg")


@case
def fi_pingpong_reliable_datagrams_over_connections():
    pingpong("verbs;ofi_rxm", "rdm")


@case
def fi_pingpong_unreliable_datagrams():
    """For adapters only. With libfabric's memory monitor, which hears of what the program maps and unmaps."""
    need("fi_pingpong")
    with Daemon(pair_conf(both="personality = roce")) as d, HostNames() as ns:
        argv = ["fi_pingpong", "-p", "verbs", "-e", "dgram", "-c"]
        out, back = pair(d, argv, [*argv, ADDR], netns=ns)
        for text in (out, back):
            assert re.search(r"^1k\s+10\s+=10\s", text, re.M), out + back


# ---- MPI ----

@case
def openmpi():
    need("mpicc.openmpi")
    with Daemon(pair_conf()) as d, HostNames() as ns:
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpi_cases.c")
        subprocess.run(["mpicc.openmpi", "-O2", "-o", d.dir + "/mpi", source], check=True)
        for ranks in ("2", "4"):
            out = run(d, "mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", ranks, "--mca", "btl", "self", "--mca",
                      "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "verbs;ofi_rxm", d.dir + "/mpi",
                      netns=ns).ok(120)
            for name in ("ring", "all_to_all", "stencil"):
                assert f"ok {name} of {ranks} ranks" in out.splitlines(), out


@case
def openmpi_over_ucx():
    need("mpicc.openmpi")
    with Daemon(pair_conf(both="personality = roce")) as d, HostNames() as ns:
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpi_cases.c")
        subprocess.run(["mpicc.openmpi", "-O2", "-o", d.dir + "/mpi", source], check=True)
        for ranks in ("2", "4"):
            out = run(d, "mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", ranks, "--mca", "btl", "self", "--mca",
                      "pml", "ucx", "-x", "UCX_TLS=rc_v,ud_v,self", d.dir + "/mpi", netns=ns).ok(120)
            for name in ("ring", "all_to_all", "stencil"):
                assert f"ok {name} of {ranks} ranks" in out.splitlines(), out
            assert d.telemetry("/rnic/counters")["ud_in"] > 0


sys.exit(main())
