# SPDX-License-Identifier: BSD-3-Clause
"""RFC 5040 (RDMAP): opcodes, Read, Invalidate, Terminate, ordering, the end of a stream."""
import struct

from dut import DEPTH
from rows_ddp import OPEN, SEND_HEAD, UNKNOWN, refuse, reserved
from steps import (DDP, Differs, FREE, LLP, RDMAP, accepted, closes, completed, connected, delivered, do, ends_somehow,
                   expects, finished, holds, message, put, row, shuts, step, terminated, told,
                   undelivered)
from wire import (READ_RESP, SEND, SEND_INV, SEND_SE, SEND_SE_INV, TERMINATE, WRITE, read_req, send, tagged, terminate,
                  untagged)

ENDED = told("DISCONNECTED")

# ---- headers ----

row("rdmap-reserved-bits", "5040 4.1", "R",
    "Reserved bits of the RDMAP control field, and the reserved word of a Send, are not checked",
    accepted(), put(reserved(send(1, b"reserved", word=0xFFFFFFFF), rdmap=0x30)), delivered(b"reserved"))
row("rdmap-send-header", "5040 4.6", "R", "A Send has RV 1, opcode 3, and 0 in the word before QN",
    accepted(), OPEN, do("send {n} 3"), expects(lambda x: SEND_HEAD + x.content("rw", 0, 3)))
for rv in (0, 2):
    refuse(f"rdmap-version-{rv}", "5040 7.2", "RV other than 1: Terminate \"invalid RDMAP version\"", (RDMAP, 2, 5),
        send(1, b"x", rv=rv), copies=UNKNOWN)
for op in (12, 15):
    refuse(f"opcode-{op}", "5040 7.2", "An opcode that does not exist: Terminate \"unexpected opcode\"", (RDMAP, 2, 6),
        untagged(op, 0, 1, b"x" * 32), copies=UNKNOWN)
refuse("opcode-15-tagged", "5040 7.2", "An opcode that does not exist, tagged: Terminate \"unexpected opcode\"",
    (RDMAP, 2, 6), lambda x: x.write("rw", FREE, b"x")[:1] + b"\x4F" + x.write("rw", FREE, b"x")[2:], copies=UNKNOWN)
refuse("send-tagged", "5040 4.2", "A Send in a tagged segment: Terminate \"unexpected opcode\"", (RDMAP, 2, 6),
    lambda x: tagged(SEND, x.mr("rw")[0], x.mr("rw")[1] + FREE, b"tagged send"))
refuse("write-untagged", "5040 4.2", "A Write in an untagged segment: Terminate \"unexpected opcode\"",
    (RDMAP, 2, 6), untagged(WRITE, 0, 1, b"x" * 8))
refuse("opcode-changes", "5040 5.3", "A message whose segments have different opcodes is refused", (RDMAP, 2, 6),
    send(1, b"abcd", last=False), untagged(SEND_SE, 0, 1, b"efgh", mo=4))

# ---- Send ----

row("send-se", "5040 5.3", "R", "A Send with Solicited Event is delivered", accepted(),
    put(untagged(SEND_SE, 0, 1, b"event")), delivered(b"event"))
row("send-invalidate", "5040 5.3", "R", "A Send with Invalidate is delivered, and its STag no longer works",
    accepted(), put(lambda x: untagged(SEND_INV, 0, 1, b"inv", word=x.mr("inv")[0])), delivered(b"inv"),
    put(lambda x: x.write("inv", 0, b"x" * 8)),
    terminated(DDP, 1, 0, copies="ddp"))
row("send-se-invalidate", "5040 5.3", "R", "A Send with Solicited Event and Invalidate is delivered",
    accepted(), put(lambda x: untagged(SEND_SE_INV, 0, 1, b"inv", word=x.mr("inv2")[0])), delivered(b"inv"),
    put(lambda x: x.read("inv2", 0, 8)), terminated(RDMAP, 1, 0, copies="read"))
refuse("invalidate-unknown", "5040 7.2", "A STag that cannot be invalidated: Terminate \"STag cannot be invalidated\"",
    (RDMAP, 1, 9),
       untagged(SEND_INV, 0, 1, b"x", word=0xBAD0BAD0), also=((RDMAP, 2, 9), (RDMAP, 1, 0)))
refuse("invalidate-of-another-pd", "5040 7.2", "A STag of another protection domain is not invalidated",
    (RDMAP, 1, 9),
    lambda x: untagged(SEND_INV, 0, 1, b"x", word=x.mr("other")[0]), also=((RDMAP, 2, 9), (RDMAP, 1, 3)))

# ---- Write ----

row("write-unseen", "5040 5.1", "R", "A Write takes no receive and completes nothing at the target",
    accepted(), put(lambda x: x.write("rw", FREE, b"unseen"), send(1, b"first")), delivered(b"first"),
    holds("rw", FREE, b"unseen"))
