#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
UDP sockets of unchanged programs over the wire protocol iwarp (doc/datagram-sockets.md): they behave as the kernel's
sockets; wire_ud.py checks the bytes on the wire; peers that do not speak the protocol get plain UDP; a peer in Python
asks and answers, is started anew, and breaks the rules.
"""
import os
import random
import socket
import struct
import zlib

import wire_check
import wire_ud
from gram_peer import (ANSWER, ASK, ASKS, NOBODY, NUMBER, SEGMENT, SEND, SENDS, STALE, TAKES, Peer,
                       answers_is_started_anew_and_closes, heard, put)
from nets import KERNEL, OURS, tap
from rig import RNICRUN, Daemon, case, main, pair_conf, until
from sock_rig import READS, kernels, nothing_left, ours, port_of, python, same_as_the_kernel

A, B = "10.77.0.1", "10.77.0.2"
TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gram_table.py")
IWARP = ("env", "RNIC_WIRE=iwarp")


def grams(d, port="a"):
    return {k: v for k, v in d.telemetry(f"/rnic/ports,{port}").items() if k.startswith("gram_")}


def drops(d):
    return {k: v for k, v in d.telemetry("/rnic/counters").items() if k.startswith("ud_")}


def iwarp(d, *argv, netns=None):
    pre = ["ip", "netns", "exec", netns] if netns else []
    return d.run(*pre, *IWARP, RNICRUN, "--sockets", *argv)


@case
def sockets_do_what_the_kernels_do_over_iwarp():
    for workers in ("0", "0,1"):
        conf = pair_conf(rnicd=f"workers = {workers}", both="datagram-wire = iwarp")
        with Daemon(conf) as d, nothing_left(d):
            same_as_the_kernel(d, TABLE, A)
            assert grams(d)["gram_iwarp_rx"] > 3000, grams(d)
            assert not drops(d)["ud_bad"] and not drops(d)["ud_crc"], drops(d)


@case
def all_lengths_arrive_right_over_a_line_that_loses_and_reorders():
    lengths = "4,5,1407,1408,1409,2816,2817," + ",".join(map(str, random.Random(7).sample(range(3000, 20000), 8)))
    with Daemon(pair_conf(both="loss = 1%\nreorder = 5%\nduplicate = 5%\nvlan = 7")) as d, nothing_left(d):
        s = iwarp(d, *python(READS, A))

        def some_were_lost():
            iwarp(d, *python(ASKS, A, port_of(s), lengths, B)).ok()
            return drops(d)["ud_incomplete"] > 0
        until(some_were_lost)
        assert not drops(d)["ud_bad"] and not drops(d)["ud_crc"], drops(d)
        s.stop()
    with Daemon(pair_conf()) as d, nothing_left(d):
        s = iwarp(d, *python(READS, A))
        for source in (A, B):  # once within port a, and once over the wire
            iwarp(d, *python(ASKS, A, port_of(s), "32768,65506,65507,4", source)).ok()
        assert grams(d)["gram_iwarp_rx"] > 2 and not drops(d)["ud_incomplete"], drops(d)
        iwarp(d, *python(ASKS, A, port_of(s), ",".join(["65507"] * 20), B)).ok()
        # the slots of port a's socket are lent to the first sender that asked, so only port b's socket receives in
        # slots
        assert grams(d, "b")["gram_slots_rx"] > 0, grams(d, "b")
        s.stop()


def plain(path, port):
    """The lengths of the datagrams that went to and from the port as plain UDP, by a capture."""
    return {struct.unpack(">H", f[38:40])[0] - 8 for f in wire_check.frames(path)
            if f[12:14] == b"\x08\x00" and f[23] == 17 and port in struct.unpack(">HH", f[34:38])}


@case
def the_wire_is_datagram_iwarp_with_good_crcs():
    with Daemon(pair_conf(a="capture = {dir}/a.pcapng")) as d:
        s = iwarp(d, *python(READS, A))
        at = port_of(s)
        # each end asks with its first datagram, so the answer has come before the second one
        iwarp(d, *python(ASKS, A, at, ",".join(["5"] + ["4"] * 20 + ["1408", "1409", "65507"]), B)).ok()
        s.stop()
        d.end()
        path = os.path.join(d.dir, "a.pcapng")
        seen = wire_ud.datagrams(path)  # raises when a header, a sum or a CRC is wrong
        number = NUMBER + at
        there = [g for g in seen if g.dst_qpn == number and g.kind != ANSWER]
        assert {ASK, SEND, SEGMENT} <= {g.kind for g in there} <= {ASK, SEND, SEGMENT, 5}, {g.kind for g in there}
        asker, = {g.src_qpn for g in there}
        answers = [g for g in seen if g.kind == ANSWER and g.dst_qpn == asker]
        assert {(g.src_qpn, g.body[8]) for g in answers} == {(number, TAKES)}, answers
        assert {g.qkey for g in answers} == {g.qkey for g in there if g.kind != ASK}
        whole = {}
        for g in there:
            if g.kind == SEGMENT:
                assert g.unit == 1408 and (g.imm, g.solicited) == (None, False)
                whole.setdefault((g.msn, g.total), {})[g.offset] = g.body
        assert {1409, 65507} <= {total for _, total in whole}
        assert all(len(b"".join(parts.values())) == total for (_, total), parts in whole.items())
        assert plain(path, at) <= {5}, "datagrams were still sent as plain UDP after the first answer"


@case
def the_wire_is_chosen_by_port_program_and_socket():
    with Daemon(pair_conf(a="datagram-wire = iwarp")) as d:
        s = ours(d, *python(READS, A))
        at = port_of(s)

        def sends(run, *argv):
            p = run(d, *python(SENDS, A, at, *argv))
            p.wait_line("sending")
            return p

        def one(p):
            n = sum("sent" in x for x in list(p.out))
            put(p, 1)
            until(lambda: sum("sent" in x for x in list(p.out)) > n, p.tail)

        def count(what):
            return grams(d, "b")[what] + grams(d)[what]

        def by_iwarp(p):
            """Lets the program send until rnicd has sent one of the datagrams by iwarp."""
            before = count("gram_iwarp_tx")

            def sent():
                one(p)
                return count("gram_iwarp_tx") > before
            until(sent, lambda: f"no datagram is sent by iwarp\n{p.tail()}")
            p.stop()

        def plain_only(p):
            """Lets the program send 20 datagrams, of which none, and no question before them, is of iwarp."""
            before = count("gram_iwarp_tx"), count("gram_asked")
            for _ in range(20):
                one(p)
            p.stop()
            assert (count("gram_iwarp_tx"), count("gram_asked")) == before, "RNIC_WIRE=plain or the option has no effect"
        by_iwarp(sends(iwarp))
        plain_only(sends(ours, 1))
        plain_only(sends(lambda d, *a: d.run("env", "RNIC_WIRE=plain", RNICRUN, "--sockets", *a)))
        by_iwarp(sends(ours, 2))
        s.stop()


OPTION = """
import errno, socket, sys
def code(f, *a):
    try:
        return f(*a)
    except OSError as e:
        return errno.errorcode[e.errno]
