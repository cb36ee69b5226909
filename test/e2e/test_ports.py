#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Ports against the host's kernel and against another daemon: tap, af_packet, memif; ping, resets, fragments, captures,
peers that speak no MPA, a SYN flood. All of it runs in network namespaces made here.
"""
import contextlib
import errno
import os
import signal
import socket
import struct
import sys
import threading
import time

import wire_check
import xrc_rig
from nets import OURS, KERNEL, In, conf, netns, ping, sh, tap, veth
from rig import PATIENCE, TESTPMD, Daemon, Skip, Soak, bytes_in, case, main, memif_conf, need, pair_conf, until
from shark import fields


def connect(port, timeout=5):
    s = socket.socket()
    s.settimeout(timeout)
    s.connect((OURS, port))
    return s


def stats(d):
    return d.telemetry("/rnic/ports,a")


@case
def tap_answers_the_kernels_ping():
    with tap() as (ns, d):
        for size in ("0", "1", "56", "1472"):
            out = ping(ns, "-c", "4", "-s", size)
            assert out.returncode == 0 and " 0% packet loss" in out.stdout, out.stdout + out.stderr
        assert stats(d)["icmp_echo"] == 16
        neigh = sh("ip", "-n", ns, "neigh", "show", OURS).stdout
        assert "lladdr" in neigh, neigh


@case
def fragments_are_dropped_and_counted():
    with tap() as (ns, d):
        assert ping(ns, "-c", "1").returncode == 0
        assert ping(ns, "-c", "2", "-s", "3000", patience=2).returncode != 0
        assert ping(ns, "-c", "1").returncode == 0
        assert stats(d)["rx_fragments"] == 6


@case
def closed_tcp_port_resets():
    with tap() as (ns, d):
        try:
            In(ns).run(lambda: connect(4711))
        except ConnectionRefusedError:
            pass
        else:
            raise AssertionError("the port has a listener")
        assert stats(d)["rx_no_flow"] >= 1


@case
def strangers_who_talk_no_mpa():
    """The kernel's TCP connects to a listener and sends garbage, nothing, or half a frame. Each connection is ended;
    the daemon goes on."""
    def talk(data):
        s = connect(18600)
        try:
            s.sendall(data)
            s.settimeout(30)
            while s.recv(4096):
                pass
            return "closed"
        except OSError as e:
            assert e.errno in (errno.ECONNRESET, errno.EPIPE), e
            return "reset"
        finally:
            s.close()

    key = b"MPA ID Req Frame"
    with tap() as (ns, d):
        server = d.run(TESTPMD, "-s", "-a", OURS)
        server.wait_line("listening")
        for data in (b"GET / HTTP/1.0\r\n\r\n" * 4, key + b"\x40\x00\x00\x00", key + b"\x40\x03\x00\x00",
                     key + b"\x40\x01\x02\x01" + bytes(513), key + b"\x50\x02\x00\x03abc", os.urandom(4000)):
            assert In(ns).run(lambda data=data: talk(data)) in ("closed", "reset")
        assert ping(ns, "-c", "1").returncode == 0
        assert d.alive() and server.p.poll() is None
        server.stop()


def checksum(data):
    s = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while s >> 16:
        s = (s >> 16) + (s & 0xffff)
    return ~s & 0xffff


def syn(mac, own, src, port, seq):
    sa, da = socket.inet_aton(src), socket.inet_aton(OURS)
    tcp = struct.pack("!HHIIBBHHH", port, 18600, seq, 0, 0x50, 2, 65535, 0, 0)
    tcp = tcp[:16] + struct.pack("!H", checksum(sa + da + struct.pack("!HH", 6, 20) + tcp)) + tcp[18:]
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 40, 0, 0x4000, 64, 6, 0) + sa + da
    ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
    return mac + own + b"\x08\x00" + ip + tcp


@case
def syn_flood_does_not_shut_out_the_honest():
    with tap() as (ns, d):
        server = d.run(TESTPMD, "-s", "-a", OURS)
        server.wait_line("listening")
        assert ping(ns, "-c", "1").returncode == 0
        mac = bytes.fromhex(sh("ip", "-n", ns, "neigh", "show", OURS).stdout.split("lladdr ")[1][:17].replace(":", ""))
        sent = []

        def flood(n):
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
                raw.bind(("rt0", 0))
                own = raw.getsockname()[4]
                for i in range(n):
                    # 40 source addresses, which answer ARP only through this host, and many ports
                    raw.send(syn(mac, own, f"10.79.0.{10 + i % 40}", 1024 + i % 60000, i))
                    if i % 50 == 0:
                        time.sleep(0.001)
            sent.append(n)

        t = threading.Thread(target=lambda: In(ns).run(lambda: flood(20000)))
        t.start()
        until(lambda: stats(d)["syn_cookies"] > 1000, "rnicd sends no SYN cookies")
        for _ in range(5):
            In(ns).run(lambda: connect(18600, 10)).close()
        t.join(PATIENCE)
        assert sent and d.alive()
        assert stats(d)["syn_cookies"] > 1000
        assert ping(ns, "-c", "1").returncode == 0
        server.stop()


def pings_in(path):
    """Number of ICMP frames in a capture that is still being written."""
    try:
        return sum(f[12:14] == b"\x08\x00" and f[23] == 1 for f in wire_check.frames(path))
    except (wire_check.WireError, struct.error):
        return 0


@case
def capture_is_a_sound_file():
    need("tshark")
    with tap("capture = {dir}/a.pcapng") as (ns, d):
        assert ping(ns, "-c", "3").returncode == 0
        assert ping(ns, "-c", "1", "-s", "1472").returncode == 0
        path = os.path.join(d.dir, "a.pcapng")
        assert os.stat(path).st_mode & 0o077 == 0, "other users may read the capture"
        until(lambda: pings_in(path) == 8, "the idle capture writer has not written all pings to the file")
        rows = fields(path, "frame.packet_flags_direction", "icmp.type", "icmp.checksum.status", "frame.len", "arp.opcode",
                      "_ws.malformed", "ip.checksum.status", options=("-o", "ip.check_checksum:TRUE"))
        assert not any(r[5] for r in rows), rows
        echo = [(r[0], r[1], r[2], r[3]) for r in rows if r[1] in ("0", "8") and r[1]]
        # third column, direction: 1 is in, 2 is out; fifth column, status: 1 is good
        want = [("1", "8", "1", "98"), ("2", "0", "1", "98")] * 3 + [("1", "8", "1", "1514"), ("2", "0", "1", "1514")]
        numbers = [(str(int(a, 0)), b, c, e) for a, b, c, e in echo]
        assert numbers == want, rows
        assert [r[4] for r in rows if r[4]].count("2") >= 1, rows
        stamps = fields(path, "frame.time_epoch")
        assert abs(float(stamps[-1][0]) - time.time()) < 600


@case
def af_packet_answers_the_kernels_ping():
    for mtu in (1500, 9000):
        with veth(mtu) as ns:
            sh("ip", "-n", ns, "addr", "add", f"{KERNEL}/24", "dev", "v0")
            with Daemon(conf("af_packet:v1", f"mtu = {mtu}"), netns=ns) as d:
                for size in ("56", str(mtu - 28)):
                    out = ping(ns, "-c", "4", "-M", "do", "-s", size)
                    assert out.returncode == 0 and " 0% packet loss" in out.stdout, out.stdout + out.stderr
                assert stats(d)["icmp_echo"] == 8


def between_daemons(conf_a, conf_b, ns=None, mode="write_bw"):
    with Daemon(conf_a, netns=ns) as a, Daemon(conf_b.replace("{peer}", a.dir), netns=ns) as b:
        server = a.run(TESTPMD, "-s", "-a", OURS, "--once")
        server.wait_line("listening")
        out = b.run(TESTPMD, "-m", mode, "-S", "1,4k,100k", "-n", "200", OURS).ok()
        server.ok()
        assert out.count("verified") == 3, out


@case
def two_daemons_over_memif():
    """Buffers that are smaller than a frame are made as large as a frame."""
    for mtu, given in ((1500, ""), (9000, ""), (9000, ",bsize=16384"), (1500, ",bsize=1024")):
        a = conf("memif:role=server,id=0,socket-abstract=no,socket={dir}/memif.sock" + given, f"mtu = {mtu}")
        b = conf("memif:role=client,id=0,socket-abstract=no,socket={peer}/memif.sock" + given, f"mtu = {mtu}")
        between_daemons(a, b.replace(OURS, "10.79.0.3"))


@case
def a_daemon_that_did_not_run_takes_its_own_absence_for_no_loss():
    """
    128 queue pairs over a link that loses nothing. The sender's daemon is stopped for longer than the retransmission
    timeout; meanwhile the ACKs arrive. When the daemon goes on, no timer may go off before it has read these ACKs. The
    timeout is so long that the other daemon may wait for a CPU. Without SACK (out-of-order = drop) there are no tail
    loss probes, which would come before the timeout whenever the other daemon waits.
    """
    keys = "min-rto = 2s\nout-of-order = drop"
    a = memif_conf("server", "{dir}/memif.sock", "10.77.0.1", keys)
    b = memif_conf("client", "{peer}/memif.sock", "10.77.0.2", keys)
    with Daemon(a) as da, Daemon(b.replace("{peer}", da.dir)) as db:
        da.run(TESTPMD, "-s", "-a", "10.77.0.1").wait_line("listening")
        db.run(TESTPMD, "-S", "4k", "--qps", "128", "--depth", "8", "--seconds", "600", "--no-verify", "10.77.0.1")
        for _ in range(3):
            before = sum(bytes_in(da, 18600))
            until(lambda: len(bytes_in(da, 18600)) > 128 and sum(bytes_in(da, 18600)) > before + 10e6, "no data moves")
            db.p.send_signal(signal.SIGSTOP)
            time.sleep(3)
            db.p.send_signal(signal.SIGCONT)
        conns = [db.telemetry(f"/rnic/conns,{line.split()[0]}") for line in db.telemetry("/rnic/conns")]
        assert len(conns) > 128 and not any(c["rtos"] for c in conns), [c["rtos"] for c in conns]


@case
def pacing_reaches_the_connections_of_its_port_alone():
    with Daemon(pair_conf(both="delay = 1ms", a="pacing = on")) as d:
        d.run(TESTPMD, "-s", "-a", "10.77.0.2").wait_line("listening")
        soak = Soak(d, "10.77.0.2", 18600)
        conns = [d.telemetry(f"/rnic/conns,{line.split()[0]}") for line in d.telemetry("/rnic/conns")]
        a, b = ([c["pace"] for c in conns if c["name"][:2] == end and c["srtt_ns"] != 0] for end in ("a ", "b "))
        assert a and all(a) and b and not any(b), (a, b)
        soak.end()


@case
def two_daemons_over_veth():
    for mtu in (1500, 9000):
        with veth(mtu) as ns:
            a, b = (conf(f"af_packet:{dev}", f"mtu = {mtu}") for dev in ("v0", "v1"))
            between_daemons(a, b.replace(OURS, "10.79.0.3"), ns)


@case
def two_daemons_over_pcap():
    """A port of DPDK's pcap driver receives only frames that arrive at the interface, not frames sent through it."""
    with veth() as ns:
        a, b = (conf(f"pcap:rx_iface_in={dev},tx_iface={dev}", "mtu = 1500") for dev in ("v0", "v1"))
        between_daemons(a, b.replace(OURS, "10.79.0.3"), ns)


