#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
SIPp makes 10,000 calls over `rnicrun --sockets`, by UDP and TCP, and calls with as many sockets at once as the machine
has room for. Each call must succeed; SIPp's own statistics are read. The memory of many clients by UDP is compared
with that of as many by TCP, both over iWARP.
"""
import contextlib
import csv
import os
import resource
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from ends import LONG, Ends, both_ends_ours, on_each
from nets import KERNEL, OURS, tap
from rig import Skip, case, main, need, pair_conf, until
from sock_rig import descriptors, kernels, ours

CALLS = 10_000
RATE = 300    # calls a second: less than a minute where SIPp has the CPU time for them
MANY = 4_000  # calls at once, each with a socket of its own at both ends
PAUSE = 60    # seconds that each of these calls lasts


def totals(where):
    with open(where + "/stat", encoding="utf-8") as f:
        return list(csv.DictReader(f, delimiter=";"))[-1]


def calls(e, where, mode, n, *more, meanwhile=lambda: None):
    """Makes n calls. mode: SIPp's -t: u or t for UDP or TCP; then 1 or n for one socket, or a socket for each call."""
    s = e.server("sipp", "-sn", "uas", "-i", e.at, "-p", "5070", "-t", mode[0] + "1", "-nostdin")
    e.serves(5070)
    p = e.client("sh", "-c", f"cd {where} && exec sipp -sn uac {e.at}:5070 -i {e.peer} -t {mode} -m {n} -r {RATE} "
                 f"-nostdin -trace_stat -stf stat -timeout {LONG}s -timeout_error {' '.join(more)}")
    meanwhile()
    p.ok(LONG + 60)
    t = totals(where)
    said = {k: t[k] for k in ("SuccessfulCall(C)", "FailedCall(C)", "Retransmissions(C)", "ElapsedTime(C)")}
    print(f"# {mode}: {said}")
    assert said["SuccessfulCall(C)"] == str(n) and said["FailedCall(C)"] == "0", said
    s.stop()


def ten_thousand_by(mode):
    need("sipp")
    on_each(lambda e, where: calls(e, where, mode, CALLS, "-l", "1000"))


@case
def ten_thousand_calls_by_udp():
    ten_thousand_by("u1")


@case
def ten_thousand_calls_by_tcp():
    ten_thousand_by("t1")


def a_socket_for_each(mode):
    on_each(lambda e, where: calls(e, where, mode, 2_000, "-l", "500", "-max_socket", "2000"))


@case
def a_socket_for_each_of_two_thousand_calls_by_udp_and_tcp():
    need("sipp")
    a_socket_for_each("un")
    a_socket_for_each("tn")


STRANGER = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


@contextlib.contextmanager
def ends_of_two_users():
    """Server and client are programs of two users, so each end may have as many sockets as one user may have."""
    with both_ends_ours(pair_conf(rnicd=f"socket-mode = 0666\nflows = {4 * MANY}\nuser-share = 100")) as e:
        e.client = lambda *a: ours(e.d, *STRANGER, *a)
        yield e


def at_once(e, where):
    os.chmod(where, 0o777)
    all_there = lambda: e.sockets().count(" ESTAB ") >= 2 * MANY
    calls(e, where, "tn", MANY, "-l", str(MANY), "-d", str(1000 * PAUSE), "-max_socket", str(2 * MANY),
          meanwhile=lambda: until(all_there, lambda: f"{e.sockets().count(' ESTAB ')} sockets", LONG))


@case
def four_thousand_calls_at_once_with_eight_thousand_tcp_sockets():
    for p in ("sipp", "setpriv"):
        need(p)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit < 5 * MANY:
        raise Skip(f"rnicd needs two descriptors for each of {2 * MANY} sockets, and may have {limit}: ulimit -n")
    on_each(at_once, (ends_of_two_users,))


@contextlib.contextmanager
def all_sockets_are_one_users():
    with tap(rnicd=f"flows = {2 * CALLS}\nuser-share = 100") as (ns, d):
        yield Ends(d, lambda *a: kernels(d, *a, netns=ns), lambda *a: ours(d, *a, netns=ns), KERNEL, OURS,
                   ["ip", "netns", "exec", ns, "ss", "-tuan"])


@case
def ten_thousand_sockets_of_one_user_at_once():
    """There are fewer sockets where the limit of descriptors does not let rnicd have two for each socket."""
    need("sipp")
    n = min(CALLS, (resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 1_000) // 2)
    if n <= 4_096:  # one block of doorbells (ipc_stream.h) has room for 4,096 sockets; the case needs a second block
        raise Skip(f"rnicd needs two descriptors for each socket, and may have {2 * n + 1_000}: ulimit -n")
    print(f"# {n} sockets")

    def at_once(e, where, mode):
        have = lambda: descriptors(e.d)
        calls(e, where, mode, n, "-l", str(n), "-d", str(1000 * PAUSE), "-max_socket", str(2 * n),
              meanwhile=lambda: until(lambda: have() >= 2 * n, lambda: f"rnicd has {have()} descriptors", LONG))

    for mode in ("tn", "un"):
        on_each(lambda e, where, mode=mode: at_once(e, where, mode), (all_sockets_are_one_users,))


def resident(pid):
    """The memory of a process in bytes; what several processes share is divided among them."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        return next(1024 * int(line.split()[1]) for line in f if line.startswith("Pss:"))


def memory_of_clients(mode, each, n):
    """Bytes of rnicd, SIPp's server and SIPp's client, while all calls last. each: sockets of a call, of both ends."""
    got = []
    conf = pair_conf(both="stream-wire = iwarp\ndatagram-wire = iwarp",
                     rnicd=f"socket-mode = 0666\nflows = {4 * n}\nuser-share = 100")
    with both_ends_ours(conf) as e, tempfile.TemporaryDirectory() as where:
        os.chmod(where, 0o777)
        e.client = lambda *a: ours(e.d, *STRANGER, *a)
        have = lambda: descriptors(e.d)
        by_iwarp = lambda: e.sockets().count(" iwarp ") >= 0.9 * each * n  # a socket's first datagram may go plain

        def look():
            until(lambda: have() >= 2 * each * n, lambda: f"rnicd has {have()} descriptors", LONG)
            until(by_iwarp, lambda: f"{e.sockets().count(' iwarp ')} sockets go by iWARP", LONG)
            got.append([resident(p) for p in (e.d.pid, *(c.p.pid for c in e.d.children if c.p.poll() is None))])

        calls(e, where, mode, n, "-l", str(n), "-d", str(500 * PAUSE), "-max_socket", str(2 * n), meanwhile=look)
    print(f"# {mode}, {n} calls: {[f'{b / 1e6:.1f} MB' for b in got[0]]}")
    return sum(got[0])


@case
def clients_by_udp_need_at_most_three_quarters_of_the_memory_of_clients_by_tcp():
    """Both by iWARP: each client by UDP is a socket for datagrams, and its server has one socket; each client by TCP is
    a reliable connection. There are fewer clients where the limit of descriptors does not let rnicd have so many."""
    for p in ("sipp", "setpriv"):
        need(p)
    n = min(CALLS, (resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 1_000) // 4)
    udp, tcp = memory_of_clients("un", 1, n), memory_of_clients("tn", 2, n)
    print(f"# UDP to TCP: {udp / tcp:.2f}")
    assert udp <= 0.75 * tcp, f"{udp / tcp:.2f}"


if __name__ == "__main__":
    sys.exit(main())
