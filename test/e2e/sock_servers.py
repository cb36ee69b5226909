# SPDX-License-Identifier: BSD-3-Clause
"""Rows of sock_table.py: listeners at all addresses, and several listeners that share a port."""
import contextlib
import errno
import os
import select
import socket
import struct
import threading
import time

from sock_case import events, listener, pair, read_all, wait
from sock_twice import ADDR, IN, LIMIT, OUT, case, code, epoll_of

LOOPBACK = "127.0.0.1"


def at_all(family=socket.AF_INET, only=0, port=0):
    s = socket.socket(family)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only)
    s.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", port))
    s.listen(8)
    return s


def serves(l, to):
    """Makes one connection through a listener; returns what each end says of itself."""
    c = socket.create_connection((to, l.getsockname()[1]), timeout=LIMIT)
    s, who = l.accept()
    s.sendall(b"welcome")
    with c, s:
        return [c.recv(9).decode(), who[1] == c.getsockname()[1], s.getsockname()[0].endswith(to),
                s.getsockname()[1] == l.getsockname()[1], s.family == l.family]


@case
def a_listener_at_all_addresses():
    with at_all() as l:
        return [l.getsockname()[0], l.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN), events(l),
                serves(l, ADDR), serves(l, LOOPBACK), serves(l, ADDR), code(l.getpeername), code(l.recv, 1)]


@case
def a_listener_at_all_addresses_of_both_families():
    with at_all(socket.AF_INET6) as l:
        return [l.getsockname()[0], serves(l, ADDR), serves(l, LOOPBACK)]


@case
def a_listener_at_all_addresses_of_the_other_family():
    s = None
    while s is None:
        l = at_all(socket.AF_INET6, only=1)
        try:
            s = at_all(port=l.getsockname()[1])
        except OSError:  # a connection of another program has this port
            l.close()
    with l, socket.socket() as c:
        with s:
            out = [serves(s, ADDR)]
        return out + [code(c.connect, (ADDR, l.getsockname()[1]))]


@case
def readiness_of_a_listener_at_all_addresses():
    with at_all() as l:
        l.setblocking(False)
        e = epoll_of(l, select.EPOLLIN)
        out = [events(l), len(e.poll(0)), code(l.accept)]
        for to in (ADDR, LOOPBACK):
            c = socket.create_connection((to, l.getsockname()[1]))
            out += [wait(l, IN), e.poll(LIMIT)[0][1], select.select([l], [], [], LIMIT)[0] == [l]]
            l.accept()[0].close()
            out += [wait(l, IN, gone=True), len(e.poll(0)), code(l.accept)]
            c.close()
        return out


@case
def an_accept_that_waits_takes_what_comes_from_anywhere():
    out = []
    with at_all() as l:
        for to in (ADDR, LOOPBACK, ADDR):
            t = threading.Timer(0.02, socket.create_connection, ((to, l.getsockname()[1]),))
            t.start()
            s, _ = l.accept()
            out.append(s.getsockname()[0] == to)
            t.join()
        l.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, bytes(8) + (20_000).to_bytes(8, "little"))
        return out + [code(l.accept)]


@case
def children_accept_at_a_listener_at_all_addresses():
    with at_all() as l:
        pids = []
        for _ in range(2):
            pid = os.fork()
            if pid == 0:
                l.accept()[0].sendall(b"child")
                os._exit(0)
            pids.append(pid)
        out = []
        for to in (ADDR, LOOPBACK):
            with socket.create_connection((to, l.getsockname()[1])) as c:
                out.append(c.recv(9).decode())
        return out + [os.waitpid(p, 0)[1] for p in pids]


@case
def a_port_of_all_addresses_is_taken_and_given_back():
    out = []
    with at_all() as l:
        at = l.getsockname()[1]
        with socket.socket() as s:
            out.append(code(s.bind, (ADDR, at)))
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return out + [code(s.bind, (ADDR, at)), code(s.listen, 1)]


def reusing(address, port=0, option=socket.SO_REUSEPORT):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, option, 1)
    s.bind((address, port))
    s.listen(128)
    return s


