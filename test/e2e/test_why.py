#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Why something does not work: each case produces a cause and expects the sentence that rnicd's log has for it."""
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

import wire
from rig import BUILD, RNICD, RNICRUN, TESTPMD, Daemon, Skip, case, helper, main, moves, pair_conf, said, until
from wire import C, S, Peer, Target, fpdu, mpa_request, send, tap_up

SOURCE = os.environ.get("RNIC_SOURCE") or os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
RNICCTL = os.path.join(BUILD, "app", "rnicctl", "rnicctl")
ENDS = ("10.77.0.1", "10.77.0.2")


def one_case(program, name, *words, conf=None):
    with Daemon(conf or pair_conf()) as d:
        d.run(helper(program), *ENDS, name).wait()
        return said(d, *words)


@case
def a_connection_that_nobody_waits_for_is_said_to_be_refused():
    with Daemon(pair_conf()) as d:
        p = d.run(TESTPMD, "-m", "write_bw", "-n", "1", ENDS[0])
        line = said(d, "refused the connection", "Start the server first")
        assert re.search(r"10\.77\.0\.2:\d+ to 10\.77\.0\.1:\d+", line), line
        p.stop()


@case
def a_rejected_connection_is_said():
    one_case("cm_cases", "reject_with_private_data", "program rejected the connection")


@case
def an_address_that_answers_no_arp_is_named():
    with Daemon(pair_conf()) as d:
        p = d.run(TESTPMD, "-m", "write_bw", "-n", "1", "10.77.0.9")
        said(d, "10.77.0.9", "does not answer ARP", "wrong VLAN")
        p.stop()


@case
def a_message_without_a_receive_is_said_with_its_remedy():
    one_case("object_cases", "a_message_without_a_receive_ends_its_sender", "0x10202", "post receives")


@case
def an_access_that_is_not_allowed_is_said_with_its_remedy():
    one_case("op_cases", "atomics_that_are_refused", "ended with an error", "IBV_ACCESS_REMOTE_ATOMIC")


@case
def the_library_says_its_half_when_it_is_asked_to():
    with Daemon(pair_conf()) as d:
        for name, program, words in (
                ("a_message_without_a_receive_ends_its_sender", "object_cases", ("failed: ", "rnicctl explain 0x10202")),
                ("reject_with_private_data", "cm_cases", ("RDMA_CM_EVENT_REJECTED", "10.77.0.1"))):
            p = d.run(helper(program), *ENDS, name, RNIC_VERBOSE="1")
            p.wait()
            assert all(w in p.stderr() for w in words), p.tail()
            quiet = d.run(helper(program), *ENDS, name)
            quiet.wait()
            assert not any(w in quiet.stderr() for w in words), quiet.tail()


@case
def packets_with_a_wrong_checksum_are_said():
    with Daemon(pair_conf(both="verify-checksums = yes", a="corrupt = 5%")) as d:
        server = d.run(TESTPMD, "-s", "-a", ENDS[0], "--once")
        server.wait_line("listening")
        d.run(TESTPMD, "--mode", "soak", "--qps", "1", "--seconds", "600", ENDS[0])
        said(d, "port b", "wrong TCP or UDP checksum", "ethtool -K")


@case
def segments_that_are_sent_again_are_said():
    with Daemon(pair_conf(a="loss = 2%")) as d:
        server = d.run(TESTPMD, "-s", "-a", ENDS[0], "--once")
        server.wait_line("listening")
        d.run(TESTPMD, "--mode", "read_bw", "--sizes", "64k", "--seconds", "600", ENDS[0])
        said(d, "port a", "sent again", "congestion = bbr")


@case
def a_wire_that_loses_nothing_is_not_blamed():
    """Segments go in both directions while rnicd looks for loss three times. On a busy machine TCP may send probes,
    which rnicd must not report as loss."""
    with Daemon(pair_conf()) as d:
        server = d.run(TESTPMD, "-s", "-a", ENDS[0], "--once")
        server.wait_line("listening")
        d.run(TESTPMD, "--mode", "soak", "--sizes", "16k", "--seconds", "3", ENDS[0]).ok()
        assert d.telemetry("/rnic/ports,a")["tx_data"] > 1000
        again = [d.telemetry(f"/rnic/ports,{port}")["tx_again"] for port in ("a", "b")]
        assert "sent again" not in d.stderr() or max(again) >= 10, (again, d.stderr())


@case
def a_worker_that_was_not_run_is_said():
    with Daemon(pair_conf()) as d:
        server = d.run(TESTPMD, "-s", "-a", ENDS[0])
        server.wait_line("listening")
        d.run(TESTPMD, "-m", "write_bw", "--seconds", "600", ENDS[0])
        moves(d, 18600)

        def stalled():
            d.p.send_signal(signal.SIGSTOP)
            time.sleep(0.3)
            d.p.send_signal(signal.SIGCONT)
            return "was not run for 100 ms" in d.stderr()
        until(stalled, d.tail)
        assert re.search(r"warning: worker \d+, \d+ ms: .* Reserve CPUs for rnicd", d.stderr()), d.tail()


@case
def a_client_over_its_quota_is_said_with_the_key():
    with Daemon(pair_conf(rnicd="quota-mrs = 1")) as d:
        server = d.run(TESTPMD, "-s", "-a", ENDS[0], "--once")
        server.wait_line("listening")
        p = d.run(TESTPMD, "-m", "write_bw", "-n", "1", ENDS[0])
        said(d, "quota-mrs", "asked for more than it may have")
        p.stop()


