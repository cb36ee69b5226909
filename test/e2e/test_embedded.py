#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
rnicrun --embedded: the distribution's own programs and the project's own cases run over the kernel's sockets, without a
daemon, as an ordinary user. All run in one network namespace whose kernel has the addresses 10.77.0.1 and 10.77.0.2.
"""
import os
import re
import signal
import socket
import subprocess
import sys

import nets
import programs
from host_rig import Host, in_netns, listens, open_to_all
from rig import PATIENCE, RNICRUN, Process, Skip, case, helper, main, need, until

A, B = programs.A, programs.B


def kernel_has_given_link_local_addresses():
    with open("/proc/self/net/if_inet6", encoding="ascii") as f:
        return sum(line.startswith("fe80") for line in f) == 2


@case
def the_devices_are_the_hosts_addresses():
    with Host() as h:
        until(kernel_has_given_link_local_addresses, "the kernel has assigned no link-local addresses")
        out = h.run(RNICRUN, "ibv_devinfo", "-v").ok()
        names = re.findall(r"hca_id:\s+(\S+)", out)
        assert sorted(names[:2]) == ["rnic-ra", "rnic-rb"] and names[2:4] == ["rnic-lo", "rnicv6-lo"], out
        assert sorted(names[4:]) == ["rnicll-ra", "rnicll-rb"] and out.count("PORT_ACTIVE (4)") == 6, out
        gids = re.findall(r"GID\[ +0\]:\s+(\S+), RoCE v2", out)
        assert len(gids) == 6 and {"::ffff:10.77.0.1", "::ffff:127.0.0.1", "::1"} < set(gids), out
        assert all(g.startswith("fe80::") for g in gids[4:]), out


@case
def an_ordinary_user_needs_nothing():
    if not open_to_all(RNICRUN):
        raise Skip("the build folder lies in a folder that only its owner may enter")
    with Host() as h:
        out = h.run("sh", "-c", f"id -u; grep CapEff /proc/self/status; {RNICRUN} --embedded ibv_devices").ok()
        assert "CapEff:\t0000000000000000" in out and out.split()[0] != "0" and "rnic-lo" in out, out


@case
def without_a_daemon_auto_says_so_in_one_line():
    with Host() as h:
        p = h.run("env", f"LD_PRELOAD={os.path.dirname(RNICRUN)}/../../lib/rnic/librnic.so.0", "ibv_devices",
                  RNIC_EMBEDDED="auto")
        assert "rnic-lo" in p.ok(), p.tail()
        assert [line for line in p.err if "RNIC_EMBEDDED=auto" in line] == p.err, p.tail()


@case
def a_key_that_is_wrong_is_named():
    with Host() as h:
        for keys, why in (("crc=maybe", "crc"), ("colour=red", "is not a key"), ("crc", "KEY=VALUE")):
            p = h.run(RNICRUN, "ibv_devices", RNIC_EMBEDDED_KEYS=keys)
            p.wait()
            assert "RNIC_EMBEDDED_KEYS" in p.stderr() and why in p.stderr(), p.tail()


@case
def rping():
    with Host() as h:
        programs.rping((h, h))


@case
def an_embedded_program_is_not_sent_to_rnicds_configuration():
    need("ibv_xsrq_pingpong")
    with Host() as h:
        p = h.run(RNICRUN, "ibv_xsrq_pingpong", "-d", "rnic-lo", "-g", "0", RNIC_EMBEDDED_KEYS="qp-port=0")
        assert p.wait() != 0 and "RNIC_EMBEDDED_KEYS=qp-port=PORT" in p.stderr(), p.tail()
        assert "rnicd's configuration" not in p.stderr(), p.tail()


@case
def what_a_program_drops_is_not_lost_uncounted():
    with Host() as h, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        server = h.run(RNICRUN, "rping", "-s", "-a", A, "-C", "1", RNIC_DROPPED="1")
        until(lambda: programs.on_device(7174)(h), server.tail)
        for _ in range(3):
            s.sendto(b"no datagram of a queue pair", (A, 4793))
        h.run(RNICRUN, "rping", "-c", "-a", A, "-C", "1").ok()
        server.ok()
        assert "librnic: dropped: ud_bad 3" in server.stderr(), server.tail()


@case
def loopback_is_a_device_of_its_own():
    with Host() as h:
        args = ["-a", "127.0.0.1", "-C", "10", "-V", "-v"]
        out, _ = programs.meet((h, h), ["rping", "-s", *args], ["rping", "-c", *args], programs.on_device(7174))
        assert out.count("ping data:") == 10, out


@case
def ipv6_on_loopback():
    """Connections and datagrams, with and without connection manager."""
    with Host() as h:
        args = ["-a", "::1", "-C", "10", "-V", "-v"]
        out, _ = programs.meet((h, h), ["rping", "-s", *args], ["rping", "-c", *args], programs.on_device(7174))
        assert out.count("ping data:") == 10, out
        for kind, port in (("rc", 18545), ("ud", 18546)):
            argv = f"ibv_{kind}_pingpong -g 0 -n 100 -s 1000 -c -p {port} -d rnicv6-lo".split()
            for out in programs.meet((h, h), argv, [*argv, "127.0.0.1"], programs.on_host(port)):
                assert "GID ::1" in out and re.search(r"^100 iters in", out, re.M) and "invalid" not in out, out
        programs.udaddy((h, h), "::1", "::1")


@case
def cm_tools():
    with Host() as h:
        programs.cm_tools((h, h))


@case
def perftest():
    with Host() as h:
        programs.perftest((h, h), True)


@case
def perftest_without_crc_and_with_markers():
    with Host() as h:
        for keys in ("crc=off", "markers=on", "mpa-revision=1 peer-to-peer=off"):
            for name in ("ib_write_bw", "ib_read_bw"):
                argv = [name, "-F", "-R", "-n", "300"]
                out, _ = programs.meet((h, h), argv, [*argv, A], programs.on_device(18515), RNIC_EMBEDDED_KEYS=keys)
                programs.figures(out)


@case
def queue_pairs_without_a_connection_manager_find_the_process_they_are_of():
    """Several processes share the address. A connection that arrives at another process's socket is passed on to the
    process that owns the queue pair."""
    with Host() as h:
        kinds = (("rc", "-c"), ("rc", "-c -e -s 100000"), ("uc", "-c"), ("srq", "-c -e -q 4"))
        for row, (kind, args) in enumerate(kinds):
            argv = f"ibv_{kind}_pingpong -g 0 -n 100 -p {18530 + row} -d rnic-ra {args}".split()
            for out in programs.meet((h, h), argv, [*argv, "127.0.0.1"], programs.on_host(18530 + row)):
                assert re.search(r"^\d+ iters in", out, re.M) and "invalid data" not in out, out


@case
def extended_reliable_connections():
    """An XRC domain belongs to one process: another process cannot open it by the same file."""
    with Host() as h:
        argv = "ibv_xsrq_pingpong -g 0 -n 100 -p 18540 -d rnic-ra".split()
        for out in programs.meet((h, h), argv, [*argv, "127.0.0.1"], programs.on_host(18540)):
            assert "success" in out, out


@case
def perftest_without_a_connection_manager():
    table = (("ib_write_bw", "-n 50 -q 8 -b -s 8192"), ("ib_read_bw", "-n 50 -s 8"), ("ib_write_lat", "-n 50 -s 8"),
             ("ib_atomic_bw", "-n 200 -e"))
    with Host() as h:
        programs.perftest((h, h), False, table, (("-d", "rnic-ra"), ("-d", "rnic-rb")))


@case
def datagrams_between_two_processes():
    """In lock step, as a flood, and with messages of every size up to the MTU; both ends are processes of one user."""
    with Host() as h:
        for row, (args, on) in enumerate((("-c -s 1000", programs.SAME), ("-c -e -s 1000", programs.APART),
                                          ("-c -s 500 -g 1", programs.APART))):
            on = tuple((flag, f"rnic-r{name}") for flag, name in on)
            argv = ["ibv_ud_pingpong", "-g", "0", "-n", "200", "-p", str(18540 + row), *args.split()]
            for out in programs.meet((h, h), [*argv, *on[0]], [*argv, *on[1], "127.0.0.1"],
                                     programs.on_host(18540 + row)):
                assert re.search(r"^200 iters in", out, re.M) and "invalid data" not in out, out
        # Few datagrams are outstanding and receives are posted for all: a bandwidth test fails when a datagram is
        # dropped for want of a receive. The personality is roce, because to an iWARP device perftest sends with
        # credits, which datagrams do not have.
        table = (("ib_send_bw", "-c UD -n 400 -t 16 -r 512 -s 1024"), ("ib_send_bw", "-c UD -n 400 -t 16 -r 512 -b"),
                 ("ib_send_bw", "-c UD -n 400 -t 16 -r 512 -s 64 -q 4"), ("ib_send_lat", "-c UD -n 500 -s 8"),
                 ("ib_send_lat", "-c UD -n 50 -e"))
        programs.perftest((h, h), False, table, (("-d", "rnic-ra"), ("-d", "rnic-rb")),
                          RNIC_EMBEDDED_KEYS="personality=roce")


@case
def datagram_messages_of_many_segments():
    lens = [1, 1408, 1409, 100000, 1 << 20]
    with Host() as h:
        sink = h.run(RNICRUN, helper("ud_long"), B, "sink", str(len(lens)), str(max(lens)))
        qpn = sink.wait_line("qpn").split()[1]
        source = h.run(RNICRUN, helper("ud_long"), A, "source", B, qpn, *map(str, lens))
        sink.ok()
        source.p.stdin.close()
        source.ok()


@case
def udaddy():
    with Host() as h:
        programs.udaddy((h, h))


@case
def a_port_of_datagrams_has_one_process():
    with Host() as h:
        first = h.run(RNICRUN, "udaddy", "-b", A)

        def served():
            with open("/proc/net/unix", encoding="ascii") as f:
                return "-0a4d0001-7174" in f.read()

        until(served, first.tail)
        second = h.run(RNICRUN, "udaddy", "-b", A)
        assert second.wait() != 0 and "port 7174 is in use" in second.stderr(), second.tail()


@case
def ucx_over_datagrams():
    with Host() as h:
        on = (("-d", "rnic-ra"), ("-d", "rnic-rb"))
        roce = {"RNIC_EMBEDDED_KEYS": "personality=roce"}
        for args in ("am_lat", "am_bw -s 900 -D zcopy"):
            programs.ucx((h, h), "-x", "ud_verbs", "-n", "500", "-w", "50", "-t", *args.split(), devices=on, **roce)
        for tls in ("rc_v,ud_v,self", "ud_v,self"):
            for args in ("tag_lat -s 8", "tag_bw -s 100000"):
                programs.ucx((h, h), "-n", "50", "-w", "5", "-t", *args.split(), devices=on, UCX_TLS=tls, **roce)


@case
def dapl():
    with Host() as h:
        programs.dtest((h, h))
        programs.dapltest((h, h))


@case
def libfabric():
    with Host() as h:
        programs.fi_pingpong((h, h), "verbs", "msg")


OPENMPI = (*programs.OPENMPI, *"--allow-run-as-root --oversubscribe --mca btl self --mca pml".split())


def ranks(h, compiler, launcher, *argv, **env):
    """Runs the MPI kernels on four processes, each with its own devices. The kernels check what they receive."""
    need(compiler)
    path = h.dir + "/mpi"
    subprocess.run([compiler, "-O2", "-o", path, programs.MPI], check=True)
    out = h.run(RNICRUN, launcher, "-np", "4", *argv, path, RNIC_REG_VERBOSE="0", HOME=h.dir, **env).ok(240)
    for name in ("ring", "all_to_all", "stencil"):
        assert f"ok {name} of 4 ranks" in out.splitlines(), out


@case
def openmpi_over_libfabric():
    """Libfabric takes a device for another one whose name is the beginning of its own name: a rank listens at the other
    one's address, and refuses all connections."""
    more = (("v0", "10.77.0.3/24"), ("v0", "fd77::1/64"), ("v0", "fd77::3/64"), ("v01", "10.78.0.1/24"),
            ("v02", "10.79.0.1/24"))
    with Host() as h, nets.two_hosts(A, B) as (ns, _):
        nets.sh("ip", "-n", ns, "link", "add", "v01", "type", "veth", "peer", "name", "v02")
        for dev, addr in more:
            nets.sh("ip", "-n", ns, "addr", "add", addr, "dev", dev, *(["nodad"] if ":" in addr else []))
            nets.sh("ip", "-n", ns, "link", "set", dev, "up")
        h.run = lambda program, *argv, **env: in_netns(ns, program, "--embedded", *argv, **env)
        names = re.findall(r"rnic\S*", h.run(RNICRUN, "ibv_devices").ok())
        assert len(names) > 7 and not [(a, b) for a in names for b in names if a != b and b.startswith(a)], names
        ranks(h, *OPENMPI, *"cm --mca mtl ofi --mca mtl_ofi_provider_include verbs;ofi_rxm".split())


