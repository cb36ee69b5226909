#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Streams for which rnicd computes the CRCs of a program's FPDUs (design assisted), with a client that writes to the
shared memory by itself: which CRCs rnicd computes in both directions, and what a program that breaks the rules can do
to others.
"""
import hashlib
import os
import struct
import sys
import tempfile

import wire
from rig import PATIENCE, RNICRUN, TESTPMD, Daemon, case, main, pair_conf, until
from sock_raw import ENDED, FIN, RING, RX_HEAD, RX_TAIL, STATE, TX_HEAD, TX_TAIL, Raw

A, B = "10.77.0.1", "10.77.0.2"
TX_FPDUS, RX_FPDUS, RX_SUMMED = 8, 68, 272  # offsets in struct ipc_stream
SUMS = 8                                    # flag in ipc_stream.state
TX_OFF = 4096
RX_OFF = TX_OFF + RING
PREAMBLE = b"bytes before the first FPDU"

# Writes all bytes that it receives to a file.
KEEP = """
import socket, sys
l = socket.socket()
l.bind((sys.argv[1], 0))
l.listen(1)
print("listening", l.getsockname()[1], flush=True)
s, _ = l.accept()
with open(sys.argv[2], "wb") as f:
    while b := s.recv(65536):
        f.write(b)
"""

# Sends the next bytes of a file, as many as each line of stdin says; ends when stdin ends.
TELL = """
import socket, sys
l = socket.socket()
l.bind((sys.argv[1], 0))
l.listen(1)
print("listening", l.getsockname()[1], flush=True)
s, _ = l.accept()
with open(sys.argv[2], "rb") as f:
    while (n := int.from_bytes(s.recv(4, socket.MSG_WAITALL), "little")) != 0:
        s.sendall(f.read(n))
"""

# Receives on any number of connections and discards the bytes.
SINK = """
import socket, sys, threading
l = socket.socket()
l.bind((sys.argv[1], 0))
l.listen(64)
print("listening", l.getsockname()[1], flush=True)
def drain(s):
    try:
        while s.recv(65536):
            pass
    except OSError:
        pass
    s.close()
while True:
    threading.Thread(target=drain, args=(l.accept()[0],), daemon=True).start()
