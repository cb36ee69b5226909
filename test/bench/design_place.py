# SPDX-License-Identifier: BSD-3-Clause
"""One design of designs.py: a server that runs in this design, its clients, an application, and the CPU time of all."""
import contextlib
import json
import os
import subprocess

from stage import BenchError, cpu_ns, end

DESIGNS = ("offloaded", "assisted", "host", "embedded")
BUFFERS = 128 << 20  # bytes; more than any cache holds


def rates(bytes_moved, seconds, clients, workers):
    """GB/s, the CPU time of the programs and of rnicd for each 1,000 bytes (ns), GB for each CPU second of both."""
    return (bytes_moved / seconds / 1e9, clients * 1e12 / bytes_moved, workers * 1e12 / bytes_moved,
            bytes_moved / (clients + workers) / 1e9)


class Place:
    """A server in one design, and clients of it."""

    def __init__(self, stage, design, keys):
        self.stage, self.design = stage, design
        self.addr = ["127.0.0.1"] if design == "embedded" else list(stage.ADDR)
        self.port = str(18600 + DESIGNS.index(design))
        # keys for designs that run iWARP in the program
        own = ",".join(f"{k}={v}" for k, v in keys.items() if k != "mtu")
        self.env = dict(stage.env, RNIC_DESIGN=design, RNIC_EMBEDDED_KEYS=own)

    @contextlib.contextmanager
    def open(self):
        log = os.path.join(self.stage.directory, f"{self.design}.log")
        with open(log, "w", encoding="utf-8") as f:
            self.server = subprocess.Popen([self.stage.testpmd, "-s", "-a", self.addr[0], "-p", self.port], stdout=f,
                                           stderr=f, env=self.env)
        try:
            self.stage.wait_for(self.server, log, "listening", "testpmd-rdma -s")
            yield self
        finally:
            end(self.server)

    def ends(self):
        """
        The client's arguments for the two ends: without an address of its own a client in design host or assisted would
        call from the server's device, and no frame would pass the wire.
        """
        return ["-p", self.port, "-a", self.addr[-1], self.addr[0]]

    def ended(self, argv):
        """Runs a program to its end; returns its output and its CPU time in seconds."""
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env) as p:
            out = p.stdout.read()
            err = p.stderr.read()
            _, status, usage = os.wait4(p.pid, 0)
            p.returncode = os.waitstatus_to_exitcode(status)
        if p.returncode != 0:
            raise BenchError(f"{' '.join(argv)} ({self.design}): {err.strip() or out.strip()}")
        return out, usage.ru_utime + usage.ru_stime

    def run(self, mode, size, seconds, *more):
        """
        Runs the client; returns its row of results, the CPU seconds of both programs, and the CPU seconds of rnicd.
        """
        argv = [self.stage.testpmd, "-m", mode, "-S", str(size), "-t", str(seconds), "--warmup", "1", "--json",
                "--no-verify", "--quiet", *more, *self.ends()]
        before = cpu_ns(self.server.pid), cpu_ns(self.stage.d.p.pid)
        out, client = self.ended(argv)
        return (json.loads(out)["results"][0], client + (cpu_ns(self.server.pid) - before[0]) / 1e9,
                (cpu_ns(self.stage.d.p.pid) - before[1]) / 1e9)

    def bandwidth(self, size, seconds, *more):
        row, clients, workers = self.run("write_bw", size, seconds, *more)
        return rates(row["bytes"], row["bytes"] / row["gbytes_per_s"] / 1e9, clients, workers)

    def latency(self, size, seconds):
        """Median latency in us, then the figures of bandwidth()."""
        return (self.run("write_lat", size, seconds)[0]["lat_p50_ns"] / 1e3, *self.bandwidth(size, seconds))

    def cold(self, size, seconds):
        """
        Bandwidth with a different buffer for each message, so many that no cache holds them. Making the buffers takes
        CPU time, too.
        """
        return self.bandwidth(size, 4 * seconds, "--buffers", str(BUFFERS // size), "--depth", "16", "--batch", "4")

    def computing(self, size, us, seconds):
        """Bandwidth with one request for each post, so that the client computes between requests."""
        return self.bandwidth(size, seconds, "--batch", "1", "--depth", "16", "--compute", f"{us}us")

    def connected(self, size, qps, seconds):
        """
        Bandwidth over `qps` connections, with one Write outstanding on each of them, and eight together on fewer than
        eight. It is run four times as long, as the CPU time contains the set-up of the connections.
        """
        return self.bandwidth(size, 4 * seconds, "--qps", str(qps), "--depth", str(max(1, 8 // qps)), "--batch", "1")

    def isosurface(self, unit, dims):
        """Seconds that the application took, then the figures of the bytes that its processes moved."""
        argv = [os.path.join(self.stage.args.build, "examples", "isosurface", "isosurface"), "--unit", str(unit),
                "--dims", str(dims), "--json", "-o", os.path.join(self.stage.directory, "picture.png"), *self.addr]
        before = cpu_ns(self.stage.d.p.pid)
        told = json.loads(self.ended(argv)[0])
        workers = (cpu_ns(self.stage.d.p.pid) - before) / 1e9
        return (told["seconds"], *rates(told["bytes"], told["seconds"], told["cpu_seconds"], workers))
