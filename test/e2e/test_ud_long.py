#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Datagram messages of any size between two processes: over a good wire, whose capture an independent checker reads and
reassembles; over a wire that loses, repeats, reorders and corrupts datagrams; and with one end killed in the middle.
"""
import os
import sys
from collections import defaultdict

import wire_ud
from rig import PATIENCE, RNICRUN, Daemon, case, cases_of, helper, main, need, nothing_is_left, pair_conf, until

A, B = "10.77.0.1", "10.77.0.2"
MIB = 1 << 20
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
UNIT = 1408  # octets of a segment with an MTU of 1500


def ends(d, count, lens, sink_is=(), source_is=()):
    sink = d.run(helper("ud_long"), B, "sink", str(count), str(max(lens)), *sink_is)
    qpn = sink.wait_line("qpn").split()[1]
    return sink, d.run(helper("ud_long"), A, "source", B, qpn, *map(str, lens), *source_is)


def end_source(source):
    source.p.stdin.close()
    return int(source.ok(PATIENCE).split("sent ")[1])


def captured(d, count, fragments=None):
    """Ends the daemon; returns A's first messages, which are numbered one after the other: their segments by offset."""
    got = defaultdict(dict)
    nothing_is_left(d)
    d.end()
    for g in wire_ud.datagrams(d.dir + "/a.pcapng", fragments=fragments):
        if g.src == A and g.kind in (1, 4):
            got[g.msn][g.offset] = g
    msns = list(got)[:count]
    assert len(msns) == count, msns
    assert all((msn - msns[0]) % 2 ** 32 == i for i, msn in enumerate(msns)), msns
    return [got[msn] for msn in msns]


def counters(d):
    return {k[3:]: v for k, v in d.telemetry("/rnic/counters").items() if k.startswith("ud_")}


@case
def every_size_arrives_whole():
    with Daemon(pair_conf()) as d:
        lens = [4, UNIT, UNIT + 1, 4096, 65536, MIB]
        sink, source = ends(d, 10 * len(lens), lens)
        sink.ok(5 * PATIENCE)
        end_source(source)
        nothing_is_left(d)
        c = counters(d)
        assert c["bad"] == c["crc"] == c["qkey"] == c["too_long"] == 0, c


@case
def large_frames_make_large_segments():
    with Daemon(pair_conf(mtu=9000)) as d:
        sink, source = ends(d, 20, [MIB, 8897])
        sink.ok(5 * PATIENCE)
        end_source(source)


@case
def an_independent_reader_puts_the_messages_together():
    with Daemon(pair_conf(a="capture = {dir}/a.pcapng")) as d:
        lens = [5, UNIT, 2 * UNIT, 2 * UNIT + 1, 20000]
        sink, source = ends(d, len(lens), lens)
        sink.ok(PATIENCE)
        end_source(source)
        for i, parts in enumerate(captured(d, len(lens))):
            body = b"".join(parts[at].body for at in sorted(parts))
            assert len(body) == lens[i], (i, len(body))
            assert all(g.total == len(body) and g.unit == UNIT for g in parts.values() if g.kind == 4), i
            assert (len(parts) > 1) == (len(body) > UNIT) == (parts[0].kind == 4), i
            m = int.from_bytes(body[:4], "little")
            assert all(body[k] == (m * 31 + k * 7 + (k >> 8) * 13) & 255 for k in range(4, len(body))), i


@case
def segments_of_64k_leave_as_fragments_that_an_independent_reader_joins():
    with Daemon(pair_conf(a="segments = 64k\ncapture = {dir}/a.pcapng")) as d:
        lens, large, frames = [4, UNIT + 1, 65408, 65409, 200001], 65408, []
        sink, source = ends(d, len(lens), lens)
        sink.ok(PATIENCE)
        end_source(source)
        got = captured(d, len(lens), frames)
        assert max(frames) <= 1500 and len(frames) > sum(lens) // 1480, len(frames)
        for parts, length in zip(got, lens):
            body = b"".join(parts[at].body for at in sorted(parts))
            m = int.from_bytes(body[:4], "little")
            assert body == bytes(m >> 8 * i & 255 if i < 4 else (m * 31 + i * 7 + (i >> 8) * 13) & 255
                                 for i in range(length)), length
            assert sorted(parts) == list(range(0, length, large)), (length, sorted(parts))
            assert all(g.unit == large and g.total == length for g in parts.values() if g.kind == 4), length


@case
def segments_of_64k_arrive_at_either_kind_of_device_and_at_its_own_over_a_bad_wire_too():
    bad = "loss = 0.2%\nduplicate = 1%\nreorder = 1%"
    for a, b, workers in (("segments = 64k", "", "0,0"), ("", "segments = 64k", "0"),
                          ("segments = 64k\n" + bad, "segments = 64k\n" + bad, "0,0")):
        with Daemon(pair_conf(rnicd=f"workers = {workers}", a=a, b=b)) as d:
            sink, source = ends(d, 60, [100, 3000, 65409, MIB])
            sink.ok(5 * PATIENCE)
            end_source(source)
            assert counters(d)["bad"] == counters(d)["crc"] == 0, counters(d)
            nothing_is_left(d)
    with Daemon(pair_conf(both="segments = 64k")) as d:
        sink = d.run(helper("ud_long"), A, "sink", "10", str(MIB))
        source = d.run(helper("ud_long"), A, "source", A, sink.wait_line("qpn").split()[1], str(MIB))
        sink.ok(PATIENCE)
        end_source(source)
        nothing_is_left(d)