"""


class Program:
    """A program with ordinary sockets on port A; call() connects a raw client to it."""

    def __init__(self, d, text, *argv):
        self.p = d.run(RNICRUN, "--sockets", sys.executable, "-c", text, A, *argv)
        self.port = int(self.p.wait_line("listening").split()[1])

    def call(self, d):
        r = Raw(d.sock)
        r.join()
        r.stream(B, A, self.port)
        until(lambda: r.word(STATE) & 1, "the socket is not connected")
        return r


def fpdus(lengths):
    return [wire.fpdu(hashlib.shake_256(bytes([i])).digest(n)) for i, n in enumerate(lengths)]


def say(r, at, index, base):
    struct.pack_into("<II", r.mem, at + 4, index & 0xffffffff, base & 0xffffffff)
    r.put(at, 1)


def write(r, index, data):
    """Writes bytes into the transmit ring without telling rnicd."""
    for i in range(0, len(data)):
        r.mem[TX_OFF + (index + i) % RING] = data[i]


def with_file(job):
    with tempfile.TemporaryDirectory() as where, Daemon(pair_conf()) as d:
        job(d, os.path.join(where, "bytes"))


@case
def crcs_are_filled_in_and_what_is_not_whole_waits():
    def job(d, path):
        s = Program(d, KEEP, path)
        good = fpdus((14, 1460, 18, 9000, 0, 65535, 20, 1441) * 3)
        data = PREAMBLE + b"".join(f[:-4] + b"\0\0\0\0" for f in good)
        at, last = len(PREAMBLE), len(good[-1])
        with s.call(d) as r:
            say(r, TX_FPDUS, at, at)
            put = 0
            while put < len(data) - 10:  # the last FPDU is sent without its end
                n = min(len(data) - 10 - put, RING - (put - r.word(TX_HEAD)) % (1 << 32), 50000)
                write(r, put, data[put:put + n])
                put += n
                r.put(TX_TAIL, put)
                r.bell()
            whole = len(data) - last
            until(lambda: r.word(TX_HEAD) == whole, lambda: f"{r.word(TX_HEAD)} of {whole} bytes have left")
            write(r, put, data[put:])
            r.put(TX_TAIL, len(data))
            r.bell()
            until(lambda: r.word(TX_HEAD) == len(data), lambda: f"{r.word(TX_HEAD)} of {len(data)} bytes have left")
            r.put(FIN, 1)
            r.bell()
            s.p.ok()
        with open(path, "rb") as f:
            assert f.read() == PREAMBLE + b"".join(good)

    with_file(job)


@case
def the_end_of_the_stream_lets_half_an_fpdu_go():
    def job(d, path):
        s = Program(d, KEEP, path)
        whole, half = fpdus((1000, 2000))
        data = whole[:-4] + b"\0\0\0\0" + half[:900]
        with s.call(d) as r:
            say(r, TX_FPDUS, 0, 0)
            write(r, 0, data)
            r.put(TX_TAIL, len(data))
            r.bell()
            until(lambda: r.word(TX_HEAD) == len(whole), "the FPDU has not left as a whole")
            r.put(FIN, 1)
            r.bell()
            s.p.ok()
        with open(path, "rb") as f:
            assert f.read() == whole + half[:900]

    with_file(job)


@case
def received_fpdus_are_shown_whole_and_summed_up_to_a_bad_one():
    def job(d, path):
        good, bad = fpdus((14, 9000, 65535, 18, 300)), bytearray(wire.fpdu(b"x" * 3000))
        bad[100] ^= 1
        data = PREAMBLE + b"".join(good) + bytes(bad) + b"".join(good)
        with open(path, "wb") as f:
            f.write(data)
        ends = [len(PREAMBLE)]
        for fpdu in good:
            ends.append(ends[-1] + len(fpdu))
        s = Program(d, TELL, path)
        with s.call(d) as r:
            told, asked = 0, 0

            def ask(n):
                nonlocal told, asked
                write(r, told, struct.pack("<I", n))
                told, asked = told + 4, asked + n
                r.put(TX_TAIL, told)
                r.bell()

            def shown(end, summed):
                until(lambda: (r.word(RX_TAIL), r.word(RX_SUMMED)) == (end, summed),
                      lambda: f"shown {r.word(RX_TAIL)}, summed {r.word(RX_SUMMED)}, not {end} and {summed}")
                assert r.mem[RX_OFF + (end - 1) % RING] == data[end - 1]

            ask(ends[0])
            shown(ends[0], 0)
            assert r.word(STATE) & SUMS == 0
            r.put(RX_HEAD, ends[0])
            say(r, RX_FPDUS, ends[0], ends[0])
            for end in ends[1:]:
                ask(end + 5 - asked)  # the part of the next FPDU that has come must not be shown
                shown(end, end)
                assert r.word(STATE) & SUMS
            r.put(RX_HEAD, ends[-1])
            r.bell()
            ask(len(bad) - 5)
            shown(ends[-1] + len(bad), ends[-1])
            ask(40)  # from here on bytes are shown as they come, without a check
            shown(ends[-1] + len(bad) + 40, ends[-1])
            ask(0)
            s.p.ok()

    with_file(job)


@case
def fpdus_that_are_said_to_lie_outside_of_the_ring_end_the_connection():
    for index in (RING + 1, 1 << 31, 0xffffffff):
        with Daemon(pair_conf()) as d:
            s = Program(d, SINK)
            with s.call(d) as r:
                say(r, TX_FPDUS, index, 0)
                r.bell()
                until(lambda: r.word(STATE) & ENDED, "the stream has not ended")
            s.p.stop()


@case
def nonsense_of_one_connection_leaves_others_alone():
    with Daemon(pair_conf(rnicd="workers = 0")) as d:
        s = Program(d, SINK)
        # Raw overwrites the doorbells of streams, which are shared by all streams of a user's programs; offloaded
        # programs have their own
        server = d.run(TESTPMD, "-s", "-a", A, "--once")
        server.wait_line("listening")
        client = d.run(TESTPMD, "--mode", "soak", "--iters", "5000", A)
        for seed in range(12):
            with s.call(d) as r:
                junk = hashlib.shake_256(bytes([seed])).digest(RING)
                r.mem[TX_OFF:TX_OFF + RING] = junk
                at = int.from_bytes(junk[:2], "little") % 1000
                struct.pack_into("<III", r.mem, TX_FPDUS, 1 | seed & 2, at, int.from_bytes(junk[2:6], "little"))
                struct.pack_into("<III", r.mem, RX_FPDUS, 1 | seed & 2, 0, int.from_bytes(junk[6:10], "little"))
                for i in range(1, 100):
                    r.put(TX_TAIL, i * 2500)
                    place = int.from_bytes(junk[i * 8:i * 8 + 4], "little") % RING
                    r.mem[TX_OFF + place] = i  # changes bytes while rnicd computes their CRC
                    r.bell()
                r.put(FIN, 1)
                r.bell()
        assert "verified" in client.ok(2 * PATIENCE), client.tail()
        server.ok()
        s.p.stop()


sys.exit(main())
