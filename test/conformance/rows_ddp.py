# SPDX-License-Identifier: BSD-3-Clause
"""RFC 5041 (DDP): headers, segments, sequence, buffers, errors."""
from dut import RECEIVES, RECV_LEN
from steps import (DDP, FREE, accepted, delivered, do, expects, holds, message, pause, put, row, terminated,
                   undelivered)
from wire import READ_RESP, SEND, WRITE, send, tagged, untagged

SEND_HEAD = untagged(SEND, 0, 1)
# When the version or the opcode is unknown, so is the segment's layout: the Terminate may leave out the segment's
# header.
UNKNOWN = ("ddp", "none")
OPEN = put(tagged(WRITE, 0, 0))  # an empty Write as the first FPDU, after which a responder may send


def reserved(u, ddp=0, rdmap=0):
    """The ULPDU with reserved bits set in its two control octets."""
    return bytes([u[0] | ddp, u[1] | rdmap]) + u[2:]


def refuse(name, section, text, want, *ulpdus, copies="ddp", also=(), **more):
    """Adds a row: after a good set-up the device gets these ULPDUs, sends this Terminate, and places nothing."""
    row(name, section, "R", text, accepted(), OPEN, put(*ulpdus), terminated(*want, copies=copies, also=also), **more)


# ---- headers ----

row("ddp-reserved-bits", "5041 4.1", "R", "Reserved bits of the DDP control field are not checked",
    accepted(), put(reserved(send(1, b"reserved"), ddp=0x3C)), delivered(b"reserved"),
    put(lambda x: reserved(x.write("rw", FREE, b"reserved"), ddp=0x3C)), holds("rw", FREE, b"reserved"))
row("ddp-send-header", "5041 4.3", "R", "An untagged segment sent: T 0, L 1, reserved 0, DV 1, QN 0, MSN from 1, MO 0",
    accepted(), OPEN, do("send {n} 8"), do("send {n} 8"),
    expects(lambda x: untagged(SEND, 0, 1) + x.content("rw", 0, 8),
    lambda x: untagged(SEND, 0, 2) + x.content("rw", 0, 8)))
row("ddp-write-header", "5041 4.2", "R", "A tagged segment sent: T 1, L 1, reserved 0, DV 1, STag and TO as posted",
    accepted(), OPEN, do("write {n} 8 305419896 81985529216486895"),
    expects(lambda x: tagged(WRITE, 0x12345678, 0x0123456789ABCDEF) + x.content("rw", 0, 8)))
refuse("ddp-version-tagged", "5041 7.1", "DV other than 1 in a tagged segment: Terminate \"invalid DDP version\"",
    (DDP, 1, 4),
    lambda x: x.write("rw", FREE, b"x", dv=2), copies=UNKNOWN)
refuse("ddp-version-untagged", "5041 7.1", "DV other than 1 in an untagged segment: Terminate \"invalid DDP version\"",
    (DDP, 2, 6), send(1, b"x", dv=0), copies=UNKNOWN)
refuse("ddp-queue-4", "5041 7.1", "A queue that does not exist: Terminate \"invalid QN\"", (DDP, 2, 1),
    untagged(SEND, 4, 1, b"x"))
refuse("ddp-queue-large", "5041 7.1", "A queue that does not exist: Terminate \"invalid QN\"", (DDP, 2, 1),
    untagged(SEND, 0xFFFFFFFF, 1, b"x"))
refuse("ddp-queue-of-another", "5041 7.1", "A Send on the queue of Read Requests: Terminate \"invalid QN\"",
    (DDP, 2, 1), untagged(SEND, 1, 1, b"x"),
    also=((0, 2, 6),))

# ---- untagged buffers ----

row("msn-in-order", "5041 5.1.2", "R", "MSN 1, 2, 3, 4 go to the receives in the order they were posted",
    accepted(), put(*[send(i, b"message %d" % i) for i in range(1, 5)]),
    *[delivered(b"message %d" % i) for i in range(1, 5)])
