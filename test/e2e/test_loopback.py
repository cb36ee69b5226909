#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Both ends of a connection on one device: a port receives what it sends to its own address, without a wire."""
import os
import sys

from rig import RNICRUN, Daemon, alone_conf, case, cases_of, main, need

SELF = "10.77.0.1"

# left out: the first case needs two devices; the others take long and test nothing that lies between the ends
NOT_HERE = ("listening_on_a_used_port", "neighbour_does_not_answer", "backlog_is_bounded_and_nobody_hangs",
            "hundreds_of_connections_one_after_the_other", "request_that_is_never_answered")
cases_of("cm_cases", alone_conf(), "_on_one_device", (SELF, SELF), without=NOT_HERE)
cases_of("op_cases", alone_conf(), "_on_one_device", (SELF, SELF))
cases_of("nocm_cases", alone_conf(), "_on_one_device", (SELF, SELF))
if (os.cpu_count() or 1) >= 2:
    cases_of("nocm_cases", alone_conf("workers = 0,1"), "_on_one_device_with_two_workers", (SELF, SELF))


def pair_of(d, server, client):
    """Runs server and client to their ends; starts the client again while the server is not ready."""
    s = d.run(RNICRUN, *server)
    for _ in range(100):
        c = d.run(RNICRUN, *client)
        if c.wait() == 0:
            break
        assert s.p.poll() is None, s.tail()
    assert c.p.returncode == 0, c.tail()
    s.ok()


@case
def stock_programs_meet_themselves():
    need("rping")
    need("ib_write_bw")
    need("ibv_rc_pingpong")
    with Daemon(alone_conf()) as d:
        pair_of(d, ["rping", "-s", "-a", SELF, "-C", "20", "-v", "-V"], ["rping", "-c", "-a", SELF, "-C", "20", "-V"])
        pair_of(d, ["ib_write_bw", "-F", "-R", "-n", "500"], ["ib_write_bw", "-F", "-R", "-n", "500", SELF])
        pingpong = ["ibv_rc_pingpong", "-d", "a", "-g", "0", "-c"]
        pair_of(d, pingpong, [*pingpong, "127.0.0.1"])
        assert d.telemetry("/rnic/ports,a")["tx_packets"] < 5  # only ARP at the start went to the wire


if __name__ == "__main__":
    sys.exit(main())
