#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Many devices, each of which exchanges reliable datagrams with one queue pair of rnicd: a Write from each queue pair of
the device, and the report that the Write was taken. The devices are addresses of this network namespace; each speaks
the protocol through test/e2e/wire_rd.py. The first device sends a flood of datagrams that rnicd drops, so that rnicd's
buffers have been used before anything is measured.

usage: crowd.py TO FIRST PAIRS QPN Q_KEY WHERE STAG
	   PAIRS: queue pairs of each device
	   reads numbers from stdin, one in a line; meets as many further devices, from address FIRST on, and prints how
	   many were met altogether
"""
import ipaddress
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
from wire_rd import Device, Pair  # pylint: disable=wrong-import-position

FLOOD = 40000  # datagrams; more than rnicd has buffers


def meet(host, to, pairs, qpn, qkey, where, stag):
    d = Device(host, to)
    all_pairs = [Pair(d, 0x4242 + n, qpn, qkey) for n in range(pairs)]
    sent = [(d.give(body), body) for p in all_pairs for body in p.chain(*p.write(stag, where, b"device"))]
    for number, body in sent:
        d.delivered(number, body)
    for p in all_pairs:
        p.taken()
    d.close()


def flood(host, to):
    d = Device(host, to)
    for _ in range(FLOOD):
        d.s.sendto(bytes(1400), d.to)
    d.close()


def main():
    to, first, *numbers = sys.argv[1:]
    numbers, met = list(map(int, numbers)), 0
    flood(first, to)
    for line in sys.stdin:
        for _ in range(int(line)):
            meet(str(ipaddress.ip_address(first) + met), to, *numbers)
            met += 1
        print(met, flush=True)


if __name__ == "__main__":
    main()
