#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
rnicrun --embedded --sockets: UDP sockets of unchanged programs run datagram-iWARP over the kernel's UDP. Here the ends
are on two hosts: datagrams go by iWARP to another such end and to rnicd, and plain to the kernel's programs; a peer in
Python speaks the protocol (doc/datagram-sockets.md) over a socket of the kernel's, and breaks its rules.
"""
import contextlib
import itertools
import json
import os
import random
import re
import socket
import struct
import zlib

from gram_embedded_rig import IWARP, LENGTHS, Seen, hosts, ours, peer_and, theirs
from gram_peer import (ANSWER, ASK, ASKS, NOBODY, NUMBER, PORT, RECORD, SEGMENT, SENDS, STALE,
                       answers_is_started_anew_and_closes, heard)
from nets import KERNEL, OURS, tap
from rig import RNICRUN, case, main, need, until
from sock_rig import READS, kernels, nothing_left, port_of, python


@case
def datagrams_of_all_lengths_go_by_iwarp_with_good_crcs():
    with hosts() as (a, b, seen):
        s = ours(a, *python(READS, OURS))
        at = port_of(s)
        ours(b, *python(ASKS, OURS, at, LENGTHS, KERNEL)).ok()
        s.stop()
        there = [g for g in seen.grams() if g.dst_qpn == NUMBER + at]
        assert {ASK} | IWARP <= {g.kind for g in there} <= {ASK, ANSWER} | IWARP, seen.kinds()
        assert all(g.unit == 1408 for g in there if g.kind == SEGMENT)
        assert len(seen.plain(at)) < 200, "datagrams go plain when the peer has answered"


@case
def datagrams_leave_after_their_program_has_ended():
    with hosts() as (a, b, seen):
        s = ours(a, *python(READS, OURS))
        ours(b, *python("""
import os, socket, sys
s = socket.socket(type=socket.SOCK_DGRAM)
s.connect((sys.argv[1], int(sys.argv[2])))
s.settimeout(0.05)
for _ in range(20):  # an answer tells that the peer takes iWARP
    s.send(b"tell")
    try:
        s.recv(9)
    except TimeoutError:
        pass
for n in range(30):
    s.send(bytes(100 + n))
