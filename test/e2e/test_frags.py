#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Datagrams of programs' UDP sockets that are longer than a packet: to and from the kernel's UDP, over a line that loses
and reorders, and as fragments from a raw peer that obeys no rules.
"""
import collections
import itertools
import os
import random
import socket
import struct
import time
import zlib

import wire_check
from nets import KERNEL, OURS, In, ping, sh, tap
from rig import Daemon, case, main, pair_conf, until
from sock_rig import READS, kernels, nothing_left, ours, port_of, python

A, B, RAW, FLOOD = "10.77.0.1", "10.77.0.2", "10.79.0.77", "10.79.0.78"
MF, DF = 0x2000, 0x4000

# Sends datagrams of many lengths, each again and again until it has come back whole.
ASKS = """
import os, socket, sys
s = socket.socket(type=socket.SOCK_DGRAM)
if len(sys.argv) > 4:
    s.bind((sys.argv[4], 0))
s.connect((sys.argv[1], int(sys.argv[2])))
s.settimeout(0.2)
echoes = set()  # a late one may come behind the answer to a later datagram
for n in map(int, sys.argv[3].split(",")):
    d = b"tell" + os.urandom(n - 4)
    echoes.add(d[::-1])
    while True:
        s.send(d)
        try:
            while (r := s.recv(70000)) != d[::-1]:
                assert r in echoes, "a datagram came that is not the echo of one that was sent"
            break
        except socket.timeout:
            pass
print("answered", flush=True)
"""
LENGTHS = "1472,1473,1480,1481,2952,2953,8192,32768,65506,65507"


def frags(d, port="a"):
    return {k: v for k, v in d.telemetry(f"/rnic/ports,{port}").items() if k.startswith("frag_")}


def header(src, ident, field, payload, proto=17):
    h = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), ident, field, 64, proto, 0, socket.inet_aton(src),
                    socket.inet_aton(OURS))
    return h[:10] + struct.pack(">H", checksum(h)) + h[12:]


def checksum(data):
    s = sum(struct.unpack(f">{(len(data) + 1) // 2}H", data + bytes(len(data) % 2)))
    while s >> 16:
        s = (s & 0xffff) + (s >> 16)
    return ~s & 0xffff


def datagram(src, port, data):
    h = struct.pack(">HHHH", 4000, port, 8 + len(data), 0)
    pseudo = socket.inet_aton(src) + socket.inet_aton(OURS) + struct.pack(">BBH", 0, 17, len(h) + len(data))
    return h[:6] + struct.pack(">H", checksum(pseudo + h + data) or 0xffff) + data


class Wire:
    """Raw frames on the kernel's end of the tap, past the kernel's IP."""

    def __init__(self, ns):
        assert ping(ns, "-c", "1").returncode == 0
        mac = sh("ip", "-n", ns, "neigh", "show", OURS).stdout.split("lladdr ")[1].split()[0]
        self.eth = bytes.fromhex(mac.replace(":", "")) + bytes.fromhex("0200000000770800")
        self.s = In(ns).run(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800)))
        self.s.bind(("rt0", 0x0800))

    def part(self, src, ident, data, off, end, more=True):
        """Sends a fragment: bytes [off, end) of the datagram behind the IP header."""
        self.s.send(self.eth + header(src, ident, off // 8 | (MF if more else 0), data[off:end]) + data[off:end])

    def all_parts(self, src, ident, data, step=1480, order=list):
        for off in order(range(0, len(data), step)):
            self.part(src, ident, data, off, off + step, off + step < len(data))


def told(data, src=RAW):
    return f"got {len(data)} {zlib.crc32(data)} {src}"


def heard(reader, data, src=RAW):
    return any(told(data, src) in line for line in list(reader.out))


@case
def long_datagrams_pass_between_a_program_and_the_kernel_both_ways():
    with tap() as (ns, d), nothing_left(d):
        s = kernels(d, *python(READS, KERNEL), netns=ns)
        at = port_of(s)
        # the ARP cache has no entry for the address yet: the whole datagram waits for the ARP reply
        ours(d, *python("""
import socket, sys
socket.socket(type=socket.SOCK_DGRAM).sendto(bytes(65507), (sys.argv[1], int(sys.argv[2])))
""", KERNEL, at), netns=ns).ok()
        s.wait_line(told(bytes(65507), OURS))
        ours(d, *python(ASKS, KERNEL, at, LENGTHS), netns=ns).ok()
        s.stop()
        s = ours(d, *python(READS, OURS), netns=ns)
        kernels(d, *python(ASKS, OURS, port_of(s), LENGTHS), netns=ns).ok()
        s.stop()
        got = frags(d)
        assert got["frag_bad"] == 0 and got["frag_whole"] >= 18 and got["frag_tx"] >= 2 * 120, got


@case
def what_leaves_is_cut_as_rfc_791_and_6864_have_it():
    with tap() as (ns, d):
        wire = Wire(ns)
        wire.s.settimeout(60)
        ours(d, *python("""
