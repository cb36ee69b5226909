#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
What a newcomer runs first. scripts/demo.sh does what it prints and leaves nothing behind, also when it is interrupted.
The README's four lines run a program of the distribution.
"""
import glob
import os
import re
import signal
import subprocess
import tempfile

from rig import BUILD, PATIENCE, Skip, case, main, need, until

SOURCE = os.environ.get("RNIC_SOURCE") or os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))

TMP = tempfile.TemporaryDirectory(prefix="rnic-")  # a folder of its own: other runs on this machine must not be counted


def start():
    return subprocess.Popen([os.path.join(SOURCE, "scripts", "demo.sh"), BUILD], cwd=SOURCE, text=True, errors="replace",
                            env=dict(os.environ, TMPDIR=TMP.name), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)


def members(session):
    """Processes of a session that still run."""
    out = []
    for p in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(p, encoding="ascii", errors="replace") as f:
                name, rest = f.read().rsplit(")", 1)
        except OSError:
            continue
        state, _, _, sid = rest.split()[:4]
        if int(sid) == session and state not in "ZX":
            out.append(name)
    return out


def folders():
    return set(glob.glob(f"{TMP.name}/rnic-demo.*"))


def gone(p, before):
    until(lambda: not members(p.pid), lambda: f"still running: {members(p.pid)}")
    assert not folders() - before, f"left: {folders() - before}"


@case
def demo_runs_and_leaves_nothing():
    before = folders()
    p = start()
    out, _ = p.communicate(timeout=5 * PATIENCE)
    assert p.returncode == 0, out
    for word in ("ready", "client:", "server:", "write_lat", "read_bw", "nothing left behind"):
        assert word in out, f"the demo printed no '{word}':\n{out}"
    gone(p, before)


@case
def interrupted_demo_leaves_nothing():
    for step in ("1. Start rnicd", "3. Latency and bandwidth"):
        before = folders()
        p = start()
        for line in p.stdout:
            if step in line:
                break
        os.killpg(p.pid, signal.SIGINT)
        out, _ = p.communicate(timeout=PATIENCE)
        assert p.returncode != 0, out
        gone(p, before)


# The README's two terminals, with a /run of their own so that the daemon's socket is where programs look for it.
# perftest may need a second try, as it does for a person: its client may start before the server listens, which only a
# terminal shows in time, and it cannot measure the clock of every CPU.
TERMINALS = """
mount -t tmpfs none /run && mkdir /run/lock || exit 77
cd "$0"
wait='until [ -S /run/rnicd/rnicd.sock ]; do kill -0 $! || exit 1; sleep 0.1; done'
{ head -n 1 one; echo "$wait"; tail -n 1 one; echo 'rc=$?; kill $!; wait; exit $rc'; } >first
sh first >first.log 2>&1 & first=$!
for i in $(seq 20); do
	sleep 1
	sh two && break
	kill -0 $first || break
done
wait $first
echo "server: $?"
cat first.log
"""


@case
def the_four_lines_of_the_readme():
    need("ib_write_bw")
    with open(os.path.join(SOURCE, "README.md"), encoding="utf-8") as f:
        lines = re.search(r"^## Run a program over rnicd\n\n```sh\n(.*?)```", f.read(), re.M | re.S).group(1).splitlines()
    # the first line, make and apt-get install, was done before tests run
    assert len(lines) == 4 and lines[0].startswith("make && apt-get install -y perftest"), lines
    with tempfile.TemporaryDirectory() as tmp:
        os.symlink(BUILD, tmp + "/build")
        os.symlink(os.path.join(SOURCE, "config"), tmp + "/config")
        for name, some in (("one", lines[1:3]), ("two", lines[3:])):
            with open(os.path.join(tmp, name), "w", encoding="utf-8") as f:
                f.write("\n".join(some) + "\n")
        env = {k: v for k, v in os.environ.items() if k != "RNICD_SOCKET"}
        p = subprocess.run(["unshare", "-m", "sh", "-c", TERMINALS, tmp], capture_output=True, text=True, env=env, check=False,
                           timeout=2 * PATIENCE)
        if p.returncode == 77 or "unshare" in p.stderr:
            raise Skip(f"no mount namespace is possible here: {p.stderr.strip()}")
        out = p.stdout
        assert re.search(r"^ *65536 +5000 +[\d.]+", out, re.M) and "server: 0" in out, out + p.stderr


if __name__ == "__main__":
    raise SystemExit(main())
