# SPDX-License-Identifier: BSD-3-Clause
"""
An independent checker of datagrams between queue pairs, which shares nothing with lib/udp, lib/pkt and lib/iwarp. It
reads a capture and checks the IPv4 and UDP headers and their checksums, the datagram's header, its CRC32C and its DDP
segment (RFC 5041, 4.2). As a program: wire_ud.py FILE [PORT] prints a line for each flow. As a module: datagrams(path)
returns a list of Datagram, or raises WireError that says where the bytes go wrong.
"""
import socket
import struct
import sys
from collections import Counter, namedtuple

from wire_check import WireError, crc32c, frames, ones_sum

PORT = 4793
HEADER, DDP, RECORD, CRC = 20, 18, 26, 4
SEND, SEND_SE = 3, 5

Datagram = namedtuple("Datagram", "src dst kind dst_qpn src_qpn qkey unit total imm solicited msn offset stag to body "
                      "sport dport", defaults=(PORT, PORT))


def be32(data, off):
    return struct.unpack_from(">I", data, off)[0]


def port_of(qpn, common=PORT):
    """A queue pair's UDP port: its own one, which its number contains, or the common one."""
    return qpn & 0xffff if qpn >> 16 == 0xfd else common


def joined(parts, ip, header):
    """The IP payload that this fragment (RFC 791) completes, or None. parts: the fragments that have come, of all
    datagrams."""
    bits, key = struct.unpack_from(">H", ip, 6)[0], ip[4:6] + ip[12:20]
    if not bits & 0x3fff:
        return ip[header:]
    mine = parts.setdefault(key, {})
    mine[(bits & 0x1fff) * 8] = (bool(bits & 0x2000), ip[header:])
    whole = b""
    while len(whole) in mine:
        more, octets = mine[len(whole)]
        whole += octets
        if not more:
            return whole if parts.pop(key) else None
    return None


def packets(path, port, fragments=None):
    """
    Source, destination, payload and ports of each UDP packet to or from the port (None: of every UDP packet).
    fragments: a list that gets the number of IP fragments.
    """
    parts = {}
    for n, frame in enumerate(frames(path), 1):
        if struct.unpack_from(">H", frame, 12)[0] != 0x0800 or frame[23] != 17:
            continue
        total = struct.unpack_from(">H", frame, 16)[0]
        ip = frame[14:14 + total]
        header = (ip[0] & 15) * 4
        if fragments is not None:
            fragments.append(len(ip))
        udp = joined(parts, ip, header)
        if udp is None:
            continue
        sport, dport, length = struct.unpack_from(">HHH", udp)
        if port not in (None, sport, dport):
            continue
        where = f"frame {n}: "
        if ones_sum(ip[:header]) != 0xFFFF:
            raise WireError(where + "wrong IPv4 header checksum")
        if length != len(udp):
            raise WireError(where + f"UDP length {length} in {len(udp)} bytes")
        if udp[6:8] != b"\0\0" and ones_sum(ip[12:20] + struct.pack(">HH", 17, length) + udp) != 0xFFFF:
            raise WireError(where + "UDP checksum")
        yield where, socket.inet_ntoa(ip[12:16]), socket.inet_ntoa(ip[16:20]), udp[8:], (sport, dport)


def untagged(where, kind, flags, unit, total, body):
    """Checks the DDP segment of a Send, or of one segment of a Send; returns immediate, solicited, MSN, offset, STag,
    TO, octets."""
    control, rdmap, word, qn, msn, mo = struct.unpack_from(">BBIIII", body)
    size = len(body) - DDP
    here = control == 0x41 and mo == 0
    if kind == 4:
        here = mo % unit == 0 and size == min(unit, total - mo) and control == (0x41 if mo + size == total else 1)
    if not here or rdmap >> 4 != 4 or rdmap & 15 not in (SEND, SEND_SE) or qn != 0:
        raise WireError(where + "wrong DDP header " + body[:DDP].hex())
    if not flags & 1 and word != 0:
        raise WireError(where + f"ULP word {word:#x} without immediate data")
    return word if flags & 1 else None, rdmap & 15 == SEND_SE, msn, mo, None, None, body[DDP:]


def record(where, flags, unit, total, body):
    """Checks the DDP segment of a Write-Record; returns the same fields as untagged()."""
    ident, offset, word, control, rdmap, stag, to = struct.unpack_from(">IIIBBIQ", body)
    size = len(body) - RECORD
    here = offset % unit == 0 and size == min(unit, total - offset) and to >= offset
    if not here or control != (0xc1 if offset + size == total else 0x81) or rdmap != 0x40:
        raise WireError(where + "wrong record " + body[:RECORD].hex())
    if not flags & 1 and word != 0:
        raise WireError(where + f"immediate data {word:#x} without the flag")
    return word if flags & 1 else None, False, ident, offset, stag, to, body[RECORD:]


def decode(where, src, dst, p, ports=(PORT, PORT), common=PORT):
    if len(p) < HEADER + CRC:
        raise WireError(where + f"{len(p)} bytes")
    version, kind, flags, unit = p[:4]
    unit, total = ((version & 15) << 8 | unit) * 64, be32(p, 16)
    flagged = 1 if kind in (1, 4, 5) else 0
    if version & 0xf0 != 0x10 or flags & ~flagged or p[4] or p[8] or kind < 4 and (unit or total) or kind == 6 and unit:
        raise WireError(where + "wrong header " + p[:HEADER].hex())
    if struct.unpack_from("<I", p, len(p) - CRC)[0] != crc32c(p[:-CRC]):
        raise WireError(where + "CRC32C")
    if ports != (port_of(be32(p, 8), common), port_of(be32(p, 4), common)):
        raise WireError(where + f"UDP ports {ports} of {be32(p, 8):#x} to {be32(p, 4):#x}")
    body = p[HEADER:-CRC]
    said = None, False, 0, 0, None, None, body
    if kind in (1, 4):
        said = untagged(where, kind, flags, unit, total, body)
    elif kind == 5:
        said = record(where, flags, unit, total, body)
    elif kind == 6:
        if body[:2] != b"\x41\x41" or be32(body, 6) != 1 or be32(body, 14) != 0 or len(body) != DDP + 28:
            raise WireError(where + "wrong Read Request " + body.hex())
        said = None, False, be32(body, 10), 0, None, None, body[DDP:]
    return Datagram(src, dst, kind, be32(p, 4), be32(p, 8), be32(p, 12), unit, total, *said, *ports)


def datagrams(path, port=PORT, fragments=None):
    return [decode(*p, port or PORT) for p in packets(path, port, fragments)]


def main():
    count = Counter((d.src, d.src_qpn, d.dst, d.dst_qpn, d.kind) for d in datagrams(sys.argv[1], int((*sys.argv, PORT)[2])))
    for (src, src_qpn, dst, dst_qpn, kind), n in sorted(count.items()):
        print(f"{src} {src_qpn:#x} -> {dst} {dst_qpn:#x}: {n} of kind {kind}")


if __name__ == "__main__":
    main()
