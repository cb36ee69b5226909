#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Ports of kind host on one end of a veth pair: against the kernel's TCP at the other end and against another daemon;
large segments in both directions, loss, VLAN tags, a sleeping worker, a cable that is pulled, malformed frames.
"""
import contextlib
import json
import socket
import struct
import sys

import wire
from nets import KERNEL, OURS, In, conf, netns, ping, sh, veth, wait_for, wait_said
from rig import RNICRUN, TESTPMD, Daemon, Skip, case, main, need, until
from shark import fields
from sock_rig import SEND, SERVE, kernels, ours, port_of, python

BYTES = 20_000_000
VNET_HDR = 15  # PACKET_VNET_HDR, linux/if_packet.h


@contextlib.contextmanager
def wired(extra="", rnicd=""):
    """A daemon with a host port on v1; the kernel has v0, with an address."""
    with veth() as ns:
        sh("ip", "-n", ns, "addr", "add", f"{KERNEL}/24", "dev", "v0")
        text = conf("host:v1", extra).replace("hugepages = no", f"hugepages = no\n{rnicd}")
        with Daemon(text, netns=ns) as d:
            yield ns, d


def stats(d, port="a"):
    return d.telemetry(f"/rnic/ports,{port}")


def frames_at(ns, dev):
    """How many frames the kernel has received at the interface."""
    return json.loads(sh("ip", "-n", ns, "-s", "-j", "link", "show", dev).stdout)[0]["stats64"]["rx"]["packets"]


def both_ways(ns, d, n=BYTES, at=KERNEL):
    s = kernels(d, *python(SERVE, at, 0, 1), netns=ns)
    ours(d, *python(SEND, at, port_of(s), 2, n), netns=ns).ok()
    s.ok()
    s = ours(d, *python(SERVE, OURS, 0, 1), netns=ns)
    kernels(d, *python(SEND, OURS, port_of(s), 3, n), netns=ns).ok()
    s.ok()


@case
def the_kernels_ping_is_answered():
    with wired() as (ns, d):
        for size in ("0", "1", "56", "1472"):
            out = ping(ns, "-c", "4", "-s", size)
            assert out.returncode == 0 and " 0% packet loss" in out.stdout, out.stdout + out.stderr
        assert stats(d)["icmp_echo"] == 16


@case
def large_segments_cross_in_both_directions():
    with wired() as (ns, d):
        s = kernels(d, *python(SERVE, KERNEL, 0, 1), netns=ns)
        before = frames_at(ns, "v0")
        ours(d, *python(SEND, KERNEL, port_of(s), 2, BYTES), netns=ns).ok()
        s.ok()
        st = stats(d)
        assert st["tx_bytes"] > BYTES and st["tx_packets"] > 2 * (frames_at(ns, "v0") - before), st
        s = ours(d, *python(SERVE, OURS, 0, 1), netns=ns)
        kernels(d, *python(SEND, OURS, port_of(s), 3, BYTES), netns=ns).ok()
        s.ok()
        now = stats(d)
        more = {k: now[k] - st[k] for k in ("rx_bytes", "rx_packets")}
        assert more["rx_bytes"] > BYTES and more["rx_bytes"] > 3000 * more["rx_packets"], more
        assert now["rx_bad"] == now["rx_bad_csum"] == 0, now


@case
def computed_checksums_agree_with_those_left_out():
    """The port verifies every checksum. The kernel first leaves checksums out of its frames, then computes them."""
    need("ethtool")
    with wired("verify-checksums = yes") as (ns, d):
        both_ways(ns, d)
        sh("ip", "netns", "exec", ns, "ethtool", "-K", "v0", "tx", "off", "tso", "off", "gso", "off")
        both_ways(ns, d)
        st = stats(d)
        assert st["rx_bad"] == st["rx_bad_csum"] == 0, st


@case
def streams_survive_loss():
    with wired("loss = 0.01\nreorder = 0.01\ndelay = 100us") as (ns, d):
        both_ways(ns, d, 2_000_000)
        assert stats(d)["impair_lost"] > 0


@case
def several_workers_share_the_interface():
    with wired(rnicd="workers = 0,0") as (ns, d):
        for _ in range(4):
            both_ways(ns, d, 1_000_000)
        assert stats(d)["rx_bad_csum"] == 0


@case
def tags_are_kept():
    with wired("vlan = 5") as (ns, d):
        sh("ip", "-n", ns, "addr", "flush", "dev", "v0")
        if sh("ip", "-n", ns, "link", "add", "link", "v0", "name", "v0.5", "type", "vlan", "id", "5",
              check=False).returncode != 0:
            raise Skip("this kernel has no VLAN interfaces")
        sh("ip", "-n", ns, "addr", "add", f"{KERNEL}/24", "dev", "v0.5")
        sh("ip", "-n", ns, "link", "set", "v0.5", "up")
        assert ping(ns, "-c", "2").returncode == 0
        both_ways(ns, d, 2_000_000)
        assert stats(d)["rx_bad"] == 0


@case
def a_tag_that_the_kernel_takes_off_is_put_back():
    """
    An ARP request with the port's VLAN tag is answered, one without the tag is not. The kernel takes the tag out of a
    received frame and hands it over beside the frame.
    """
    with wired("vlan = 5") as (ns, d):
        def ask(tag):
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as s:
                s.bind(("v0", 0x0806))
                arp = struct.pack("!HHBBH6s4s6s4s", 1, 0x0800, 6, 4, 1, b"\2" * 6, socket.inet_aton(KERNEL), bytes(6),
                                  socket.inet_aton(OURS))
                s.send(b"\xff" * 6 + b"\2" * 6 + tag + b"\x08\x06" + arp + bytes(18))

        before = stats(d)
        In(ns).run(lambda: ask(b""))
        until(lambda: stats(d)["rx_not_ours"] > before["rx_not_ours"], d.tail)
        In(ns).run(lambda: ask(b"\x81\x00\x00\x05"))
        until(lambda: stats(d)["arp_tx"] > before["arp_tx"], d.tail)


@case
def captured_large_segments_have_their_checksums():
    with wired("capture = {dir}/a.pcapng") as (ns, d):
        both_ways(ns, d, 2_000_000)
        d.end()
        rows = fields(d.dir + "/a.pcapng", "frame.len", "tcp.checksum.status", of="tcp",
                      options=("-o", "tcp.check_checksum:TRUE"))
        assert any(int(r[0]) > 20_000 for r in rows), len(rows)
        assert all(r[1] == "1" for r in rows), [r for r in rows if r[1] != "1"][:5]


@case
def a_sleeping_worker_is_woken():
    with wired(rnicd="poll = adaptive") as (ns, d):
        assert ping(ns, "-c", "3", "-i", "0.5").returncode == 0
        both_ways(ns, d, 1_000_000)


@case
def the_interface_goes_and_comes_back():
    with wired() as (ns, d):
        sh("ip", "-n", ns, "link", "set", "v0", "down")
        wait_said(d, "port a: link down: the interface v1 is down or has no carrier")
        sh("ip", "-n", ns, "link", "set", "v0", "up")
        wait_said(d, "port a: link up")
        wait_for(lambda: ping(ns, "-c", "1", patience=2).returncode == 0, d.tail())
        sh("ip", "-n", ns, "link", "del", "v1")
        wait_said(d, "port a: link down: the interface v1 is gone")
        sh("ip", "-n", ns, "link", "add", "v0", "type", "veth", "peer", "name", "v1")
        for dev in ("v0", "v1"):
            sh("ip", "-n", ns, "link", "set", dev, "up")
        sh("ip", "-n", ns, "addr", "add", f"{KERNEL}/24", "dev", "v0")
        wait_said(d, "port a: link up", 2)
        wait_for(lambda: ping(ns, "-c", "1", patience=2).returncode == 0, d.tail())


@case
def a_sum_at_a_wrong_place_is_refused():
    """
    A neighbour's frames say that their checksum is left out, and place it where no TCP checksum is: rnicd counts and
    drops each frame.
    """
    with wired() as (ns, d):
        def send():
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as s:
                s.setsockopt(263, VNET_HDR, 1)  # SOL_PACKET
                s.bind(("v0", 0x0800))
                ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 44, 0, 0x4000, 64, 6, 0, socket.inet_aton(KERNEL),
                                 socket.inet_aton(OURS))
                frame = b"\xff" * 6 + b"\2" * 6 + b"\x08\x00" + ip + bytes(24)
                for start, off in ((30, 16), (34, 6), (20, 0)):
                    s.send(struct.pack("=BBHHHH", 1, 0, 0, 0, start, off) + frame)

        assert ping(ns, "-c", "1").returncode == 0
        before = stats(d)["rx_bad"]
        In(ns).run(send)
        until(lambda: stats(d)["rx_bad"] == before + 3, d.tail)
        assert ping(ns, "-c", "1").returncode == 0


class Stranger:
    """A host at the kernel's end of the veth pair, of which the kernel knows nothing."""

    IP, MAC = "10.79.0.77", b"\2\0\0\0\0\x77"

    def __init__(self):
        self.f = wire.Frames("v0")
        self.arp(1, b"\xff" * 6, OURS)
        self.mac = self.f.get(lambda f: f[12:14] == b"\x08\x06" and f[21] == 2)[22:28]

    def arp(self, op, mac, ip):
        here, there = socket.inet_aton(self.IP), socket.inet_aton(ip)
        said = struct.pack("!HHHBBH6s4s6s4s", 0x806, 1, 0x800, 6, 4, op, self.MAC, here, mac, there)
        self.f.put(mac + self.MAC + said)

    def send(self, sport, **more):
        self.f.put(wire.tcp_frame(self.mac, self.MAC, self.IP, OURS, sport, 18600, **more))

    def answers(self, sport):
        """For Frames.get(): whether the frame is a SYN-ACK. Answers ARP requests meanwhile."""
        def match(f):
            if f[12:14] == b"\x08\x06" and f[21] == 1 and f[38:42] == socket.inet_aton(self.IP):
                self.arp(2, self.mac, OURS)
            return f[12:14] == b"\x08\x00" and f[23] == 6 and f[36:38] == struct.pack("!H", sport) and f[47] == 0x12
        return match

    def leave_a_hole(self, sport, n):
        """Connects, and sends n segments of 60,000 bytes behind a missing byte."""
        self.send(sport, seq=999, options=b"\x02\x04\x05\xb4\x01\x03\x03\x07")
        f = self.f.get(self.answers(sport))
        ack = struct.unpack_from("!I", f, 38)[0] + 1
        for i in range(n):
            self.send(sport, seq=1001 + 60000 * i, ack=ack, flags=0x10, data=bytes(60000))


