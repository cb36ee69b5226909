#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Programs of storage as the distribution has them: fio's rdma engine, each verb and personality, and tgt's iSER
target."""
import os
import re
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
    The server compares each block that it receives with the pattern, and fails when it is another one. It posts
    receives for all 128 blocks first: fio's client sends without asking for any, with rnr_retry 0.
    """
    pattern = ["--verify=pattern", "--verify_pattern=0xdeadbeef"]
    both("send", server=[*pattern, "--iodepth=128"], client=[*pattern, "--do_verify=0"])


@case
def tgts_iser_target_listens_on_both_wildcards():
    need("tgtd")
    own_network()  # its iSCSI target listens at a port of the kernel
    with Daemon(pair_conf()) as d:
        number = str(os.getpid())
        s = d.run(RNICRUN, "tgtd", "-f", "-C", number, RNIC_REG_VERBOSE="0")
        until(lambda: s.p.poll() is not None or on_device(3260)(d), s.tail)
        new = ["tgtadm", "-C", number, "--lld", "iser", "--mode", "target", "--op", "new", "--tid", "1", "-T", "iqn.2026-01.rnic:x"]
        p = subprocess.run(new, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert p.returncode == 0 and s.p.poll() is None, p.stderr + s.tail()
        assert not re.search(r"iser.*(fail|error|not init)", s.stderr(), re.I), s.tail()
        s.stop()


if __name__ == "__main__":
    sys.exit(main())
