#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
How rnicd starts and ends: configurations, with and without hugepages, two daemons on one socket, signals, what a daemon
leaves behind; and the line rate.
"""
import glob
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time

from rig import PATIENCE, RNICD, RNICRUN, TESTPMD, Daemon, Process, Skip, case, main, need, pair_conf

SOURCE = os.environ.get("RNIC_SOURCE") or os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
ADDR = "10.77.0.1"


def soak(d, *args):
    s = d.run(TESTPMD, "-s", "-a", ADDR, "--once")
    s.wait_line("listening")
    out = d.run(TESTPMD, "--mode", "soak", "--iters", "100", *args, ADDR).ok()
    s.ok()
    assert "verified" in out, out


def check(text):
    """rnicd --check of a configuration text: exit status and stderr."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as f:
        f.write(text)
        f.flush()
        p = subprocess.run([RNICD, "--check", f.name], capture_output=True, text=True, timeout=PATIENCE, check=False)
        return p.returncode, p.stderr.replace(f.name, "FILE")


@case
def every_example_configuration_is_good():
    files = sorted(glob.glob(os.path.join(SOURCE, "config", "*.conf")))
    assert len(files) >= 5, files
    for f in files:
        p = subprocess.run([RNICD, "--check", f], capture_output=True, text=True, timeout=PATIENCE, check=False)
        # an example for a larger machine may name CPUs that this machine lacks
        assert p.returncode == 0 or re.search(r"workers names CPU \d+, which", p.stderr), p.stderr


@case
def each_kind_of_mistake_is_told_with_its_line():
    good = "[rnicd]\nsocket = /tmp/x.sock\n[port a]\ndevice = pair:b\naddress = 10.0.0.1/24\n" \
           "[port b]\ndevice = pair:a\naddress = 10.0.0.2/24\n"
    rc, err = check(good)
    assert rc == 0, err
    for old, new, line in (
            ("socket =", "sokcet =", 2), ("[rnicd]", "[rnicq]", 1), ("[rnicd]", "rnicd", 1), ("[port a]", "[port]", 3),
            ("socket = /tmp/x.sock", "socket = x.sock", 2), ("socket = /tmp/x.sock", "socket = /" + "x" * 200, 2),
            ("socket = /tmp/x.sock", "socket = /tmp/x\nsocket = /tmp/y", 3), ("socket = /tmp/x.sock", "socket", 2),
            ("socket = /tmp/x.sock", "workers = 1,", 2), ("socket = /tmp/x.sock", "workers = 1023", 2),
            ("socket = /tmp/x.sock", "control-cpu = 1023", 2), ("10.0.0.1/24", "10.0.0.1/24\nloss = 1", 6),
            ("10.0.0.1/24", "10.0.0.1/24\ncapture = /nonexistent/a", 6), ("device = pair:b", "device = tap:sixteen-letters-", 4), ("socket = /tmp/x.sock", "memory = 1", 2),
            ("socket = /tmp/x.sock", "quota-qps = 0", 2), ("socket = /tmp/x.sock", "hugepages = perhaps", 2),
            ("device = pair:b", "device = pear:b", 4), ("device = pair:b", "device = pair:", 4),
            ("device = pair:b", "device = pair:nobody", 4), ("10.0.0.1/24", "10.0.0.1", 5), ("10.0.0.1/24", "10.0.0.256/24", 5),
            ("10.0.0.1/24", "10.0.0.1/33", 5), ("10.0.0.1/24", "10.0.0.1/24\nmtu = 0", 6), ("10.0.0.1/24", "10.0.0.1/24\nmtu = 65281", 6),
            ("10.0.0.1/24", "10.0.0.1/24\nloss = 101%", 6), ("10.0.0.1/24", "10.0.0.1/24\nmac = 01:00:00:00:00:01", 6),
            ("10.0.0.1/24", "10.0.0.1/24\nvlan = 4095", 6), ("10.0.0.1/24", "10.0.0.1/24\nrate = -1", 6),
            ("10.0.0.1/24", "10.0.0.1/24\ncrc = maybe", 6), ("10.0.0.1/24", "10.0.0.1/24\nird = 999", 6)):
        rc, err = check(good.replace(old, new, 1))
        assert rc == 1, f"{new!r}: {rc} {err}"
        assert f"FILE:{line}: " in err, f"{new!r}, line {line}: {err}"
    for text in ("", "[rnicd]\n", good.replace("10.0.0.2", "10.0.0.1"), good.replace("device = pair:a\n", "")):
        rc, err = check(text)
        assert rc == 1 and "FILE" in err, (text, err)
    rc, err = check("\0\xff\n" * 100)
    assert rc == 1


