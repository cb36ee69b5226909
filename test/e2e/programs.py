# SPDX-License-Identifier: BSD-3-Clause
"""
The distribution's own programs, each as a function of two daemons, which may be one: the server is at 10.77.0.1 of the
first, the client at 10.77.0.2 of the second. Data is verified where the program can.
"""
import hashlib
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import wire
from rig import PATIENCE, RNICRUN, Foreign, Skip, host_ports, need, repeating, until

A, B = "10.77.0.1", "10.77.0.2"
ON_A, ON_B = ("-d", "a"), ("-d", "b")
# with two daemons both devices are called a, because UCX needs equal device names
APART, SAME = (ON_A, ON_B), (ON_A, ON_A)
REFUSED = re.compile(r"refused|rejected|CM event|could ?n.t connect|could not connect|connect error|unable to connect|"
                     r"_UNREACHABLE", re.I)
MPI = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpi_cases.c")
network = {}


def own_network():
    """
    Makes, at the first call only, a network namespace whose kernel has both addresses too, as on a machine with a NIC.
    Some programs talk over ordinary sockets first, and libfabric looks for a device at each of the machine's addresses.
    """
    if "error" in network:
        raise Skip(network["error"])
    if network:
        return
    try:
        wire.own_network()
    except Skip as s:
        network["error"] = str(s)
        raise
    network["is"] = True
    wire.run("ip", "link", "add", "ra", "type", "veth", "peer", "name", "rb")
    for dev, addr in (("ra", A), ("rb", B)):
        wire.run("ip", "addr", "add", f"{addr}/24", "dev", dev)
        wire.run("ip", "link", "set", dev, "up")


def on_host(port):
    """Returns a function that tells whether a program listens at a port of the host."""
    return lambda _: port in host_ports()


def on_device(port):
    """Returns a function that tells whether a program listens at a port of the daemon's devices."""
    return lambda d: any(line.endswith(f" {port}") for line in d.telemetry("/rnic/listeners"))


def race(server, client):
    """Says which of perftest's own races made the run fail, in words with the evidence; "" when none did."""
    if "Correlation coefficient" in server.stderr() + client.stderr():
        return "perftest could not measure its CPU's clock (Correlation coefficient): other programs had the CPU"
    managed_perftest = "-R" in client.argv and any(a.startswith("ib_") for a in client.argv)
    if managed_perftest and REFUSED.search(client.stdout() + client.stderr()):
        return "perftest's server did not listen again yet, and perftest's client gives up when it is refused"
    return ""


def meet(ends, server, client, up, quits=True, patience=PATIENCE, **env):
    """
    Runs a server and a client and returns the output of both. The server ends by itself, or is ended (quits).
    up(daemon) tells whether the server listens. Both programs run again when one of perftest's two own races makes the
    run fail. First: perftest's server listens twice, and a client that is refused in between tries again with an id
    that the client has freed. Second: perftest cannot measure the clock of a CPU that other processes use.
    """
    need(server[0])

    def once():
        s = ends[0].run(RNICRUN, *server, RNIC_REG_VERBOSE="0", **env)
        until(lambda: s.p.poll() is not None or up(ends[0]), s.tail)
        assert s.p.poll() is None, s.tail()
        c = ends[1].run(RNICRUN, *client, RNIC_REG_VERBOSE="0", **env)
        good = c.wait(patience) == 0
        if good and quits:
            good = s.wait(patience) == 0
        else:
            s.stop()
        if not good and race(s, c):
            raise Foreign(race(s, c))
        assert good, c.tail() + s.tail()
        return c.stdout(), s.stdout()

    return repeating(once, " ".join(client))


def side_by_side(jobs, lanes=3):
    """Runs functions, a few at a time; raises what the first failed one raised."""
    with ThreadPoolExecutor(lanes) as pool:
        for result in [pool.submit(job) for job in jobs]:
            result.result()


# ---- through the connection manager ----

def rping(ends):
    args = ["-a", A, "-C", "10", "-V", "-v"]
    out, _ = meet(ends, ["rping", "-s", *args], ["rping", "-c", *args], on_device(7174))
    assert out.count("ping data:") == 10, out


