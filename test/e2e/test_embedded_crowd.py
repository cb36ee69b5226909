#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Many connections of one embedded program over the kernel's TCP, whose peer decides which bytes come when."""
import re
import sys

from host_rig import Host
from programs import A
from rig import case, main, need, until
from wire import WRITE, Peer, Target, fpdu, send, tagged

PORT = 7000
CROWD = 300  # connections
PART = 200   # octets that each connection writes to a place of its own in region rw
REGION = 65536  # octets of rw, as in target.c


def unread():
    """For each of the program's connections: how many octets wait in the kernel until the program reads them."""
    with open("/proc/self/net/tcp", encoding="ascii") as f:
        return [int(n, 16) for n in re.findall(rf":{PORT:04X} \S+ 01 \w+:(\w+) ", f.read())]


def sum_of(octets):
    """As the target's command sum."""
    n = 0
    for octet in octets:
        n = (n * 31 + octet) % (1 << 64)
    return f"{n:016x}"


@case
def each_connection_puts_an_fpdu_together():
    """All connections have received one half of a Write's FPDU before any receives the other half."""
    with Host() as h:
        t = Target(h, A)
        t.tell(f"listen {PORT} 1 4 4")
        stag, to, _ = t.mr["rw"]
        region = bytearray(n * 7 & 0xFF for n in range(REGION))
        peers = []
        for k in range(CROWD):
            p = Peer(port=PORT, addr=A)
            peers.append(p)
            mark = t.mark()
            p.hello(priv=b"peer%04x" % k)
            assert t.event("CONNECT_REQUEST", mark, b"peer%04x" % k) == k, t.tail()
        rest = []
        for k, p in enumerate(peers):
            octets = bytes((k + n) & 0xFF for n in range(PART))
            region[k * PART:(k + 1) * PART] = octets
            raw = fpdu(tagged(WRITE, stag, to + k * PART, octets), crc=p.crc)
            p.raw(raw[:len(raw) // 2])
            rest.append(raw[len(raw) // 2:] + fpdu(send(1, b"%04x" % k), crc=p.crc))
        until(lambda: not any(unread()), t.tail)
        assert len(unread()) == CROWD, f"{CROWD - len(unread())} of {CROWD} connections broke"
        for p, raw in zip(peers, rest):
            p.raw(raw)
        for k in range(CROWD):
            words = t.expect(f"wc {k} ").split()
            assert words[3:5] == ["success", "4"], t.tail()
        assert t.sum("rw") == sum_of(region)
        assert not any("DISCONNECTED" in line for line in t.out), t.tail()
        for p in peers:
            p.close()


need("setpriv")
sys.exit(main())
