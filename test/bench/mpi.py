# SPDX-License-Identifier: BSD-3-Clause
"""
MPI over connections (rc), datagrams (ud), both (hybrid) and reliable datagrams (rd): the kernels of examples/mpi over
minimpi. Measures latency and bandwidth both ways over the size of a message, the time of each kernel and the part of it
that is spent in MPI calls over the number of ranks, and the memory of ranks and daemon. Every CRC is summed and checked
(`crc = always`). All ranks share one CPU, so a time is that of the work of all ranks.
"""
import glob
import os
import re
import subprocess
import time

from rows import GBS, Figure, Row, Versus, settings
from stage import PATIENCE, BenchError, end, run

CHANNELS = ("rc", "ud", "hybrid", "rd")
RANKS = (2, 4, 8, 16)
MOST = RANKS[-1]
KERNELS = {  # kernel: its command line
    "CG": ("cg", "32"), "MG": ("mg", "16"), "LU": ("lu", "16", "30"), "radix sort": ("radix", "20000"),
    "SMG": ("smg", "8"),
}
PAUSE = 0.2  # seconds before a job: the daemon gives back the memory of the job before, on the ranks' CPU
SIZES = 4 ** 10  # bytes of the largest message; sizes are powers of 4
RUN, CALLS = "MPI run, ", "MPI calls, "  # charts, then the kernel


def name_of(channel):
    return channel if channel == "hybrid" else channel.upper()


class Mpi(Row):
    """A kernel's run over a daemon with two wired ports; ranks use the two ports in turn."""
    KEEP = ()

    def __init__(self, args, channel, ranks, kernel, **rnicd):
        self.channel, self.ranks, self.kernel, self.cpu = channel, ranks, kernel, args.client_cpu
        self.keys = {"rnicd": {"workers": args.daemon_cpu, "poll": "busy", **rnicd},
                     "port": {"mtu": 1500, "crc": "always"}}
        self.figures = []

    def group(self):
        return f"mpi {sorted(self.keys['rnicd'].items())}"

    def scene(self, stage):
        return stage.pair(self.keys, serve=False)

    def line(self, stage):
        folder = os.path.join(stage.args.build, "examples", "mpi")
        return ["taskset", "-c", str(self.cpu), os.path.join(folder, "minirun"), *self.KEEP, "-n", str(self.ranks),
                "-c", self.channel, os.path.join(folder, self.kernel[0]), *self.kernel[1:]]

    def command(self, stage):
        return f"{' '.join(self.line(stage))}   # rnicd: {settings(self.keys)}"

    def job(self, stage):
        time.sleep(PAUSE)
        return run(self.line(stage), env=stage.env)

    def right(self, out):
        """Checks that the kernel has found its result right; returns the sums over all ranks that minimpi prints."""
        if not re.search(rf"^{self.kernel[0]}: .*\bright$", out, re.M):
            raise BenchError(f"{self.kernel[0]} found its own result wrong")
        words = re.search(r"^minimpi: all (.*)$", out, re.M).group(1).split()
        return {k: float(v) for k, v in zip(words[::2], words[1::2])}


class Times(Mpi):
    """
    Time from MPI_Init() to MPI_Finalize() of the slowest rank, and the mean over the ranks of the time in MPI calls.
    """

    def __init__(self, args, channel, ranks, what):
        super().__init__(args, channel, ranks, KERNELS[what])
        name = f"MPI {what}, {ranks} ranks, {name_of(channel)}"
        self.figures = [Figure(f"{name}, run", "ms", None, chart=RUN + what, line=name_of(channel), x=ranks,
                               quiet=ranks != MOST),
                        Figure(f"{name}, inside of calls", "ms", None, chart=CALLS + what, line=name_of(channel),
                               x=ranks, quiet=ranks != MOST)]

    def run(self, stage):
        used = self.right(self.job(stage))
        return [used["run_s"] * 1e3, used["comm_s"] / self.ranks * 1e3]


