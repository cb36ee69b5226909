#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Datagrams to and from a peer in Python, which is a UDP socket of the kernel on the other side of a tap: good ones, wrong
ones, and the requests of the connection manager. On the daemon's side are Debian's ibv_ud_pingpong and udaddy.
"""
import socket
import struct
import time

import wire_ud
from rig import PATIENCE, RNICRUN, Process, case, helper, need
from wire import ADDR, HOST
from wire_check import crc32c
from wire_world import daemon, run

GID = "00000000000000000000ffff%02x%02x%02x%02x" % tuple(socket.inet_aton(HOST))
MY_QPN, PINGPONG_KEY, CM_KEY, WIRE_KEY = 0x4242, 0x11111111, 0x01234567, 0x1234
PORT = 7174 # udaddy's port
HEADER = wire_ud.HEADER
world = {}


def header(kind, dst, src=MY_QPN, qkey=0, flags=0, version=0x10):
    return struct.pack(">BBBBIIII", version, kind, flags, 0, dst, src, qkey, 0)


def send_segment(body, rdmap=0x43, control=0x41, word=0, qn=0, mo=0):
    return struct.pack(">BBIIII", control, rdmap, word, qn, 1, mo) + body


def message(dst, body=b"x" * 64, qkey=PINGPONG_KEY, flags=0, src=MY_QPN, version=0x10, **ddp):
    return header(1, dst, src, qkey, flags, version) + send_segment(body, **ddp)


def segments(dst, body, msn, unit, qkey=WIRE_KEY):
    """The datagrams of a message of several segments."""
    for at in range(0, len(body), unit):
        part = body[at:at + unit]
        last = 0x40 if at + unit >= len(body) else 0
        yield (struct.pack(">BBBBIIII", 0x10 | unit >> 14, 4, 0, unit >> 6 & 255, dst, MY_QPN, qkey, len(body)) +
               struct.pack(">BBIIII", 1 | last, 0x43, 0, 0, msn, at) + part)


def read_request(dst, msn, my_key, sink, sink_to, size, stag, to):
    return (struct.pack(">BBBBIIII", 0x10, 6, 0, 0, dst, MY_QPN, WIRE_KEY, my_key) +
            struct.pack(">BBIIII", 0x41, 0x41, 0, 1, msn, 0) + struct.pack(">IQIIQ", sink, sink_to, size, stag, to))


def question(ident, port=PORT, priv=b""):
    return header(2, 1, 1) + struct.pack(">QBBHII", ident, 0, 0, port, 40001, 0) + priv


def reply(ident, status, port, qpn=0, qkey=0):
    return header(3, 1, 1) + struct.pack(">QBBHII", ident, status, 0, port, qpn, qkey)


class Wire:
    """The peer's UDP socket."""

    def __init__(self, port=wire_ud.PORT):
        daemon()
        self.s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.s.bind((HOST, port))
        self.port = port

    def put(self, data, crc=None, port=wire_ud.PORT):
        self.s.sendto(data + struct.pack("<I", crc32c(data) if crc is None else crc), (ADDR, port))

    def rest(self):
        """Discards the datagrams that have come."""
        self.s.settimeout(0)
        try:
            while True:
                self.s.recv(2000)
        except BlockingIOError:
            pass

    def get(self, timeout=PATIENCE):
        self.s.settimeout(timeout)
        data, peer = self.s.recvfrom(2000)
        assert peer[0] == ADDR, peer
        return wire_ud.decode("", ADDR, HOST, data, (peer[1], self.port))


def peer():
    if "wire" not in world:
        world["wire"] = Wire()
    return world["wire"]


def counters():
    return {k[3:]: v for k, v in daemon().telemetry("/rnic/counters").items() if k.startswith("ud_")}


def counted(name, before):
    end = time.monotonic() + PATIENCE
    while counters()[name] <= before[name] and time.monotonic() < end:
        time.sleep(0.01)
    assert counters()[name] == before[name] + 1, (name, before, counters())