@case
def strangers_do_not_take_all_large_buffers():
    """Connections that are never set up hold large segments behind a hole. Others' large segments are received."""
    def strangers():
        s = Stranger()
        for sport in range(20000, 20024):
            s.leave_a_hole(sport, 16)

    with veth(65000) as ns:
        sh("ip", "-n", ns, "addr", "add", f"{KERNEL}/24", "dev", "v0")
        with Daemon(conf("host:v1", "mtu = 1500"), netns=ns) as d:
            d.run(TESTPMD, "-s", "-a", OURS).wait_line("listening")
            In(ns).run(strangers)
            until(lambda: stats(d)["no_buffer"] > 0, d.tail)
            before = stats(d)
            s = ours(d, *python(SERVE, OURS, 0, 1), netns=ns)
            kernels(d, *python(SEND, OURS, port_of(s), 3, 2_000_000), netns=ns).ok()
            s.ok()
            after = stats(d)
            assert after["no_buffer"] == before["no_buffer"], (before, after)
            n = after["rx_packets"] - before["rx_packets"]
            assert after["rx_bytes"] - before["rx_bytes"] > 3000 * n, "the segments were not large"


@case
def two_daemons():
    with netns("a") as a, netns("b") as b:
        sh("ip", "link", "add", "v1", "netns", a, "type", "veth", "peer", "name", "v1", "netns", b)
        for ns in (a, b):
            sh("ip", "-n", ns, "link", "set", "v1", "up")
        other = conf("host:v1").replace(OURS, KERNEL)
        with Daemon(conf("host:v1"), netns=a) as x, Daemon(other, netns=b) as y:
            server = x.run(TESTPMD, "-s", "-a", OURS, "--once")
            server.wait_line("listening")
            y.run(TESTPMD, "--mode", "write_bw", "--sizes", "65536", "--iters", "500", OURS).ok()
            server.ok()
            st = stats(x)
            assert st["rx_bytes"] > 3000 * st["rx_packets"] and st["rx_bad"] == st["rx_bad_csum"] == 0, st


@case
def an_embedded_program_at_the_kernels_end():
    with wired() as (ns, d):
        server = d.run("ip", "netns", "exec", ns, TESTPMD, "-s", "-a", OURS, "--once")
        server.wait_line("listening")
        kernels(d, "env", "-u", "RNICD_SOCKET", RNICRUN, "--embedded", TESTPMD, "--mode", "write_bw", "--sizes",
                "65536", "--iters", "500", OURS, netns=ns).ok()
        server.ok()
        st = stats(d)
        assert st["rx_bytes"] > 3000 * st["rx_packets"] and st["rx_bad"] == st["rx_bad_csum"] == 0, st


def fails(text, device, ns, under=()):
    try:
        with Daemon(conf(device), netns=ns, under=under):
            pass
    except AssertionError as e:
        assert text in str(e), e
    else:
        raise AssertionError("the daemon has started")


@case
def what_is_missing_is_named():
    need("setpriv")
    with netns() as ns:
        fails("there is no interface nobody", "host:nobody", ns)
        fails("a packet socket takes CAP_NET_RAW", "host:lo", ns,
              under=("setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw"))


if __name__ == "__main__":
    sys.exit(main())
