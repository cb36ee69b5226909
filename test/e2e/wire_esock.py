# SPDX-License-Identifier: BSD-3-Clause
"""A peer with extended sockets, written from doc/extended-sockets.md: its messages are Sends of wire.Peer."""
import struct

import wire

DATA, CREDIT, END = 1, 2, 3
REQUEST = 12  # octets of a hello


def hello(slots=8, size=4096, version=1, magic=b"RNXS", flags=0):
    return magic + struct.pack(">BBHI", version, flags, slots, size)


def message(kind, grant=0, data=b"", zero=0):
    return struct.pack(">BBHI", kind, 0, zero, grant) + data


class Bytes:
    """The byte stream of a connected peer. Counts how many messages each end may still send."""

    def __init__(self, peer, slots, theirs):
        self.p, self.slots = peer, slots
        magic, version, _, self.credits, self.size = struct.unpack(">4sBBHI", theirs[:12])
        assert magic == b"RNXS" and version == 1, theirs
        self.granted = self.credits  # credits that the other end has granted altogether
        self.free = slots  # messages that the other end may still send
        self.owed = self.msn = 0
        self.came = self.kinds = None
        self.came, self.kinds = b"", []
        self.ended = False

    def put(self, kind, data=b""):
        assert self.credits >= (1 if kind == CREDIT else 2), "no credit"
        self.credits -= 1
        self.msn += 1
        grant, self.owed = self.owed, 0
        self.free += grant
        self.segments(message(kind, grant, data))

    def segments(self, text, most=1200):
        for off in range(0, len(text), most):
            self.p.put(wire.send(self.msn, text[off:off + most], mo=off, last=off + most >= len(text)))

    def get(self):
        """Receives one message: (kind, data). Updates the credits of both ends and checks each rule."""
        text = b""
        while True:
            u = self.p.get()
            if u[1] & 15 == wire.WRITE and len(u) == 14:
                continue  # a zero-length Write, with which the other end asks a silent peer for an acknowledgement
            assert u[1] & 15 == wire.SEND, u[:2]
            assert struct.unpack_from(">I", u, 14)[0] == len(text), "a segment is missing"
            text += u[18:]
            if u[0] & 0x40:
                break
        kind, z1, z2, grant = struct.unpack(">BBHI", text[:8])
        assert kind in (DATA, CREDIT, END) and z1 == z2 == 0, text[:8]
        assert (kind == DATA) == (len(text) > 8) and len(text) <= self.p_size, text[:8]
        assert self.free > (0 if kind == CREDIT else 1), "the last credit may be used for a CREDIT message only"
        assert not (self.ended and kind != CREDIT), "a message after END"
        self.free -= 1
        self.credits += grant
        self.kinds.append(kind)
        self.came += text[8:]
        self.ended |= kind == END
        self.owed += 1
        return kind, text[8:]

    p_size = 4096

    def credit_if_due(self):
        if self.owed >= self.slots // 2 and self.credits >= 1:
            self.put(CREDIT)

    def read(self, n):
        """Receives until n bytes have come altogether."""
        while len(self.came) < n:
            self.get()
            self.credit_if_due()
        return self.came
