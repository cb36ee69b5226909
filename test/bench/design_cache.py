# SPDX-License-Identifier: BSD-3-Clause
"""
Bytes that move between a core and its caches for each byte that is transferred, by valgrind's model of caches: each
miss is a line of 64 bytes. Messages come from 8 MiB of buffers and go to 8 MiB of buffers; the model's last cache has 1
MiB. What a program does besides transferring bytes cancels out: the figures are the difference of two runs of different
lengths. Not seen: the kernel's part, lines that are written back, and lines that another core has.
"""
import contextlib
import os
import shutil
import subprocess

from design_place import Place
from stage import PATIENCE, BenchError, end

SIZE = 65536
RUNS = (64, 192)    # messages
LINE = 64
CACHE = "1048576,16,64"
ROLES = ("transmit", "receive", "rnicd, both ways")


def watched(out):
    return ["valgrind", "-q", "--log-file=/dev/null", "--tool=cachegrind", "--cache-sim=yes", f"--LL={CACHE}",
            f"--cachegrind-out-file={out}"]


def misses(path):
    """Data misses in the first cache and in the last cache."""
    with open(path, encoding="utf-8") as f:
        lines = [line.split(":", 1) for line in f if line.startswith(("events:", "summary:"))]
    named = dict(zip(*(text.split() for _, text in lines)))
    return [sum(int(named[n]) for n in names) for names in (("D1mr", "D1mw"), ("DLmr", "DLmw"))]


def transfer(place, n, before):
    """
    Transfers n messages from a client to a server of their own. before[role]: the words before the command of each.
    """
    stage, log = place.stage, os.path.join(place.stage.directory, "watched.log")
    argv = [stage.testpmd, "--alloc", "rnic", "-p", place.port]
    with open(log, "w", encoding="utf-8") as f:
        server = subprocess.Popen([*before[1], *argv, "-s", "--once", "-a", place.addr[0]], stdout=f, stderr=f,
                                  env=place.env)
    try:
        stage.wait_for(server, log, "listening", "testpmd-rdma -s")
        place.ended([*before[0], *argv, "-m", "write_bw", "-S", str(SIZE), "-n", str(n), "--warmup", "1", "--depth",
                     "4", "--batch", "1", "--buffers", "128", "--no-verify", "--quiet", "--timeout", "1m",
                     place.addr[0]])
        server.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        raise BenchError("testpmd-rdma -s --once did not end") from None
    finally:
        end(server)


def for_each_byte(of_runs):
    """Bytes of cache lines for each byte transferred, from the misses of a short and of a long run."""
    few, many = of_runs
    return [(b - a) * LINE / ((RUNS[1] - RUNS[0]) * SIZE) for a, b in zip(few, many)]


def programs(stage, design, keys):
    """Runs both programs under valgrind; {role: bytes in and out of the first cache, and of the last cache}."""
    seen = {role: [] for role in ROLES[:2]}
    with stage.pair(keys, serve=False):
        place = Place(stage, design, keys["port"])
        for n in RUNS:
            out = [os.path.join(stage.directory, f"{role}.{n}") for role in seen]
            transfer(place, n, [watched(path) for path in out])
            for role, path in zip(seen, out):
                seen[role].append(misses(path))
    return {role: for_each_byte(of_runs) for role, of_runs in seen.items()}


def daemon(stage, design, keys):
    """The same figures of rnicd, whose one worker serves both ends."""
    ports, seen = (("left", "pair:right", stage.ADDR[0]), ("right", "pair:left", stage.ADDR[1])), []
    for n in RUNS:
        with stage.place(), contextlib.ExitStack() as stack:
            out = os.path.join(stage.directory, f"rnicd.{n}")
            d = stack.enter_context(stage.one_daemon("rnicd", keys, ports, watched(out)))
            stage.env = stage.env_of("rnicd")
            transfer(Place(stage, design, keys["port"]), n, ((), ()))
            end(d.p)
            seen.append(misses(out))
    return for_each_byte(seen)


def traffic(stage, designs, keys):
    """
    {design: {role: [first cache, last cache]}}. An rnicd that maps a client's memory cannot run under valgrind, which
    does not have enough address space for that.
    """
    if shutil.which("valgrind") is None:
        raise BenchError("valgrind is not installed: scripts/deps.sh test")
    found = {design: programs(stage, design, keys) for design in designs}
    for design in set(designs) & {"assisted", "host"}:
        found[design][ROLES[2]] = daemon(stage, design, dict(keys, rnicd=dict(keys["rnicd"], hugepages="no")))
    return found


def table(found):
    for i, cache in enumerate(("first cache", "last cache, of 1 MiB")):
        print(f"\nbytes in and out of the {cache}, for each byte\n\n| | " + " | ".join(found) + " |\n" +
              "|---" * (1 + len(found)) + "|")
        for role in ROLES:
            row = (f"{by[role][i]:.2f}" if role in by else "" for by in found.values())
            print(f"| {role} | " + " | ".join(row) + " |")