row("write-before-send", "5040 5.5", "R", "The Writes before a Send are in memory when the Send is delivered",
    accepted(), put(*[lambda x, i=i: x.write("rw", FREE + 1000 * i, bytes([i]) * 1000) for i in range(8)],
    send(1, b"done")), delivered(b"done"),
    holds("rw", FREE, b"".join(bytes([i]) * 1000 for i in range(8))))
row("read-after-write", "5040 5.5", "R", "A Read behind a Write returns the bytes of the Write",
    accepted(), put(lambda x: x.write("rw", FREE, b"new bytes"), lambda x: x.read("rw", FREE, 9, (3, 4))),
    expects(tagged(READ_RESP, 3, 4, b"new bytes")))
refuse("write-to-read-only", "5040 7.2",
    "A Write without the right of remote write: Terminate \"access rights violation\"",
    (RDMAP, 1, 2), lambda x: x.write("ro", 0, b"x" * 8), also=((DDP, 1, 0),))
refuse("write-to-local", "5040 7.2", "A Write to memory without remote access: Terminate \"access rights violation\"",
    (RDMAP, 1, 2),
    lambda x: x.write("lo", 0, b"x" * 8), also=((DDP, 1, 0),))

# ---- Read, the device as its target ----

row("read-response", "5040 5.2.2", "R", "A Read Response has the Request's sink STag and TO, L, and the bytes",
    accepted(), put(lambda x: x.read("rw", 16, 24, (0x12345678, 0xFEDCBA9876543210))),
    expects(lambda x: tagged(READ_RESP, 0x12345678, 0xFEDCBA9876543210) + x.content("rw", 16, 24)))
row("read-of-nothing", "5040 5.2.1", "R", "A Read of length 0 gets an empty Response, its STag is not checked",
    accepted(), put(read_req(1, (7, 9), 0, (0xDEADBEEF, 0))), expects(tagged(READ_RESP, 7, 9)))
row("read-segmented", "5040 5.2.2", "R",
    "A long Read gets one Response: TO without gap, L on the last segment only",
    accepted(), put(lambda x: x.read("ro", 0, 20000, (5, 1 << 40))),
    message(tagged(READ_RESP, 5, 1 << 40), lambda x: x.content("ro", 0, 20000)))
row("reads-in-order", "5040 5.5", "R", "Reads are answered in the order of their Requests",
    accepted(), put(*[lambda x, i=i: x.read("ro", 100 * i, 10, (i, i)) for i in range(DEPTH)]),
    expects(*[lambda x, i=i: tagged(READ_RESP, i, i) + x.content("ro", 100 * i, 10) for i in range(DEPTH)]))
row("reads-again", "5040 5.2", "R", "An answered Read makes room for another Read: MSN 1 to 12 at a depth of 4",
    accepted(), *[s for k in range(3) for s in (
        put(*[lambda x, i=i: x.read("ro", i, 1, (i, i)) for i in range(DEPTH)]),
        expects(*[lambda x, i=i: tagged(READ_RESP, i, i) + x.content("ro", i, 1) for i in range(DEPTH)]))])
row("read-to-the-ends", "5040 5.2", "R", "The first and the last byte of a region can be read",
    accepted(), put(lambda x: x.read("ro", 0, 1, (1, 1)), lambda x: x.read("ro", 65535, 1, (2, 2))),
    expects(lambda x: tagged(READ_RESP, 1, 1) + x.content("ro", 0, 1),
    lambda x: tagged(READ_RESP, 2, 2) + x.content("ro", 65535, 1)))
row("reads-beyond-ird", "5040 5.2", "R", "A Read beyond the agreed depth: Terminate (queue 1 has no buffer)",
    accepted(), OPEN, put(*[lambda x, i=i: x.read("ro", 0, 65536, (1, i)) for i in range(24)]),
    terminated(DDP, 2, 2, copies="ddp", of=None, also=((RDMAP, 2, 7),), answered=True))


def refuse_read(name, text, code, region, off, n, **more):
    refuse(name, "5040 7.2", text, (RDMAP, 1, code), lambda x: x.read(region, off, n), copies="read", **more)


refuse("read-stag-unknown", "5040 7.2", "A source STag that does not exist: Terminate \"invalid STag\"", (RDMAP, 1, 0),
    lambda x: read_req(1, (1, 1), 8, (x.mr("rw")[0] ^ 0x40000000, x.mr("rw")[1])), copies="read")
refuse("read-stag-key", "5040 7.2", "A source STag with another key: Terminate \"invalid STag\"", (RDMAP, 1, 0),
    lambda x: read_req(1, (1, 1), 8, (x.mr("rw")[0] ^ 0x55, x.mr("rw")[1])), copies="read")