import socket, sys
s = socket.socket(type=socket.SOCK_DGRAM)
for i in range(20):
    s.sendto(bytes(1400), (sys.argv[1], 9))
    s.sendto(bytes(4000), (sys.argv[1], 9))
""", KERNEL), netns=ns).ok()
        parts = {}
        while sum(map(len, parts.values())) < 60:
            f = wire.s.recv(2000)
            ident, field = struct.unpack(">HH", f[18:22])
            if f[26:30] != socket.inet_aton(OURS) or f[23] != 17:
                continue
            assert len(f) <= 1514 and checksum(f[14:34]) == 0
            if len(f) > 1442 or field != DF:
                parts.setdefault(ident, []).append((field, len(f) - 34))
        assert len(parts) == 20, "two datagrams have the same IP identification"
        assert all(p == [(MF, 1480), (MF | 185, 1480), (370, 1048)] for p in parts.values()), parts


# The result of sends of several lengths for each value of IP_MTU_DISCOVER.
DISCOVER = """
import errno, socket, sys
out = []
for how in range(6):
    s = socket.socket(type=socket.SOCK_DGRAM)
    if sys.argv[3] == "connect":
        s.connect((sys.argv[1], int(sys.argv[2])))
    s.setsockopt(socket.IPPROTO_IP, 10, how)
    for n in (1472, 1473, 65507, 65508):
        try:
            out.append(s.sendto(bytes(n), (sys.argv[1], int(sys.argv[2]))))
        except OSError as e:
            out.append(errno.errorcode[e.errno])
