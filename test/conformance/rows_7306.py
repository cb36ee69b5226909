# SPDX-License-Identifier: BSD-3-Clause
"""RFC 7306 (extensions of RDMAP): immediate data and atomic operations."""
import struct
import sys

from dut import RECEIVES
from rows_ddp import OPEN, refuse
from steps import (DDP, Differs, FREE, LLP, RDMAP, accepted, delivered, ends_somehow, expects, holds, put, row, step)
from wire import READ_RESP, send, tagged, untagged

IMM, IMM_SE, ATOMIC, ATOMIC_RESP = 8, 9, 10, 11
FETCH_ADD, CMP_SWAP = 0, 2
ONES = (1 << 64) - 1
RECV_IMM = 129  # IBV_WC_RECV_RDMA_WITH_IMM


def imm(msn, value, op=IMM, size=8):
    return untagged(op, 0, msn, struct.pack(">Q", value << 32)[:size].ljust(size, b"\0"))


def atomic(op, off, data, mask=0, compare=0, compare_mask=0, region="at", ident=0xA7001, extra=b"", cut=52, **bits):
    """An Atomic Request. Its MSN on queue 1 is counted together with those of the Reads."""
    def make(x):
        x.read_msn += 1
        stag, addr, _ = x.mr(region)
        body = struct.pack(">IIIQQQQQ", op, ident, stag, (addr + off) & ONES, data, mask, compare, compare_mask)
        return untagged(ATOMIC, bits.pop("qn", 1), bits.pop("msn", x.read_msn), body[:cut] + extra, **bits)
    return make


def was(x, off):
    return int.from_bytes(x.content("at", off, 8), sys.byteorder)


def response(msn, off, ident=0xA7001, value=None):
    return lambda x: untagged(ATOMIC_RESP, 3, msn, struct.pack(">IQ", ident, was(x,
    off) if value is None else value(x)))


def left(off, value):
    """The memory holds this value now."""
    return holds("at", off, lambda x: (value(x) & ONES).to_bytes(8, sys.byteorder))


@step
def immediate(x, value, size):
    """The application's next receive completes with this immediate data."""
    nth = x.taken[RECV_IMM] = x.taken.get(RECV_IMM, -1) + 1
    line = x.said(f"wc {x.number} {RECV_IMM} ", nth, what="does not deliver").split()
    if line[3] != "success" or int(line[4]) != size or int(line[6], 16) != value:
        raise Differs(f"completes '{' '.join(line)}'")


# ---- immediate data ----

row("imm", "7306 6.3", "R", "Immediate Data takes a receive and is delivered", accepted(), put(imm(1, 0x01020304)),
    immediate(0x01020304, 0))
row("imm-se", "7306 6.3", "R", "Immediate Data with Solicited Event is delivered", accepted(),
    put(imm(1, 0xFFFFFFFF, IMM_SE)), immediate(0xFFFFFFFF, 0))
row("imm-behind-write", "7306 6", "R", "When Immediate Data is delivered, the Write before it is in memory", accepted(),
    put(lambda x: x.write("rw", FREE, b"x" * 1000, last=False), lambda x: x.write("rw", FREE + 1000, b"y" * 100),
        imm(1, 7)), immediate(7, 1100), holds("rw", FREE, b"x" * 1000 + b"y" * 100))
row("imm-among-sends", "7306 6.4", "R", "Immediate Data and Sends share queue 0 and its MSNs, in order",
    accepted(), put(send(1, b"a"), imm(2, 9), send(3, b"b")), delivered(b"a"), immediate(9, 0), delivered(b"b"))
for n, name in ((7, "short"), (9, "long"), (0, "empty")):
    refuse(f"imm-{name}", "7306 6.3", "Immediate Data of another length than 8 octets is refused", (RDMAP, 2, 7),
        imm(1, 1, size=n),
        also=((DDP, 2, 5),))
refuse("imm-no-buffer", "7306 6.3", "Immediate Data without a receive: Terminate \"no buffer available\"", (DDP, 2, 2),
    *[imm(i, i) for i in range(1, RECEIVES + 2)])
refuse("imm-msn-gap", "7306 8.2", "A gap in the MSNs of Immediate Data is refused", (DDP, 2, 3), imm(2, 1))
refuse("imm-queue", "7306 6.3", "Immediate Data on queue 1 is refused", (DDP, 2, 1), untagged(IMM, 1, 1, b"12345678"))
refuse("imm-tagged", "7306 6.3", "Immediate Data in a tagged segment is refused", (RDMAP, 2, 6),
    lambda x: tagged(IMM, x.mr("rw")[0], x.mr("rw")[1], b"12345678"))
refuse("imm-in-message", "7306 6.3", "Immediate Data as a later segment of a Send is refused", (RDMAP, 2, 6),
    send(1, b"abcd", last=False), untagged(IMM, 0, 1, b"12345678", mo=4), also=((DDP, 2, 4),))

# ---- atomic operations ----

row("fetchadd", "7306 5.1.1", "R", "FetchAdd returns the old value and stores the sum", accepted(),
    put(atomic(FETCH_ADD, 64, 1000)), expects(response(1, 64)), left(64, lambda x: was(x, 64) + 1000))
row("fetchadd-fields", "7306 5.1.1", "R", "No carry leaves a field of FetchAdd whose highest bit is in the mask",
    accepted(), put(atomic(FETCH_ADD, 128, ONES, 0x8080808080808080)), expects(response(1, 128)),
    left(128, lambda x: int.from_bytes(bytes((b + 255) & 255 for b in was(x, 128).to_bytes(8, "big")), "big")))
