# SPDX-License-Identifier: BSD-3-Clause
"""Helpers for the cases of sock_table.py: connections with both ends in this process, and poll."""
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
    """A new connection: its two ends (client, server)."""
    with listener() as l:
        c = socket.create_connection(l.getsockname(), timeout=LIMIT)
        s, _ = l.accept()
    c.settimeout(None)
    return c, s


def plain(at):
    """Makes a connection and ends it. No name is looked up: name look-up takes locks that fork does not handle."""
    c = socket.socket()
    c.connect(at)
    c.close()


def events(s, mask=IN | OUT | RDHUP, ms=0):
    p = select.poll()
    p.register(s, mask)
    return sum(e for _, e in p.poll(ms)) & mask


def wait(s, mask, gone=False):
    """Waits until all events of mask are there (gone: none of them is); returns the events that are there then."""
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