refuse_read("read-deregistered", "A source STag whose registration has ended: Terminate \"invalid STag\"", 0, "gone", 0,
    8)
refuse_read("read-before-region", "A Read before the region: Terminate \"base or bounds violation\"", 1, "rw", -1, 8)
refuse_read("read-over-end", "A Read over the region's end: Terminate \"base or bounds violation\"", 1, "rw", 65529, 8)
refuse_read("read-enormous", "A Read of 2^32 - 1 octets: Terminate \"base or bounds violation\"", 1, "rw", 0,
    0xFFFFFFFF)
refuse_read("read-write-only", "A Read without the right of remote read: Terminate \"access rights violation\"", 2,
    "wo", 0, 8)
refuse_read("read-local", "A Read of memory without remote access: Terminate \"access rights violation\"", 2, "lo", 0,
    8)
refuse_read("read-of-another-pd", "A STag of another PD: Terminate \"STag not associated with RDMAP Stream\"", 3,
    "other", 0, 8,
            also=((RDMAP, 1, 0),))
refuse("read-wraps", "5040 7.2", "A Read whose TO plus length passes 2^64: Terminate \"TO wrap\"", (RDMAP, 1, 4),
    lambda x: read_req(1, (1, 1), 16, (x.mr("rw")[0], (1 << 64) - 8)), copies="read")
row("read-request-short", "5040 4.4", "R", "A Read Request of less than 28 octets ends the stream with a Terminate",
    accepted(), OPEN, put(lambda x: x.read("rw", 0, 8)[:-1]), ends_somehow(RDMAP, DDP, LLP))
row("read-request-long", "5040 4.4", "R", "A Read Request of more than 28 octets ends the stream with a Terminate",
    accepted(), OPEN, put(lambda x: x.read("rw", 0, 8) + b"!"), ends_somehow(RDMAP, DDP))
refuse("read-request-msn-gap", "5041 7.1", "A gap in the MSNs of Read Requests is refused", (DDP, 2, 3),
    lambda x: read_req(2, (1, 1), 8, x.mr("rw")[:2]))
refuse("read-response-unasked", "5040 7.2", "A Read Response without a Request: Terminate \"unexpected opcode\"",
    (RDMAP, 2, 6),
    lambda x: tagged(READ_RESP, x.mr("rw")[0], x.mr("rw")[1], b"unasked"), also=((DDP, 1, 0),))

# ---- Read, the device as its source ----


@step
def reads(x, n, stag=99, to=4096):
    """
    The application reads n bytes from us. Each octet of the Request is checked, except the sink, which the device
    chooses.
    """
    x.t.tell(f"read {x.number} {n} {stag} {to}")
    u = x.get()
    x.sink = struct.unpack_from(">IQ", u, 18) if len(u) == 46 else (0, 0)
    x.read_msn += 1
    want = read_req(x.read_msn, x.sink, n, (stag, to))
    if u != want:
        raise Differs(f"sends {u.hex()}, {want.hex()} is due")


def response(off, data, **bits):
    return lambda x: tagged(READ_RESP, x.sink[0], x.sink[1] + off, data, **bits)


DONE = completed(2)
row("read-request-header", "5040 4.4", "I",
    "A Read Request: untagged, QN 1, MSN 1, MO 0, L, 28 octets, source as posted",
    connected(), reads(100, 0xABCD1234, 0x1122334455667788))
row("read-completes", "5040 5.2", "I", "A Read completes when its whole Response has arrived", connected(), reads(100),
    put(response(0, b"r" * 100)), DONE)
row("read-completes-segmented", "5040 5.2", "I", "A Response may have any number of segments",
    connected(), reads(100), put(response(0, b"r" * 33, last=False), response(33, b"s" * 66, last=False),
    response(99, b"t")), DONE)
row("read-msn", "5040 5.2.1", "I", "Read Requests have MSNs of their own: 1, 2 beside the Send's 1",
    connected(), do("send {n} 4"), expects(lambda x: SEND_HEAD + x.content("rw", 0, 4)), reads(8),
    # waits until the bytes are placed, since another row checks that memory
    put(response(0, b"a" * 8)), finished(2), reads(8))
row("response-too-long", "5040 7.1", "I", "A Response longer than its Read is refused and not placed",
    connected(), reads(100), put(response(0, b"r" * 101)), terminated(DDP, 1, 1, copies="ddp"))
row("response-runs-on", "5040 7.1", "I", "A Response whose segments go beyond the Read is refused",
    connected(), reads(100), put(response(0, b"r" * 100, last=False), response(100, b"s")), ends_somehow(RDMAP, DDP))
