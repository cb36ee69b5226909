#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Ports that the connection manager chooses for embedded programs, and datagram queue pairs of embedded programs with a
UDP port of their own: between two processes of one host, between two hosts, and with a program over rnicd. A port has
one owner on the host, and is free again when its owner has ended.
"""
import contextlib
import errno
import signal
import socket
import struct
import subprocess
import sys

import nets
from gram_ends import End, running, send, tell
from host_rig import Host, in_netns, listens, open_to_all
from rig import PATIENCE, RNICRUN, Skip, case, helper, main, need, until
from wire_check import crc32c

A, B = "10.77.0.1", "10.77.0.2"
PORTS = ((7000, 7000), (7001, None), (None, 7002))  # of the source's and of the sink's queue pair, None: no own one


def number(port):
    return 0xfd0000 | port


def all_ports(from_, to, lens, ports=PORTS):
    for length in lens:
        for from_port, to_port in ports:
            qpn, came_from = send(from_, to, length, 2, from_port, to_port)
            assert to_port is None or qpn == number(to_port), (qpn, to_port)
            assert (came_from == number(from_port)) if from_port else came_from >> 16 != 0xfd, (came_from, from_port)


def sink(h, address, port):
    return h.run(RNICRUN, helper("ud_long"), address, "sink", "1", "4", f"port={port}")


def bound(h, address, port):
    p = sink(h, address, port)
    assert p.wait_line("qpn") == f"qpn {number(port)}", p.tail()
    return p


def refused(h, address, port, error, why):
    p = sink(h, address, port)
    assert p.wait() != 0 and f"rnicdv_create_qp: {error}" in p.stdout() and why in p.stderr(), p.tail()


IN_USE = ("Address already in use", "another queue pair or program of the host has the UDP port")


@case
def ends_in_two_processes_of_one_host_are_named_by_their_ports():
    with nets.two_hosts(A, B) as (ns, _):
        nets.sh("ip", "-n", ns, "addr", "add", "10.78.0.1/24", "dev", "lo")
        for keys in ("", "segments=64k"):
            all_ports(End(ns, A, keys=keys), End(ns, A, keys=keys), [4, 100000],
                      ((7000, 7003), (7001, None), (None, 7002)))
            all_ports(End(ns, A, keys=keys), End(ns, "10.78.0.1", keys=keys), [4])


@case
def ends_on_two_hosts_are_named_by_their_ports():
    with nets.two_hosts(A, B) as (here, there):
        for keys in ("", "segments=64k"):
            all_ports(End(here, A, keys=keys), End(there, B, keys=keys), [4, 100000])


@case
def rnicd_at_a_tap_is_a_peer_in_both_roles():
    with nets.tap(rnicd="record-timeout = 5s") as (ns, d):
        here, over = End(ns, nets.KERNEL), End(ns, nets.OURS, daemon=d)
        all_ports(here, over, [4, 100000])
        all_ports(over, here, [4, 100000])
        c = d.telemetry("/rnic/counters")
        assert c["ud_bad"] == c["ud_no_qp"] == 0 and c["ud_in"] > 0, c


@case
def a_port_has_one_owner_on_the_host():
    with Host() as h:
        first = bound(h, A, 7000)
        refused(h, A, 7000, *IN_USE)
        bound(h, B, 7000).stop(signal.SIGKILL)  # the same port of another address
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:  # another program
            try:
                s.bind((A, 7000))
                raise AssertionError("a program could bind the queue pair's port")
            except OSError as e:
                assert e.errno == errno.EADDRINUSE, e
            s.bind(("0.0.0.0", 7003))
            refused(h, A, 7003, *IN_USE)
        refused(h, A, 4793, "Permission denied", "it is datagram-port, which all other queue pairs share")
        p = h.run(RNICRUN, helper("ud_long"), A, "ports", "6998")
        assert p.ok() == "ports 2: Address already in use", p.tail()
        first.stop(signal.SIGKILL)


@case
def the_port_of_a_killed_process_is_free():
    with Host() as h:
        for _ in range(3):
            bound(h, A, 7000).stop(signal.SIGKILL)
        bound(h, A, 7000).stop(signal.SIGTERM)
        bound(h, A, 7000)


@case
def a_port_below_1024_is_roots():
    need("setpriv")
    if not open_to_all(RNICRUN):
        raise Skip("the build folder lies in a folder that only its owner may enter")
    with Host() as h:
        refused(h, A, 1023, "Permission denied", "UDP ports below 1024 are root's")
        bound(h, A, 1024)


@case
def a_tcp_port_below_1024_is_roots():
    need("setpriv")
    if not open_to_all(RNICRUN):
        raise Skip("the build folder lies in a folder that only its owner may enter")
    with Host() as h:
        for what, peer in (("listen", ()), ("connect", (B, "7000"))):
            p = h.run(RNICRUN, helper("port_zero"), A, *peer, OWN_PORT="1023")
            p.p.stdin.close()
            assert p.wait() == 1 and f"{what}: Permission denied" in p.stderr(), p.tail()
            assert "the host does not let this user have the port: choose one above 1023" in p.stderr(), p.tail()


@case
def a_process_without_descriptors_is_told():
    with Host() as h:
        p = h.run("sh", "-c", f"ulimit -n 100; exec {RNICRUN} --embedded {helper('ud_long')} {A} ports 20000")
        n, why = p.ok().split(": ")
        assert 0 < int(n.split()[1]) < 100 and why == "Too many open files", p.tail()
        assert "raise the program's limit (ulimit -n)" in p.stderr(), p.tail()


@case
def cases_in_one_process_over_two_devices():
    listed = subprocess.run([helper("udp_port_cases"), "--list"], check=True, capture_output=True, text=True)
    with Host() as h:
        p = h.run(RNICRUN, helper("udp_port_cases"), A, B)
        out = p.ok(PATIENCE)
        assert out.splitlines() == [f"ok {name}" for name in listed.stdout.split()], p.tail()


def message(src, dst):
    """A Send of four octets from one queue pair to another (doc/datagram-iwarp.md)."""
    head = struct.pack(">BBBBIIII", 0x10, 1, 0, 0, dst, src, 0x1234, 0)
    segment = struct.pack(">BBIIIII", 0x41, 0x43, 0, 0, 1, 0, 0)
    return head + segment + struct.pack("<I", crc32c(head + segment))


def shoot(sport, dport, datagram):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind((A, sport))
        s.sendto(datagram, (B, dport))


@case
def what_does_not_come_from_the_port_that_its_sender_names_is_dropped():
    """A datagram from a queue pair with a UDP port must come from this port, and go to the port of its receiver."""
    with nets.two_hosts(A, B) as (here, there):
        target = End(there, B)
        p = target.run("ud_long", "sink", "1", "4", "port=7000", "paced")
        q = target.run("ud_long", "sink", "1", "4", "paced")
        with running(p, q):
            own, common = (int(x.wait_line("qpn").split()[1]) for x in (p, q))
            for sport, dport, src, dst in ((7001, 7000, number(7002), own), (7001, 4793, number(7002), common),
                                           (7001, 7000, 77, common), (7001, 4793, 77, own),
                                           (7005, 7000, number(7005), own), (7005, 4793, number(7005), common)):
                nets.In(here).run(lambda s=sport, d=dport, m=message(src, dst): shoot(s, d, m))
            for end in (p, q):
                assert end.ok().endswith(f"whole 1 from {number(7005)}"), end.tail()


RANGE = range(40000, 40008)


@contextlib.contextmanager
def few_ports(address, used):
    """A host whose kernel chooses ports of RANGE only, and where sockets of another program have the ports `used`."""
    def occupy():
        for port in used:
            taken.append(socket.create_server((address, port)))

    taken = []
    with nets.two_hosts(A, B) as (ns, _):
        nets.sh("ip", "netns", "exec", ns, "sysctl", "-qw", f"net.ipv4.ip_local_port_range={RANGE[0]} {RANGE[-1]}")
        nets.In(ns).run(occupy)
        try:
            yield ns
        finally:
            for s in taken:
                s.close()


def port_zero(ns, *args):
    return in_netns(ns, RNICRUN, "--embedded", helper("port_zero"), *args)


def port_of(p):
    return int(p.wait_line("port").split()[1])


def go_on(p, says):
    tell(p, "")
    p.wait_line(says)


@case
def port_0_is_no_port_that_the_host_uses():
    with few_ports(A, RANGE[:-2]) as ns:
        first, second = port_zero(ns, A), port_zero(ns, A)
        with running(first, second):
            assert {port_of(first), port_of(second)} == set(RANGE[-2:]), (first.tail(), second.tail())
            third = port_zero(ns, A)
            assert third.wait() != 0 and "Address already in use" in third.stderr(), third.tail()
            for p in (first, second):
                go_on(p, "listen")
            go_on(second, "destroy")
            third = port_zero(ns, A)
            with running(third):
                assert port_of(third) == port_of(second), third.tail()


@case
def port_0_of_all_addresses_is_no_port_that_one_of_them_uses():
    for address in (A, "127.0.0.1"):
        with few_ports(address, RANGE[:-1]) as ns:
            p = port_zero(ns, "0.0.0.0")
            with running(p):
                assert port_of(p) == RANGE[-1], p.tail()
                go_on(p, "listen")


@case
def an_address_that_two_interfaces_have_has_one_listener():
    """A connection arrives whichever interface has brought it."""
    need("rping")
    with nets.two_hosts(A, B) as (ns, other):
        nets.sh("ip", "-n", ns, "addr", "add", f"{A}/32", "dev", "lo")
        p = port_zero(ns, "0.0.0.0")
        with running(p):
            port_of(p)
            go_on(p, "listen")
        s = in_netns(ns, RNICRUN, "--embedded", "rping", "-s", "-C", "1")
        with running(s):
            until(listens(ns, 7174), s.tail)
            in_netns(other, RNICRUN, "--embedded", "rping", "-c", "-a", A, "-C", "1").ok()
            s.ok()


@case
def no_program_takes_a_port_between_bind_and_listen():
    def take(address, port):
        try:
            socket.create_server((address, port)).close()  # with SO_REUSEADDR
        except OSError as e:
            return e.errno
        return 0

    with few_ports(A, ()) as ns:
        for address in (A, "0.0.0.0"):
            p = port_zero(ns, address)
            with running(p):
                port = port_of(p)
                for other in (A, "0.0.0.0"):
                    assert nets.In(ns).run(lambda o=other, n=port: take(o, n)) == errno.EADDRINUSE, (address, other)
                go_on(p, "listen")
                go_on(p, "destroy")
            assert nets.In(ns).run(lambda n=port: take(A, n)) == 0, address


@case
def a_connection_of_an_id_leaves_from_the_port_that_was_chosen():
    with few_ports(A, ()) as ns:
        with nets.In(ns).run(lambda: socket.create_server((A, 7000))) as s:
            s.settimeout(PATIENCE)
            for address in (A, "0.0.0.0"):
                p = port_zero(ns, address, A, "7000")
                with running(p):
                    port = port_of(p)
                    tell(p, "")
                    peer, at = s.accept()
                    peer.close()
                    assert at[1] == port, (at, port)


sys.exit(main())
