# SPDX-License-Identifier: BSD-3-Clause
"""
The rows that measure this project and the machine. A row is a command line and the figures that are read from its
output. A row names its scene; rows with the same scene share one set-up.
"""
import contextlib
import json
import signal
import statistics
import subprocess
import time

from stage import PATIENCE, BenchError, Stage, run

GBS = "GB/s"
OUT_OF_CACHE = 128 << 20  # bytes; more than the caches hold
IN_CACHE = 1 << 20
LONGEST_MTU = 65280  # of a wired pair, as config/pair.conf has it
SEGMENT = {1500: 1440, 9000: 8936}  # MTU: payload of one segment, for the machine's limit


class Figure:
    """One value of a row. chart, line, x: where the report draws it. quiet: left out of the printed table."""

    def __init__(self, name, unit, take, chart=None, line=None, x=None, quiet=False):
        self.name, self.unit, self.take = name, unit, take
        self.chart, self.line, self.x, self.quiet = chart, line, x, quiet


class Row:
    figures = ()
    steady = False  # the figures hardly differ from round to round: the first round is enough

    def needs(self):
        return []

    def group(self):
        return "alone"

    def scene(self, stage):
        return stage.nothing()

    def absolute(self):
        """For a ratio: the two values that were divided."""
        return []


class Limit(Row):
    """The machine's limit for the bytes of a message."""

    def __init__(self, name, argv, units=(GBS,), names=None):
        self.argv = argv
        self.figures = [Figure(n, u, None, chart="limits" if u == GBS else None, x=n)
                        for n, u in zip(names or [name], units)]

    def line(self, stage):
        return [getattr(stage, self.argv[0]), *(str(a) for a in self.argv[1:])]

    def command(self, stage):
        return f"taskset -c {stage.args.daemon_cpu} {' '.join(self.line(stage))}"

    def run(self, stage):
        pin = [] if self.argv[0] == "ring" else ["taskset", "-c", str(stage.args.daemon_cpu)]
        out = run(pin + self.line(stage)).split()
        try:
            return [float(out[i]) for i in range(len(self.figures))]
        except (IndexError, ValueError):
            raise BenchError(f"{self.argv[0]} said \"{' '.join(out)}\"") from None


def settings(keys):
    """A daemon's configuration in one line."""
    return ", ".join(f"{k}={v}" for part in keys.values() for k, v in part.items())


class Rnic(Row):
    """One testpmd-rdma run. figures(mode, size) makes the figures for each combination."""

    def __init__(self, args, mode, sizes, figures, extra=(), mtu=1500, port=None, rnicd=None, kind="pair",
                 seconds=None):
        self.kind = kind
        daemon = {"workers": args.daemon_cpu, "poll": "busy"}
        daemon.update(rnicd or {})
        self.keys = {"rnicd": daemon, "port": {"mtu": mtu, **(port or {})}}
        self.per = {(m, s): figures(m, s) for m in mode.split(",") for s in sizes.split(",")}
        self.figures = [f for fs in self.per.values() for f in fs]
        self.argv = ["--mode", mode, "--size", sizes, "--seconds", str(seconds or args.seconds),
                     "--cpu", str(args.client_cpu), *extra]

    def group(self):
        return self.kind + json.dumps(self.keys, sort_keys=True)

    def scene(self, stage):
        return getattr(stage, self.kind)(self.keys)

    def needs(self):
        return {"af_packet": ["ip", "ethtool"], "host": ["ip"]}.get(self.kind, [])

    def setting(self):
        return f"{'' if self.kind == 'pair' else self.kind + ' between two daemons; '}rnicd: {settings(self.keys)}"

    def command(self, stage):
        return f"{stage.testpmd} {' '.join(self.argv)} {stage.ADDR[0]}   # {self.setting()}"

    def run(self, stage):
        out = run([stage.testpmd, *self.argv, "--json", "--timeout", "5", stage.ADDR[0]], env=stage.env)
        values = []
        for res, figures in zip(json.loads(out)["results"], self.per.values()):
            if res["wrong"]:
                raise BenchError("data has changed on the way")
            values += [f.take(res) if res["ops"] > 0 else None for f in figures]
        return values


