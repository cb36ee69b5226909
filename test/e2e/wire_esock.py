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
        self.granted = self.credits  # credits that the other end has granted since the beginning
        self.free = slots  # messages that the other end may still send
        self.owed = self.msn = 0
        self.came = self.kinds = None
        self.came, self.kinds = b"", []
        self.ended = False

    def put(self, kind, data=b""):
        assert self.credits >= (1 if kind == CREDIT else 2), "the peer has no credit left to send a message"
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


# ---- with windows: doc/stream-sockets.md ----

WRITTEN = 4


def window_hello(stag, window, slots=8, size=4096):
    return hello(slots, size, flags=1) + struct.pack(">II", stag, window)


class Windows(Bytes):
    """The byte stream of a peer with windows. The peer's own window has the STag `stag` and `window` octets; the peer
    reads octets as soon as they have come."""

    def __init__(self, peer, slots, theirs, stag, window):
        super().__init__(peer, slots, theirs)
        assert theirs[5] & 1, "the other end has offered no window"
        self.their_stag, self.room = struct.unpack(">II", theirs[12:20])
        self.stag, self.window, self.can = stag, window, window
        self.sent, self.writes, self.ops = 0, b"", []

    def head(self, kind, more=b""):
        self.msn += 1
        self.credits -= 1
        grant, self.owed = self.owed, 0
        self.free += grant
        room, self.can = self.window - self.can, self.window
        return message(kind, grant, struct.pack(">I", room) + more)

    def put(self, kind, data=b""):
        assert self.credits >= (1 if kind == CREDIT else 2), "no credit"
        self.room -= len(data)
        self.sent += len(data)
        assert self.room >= 0, "no room"
        self.segments(self.head(kind, data))

    def write(self, data, at=None, most=1200):
        """Sends octets of the stream by RDMA Write; written() then reports them to the other end."""
        at = self.sent if at is None else at
        for off in range(0, len(data), most):
            part = data[off:off + most]
            self.p.put(wire.tagged(wire.WRITE, self.their_stag, at + off, part, last=off + most >= len(data)))

    def written(self, n):
        self.room -= n
        self.sent += n
        self.segments(self.head(WRITTEN, struct.pack(">I", n)))

    def get(self):
        text = b""
        while True:
            u = self.p.get()
            op = u[1] & 15
            if op == wire.WRITE:
                stag, at = struct.unpack_from(">IQ", u, 2)
                if len(u) == 14:
                    continue
                assert stag == self.stag, "a Write that is not to the window"
                assert at == len(self.came) + len(self.writes), f"a Write to {at}, which is not the next octet"
                self.writes += u[14:]
                assert len(self.writes) <= self.can, "a Write beyond the window"
                continue
            assert op == wire.SEND, u[:2]
            assert struct.unpack_from(">I", u, 14)[0] == len(text), "a segment is missing"
            text += u[18:]
            if u[0] & 0x40:
                break
        kind, z1, z2, grant, room = struct.unpack(">BBHII", text[:12])
        assert kind in (DATA, CREDIT, END, WRITTEN) and z1 == z2 == 0, text[:12]
        assert self.free > 1 or (kind == CREDIT and self.free == 1 and grant), "the last credit"
        assert not (self.ended and kind != CREDIT), "a message after END"
        data = text[12:]
        if kind == WRITTEN:
            assert len(data) == 4 and struct.unpack(">I", data)[0] == len(self.writes), "not what has been written"
            data, self.writes = self.writes, b""
        else:
            assert not self.writes, "Writes without WRITTEN"
        assert (len(data) > 0) == (kind in (DATA, WRITTEN))
        self.can -= len(data)
        assert self.can >= 0, "more octets than the window has room for"
        self.free -= 1
        self.credits += grant
        self.room += room
        self.kinds.append(kind)
        self.came += data
        self.ended |= kind == END
        self.owed += 1
        return kind, data

    def credit_if_due(self):
        room = self.window - self.can >= self.window // 4 and self.credits >= 2
        if room or (self.owed >= self.slots // 2 and self.credits >= 1):
            self.put(CREDIT)
