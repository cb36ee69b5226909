#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Seldom used options (option_cases.c has the cases): for each personality, and for a port where messages wait for
receives.
"""
import os
import subprocess
import sys

import wire_check
from rig import BUILD, PATIENCE, Daemon, case, cases_of, helper, main, pair_conf

RNICCTL = os.path.join(BUILD, "app", "rnicctl", "rnicctl")
A, B = "10.77.0.1", "10.77.0.2"
SILENT = "a_silent_peer_is_waited_for_no_longer_than_asked"  # needs a wire that goes silent
WAITING = "a_message_that_waits_keeps_the_bytes_that_were_sent"  # needs devices with rnr = wait

cases_of("option_cases", pair_conf(), without=(SILENT, WAITING))
cases_of("option_cases", pair_conf(both="personality = roce"), "_of_an_adapter", without=(SILENT, WAITING))
cases_of("option_cases", pair_conf(both="rnr = wait"), "_where_messages_wait", without=(SILENT,), RNR_WAITS="1")


@case
def a_long_message_that_waits_for_a_receive_keeps_the_bytes_that_were_sent():
    """Its segments refer to the sender's memory; also if one is lost, and those behind it are kept until it comes."""
    for mtu, loss in ((9000, 0), (65280, 0), (9000, 20)):
        with Daemon(pair_conf(mtu=mtu, both=f"rnr = wait\nloss = {loss}%\nseed = 7")) as d:
            for _ in range(20 if loss else 1):
                p = d.run(helper("option_cases"), A, B, WAITING, RNR_WAITS="1")
                assert p.wait() == 0, f"mtu {mtu}, loss {loss} %: {p.tail()}"


@case
def the_type_of_service_of_both_ends_is_on_the_wire():
    """DSCP as set in each packet from the first one on, 0xbb by the client and 0x48 by the listener; ECN stays 0."""
    d = Daemon(pair_conf(a="capture = {dir}/a.pcapng"))
    try:
        p = d.run(helper("option_cases"), "10.77.0.1", "10.77.0.2", "options_of_a_connection_are_kept")
        assert p.wait() == 0, p.tail()
        d.end()
        seen = {}
        for f in wire_check.frames(os.path.join(d.dir, "a.pcapng")):
            if f[12:14] == b"\x08\x00" and f[23] == 6:
                seen.setdefault(f[26:30], set()).add(f[15])
        assert seen == {bytes([10, 77, 0, 2]): {0xb8}, bytes([10, 77, 0, 1]): {0x48}}, seen
    finally:
        d.close()


@case
def a_silent_peer_is_waited_for_no_longer_than_the_acks_timeout_says():
    for personality in ("iwarp", "roce"):
        with Daemon(pair_conf(both=f"personality = {personality}")) as d:
            p = d.run(helper("option_cases"), "10.77.0.1", "10.77.0.2", SILENT)
            p.wait_line("joined")
            subprocess.run([RNICCTL, "--socket", d.sock, "set", "port", "b", "loss=100%"], check=True, timeout=PATIENCE,
                           capture_output=True)
            p.p.stdin.write("\n")
            p.p.stdin.flush()
            p.ok()


if __name__ == "__main__":
    sys.exit(main())
