#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Embedded programs that share an address: a program passes datagrams and connections to another one by a socket in which
Linux lets few messages wait (net.unix.max_dgram_qlen, by default 10). None is lost.
"""
import contextlib
import os
import re
import signal
import socket
import struct
import sys
import time

import nets
from host_rig import Host, in_netns, listens
from rig import RNICRUN, case, helper, main, need, until

A, B = "10.77.0.1", "10.77.0.2"
CALLERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "qp_callers.py")


@case
def a_receiver_that_is_stopped_for_a_while_loses_no_datagrams():
    """
    More datagrams come than Linux lets wait in a process's socket, and they wait there for longer than a sender waits
    for room (0.2 s).
    """
    with Host() as h:
        sink = h.run(RNICRUN, helper("ud_long"), B, "sink", "16", "100")
        qpn = sink.wait_line("qpn").split()[1]
        sink.p.send_signal(signal.SIGSTOP)
        source = h.run(RNICRUN, helper("ud_long"), A, "source", B, qpn, "100", "paced")
        source.p.stdin.write("\n" * 16)
        source.p.stdin.flush()
        source.wait_line("left 16")
        time.sleep(0.5)  # the time is what is tested: longer than 0.2 s
        sink.p.send_signal(signal.SIGCONT)
        sink.ok()
        source.p.stdin.close()
        source.ok()


def pingpong_at(ns, port, *args):
    return in_netns(ns, RNICRUN, "--embedded", "ibv_ud_pingpong", "-g", "0", "-s", "1000", "-c", "-p", str(port), *args)


@case
def datagrams_that_come_to_another_process_are_passed_to_their_owner():
    """
    The order in which the kernel looks at the processes' sockets is not the order of the processes: the host's first
    process has ended, and a later one has got its index. Therefore a datagram for the later process arrives at the one
    that still waits, which must pass it on. (Datagrams that wait in a process that ends are lost; therefore the
    processes are asked one after the other.)
    """
    with nets.two_hosts(A, B) as (ns, other):
        first, waits = pingpong_at(ns, 18570, "-d", "rnic-v0"), pingpong_at(ns, 18571, "-d", "rnic-v0")
        later = None
        try:
            for port in (18570, 18571):
                until(listens(ns, port), waits.tail)
            first.stop(signal.SIGKILL)
            later = pingpong_at(ns, 18572, "-d", "rnic-v0")
            until(listens(ns, 18572), later.tail)
            for port, server in ((18572, later), (18571, waits)):
                for p in (pingpong_at(other, port, "-d", "rnic-v1", A), server):
                    assert "1000 iters in" in p.ok(), p.tail()
        finally:
            for p in (first, waits, later):
                if p is not None:
                    p.stop(signal.SIGKILL)


def names(ns):
    return nets.sh("ip", "netns", "exec", ns, "cat", "/proc/net/unix").stdout


@case
def a_burst_that_comes_to_another_process_is_passed_on_whole():
    """
    As above, with more datagrams than Linux lets wait in a process's socket. udaddy waits for each of its datagrams for
    good.
    """
    need("udaddy")
    argv = [RNICRUN, "--embedded", "udaddy", "-C", "200"]
    with nets.two_hosts(A, B) as (ns, other):
        first, server, later = pingpong_at(ns, 18570, "-d", "rnic-v0"), None, None
        try:
            until(listens(ns, 18570), first.tail)
            server = in_netns(ns, *argv, "-b", A)
            until(lambda: re.search("rnic-embedded-[0-9]+-[0-9a-f]{8}-7174", names(ns)), server.tail)
            first.stop(signal.SIGKILL)
            later = pingpong_at(ns, 18572, "-d", "rnic-v0")
            until(listens(ns, 18572), later.tail)
            for p in (in_netns(other, *argv, "-b", B, "-s", A), server):
                assert "data transfers complete" in p.ok(), p.tail()
        finally:
            for p in (first, server, later):
                if p is not None:
                    p.stop(signal.SIGKILL)


@case
def connections_that_come_to_another_process_wait_until_their_owner_takes_them():
    """The kernel gives a connection to any process of the address. The owner is stopped, and takes none of many."""
    with nets.two_hosts(A, B) as (ns, other):
        first, owner, callers = pingpong_at(ns, 18570, "-d", "rnic-v0"), None, None
        try:
            until(listens(ns, 18570), first.tail)
            owner = pingpong_at(ns, 18571, "-d", "rnic-v0")
            until(listens(ns, 18571), owner.tail)
            owner.p.send_signal(signal.SIGSTOP)
            callers = in_netns(other, sys.executable, CALLERS, A, "1", "64")
            assert callers.wait_line("early") == "early 0", callers.tail()
            owner.p.send_signal(signal.SIGCONT)
            callers.p.stdin.write("\n")
            callers.p.stdin.close()
            assert "answered 64" in callers.ok(), callers.tail()
        finally:
            for p in (first, owner, callers):
                if p is not None:
                    p.stop(signal.SIGKILL)


@case
def descriptors_that_another_user_sends_are_closed():
    """A message has room for two descriptors, and none of a stranger's is kept."""
    def send():
        stranger = struct.pack("=iII", os.getpid(), 65534, 65534)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.connect("\0rnic-embedded-0-0")
            for _ in range(40):
                s.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("=2i", 0, 1)),
                                   (socket.SOL_SOCKET, socket.SCM_CREDENTIALS, stranger)])

    with nets.two_hosts(A, B) as (ns, _):
        p = pingpong_at(ns, 18570, "-d", "rnic-v0")
        try:
            until(listens(ns, 18570), p.tail)
            held = lambda: len(os.listdir(f"/proc/{p.pid}/fd"))
            before = held()
            nets.In(ns).run(send)
            until(lambda: held() == before, lambda: f"{before} descriptors before, {held()} after", 10)
        finally:
            p.stop(signal.SIGKILL)


@case
def rdma_cm_works_when_others_have_all_names():
    """Any user can bind the names by which a user's processes find each other."""
    def bind(index):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        s.bind(f"\0rnic-embedded-{os.geteuid()}-{index}")
        return s

    need("rping")
    with nets.two_hosts(A, B) as (ns, other), contextlib.ExitStack() as held:
        for s in nets.In(ns).run(lambda: [bind(i) for i in range(253)]):
            held.enter_context(s)
        server = in_netns(ns, RNICRUN, "--embedded", "rping", "-s", "-a", A, "-C", "3")
        try:
            until(listens(ns, 7174), server.tail)
            in_netns(other, RNICRUN, "--embedded", "rping", "-c", "-a", A, "-C", "3").ok()
            server.ok()
            assert server.stderr().count("or another user, have all 253 names") == 1, server.tail()
            p = pingpong_at(ns, 18570, "-d", "rnic-v0")
            assert p.wait() != 0 and "no datagrams" in p.stderr(), p.tail()
        finally:
            server.stop(signal.SIGKILL)


need("setpriv")
sys.exit(main())