def shares_of(listeners, n):
    """How many of n connections each listener has got."""
    at = (ADDR, listeners[0].getsockname()[1])
    clients = [socket.create_connection(at) for _ in range(n)]
    got = [0] * len(listeners)
    while sum(got) < n:
        for s in select.select(listeners, [], [], LIMIT)[0]:
            s.accept()[0].close()
            got[listeners.index(s)] += 1
    for c in clients:
        c.close()
    return got


@case
def listeners_that_reuse_a_port_share_its_connections():
    out = []
    for address in (ADDR, "0.0.0.0"):
        first = reusing(address)
        at = first.getsockname()[1]
        all_ = [first] + [reusing(address, at) for _ in range(3)]
        out.append(all(shares_of(all_, 100)))
        all_.pop(0).close()
        out.append(all(shares_of(all_, 100)))
        while len(all_) > 1:
            all_.pop().close()
        out.append(shares_of(all_, 5))
        all_.pop().close()
    return out


@case
def a_port_is_shared_by_those_that_reuse_it_alone():
    with reusing(ADDR) as l, listener() as other:
        at = l.getsockname()[1]
        return [code(reusing, ADDR, at, socket.SO_REUSEADDR), code(reusing, ADDR, other.getsockname()[1])]


def full(c):
    """Sends on c until no more bytes fit, and none for half a second: the peer does not read. When send first
    finds no room, rnicd's worker may not have moved any bytes to the peer yet."""
    c.settimeout(0.5)
    with contextlib.suppress(TimeoutError):
        while True:
            c.send(bytes(65536))
    c.settimeout(None)


@case
def a_close_that_lingers_waits_for_the_peer_as_long_as_it_was_told():
    out = []
    for reads in (True, False):
        c, s = pair()
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LIMIT if reads else 1))
        full(c)
        t = threading.Thread(target=read_all, args=(s,))
        if reads:
            t.start()
        c.dup().close()
        begin = time.monotonic()
        c.close()
        took = time.monotonic() - begin
        out.append(took < LIMIT / 2 if reads else took > 0.9)
        if reads:
            t.join()
        s.close()
    return out


@case
def an_epoll_set_keeps_a_socket_that_is_bound_or_connected_later():
    out, e = [], select.epoll()
    with socket.socket() as l, socket.socket() as c:
        for s in (l, c):
            s.setblocking(False)
        l.bind(("0.0.0.0", 0))
        e.register(l, select.EPOLLIN)
        l.listen(4)
        e.poll(0)
        e.register(c, select.EPOLLOUT)
        out.append(code(c.connect, (ADDR, l.getsockname()[1])))
        while (c.fileno(), select.EPOLLOUT) not in e.poll(LIMIT):
            pass
        out.append(c.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        e.unregister(c)
        out.append(e.poll(LIMIT) == [(l.fileno(), select.EPOLLIN)])
        s, _ = l.accept()
        e.register(c, select.EPOLLIN)
        s.sendall(b"x")
        out.append(e.poll(LIMIT) == [(c.fileno(), select.EPOLLIN)])
        s.close()
        return out


@case
def a_full_backlog_makes_peers_wait_and_refuses_none():
    """With a backlog of one, two connections may wait; the third SYN is answered once the program has accepted both."""
    out = []
    with listener(1) as l:
        cs = [socket.socket() for _ in range(3)]
        for i, c in enumerate(cs):
            c.setblocking(False)
            out.append(c.connect_ex(l.getsockname()) == errno.EINPROGRESS)
            if i < 2:
                out.append(wait(c, OUT))
        for _ in cs:
            s, _ = l.accept()
            s.sendall(b"served")
            s.close()
        for c in cs:
            c.setblocking(True)
            out.append(read_all(c).decode())
            c.close()
    return out


@case
def a_backlog_can_grow():
    with listener(1) as l:
        l.listen(8)
        cs = [socket.create_connection(l.getsockname(), timeout=LIMIT) for _ in range(9)]
        got = len([l.accept()[0].close() for _ in cs])
        for c in cs:
            c.close()
        return got