@case
def options():
    for argv, rc in ((["--help"], 0), (["--version"], 0), (["--help-config"], 0), (["--nonsense"], 2), (["what"], 2),
                     (["--config", "/nonexistent/rnicd.conf"], 1), (["--check", "/nonexistent/rnicd.conf"], 1)):
        p = subprocess.run([RNICD, *argv], capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert p.returncode == rc, f"{argv}: {p.returncode}\n{p.stdout}{p.stderr}"
        assert (p.stdout if rc == 0 else p.stderr).strip(), argv
        if argv == ["--version"]:
            assert re.fullmatch(r"rnicd \d+\.\d+\.\d+( \(commit [0-9a-f]{12}\+?\))?\n", p.stdout), p.stdout


@case
def second_daemon_on_the_same_socket_is_refused():
    with Daemon(pair_conf()) as d:
        p = Process([RNICD, "--config", d.conf])
        assert p.wait() == 1, p.tail()
        assert d.sock in p.stderr() and "another rnicd is running" in p.stderr(), p.stderr()
        assert d.alive() and os.path.exists(d.sock)
        soak(d)


@case
def socket_of_a_killed_daemon_is_taken_over():
    d = Daemon(pair_conf())
    try:
        client = d.run(TESTPMD, "-s", "-a", ADDR)
        client.wait_line("listening")
        d.stop(signal.SIGKILL)
        assert os.path.exists(d.sock)
        assert client.wait(30) not in (0, -signal.SIGSEGV), client.tail()
        again = Process([RNICD, "--config", d.conf], name="rnicd")
        try:
            again.wait_line("ready")
            s = d.run(TESTPMD, "-s", "-a", ADDR, "--once")
            s.wait_line("listening")
            d.run(TESTPMD, "--mode", "soak", "--iters", "50", ADDR).ok()
            s.ok()
        finally:
            assert again.stop() == 0, again.tail()
    finally:
        d.close()


@case
def file_in_the_way_of_the_socket_stays():
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "rnicd.sock")
        with open(path, "w", encoding="ascii") as f:
            f.write("precious")
        conf = os.path.join(tmp, "rnicd.conf")
        with open(conf, "w", encoding="ascii") as f:
            f.write(pair_conf().replace("{dir}", tmp))
        p = Process([RNICD, "--config", conf])
        assert p.wait() == 1 and path in p.stderr(), p.tail()
        with open(path, encoding="ascii") as f:
            assert f.read() == "precious"


HUGE = "/sys/kernel/mm/hugepages"


def with_hugepages(conf, seem="true"):
    """The command that starts rnicd with an empty hugepage folder of sysfs, in which the shell command `seem` may make
    entries."""
    if os.geteuid() != 0:
        raise Skip("needs root for a mount namespace")
    if not os.path.isdir(HUGE):
        return [RNICD, "--config", conf]
    return ["unshare", "-m", "sh", "-c", f"mount -t tmpfs none {HUGE} && {seem} && exec \"$0\" --config \"$1\"", RNICD, conf]


def exchange(directory, **env):
    """Runs a server and a client of the daemon whose socket is in the directory; their data is verified."""
    env = dict(os.environ, RNICD_SOCKET=os.path.join(directory, "rnicd.sock"), **env)
    s = Process([TESTPMD, "-s", "-a", ADDR, "--once"], env=env)
    s.wait_line("listening")
    Process([TESTPMD, "--mode", "soak", "--iters", "100", ADDR], env=env).ok()
    s.ok()


@case
def no_hugepages():
    """With hugepages = auto or no, rnicd starts with ordinary pages and says so. With hugepages = yes rnicd does not
    start, but says what to do."""
    for word, ok in (("auto", True), ("no", True), ("yes", False)):
        with tempfile.TemporaryDirectory() as tmp:
            conf = os.path.join(tmp, "rnicd.conf")
            with open(conf, "w", encoding="ascii") as f:
                f.write(pair_conf().replace("{dir}", tmp).replace("hugepages = auto", "hugepages = " + word))
            p = Process(with_hugepages(conf), name="rnicd")
            if not ok:
                assert p.wait() == 1 and "nr_hugepages" in p.stderr(), p.tail()
                continue
            try:
                assert "ordinary pages" in p.wait_line("ready"), p.tail()
                exchange(tmp, RNIC_HUGE="0")
            finally:
                assert p.stop() == 0, p.tail()


