#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
rnicrun --ss lists rnicd's sockets as ss lists the kernel's: the same program has the same rows on both. A user sees no
other user's sockets.
"""
import os
import re
import signal
import subprocess

from rig import RNICRUN, Daemon, Process, case, main, need, pair_conf, until
from sock_rig import ours, python

A, B = "10.77.0.1", "10.77.0.2"
HANG = 60  # s; a program that takes longer hangs
STRANGER = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
SYSTEMS_PYTHON = "/usr/bin/python3"  # any user may execute it
PORT = 7700
COLUMNS = "Netid State Recv-Q Send-Q Local Address:Port Peer Address:Port Wire Process"

# Has a socket in each state that lasts: argv[1] is the address, argv[2] the first of its ports.
STATES = """
import socket, sys
at, port = sys.argv[1], int(sys.argv[2])

def bound(n, kind=socket.SOCK_STREAM, ip=at):
    s = socket.socket(type=kind)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((ip, port + n))
    return s

def client(n):
    s = bound(n)
    s.connect((at, port))
    return s

l = bound(0)
l.listen(5)
unread, half, ended, waits = [client(n) for n in range(1, 5)]
has_unread, peer_of_half, peer_of_ended = [l.accept()[0] for _ in range(3)]
unread.sendall(b"x" * 1000)
half.shutdown(socket.SHUT_WR)
peer_of_half.recv(1)
ended.close()
peer_of_ended.recv(1)
peer_of_ended.close()
everywhere = bound(5, ip="0.0.0.0")
everywhere.listen(7)
alone, asks, has_peer = [bound(n, socket.SOCK_DGRAM) for n in range(6, 9)]
has_peer.connect(asks.getsockname())
has_peer.send(b"y" * 100)
only_bound = bound(9)
print("listening", port, flush=True)
sys.stdin.read()
"""

# Opens argv[2] sockets on argv[1], of datagrams and listeners in turns.
MANY = """
import socket, sys
all = []
for i in range(int(sys.argv[2])):
    s = socket.socket(type=(socket.SOCK_STREAM, socket.SOCK_DGRAM)[i % 2])
    s.bind((sys.argv[1], 0))
    if i % 2 == 0:
        s.listen(1)
    all.append(s)
print("listening 0", flush=True)
print("ports", *(s.getsockname()[1] for s in all), flush=True)
sys.stdin.read()
"""

# Sends to a listener that accepts nothing until a line of input comes. For each line it sends a datagram to itself.
SENDS = """
import socket, sys
l = socket.socket()
l.bind((sys.argv[1], 0))
l.listen(1)
c = socket.create_connection(l.getsockname())
c.sendall(b"z" * 500)
u = socket.socket(type=socket.SOCK_DGRAM)
u.bind((sys.argv[1], 0))
print("listening 0", flush=True)
sys.stdin.readline()
s = l.accept()[0]
s.recv(500, socket.MSG_WAITALL)
for line in sys.stdin:
    u.sendto(b"d", u.getsockname())
    u.recv(1)