@case
def openmpi_over_ucx():
    with Host() as h:
        for tls in ("rc_v,ud_v,self", "ud_v,self"):
            ranks(h, *OPENMPI, "ucx", UCX_TLS=tls, UCX_NET_DEVICES="rnic-ra:1", RNIC_EMBEDDED_KEYS="personality=roce")


@case
def mpich_over_ucx():
    with Host() as h:
        ranks(h, *programs.MPICH, UCX_TLS="rc_v,ud_v,self", UCX_NET_DEVICES="rnic-ra:1",
              RNIC_EMBEDDED_KEYS="personality=roce")


@case
def rcopy():
    with Host() as h:
        programs.rcopy((h, h))


@case
def rstream():
    with Host() as h:
        for size in ("64", "4096", "1000000"):
            programs.stream((h, h), "rstream", "-S", size, "-C", "20", "-I", "20")


@case
def a_port_that_the_host_uses_is_refused():
    with Host() as h:
        first = h.run(RNICRUN, "rping", "-s", "-a", A, "-p", "7200")
        until(lambda: programs.on_device(7200)(h), first.tail)
        second = h.run(RNICRUN, "rping", "-s", "-a", A, "-p", "7200")
        assert second.wait() != 0 and "port 7200 is in use" in second.stderr(), second.tail()


