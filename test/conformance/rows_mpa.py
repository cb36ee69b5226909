# SPDX-License-Identifier: BSD-3-Clause
"""RFC 5044 (MPA): set-up, framing, markers, CRC."""
import struct

import wire
from steps import (DDP, Differs, FREE, LLP, accepted, answer, called, closes, closes_or_says, connected, delivered, do,
                   ends_somehow, established, expects, holds, known, listens, message, put, raw, reply, request,
                   requested, row, settled, silent, step, terminated, told, undelivered)
from wire import C, M, R, S, SEND, WRITE, fpdu, send, tagged, untagged

SEND_HEAD = untagged(SEND, 0, 1)

# ---- set-up, the device as responder ----

row("request-accepted", "5044 7.1.2", "R",
    "A valid Request is answered by a Reply with the Reply key, and Full Operation begins",
    request(), reply(clear=R), known(), settled(), put(send(1, b"first")), delivered(b"first"))
row("request-wrong-key", "5044 7.1.2", "R", "A frame with an unknown key ends the connection, nothing is sent",
    request(key=b"MPA ID Req FramE"), closes())
row("request-with-reply-key", "5044 7.1.2", "R",
    "A Reply in place of the Request ends the connection: both ends act as responder",
    request(key=wire.REP), closes())
row("request-not-mpa", "5044 7.1.2", "R", "Octets that are no MPA frame end the connection, nothing is sent",
    request(key=b"GET / HTTP/1.1\r\n"), closes())
row("request-revision-3", "5044 7.1.1", "R", "A revision the receiver cannot work with ends the connection",
    request(rev=3), closes())
row("request-revision-255", "5044 7.1.1", "R", "A revision the receiver cannot work with ends the connection",
    request(rev=255), closes())
row("request-private-data-513", "5044 7.1.1", "R", "PD_Length above 512 ends the connection",
    request(rev=1, flags=C, priv=b"x" * 513), closes())
row("request-private-data-512", "5044 7.1.1", "R", "512 bytes of private data are taken",
    request(rev=1, flags=C, priv=b"y" * 512), reply(), known(), settled(), put(send(1, b"ok")), delivered(b"ok"))
row("request-private-data-0", "5044 7.1.1", "R", "A Request without private data is taken",
    request(rev=1, flags=C, priv=b""), reply(), known(), settled(), put(send(1, b"ok")), delivered(b"ok"))
row("request-in-pieces", "5044 7.1.2", "R", "A Request may come in any number of TCP segments",
    request(pieces=1), reply(), known(), settled(), put(send(1, b"ok")), delivered(b"ok"))
row("request-reserved-bits", "5044 7.1.1", "R", "Reserved bits of a Request are not checked",
    request(rev=1, flags=C | 0x0F), reply(), known(), settled(), put(send(1, b"ok")), delivered(b"ok"))
row("reply-reserved-bits", "5044 7.1.1", "R", "Reserved bits of the Reply are zero, whatever the Request has there",
    request(rev=1, flags=C | 0x0F), reply(clear=R | 0x1F))
row("request-reject-bit", "5044 7.1.1", "R", "R in a Request means nothing; a Reply has R only if it rejects",
    request(rev=1, flags=C | R), reply(clear=R), known(), settled(), put(send(1, b"ok")), delivered(b"ok"))
row("reply-revision-1", "5044 7.1.1", "R",
    "A Request of revision 1 is answered in revision 1, without the flags of revision 2",
    request(rev=1, flags=C), reply(rev=1, clear=R | 0x1F))
row("reply-rejects", "5044 7.1.2", "R",
    "A Reply by which the application rejects has R and its private data, then the stream ends",
    listens("reject"), request(rev=1, flags=C), reply(set_=R, clear=0, priv=b"no"), closes(reset=False))
