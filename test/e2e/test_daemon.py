#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The daemon as its host sees it: signals, what a reload changes, where the socket is, and what the daemon says when it
cannot start.
"""
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from nets import conf, netns, said, sh, wait_for, wait_said
from rig import BUILD, PATIENCE, RNICD, RNICRUN, TESTPMD, Daemon, Process, case, helper, install, main, need, \
    on_ordinary_pages, pair_conf
from shark import fields

ADDR = "10.77.0.1"


def rewrite(d, old, new):
    with open(d.conf, encoding="utf-8") as f:
        text = f.read()
    assert old in text, text
    with open(d.conf, "w", encoding="utf-8") as f:
        f.write(text.replace(old, new).replace("{dir}", d.dir))


def reload(d, line="reload: done"):
    n = said(d, line)
    d.p.send_signal(signal.SIGHUP)
    wait_said(d, line, n + 1)


def memory_of(d):
    """Resident bytes of DPDK's memory in the daemon, on ordinary pages: packet buffers and tables."""
    total, inside = 0, False
    with open(f"/proc/{d.p.pid}/smaps", encoding="utf-8") as f:
        for words in map(str.split, f):
            if not words[0].endswith(":"):
                inside = "/memfd:nohuge" in words
            elif words[0] == "Rss:" and inside:
                total += int(words[1]) * 1024
    assert total > 0, "there is no such memory"
    return total


def exchange(d):
    s = d.run(TESTPMD, "-s", "-a", ADDR, "--once")
    s.wait_line("listening")
    out = d.run(TESTPMD, "-m", "write_bw", "-S", "4k", "-n", "50", ADDR).ok()
    s.ok()
    assert "verified" in out, out


@case
def a_reload_is_no_end():
    """Log level, rate, impairment and capture change under traffic. What cannot change is named; a mistake in the file
    changes nothing."""
    with Daemon(pair_conf(a="rate = 1G\nseed = 5\n", b="seed = 5\n")) as d:
        exchange(d)
        reload(d, "reload: nothing to change")
        rewrite(d, "rate = 1G", "rate = 2G\nloss = 10%\ncapture = {dir}/a.pcapng")
        reload(d)
        assert said(d, "reload: port a: rate and impairment, capture") == 1, d.tail()
        assert d.telemetry("/rnic/ports,a")["rate_bps"] == 2000000000
        wait_for(lambda: os.path.exists(os.path.join(d.dir, "a.pcapng")), "there is no capture file")
        exchange(d)
        assert d.telemetry("/rnic/ports,a")["impair_lost"] > 0
        rewrite(d, "loss = 10%\ncapture", "#capture")
        reload(d)
        assert fields(os.path.join(d.dir, "a.pcapng"), "frame.len"), "the capture has no frames"
        lost = d.telemetry("/rnic/ports,a")["impair_lost"]
        exchange(d)
        assert d.telemetry("/rnic/ports,a")["impair_lost"] == lost
        rewrite(d, "mtu = 1500", "mtu = 1400")
        reload(d, "reload: port a: only rate")
        rewrite(d, "mtu = 1400", "mtu = 14")
        reload(d, "has mistakes: nothing is changed")
        rewrite(d, "mtu = 14\n", "mtu = 1500\n")
        rewrite(d, "hugepages = auto", "hugepages = auto\nlog-level = error\nflows = 100")
        reload(d, "reload: of [rnicd] only log-level can change")
        before = len(d.err)
        d.p.send_signal(signal.SIGUSR1)
        rewrite(d, "log-level = error", "log-level = info")
        reload(d)
        assert not any("packets received" in line for line in d.err[before:]), d.tail()
        exchange(d)


@case
def a_user_signal_is_no_end():
    with Daemon(pair_conf()) as d:
        for sig in (signal.SIGUSR1, signal.SIGUSR2):
            d.p.send_signal(sig)
        wait_said(d, "port b: link up, ")
        wait_said(d, "0 clients")
        exchange(d)


