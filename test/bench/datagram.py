# SPDX-License-Identifier: BSD-3-Clause
"""
Datagrams compared with connections: latency and bandwidth over the size of a message, bandwidth when frames are lost,
the daemon's memory for each peer, and the ratios that have targets. Every CRC is summed and checked on both sides of
each ratio (`crc = always`). One worker serves both ends of a pair, MTU 1500.
"""
import json
import os
import subprocess
import time

from rows import GBS, WORD, Figure, Rnic, Row, Versus, field, in_bytes
from stage import PATIENCE, BenchError, end, run

TURNS = 3  # how often a side of a ratio is measured in a round; there are many such ratios
KINDS = ("rc", "ud", "rd")
SUMMED = {"crc": "always"}
SIZES = "1,64,1k,2k,4k,16k,64k,256k,1m"
LOST_SIZES = "1k,4k,64k,256k,1m"
LOSSES = ("0.1%", "0.5%", "1%", "5%")
# The runs with lost frames: testpmd-rdma's mode, type of queue pair, keys of the port.
LOST = (("send_bw", "ud", {}), ("write_bw", "ud", {}), ("write_bw", "ud", {"segments": "64k"}), ("write_bw", "rd", {}))
QKEY = str(0x1234)  # of test/e2e/rd_ends.c
QUIET = ("64", "64k")  # the sizes that the printed table shows


def what(kind, mode):
    """Name of a kind of transfer, as "UD Write-Record" or "RC Send"."""
    word = WORD[mode]
    return f"{kind.upper()} {'Write-Record' if (kind, word) == ('ud', 'Write') else word}"


def kind_of(kind, *more):
    return ["--qp-type", kind, "--warmup", "20ms", *more]


def segments(keys):
    """Part of a row's name: how messages are cut into segments, where that is not the default."""
    return f", segments = {keys['segments']}" if "segments" in keys else ""


def lost_chart(kind, mode, keys):
    return f"grams lost, {what(kind, mode)}{segments(keys)}"


class Datagram(Rnic):
    """One testpmd-rdma run over one type of queue pair."""

    def __init__(self, args, kind, mode, sizes, figures, more=(), **keys):
        super().__init__(args, mode, sizes, figures, extra=kind_of(kind, *more), **dict({"port": SUMMED}, **keys))


def sweeps(args):
    quick = max(0.08, args.seconds / 5)
    for kind in KINDS:
        yield Datagram(args, kind, "write_lat,send_lat", SIZES, lambda m, s, k=kind: [
            Figure(f"{what(k, m)} {s}, summed, one way, median", "us", field("lat_p50_ns", 1e-3), chart="grams latency",
                   line=what(k, m), x=in_bytes(s), quiet=s not in QUIET)], seconds=quick)
        yield Datagram(args, kind, "write_bw,send_bw", SIZES, lambda m, s, k=kind: [
            Figure(f"{what(k, m)} {s}, summed", GBS, field("gbytes_per_s"), chart="grams bandwidth", line=what(k, m),
                   x=in_bytes(s), quiet=s not in QUIET)], more=["--no-verify"], seconds=quick)
    keys = {"segments": "64k"}
    yield Datagram(args, "ud", "write_bw", SIZES, lambda m, s: [
        Figure(f"{what('ud', m)} {s}{segments(keys)}, summed", GBS, field("gbytes_per_s"), chart="grams bandwidth",
               line=what("ud", m) + segments(keys), x=in_bytes(s), quiet=s not in QUIET)],
                   more=["--no-verify"], port=dict(SUMMED, **keys), seconds=quick)


def losses(args):
    for loss in LOSSES:
        for mode, kind, keys in LOST:
            yield Datagram(args, kind, mode, LOST_SIZES, lambda m, s, k=kind, l=loss, cut=keys: [
                Figure(f"{what(k, m)} {s}{segments(cut)}, {l} of frames lost", GBS, field("gbytes_per_s"),
                       chart=lost_chart(k, m, cut), line=f"{l} lost", x=in_bytes(s), quiet=s not in QUIET)],
                           more=["--no-verify"], port=dict(SUMMED, loss=loss, **keys),
                           seconds=max(0.08, args.seconds / 4))


