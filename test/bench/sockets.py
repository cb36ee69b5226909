# SPDX-License-Identifier: BSD-3-Clause
"""Unchanged TCP programs over rnicd, both ends its own, and the same programs over the kernel's TCP and veth."""
import json
import os

from rivals import Kernel
from rows import GBS, Figure, Row, Versus
from stage import BenchError, client_of

PORT = "7077"
TURNS = 3  # how often a side of a ratio is measured in a round; a run takes one second or more


def received_gbs(out):
    """GB/s that iperf3's server has received, from the client's JSON."""
    return json.loads(out)["end"]["sum_received"]["bits_per_second"] / 8e9


def bench_sock(stage):
    return os.path.join(stage.args.build, "test", "bench", "bench_sock")


class Sockets(Row):
    """A server and a client under `rnicrun --sockets`. They and the daemon have a CPU each if the machine has three."""

    def __init__(self, args, figure, mtu):
        self.keys = {"rnicd": {"workers": args.daemon_cpu, "poll": "busy"}, "port": {"mtu": mtu}}
        self.seconds = max(1, round(args.seconds))
        self.figures = [figure]

    def group(self):
        return "sockets" + json.dumps(self.keys)

    def scene(self, stage):
        return stage.pair(self.keys, serve=False)

    def needs(self):
        return []

    def command(self, stage):
        return f"rnicrun --sockets {' '.join(self.client(stage))}   # MTU {self.keys['port']['mtu']}"

    def run(self, stage):
        pre = [os.path.join(stage.args.build, "app", "rnicrun", "rnicrun"), "--sockets"]
        return [self.take(client_of(pre + self.server(stage), pre + self.client(stage), "listening", stage.env))]


class Iperf(Sockets):
    def __init__(self, args, mtu):
        super().__init__(args, Figure(f"sockets, iperf3 with one stream, MTU {mtu}", GBS, None), mtu)

    def needs(self):
        return ["iperf3"]

    def server(self, stage):
        return ["iperf3", "-s", "-1", "-B", stage.ADDR[0], "--forceflush"]

    def client(self, stage):
        return ["iperf3", "-c", stage.ADDR[0], "-t", str(self.seconds), "-l", "64K", "-J"]

    take = staticmethod(received_gbs)


class IperfLong(Iperf):
    """iperf3 with send() and recv() of 1 MiB. wire: the wire that the client asks for (doc/stream-sockets.md)."""

    def __init__(self, args, wire):
        super().__init__(args, 1500)
        self.figures = [Figure(f"sockets, iperf3 with calls of 1 MiB, wire {wire}, MTU 1500", GBS, None)]
        self.wire = wire

    def client(self, stage):
        return ["env", "RNIC_WIRE=" + self.wire, *super().client(stage), "-l", "1M"]


class PingPong(Sockets):
    def __init__(self, args):
        super().__init__(args, Figure("sockets, ping-pong of 64 B, one way, median", "us", None), 1500)

    def server(self, stage):
        return [bench_sock(stage), "-s", stage.ADDR[0], PORT]

    def client(self, stage):
        return [bench_sock(stage), stage.ADDR[0], PORT, str(self.seconds)]

    @staticmethod
    def take(out):
        return number(out)


class KernelPingPong(Kernel):
    def __init__(self, args):
        super().__init__(args, 1500, True)
        self.figures = [Figure("kernel sockets, ping-pong of 64 B, one way, median", "us", None)]

    def needs(self):
        return ["ip", "ethtool", "taskset", "ping"]

    def client(self, stage):
        return [bench_sock(stage), stage.NET[0], PORT, str(self.seconds)]

    def run(self, stage):
        return [number(stage.kernel_pair([bench_sock(stage), "-s", stage.NET[0], PORT], self.client(stage), "listening"))]


def number(out):
    try:
        return float(out)
    except ValueError:
        raise BenchError(f"bench_sock said \"{out.strip()}\"") from None


def socket_rows(args):
    yield from (Iperf(args, 1500), Iperf(args, 9000), PingPong(args))
    for how in (False, True):
        yield Versus(f"iperf3, sockets / kernel over veth, MTU 1500, offloads {'on' if how else 'off'}", Iperf(args, 1500),
                     Kernel(args, 1500, how), turns=TURNS)
    yield Versus("iperf3 with calls of 1 MiB, wire iwarp / plain, MTU 1500", IperfLong(args, "iwarp"),
                 IperfLong(args, "plain"), turns=TURNS)
    yield Versus("ping-pong of 64 B, kernel over veth / sockets", KernelPingPong(args), PingPong(args),
                 turns=TURNS)