@case
def frames_of_a_worker_without_a_queue_are_captured_and_counted_once():
    """A port of the pcap driver has one queue, which is the first worker's. The second worker sends through it."""
    def refusals():
        n = 0
        for port in range(5000, 5040):
            try:
                connect(port).close()
            except ConnectionRefusedError:
                n += 1
        return n

    need("ethtool")
    with veth() as ns:
        sh("ip", "-n", ns, "addr", "add", f"{KERNEL}/24", "dev", "v0")
        sh("ip", "netns", "exec", ns, "ethtool", "-K", "v0", "tx", "off")
        text = conf("pcap:rx_iface_in=v1,tx_iface=v1", "mtu = 1500\ncapture = {dir}/a.pcapng", "workers = 0,0")
        with Daemon(text, netns=ns) as d:
            assert In(ns).run(refusals) == 40
            sent = stats(d)["tx_packets"]
            d.end()
            frames = list(wire_check.frames(os.path.join(d.dir, "a.pcapng")))
            resets = [f[34:38] for f in frames if f[12:14] == b"\x08\x00" and f[23] == 6 and f[47] & 4]
            mac = next(f[6:12] for f in frames if f[12:14] == b"\x08\x00" and f[47] & 4)
            ours = sum(f[6:12] == mac for f in frames)
            assert len(resets) == len(set(resets)) == 40 and sent == ours, (len(resets), sent, ours)


