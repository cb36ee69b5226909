#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Malicious clients (hostile.c), one mode after the other, while a verified soak runs between two other clients over the
same two ports. The daemon must live, the soak's data must stay good, counters must tell, and what the clients held must
come back.
"""
import os
import re
import sys

from rig import TESTPMD, Daemon, Skip, Soak, case, helper, main, need, pair_conf, until
from wire import Target

QUOTA = """
quota-memory = 64M
quota-qps = 20
quota-cqs = 30
quota-mrs = 100
quota-outstanding = 100000
"""
SERVER, CLIENT = "10.77.0.1", "10.77.0.2"
world = {}


def daemon():
    if "d" not in world:
        world["d"] = Daemon(pair_conf(rnicd=world.get("rnicd", "")))
        d = world["d"]
        world["s"] = d.run(TESTPMD, "-s", "-a", SERVER, "-p", "7001")
        world["s"].wait_line("listening")
        world["t"] = Target(d, SERVER)
        world["t"].tell("listen 7100 32 8 8")
        world["base"] = held(d)
    assert world["d"].alive(), world["d"].tail()
    return world["d"]


def end_daemon():
    if "d" in world:
        d = world.pop("d")
        try:
            world["t"].stop()
            world["s"].stop()
            d.end()
        finally:
            d.close()


def held(d):
    """Number of clients in the daemon. QPs are not counted, since the target keeps those of its ended connections."""
    return len(d.telemetry("/rnic/clients"))


def attack(mode, patience=90):
    """Runs one mode of hostile.c beside the soak; returns what hostile.c printed."""
    d = daemon()
    t = world["t"]
    stag, addr, _ = t.mr["rw"]
    soak = Soak(d, SERVER, 7001)
    p = d.run(helper("hostile"), mode, SERVER, "7100", str(stag), str(addr))
    try:
        out = p.ok(patience)
    finally:
        assert d.alive(), f"the daemon died:\n{d.tail(60)}\n{p.tail()}"
    soak.end()
    returned(d)
    return out


def returned(d):
    t = world["t"]
    until(lambda: held(d) == world["base"],
          lambda: f"clients are left: {d.telemetry('/rnic/clients')}, at first: {world['base']}")
    until(lambda: not d.telemetry("/rnic/conns"), lambda: d.telemetry("/rnic/conns"))
    assert t.p.poll() is None, t.tail()


def counter(name):
    return daemon().telemetry("/rnic/counters")[name]


@case
def changes_work_requests_after_the_doorbell():
    before = counter("bad_wqes") + counter("access_errors")
    attack("wqe")
    assert counter("bad_wqes") + counter("access_errors") > before, "bad_wqes and access_errors do not count it"


@case
def garbage_over_rings_indices_and_doorbells():
    before = counter("bad_rings")
    attack("rings")
    assert counter("bad_rings") > before, "bad_rings does not count the attack"


@case
def completion_queue_that_nobody_polls():
    before = counter("cq_overruns")
    attack("overrun")
    assert counter("cq_overruns") > before, "cq_overruns does not count the overrun"
    until(lambda: "a completion queue has overrun, and its queue pairs have failed: it has" in daemon().stderr(),
          daemon().tail)


@case
def dies_between_doorbell_and_completion():
    attack("die")


@case
def uses_what_belongs_to_others():
    attack("steal")


@case
def takes_pages_away():
    attack("holes")


def hugepages(n=None):
    path = "/proc/sys/vm/nr_hugepages"
    if n is not None:
        with open(path, "w", encoding="ascii") as f:
            f.write(str(n))
    with open(path, encoding="ascii") as f:
        return int(f.read())


@case
def takes_hugepages_away():
    """The client returns its hugepages to the kernel: the daemon's access ends in SIGBUS, which it must survive."""
    daemon()
    with open("/proc/meminfo", encoding="ascii") as f:
        free = int(re.search(r"HugePages_Free:\s+(\d+)", f.read()).group(1))
    before = hugepages()
    if free < 2:
        if os.geteuid() != 0 or hugepages(before + 4) < before + 4:
            raise Skip("no hugepages are free here")
    dropped = counter("clients_dropped")
    try:
        attack("huge_holes")
        assert counter("clients_dropped") == dropped + 1, "the client was not dropped"
    finally:
        if hugepages() != before:
            hugepages(before)


@case
def full_eventfds_and_events_nobody_takes():
    attack("eventfd")


@case
def messages_of_every_wrong_form():
    before = counter("bad_requests")
    attack("messages")
    assert counter("bad_requests") > before


@case
def descriptors_of_every_wrong_kind():
    attack("fds")


@case
def sends_requests_and_never_reads_the_answers():
    attack("deaf")


@case
def objects_that_cannot_be():
    attack("objects")


@case
def listens_and_never_answers():
    d = daemon()
    soak = Soak(d, SERVER, 7001)
    p = d.run(helper("hostile"), "never_accepts")
    p.wait_line("listening")
    t = world["t"]
    mark = t.mark()
    for _ in range(30):
        t.tell(f"connect {CLIENT} 7300")
    p.ok()
    soak.end()
    assert int(re.search(r"(\d+) requests, none", p.stdout()).group(1)) >= 4, p.tail()
    ends = ("RDMA_CM_EVENT_REJECTED", "RDMA_CM_EVENT_UNREACHABLE", "RDMA_CM_EVENT_CONNECT_ERROR")

    def told():
        return sum(any(e in s for e in ends) for s in t.out[mark:])
    until(lambda: told() == 30, lambda: f"{told()} of 30 callers got an error")
    returned(d)


@case
def shares_memory_that_is_not_what_it_says():
    attack("imports")


@case
def opens_nothing_that_its_user_may_not():
    need("setpriv")
    d = daemon()
    os.chmod(d.dir, 0o711)
    path = f"/dev/shm/rnic-test-{os.getpid()}"
    try:
        with open(path, "wb") as f:
            f.write(bytes(64 * 4096))
        os.chmod(path, 0o644)
        p = d.run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", helper("hostile"), "imports_as_user",
                  SHM_FILE=path)
        out = p.ok()
    finally:
        os.unlink(path)
    returned(d)
    if "own memory: 0" not in out:
        raise Skip("rnicd may not read /proc of other users' processes here")


@case
def sockets_by_the_thousand():
    attack("sockets")


@case
def quotas_hold():
    end_daemon()
    world["rnicd"] = QUOTA
    out = attack("quota")
    assert re.search(r"^memory 64 MiB, then errno 12", out, re.M), out
    assert re.search(r"^regions 100, then errno 12", out, re.M), out
    assert re.search(r"^queue pairs 20, then errno 12", out, re.M), out
    assert re.search(r"^completion queues 30, then errno 12", out, re.M), out
    assert re.search(r"^protection domains \d+, then errno 12", out, re.M), out


@case
def daemon_ends_in_order():
    d = daemon()
    world["t"].stop()
    world["s"].stop()
    for what in ("/rnic/clients", "/rnic/qps", "/rnic/conns"):
        until(lambda what=what: not d.telemetry(what), lambda what=what: f"{what}: {d.telemetry(what)}")
    end_daemon()


if __name__ == "__main__":
    try:
        code = main()
    finally:
        if "d" in world:
            world["d"].close()
    sys.exit(code)