class Sizes(Mpi):
    """A kernel that prints a line of figures for each message size."""

    def __init__(self, args, channel, ranks, kernel, what, *, unit, chart):
        super().__init__(args, channel, ranks, kernel)
        sizes = [4 ** i for i in range(11) if 4 ** i <= SIZES]
        self.figures = [Figure(f"MPI {what} {size} B, {name_of(channel)}", unit, None, chart=chart,
                               line=name_of(channel), x=size, quiet=size not in (64, 65536)) for size in sizes]

    def run(self, stage):
        out = self.job(stage)
        self.right(out)
        found = {int(size): float(v) for size, v in re.findall(rf"^{self.kernel[0]}: (\d+) bytes (\S+) ", out, re.M)}
        return [found[f.x] for f in self.figures]


class Memory(Mpi):
    """
    Memory of a job when its ranks are about to end: the ranks' memory files, which hold registered buffers and queues
    and are shared with the daemon, and the growth of the daemon's own memory. Ordinary pages.
    """
    KEEP = ("-k",)
    steady = True

    def __init__(self, args, channel, ranks, what):
        super().__init__(args, channel, ranks, KERNELS[what], poll="adaptive", hugepages="no")
        name = f"MPI memory, {what}, {ranks} ranks, {name_of(channel)}"
        self.figures = [Figure(name, "MiB", None, chart=f"MPI memory, {what}", line=name_of(channel), x=ranks),
                        Figure(f"{name}, registered buffers and queues", "MiB", None, quiet=True),
                        Figure(f"{name}, the daemon's own", "MiB", None, quiet=True)]

    def group(self):
        return self.figures[0].name  # a daemon of its own, which has served no job before

    @staticmethod
    def shared(pids):
        """Bytes of the memory files that these processes have open; each file counts once."""
        seen = {}
        for fd in (fd for pid in pids for fd in glob.glob(f"/proc/{pid}/fd/*")):
            try:
                if "/memfd:rnic" in os.readlink(fd):
                    s = os.stat(fd)
                    seen[s.st_dev, s.st_ino] = s.st_blocks * 512
            except FileNotFoundError:
                pass  # the descriptor has been closed meanwhile
        return sum(seen.values())

    def run(self, stage):
        before, out = stage.d.memory(), ""
        with subprocess.Popen(self.line(stage), env=dict(stage.env, RNIC_HUGE="0"), text=True, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as p:
            try:
                for text in p.stdout:
                    out += text
                    if text.startswith("minirun: held"):
                        break
                self.right(out)
                with open(f"/proc/{p.pid}/task/{p.pid}/children", encoding="ascii") as f:
                    shared = self.shared(f.read().split())
                own = stage.d.memory() - before
                p.stdin.close()
                if p.wait(PATIENCE) != 0:
                    raise BenchError(f"{self.kernel[0]}: exit status {p.returncode}")
            finally:
                end(p)
        return [v / (1 << 20) for v in (shared + own, shared, own)]


class Suite(Mpi):
    """All kernels, one after the other; the figure is the sum of their times."""

    def __init__(self, args, channel, ranks):
        super().__init__(args, channel, ranks, next(iter(KERNELS.values())))
        self.figures = [Figure("", "s", None)]

    def command(self, stage):
        lines = []
        for self.kernel in KERNELS.values():
            lines.append(super().command(stage))
        return "\n".join(lines)

    def run(self, stage):
        took = 0
        for self.kernel in KERNELS.values():
            took += self.right(self.job(stage))["run_s"]
        return [took]


def mpi_rows(args):
    rounds = str(max(5, int(args.seconds * 250)))
    for channel in CHANNELS:
        yield Sizes(args, channel, 2, ("pingpong", rounds, str(SIZES)), "ping-pong", unit="us", chart="MPI latency")
        yield Sizes(args, channel, 4, ("bibw", "3", str(SIZES), "8"), "both ways", unit=GBS, chart="MPI bandwidth")
    for what in KERNELS:
        for ranks in RANKS:
            for channel in CHANNELS:
                yield Times(args, channel, ranks, what)
    for what in KERNELS if args.full else ("CG", "radix sort"):
        for ranks in RANKS:
            for channel in CHANNELS:
                yield Memory(args, channel, ranks, what)
    for channel in CHANNELS[1:]:
        yield Versus(f"MPI kernels, {MOST} ranks, {name_of(channel)} / RC run time", Suite(args, channel, MOST),
                     Suite(args, "rc", MOST), turns=1)
