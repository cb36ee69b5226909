# SPDX-License-Identifier: BSD-3-Clause
"""
The devices under test: rnicd on taps, and Linux siw in a guest. Each serves the verbs program test/e2e/target.c. A row
names the set-up ("variant") that its device must have:

  plain     an initiator that asks for CRC where the device can, for no markers and for no peer-to-peer
  p2p       an initiator that asks for the peer-to-peer model
  markers   asks to receive markers
  nocrc     does not ask for CRC

With RNIC_DESIGN the program runs iWARP itself, with the same keys, over rnicd's TCP.
"""
import os
import socket
import threading
import time
import types

import wire
from rig import RNICD, Daemon, Skip

VARIANTS = {
    "plain": "peer-to-peer = off",
    "p2p": "peer-to-peer = on",
    "markers": "peer-to-peer = off\nmarkers = on",
    "nocrc": "peer-to-peer = off\ncrc = off",
}
PORT = 7000
DEPTH = 4  # IRD and ORD of the target's connections
RECEIVES = 4  # receives that the target posts for each connection
RECV_LEN = 4096


class Place:
    """
    The ends of one variant: the device's address, our address, the target program on the device, and our listening
    socket.
    """

    def __init__(self, addr, host, target):
        self.addr, self.host, self.target = addr, host, target
        self.ports = PORT
        self.listen("accept")
        self.s = socket.socket()
        self.s.bind((host, 0))
        self.s.listen(16)
        self.s.settimeout(wire.PATIENCE)

    def listen(self, how):
        """
        Makes the target listen at one more port. how: what the target does with requests, from now on at all ports.
        """
        self.ports += 1
        self.port = self.ports
        self.target.tell(f"listen {self.port} {RECEIVES} {DEPTH} {DEPTH} {how}")


class Keyed:
    """
    A daemon that adds this variant's keys to the environment of its programs: a program that runs iWARP itself takes
    the keys from there.
    """

    def __init__(self, daemon, keys):
        self.daemon, self.children, self.keys = daemon, daemon.children, keys

    def env(self):
        keys = self.keys.replace(" ", "").replace("\n", ";")
        return dict(self.daemon.env(), RNIC_EMBEDDED_KEYS=keys)


class Rnicd:
    name = "rnicd"
    settle = 0  # seconds between a Reply and the first FPDU

    def __init__(self):
        wire.own_network()
        if not os.path.exists("/dev/net/tun"):
            raise Skip("there is no /dev/net/tun here")
        self.boot()

    def boot(self):
        conf = "[rnicd]\nsocket = {dir}/rnicd.sock\nmemory = 512M\n"
        for i, (name, keys) in enumerate(VARIANTS.items()):
            conf += f"[port {name}]\ndevice = tap:rc{i}\nmac = 02:00:00:00:0c:{i + 1:02x}\n"
            conf += f"address = 10.79.{i}.1/24\nmin-rto = 50ms\n{keys}\n"
        self.daemon = Daemon(conf)
        for i in range(len(VARIANTS)):
            wire.tap_up(f"rc{i}", f"10.79.{i}.2")
        self.places = {}

    def place(self, variant):
        if variant not in self.places:
            i = list(VARIANTS).index(variant)
            addr = f"10.79.{i}.1"
            target = wire.Target(Keyed(self.daemon, VARIANTS[variant]), addr)
            self.places[variant] = Place(addr, f"10.79.{i}.2", target)
        return self.places[variant]

    @staticmethod
    def about():
        return wire.run(RNICD, "--version").strip().removeprefix("rnicd ")

    def restart(self):
        self.daemon.close()
        self.boot()

    def close(self):
        with self.daemon:
            for p in self.places.values():
                p.target.stop()


class GuestTarget(wire.Target):
    """The target program in the guest; its stdin and stdout are carried by a TCP connection."""

    CONTROL = 99

    def __init__(self, guest, addr):  # pylint: disable=super-init-not-called
        self.name, self.argv, self.err = "target", ["target", addr], []
        self.out, self.mr, self.seen = [], {}, 0
        self.keep = guest.run(f"mkfifo /tmp/t; target {addr} </tmp/t 2>&1 | nc -l -p {self.CONTROL} >/tmp/t")
        self.s = self.connect(addr)
        self.p = types.SimpleNamespace(stdin=self.s.makefile("w"), poll=lambda: None)
        threading.Thread(target=self._drain, args=(self.s.makefile(errors="replace"), self.out), daemon=True).start()
        self.expect("ready")
        for line in self.out:
            w = line.split()
            if w[0] == "mr":
                self.mr[w[1]] = (int(w[2]), int(w[3]), int(w[4]))

    def connect(self, addr):
        """Connects to the target's nc in the guest, as soon as nc listens."""
        for _ in range(200):
            try:
                s = socket.create_connection((addr, self.CONTROL), timeout=5)
                s.settimeout(None)
                return s
            except OSError:
                time.sleep(0.05)
        raise AssertionError("the target in the guest does not listen")

    def tail(self, n=25):
        return "\n".join(self.out[-n:])


class Siw:
    name = "siw"
    settle = 0.1  # siw sends its Reply before it looks for FPDUs on the socket

    def __init__(self):
        try:
            import guest  # pylint: disable=import-outside-toplevel
        except ImportError:
            raise Skip("the folder test/interop is missing") from None
        self.module = guest
        self.boot()

    def boot(self):
        self.guest = self.module.Guest(self.module.built("test/conformance/target-verbs"))
        self.variant, self.only = None, None

    def place(self, variant):
        if variant != self.variant:
            self.guest.siw(peer_to_peer=int(variant == "p2p"))
            self.variant = variant
        if self.only is None:
            addr = self.module.GUEST
            self.only = Place(addr, self.module.HOST, GuestTarget(self.guest, addr))
        return self.only

    def about(self):
        release, version = self.guest.sh("uname -r; uname -v").strip().splitlines()[:2]
        return f"Linux {version.split('Debian ')[-1].split()[0]} ({release})"

    def restart(self):
        self.close()
        self.boot()

    def close(self):
        self.guest.close()


DUTS = {"rnicd": Rnicd, "siw": Siw}