@case
def frames_that_a_slow_capture_misses_are_said():
    """The capture is written to a pipe that nobody reads."""
    with tempfile.TemporaryDirectory() as there:
        pipe = os.path.join(there, "pipe")
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        with Daemon(pair_conf(a=f"capture = {pipe}")) as d:
            server = d.run(TESTPMD, "-s", "-a", ENDS[0], "--once")
            server.wait_line("listening")
            d.run(TESTPMD, "--mode", "write_bw", "--sizes", "64k", "--seconds", "600", ENDS[0])
            said(d, "port a", "packets are missing in the capture", "Capture to memory")
            os.close(reader)  # otherwise the writer would wait forever
            said(d, f"capture {pipe}", "the rest is not recorded")


FLOOD = """
import socket, sys
a, b = (socket.socket(type=socket.SOCK_DGRAM) for _ in range(2))
a.bind(("10.77.0.1", 5000))
b.bind(("10.77.0.2", 0))
b.sendto(b"x", a.getsockname())
a.recv(1)
print("reached", flush=True)
sys.stdin.readline()
while True:
    b.sendto(bytes(1000), a.getsockname())
"""


@case
def packet_buffers_that_run_out_are_said():
    """The line delays more frames than there are packet buffers, and datagrams take the rest; so no connection can be
    set up."""
    with Daemon(pair_conf(rnicd="memory = 64M", b="limit = 60000")) as d:
        flood = d.run(RNICRUN, "--sockets", sys.executable, "-c", FLOOD)
        flood.wait_line("reached")
        subprocess.run([RNICCTL, "--socket", d.sock, "set", "port", "b", "delay=10s"], check=True, capture_output=True)
        flood.p.stdin.write("\n")
        flood.p.stdin.flush()
        d.run(TESTPMD, "-m", "write_bw", "-n", "1", ENDS[0])
        said(d, "port b", "packet buffers had run out", "Raise memory in [rnicd]")


# ---- a peer in Python, on the kernel's TCP ----

class World:
    """A daemon that demands CRC, on a tap in a network namespace of its own, and a program that listens and
    connects."""
    one = None

    @classmethod
    def of(cls):
        if cls.one is None:
            cls.one = cls()
        return cls.one

    def __init__(self):
        if not os.path.exists("/dev/net/tun"):
            raise Skip("there is no /dev/net/tun here")
        wire.own_network()
        self.d = Daemon(wire.TAP_CONF + "crc = required\n")
        tap_up()
        self.target = Target(self.d)
        self.target.tell("listen 7000 4 4 4")

    def called(self):
        """The program connects to this test; returns the Peer once its MPA Request has come."""
        with socket.create_server((wire.HOST, 0)) as s:
            port = s.getsockname()[1]
            self.target.tell(f"connect {wire.HOST} {port} 0")
            s.settimeout(60)
            p = Peer(sock=s.accept()[0])
        p.frame(wire.REQ)
        return p, f"{wire.ADDR}:", f"to {wire.HOST}:{port}"


@case
def a_peer_that_declines_the_crc_is_said():
    w = World.of()
    p, *ends = w.called()
    p.raw(mpa_request(key=wire.REP, flags=S))
    said(w.d, *ends, "do not agree on the parameters of the connection", "peer declines CRC, which is demanded here",
         "Compare crc, markers")
    p.close()


@case
def a_peer_that_goes_in_the_set_up_is_said():
    w = World.of()
    p, *ends = w.called()
    p.kill()
    said(w.d, *ends, "the connection broke while it was set up", "Look whether the peer's program still runs")


@case
def a_wrong_crc_is_said():
    w = World.of()
    with Peer(port=7000) as p:
        p.hello(flags=C | S)
        p.put(send(1, b"sound"))
        p.raw(fpdu(send(2, b"not sound"), crc=False))
        here = p.s.getsockname()[1]
        said(w.d, f"{wire.ADDR}:7000 to {wire.HOST}:{here}", "ended with an error", "CRC", "(0x20002)")


@case
def peers_without_a_request_are_said():
    w = World.of()
    with Peer(port=7000):
        pass  # connects and ends without sending anything
    said(w.d, "port rnic0", "1 connection: the peers sent no MPA Request", "whether the peers are RDMA programs")


@case
def a_listener_whose_backlog_is_full_is_said():
    w = World.of()
    w.target.tell("listen 7001 4 4 4")
    # more connections than target's backlog, none of which sends a Request
    silent = [Peer(port=7001) for _ in range(200)]
    said(w.d, "port rnic0", "connection requests exceed a listener's backlog", "Raise the backlog in rdma_listen")
    for p in silent:
        p.close()


@case
def what_happens_again_at_once_is_counted_and_not_said():
    with Daemon(pair_conf()) as d:
        for _ in range(3):
            d.run(helper("cm_cases"), *ENDS, "reject_with_private_data").wait()
        said(d, "program rejected the connection")
        lines = [s for s in d.stderr().splitlines() if "program rejected the connection" in s]
        assert len(lines) == 1 or all("more since the last line" in s for s in lines[1:]), lines


@case
def the_committed_page_is_the_table():
    page = subprocess.run([RNICD, "--help-causes"], check=True, capture_output=True, text=True).stdout
    with open(os.path.join(SOURCE, "doc", "troubleshooting.md"), encoding="utf-8") as f:
        assert f.read() == page, "run: rnicd --help-causes > doc/troubleshooting.md"
    rows = [s for s in page.splitlines() if s.startswith("| ") and not s.startswith("| symptom")]
    assert len(rows) > 20 and not any("| |" in s or "(null)" in s for s in rows), page


if __name__ == "__main__":
    try:
        code = main()
    finally:
        if World.one is not None:
            World.one.d.close()
    sys.exit(code)
