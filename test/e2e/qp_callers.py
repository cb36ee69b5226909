#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Connections to the port where QPs without rdma_cm find each other: qp_callers.py ADDRESS INDEX COUNT

COUNT MPA Requests name a QP of the process with this index, in a version that the process refuses. Prints "early N":
how many have had an answer when another process of the address has answered a request that came later. After a line of
stdin prints "answered N" as soon as all have an answer.
"""
import select
import socket
import struct
import sys

from wire import mpa_request

QP_PORT = 4791
address, index, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ports = iter(range(1023, 0, -1))  # those of daemons


def call(priv):
    s = socket.socket()
    s.bind(("", next(ports)))
    s.connect((address, QP_PORT))
    s.sendall(mpa_request(priv=priv, p2p=1, rtr=2))
    return s


def answered(calls, ms):
    """How many of the connections have bytes to read, or are closed."""
    p = select.poll()
    for s in calls:
        p.register(s, select.POLLIN)
    return len(p.poll(ms))


named = [call(b"RNQP" + struct.pack(">BBBBII8s", 9, 1, 0, 0, 1, index << 16 | 2, b"")) for _ in range(count)]
# Requests that name nobody are answered by the process to which the kernel gives the connection.
others = []
while answered(others, 100) == 0:
    others.append(call(b""))
print(f"early {answered(named, 0)}", flush=True)
sys.stdin.readline()
while answered(named, 100) < count:
    pass
print(f"answered {count}", flush=True)