def at_terminal(env):
    """A daemon in a session with a terminal of its own; returns the process, the master end of the terminal and the
    daemon's folder."""
    folder = tempfile.mkdtemp(prefix="rnic-test-")
    path = os.path.join(folder, "rnicd.conf")
    with open(path, "w", encoding="utf-8") as f:
        f.write(pair_conf().replace("{dir}", folder))
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(RNICD, [RNICD, "--config", path], env)
    return pid, fd, folder


def until_ready(fd):
    text = b""
    while b"ready," not in text:
        text += os.read(fd, 4096)


@case
def a_terminal_that_hangs_up_ends_in_order_what_no_manager_started():
    plain = {k: v for k, v in os.environ.items() if k not in ("NOTIFY_SOCKET", "INVOCATION_ID", "RNICD_SOCKET")}
    pid, fd, folder = at_terminal(plain)
    until_ready(fd)
    os.close(fd)
    _, status = os.waitpid(pid, 0)
    assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0, f"status {status}"
    assert not os.path.exists(os.path.join(folder, "rnicd.sock")), "rnicd left its socket behind"

    pid, fd, folder = at_terminal(dict(plain, INVOCATION_ID="1"))
    try:
        until_ready(fd)
        os.close(fd)
        p = subprocess.run([TESTPMD, "-s", "-a", "192.0.2.1"], env=dict(plain, RNICD_SOCKET=os.path.join(folder, "rnicd.sock")),
                           capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert "rnicd is not running" not in p.stderr, p.stderr
        assert os.waitpid(pid, os.WNOHANG) == (0, 0), "rnicd, started as a service, ended with the terminal"
    finally:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)


@case
def the_daemon_does_not_overlook_where_its_socket_shall_be():
    with tempfile.TemporaryDirectory() as tmp:
        first, second = os.path.join(tmp, "first.sock"), os.path.join(tmp, "second.sock")
        path = os.path.join(tmp, "rnicd.conf")
        with open(path, "w", encoding="utf-8") as f:
            f.write(pair_conf().replace("{dir}", tmp))
        for argv, where in (([], first), (["--socket", second], second)):
            p = Process([RNICD, "--config", path, *argv], env=dict(os.environ, RNICD_SOCKET=first))
            assert f"socket {where}," in p.wait_line("ready"), p.tail()
            assert os.path.exists(where)
            assert p.stop() == 0 and not os.path.exists(where), p.tail()
        p = Process([RNICD, "--config", path, "--socket", "relative"])
        assert p.wait() == 1 and "must be an absolute path" in p.stderr(), p.tail()


@case
def a_killed_daemon_leaves_nobody_waiting_or_without_a_word():
    """A client gets DEVICE_FATAL, blocking calls of rdma_cm return with ENODEV, and one line is printed: after SIGKILL
    and after an orderly end."""
    for sig in (signal.SIGKILL, signal.SIGTERM):
        d = Daemon(pair_conf())
        try:
            p = d.run(helper("bereaved"), ADDR)
            p.wait_line("waiting")
            d.stop(sig)
            out = p.ok()
            assert "async: event local catastrophic error" in out, p.tail()
            assert "request: ENODEV" in out and "connect: ENODEV" in out, p.tail()
            ours = [line for line in p.err if line.startswith("rnic: ")]
            assert len(ours) == 1 and "rnicd has ended or was killed" in ours[0], p.tail()
        finally:
            d.close()


