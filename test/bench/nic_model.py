#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The load of the memory of an adapter that runs iWARP: a model of the adapter's four engines, each with work of its own
for every FPDU, fed with the FPDUs of a capture. The engines, in the order of transmission, are

  SDMA     fetches bytes from the host into the adapter's memory
  process  moves the bytes apart, so that there is room for header, markers and CRC
  CRC      reads an FPDU and sums it
  SEND     reads the FPDU and puts it on the wire

An adapter that receives uses the same engines in the opposite order. Ways to insert markers:

  contiguous  SDMA fetches pieces of 2 KiB of contiguous host memory; process moves each byte
  scatter     SDMA fetches each run between two markers, and each marker, by a DMA of its own, to its place: a list of
              DMAs, and no bytes to move
  assisted    the host has inserted the markers, so the FPDU is contiguous in the host's memory

With --joined one engine sums while it sends. The model tells how often each byte of an FPDU is written or read in the
adapter's memory, how many DMAs there are, and the bandwidth that results: engines work side by side, with one access to
memory and one DMA at a time. Costs are options; the defaults are those of a 133 MHz PCI-X bus with a DMA that takes
350 ns to start.
"""
import argparse
import collections
import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import wire_check  # pylint: disable=wrong-import-position

WAYS = ("contiguous", "scatter", "assisted")
CHUNK = 2048  # bytes of the longest DMA
MARKER = 4
QUEUE = 4  # FPDUs that may wait before each engine
HEADS = {True: 16, False: 20}  # bytes of length field and DDP header, of tagged (True) and untagged FPDUs

# One FPDU. host: lengths of the payload's pieces between markers; wire: length of the whole FPDU with its markers.
Fpdu = collections.namedtuple("Fpdu", "host markers wire")
# ns for each DMA, byte on the bus, byte of memory
Costs = collections.namedtuple("Costs", "dma_ns bus_ns memory_ns", defaults=(350, 0.94, 0))


# ---- layout ----

def split(start, head, payload, spacing):
    """
    Lays out an FPDU that begins at offset `start` of the stream; returns it and the offset of its end. RFC 5044, 4.3:
    markers stand at multiples of the spacing.
    """
    host, markers, at = [], 0, start
    pad = -(head + payload) % 4
    for size, from_host in ((head, False), (payload, True), (pad + 4, False)):
        while size > 0:
            if spacing and at % spacing == 0:
                markers += 1
                at += MARKER
            run = min(size, spacing - at % spacing) if spacing else size
            if from_host:
                host.append(run)
            at += run
            size -= run
    return Fpdu(tuple(host), markers, at - start), at


def message(size, spacing, ulpdu=CHUNK, start=0, head=HEADS[True]):
    """The FPDUs of one message, each with at most `ulpdu` bytes of payload."""
    out = []
    while size > 0:
        f, start = split(start, head, min(size, ulpdu), spacing)
        out.append(f)
        size -= min(size, ulpdu)
    return out


def stream_fpdus(data, spacing):
    """The FPDUs of one direction, from the bytes that were sent in Full Operation."""
    at = 0
    while at + MARKER + 4 <= len(data):
        length_at = at + (MARKER if spacing and at % spacing == 0 else 0)
        ulpdu = struct.unpack_from(">H", data, length_at)[0]
        if ulpdu < 14:  # the RTR of a peer-to-peer set-up
            head = 2 + ulpdu
        else:
            marked = spacing and (length_at + 2) % spacing == 0
            head = HEADS[bool(data[length_at + 2 + (MARKER if marked else 0)] & 0x80)]
        f, end = split(at, head, 2 + ulpdu - head, spacing)
        if end > len(data):
            return
        for where in range(-(-at // spacing) * spacing, end, spacing) if spacing else ():
            zero, back = struct.unpack_from(">HH", data, where)
            if zero or back != max(where - length_at, 0):
                raise wire_check.WireError(f"no marker at {where}: another spacing than {spacing}?")
        yield f
        at = end


def capture_fpdus(path, spacing):
    """All FPDUs with payload in a capture, of both directions of all connections; those of a direction are in order."""
    streams = {}
    for frame in wire_check.frames(path):
        t = wire_check.parse_tcp(frame)
        if t is None:
            continue
        src, dst, seq, flags, payload, _ = t
        s = streams.setdefault((src, dst), wire_check.Stream())
        if flags & 2:
            s.isn = seq
        rel = (seq - (s.isn or 0) - 1) & 0xFFFFFFFF
        if payload and s.isn is not None and rel < 1 << 31 and len(payload) > len(s.pieces.get(rel, b"")):
            s.pieces[rel] = payload
    out = []
    for (src, dst), s in streams.items():
        back = streams.get((dst, src))
        if s.isn is None or back is None or back.isn is None:
            continue
        data, other = s.bytes(), back.bytes()
        key = wire_check.REQ_KEY if data[:16] == wire_check.REQ_KEY else wire_check.REP_KEY
        mine, at = wire_check.mpa_frame(data, key)
        theirs = wire_check.mpa_frame(other, other[:16])[0] if other[:16] in (wire_check.REQ_KEY,
                                                                              wire_check.REP_KEY) else None
        if mine and theirs:  # M in an end's MPA frame asks the other end to send markers
            out += [f for f in stream_fpdus(data[at:], spacing if theirs["M"] else 0) if f.host]
    return out


# ---- what each engine does with an FPDU ----

def dmas(fpdu, way):
    """The lengths of the DMAs for an FPDU."""
    together = fpdu.host if way == "scatter" else [sum(fpdu.host) if way == "contiguous" else fpdu.wire]
    pieces = [min(CHUNK, run - at) for run in together for at in range(0, run, CHUNK)]
    return pieces + [MARKER] * fpdu.markers if way == "scatter" else pieces


def work(fpdu, way, joined):
    """
    [(engine, lengths of its DMAs, bytes that it reads or writes in the adapter's memory)], one entry for each engine.
    """
    fetched = dmas(fpdu, way)
    steps = [("SDMA", fetched, sum(fetched))]
    if way == "contiguous":
        # read from where the DMA has put them, written to their place in the FPDU
        steps.append(("process", [], sum(fetched) + fpdu.wire))
    if not joined:
        steps.append(("CRC", [], fpdu.wire))
    steps.append(("SEND", [], fpdu.wire))
    return steps


class Clock:
    """A resource that serves one request at a time. use() returns the time at which a request made at `now` is done."""

    def __init__(self):
        self.free = self.busy = 0

    def use(self, now, ns):
        self.free = max(now, self.free) + ns
        self.busy += ns
        return self.free


def run(fpdus, way, joined=False, costs=Costs(), receive=False):
    """
    Runs the engines side by side; returns the figures of one way. An engine waits while QUEUE FPDUs are queued before
    the next engine. Steps are taken in the order in which they can begin, so memory and bus serve the earliest request.
    """
    memory, bus = Clock(), Clock()
    touched, count, ready = collections.Counter(), 0, {}
    jobs = [work(f, way, joined)[::-1 if receive else 1] for f in fpdus]
    stages = len(jobs[0])
    at, done, left = [0] * stages, [[] for _ in range(stages)], stages * len(jobs)
    while left > 0:
        for s in range(stages):  # the earliest time at which each engine can begin its next FPDU
            i = at[s]
            ready.pop(s, None)
            if i < len(jobs) and (s == 0 or i < at[s - 1]) and (s + 1 == stages or i - at[s + 1] < QUEUE):
                ready[s] = max(done[s][-1] if i else 0, done[s - 1][i] if s else 0,
                               done[s + 1][i - QUEUE] if s + 1 < stages and i >= QUEUE else 0)
        s = min(ready, key=lambda k: (ready[k], -k))
        engine, pieces, bytes_touched = jobs[at[s]][s]
        end = ready[s]
        for piece in pieces:
            end = bus.use(end, costs.dma_ns + piece * costs.bus_ns)
        end = max(end, memory.use(ready[s], bytes_touched * costs.memory_ns))
        touched[engine] += bytes_touched
        count += len(pieces)
        done[s].append(end)
        at[s] += 1
        left -= 1
    payload, wire = sum(sum(f.host) for f in fpdus), sum(f.wire for f in fpdus)
    return {"way": way, "joined": joined, "fpdus": len(fpdus), "payload": payload, "wire": wire, "dmas": count,
            "dmas_per_2k": count * 2048 / payload, "touched_per_byte": sum(touched.values()) / wire,
            "by_engine": {e: n / wire for e, n in touched.items()},
            "gbits_per_s": payload * 8 / done[-1][-1] if done[-1][-1] else float("inf")}


def every_way(fpdus, costs=Costs(), receive=False):
    return [run(fpdus, way, joined, costs, receive) for way in WAYS for joined in (False, True)]


def table(rows):
    print("| way | CRC and SEND | times that a byte is touched | DMAs for 2 KiB | Gb/s |\n|---|---|---|---|---|")
    for r in rows:
        print(f"| {r['way']} | {'joined' if r['joined'] else 'two'} | {r['touched_per_byte']:.2f} | "
              f"{r['dmas_per_2k']:.2f} | {r['gbits_per_s']:.2f} |")


def figures_of(found):
    """(title, what is varied, {way: {spacing: value}}). found: every_way()'s rows for each spacing; the joined ones."""
    for title, key in (("model of an adapter: Gb/s", "gbits_per_s"),
                       ("model of an adapter: times that a byte is read or written in its memory", "touched_per_byte")):
        by = {way: {} for way in WAYS}
        for spacing, rows in found.items():
            for r in rows:
                if r["joined"]:
                    by[r["way"]][spacing] = r[key]
        if found:
            yield title, "bytes between markers", by


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("capture", nargs="?", help="pcap or pcapng; without one: a message of --size bytes")
    a.add_argument("--spacing", type=int, default=512, help="bytes between markers, 0: none (default 512)")
    a.add_argument("--size", type=int, default=1 << 20, help="bytes of the message (default 1048576)")
    a.add_argument("--receive", action="store_true", help="the way in")
    for name, what in (("dma_ns", "ns until a DMA begins"), ("bus_ns", "ns of a byte on the host's bus"),
                       ("memory_ns", "ns of a byte read or written in the adapter's memory")):
        a.add_argument("--" + name.replace("_", "-"), type=float, default=getattr(Costs(), name),
                       help=f"{what} (default {getattr(Costs(), name)})")
    a.add_argument("--json", action="store_true", help="one JSON document in place of the table")
    args = a.parse_args()
    try:
        fpdus = capture_fpdus(args.capture, args.spacing) if args.capture else message(args.size, args.spacing)
    except (OSError, wire_check.WireError) as e:
        print(f"nic_model.py: {e}", file=sys.stderr)
        return 1
    if not fpdus:
        print(f"nic_model.py: {args.capture} has no FPDU with payload of a connection whose beginning it shows",
              file=sys.stderr)
        return 1
    rows = every_way(fpdus, Costs(args.dma_ns, args.bus_ns, args.memory_ns), args.receive)
    if args.json:
        print(json.dumps(rows))
    else:
        table(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
