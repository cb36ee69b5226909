#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The slow ones of the cases in which stock programs run over the kernel's sockets, without a daemon, as an ordinary user.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

import programs
from host_rig import Host
from rig import case, main, need

A = programs.A
ROCE = {"RNIC_EMBEDDED_KEYS": "personality=roce"}


@case
def qperf():
    """qperf with a connection manager, and without one."""
    with Host() as h:
        ends = (h, h)
        programs.qperf(((ends, ["-cm1", "rc_lat", "rc_bw", "rc_rdma_read_bw", "rc_rdma_write_lat"]),
                        (ends, ["-cm1", "ver_rc_compare_swap", "ver_rc_fetch_add", "rc_fetch_add_mr"]),
                        (ends, ["rc_lat", "rc_rdma_write_bw", "uc_lat"])))


@case
def libfabric():
    with Host() as h:
        programs.fi_pingpong((h, h), "verbs;ofi_rxm", "rdm")
        programs.fi_pingpong((h, h), "verbs", "dgram", "1k", **ROCE)


@case
def fio():
    """The server compares each block that it receives with the pattern."""
    pattern = ["--verify=pattern", "--verify_pattern=0xdeadbeef"]
    argv = ["fio", "--verify_state_save=0", "--ioengine=rdma", f"--hostname={A}", "--port=7655", "--bs=64k",
            "--size=8m", "--thread"]
    with Host() as h:
        for verb, server, client in (("write", ["--iodepth=16"], []), ("read", ["--iodepth=16"], []),
                                     ("send", [*pattern, "--iodepth=128"], [*pattern, "--do_verify=0"])):
            out = programs.meet((h, h), [*argv, "--name=server", "--rw=read", *server],
                                [*argv, "--name=client", "--rw=write", f"--verb={verb}", "--iodepth=16", *client],
                                programs.on_device(7655))
            assert all("err= 0" in text for text in out) and "io=8192KiB" in out[0], out


@case
def ucx_over_connections():
    with Host() as h:
        on = (("-d", "rnic-ra"), ("-d", "rnic-rb"))
        for args in ("am_lat", "am_bw -s 4096 -D bcopy", "put_bw -s 100000 -D zcopy", "get -s 65536 -D zcopy"):
            programs.ucx((h, h), "-x", "rc_verbs", "-n", "200", "-w", "20", "-t", *args.split(), devices=on, **ROCE)


need("setpriv")
sys.exit(main())
