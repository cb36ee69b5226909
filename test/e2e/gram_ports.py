# SPDX-License-Identifier: BSD-3-Clause
"""Rows of gram_table.py: several sockets with one port, and sockets that lose theirs."""
import select
import socket

from gram_rig import bound, new, nobody
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