def cm_tools(ends):
    for args in ([], ["-m"], ["-c", "8", "-C", "50"]):
        meet(ends, ["ucmatose", "-b", A, *args], ["ucmatose", "-s", A, *args], on_device(7471))
    assert "rdma_client: end 0" in meet(ends, ["rdma_server"], ["rdma_client", "-s", A], on_device(7471))[0]
    assert "rdma_xclient: end 0" in meet(ends, ["rdma_xserver"], ["rdma_xclient", "-s", A], on_device(7471))[0]
    out = meet(ends, ["cmtime", "-b", A], ["cmtime", "-s", A, "-c", "20"], on_device(7471), quits=False)[0]
    assert "disconnect" in out, out


def udaddy(ends, server=A, client=B):
    """udaddy's server does not say when it is ready. A client whose request comes too early is refused with UNREACHABLE
    and is started again."""
    need("udaddy")
    by_line = ["stdbuf", "-oL"]  # so that a program that hangs has told how far it has come
    s = ends[0].run(RNICRUN, *by_line, "udaddy", "-b", server, "-C", "20")
    told = []

    def served():
        c = ends[1].run(RNICRUN, *by_line, "udaddy", "-b", client, "-s", server, "-C", "20")
        early = c.wait() != 0 and "UNREACHABLE, error: 1" in c.stdout()
        assert early or c.wait() == 0, c.tail() + s.tail()
        told.append(c.stdout())
        return not early

    until(served, s.tail)
    for out in (told[-1], s.ok()):
        assert "data transfers complete" in out and "return status 0" in out, out


def random_file(path, size):
    data = hashlib.shake_256(b"rnic").digest(size)
    with open(path, "wb") as f:
        f.write(data)
    return data


def rcopy(ends, size=3000001):
    path = ends[0].dir
    data = random_file(path + "/from", size)
    out, _ = meet(ends, ["rcopy"], ["rcopy", path + "/from", f"{A}:{path}/to"], on_device(7427), quits=False)
    assert f"{size} bytes" in out, out
    with open(path + "/to", "rb") as f:
        assert f.read() == data, "the copy differs"


def stream(ends, program, *args):
    """One test of rstream or riostream with its data verified."""
    argv = [program, "-T", "v", *args]
    out, back = meet(ends, [*argv, "-b", A], [*argv, "-s", A], on_device(7471))
    assert "custom" in out and "custom" in back and "mismatch" not in out + back, out + back


# ---- perftest: each program with each option that it has ----

PERFTEST = (
    ("ib_write_bw", "-n 50 -s 8"), ("ib_write_bw", "-n 5 -s 8388608"), ("ib_write_bw", "-n 50 -q 8 -b -s 8192"),
    ("ib_write_bw", "-n 200 -q 8 -I 60 -s 60"),
    ("ib_write_lat", "-n 50 -s 8"), ("ib_write_lat", "-n 5 -s 8388608"), ("ib_write_lat", "-n 50 -I 60"),
    ("ib_read_bw", "-n 50 -s 8"), ("ib_read_bw", "-n 5 -s 8388608"), ("ib_read_bw", "-n 50 -q 8 -b -s 8192"),
    ("ib_read_bw", "-n 500 -e"),
    ("ib_read_lat", "-n 50 -s 8"), ("ib_read_lat", "-n 5 -s 8388608"), ("ib_read_lat", "-n 50 -e"),
    ("ib_send_bw", "-n 50 -s 8"), ("ib_send_bw", "-n 5 -s 8388608"), ("ib_send_bw", "-n 50 -q 8 -b -s 8192"),
    ("ib_send_bw", "-n 200 -I 60 -s 60"),
    ("ib_send_bw", "-n 400 --use-srq -r 512"),
    ("ib_send_lat", "-n 50 -s 8"), ("ib_send_lat", "-n 5 -s 8388608"), ("ib_send_lat", "-n 50 -e"),
    ("ib_send_lat", "-n 50 -I 60"), ("ib_send_lat", "-n 50 --use-srq -r 512"),
    ("ib_atomic_bw", "-n 50 -q 8 -b"), ("ib_atomic_bw", "-n 200 -e"),
    ("ib_atomic_bw", "-n 50 -A CMP_AND_SWAP -q 8 -o 8"), ("ib_atomic_lat", "-n 50"), ("ib_atomic_lat", "-n 50 -e"))


# Over iWARP perftest's sender waits for credits, which are written into its memory without a completion. With -e the
# sender sleeps until a completion comes, so it may sleep forever with one message left, as perftest cuts -r, the number
# of receives, to -n. (Seen: 499 of 500 messages sent, both ends in ibv_get_cq_event.) On an adapter the sender uses no
# credits.
ADAPTERS_ONLY = (("ib_send_bw", "-n 500 -e"),)


