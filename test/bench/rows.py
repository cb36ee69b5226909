# SPDX-License-Identifier: BSD-3-Clause
"""The rows of the benchmark. A row knows its scene, its command line, and how to take one value out of what that prints."""
import json

from stage import BenchError, run

GBS = "GB/s"  # 10^9 payload bytes a second
LOOP = {1500: 1440, 9000: 8936}  # payload of one segment, for the machine's limit


class Row:
    unit = GBS
    better = "more"

    def needs(self):
        return []

    def group(self):
        return self.name

    def scene(self, stage):
        return stage.nothing()


class Limit(Row):
    """Two sums and a copy over the bytes of each segment: what the wire format costs at least."""

    def __init__(self, mtu):
        self.mtu = mtu
        self.name = f"limit: CRC+CRC+copy, segments of MTU {mtu}"

    def command(self, stage):
        return f"{stage.limits} --loop {LOOP[self.mtu]}"

    def run(self, stage):
        out = run(["taskset", "-c", str(stage.args.daemon_cpu), stage.limits, "--loop", str(LOOP[self.mtu])])
        try:
            return float(out.split()[0])
        except (IndexError, ValueError):
            raise BenchError(f"bench_limits said \"{out.strip()}\"") from None


class Rnic(Row):
    """One testpmd-rdma run over two wired ports of one daemon."""

    def __init__(self, name, mode, size, args, extra=(), mtu=1500, port=None, rnicd=None, field="gbytes_per_s", unit=GBS):
        self.name = name
        self.unit = unit
        self.better = "less" if unit == "us" else "more"
        self.field = field
        daemon = {"workers": args.daemon_cpu, "poll": "busy", "memory": "256M"}
        daemon.update(rnicd or {})
        self.keys = {"rnicd": daemon, "port": {"mtu": mtu, **(port or {})}}
        self.argv = ["--mode", mode, "--size", size, "--seconds", str(args.seconds), "--cpu", str(args.client_cpu),
                     *extra]

    def group(self):
        return json.dumps(self.keys, sort_keys=True)

    def scene(self, stage):
        return stage.daemon(self.keys)

    def command(self, stage):
        conf = ", ".join(f"{k}={v}" for part in self.keys.values() for k, v in part.items())
        return f"{stage.testpmd} {' '.join(self.argv)} {stage.ADDR[0]}   [rnicd: {conf}]"

    def run(self, stage):
        out = run([stage.testpmd, *self.argv, "--json", "--timeout", "5", stage.ADDR[0]], env=stage.env)
        res = json.loads(out)["results"][0]
        if res["wrong"]:
            raise BenchError("data arrived changed")
        value = res[self.field]
        return value / 1000 if self.unit == "us" else value


class Kernel(Row):
    """The kernel's TCP between two namespaces over veth."""

    def __init__(self, mtu, offload, args):
        self.mtu, self.offload, self.seconds = mtu, offload, max(1, round(args.seconds))
        self.name = f"kernel TCP, MTU {mtu}, segmentation offloads {'on' if offload else 'off'}"

    def needs(self):
        return ["ip", "iperf3", "ethtool", "taskset", "ping"]

    def group(self):
        return f"kernel {self.mtu} {self.offload}"

    def scene(self, stage):
        return stage.namespaces(self.mtu, self.offload)

    def client(self, stage):
        return ["iperf3", "-c", stage.NET[0], "-t", str(self.seconds), "-O", "1", "-l", "64K", "-J"]

    def command(self, stage):
        return " ".join(self.client(stage))

    def run(self, stage):
        out = stage.kernel_pair(["iperf3", "-s", "-1", "--forceflush"], self.client(stage), "Server listening")
        return json.loads(out)["end"]["sum_received"]["bits_per_second"] / 8e9