def refused(text, *argv, env=None, ns=None):
    """Starts a daemon that must refuse to start; returns what it says."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as f:
        f.write(text.replace("{dir}", "/tmp"))
        f.flush()
        pre = ["ip", "netns", "exec", ns] if ns else []
        p = Process([*pre, *argv, RNICD, "--config", f.name, "--socket", f"/tmp/rnic-refused-{os.getpid()}.sock"], env=env)
        assert p.wait() == 1, p.tail()
        lines = [line for line in p.err if line.startswith("rnicd: cannot start")]
        assert len(lines) == 1 and "Operation not permitted" not in lines[0], p.tail()
        return lines[0]


@case
def a_start_that_fails_does_not_blame_the_wrong_thing():
    assert "there is no interface nosuchdev" in refused(conf("af_packet:nosuchdev"))
    assert "there is no PCI device 0000:ff:1f.7" in refused(conf("pci:ff:1f.7"))
    assert "the folder /nonexistent of its socket: No such file" in \
        refused(conf("memif:role=server,socket-abstract=no,socket=/nonexistent/x"))
    with netns() as ns:
        bare = ["setpriv", "--bounding-set=-net_admin,-net_raw", "--inh-caps=-net_admin,-net_raw"]
        if os.path.exists("/dev/net/tun"):
            assert "takes CAP_NET_ADMIN" in refused(conf("tap:rt0"), *bare, ns=ns)
            sh("ip", "-n", ns, "link", "add", "rt0", "type", "veth", "peer", "name", "rt1")
            assert "an interface rt0 already that is no tap" in refused(conf("tap:rt0"), ns=ns)
        sh("ip", "-n", ns, "link", "add", "v0", "type", "veth", "peer", "name", "v1")
        assert "takes CAP_NET_RAW" in refused(conf("af_packet:v0"), *bare, ns=ns)


@case
def a_run_directory_that_cannot_be_does_not_hide():
    with tempfile.TemporaryDirectory() as tmp:
        file = os.path.join(tmp, "file")
        with open(file, "w", encoding="ascii"):
            pass
        p = Process([RNICD, "--config", os.path.join(os.path.dirname(__file__), "../../config/pair.conf"), "--socket",
                     os.path.join(file, "rnicd.sock")])
        assert p.wait() == 1 and "cannot be" in p.stderr(), p.tail()
        p = Process([RNICD, "--config", os.path.join(os.path.dirname(__file__), "../../config/pair.conf"), "--socket",
                     os.path.join(tmp, "a", "b", "rnicd.sock")])
        assert p.wait() == 1 and f"the run directory {tmp}/a/b of the socket cannot be made" in p.stderr(), p.tail()


@case
def telemetry_that_did_not_start_is_not_announced():
    """Without a run directory the daemon starts, says why it has no telemetry, and leaves no socket in /tmp."""
    with tempfile.TemporaryDirectory() as tmp:
        file, path, deep = (os.path.join(tmp, name) for name in ("file", "rnicd.conf", "d" * 100))
        with open(file, "w", encoding="ascii"):
            pass
        os.mkdir(deep)
        for pages, place, why in (("auto", file, "DPDK cannot make its run directory"),
                                  ("no", file, "DPDK cannot make its run directory"),
                                  ("no", deep, "has a path too long for sockets")):
            with open(path, "w", encoding="utf-8") as f:
                f.write(pair_conf().replace("{dir}", tmp).replace("hugepages = auto", f"hugepages = {pages}"))
            p = Process([RNICD, "--config", path], env=dict(os.environ, RUNTIME_DIRECTORY=place))
            try:
                p.wait_line("ready")
                assert "telemetry none" in p.stdout(), p.tail()
                sentence = "no telemetry, so rnicctl will not find this daemon: "
                wait_for(lambda: any(sentence in s and why in s for s in p.stderr().splitlines()), p.tail())
                sockets = subprocess.run(["ss", "-xlpH"], check=True, stdout=subprocess.PIPE, text=True).stdout
                own = [line for line in sockets.splitlines() if f"pid={p.p.pid}," in line]
                assert own and not any("dpdk_telemetry" in line for line in own), sockets
            finally:
                p.stop()


@case
def a_capture_does_not_outgrow_its_limit():
    d = Daemon(pair_conf(a="capture = {dir}/a.pcapng\ncapture-size = 1M\n"))
    try:
        s = d.run(TESTPMD, "-s", "-a", ADDR, "--once")
        s.wait_line("listening")
        d.run(TESTPMD, "-m", "write_bw", "-S", "64k", "-n", "200", ADDR).ok()
        s.ok()
        wait_said(d, "a.pcapng: capture-size is reached")
        d.end()
        halves = [os.path.join(d.dir, f) for f in ("a.pcapng", "a.pcapng.1")]
        assert sum(os.path.getsize(h) for h in halves) <= (1 << 20) + 2 * 2048, [os.path.getsize(h) for h in halves]
        assert all(fields(half, "frame.len") for half in halves[1:]), "the older half of the capture has no frames"
        assert said(d, "capture-size is reached") == 1, d.tail()
    finally:
        d.close()


@case
def the_port_that_has_an_address_is_not_passed_over():
    """With two ports in one subnet, rdma_resolve_addr() to a port's own address takes the device of that port. The two
    ends of a wire are an exception, unless own-address = port."""
    two = "[rnicd]\nsocket = {dir}/rnicd.sock\nhugepages = no\n" + \
          "".join(f"[port {n}]\ndevice = tap:r{n}\naddress = 10.79.0.{i}/24\n" for i, n in ((1, "a"), (2, "b")))
    with netns() as ns, Daemon(two, netns=ns) as d:
        for addr, name in (("10.79.0.1", "a"), ("10.79.0.2", "b"), ("10.79.0.9", "a")):
            assert d.run(helper("routed"), addr).ok() == name
    for key, to_a, to_b in (("", "b", "a"), ("own-address = port", "a", "b")):
        with Daemon(pair_conf(rnicd=key)) as d:
            assert d.run(helper("routed"), "10.77.0.1").ok() == to_a
            assert d.run(helper("routed"), "10.77.0.2").ok() == to_b
            for source, name in (("10.77.0.1", "a"), ("10.77.0.2", "b")):
                assert d.run(helper("routed"), "10.77.0.1", source).ok() == name


@case
def the_doctor_does_not_pass_what_is_no_program():
    with tempfile.TemporaryDirectory() as tmp, Daemon(pair_conf()) as d:
        text, runs = os.path.join(tmp, "text"), os.path.join(tmp, "runs")
        for path, mode in ((text, 0o644), (runs, 0o755)):
            with open(path, "w", encoding="ascii") as f:
                f.write("hello\n")
            os.chmod(path, mode)
        for program, why in ((tmp, "it is a folder"), (text, "without permission to execute"), (runs, "it is no program"),
                             ("no-such-program", "no such program on the PATH"), (tmp + "/none", "no such file")):
            p = d.run(RNICRUN, "--doctor", program)
            assert p.wait() == 1 and why in p.stdout(), p.tail()
        out = d.run(RNICRUN, "--doctor", "ls").ok()
        # libfabric needs this line, because no interface of the host has the address
        assert "ip addr add 10.77.0.1/32 dev a" in out, out
        assert "ls is not linked with libibverbs" in out and "rnicd answers" in out, out
        assert "is not linked" not in d.run(RNICRUN, "--doctor", TESTPMD).ok()
        p = d.run(RNICRUN, "--socket", text, "--doctor")
        assert p.wait() == 1 and "is no socket" in p.stdout() and "left over" not in p.stdout(), p.tail()


@case
def what_the_doctor_prints_lets_libfabric_find_the_device():
    """An address on the loopback interface does not count as the device's. With the lines that the doctor prints
    libfabric finds the device."""
    def note():
        out = d.run("ip", "netns", "exec", ns, RNICRUN, "--doctor").ok()
        return re.search(r"a: libfabric, and OpenMPI .* has its address: (.*)$", out, re.M)

    with netns() as ns, Daemon(pair_conf()) as d:
        sh("ip", "-n", ns, "addr", "add", f"{ADDR}/32", "dev", "lo")
        lines = note()
        assert lines, "rnicrun --doctor took the loopback's address for the device's"
        sh("ip", "-n", ns, "addr", "del", f"{ADDR}/32", "dev", "lo")
        p = sh("ip", "netns", "exec", ns, "sh", "-ec", lines.group(1))
        assert p.returncode == 0 and not note(), p.stderr


@case
def the_doctor_does_not_wait_for_a_daemon_that_is_stopped():
    with Daemon(pair_conf()) as d:
        d.p.send_signal(signal.SIGSTOP)
        try:
            p = d.run(RNICRUN, "--doctor")
            assert p.wait() == 1 and "has not answered for 2 s" in p.stdout(), p.tail()
        finally:
            d.p.send_signal(signal.SIGCONT)


@case
def a_library_that_others_may_write_is_not_run():
    with tempfile.TemporaryDirectory() as tmp:
        run = os.path.join(tmp, "a", "b", "rnicrun")
        lib = os.path.join(tmp, "lib", "rnic", "librnic.so.0")
        for path, source in ((run, RNICRUN), (lib, os.path.join(BUILD, "lib", "rnic", "librnic.so.0"))):
            os.makedirs(os.path.dirname(path))
            shutil.copy(source, path)
        p = Process([run, "true"])
        assert p.wait() == 0 and not p.err, p.tail()
        above = os.path.join(tmp, "lib")
        cases = [(lib, 0o646, 0o644), (lib, 0o1646, 0o644), (os.path.dirname(lib), 0o777, 0o755), (above, 0o757, 0o755)]
        if os.geteuid() == 0:
            for path in (lib, above):
                os.chown(path, 0, 65534)
            cases += [(lib, 0o664, 0o644), (above, 0o775, 0o755)]
        for path, mode, back in cases:
            os.chmod(path, mode)
            p = Process([run, "true"])
            assert p.wait() == 127 and "others may write to" in p.stderr(), p.tail()
            os.chmod(path, back)
        os.chmod(above, 0o1777)
        assert Process([run, "true"]).wait() == 0, "in a sticky folder nobody else can replace the folder rnic"
        if os.geteuid() == 0:
            for path in (above, lib):
                os.chown(path, 65534, 65534)
                assert Process([run, "true"]).wait() == 127
                os.chown(path, 0, 0)


@case
def an_installed_program_does_not_know_where_it_was_built():
    need("meson")
    need("strip")
    with tempfile.TemporaryDirectory() as tmp:
        install(tmp)
        programs = [os.path.join(folder, f) for folder, _, files in os.walk(tmp) for f in files
                    if os.path.basename(folder) in ("bin", "sbin") or ".so" in f]
        run = [p for p in programs if p.endswith("/rnicrun")]
        assert len(run) == 1 and len(programs) >= 5, programs
        for path in programs:
            plain = os.path.join(tmp, "stripped")  # without the debugger's tables, which contain the folder's path
            subprocess.run(["strip", "-g", "-o", plain, path], check=True, capture_output=True)
            with open(plain, "rb") as f:
                assert BUILD.encode() not in f.read(), path
        p = Process([run[0], "--doctor"], env=dict(os.environ, RNICD_SOCKET="/nonexistent/rnicd.sock"))
        p.wait()
        assert f"library {os.path.realpath(tmp)}/" in p.stdout(), p.tail()


@case
def memory_is_taken_as_traffic_needs_it():
    """Packet buffers and tables are sized for the worst case, and have no memory before they are used."""
    with Daemon(on_ordinary_pages(pair_conf())) as d:
        d.telemetry("/rnic/counters")  # the worker runs
        assert memory_of(d) < 16 << 20, memory_of(d)
        exchange(d)
        assert memory_of(d) < 48 << 20, memory_of(d)


if __name__ == "__main__":
    sys.exit(main())