row("responder-waits-for-first-fpdu", "5044 7.1.2", "R",
    "A responder sends no FPDU before the initiator's first FPDU, then sends what was posted",
    request(), reply(), known(), settled(), do("send {n} 32"), silent(),
    put(send(1, b"go")), expects(lambda x: SEND_HEAD + x.content("rw", 0, 32)))
row("responder-waits-for-application", "5044 7.1.2", "R", "A Reply is not sent before the application has accepted",
    listens("hold"), request(), known(), silent(), do("accept {n}"), reply(), settled(), put(send(1, b"ok")),
    delivered(b"ok"))
row("first-fpdu-broken", "5044 7.1.2", "R",
    "A first FPDU with a bad CRC is not valid: the responder ends the stream and sends no FPDU",
    accepted(), raw(fpdu(send(1, b"x"))[:-1] + b"\xAA"), closes(), undelivered(), note="siw sends a Terminate here")

# ---- set-up, the device as initiator ----

row("request-form", "5044 7.1.1", "I",
    "The Request has the Request key, no R, no reserved bits, and the application's private data",
    called(priv=100), requested(clear=R | 0x0F, rev=(1, 2), priv=100), answer(), established())
row("initiator-waits-for-reply", "5044 7.1.2", "I", "An initiator sends nothing between its Request and the Reply",
    called(), silent(), answer(), established())
row("initiator-first-fpdu", "5044 7.1.2", "I", "An initiator sends its FPDUs after the Reply",
    connected(), do("send {n} 32"), expects(lambda x: SEND_HEAD + x.content("rw", 0, 32)))
row("reply-in-pieces", "5044 7.1.2", "I", "A Reply may come in any number of TCP segments",
    called(), answer(priv=b"slowly", pieces=1), established(), do("send {n} 5"),
    expects(lambda x: SEND_HEAD + x.content("rw", 0, 5)))
row("reply-private-data", "5044 7.1.4", "I", "The Reply's private data go to the application",
    called(), answer(priv=b"for the application"), told("ESTABLISHED", priv=b"for the application"))
row("reply-rejected", "5044 7.1.2", "I",
    "A Reply with R: the application gets REJECTED with the private data; no FPDU is sent",
    called(), answer(set_=R, priv=b"because"), told("REJECTED", priv=b"because"), closes())
row("reply-wrong-key", "5044 7.1.2", "I",
    "A Request in place of the Reply ends the connection: both ends act as initiator",
    called(), answer(key=wire.REQ), told("REJECTED", "CONNECT_ERROR", "UNREACHABLE"), closes_or_says(LLP, 0, 4))
row("reply-revision-3", "5044 7.1.1", "I", "A revision the receiver cannot work with ends the connection",
    called(), answer(rev=3), told("REJECTED", "CONNECT_ERROR", "UNREACHABLE"), closes())
row("reply-private-data-513", "5044 7.1.1", "I", "PD_Length above 512 ends the connection",
    called(), answer(plain=True, rev=1, priv=b"z" * 513), told("REJECTED", "CONNECT_ERROR", "UNREACHABLE"), closes())
row("reply-reserved-ignored", "5044 7.1.1", "I", "Reserved bits of a Reply are not checked",
    called(), answer(set_=0x0F), established(), do("send {n} 5"), expects(lambda x: SEND_HEAD + x.content("rw", 0, 5)))
row("reply-never", "5044 7.1.2", "I", "A stream that ends before a whole Reply is an error for the application",
    called(), answer(pd_len=500), step(lambda x: x.p.close())(),
    told("REJECTED", "CONNECT_ERROR", "UNREACHABLE", patience=15))

# ---- CRC ----


def bad(at, bit=1):
    """A Write of 17 octets, different in each row, to the region rw. One bit is inverted after the CRC was computed."""
    def make(x):
        b = bytearray(fpdu(x.write("rw", FREE, x.row.name.encode()[-17:].rjust(17, b"!"))))
        b[at] ^= bit
        return bytes(b)
    return make


