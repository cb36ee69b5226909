#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
marker-spacing: where MPA markers stand in each design, as a peer in Python inserts and removes them; and what is told
when the two ends have different spacings.
"""
import contextlib
import hashlib
import os
import struct
import sys

import wire
from rig import Daemon, Skip, case, main, until
from wire import C, HOST, M, S, WRITE, Closed, Peer, Target, crc32c, send, tagged

PORT = 7000
DATA = hashlib.shake_256(b"spacing").digest(30000)
DESIGNS = ("offloaded", "assisted", "host", "embedded")
SPACINGS = {"512": 512, "1024": 1024, "2048": 2048, "4096": 4096, "none": 0}


class Place:
    """Offers what Target uses of a daemon; the programs run in one design, with the same marker spacing as the daemon's
    port."""

    def __init__(self, d, design, keys):
        self.children, self.sock, self.design, self.keys = d.children, d.sock, design, keys
        self.addr = HOST if design == "embedded" else wire.ADDR

    def env(self):
        return dict(os.environ, RNICD_SOCKET=self.sock, RNIC_DESIGN=self.design, RNIC_EMBEDDED_KEYS=self.keys)


class Marked(Peer):
    """A peer that inserts a marker every `step` octets of Full Operation, and removes the other side's markers."""

    def __init__(self, step, **how):
        self.step, self.sent, self.got = step, 0, 0
        super().__init__(**how)

    def put(self, *ulpdus, **how):
        self.raw(b"".join(self.marked(u) for u in ulpdus))

    def marked(self, ulpdu):
        plain = struct.pack(">H", len(ulpdu)) + ulpdu
        plain += b"\0" * (-len(plain) % 4)
        out, length_at = b"", None
        for i in range(0, len(plain) + 4, 4):
            if self.step and (self.sent + len(out)) % self.step == 0:
                out += struct.pack(">HH", 0, 0 if length_at is None else len(out) - length_at)
            if length_at is None:
                length_at = len(out)
            out += plain[i:i + 4]
        out += struct.pack("<I", crc32c(out))
        self.sent += len(out)
        return out

    def get(self):
        """The next ULPDU. Each marker must be at its place and point to the FPDU's length field."""
        raw, plain, length_at = b"", b"", None
        while length_at is None or len(plain) < 2 + n + (-(2 + n) % 4) + 4:
            four = self.take(4)
            if self.step and (self.got + len(raw)) % self.step == 0:
                ptr = 0 if length_at is None else len(raw) - length_at
                assert four == struct.pack(">HH", 0, ptr), (self.got + len(raw), four, ptr)
            else:
                if length_at is None:
                    length_at, n = len(raw), struct.unpack(">H", four[:2])[0]
                plain += four
            raw += four
        assert struct.unpack("<I", raw[-4:])[0] == crc32c(raw[:-4]), "an FPDU from the device has a bad CRC"
        self.got += len(raw)
        return plain[2:2 + n]

    def message(self):
        """Reads up to the last segment of a message; returns the message's payload, with untagged or tagged headers
        removed."""
        data = b""
        while True:
            u = self.get()
            data += u[14:] if u[0] & 0x80 else u[18:]
            if u[0] & 0x40:
                return data


def each_design(spacing, job):
    """For each design: starts a daemon whose port has this marker spacing, and runs job(daemon, place)."""
    if not os.path.exists("/dev/net/tun"):
        raise Skip("there is no /dev/net/tun here")
    for design in DESIGNS:
        d = Daemon(wire.TAP_CONF + f"markers = on\nmarker-spacing = {spacing}\n")
        try:
            wire.tap_up()
            job(d, Place(d, design, f"markers=on marker-spacing={spacing}"))
        finally:
            d.end()
            d.close()


def begin(place, step):
    t = Target(place, place.addr)
    t.tell(f"listen {PORT} 4 4 4")
    p = Marked(step, port=PORT, addr=place.addr)
    at = t.mark()
    flags, _, _ = p.hello(flags=C | S | M, priv=b"spacing")
    assert flags & M, "the device does not ask for markers"
    return t, p, t.event("CONNECT_REQUEST", at, b"spacing"), at


def markers_stand_at(spacing):
    def job(_, place):
        t, p, number, at = begin(place, SPACINGS[spacing])
        stag, base, _ = t.mr["rw"]
        before = t.sum("rw")
        p.put(*[tagged(WRITE, stag, base + n, DATA[n:n + 1003], n + 1003 >= 30000) for n in range(0, 30000, 1003)])
        p.put(send(1, b"written"))
        t.expect(f"wc {number} ", at)
        assert t.sum("rw") != before
        for command, n in ((f"send {number} 3000", 3000), (f"write {number} 29999 {0x777702} {0x10000}", 29999),
                           (f"send {number} 1", 1)):
            t.say(command)
            assert len(p.message()) == n
        p.close()
        t.say("quit")
        t.wait()

    each_design(spacing, job)


@case
def markers_at_each_512():
    markers_stand_at("512")


@case
def markers_at_each_1024():
    markers_stand_at("1024")


@case
def markers_at_each_2048():
    markers_stand_at("2048")


@case
def markers_at_each_4096():
    markers_stand_at("4096")


@case
def no_markers_though_they_were_asked_for():
    markers_stand_at("none")


def named(mine, peers):
    """The peer sends FPDUs with its own spacing. The first one that differs from this side's spacing must end the
    connection, and the log must name the spacing."""
    def job(d, place):
        t, p, _, _ = begin(place, SPACINGS[peers])
        stag, base, _ = t.mr["rw"]
        # each FPDU is one segment: an FPDU that is incomplete cannot be tested against other spacings
        for n in (20, 1400, 1400, 1400, 1400):
            with contextlib.suppress(ConnectionError):  # the other side may have ended the connection already
                p.put(tagged(WRITE, stag, base, DATA[:n]))
        log = t.stderr if place.design != "offloaded" else d.stderr
        until(lambda: f"marker-spacing = {peers}" in log() or f" or {peers}" in log(), lambda: log() or "no log line")
        try:
            while True:
                p.need(1 << 20)
        except Closed:
            pass
        p.close()
        t.say("quit")
        t.wait()

    each_design(mine, job)


@case
def another_spacing_of_the_peer_is_named():
    for mine, peers in (("512", "1024"), ("4096", "512"), ("none", "2048"), ("1024", "none")):
        named(mine, peers)


wire.own_network()
sys.exit(main())
