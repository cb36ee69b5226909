# SPDX-License-Identifier: BSD-3-Clause
"""
The alternatives that a user has without this project, over veth between namespaces: the kernel's TCP, UCX over TCP,
libfabric over TCP.
"""
import json
import re

from rows import GBS, Figure, Row
from stage import BenchError

UNITS = {"ns": 1e-3, "us": 1, "ms": 1e3, "sec": 1e6}


def sockperf_median(out):
    """The median of one way in what sockperf's client prints, us."""
    found = re.search(r"percentile 50\.000 *= *([0-9.]+)", out)
    if not found:
        raise BenchError(f"sockperf said \"{out.strip()}\"")
    return float(found[1])


class Kernel(Row):
    """Bandwidth of the kernel's TCP, and its CPU time for a GB."""

    def __init__(self, args, mtu, offload):
        self.mtu, self.offload, self.seconds = mtu, offload, max(1, round(args.seconds))
        how = f"MTU {mtu}, segmentation offloads {'on' if offload else 'off'}"
        self.figures = [Figure(f"kernel TCP, {how}", GBS, None, chart="level" if mtu == 1500 else None,
                               line=f"kernel TCP, MTU 1500, offloads {'on' if offload else 'off'}"),
                        Figure(f"CPU time for a GB, kernel TCP, {how}", "s", None,
                               chart="cost level" if mtu == 1500 else None,
                               line=f"kernel TCP, offloads {'on' if offload else 'off'}")]

    def needs(self):
        return ["ip", "iperf3", "ethtool", "taskset", "ping"]

    def group(self):
        return f"kernel {self.mtu} {self.offload}"

    def scene(self, stage):
        return stage.namespaces(self.mtu, self.offload)

    def client(self, stage):
        return ["iperf3", "-c", stage.NET[0], "-t", str(self.seconds), "-O", "1", "-l", "64K", "-J"]

    def command(self, stage):
        return " ".join(self.client(stage)) + f"   # veth, MTU {self.mtu}, offloads {'on' if self.offload else 'off'}"

    def run(self, stage):
        out = stage.kernel_pair(["iperf3", "-s", "-1", "--forceflush"], self.client(stage), "Server listening")
        res = json.loads(out)["end"]
        rate, cpu = res["sum_received"]["bits_per_second"] / 8e9, res["cpu_utilization_percent"]
        return [rate, (cpu["host_total"] + cpu["remote_total"]) / 100 / rate]


class KernelLatency(Kernel):
    def __init__(self, args, size):
        super().__init__(args, 1500, True)
        self.size = size
        self.figures = [Figure(f"kernel TCP latency, {size} B one way", "us", None, chart="latency", line="kernel TCP",
                               x=size)]

    def needs(self):
        return ["ip", "qperf", "ethtool", "taskset", "ping"]

    def client(self, stage):
        return ["qperf", stage.NET[0], "-t", str(self.seconds), "-m", str(self.size), "-uu", "tcp_lat"]

    def run(self, stage):
        words = stage.kernel_pair(["qperf"], self.client(stage), None).split()
        try:
            i = words.index("=")
            return [float(words[i + 1]) * UNITS[words[i + 2]]]
        except (ValueError, KeyError, IndexError):
            raise BenchError(f"qperf said \"{' '.join(words)}\"") from None


class KernelSockperf(Kernel):
    """sockperf that spins on its sockets."""
    SPINS = ["--tcp", "--nonblocked", "-i"]

    def __init__(self, args):
        super().__init__(args, 1500, True)
        self.figures = [Figure("kernel TCP, sockperf ping-pong of 64 B, spinning, one way, median", "us", None)]

    def needs(self):
        return ["ip", "sockperf", "ethtool", "taskset", "ping", "stdbuf"]

    def client(self, stage):
        return ["sockperf", "ping-pong", *self.SPINS, stage.NET[0], "-m", "64", "-t", str(self.seconds)]

    def run(self, stage):
        server = ["stdbuf", "-oL", "sockperf", "server", *self.SPINS, stage.NET[0]]
        return [sockperf_median(stage.kernel_pair(server, self.client(stage), "using recvfrom"))]


class Ucx(Kernel):
    """UCX with UCX_TLS=tcp, as MPI libraries would use it."""

    def __init__(self, args, test, size, count, figure):
        super().__init__(args, 1500, True)
        self.test = ["-t", test, "-s", str(size), "-n", str(count), "-w", str(count // 10)]
        self.figures = [figure]

    def needs(self):
        return ["ip", "ucx_perftest", "ethtool", "taskset", "ping"]

    def client(self, stage):
        return ["ucx_perftest", stage.NET[0], *self.test, "-f", "-v"]

    def command(self, stage):
        return "UCX_TLS=tcp UCX_NET_DEVICES=veth0 " + super().command(stage)

    def run(self, stage):
        out = stage.kernel_pair(["ucx_perftest"], self.client(stage), None).split()
        try:
            _, median, _, _, _, mib, _, _ = (float(v) for v in out[-1].split(","))
        except (ValueError, IndexError):
            raise BenchError(f"ucx_perftest said \"{' '.join(out)}\"") from None
        return [median if self.figures[0].unit == "us" else mib * (1 << 20) / 1e9]


class Fabric(Kernel):
    """
    libfabric's tcp provider. fi_pingpong has one message under way at a time, so its bandwidth is not that of a stream.
    """

    def __init__(self, args, size, count, figure):
        super().__init__(args, 1500, True)
        self.test = ["-p", "tcp", "-e", "msg", "-I", str(count), "-S", str(size)]
        self.figures = [figure]

    def needs(self):
        return ["ip", "fi_pingpong", "ethtool", "taskset", "ping"]

    def client(self, stage):
        return ["fi_pingpong", *self.test, stage.NET[0]]

    def run(self, stage):
        out = stage.kernel_pair(["fi_pingpong", *self.test], self.client(stage), None).split()
        try:
            mb, us = float(out[-3]), float(out[-2])
        except (ValueError, IndexError):
            raise BenchError(f"fi_pingpong said \"{' '.join(out)}\"") from None
        return [us if self.figures[0].unit == "us" else mb / 1e3]


def rival_rows(args):
    rows = [Kernel(args, mtu, offload) for mtu in (1500, 9000) for offload in (False, True)]
    rows += [KernelLatency(args, size) for size in (8, 64, 4096, 65536)]
    rows.append(KernelSockperf(args))
    rows.append(Ucx(args, "tag_bw", 65536, 5000, Figure("UCX over TCP, tag_bw 64k, MTU 1500, offloads on", GBS, None)))
    rows.append(Ucx(args, "tag_lat", 64, 5000, Figure("UCX over TCP latency, tag_lat 64 B, median", "us", None)))
    rows.append(Fabric(args, 65536, 2000, Figure("libfabric tcp, fi_pingpong 64k, MTU 1500, offloads on", GBS, None)))
    rows.append(Fabric(args, 64, 5000, Figure("libfabric tcp latency, fi_pingpong 64 B", "us", None)))
    return rows