row("response-short", "5040 7.1", "I",
    "A Response with L before the Read's last byte is refused, and the Read does not succeed",
    connected(), reads(100), put(response(0, b"r" * 50)), ends_somehow(RDMAP, DDP), completed(2, "error"))
row("response-other-stag", "5040 7.1", "I", "A Response to another STag than the Request's sink is refused",
    connected(), reads(100), put(lambda x: tagged(READ_RESP, x.mr("wo")[0], x.mr("wo")[1], b"r" * 100)),
    terminated(DDP, 1, 0, copies="ddp"))
row("response-other-to", "5040 7.1", "I", "A Response to another TO than the Request's sink is refused",
    connected(), reads(100), put(response(8, b"r" * 92)), terminated(DDP, 1, 1, copies="ddp"))
row("response-twice", "5040 7.1", "I", "A second Response to one Read is refused",
    connected(), reads(8), put(response(0, b"r" * 8), response(0, b"r" * 8)), DONE,
    terminated(RDMAP, 2, 6, copies="ddp", guard=False))

# ---- Terminate, and the end ----

row("terminate-received", "5040 5.4", "R",
    "A Terminate ends the stream: no Terminate comes back, the application gets an event",
    accepted(), put(send(1, b"x")), delivered(b"x"), put(terminate(RDMAP, 2, 6)), closes(), ENDED)
row("terminate-first", "5040 5.4", "R", "A Terminate that is the first FPDU ends the stream", accepted(),
    put(terminate(LLP, 0, 5)), closes(), ENDED)
row("terminate-with-headers", "5040 4.8", "R", "A Terminate with copied headers is understood",
    accepted(), OPEN, do("write {n} 8 4660 4096"), expects(lambda x: tagged(WRITE, 4660, 4096) + x.content("rw", 0, 8)),
    put(untagged(TERMINATE, 2, 1, b"\x11\x00\xC0\x00" + struct.pack(">H", 22) + tagged(WRITE, 4660, 4096))), closes(),
    ENDED)
row("terminate-unknown-error", "5040 4.8", "R", "A Terminate with an error that no RFC names ends the stream",
    accepted(), OPEN, put(terminate(15, 15, 0xEE)), closes(), ENDED)
row("terminate-short", "5040 4.8", "R",
    "A Terminate without its control octets ends the stream; only a Terminate may come back",
    accepted(), OPEN, put(terminate(RDMAP, 2, 6)[:18]), step(lambda x: at_most_terminate(x))(), ENDED)
row("terminate-inside-message", "5040 5.4", "R",
    "A message that a Terminate cuts off is not delivered",
    accepted(), put(send(1, b"half", last=False), terminate(RDMAP, 0, 0)), closes(), ENDED, undelivered())
row("terminate-fails-read", "5040 5.4", "I",
    "A Read that waits for its Response when a Terminate arrives does not succeed",
    connected(), reads(100), put(terminate(RDMAP, 1, 0)), closes(), completed(2, "error"), ENDED)
row("nothing-after-terminate", "5040 5.4", "R", "A segment behind a bad segment is not delivered",
    accepted(), OPEN, put(send(5, b"bad"), send(1, b"good"), lambda x: x.write("rw", FREE, b"placed!")),
    terminated(DDP, 2, 3, copies="ddp", of=-3), undelivered())
row("one-terminate", "5040 5.4", "R", "Two bad segments cause one Terminate", accepted(), OPEN,
    put(send(7, b"bad"), untagged(15, 0, 1, b"worse")),
    terminated(DDP, 2, 3, copies="ddp", of=-2))


def at_most_terminate(x):
    try:
        u = x.get()
    except Exception:  # pylint: disable=broad-except
        return
    if u[1] & 15 != TERMINATE:
        raise Differs(f"sends {u.hex()}")


row("close-by-peer", "5040 6.2.1", "R",
    "The peer's FIN ends the stream in order: earlier messages are delivered, a FIN comes back, no Terminate",
    accepted(), put(send(1, b"last words")), shuts(), delivered(b"last words"), closes(reset=False), ENDED)
row("close-by-application", "5040 6.2.1", "R", "A disconnect sends the posted messages, then a FIN, no Terminate",
    accepted(), put(send(1, b"go")), delivered(b"go"), do("send {n} 8"), do("disc {n}"),
    expects(lambda x: SEND_HEAD + x.content("rw", 0, 8)), closes(reset=False))
row("close-by-initiator", "5040 6.2.1", "I", "An initiator that disconnects sends a FIN, no Terminate", connected(),
    do("disc {n}"), step(lambda x: quiet_end(x))())


def quiet_end(x):
    try:
        u = x.get()
    except Exception as e:  # pylint: disable=broad-except
        if getattr(e, "reset", True):
            raise Differs("resets the connection") from None
        return
    raise Differs(f"sends {u.hex()}")
