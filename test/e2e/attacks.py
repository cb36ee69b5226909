# SPDX-License-Identifier: BSD-3-Clause
"""What hostile peers do to the target on a tap: frames for test_wire_floods.py and ../bench/floods.py."""
import random
import socket
import struct

import wire

MAC = bytes.fromhex("020000000c01")
PORT = 7000
CONF = """
[rnicd]
socket = {dir}/rnicd.sock
%s
[port a]
device = pair:b
address = 10.77.0.1/24
[port b]
device = pair:a
address = 10.77.0.2/24
[port rnic0]
device = %s
mac = 02:00:00:00:0c:01
address = 10.79.0.1/24
"""


def no_timestamps():
    """In the namespace of the test: else a forged segment is dropped for the timestamp that it lacks (RFC 7323,
    3.2)."""
    with open("/proc/sys/net/ipv4/tcp_timestamps", "w", encoding="ascii") as f:
        f.write("0")


def opened():
    """A connection to the target, ready for FPDUs."""
    p = wire.Peer(port=PORT)
    p.hello(priv=b"flood")
    return p


def learn(peer):
    """A frame's ports and the next sequence numbers of a connection whose last word was the peer's."""
    s = wire.Frames("rt0")
    peer.put(wire.tagged(wire.WRITE, 0, 0))
    here, there = peer.s.getsockname()[1], peer.s.getpeername()[1]
    ports = struct.pack(">HH", there, here)
    f = s.get(lambda f: f[12:14] == b"\x08\x00" and f[34:38] == ports)
    seq, ack = struct.unpack(">II", f[38:46])
    s.close()
    # what it acknowledges is our next; it has nothing else to say
    return here, there, ack, seq


# ---- frames into a connection: (seq, ack) → what tcp_frame is to say, for a list of n ----

def ack_storm(seq, ack, n):
    return [{"seq": seq, "ack": ack - i % 7, "flags": 16} for i in range(n)]


def acks_of_what_was_never_sent(seq, ack, n):
    return [{"seq": seq, "ack": ack + 1000 + i, "flags": 16} for i in range(n)]


def out_of_order_bomb(seq, ack, n):
    """Single octets with a gap after each."""
    at = random.Random(2)
    return [{"seq": seq + 2 + 2 * at.randrange(60000), "ack": ack, "flags": 16, "data": b"!"} for _ in range(n)]


def beside_the_window(seq, ack, n):
    """Resets and SYNs that do not hit the next octet."""
    return [{"seq": seq + 5 + i, "ack": ack, "flags": 4 if i & 1 else 2} for i in range(n)]


NOTHING = wire.fpdu(wire.tagged(wire.WRITE, 0, 0))
TINY = len(NOTHING)  # octets of an FPDU of tiny_segments


def tiny_segments(seq, ack, n):
    """A Write of nothing again and again, an octet to a segment. The kernel at the other end hears of it only by the
    answers."""
    return [{"seq": seq + i, "ack": ack, "flags": 16, "data": NOTHING[i % TINY:i % TINY + 1]} for i in range(n)]


SEGMENTS = {
    "ACK storm": ack_storm,
    "ACKs of what was never sent": acks_of_what_was_never_sent,
    "out-of-order bomb": out_of_order_bomb,
    "resets and SYNs beside the window": beside_the_window,
}


def segments(make, mac, where, n):
    here, there, seq, ack = where
    return [wire.tcp_frame(MAC, mac, wire.HOST, wire.ADDR, here, there, **k) for k in make(seq, ack, n)]


def syns(mac, n):
    """Openings from addresses that do not answer."""
    rng = random.Random(1)
    return [wire.tcp_frame(MAC, mac, f"10.79.0.{rng.randrange(10, 250)}", wire.ADDR, rng.randrange(1024, 65536), PORT,
                           rng.getrandbits(32), options=b"\x02\x04\x05\xb4") for _ in range(n)]


def syns_and_resets(mac, n):
    """Openings, each taken back at once."""
    frames, rng = [], random.Random(2)
    for _ in range(n):
        who = MAC, mac, f"10.79.0.{rng.randrange(10, 250)}", wire.ADDR, rng.randrange(1024, 65536), PORT
        isn = rng.getrandbits(32)
        frames += [wire.tcp_frame(*who, isn, options=b"\x02\x04\x05\xb4"), wire.tcp_frame(*who, isn + 1, flags=4)]
    return frames


# ---- connections that hold something ----

def silent(port=PORT):
    return socket.create_connection((wire.ADDR, port), timeout=60)


def endless_request():
    """The beginning of an MPA Request that announces more."""
    s = silent()
    s.sendall(wire.mpa_request(pd_len=400)[:24])
    return s


def slow_sender():
    """An FPDU of 60 KB of which a header has come."""
    p = opened()
    p.raw(struct.pack(">H", 60000))
    return p


def tiny_window(where):
    """Reads whose answer nobody takes, into the smallest buffer there is. where: STag and address."""
    s = socket.socket()
    s.settimeout(wire.PATIENCE)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    s.connect((wire.ADDR, PORT))
    p = wire.Peer(s)
    p.hello(priv=b"flood")
    for msn in range(1, 5):
        p.put(wire.read_req(msn, (1, 1), 1 << 16, where))
    return p