out = []
for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
    s = socket.socket(type=kind)
    out += [s.getsockopt(0x524e, 1), code(s.setsockopt, 0x524e, 1, 2), code(s.setsockopt, 0x524e, 1, 3)]
    out += [code(s.setsockopt, 0x524e, 2, 1), code(s.setsockopt, 0x524e, 1, b"x"), s.dup().getsockopt(0x524e, 1)]
    s.bind((sys.argv[1], 0))
    out += [s.getsockopt(0x524e, 1), code(s.setsockopt, 0x524e, 1, 1), s.getsockopt(0x524e, 1)]
print(*out)
"""


@case
def the_option_is_kept_before_and_after_a_socket_is_ours():
    with Daemon(pair_conf()) as d:
        assert ours(d, *python(OPTION, A)).ok().split() == [
            "0", "None", "EINVAL", "ENOPROTOOPT", "EINVAL", "2", "2", "None", "1",
            "0", "None", "EINVAL", "ENOPROTOOPT", "EINVAL", "2", "2", "None", "1"]
        p = d.run("env", "RNIC_WIRE=copper", RNICRUN, "--sockets", *python(OPTION, A))
        p.ok()
        assert "RNIC_WIRE must be plain or iwarp, not copper" in p.stderr(), p.stderr()


@case
def a_peer_that_does_not_speak_it_gets_plain_udp():
    with tap() as (ns, d), nothing_left(d):
        s = kernels(d, *python(READS, KERNEL), netns=ns)
        iwarp(d, *python(ASKS, KERNEL, port_of(s), "4,1400,65507,4", OURS), netns=ns).ok()
        s.stop()
        s = iwarp(d, *python(READS, OURS), netns=ns)
        kernels(d, *python(ASKS, OURS, port_of(s), "4,1400,65507,4", KERNEL), netns=ns).ok()
        s.stop()
        got = grams(d)
        assert got["gram_iwarp_tx"] == got["gram_iwarp_rx"] == got["gram_answered"] == 0 < got["gram_asked"] < 40, got


# ---- a peer in Python ----

@case
def a_peer_of_its_own_asks_and_is_heard():
    rng = random.Random(3)
    with tap() as (ns, d), nothing_left(d):
        s = ours(d, *python(READS, OURS), netns=ns)
        at, peer = port_of(s), Peer(ns)
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
        peer.ask(at + 1 if at < 65535 else 1)
        g, _ = peer.hear(ANSWER)
        assert g.body[8] == NOBODY and g.qkey == 0, g
        got = drops(d)
        assert not (got["ud_bad"] or got["ud_crc"] or got["ud_qkey"] or got["ud_incomplete"]), got
        s.stop()


@case
def a_peer_of_its_own_writes_long_datagrams_into_slots_that_it_has_been_lent():
    rng = random.Random(4)
    with tap() as (ns, d), nothing_left(d):
        s = ours(d, *python(READS, OURS), netns=ns)
        at, peer = port_of(s), Peer(ns)
        lent = peer.slots_of(at)
        assert lent[1] and peer.slots_of(at) == lent, "the same sender must get the same slots again"
        assert peer.slots_of(at, source=NUMBER + peer.port - 1) == (lent[0], 0), "another sender got the same slots"

        def arrives(data, slot, order=lambda parts: parts):
            peer.record(at, data, lent, slot, order)
            until(lambda: heard(s, data, peer), lambda: f"{grams(d)} {drops(d)}")
        for i, order in enumerate((lambda p: p, lambda p: p[::-1], lambda p: rng.sample(p, len(p)),
                                   lambda p: [x for x in p for _ in range(2)])):
            arrives(rng.randbytes(65507 - i), i, order)
        arrives(rng.randbytes(1), 0)
        assert grams(d)["gram_slots_rx"] == 5 and drops(d)["ud_again"] > 40, (grams(d), drops(d))

        def dropped(what, slot, **more):
            before = drops(d)[what]
            peer.record(at, b"wrong" * 10, lent, slot, **more)
            until(lambda: drops(d)[what] > before, lambda: f"{what}: {drops(d)}")
        dropped("ud_refused", 0, stag=lent[1] ^ 4)
        dropped("ud_refused", 4)
        dropped("ud_refused", 0, to=1 << 63)
        dropped("ud_refused", 0, to=8)  # not at the beginning of a slot
        dropped("ud_refused", 0, source=NUMBER + peer.port - 1)  # from a sender that has not been lent the slots
        dropped("ud_again", 0, msn=1)  # an MSN lower than one that has been there
        dropped("ud_bad", 0, total=65508)
        # a record that is incomplete is dropped when the next one comes into its slot, and the program sees none of it
        lost, data = rng.randbytes(40000), rng.randbytes(50000)
        peer.record(at, lost, lent, 2, lambda p: p[1:])
        arrives(data, 2)
        assert drops(d)["ud_incomplete"] == 1 and not heard(s, lost, peer), drops(d)
        s.stop()


@case
def a_slot_whose_datagram_is_not_read_is_not_written_to():
    with tap() as (ns, d), nothing_left(d):
        s = ours(d, *python("""