def start_again(h, *args):
    """Returns what start_again.py prints, and its output for a message."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "start_again.py")
    p = Process([RNICRUN, "--embedded", sys.executable, script, *args], env=h.env(), name="start_again.py")
    return dict(line.split(" ", 1) for line in p.ok().splitlines()), p.tail()


@case
def a_start_without_threads_can_be_repeated():
    if not open_to_all(RNICRUN):
        raise Skip("the build folder lies in a folder that only its owner may enter")
    with Host() as h:
        for more in "01":
            said, tail = start_again(h, "threads", more)
            assert said["first"] == "0" and said["left"].split()[0] == "0" and said["again"] != "0", tail


@case
def a_start_without_descriptors_leaves_none_open_and_can_be_repeated():
    """Each start fails at another place, the last ones when the library's threads run already."""
    with Host() as h:
        failed = 0
        for more in range(60):
            said, tail = start_again(h, "descriptors", str(more))
            assert said["again"] != "0", tail
            if said["first"] != "0":
                break
            threads, descriptors = said["left"].split()
            assert descriptors == "0" or threads != "0", tail
            failed += 1
        assert 10 < failed < 60, failed


def killed(h, victim):
    """One end is killed under traffic; the other one must end by itself and not by a signal."""
    s = h.run(RNICRUN, "rping", "-s", "-a", A, "-p", "7201", "-V")
    until(lambda: programs.on_device(7201)(h), s.tail)
    c = h.run(RNICRUN, "rping", "-c", "-a", A, "-p", "7201", "-V", "-v")
    until(lambda: len(c.out) > 20, c.tail)
    dies, lives = (s, c) if victim == "server" else (c, s)
    dies.p.send_signal(signal.SIGKILL)
    assert lives.wait() >= 0, lives.tail()


