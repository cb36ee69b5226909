#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What lib/iwarp sends, judged by other decoders: check_markers.py GEN_MARKED.

A capture of a synthetic connection is made for each pair of marker directions. A decoder written here from RFC 5044
(markers, pad, CRC) reads it octet by octet; tshark dissects it. Both must see the FPDUs that GEN_MARKED names. When
only one direction has markers, tshark 4.0 expects markers in both directions, so tshark judges that direction only.
"""
import os
import shutil
import struct
import subprocess
import sys
import tempfile

# The payload is random, so dissectors of upper protocols, which guess, are switched off.
TSHARK = ['tshark', '--disable-protocol', 'rpcordma', '--disable-protocol', 'smb_direct']
TABLE = []
for n in range(256):
    c = n
    for _ in range(8):
        c = (c >> 1) ^ 0x82F63B78 if c & 1 else c >> 1
    TABLE.append(c)


def crc32c(data):
    c = 0xFFFFFFFF
    for octet in data:
        c = TABLE[(c ^ octet) & 255] ^ (c >> 8)
    return c ^ 0xFFFFFFFF


def segments(path):
    """Frame number, source address and TCP payload of each segment that has one."""
    data = open(path, 'rb').read()
    at, number = 24, 0
    while at < len(data):
        size, = struct.unpack_from('<I', data, at + 8)
        frame = data[at + 16:at + 16 + size]
        at, number = at + 16 + size, number + 1
        if len(frame) > 54:
            yield number, frame[26:30], frame[54:]


def fpdus(stream, markers):
    """
    [(length of the ULPDU, number of markers)] of each FPDU in one direction of Full Operation; raises if a rule is
    broken.
    """
    at = 0
    while at < len(stream):
        start, plain, seen, len_at = at, b'', 0, None
        need = 2
        while len(plain) < need:
            if markers and at % 512 == 0:
                reserved, ptr = struct.unpack_from('>HH', stream, at)
                assert reserved == 0, 'the reserved field of the marker at %d is not zero' % at
                assert ptr == (0 if len_at is None else at - len_at), 'FPDUPTR %d at %d' % (ptr, at)
                at, seen = at + 4, seen + 1
                continue
            if len_at is None:
                len_at = at
            plain += stream[at:at + 1]
            at += 1
            if len(plain) == 2:
                length, = struct.unpack('>H', plain)
                need = (2 + length + 3) // 4 * 4 + 4
            assert at <= len(stream), 'the last FPDU is not whole'
        assert at % 4 == 0
        assert not any(plain[2 + length:-4]), 'the pad is not zero'
        assert struct.unpack('<I', stream[at - 4:at])[0] == crc32c(stream[start:at - 4]), 'CRC at %d' % at
        yield plain[2:2 + length], seen


def check_own(path, want, marked):
    """marked: {source address: whether that end sends markers}."""
    streams, got = {}, []
    for number, src, body in segments(path):
        streams.setdefault(src, []).append((number, body))
    for src, parts in streams.items():
        whole = b''.join(body for _, body in parts[1:])  # the first segment is the MPA frame
        ends, total = [], 0
        for number, body in parts[1:]:
            total += len(body)
            ends.append((total, number))
        at = 0
        for ulpdu, seen in fpdus(whole, marked[src]):
            at += (2 + len(ulpdu) + 3) // 4 * 4 + 4 + 4 * seen
            got.append((next(number for end, number in ends if at <= end), len(ulpdu), ulpdu[1] & 15, seen))
    got.sort(key=lambda row: row[0])
    assert got == want, 'own decoder: %s' % [pair for pair in zip(got, want) if pair[0] != pair[1]][:1]


def check_tshark(path, want, marked):
    if len(set(marked.values())) == 2:
        judged = {number for number, src, _ in segments(path) if marked[src]} & {row[0] for row in want}
    else:
        judged = {row[0] for row in want}
    want = [row for row in want if row[0] in judged]
    fields = ['frame.number', 'iwarp_mpa.ulpdulength', 'iwarp_rdma.opcode', 'iwarp_mpa.marker_fpduptr', '_ws.col.Info']
    args = TSHARK + ['-r', path, '-Y', 'iwarp_mpa.fpdu', '-T', 'fields', '-E', 'occurrence=a']
    for field in fields:
        args += ['-e', field]
    got = []
    for row in subprocess.run(args, capture_output=True, text=True, check=True).stdout.splitlines():
        number, lengths, opcodes, pointers, info = row.split('\t')
        if int(number) in judged:
            assert 'Malformed' not in info, row
            got.append((int(number), int(lengths), int(opcodes, 16), len(pointers.split(',')) if pointers else 0))
    assert got == want, 'tshark finds other FPDUs: %s, %d of %d' % (
        [pair for pair in zip(got, want) if pair[0] != pair[1]][:1], len(got), len(want))
    text = subprocess.run(TSHARK + ['-r', path, '-V'], capture_output=True, text=True, check=True).stdout
    frames = {int(part.split(':', 1)[0]): part for part in ('\n' + text).split('\nFrame ')[1:]}
    for number in judged:
        assert frames[number].count('(Good CRC32)') == 1 and 'Malformed' not in frames[number], 'frame %d' % number
    last = frames[max(frames)]
    if max(frames) in judged:
        assert 'Error Code for DDP Tagged Buffer: Base or bounds violation (0x01)' in last, 'Terminate'


def make(folder, *args):
    path = os.path.join(folder, 'marked.pcap')
    said = subprocess.run([sys.argv[1], path] + [str(arg) for arg in args], capture_output=True, text=True,
                          check=True).stdout
    return path, [tuple(int(word) for word in line.split()) for line in said.splitlines()]


def run(number, name, check, skip=None):
    if skip:
        print('ok %d - %s # SKIP %s' % (number, name, skip))
        return True
    try:
        check()
    except AssertionError as reason:
        print('# %s\nnot ok %d - %s' % (reason, number, name))
        return False
    print('ok %d - %s' % (number, name))
    return True


def main():
    cases = [(i, r, mss) for i in (0, 1) for r in (0, 1) for mss in (1448, 8948)]
    no_tshark = None if shutil.which('tshark') else 'tshark is not installed: no second decoder judges these frames'
    print('1..%d' % (2 * len(cases)))
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for k, (i, r, mss) in enumerate(cases):
            name = 'initiator %s, responder %s markers, MSS %d' % ('receives' if i else 'without',
                                                                 'receives' if r else 'without', mss)
            marked = {b'\x0a\x00\x00\x01': bool(r), b'\x0a\x00\x00\x02': bool(i)}
            path, want = make(folder, i, r, mss, k + 1, 0)
            good &= run(2 * k + 1, 'own decoder: ' + name, lambda: check_own(path, want, marked))
            path, want = make(folder, i, r, mss, k + 1, 1)
            good &= run(2 * k + 2, 'tshark: ' + name, lambda: check_tshark(path, want, marked), no_tshark)
    return 0 if good else 1


sys.exit(main())