def program(*argv):
    need(argv[0])
    p = Process([RNICRUN, *argv], env=daemon().env())
    daemon().children.append(p)
    return p


def pingpong(n):
    """A server that has the peer in Python as its peer; returns the process and its QPN."""
    p = program("ibv_ud_pingpong", "-g", "0", "-n", str(n), "-s", "64")
    end = time.monotonic() + PATIENCE
    side = None
    while side is None:
        assert p.p.poll() is None and time.monotonic() < end, p.tail()
        try:
            side = socket.create_connection(("127.0.0.1", 18515), timeout=PATIENCE)
        except ConnectionRefusedError:
            time.sleep(0.02)
    side.sendall(b"%04x:%06x:%06x:%s\0" % (0, MY_QPN, 1, GID.encode()))
    theirs = side.recv(52)
    side.sendall(b"done\0")
    side.close()
    return p, int(theirs.split(b":")[1], 16)


@case
def messages_and_their_answers():
    w = peer()
    p, qpn = pingpong(3)
    for i in range(3):
        w.put(message(qpn))
        d = w.get()
        assert (d.kind, d.dst_qpn, d.src_qpn, d.qkey, d.msn, len(d.body)) == (1, MY_QPN, qpn, PINGPONG_KEY, i + 1, 64), d
    assert "3 iters in" in p.ok(), p.tail()


@case
def what_cannot_be_delivered_is_dropped_and_counted():
    w = peer()
    p, qpn = pingpong(1)
    good = message(qpn)
    bad = [("qkey", message(qpn, qkey=PINGPONG_KEY + 1)), ("no_qp", message(qpn + 1)), ("no_qp", message(0xffffff)),
           ("bad", good[:16]), ("bad", header(9, qpn)), ("bad", message(qpn, version=0x20)), ("bad", message(0x1000000 + qpn)),
           ("bad", message(qpn, control=0x01)), ("bad", message(qpn, control=0xc1)), ("bad", message(qpn, control=0x42)),
           ("bad", message(qpn, rdmap=0x41)), ("bad", message(qpn, rdmap=0x44)), ("bad", message(qpn, rdmap=0x48)),
           ("bad", message(qpn, rdmap=0x83)), ("bad", message(qpn, qn=1)), ("bad", message(qpn, mo=4)),
           ("bad", header(1, qpn, MY_QPN, PINGPONG_KEY) + b"\x41\x43"), ("bad", header(2, 7, 1) + question(1)[20:])]
    for name, data in bad:
        before = counters()
        w.put(data)
        counted(name, before)
    for crc in (crc32c(good) ^ 1, struct.unpack("<I", struct.pack(">I", crc32c(good)))[0]):
        before = counters()
        w.put(good, crc)
        counted("crc", before)
    before = counters()
    w.put(good)
    assert w.get().dst_qpn == MY_QPN
    assert counters() == {**before, "in": before["in"] + 1, "out": before["out"] + 1}, (before, counters())
    assert "1 iters in" in p.ok(), p.tail()


def text_of(number, length):
    """The content of a message, as ud_long.c makes it."""
    return bytes(number >> 8 * i & 255 if i < 4 else (number * 31 + i * 7 + (i >> 8) * 13) & 255 for i in range(length))


@case
def segments_of_one_message_in_any_order():
    w = peer()
    p = daemon().run(helper("ud_long"), ADDR, "sink", "3", "5000")
    qpn = int(p.wait_line("qpn").split()[1])
    before = counters()
    for msn, unit in ((1, 64), (2, 576), (3, 1408)):
        parts = list(segments(qpn, text_of(msn, 5000), msn, unit))
        for part in (*parts[1::2], *parts[1::2][:1], *parts[::2]):
            w.put(part)
    p.ok()
    assert counters()["again"] == before["again"] + 3, counters()


def comes_to(name, count):
    """Whether a counter reaches a value within a second. On a busy machine the tap may lose a frame, or the time limit
    of an incomplete message may pass."""
    end = time.monotonic() + 1
    while counters()[name] < count and time.monotonic() < end:
        time.sleep(0.01)
    return counters()[name] >= count


