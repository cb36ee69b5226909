#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
rdma-core's own tests (Debian's python3-pyverbs has them) over one device in each personality. The tests skip by
themselves what the device does not have. Tests of the connection manager need an interface of the host with the
device's address. They look for it in the folder /sys/class/infiniband/a/device/net, for which librnic answers.
"""
import glob
import gzip
import os
import re
import shutil
import sys
import tempfile

from nets import sh, veth
from rig import RNICRUN, Daemon, Skip, alone_conf, case, main

TESTS = "/usr/share/doc/rdma-core/tests"
NEVER_SKIPPED = {"test_timestamp_real_time_rc_traffic", "test_query_gid_ex", "test_query_gid_table"}


def unpack(to):
    os.mkdir(to)
    for path in glob.glob(TESTS + "/*.py*"):
        name = os.path.basename(path).removesuffix(".gz")
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f, open(os.path.join(to, name), "wb") as out:
            shutil.copyfileobj(f, out)


def run(personality, refused=(), only=None, least=75):
    """refused: tests that this personality cannot pass. only: a part of the names of the tests to run."""
    if not os.path.isdir(TESTS):
        raise Skip(f"python3-pyverbs is not installed with its documents, which hold the tests ({TESTS})")
    conf = alone_conf(port=f"personality = {personality}")
    with veth() as ns, tempfile.TemporaryDirectory() as tmp, Daemon(conf) as d:
        sh("ip", "-n", ns, "addr", "add", "10.77.0.1/24", "dev", "v0")
        unpack(tmp + "/tests")
        p = d.run("ip", "netns", "exec", ns, RNICRUN, "/usr/bin/python3", tmp + "/tests/run_tests.py",
                  "--dev", "a", "-v", *(("-k", only) if only else ()), PYTHONPATH=tmp)
        p.wait(200)
        missed = re.findall(r"^(test_rdmacm_\w+) \(tests\.test_rdmacm\..* skipped ", p.stderr(), re.M)
        assert not missed, f"tests of the connection manager were skipped: {missed}\n{p.tail(120)}"
        skips = re.findall(r"^(test_\w+) \(tests\.[^\n]*(?:\n(?!test_)[^\n]*)*?\.\.\. skipped ", p.stderr(), re.M)
        assert only or not NEVER_SKIPPED & set(skips), f"{NEVER_SKIPPED & set(skips)} were skipped\n{p.tail(120)}"
        xrc = re.findall(r"^(test_\w*xrc\w*) \(tests\..* ok$", p.stderr(), re.M)
        assert only or len(xrc) >= 6, f"only these XRC tests passed: {xrc}\n{p.tail(120)}"
        bad = set(re.findall(r"^(?:FAIL|ERROR): (\w+)", p.stderr(), re.M)) - set(refused)
        ran = re.search(r"^Ran (\d+) tests", p.stderr(), re.M)
        skipped = re.search(r"skipped=(\d+)", p.stderr())
        assert ran and (skipped or only), p.tail()
        good = int(ran.group(1)) - int(skipped.group(1) if skipped else 0) - len(bad) - len(refused)
        assert not bad, f"{sorted(bad)}\n{p.tail(120)}"
        assert good >= least, f"only {good} tests passed\n{p.tail()}"


@case
def rdma_cores_tests_on_an_rnic():
    # rdma_connect of iWARP must be given the queue pair: its connection manager sends the MPA frames on the queue
    # pair's stream
    run("iwarp", refused=("test_rdmacm_async_traffic_external_qp",))


@case
def rdma_cores_tests_on_an_adapter():
    run("roce")


@case
def rdma_cores_tests_of_elastic_fabric_adapters():
    run("efa", only="test_efa", least=16)


if __name__ == "__main__":
    sys.exit(main())
