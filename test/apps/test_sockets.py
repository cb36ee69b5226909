#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Servers from Debian over `rnicrun --sockets` that fork, that execute a program for each connection, or that switch to
another user. Each test runs twice: with both ends over rnicd, and with the client on the kernel's sockets behind a tap.
The data is compared.
"""
import contextlib
import filecmp
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from nets import KERNEL, OURS, tap
from rig import Daemon, case, main, need, pair_conf, until
from sock_rig import kernels, ours

A, B = "10.77.0.1", "10.77.0.2"
LARGE = 100_000_000  # seconds; only a test that hangs takes longer
LONG = 300  # seconds: a hang


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory() as where:
        os.chmod(where, 0o755)
        yield where


@contextlib.contextmanager
def both_ends_ours():
    """Yields a function that runs a server, one that runs a client, and the server's address."""
    with Daemon(pair_conf(rnicd="socket-mode = 0666")) as d:
        os.chmod(os.path.dirname(d.sock), 0o755)
        yield (lambda *a: ours(d, *a)), (lambda *a: ours(d, *a)), A


@contextlib.contextmanager
def a_kernels_client():
    with tap() as (ns, d):
        os.chmod(os.path.dirname(d.sock), 0o755)  # servers that switch to another user must still reach the socket
        os.chmod(d.sock, 0o666)
        yield (lambda *a: ours(d, *a, netns=ns)), (lambda *a: kernels(d, *a, netns=ns)), OURS


def write(path, size):
    with open(path, "wb") as f:
        f.write(os.urandom(size))


def same(a, b):
    assert filecmp.cmp(a, b, shallow=False), f"{a} and {b} differ"


def answers(client, *ask):
    """Runs the client until a server answers; returns the first successful client's output."""
    def there():
        p = client(*ask)
        return p if p.wait() == 0 else None
    return until(there, f"no answer: {ask}").stdout()


def on_both(f):
    """Runs f twice: with both ends over rnicd, and with the client on the kernel's sockets."""
    for ends in (both_ends_ours, a_kernels_client):
        with ends() as (server, client, at), folder() as where:
            f(server, client, at, where)


# ---- openssh, rsync ----

SSHD = """
Port 2222
ListenAddress {at}
HostKey {dir}/host
AuthorizedKeysFile {dir}/key.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
Subsystem sftp internal-sftp
"""