OPEN = put(tagged(WRITE, 0, 0))  # an empty Write as the first FPDU, after which a responder may send
row("crc-asked-by-initiator", "5044 7.1.1", "R", "A Request with C gets a Reply with C, and CRC is used both ways",
    request(flags=C | S), reply(set_=C), known(), settled(), put(send(1, b"sum")), delivered(b"sum"),
    do("send {n} 9"), expects(lambda x: SEND_HEAD + x.content("rw", 0, 9)))
row("crc-asked-by-responder-only", "5044 7.1.1", "R", "A Request without C: CRC is used if the Reply has C",
    request(flags=S), reply(), known(), settled(), put(send(1, b"sum")), delivered(b"sum"),
    do("send {n} 9"), expects(lambda x: SEND_HEAD + x.content("rw", 0, 9)))
row("crc-asked-by-nobody", "5044 4.4", "R", "No side sets C: the CRC field is there and is not checked",
    request(flags=S), reply(clear=R | C), known(), settled(), raw(fpdu(send(1, b"no sum"))[:-4] + b"\x12\x34\x56\x78"),
    delivered(b"no sum"),
    do("send {n} 9"), expects(lambda x: SEND_HEAD + x.content("rw", 0, 9)), variant="nocrc")
row("crc-asked-though-not-wanted", "5044 7.1.1", "R", "A responder that wants no CRC uses CRC if the initiator asks",
    request(flags=C | S), reply(set_=C), known(), settled(), OPEN, raw(bad(20)), terminated(LLP, 0, 2), variant="nocrc")
row("crc-asked-by-reply", "5044 7.1.1", "I", "A Reply with C, asked for or not: the initiator computes CRCs",
    called(), answer(set_=C), established(), do("send {n} 9"), expects(lambda x: SEND_HEAD + x.content("rw", 0, 9)),
    variant="nocrc")
row("crc-checked-by-initiator", "5044 7.1.1", "I", "A Reply with C, asked for or not: the initiator checks CRCs",
    called(), answer(set_=C), established(), do("send {n} 9"), expects(lambda x: SEND_HEAD + x.content("rw", 0, 9)),
    put(send(1, b"ok")), delivered(b"ok"), raw(fpdu(send(2, b"bad"))[:-1] + b"\xAA"), terminated(LLP, 0, 2),
    variant="nocrc")
row("crc-bad-data", "5044 8", "R", "A bit error in the data: Terminate, nothing is placed", accepted(), OPEN,
    raw(bad(20)), terminated(LLP, 0, 2))
row("crc-bad-header", "5044 8", "R", "A bit error in the DDP header: Terminate, nothing is placed", accepted(),
    OPEN, raw(bad(9)), terminated(LLP, 0, 2))
row("crc-bad-pad", "5044 4.4", "R", "A bit error in the pad: Terminate", accepted(), OPEN, raw(bad(-5)),
    terminated(LLP, 0, 2))
row("crc-bad-field", "5044 8", "R", "A bit error in the CRC: Terminate, nothing is placed", accepted(), OPEN,
    raw(bad(-1, 0x80)), terminated(LLP, 0, 2))
row("crc-bad-length", "5044 4.4", "R", "A bit error in the length: Terminate", accepted(), OPEN, raw(bad(1)),
    raw(b"\0" * 64), terminated(LLP, 0, 2))
row("crc-order-of-octets", "5044 4.4", "R", "The CRC is sent, and taken, with its least significant octet first",
    accepted(), OPEN, raw(lambda x: fpdu(x.write("rw", FREE, b"x" * 12))[:-4] + fpdu(x.write("rw", FREE,
    b"x" * 12))[:-5:-1]), terminated(LLP, 0, 2))
row("crc-bad-after-good", "5044 8", "R", "FPDUs before one with a bad CRC count, later FPDUs do not",
    accepted(), put(send(1, b"good")), delivered(b"good"),
    raw(lambda x: bad(20)(x) + fpdu(send(2, b"after"))), terminated(LLP, 0, 2), undelivered())

