# SPDX-License-Identifier: BSD-3-Clause
"""
The embedded design, which needs no rnicd, over loopback beside what a user has without it: iperf3 and sockperf over the
kernel's TCP. Server and client have a CPU each.
"""
import json
import os
import re
import signal
import subprocess
import time

from rivals import sockperf_median
from rows import GBS, Figure, Row, Versus
from sockets import received_gbs
from stage import PATIENCE, BenchError, client_of

ADDR = "127.0.0.1"
TURNS = 3  # how often a side of a ratio is measured in a round; a run takes one second or more


class Loopback(Row):
    """A server and a client that talk over loopback. Each kind of row has a port of its own."""
    PORT = 7090
    pinned = True

    def __init__(self, args, figure):
        self.cpus = (args.daemon_cpu, args.client_cpu)
        self.seconds = max(1, round(args.seconds))
        self.figures = [figure]

    def command(self, stage):
        return " ".join(self.client(stage))

    def env(self):
        return os.environ

    def run(self, stage):
        pre = [["taskset", "-c", str(cpu)] if self.pinned else [] for cpu in self.cpus]
        return [self.take(client_of(pre[0] + self.server(stage), pre[1] + self.client(stage), self.ready, self.env()))]


class Embedded(Loopback):
    """testpmd-rdma in the design embedded."""
    ready = "listening"

    def __init__(self, args, figure, mode, size, key, keys=""):
        super().__init__(args, figure)
        self.mode, self.size, self.key, self.keys = mode, size, key, keys
        # The thread that serves a peer's Writes needs a CPU while the program itself spins on its memory.
        self.pinned = mode != "write_lat"

    def env(self):
        return dict(os.environ, RNIC_DESIGN="embedded", RNIC_EMBEDDED_KEYS=self.keys)

    def server(self, stage):
        return [stage.testpmd, "-s", "-a", ADDR, "-p", str(self.PORT)]

    def client(self, stage):
        return [stage.testpmd, "-m", self.mode, "-S", self.size, "-t", str(self.seconds), "--json", "--no-verify", "-p",
                str(self.PORT), ADDR]

    def command(self, stage):
        return f"RNIC_DESIGN=embedded RNIC_EMBEDDED_KEYS={self.keys} {super().command(stage)}"

    def take(self, out):
        return json.loads(out)["results"][0][self.key[0]] * self.key[1]


class Iperf(Loopback):
    PORT = 7091
    ready = "Server listening"

    def __init__(self, args):
        super().__init__(args, Figure("kernel TCP over loopback, iperf3", GBS, None))

    def needs(self):
        return ["iperf3", "taskset"]

    def server(self, stage):
        return ["iperf3", "-s", "-1", "-B", ADDR, "-p", str(self.PORT), "--forceflush"]

    def client(self, stage):
        return ["iperf3", "-c", ADDR, "-p", str(self.PORT), "-t", str(self.seconds), "-l", "64K", "-J"]

    take = staticmethod(received_gbs)


class Sockperf(Loopback):
    PORT = 7092
    ready = "to block on socket"

    def __init__(self, args):
        super().__init__(args, Figure("kernel TCP over loopback, sockperf ping-pong of 64 B, one way, median", "us", None))

    def needs(self):
        return ["sockperf", "taskset"]

    def server(self, stage):
        return ["stdbuf", "-oL", "sockperf", "server", "--tcp", "-i", ADDR, "-p", str(self.PORT)]

    def client(self, stage):
        return ["sockperf", "ping-pong", "--tcp", "-i", ADDR, "-p", str(self.PORT), "-m", "64", "-t", str(self.seconds)]

    take = staticmethod(sockperf_median)


class IdleMemory(Row):
    """Memory of a process for one end of an idle connection, beside the kernel's socket: that of the last 1,000."""
    PORT = 7093
    COUNT = 1000

    def __init__(self):
        self.figures = [Figure(f"embedded, memory for one end of a connection, {self.COUNT} idle connections", "KiB",
                               None)]

    def client(self, stage, count):
        return [stage.testpmd, "-m", "idle", "--qps", str(count), "-t", "600", "-p", str(self.PORT), ADDR]

    def command(self, stage):
        return f"RNIC_DESIGN=embedded {' '.join(self.client(stage, self.COUNT))}"

    @staticmethod
    def resident(pid):
        with open(f"/proc/{pid}/status", encoding="utf-8") as f:
            return int(re.search(r"^VmRSS:\s+(\d+) kB$", f.read(), re.M)[1])

    @staticmethod
    def sockets(pid):
        return sum(os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:") for fd in os.listdir(f"/proc/{pid}/fd"))

    def ends(self, stage, count):
        """Resident KiB of both programs together while `count` connections are idle."""
        env = dict(os.environ, RNIC_DESIGN="embedded")
        quiet = {"env": env, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        programs = [subprocess.Popen([stage.testpmd, "-s", "-a", ADDR, "--once", "-p", str(self.PORT)], **quiet)]
        try:
            while "listening" not in programs[0].stdout.readline():
                if programs[0].poll() is not None:
                    raise BenchError("testpmd-rdma -s ended")
            programs.append(subprocess.Popen(self.client(stage, count), **quiet))
            until = time.monotonic() + PATIENCE
            while any(self.sockets(p.pid) < count + 1 for p in programs):  # one connection more carries the orders
                if time.monotonic() > until or any(p.poll() is not None for p in programs):
                    raise BenchError(f"{count} connections did not come up")
                time.sleep(0.1)
            time.sleep(0.5)
            return sum(self.resident(p.pid) for p in programs)
        finally:
            for p in reversed(programs):
                p.send_signal(signal.SIGKILL)
                p.wait()

    def run(self, stage):
        few = self.ends(stage, 1)
        return [(self.ends(stage, 1 + self.COUNT) - few) / (2 * self.COUNT)]


def embedded_rows(args):
    def ours(what, unit, *how):
        return Embedded(args, Figure(f"embedded, {what}", unit, None), *how)

    bandwidth, latency = ("gbytes_per_s", 1), ("lat_p50_ns", 1e-3)
    for how in ("off", "on"):
        yield Versus(f"embedded Write 64k over loopback, CRC {how} / iperf3",
                     ours("Write 64k over loopback", GBS, "write_bw", "64k", bandwidth, f"crc={how}"), Iperf(args),
                     turns=TURNS)
    for mode, what in (("send_lat", "Send"), ("write_lat", "Write")):
        yield Versus(f"embedded {what} 64 B over loopback / sockperf, latency",
                     ours(f"{what} 64 B, one way, median", "us", mode, "64", latency), Sockperf(args), turns=TURNS)
    yield IdleMemory()
