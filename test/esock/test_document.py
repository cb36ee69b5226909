#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
doc/extended-sockets.md, and what doc/stream-sockets.md says of windows, agree with lib/esock: this script builds the
documents' vectors from their fields, and compares them with the octets that test_esk.c reads and writes.

usage: test_document.py SOURCE_ROOT
"""
import os
import re
import struct
import sys

ROOT = os.path.abspath(sys.argv[-1])
VECTORS = {
    "hello": struct.pack(">4sBBHI", b"RNXS", 1, 0, 32, 16384),
    "data": struct.pack(">BBHI", 1, 0, 0, 5) + b"bytes",
    "credit": struct.pack(">BBHI", 2, 0, 0, 16),
    "end": struct.pack(">BBHI", 3, 0, 0, 0),
    "window": struct.pack(">4sBBHIII", b"RNXS", 1, 1, 16, 16384, 0x0a0b0c0d, 262144),
    "window_data": struct.pack(">BBHII", 1, 0, 0, 5, 0) + b"bytes",
    "window_credit": struct.pack(">BBHII", 2, 0, 0, 0, 65536),
    "window_written": struct.pack(">BBHIII", 4, 0, 0, 0, 0, 32768),
}


def text(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def vectors(path):
    return dict(re.findall(r"^\| `(\w+)` \| `([0-9a-f ]+)` \|", text(path), re.M))


def main():
    doc, of_streams = vectors("doc/extended-sockets.md"), vectors("doc/stream-sockets.md")
    doc |= {f"window_{name}": of_streams[name] for name in ("data", "credit", "written")}
    doc["window"] = " ".join(of_streams["request"].split()[-5:])  # the private data behind IRD and ORD
    code = dict(re.findall(r'\{ "(\w+)", "([0-9a-f ]+)" \}', text("test/esock/test_esk.c")))
    print(f"1..{len(VECTORS) + 1}")
    failed = 0
    for i, (name, octets) in enumerate(VECTORS.items(), 1):
        want = octets.hex(" ", -4)
        good = doc.get(name) == want and code.get(name) == want
        failed += not good
        print(f"{'ok' if good else 'not ok'} {i} - {name}" + ("" if good else f" # {want}"))
    same = set(doc) == set(code) == set(VECTORS)
    print(f"{'ok' if same else 'not ok'} {len(VECTORS) + 1} - document, script and program have the same vectors")
    return 1 if failed or not same else 0


sys.exit(main())
