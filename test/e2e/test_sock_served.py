#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The process that serves the sockets of rnicrun --embedded --sockets: clients that would hold it up, sockets that begin
again, and its end.
"""
import os
import signal
import socket
import struct

import wire
from embedded_rig import AT, BRIEF, control_socket, embedded, serving, wait_for
from rig import PATIENCE, Process, Skip, case, main, until
from sock_raw import HDR, TYPE, Raw
from sock_rig import SEND_BY_WIRE as SEND, SERVE_BY_WIRE as SERVE
from sock_rig import port_of, python
from wire_esock import Bytes, hello

LINGER_S = 100000


def lingering():
    """A TCP connection of the kernel with bytes that its peer does not read: its last close() takes LINGER_S. And the
    peer's end."""
    with socket.socket() as l:
        l.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        l.bind((AT, 0))
        l.listen()
        s = socket.create_connection(l.getsockname())
        peer = l.accept()[0]
    s.setblocking(False)
    try:
        while True:
            s.send(bytes(65536))
    except BlockingIOError:
        pass
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGER_S))
    return s, peer


@case
def a_socket_that_lingers_holds_up_no_other_user():
    if os.geteuid() != 0:
        raise Skip("only root's programs can change their user")
    s = embedded(*python(SERVE, AT), own=True)
    port, server = port_of(s), serving(s)
    for reads in (True, False):
        r = Raw(control_socket(s))
        r.join()
        (one, a), (two, b) = lingering(), lingering()
        os.kill(server, signal.SIGSTOP)  # so the serving process has the last descriptors
        for name, body, x in (("IPC_SOCK_FIND", b"", one), ("IPC_SOCK_TAKE", bytes(32), two)):
            socket.send_fds(r.s, [struct.pack("<HHIiI", TYPE[name], HDR + len(body), 1, 0, 0) + body], [x.fileno()])
            x.close()
        if not reads:
            r.close()
        os.kill(server, signal.SIGCONT)
        with Raw(control_socket(s)) as other:
            other.s.settimeout(PATIENCE)
            other.join()
        assert embedded(*python(SEND, AT, port, 5, 100_000)).ok() == "wires 2 2"
        if reads:
            r.close()
        a.close()
        b.close()
    s.stop()


@case
def a_port_is_free_when_a_listener_of_roots_is_closed():
    if os.geteuid() != 0:
        raise Skip("only beside root's program descriptors go through helper processes")
    p = embedded(*python("""
import socket, sys
with socket.create_server((sys.argv[1], 0)) as l:
    at = l.getsockname()
for _ in range(2000):
    socket.create_server(at).close()
""", AT), own=True)
    assert p.ok() == "", p.tail()


@case
def a_refused_socket_is_as_before_if_it_cannot_begin_again():
    p = embedded(*python("""
import errno, resource, select, socket, subprocess, sys
at, full, l, first, c, d = (socket.socket() for _ in range(6))
at.bind((sys.argv[1], 0))
l.bind((sys.argv[1], 0))
port = l.getsockname()[1]
l.close()
# a listener of the kernel's that answers no SYN, so that c becomes a socket of librnicsock's before it is refused
for s in full, first:
    s.setsockopt(0x524e, 1, 1)
full.bind((sys.argv[1], 0))
full.listen(0)
first.connect(full.getsockname())
c.bind((sys.argv[1], port))
c.setblocking(False)
print(errno.errorcode[c.connect_ex(full.getsockname())])
full.close()
select.select([], [c], [])
c.setblocking(True)
def told():
    try:
        c.connect(at.getsockname())
    except OSError as e:
        print(errno.errorcode[e.errno])
told()
most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, most[1]))
told()
resource.setrlimit(resource.RLIMIT_NOFILE, most)
d.bind((sys.argv[1], port))
told()
d.close()
at.listen()
c.connect(at.getsockname())
print(at.accept()[1][1] == port, c.getsockname()[1] == port)
handed_on = subprocess.check_output(["cat", "/proc/self/environ"], text=True).split("\\0")
wires = [x for x in handed_on if x.startswith("RNIC_SOCK_WIRES")]
print(len(wires), ":2," in wires[0])  # the usual wire is not handed on
""", AT))
    want = ["EINPROGRESS", "ECONNREFUSED", "ENOBUFS", "EADDRINUSE", "True True", "1 False"]
    assert p.ok().split("\n") == want, p.tail()


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
