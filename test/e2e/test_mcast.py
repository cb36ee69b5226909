#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Multicast with Debian's unmodified mckey: from one port of a daemon to another port and to itself, and between two
daemons over a Linux bridge with IGMP snooping, which forwards a group's frames only to ports from which it has heard a
valid report. tshark reads from captures what the ports send.
"""
import json
import signal
import socket
import struct
import sys
import time

import wire
from rig import PATIENCE, RNICRUN, Daemon, Skip, case, cases_of, main, need, pair_conf
from shark import fields
from wire_check import ones_sum

A, B = "10.77.0.1", "10.77.0.2"


def mckey(d, *args):
    need("mckey")
    return d.run(RNICRUN, "mckey", *args)


def done(*programs):
    for p in programs:
        out = p.ok()
        assert "data transfers complete" in out and "return status 0" in out, out


def until(what, f, *want):
    end = time.monotonic() + PATIENCE
    while f() not in want and time.monotonic() < end:
        time.sleep(0.02)
    assert f() in want, f"not reached: {what}; {f()}, expected {want}"


def groups(d):
    return sorted(d.telemetry("/rnic/groups"))


def members(group, dev, n):
    return f"239.1.1.{group} device {dev} ids {n} qps {n}"


def counter(d, name):
    return d.telemetry("/rnic/counters")[name]


ALL = 3  # ETH_P_ALL
cases_of("mcast_cases", pair_conf(both="personality = roce", rnicd="workers = 0,1"))
CAPTURED = {"a": "capture = {dir}/a.pcapng", "b": "capture = {dir}/b.pcapng"}


@case
def mckey_from_port_to_port():
    """mckey waits three seconds before it sends, so several groups are tested at the same time. The receivers of all
    groups start first."""
    with Daemon(pair_conf(**CAPTURED)) as d:
        ends = [mckey(d, *args) for args in (
            ["-m", "239.1.1.1", "-b", B], ["-m", "239.1.1.1", "-b", B],
            ["-m", "239.1.1.1", "-b", A],  # a receiver on the sender's own device
            ["-m", "239.1.1.2", "-b", A, "-c", "3", "-S", "1024"],
            ["-M", "::ffff:239.1.1.3", "-b", B],
            ["-m", "239.1.1.4"])]  # without -b: the first device
        until("all are members", lambda: groups(d), [members(1, "a", 1), members(1, "b", 2), members(2, "a", 3),
                                                       members(3, "b", 1), members(4, "a", 1)])
        ends += [mckey(d, "-s", *args) for args in (
            ["-m", "239.1.1.1", "-b", A], ["-m", "239.1.1.2", "-b", B, "-o", "-c", "2", "-S", "1024"],
            ["-M", "::ffff:239.1.1.3", "-b", A, "-l"], ["-m", "239.1.1.4", "-b", B])]
        done(*ends)
        until("no group has a member", lambda: groups(d), [])
        until("clients", lambda: d.telemetry("/rnic/clients"), [])
        # what the four senders have sent; their datagrams also reached the receiver on the first sender's own device
        assert counter(d, "ud_out") == 10 + 20 + 10 + 10, counter(d, "ud_out")
        assert counter(d, "ud_bad") == counter(d, "ud_crc") == counter(d, "ud_qkey") == 0
        d.end()
        sent = [r for r in fields(d.dir + "/a.pcapng", "ip.src", "ip.dst", "eth.dst", "ip.ttl", "udp.dstport", of="udp")
                if r[0] == A]
        assert len(sent) == 20 and all(r[3:] == ["64", "4793"] for r in sent), sent
        assert {(r[1], r[2]) for r in sent} == {("239.1.1.1", "01:00:5e:01:01:01"), ("239.1.1.3", "01:00:5e:01:01:03")}


def conf(name, addr):
    return f"[rnicd]\nsocket = {{dir}}/rnicd.sock\nhugepages = auto\n[port p]\ndevice = af_packet:{name}\n" \
           f"address = {addr}/24\ncapture = {{dir}}/p.pcapng\n"


def bridge():
    """Makes bridge br0 with ports pa, pb, px; da, db, dx are the other ends of their wires."""
    need("bridge")
    wire.own_network()
    try:
        wire.run("ip", "link", "add", "br0", "type", "bridge", "mcast_snooping", "1",
                 "mcast_query_response_interval", "50", "mcast_last_member_interval", "10",
                 "mcast_last_member_count", "1", "mcast_startup_query_count", "1", "mcast_igmp_version", "3")
    except AssertionError as why:
        raise Skip(f"the kernel has no bridge with IGMP snooping: {why}") from None
    for n in "abx":
        wire.run("ip", "link", "add", f"p{n}", "type", "veth", "peer", "name", f"d{n}")
        wire.run("ip", "link", "set", f"p{n}", "master", "br0")
        for dev in (f"p{n}", f"d{n}"):
            wire.run("ip", "link", "set", dev, "up")
    wire.run("ip", "link", "set", "br0", "up")
    wire.run("ip", "link", "set", "br0", "type", "bridge", "mcast_querier", "1")


def reported():
    """The groups that the bridge lets through to pb."""
    mdb = json.loads(wire.run("bridge", "-j", "mdb", "show", "dev", "br0"))
    return sorted(m["grp"] for part in mdb for m in part.get("mdb", [])
                  if m["port"] == "pb" and m["grp"].startswith("239."))


class Ear:
    """Reads and writes raw frames on a device of the host, before the bridge sees them."""

    def __init__(self, dev):
        self.s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
        self.s.bind((dev, ALL))

    def next(self, wanted, timeout=PATIENCE):
        """The next incoming IP packet for which wanted() is true, or None."""
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            self.s.settimeout(left)
            try:
                frame, at = self.s.recvfrom(2000)
            except TimeoutError:
                break
            ip = at[2] != socket.PACKET_OUTGOING and frame[12:14] == b"\x08\0"
            if ip and wanted(frame[14:]):
                return frame[14:]
        return None

    def query(self, about="0.0.0.0", code=1, dst="224.0.0.1", ttl=1, alert=b"\x94\x04\0\0", more=b"", spoil=0):
        message = struct.pack(">BBH", 0x11, code, 0) + socket.inet_aton(about) + more
        ihl = 20 + len(alert)
        ip = struct.pack(">BBHHHBBH", 0x40 | ihl // 4, 0xc0, ihl + len(message), 0, 0, ttl, 2, 0) + \
            socket.inet_aton("10.79.0.9") + socket.inet_aton(dst) + alert
        ip = ip[:10] + struct.pack(">H", 0xffff - ones_sum(ip)) + ip[12:]
        message = message[:2] + struct.pack(">H", (0xffff - ones_sum(message)) ^ spoil) + message[4:]
        mac = b"\x01\0\x5e" + bytes([socket.inet_aton(dst)[1] & 0x7f]) + socket.inet_aton(dst)[2:]
        self.s.send(mac + b"\x02\0\0\0\0\x09\x08\0" + ip + message)


def igmp_of(kind, group):
    """Matches a host's IGMP message of this type that names the group; in version 3 the record type is not checked."""
    want = socket.inet_aton(group)
    return lambda ip: ip[9] == 2 and ip[ip[0] % 16 * 4] == kind and want in ip[(ip[0] % 16 + 1) * 4:]


