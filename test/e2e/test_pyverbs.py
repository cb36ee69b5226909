#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
rdma-core's own tests (Debian's python3-pyverbs has them), over one device in either personality. What the device does
not have they skip by themselves.
"""
import glob
import gzip
import os
import re
import shutil
import sys
import tempfile

from rig import RNICRUN, Daemon, Skip, alone_conf, case, main

TESTS = "/usr/share/doc/rdma-core/tests"


def unpack(to):
    os.mkdir(to)
    for path in glob.glob(TESTS + "/*.py*"):
        name = os.path.basename(path).removesuffix(".gz")
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f, open(os.path.join(to, name), "wb") as out:
            shutil.copyfileobj(f, out)


def run(personality):
    if not os.path.isdir(TESTS):
        raise Skip(f"python3-pyverbs is not installed with its documents ({TESTS})")
    with tempfile.TemporaryDirectory() as tmp, Daemon(alone_conf(port=f"personality = {personality}")) as d:
        unpack(tmp + "/tests")
        p = d.run(RNICRUN, "/usr/bin/python3", tmp + "/tests/run_tests.py", "--dev", "a", "-v", PYTHONPATH=tmp)
        p.wait(200)
        bad = set(re.findall(r"^(?:FAIL|ERROR): (\w+)", p.stderr(), re.M))
        ran = re.search(r"^Ran (\d+) tests", p.stderr(), re.M)
        skipped = re.search(r"skipped=(\d+)", p.stderr())
        assert ran and skipped, p.tail()
        good = int(ran.group(1)) - int(skipped.group(1)) - len(bad)
        assert not bad, f"{sorted(bad)}\n{p.tail(120)}"
        assert good >= 65, f"only {good} tests passed\n{p.tail()}"


@case
def rdma_cores_tests_on_an_rnic():
    run("iwarp")


@case
def rdma_cores_tests_on_an_adapter():
    run("roce")


if __name__ == "__main__":
    sys.exit(main())
