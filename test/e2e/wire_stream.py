# SPDX-License-Identifier: BSD-3-Clause
"""
TCP in Python on raw frames, for SYNs with options that no kernel sends. It sends no segment again, since a tap loses
none. The namespace's kernel does not have this TCP's address. wire.Peer uses a Tcp like a socket.
"""
import socket
import struct
import threading

from nets import OURS, In
from rig import PATIENCE
from wire import Frames, tcp_frame

ADDR, MAC = "10.79.0.77", bytes.fromhex("020000000c77")
FIN, SYN, RST, ACK = 1, 2, 4, 16
EXID = 0x524e4957
ASKS, TAKES = 1, 2
MSS = b"\x02\x04\x05\xb4"


def option(role, exid=EXID):
    return struct.pack(">BBIB", 253, 7, exid, role)


def options_of(frame):
    """The options of a TCP segment in an Ethernet frame: {kind: octets}."""
    at = 14 + (frame[14] & 15) * 4
    left, out = frame[at + 20:at + (frame[at + 12] >> 4) * 4], {}
    while left and left[0] != 0:
        n = 1 if left[0] == 1 else left[1]
        out[left[0]] = left[:n]
        left = left[n:]
    return out


class Tcp:
    """One connection with rnicd's port."""

    def __init__(self, ns, sport=40001, seq=1000):
        self.f = In(ns).run(Frames)
        self.sport, self.dport = sport, 0
        self.seq, self.ack, self.acked, self.wnd = seq, 0, seq, 0
        self.peer_mac, self.got, self.answer = None, b"", None
        self.fin = self.reset = self.open = self.over = False
        self.news = threading.Condition()
        self.reader = threading.Thread(target=self.listen, daemon=True)
        self.reader.start()

    def connect(self, port, *options):
        self.dport = port
        self.f.put(b"\xff" * 6 + MAC + b"\x08\x06" + struct.pack(
            ">HHBBH6s4s6s4s", 1, 0x800, 6, 4, 1, MAC, socket.inet_aton(ADDR), bytes(6), socket.inet_aton(OURS)))
        self.until(lambda: self.peer_mac)
        self.out(SYN, options=MSS + b"".join(options))
        self.until(lambda: self.open or self.reset)
        return self

    def answers(self, *options):
        """Sets the options with which SYNs to sport are answered from now on."""
        self.answer = MSS + b"".join(options)
        return self

    def until(self, what):
        with self.news:
            assert self.news.wait_for(what, PATIENCE), "the event that the test waits for has not come"

    def out(self, flags, data=b"", options=b""):
        with self.news:
            self.f.put(tcp_frame(self.peer_mac, MAC, ADDR, OURS, self.sport, self.dport, self.seq,
                                 self.ack if flags & ACK else 0, flags, data, options))
            self.seq += len(data) + bool(flags & (SYN | FIN))

    def listen(self):
        while not self.over:
            f = self.f.get(lambda f: f[12:14] in (b"\x08\x00", b"\x08\x06"), 0.2)
            if f is None:
                continue
            with self.news:
                if f[12:14] == b"\x08\x06":
                    self.arp(f)
                elif f[23] == 6 and f[30:34] == socket.inet_aton(ADDR):
                    self.segment(f)
                self.news.notify_all()

    def arp(self, f):
        if f[28:32] != socket.inet_aton(OURS):
            return
        self.peer_mac = f[22:28]
        if f[20:22] == b"\0\1" and f[38:42] == socket.inet_aton(ADDR):
            self.f.put(f[6:12] + MAC + b"\x08\x06" + struct.pack(">HHBBH", 1, 0x800, 6, 4, 2) + MAC + f[38:42] +
                       f[22:32])

    def segment(self, f):
        at = 14 + (f[14] & 15) * 4
        total = struct.unpack_from(">H", f, 16)[0]
        sport, dport, seq, acked = struct.unpack_from(">HHII", f, at)
        flags, data = f[at + 13], f[at + (f[at + 12] >> 4) * 4:14 + total]
        if dport != self.sport or (self.dport and sport != self.dport):
            return
        if flags & ACK:
            self.acked, self.wnd = acked, struct.unpack_from(">H", f, at + 14)[0]
        if flags & RST:
            self.reset = True
        elif flags & SYN:
            self.syn = options_of(f)
            self.ack, self.dport, self.peer_mac = seq + 1, sport, f[6:12]
            if flags & ACK:
                self.open = True
                self.out(ACK)
            elif self.answer is not None:
                self.open = True
                self.out(SYN | ACK, options=self.answer)
        elif seq & 0xffffffff == self.ack & 0xffffffff and (data or flags & FIN):
            self.got += data
            self.ack += len(data) + (flags & FIN)
            self.fin = self.fin or bool(flags & FIN)
            self.out(ACK)
        elif data:
            self.out(ACK)

    # for use as a socket
    def settimeout(self, _):
        pass

    def setsockopt(self, *_):
        pass

    def sendall(self, data):
        for at in range(0, len(data), 1400):
            part = data[at:at + 1400]
            self.until(lambda n=len(part): self.seq + n - self.acked <= self.wnd or self.reset or self.fin)
            self.out(ACK, part)

    def recv(self, most):
        self.until(lambda: self.got or self.fin or self.reset)
        if not self.got and self.reset:
            raise ConnectionResetError
        out, self.got = self.got[:most], self.got[most:]
        return out

    def shutdown(self):
        self.out(FIN | ACK)

    def close(self):
        if self.open and not self.reset:
            self.out(RST | ACK)
        self.leave()

    def leave(self):
        """Ends this object, and sends nothing: rnicd may have the connection in TIME_WAIT."""
        self.over = True
        self.reader.join()
        self.f.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