# ---- FPDUs ----

row("fpdu-byte-by-byte", "5044 5.2", "R", "An FPDU may come in any number of TCP segments",
    accepted(), raw(fpdu(send(1, b"in pieces")), pieces=1), delivered(b"in pieces"))
row("fpdus-in-one-segment", "5044 5.2", "R", "A TCP segment may hold several FPDUs, and parts of them",
    accepted(), raw(lambda x: b"".join(map(fpdu, (send(1, b"a"), x.write("rw", FREE, b"bcd"), send(2, b"ef"), send(3,
    b"ghi"))))[:-7]),
    delivered(b"a"), delivered(b"ef"), raw(fpdu(send(3, b"ghi"))[-7:]), delivered(b"ghi"), holds("rw", FREE, b"bcd"))
row("fpdu-larger-than-mss", "5044 4.5", "R", "An FPDU may be larger than a TCP segment",
    accepted(), put(lambda x: x.write("rw", FREE, bytes(range(250)) * 80)), holds("rw", FREE, bytes(range(250)) * 4),
    put(send(1, b"x")), delivered(b"x"))
row("fpdu-of-65535", "5044 4.1", "R", "ULPDU_Length may be any 16-bit number", level="SHOULD", *(
    accepted(), put(lambda x: x.write("wo", 0, b"\xEE" * (65535 - 14))), put(send(1, b"x")), delivered(b"x")))
for n in range(5):
    row(f"pad-of-{-(2 + 18 + n) % 4}-for-{n}", "5044 4.1", "R",
    f"A Send of {n} bytes: FPDUs are padded to 4 octets, both ways",
        accepted(), put(send(1, b"abcd"[:n])), delivered(b"abcd"[:n]), do(f"send {{n}} {n}"),
        expects(lambda x, n=n: SEND_HEAD + x.content("rw", 0, n)))
row("pad-not-zero", "5044 4.1", "R", "The pad's content is not checked beyond the CRC",
    accepted(), raw(lambda x: padded(send(1, b"p"))), delivered(b"p"))


@step
def zero_pad(x, data):
    """The device's next FPDU, octet for octet, with its pad."""
    x.p.need(2 + len(data))
    whole = fpdu(data(x) if callable(data) else data, crc=x.p.crc)
    got = x.p.take(len(whole))
    if got != whole:
        raise Differs(f"pads with {got[-7:-4].hex()}")


def padded(u):
    b = struct.pack(">H", len(u)) + u
    b += b"\xA5" * (-len(b) % 4)
    return b + struct.pack("<I", wire.crc32c(b))


row("pad-sent-zero", "5044 4.1", "R", "The pad is sent as zeros",
    accepted(), put(send(1, b"p")), do("send {n} 40"), do("send {n} 1"),
    expects(lambda x: SEND_HEAD + x.content("rw", 0, 40)),
    zero_pad(untagged(SEND, 0, 2) + b"\0"))
row("fpdu-size", "5044 4.5", "R", "FPDUs sent are not larger than a TCP segment", level="SHOULD", *(
    accepted(), put(send(1, b"go")), do("send {n} 20000"),
    message(SEND_HEAD, lambda x: x.content("rw", 0, 20000), most=12)))
row("ulpdu-shorter-than-header", "5044 8", "R",
    "A ULPDU that cannot hold a DDP header ends the stream with a Terminate",
    accepted(), OPEN, put(lambda x: x.write("rw", FREE, b"")[:13]), ends_somehow(LLP, DDP))
row("ulpdu-empty", "5044 4.1", "R", "A ULPDU of length 0 is no DDP segment: the stream ends with a Terminate",
    accepted(), OPEN, put(b""), ends_somehow(LLP, DDP))
