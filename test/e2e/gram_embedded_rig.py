# SPDX-License-Identifier: BSD-3-Clause
"""Runs programs over `rnicrun --embedded --sockets` in network namespaces, and sees their UDP packets."""
import contextlib
import socket
import struct
import threading

import wire_ud
from embedded_rig import embedded
from gram_peer import PORT, RECORD, SEGMENT, SEND, Peer
from nets import KERNEL, OURS, In, two_hosts
from rig import Process
from sock_rig import python

IWARP = {SEND, SEGMENT, RECORD}
LENGTHS = "4,5,1407,1408,1409,2817,9000,32768,65506,65507," + ",".join(["65507"] * 10)


def here(ns):
    return "ip", "netns", "exec", ns


def ours(ns, *argv, **how):
    return embedded(*argv, before=here(ns), **how)


def theirs(ns, *argv):
    """The same program on the kernel's sockets."""
    return Process([*here(ns), *argv])


class Seen:
    """The UDP packets that come in at a device of a network namespace."""

    def __init__(self, ns, device="lo"):
        self.s = In(ns).run(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800)))
        self.s.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)  # SO_RCVBUFFORCE
        self.s.bind((device, 0x0800))
        self.udp = []  # source, destination, their ports, payload
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def look(self):
        with contextlib.suppress(OSError):
            while True:
                ip, at = self.s.recvfrom(70000)
                if at[2] == socket.PACKET_OUTGOING or ip[9] != 17 or struct.unpack_from(">H", ip, 6)[0] & 0x3fff:
                    continue
                udp = ip[(ip[0] & 15) * 4:]
                ports = struct.unpack_from(">HH", udp)
                self.udp.append((socket.inet_ntoa(ip[12:16]), socket.inet_ntoa(ip[16:20]), *ports, udp[8:]))

    def grams(self):
        """What went to datagram-port; raises when a header or a CRC is wrong."""
        return [wire_ud.decode("seen: ", a, b, p) for a, b, _, to, p in list(self.udp) if to == PORT]

    def kinds(self):
        return {g.kind for g in self.grams()}

    def plain(self, port):
        """The lengths of the datagrams that went to and from the port as plain UDP."""
        return [len(p) for _, _, *ports, p in list(self.udp) if port in ports]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.s.close()


@contextlib.contextmanager
def hosts():
    """Two hosts: the namespaces of OURS and of KERNEL, and what comes in at OURS."""
    with two_hosts(OURS, KERNEL) as (a, b), Seen(a, "v0") as seen:
        yield a, b, seen


@contextlib.contextmanager
def peer_and(program, *argv, **how):
    """A peer in Python at KERNEL, and a program at OURS; to argv its address or the peer's port is added."""
    with hosts() as (a, b, _):
        peer = Peer(b)
        p = ours(a, *python(program, *[x(peer) if callable(x) else x for x in argv]), **how)
        yield peer, p
        p.stop()
