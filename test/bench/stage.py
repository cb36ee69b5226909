# SPDX-License-Identifier: BSD-3-Clause
"""
What rows run on: a daemon with two wired ports and a testpmd-rdma server, or two network namespaces joined by a veth pair.
A scene is set up for a group of rows and taken down behind it; only processes and namespaces made here are ended.
"""
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time

PATIENCE = 30  # seconds until something that should have happened is given up


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


class Stage:
    ADDR = ("10.77.0.1", "10.77.0.2")
    NET = ("192.168.77.1", "192.168.77.2")

    def __init__(self, args):
        self.args = args
        build = args.build
        self.rnicd = os.path.join(build, "app", "rnicd", "rnicd")
        self.testpmd = os.path.join(build, "app", "testpmd-rdma", "testpmd-rdma")
        self.limits = os.path.join(build, "test", "bench", "bench_limits")
        self.env = dict(os.environ)
        self.ns = (f"rnicbench{os.getpid()}a", f"rnicbench{os.getpid()}b")

    def scene(self, row):
        return row.scene(self)

    @contextlib.contextmanager
    def nothing(self):
        yield

    def config(self, directory, keys):
        """A daemon's configuration: two ports wired to each other, alike."""
        text = (f"[rnicd]\nsocket = {directory}/rnicd.sock\n" +
                "".join(f"{k} = {v}\n" for k, v in keys["rnicd"].items()))
        for i, name in enumerate(("left", "right")):
            text += (f"\n[port {name}]\ndevice = pair:{'left' if i else 'right'}\naddress = {self.ADDR[i]}/24\n" +
                     "".join(f"{k} = {v}\n" for k, v in keys["port"].items()))
        return text

    @contextlib.contextmanager
    def daemon(self, keys, server_args=()):
        directory = tempfile.mkdtemp(prefix="rnic-bench-")
        daemon = server = None
        try:
            path = os.path.join(directory, "rnicd.conf")
            with open(path, "w", encoding="utf-8") as f:
                f.write(self.config(directory, keys))
            log = os.path.join(directory, "rnicd.log")
            self.env["RNICD_SOCKET"] = os.path.join(directory, "rnicd.sock")
            with open(log, "w", encoding="utf-8") as f:
                daemon = subprocess.Popen([self.rnicd, "--config", path], stdout=f, stderr=f)
            self.wait_for(daemon, log, "ready", "rnicd")
            log = os.path.join(directory, "server.log")
            with open(log, "w", encoding="utf-8") as f:
                server = subprocess.Popen([self.testpmd, "-s", "-a", self.ADDR[0], "--cpu", str(self.args.client_cpu),
                                           *server_args], stdout=f, stderr=f, env=self.env)
            self.wait_for(server, log, "listening", "testpmd-rdma -s")
            yield
        finally:
            end(server)
            end(daemon)
            shutil.rmtree(directory, ignore_errors=True)

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
        raise BenchError(f"{name} does not get ready")

    @contextlib.contextmanager
    def namespaces(self, mtu, offload):
        a, b = self.ns
        try:
            for n in self.ns:
                run(["ip", "netns", "add", n])
            run(["ip", "link", "add", "veth0", "netns", a, "type", "veth", "peer", "name", "veth0", "netns", b])
            for n, addr in zip(self.ns, self.NET):
                inside = ["ip", "netns", "exec", n]
                run(inside + ["ip", "link", "set", "lo", "up"])
                run(inside + ["ip", "addr", "add", f"{addr}/24", "dev", "veth0"])
                run(inside + ["ip", "link", "set", "veth0", "mtu", str(mtu), "up"])
                if not offload:
                    run(inside + ["ethtool", "-K", "veth0", "tso", "off", "gso", "off", "gro", "off"])
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

    def kernel_pair(self, server, client, first_word, timeout=PATIENCE):
        """A server in one namespace and a client in the other, one CPU each; returns the client's stdout."""
        cpus = (str(self.args.daemon_cpu), str(self.args.client_cpu))
        pre = [["ip", "netns", "exec", n, "taskset", "-c", c] for n, c in zip(self.ns, cpus)]
        p = subprocess.Popen(pre[0] + server, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            if first_word:
                for line in p.stdout:
                    if first_word in line:
                        break
            else:
                time.sleep(0.3)
            return run(pre[1] + client, timeout=timeout)
        finally:
            end(p)
