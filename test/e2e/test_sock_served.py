#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The process that serves the sockets of rnicrun --embedded --sockets: its end.
"""
import signal
import socket

import wire
from embedded_rig import AT, BRIEF, embedded, serving, wait_for
from rig import Process, case, main, until
from sock_rig import python
from wire_esock import Bytes, hello

@case
def a_signal_after_the_programs_end_ends_rnicrun_at_once():
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background process ignores it
    for sig in (signal.SIGTERM, signal.SIGINT):
        with socket.create_server((AT, 0)) as l:
            p = embedded(*python(BRIEF, AT, l.getsockname()[1]), RNIC_SOCKETS_END="100000")
            peer = wire.Peer(sock=l.accept()[0])
            _, _, priv = peer.frame(wire.REQ)
            peer.raw(wire.mpa_request(key=wire.REP, ird=1, ord_=1, priv=hello(8, 4096)))
            b = Bytes(peer, 8, priv[4:])
            wait_for(b, lambda b=b: b.ended)
            until(lambda p=p: Process(["pgrep", "-P", str(p.pid)]).ok().split() == [str(serving(p))])
            p.p.send_signal(sig)  # the peer does not close its end, so the socket is waited for
            p.ok()
            peer.s.close()


main()
