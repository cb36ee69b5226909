# SPDX-License-Identifier: BSD-3-Clause
"""
An iWARP checker that shares nothing with lib/iwarp: reads a pcap or pcapng file, puts each TCP stream together, and
checks MPA negotiation, framing, markers (RFC 5044, 4.3), CRC32C, pad and the DDP/RDMAP headers of every FPDU.

As a program: wire_check.py FILE prints one line per connection. As a module: check(path) returns a list of Connection,
or raises WireError that says where the bytes go wrong.
"""
import struct
import sys
from collections import Counter

OPCODES = {0: "Write", 1: "ReadReq", 2: "ReadResp", 3: "Send", 4: "SendInv", 5: "SendSE", 6: "SendSEInv", 7: "Terminate"}
REQ_KEY, REP_KEY = b"MPA ID Req Frame", b"MPA ID Rep Frame"


class WireError(Exception):
    pass


def _table():
    t = []
    for i in range(256):
        c = i
        for _ in range(8):
            c = (c >> 1) ^ (0x82F63B78 if c & 1 else 0)
        t.append(c)
    return t


_T = _table()


def crc32c(data):
    c = 0xFFFFFFFF
    for b in data:
        c = (c >> 8) ^ _T[(c ^ b) & 0xFF]
    return c ^ 0xFFFFFFFF


def frames(path):
    """Ethernet frames of a pcap or pcapng file."""
    data = open(path, "rb").read()
    magic = struct.unpack_from("<I", data)[0]
    if magic == 0x0A0D0D0A:
        off = 0
        while off + 12 <= len(data):
            kind, size = struct.unpack_from("<II", data, off)
            if size < 12 or off + size > len(data):
                raise WireError(f"pcapng block of {size} bytes at {off}")
            if kind == 6:
                cap = struct.unpack_from("<I", data, off + 20)[0]
                yield data[off + 28:off + 28 + cap]
            off += size
    elif magic in (0xA1B2C3D4, 0xA1B23C4D):
        off = 24
        while off < len(data):
            cap = struct.unpack_from("<I", data, off + 8)[0]
            yield data[off + 16:off + 16 + cap]
            off += 16 + cap
    else:
        raise WireError(f"not a capture: {path}")


def ones_sum(data):
    if len(data) & 1:
        data += b"\0"
    s = sum(struct.unpack(f">{len(data) // 2}H", data))
    while s >> 16:
        s = (s & 0xFFFF) + (s >> 16)
    return s


class Stream:
    """One direction of a connection."""

    def __init__(self):
        self.isn = None
        self.pieces = {}
        self.again = 0  # number of segments that were sent a second time, whole or in part
        self.fin = self.rst = False

    def bytes(self):
        out = bytearray()
        for rel in sorted(self.pieces):
            p = self.pieces[rel]
            if rel > len(out):
                raise WireError(f"hole in the capture: {rel - len(out)} bytes at stream offset {len(out)}")
            if rel < len(out):
                self.again += 1
            if rel + len(p) > len(out):
                overlap = len(out) - rel
                if bytes(out[rel:]) != p[:overlap]:
                    raise WireError(f"bytes sent twice differ near stream offset {rel}")
                out += p[overlap:]
        return bytes(out)


class Connection:
    def __init__(self, key):
        self.key = key
        self.ops = (Counter(), Counter())  # number of FPDUs by opcode: of the initiator, of the responder
        self.fpdus = self.markers = self.crc_good = 0
        self.awkward = 0  # number of places behind which other decoders of marked streams may go wrong
        self.req = self.rep = None
        self.terminates = []
        self.payload = 0

    def __str__(self):
        ops = " ".join(f"{OPCODES[o]}:{n}" for c in self.ops for o, n in sorted(c.items()))
        return f"{self.key}: {self.fpdus} FPDUs, {self.markers} markers, {self.crc_good} good CRCs, {ops}"


