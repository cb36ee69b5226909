# SPDX-License-Identifier: BSD-3-Clause
"""A case for each rule of doc/datagram-iwarp.md, chapter "Service resolution (SIDR)", with Debian's udaddy."""
import struct
import time

from rig import case
from rules import rule
from ud_scene import CM_KEY, MY_QPN, PORT, counted, message, peer, program, question, reply
from wire import ADDR, HOST


def ask(w, ident, data, tries=200):
    """Repeats a request until its reply comes: the server may not listen yet."""
    for _ in range(tries):
        w.put(data)
        d = w.get()
        assert d.kind == 3 and (d.dst_qpn, d.src_qpn, d.qkey) == (1, 1, 0), d
        got, status, _, port, qpn, qkey = struct.unpack_from(">QBBHII", d.body)
        assert got == ident, d
        if status != 1:
            return status, port, qpn, qkey, d.body[20:]
        time.sleep(0.05)
    return 1, port, qpn, qkey, b""


@rule("Both QPNs of the datagram MUST be 1 and the Q_Key MUST be 0", "MUST answer a repeated one with the same reply")
@case
def a_server_that_is_asked_for():
    w = peer()
    assert ask(w, 5, question(5, port=9), 1)[:2] == (1, 9), "a port without listener must be refused"
    p = program("udaddy", "-b", ADDR)
    first = ask(w, 6, question(6))
    assert first[0] == 0 and first[1] == PORT and first[3] == CM_KEY and first[2] > 1, first
    assert ask(w, 6, question(6)) == first, "a repeated request must get the same reply"
    counted("crc", lambda: w.put(question(6), 0))
    for _ in range(10):  # udaddy answers to the QPN in the immediate, with its own QPN as immediate
        w.put(message(first[2], b"y" * 100, CM_KEY, flags=1, word=MY_QPN))
    for _ in range(10):
        d = w.get()
        assert (d.kind, d.dst_qpn, d.src_qpn, d.qkey, d.imm) == (1, MY_QPN, first[2], CM_KEY, first[2]), d
    p.ok()


def asked(w):
    d = w.get()
    assert (d.kind, d.dst_qpn, d.src_qpn, d.qkey) == (2, 1, 1, 0), d
    ident, _, _, port, source, _ = struct.unpack_from(">QBBHII", d.body)
    assert port == PORT and source > 1023, d
    return ident


@rule("Both QPNs of the datagram MUST be 1 and the Q_Key MUST be 0", "The asking side MUST ignore a reply whose id or port")
@case
def a_client_that_asks():
    w = peer()
    p = program("udaddy", "-s", HOST)
    ident = asked(w)
    assert asked(w) == ident, "the repeated request has another number"
    for wrong in (reply(ident ^ 1, 0, PORT, 5, 6), reply(ident, 0, PORT + 1, 5, 6), reply(ident, 0, PORT, 5, 6)[:30]):
        w.put(wrong)
    assert asked(w) == ident, "the program accepted a reply that was not for its request"
    w.put(reply(ident, 2, PORT))
    assert p.wait() != 0 and "UNREACHABLE, error: 2" in p.stdout(), p.tail()

    p = program("udaddy", "-s", HOST)
    ident = asked(w)
    w.put(reply(ident, 0, PORT, MY_QPN, 0x777))
    d = w.get()
    while d.kind == 2:
        d = w.get()
    assert (d.kind, d.dst_qpn, d.qkey, d.imm) == (1, MY_QPN, 0x777, d.src_qpn), d
    p.p.kill()
    p.wait()
    w.rest()


@rule("A request MUST be repeated with the same id")
@case
def a_client_that_nobody_answers():
    w = peer()
    p = program("udaddy", "-s", HOST)
    idents = {asked(w)}
    first = time.monotonic()
    idents.update(asked(w) for _ in range(6))
    assert len(idents) == 1 and time.monotonic() - first > 3, "pauses between requests must grow from 0.1 to 3.2 s"
    assert p.wait() != 0 and "UNREACHABLE, error: -110" in p.stdout(), p.tail()