row("fin-inside-fpdu", "5044 7.2", "R", "An FPDU in which the stream ends is not delivered",
    accepted(), put(send(1, b"whole")), delivered(b"whole"), raw(fpdu(send(2, b"half"))[:-3]),
    step(lambda x: x.p.s.shutdown(1))(),
    closes(), told("DISCONNECTED"), undelivered())

# ---- markers ----


def marked(frame, pos):
    """Inserts markers into an FPDU that begins at octet `pos` of the stream. FPDUPTR counts from the length field."""
    out, start = b"", pos
    while frame:
        if pos % 512 == 0:
            if pos == start:
                start += 4  # the marker lies before the length field
            out += struct.pack(">HH", 0, max(0, pos - start))
            pos += 4
            continue
        n = min(512 - pos % 512, len(frame))
        out, frame, pos = out + frame[:n], frame[n:], pos + n
    return out


def marked_fpdu(u, at):
    """One FPDU that begins at stream position `at`, with markers; its CRC covers the markers, too."""
    body = struct.pack(">H", len(u)) + u
    body += b"\0" * (-len(body) % 4)
    covered = marked(body + b"\0\0\0\0", at)[:-4]
    return covered + struct.pack("<I", wire.crc32c(covered))


@step
def with_markers(x, *ulpdus, spoil=None):
    """Sends FPDUs with markers, as the first octets of our direction."""
    data = b""
    for u in ulpdus:
        data += marked_fpdu(x.value(u), len(data))
    if spoil is not None:
        b = bytearray(data)
        b[spoil] ^= 4
        data = bytes(b)
    x.p.raw(data)


@step
def marks(x, u):
    """The device's first FPDU, with markers at octets 0, 512, 1024 ... of the device's direction."""
    want = marked_fpdu(x.value(u), 0)
    got = x.p.take(len(want))
    if got[:4] != b"\0\0\0\0":
        raise Differs("sends no marker at the beginning of Full Operation")
    if got != want:
        raise Differs("sends markers or CRC otherwise: " + ", ".join(
            f"{got[i:i + 4].hex()} at {i}" for i in range(0, len(want), 512)))


row("markers-asked-by-initiator", "5044 4.3", "R",
    "A Request with M: FPDUs to the initiator have markers at 0, 512, 1024 ... of the stream",
    request(flags=M | C | S), reply(clear=R | M), known(), settled(), put(send(1, b"no markers this way")),
    delivered(b"no markers this way"),
    do("send {n} 1200"), marks(lambda x: SEND_HEAD + x.content("rw", 0, 1200)))
row("markers-asked-by-reply", "5044 4.3", "I", "A Reply with M: FPDUs to the responder have markers",
    called(), answer(set_=M), established(), do("send {n} 600"), marks(lambda x: SEND_HEAD + x.content("rw", 0, 600)))
row("markers-asked-by-device", "5044 7.1.1", "R",
    "A receiver that wants markers sets M, and removes the markers wherever they fall",
    request(), reply(set_=M), known(), settled(),
    with_markers(send(1, b"s" * 400), send(2, b"t" * 83), send(3, b"u" * 1024), send(4, b"end")),
    delivered(b"s" * 400), delivered(b"t" * 83), delivered(b"u" * 1024), delivered(b"end"), variant="markers")
row("markers-everywhere", "5044 4.3", "R", "A marker may fall into the header, data, pad, and between pad and CRC", *(
    request(), reply(set_=M), known(), settled(),
    with_markers(*[send(i + 1, bytes([i]) * n) for i, n in enumerate((468, 487, 469, 453))]),
    *[delivered(bytes([i]) * n) for i, n in enumerate((468, 487, 469, 453))]), variant="markers")
row("markers-wrong-pointer", "5044 8", "R",
    "A marker whose pointer does not lead to a length field ends the stream with a Terminate",
    request(), reply(set_=M), known(), settled(), with_markers(lambda x: x.write("rw", FREE, b"m" * 700), spoil=515),
    raw(b"\0" * 16), closes_or_says(LLP, 0, 2), variant="markers")
