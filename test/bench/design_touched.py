# SPDX-License-Identifier: BSD-3-Clause
"""
Bytes touched for each byte that is moved, as the code counts them: copied, and summed for a CRC32C or a checksum, in
the sending and the receiving program and in rnicd's worker for both directions. A pass that copies and sums counts as
both. What the kernel touches in the embedded design is not counted. Each figure is the difference of two runs of
different lengths, so the beginning of a connection cancels out.
"""
import re
import subprocess

from design_place import DESIGNS, Place
from stage import BenchError, PATIENCE, end

KINDS = ("copied_tx", "summed_tx", "copied_rx", "summed_rx")
TITLES = ("sender copies", "sender sums", "rnicd copies to send", "rnicd sums to send", "rnicd copies received",
          "rnicd sums received", "receiver copies", "receiver sums", "together")


NAMES = ("copied_tx", "copied_rx", "summed_tx", "summed_rx")  # in the order in which librnic prints them


def told(err):
    """The counts that librnic has printed at the end of a process; zeros if rnicd runs iWARP for the process."""
    line = re.search("librnic: " + " ".join(rf"{name} (\d+)" for name in NAMES), err)
    return dict(zip(NAMES, map(int, line.groups()))) if line else dict.fromkeys(NAMES, 0)


def one(stage, design, keys, size, count):
    """Bytes touched by `count` Writes of `size` bytes, in the order of TITLES. There is no warm-up, since a warm-up may
    post any number of Writes up to the depth."""
    place = Place(stage, design, keys)
    env = dict(place.env, RNIC_TOUCHED="1")
    before = stage.d.counters()
    server = subprocess.Popen([stage.testpmd, "-s", "--once", "-a", place.addr[0], "-p", place.port], env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        for line in server.stdout:
            if "listening" in line:
                break
        client = subprocess.run([stage.testpmd, "-m", "write_bw", "-S", str(size), "-n", str(count), "--warmup", "0",
                                 "--no-verify", "--quiet", *place.ends()], env=env, text=True,
                                capture_output=True, timeout=PATIENCE, check=False)
        _, err = server.communicate(timeout=PATIENCE)
    finally:
        end(server)
    if client.returncode != 0 or server.returncode != 0:
        raise BenchError(f"write_bw ({design}): {client.stderr.strip() or err.strip()}")
    after, tx, rx = stage.d.counters(), told(client.stderr), told(err)
    worker = {k: after[k] - before[k] for k in KINDS}
    return (tx["copied_tx"], tx["summed_tx"], *(worker[k] for k in KINDS), rx["copied_rx"], rx["summed_rx"])


def row(stage, design, keys, size, count):
    short, longer = (one(stage, design, keys, size, n * count) for n in (1, 2))
    each = [(b - a) / (size * count) for a, b in zip(short, longer)]
    return [*each, sum(each)]


def measure(stage, keys, sizes, total=64 << 20):
    """{size: {design: touched bytes for each byte, in the order of TITLES}}"""
    with stage.pair(keys, serve=False):
        return {size: {d: row(stage, d, keys["port"], size, total // size) for d in DESIGNS} for size in sizes}


def table(found):
    for size, by in found.items():
        print(f"\nbytes touched for each byte, Writes of {size} bytes\n\n| | " + " | ".join(TITLES) + " |\n" +
              "|---" * (1 + len(TITLES)) + "|")
        for design, figures in by.items():
            print(f"| {design} | " + " | ".join(f"{v:.2f}" for v in figures) + " |")
