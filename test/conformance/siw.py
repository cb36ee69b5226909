# SPDX-License-Identifier: BSD-3-Clause
"""
Reasons why Linux siw (6.1) does not keep a row: what siw does instead, the rule, and the rows that show it. A row that
siw does not keep and that is not listed here counts as unexplained in the matrix. "may": the result depends on timing.
"""

MIRRORED = "the bits of its Terminate the wrong way round: layer and type, and M D R, change places (5040 4.8)"
NO_7306 = "does not implement RFC 7306: its opcodes are unknown to it"

WHY = (
    ("refuses more than 256 octets of private data (5044 7.1.1)", "request-private-data-512"),
    ("may lose the end of an MPA frame that comes octet by octet: more news than it has room for (5044 7.1.2)",
     "request-in-pieces reply-in-pieces"),
    ("answers with the Request's own flag octet, reserved bits and R with it (5044 7.1.1)",
     "reply-reserved-bits request-reject-bit"),
    ("sends what the application has posted before the initiator's first FPDU or RTR, Terminates too "
     "(5044 7.1.2, 6581 9.2)",
     "responder-waits-for-first-fpdu first-fpdu-broken p2p-waits-for-rtr"),
    ("hangs, for all connections, when a Reply breaks off or cannot be (5044 7.1.1, 7.1.2)",
     "reply-private-data-513 reply-never"),
    ("places an FPDU's data, and judges its header, before its CRC is known to be good (5044 4.4, 8)",
     "crc-asked-though-not-wanted crc-bad-data crc-bad-header crc-bad-pad crc-bad-field crc-bad-length "
     "crc-order-of-octets crc-bad-after-good"),
    ("does not put an FPDU together again that comes octet by octet (5044 5.2)", "fpdu-byte-by-byte"),
    ("waits for 16 octets: an FPDU of length 0 is neither taken nor refused (5044 4.1)", "ulpdu-empty"),
    ("has no markers: rejects a Request that asks for them, closes on such a Reply, asks for none (5044 4.3, 7.1.1)",
     "markers-asked-by-initiator markers-asked-by-reply markers-asked-by-device markers-everywhere "
     "markers-wrong-pointer"),
    ("selects a zero-length Write where only a zero-length FPDU was offered (6581 9.2)",
     "p2p-reply-fpdu p2p-opened-by-fpdu"),
    ("may hang, for all connections, when the peer goes before its RTR (6581 9.2)", "p2p-no-rtr"),
    ("as initiator takes no Reply of revision 1 and none without A (6581 9.3, 10)",
     "reply-of-revision-1 p2p-refused-by-reply"),
    ("calls a message that is too long \"no buffer\" (5041 7.1)", "message-too-long"),
    ("finds TO + length wrapped only later: a local error, or no Terminate for a Read (5041 7.1, 5040 7.2)",
     "write-wraps read-wraps"),
    ("does not compare opcode and T bit, nor opcodes inside a message: another error, or no Terminate (5040 4.2, 5.3)",
     "send-tagged write-untagged opcode-changes"),
    ("keeps the connection after a Send that invalidates what it may not, until the application closes it (5040 7.2)",
     "invalidate-unknown invalidate-of-another-pd"),
    ("calls a Read of 2^32 - 1 octets an invalid STag (5040 7.2)", "read-enormous"),
    ("does not check the right of remote read (5040 7.2)", "read-write-only read-local"),
    ("closes without a Terminate when a Read Request is longer than it should be (5040 4.4)", "read-request-long"),
    ("calls a Read Response unasked, or a second one, a local error (5040 7.1, 7.2)",
     "read-response-unasked response-twice"),
)


def why(r):
    """The reason why siw fails a row. None: no reason is known."""
    for text, names in WHY:
        if r.name in names.split():
            return text
    return NO_7306 if r.section.startswith("7306") else None
