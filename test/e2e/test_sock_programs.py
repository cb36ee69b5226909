#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Debian's unmodified TCP and UDP programs under `rnicrun --sockets`: both ends over rnicd, or one of them on the kernel's
sockets behind a tap. The data that arrives is compared with the data that was sent.
"""
import contextlib
import hashlib
import os
import sys
import tempfile

from nets import KERNEL, OURS, tap
from rig import Daemon, case, main, need, pair_conf, until
from sock_rig import kernels, ours

A = "10.77.0.1"


@contextlib.contextmanager
def folder():
    """A folder that servers of another user may read."""
    with tempfile.TemporaryDirectory() as where:
        os.chmod(where, 0o755)
        yield where


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)
    return hashlib.sha256(data).hexdigest()


def answers(d, *ask, netns=None):
    """Sends requests until the server answers."""
    def there():
        p = ours(d, *ask, netns=netns)
        return p.wait() == 0
    until(there, f"the server does not answer: {ask}")


def summed(p, path):
    p.ok()
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


NGINX = """
daemon off;
worker_processes 2;
pid {dir}/nginx.pid;
error_log {dir}/error.log;
user root;
events {{ worker_connections 256; }}
http {{
  access_log off;
  sendfile on;
  client_body_temp_path {dir}; proxy_temp_path {dir};
  fastcgi_temp_path {dir}; uwsgi_temp_path {dir}; scgi_temp_path {dir};
  server {{ listen {at}:8080 backlog=128; root {dir}; }}
}}
"""


def nginx(d, where, at, netns=None):
    with open(where + "/nginx.conf", "w", encoding="utf-8") as f:
        f.write(NGINX.format(dir=where, at=at))
    s = ours(d, "nginx", "-c", where + "/nginx.conf", "-p", where, netns=netns)
    answers(d, "curl", "-s", "-o", "/dev/null", f"http://{at}:8080/small", netns=netns)
    return s


@case
def nginx_serves_curl_and_wrk():
    for p in ("nginx", "curl", "wrk"):
        need(p)
    with Daemon(pair_conf()) as d, folder() as where:
        small, large = write(where + "/small", os.urandom(1024)), write(where + "/large", os.urandom(3_000_000))
        s = nginx(d, where, A)
        for name, digest in (("small", small), ("large", large)):
            p = ours(d, "curl", "-s", "-o", where + "/got", f"http://{A}:8080/{name}")
            assert summed(p, where + "/got") == digest
        out = ours(d, "wrk", "-t", "1", "-c", "32", "-d", "2", f"http://{A}:8080/small").ok()
        assert "Non-2xx" not in out and "Socket errors" not in out and " requests in " in out, out
        s.stop()


@case
def nginx_serves_a_kernels_curl():
    for p in ("nginx", "curl"):
        need(p)
    with tap() as (ns, d), folder() as where:
        write(where + "/small", b"small")
        large = write(where + "/large", os.urandom(3_000_000))
        s = nginx(d, where, OURS, ns)
        p = kernels(d, "curl", "-s", "-o", where + "/got", f"http://{OURS}:8080/large", netns=ns)
        assert summed(p, where + "/got") == large
        s.stop()


@case
def redis_keeps_what_it_is_given():
    for p in ("redis-server", "redis-cli", "redis-benchmark"):
        need(p)
    with Daemon(pair_conf()) as d, folder() as where:
        value = os.urandom(100_000).hex()
        s = ours(d, "redis-server", "--bind", A, "--save", "", "--dir", where, "--protected-mode", "no")
        answers(d, "redis-cli", "-h", A, "ping")
        with open(where + "/value", "w", encoding="utf-8") as f:
            f.write(value)
        ours(d, "sh", "-c", f"redis-cli -h {A} -x set key <{where}/value").ok()
        assert ours(d, "redis-cli", "-h", A, "get", "key").ok().strip() == value
        out = ours(d, "redis-benchmark", "-h", A, "-n", "2000", "-c", "20", "-t", "set,get,lrange_100", "-q").ok()
        assert out.count("requests per second") >= 3, out
        s.stop()


MEMCACHE = """
import socket, os, sys
s = socket.create_connection((sys.argv[1], 11211))
f = s.makefile("rb")
values = {b"key%d" % i: os.urandom(i * 200) for i in range(100)}
for k, v in values.items():
    s.sendall(b"set %s 0 0 %d\\r\\n%s\\r\\n" % (k, len(v), v))
    assert f.readline() == b"STORED\\r\\n"