def figures(out, sizes=1):
    """
    Asserts that perftest has printed a line of figures for each size, which it does when all its messages have arrived.
    On a busy machine perftest cannot measure its CPU's clock at times; then its figures are no numbers, and without -F
    a bandwidth program ends with an error.
    """
    rows = re.findall(r"^\s*\d+\s+\d+\s+(?:[\d.]+|inf|-?nan)\s+(?:[\d.]+|inf|-?nan)", out, re.M)
    assert len(rows) == sizes, f"{len(rows)} lines of figures, {sizes} expected:\n{out}"


def perftest(ends, managed, table=PERFTEST, devices=APART, **env):
    """Runs each row of the table. managed: the programs connect by rdma_cm (perftest's -R)."""
    def job(port, name, args):
        argv = [name, "-F", *args.split(), "-p", str(port)]
        if managed:
            out, _ = meet(ends, [*argv, "-R"], [*argv, "-R", A], on_device(port), **env)
        else:
            out, _ = meet(ends, [*argv, *devices[0]], [*argv, *devices[1], "127.0.0.1"], on_host(port), **env)
        figures(out, 23 if "-a" in argv else 1)

    side_by_side([lambda i=i, row=row: job(18600 + i, *row) for i, row in enumerate(table)])


# ---- without a connection manager ----

def pingpongs(ends, devices=APART):
    for kind, args in (("rc", "-c"), ("rc", "-c -e -s 100000"), ("rc", "-c -N"), ("rc", "-t"), ("rc", "-c -g 1"),
                       ("uc", "-c"), ("uc", "-c -e"), ("ud", "-c -s 1000 -g 1"), ("srq", "-c"), ("srq", "-c -e -q 4"), ("ud", "-c -s 1000"), ("ud", "-c -e -s 1000")):
        argv = [f"ibv_{kind}_pingpong", "-g", "0", "-n", "100", *args.split()]
        for out in meet(ends, [*argv, *devices[0]], [*argv, *devices[1], "127.0.0.1"], on_host(18515)):
            assert re.search(r"^\d+ iters in", out, re.M) and "invalid data" not in out, out


def qperf(lists):
    """
    Runs qperf for each (ends, tests) in the list, side by side, as each test lasts a second. The tests called ver_
    verify each value. Without -cm1 qperf tells its peer no GID, so the peer is found on the same daemon only.
    """
    def job(port, ends, tests):
        argv = ["qperf", "-lp", str(port)]
        out, _ = meet(ends, argv, [*argv, A, "-t", "1", *tests], on_host(port), quits=False)
        wanted = sum(t[0] != "-" for t in tests)
        assert len(re.findall(r"^ +(latency|bw|send_bw|msg_rate) ", out, re.M)) == wanted, out

    side_by_side([lambda i=i, row=row: job(19765 + i, *row) for i, row in enumerate(lists)], len(lists))


# ---- uDAPL ----

def dat(ends):
    """For each end the command prefix that selects uDAPL's registry: the stock configuration with an entry for the
    end's device."""
    prefixes = []
    for d, addr in zip(ends, (A, B)):
        path = f"{d.dir}/dat-{addr}.conf"
        with open(path, "w", encoding="utf-8") as f:
            f.write(f'rnic u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "{addr} 0" ""\n')
        prefixes.append(["env", f"DAT_OVERRIDE={path}"])
    return prefixes


def dtest(ends):
    need("dtest")
    for how in ([], ["-c"], ["-p"]):
        server, client = ([*prefix, "dtest", "-P", "rnic", "-b", "8192", "-B", "50", *how] for prefix in dat(ends))
        out, back = meet(ends, [*server, "-s"], [*client, "-h", A], on_host(15828))
        for text, peer in ((out, "server"), (back, "client")):
            # The content of the RDMA Read is not compared: dtest may read before the peer has written, a race of its
            # own.
            assert "PASSED" in text and f"RDMA write buffer contains: {peer} RDMA write data" in text, out + back
            assert "RDMA read buffer contains: " in text, out + back


def dtestcm(ends):
    need("dtestcm")
    server, client = ([*prefix, "dtestcm", "-P", "rnic", "-c", "50"] for prefix in dat(ends))
    for text in meet(ends, [*server, "-s"], [*client, "-h", A], on_device(45248)):
        assert "ALL 50 CONNECTED" in text, text