class OneProgram(Row):
    """
    Latency of datagrams and of connections with both ends in one program, and the ratio of the two. If two programs
    share a CPU, a message waits until the kernel changes from one to the other; here no message does. imm: the RC Write
    has immediate data, so its target gets a completion, as the target of a Write-Record does.
    """

    def __init__(self, args, mode, size, imm=False):
        self.keys = {"rnicd": {"workers": args.daemon_cpu, "poll": "busy"}, "port": {"mtu": 1500, **SUMMED}}
        self.argv = ["imm" if imm else WORD[mode].lower(), str(in_bytes(size)), str(max(0.2, args.seconds))]
        kinds = [what("rc", mode) + (" with immediate" if imm else ""), what("ud", mode)]
        beside = f", beside {kinds[0]}" if imm else ""
        self.figures = [Figure(f"{k} {size}, summed, both ends in one program{b}, one way, median", "ns", None)
                        for k, b in zip(kinds, ("", beside))]
        self.figures.append(Figure(f"ratio: {kinds[1]} / {kinds[0]}, {size} latency, both ends in one program", "",
                                   None))

    def group(self):
        return "one program" + json.dumps(self.keys)

    def scene(self, stage):
        return stage.pair(self.keys, serve=False)

    @staticmethod
    def line(stage):
        return ["taskset", "-c", str(stage.args.client_cpu),
                os.path.join(stage.args.build, "test", "bench", "bench_lat"), *stage.ADDR]

    def command(self, stage):
        return " ".join([*self.line(stage), *self.argv]) + "   # rnicd: crc=always"

    def run(self, stage):
        out = run([*self.line(stage), *self.argv], env=stage.env).split()
        try:
            rc, ud = map(float, out)
        except ValueError:
            raise BenchError(f"bench_lat said \"{' '.join(out)}\"") from None
        return [rc, ud, ud / rc]


