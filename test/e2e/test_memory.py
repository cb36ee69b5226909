#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Memory of every kind as source and target of RDMA (mem_cases.c has the cases and both ends), and the libc functions that
librnic overrides.
"""
import subprocess
import sys

from rig import RNICRUN, Daemon, case, cases_of, helper, main, on_ordinary_pages, pair_conf

cases_of("mem_cases", pair_conf())
cases_of("mem_cases", on_ordinary_pages(pair_conf()), "_on_ordinary_pages", RNIC_HUGE="0")

OURS, VERBS = "librnic.so", "libibverbs.so"
FROM = {
    "libibverbs.so.1:ibv_get_device_list": OURS, "/usr/lib/x86_64-linux-gnu/libibverbs.so.1:ibv_reg_mr_iova2": OURS,
    "libibverbs.so:ibv_open_device": OURS, "librdmacm.so.1:rdma_create_id": OURS, "librdmacm.so.1:rdma_establish": OURS,
    "libefa.so.1:efadv_create_cq": OURS,
    "libm.so.6:cos": "libm.so", "ibv_get_device_list": OURS, "rdma_create_event_channel": OURS, "ibv_get_sysfs_path": VERBS,
    "ibv_read_sysfs_file": VERBS, "ibv_copy_ah_attr_from_kern": VERBS, "ibv_copy_path_rec_from_kern": VERBS,
    "ibv_copy_path_rec_to_kern": VERBS, "ibv_copy_qp_attr_from_kern": VERBS,
}


@case
def libraries_are_found_by_name_and_the_rest_falls_through():
    with Daemon(pair_conf()) as d:
        got = dict(line.split(" ", 1) for line in d.run(RNICRUN, helper("dl_cases")).ok().splitlines())
        for name, lib in FROM.items():
            assert got[name].startswith(lib), (name, got[name])
        assert got["sysfs"] == "/sys" and got["read"] == "-1" and got["copied"] == "77", got
        assert int(got["devices"].split()[0]) >= 2 and got["devices"].split()[1] == "a", got


@case
def nothing_happens_before_the_first_call():
    p = subprocess.run([RNICRUN, "--socket", "/nowhere/at/all", "sh", "-c", "ls / >/dev/null; echo done"], capture_output=True,
                       text=True, check=True)
    assert p.stdout == "done\n" and p.stderr == "", p


if __name__ == "__main__":
    sys.exit(main())
