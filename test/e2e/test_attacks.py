#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
A client of another user attacks rnicd (attack.c), beside clients that move verified data and send requests, over a
daemon with two workers. No case judges by a clock: other clients must be served while the attack is still going on.
"""
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time

import rig

from rig import PATIENCE, TESTPMD, Daemon, Skip, case, helper, main, need, pair_conf

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
CONF = "workers = 0,0\n"


class World(Daemon):
    """A daemon over which a soak moves verified data from the beginning of a case to its end, and a bystander sends
    requests, each of which must be answered."""

    def __init__(self, rnicd="", port=""):
        need("setpriv")
        super().__init__(pair_conf(rnicd=CONF + rnicd, both=port))
        os.chmod(self.dir, 0o711)
        self.attackers = []
        self.blind = False
        self.server = self.run(TESTPMD, "-s", "-a", "10.77.0.1", "-p", "7001")
        self.server.wait_line("listening")
        self.soak = rig.Soak(self, "10.77.0.1", 7001)
        self.bystander = self.run(helper("attack"), "bystander")
        self.bystander.wait_line("ready")

    def attack(self, mode, *argv, **env):
        p = self.run(*NOBODY, helper("attack"), mode, *argv, **env)
        self.attackers.append(p)
        return p

    def others_are_served(self, n=100):
        """Another client sends n requests, one after the other; each is answered."""
        self.run(helper("attack"), "probe", N=str(n)).ok()

    def answered(self):
        """How many requests of the bystander have been answered so far."""
        said = len(self.bystander.out)
        self.bystander.p.stdin.write("?")
        self.bystander.p.stdin.flush()
        rig.until(lambda: len(self.bystander.out) > said, "the bystander's request is not answered")
        return int(self.bystander.out[-1].split()[1])

    def beside(self, attack, n=50):
        """Carries out the attack again and again until n requests of the bystander have been answered meanwhile."""
        before, end = self.answered(), time.monotonic() + PATIENCE
        while True:
            out = attack()
            if self.answered() >= before + n:
                return out
            assert time.monotonic() < end, "the bystander's requests are not answered"

    def goes(self, p):
        """Ends an attack that stays, after requests of the bystander have been answered beside it."""
        self.beside(lambda: time.sleep(0.01))
        assert p.p.poll() is None, f"the attack ended before the bystander was served: {p.tail()}"
        p.p.stdin.close()
        p.ok()

    def end(self):
        for p in self.attackers:
            p.stop()
        self.bystander.p.stdin.close()
        self.bystander.ok()
        self.soak.end(self.blind)
        assert self.alive(), f"the daemon died:\n{self.tail(60)}"
        self.server.stop()
        end = time.monotonic() + PATIENCE
        while not self.blind and time.monotonic() < end and self.telemetry("/rnic/clients"):
            time.sleep(0.05)
        assert self.blind or not self.telemetry("/rnic/clients"), self.telemetry("/rnic/clients")
        super().end()

    def held_up(self, n, how="running"):
        """Waits until at least n jobs of rnicd's helper processes are in the state `how` at 20 looks in a row: jobs
        that end soon do not count."""
        end, seen = time.monotonic() + PATIENCE, 0
        while time.monotonic() < end and seen < 20:
            seen = seen + 1 if self.counter(f"helper_jobs_{how}") >= n else 0
            time.sleep(0.01)
        assert seen == 20, self.telemetry("/rnic/counters")

    def logs(self, text):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and text not in self.stderr():
            time.sleep(0.01)
        assert text in self.stderr(), f"rnicd's log has no line with: {text}"

    def counter(self, name):
        return self.telemetry("/rnic/counters")[name]


@contextlib.contextmanager
def limited(descriptors):
    """A daemon that starts within this context may have this many descriptors; the test's own limit does not change."""
    whole = rig.RNICD
    with tempfile.TemporaryDirectory() as at:
        rig.RNICD = os.path.join(at, "rnicd")
        with open(rig.RNICD, "w", encoding="utf-8") as f:
            f.write(f'#!/bin/sh\nulimit -n {descriptors}\nexec {whole} "$@"\n')
        os.chmod(rig.RNICD, 0o755)
        try:
            yield
        finally:
            rig.RNICD = whole


@case
def a_socket_that_lingers_holds_up_nobody_else():
    with World() as d:
        p = d.attack("lingering")
        d.held_up(1)
        d.others_are_served()
        assert "answered" not in p.stdout(), "the attack ended before the other client was served"
        p.wait_line("answered")  # the helper process that serves this request is blocked for a while only