@case
def segments_that_came_as_fragments_of_ip():
    w = peer()
    p = daemon().run(helper("ud_long"), ADDR, "sink", "4", "150000")
    qpn, msn, bad = int(p.wait_line("qpn").split()[1]), 0, counters()["bad"]
    for unit in (1472, 16384, 65344):
        whole = False
        while not whole:
            msn, had = msn + 1, counters()["in"]
            parts = list(segments(qpn, text_of(msn, 150000), msn, unit))
            for part in parts[::-1]:
                w.put(part)
            whole = comes_to("in", had + len(parts))
    one = message(qpn, text_of(99, 60000), WIRE_KEY)  # a Send of one segment
    crc = counters()["crc"]
    w.put(one, crc32c(one) ^ 1)
    while not comes_to("crc", crc + 1):
        w.put(one, crc32c(one) ^ 1)
    while p.p.poll() is None:
        w.put(one)
        time.sleep(0.01)
    p.ok()
    assert counters()["bad"] == bad, counters()


@case
def a_number_that_tells_a_udp_port_goes_with_this_port_alone():
    w, own, theirs = peer(), Wire(7007), 0xfd0000 | 7000
    mine, body = 0xfd0000 | own.port, text_of(1, 100)
    p = daemon().run(helper("ud_long"), ADDR, "sink", "2", "200", "port=7000")
    assert p.wait_line("qpn") == f"qpn {theirs}", p.tail()
    good = message(theirs, body, WIRE_KEY)
    for sock, data, port in ((w, good, wire_ud.PORT),  # the UDP port is not the destination queue pair's
                             (w, message(0xfd0000 | 7001, body, WIRE_KEY), 7000), (w, message(5, body, WIRE_KEY), 7000),
                             (w, message(theirs, body, WIRE_KEY, src=mine), 7000),  # or not the source queue pair's
                             (w, question(9), 7000), (w, struct.pack(">BB", 0x10, 32) + bytes(42), 7000)):
        before = counters()
        sock.put(data, port=port)
        counted("bad", before)
    w.put(good, port=7000)
    own.put(message(theirs, body, WIRE_KEY, src=mine), port=7000)
    assert p.ok().endswith(f"whole 2 from {mine}"), p.tail()
    p = daemon().run(helper("ud_long"), ADDR, "source", HOST, str(mine), "100", "port=7003")
    d = own.get()
    assert (d.src_qpn, d.sport, d.dport, len(d.body)) == (0xfd0000 | 7003, 7003, 7007, 100), d
    p.p.stdin.close()
    p.ok()


@case
def segments_of_a_record_in_any_order_and_without_one():
    w = peer()
    p = daemon().run(helper("ud_record"), ADDR, "target", "2", "5000")
    qpn, where, stag = map(int, p.wait_line("target").split()[1:])
    for m, lost in ((0, ()), (1, (1, 3))):
        body = bytes((m * 31 + i * 7 + (i >> 8) * 13 | 1) & 255 for i in range(5000))
        parts = range(0, 5000, 576)
        for n in (*range(1, len(parts), 2), *range(0, len(parts), 2)):
            at = parts[n]
            last = 0x40 if n + 1 == len(parts) else 0
            if n not in lost:
                w.put(struct.pack(">BBBBIIII", 0x10, 5, 1, 9, qpn, MY_QPN, WIRE_KEY, 5000) +
                      struct.pack(">IIIBBIQ", 77 + m, at, m, 0x81 | last, 0x40, stag, where + m * 5000 + at) +
                      body[at:at + 576])
    assert f"told 2 whole 1 valid {10000 - 2 * 576}" in p.ok(), p.tail()


