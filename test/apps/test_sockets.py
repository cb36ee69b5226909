#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Servers from Debian over `rnicrun --sockets` that fork, that execute a program for each connection, or that switch to
another user. Each test runs twice: with both ends over rnicd, and with the client on the kernel's sockets behind a tap.
The data is compared.
"""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from ends import LONG, answers, on_both, same, write
from rig import case, main, need, until

LARGE = 100_000_000  # bytes; only a test that hangs takes longer


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

NAMED = ["-c", "user.name=x", "-c", "user.email=x@y"]


def repository(where):
    """Makes work, a repository with files of many sizes, and bare.git, a copy of it to be served."""
    def git(*argv):
        subprocess.run(["git", "-C", where + "/work", *argv], check=True, capture_output=True)
    os.mkdir(where + "/work")
    git("init", "-q")
    write(where + "/work/large", 5_000_000)
    for i in range(50):
        write(f"{where}/work/f{i}", 1000 * i)
    git("add", ".")
    git(*NAMED, "commit", "-qm", "all")
    subprocess.run(["git", "clone", "-q", "--bare", where + "/work", where + "/bare.git"], check=True)


def clone(client, url, where):
    """Clones the repository, compares the files, and removes the clone."""
    client("git", "clone", "-q", url, where + "/clone").ok(LONG)
    shutil.rmtree(where + "/clone/.git")
    assert sorted(os.listdir(where + "/clone")) == sorted(set(os.listdir(where + "/work")) - {".git"})
    for name in os.listdir(where + "/clone"):
        same(f"{where}/clone/{name}", f"{where}/work/{name}")
    shutil.rmtree(where + "/clone")


def git_both(server, client, at, where):
    repository(where)
    subprocess.run(["git", "-C", where + "/bare.git", "update-server-info"], check=True)
    h = server(sys.executable, "-m", "http.server", "--directory", where, "--bind", at, "8080")
    g = server("git", "daemon", "--reuseaddr", "--export-all", f"--base-path={where}", f"--listen={at}", where)
    for url in (f"http://{at}:8080/bare.git", f"git://{at}/bare.git"):
        answers(client, "git", "ls-remote", url)
        clone(client, url, where)
    h.stop()
    g.stop()


LIGHTTPD = """
server.document-root = "{dir}"
server.bind = "{at}"
server.port = 8090
server.modules = ("mod_alias", "mod_setenv", "mod_cgi")
alias.url = ("/git" => "/usr/lib/git-core/git-http-backend")
setenv.set-environment = ("GIT_PROJECT_ROOT" => "{dir}", "GIT_HTTP_EXPORT_ALL" => "1")
cgi.assign = ("" => "")
server.errorlog = "{dir}/errors"
"""


def git_backend(server, client, at, where):
    """git-http-backend is a CGI program: it shares no socket with the server, which copies what it writes."""
    repository(where)
    subprocess.run(["git", "-C", where + "/bare.git", "config", "http.receivepack", "true"], check=True)
    with open(where + "/lighttpd.conf", "w", encoding="utf-8") as f:
        f.write(LIGHTTPD.format(dir=where, at=at))
    s = server("lighttpd", "-D", "-f", where + "/lighttpd.conf")
    url = f"http://{at}:8090/git/bare.git"
    answers(client, "git", "ls-remote", url)
    clone(client, url, where)
    client("git", "clone", "-q", "--depth", "1", url, where + "/shallow").ok(LONG)
    write(where + "/shallow/more", 3_000_000)
    subprocess.run(["git", "-C", where + "/shallow", "add", "more"], check=True)
    subprocess.run(["git", "-C", where + "/shallow", *NAMED, "commit", "-qm", "more"], check=True)
    client("git", "-C", where + "/shallow", "push", "-q", "origin", "HEAD").ok(LONG)
    client("git", "clone", "-q", url, where + "/again").ok(LONG)
    same(where + "/again/more", where + "/shallow/more")
    s.stop()


@case
def git_clones_and_pushes_by_http_through_its_cgi_program():
    for p in ("git", "lighttpd"):
        need(p)
    on_both(git_backend)


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


if __name__ == "__main__":
    sys.exit(main())