"""


def ss(d, *pids, under=()):
    p = subprocess.run([*under, RNICRUN, "--ss", *map(str, pids)], env=d.env(), capture_output=True, text=True,
                       timeout=HANG, check=False)
    assert p.returncode == 0 and not p.stderr, p
    head, *rows = p.stdout.splitlines()
    assert " ".join(head.split()) == COLUMNS, head
    return rows


def row_of(line, address, wire=False):
    """Returns (protocol, state, Recv-Q, Send-Q, local and peer, descriptors), with "HERE" in place of the address. For
    datagram sockets the two Qs only tell whether a queue is empty, since Linux counts the memory of datagrams, not
    their bytes."""
    netid, state, recv_q, send_q, local, peer, *rest = line.split()
    if wire:
        rest = rest[1:]
    fds = sorted(re.findall(r'"(\w+)",pid=\d+,fd=(\d+)', " ".join(rest)))
    counts = [int(recv_q), int(send_q)] if netid == "tcp" else [recv_q != "0", send_q != "0"]
    return (netid, state, *counts, local.replace(address, "HERE"), peer.replace(address, "HERE"), *fds)


def kernel_rows():
    out = subprocess.run(["ss", "-tuanpH"], capture_output=True, text=True, timeout=HANG, check=True).stdout
    rows = [row_of(line, "127.0.0.1") for line in out.splitlines()]
    return sorted(r for r in rows if re.search(r":77\d\d$", r[4]))


@case
def a_programs_sockets_have_the_rows_that_the_kernels_have():
    need("ss")
    kernel = Process(python(STATES, "127.0.0.1", PORT))
    try:
        kernel.wait_line("listening")
        until(lambda: len(kernel_rows()) == 12, kernel_rows)
        want = kernel_rows()
    finally:
        kernel.stop(signal.SIGKILL)
    with Daemon(pair_conf()) as d:
        ours(d, *python(STATES, A, PORT)).wait_line("listening")
        mine = lambda: sorted(row_of(line, A, wire=True) for line in ss(d))
        until(lambda: mine() == want, lambda: "\n".join(f"{m}   the kernel: {k}" for m, k in zip(mine(), want)))


@case
def a_listing_of_some_processes_has_only_their_sockets():
    with Daemon(pair_conf()) as d:
        one, two = [ours(d, *python(MANY, at, 3)) for at in (A, B)]
        ports = [p.wait_line("ports").split()[1:] for p in (one, two)]
        found = lambda *pids: sorted(re.findall(r":(\d+) ", " ".join(ss(d, *pids))))
        assert found(one.pid) == sorted(ports[0]) and found(two.pid) == sorted(ports[1]), ss(d)
        assert found(one.pid, two.pid) == found() == sorted(ports[0] + ports[1]), ss(d)
        assert found(os.getpid()) == []


@case
def a_long_listing_has_each_socket_once():
    with Daemon(pair_conf()) as d:
        p = ours(d, *python(MANY, A, 300))
        ports = p.wait_line("ports").split()[1:]
        rows = ss(d)
        assert sorted(re.findall(rf"{A}:(\d+) ", " ".join(rows))) == sorted(ports), rows
        p.stop(signal.SIGKILL)
        until(lambda: not ss(d), lambda: ss(d))


@case
def a_user_sees_no_other_users_sockets_and_root_sees_all():
    need("setpriv")
    need(SYSTEMS_PYTHON)
    with Daemon(pair_conf(rnicd="socket-mode = 0666")) as d:
        os.chmod(d.dir, 0o711)
        ours(d, *python(MANY, A, 2)).wait_line("ports")
        assert len(ss(d)) == 2 and not ss(d, under=STRANGER)
        theirs = d.run(*STRANGER, RNICRUN, "--sockets", SYSTEMS_PYTHON, *python(MANY, B, 2)[1:])
        theirs.wait_line("ports")
        rows = ss(d, under=STRANGER)
        assert len(rows) == 2 and all(f"{B}:" in r and f"pid={theirs.pid}," in r for r in rows), rows
        assert len(ss(d)) == 4


def wires_and_queues(wire, **env):
    with Daemon(pair_conf()) as d:
        p = d.run(RNICRUN, "--sockets", *python(SENDS, A), **env)
        p.wait_line("listening")
        rows = lambda: [r.split() for r in ss(d)]
        columns = lambda state: sorted((r[2], r[3], r[6]) for r in rows() if r[1] == state)
        def goes_on():
            p.p.stdin.write("\n")
            p.p.stdin.flush()
            return True
        until(lambda: columns("ESTAB") == sorted([("0", "500", wire), ("0", "0", "-")]), rows)
        assert columns("UNCONN") == [("0", "0", "-")], rows()
        goes_on()
        until(lambda: columns("ESTAB") == [("0", "0", wire)] * 2, rows)
        # the first datagrams are plain: rnicd does not know yet that the peer takes iWARP
        until(lambda: goes_on() and columns("UNCONN") == [("0", "0", wire)], rows)


@case
def bytes_that_the_peer_has_not_taken_are_in_the_send_queue():
    wires_and_queues("plain")


@case
def the_wire_iwarp_is_named():
    wires_and_queues("iwarp", RNIC_WIRE="iwarp")


@case
def what_cannot_be_listed_is_said_in_one_sentence():
    with Daemon(pair_conf()) as d:
        for words, rc, says in ((("--ss", "99999999"), 1, "there is no process 99999999"),
                                (("--ss", "me"), 1, "there is no process me"),
                                (("--ss", "--sockets", "true"), 2, "runs no program"),
                                (("--embedded", "--ss"), 2, "list them with ss -tuanp"),
                                (("--socket", d.dir + "/none", "--ss"), 1, "no rnicd answers at"),
                                (("--socket", d.dir + "/none", "--ss"), 1, "--embedded programs: ss -tuanp"),
                                (("--socket", "x" * 200, "--ss"), 1, "File name too long")):
            p = subprocess.run([RNICRUN, *words], env=d.env(), capture_output=True, text=True, timeout=HANG,
                               check=False)
            assert p.returncode == rc and says in p.stderr and len(p.stderr.splitlines()) == 1, p


main()