@case
def hugepages_that_others_took_first():
    """Hugepages are free when rnicd looks, and gone when rnicd allocates. With hugepages = auto rnicd starts anew with
    ordinary pages; with hugepages = yes it reports the lack and ends."""
    size = HUGE + "/hugepages-1048576kB"  # a size of which the system has no pages
    if not os.path.isdir(HUGE):
        raise Skip("this system has no hugepages")
    if os.path.isdir(size) and open(size + "/nr_hugepages", encoding="ascii").read().strip() != "0":
        raise Skip("this system has 1 GiB hugepages")
    lie = f"mkdir {size} && for f in nr free resv surplus; do echo 64 >{size}/${{f}}_hugepages; done && echo 0 >{size}/resv_hugepages"
    for word, ok in (("auto", True), ("yes", False)):
        with tempfile.TemporaryDirectory() as tmp:
            conf = os.path.join(tmp, "rnicd.conf")
            with open(conf, "w", encoding="ascii") as f:
                f.write(pair_conf(rnicd="workers = 0,1").replace("{dir}", tmp).replace("hugepages = auto", "hugepages = " + word))
            p = Process(with_hugepages(conf, lie), name="rnicd")
            if not ok:
                assert p.wait() == 1 and "cannot start" in p.stderr(), p.tail()
                continue
            try:
                assert "2 workers, ordinary pages" in p.wait_line("ready"), p.tail()
                assert "trying ordinary pages" in p.stderr(), p.tail()
                exchange(tmp)
            finally:
                assert p.stop() == 0, p.tail()


@case
def ends_on_sigterm_and_sigint_and_leaves_nothing():
    for sig in (signal.SIGTERM, signal.SIGINT):
        d = Daemon(pair_conf(a="capture = {dir}/a.pcapng"))
        try:
            runtime = os.path.dirname(d.runtime_socket())
            assert os.path.isdir(runtime)
            soak(d)
            assert d.stop(sig) == 0, d.tail()
            left = sorted(set(os.listdir(d.dir)) - {"rnicd.conf", "a.pcapng"})
            assert not left, f"rnicd left files behind: {left}"
            assert not os.path.exists(runtime), f"left: {runtime}: {os.listdir(runtime)}"
        finally:
            d.close()


@case
def service_manager_is_told():
    with tempfile.TemporaryDirectory() as tmp:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        s.bind(os.path.join(tmp, "notify"))
        s.settimeout(PATIENCE)
        os.environ["NOTIFY_SOCKET"] = os.path.join(tmp, "notify")
        try:
            d = Daemon(pair_conf())
        finally:
            del os.environ["NOTIFY_SOCKET"]
        try:
            assert b"READY=1" in s.recv(1024)
            d.end()
            assert b"STOPPING=1" in s.recv(1024)
        finally:
            d.close()
            s.close()


@case
def shaped_port_keeps_its_rate():
    """A port of 200 Mb/s never sends more, by its counters and with the overhead of each frame on the wire."""
    rate = 200e6
    with Daemon(pair_conf(both="rate = 200M")) as d:
        s = d.run(TESTPMD, "-s", "-a", ADDR, "--once")
        s.wait_line("listening")
        def sample():
            p = d.telemetry("/rnic/ports,b")
            return time.monotonic(), (p["tx_bytes"] + 24 * p["tx_packets"]) * 8
        # A port whose worker gets the CPU late sends faster afterwards, up to the rate since its first frame. So the
        # first sample is taken before the first frame.
        t0, b0 = sample()
        c = d.run(TESTPMD, "--mode", "write_bw", "--sizes", "64k", "--seconds", "6", ADDR)
        c.ok()
        s.ok()
        t1, b1 = sample()
        got = (b1 - b0) / (t1 - t0)
        assert got < rate * 1.05, f"{got / 1e6:.1f} Mb/s leave a port of {rate / 1e6:.0f}"
        assert got > rate * 0.02, f"{got / 1e6:.1f} Mb/s leave a port of {rate / 1e6:.0f}"


@case
def unprivileged_client_needs_no_more_than_the_socket():
    """Another user, without capabilities: librnic works. When socket-mode forbids the socket, librnic says so."""
    if os.geteuid() != 0:
        raise Skip("needs root to become another user")
    for mode, good in (("0666", True), ("0600", False)):
        with Daemon(pair_conf(rnicd=f"socket-mode = {mode}")) as d:
            os.chmod(d.dir, 0o755)
            nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]
            s = d.run(*nobody, TESTPMD, "-s", "-a", ADDR, "--once")
            if not good:
                assert s.wait() != 0 and "permission" in s.stderr(), s.tail()
                continue
            s.wait_line("listening")
            d.run(*nobody, TESTPMD, "--mode", "soak", "--iters", "50", ADDR).ok()
            s.ok()


def lines_of(p):
    return [line for line in p.err if line.startswith("rnic")]


