#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Bad input while a connection is set up, with the daemon as responder and as initiator, from a peer in Python.

Each case names the Terminate that RFC 5040, 5041, 5044 or 6581 asks for, or silence, and checks the bytes.
"""
import errno
import os
import socket
import struct
import time

import wire
from rig import PATIENCE, Skip, case, until
from wire import C, M, R, READ_RESP, S, SEND, WRITE, Closed, Peer, fpdu, mpa_request, read_req, send, tagged, terminate
from wire_world import (PORT, RDMAP, DDP, LLP, HDR, daemon, target, Conn, closed_without_reply, still_works, refuses,
                        mr, run)


@case
def well_behaved_peer_is_served():
    t = target()
    with Conn() as p:
        stag, addr, _ = mr("rw")
        p.put(tagged(WRITE, stag, addr + 8, b"written!"), read_req(1, (0x1234, 16), 16, (stag, addr + 8)), send(1, b"hello"))
        u = p.get()
        assert u[:2] == bytes([0xC1, 0x42]), u[:2].hex()
        assert u[2:14] == struct.pack(">IQ", 0x1234, 16) and u[14:22] == b"written!", u.hex()
        assert p.completion().split()[-1] == b"hello".hex()
        mark = t.mark()
        t.tell(f"send {p.number} 100")
        u = p.get()
        assert u[1] & 15 == SEND and len(u) == 118
        t.expect(f"wc {p.number} 0 success", mark)
    p.ended()


def dial_from(port):
    """Connects from this local port, as soon as the kernel has released the previous connection."""
    end = time.monotonic() + PATIENCE
    while True:
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.settimeout(PATIENCE)
        try:
            s.bind(("", port))
            s.connect((wire.ADDR, PORT))
            return s
        except OSError as e:
            s.close()
            assert e.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL) and time.monotonic() < end, e
            time.sleep(0.01)


@case
def a_syn_that_meets_time_wait_is_not_lost():
    """The daemon closed first and has the connection in TIME_WAIT. The peer connects from the same port, and its first
    SYN must be answered."""
    t, repeated = target(), []
    for port in range(40100, 40105):
        p = Conn(dial_from(port))
        t.tell(f"disc {p.number}")
        try:
            p.get()
        except Closed:
            pass
        p.s.close()
        with dial_from(port) as s:
            info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
            repeated.append(struct.unpack_from("=I", info, 100)[0])  # tcpi_total_retrans
    assert 0 in repeated, repeated  # on a busy machine some SYNs may be repeated


@case
def connection_that_its_peer_resets_is_said_to_have_broken():
    with Conn() as p:
        p.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        p.s.close()
        # in the other designs rnicd does not know what the bytes mean
        if os.environ.get("RNIC_DESIGN", "offloaded") == "offloaded":
            until(lambda: "an established connection broke" in daemon().stderr(), lambda: daemon().tail())
        p.ended()


@case
def request_of_revision_0_is_not_answered():
    closed_without_reply(mpa_request(rev=0, flags=C))
    still_works()


@case
def request_of_revision_3_is_not_answered():
    closed_without_reply(mpa_request(rev=3))
    still_works()


@case
def request_of_revision_1_is_answered_in_kind():
    with Conn(rev=1, flags=C, priv=b"one") as p:
        assert p.priv == b"", p.priv
        p.put(send(1, b"rev one"))
        assert "success" in p.completion()


@case
def request_with_wrong_key_is_not_answered():
    closed_without_reply(mpa_request(key=b"MPA ID Rep Frame"))
    closed_without_reply(mpa_request(key=b"MPA ID Req FramE"))
    closed_without_reply(b"GET / HTTP/1.1\r\nHost: rnic\r\n\r\n")
    still_works()


@case
def private_data_of_513_bytes_is_not_answered():
    closed_without_reply(mpa_request(priv=b"x" * 509))
    closed_without_reply(mpa_request(pd_len=513))
    closed_without_reply(mpa_request(pd_len=65535))
    still_works()


@case
def private_data_of_512_bytes_is_taken():
    t = target()
    mark = t.mark()
    with Conn(priv=bytes(range(200))) as p:
        assert t.expect(f"cm {p.number} RDMA_CM_EVENT_CONNECT_REQUEST", mark).split()[-1].startswith(bytes(range(200)).hex())
    with Conn(priv=b"y" * 508):
        pass
    with Conn(rev=1, flags=C, priv=b"y" * 512):
        pass


@case
def enhanced_request_without_its_words_is_not_answered():
    closed_without_reply(mpa_request(rev=1, priv=b"ab").replace(b"\x50\x01", b"\x50\x02"))
    still_works()


@case
def request_split_at_every_byte():
    whole = mpa_request(priv=b"private")
    for cut in range(1, len(whole)):
        target()
        with Peer(port=PORT) as p:
            p.raw(whole[:cut])
            time.sleep(0.002)
            p.raw(whole[cut:])
            flags, _, _ = p.frame()
            assert not flags & R, cut


@case
def request_byte_by_byte():
    target()
    with Peer(port=PORT) as p:
        for b in mpa_request(priv=b"slow"):
            p.raw(bytes([b]))
            time.sleep(0.001)
        assert not p.frame()[0] & R


@case
def request_and_fpdu_in_one_segment():
    """RFC 5044, 7.1.1: an initiator waits for the Reply. An initiator that does not wait is refused or served in
    full."""
    t = target()
    mark = t.mark()
    with Peer(port=PORT) as p:
        p.raw(mpa_request(priv=b"in a hurry") + fpdu(send(1, b"early")))
        try:
            flags, _, _ = p.frame()
            assert not flags & R
            assert b"early".hex() in t.expect(f"wc {t.event('CONNECT_REQUEST', mark, b'in a hurry')} ", mark)
        except Closed:
            pass
    still_works()


@case
def depths_are_answered_crosswise():
    for ird, ord_, want in ((8, 8, (4, 4)), (0, 0, (0, 0)), (2, 3, (3, 2)), (0x3FFE, 0x3FFE, (4, 4))):
        with Conn(ird=ird, ord_=ord_) as p:
            words = struct.unpack(">HH", p.priv[:4])
            assert (words[0] & 0x3FFF, words[1] & 0x3FFF) == want, f"request {ird}/{ord_}: reply {words}"


@case
def rtr_kinds():
    """Each kind of ready-to-receive message of RFC 6581 opens the way for the daemon's first FPDU."""
    t = target()
    for rtr, answer, first in ((2, 2, tagged(WRITE, 1, 0)), (1, 1, read_req(1, (0, 0), 0, (1, 0))), (4, 4, None)):
        with Conn(p2p=1, rtr=rtr) as p:
            words = struct.unpack(">HH", p.priv[:4])
            assert words[0] & 0x8000, "the Reply does not have the bit A"
            got = (4 if words[0] & 0x4000 else 0) | words[1] >> 14
            assert got == answer, f"offered {rtr}, chosen {got}"
            p.raw(fpdu(first if first is not None else b"", crc=p.crc))
            t.expect(f"cm {p.number} RDMA_CM_EVENT_ESTABLISHED", p.at)
            mark = t.mark()
            t.tell(f"send {p.number} 8")
            while p.get()[1] & 15 != SEND:
                pass
            t.expect(f"wc {p.number} 0 success", mark)


