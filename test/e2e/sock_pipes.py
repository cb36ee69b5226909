# SPDX-License-Identifier: BSD-3-Clause
"""Cases of sock_table.py: splice between sockets and pipes that have little room, or none."""
import array
import errno
import fcntl
import os
import select
import signal
import socket
import struct
import termios
import threading

from sock_case import pair, wait
from sock_threads import Waits
from sock_twice import IN, LIMIT, case, code, epoll_of

F_SETPIPE_SZ = 1031
SPLICE_F_NONBLOCK = 2


def bytes_in(r):
    b = array.array("i", [-1])
    fcntl.ioctl(r, termios.FIONREAD, b)
    return b[0]


def fill(w):
    os.set_blocking(w, False)
    n = 0
    while (k := code(os.write, w, bytes(4096))) != "EAGAIN":
        n += k
    os.set_blocking(w, True)
    return n


class Reads(threading.Thread):
    """Reads a socket to its end; all() returns the bytes."""

    def __init__(self, s):
        super().__init__()
        self.s, self.got = s, bytearray()
        self.start()

    def run(self):
        while b := self.s.recv(1 << 20):
            self.got += b

    def all(self):
        self.join()
        return self.got


def interrupted_by_a_signal(call, *args):
    """The result of a call that a signal interrupts after a while."""
    def stop(*_):
        raise OSError(errno.EINTR, "a signal")

    old = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    got = code(call, *args)
    signal.signal(signal.SIGALRM, old)
    signal.alarm(LIMIT)
    return got


@case
def splice_into_a_full_socket_keeps_the_bytes_in_the_pipe():
    c, s = pair()
    r, w = os.pipe()
    sent, out = bytearray(), []
    c.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 100_000))

    def until(end, call, *args):
        """Splices until the call ends in this way; all bytes that it has not moved must be in the pipe."""
        left = bytes_in(r)
        k = 0
        while k != end:
            if left == 0:
                sent.extend(b := os.urandom(60_000))
                left = os.write(w, b)
            k = code(call, *args, r, c.fileno(), 65536)
            left -= k if isinstance(k, int) else 0
            if bytes_in(r) != left:
                return f"{bytes_in(r)} bytes in the pipe, not {left}"
        return k

    out = [until("EAGAIN", os.splice)]
    c.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, bytes(16))
    out.append(until("EINTR", interrupted_by_a_signal, os.splice))
    c.setblocking(False)
    out.append(until("EAGAIN", os.splice))
    c.setblocking(True)
    t = Reads(s)
    while bytes_in(r) > 0:
        os.splice(r, c.fileno(), 65536)
    c.shutdown(socket.SHUT_WR)
    return out + [t.all() == sent]


@case
def splice_that_finds_no_room_leads_to_an_edge_when_there_is_some():
    c, s = pair()
    r, w = os.pipe()
    fill(w)
    c.setblocking(False)
    e = epoll_of(c, select.EPOLLOUT | select.EPOLLET)
    out = [bool(e.poll(LIMIT)[0][1] & select.EPOLLOUT)]
    edges = 1
    while edges:
        while code(os.splice, r, c.fileno(), 65536) != "EAGAIN":
            fill(w)
        edges = len(e.poll(0.2))
    t = Reads(s)
    out.append([x & select.EPOLLOUT for _, x in e.poll(LIMIT / 4)])
    out.append(code(os.splice, r, c.fileno(), 1))
    c.close()
    t.join()
    return out


@case
def splice_into_a_small_pipe_moves_what_fits():
    out = []
    for pages in (1, 2):
        c, s = pair()
        r, w = os.pipe()
        out.append(fcntl.fcntl(w, F_SETPIPE_SZ, pages * 4096))
        data = os.urandom(50_000)
        c.sendall(data)
        s.recv(len(data), socket.MSG_PEEK | socket.MSG_WAITALL)
        got = b""
        while len(got) < len(data):
            k = os.splice(s.fileno(), w, 65536)
            out += [k] if k <= 0 else []
            got += os.read(r, 65536)
        out.append(got == data)
    return out


@case
def splice_into_a_full_pipe_waits_for_some_room():
    c, s = pair()
    r, w = os.pipe()
    n = fill(w)
    data = os.urandom(50_000)
    c.sendall(data)
    s.recv(len(data), socket.MSG_PEEK | socket.MSG_WAITALL)
    out = [code(lambda: os.splice(s.fileno(), w, 65536, flags=SPLICE_F_NONBLOCK))]
    t = Waits(os.splice, s.fileno(), w, 65536)
    os.read(r, 4096)
    got = t.result()
    out += [0 < got < len(data), len(os.read(r, n - 4096)) == n - 4096]
    return out + [os.read(r, got) + s.recv(len(data) - got, socket.MSG_WAITALL) == data]


@case
def splice_into_a_pipe_that_nobody_reads():
    c, s = pair()
    r, w = os.pipe()
    os.close(r)
    out = [code(os.splice, s.fileno(), w, 9)]
    c.sendall(b"abc")
    wait(s, IN)
    return out + [code(os.splice, s.fileno(), w, 9), s.recv(9).decode()]