class Versus(Row):
    """
    The ratio of two rows, measured in turns of a fraction of a second so that changes of the machine's speed affect
    both. Each row has its own daemon, which is stopped during the other row's turn. turns: how often each row is
    measured in a round; few where a run is long.
    """

    def __init__(self, name, *sides, turns=4):
        self.sides, self.turns, self.seen = sides, turns, ([], [])
        self.figures = [Figure(f"ratio: {name}", "", None)]

    def group(self):
        return self.figures[0].name

    def needs(self):
        return [p for side in self.sides for p in side.needs()]

    def command(self, stage):
        return "\n".join(side.command(stage) for side in self.sides)

    @contextlib.contextmanager
    def scene(self, stage):
        with contextlib.ExitStack() as stack:
            self.stages = [Stage(stage.args) for _ in self.sides]
            for side, own in zip(self.sides, self.stages):
                stack.enter_context(side.scene(own))
                stack.enter_context(own.signalled(signal.SIGSTOP, signal.SIGCONT))
            yield

    def turn(self, i):
        with self.stages[i].signalled(signal.SIGCONT, signal.SIGSTOP):
            value = self.sides[i].run(self.stages[i])[0]
        if not value:
            raise BenchError("no request was completed in time")
        return value

    def run(self, stage):
        ratios = []
        for n in range(self.turns):
            first = n % 2
            value = {i: self.turn(i) for i in (first, 1 - first)}
            for i, seen in enumerate(self.seen):
                seen.append(value[i])
            ratios.append(value[0] / value[1])
        return [statistics.median(ratios)]

    def absolute(self):
        return [(statistics.median(seen), side.figures[0].unit) for seen, side in zip(self.seen, self.sides) if seen]


def started(stage, argv, port):
    """A testpmd-rdma that runs beside others, which connect by ports of their own."""
    return subprocess.Popen([stage.testpmd, *argv, "--cpu", str(stage.args.client_cpu), "-p", str(port)],
                            env=stage.env, stderr=subprocess.DEVNULL,
                            stdout=subprocess.PIPE if "--json" in argv else subprocess.DEVNULL, text=True)


def ended(programs):
    for p in programs:
        if p.poll() is None:
            p.kill()
        p.wait()


def wait_ends(stage, want, clients, patience):
    """Waits until so many ends of connections are open, those of the clients' control connections included."""
    until = time.monotonic() + patience
    while True:
        c = stage.d.counters()
        if c["opened"] - c["closed"] == want:
            return
        if time.monotonic() > until or any(p.poll() is not None for p in clients):
            raise BenchError(f"{c['opened'] - c['closed']} ends of connections are open in place of {want}")
        time.sleep(0.1)


class Idle(Rnic):
    """Idle connections: the daemon's CPU time and memory for them, and how fast they are set up and taken down."""
    EACH = 2000  # connections of one client

    def __init__(self, args, count):
        super().__init__(args, "idle", "8", lambda m, s: [], kind="idle",
                         rnicd={"poll": "adaptive", "hugepages": "no", "flows": max(4096, 2 * count + 64)})
        n = f"{count} idle connection{'' if count == 1 else 's'}"
        self.count = count
        self.argv = ["--mode", "idle", "--qps", str(min(max(count, 1), self.EACH)), "--seconds", "600", "--cpu",
                     str(args.client_cpu)]
        self.figures = [Figure(f"daemon's CPU with {n}", "% of a core", None)]
        if count == 0:
            self.figures.append(Figure("daemon's memory, ordinary pages, without clients", "MB", None))
        else:
            self.figures.append(Figure(f"daemon's memory for one end of a connection, {n}", "KiB", None))
        if 100 <= count <= self.EACH:
            self.figures += [Figure(f"connections set up, 32 at a time, {n}", "1/s", None),
                             Figure(f"connections taken down, one after the other, {n}", "1/s", None)]

    def scene(self, stage):
        return stage.pair(self.keys, serve=False)

    def start(self, stage, n, port, server):
        argv = ["-s", "-a", stage.ADDR[0], "--once"] if server else \
            ["--mode", "idle", "--qps", str(n), "--seconds", "600", "--json", stage.ADDR[0]]
        return started(stage, argv, port)

    @staticmethod
    def cpu(stage, seconds=1.0, windows=3):
        """
        Per cent of a core in the quietest of some windows: other processes may wake the daemon in the busier ones.
        """
        least = 100.0
        for _ in range(windows):
            start, before = time.monotonic(), stage.d.cpu_ns()
            time.sleep(seconds)
            least = min(least, (stage.d.cpu_ns() - before) / (time.monotonic() - start) / 1e7)
        return least

    def run(self, stage):
        base = stage.d.memory()
        if self.count == 0:
            return [self.cpu(stage), base / 1e6]
        sizes = [min(self.EACH, self.count - i) for i in range(0, self.count, self.EACH)]
        servers = [self.start(stage, n, 18600 + i, True) for i, n in enumerate(sizes)]
        clients = []
        try:
            time.sleep(0.5)
            clients = [self.start(stage, n, 18600 + i, False) for i, n in enumerate(sizes)]
            wait_ends(stage, 2 * sum(sizes) + 2 * len(sizes), clients, PATIENCE + self.count / 100)
            time.sleep(0.5)
            values = [self.cpu(stage), (stage.d.memory() - base) / (2 * self.count) / 1024]
            if len(self.figures) == len(values):
                return values
            clients[0].send_signal(signal.SIGINT)
            res = json.loads(clients[0].communicate(timeout=PATIENCE)[0])["results"][0]
            return values + [self.count / res[k] * 1e9 for k in ("connect_ns", "close_ns")]
        finally:
            ended(clients + servers)