row("msn-per-queue", "5041 5.1.2", "R", "Each queue counts its own MSN",
    accepted(), put(send(1, b"a"), lambda x: x.read("rw", 0, 4, (9, 9)), send(2, b"b")), delivered(b"a"),
    delivered(b"b"),
    expects(lambda x: tagged(READ_RESP, 9, 9) + x.content("rw", 0, 4)))
refuse("msn-0", "5041 7.1", "MSNs begin with 1: MSN 0 is out of range", (DDP, 2, 3), send(0, b"x"))
refuse("msn-2-first", "5041 7.1", "MSNs begin with 1: MSN 2 first is out of range", (DDP, 2, 3), send(2, b"x"))
row("msn-repeated", "5041 7.1", "R", "A repeated MSN is out of range", accepted(), put(send(1, b"once")),
    delivered(b"once"), put(send(1, b"once")),
    terminated(DDP, 2, 3, copies="ddp"), undelivered())
row("msn-gap", "5041 7.1", "R", "A gap in the MSNs is out of range", accepted(), put(send(1, b"one")),
    delivered(b"one"), put(send(3, b"three")),
    terminated(DDP, 2, 3, copies="ddp"), undelivered())
row("no-buffer", "5041 7.1", "R",
    "A message without a buffer: Terminate \"no buffer available\"; earlier messages are delivered",
    accepted(), put(*[send(i, b"%d" % i) for i in range(1, RECEIVES + 2)]),
    *[delivered(b"%d" % i) for i in range(1, RECEIVES + 1)],
    terminated(DDP, 2, 2, copies="ddp"))
row("message-in-segments", "5041 5.2", "R", "Segments of a message, with growing MO and L on the last: one delivery",
    accepted(), put(send(1, b"a" * 100, last=False), send(1, b"b" * 33, mo=100, last=False), send(1, b"c", mo=133)),
    delivered(b"a" * 100 + b"b" * 33 + b"c"))
row("message-not-finished", "5041 5.4", "R", "A message is not delivered before its last segment",
    accepted(), put(send(1, b"a" * 100, last=False)), pause(), undelivered(), put(send(1, b"b", mo=100)),
    delivered(b"a" * 100 + b"b"))
refuse("mo-first-not-0", "5041 7.1", "A message whose first segment has another MO than 0 is refused", (DDP, 2, 4),
    send(1, b"x", mo=4))
refuse("mo-gap", "5041 7.1", "A gap in MO is refused", (DDP, 2, 4), send(1, b"abcd", last=False), send(1, b"x", mo=5))
refuse("mo-overlap", "5041 7.1", "An MO that goes back is refused", (DDP, 2, 4), send(1, b"abcd", last=False),
    send(1, b"x", mo=0))
row("message-fills-buffer", "5041 5.1.2", "R", "A message as long as its buffer is delivered",
    accepted(), put(*[send(1, b"f" * 1024, mo=i, last=i + 1024 == RECV_LEN) for i in range(0, RECV_LEN, 1024)]),
    delivered(b"f" * RECV_LEN))
refuse("message-too-long", "5041 7.1", "A message longer than its buffer: Terminate \"message too long\"", (DDP, 2, 5),
    *[send(1, b"f" * 1024, mo=i, last=False) for i in range(0, RECV_LEN, 1024)], send(1, b"!", mo=RECV_LEN))
row("message-of-nothing", "5041 5.1.2", "R", "A message of length 0 takes a buffer and is delivered",
    accepted(), put(send(1), send(2, b"next")), delivered(b""), delivered(b"next"))

# ---- tagged buffers ----

row("write-placed", "5041 5.1.1", "R", "A tagged segment is placed where STag and TO say",
    accepted(), put(lambda x: x.write("rw", FREE, b"0123456789"), lambda x: x.write("rw", FREE + 3, b"XY")),
    holds("rw", FREE, b"012XY56789"))
row("write-in-segments", "5041 5.2", "R", "All segments of a tagged message, with L on the last only, are placed",
    accepted(), put(*[lambda x, i=i: x.write("rw", FREE + 500 * i, bytes([i]) * 500, last=i == 3) for i in range(4)]),
    holds("rw", FREE, b"".join(bytes([i]) * 500 for i in range(4))))
