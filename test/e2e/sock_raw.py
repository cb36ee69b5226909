# SPDX-License-Identifier: BSD-3-Clause
"""
A client for stream and datagram sockets that obeys no rule of lib/ipc/ipc_stream.h: it speaks the control protocol
itself and writes to the shared memory as it likes.
"""
import ctypes
import mmap
import os
import re
import socket
import struct

ATOMIC = ctypes.CDLL("libatomic.so.1")
SEQ_CST = 5  # __ATOMIC_SEQ_CST
HERE = os.path.dirname(os.path.abspath(__file__))
RING = 1 << 18
SIZE = 4096 + 2 * RING
RESET = 2  # ipc_stream.fin
TX_TAIL, FIN, RX_HEAD, WANT, TX_HEAD, RX_TAIL, STATE = 0, 4, 64, 128, 192, 256, 260
ENDED = 4  # ipc_stream.state
HDR = 16
BELL = 128 + 4096 // 8  # struct ipc_doorbell: summary, need_wakeup, bits


def types():
    with open(os.path.join(HERE, "..", "..", "lib", "ipc", "ipc.h"), encoding="utf-8") as f:
        body = re.search(r"enum ipc_type \{(.*?)\};", f.read(), re.S).group(1)
    names = re.findall(r"^\s*(IPC_\w+)", body, re.M)
    return {n: i + 1 for i, n in enumerate(names)}


TYPE = types()


def addr(ip, port=0):
    return b"\0" * 10 + b"\xff\xff" + socket.inet_aton(ip) + struct.pack("<H6x", port)


def set_bit(memory, at, bit):
    """Sets the bit atomically: other programs of this user ring doorbells in the same word, and a lost doorbell is a
    hang."""
    word = ctypes.addressof(ctypes.c_char.from_buffer(memory, at))
    getattr(ATOMIC, "__atomic_fetch_or_8")(ctypes.c_void_p(word), ctypes.c_uint64(1 << bit), SEQ_CST)


class Raw:
    def __init__(self, path):
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.s.connect(path)
        self.seq = 0
        self.fds = []

    def ask(self, name, body=b"", shows=()):
        """(status, body of the answer, descriptors)"""
        self.seq += 1
        socket.send_fds(self.s, [struct.pack("<HHIiI", TYPE[name], HDR + len(body), self.seq, 0, 0) + body], shows)
        m, fds, _, _ = socket.recv_fds(self.s, 8192, 8)
        self.fds += fds
        return struct.unpack_from("<i", m, 8)[0], m[HDR:], fds

    def join(self):
        status, _, fds = self.ask("IPC_SOCK_JOIN")
        assert status == 0, status
        self.bells = mmap.mmap(fds[0], 0)
        self.wake = fds[1]

    def bind(self, ip, port=0, flags=0):
        at = addr(ip, port) if ip else bytes(24 - 8) + struct.pack("<H6x", port)
        return self.ask("IPC_SOCK_BIND", struct.pack("<Q", 0) + at + struct.pack("<II", flags, 0))

    def connect(self, sock, ip, port):
        return self.ask("IPC_SOCK_CONNECT", struct.pack("<Q", sock) + addr(ip, port) + bytes(8))

    def stream(self, ip, to, port):
        """Connects; returns the connection's shared memory. self.bell() rings its doorbell."""
        status, m, fds = self.bind(ip)
        assert status == 0, status
        status, m, fds = self.connect(struct.unpack_from("<Q", m)[0], to, port)
        assert status == 0, (status, m)
        self.worker, self.bit = struct.unpack_from("<II", m, 8)
        self.mem = mmap.mmap(fds[0], SIZE)
        return self.mem

    def gram(self, ip, port=0, flags=0):
        """Makes a datagram socket. Returns its status and number; self.mem is its memory when the status is 0."""
        body = struct.pack("<QII", 0, flags, 0) + addr(ip, port) + addr("0.0.0.0")
        status, m, fds = self.ask("IPC_SOCK_GRAM", body)
        if status != 0:
            return status, 0
        self.worker, self.bit = struct.unpack_from("<II", m, 8)
        self.mem = mmap.mmap(fds[1], SIZE)
        return status, struct.unpack_from("<Q", m)[0]

    def word(self, at):
        return struct.unpack_from("<I", self.mem, at)[0]

    def put(self, at, value):
        struct.pack_into("<I", self.mem, at, value & 0xffffffff)

    def bell(self):
        base = self.worker * BELL
        set_bit(self.bells, base + 128 + self.bit // 64 * 8, self.bit % 64)
        set_bit(self.bells, base, self.bit // 64)
        os.write(self.wake, struct.pack("<Q", 1))

    def close(self):
        for fd in self.fds:
            os.close(fd)
        self.s.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