@case
def descriptors_left_in_a_closed_socket_hold_up_nobody_else():
    with World() as d:
        p = d.attack("unread")
        p.wait_line("closed")
        d.held_up(1)
        d.others_are_served()
        assert d.counter("helper_jobs_running") > 0, "the attack ended before the other client was served"


@case
def descriptors_sent_into_a_stream_socket_hold_up_nobody_else():
    with World() as d:
        p = d.attack("inside", PORT="7001")
        p.wait_line("connecting")
        d.others_are_served()  # rnicd has made the descriptor writable
        p.p.stdin.close()
        p.wait_line("closed")
        d.others_are_served()
        d.held_up(2)  # helper processes close the descriptors, and not rnicd


@case
def a_user_who_holds_up_helpers_leaves_some_to_others():
    with World() as d:
        held = [d.attack("lingering") for _ in range(8)]
        d.held_up(8)
        held.append(d.attack("lingering"))  # all helpers are busy: even this client's first request waits
        d.held_up(1, "waiting")
        d.others_are_served()
        assert any("answered" not in p.stdout() for p in held), "the attack ended before the other client was served"


@case
def sockets_that_wait_to_be_closed_leave_descriptors_to_others():
    """All helper processes that the attacker's user may have are blocked: none closes these sockets."""
    with limited(400), World() as d:
        held = [d.attack("lingering") for _ in range(8)]
        d.held_up(8)
        d.attack("leaving", N="1000").wait_line("left")
        d.others_are_served()
        assert "no more descriptors" not in d.stderr(), d.tail()
        assert any("answered" not in p.stdout() for p in held), "the attack ended before the other client was served"


@contextlib.contextmanager
def mount_point(d):
    at = os.path.join(d.dir, "mnt")
    os.mkdir(at)
    try:
        yield at
    finally:
        subprocess.run(["umount", "-f", "-l", at], check=False, capture_output=True)


def says(p, text):
    """Waits for this line of an attack that mounts a file system. Where that is not possible, the case is skipped."""
    rig.until(lambda: text in p.stdout() or "cannot mount" in p.stdout(), lambda: f"no line with {text}: {p.tail()}")
    if "cannot mount" in p.stdout():
        raise Skip(p.stdout())


@case
def a_file_of_a_silent_server_holds_up_nobody_else():
    with World() as d:
        with mount_point(d) as at:
            p = d.run(helper("attack"), "fuse", MOUNT=at)
            says(p, "held")
            d.others_are_served()
            assert "answered" not in p.stdout(), p.tail()
        p.stop()


@case
def a_memory_map_whose_lock_is_held_holds_up_nobody_else():
    with World() as d:
        with mount_point(d) as at:
            p = d.run(helper("attack"), "locked", MOUNT=at)
            says(p, "asked")
            d.held_up(1)
            d.others_are_served()
        p.stop()


@case
def a_group_of_the_daemon_opens_nothing_to_a_client():
    path, group = f"/dev/shm/rnic-test-{os.getpid()}", 4242
    before = os.getgroups()
    os.setgroups(before + [group])
    try:
        with World() as d, open(path, "wb") as f:
            os.setgroups(before)
            f.write(bytes(4096))
            f.flush()
            os.chown(path, 0, group)
            os.chmod(path, 0o664)
            out = d.beside(lambda: d.attack("groups", SHM_FILE=path).ok())
            os.unlink(path)
    finally:
        os.setgroups(before)
    if "to read: 0" not in out:
        raise Skip("rnicd may not read /proc of other users' processes here")


@case
def nobody_speaks_for_a_queue_pair_but_the_daemon():
    """With both settings: qp-peers is about other hosts, and not about clients of this daemon."""
    for peers in ("daemons", "any"):
        with World(port=f"qp-peers = {peers}\n") as d:
            victim = d.run(helper("attack"), "victim")
            victim.wait_line("waits")
            qpn = victim.out[-1].split()[1]
            d.beside(lambda: d.attack("hijack", QP_PORT="4791", VICTIM=qpn).ok())
            d.beside(lambda: d.attack("numbers").ok())
            victim.p.stdin.close()
            victim.ok()


@case
def addresses_that_no_device_reaches_neither_use_up_nor_free_ports():
    with World() as d:
        d.beside(lambda: d.attack("ports", N="1000", PORT="7001").ok())


def stays(d, mode, says, **env):
    """Starts an attack that takes as much as its user may have, and keeps it; returns the process of the attack."""
    p = d.attack(mode, **env)
    p.wait_line(says)
    assert d.counter("clients_dropped") == 0, d.tail()
    return p