@case
def the_client_hears_of_a_server_that_is_killed():
    with Host() as h:
        killed(h, "server")


@case
def the_server_hears_of_a_client_that_is_killed():
    with Host() as h:
        killed(h, "client")


@case
def rnicd_at_a_tap_is_a_peer_in_both_roles():
    """The same wire: the program at the kernel's end of the tap is embedded, the other one has rnicd."""
    with nets.tap() as (ns, d):
        there = {"RNICD_SOCKET": d.sock}
        for server, client, addr in ((there, {}, nets.OURS), ({}, there, nets.KERNEL)):
            def run(env, *argv):
                return in_netns(ns, RNICRUN, *([] if env else ["--embedded"]), *argv, **env)
            s = run(server, "rping", "-s", "-a", addr, "-C", "10", "-V", "-S", "9000")
            c = []

            def through():
                c.append(run(client, "rping", "-c", "-a", addr, "-C", "10", "-V", "-v", "-S", "9000"))
                return c[-1].wait() == 0

            try:
                until(through, s.tail)
                assert c[-1].stdout().count("ping data:") == 10, c[-1].tail()
                s.ok()
            finally:
                s.stop(signal.SIGKILL)


@case
def rnicd_at_a_tap_exchanges_datagrams():
    with nets.tap() as (ns, d):
        there = {"RNICD_SOCKET": d.sock}
        for row, (server, client) in enumerate(((there, {}), ({}, there))):
            argv = ["ibv_ud_pingpong", "-g", "0", "-n", "100", "-s", "1000", "-c", "-p", str(18560 + row)]

            def run(env, *more):
                dev = () if env else ("-d", "rnic-rt0")
                return in_netns(ns, RNICRUN, *([] if env else ["--embedded"]), *argv, *dev, *more, **env)

            s = run(server)
            try:
                until(lambda: run(client, "127.0.0.1").wait() == 0, s.tail)
                assert "100 iters in" in s.ok(), s.tail()
            finally:
                s.stop(signal.SIGKILL)