@case
def markers_in_one_direction_only():
    """M in the Request: the daemon must insert markers, and must expect none."""
    t = target()
    with Conn(flags=M | C | S) as p:
        p.put(send(1, b"no markers here"))
        assert "success" in p.completion()
        t.tell(f"send {p.number} 1200")
        p.need(1200 + 18 + 4)
        zero, ptr = struct.unpack(">HH", p.buf[:4])
        assert (zero, ptr) == (0, 0), "no marker at the start of Full Operation"
        zero, ptr = struct.unpack(">HH", p.buf[512:516])
        # the pointer counts from the length field, behind the first marker
        assert (zero, ptr) == (0, 508), f"second marker: {zero} {ptr}"


@case
def crc_asked_by_one_side_only():
    with Conn(flags=S) as p:
        assert p.crc, "the daemon is configured to ask for CRC and the Reply has no C"
        p.put(send(1, b"with crc"))
        assert "success" in p.completion()


@case
def rejected_by_the_application():
    t = target()
    t.tell("listen 7003 4 4 4 reject")
    with Peer(port=7003) as p:
        p.raw(mpa_request())
        flags, rev, priv = p.frame()
        assert flags & R and rev == 2 and priv[4:] == b"no", (flags, rev, priv)
        p.end()
    t.tell(f"listen 7004 4 4 4 accept")


