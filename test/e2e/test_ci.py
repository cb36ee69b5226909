#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
doc/ci.md: its script and its lines that start rnicrun are run as written, in a folder that looks like the CI job's.
"""
import os
import re
import subprocess
import sys
import tempfile

from rig import BUILD, case, main, need

SOURCE = os.environ.get("RNIC_SOURCE") or os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
HANG = 300  # seconds; longer is a hang
# The lines of a job that install and build. They are not run, since the machine of the test has been prepared already.
BEFORE = ("apt-get update", "git clone $RNIC_URL rnic", "make -C rnic programs")


def blocks(kind):
    with open(os.path.join(SOURCE, "doc", "ci.md"), encoding="utf-8") as f:
        return re.findall(rf"^```{kind}\n(.*?)^```", f.read(), re.M | re.S)


def commands(block):
    """The shell lines of a job, in their order."""
    if "script:" in block:
        return re.findall(r"^ +- (.*)$", block, re.M)
    return re.findall(r"^ +- run: (.*)$", block, re.M)


def runs_as_it_stands(block):
    need("rping")
    script, = blocks("sh")
    lines = [c for c in commands(block) if not c.startswith(BEFORE)]
    assert len(commands(block)) - len(lines) == len(BEFORE) and lines, commands(block)
    with tempfile.TemporaryDirectory() as job:
        os.makedirs(os.path.join(job, "ci"))
        os.makedirs(os.path.join(job, "rnic"))
        os.symlink(BUILD, os.path.join(job, "rnic", "build"))
        with open(os.path.join(job, "ci", "rdma-tests.sh"), "w", encoding="utf-8") as f:
            f.write(script)
        for line in lines:
            p = subprocess.run(["sh", "-c", line], cwd=job, capture_output=True, text=True, timeout=HANG, check=False)
            assert p.returncode == 0, f"{line}: {p.returncode}\n{p.stdout}\n{p.stderr}"


@case
def the_job_for_github_runs_as_it_stands():
    runs_as_it_stands(next(b for b in blocks("yaml") if "runs-on" in b))


@case
def the_job_for_gitlab_runs_as_it_stands():
    runs_as_it_stands(next(b for b in blocks("yaml") if "script:" in b))


def made_of(target):
    """The files that a ninja target needs, built ones among them."""
    asked = [subprocess.run(["ninja", "-C", BUILD, "-t", what, target], capture_output=True, text=True, check=True)
             # "inputs" lists all but the first file of each chain, "query" lists these
             for what in ("inputs", "query")]
    return {word for p in asked for word in p.stdout.split()}


@case
def the_build_for_a_job_has_what_runs_there_and_no_test():
    files = made_of("programs")
    want = {"app/rnicd/rnicd", "app/rnicd/librnic_embedded.so.0.1.0", "app/rnicrun/rnicrun", "app/rnicctl/rnicctl",
            "lib/rnic/librnic.so.0.1.0"}
    assert want <= files, want - files
    assert not [f for f in files if f.startswith(("test/", "examples/")) or "/test/" in f or "testpmd" in f], files


if __name__ == "__main__":
    sys.exit(main())
