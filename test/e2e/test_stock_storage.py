#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The distribution's storage programs: fio's rdma engine with each verb and personality, and tgt's iSER target."""
import json
import os
import re
import signal
import subprocess
import sys

from programs import A, meet, on_device, own_network
from rig import PATIENCE, RNICRUN, Daemon, case, main, need, pair_conf, until

FIO = ["fio", "--verify_state_save=0", "--ioengine=rdma", f"--hostname={A}", "--port=7655", "--bs=64k", "--size=8m", "--iodepth=16", "--thread"]


def fio(verb, personality, server=(), client=()):
    with Daemon(pair_conf(both=f"personality = {personality}")) as d:
        out = meet((d, d), [*FIO, "--name=server", "--rw=read", *server],
                   [*FIO, "--name=client", "--rw=write", f"--verb={verb}", *client], on_device(7655))
        for text in out:
            assert re.search(r"err= 0", text), text
        assert "io=8192KiB" in out[0], out[0]


def both(verb, **args):
    for personality in ("iwarp", "roce"):
        fio(verb, personality, **args)


@case
def fio_writes():
    both("write")


@case
def fio_reads():
    both("read")


@case
def fio_sends_what_its_server_verifies():
    """
    The server compares each block that it receives with the pattern. The server posts receives for all 128 blocks
    first, because fio's client sends without flow control and with rnr_retry 0.
    """
    pattern = ["--verify=pattern", "--verify_pattern=0xdeadbeef"]
    both("send", server=[*pattern, "--iodepth=128"], client=[*pattern, "--do_verify=0"])


class Target:
    """tgtd with an iSER target of one LUN, which refuses each initiator whose name is not in its list."""
    NAME, INITIATOR = "iqn.2026-01.rnic:disk", "iqn.2026-01.rnic:initiator"

    def __init__(self, d):
        need("tgtd")
        own_network()  # tgtd's iSCSI target listens at a port of the kernel
        self.number = str(os.getpid())
        self.p = d.run(RNICRUN, "tgtd", "-f", "-C", self.number, RNIC_REG_VERBOSE="0")
        self.disk = os.path.join(d.dir, "disk")
        with open(self.disk, "wb") as f:
            f.truncate(16 << 20)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.p.stop(signal.SIGKILL)  # tgtd ignores SIGTERM while it has a target

    def start(self, d):
        until(lambda: self.p.p.poll() is not None or on_device(3260)(d), self.p.tail)
        self.adm("target", "new", "-T", self.NAME)
        self.adm("logicalunit", "new", "--lun", "1", "-b", self.disk)
        self.adm("target", "bind", "-I", "ALL")
        self.adm("target", "bind", "-Q", self.INITIATOR)

    def adm(self, mode, op, *args):
        p = subprocess.run(["tgtadm", "-C", self.number, "--lld", "iser", "--mode", mode, "--op", op, "--tid", "1", *args],
                           capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert p.returncode == 0 and self.p.p.poll() is None, p.stderr + self.p.tail()


@case
def tgts_iser_target_listens_on_both_wildcards():
    with Daemon(pair_conf()) as d, Target(d) as target:
        target.start(d)
        assert not re.search(r"iser.*(fail|error|not init)", target.p.stderr(), re.I), target.p.tail()


def extents():
    """(first octet, number of octets, value of each octet); libiscsi's iSER takes at most 256 KiB at a time."""
    return [((200 * i + 4) << 10, (256 if i % 2 else 100) << 10, i + 1) for i in range(0, 64, 3)]


@case
def qemu_io_writes_and_reads_a_disk_of_tgt_by_iser():
    need("qemu-io")
    need("iscsi-inq")
    image = {"driver": "raw", "file": {"driver": "iscsi", "transport": "iser", "portal": f"{A}:3260", "lun": 1,
                                       "target": Target.NAME, "initiator-name": Target.INITIATOR}}
    # libiscsi reads memory that it has not initialised
    env = {"RNIC_REG_VERBOSE": "0", "MALLOC_PERTURB_": "0"}
    for personality in ("iwarp", "roce"):
        with Daemon(pair_conf(both=f"personality = {personality}")) as d, Target(d) as target:
            target.start(d)
            out = d.run(RNICRUN, "iscsi-inq", "-i", Target.INITIATOR, f"iser://{A}/{Target.NAME}/1",
                        **env).ok()
            assert "Product:VIRTUAL-DISK" in out, out
            words = [f"{verb} -P {octet} {at} {n}" for verb in ("write", "read") for at, n, octet in extents()]
            io = d.run(RNICRUN, "qemu-io", "-t", "none", *[w for word in words for w in ("-c", word)], "-c", "flush",
                       "json:" + json.dumps(image), **env)
            out = io.ok()
            assert "failed" not in out and out.count(" bytes at offset ") == len(words), io.tail(80)
            with open(target.disk, "rb") as f:
                disk = f.read()
            for at, n, octet in extents():
                assert disk[at:at + n] == bytes([octet]) * n, f"{personality}: not all {n} octets at {at} are {octet}"


if __name__ == "__main__":
    sys.exit(main())