# ---- the daemon as initiator ----

class Listener:
    def __init__(self):
        self.s = socket.socket()
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.s.bind((wire.HOST, 0))
        self.s.listen(16)
        self.s.settimeout(60)
        self.port = self.s.getsockname()[1]

    def called(self, priv=0):
        """The target connects; returns the peer, the Request's flags and private data, and the connection's number."""
        t = target()
        mark = t.mark()
        t.tell(f"connect {wire.HOST} {self.port} {priv}")
        n = t.event("ADDR_RESOLVED", mark)
        s, _ = self.s.accept()
        p = Peer(sock=s)
        p.number, p.at = n, mark
        p.flags, p.rev, p.pd = p.frame(wire.REQ)
        return p

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.s.close()


def reply(p, flags=None, rev=2, priv=b"", enhanced=True, ird=8, ord_=4, key=wire.REP, rtr=2, pd_len=None):
    ask = struct.unpack(">HH", p.pd[:4]) if p.flags & S else (0, 0)
    a = ask[0] & 0x8000
    body = priv
    if enhanced:
        body = struct.pack(">HH", a | ird | (0x4000 if a and rtr & 4 else 0),
                           ord_ | (0x8000 if a and rtr & 2 else 0) | (0x4000 if a and rtr & 1 else 0)) + priv
    f = (p.flags & C) | (S if enhanced else 0) if flags is None else flags
    p.crc = bool((f | p.flags) & C)
    return key + struct.pack(">BBH", f, rev, len(body) if pd_len is None else pd_len) + body


def established(p):
    target().expect(f"cm {p.number} RDMA_CM_EVENT_ESTABLISHED", p.at)


def failed(p):
    line = target().expect((f"cm {p.number} RDMA_CM_EVENT_REJECTED", f"cm {p.number} RDMA_CM_EVENT_CONNECT_ERROR",
                            f"cm {p.number} RDMA_CM_EVENT_UNREACHABLE"), p.at)
    return line.split()[2].replace("RDMA_CM_EVENT_", "")


@case
def request_carries_the_private_data():
    with Listener() as l:
        p = l.called(priv=196)
        assert p.rev == 2 and p.flags & S and p.flags & C and p.pd[4:200] == bytes(range(196)), p.pd
        p.kill()
        failed(p)


@case
def reply_split_at_every_byte():
    with Listener() as l:
        for cut in range(1, 31):
            p = l.called()
            whole = reply(p, priv=b"answer")
            p.raw(whole[:cut])
            time.sleep(0.002)
            p.raw(whole[cut:])
            established(p)
            p.close()


@case
def reply_and_first_fpdu_in_one_segment():
    with Listener() as l:
        p = l.called()
        p.raw(reply(p) + fpdu(send(1, b"first")))
        established(p)
        assert b"first".hex() in target().expect(f"wc {p.number} 128", p.at)
        p.close()


@case
def reply_without_the_enhanced_words():
    """RFC 6581, 7.1: an initiator of revision 2 works with a responder of revision 1."""
    with Listener() as l:
        p = l.called()
        p.raw(reply(p, rev=1, enhanced=False, priv=b"old"))
        established(p)
        mark = target().mark()
        target().tell(f"send {p.number} 16")
        while p.get()[1] & 15 != SEND:
            pass
        target().expect(f"wc {p.number} 0 success", mark)
        p.close()


@case
def reply_that_rejects():
    with Listener() as l:
        p = l.called()
        p.raw(reply(p, flags=R | S | C, priv=b"because"))
        line = target().expect(f"cm {p.number} RDMA_CM_EVENT_REJECTED", p.at)
        assert b"because".hex() in line, line
        p.end()