@case
def the_dead_peer_of_an_idle_connection_is_noticed():
    with veth() as ns:
        a, b = (conf(f"af_packet:{dev}", "keepalive = 300ms") for dev in ("v0", "v1"))
        with Daemon(a, netns=ns) as da, contextlib.closing(Daemon(b.replace(OURS, "10.79.0.3"), netns=ns)) as db:
            server = da.run(TESTPMD, "-s", "-a", OURS)
            server.wait_line("listening")
            db.run(TESTPMD, "--mode", "idle", "--qps", "4", "--seconds", "600", OURS)
            until(lambda: len(da.telemetry("/rnic/conns")) >= 4, "rnicd does not have four connections")
            db.stop(signal.SIGKILL)
            until(lambda: not da.telemetry("/rnic/conns"), "connections to a dead host have not ended")


def without_cm(da, db, dev_b):
    """Connects a queue pair of device a of da with one of dev_b of db by ibv_modify_qp alone, and sends one message."""
    target, initiator = xrc_rig.End(da, "a"), xrc_rig.End(db, dev_b)
    for e in (target, initiator):
        e.do("open", "-", "c")
    srqn = target.number("srq")
    target.do("recv", 0)
    xrc_rig.connect((initiator, initiator.number("ini")), (target, target.number("target")))
    initiator.do("send", srqn, 100, 7)
    assert initiator.done()[0] == 0 and target.done()[0] == 0


