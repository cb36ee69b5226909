#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The line of a port goes down and comes up: the daemon's log, telemetry and clients must tell it, and the port must work
again. Tested are memif with any order of starts, and tap and AF_PACKET whose interface is deleted.
"""
import contextlib
import os
import sys
import tempfile
import time

from nets import KERNEL, OURS, conf, netns, ping, said, sh, veth, wait_for, wait_said
from rig import PATIENCE, RNICRUN, TESTPMD, Daemon, case, helper, main


def link(d, port="a"):
    return d.telemetry(f"/rnic/ports,{port}")["link"]


def wait_link(d, state):
    wait_for(lambda: link(d) == state, f"link {state}\n{d.tail()}")


def cpu_ticks(d):
    """Clock ticks of processor time that the daemon has used."""
    with open(f"/proc/{daemon_pid(d)}/stat", encoding="ascii") as f:
        f = f.read().rsplit(")", 1)[1].split()
    return int(f[11]) + int(f[12])


def daemon_pid(d):
    """`ip netns exec` execs the daemon, so this process is the daemon."""
    return d.pid


def costs_little(d):
    """A daemon whose port is down must sleep: it uses less than half of the time. The time is what is measured, and may
    be longer than asked for."""
    hz = os.sysconf("SC_CLK_TCK")
    before, began = cpu_ticks(d), time.monotonic()
    time.sleep(1)
    used = (cpu_ticks(d) - before) / hz
    assert used < 0.5 * (time.monotonic() - began), f"rnicd used {used} s of CPU time without a link\n{d.tail()}"


@contextlib.contextmanager
def kernel_tap():
    with netns() as ns, Daemon(conf("tap:rt0"), netns=ns) as d:
        sh("ip", "-n", ns, "addr", "add", f"{KERNEL}/24", "dev", "rt0")
        yield ns, d


def answers(ns, patience=PATIENCE):
    return ping(ns, "-c", "1", patience=patience).returncode == 0


@case
def a_cable_that_is_pulled_is_not_called_active():
    """veth: the other end goes down and up. Log, telemetry, ibv_query_port, the doctor and two asynchronous events must
    tell it."""
    with veth() as ns, Daemon(conf("af_packet:v1"), netns=ns) as d:
        assert link(d) == "up"
        watch = d.run(helper("link_watch"), "a")
        watch.wait_line("PORT_ACTIVE state")
        sh("ip", "-n", ns, "link", "set", "v0", "down")
        watch.wait_line("IBV_EVENT_PORT_ERR 1, state DOWN")
        wait_said(d, "port a: link down: the interface v1 is down or has no carrier")
        assert link(d) == "down"
        doctor = d.run(RNICRUN, "--doctor")
        assert doctor.wait() == 1 and "has no link" in doctor.stdout(), doctor.tail()
        sh("ip", "-n", ns, "link", "set", "v0", "up")
        watch.wait_line("IBV_EVENT_PORT_ACTIVE 1, state ACTIVE")
        wait_said(d, "port a: link up")
        watch.ok()
        assert "link up" in d.run(RNICRUN, "--doctor").ok()


@case
def a_port_whose_line_is_down_at_the_start_is_not_called_active():
    with netns() as ns:
        sh("ip", "-n", ns, "link", "add", "v0", "type", "veth", "peer", "name", "v1")
        sh("ip", "-n", ns, "link", "set", "v1", "up")
        with Daemon(conf("af_packet:v1"), netns=ns) as d:
            assert link(d) == "down" and said(d, "port a: link down") == 1, d.tail()
            sh("ip", "-n", ns, "link", "set", "v0", "up")
            wait_link(d, "up")


@case
def a_tap_that_is_deleted_neither_spins_nor_stays_away():
    with kernel_tap() as (ns, d):
        assert answers(ns)
        sh("ip", "-n", ns, "link", "set", "rt0", "down")
        wait_link(d, "down")
        sh("ip", "-n", ns, "link", "set", "rt0", "up")
        wait_link(d, "up")
        wait_for(lambda: answers(ns, 2), f"an answer\n{d.tail()}")
        for n in (1, 2):
            sh("ip", "-n", ns, "link", "del", "rt0")
            wait_said(d, "port a: link down: the interface rt0 is gone", n)
            wait_link(d, "up")
            sh("ip", "-n", ns, "addr", "add", f"{KERNEL}/24", "dev", "rt0")
            wait_for(lambda: answers(ns, 2), f"an answer\n{d.tail()}")
        costs_little(d)
        assert said(d, "link down") == 3 and said(d, "link up") == 3, d.tail()


@case
def an_interface_that_is_deleted_and_made_again_does_not_end_its_port():
    with netns() as ns:
        def make():
            sh("ip", "-n", ns, "link", "add", "v0", "type", "veth", "peer", "name", "v1")
            for dev in ("v0", "v1"):
                sh("ip", "-n", ns, "link", "set", dev, "up")
            sh("ip", "-n", ns, "addr", "add", f"{KERNEL}/24", "dev", "v0")

        make()
        with Daemon(conf("af_packet:v1"), netns=ns) as d:
            assert answers(ns)
            for n in (1, 2):
                sh("ip", "-n", ns, "link", "del", "v1")
                wait_said(d, "port a: link down: the interface v1 is gone", n)
                costs_little(d)
                assert link(d) == "down"
                make()
                wait_link(d, "up")
                wait_for(lambda: answers(ns, 2), f"an answer\n{d.tail()}")
            assert said(d, "link down") == 2 and said(d, "waiting for") <= 2, d.tail()


class Pair:
    """Two daemons, memif server and memif client; each can be ended and started again."""

    def __init__(self, folder):
        common = f"id=0,socket-abstract=no,socket={folder}/memif.sock"
        self.conf = {"server": conf(f"memif:role=server,{common}"),
                     "client": conf(f"memif:role=client,{common}").replace(OURS, "10.79.0.3")}
        self.d = {}

    def start(self, role):
        self.d[role] = Daemon(self.conf[role])

    def kill(self, role):
        d = self.d.pop(role)
        d.close()

    def end(self, role):
        d = self.d.pop(role)
        d.end()
        d.close()

    def joined(self):
        for d in self.d.values():
            wait_link(d, "up")
        s = self.d["server"].run(TESTPMD, "-s", "-a", OURS, "--once")
        s.wait_line("listening")
        out = self.d["client"].run(TESTPMD, "-m", "write_bw", "-S", "4k", "-n", "50", OURS).ok()
        s.ok()
        assert out.count("verified") == 1, out

    def close(self):
        for d in self.d.values():
            d.close()


@contextlib.contextmanager
def memif_pair():
    with tempfile.TemporaryDirectory() as folder:
        p = Pair(folder)
        try:
            yield p
        finally:
            p.close()


@case
def a_memif_client_that_starts_first_is_not_refused():
    with memif_pair() as p:
        p.start("client")
        assert link(p.d["client"]) == "down"
        assert said(p.d["client"], "no memif server answers at") == 1, p.d["client"].tail()
        costs_little(p.d["client"])
        p.start("server")
        p.joined()


@case
def a_memif_does_not_end_with_a_restart_of_either_daemon():
    """Each daemon ends in order, and by SIGKILL, after which the memif server's socket file is left behind."""
    with memif_pair() as p:
        p.start("server")
        p.start("client")
        p.joined()
        for role, how in (("server", p.end), ("server", p.kill), ("client", p.end), ("client", p.kill)):
            other = p.d["client" if role == "server" else "server"]
            downs = said(other, "link down")
            how(role)
            wait_said(other, "link down", downs + 1)
            p.start(role)
            p.joined()
            assert said(other, "waiting for") <= 1, other.tail()


@case
def a_memif_socket_of_a_running_server_is_not_taken_over():
    with memif_pair() as p:
        p.start("server")
        try:
            Daemon(p.conf["server"]).close()
            raise RuntimeError("a second memif server started at the same socket")
        except AssertionError as e:
            assert "another program serves" in str(e), e
        p.start("client")
        p.joined()


if __name__ == "__main__":
    sys.exit(main())
