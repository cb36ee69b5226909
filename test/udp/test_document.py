#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
doc/datagram-iwarp.md and doc/datagram-sockets.md agree with lib/udp: this script builds the documents' vectors from
their fields, with a CRC of its own, and compares them with the octets that test_udpl.c, test_udps.c, test_udpr.c and
test_rd_wire.c read and write; the kinds are those of udpl.h, udpr.h and rd.h, and the messages of sockets those of
udps.h. Each MUST of doc/datagram-iwarp.md is tested by a case of test/conformance.

usage: test_document.py SOURCE_ROOT
"""
import ast
import glob
import os
import re
import struct
import sys

ROOT = os.path.abspath(sys.argv[-1])
UDPL_QPN_CM, DDP_UNTAGGED_LAST, RDMAP_SEND = 1, 0x41, 0x43


def text(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def crc32c(data):
    """The CRC of RFC 5044, 4.4, computed bit by bit."""
    c = 0xFFFFFFFF
    for b in data:
        c ^= b
        for _ in range(8):
            c = c >> 1 ^ (0x82F63B78 if c & 1 else 0)
    return c ^ 0xFFFFFFFF


def datagram(kind, flags, qpns, qkey, body, unit=0, total=0):
    head = struct.pack(">BBBBIIII", 0x10 | unit >> 14, kind, flags, unit >> 6 & 255, *qpns, qkey, total) + body
    return head + struct.pack("<I", crc32c(head))


def reliable(kind, flags, ranges, workers, token, rest, body=b""):
    head = struct.pack(">BBBBHHII3I", 0x10, kind, flags, ranges, *workers, 0x11223344, token, *rest) + body
    return head + struct.pack("<I", crc32c(head))


CM = (UDPL_QPN_CM, UDPL_QPN_CM)
IDENT, SERVICE = 0x0102030405060708, 7174
VECTORS = {
    "send": datagram(1, 1, (0x123456, 0xabcdef), 0x11111111,
                     struct.pack(">BBIIII", DDP_UNTAGGED_LAST, RDMAP_SEND, 0xdeadbeef, 0, 7, 0) + b"datagram"),
    # the last of three segments of a message of 150 octets; it begins at octet 128
    "segment": datagram(4, 0, (0x123456, 0xabcdef), 0x11111111,
                        struct.pack(">BBIIII", DDP_UNTAGGED_LAST, RDMAP_SEND, 0, 0, 8, 128) + b"the end of the message",
                        unit=64, total=150),
    # the second of two segments
    "large": datagram(4, 0, (0x123456, 0xabcdef), 0x11111111,
                      struct.pack(">BBIIII", DDP_UNTAGGED_LAST, RDMAP_SEND, 0, 0, 9, 65344) + b"the end of the m",
                      unit=65344, total=65360),
    "record": datagram(5, 1, (0x123456, 0xabcdef), 0x11111111,
                       struct.pack(">IIIBBIQ", 9, 64, 0xdeadbeef, 0xc1, 0x40, 0x12345678, 0x7f0000001040) + b"recorded",
                       unit=64, total=72),
    "read": datagram(6, 0, (0x123456, 0xabcdef), 0x11111111,
                     struct.pack(">BBIIII", DDP_UNTAGGED_LAST, 0x41, 0, 1, 10, 0) +
                     struct.pack(">IQIIQ", 0x87654321, 0x7f0000002000, 3000, 0x12345678, 0x7f0000001000),
                     total=0x22222222),
    "request": datagram(2, 0, CM, 0, struct.pack(">QBBHII", IDENT, 0, 0, SERVICE, 40001, 0) + b"ping"),
    "reply": datagram(3, 0, CM, 0, struct.pack(">QBBHII", IDENT, 0, 0, SERVICE, 0x42, 0x01234567)),
}
OUT, BACK, TOKEN, COOKIE = (1, 2), (2, 1), 0x0c0d0e0f, bytes(range(16))
RELIABLE = {
    "hello": reliable(32, 0, 0, OUT, 0, (0, 1000, 0), bytes(16)),
    "cookie": reliable(33, 0, 0, BACK, TOKEN, (0, 1000, 0), COOKIE),
    "data": reliable(34, 1, 0, OUT, TOKEN, (7, 1010, 0), COOKIE + b"reliable"),
    "ack": reliable(35, 2, 2, BACK, TOKEN, (5, 1010, 30), struct.pack(">4I", 7, 9, 12, 13)),
    "unknown": reliable(36, 0, 0, BACK, TOKEN, (0, 0, 0)),
}
SEGMENT = struct.pack(">BBIIII", DDP_UNTAGGED_LAST, RDMAP_SEND, 0, 0, 3, 0)


def packet(number, stamp, back, kind, qkey, mine, taken, body=b"", flags=0):
    """A DATA packet, without a cookie, between the two queue pairs. back: the second queue pair sends the packet."""
    qpns, runs = (0x123456, 0xabcdef), (0x6543, 0x1234)
    if back:
        qpns, runs = qpns[::-1], runs[::-1]
    return reliable(34, 0, 0, BACK if back else OUT, TOKEN, (number, stamp, 0),
                    struct.pack(">8I", kind << 24 | flags << 16, *qpns, qkey, *runs, mine, taken) + body)


def send(msn):
    return struct.pack(">BBIIII", DDP_UNTAGGED_LAST, RDMAP_SEND, 0, 0, msn, 0)


def part(patience, flags, segment):
    return struct.pack(">HBBI", len(segment), flags, patience, 0x11111111) + segment


DATAGRAMS = {
    "rd_segment": packet(8, 1020, False, 1, 0x11111111, 5, 2, SEGMENT + b"datagram"),
    # the first segment of a chain. `taken` and `more` say: of the other end's run segment 2 is the first whose turn has
    # not come, and the turns of 3, 4 and 6 have come
    "rd_chain": packet(9, 1030, False, 1, 0x11111111, 6, 2, struct.pack(">Q", 0xb) + SEGMENT[:1].replace(b"A", b"\1") +
                       SEGMENT[1:] + b"datagram", flags=0x0b),
    # two Sends: the length of each segment, its flags, its patience and its Q_Key stand before it
    "rd_segments": packet(10, 1040, False, 4, 0, 7, 2, part(3, 0, send(4) + b"data") + part(0, 0, send(5) + b"gram"),
                          flags=0x40),
    "rd_taken": packet(4, 2000, True, 2, 0, 0, 6),
    # RDMAP, remote protection, access rights; then length and DDP header of the offending segment
    "rd_refused": packet(4, 2000, True, 3, 0, 0, 5, struct.pack(">BBBBH", 0x01, 0x02, 0xc0, 0, 26) + SEGMENT),
}
DOCUMENT = text("doc/datagram-iwarp.md")
SOCKETS = text("doc/datagram-sockets.md")
ASKING, ASKED = 0xfe0000 + 5000, 0xfe0000 + 7174


def word(kind, qpns, nonce, status, qkey=0, unit=0):
    return datagram(kind, 0, qpns, qkey, struct.pack(">QBB", nonce, status, 0), unit)


SOCKET = {
    "ask": word(7, (ASKED, ASKING), IDENT, 0, unit=1408),
    "takes": word(8, (ASKING, ASKED), IDENT, 1, 0x89abcdef, 8896),
    "stale": word(8, (ASKING, ASKED), 0, 3, 0x89abcdef),
    "datagram": datagram(1, 0, (ASKED, ASKING), 0x89abcdef,
                         struct.pack(">BBIIII", DDP_UNTAGGED_LAST, RDMAP_SEND, 0, 0, 7, 0) + b"datagram"),
    "part": datagram(4, 0, (ASKED, ASKING), 0x89abcdef,
                     struct.pack(">BBIIII", DDP_UNTAGGED_LAST, RDMAP_SEND, 0, 0, 8, 128) + b"the end of the message",
                     unit=64, total=150),
}


def the_sum_of_the_castagnoli_check_value():
    assert crc32c(b"123456789") == 0xE3069283


def the_vectors_are_what_their_fields_say():
    for document, wanted in ((DOCUMENT, {**VECTORS, **RELIABLE, **DATAGRAMS}), (SOCKETS, SOCKET)):
        found = dict(re.findall(r"^`(\w+)`:[^`]*```\n([0-9a-f \n]+)```", document, re.M))
        assert found.keys() == wanted.keys(), sorted(found)
        for name, hexes in found.items():
            assert bytes.fromhex(hexes) == wanted[name], (name, wanted[name].hex(" "))


def the_vectors_are_what_the_code_is_tested_with():
    for path, vectors in (("test/udp/test_udpl.c", VECTORS), ("test/udp/test_udpr.c", RELIABLE),
                          ("test/qp/test_rd_wire.c", DATAGRAMS), ("test/udp/test_udps.c", SOCKET)):
        arrays = dict(re.findall(r"wire_(\w+)\[\] = \{([^}]*)\}", text(path)))
        assert arrays.keys() == vectors.keys(), (path, sorted(arrays))
        for name, octets in arrays.items():
            assert bytes(int(x, 16) for x in re.findall(r"0x\w+", octets)) == vectors[name], name


def the_kinds_are_those_of_the_header():
    said = dict(re.findall(r"^\| (\d+) \| `(UDPL_\w+)` \|", DOCUMENT, re.M))
    enum = re.search(r"enum udpl_kind \{(.*?)\};", text("lib/udp/udpl.h"), re.S).group(1)
    code = {number: name for name, number in re.findall(r"^\s*(UDPL_\w+) = (\d+),", enum, re.M)}
    assert said == code and code, (said, code)


def the_status_and_sizes_of_sockets_are_those_of_the_header():
    header = text("lib/udp/udps.h")
    said = re.findall(r"^\| (\d+) \| `(UDPS_\w+)` \|", SOCKETS, re.M)
    enum = re.search(r"enum udps_status \{(.*?)\};", header, re.S).group(1)
    assert said == [(n, name) for name, n in re.findall(r"^\s*(UDPS_\w+) = (\d+),", enum, re.M)] and said, said
    number = {name: int(n) for name, n in re.findall(r"^#define (UDPS_\w+) +(\d+)u", header, re.M)}
    for line in (f"Both are {number['UDPS_LEN']} octets long", f"shorter than {number['UDPS_LEN']} octets",
                 f"more than {number['UDPS_SEGS_MAX']} segments", f"more than {number['UDPS_LONGEST']:,} octets",
                 f"rnicd: {number['UDPS_SETS'] * number['UDPS_WAYS']:,} per worker",
                 f"datagrams of {number['UDPS_SLOT_MIN']:,} octets or more"):
        assert line in SOCKETS, line


def the_kinds_of_reliable_datagrams_are_those_of_the_header():
    first, last = map(int, re.search(r"^\| (\d+) to (\d+) \| reserved \| for reliable", DOCUMENT, re.M).groups())
    header = text("lib/udp/udpr.h")
    enum = re.search(r"enum udpr_kind \{(.*?)\};", header, re.S).group(1)
    begin = int(re.search(r"UDPR_HELLO = (\w+)", enum).group(1), 0)
    code = [(str(n), name) for n, name in enumerate(re.findall(r"UDPR_\w+", enum), begin)]
    assert begin == first and int(re.search(r"UDPR_KIND_LAST (\w+)u", header).group(1), 0) == last, (first, last)
    assert re.findall(r"^\| (\d+) \| `(UDPR_\w+)` \|", DOCUMENT, re.M) == code, code


def the_packets_of_reliable_datagrams_are_those_of_the_header():
    header = text("lib/dgram/rd.h")
    enum = re.search(r"enum rd_kind \{(.*?)\};", header, re.S).group(1)
    code = [(str(n), name) for n, name in enumerate(re.findall(r"^\s*(RD_\w+)", enum, re.M), 1)]
    assert re.findall(r"^\| (\d+) \| `(RD_\w+)` \|", DOCUMENT, re.M) == code and len(code) == 4, code
    number = {name: int(n) for name, n in re.findall(r"^#define (RD_\w+) +(\d+)u", header, re.M)}
    chapter = re.search(r"^## Reliable datagrams\n(.*?)^## ", DOCUMENT, re.S | re.M).group(1)
    longest = number["RD_HDR_LEN"] + number["RD_SEG_MAX"]
    for said in (f"{number['RD_SEG_MAX']:,} octets at most", f"longer than {longest:,} octets",
                 f"1 to {number['RD_WIN']} segments",
                 f"{number['RD_WIN']} or more above", f"one of the {number['RD_WIN']} from",
                 f"more than {number['RD_DEPTH']}\n", f"the bound is {number['RD_SPAN']}",
                 f"unordered run {number['RD_SPAN']})",
                 f"{number['RD_SEG_MAX'] - number['RD_MORE_LEN']:,} behind a map"):
        assert said in chapter, said


def the_flags_of_reliable_datagrams_are_those_of_the_header():
    code = re.findall(r"^#define (RD_F_\w+) +(0x\w+)u", text("lib/dgram/rd.h"), re.M)
    assert [(name, flag) for flag, name in re.findall(r"^\| (0x\w+) \| `(RD_F_\w+)` \|", DOCUMENT, re.M)] == code, code


def rules_with_cases():
    """The words of each mark `@rule(...)` in test/conformance, with the name of its case."""
    for path in sorted(glob.glob(os.path.join(ROOT, "test/conformance/*.py"))):
        with open(path, encoding="utf-8") as f:
            functions = [n for n in ast.walk(ast.parse(f.read())) if isinstance(n, ast.FunctionDef)]
        for f in functions:
            calls = {ast.unparse(d.func if isinstance(d, ast.Call) else d): d for d in f.decorator_list}
            if "rule" in calls:
                assert calls.keys() & {"case", "scene", "customer"}, f"{f.name} has a rule and is no case"
                yield from ((ast.literal_eval(words), f.name) for words in calls["rule"].args)


def each_must_has_a_case():
    rules = re.sub(r"\s+", " ", DOCUMENT[:DOCUMENT.index("\n## Vectors")].replace("MUST, SHOULD and MAY", ""))
    without = {m.start() for m in re.finditer("MUST", rules)}
    for words, name in rules_with_cases():
        places = [m.start() for m in re.finditer(re.escape(words), rules)]
        assert len(places) == 1 and "MUST" in words, f"{name}: {len(places)} places of the document have: {words}"
        without -= set(range(places[0], places[0] + len(words)))
    assert not without, "".join(f"\n#   no case: ...{rules[max(at - 70, 0):at + 90]}..." for at in sorted(without))


def main():
    cases = [the_status_and_sizes_of_sockets_are_those_of_the_header,
             the_flags_of_reliable_datagrams_are_those_of_the_header,
             the_packets_of_reliable_datagrams_are_those_of_the_header,
             the_kinds_of_reliable_datagrams_are_those_of_the_header, the_sum_of_the_castagnoli_check_value,
             the_vectors_are_what_their_fields_say,
             the_vectors_are_what_the_code_is_tested_with,
             the_kinds_are_those_of_the_header, each_must_has_a_case]
    failed = 0
    print("1..%d" % len(cases))
    for n, case in enumerate(cases, 1):
        try:
            case()
            print("ok %d - %s" % (n, case.__name__))
        except (AssertionError, ValueError) as e:
            failed += 1
            print("not ok %d - %s: %s" % (n, case.__name__, e))
    return 1 if failed else 0


sys.exit(main())
