#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rnicrun --embedded: multicast groups, which the kernel joins and whose datagrams the kernel copies to the members."""
import sys

import nets
import programs
from gram_ends import running
from host_rig import Host, in_netns
from rig import PATIENCE, RNICRUN, case, helper, main, need, until

A, B = programs.A, programs.B


def in_group(address, members):
    """Returns a function that tells whether `members` sockets with port datagram-port are in the group."""
    wanted = "".join(f"{int(n):02X}" for n in reversed(address.split("."))) + ":12B9"
    return lambda: sum(f" {wanted} " in line for line in open("/proc/net/udp", encoding="ascii")) == members


@case
def mckey():
    """Two receivers of a group in two processes get its datagrams, and none of those of another group."""
    with Host() as h:
        ends = [h.run(RNICRUN, "mckey", "-m", group, "-b", A) for group in ("239.7.0.1", "239.7.0.1", "239.7.0.2")]
        until(in_group("239.7.0.1", 2), ends[0].tail)
        until(in_group("239.7.0.2", 1), ends[2].tail)
        senders = [h.run(RNICRUN, "mckey", "-s", "-m", group, "-b", A) for group in ("239.7.0.1", "239.7.0.2")]
        for p in ends + senders:
            out = p.ok()
            assert "data transfers complete" in out and "return status 0" in out, out


@case
def a_group_reaches_another_host():
    with nets.two_hosts(A, B) as (ns, other):
        ends = [in_netns(ns, RNICRUN, "--embedded", "mckey", "-m", "239.7.0.3", "-b", A) for _ in range(2)]
        until(lambda: nets.sh("ip", "netns", "exec", ns, "cat", "/proc/net/udp").stdout.count("030007EF:12B9") == 2,
              ends[0].tail)
        for p in (*ends, in_netns(other, RNICRUN, "--embedded", "mckey", "-s", "-m", "239.7.0.3", "-b", B)):
            assert "data transfers complete" in p.ok(), p.tail()


def groups6(ns, name, members):
    """Returns a function that tells whether `members` sockets of a network namespace are bound to the IPv6 group."""
    return lambda: nets.sh("ip", "netns", "exec", ns, "ss", "-Hlun").stdout.count(f"[{name}]") == members


@case
def ipv6_groups():
    """Two receivers of a group on the sender's host and two on the other host, and none of another group; a group of
    the link's scope; members on two devices of one host."""
    with nets.two_hosts(A, B) as hosts:
        for n, ns in enumerate(hosts):
            for addr in (f"fd77::{n + 1}", f"fd77::{n + 3}"):
                nets.sh("ip", "-n", ns, "addr", "add", f"{addr}/64", "dev", f"v{n}", "nodad")

        def mckey6(n, group, *args, at=1):
            return in_netns(hosts[n], RNICRUN, "--embedded", "mckey", "-m", group, "-b", f"fd77::{n + at}", *args)

        for group, other in (("ff05::7:1", "ff05::7:2"), ("ff02::7:1", "ff02::7:2")):
            members = [mckey6(0, group), mckey6(0, group, at=3), mckey6(1, group), mckey6(1, group)]
            others = [mckey6(0, other), mckey6(1, other)]
            with running(*members, *others):
                for ns in hosts:
                    until(groups6(ns, group, 2), members[0].tail)
                    until(groups6(ns, other, 1), others[0].tail)
                for p in (mckey6(0, group, "-s"), *members):
                    assert "data transfers complete" in p.ok(), p.tail()
                assert all(p.p.poll() is None for p in others), others[0].tail()
                for p in (mckey6(1, other, "-s"), *others):
                    assert "data transfers complete" in p.ok(), p.tail()


@case
def ipv6_groups_of_two_devices():
    """All cases of the IPv4 groups, in one process over the two ends of a veth pair. Each end receives the datagrams of
    the other one, and a copy of its own. A socket of the wrong interface would receive both."""
    with nets.veth() as ns:
        for n in range(2):
            nets.sh("ip", "-n", ns, "addr", "add", f"fd77::{n + 1}/64", "dev", f"v{n}", "nodad")
        p = in_netns(ns, RNICRUN, "--embedded", helper("mcast_cases"), "fd77::1", "fd77::2")
        assert p.wait(5 * PATIENCE) == 0 and p.stdout().count("ok ") == 5, p.tail(60)


need("setpriv")
need("mckey")
sys.exit(main())
