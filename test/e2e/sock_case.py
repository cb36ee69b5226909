# SPDX-License-Identifier: BSD-3-Clause
"""What the cases of sock_table.py stand on: both ends of a connection in this process, and what they are ready for."""
import select
import socket

from sock_twice import ADDR, IN, LIMIT, OUT

RDHUP = select.POLLRDHUP


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