class Active(Row):
    """
    64 B Writes with one outstanding on each queue pair: on 100 queue pairs alone, on the same beside 9,900 idle ones,
    and on 10,000. The daemon's counter of work requests is read while all clients run.
    """
    CLIENTS, EACH, FEW = 4, 2500, 100
    FIGURES = ("100 QPs", "100 of 10000 QPs", "10000 QPs")

    def __init__(self, args):
        self.seconds = max(0.1, 2 * args.seconds)
        self.keys = {"rnicd": {"workers": args.daemon_cpu, "poll": "busy", "flows": 24000, "quota-qps": 4096,
                               "user-share": 100},
                     "port": {"mtu": 1500}}
        self.figures = [Figure(f"64 B Writes, one outstanding on each of {n}", "M/s", None) for n in self.FIGURES]
        self.figures += [Figure(f"ratio: 64 B Writes, one outstanding on each, {n} / {self.FIGURES[0]}", "", None)
                         for n in self.FIGURES[1:]]

    def group(self):
        return self.figures[0].name

    def scene(self, stage):
        return stage.pair(self.keys, serve=False)

    @staticmethod
    def line(stage, mode, n):
        return ["--mode", mode, "--size", "64", "--depth", "1", "--qps", str(n), "--seconds", "600", "--no-verify",
                stage.ADDR[0]]

    def command(self, stage):
        conf = settings(self.keys)
        return "\n".join(f"{many} x {stage.testpmd} {' '.join(self.line(stage, mode, n))}   # rnicd: {conf}"
                         for many, mode, n in ((1, "write_bw", self.FEW), (self.CLIENTS, "idle", self.EACH),
                                               (self.CLIENTS, "write_bw", self.EACH)))

    def rate(self, stage):
        """Millions of Writes a second."""
        time.sleep(self.seconds)  # until all queue pairs have their turn
        start, before = time.monotonic(), stage.d.counters()["wqes"]
        time.sleep(self.seconds)
        return (stage.d.counters()["wqes"] - before) / (time.monotonic() - start) / 1e6

    @contextlib.contextmanager
    def running(self, stage, jobs, beside=()):
        """One client and its server for each job (mode, number of queue pairs), beside the jobs that run already."""
        servers, clients, first = [], [], 18600 + len(beside)
        try:
            servers = [started(stage, ["-s", "-a", stage.ADDR[0], "--once"], first + i) for i in range(len(jobs))]
            time.sleep(0.5)
            clients = [started(stage, self.line(stage, *job), first + i) for i, job in enumerate(jobs)]
            wait_ends(stage, 2 * sum(n + 1 for _, n in [*beside, *jobs]), clients, 2 * PATIENCE)
            yield
        finally:
            ended(clients + servers)

    def run(self, stage):
        few, idle = [("write_bw", self.FEW)], [("idle", self.EACH - self.FEW // self.CLIENTS)] * self.CLIENTS
        rates = []
        with self.running(stage, few):
            rates.append(self.rate(stage))
        wait_ends(stage, 0, [], PATIENCE)
        with self.running(stage, idle), self.running(stage, few, beside=idle):
            rates.append(self.rate(stage))
        wait_ends(stage, 0, [], PATIENCE)
        with self.running(stage, [("write_bw", self.EACH)] * self.CLIENTS):
            rates.append(self.rate(stage))
        wait_ends(stage, 0, [], PATIENCE)
        return rates + [r / rates[0] for r in rates[1:]]


# ---- figures from a result ----

WORD = {"write_bw": "Write", "read_bw": "Read", "send_bw": "Send", "write_lat": "Write", "read_lat": "Read",
        "send_lat": "Send"}
BYTES = {"k": 1 << 10, "m": 1 << 20}


def in_bytes(size):
    return int(size[:-1]) * BYTES[size[-1]] if size[-1] in BYTES else int(size)


def field(key, scale=1.0):
    return lambda res: res[key] * scale


def bandwidth(what, chart=None, line=None):
    """Makes the figures of a bandwidth run at one size."""
    def make(mode, size):
        n = f"RC {WORD[mode]} {size}, {what}"
        return [Figure(n, GBS, field("gbytes_per_s"), chart=chart, line=line and f"{WORD[mode]}, {line}",
                       x=in_bytes(size), quiet=chart is not None and size not in ("64", "4k", "64k", "1m", "8m"))]
    return make


def client_cost(res):
    return res["cpu_s_per_gb"] + res["peer_cpu_s_per_gb"]


def sweep(mode, size):
    """Bandwidth; for Writes also the CPU time of each byte. The daemon spins, so all of its core's time counts."""
    figures = bandwidth("MTU 1500, CRC on", "bandwidth", "MTU 1500")(mode, size)
    if mode == "write_bw":
        q = size not in ("64", "64k")
        figures += [Figure(f"CPU time for a GB, Write {size}: {who}", "s", take, chart="cost", line=who,
                           x=in_bytes(size), quiet=q)
                    for who, take in (("both clients", client_cost),
                                      ("daemon, both ends", lambda r: 1 / r["gbytes_per_s"]))]
        if size == "64":
            figures += [Figure("CPU time for a 64 B Write: client", "ns", field("cpu_ns_per_msg")),
                        Figure("CPU time for a 64 B Write: server", "ns", field("peer_cpu_ns_per_msg")),
                        Figure("CPU time for a 64 B Write: daemon, both ends", "ns", lambda r: 1e3 / r["mmsgs_per_s"])]
    return figures


def rate(size, depth, qps):
    text = f"{size} B Writes, {depth} outstanding" + (f" on each of {qps} QPs" if qps > 1 else "")
    return lambda mode, s: [Figure(text, "M/s", field("mmsgs_per_s"))]


QUANTILES = (("min", 0, "least"), ("p99", 99, "p99"), ("p999", 99.9, "p99.9"), ("max", 100, "most"))


def latency(what="", line=""):
    """Latency: half a round trip for Writes and Sends, the whole of it for a Read."""
    def make(mode, size):
        n = f"{WORD[mode]} latency, {size} B{what}" if size.isdigit() else f"{WORD[mode]} latency, {size}{what}"
        figures = [Figure(f"{n}, median", "us", field("lat_p50_ns", 1e-3), chart="latency", line=WORD[mode] + line,
                          x=in_bytes(size))]
        if size == "64":
            figures += [Figure(f"{n}, {name}", "us", field(f"lat_{key}_ns", 1e-3), chart="distribution",
                               line=WORD[mode] + line, x=x, quiet=name in ("least", "most"))
                        for key, x, name in QUANTILES]
            figures.append(Figure(f"{n}, half of them", "us", field("lat_p50_ns", 1e-3), chart="distribution",
                                  line=WORD[mode] + line, x=50, quiet=True))
        return figures
    return make


SWEEP = "64,256,1k,4k,16k,64k,256k,1m,8m"
ALL_SIZES = "64,128,256,512,1k,2k,4k,8k,16k,32k,64k,128k,256k,512k,1m,2m,4m,8m"


def limits(args):
    for mtu, seg in SEGMENT.items():
        for where, span in (("in cache", IN_CACHE), ("out of cache", OUT_OF_CACHE)):
            yield Limit(f"limit: CRC+CRC+copy, MTU {mtu}, {where}", ("limits", "--loop", seg, span))
    # In batches of 32 segments, as a worker that serves both ends does each step for all segments of a turn.
    yield Limit("limit: the same in batches of 32, MTU 9000, out of cache", ("limits", "--loop", SEGMENT[9000], OUT_OF_CACHE, 32))
    for where, span in (("in cache", IN_CACHE), ("out of cache", OUT_OF_CACHE)):
        yield Limit(f"limit: memcpy, MTU 9000, {where}", ("limits", "--copy", SEGMENT[9000], span))
    yield Limit("ring", ("ring", args.daemon_cpu, args.client_cpu), ("M/s", "ns"),
                ("limit: ring hand-over between the cores", "limit: ring hand-over, one way"))


def bandwidths(args):
    quick = max(0.1, args.seconds / 2)
    yield Rnic(args, "write_bw,read_bw,send_bw", ALL_SIZES if args.full else SWEEP, sweep, seconds=quick,
               extra=["--warmup", "50ms"])
    yield Rnic(args, "write_bw,read_bw,send_bw", "64k", bandwidth("MTU 1500, both ways"), extra=["--bidir"])
    yield Rnic(args, "write_bw,read_bw", "64k", bandwidth("MTU 1500, out of cache"), extra=["--buffers", "1024"])
    yield Rnic(args, "write_bw", SWEEP, bandwidth("MTU 9000, CRC on", "bandwidth", "MTU 9000"), mtu=9000, seconds=quick,
               extra=["--warmup", "50ms"])
    yield Rnic(args, "read_bw,send_bw", "64k,1m", bandwidth("MTU 9000, CRC on"), mtu=9000)
    yield Rnic(args, "write_bw", "64k", bandwidth("MTU 9000, both ways"), mtu=9000, extra=["--bidir"])
    yield Rnic(args, "write_bw,read_bw", "64k", bandwidth("MTU 9000, out of cache"), mtu=9000,
               extra=["--buffers", "1024"])
    for n in (64, 1024):
        yield Rnic(args, "send_bw", "64k", bandwidth(f"MTU 9000, {n} buffers, receiver reads them"), mtu=9000,
                   extra=["--depth", "64", "--touch", "--buffers", str(n)])
    yield Rnic(args, "write_bw,read_bw,send_bw", "64k", bandwidth(f"MTU {LONGEST_MTU}"), mtu=LONGEST_MTU)
    for mtu in (1500, 9000):
        for what, port in (("CRC off", {"crc": "off"}), ("CRC summed", {"crc": "always"}), ("markers on", {"markers": "on"})):
            yield Rnic(args, "write_bw,read_bw", "64k", bandwidth(f"MTU {mtu}, {what}"), mtu=mtu, port=port)


def rates(args):
    sizes, depths, counts = ("8", "64", "256"), (1, 16, 128), (1, 8, 64, 1024)
    few = {("64", 1, 1), ("64", 16, 1), ("64", 128, 1), ("8", 128, 1), ("256", 128, 1), ("64", 16, 8), ("64", 16, 64),
           ("64", 16, 1024), ("64", 1, 1024)}
    for size, depth, qps in ((s, d, q) for q in counts for s in sizes for d in depths):
        if args.full or (size, depth, qps) in few:
            yield Rnic(args, "write_bw", size, rate(size, depth, qps), extra=["--depth", str(depth), "--qps", str(qps)])


def latencies(args):
    sizes = "8,64,512,4k,16k,64k" if args.full else "8,64,4k,64k"
    quick = max(0.1, args.seconds / 2)
    yield Rnic(args, "write_lat,send_lat,read_lat", sizes, latency(), seconds=quick)
    # The two ends of a ping-pong may share a CPU, but a client that polls for its own completions needs a CPU of its
    # own.
    alone = "Write of 64 B, post to completion"
    yield Rnic(args, "write_bw", "64", lambda m, s: [Figure(f"{alone}, {name}", "us", field(f"lat_{key}_ns", 1e-3))
                                                     for key, name in (("p50", "median"), ("p99", "p99"))],
               extra=["--depth", "1"])
    yield Rnic(args, "send_lat,read_lat", sizes, latency(", events", ", events"), extra=["--events"], seconds=quick)
    yield Rnic(args, "write_lat", "64",
               lambda m, s: [Figure("Write latency, 64 B, daemon floats and sleeps, p99.9", "us",
                                    field("lat_p999_ns", 1e-3))],
               rnicd={"workers": "auto", "poll": "adaptive"})


def ratios(args):
    """The ratios within this project, and to the machine's limit, that have targets."""
    def write(size="64k", seconds=max(0.1, args.seconds / 2), **keys):
        return Rnic(args, "write_bw", size, bandwidth(""), seconds=seconds, **keys)

    def loop(span, mtu=9000):
        return Limit("", ("limits", "--loop", SEGMENT[mtu], span))

    def same(mode, seconds=max(0.1, args.seconds / 2)):
        return Rnic(args, mode, "64k", bandwidth(""), mtu=LONGEST_MTU, seconds=seconds)

    many = ["--buffers", "1024"]
    summed = {"crc": "always"}
    for where, span, more in (("in cache", IN_CACHE, []), ("out of cache", OUT_OF_CACHE, many)):
        yield Versus(f"Write 64k, MTU {LONGEST_MTU} / memcpy, {where}", write(mtu=LONGEST_MTU, extra=more),
                     Limit("", ("limits", "--copy", 64 << 10, span)), turns=3)
    for mode in ("read_bw", "send_bw"):
        yield Versus(f"{WORD[mode]} 64k, MTU {LONGEST_MTU} / Write", same(mode), same("write_bw"), turns=3)
    yield Versus("Write 64k, MTU 1500 / CRC+CRC+copy, in cache", write(port=summed), loop(IN_CACHE, 1500), turns=3)
    yield Versus("Write 64k, MTU 9000 / CRC+CRC+copy, in cache", write(mtu=9000, port=summed), loop(IN_CACHE))
    yield Versus("Write 64k, MTU 9000 / CRC+CRC+copy, out of cache", write(mtu=9000, extra=many, port=summed),
                 loop(OUT_OF_CACHE))
    yield Versus("Write 64k, MTU 1500, CRC summed / off", write(port=summed), write(port={"crc": "off"}))
    yield Versus("Write 64k, MTU 1500, markers on / off", write(port={"markers": "on"}), write())
    yield Versus("Write 64 B on 1024 QPs / on 1 QP", write("64", args.seconds, extra=["--depth", "16", "--qps", "1024"]),
                 write("64", args.seconds, extra=["--depth", "128"]))


def others(args):
    for loss in ("0", "0.01%", "0.1%", "1%", "3%"):
        yield Rnic(args, "write_bw", "64k", lambda m, s, l=loss: [
            Figure(f"RC Write 64k, MTU 1500, {l} of frames lost", GBS, field("gbytes_per_s"), chart="loss",
                   line="RC Write 64k", x=float(l.rstrip("%")))],
                   port={"loss": loss} if loss != "0" else None)
    for size in ("64", "256", "64k"):
        yield Rnic(args, "write_bw", size, lambda m, s: [Figure(f"10 Gb/s port, Write {s}, MTU 1500", "Gb/s",
                                                               field("gbits_per_s"))], port={"rate": "10G"})
    calm = {"poll": "adaptive"}
    for kind, what, more in (("memif", "two daemons over memif", {}),
                             ("af_packet", "AF_PACKET over veth", {"min-rto": "50ms"}),
                             ("host", "a host port over veth", {"min-rto": "50ms"})):
        yield Rnic(args, "write_bw,send_bw", "64k", bandwidth(f"MTU 1500, {what}"), rnicd=calm, port=more, kind=kind)
        yield Rnic(args, "send_lat", "64", lambda m, s, w=what: [Figure(f"Send latency, 64 B, {w}, median", "us",
                                                                       field("lat_p50_ns", 1e-3))],
                   rnicd=calm, port=more, kind=kind)
    for count in (0, 1, 1000, 20000) if args.full else (0, 1, 1000):
        yield Idle(args, count)
    yield Active(args)


def project_rows(args):
    return [*limits(args), *bandwidths(args), *rates(args), *latencies(args), *ratios(args), *others(args)]