os._exit(0)
""", OURS, port_of(s))).ok()
        until(lambda: all(any(f"got {100 + n} " in x for x in list(s.out)) for n in range(30)), s.tail)
        assert seen.kinds() & IWARP
        s.stop()


@case
def iperf3_and_back():
    need("iperf3")
    with hosts() as (a, b, seen):
        for more in ([], ["-R"], ["-P", "3"], ["-l", "20000"]):
            s = ours(a, "iperf3", "-s", "-1", "-B", OURS, "--forceflush")
            s.wait_line("listening")
            # the connection over which iperf3 speaks of the test is TCP, which both ends run by iWARP, too
            p = ours(b, "iperf3", "-u", "-c", OURS, "-n", "500K", "-b", "20M", "-J", *more)
            assert json.loads(p.ok())["end"]["sum"]["packets"] > 20, p.stdout()
            s.ok()
        assert SEGMENT in seen.kinds()


@case
def the_kernels_programs_get_plain_udp():
    with hosts() as (a, b, seen):
        s = theirs(b, *python(READS, KERNEL))
        ours(a, *python(ASKS, KERNEL, port_of(s), "4,1400,65507,4", OURS)).ok()
        s.stop()
        s = ours(a, *python(READS, OURS))
        theirs(b, *python(ASKS, OURS, port_of(s), "4,1400,65507,4", KERNEL)).ok()
        s.stop()
        assert not seen.grams()


@case
def programs_over_rnicd_and_embedded_ones_use_iwarp():
    with tap() as (ns, d), nothing_left(d), Seen(ns, "rt0") as seen:
        def over_rnicd(*argv):
            return kernels(d, "env", "RNIC_WIRE=iwarp", RNICRUN, "--sockets", *argv, netns=ns)

        def count(what):
            return d.telemetry("/rnic/ports,a")[what]
        s = over_rnicd(*python(READS, OURS))
        ours(ns, *python(ASKS, OURS, port_of(s), LENGTHS, KERNEL)).ok()
        s.stop()
        assert count("gram_iwarp_rx") and count("gram_iwarp_tx") and seen.kinds() & IWARP
        s = ours(ns, *python(READS, KERNEL))
        before = count("gram_iwarp_rx"), count("gram_iwarp_tx")
        over_rnicd(*python(ASKS, KERNEL, port_of(s), LENGTHS, OURS)).ok()
        s.stop()
        assert count("gram_iwarp_rx") > before[0] and count("gram_iwarp_tx") > before[1]


# ---- a peer in Python ----

@case
def a_peer_of_its_own_asks_and_is_heard():
    rng = random.Random(3)
    with peer_and(READS, OURS) as (peer, s):
        at = port_of(s)
        qkey = peer.qkey_for(at)
        for n in (0, 1, 1408):
            data = rng.randbytes(n)
            peer.send(at, data, qkey)
            until(lambda data=data: heard(s, data, peer), s.tail)
        for n, unit, order in ((1409, 1408, list), (65507, 1408, rng.sample), (5000, 64, lambda p, n: p[::-1]),
                               (65507, 576, rng.sample)):
            data = rng.randbytes(n)
            parts = peer.segments(data, unit)
            peer.send_all(at, order(parts, len(parts)) if order is not list else parts, qkey)
            until(lambda data=data: heard(s, data, peer), s.tail)
        assert peer.qkey_for(at) == qkey
        g, _ = peer.asked(at + 1 if at < 65535 else 1)
        assert g.body[8] == NOBODY and g.qkey == 0, g
        peer.own.sendto(b"tell plain", (OURS, at))
        s.wait_line(f"got 10 {zlib.crc32(b'tell plain')}")


@case
def a_peer_of_its_own_writes_long_datagrams_into_slots_that_it_has_been_lent():
    rng = random.Random(4)
    with peer_and(READS, OURS) as (peer, s):
        at = port_of(s)
        lent = peer.slots_of(at)
        assert lent[1] and peer.slots_of(at) == lent, "the same sender must get the same slots again"
        assert peer.slots_of(at, source=NUMBER + peer.port - 1) == (lent[0], 0), "another sender got the same slots"
        for i, order in enumerate((lambda p: p, lambda p: p[::-1], lambda p: rng.sample(p, len(p)),
                                   lambda p: [x for x in p for _ in range(2)])):
            data = rng.randbytes(65507 - i)
            peer.record(at, data, lent, i, order)
            until(lambda data=data: heard(s, data, peer), s.tail)


@case
def a_peer_of_its_own_answers_is_started_anew_and_closes_its_socket():
    with peer_and(SENDS, KERNEL, lambda peer: peer.port) as (peer, p):
        answers_is_started_anew_and_closes(peer, p)


@case
def what_breaks_a_rule_is_dropped_and_counted_and_the_sockets_go_on():
    with peer_and(READS, OURS, RNIC_DROPPED="1") as (peer, s):
        at = port_of(s)
        qkey = peer.qkey_for(at)
        lent = peer.slots_of(at)
        bad, good = b"not for the program", (b"good %d" % n for n in itertools.count())
        one, two, three = peer.segments(bytes(2500))
        wrong = [(one[0][:10] + struct.pack(">I", peer.msn + 1) + one[0][14:], 1024, 2500),
                 (struct.pack(">BBIIII", 1, 0x43, 0, 0, peer.msn + 1, 512) + bytes(512), 512, 2500)]
        for breaks in (
                lambda: peer.send(at, bad, qkey, crc=1),
                lambda: peer.send(at, bad, qkey, source=0x1234),  # a queue pair's number
                lambda: peer.send(at, bad, qkey, flags=1),
                lambda: peer.say(RECORD, NUMBER + at, bytes(26) + bad, qkey, 64, 19),
                lambda: peer.ask(at, nonce=0),
                lambda: peer.say(ANSWER, NUMBER + at, bytes(7) + b"\1\1\0", 5, 1408),  # nobody has asked
                lambda: peer.send_all(at, [one, three, (two[0], 1024, 2400)], qkey),
                lambda: peer.send_all(at, wrong, qkey),  # two segments overlap
                lambda: peer.record(at, bad, lent, 0, stag=lent[1] ^ 4),
                lambda: peer.record(at, bad, lent, 9),
                lambda: peer.send(at + 1 if at < 65535 else 1, bad, qkey),
                lambda: peer.wire.sendto(b"", (OURS, PORT)),
                lambda: peer.wire.sendto(os.urandom(100), (OURS, PORT))):
            breaks()
            data = next(good)
            peer.send(at, data, qkey)
            until(lambda data=data: heard(s, data, peer), s.tail)
        peer.send(at, bad, qkey ^ 1)
        while True:
            g, size = peer.hear(ANSWER)
            if g.body[8] == STALE and g.qkey == qkey ^ 1:
                break
        assert (g.body, g.src_qpn, size) == (bytes(8) + b"\3\0", NUMBER + at, 34), g
        assert not any(str(zlib.crc32(bad)) in x for x in s.out), s.tail()
        s.p.terminate()
        s.wait()
        for what in ("ud_crc", "ud_bad", "ud_qkey", "ud_refused"):
            assert re.search(rf"{what}\D+[1-9]", s.stderr()), (what, s.stderr())


@case
def questions_of_many_get_no_more_octets_than_came():
    with peer_and(READS, OURS) as (peer, s):
        at = port_of(s)
        for i in range(3000):
            peer.ask(at, nonce=i + 1, source=NUMBER + 1 + i)
        peer.wire.settimeout(1)
        size = 0
        with contextlib.suppress(socket.timeout):
            while True:
                size += peer.hear(ANSWER)[1]
        assert 34 <= size <= 3000 * 34, size
        peer.wire.settimeout(60)
        qkey, good = peer.qkey_for(at), b"afterwards"

        def arrives():
            peer.send(at, good, qkey)
            return heard(s, good, peer)
        until(arrives, s.tail)


main()
