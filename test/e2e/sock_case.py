# SPDX-License-Identifier: BSD-3-Clause
"""What the cases of sock_table.py stand on: both ends of a connection in this process, and what they are ready for."""
import errno
import os
import select
import socket
import sys

LIMIT = 60  # seconds: a hang
TABLE = []
ADDR = sys.argv[1]
IN, OUT, RDHUP = select.POLLIN, select.POLLOUT, select.POLLRDHUP


def case(f):
    TABLE.append(f)
    return f


def code(call, *args):
    """The name of the errno that a call ends with, or what it gives."""
    try:
        return call(*args)
    except OSError as e:
        return errno.errorcode[e.errno] if e.errno else type(e).__name__


def listener(backlog=8):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((ADDR, 0))
    s.listen(backlog)
    return s


def pair():
    """(client, server) of a new connection."""
    with listener() as l:
        c = socket.create_connection(l.getsockname(), timeout=LIMIT)
        s, _ = l.accept()
    c.settimeout(None)
    return c, s


def plain(at):
    """A connection that is made and ended; no name is looked up, which takes locks that fork does not know."""
    c = socket.socket()
    c.connect(at)
    c.close()


def events(s, mask=IN | OUT | RDHUP, ms=0):
    p = select.poll()
    p.register(s, mask)
    return sum(e for _, e in p.poll(ms)) & mask


def wait(s, mask, gone=False):
    """Waits until all of mask is there (gone: none of it); returns what is there then."""
    for _ in range(LIMIT * 100):
        now = events(s, mask | IN | OUT | RDHUP)
        if (now & mask == 0) if gone else (now & mask == mask):
            return now
        select.select([], [], [], 0.01)
    return "never"


def read_all(s):
    got = b""
    while b := s.recv(65536):
        got += b
    return got


def epoll_of(s, mask):
    e = select.epoll()
    e.register(s, mask)
    return e