print(out)
"""


@case
def mtu_discover_refuses_what_the_kernel_refuses():
    with tap() as (ns, d):
        here, there = (make(d, *python(READS, at), netns=ns) for make, at in ((ours, OURS), (kernels, KERNEL)))
        for how in ("connect", "address"):
            want = kernels(d, *python(DISCOVER, OURS, port_of(here), how), netns=ns).ok()
            got = ours(d, *python(DISCOVER, KERNEL, port_of(there), how), netns=ns).ok()
            assert got == want and "EMSGSIZE" in got, f"{got}, the kernel says {want}"


@case
def what_arrives_over_a_line_that_loses_and_reorders_is_whole_and_right():
    lengths = ",".join(map(str, random.Random(17).sample(range(1500, 14000), 16)))
    conf = pair_conf(rnicd="workers = 0,1", both="loss = 1%\nreorder = 5%\nduplicate = 5%\nvlan = 7")
    with Daemon(conf) as d, nothing_left(d):
        servers = [ours(d, *python(READS, A)) for _ in range(2)]
        clients = [ours(d, *python(ASKS, A, port_of(s), lengths, B)) for s in servers]
        for c in clients:
            c.ok()
        got = frags(d)
        assert got["frag_whole"] >= 32 and got["frag_bad"] == 0, got
        for s in servers:
            s.stop()


def put_together(path):
    """Reassembles the UDP payloads of a capture's fragments with this file's own code: {length: number of payloads}."""
    parts, whole = {}, collections.Counter()
    for f in wire_check.frames(path):
        if f[12:14] != b"\x08\x00" or f[23] != 17:
            continue
        assert len(f) <= 1514, f"a frame of {len(f)} bytes exceeds the MTU"
        length, ident, field = struct.unpack(">HHH", f[16:22])
        mine = parts.setdefault((f[26:34], ident, field == DF), {})
        mine[field & 0x1fff] = (field & MF, f[34:14 + length])
        if sum(len(p) for _, p in mine.values()) == max(mine) * 8 + len(mine[max(mine)][1]) and not mine[max(mine)][0]:
            data = b"".join(p for _, (_, p) in sorted(mine.items()))
            pseudo = f[26:34] + struct.pack(">BBH", 0, 17, len(data))
            assert checksum(pseudo + data) == 0, f"the UDP checksum over {len(data)} bytes is wrong"
            whole[len(data) - 8] += 1
            mine.clear()
    return whole


@case
def a_capture_has_long_datagrams_as_fragments_with_good_sums():
    with Daemon(pair_conf(a="capture = {dir}/a.pcapng")) as d:
        s = ours(d, *python(READS, A))
        at = port_of(s)
        for source in (A, B):  # once within port a, and once over the wire
            ours(d, *python(ASKS, A, at, "1473,65507", source)).ok()
        s.stop()
        d.end()
        got = put_together(os.path.join(d.dir, "a.pcapng"))
        # the capture keeps at most 1,024 frames for its writer, so some are lost; each length was sent four times, and
        # one of the four copies must be complete
        assert got[1473] and got[65507], got


@case
def a_raw_peers_fragments_are_put_together_unless_they_break_a_rule():
    rng = random.Random(5)
    numbers = itertools.count()
    with tap() as (ns, d), nothing_left(d):
        wire = Wire(ns)
        s = ours(d, *python(READS, OURS), netns=ns)
        at = port_of(s)

        def shuffled(r):
            return rng.sample(list(r), len(r))

        def arrives(data, step, order):
            """Sends a datagram in fragments. False: the daemon gave the datagram up because this program was held up
            too long; the caller may send it again."""
            late = frags(d)["frag_late"]
            wire.all_parts(RAW, next(numbers), datagram(RAW, at, data), step, order)
            until(lambda: heard(s, data) or frags(d)["frag_late"] > late)
            return heard(s, data)

        for n, step, order in [(4000, 1480, list), (65507, 1480, shuffled), (5000, 48, shuffled),
                               (3001, 1480, lambda r: list(r)[::-1])]:
            data = rng.randbytes(n)
            until(lambda: arrives(data, step, order))
        assert frags(d)["frag_bad"] == 0
        data = rng.randbytes(4000)
        dg = datagram(RAW, at, data)

        def refused(parts):
            """Sends fragments that break a rule; no datagram may arrive. False: this program was held up too long, as
            above."""
            before = frags(d)
            ident = next(numbers)
            for off, end in parts:
                wire.part(RAW, ident, dg, off, end, end < 4000)
            until(lambda: frags(d)["frag_rx"] >= before["frag_rx"] + len(parts))
            return frags(d)["frag_bad"] > before["frag_bad"]
        for parts in [((0, 1480), (1472, 2952), (2952, 4008)),  # two fragments overlap
                      ((0, 1480), (0, 1472), (1480, 2960), (2960, 4008)),  # a second fragment at offset 0
                      # a first fragment shorter than any link makes it
                      ((0, 40), (40, 1480), (1480, 2960), (2960, 4008)),
                      ((0, 1480), (1480, 2950), (2960, 4008)),  # a middle fragment whose length is no multiple of 8
                      ((2960, 4000), (2960, 4008), (0, 1480), (1480, 2960))]:  # two last fragments
            until(lambda: refused(parts))
        wire.part(RAW, next(numbers), bytes(70000), 65528, 65560, False)

        def wrong_sum():
            wire.all_parts(RAW, next(numbers), dg[:6] + b"xx" + dg[8:])
            return d.telemetry("/rnic/ports,a")["rx_bad_csum"] > 0
        until(wrong_sum)
        assert not heard(s, data)
        until(lambda: arrives(data, 1480, list))
        s.stop()


@case
def a_flood_of_first_fragments_leaves_a_neighbours_datagram_whole():
    with tap() as (ns, d), nothing_left(d):
        wire = Wire(ns)
        s = ours(d, *python(READS, OURS), netns=ns)
        at = port_of(s)

        numbers = itertools.count()

        def flood(n):
            for _ in range(n):
                wire.part(FLOOD, next(numbers) % 65536, bytes(1480), 0, 1480)

        def evicted(more):
            flood(100)
            return frags(d)["frag_evicted"] >= more

        def arrives():
            """The last fragments of a datagram come after more first fragments of another source than the table holds.
            False: this took too long, or both sources have the same hash in the table; the caller goes on with the next
            source."""
            i = next(numbers) % 65536
            raw = f"10.79.0.{100 + i % 100}"
            data = b"%05d" % i + bytes(9000)
            dg = datagram(raw, at, data)
            for off in range(0, 7400, 1480):
                wire.part(raw, i, dg, off, off + 1480)
            before = frags(d)
            until(lambda: evicted(before["frag_evicted"] + 200))
            for off in range(7400, len(dg), 1480):
                wire.part(raw, i, dg, off, off + 1480, off + 1480 < len(dg))
            until(lambda: heard(s, data, raw) or frags(d)["frag_late"] > before["frag_late"])
            return heard(s, data, raw)
        until(arrives, lambda: f"{frags(d)} {s.tail()}")
        k = kernels(d, *python(ASKS, OURS, at, LENGTHS), netns=ns)
        while k.p.poll() is None:
            flood(50)
            time.sleep(0.01)
        k.ok()
        s.stop()


main()