class KernelLatency(Kernel):
    unit = "us"
    better = "less"

    def __init__(self, size, args):
        super().__init__(1500, True, args)
        self.size = size
        self.name = f"kernel TCP latency, {size} B one way"

    def needs(self):
        return ["ip", "qperf", "ethtool", "taskset", "ping"]

    def client(self, stage):
        return ["qperf", stage.NET[0], "-t", str(self.seconds), "-m", str(self.size), "-uu", "tcp_lat"]

    def run(self, stage):
        words = stage.kernel_pair(["qperf"], self.client(stage), None).split()
        scale = {"ns": 1e-3, "us": 1, "ms": 1e3, "sec": 1e6}
        try:
            i = words.index("=")
            return float(words[i + 1]) * scale[words[i + 2]]
        except (ValueError, KeyError, IndexError):
            raise BenchError(f"qperf said \"{' '.join(words)}\"") from None


def all_rows(args):
    rows = [Limit(1500), Limit(9000)]
    for mtu in (1500, 9000):
        rows += [Kernel(mtu, False, args), Kernel(mtu, True, args)]
        variants = (("CRC on", {}), ("CRC off", {"crc": "off"}), ("markers on", {"markers": "on"}))
        for what, port in variants:
            for size in ("64k", "1m"):
                rows.append(Rnic(f"RC Write {size}, MTU {mtu}, {what}", "write_bw", size, args, mtu=mtu, port=port))
            rows.append(Rnic(f"RC Read 64k, MTU {mtu}, {what}", "read_bw", "64k", args, mtu=mtu, port=port))
        rows.append(Rnic(f"RC Read 1m, MTU {mtu}, CRC on", "read_bw", "1m", args, mtu=mtu))
        rows.append(Rnic(f"RC Send 64k, MTU {mtu}, CRC on", "send_bw", "64k", args, mtu=mtu))
        rows.append(Rnic(f"RC Write 64k, MTU {mtu}, CRC on, 1024 buffers", "write_bw", "64k", args, mtu=mtu,
                         extra=["--buffers", "1024"]))
        rows.append(Rnic(f"RC Write 64k, MTU {mtu}, CRC on, both ways", "write_bw", "64k", args, mtu=mtu, extra=["--bidir"]))
    for depth in (1, 16, 128):
        rows.append(Rnic(f"64 B Writes, {depth} outstanding", "write_bw", "64", args, extra=["--depth", str(depth)],
                         field="mmsgs_per_s", unit="M/s"))
    for qps in (64, 1024):
        rows.append(Rnic(f"64 B Writes, 16 outstanding on each of {qps} QPs", "write_bw", "64", args,
                         extra=["--depth", "16", "--qps", str(qps)], field="mmsgs_per_s", unit="M/s",
                         rnicd={"memory": "2G", "hugepages": "no"}))  # working memory for each active connection
    for mode, what in (("write_lat", "Write"), ("send_lat", "Send"), ("read_lat", "Read")):
        for size in (8, 64):
            rows.append(Rnic(f"{what} latency, {size} B, median", mode, str(size), args, field="lat_p50_ns", unit="us"))
    rows.append(Rnic("Write latency, 64 B, p99", "write_lat", "64", args, field="lat_p99_ns", unit="us"))
    rows.append(Rnic("Write latency, 64 B, p99.9", "write_lat", "64", args, field="lat_p999_ns", unit="us"))
    rows.append(Rnic("Send latency, 64 B, events, median", "send_lat", "64", args, extra=["--events"], field="lat_p50_ns",
                     unit="us"))
    rows.append(Rnic("Write latency, 64 B, daemon floats and sleeps, p99.9", "write_lat", "64", args, field="lat_p999_ns",
                     unit="us", rnicd={"workers": "auto", "poll": "adaptive"}))
    rows += [KernelLatency(8, args), KernelLatency(64, args)]
    for size in ("64", "256", "64k"):
        rows.append(Rnic(f"10 Gb/s port, Write {size}, MTU 1500", "write_bw", size, args, port={"rate": "10G"},
                         field="gbits_per_s", unit="Gb/s"))
    return rows
