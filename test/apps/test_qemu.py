#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""QEMU's live migration over RDMA: a machine with known memory moves from one process to another."""
import hashlib
import json
import os
import random
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from programs import on_device
from rig import RNICRUN, Daemon, case, main, need, pair_conf, until

# the part of the guest's memory whose content is known, bytes; the guest's firmware does not write to it
AT, SIZE = 64 << 20, 48 << 20
PORT = 4444
PINNED = {"capability": "rdma-pin-all", "state": True}


class Machine:
    """
    One QEMU under rnicrun, without a disk. A call sends a command to its monitor as JSON (QMP) and returns the answer.
    """

    def __init__(self, d, name, *more):
        self.path = os.path.join(d.dir, name + ".qmp")
        self.p = d.run(RNICRUN, "qemu-system-x86_64", "-accel", "tcg", "-m", "192", "-display", "none", "-nodefaults",
                       "-qmp", f"unix:{self.path},server=on,wait=off", *more, RNIC_REG_VERBOSE="0")
        until(lambda: self.p.p.poll() is not None or os.path.exists(self.path), self.p.tail)
        assert self.p.p.poll() is None, self.p.tail()
        self.sock = socket.socket(socket.AF_UNIX)
        until(self.listens, self.p.tail)
        self.lines = self.sock.makefile("r", encoding="utf-8")
        self.lines.readline()
        self("qmp_capabilities")

    def listens(self):
        """Connects to the monitor. False: the socket's file exists, but QEMU does not listen yet."""
        try:
            self.sock.connect(self.path)
        except ConnectionRefusedError:
            return False
        return True

    def __call__(self, command, **arguments):
        self.sock.sendall(json.dumps({"execute": command, "arguments": arguments}).encode())
        for line in self.lines:
            answer = json.loads(line)
            if "event" not in answer:
                assert "return" in answer, f"{command}: {line}\n{self.p.tail()}"
                return answer["return"]
        raise AssertionError(f"{command}: QEMU has ended\n{self.p.tail()}")

    def memory(self, path):
        self("pmemsave", val=AT, size=SIZE, filename=path)
        with open(path, "rb") as f:
            return hashlib.sha256(f.read()).hexdigest()

    def migration(self):
        return self("query-migrate").get("status")


def two(d, capabilities):
    """
    Starts the machine that moves and the machine that receives it; returns both, and the hash of the moved memory.
    """
    data = random.Random(7).randbytes(SIZE)
    with open(os.path.join(d.dir, "memory"), "wb") as f:
        f.write(data)
    source = Machine(d, "source", "-device", f"loader,file={d.dir}/memory,addr={AT:#x},force-raw=on")
    target = Machine(d, "target", "-incoming", "defer")
    for m in (source, target):
        m("migrate-set-capabilities", capabilities=capabilities)
    target("migrate-incoming", uri=f"rdma:10.77.0.1:{PORT}")
    until(lambda: on_device(PORT)(d), target.p.tail)
    assert source.memory(os.path.join(d.dir, "before")) == hashlib.sha256(data).hexdigest(), "the firmware has written"
    return source, target, hashlib.sha256(data).hexdigest()


def moves(personality, *capabilities):
    need("qemu-system-x86_64")
    with Daemon(pair_conf(9000, both=f"personality = {personality}")) as d:
        source, target, want = two(d, list(capabilities))
        source("migrate", uri=f"rdma:10.77.0.1:{PORT}")
        until(lambda: source.migration() in ("completed", "failed"), lambda: source.p.tail() + target.p.tail())
        assert source.migration() == "completed", source.p.tail() + target.p.tail()
        until(lambda: target("query-status")["status"] == "running", target.p.tail)
        assert target.memory(os.path.join(d.dir, "after")) == want, "the moved machine has other memory content"
        # the pages were sent as data: pages of zeros would be sent as a note
        assert source("query-migrate")["ram"]["transferred"] > SIZE


@case
def a_machine_moves():
    moves("iwarp")


@case
def a_machine_moves_with_all_its_memory_pinned():
    moves("iwarp", PINNED)


@case
def a_machine_moves_as_over_a_roce_adapter():
    moves("roce", PINNED)


@case
def a_target_that_is_killed_leaves_the_machine_running():
    need("qemu-system-x86_64")
    with Daemon(pair_conf(9000, both="rate = 200M")) as d:
        source, target, want = two(d, [PINNED])
        source("migrate", uri=f"rdma:10.77.0.1:{PORT}")
        until(lambda: source("query-migrate").get("ram", {}).get("transferred", 0) > 1 << 20 or
              source.migration() == "failed", source.p.tail)
        assert source.migration() == "active", source.p.tail()
        target.p.p.kill()
        until(lambda: source.migration() == "failed", source.p.tail)
        assert source("query-status")["status"] == "running", source.p.tail()
        assert source.memory(os.path.join(d.dir, "after")) == want


if __name__ == "__main__":
    sys.exit(main())
