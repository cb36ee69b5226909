# SPDX-License-Identifier: BSD-3-Clause
"""Cases of sock_table.py: a socket whose connect() was refused is used again."""
import socket
import struct

from sock_case import wait
from sock_twice import ADDR, LIMIT, OUT, case, code, epoll_of

# options with an int, which have these values on no new socket
INTS = [(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60000), (socket.IPPROTO_IP, socket.IP_TTL, 33),
        (socket.SOL_SOCKET, socket.SO_PRIORITY, 3)]


def nowhere():
    """A socket that has an address, at which nothing listens."""
    s = socket.socket()
    s.bind((ADDR, 0))
    return s


def meets(c, l, how=None):
    """
    Bytes go both ways over the connection that c makes to the listener, whose connect() must end as `how`. Returns the
    port that the connection came from, or how connect() has ended.
    """
    if (got := code(c.connect, l.getsockname())) != how:
        return got
    if wait(c, OUT) != OUT:
        return code(c.connect, l.getsockname())
    c.setblocking(True)
    s, (_, port) = l.accept()
    with s:
        c.sendall(b"x")
        s.sendall(s.recv(1) + b"y")
        assert c.recv(2, socket.MSG_WAITALL) == b"xy"
    return port


@case
def a_refused_socket_connects_when_a_server_listens():
    l = nowhere()
    at = l.getsockname()
    c = socket.socket()
    for option in INTS:
        c.setsockopt(*option)
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    c.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 7, 0))
    out = [code(c.connect, at), code(c.connect, at)]
    with l:
        l.listen()
        out += [meets(c, l) == c.getsockname()[1], code(c.connect, at), code(c.getpeername) == at]
    return out + [c.getsockopt(*option[:2]) for option in INTS] + [
                  c.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0,
                  c.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
                  struct.unpack("ll", c.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, 16))]


@case
def a_refused_socket_connects_again_without_blocking():
    l = nowhere()
    at = l.getsockname()
    c = socket.socket()
    c.setblocking(False)
    e = epoll_of(c, OUT)

    def refused():
        return [code(c.connect, at), wait(c, OUT) & OUT]
    # the error is read by SO_ERROR, and the next connect() tells that there was one; or connect() itself tells it
    out = [refused(), c.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), code(c.connect, at),
           refused(), code(c.connect, at)]
    with l:
        l.listen()
        out += [meets(c, l, "EINPROGRESS") == c.getsockname()[1], c.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)]
        return out + [[x & OUT for _, x in e.poll(LIMIT)]]


@case
def a_refused_socket_keeps_the_port_that_it_is_bound_to():
    l = nowhere()
    at = l.getsockname()
    with nowhere() as s:
        port = s.getsockname()[1]
    out = []
    for ip in (ADDR, ""):
        c = socket.socket()
        c.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        c.bind((ip, port))
        out += [code(c.connect, at), code(c.connect, at), code(c.bind, (ip, port))]
        if ip:
            out += [code(c.listen), c.getsockname() == (ADDR, port)]
            with socket.socket() as d:
                out.append(isinstance(meets(d, c), int))
        else:
            with l:
                l.listen()
                out.append(meets(c, l) == port)
        c.close()
    return out