@case
def a_young_connection_ends_by_a_fin_and_not_by_a_reset_of_a_time_out():
    """The connections of this case end so early that a disconnect still waits for the peer's first bytes."""
    with nets.netns() as ns:
        name = "a_limit_is_told_once"
        p = in_netns(ns, RNICRUN, "--embedded", helper("object_cases"), "127.0.0.1", "127.0.0.1", name)
        assert f"ok {name}" in p.ok(), p.tail()
        names, values = (line.split() for line in nets.sh("ip", "netns", "exec", ns, "grep", "^Tcp:", "/proc/net/snmp")
                         .stdout.splitlines())
        assert dict(zip(names, values))["OutRsts"] == "0", values


def ucmatose(hosts, server, client):
    """Runs ucmatose on two hosts; server and client are the options that name the server's address to each."""
    argv = [RNICRUN, "--embedded", "ucmatose", "-C", "50", "-S", "50000"]
    s = in_netns(hosts[0], *argv, *server)
    try:
        until(lambda: in_netns(hosts[1], *argv, *client).wait() == 0, s.tail)
        s.ok()
    finally:
        s.stop(signal.SIGKILL)


@case
def silent_peers_close_no_listener_and_a_connection_for_nobody_is_counted():
    """The backlog of rping's listener is 3. Another process of the user passes a connection to an address that no
    device has (struct passing of ks_pass.c)."""
    at = ("127.0.0.1", 7174)

    def strangers():
        return [socket.create_connection(at, PATIENCE) for _ in range(32)]

    def passer():
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.connect("\0rnic-embedded-0-0")
            socket.send_fds(s, [bytes(26) + b"\xff\xff" + socket.inet_aton("10.9.9.9") + bytes(8)], [s.fileno()])

    with nets.netns() as ns:
        argv = [RNICRUN, "--embedded", "rping", "-a", at[0], "-C", "1"]
        server = in_netns(ns, *argv, "-s", RNIC_DROPPED="1")
        try:
            until(listens(ns, at[1]), server.tail)
            nets.In(ns).run(passer)
            silent = nets.In(ns).run(strangers)
            until(lambda: in_netns(ns, *argv, "-c").wait() == 0, server.tail)
            server.ok()
            assert re.search("dropped: rx_no_flow 1$", server.stderr(), re.M), server.tail()
            for s in silent:
                s.close()
        finally:
            server.stop(signal.SIGKILL)


