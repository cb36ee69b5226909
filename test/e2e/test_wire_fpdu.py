#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Bad FPDUs and segments from a peer in Python, and the end of the connection in every state.

Each case names the Terminate that RFC 5040, 5041, 5044 or 6581 asks for, or silence, and checks the bytes.
"""
import random
import socket
import time

from rig import case
from wire import (READ_RESP, SEND, TERMINATE, WRITE, Closed, Peer, fpdu, mpa_request, read_req, send, tagged,
                  terminate, untagged)
from wire_world import PORT, RECV_LEN, RDMAP, DDP, LLP, HDR, HDR_READ, target, Conn, still_works, refuses, mr, run


@case
def fpdus_split_and_merged_in_any_way():
    rng = random.Random(5)
    for _ in range(6):
        with Conn() as p:
            stag, addr, _ = mr("wo")
            data = b"".join(fpdu(tagged(WRITE, stag, addr, rng.randbytes(rng.randrange(1, 1400)))) for _ in range(8))
            data += fpdu(send(1, b"end"))
            while data:
                n = rng.choice((1, 2, 3, 7, 100, 1000, 3000))
                p.raw(data[:n])
                data = data[n:]
                time.sleep(0.0005)
            assert "success" in p.completion()


@case
def zero_length_operations():
    with Conn() as p:
        p.put(tagged(WRITE, 0xDEADBEEF, 77), read_req(1, (9, 9), 0, (0, 0)), send(1, b""))
        u = p.get()
        assert u[1] & 15 == READ_RESP and len(u) == 14, u.hex()
        assert p.completion().split()[3:5] == ["success", "0"], p.completion()


@case
def crc_wrong():
    stag, addr, _ = mr("rw")
    before = target().sum("rw")
    for n in (0, 7, 14, 20, 31, 32):
        with Conn() as p:
            p.put(tagged(WRITE, 0, 0))
            bad = bytearray(fpdu(tagged(WRITE, stag, addr, b"never to be seen")))
            bad[n] ^= 1 if n else 0  # n 0 stands for the CRC itself
            bad[-1] ^= 0 if n else 1
            p.raw(bytes(bad))
            assert p.terminated()[:4] == (LLP, 0, 2, 0), n
            p.ended()
    assert target().sum("rw") == before, "bytes with a bad CRC were placed"


@case
def first_fpdu_broken():
    """RFC 5044, 7.1.2: a responder sends nothing before it has received a first FPDU, so no Terminate either."""
    with Conn() as p:
        p.raw(fpdu(send(1, b"x"))[:-1] + b"!")
        p.end()
    still_works()


@case
def fpdu_shorter_than_its_header():
    stag, addr, _ = mr("rw")
    ready = tagged(WRITE, 0, 0)
    for n in (1, 2, 13):
        refuses((LLP, 0, 3), ready, tagged(WRITE, stag, addr, b"x" * 16)[:n], hdrct=0)
    for n in (14, 17):
        refuses((LLP, 0, 3), ready, send(1, b"x" * 16)[:n], hdrct=0)


@case
def empty_fpdu_in_the_middle():
    with Conn() as p:
        p.put(send(1, b"a"))
        p.completion()
        p.put(b"")
        layer, etype, _, _, _ = p.terminated()
        assert (layer, etype) == (LLP, 0)
        p.ended()


@case
def unknown_opcode():
    for op in (12, 13, 15):
        refuses((RDMAP, 2, 6), untagged(op, 0, 1, b"x" * 32), hdrct=HDR)
    stag, addr, _ = mr("rw")
    refuses((RDMAP, 2, 6), tagged(15, stag, addr, b"x" * 32), hdrct=HDR)


@case
def opcode_with_the_wrong_t_bit():
    stag, addr, _ = mr("rw")
    refuses((RDMAP, 2, 6), tagged(SEND, stag, addr, b"tagged send"))
    refuses((RDMAP, 2, 6), untagged(WRITE, 0, 1, b"untagged write"))


@case
def wrong_ddp_version():
    stag, addr, _ = mr("rw")
    for dv in (0, 2, 3):
        refuses((DDP, 1, 4), tagged(WRITE, stag, addr, b"x", dv=dv), hdrct=HDR)
        refuses((DDP, 2, 6), send(1, b"x", dv=dv), hdrct=HDR)


@case
def wrong_rdmap_version():
    for rv in (0, 2, 3):
        refuses((RDMAP, 2, 5), send(1, b"x", rv=rv), hdrct=HDR)


@case
def wrong_queue_number():
    for qn in (4, 0xFFFFFFFF):
        refuses((DDP, 2, 1), untagged(SEND, qn, 1, b"x"), hdrct=HDR)


@case
def msn_gap_and_repeat():
    refuses((DDP, 2, 3), send(2, b"x"), hdrct=HDR)
    refuses((DDP, 2, 3), send(0, b"x"), hdrct=HDR)
    refuses((DDP, 2, 3), send(1, b"x"), send(1, b"x"), hdrct=HDR)
    refuses((DDP, 2, 3), send(1, b"x"), send(3, b"x"), hdrct=HDR)
    stag, addr, _ = mr("rw")
    refuses((DDP, 2, 3), read_req(2, (1, 1), 8, (stag, addr)), hdrct=HDR)


@case
def message_offset_wrong():
    refuses((DDP, 2, 4), send(1, b"x", mo=4), hdrct=HDR)
    refuses((DDP, 2, 4), send(1, b"abcd", last=False), send(1, b"x", mo=5), hdrct=HDR)
    refuses((DDP, 2, 4), send(1, b"abcd", last=False), send(1, b"x", mo=0), hdrct=HDR)


@case
def send_without_receive_posted():
    refuses((DDP, 2, 2), *[send(i + 1, b"x") for i in range(5)], hdrct=HDR)


@case
def send_longer_than_the_receive():
    step = 1024
    parts = [send(1, b"x" * step, mo=i * step, last=False) for i in range(RECV_LEN // step)]
    refuses((DDP, 2, 5), *parts, send(1, b"y", mo=RECV_LEN), hdrct=HDR)
    t = target()
    with Conn() as p:
        p.put(*parts, send(1, b"y", mo=RECV_LEN))
        assert "length" in p.completion(), p.completion()
    assert t.p.poll() is None


@case
def write_to_a_bad_stag():
    stag, addr, n = mr("rw")
    refuses((DDP, 1, 0), tagged(WRITE, stag ^ 0x40000000, addr, b"x" * 8), hdrct=HDR)
    refuses((DDP, 1, 0), tagged(WRITE, stag ^ 0x55, addr, b"x" * 8), hdrct=HDR)  # wrong key, right index
    refuses((DDP, 1, 0), tagged(WRITE, 0, addr, b"x" * 8), hdrct=HDR)
    refuses((DDP, 1, 0), tagged(WRITE, 0xFFFFFFFF, addr, b"x" * 8), hdrct=HDR)


@case
def write_to_a_deregistered_region():
    stag, addr, _ = mr("gone")
    refuses((DDP, 1, 0), tagged(WRITE, stag, addr, b"x" * 8), hdrct=HDR)


@case
def write_out_of_bounds():
    stag, addr, n = mr("rw")
    refuses((DDP, 1, 1), tagged(WRITE, stag, addr - 1, b"x" * 8), hdrct=HDR)
    refuses((DDP, 1, 1), tagged(WRITE, stag, addr + n - 7, b"x" * 8), hdrct=HDR)
    refuses((DDP, 1, 1), tagged(WRITE, stag, addr + n, b"x"), hdrct=HDR)
    refuses((DDP, 1, 1), tagged(WRITE, stag, 0, b"x"), hdrct=HDR)


@case
def write_out_of_bounds_with_its_second_segment():
    stag, addr, n = mr("rw")
    with Conn() as p:
        p.put(tagged(WRITE, stag, addr + n - 8, b"A" * 8, last=False), tagged(WRITE, stag, addr + n, b"B" * 8))
        assert p.terminated()[:3] == (DDP, 1, 1)


@case
def write_that_wraps():
    stag, _, _ = mr("rw")
    refuses((DDP, 1, 3), tagged(WRITE, stag, (1 << 64) - 8, b"x" * 16), hdrct=HDR)
    refuses((DDP, 1, 3), tagged(WRITE, stag, (1 << 64) - 1, b"x" * 2), hdrct=HDR)


@case
def write_into_another_protection_domain():
    stag, addr, _ = mr("other")
    refuses((DDP, 1, 2), tagged(WRITE, stag, addr, b"x" * 8), hdrct=HDR)


@case
def write_without_the_right():
    for name in ("ro", "lo"):
        stag, addr, _ = mr(name)
        refuses((RDMAP, 1, 2), tagged(WRITE, stag, addr, b"x" * 8), hdrct=HDR)


def reads(stag, addr, n=8, sink=(7, 0)):
    return read_req(1, sink, n, (stag, addr))


@case
def read_of_what_may_not_be_read():
    stag, addr, n = mr("rw")
    refuses((RDMAP, 1, 0), reads(stag ^ 0x55, addr), hdrct=HDR_READ)
    refuses((RDMAP, 1, 0), reads(0, addr), hdrct=HDR_READ)
    refuses((RDMAP, 1, 1), reads(stag, addr + n - 7), hdrct=HDR_READ)
    refuses((RDMAP, 1, 1), reads(stag, addr, 0xFFFFFFFF), hdrct=HDR_READ)
    refuses((RDMAP, 1, 4), reads(stag, (1 << 64) - 4), hdrct=HDR_READ)
    refuses((RDMAP, 1, 2), reads(*mr("wo")[:2]), hdrct=HDR_READ)
    refuses((RDMAP, 1, 2), reads(*mr("lo")[:2]), hdrct=HDR_READ)
    refuses((RDMAP, 1, 3), reads(*mr("other")[:2]), hdrct=HDR_READ)
    refuses((RDMAP, 1, 0), reads(*mr("gone")[:2]), hdrct=HDR_READ)


@case
def read_request_of_a_wrong_length():
    stag, addr, _ = mr("rw")
    whole = reads(stag, addr)
    for bad in (whole[:-1], whole + b"x", whole[:18]):
        with Conn() as p:
            p.put(bad)
            p.terminated()
            p.ended()


@case
def more_reads_than_ird():
    """RFC 5040, 5.1.2: IRD is the number of buffers of queue 1."""
    stag, addr, n = mr("rw")
    with Conn(ord_=2) as p:
        p.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        p.put(*[read_req(i + 1, (1, i * n), n, (stag, addr)) for i in range(64)])
        assert p.terminated()[:3] == (DDP, 2, 2)
        p.ended()


@case
def send_with_invalidate_of_a_bad_stag():
    refuses((RDMAP, 1, 9), untagged(4, 0, 1, b"x", word=0xBAD0BAD0), hdrct=HDR)
    refuses((RDMAP, 1, 9), untagged(4, 0, 1, b"x", word=mr("other")[0]), hdrct=HDR)


@case
def message_broken_off_by_another_opcode():
    with Conn() as p:
        p.put(send(1, b"abcd", last=False), untagged(5, 0, 1, b"efgh", mo=4))
        layer, _, _, _, _ = p.terminated()
        assert layer == RDMAP
        p.ended()


# ---- Terminate and the end in every state ----

@case
def terminate_at_rest():
    with Conn() as p:
        p.put(send(1, b"a"))
        p.completion()
        p.put(terminate(RDMAP, 2, 0xFF))
        p.end()
        p.ended()


@case
def terminate_as_first_fpdu():
    with Conn() as p:
        p.put(terminate(LLP, 0, 5))
        p.end()
        p.ended()


@case
def terminate_in_the_middle_of_a_message():
    with Conn() as p:
        stag, addr, _ = mr("wo")
        p.put(send(1, b"half", last=False), terminate(RDMAP, 0, 0))
        p.end()
        p.ended()


@case
def terminate_while_reads_are_served():
    stag, addr, n = mr("rw")
    with Conn() as p:
        p.put(*[read_req(i + 1, (1, 0), n, (stag, addr)) for i in range(4)], terminate(RDMAP, 0, 0))
        try:
            while True:
                assert p.get()[1] & 15 == READ_RESP
        except Closed:
            pass
        p.ended()


@case
def terminate_of_wrong_forms():
    """A Terminate that is too short, has MSN 2, or came on queue 0, each followed by a good one: the stream ends and
    nothing else happens."""
    whole = terminate(RDMAP, 2, 6)
    for bad in (whole[:18], whole[:20], untagged(TERMINATE, 2, 2, whole[18:]), untagged(TERMINATE, 0, 1, whole[18:])):
        with Conn() as p:
            p.put(bad, whole)
            try:
                while True:
                    assert p.get()[1] & 15 == TERMINATE
            except Closed:
                pass
            p.ended()


@case
def terminate_with_every_code():
    for layer in range(4):
        for code in (0, 1, 2, 9, 0xFF):
            with Conn() as p:
                p.put(terminate(layer, code & 3, code))
                p.end()


@case
def terminate_before_the_reply():
    t = target()
    t.tell("listen 7005 4 4 4 hold")
    with Peer(port=7005) as p:
        mark = t.mark()
        p.raw(mpa_request(priv=b"too early"))
        n = t.event("CONNECT_REQUEST", mark, b"too early")
        p.raw(fpdu(terminate(LLP, 0, 5)))
        p.end()
        t.say(f"accept {n}")
        t.expect(("done accept", "failed accept"), mark)
    t.tell("listen 7006 4 4 4 accept")
    still_works()


@case
def reset_in_every_state():
    t = target()
    p = Peer(port=PORT)
    p.kill()
    p = Peer(port=PORT)
    p.raw(mpa_request()[:10])
    p.kill()
    p = Peer(port=PORT)
    p.raw(mpa_request())
    p.kill()
    with Conn() as p:
        p.kill()
    p.ended()
    stag, addr, n = mr("rw")
    with Conn() as p:
        p.put(*[read_req(i + 1, (1, 0), n, (stag, addr)) for i in range(4)])
        p.kill()
    p.ended()
    still_works()
    assert t.p.poll() is None


@case
def half_close_is_an_end():
    with Conn() as p:
        p.put(send(1, b"last words"))
        p.s.shutdown(socket.SHUT_WR)
        assert "success" in p.completion()
        p.end()
        p.ended()


if __name__ == "__main__":
    run()