class Peers(Row):
    """The daemon's memory for one queue pair that talks to many peers; RC needs a connection for each peer."""
    steady = True

    def __init__(self, args, kind, count):
        self.kind, self.count = kind, count
        self.keys = {"rnicd": {"poll": "adaptive", "hugepages": "no", "flows": max(4096, 2 * count + 64),
                               "quota-qps": 4096},  # the most
                     "port": {"mtu": 1500}}
        self.figures = [Figure(f"daemon's memory for a peer, {kind.upper()}, {count} peer{'' if count == 1 else 's'}",
                               "KiB", None, chart="grams memory", line=kind.upper(), x=count)]

    def group(self):
        return self.figures[0].name

    def scene(self, stage):
        return stage.memif(self.keys)

    def line(self, stage, count):
        return [stage.testpmd, "--mode", "idle", "--qps", str(count), "--seconds", "600", "--qp-type", self.kind,
                stage.ADDR[0]]

    def command(self, stage):
        return f"{' '.join(self.line(stage, self.count))}   # memif between two daemons; memory of the server's"

    @staticmethod
    def share(before, after, count):
        """
        KiB of the daemon's memory for each of `count` peers. before, after: the daemon's memory in bytes without and
        with the peers. Pages that all peers share are divided among them.
        """
        return max(0, after - before) / count / 1024

    def run(self, stage):
        # These two runs make the daemon allocate what it allocates only once, and so before the measurement: buffers,
        # and the tables that come with the first queue pair of a kind.
        run([a if a != "600" else "0.1" for a in self.line(stage, 1)], env=stage.env)
        run([stage.testpmd, "--mode", "write_bw", "--qps", "32", "--no-verify", "--seconds", "0.5", stage.ADDR[0]],
            env=stage.env)
        before, met = stage.far.memory(), self.met(stage)
        with subprocess.Popen([*self.line(stage, self.count), "--json"], env=stage.env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
            try:
                until = time.monotonic() + PATIENCE
                while self.met(stage) - met < self.count:
                    if p.poll() is not None or time.monotonic() > until:
                        raise BenchError(f"not all of {self.count} peers have connected: {p.stderr.read().strip()}"
                                         if p.poll() is not None else f"not all of {self.count} peers have connected")
                    time.sleep(0.1)
                time.sleep(0.5)
                after = stage.far.memory()
                p.send_signal(2)
                out, err = p.communicate(timeout=PATIENCE)
                if p.returncode != 0 or not json.loads(out)["results"]:
                    raise BenchError(f"not all of {self.count} peers were alive: {err.strip()}")
            finally:
                end(p)
        return [self.share(before, after, self.count)]

    def met(self, stage):
        """
        How many peers the client's queue pairs have talked to: the connections that the client's daemon has opened (RC,
        without the client's own connection), or the datagrams that it has sent (UD, RD).
        """
        c = stage.d.counters()
        return {"rc": c["opened"] - 1, "ud": c["ud_out"], "rd": c["rd_segs_out"]}[self.kind]


class Crowd(Row):
    """
    The daemon's memory for each of many devices, from which it has heard within rd-idle, and their queue pairs. With
    more than one queue pair a device: the memory for each, and the daemon's CPU time for a message from each to the one
    queue pair of rnicd, which sleeps between the messages.
    """
    steady = True
    HERE = os.path.dirname(os.path.abspath(__file__))
    WARM = 64  # devices that are met before the measurement

    def __init__(self, count, pairs=1):
        self.count, self.pairs = count, pairs
        self.keys = {"rnicd": {"poll": "1us", "hugepages": "no"}, "port": {"mtu": 1500}}
        each = f"RD, {count} devices" + (f" of {pairs} queue pairs" if pairs > 1 else "")
        self.figures = [Figure(f"daemon's memory for a {'pair' if pairs > 1 else 'device'}, {each}", "KiB", None)]
        if pairs > 1:
            self.figures.append(Figure(f"daemon's CPU for a message, {each}", "us", None))

    def needs(self):
        return ["ip"]

    def group(self):
        return self.figures[0].name

    def scene(self, stage):
        keys = dict(self.keys, port=dict(self.keys["port"], gateway=stage.ADDR[1]))
        return stage.crowd(keys)

    def line(self, stage, *numbers):
        return ["ip", "netns", "exec", stage.ns[0], os.path.join(self.HERE, "crowd.py"), stage.ADDR[0],
                stage.CROWD.split("/", maxsplit=1)[0], str(self.pairs), *numbers]

    def command(self, stage):
        return f"{' '.join(self.line(stage))} QPN Q_KEY WHERE STAG   # on a tap; {self.count} devices"

    def run(self, stage):
        store = os.path.join(stage.args.build, "test", "e2e", "rd_ends")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen([store, stage.ADDR[0], "store", "64", "0"], env=stage.env, **pipes) as s:
            try:
                qpn, where, stag = s.stdout.readline().split()[1:]
                with subprocess.Popen(self.line(stage, qpn, QKEY, where, stag), **pipes) as p:
                    try:
                        return self.measure(stage, p)[:len(self.figures)]
                    finally:
                        end(p)
            finally:
                end(s)

    def measure(self, stage, p):
        def meet(n, altogether):
            p.stdin.write(f"{n}\n")
            p.stdin.flush()
            if p.stdout.readline().strip() != str(altogether):
                raise BenchError(f"not all of {n} devices were met")

        meet(self.WARM, self.WARM)
        before, start, pairs = stage.d.memory(), stage.d.cpu_ns(), self.count * self.pairs
        meet(self.count, self.WARM + self.count)
        took, after, c = stage.d.cpu_ns() - start, stage.d.memory(), stage.d.counters()
        if c["rd_peers"] * self.pairs != c["rd_pairs"] or c["rd_peers"] < self.WARM + self.count:
            raise BenchError(f"rnicd has {c['rd_peers']} peers and {c['rd_pairs']} pairs of {self.count} devices")
        return [Peers.share(before, after, pairs), took / pairs / 1000]


class Incast(Datagram):
    """Latency of a small message beside 16 senders of large ones on a line of 10 Gb/s: the 99.9th percentile."""
    SENDERS = 16

    def __init__(self, args, kind):
        name = f"{kind.upper()} Send 64 B beside {self.SENDERS} senders of 64 KiB, 10 Gb/s, p99.9"
        super().__init__(args, kind, "send_lat", "64", lambda m, s: [Figure(name, "us", field("lat_p999_ns", 1e-3))],
                         port=dict(SUMMED, rate="10G"))
        self.load = ["--mode", "send_bw", "--size", "64k", "--qps", str(self.SENDERS), "--depth", "4",
                     "--seconds", "60", "--no-verify", "--cpu", str(args.client_cpu), "--qp-type", kind]

    def run(self, stage):
        before = stage.d.counters()["wqes"]
        with subprocess.Popen([stage.testpmd, *self.load, stage.ADDR[0]], env=stage.env, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as p:
            try:
                until = time.monotonic() + PATIENCE
                while stage.d.counters()["wqes"] < before + 50 * self.SENDERS:
                    if p.poll() is not None or time.monotonic() > until:
                        raise BenchError("the senders of large messages did not begin")
                    time.sleep(0.05)
                return super().run(stage)
            finally:
                end(p)


def ratios(args):
    quick = max(0.08, args.seconds / 4)

    def side(kind, mode, size, **port):
        take = field("lat_p50_ns") if mode.endswith("_lat") else field("gbytes_per_s")
        unit = "ns" if mode.endswith("_lat") else GBS
        more = [] if mode.endswith("_lat") else ["--no-verify"]
        return Datagram(args, kind, mode, size, lambda m, s: [Figure("", unit, take)], more, seconds=quick,
                        port=dict(SUMMED, **port))

    def versus(kind, mode, size):
        kinds = f"{what(kind, mode)} / {what('rc', mode)}"
        how = "latency" if mode.endswith("_lat") else "rate" if size == "64" else "bandwidth"
        return Versus(f"{kinds}, {size} {how}", side(kind, mode, size), side("rc", mode, size), turns=TURNS)

    for mode in ("send_lat", "write_lat"):
        for size in ("64", "2k"):
            yield versus("ud", mode, size)
    for size in ("1k", "64k", "512k"):
        yield versus("ud", "write_bw", size)
    for kind, sizes in (("ud", ("64", "4k")), ("rd", ("64", "64k"))):
        for size in sizes:
            yield versus(kind, "send_bw", size)
    for size in ("64k", "1m"):
        yield Versus(f"UD Write-Record {size}, 5 % lost / none", side("ud", "write_bw", size, loss="5%"),
                     side("ud", "write_bw", size), turns=TURNS)
    far = {"delay": "500us", "loss": "1%"}
    yield Versus("RD Write 64k / RC with bbr, 1 % lost, RTT 1 ms", side("rd", "write_bw", "64k", **far),
                 side("rc", "write_bw", "64k", congestion="bbr", **far), turns=TURNS)


def datagram_rows(args):
    out = [*sweeps(args), *losses(args), *ratios(args),
           *(OneProgram(args, mode, size) for mode in ("send_lat", "write_lat") for size in ("64", "2k")),
           *(OneProgram(args, "write_lat", size, imm=True) for size in ("64", "2k")),
           *(Incast(args, kind) for kind in ("rc", "rd"))]
    for count in (10, 100, 1000, 4000) if args.full else (10, 100, 1000):
        out += [Peers(args, kind, count) for kind in KINDS]
    return out + [Crowd(count) for count in (1000, 10000)] + [Crowd(1024, 16)]