@case
def each_obstacle_is_told_in_one_line():
    """When something stops a program, librnic prints one line with the remedy, once, and the call returns the manual
    page's errno."""
    need("ibv_devices")
    need("ibv_xsrq_pingpong")
    p = Process([RNICRUN, "--socket", "/nonexistent/rnicd.sock", "ibv_devices"])
    assert p.wait() != 0 and "Function not implemented" in p.stderr(), p.tail()
    assert lines_of(p) == ["rnic: rnicd is not running at /nonexistent/rnicd.sock: start it, set RNICD_SOCKET, "
                           "or run the program without a daemon (rnicrun --embedded)"], p.tail()
    with Daemon(pair_conf(a="qp-port = 0")) as d:
        p = d.run(RNICRUN, "ibv_xsrq_pingpong", "-d", "a", "-g", "0")
        assert p.wait() != 0 and len(lines_of(p)) == 1 and "set 'qp-port'" in lines_of(p)[0], p.tail()
        if os.geteuid() == 0:
            os.chmod(d.dir, 0o755)
            os.chmod(d.sock, 0o600)
            p = d.run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", RNICRUN, "ibv_devices")
            assert p.wait() != 0 and "Operation not permitted" in p.stderr(), p.tail()
            assert len(lines_of(p)) == 1 and "ask for the right to write to it" in lines_of(p)[0], p.tail()
            p = d.run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", RNICRUN, "--doctor")
            assert p.wait() == 1 and "ask for socket-mode = 0666" in p.stdout(), p.tail()


@case
def doctor_looks_at_limits_and_programs():
    need("setpriv")
    with tempfile.TemporaryDirectory() as tmp, Daemon(pair_conf()) as d:
        out = d.run(RNICRUN, "--doctor", "sh").ok()
        assert "sh can have the library preloaded" in out and "memory can be registered" in out, out
        assert "userfaultfd" in out and "Programs can run" in out, out
        p = d.run("sh", "-c", f"ulimit -f 1000; exec {RNICRUN} --doctor")
        assert p.wait() == 1 and "ulimit -f unlimited" in p.stdout(), p.tail()
        p = d.run("sh", "-c", f"ulimit -v 3000000; exec {RNICRUN} --doctor")
        assert p.wait() == 1 and "ulimit -v unlimited" in p.stdout(), p.tail()
        p = d.run("sh", "-c", f"ulimit -n 4; exec {RNICRUN} --doctor")  # too few for the pipe to the check of rnicd
        assert p.wait() == 1 and "was not checked" in p.stdout() and "Programs cannot run yet" in p.stdout(), p.tail()
        with open(os.path.join(tmp, "plain.c"), "w", encoding="ascii") as f:
            f.write("int main(void) { return 0; }\n")
        subprocess.run(["cc", "-static", "-o", "still", "plain.c"], cwd=tmp, check=True)
        for path, mode, why in (("still", 0o755, "linked statically"), ("still", 0o4755, "setuid")):
            os.chmod(os.path.join(tmp, path), mode)
            if mode & 0o4000:
                if os.geteuid() != 0:
                    continue
                os.chown(os.path.join(tmp, path), 65534, 65534)
                os.chmod(os.path.join(tmp, path), mode)
            for argv in (["--doctor"], []):
                p = d.run(RNICRUN, *argv, os.path.join(tmp, path))
                assert (p.wait() != 0) == bool(argv), p.tail()
                assert why in (p.stdout() if argv else p.stderr()), p.tail()


@case
def four_ports_fit_into_the_memory_that_is_chosen_for_them():
    """Ordinary pages, memory = auto: the daemon starts, and idle connections keep little of the memory."""
    more = "".join(f"[port {n}]\ndevice = pair:{p}\naddress = 10.88.0.{i}/24\n"
                   for i, (n, p) in enumerate((("c", "d"), ("d", "c")), 1))
    with Daemon(pair_conf().replace("hugepages = auto", "hugepages = no") + more) as d:
        s = d.run(TESTPMD, "-s", "-a", ADDR, "--once")
        s.wait_line("listening")
        c = d.run(TESTPMD, "--mode", "idle", "--qps", "300", "--seconds", "1.5", "--json", ADDR)
        seen = []
        while c.p.poll() is None:
            n = d.telemetry("/rnic/counters")
            seen.append((n["opened"] - n["closed"], n["blocks_used"]))
            time.sleep(0.05)
        assert json.loads(c.ok())["results"][0]["qps"] == 300
        s.ok()
        idle = [blocks for conns, blocks in seen if conns >= 600]
        assert idle and min(idle) <= 70, seen


if __name__ == "__main__":
    raise SystemExit(main())