@case
def a_lost_fragment_costs_no_later_datagram():
    # each of 16 workers has a 16th of the identifications, and uses them again after 4,096 datagrams: within 1 s
    workers = "workers = " + ",".join(["0"] * 16)
    with Daemon(pair_conf(rnicd=workers, a="segments = 64k\nloss = 0.5%")) as d:
        sink, source = ends(d, 1 << 30, [2900])
        port = lambda: d.telemetry("/rnic/ports,b")
        until(lambda: port()["frag_whole"] > 4 * 4096, lambda: f"{port()} {sink.tail()}")
        source.p.kill()
        sink.p.kill()
        got = port()
        assert got["frag_late"] + got["frag_evicted"] > 0, got
        # if fragments of two datagrams were put together, the UDP checksum would be wrong, and a fragment of the later
        # datagram would count as a repeated one
        assert got["frag_again"] == got["rx_bad_csum"] == 0, got
        nothing_is_left(d)


def port_number(port):
    return 0xfd0000 | port


@case
def a_queue_pair_with_a_udp_port_is_named_by_the_port():
    for workers in ("0", "0,0"):
        with Daemon(pair_conf(rnicd=f"workers = {workers}", a="capture = {dir}/a.pcapng")) as d:
            lens = [4, 30000]
            for sink_is, source_is in ((7000, 7000), (7001, None), (None, 7002)):
                how = [() if p is None else (f"port={p}",) for p in (sink_is, source_is)]
                sink, source = ends(d, 10, lens, *how)
                assert sink_is is None or sink.out[0] == f"qpn {port_number(sink_is)}", sink.tail()
                came_from = int(sink.ok(PATIENCE).split()[-1])
                assert came_from == port_number(source_is) if source_is else came_from >> 16 != 0xfd, sink.tail()
                end_source(source)
            nothing_is_left(d)
            assert counters(d)["bad"] == 0, counters(d)
            d.end()
            ports = {(g.sport, g.dport) for g in wire_ud.datagrams(d.dir + "/a.pcapng", None)}
            assert ports == {(7000, 7000), (4793, 7001), (7002, 4793)}, ports


@case
def a_udp_port_is_one_queue_pairs_or_sockets_and_not_rnicds():
    def refused(port, what):
        p = d.run(helper("ud_long"), B, "sink", "1", "4", f"port={port}")
        assert p.wait() != 0 and what in p.tail(), p.tail()

    with Daemon(pair_conf()) as d:
        sink, source = ends(d, 1 << 30, [100], ("port=7000",), ("port=7000",))  # the same port on two devices
        refused(7000, "another queue pair or socket has the UDP port")
        refused(4793, "it is datagram-port, which is rnicd's own")
        sink.p.kill()
        end_source(source)
        nothing_is_left(d)
        sink, source = ends(d, 1, [100], ("port=7000",))  # the dead process's port is free again
        sink.ok(PATIENCE)
        end_source(source)
        bind = f"import socket; s = socket.socket(2, 2); s.bind(('{B}', 7000)); print('bound', flush=True); input()"
        s = d.run(RNICRUN, "--sockets", sys.executable, "-c", bind)
        s.wait_line("bound")
        refused(7000, "another queue pair or socket has the UDP port")
        s.stop()
        sink, source = ends(d, 1 << 30, [100], ("port=7000",))
        s = d.run(RNICRUN, "--sockets", sys.executable, "-c", bind)
        assert s.wait() != 0 and "in use" in s.tail(), s.tail()
        source.p.kill()
        sink.p.kill()
        nothing_is_left(d)


@case
def a_udp_port_below_1024_is_roots():
    need("setpriv")
    with Daemon(pair_conf()) as d:
        os.chmod(d.dir, 0o711)
        for port, free in ((1023, False), (1, False), (1024, True)):
            p = d.run(*NOBODY, helper("ud_long"), B, "sink", "1", "100", f"port={port}")
            if not free:
                assert p.wait() != 0 and "ports below 1024 are root's" in p.tail(), (port, p.tail())
                continue
            assert p.wait_line("qpn") == f"qpn {port_number(port)}", p.tail()
            p.stop()
        sink, source = ends(d, 1, [100], ("port=1023",))  # this process is root's
        sink.ok(PATIENCE)
        end_source(source)
        nothing_is_left(d)


@case
def a_user_has_a_share_of_the_udp_ports():
    with Daemon(pair_conf(rnicd="user-share = 2\nflows = 8192")) as d:
        out = d.run(helper("ud_long"), A, "ports", "20000").ok(PATIENCE)
        assert out.startswith("ports 81: "), out  # 2 % of 4096
        nothing_is_left(d)


cases_of("udp_port_cases", pair_conf())


@case
def what_comes_whole_over_a_bad_wire_is_right():
    bad = "loss = 2%\nduplicate = 2%\nreorder = 5%\ncorrupt = 1%"
    with Daemon(pair_conf(a=bad)) as d:
        sink, source = ends(d, 200, [100, 3000, 10000, 32768])
        sink.ok(5 * PATIENCE)
        sent = end_source(source)
        c = counters(d)
        assert sent >= 200 and c["incomplete"] > 0 and c["again"] > 0, (sent, c)
        nothing_is_left(d)


@case
def an_end_that_is_killed_leaves_nothing():
    with Daemon(pair_conf()) as d:
        for who in range(2):
            sink, source = ends(d, 1 << 30, [MIB])
            until(lambda before=counters(d)["in"]: counters(d)["in"] > before + 1000, lambda: counters(d))
            (sink, source)[who].p.kill()
            (sink, source)[1 - who].p.kill()
            nothing_is_left(d)
        sink, source = ends(d, 3, [MIB])
        sink.ok(PATIENCE)
        end_source(source)


main()
