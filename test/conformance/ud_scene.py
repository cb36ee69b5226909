# SPDX-License-Identifier: BSD-3-Clause
"""
The parts of a case about unreliable datagrams: rnicd on a tap, programs of rnicd's side, and a peer in Python, which is
a UDP socket of the kernel on the other side of the tap and can send anything. What the peer receives is checked by
test/e2e/wire_ud.py, which shares nothing with the project's C code.
"""
import socket
import struct
import time

import wire
import wire_ud
from rig import PATIENCE, RNICRUN, Process, helper, need, until
from wire import ADDR, HOST
from wire_check import crc32c
from wire_world import daemon

# record-timeout is longer than the time between two datagrams of one message on a busy machine
wire.TAP_CONF = wire.TAP_CONF.replace("[rnicd]", "[rnicd]\nrecord-timeout = 1s")
GID = "00000000000000000000ffff%02x%02x%02x%02x" % tuple(socket.inet_aton(HOST))
MY_QPN, PINGPONG_KEY, CM_KEY, WIRE_KEY = 0x4242, 0x11111111, 0x01234567, 0x1234
GROUP_QPN = 0xffffff
PORT = 7174  # udaddy's port
HEADER = wire_ud.HEADER
world = {}


# ---- what the peer sends ----

def header(kind, dst, src=MY_QPN, qkey=0, flags=0, first=0x10, unit=0, total=0):
    return struct.pack(">BBBBIIII", first | unit >> 14, kind, flags, unit >> 6 & 255, dst, src, qkey, total)


def send_segment(body, rdmap=0x43, control=0x41, word=0, qn=0, msn=1, mo=0):
    return struct.pack(">BBIIII", control, rdmap, word, qn, msn, mo) + body


def message(dst, body=b"x" * 64, qkey=WIRE_KEY, flags=0, src=MY_QPN, first=0x10, **ddp):
    return header(1, dst, src, qkey, flags, first) + send_segment(body, **ddp)


def segment(dst, body, msn, at, unit, control=None, size=None, total=None):
    """The segment at octet `at` of a message. control, size, total: values that replace the right ones."""
    part = body[at:at + (unit if size is None else size)]
    control = (0x41 if at + unit >= len(body) else 1) if control is None else control
    return header(4, dst, qkey=WIRE_KEY, unit=unit, total=len(body) if total is None else total) + \
        send_segment(part, control=control, msn=msn, mo=at)


def segments(dst, body, msn, unit):
    return [segment(dst, body, msn, at, unit) for at in range(0, len(body), unit)]


def record(dst, number, body, at, stag, to, **odd):
    """
    The segment at octet `at` of a Write-Record in segments of 576 octets. odd: imm, rdmap, control, part, unit, total,
    step: values that replace the right ones.
    """
    part, imm = odd.get("part", body[at:at + 576]), odd.get("imm")
    control = odd.get("control", 0xc1 if at + 576 >= len(body) else 0x81)
    return header(5, dst, qkey=WIRE_KEY, flags=imm is not None, unit=odd.get("unit", 576),
                  total=odd.get("total", len(body))) + \
        struct.pack(">IIIBBIQ", number, odd.get("step", at), imm or 0, control, odd.get("rdmap", 0x40), stag, to + at) + part


def records(dst, number, body, stag, to, imm=None):
    return [record(dst, number, body, at, stag, to, imm=imm) for at in range(0, len(body), 576)]


def read_request(dst, msn, my_key, sink, size, source, control=0x41, qn=1):
    return header(6, dst, qkey=WIRE_KEY, total=my_key) + \
        send_segment(struct.pack(">IQIIQ", *sink, size, *source), 0x41, control, qn=qn, msn=msn)


def question(ident, port=PORT, priv=b""):
    return header(2, 1, 1) + struct.pack(">QBBHII", ident, 0, 0, port, 40001, 0) + priv


def reply(ident, status, port, qpn=0, qkey=0):
    return header(3, 1, 1) + struct.pack(">QBBHII", ident, status, 0, port, qpn, qkey)


def text_of(number, length):
    """The content of a message, as ud_long.c makes it."""
    return bytes(number >> 8 * i & 255 if i < 4 else (number * 31 + i * 7 + (i >> 8) * 13) & 255 for i in range(length))


def record_of(number, length):
    """The content of a record, as ud_record.c makes it."""
    return bytes((number * 31 + i * 7 + (i >> 8) * 13 | 1) & 255 for i in range(length))


class Wire:
    """The peer's UDP socket."""

    datagrams = 0  # identifications that put_fragments() has used

    def __init__(self, port=wire_ud.PORT):
        daemon()
        self.s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.s.bind((HOST, port))
        self.s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(HOST))
        self.port = port

    def put(self, data, crc=None, port=wire_ud.PORT, to=ADDR):
        self.s.sendto(data + struct.pack("<I", crc32c(data) if crc is None else crc), (to, port))

    def put_fragments(self, data, lost=()):
        """Sends a datagram as IPv4 fragments (RFC 791) of 1500 octets, without those whose numbers are in `lost`."""
        Wire.datagrams += 1
        data += struct.pack("<I", crc32c(data))
        udp = struct.pack(">HHHH", self.port, wire_ud.PORT, 8 + len(data), 0) + data
        addresses = socket.inet_aton(HOST) + socket.inet_aton(ADDR)
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as s:
            for n, off in enumerate(range(0, len(udp), 1480)):
                part, more = udp[off:off + 1480], off + 1480 < len(udp)
                ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(part), Wire.datagrams, more << 13 | off // 8, 64, 17, 0)
                if n not in lost:
                    s.sendto(ip + addresses + part, (ADDR, 0))  # the kernel writes the checksum

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


# ---- what rnicd does with it ----

def counters():
    return {k[3:]: v for k, v in daemon().telemetry("/rnic/counters").items() if k.startswith("ud_")}


def counted(name, put):
    """put() must add exactly 1 to the counter `name`, and nothing to `in`, the counter of accepted datagrams."""
    before = counters()
    put()
    until(lambda: counters()[name] > before[name], lambda: f"{name}: {before}, {counters()}")
    now = counters()
    assert (now[name], now["in"]) == (before[name] + 1, before["in"]), (name, before, now)


def program(*argv):
    need(argv[0])
    p = Process([RNICRUN, *argv], env=daemon().env())
    daemon().children.append(p)
    return p


def sink(count, longest, *how):
    """Starts ud_long.c, which ends after `count` whole messages; returns the process and its QPN."""
    p = daemon().run(helper("ud_long"), ADDR, "sink", str(count), str(longest), *how)
    return p, int(p.wait_line("qpn").split()[1])


def target(count, longest, *how, mode="target"):
    """
    Starts ud_record.c, which ends after `count` records; returns the process, its QPN, the address of its memory, and
    the memory's STag.
    """
    p = daemon().run(helper("ud_record"), ADDR, mode, str(count), str(longest), *how)
    return (p, *map(int, p.wait_line("target").split()[1:]))


def whole(p, parts):
    """Sends messages, one after the other, until the program ends well. parts: makes the datagrams of message number n."""
    n = 0
    while p.p.poll() is None:
        n += 1
        for part in parts(n):
            peer().put(part)
        end = time.monotonic() + 2  # a busy machine may lose a frame
        while p.p.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
    return p.ok()


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