@case
def a_record_to_a_group_names_a_tag_in_place_of_an_stag():
    w, group = peer(), "239.7.7.8"
    p = daemon().run(helper("ud_record"), ADDR, "member", "1", "2000", group, "300")
    p.wait_line("target")
    body = bytes((i * 7 + (i >> 8) * 13 | 1) & 255 for i in range(2000))
    w.s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(HOST))
    refused = counters()["refused"]
    for tag, end in ((301, 0xc1), (300, 0xc1)):  # no memory is bound to tag 301
        for at in (576, 0, 1728, 1152):
            data = (struct.pack(">BBBBIIII", 0x10, 5, 1, 9, 0xffffff, MY_QPN, WIRE_KEY, 2000) +
                    struct.pack(">IIIBBIQ", tag, at, 0, end if at == 1728 else 0x81, 0x40, tag, at) + body[at:at + 576])
            w.s.sendto(data + struct.pack("<I", crc32c(data)), (group, wire_ud.PORT))
    assert "told 1 whole 1 valid 2000" in p.ok(), p.tail()
    assert counters()["refused"] == refused + 4


@case
def what_is_incomplete_is_told():
    w = peer()
    p = daemon().run(helper("ud_record"), ADDR, "target", "1", "5000")
    qpn, where, stag = map(int, p.wait_line("target").split()[1:])
    assert daemon().telemetry("/rnic/records") == []
    said, number, end = [], 100, time.monotonic() + PATIENCE
    # rnicd forgets a record after record-timeout: the answer may come too late
    while not said and time.monotonic() < end:
        number += 1
        w.put(struct.pack(">BBBBIIII", 0x10, 5, 0, 9, qpn, MY_QPN, WIRE_KEY, 5000) +
              struct.pack(">IIIBBIQ", number, 576, 0, 0x81, 0x40, stag, where + 576) + bytes(576))
        said = daemon().telemetry("/rnic/records")
    ours = {f"rnic0 qpn {qpn} record {n} of {HOST}:{MY_QPN} bytes 576 of 5000" for n in range(101, number + 1)}
    for row in said:  # two rows, when the answer before was given before its record had come
        text, waits = row.split(" waits ")
        assert text in ours and waits.endswith("us"), said
    p.stop()


@case
def a_read_is_answered_by_a_record_once():
    w = peer()
    p = daemon().run(helper("ud_record"), ADDR, "target", "1", "4000")
    qpn, where, stag = map(int, p.wait_line("target").split()[1:])
    body = bytes((i * 7 + (i >> 8) * 13 | 1) & 255 for i in range(4000))
    for at in range(0, 4000, 576):
        w.put(struct.pack(">BBBBIIII", 0x10, 5, 1, 9, qpn, MY_QPN, WIRE_KEY, 4000) +
              struct.pack(">IIIBBIQ", 7, at, 0, 0xc1 if at + 576 >= 4000 else 0x81, 0x40, stag, where + at) +
              body[at:at + 576])
        w.put(read_request(qpn, 8, 0x777, 0x55, 1 << 40, 4000, stag, where))
    parts = [w.get() for _ in range(3)]
    assert all((d.kind, d.dst_qpn, d.qkey) == (5, MY_QPN, 0x777) for d in parts), parts
    assert all((d.stag, d.total, d.imm) == (0x55, 4000, None) for d in parts), parts
    assert [d.to - (1 << 40) for d in parts] == [d.offset for d in parts] == [0, 1408, 2816]
    p.ok()
    w.rest()


@case
def a_message_of_many_segments_comes_out():
    w = peer()
    p = daemon().run(helper("ud_long"), ADDR, "source", HOST, str(MY_QPN), "4000")
    parts = [w.get() for _ in range(3)]
    p.p.stdin.close()
    p.ok()
    assert all((d.kind, d.msn, d.unit, d.total) == (4, 1, 1408, 4000) for d in parts), parts
    assert [d.offset for d in parts] == [0, 1408, 2816]
    assert b"".join(d.body for d in parts) == text_of(0, 4000)
    w.rest()


