#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Ports whose paths are wires inside the daemon: which packets go by which path, what is sent again when paths differ,
lose or die, and what the daemon tells of them.
"""
import contextlib
import json
import os
import subprocess
import sys

from nets import wait_for
from paths_rig import PORT, bytes_of, change, conns_of, port, sent, server
from rig import BUILD, Daemon, Soak, case, main, moves, pair_conf, said

RNICCTL = os.path.join(BUILD, "app", "rnicctl", "rnicctl")
RATE = "rate = 1G\n"


def paths_conf(both, n=2):
    device = f"paths = {', '.join(['pair:{}'] * n)}"
    text = pair_conf(both=both)
    for end, other in ("a", "b"), ("b", "a"):
        text = text.replace(f"[port {end}]\ndevice = pair:{other}", f"[port {end}]\n{device.replace('{}', other)}")
    return text


@contextlib.contextmanager
def soaking(d):
    """Verified data in both directions while the case runs. No connection may end meanwhile."""
    server(d, "10.77.0.2")
    soak = Soak(d, "10.77.0.2", PORT, "--bidir")
    yield soak
    soak.end()


@case
def a_difference_in_delay_alone_sends_nothing_again():
    """Four paths, each 400 us longer than the one before: long streams, and messages one by one."""
    with Daemon(paths_conf(RATE + "delay = 0, 400us, 800us, 1200us", n=4)) as d:
        with soaking(d):
            moves(d, PORT, beyond=max(bytes_of(d)))
            conns = conns_of(d)
        # a machine that stops for longer than a retransmission timeout also causes retransmissions; the paths do not
        # cause these
        for c in conns:
            assert c["retransmits"] == 0 or c["rtos"] + c["tlps"] > 0, f"{c}\n{d.tail()}"
        assert len(conns) >= 2
        assert min(sent(d, n=4)) > 100 and min(sent(d, "b", 4)) > 10, (sent(d, n=4), sent(d, "b", 4))
        assert max(sent(d, n=4)) < 2 * min(sent(d, n=4)), sent(d, n=4)
        total = port(d, "a")
        assert total["paths"] == 4 and total["tx_packets"] == sum(sent(d, n=4)), total
        assert total["rate_bps"] == 4e9
        table = subprocess.run((RNICCTL, "--socket", d.sock, "ports"), check=True, capture_output=True, text=True)
        assert all(f"a/{i}" in table.stdout for i in range(4)), table.stdout


@case
def what_one_path_loses_is_sent_again():
    with Daemon(paths_conf(RATE + "loss = 0, 1%\ndelay = 1ms, 0")) as d:
        with soaking(d):
            wait_for(lambda: port(d, "a/1")["impair_lost"] > 50, "losses")
        lost = [port(d, f"a/{i}")["impair_lost"] for i in range(2)]
        again = port(d, "a")["tx_again"]
        assert lost[0] == 0 and 0 < again <= 2 * lost[1], (lost, again)


@case
def a_path_that_delivers_nothing_is_left_and_taken_again():
    """The path's line stays up: TCP must find out that the path delivers nothing. The other path is slower."""
    with Daemon(paths_conf(RATE + "delay = 500us, 0")) as d:
        with soaking(d) as soak:
            for end in "ab":
                change(d, f"port {end}/1 loss=100%")
            said(d, "port a/1", "nothing arrives by this path")
            before = sent(d)[0]
            moves(d, PORT, beyond=max(bytes_of(d)))
            assert sent(d)[0] > before
            for end in "ab":
                change(d, f"port {end}/1 loss=0")
            before = sent(d)[1]
            wait_for(lambda: sent(d)[1] > before + 1000, f"frames on the mended path\n{d.tail()}")
            assert soak.p.p.poll() is None
        assert port(d, "a/1")["path_left"] > 0


@case
def a_connection_that_keeps_to_one_path():
    with Daemon(paths_conf(RATE + "spread = flow", n=4)) as d:
        with soaking(d):
            pass
        most = sorted(sent(d, n=4))
        # the frames on other paths are those of testpmd-rdma's control connection: more, the longer the soak takes
        assert most[-1] > 100 and sum(most[:-1]) < max(50, most[-1] / 20), most


@case
def the_shorter_queue_is_taken():
    """Two paths, of 10 Mb/s and of 1 Gb/s: on a busy machine, too, the soak sends more than the slow path carries."""
    with Daemon(paths_conf("rate = 10M, 1G\nspread = least-queue")) as d:
        with soaking(d):
            pass
        slow, fast = sent(d)
        assert slow > 10 and fast > 1.5 * slow, (slow, fast)
        said_no = d.telemetry("/rnic/set,port a loss=1%")
        assert "name one of them" in json.dumps(said_no), said_no


if __name__ == "__main__":
    sys.exit(main())
