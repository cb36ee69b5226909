#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Immediate data, atomics and memory windows (op_cases.c has the cases), over a good wire and over one that loses; and
what tshark, which knows RFC 7306's atomics, reads on the wire.
"""
import os
import sys

from rig import Daemon, case, cases_of, helper, main, need, on_ordinary_pages, pair_conf
from shark import fields

cases_of("op_cases", pair_conf())
cases_of("op_cases", on_ordinary_pages(pair_conf()), "_on_ordinary_pages", RNIC_HUGE="0")
cases_of("op_cases", pair_conf(both="loss = 2%\nduplicate = 2%\nreorder = 2%\ndelay = 200us\nseed = 7"), "_on_a_lossy_wire")

ONES = "0xffffffffffffffff"
ATOMIC = "iwarp_rdma.atomic."
REQUEST = ["opcode", "add_data", "add_mask", "swap_data", "swap_mask", "compare_data", "compare_mask"]


@case
def tshark_reads_the_atomics():
    need("tshark")
    d = Daemon(pair_conf(a="capture = {dir}/a.pcapng"))
    try:
        d.run(helper("op_cases"), "10.77.0.1", "10.77.0.2", "atomics_do_what_they_say").ok()
        d.end()
        path = os.path.join(d.dir, "a.pcapng")
        asked = [[int(v, 0) if v else None for v in f]
                 for f in fields(path, *[ATOMIC + n for n in REQUEST], of=ATOMIC + "request_identifier")]
        ones = int(ONES, 0)
        assert asked == [[0, 2, 1 << 63, None, None, 0, 0], [2, None, None, 7, ones, 41, ones],
                         [2, None, None, 7, ones, 42, ones]], asked
        ids = fields(path, ATOMIC + "request_identifier", of=ATOMIC + "request_identifier")
        back = fields(path, ATOMIC + "original_request_identifier", ATOMIC + "original_remote_data_value", "iwarp_ddp.qn",
                      of=ATOMIC + "original_request_identifier")
        assert [b[:1] for b in back] == ids, (back, ids)
        assert [(int(b[1], 0), b[2]) for b in back] == [(40, "3"), (42, "3"), (42, "3")], back
    finally:
        d.close()


if __name__ == "__main__":
    sys.exit(main())