@case
def no_descriptor_left_ends_nobody_and_is_told():
    with World() as d:
        subprocess.run(["prlimit", f"--pid={d.pid}", "--nofile=300:300"], check=True)
        d.blind = True  # without a free descriptor DPDK's telemetry does not answer
        p = d.attack("channels", N="4")
        p.wait_line("channels")
        d.goes(p)
        assert "is dropped" not in d.stderr(), d.tail()


@case
def one_user_leaves_descriptors_to_others():
    with limited(1000), World() as d:
        p = stays(d, "channels", "channels", N="4")
        d.others_are_served()
        d.logs("user-share")
        d.goes(p)


@case
def one_user_leaves_mappings_to_others():
    with World() as d:
        p = stays(d, "mappings", "imports", N="60")
        with open(f"/proc/{d.pid}/maps", encoding="ascii") as f:
            maps = len(f.readlines())
        with open("/proc/sys/vm/max_map_count", encoding="ascii") as f:
            assert maps < int(f.read()) * 3 // 5, f"{maps} mappings"
        d.others_are_served()
        d.logs("user-share")
        d.goes(p)


@case
def one_user_leaves_listeners_to_others():
    with World() as d:
        p = stays(d, "listeners", "listeners")
        other = d.run(TESTPMD, "-s", "-a", "10.77.0.2", "-p", "7002")
        other.wait_line("listening")
        other.stop()
        d.logs("user-share")
        d.goes(p)


# most work requests that a worker flushes in a turn: one half at once, the other half at the turn's end (lib/qp/qp.c)
FLUSHED_IN_A_TURN = 2 * (4096 + 512)


@case
def queues_full_of_flushes_hold_up_nobody_else():
    with World() as d:
        p = stays(d, "flushing", "flushing")
        for _ in range(5):
            before = d.counter("flushed")
            rig.until(lambda at=before: d.counter("flushed") > at, "the attack ended too early: flushed stands still")
            d.run(helper("attack"), "work", N="100").ok()
        before = d.counter("flushed")
        rig.until(lambda: d.counter("flushed") > before, "the attack ended before the other client was served")
        most = [d.telemetry(f"/rnic/workers,{w}")["flushed_most"] for w in range(2)]
        assert 0 < max(most) <= FLUSHED_IN_A_TURN, most
        d.goes(p)


RUNG_IN_A_TURN = 256 + 63  # most doorbells of one client that a worker handles in a turn (plane/worker.c)


@case
def doorbells_of_one_client_fill_no_turn():
    with World() as d:
        p = stays(d, "bells", "ringing")
        rig.until(lambda: any(d.telemetry(f"/rnic/workers,{w}")["rung_most"] > 64 for w in range(2)),
                  "no turn has met doorbells of more than one word")
        for _ in range(3):
            d.run(helper("attack"), "work", N="100").ok()
        most = max(d.telemetry(f"/rnic/workers,{w}")["rung_most"] for w in range(2))
        assert most <= RUNG_IN_A_TURN, most
        d.goes(p)


@case
def one_user_leaves_regions_datagram_queue_pairs_and_groups_to_others():
    with World("flows = 400\nuser-share = 30\n") as d:
        p = stays(d, "tables", "regions", N="0")
        had = [int(n) for n in re.findall(r"(\d+) (?:regions|queue pairs|groups)", p.stdout())]
        # limits: 264,999 STags; 400 queue pairs on each of two workers (the number of a queue pair chooses its worker);
        # 64 groups
        assert 70000 < had[0] <= 79500 and 120 <= had[1] <= 240 and had[2] <= 19, p.stdout()
        d.run(helper("attack"), "tables", N="10").ok()
        for what in ("memory regions", "datagram queue pairs", "multicast groups"):
            d.logs(what)
        d.goes(p)


@case
def one_user_leaves_memory_to_others():
    """Each of the attacker's clients stays below the quotas of a client."""
    with World("client-memory = 256M\nobject-memory = 8M\nuser-share = 50\n") as d:
        took = []
        for _ in range(2):  # what the first attack had is free again when it has ended
            p = stays(d, "memory", "regions", N="0")
            took.append([int(n) for n in re.findall(r"(\d+) (?:regions|ids)", p.stdout())])
            d.run(helper("attack"), "memory", N="2").ok()
            clients = len(d.telemetry("/rnic/clients"))
            d.goes(p)
            rig.until(lambda n=clients: len(d.telemetry("/rnic/clients")) < n - 5, "clients that have ended stay")
        assert took[0] == took[1] and took[0][0] == 7 and 2000 < took[0][1] < 24000, took
        for key in ("client-memory", "object-memory"):
            d.logs(key)