@case
def the_dead_peer_of_an_idle_queue_pair_without_rdma_cm_is_noticed():
    with veth() as ns:
        a, b = (conf(f"af_packet:{dev}", "keepalive = 300ms") for dev in ("v0", "v1"))
        with Daemon(a, netns=ns) as da, contextlib.closing(Daemon(b.replace(OURS, "10.79.0.3"), netns=ns)) as db:
            without_cm(da, db, "a")
            assert len(da.telemetry("/rnic/conns")) == 1
            db.stop(signal.SIGKILL)
            until(lambda: not da.telemetry("/rnic/conns"), "the connection to a dead host has not ended")


@case
def queue_pairs_without_rdma_cm_have_a_keepalive_by_default():
    with Daemon(pair_conf()) as d:
        without_cm(d, d, "b")
        d.run(TESTPMD, "-s", "-a", "10.77.0.2").wait_line("listening")
        d.run(TESTPMD, "--mode", "idle", "--seconds", "600", "10.77.0.2")
        until(lambda: len(d.telemetry("/rnic/conns")) >= 4, "rnicd does not have the four ends of two connections")
        conns = [d.telemetry(f"/rnic/conns,{line.split()[0]}") for line in d.telemetry("/rnic/conns")]
        assert {c["keepalive_ns"] for c in conns if ":4791" in c["name"]} == {60 * 10**9}, conns
        assert {c["keepalive_ns"] for c in conns if ":18600" in c["name"]} == {0}, conns


def over_a_narrow_path(mtu, tells):
    """
    Two daemons, and between them the kernel as a router whose link to one of them takes packets of `mtu` bytes; the
    router tells this by ICMP or not (tells). The other daemon's segments of 1,500 bytes must get through all the same.
    """
    with netns() as ns:
        if not os.path.exists("/dev/net/tun"):
            raise Skip("this kernel has no tun device")
        sh("ip", "netns", "exec", ns, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        a = conf("tap:rt0", "gateway = 10.79.0.1")
        b = conf("tap:rt1", "gateway = 10.80.0.1").replace(OURS, "10.80.0.2")
        with Daemon(a, netns=ns) as da, Daemon(b, netns=ns) as db:
            for dev, addr, takes in (("rt0", KERNEL, 1500), ("rt1", "10.80.0.1", mtu)):
                sh("ip", "-n", ns, "addr", "add", f"{addr}/24", "dev", dev)
                sh("ip", "-n", ns, "link", "set", dev, "mtu", str(takes), "up")
            if not tells:  # the router's ICMP messages are dropped
                sh("ip", "-n", ns, "rule", "add", "ipproto", "icmp", "blackhole")
            server = db.run(TESTPMD, "-s", "-a", "10.80.0.2", "--once")
            server.wait_line("listening")
            out = da.run(TESTPMD, "-m", "write_bw", "-S", "1,4k,100k", "-n", "20", "10.80.0.2").ok()
            server.ok()
            assert out.count("verified") == 3, out
            until(lambda: "takes packets of" in da.stderr(), "rnicd's log has no line about the MTU of the path")
            line, = [s for s in da.stderr().splitlines() if "takes packets of" in s]
            assert "segments are cut to fit the path. Set the port's mtu to that of the path" in line, line
            return line


@case
def a_router_that_wants_smaller_segments_is_heard():
    told = over_a_narrow_path(1300, True)
    assert "takes packets of 1300 bytes, not the port's 1500" in told, told


@case
def a_path_that_swallows_full_segments_in_silence_does_not_hang():
    told = over_a_narrow_path(1300, False)
    assert "takes packets of 1260 bytes, not the port's 1500" in told, told


@case
def the_narrowest_path_that_hosts_of_ipv4_must_take_does_not_hang_in_silence():
    told = over_a_narrow_path(576, False)
    assert "takes packets of 576 bytes, not the port's 1500" in told, told


@case
def a_port_that_cannot_be_is_one_sentence():
    for device, extra, word in (("tap:rt0", "mtu = 0", "mtu"), ("tap:rt0", "mtu = 9000", "at most 1522 bytes"), ("memif:role=nonsense", "", "other than server or client"),
                                ("pci:0000:ff:1f.7", "", "port a"), ("pair:nobody", "", "nobody"),
                                ("af_packet:nosuchdev", "", "port a")):
        try:
            with Daemon(conf(device, extra)) as d:
                raise AssertionError(f"{device} started: {d.tail()}")
        except AssertionError as e:
            text = str(e)
            assert "ended (1)" in text and word in text, text


if __name__ == "__main__":
    sys.exit(main())