@case
def two_network_namespaces_are_two_hosts():
    with nets.two_hosts(A, B) as hosts:
        ucmatose(hosts, ("-b", A), ("-s", A))


@case
def two_hosts_meet_by_ipv6():
    """A link-local address belongs to the interface that the program names: both hosts have the peer's link-local
    address on another interface too."""
    with nets.two_hosts(A, B) as hosts:
        for ns, dev, n, peer in ((hosts[0], "v0", 1, 2), (hosts[1], "v1", 2, 1)):
            nets.sh("ip", "-n", ns, "link", "add", "aa", "type", "veth", "peer", "name", "ab")
            for name, addr in ((dev, f"fd77::{n}"), (dev, f"fe80::{n}"), ("aa", f"fe80::{peer}")):
                nets.sh("ip", "-n", ns, "addr", "add", f"{addr}/64", "dev", name, "nodad")
            nets.sh("ip", "-n", ns, "link", "set", "aa", "up")
            nets.sh("ip", "-n", ns, "link", "set", "ab", "up")
        ucmatose(hosts, ("-f", "ip6", "-b", "fd77::1"), ("-f", "ip6", "-s", "fd77::1"))
        ucmatose(hosts, ("-f", "ip6", "-b", "fe80::1%v0"), ("-f", "ip6", "-s", "fe80::1%v1"))
        for row, kind in enumerate(("v6", "ll", "ll")):
            argv = f"ibv_{'rc' if row == 2 else 'ud'}_pingpong -g 0 -n 100 -s 1000 -c -p {18580 + row}".split()
            s = in_netns(hosts[0], RNICRUN, "--embedded", *argv, "-d", f"rnic{kind}-v0")
            try:
                until(listens(hosts[0], 18580 + row), s.tail)
                for p in (in_netns(hosts[1], RNICRUN, "--embedded", *argv, "-d", f"rnic{kind}-v1", A), s):
                    assert "100 iters in" in p.ok(), p.tail()
            finally:
                s.stop(signal.SIGKILL)


@case
def wildcards_of_both_families():
    names = ("wildcards_of_both_families_do_not_meet", "a_wildcard_outlives_that_of_the_other_family",
             "wildcards_of_both_families_serve_one_port_of_datagrams")
    with Host() as h:
        out = h.run(helper("option_cases"), A, B, *names).ok()
        assert [f"ok {name}" for name in names] == re.findall(r"^ok \w+", out, re.M), out


@case
def a_port_of_connections_and_one_of_datagrams():
    with Host() as h:
        assert "ok " in h.run(helper("option_cases"), A, B,
                              "a_port_of_connections_and_one_of_datagrams_have_one_number").ok()


@case
def a_host_that_does_not_answer_is_unreachable():
    with nets.two_hosts(A, B) as hosts:
        p = in_netns(hosts[1], RNICRUN, "--embedded", "rping", "-c", "-a", "10.77.0.99", "-C", "1")
        assert p.wait() != 0 and "RDMA_CM_EVENT_UNREACHABLE, error -110" in p.stdout() + p.stderr(), p.tail()