def mpa_frame(data, key):
    if len(data) < 20 or data[:16] != key:
        return None, 0
    flags, rev, pd = data[16], data[17], struct.unpack_from(">H", data, 18)[0]
    if pd > 512:
        raise WireError(f"private data of {pd} bytes")
    if len(data) < 20 + pd:
        return None, 0
    f = {"M": bool(flags & 0x80), "C": bool(flags & 0x40), "R": bool(flags & 0x20), "S": bool(flags & 0x10), "rev": rev,
         "rsv": flags & 0x0F, "priv": data[20:20 + pd]}
    if f["S"] and rev >= 2:
        if pd < 4:
            raise WireError("enhanced MPA without IRD/ORD")
        ird, ord_ = struct.unpack_from(">HH", f["priv"])
        f.update(ird=ird & 0x3FFF, ord=ord_ & 0x3FFF, A=bool(ird & 0x8000), B=bool(ird & 0x4000), C_=bool(ord_ & 0x8000),
                 D=bool(ord_ & 0x4000), priv=f["priv"][4:])
    return f, 20 + pd


def unmark(data, start, need):
    """Takes `need` bytes of FPDU out of marked stream `data` from `start`; returns them, the raw bytes and the
    markers."""
    out, marks, pos = bytearray(), [], start
    while len(out) < need:
        if pos % 512 == 0:
            if pos + 4 > len(data):
                return None
            marks.append((pos, struct.unpack_from(">HH", data, pos)))
            pos += 4
            continue
        take = min(need - len(out), 512 - pos % 512, len(data) - pos)
        if take <= 0:
            return None
        out += data[pos:pos + take]
        pos += take
    return bytes(out), data[start:pos], marks, pos


def check_fpdus(conn, side, data, marked, crc, begins):
    """Checks the FPDUs of `data`, a direction's bytes behind the MPA frame. Segments begin at the offsets `begins`."""
    msn = {0: 1, 1: 1, 2: 1}
    pos = 0
    while pos < len(data):
        start = pos
        # two FPDUs in a segment, or an FPDU in front of a marker
        conn.awkward += pos not in begins or (marked and pos > 0 and pos % 512 == 0)
        if marked:
            head = unmark(data, pos, 2)
        else:
            head = (data[pos:pos + 2], None, [], pos + 2) if pos + 2 <= len(data) else None
        if head is None:
            break
        ulpdu = struct.unpack(">H", head[0])[0]
        body = 2 + ulpdu + (-(2 + ulpdu) % 4)
        if marked:
            whole = unmark(data, pos, body)
            if whole is None:
                break
            clear, raw, marks, pos = whole
            tail = unmark(data, pos, 4)
            if tail is None:
                break
            check = tail[0]
            if pos % 512 == 0:  # a marker between pad and CRC belongs to this FPDU
                raw += data[pos:pos + 4]
            marks = marks + tail[2]
            pos = tail[3]
            # FPDUPTR counts from the length field, which comes after a marker at the FPDU's beginning.
            length_at = start + 4 if start % 512 == 0 else start
            for where, (zero, ptr) in marks:
                want = max(where - length_at, 0)
                if ptr != want or zero:
                    raise WireError(f"marker at {where}: FPDUPTR {ptr}, should be {want}; reserved {zero}")
            conn.markers += len(marks)
        else:
            if pos + body + 4 > len(data):
                break
            clear = raw = data[pos:pos + body]
            check = data[pos + body:pos + body + 4]
            pos += body + 4
        where = f"FPDU at stream offset {start} of side {side}"
        if crc:
            if struct.unpack("<I", check)[0] != crc32c(raw):
                raise WireError(f"bad CRC in {where}")
            conn.crc_good += 1
        if ulpdu == 0:  # a zero-length FPDU: the RTR message of RFC 6581
            conn.fpdus += 1
            continue
        ddp, rdmap = clear[2], clear[3]
        tagged, last, op = bool(ddp & 0x80), bool(ddp & 0x40), rdmap & 0x0F
        if ddp & 3 != 1 or rdmap >> 6 != 1:
            raise WireError(f"DDP version {ddp & 3}, RDMAP version {rdmap >> 6} in {where}")
        if tagged != (op in (0, 2)) or op not in OPCODES:
            raise WireError(f"opcode {op} with T={tagged} in {where}")
        if ulpdu < (14 if tagged else 18):
            raise WireError(f"ULPDU of {ulpdu} bytes in {where}")
        if not tagged:
            qn, n, mo = struct.unpack_from(">III", clear, 8)
            if qn != {1: 1, 7: 2}.get(op, 0):
                raise WireError(f"{OPCODES[op]} on queue {qn} in {where}")
            if n != msn[qn]:
                raise WireError(f"MSN {n}, expected {msn[qn]}, in {where}")
            if last:
                msn[qn] += 1
            if op == 7:
                conn.terminates.append((side, clear[20:24]))
            conn.payload += ulpdu - 18
        else:
            conn.payload += ulpdu - 14
        conn.fpdus += 1
        conn.ops[side][op] += 1
    return len(data) - pos