def sshd(server, at, where):
    """Starts sshd; returns it, and the options that make an ssh client connect to it."""
    os.makedirs("/run/sshd", exist_ok=True)
    for name in ("host", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{where}/{name}"], check=True)
    with open(where + "/sshd_config", "w", encoding="utf-8") as f:
        f.write(SSHD.format(dir=where, at=at))
    s = server("/usr/sbin/sshd", "-D", "-e", "-f", where + "/sshd_config")
    return s, ["-F", "none", "-i", where + "/key", "-o", "Port=2222", "-o", "StrictHostKeyChecking=no",
               "-o", "UserKnownHostsFile=/dev/null", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR"]


def ssh_and_scp(server, client, at, where):
    s, how = sshd(server, at, where)
    assert answers(client, "ssh", *how, at, "echo hello; tty || true").splitlines()[0] == "hello"
    write(where + "/in", LARGE)
    client("scp", "-q", *how, where + "/in", f"{at}:{where}/out").ok(LONG)
    same(where + "/in", where + "/out")
    client("scp", "-q", *how, f"{at}:{where}/out", where + "/back").ok(LONG)
    same(where + "/in", where + "/back")
    assert "librnicsock" not in s.stderr(), s.tail()
    s.stop()


@case
def ssh_runs_a_command_and_scp_carries_100_mb_each_way():
    for p in ("ssh", "scp"):
        need(p)
    on_both(ssh_and_scp)


def tree(where):
    """Makes a source tree with files of many sizes, and a copy of it in which one file has changed."""
    os.makedirs(where + "/from/deep/er")
    for i in range(200):
        write(f"{where}/from/{'deep/er/' if i % 3 else ''}f{i}", i * i * 20)
    shutil.copytree(where + "/from", where + "/to")
    write(where + "/to/deep/er/f199", 1000)
    os.remove(where + "/to/f198")


def same_trees(a, b):
    p = subprocess.run(["diff", "-r", a, b], check=False, capture_output=True, text=True)
    assert p.returncode == 0, p.stdout


def rsync_both_ways(server, client, at, where):
    tree(where)
    s, how = sshd(server, at, where)
    answers(client, "ssh", *how, at, "true")
    client("rsync", "-a", "-e", "ssh " + " ".join(how), where + "/from/", f"{at}:{where}/to/").ok(LONG)
    same_trees(where + "/from", where + "/to")
    s.stop()
    with open(where + "/rsyncd.conf", "w", encoding="utf-8") as f:
        f.write(f"use chroot = no\nuid = root\ngid = root\n[m]\npath = {where}/from\n")
    s = server("rsync", "--daemon", "--no-detach", "--config", where + "/rsyncd.conf", "--address", at,
               "--port", "8873")
    answers(client, "rsync", f"rsync://{at}:8873/m/")
    client("rsync", "-a", f"rsync://{at}:8873/m/", where + "/copy/").ok(LONG)
    same_trees(where + "/from", where + "/copy")
    s.stop()


@case
def rsync_over_ssh_and_by_its_own_daemon():
    for p in ("rsync", "ssh"):
        need(p)
    on_both(rsync_both_ways)


# ---- git ----

def git_both(server, client, at, where):
    def git(*argv):
        subprocess.run(["git", "-C", where + "/work", *argv], check=True, capture_output=True)
    os.mkdir(where + "/work")
    git("init", "-q")
    write(where + "/work/large", 5_000_000)
    for i in range(50):
        write(f"{where}/work/f{i}", 1000 * i)
    git("add", ".")
    git("-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "all")
    subprocess.run(["git", "clone", "-q", "--bare", where + "/work", where + "/bare.git"], check=True)
    subprocess.run(["git", "-C", where + "/bare.git", "update-server-info"], check=True)
    h = server(sys.executable, "-m", "http.server", "--directory", where, "--bind", at, "8080")
    g = server("git", "daemon", "--reuseaddr", "--export-all", f"--base-path={where}", f"--listen={at}", where)
    for url in (f"http://{at}:8080/bare.git", f"git://{at}/bare.git"):
        answers(client, "git", "ls-remote", url)
        client("git", "clone", "-q", url, where + "/clone").ok(LONG)
        shutil.rmtree(where + "/clone/.git")
        assert sorted(os.listdir(where + "/clone")) == sorted(set(os.listdir(where + "/work")) - {".git"})
        for name in os.listdir(where + "/clone"):
            same(f"{where}/clone/{name}", f"{where}/work/{name}")
        shutil.rmtree(where + "/clone")
    h.stop()
    g.stop()


@case
def git_clones_by_http_and_by_its_daemon():
    need("git")
    on_both(git_both)


# ---- postgresql ----

def postgres(server, client, at, where):
    bin_ = subprocess.run(["pg_config", "--bindir"], check=True, capture_output=True, text=True).stdout.strip()
    data = where + "/data"
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    shutil.chown(where, "postgres")
    subprocess.run([*user, bin_ + "/initdb", "-D", data, "-A", "trust", "--no-sync"], check=True, capture_output=True)
    with open(data + "/pg_hba.conf", "a", encoding="utf-8") as f:
        f.write("host all all 0.0.0.0/0 trust\n")
    s = server(*user, bin_ + "/postgres", "-D", data, "-c", f"listen_addresses={at}", "-c", "port=5433",
               "-c", f"unix_socket_directories={where}", "-c", "fsync=off")
    to = ["-h", at, "-p", "5433", "-U", "postgres"]
    answers(client, bin_ + "/pg_isready", *to)
    client(bin_ + "/pgbench", *to, "-q", "-i", "-s", "2", "postgres").ok(LONG)
    out = client(bin_ + "/pgbench", *to, "-c", "8", "-t", "50", "postgres").ok(LONG)
    assert "transactions actually processed: 400/400" in out and "failed transactions: 0" in out, out
    out = client(bin_ + "/psql", *to, "-Atc", "select sum(abalance) = (select sum(delta) from pgbench_history), "
                 "md5(repeat('x', 5000000)) from pgbench_accounts", "postgres").ok(LONG)
    assert out.startswith("t|"), out
    s.stop()


@case
def pgbench_at_a_postgresql_that_forks_for_each_connection():
    need("pgbench")
    on_both(postgres)


# ---- dns ----

UNBOUND = """
server:
  interface: {at}
  port: 5300
  username: ""
  chroot: ""
  directory: "{dir}"
  pidfile: ""
  do-daemonize: no
  use-syslog: no
  access-control: 0.0.0.0/0 allow
  local-zone: "test." static
{data}
remote-control:
  control-enable: no
"""


def unbound(server, client, at, where):
    with open(where + "/unbound.conf", "w", encoding="utf-8") as f:
        f.write(UNBOUND.format(at=at, dir=where, data="\n".join(
            f'  local-data: "h{i}.test. A 10.1.{i // 256}.{i % 256}"' for i in range(300))))
    with open(where + "/queries", "w", encoding="utf-8") as f:
        f.writelines(f"h{i}.test A\n" for i in range(300))
    s = server("unbound", "-d", "-c", where + "/unbound.conf")
    for mode in ("udp", "tcp"):
        ask = ["dnsperf", "-s", at, "-p", "5300", "-m", mode, "-d", where + "/queries", "-n", "10",
               "-c", "4", "-q", "20"]
        until(lambda: "NOERROR" in client(*ask, "-t", "1").ok())  # pylint: disable=cell-var-from-loop
        out = client(*ask).ok()
        assert "Queries completed:    3000 (100.00%)" in out and "NOERROR 3000 (100.00%)" in out, out
    s.stop()


@case
def dnsperf_asks_unbound_by_udp_and_tcp():
    for p in ("unbound", "dnsperf"):
        need(p)
    on_both(unbound)


# ---- sip ----

def sip(server, client, at, where):
    for mode in ("u1", "un", "t1", "tn"):  # UDP with one socket, UDP with a socket for each call, TCP likewise
        s = server("sipp", "-sn", "uas", "-i", at, "-p", "5070", "-t", mode[0] + "1", "-nostdin")
        answers(client, "sh", "-c", f"cd {where} && exec sipp -sn uac {at}:5070 -i {B if at == A else KERNEL} -t {mode} "
                "-m 400 -r 200 -l 100 -max_socket 1000 -nostdin -timeout 60s -timeout_error")
        s.stop()


@case
def sipp_makes_calls_by_udp_and_tcp():
    need("sipp")
    on_both(sip)


if __name__ == "__main__":
    sys.exit(main())
