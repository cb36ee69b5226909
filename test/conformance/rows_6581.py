# SPDX-License-Identifier: BSD-3-Clause
"""RFC 6581 (enhanced connection set-up): IRD and ORD, the peer-to-peer model."""
import struct

from dut import DEPTH
from steps import (Differs, LLP, answer, called, delivered, do, established, expects, known, put, reply, request,
                   requested, row, settled, silent, step, terminated, told, tries)
from wire import C, R, S, READ_RESP, SEND, WRITE, fpdu, read_req, send, tagged, untagged

SEND_HEAD = untagged(SEND, 0, 1)
SOME = ("REJECTED", "CONNECT_ERROR", "UNREACHABLE")
AT_MOST = [range(n + 1) for n in range(6)]

# ---- the device as responder ----

row("enhanced-reply", "6581 6", "R", "A Request of revision 2 with S is answered in revision 2 with S, IRD and ORD",
    request(), reply(set_=S, rev=2, ird=range(0x4000)))
row("plain-reply-to-plain", "6581 6", "R",
    "A Request of revision 2 without S is answered without S: no IRD and ORD words",
    request(flags=C), reply(clear=R | S, priv=b""), known(), settled(), put(send(1, b"ok")), delivered(b"ok"))
row("plain-reply-to-revision-1", "6581 10", "R", "An initiator of RFC 5044 gets a Reply of RFC 5044",
    request(rev=1, flags=C), reply(rev=1, clear=R | S, priv=b""), known(), settled(), put(send(1, b"ok")),
    delivered(b"ok"))
row("private-data-behind-words", "6581 6", "R", "The application's private data begin behind the four octets",
    request(priv=b"for the application only"), reply(), known())
@step
def short_words(x):
    """A Request of revision 2 with the flag S and a PD_Length of 2: too short for IRD and ORD."""
    x.open()
    x.p.raw(b"MPA ID Req Frame" + struct.pack(">BBH", C | S, 2, 2) + b"\0\4")


@step
def refused(x):
    """The stream ends, perhaps after a Reply that rejects."""
    x.p.s.settimeout(5)
    got = b""
    while True:
        try:
            more = x.p.s.recv(4096)
        except ConnectionResetError:
            break
        if not more:
            break
        got += more
    if got and (got[:16] != b"MPA ID Rep Frame" or not got[16] & R):
        raise Differs(f"replies {got[16:].hex()}")


row("words-missing-refused", "6581 6", "R",
    "A Request with S and less than four octets of private data is not valid: no connection", short_words(), refused())
row("ord-within-ird", "6581 9.1", "R",
    "The Reply's ORD is not above the initiator's IRD: the initiator gets no more Reads than it can serve",
    request(ird=2, ord_=DEPTH), reply(ord_=AT_MOST[2], ird=range(0x4000)))
row("ord-zero", "6581 9.1", "R", "To an initiator that can serve no Reads the Reply says ORD 0",
    request(ird=0, ord_=DEPTH), reply(ord_=AT_MOST[0], ird=range(0x4000)))
row("ird-for-ord", "6581 9.1", "R", "The Reply's IRD covers the initiator's ORD where the responder can",
    request(ird=DEPTH, ord_=3), reply(ird=range(3, 0x4000)),
    level="SHOULD")
row("depths-not-negotiated", "6581 9.1", "R", "A Request with IRD and ORD 0x3FFF, no negotiation, is served",
    request(ird=0x3FFF, ord_=0x3FFF), reply(ird=range(0x4000)), known(), settled(), put(send(1, b"ok")),
    delivered(b"ok"))
row("depths-enormous", "6581 9.1", "R", "A Request with IRD and ORD 16382 is taken, the Reply has the device's",
    request(ird=0x3FFE, ord_=0x3FFE), reply(ird=range(0x3FFF), ord_=range(0x3FFF)), known(), settled(),
    put(send(1, b"ok")), delivered(b"ok"))
row("client-server-reply", "6581 9.2", "R", "A Request without A gets a Reply with neither A nor an RTR kind",
    request(), reply(a=0, kinds=(0,)))


@step
def rtr(x):
    """Sends the RTR that the Reply has chosen; the responder waits for it."""
    known()(x)
    settled()(x)
    if x.kinds & 2:
        x.p.put(tagged(WRITE, 1, 0))
    elif x.kinds & 1:
        x.p.put(read_req(1, (7, 8), 0, (1, 0)))
        expects(tagged(READ_RESP, 7, 8))(x)
    else:
        x.p.raw(fpdu(b"", crc=x.p.crc))
    established()(x)


@step
def selected(x, *kinds):
    if x.kinds not in kinds:
        raise Differs(f"replies RTR kinds {x.kinds} (B C D as 4 2 1)")


for kind, letter, what in ((2, "C", "Write"), (1, "D", "Read"), (4, "B", "FPDU")):
    row(f"p2p-reply-{what.lower()}", "6581 9.2", "R",
    f"A Request with A and {letter} gets a Reply with A that selects the zero-length {what}",
        request(p2p=1, rtr=kind), reply(a=1), rtr(), selected(kind))
    row(f"p2p-opened-by-{what.lower()}", "6581 9.2", "R",
        f"After an RTR that is a zero-length {what} the application is told, and either side may send",
        request(p2p=1, rtr=kind), reply(a=1, kinds=(kind,)), rtr(), do("send {n} 16"),
        expects(lambda x: SEND_HEAD + x.content("rw", 0, 16)))
row("p2p-reply-offered", "6581 9.2", "R", "The Reply selects one of the RTR kinds that are offered",
    request(p2p=1, rtr=3), reply(a=1), rtr(), selected(1, 2, 3))
