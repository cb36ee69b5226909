# SPDX-License-Identifier: BSD-3-Clause
"""Cases of sock_table.py at the edges: no more descriptors, times that are negative or longer than a life."""
import contextlib
import os
import resource
import select
import socket
import struct
import threading

from sock_case import events, listener, pair, wait
from sock_mmsg import poll_once, recv_several, select_once
from sock_twice import IN, LIMIT, case, code

FOREVER = 2**63 - 1  # seconds: the largest time_t
PLACES = 600         # descriptors that the process may have in a case


@contextlib.contextmanager
def full():
    """The process has all descriptors that it may have. Yields a function that closes one of those that fill it."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(PLACES, before[1]), before[1]))
    more = []
    try:
        while True:
            try:
                more.append(os.dup(0))
            except OSError:
                break
        yield lambda: os.close(more.pop())
    finally:
        for fd in more:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def in_use():
    return len(os.listdir("/proc/self/fd"))


@case
def a_connection_waits_until_there_is_a_descriptor_for_it():
    out = []
    with listener() as l:
        before = in_use()
        for _ in range(3):
            c = socket.create_connection(l.getsockname())
            wait(l, IN)
            with full() as free:
                out += [code(l.accept), code(l.accept), events(l)]
                while (got := code(l.accept)) == "EMFILE":
                    free()
            s, _ = got
            c.sendall(b"x")
            out += [s.recv(9).decode(), events(l)]
            s.close()
            c.close()
        return out + [in_use() - before]


def set_time(s, which, seconds, microseconds):
    return code(s.setsockopt, socket.SOL_SOCKET, which, struct.pack("ll", seconds, microseconds))


@case
def time_limits_that_are_negative_or_very_long():
    c, s = pair()
    with listener() as l:
        out = []
        for t in ((-1, 0), (-(2**62), 999_999), (-2_147_485, 1)):
            for x in (s, l):
                out.append(set_time(x, socket.SO_RCVTIMEO, *t))
            out += [code(s.recv, 1), code(l.accept)]
        for t in ((0, 1_000_000), (0, -1), (-1, -1), (FOREVER, 1_000_000)):
            out += [set_time(s, socket.SO_RCVTIMEO, *t), set_time(s, socket.SO_SNDTIMEO, *t)]
        out.append(code(s.setsockopt, socket.SOL_SOCKET, socket.SO_RCVTIMEO, bytes(8)))
        for t in ((2_147_484, 0), (4_294_968, 0), (2**40, 1), (FOREVER, 999_999)):
            out += [set_time(s, socket.SO_RCVTIMEO, *t), set_time(s, socket.SO_SNDTIMEO, *t)]
            threading.Timer(0.05, c.sendall, (b"x",)).start()
            out.append(code(s.recv, 1).decode())
        return out


@case
def waiting_for_ever_in_select_and_recvmmsg():
    """Python's select takes no such time."""
    c, s = pair()
    out = []
    for t in ((FOREVER, 0), (FOREVER, 999_999), (2**60, 0), (18_446_744_074, 0)):
        threading.Timer(0.05, c.sendall, (b"x",)).start()
        n, fds, left = select_once(s, t)
        out += [n, fds, left > LIMIT, s.recv(1).decode()]
        threading.Timer(0.05, c.sendall, (b"yz",)).start()
        s.recv(2, socket.MSG_PEEK | socket.MSG_WAITALL)
        out.append(recv_several(s, [1, 1], 0, (t[0], t[1] * 1000)))
    return out + [select_once(s, (-1, 0))[0], select_once(s, (0, -1))[0]]


@case
def a_poll_that_waits_for_ever_uses_no_cpu():
    c, s = pair()
    out = []
    for t in ((FOREVER, 0), (18_446_744_074, 0)):
        threading.Timer(0.5, c.sendall, (b"x",)).start()
        before = sum(os.times()[:2])
        n = poll_once(s, t)
        out += [n, sum(os.times()[:2]) - before < 0.25, s.recv(1).decode()]
    return out


def resets(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


@case
def a_poll_for_errors_only_wakes_at_a_reset():
    out = []
    for mask in (0, select.POLLPRI):
        for half in (False, True):
            c, s = pair()
            if half:
                c.shutdown(socket.SHUT_WR)
                wait(s, IN)
            p = select.poll()
            p.register(s, mask)
            before = sum(os.times()[:2])
            out.append(p.poll(300))
            threading.Timer(0.3, resets, (c,)).start()
            out += [[e for _, e in p.poll(LIMIT * 500)], sum(os.times()[:2]) - before < 0.25]
    return out


@case
def a_select_for_exceptions_only_sleeps_through_a_reset():
    c, s = pair()
    threading.Timer(0.1, resets, (c,)).start()
    return [len(x) for x in select.select([], [], [s], 1)] + [len(x) for x in select.select([s], [], [s], LIMIT)]
