# SPDX-License-Identifier: BSD-3-Clause
"""
The set-ups that rows run on: daemons with RDMA devices and a testpmd-rdma server, or two network namespaces joined by a
veth pair. A scene is set up for a group of rows and taken down after it. Only processes and namespaces that were made
here are ended.
"""
import contextlib
import ctypes
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PATIENCE = 60  # seconds; an expected event that takes longer counts as a failure


# With this variable malloc() fills all memory that it returns, which makes programs slower and larger than they are.
os.environ.pop("MALLOC_PERTURB_", None)

# When the benchmark is terminated it ends the processes that it has started.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


class BenchError(Exception):
    pass


def run(argv, env=None, timeout=PATIENCE):
    """Runs a command to its end; returns its stdout."""
    try:
        p = subprocess.run(argv, env=env, timeout=timeout, capture_output=True, text=True, check=False)
    except subprocess.TimeoutExpired:
        raise BenchError(f"{argv[0]} did not end in {timeout} s") from None
    except OSError as e:
        raise BenchError(f"{argv[0]}: {e.strerror}") from None
    if p.returncode != 0:
        text = (p.stderr.strip() or p.stdout.strip()).splitlines()
        raise BenchError(f"{' '.join(argv)}: exit status {p.returncode}: {text[-1] if text else ''}")
    return p.stdout


def end(p):
    if p is None or p.poll() is not None:
        return
    p.send_signal(signal.SIGTERM)
    try:
        p.wait(10)
    except subprocess.TimeoutExpired:
        p.kill()
        p.wait()


def client_of(server, client, first_word, env):
    """Runs a client while its server runs; returns the client's stdout. The server is ready when a line of its output
    contains `first_word`; None: it says nothing, and half a second is enough."""
    p = subprocess.Popen(server, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    try:
        if first_word is None:
            time.sleep(0.5)
        elif not any(first_word in line for line in p.stdout):
            raise BenchError(f"{' '.join(server)} ended before it said \"{first_word}\"")
        return run(client, env=env)
    finally:
        end(p)


def cpu_ns(pid):
    """CPU time of a process, ns: of its threads, those that have ended included."""
    clock = ctypes.c_int()
    if ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock)) != 0:
        raise BenchError(f"there is no process {pid} any more, so its CPU time cannot be read")
    return time.clock_gettime_ns(clock.value)


class Daemon:
    """A running rnicd, observed from outside."""

    def __init__(self, process, log):
        self.p, self.log = process, log

    def cpu_ns(self):
        return cpu_ns(self.p.pid)

    def memory(self):
        """Resident bytes of the daemon's own memory, without memory that it shares with clients."""
        total, own = 0, True
        with open(f"/proc/{self.p.pid}/smaps", encoding="utf-8") as f:
            for line in f:
                words = line.split()
                if not words[0].endswith(":"):
                    own = "/memfd:rnic" not in line
                elif words[0] == "Rss:" and own:
                    total += int(words[1]) * 1024
        return total

    def telemetry(self, command):
        with open(self.log, encoding="utf-8") as f:
            path = f.read().rsplit("telemetry ", 1)[1].split()[0]
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.settimeout(10)
            s.connect(path)
            s.recv(4096)  # greeting
            s.send(command.encode())
            return json.loads(s.recv(1 << 20))[command.split(",")[0]]

    def counters(self):
        """The counters of all workers."""
        return self.telemetry("/rnic/counters")


