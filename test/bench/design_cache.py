# SPDX-License-Identifier: BSD-3-Clause
"""
Bytes that go between a core and its caches for each byte that is moved, by valgrind's model of them: each miss is a
line of 64 bytes. Messages come from and go to 8 MiB of buffers; the last cache of the model has 1 MiB. What a program
does besides moving bytes is taken off by a second run that moves less. The kernel's part is not seen, nor are lines
that are written back or that another core has.
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
    """Of data, in the first cache and in the last one."""
    with open(path, encoding="utf-8") as f:
        lines = [line.split(":", 1) for line in f if line.startswith(("events:", "summary:"))]
    named = dict(zip(*(text.split() for _, text in lines)))
    return [sum(int(named[n]) for n in names) for names in (("D1mr", "D1mw"), ("DLmr", "DLmw"))]


def transfer(place, n, before):
    """n messages from a client to a server of their own; before[role](): what starts each of them."""
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
    """Bytes of lines for each byte, from the misses of a short and of a long run."""
    few, many = of_runs
    return [(b - a) * LINE / ((RUNS[1] - RUNS[0]) * SIZE) for a, b in zip(few, many)]


def programs(stage, design, keys):
    """{role: bytes in and out of the first cache, of the last one}, the programs under valgrind."""
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
    """The same of rnicd, whose one worker serves both ends."""
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
    {design: {role: [first cache, last cache]}}. An rnicd that shares a client's memory cannot be watched: valgrind has
    not enough addresses for it.
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