@case
def a_silent_peer_is_waited_for_as_long_as_the_program_says():
    """ib_read_bw asks for 2 s. The kernel alone would wait for a quarter of an hour."""
    need("ss")
    argv = ["ib_read_bw", "-F", "-s", "4096", "-n", "100000000", "-p", "18590"]
    with nets.two_hosts(A, B) as (there, here):
        s = in_netns(there, RNICRUN, "--embedded", *argv, "-d", "rnic-v0")
        try:
            until(listens(there, 18590), s.tail)
            p = in_netns(here, RNICRUN, "--embedded", *argv, "-d", "rnic-v1", A)
            try:
                sockets = lambda: nets.sh("ip", "netns", "exec", here, "ss", "-tinH").stdout
                until(lambda: re.search(r"bytes_received:\d{7}", sockets()), p.tail)
                nets.sh("ip", "-n", there, "addr", "del", f"{A}/24", "dev", "v0")
                assert p.wait() != 0 and "Failed status 12" in p.stdout() + p.stderr(), p.tail()
            finally:
                p.stop(signal.SIGKILL)
        finally:
            s.stop(signal.SIGKILL)


@case
def a_listener_is_in_the_kernels_list():
    """rnicrun --ss refers to it."""
    need("ss")
    with nets.netns() as ns:
        p = in_netns(ns, RNICRUN, "--embedded", "rping", "-s", "-a", "127.0.0.1", "-p", "7511")
        try:
            row = lambda: [line for line in nets.sh("ip", "netns", "exec", ns, "ss", "-tuanp").stdout.splitlines()
                           if "127.0.0.1:7511" in line and "LISTEN" in line and "rping" in line]
            until(lambda: len(row()) == 1, p.tail)
        finally:
            p.stop(signal.SIGKILL)


@case
def a_queue_pair_has_no_other_design_than_embedded():
    name = "a_queue_pair_has_the_design_that_it_asks_for_or_is_refused"
    with Host() as h:
        p = h.run(helper("option_cases"), A, B, name, DESIGNS="4")
        assert f"ok {name}" in p.ok() and "cannot have design host" in p.stderr(), p.tail()


# Left out, because embedded programs differ from those over rnicd: a Write or Send completes when the kernel has its
# bytes, not when the peer has them, so what the peer refuses is told by the event and not by the completion. Routes and
# refusals are the kernel's; rnicd's ARP plays no part.
OTHERWISE = {
    "op_cases": ("a_window_opens_part_of_a_region", "a_window_of_type_1_moves"),
    "cm_cases": ("no_route", "neighbour_does_not_answer",
                 "loopback_stands_for_the_first_device"),
    "verbs_cases": ("inline_data_is_taken_at_once", "sixteen_pieces", "a_fence_waits_for_the_read",
                    "remote_faults_are_told_to_both", "receives_that_cannot_take_their_message",
                    "a_cq_that_overflows_is_told_to_its_owner", "memory_is_deregistered_under_traffic"),
    "object_cases": (),
    "mcast_cases": ("all_in_a_group_hear_and_who_leaves_does_not",),  # from one interface of a kernel to another
    "nocm_cases": ("events_are_those_of_its_kind", "the_end_of_draining_is_told_if_asked_for",
                   "a_qp_may_be_its_own_peer"),
}


def cases_of(program):
    """Makes one case that runs all cases of a helper program over both addresses in one process."""
    listed = subprocess.run([helper(program), "--list"], check=True, capture_output=True, text=True).stdout.split()

    def run():
        names = [n for n in listed if n not in OTHERWISE[program]]
        with Host() as h:
            p = h.run(helper(program), A, B, *names)
            rc = p.wait(5 * PATIENCE)
        good = re.findall(r"^ok (\w+)$", p.stdout(), re.M)
        assert rc == 0 and sorted(good) == sorted(names), p.tail(60)

    run.__name__ = program
    case(run)


for each in OTHERWISE:
    cases_of(each)

need("setpriv")
sys.exit(main())
