# SPDX-License-Identifier: BSD-3-Clause
"""Rows of gram_table.py: several sockets that share a port, and sockets that lose their port."""
import array
import fcntl
import select
import socket
import termios

from gram_rig import bound, libc_disconnect, new, nobody, wait
from sock_twice import ADDR, LIMIT, case, code


def sharing(address, port, option=socket.SO_REUSEPORT):
    s = new()
    s.setsockopt(socket.SOL_SOCKET, option, 1)
    s.bind((address, port))
    return s


@case
def sockets_that_reuse_a_port_share_what_comes():
    out = []
    for address in (ADDR, "0.0.0.0"):
        at = nobody()[1]
        all_ = [sharing(address, at) for _ in range(3)]
        peers, got = [bound() for _ in range(60)], {}
        for _ in range(2):
            for i, p in enumerate(peers):
                p.sendto(b"%d" % i, (ADDR, at))
                s = select.select(all_, [], [], LIMIT)[0][0]
                got.setdefault(s.recv(9), []).append(all_.index(s))
            out.append(len({i for i, *_ in got.values()}))
        out.append(all(a == b for a, b in got.values()))
        for s in all_ + peers:
            s.close()
    return out


@case
def a_port_is_shared_by_those_that_reuse_it_in_the_same_way():
    with sharing(ADDR, 0) as a, sharing(ADDR, 0, socket.SO_REUSEADDR) as b:
        one, other = a.getsockname()[1], b.getsockname()[1]
        return [code(sharing, ADDR, one, socket.SO_REUSEADDR), code(sharing, ADDR, other), code(bound, one)]


@case
def a_socket_that_was_never_bound_gives_its_port_back():
    peer, out = bound(), []
    with new() as s:
        copy = s.dup()
        for _ in range(3):
            s.connect(peer.getsockname())
            at = s.getsockname()[1]
            s.send(b"x")
            out.append(peer.recvfrom(9)[1][1] == at)
            libc_disconnect(s)
            out += [s.getsockname()[1], code(s.send, b"x")]
            bound(at).close()
        s.sendto(b"y", peer.getsockname())
        return out + [peer.recvfrom(9)[1][1] == s.getsockname()[1], copy.fileno() >= 0]


@case
def an_epoll_set_keeps_a_socket_that_sends_later():
    peer, e = bound(), select.epoll()
    with new() as s, new() as t:
        for x in (s, t):
            e.register(x, select.EPOLLIN)
        s.connect(peer.getsockname())
        t.bind((ADDR, 0))
        out = []
        for x in (s, t):
            peer.sendto(b"x", x.getsockname())
            out += [e.poll(LIMIT) == [(x.fileno(), select.EPOLLIN)], x.recv(9).decode(), len(e.poll(0))]
        return out


@case
def an_epoll_set_keeps_a_socket_that_gives_its_port_back():
    peer, e, out = bound(), select.epoll(), []
    with new() as s:
        s.connect(peer.getsockname())
        e.register(s, select.EPOLLIN)
        for _ in range(2):
            libc_disconnect(s)
            s.connect(peer.getsockname())
            peer.sendto(b"x", s.getsockname())
            out += [e.poll(LIMIT) == [(s.fileno(), select.EPOLLIN)], s.recv(9).decode(), len(e.poll(0))]
        return out


@case
def a_socket_at_all_addresses_hears_at_the_port_that_it_was_given():
    a, k, b = bound(), new(), array.array("i", [-1])
    with new() as s, new() as other:
        s.bind(("", 0))
        other.bind(("", 0))
        port = s.getsockname()[1]
        a.sendto(b"abc", (ADDR, port))
        got, who = s.recvfrom(9)
        s.sendto(b"back", who)
        out = [port not in (0, other.getsockname()[1]), got.decode(), who == a.getsockname(), a.recv(9).decode()]
        k.sendto(b"12345", ("127.0.0.1", port))
        wait(s)
        fcntl.ioctl(s, termios.FIONREAD, b)
        return out + [b[0], s.recv(9).decode()]


@case
def a_socket_at_all_addresses_that_has_a_peer_hears_only_the_peer():
    a, k, e = bound(), new(), select.epoll()
    with new() as s:
        at = ("127.0.0.1", nobody()[1])
        s.bind(("", at[1]))
        e.register(s, select.EPOLLIN)
        out = []
        for word in (b"one", b"two"):
            k.sendto(word, at)
            wait(s)
            s.connect(a.getsockname())
            out += [s.recv(9).decode(), code(k.sendto, b"not heard", at), len(e.poll(0.1))]
            a.sendto(b"heard", s.getsockname())
            out += [len(e.poll(LIMIT)), s.recv(9).decode(), len(e.poll(0))]
            libc_disconnect(s)
        k.sendto(b"again", at)
        return out + [s.getsockname()[1] == at[1], len(e.poll(LIMIT)), s.recv(9).decode()]