class Stage:
    ADDR = ("10.77.0.1", "10.77.0.2")
    NET = ("192.168.77.1", "192.168.77.2")
    CROWD = "10.78.0.0/16"  # addresses behind ADDR[1]

    def __init__(self, args):
        self.args = args
        build = args.build
        self.rnicd = os.path.join(build, "app", "rnicd", "rnicd")
        self.testpmd = os.path.join(build, "app", "testpmd-rdma", "testpmd-rdma")
        self.limits = os.path.join(build, "test", "bench", "bench_limits")
        self.ring = os.path.join(build, "test", "bench", "bench_ring")
        self.env = dict(os.environ)  # environment of a client
        self.ns = (f"rnicbench{os.getpid()}a", f"rnicbench{os.getpid()}b")
        self.directory = None
        self.d = None  # the daemon; with two daemons, the one that serves the client
        self.far = None  # with two daemons, the one that serves the server

    @contextlib.contextmanager
    def nothing(self):
        yield

    @contextlib.contextmanager
    def signalled(self, first, then):
        """Sends the daemon, if there is one, the signal `first` now and the signal `then` at the end."""
        if self.d is not None:
            self.d.p.send_signal(first)
        try:
            yield
        finally:
            if self.d is not None:
                self.d.p.send_signal(then)

    # ---- this project ----

    @staticmethod
    def config(directory, name, keys, ports):
        """
        Returns the text of a configuration. ports: (name, device, address) of each port; a list of devices makes
        several paths.
        """
        text = (f"[rnicd]\nsocket = {directory}/{name}.sock\n" +
                "".join(f"{k} = {v}\n" for k, v in keys["rnicd"].items()))
        for port, device, addr in ports:
            line = f"device = {device}" if isinstance(device, str) else f"paths = {', '.join(device)}"
            text += (f"\n[port {port}]\n{line}\naddress = {addr}/24\n" +
                     "".join(f"{k} = {v}\n" for k, v in keys["port"].items()))
        return text

    @contextlib.contextmanager
    def place(self):
        self.directory = tempfile.mkdtemp(prefix="rnic-bench-")
        try:
            yield self.directory
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)

    @contextlib.contextmanager
    def one_daemon(self, name, keys, ports, before=()):
        path, log = (os.path.join(self.directory, f"{name}.{x}") for x in ("conf", "log"))
        with open(path, "w", encoding="utf-8") as f:
            f.write(self.config(self.directory, name, keys, ports))
        with open(log, "w", encoding="utf-8") as f:
            p = subprocess.Popen([*before, self.rnicd, "--config", path], stdout=f, stderr=f)
        try:
            self.wait_for(p, log, "ready", "rnicd")
            yield Daemon(p, log)
        finally:
            end(p)

    def env_of(self, name):
        return dict(os.environ, RNICD_SOCKET=os.path.join(self.directory, f"{name}.sock"))

    @contextlib.contextmanager
    def server(self, env, addr, cpu=None):
        log = os.path.join(self.directory, "server.log")
        cpu = self.args.client_cpu if cpu is None else cpu
        with open(log, "w", encoding="utf-8") as f:
            p = subprocess.Popen([self.testpmd, "-s", "-a", addr, "--cpu", str(cpu)], stdout=f, stderr=f, env=env)
        try:
            self.wait_for(p, log, "listening", "testpmd-rdma -s")
            yield p
        finally:
            end(p)

    @contextlib.contextmanager
    def pair(self, keys, serve=True, links=1):
        """One daemon with two ports that are wired to each other, by one or more links, and have the same keys."""
        device = lambda other: f"pair:{other}" if links == 1 else [f"pair:{other}"] * links
        ports = (("left", device("right"), self.ADDR[0]), ("right", device("left"), self.ADDR[1]))
        with self.place(), self.one_daemon("rnicd", keys, ports) as self.d:
            self.env = self.env_of("rnicd")
            if not serve:
                yield
                return
            with self.server(self.env, self.ADDR[0]):
                yield

    @contextlib.contextmanager
    def two(self, keys, devices, before=((), ())):
        """Two daemons with one port each, joined by the given devices; each CPU runs a daemon and a client."""
        cpus = (self.args.daemon_cpu, self.args.client_cpu)
        each = [dict(keys, rnicd=dict(keys["rnicd"], workers=c)) for c in cpus]
        with self.place():
            devices = [d.replace("{dir}", self.directory) for d in devices]
            with self.one_daemon("a", each[0], [("left", devices[0], self.ADDR[0])], before[0]) as self.far, \
                 self.one_daemon("b", each[1], [("right", devices[1], self.ADDR[1])], before[1]) as self.d:
                self.env = self.env_of("b")
                with self.server(self.env_of("a"), self.ADDR[0], cpu=cpus[0]):
                    yield

    def memif(self, keys):
        link = "socket={dir}/link.sock,socket-abstract=no"
        return self.two(keys, [f"memif:role={r},id=0,{link}" for r in ("server", "client")])

    @contextlib.contextmanager
    def af_packet(self, keys):
        with self.namespaces(keys["port"]["mtu"], True, addresses=False):
            for n in self.ns:
                off = [w for f in ("tx", "tso", "gso", "gro") for w in (f, "off")]
                run(["ip", "netns", "exec", n, "ethtool", "-K", "veth0", *off])
            with self.two(keys, ["af_packet:veth0"] * 2, [["ip", "netns", "exec", n] for n in self.ns]):
                yield

    @contextlib.contextmanager
    def host(self, keys):
        with self.namespaces(keys["port"]["mtu"], True, addresses=False):
            with self.two(keys, ["host:veth0"] * 2, [["ip", "netns", "exec", n] for n in self.ns]):
                yield

    @contextlib.contextmanager
    def crowd(self, keys):
        """One daemon with a tap in a namespace of its own, where each address of CROWD is the kernel's."""
        ns = self.ns[0]
        inside = ["ip", "netns", "exec", ns]
        with self.place():
            try:
                run(["ip", "netns", "add", ns])
                with self.one_daemon("rnicd", keys, [("left", "tap:rt0", self.ADDR[0])], inside) as self.d:
                    run([*inside, "ip", "addr", "add", f"{self.ADDR[1]}/24", "dev", "rt0"])
                    run([*inside, "ip", "link", "set", "rt0", "up"])
                    run([*inside, "ip", "link", "set", "lo", "up"])
                    run([*inside, "ip", "route", "add", "local", self.CROWD, "dev", "lo"])
                    self.env = self.env_of("rnicd")
                    yield
            finally:
                subprocess.run(["ip", "netns", "del", ns], check=False, stderr=subprocess.DEVNULL)

    @staticmethod
    def wait_for(p, log, word, name):
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with open(log, encoding="utf-8", errors="replace") as f:
                text = f.read()
            if word in text:
                return
            if p.poll() is not None:
                raise BenchError(f"{name} ended: {text.strip().splitlines()[-1] if text.strip() else p.returncode}")
            time.sleep(0.02)
        raise BenchError(f"{name} is not ready in time")

    # ---- the kernel ----

    @contextlib.contextmanager
    def namespaces(self, mtu, offload, addresses=True):
        a, b = self.ns
        try:
            for n in self.ns:
                run(["ip", "netns", "add", n])
            run(["ip", "link", "add", "veth0", "netns", a, "type", "veth", "peer", "name", "veth0", "netns", b])
            for n, addr in zip(self.ns, self.NET):
                inside = ["ip", "netns", "exec", n]
                run(inside + ["ip", "link", "set", "lo", "up"])
                if addresses:
                    run(inside + ["ip", "addr", "add", f"{addr}/24", "dev", "veth0"])
                run(inside + ["ip", "link", "set", "veth0", "mtu", str(mtu), "up"])
                if not offload:
                    run(inside + ["ethtool", "-K", "veth0", "tso", "off", "gso", "off", "gro", "off"])
            if addresses:
                self.wait_link(b)
            yield
        finally:
            for n in self.ns:
                subprocess.run(["ip", "netns", "del", n], check=False, stderr=subprocess.DEVNULL)

    def wait_link(self, ns):
        until = time.monotonic() + PATIENCE
        while subprocess.run(["ip", "netns", "exec", ns, "ping", "-c", "1", "-W", "1", self.NET[0]], check=False,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
            if time.monotonic() > until:
                raise BenchError("the veth pair carries no packets")

    def kernel_pair(self, server, client, first_word):
        """Runs a server in one namespace and a client in the other, on a CPU each; returns the client's stdout."""
        cpus = (str(self.args.daemon_cpu), str(self.args.client_cpu))
        pre = [["ip", "netns", "exec", n, "taskset", "-c", c] for n, c in zip(self.ns, cpus)]
        env = dict(os.environ, UCX_TLS="tcp", UCX_NET_DEVICES="veth0")
        return client_of(pre[0] + server, pre[1] + client, first_word, env)
