#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Both ends of a connection on one device: what a port sends to its own address it receives without a wire."""
import os
import sys

from rig import RNICRUN, Daemon, case, cases_of, main, need

SELF = "10.77.0.1"


def conf(rnicd=""):
    """The second port is nobody's way to the first: it lies in another subnet."""
    return f"""
[rnicd]
socket = {{dir}}/rnicd.sock
hugepages = auto
{rnicd}
[port a]
device = pair:b
address = {SELF}/24
[port b]
device = pair:a
address = 10.78.0.1/24
"""


# It needs two devices; the others take long and have nothing to do with what lies between the ends.
NOT_HERE = ("listening_on_a_used_port", "neighbour_does_not_answer", "backlog_is_bounded_and_nobody_hangs",
            "hundreds_of_connections_one_after_the_other", "request_that_is_never_answered")
cases_of("cm_cases", conf(), "_on_one_device", (SELF, SELF), without=NOT_HERE)
cases_of("op_cases", conf(), "_on_one_device", (SELF, SELF))
cases_of("nocm_cases", conf(), "_on_one_device", (SELF, SELF))
if (os.cpu_count() or 1) >= 2:
    cases_of("nocm_cases", conf("workers = 0,1"), "_on_one_device_with_two_workers", (SELF, SELF))


def pair_of(d, server, client):
    """Both run to their ends; the server is up when it has a listener or prints its first line."""
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
    with Daemon(conf()) as d:
        pair_of(d, ["rping", "-s", "-a", SELF, "-C", "20", "-v", "-V"], ["rping", "-c", "-a", SELF, "-C", "20", "-V"])
        pair_of(d, ["ib_write_bw", "-R", "-n", "500"], ["ib_write_bw", "-R", "-n", "500", SELF])
        pair_of(d, ["ibv_rc_pingpong", "-d", "a", "-g", "0", "-c"], ["ibv_rc_pingpong", "-d", "a", "-g", "0", "-c", "127.0.0.1"])
        assert d.telemetry("/rnic/ports,a")["tx_packets"] < 5  # ARP at the start: nothing went to the wire


if __name__ == "__main__":
    sys.exit(main())