@case
def one_user_leaves_room_for_others_to_connect():
    """Both ends of the attacker's connections use the memory that the two workers have for connection set-up."""
    with World() as d:
        p = stays(d, "setups", "connections")
        had = int(re.search(r"(\d+) connections, then: .*user-share", p.stdout()).group(1))
        d.logs("connections of a worker that are being opened")
        may = int(re.search(r"being opened: a user may have (\d+) of", d.stderr()).group(1))
        assert may <= had <= 2 * may, (had, may)
        assert d.counter("no_setup") == 0 and d.counter("no_block") == 0
        for _ in range(20):
            d.run(TESTPMD, "--mode", "send_lat", "--iters", "10", "-p", "7001", "10.77.0.1").ok()
        d.goes(p)


@case
def one_user_leaves_connections_to_others():
    """Both ends of each idle connection are the attacker's."""
    with World("flows = 400\nuser-share = 30\n") as d:
        server = d.run(*NOBODY, TESTPMD, "-s", "-a", "10.77.0.2", "-p", "7100")
        server.wait_line("listening")
        d.attackers.append(server)

        before = d.counter("connections")

        def held():
            return d.counter("connections") - before

        # rnicd refuses the attacker's connecting end or its accepting end, whichever belongs to the full worker. Only a
        # refused connecting end has the sentence of rnicd in its own output.
        ends = 2 * (20 + 1)  # of a client: its queue pairs' connections and the one that controls the run
        idle = 0
        for _ in range(100):
            p = d.run(*NOBODY, TESTPMD, "--mode", "idle", "--qps", "20", "--seconds", "600", "-p", "7100", "10.77.0.2")
            d.attackers.append(p)
            rig.until(lambda p=p: held() >= ends * (idle + 1) or p.p.poll() is not None,
                      lambda: f"the user has only {held()} connections")
            if p.p.poll() is None:
                idle += 1
                continue
            if "(flows, user-share)" in p.stderr():
                break
            assert "refused the connection" in p.stderr(), p.tail()
            rig.until(lambda: held() <= ends * idle, "connections of a client that has ended stay")
        else:
            raise AssertionError("no client of the attacker was told that its user has no more connections")
        assert 120 <= held() <= 240, held()  # of 400 connections on each of the two workers
        d.logs("connections of a worker (flows)")
        d.run(TESTPMD, "--mode", "send_bw", "--qps", "60", "--iters", "10", "-p", "7001", "10.77.0.1").ok()


@case
def one_user_leaves_places_to_other_clients():
    with World() as d:
        p = stays(d, "clients", "clients")
        d.others_are_served()
        d.logs("user-share")
        d.goes(p)


@case
def tables_have_the_sizes_that_the_configuration_says():
    with World("clients = 40\nlisteners = 20\nregions = 170000\ngroups = 10\nuser-share = 50\n") as d:
        p = stays(d, "listeners", "listeners")
        assert "5 listeners" in p.out, p.stdout()  # on each of two devices
        d.logs("(listeners): a user may have 10 of 20")
        d.goes(p)
        p = stays(d, "tables", "regions", N="0")
        had = [int(n) for n in re.findall(r"(\d+) (?:regions|queue pairs|groups)", p.stdout())]
        assert had[0] == 85000 and had[2] == 5, p.stdout()
        d.logs("(regions): a user may have 85000 of 170000")
        d.logs("(groups): a user may have 5 of 10")
        d.goes(p)
        p = stays(d, "clients", "clients")
        assert "20 clients" in p.out, p.stdout()
        d.logs("(clients): a user may have 20 of 40")
        d.others_are_served()
        d.goes(p)


@case
def requests_at_random_with_descriptors_of_every_kind_harm_nobody_else():
    """Two clients at once. RNIC_FUZZ_SEED and RNIC_FUZZ_REQUESTS change the seed and the number of requests."""
    with World("quota-memory = 64M\n") as d, mount_point(d) as at:
        p = d.run(helper("attack"), "fuzz", MOUNT=at, SEED=os.environ.get("RNIC_FUZZ_SEED", "1"),
                  N=os.environ.get("RNIC_FUZZ_REQUESTS", "1500"))
        while p.p.poll() is None:
            d.others_are_served()
        p.ok()


if __name__ == "__main__":
    sys.exit(main())
