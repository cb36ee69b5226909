# SPDX-License-Identifier: BSD-3-Clause
"""
Frames and connections of hostile peers that attack the target on a tap: for test_wire_floods.py and ../bench/floods.py.
"""
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
    """Switches TCP timestamps off in the namespace of the test: otherwise rnicd drops a forged segment because it
    carries no timestamp (RFC 7323, 3.2)."""
    with open("/proc/sys/net/ipv4/tcp_timestamps", "w", encoding="ascii") as f:
        f.write("0")


def opened():
    """A connection to the target, ready for FPDUs."""
    p = wire.Peer(port=PORT)
    p.hello(priv=b"flood")
    return p


def learn(peer):
    """Returns a connection's two ports and its next sequence numbers in both directions; the peer must have sent
    last."""
    s = wire.Frames("rt0")
    peer.put(wire.tagged(wire.WRITE, 0, 0))
    here, there = peer.s.getsockname()[1], peer.s.getpeername()[1]
    ports = struct.pack(">HH", there, here)
    f = s.get(lambda f: f[12:14] == b"\x08\x00" and f[34:38] == ports)
    seq, ack = struct.unpack(">II", f[38:46])
    s.close()
    # the frame's acknowledgement number is the peer's next sequence number; rnicd has nothing else to send
    return here, there, ack, seq


# ---- n frames into a connection; each function turns (seq, ack) into a list of arguments for tcp_frame ----

def ack_storm(seq, ack, n):
    return [{"seq": seq, "ack": ack - i % 7, "flags": 16} for i in range(n)]


def acks_of_what_was_never_sent(seq, ack, n):
    return [{"seq": seq, "ack": ack + 1000 + i, "flags": 16} for i in range(n)]


def out_of_order_bomb(seq, ack, n):
    """Segments of one octet each, with a gap of one octet or more after each."""
    at = random.Random(2)
    return [{"seq": seq + 2 + 2 * at.randrange(60000), "ack": ack, "flags": 16, "data": b"!"} for _ in range(n)]


def beside_the_window(seq, ack, n):
    """Resets and SYNs whose sequence number is not the next octet."""
    return [{"seq": seq + 5 + i, "ack": ack, "flags": 4 if i & 1 else 2} for i in range(n)]


NOTHING = wire.fpdu(wire.tagged(wire.WRITE, 0, 0))
TINY = len(NOTHING)  # octets of the FPDU that tiny_segments sends


def tiny_segments(seq, ack, n):
    """The same zero-length Write again and again, one octet a segment. The kernel at the other end did not send these
    octets and learns of them only by rnicd's ACKs."""
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
    """SYNs from addresses that never answer."""
    rng = random.Random(1)
    return [wire.tcp_frame(MAC, mac, f"10.79.0.{rng.randrange(10, 250)}", wire.ADDR, rng.randrange(1024, 65536), PORT,
                           rng.getrandbits(32), options=b"\x02\x04\x05\xb4") for _ in range(n)]


def syns_and_resets(mac, n):
    """SYNs, each followed at once by a reset."""
    frames, rng = [], random.Random(2)
    for _ in range(n):
        who = MAC, mac, f"10.79.0.{rng.randrange(10, 250)}", wire.ADDR, rng.randrange(1024, 65536), PORT
        isn = rng.getrandbits(32)
        frames += [wire.tcp_frame(*who, isn, options=b"\x02\x04\x05\xb4"), wire.tcp_frame(*who, isn + 1, flags=4)]
    return frames


# ---- connections that hold resources of the daemon ----

def silent(port=PORT):
    return socket.create_connection((wire.ADDR, port), timeout=60)


def endless_request():
    """The first 24 octets of an MPA Request whose header announces 400 octets of private data."""
    s = silent()
    s.sendall(wire.mpa_request(pd_len=400)[:24])
    return s


def slow_sender():
    """An FPDU of 60,000 octets of which only the length field is sent."""
    p = opened()
    p.raw(struct.pack(">H", 60000))
    return p


def tiny_window(where):
    """Read Requests whose responses stay in a receive buffer of the smallest size. where: STag and address of the
    memory that is read."""
    s = socket.socket()
    s.settimeout(wire.PATIENCE)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    s.connect((wire.ADDR, PORT))
    p = wire.Peer(s)
    p.hello(priv=b"flood")
    for msn in range(1, 5):
        p.put(wire.read_req(msn, (1, 1), 1 << 16, where))
    return p
