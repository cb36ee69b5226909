#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
MPI programs that verify their data: NetPIPE and the kernels of examples/mpi over OpenMPI and MPICH, and HPC Challenge.
"""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

import programs
from rig import RNICRUN, Daemon, case, main, need, pair_conf

OFI = ["--mca", "btl", "self", "--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include",
       "verbs;ofi_rxm"]
UCX = ["--mca", "btl", "self", "--mca", "pml", "ucx", "-x", "UCX_TLS=rc_v,ud_v,self"]
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "mpi")
# MPICH's MPI_STATUSES_IGNORE is the address 1, which gcc takes for an array of no size.
CC = ["-O2", "-Wall", "-Wextra", "-Werror", "-Wno-stringop-overflow"]
KERNELS = (["pingpong", "50"], ["bibw", "3", "300000"], ["cg", "64"], ["mg", "32"], ["lu", "32"], ["radix"],
           ["smg", "16"])
HPCC_INPUT = "/usr/share/doc/hpcc/examples/_hpccinf.txt"  # matrices of order 1000 on 2 x 2 ranks


def served(d, messages):
    """Proves that the messages went through the devices and not through shared memory."""
    sent = d.telemetry("/rnic/counters")
    assert sent["fpdus_out"] + sent["ud_out"] >= messages, sent


def netpipe(program, launcher, *options, personality="iwarp", **env):
    need(program)
    need(launcher[0])
    programs.own_network()
    with Daemon(pair_conf(both=f"personality = {personality}")) as d:
        p = d.run(RNICRUN, *launcher, "-np", "2", *options, program, "-i", "-u", "100000", "-o", d.dir + "/np.out",
                  RNIC_REG_VERBOSE="0", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **env)
        p.ok(600)
        told = p.stdout() + p.stderr()
        assert "Integrity check" in told or "ntegrity" in told, told
        assert not re.search(r"(?i)fail|error", told), told
        served(d, 1000)


@case
def netpipe_over_openmpi_and_libfabric():
    netpipe("NPopenmpi", ["mpirun.openmpi", "--oversubscribe"], *OFI)


@case
def netpipe_over_openmpi_and_ucx():
    netpipe("NPopenmpi", ["mpirun.openmpi", "--oversubscribe"], *UCX, personality="roce")


@case
def netpipe_over_mpich():
    netpipe("NPmpich2", ["mpirun.mpich"], personality="roce", UCX_TLS="rc_v,ud_v,self")


def kernels(compiler, launcher, *options, **env):
    """Runs the kernels of examples/mpi, each of which checks its own result."""
    need(compiler)
    need(launcher[0])
    programs.own_network()
    with Daemon(pair_conf(both="personality = roce")) as d:
        for name, *argv in KERNELS:
            files = [os.path.join(EXAMPLES, f"{name}.c")]
            with open(files[0], encoding="utf-8") as f:
                files += [os.path.join(EXAMPLES, "grid.c")] if '"grid.h"' in f.read() else []
            subprocess.run([compiler, *CC, "-o", os.path.join(d.dir, name), *files, "-lm"], check=True)
            p = d.run(RNICRUN, *launcher, "-np", "4", *options, os.path.join(d.dir, name), *argv, RNIC_REG_VERBOSE="0",
                      OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **env)
            out = p.ok(600)
            assert re.search(rf"^{name}: .*\bright$", out, re.M), p.tail()
        served(d, 10000)


@case
def kernels_over_openmpi():
    kernels("mpicc.openmpi", ["mpirun.openmpi", "--oversubscribe"], *UCX)


@case
def kernels_over_mpich():
    kernels("mpicc.mpich", ["mpirun.mpich"], UCX_TLS="rc_v,ud_v,self")


@case
def hpc_challenge():
    """HPL, PTRANS, DGEMM, STREAM, RandomAccess, FFT and the bandwidth test; each checks its own results."""
    need("hpcc")
    programs.own_network()
    with Daemon(pair_conf(both="personality = roce")) as d:
        shutil.copy(HPCC_INPUT, os.path.join(d.dir, "hpccinf.txt"))
        p = d.run(RNICRUN, "mpirun.openmpi", "--oversubscribe", "--wdir", d.dir, "-np", "4", *UCX, "hpcc",
                  RNIC_REG_VERBOSE="0", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        p.ok(1200)
        with open(os.path.join(d.dir, "hpccoutf.txt"), encoding="utf-8") as f:
            out = f.read()
        told = dict(re.findall(r"^(\w+)=(\S+)$", out, re.M))
        assert told["Success"] == "1" and "End of Summary section" in out, out[-3000:]
        assert float(told["MPIRandomAccess_ErrorsFraction"]) == 0 and told["PTRANS_residual"] == "0", out[-3000:]
        assert "PASSED" in out and "FAILED" not in out, out[-3000:]
        served(d, 10000)


if __name__ == "__main__":
    sys.exit(main())