def igmp_counts(d):
    n = d.telemetry("/rnic/ports,p")
    return n["igmp_rx"], n["igmp_bad"]


@case
def over_a_bridge_that_snoops():
    bridge()
    with Daemon(conf("da", "10.79.0.1")) as a, Daemon(conf("db", "10.79.0.2")) as b:
        stays, dies = (mckey(b, "-m", f"239.7.0.{i}") for i in (1, 2))
        until("the bridge forwards both groups", reported, ["239.7.0.1", "239.7.0.2"])
        stranger, ear = Ear("dx"), Ear("pb")
        dies.p.send_signal(signal.SIGKILL)
        assert ear.next(igmp_of(0x22, "239.7.0.2")), "no IGMP report says that the killed client has left"
        until("rnicd has removed the killed client's groups", lambda: groups(b), ["239.7.0.1 device p ids 1 qps 1"])
        until("the bridge forwards the remaining group only", reported, ["239.7.0.1"])
        # A querier asks in two versions; then another host sends malformed queries.
        for about, dst in (("0.0.0.0", "224.0.0.1"), ("239.7.0.1", "239.7.0.1")):
            ear.query(about, dst=dst, more=b"\2\x7d\0\0")
            assert ear.next(igmp_of(0x22, "239.7.0.1")), "no IGMPv3 report answers the query"
        before = igmp_counts(b)
        bad = [{"alert": b""}, {"ttl": 2}, {"spoil": 1}, {"more": b"\0\0"}, {"dst": "239.7.0.1"}, {"about": "10.0.0.1"},
               {"more": b"\2\x7d\0\1"}, {"alert": b"\x94\0\0\0"}, {"alert": b"\x07\xff\0\0"}]
        for how in bad:
            ear.query(**how)
        until("all bad IGMP packets are dropped", lambda: igmp_counts(b), (before[0], before[1] + len(bad)))
        ear.query()
        assert ear.next(igmp_of(0x16, "239.7.0.1")), "no IGMPv2 report answers the query"
        done(stays, mckey(a, "-s", "-o", "-m", "239.7.0.1"))
        until("no group has a member", lambda: groups(a) + groups(b), [])
        assert stranger.next(lambda ip: ip[9] == 17 and ip[16:20] == socket.inet_aton("239.7.0.1"), 0.2) is None
        assert counter(a, "ud_out") == counter(b, "ud_in") == 10
        b.end()
        seen = fields(b.dir + "/p.pcapng", "ip.src", "eth.dst", "ip.ttl", "igmp.type", "igmp.record_type", "igmp.maddr",
                      "igmp.checksum.status", "_ws.malformed", of="igmp")
        ours = [r for r in seen if r[0] == "10.79.0.2"]
        assert all(r[2] == "1" and r[6] == "1" and r[7] == "" for r in ours), ours
        assert ["10.79.0.2", "01:00:5e:00:00:16", "1", "0x22", "4", "239.7.0.1", "1", ""] in ours, ours


if __name__ == "__main__":
    sys.exit(main())