row("cmpswap", "7306 5.1.2", "R", "CmpSwap swaps if the values are equal", accepted(),
    put(lambda x: atomic(CMP_SWAP, 192, 0x1122334455667788, ONES, was(x, 192), ONES)(x)), expects(response(1, 192)),
    left(192, lambda x: 0x1122334455667788))
row("cmpswap-differs", "7306 5.1.2", "R", "CmpSwap leaves the memory alone if the values differ", accepted(),
    put(lambda x: atomic(CMP_SWAP, 256, 0, ONES, was(x, 256) ^ 1, ONES)(x)), expects(response(1, 256)),
    left(256, lambda x: was(x, 256)))
row("cmpswap-masks", "7306 5.1.2", "R", "CmpSwap compares and swaps the bits in its masks only", accepted(),
    put(lambda x: atomic(CMP_SWAP, 320, 0, 0xFFFF, was(x, 320) ^ (0xFF << 56), ONES >> 8)(x)),
    expects(response(1, 320)), left(320, lambda x: was(x, 320) & ~0xFFFF))
row("atomic-reserved", "7306 5.2.1", "R", "The reserved bits before AOpCode are not checked", accepted(),
    put(atomic(0xFFFFFFF0 | FETCH_ADD, 384, 0)), expects(response(1, 384)))
row("atomics-in-order", "7306 5.4", "R", "Atomics are executed and answered in order, each Response with its own MSN",
    accepted(), put(*[atomic(FETCH_ADD, 448, 1, ident=i) for i in range(4)]),
    expects(*[response(i + 1, 448, ident=i, value=lambda x, i=i: was(x, 448) + i) for i in range(4)]))
row("atomics-among-reads", "7306 5.2.1", "R", "Atomics and Reads share queue 1 and are answered in order", accepted(),
    put(lambda x: x.read("ro", 0, 8, (1, 1)), atomic(FETCH_ADD, 512, 0), lambda x: x.read("ro", 8, 8, (2, 2))),
    expects(lambda x: tagged(READ_RESP, 1, 1) + x.content("ro", 0, 8), response(1, 512),
    lambda x: tagged(READ_RESP, 2, 2) + x.content("ro", 8, 8)))
row("atomic-behind-write", "7306 7", "R", "An Atomic behind a Write finds the bytes of the Write", accepted(),
    put(lambda x: x.write("at", 576, (41).to_bytes(8, sys.byteorder)), atomic(FETCH_ADD, 576, 1)),
    expects(response(1, 576, value=lambda x: 41)), left(576, lambda x: 42))

refuse("atomic-stag-unknown", "7306 8.2", "A STag that does not exist: Terminate \"invalid STag\"", (RDMAP, 1, 0),
    lambda x: untagged(ATOMIC, 1, 1, struct.pack(">IIIQ32x", 0, 1, x.mr("at")[0] ^ 0x40000000, x.mr("at")[1])))
refuse("atomic-bounds", "7306 8.2", "An Atomic over the region's end: Terminate \"base or bounds violation\"", (RDMAP,
    1, 1),
    atomic(FETCH_ADD, 65536, 1))
refuse("atomic-right", "7306 8.2",
    "A region without the right of atomic access: Terminate \"access rights violation\"", (RDMAP, 1, 2),
    atomic(FETCH_ADD, 0, 1, region="rw"))
refuse("atomic-other-pd", "7306 8.2", "A STag of another PD: Terminate \"STag not associated with RDMAP Stream\"",
    (RDMAP, 1, 3), atomic(FETCH_ADD, 0, 1, region="other"), also=((RDMAP, 1, 0),))
refuse("atomic-wraps", "7306 8.2", "A TO whose 8 octets pass 2^64: Terminate \"TO wrap\"", (RDMAP, 1, 4),
    lambda x: atomic(FETCH_ADD, (1 << 64) - 4 - x.mr("at")[1], 1)(x))
refuse("atomic-unaligned", "7306 5.1", "An Atomic at a TO that is no multiple of 8 is refused", (RDMAP, 2, 7),
    atomic(FETCH_ADD, 4, 1))
refuse("atomic-opcode", "7306 5.2.1", "An Atomic with a reserved AOpCode is refused", (RDMAP, 2, 6), atomic(1, 0, 1),
    also=((RDMAP, 2, 7),))
refuse("atomic-msn-gap", "7306 8.2", "A gap in the MSNs of queue 1 is refused", (DDP, 2, 3), atomic(FETCH_ADD, 0, 1,
    msn=2))
refuse("atomic-queue", "7306 5.2.1", "An Atomic Request on queue 0 is refused", (DDP, 2, 1), atomic(FETCH_ADD, 0, 1,
    qn=0))
row("atomic-short", "7306 5.2.1", "R", "An Atomic Request of less than 52 octets ends the stream with a Terminate",
    accepted(), OPEN, put(atomic(FETCH_ADD, 0, 1, cut=51)), ends_somehow(RDMAP, DDP, LLP))
row("atomic-long", "7306 5.2.1", "R", "An Atomic Request of more than 52 octets ends the stream with a Terminate",
    accepted(), OPEN, put(atomic(FETCH_ADD, 0, 1, extra=b"!")), ends_somehow(RDMAP, DDP))
refuse("atomic-response-unasked", "7306 8.2", "An Atomic Response without a Request is refused", (DDP, 2, 2),
    untagged(ATOMIC_RESP, 3, 1, struct.pack(">IQ", 1, 1)), also=((RDMAP, 2, 6),))