def parse_tcp(frame):
    off, kind = 14, struct.unpack_from(">H", frame, 12)[0]
    if kind == 0x8100:
        off, kind = 18, struct.unpack_from(">H", frame, 16)[0]
    if kind != 0x0800 or frame[off + 9] != 6:
        return None
    ihl, total = (frame[off] & 15) * 4, struct.unpack_from(">H", frame, off + 2)[0]
    if ones_sum(frame[off:off + ihl]) != 0xFFFF:
        raise WireError("bad IPv4 header checksum")
    tcp = frame[off + ihl:off + total]
    src, dst = frame[off + 12:off + 16], frame[off + 16:off + 20]
    sport, dport, seq = struct.unpack_from(">HHI", tcp)
    doff, flags = (tcp[12] >> 4) * 4, tcp[13]
    pseudo = src + dst + struct.pack(">BBH", 0, 6, len(tcp))
    return (src, sport), (dst, dport), seq, flags, tcp[doff:], ones_sum(pseudo + tcp) == 0xFFFF


def check(path, checksums=True, complete=True):
    streams, order = {}, []
    for frame in frames(path):
        t = parse_tcp(frame)
        if t is None:
            continue
        a, b, seq, flags, payload, sum_ok = t
        if checksums and not sum_ok:
            raise WireError(f"bad TCP checksum in a segment {a[1]} -> {b[1]}")
        s = streams.setdefault((a, b), Stream())
        if flags & 18 == 2 and s.isn != seq:  # a new SYN: the same ports may be used again
            s = streams[(a, b)] = Stream()
            streams[(b, a)] = Stream()
            order.append((a, b, s, streams[(b, a)]))
        if flags & 2:
            s.isn = seq
        if flags & 4:
            s.rst = True
        if s.isn is None:
            continue
        rel = (seq - s.isn - 1) & 0xFFFFFFFF
        if payload and rel < 1 << 31:
            s.again += rel in s.pieces
            if len(payload) > len(s.pieces.get(rel, b"")):
                s.pieces[rel] = payload
    result = []
    for a, b, i, r in order:
        conn = Connection(f"{a[1]}->{b[1]}")
        idata, rdata = i.bytes(), r.bytes()
        conn.req, ipos = mpa_frame(idata, REQ_KEY)
        conn.rep, rpos = mpa_frame(rdata, REP_KEY)
        if conn.req and conn.rep and not conn.rep["R"]:
            crc = conn.req["C"] or conn.rep["C"]
            # M in a frame asks the other side to insert markers.
            left = (check_fpdus(conn, 0, idata[ipos:], conn.rep["M"], crc, {n - ipos for n in i.pieces}),
                    check_fpdus(conn, 1, rdata[rpos:], conn.req["M"], crc, {n - rpos for n in r.pieces}))
            conn.awkward += i.again + r.again
            if complete and any(left) and not (i.rst or r.rst):
                raise WireError(f"{conn.key}: {left} bytes follow the last whole FPDU")
        result.append(conn)
    return result


if __name__ == "__main__":
    for c in check(sys.argv[1], checksums="-x" not in sys.argv):
        print(c)