for k, v in values.items():
    s.sendall(b"get %s\\r\\n" % k)
    assert f.readline() == b"VALUE %s 0 %d\\r\\n" % (k, len(v))
    assert f.read(len(v) + 2)[:-2] == v and f.readline() == b"END\\r\\n"
print("all there")
"""


@case
def memcached_keeps_what_it_is_given():
    need("memcached")
    with Daemon(pair_conf()) as d:
        s = ours(d, "memcached", "-u", "root", "-l", A, "-U", "0", "-t", "2")
        answers(d, sys.executable, "-c", MEMCACHE, A)
        s.stop()


@case
def haproxy_stands_in_the_middle():
    for p in ("haproxy", "nginx", "curl"):
        need(p)
    with Daemon(pair_conf()) as d, folder() as where:
        write(where + "/small", b"small")
        large = write(where + "/large", os.urandom(2_000_000))
        s = nginx(d, where, A)
        with open(where + "/haproxy.cfg", "w", encoding="utf-8") as f:
            f.write(f"global\n maxconn 100\ndefaults\n mode http\n timeout connect 20s\n timeout client 60s\n"
                    f" timeout server 60s\nfrontend f\n bind {A}:8081\n default_backend b\n"
                    f"backend b\n server s {A}:8080\n")
        h = ours(d, "haproxy", "-db", "-f", where + "/haproxy.cfg")
        answers(d, "curl", "-sf", "-o", "/dev/null", f"http://{A}:8081/small")
        assert summed(ours(d, "curl", "-s", "-o", where + "/got", f"http://{A}:8081/large"), where + "/got") == large
        h.stop()
        s.stop()


@case
def lighttpd_serves_ab():
    for p in ("lighttpd", "ab", "curl"):
        need(p)
    with Daemon(pair_conf()) as d, folder() as where:
        write(where + "/small", os.urandom(1024))
        with open(where + "/lighttpd.conf", "w", encoding="utf-8") as f:
            f.write(f'server.document-root = "{where}"\nserver.bind = "{A}"\nserver.port = 8080\n')
        s = ours(d, "lighttpd", "-D", "-f", where + "/lighttpd.conf")
        answers(d, "curl", "-sf", "-o", "/dev/null", f"http://{A}:8080/small")
        out = ours(d, "ab", "-q", "-n", "500", "-c", "20", "-k", f"http://{A}:8080/small").ok()
        assert "Complete requests:      500" in out and "Failed requests:        0" in out, out
        s.stop()


@case
def nc_carries_a_file():
    need("nc")
    with tap() as (ns, d), folder() as where:
        data = write(where + "/in", os.urandom(1_000_000))
        s = ours(d, "sh", "-c", f"nc -l {OURS} 7 >{where}/out", netns=ns)
        p = until(lambda: try_nc(d, ns, where), "nc does not listen")
        p.ok()
        assert summed(s, where + "/out") == data


def try_nc(d, ns, where):
    p = kernels(d, "sh", "-c", f"nc -N {OURS} 7 <{where}/in", netns=ns)
    return p if p.wait() == 0 else None


def pings(*more):
    need("sockperf")
    with Daemon(pair_conf()) as d:
        s = ours(d, "sockperf", "server", "-i", A, *more)
        s.wait_line("to block on socket")
        out = ours(d, "sockperf", "ping-pong", "-i", A, "-t", "1", "--data-integrity", *more).ok()
        assert "Summary: Latency is" in out and "# dropped messages = 0" in out, out
        s.stop()


@case
def sockperf_by_tcp():
    pings("--tcp")


@case
def sockperf_by_udp():
    pings()


@case
def iperf_by_udp():
    need("iperf")
    with tap() as (ns, d):
        s = kernels(d, "iperf", "-s", "-u", "-B", KERNEL, netns=ns)
        until(lambda: "Server listening" in s.stdout(), s.tail)
        out = ours(d, "iperf", "-c", KERNEL, "-u", "-b", "20M", "-t", "1", netns=ns).ok()
        assert "Server Report" in out, out
        s.stop()


if __name__ == "__main__":
    sys.exit(main())
