#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
How rdma_cm behaves. cm_cases.c has the cases and both ends; this file starts the daemons and checks that nothing is
left in them.
"""
import sys

from rig import cases_of, main, pair_conf

cases_of("cm_cases", pair_conf(), says={"a_peer_that_never_answers_is_said": (
    "10.77.0.1:8025", "the peer does not answer the connection's set-up", "whether the server accepts")})
# Left out with RoCE. The first two cases count events, among which an adapter reports TIMEWAIT_EXIT. The other three
# take long, and test nothing that differs between RoCE and iWARP.
NOT_HERE = ("disconnect_by_both_at_once", "hundreds_of_connections_at_once", "hundreds_of_connections_one_after_the_other",
            "request_that_is_never_answered", "neighbour_does_not_answer")
cases_of("cm_cases", pair_conf(both="personality = roce"), "_as_a_roce_adapter", without=NOT_HERE)

if __name__ == "__main__":
    sys.exit(main())