@case
def replies_that_are_no_replies():
    with Listener() as l:
        for how in ({"rev": 3}, {"rev": 0}, {"key": wire.REQ}, {"key": b"x" * 16}, {"pd_len": 513}, {"pd_len": 65535}):
            p = l.called()
            p.raw(reply(p, **how))
            assert failed(p) in ("CONNECT_ERROR", "REJECTED"), how
            p.close()


@case
def reply_that_never_comes():
    with Listener() as l:
        p = l.called()
        p.raw(reply(p)[:12])
        p.close()
        failed(p)


@case
def no_rtr_kind_in_common():
    with Listener() as l:
        p = l.called()
        if not (struct.unpack(">H", p.pd[:2])[0] & 0x8000):
            p.kill()
            raise Skip("the device is not configured for peer-to-peer")
        p.raw(reply(p, rtr=0))
        assert p.terminated()[:3] == (LLP, 0, 7)
        failed(p)


@case
def reply_that_reads_too_deep():
    with Listener() as l:
        p = l.called()
        p.raw(reply(p, ord_=0x3FFE))
        assert p.terminated()[:3] == (LLP, 0, 6)
        failed(p)


@case
def reply_that_asks_for_markers():
    with Listener() as l:
        p = l.called()
        p.raw(reply(p, flags=M | C | S))
        established(p)
        target().tell(f"send {p.number} 600")
        p.need(520)
        assert p.buf[:4] == b"\0\0\0\0", p.buf[:4]
        p.close()


def reading(l, n=100):
    """Lets the daemon send a Read Request of n bytes; returns the peer and the sink that the Request names."""
    p = l.called()
    p.raw(reply(p))
    established(p)
    target().tell(f"read {p.number} {n} 99 4096")
    while True:
        u = p.get()
        if u[1] & 15 == 1 and struct.unpack_from(">I", u, 30)[0] == n:
            break
    sink = struct.unpack_from(">IQ", u, 18)
    assert struct.unpack_from(">IQ", u, 34) == (99, 4096), u.hex()
    return p, sink


@case
def read_response_in_order():
    with Listener() as l:
        p, (stag, to) = reading(l)
        p.put(tagged(READ_RESP, stag, to, b"r" * 60, last=False), tagged(READ_RESP, stag, to + 60, b"s" * 40))
        assert "success" in target().expect(f"wc {p.number} 2", p.at)
        p.close()


@case
def read_response_longer_than_its_read():
    with Listener() as l:
        before = target().sum("wo")
        p, (stag, to) = reading(l)
        p.put(tagged(READ_RESP, stag, to, b"r" * 101))
        assert p.terminated()[:3] == (DDP, 1, 1)
        p.close()
        p, (stag, to) = reading(l)
        p.put(tagged(READ_RESP, stag, to, b"r" * 100, last=False), tagged(READ_RESP, stag, to + 100, b"s"))
        layer, _, _, _, _ = p.terminated()
        assert layer in (RDMAP, DDP)
        p.close()
        assert target().sum("wo") == before


@case
def read_response_to_elsewhere():
    with Listener() as l:
        before = target().sum("wo")
        for stag_, off, want in ((mr("wo")[0], None, (DDP, 1, 0)), (None, 8, (DDP, 1, 1)), (None, -8, (DDP, 1, 1))):
            p, (stag, to) = reading(l)
            p.put(tagged(READ_RESP, stag if stag_ is None else stag_, to if off is None else to + off, b"r" * 100))
            assert p.terminated()[:3] == want, want
            p.close()
        assert target().sum("wo") == before


@case
def read_response_nobody_asked_for():
    stag, addr, _ = mr("rw")
    refuses((RDMAP, 2, 6), tagged(READ_RESP, stag, addr, b"unasked"), hdrct=HDR)
    with Listener() as l:
        p, (stag, to) = reading(l)
        p.put(tagged(READ_RESP, stag, to, b"r" * 100), tagged(READ_RESP, stag, to, b"r" * 100))
        assert p.terminated()[:3] == (RDMAP, 2, 6)
        p.close()


@case
def terminate_while_a_read_waits():
    with Listener() as l:
        p, _ = reading(l)
        p.put(terminate(RDMAP, 1, 0))
        p.end()
        line = target().expect(f"wc {p.number} ", p.at)
        assert "success" not in line, line
        p.close()


if __name__ == "__main__":
    run()
