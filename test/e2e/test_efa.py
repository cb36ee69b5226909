#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Devices with `personality = efa`, whose SRD is carried by reliable datagrams: a helper program linked with libefa,
libfabric's efa provider and OpenMPI over it, as Debian has them. The counters show that the data went by reliable
datagrams.
"""
import os
import re
import subprocess
import sys

import programs
from rig import RNICRUN, Daemon, case, cases_of, main, need, nothing_is_left, pair_conf, until

A, B = "10.77.0.1", "10.77.0.2"
EFA = "personality = efa"
BAD = EFA + "\nloss = 1%\nduplicate = 1%\nreorder = 2%\ncorrupt = 1%\nseed = 5"
# both devices are on one host, where the provider would use shared memory instead
NOT_BY_SHM = {"FI_EFA_ENABLE_SHM_TRANSFER": "0"}

cases_of("efa_cases", pair_conf(both=EFA), under=(RNICRUN,),
         without=("messages_of_srd_overtake_one_that_waits_for_a_lost_packet",))
cases_of("efa_cases", pair_conf(both=BAD, rnicd="workers = 0,0"), "_on_a_bad_wire", under=(RNICRUN,),
         without=("datagrams_are_as_long_as_the_port_says",))


def counted(d, name):
    return d.telemetry("/rnic/counters")[name]


@case
def a_device_of_another_personality_is_no_such_adapter():
    """libfabric's efa provider finds no device either when only one of two devices is of this personality:
    doc/programs.md says so."""
    need("fi_info")
    for a, b in (("iwarp", "iwarp"), ("efa", "iwarp"), ("efa", "roce")):
        with Daemon(pair_conf(a=f"personality = {a}", b=f"personality = {b}")) as d:
            p = d.run(RNICRUN, "fi_info", "-p", "efa")
            assert p.wait() != 0 and "provider: efa" not in p.stdout(), p.tail()


@case
def fi_info_finds_both_kinds_of_endpoints():
    need("fi_info")
    with Daemon(pair_conf(both=EFA)) as d:
        out = d.run(RNICRUN, "fi_info", "-p", "efa").ok()
        for domain, kind in (("a-rdm", "RDM"), ("b-rdm", "RDM"), ("a-dgrm", "DGRAM"), ("b-dgrm", "DGRAM")):
            assert re.search(rf"domain: {domain}\n.*\n\s+type: FI_EP_{kind}\n\s+protocol: FI_PROTO_EFA", out), out


def pingpong(endpoint, domain, conf, sizes, **env):
    """fi_pingpong between devices a and b; both ends check each byte. Returns the daemon's counters."""
    need("fi_pingpong")
    programs.own_network()
    with Daemon(conf) as d:
        ends = []
        for dev, to in (("a", []), ("b", ["127.0.0.1"])):
            argv = ["fi_pingpong", "-p", "efa", "-e", endpoint, "-d", f"{dev}-{domain}", "-I", "10", "-c", "-S", sizes]
            p = d.run(RNICRUN, *argv, *to, RNIC_REG_VERBOSE="0", **NOT_BY_SHM, **env)
            ends.append(p)
            if not to:
                until(lambda: p.p.poll() is not None or programs.on_host(47592)(d), p.tail)
                assert p.p.poll() is None, p.tail()
        for p in reversed(ends):
            assert p.wait() == 0, ends[1].tail() + ends[0].tail()
        now = d.telemetry("/rnic/counters")
        nothing_is_left(d)
        return now, ends[0].stdout()


@case
def fi_pingpong_by_srd():
    now, out = pingpong("rdm", "rdm", pair_conf(both=EFA), "all")
    assert re.search(r"^6m\s+10\s+=10\s", out, re.M), out
    assert now["bytes_placed"] >= 2 * 10 * (6 << 20) and now["rd_segs_in"] > 0, now


@case
def fi_pingpong_by_srd_with_the_devices_reads():
    now, _ = pingpong("rdm", "rdm", pair_conf(9000, both=EFA), str(2 << 20), FI_EFA_USE_DEVICE_RDMA="1")
    assert now["bytes_placed"] >= 2 * 10 * (2 << 20), now


@case
def fi_pingpong_by_srd_on_a_bad_wire():
    now, _ = pingpong("rdm", "rdm", pair_conf(both=BAD), "100000")
    assert now["bytes_placed"] >= 2 * 10 * 100000 and now["rd_twice"] > 0, now


@case
def fi_pingpong_by_datagrams():
    now, _ = pingpong("dgram", "dgrm", pair_conf(both=EFA), "8000")
    assert now["bytes_placed"] >= 2 * 10 * 8000 and now["rd_segs_in"] == 0, now


@case
def perftest_by_srd():
    """perftest needs -x 0, the index of a GID."""
    programs.own_network()
    with Daemon(pair_conf(both=EFA)) as d:
        names = ("ib_send_bw", "ib_send_lat", "ib_read_bw", "ib_read_lat")
        programs.perftest((d, d), False, [(name, "-n 100 -c SRD -x 0") for name in names])
        assert counted(d, "rd_segs_in") > 0
        nothing_is_left(d)


@case
def openmpi():
    """2 and 4 ranks. The bytes placed must be at least those of the ring: its data, and not only the messages about it,
    went by the device."""
    need("mpicc.openmpi")
    programs.own_network()
    with Daemon(pair_conf(both=EFA)) as d:
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpi_cases.c")
        subprocess.run(["mpicc.openmpi", "-O2", "-o", d.dir + "/mpi", source], check=True)
        for ranks in (2, 4):
            before = counted(d, "bytes_placed")
            out = d.run(RNICRUN, "mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", str(ranks),
                        "--mca", "btl", "self", "--mca", "pml", "cm", "--mca", "mtl", "ofi",
                        "--mca", "mtl_ofi_provider_include", "efa", d.dir + "/mpi",
                        RNIC_REG_VERBOSE="0", **NOT_BY_SHM).ok(600)
            for name in ("ring", "all_to_all", "stencil"):
                assert f"ok {name} of {ranks} ranks" in out.splitlines(), out
            assert counted(d, "bytes_placed") - before >= ranks * 4 * 301001, "the ring's data bypassed the device"
        assert counted(d, "rd_segs_in") * 1360 >= counted(d, "bytes_placed")
        nothing_is_left(d)


sys.exit(main())