row("write-to-the-ends", "5041 5.1.1", "R", "The first and the last byte of a region can be written",
    accepted(), put(lambda x: x.write("wo", 0, b"<"), lambda x: x.write("wo", 65535, b">"), send(1, b"ok")),
    delivered(b"ok"))
row("write-of-nothing", "5041 5.1.1", "R", "STag and TO of a tagged message of length 0 are not checked",
    accepted(), put(tagged(WRITE, 0xDEADBEEF, 1 << 63), tagged(WRITE, 0, 0), send(1, b"ok")), delivered(b"ok"))
refuse("stag-unknown", "5041 7.1", "A STag that does not exist: Terminate \"invalid STag\"", (DDP, 1, 0),
    lambda x: tagged(WRITE, x.mr("rw")[0] ^ 0x40000000, x.mr("rw")[1], b"x" * 8))
refuse("stag-key", "5041 7.1", "The key octet is part of the STag: Terminate \"invalid STag\"", (DDP, 1, 0),
    lambda x: tagged(WRITE, x.mr("rw")[0] ^ 0x55, x.mr("rw")[1], b"x" * 8))
refuse("stag-0", "5041 7.1", "A Write to STag 0, which names no memory of an application, is refused", (DDP, 1, 0),
    lambda x: tagged(WRITE, 0, x.mr("rw")[1], b"x" * 8))
refuse("stag-deregistered", "5041 7.1", "A STag whose registration has ended is refused", (DDP, 1, 0),
    lambda x: x.write("gone", 0, b"x" * 8))
refuse("stag-of-another-pd", "5041 7.1",
    "A STag of another protection domain: Terminate \"STag not associated with DDP Stream\"", (DDP, 1, 2),
    lambda x: x.write("other", 0, b"x" * 8), also=((DDP, 1, 0),))
refuse("write-before-region", "5041 7.1", "A Write before the region: Terminate \"base or bounds violation\"", (DDP, 1,
    1),
    lambda x: x.write("rw", -1, b"x" * 8))
refuse("write-over-end", "5041 7.1", "A Write over the region's end: Terminate \"base or bounds violation\"", (DDP, 1,
    1),
    lambda x: x.write("rw", 65529, b"x" * 8))
refuse("write-behind-region", "5041 7.1", "A Write behind the region: Terminate \"base or bounds violation\"", (DDP, 1,
    1),
    lambda x: x.write("rw", 65536, b"x"))
refuse("write-wraps", "5041 7.1", "A Write whose TO plus length passes 2^64: Terminate \"TO wrap\"", (DDP, 1, 3),
    lambda x: tagged(WRITE, x.mr("rw")[0], (1 << 64) - 8, b"x" * 16))
row("write-second-segment-bad", "5041 7.1", "R", "Each segment is checked, not only a message's first",
    accepted(), OPEN,
    put(lambda x: x.write("rw", 65528, b"A" * 8, last=False), lambda x: x.write("rw", 65536, b"B" * 8)),
    terminated(DDP, 1, 1, copies="ddp", guard=False))

# ---- segmentation of what the device sends ----

row("send-segmented", "5041 5.2", "R", "The segments of a Send: same QN and MSN, MO without gap, L on the last only",
    accepted(), OPEN, do("send {n} 20000"), message(SEND_HEAD, lambda x: x.content("rw", 0, 20000)))
row("write-segmented", "5041 5.2", "R", "The segments of a Write: TO without gap, L on the last only",
    accepted(), OPEN, do("write {n} 20000 77 18446744069414584320"),
    message(tagged(WRITE, 77, 0xFFFFFFFF00000000), lambda x: x.content("rw", 0, 20000)))
row("messages-not-mixed", "5041 5.2", "R", "The segments of two messages are not mixed; their MSNs follow each other",
    accepted(), OPEN, do("send {n} 5000"), do("write {n} 5000 77 4096"), do("send {n} 5000"),
    message(SEND_HEAD, lambda x: x.content("rw", 0, 5000)), message(tagged(WRITE, 77, 4096), lambda x: x.content("rw",
    0, 5000)),
    message(untagged(SEND, 0, 2), lambda x: x.content("rw", 0, 5000)))