row("p2p-waits-for-rtr", "6581 9.2", "R",
    "The responder sends nothing before the RTR, even if the application has posted Sends",
    request(p2p=1, rtr=2), reply(a=1), known(), settled(), tries("send {n} 16"), silent(), put(tagged(WRITE, 1, 0)),
    expects(lambda x: SEND_HEAD + x.content("rw", 0, 16)))
row("p2p-rtr-is-no-message", "6581 9.2", "R",
    "The RTR takes no receive: the first Send has MSN 1 and gets the first receive",
    request(p2p=1, rtr=2), reply(a=1), known(), settled(), put(tagged(WRITE, 1, 0), send(1, b"first")),
    delivered(b"first"))
row("p2p-no-rtr", "6581 9.2", "R", "A stream that ends before the RTR is an error for the application",
    request(p2p=1, rtr=2), reply(a=1), known(), step(lambda x: x.p.close())(),
    told("CONNECT_ERROR", "UNREACHABLE", "REJECTED", "DISCONNECTED", patience=15))

# ---- the device as initiator ----

row("enhanced-request", "6581 6", "I",
    "An enhanced Request is of revision 2, with S, IRD and ORD in the first four octets",
    called(), requested(clear=R | 0x0F, rev=(2,)), step(lambda x: check_s(x))(), answer(), established())


def check_s(x):
    if not x.flags & S or len(x.words) < 4:
        raise Differs(f"requests in revision 2 with flags {x.flags:#04x} and {len(x.words)} octets")


row("client-server-request", "6581 9.2", "I",
    "An initiator that does not want the peer-to-peer model has neither A nor RTR kinds",
    called(), requested(clear=R, rev=(1, 2), a=0), answer(), established())
row("reply-of-revision-1", "6581 10", "I",
    "A Reply in revision 1, from a responder of RFC 5044: the connection works without negotiation",
    called(), answer(rev=1, plain=True, priv=b"old"), established(), do("send {n} 16"),
    expects(lambda x: SEND_HEAD + x.content("rw", 0, 16)),
    level="SHOULD")
row("reply-ord-above-ird", "6581 9.1", "I",
    "A Reply whose ORD is above the initiator's IRD: Terminate \"insufficient IRD resources\"",
    called(), answer(ord_=0x3FFE), terminated(LLP, 0, 6), told(*SOME))
row("reply-ird-below-ord", "6581 9.1", "I", "A Reply with IRD 1: no second Read Request before the first is answered",
    called(), answer(ird=1), established(), do("read {n} 8 77 4096"), do("read {n} 8 78 4096"),
    step(lambda x: one_read(x, 1, 77))(), silent(), step(lambda x: x.p.put(tagged(READ_RESP, *x.sink, b"12345678")))(),
    step(lambda x: one_read(x, 2, 78))())


def one_read(x, msn, stag):
    u = x.get()
    if u[1] & 15 != 1 or struct.unpack_from(">II", u, 6) != (1, msn) or struct.unpack_from(">IQ", u, 34) != (stag,
    4096):
        raise Differs(f"sends {u.hex()}; Read Request {msn} was due")
    x.sink = struct.unpack_from(">IQ", u, 18)


row("p2p-request", "6581 9.2", "I",
    "An initiator that wants the peer-to-peer model sets A and offers at least one RTR kind",
    called(), requested(clear=R, rev=(2,), a=1), step(lambda x: offers(x))(), answer(rtr=2), variant="p2p")


def offers(x):
    if not x.words[0] & 0x40 and not x.words[2] & 0xC0:
        raise Differs("offers no RTR kind")


row("p2p-rtr-write-sent", "6581 9.2", "I", "The Reply selects the zero-length Write: it is the initiator's first FPDU",
    called(), answer(rtr=2), step(lambda x: rtr_write(x))(), established(), variant="p2p")
row("p2p-rtr-read-sent", "6581 9.2", "I", "The Reply selects the zero-length Read: it is the initiator's first FPDU",
    called(), answer(rtr=1), step(lambda x: rtr_read(x))(), established(), variant="p2p")
row("p2p-responder-first", "6581 9.2", "I", "After the RTR the responder may send first",
    called(), answer(rtr=2), step(lambda x: rtr_write(x))(), put(send(1, b"responder first")),
    delivered(b"responder first"), variant="p2p")
row("p2p-no-kind", "6581 9.3", "I", "A Reply with A that selects no kind: Terminate \"no matching RTR option\"",
    called(), answer(rtr=0), terminated(LLP, 0, 7), told(*SOME), variant="p2p")
row("p2p-refused-by-reply", "6581 9.3", "I", "A Reply without A: the client-server model, the initiator sends first",
    called(), answer(a=0, rtr=0), established(), do("send {n} 16"), step(lambda x: after_nothing(x))(), level="SHOULD",
    variant="p2p")


def rtr_write(x):
    u = x.p.get()
    if len(u) != 14 or u[0] & 0xC3 != 0xC1 or u[1] != 0x40 | WRITE:
        raise Differs(f"sends {u.hex()}; a zero-length Write was due")


def rtr_read(x):
    u = x.p.get()
    if len(u) != 46 or u[1] != 0x41 or struct.unpack_from(">IIII", u, 6)[:3] != (1, 1, 0) or struct.unpack_from(">I",
    u, 30)[0] != 0:
        raise Differs(f"sends {u.hex()}; a zero-length Read Request was due")


def after_nothing(x):
    u = x.p.get()
    while len(u) == 14 and u[1] & 15 == WRITE:
        u = x.p.get()
    if u != SEND_HEAD + x.content("rw", 0, 16):
        raise Differs(f"sends {u.hex()}")