import socket, sys, zlib
s = socket.socket(type=socket.SOCK_DGRAM)
s.bind((sys.argv[1], 0))
print("listening", s.getsockname()[1], flush=True)
for _ in sys.stdin:
    d = s.recv(70000)
    print("got", len(d), zlib.crc32(d), flush=True)
""", OURS), netns=ns)
        at, peer = port_of(s), Peer(ns)
        lent = peer.slots_of(at)
        first, second, third = (bytes([i]) * 40000 for i in range(3))

        def written(what):
            return grams(d)[what]
        peer.record(at, first, lent, 1)
        until(lambda: written("gram_slots_rx") == 1)
        peer.record(at, second, lent, 1)
        until(lambda: written("gram_full") == 1, lambda: f"{grams(d)}")
        put(s, 1)
        s.wait_line(f"got 40000 {zlib.crc32(first)}")
        peer.record(at, third, lent, 1)
        put(s, 1)
        s.wait_line(f"got 40000 {zlib.crc32(third)}")
        s.stop()


@case
def a_peer_of_its_own_answers_is_started_anew_and_closes_its_socket():
    with tap() as (ns, d), nothing_left(d):
        peer = Peer(ns)
        answers_is_started_anew_and_closes(peer, ours(d, *python(SENDS, KERNEL, peer.port, 2), netns=ns))


@case
def what_breaks_a_rule_is_dropped_counted_and_answered_by_no_more_than_came():
    with tap() as (ns, d), nothing_left(d):
        s = ours(d, *python(READS, OURS), netns=ns)
        at, peer = port_of(s), Peer(ns)
        qkey = peer.qkey_for(at)

        def counted(what, send, n=1):
            before = drops(d)[what]
            send()
            until(lambda: drops(d)[what] >= before + n, lambda: f"{what}: {drops(d)}")
        bad = b"not for the program"
        counted("ud_crc", lambda: peer.send(at, bad, qkey, crc=1))
        counted("ud_bad", lambda: peer.send(at, bad, qkey, source=0x1234))  # the source is a queue pair's number
        counted("ud_bad", lambda: peer.send(at, bad, qkey, source=NUMBER))  # the source is port 0
        # an immediate, which a program's datagrams do not have
        counted("ud_bad", lambda: peer.send(at, bad, qkey, flags=1))
        # a Write-Record that is malformed
        counted("ud_bad", lambda: peer.say(5, NUMBER + at, bytes(26) + bad, qkey, 64, 19))
        counted("ud_bad", lambda: peer.say(6, NUMBER + at, bytes(46), qkey))
        counted("ud_bad", lambda: peer.ask(at, nonce=0))
        counted("ud_bad", lambda: peer.ask(at, source=5))
        counted("ud_bad", lambda: peer.say(ASK, NUMBER + at, bytes(7) + b"\1\0\0x"))
        counted("ud_bad", lambda: peer.say(ANSWER, NUMBER + at, bytes(7) + b"\1\4\0"))
        body = struct.pack(">BBIIII", 0x41, 0x43, 0, 0, 5, 65472) + bytes(64)
        # longer than a UDP datagram can be
        counted("ud_bad", lambda: peer.say(SEGMENT, NUMBER + at, body, qkey, 64, 65536))
        one, two, three = peer.segments(bytes(2500))
        # the second segment names another total length
        counted("ud_bad", lambda: peer.send_all(at, [one, three, (two[0], 1024, 2400)], qkey))
        wrong = [one, (struct.pack(">BBIIII", 1, 0x43, 0, 0, peer.msn + 1, 512) + bytes(512), 512, 2500)]
        wrong[0] = (one[0][:10] + struct.pack(">I", peer.msn + 1) + one[0][14:], 1024, 2500)
        counted("ud_bad", lambda: peer.send_all(at, wrong, qkey), 2)  # two segments overlap
        # a Q_Key that does not exist, or belongs to another port or another address: the sender gets an answer, no
        # program gets anything
        counted("ud_qkey", lambda: peer.send(at, bad, qkey ^ 1))
        g, size = peer.hear(ANSWER)
        assert (g.body, g.qkey, g.src_qpn, size) == (bytes(8) + b"\3\0", qkey ^ 1, NUMBER + at, 34), g
        other = ours(d, *python(READS, OURS), netns=ns)
        counted("ud_qkey", lambda: peer.send(port_of(other), bad, qkey))
        assert peer.hear(ANSWER)[0].body[8] == STALE
        # an incomplete datagram is dropped
        counted("ud_incomplete", lambda: peer.send_all(at, peer.segments(bad * 200)[1:], qkey))
        # many questions: each gets at most one answer, which is as long as the question
        for i in range(3000):
            peer.ask(at, nonce=i + 1, source=NUMBER + 1 + i)
        peer.ask(at, nonce=5000)
        _, size = peer.hear(ANSWER)
        peer.wire.settimeout(1)
        try:
            while True:
                g, n = peer.hear(ANSWER)
                size += n
        except socket.timeout:
            pass
        assert 34 <= size <= 3001 * 34, size
        good = b"afterwards"

        def arrives():
            peer.send(at, good, qkey)
            return heard(s, good, peer)
        until(arrives)
        assert not any(str(zlib.crc32(bad)) in x for x in [*s.out, *other.out])
        port = port_of(other)
        peer.wire.settimeout(60)
        own = peer.qkey_for(port)
        other.stop()
        while True:  # the socket is closed: a peer that goes on sending is told
            peer.send(port, bad, own)
            peer.wire.settimeout(0.1)
            try:
                g, size = peer.hear(ANSWER)
                break
            except socket.timeout:
                pass
        assert (g.body, g.qkey, size) == (bytes(8) + b"\2\0", own, 34), g
        s.stop()


main()