def dapltest(ends):
    need("dapltest")
    server, client = dat(ends)
    s = ends[0].run(RNICRUN, *server, "dapltest", "-T", "S", "-D", "rnic")
    s.wait_line("Service Point Ready")

    def ask(kind, *args):
        return ends[1].run(RNICRUN, *client, "dapltest", "-T", kind, "-s", A, "-D", "rnic", *args).ok()

    work = "client SR 256 server SR 256 client RW 4096 server RW 4096 client RR 1000 server RR 1000"
    out = ask("T", "-i", "50", "-t", "2", "-w", "2", "-V", *work.split())
    assert "End of Work" in out and "Total WQE" in out, out
    assert "Operation Throughput" in ask("P", "-i", "200", "RW", "4096", "2")
    ask("Q")
    s.ok()


# ---- MPI ----

def mpi(ends, compiler, launcher, ranks, *argv, **env):
    """Ranks 0, 2, 4, ... run on the first daemon, ranks 1, 3, 5, ... on the second one."""
    need(compiler)
    path = ends[0].dir + "/mpi"
    subprocess.run([compiler, "-O2", "-o", path, MPI], check=True)
    before = [d.telemetry("/rnic/counters")["clients_accepted"] for d in ends]
    parts = []
    for i in range(ranks):
        parts += [":"] * (i > 0) + ["-np", "1", "env", f"RNICD_SOCKET={ends[i & 1].sock}", path]
    out = ends[0].run(RNICRUN, launcher, *argv, *parts, RNIC_REG_VERBOSE="0", **env).ok(240)
    for name in ("ring", "all_to_all", "stencil"):
        assert f"ok {name} of {ranks} ranks" in out.splitlines(), out
    now = [d.telemetry("/rnic/counters")["clients_accepted"] for d in ends]
    assert all(n >= b + ranks // 2 for n, b in zip(now, before)), "the ranks did not run on both daemons"


OPENMPI = ("mpicc.openmpi", "mpirun.openmpi")
MPICH = ("mpicc.mpich", "mpirun.mpich")


def openmpi(ends, ranks, *argv, **env):
    mpi(ends, *OPENMPI, ranks, "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self", *argv, **env)


def openmpi_over_libfabric(ends, ranks):
    openmpi(ends, ranks, *"--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include verbs;ofi_rxm".split())


def openmpi_over_ucx(ends, ranks):
    openmpi(ends, ranks, "--mca", "pml", "ucx", UCX_TLS="rc_v,ud_v,self")


def mpich(ends, ranks, **env):
    mpi(ends, *MPICH, ranks, **env)


# ---- UCX and libfabric ----

def ucx(ends, *args, devices=APART, **env):
    server, client = (["ucx_perftest", *args, "-f", on[0], on[1] + ":1"] for on in devices)
    out, _ = meet(ends, server, [*client, "127.0.0.1"], on_host(13337), **env)
    assert re.search(r"^ +\d+ +[\d.]+", out, re.M), out


def ucx_rc(ends, devices=APART):
    for args in ("am_lat", "am_bw -s 4096 -D bcopy", "am_bw -s 900 -D zcopy", "put_bw -s 100000 -D zcopy",
                 "get -s 65536 -D zcopy"):
        ucx(ends, "-x", "rc_verbs", "-n", "200", "-w", "20", "-t", *args.split(), devices=devices)


def left_behind(p):
    """
    Whether fi_pingpong transferred all data and failed only afterwards. Its two ends do not agree on when to end: one
    end may find the other gone before it has read its own last completions. libfabric then destroys the endpoint first,
    and reports the completions that the adapter discards as flushed.
    """
    return re.search(r"^1m\s+10\s+=10\s", p.stdout(), re.M) and "Work Request Flushed Error" in p.stderr()


def fi_pingpong(ends, provider, endpoint, largest="1m", **env):
    need("fi_pingpong")
    argv = ["fi_pingpong", "-p", provider, "-e", endpoint, "-c"]
    s = ends[0].run(RNICRUN, *argv, RNIC_REG_VERBOSE="0", **env)
    until(lambda: s.p.poll() is not None or on_host(47592)(ends[0]), s.tail)
    assert s.p.poll() is None, s.tail()
    c = ends[1].run(RNICRUN, *argv, A, RNIC_REG_VERBOSE="0", **env)
    for p in (c, s):
        assert p.wait() == 0 or left_behind(p), c.tail() + s.tail()
        assert re.search(rf"^{largest}\s+10\s+=10\s", p.stdout(), re.M), c.tail() + s.tail()
