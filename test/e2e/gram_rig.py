# SPDX-License-Identifier: BSD-3-Clause
"""Sockets for the cases of gram_table.py, at the address that the program gets as its argument."""
import ctypes
import select
import socket
import struct

from sock_twice import ADDR, IN, LIMIT, OUT


def new():
    return socket.socket(type=socket.SOCK_DGRAM)


def bound(port=0):
    s = new()
    s.bind((ADDR, port))
    return s


def pair():
    """Two sockets (a, b), each connected to the other."""
    a, b = bound(), bound()
    a.connect(b.getsockname())
    b.connect(a.getsockname())
    return a, b


def nobody():
    """An address that no socket has."""
    with bound() as s:
        return s.getsockname()


def events(s, mask=IN | OUT, ms=0):
    p = select.poll()
    p.register(s, mask)
    return sum(e for _, e in p.poll(ms)) & mask


def wait(s, mask=IN, gone=False):
    for _ in range(LIMIT * 100):
        now = events(s)
        if (now & mask == 0) if gone else (now & mask == mask):
            return now
        select.select([], [], [], 0.01)
    return "never"


def get(s, level, name):
    return s.getsockopt(level, name)


def libc_disconnect(s):
    libc = ctypes.CDLL(None, use_errno=True)
    none = struct.pack("=H14x", socket.AF_UNSPEC)
    if libc.connect(s.fileno(), none, len(none)) != 0:
        raise OSError(ctypes.get_errno(), "connect")