@case
def reserved_kinds_are_dropped_and_reserved_fields_ignored():
    w = peer()
    # the last one is the highest octet of the MSN
    odd = {0: 0x1f, 2: 0xfe, 3: 0xff, 16: 0xff, 19: 0xff, HEADER + 10: 0xff}
    p, qpn = pingpong(len(odd))
    for kind in (0, 7, 15, 16, 31, 255):
        before = counters()
        w.put(header(kind, qpn, qkey=PINGPONG_KEY) + send_segment(b"x" * 64))
        counted("bad", before)
    for at, octet in odd.items():
        data = bytearray(message(qpn))
        data[at] = octet
        w.put(bytes(data))
        assert w.get().dst_qpn == MY_QPN, (at, octet)
    assert f"{len(odd)} iters in" in p.ok(), p.tail()


def ask(w, ident, data, tries=200):
    """Repeats a request until its reply comes: the server may not listen yet."""
    for _ in range(tries):
        w.put(data)
        d = w.get()
        assert d.kind == 3 and (d.dst_qpn, d.src_qpn) == (1, 1), d
        got, status, _, port, qpn, qkey = struct.unpack_from(">QBBHII", d.body)
        assert got == ident, d
        if status != 1:
            return status, port, qpn, qkey, d.body[20:]
        time.sleep(0.05)
    return 1, port, qpn, qkey, b""


@case
def a_server_that_is_asked_for():
    w = peer()
    assert ask(w, 5, question(5, port=9), 1)[:2] == (1, 9), "a port without listener must be refused"
    p = program("udaddy", "-b", ADDR)
    first = ask(w, 6, question(6))
    assert first[0] == 0 and first[1] == PORT and first[3] == CM_KEY and first[2] > 1, first
    assert ask(w, 6, question(6)) == first, "a repeated request must get the same reply"
    before = counters()
    w.put(question(6), 0)
    counted("crc", before)
    for _ in range(10):  # udaddy answers to the QPN in the immediate, with its own QPN as immediate
        w.put(message(first[2], b"y" * 100, CM_KEY, flags=1, word=MY_QPN))
    for _ in range(10):
        d = w.get()
        assert (d.kind, d.dst_qpn, d.src_qpn, d.qkey, d.imm) == (1, MY_QPN, first[2], CM_KEY, first[2]), d
    p.ok()


def asked(w):
    d = w.get()
    assert d.kind == 2, d
    ident, _, _, port, source, _ = struct.unpack_from(">QBBHII", d.body)
    assert port == PORT and source > 1023, d
    return ident


@case
def a_client_that_asks():
    w = peer()
    p = program("udaddy", "-s", HOST)
    ident = asked(w)
    assert asked(w) == ident, "the repeated request has another number"
    for wrong in (reply(ident ^ 1, 0, PORT, 5, 6), reply(ident, 0, PORT + 1, 5, 6), reply(ident, 0, PORT, 5, 6)[:30]):
        w.put(wrong)
    assert asked(w) == ident, "the program accepted a reply that was not for its request"
    w.put(reply(ident, 2, PORT))
    assert p.wait() != 0 and "UNREACHABLE, error: 2" in p.stdout(), p.tail()

    p = program("udaddy", "-s", HOST)
    ident = asked(w)
    w.put(reply(ident, 0, PORT, MY_QPN, 0x777))
    d = w.get()
    while d.kind == 2:
        d = w.get()
    assert (d.kind, d.dst_qpn, d.qkey, d.imm) == (1, MY_QPN, 0x777, d.src_qpn), d
    p.p.kill()
    p.wait()
    w.rest()


@case
def a_client_that_nobody_answers():
    w = peer()
    p = program("udaddy", "-s", HOST)
    idents = {asked(w)}
    first = time.monotonic()
    idents.update(asked(w) for _ in range(6))
    assert len(idents) == 1 and time.monotonic() - first > 3, "pauses between requests must grow from 0.1 to 3.2 s"
    assert p.wait() != 0 and "UNREACHABLE, error: -110" in p.stdout(), p.tail()


run()
