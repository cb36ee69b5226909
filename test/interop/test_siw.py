#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rnicd against Linux siw: every kind of set-up and transfer, both directions, both roles. usage: test_siw.py [-k
WORD]"""
import sys

from batch import Batch, cleanup, select

from rig import main

SIZES = (0, 1, 3, 31, 32, 33, 64, 1460, 4096, 65536, 1048576)
SET_UP = ["connect", "disc", "reject", "pd:72", "pd:128", "pd:200", "pd:251"]
DATA = [f"{op}:{n}" for op in ("send", "write", "read") for n in SIZES]
MORE = ["send:100:30", "send:4096:60", "write:300:60", "write:20000:60", "read:300:60", "read:20000:60", "mixed:8192:20", "mixed:33:20",
        "bidir:20000:20", "bidir:64:20", "fence:5000:8", "sendse", "sendse:4096", "sendinv", "sendseinv", "r.send:1460",
        "r.write:65536", "r.read:65536", "r.mixed:3000:8", "r.sendinv"]
FEW = ["connect", "disc", "reject", "send:33", "send:65536", "write:1460", "write:65536:8", "read:4096", "read:65536:8", "mixed:8192:10",
       "bidir:20000:20"]
NONE_CRC = "crc = off"


def says(frame, **want):
    """Makes a check of one MPA frame of every connection; a Reply that rejects is not checked."""
    def check(conns):
        for c in conns:
            f = getattr(c, frame)
            if c.rep["R"] and frame == "rep":
                continue
            got = {k: f.get(k) for k in want}
            assert got == want, f"{c.key} {frame}: {got}, should be {want}"
    return check


def both(*checks):
    def check(conns):
        for c in checks:
            c(conns)
    return check


def crc_used(yes):
    def check(conns):
        for c in conns:
            assert (c.crc_good == c.fpdus) if yes else (c.crc_good == 0), str(c)
    return check


# ---- the defaults of both: rnicd asks for CRC and offers peer-to-peer, siw asks for neither ----

Batch("out", True, SET_UP + ["connect"] * 10 + DATA + MORE + ["first"] * 3,
      wire=both(says("req", rev=2, C=True, M=False, S=True, A=True), says("rep", rev=2, C=True, S=True, A=True), crc_used(True)))
Batch("in", False, SET_UP + DATA + MORE,
      wire=both(says("req", rev=2, C=False, S=True, A=False), says("rep", rev=2, C=True, S=True, A=False)))

# ---- CRC ----

Batch("no CRC out", True, FEW, port="crc = off", wire=both(says("req", C=False), says("rep", C=False), crc_used(False)))
Batch("no CRC in", False, FEW, port="crc = off", wire=both(says("req", C=False), says("rep", C=False), crc_used(False)))
Batch("siw wants CRC, in", False, FEW, port="crc = off", siw={"mpa_crc_required": 1},
      wire=both(says("req", C=True), says("rep", C=True)))
# a fault of siw: as responder it requires CRC without asking for it in its Reply
Batch("siw wants CRC, out", True, FEW, port="crc = off", siw={"mpa_crc_required": 1},
      wire=both(says("req", C=False), says("rep", C=False), crc_used(False)))
Batch("both want CRC, out", True, FEW, port="crc = required", siw={"mpa_crc_required": 1}, wire=says("rep", C=True))
Batch("both want CRC, in", False, FEW, port="crc = required", siw={"mpa_crc_required": 1}, wire=says("rep", C=True))

# ---- revision 1: no IRD and ORD in the frames ----

Batch("rev 1 out", True, FEW, port="mpa-revision = 1\npeer-to-peer = off", wire=both(says("req", rev=1, S=False), says("rep", rev=1)))
Batch("rev 1 in", False, FEW, siw={"mpa_version": 1}, wire=both(says("req", rev=1, S=False), says("rep", rev=1, S=False)))

# ---- peer-to-peer mode: who offers it, and the kind of RTR ----

# siw chooses the Write, or the Read if only that is offered; it has no Send as RTR: see FINDINGS.md
Batch("p2p RTR Read, out", True, FEW + ["first"] * 3 + ["r.send:64"], port="rtr = read", wire=says("rep", A=True, C_=False, D=True))
Batch("no p2p out", True, FEW, port="peer-to-peer = off", wire=says("rep", A=False))
for rtr, name in ((128, "Write"), (64, "Read"), (192, "both")):
    Batch(f"p2p RTR {name}, in", False, FEW + ["first", "r.send:64"], siw={"peer_to_peer": 1, "rtr_type": rtr},
          wire=says("rep", A=True, C_=rtr != 64, D=rtr == 64))
Batch("p2p with CRC, in", False, FEW + ["first"], siw={"peer_to_peer": 1, "mpa_crc_required": 1},
      wire=both(says("rep", A=True, C=True), crc_used(True)))

# ---- large frames ----

Batch("MTU 9000 out", True, FEW + ["send:1048576", "write:1048576", "read:1048576"], mtu=9000)
Batch("MTU 9000 in", False, FEW + ["send:1048576", "write:1048576", "read:1048576"], mtu=9000)

# ---- depths ----

DEPTHS = ["read:300:60", "read:20000:30", "r.read:300:60", "mixed:8192:20"]
Batch("depth 1 out", True, DEPTHS, host="-i 1 -o 1", guest_opts="-i 1 -o 1", wire=says("req", ird=1, ord=1))
Batch("depth 1 in", False, DEPTHS, host="-i 1 -o 1", guest_opts="-i 1 -o 1", wire=says("req", ird=1, ord=1))
Batch("depth 2 and 8 out", True, DEPTHS, host="-i 2 -o 8", guest_opts="-i 8 -o 5", wire=says("req", ird=2, ord=8))
Batch("depth 8 and 2 in", False, DEPTHS, host="-i 8 -o 2", guest_opts="-i 3 -o 8", wire=says("req", ird=3, ord=8))
Batch("depth 32 out", True, DEPTHS, host="-i 32 -o 32", guest_opts="-i 32 -o 32")
Batch("depth 32 in", False, DEPTHS, host="-i 32 -o 32", guest_opts="-i 32 -o 32")

# ---- iWARP in the program: over rnicd's TCP (host), and with CRCs computed by rnicd (assisted) ----

DESIGN = ["connect", "disc", "reject", "send:0", "send:33", "send:65536", "send:4096:60", "write:1", "write:1460",
          "write:65536:8", "write:1048576", "read:0", "read:4096", "read:65536:8", "read:1048576", "mixed:8192:20",
          "bidir:20000:20", "fence:5000:8", "sendse", "sendinv", "r.send:1460", "r.write:65536", "r.read:65536",
          "r.mixed:3000:8", "r.sendinv"]
for design in ("host", "assisted"):
    Batch(f"design {design}, out", True, DESIGN + ["first"] * 3, design=design,
          wire=both(says("req", rev=2, C=True, M=False, S=True, A=True), says("rep", rev=2, C=True, S=True, A=True),
                    crc_used(True)))
    Batch(f"design {design}, in", False, DESIGN, design=design,
          wire=both(says("req", rev=2, C=False, S=True, A=False), says("rep", rev=2, C=True, S=True, A=False),
                    crc_used(True)))
    Batch(f"design {design}, no CRC out", True, FEW, port="crc = off", design=design,
          wire=both(says("req", C=False), says("rep", C=False), crc_used(False)))
    Batch(f"design {design}, rev 1 out", True, FEW, port="mpa-revision = 1\npeer-to-peer = off", design=design,
          wire=both(says("req", rev=1, S=False), says("rep", rev=1)))
    Batch(f"design {design}, p2p in", False, FEW + ["first", "r.send:64"], siw={"peer_to_peer": 1}, design=design,
          wire=both(says("rep", A=True), crc_used(True)))
    Batch(f"design {design}, 1 % loss", True, FEW, netem="loss 1%", design=design, wire=crc_used(True))

# ---- no rnicd: iWARP in the program, over the kernel's TCP. The sizes of segments are the kernel's choice ----

Batch("design embedded, out", True, DESIGN + ["first"] * 3, design="embedded")
Batch("design embedded, in", False, DESIGN, design="embedded")
Batch("design embedded, no CRC out", True, FEW, port="crc = off", design="embedded")
Batch("design embedded, siw wants CRC, in", False, FEW, siw={"mpa_crc_required": 1}, design="embedded")
Batch("design embedded, rev 1 in", False, FEW, siw={"mpa_version": 1}, design="embedded")
Batch("design embedded, p2p in", False, FEW + ["first", "r.send:64"], siw={"peer_to_peer": 1}, design="embedded")
Batch("design embedded, 1 % loss", True, FEW, netem="loss 1%", design="embedded")

# ---- a bad network: tc netem in the guest, out and in; rnicd's counters prove that it was bad ----

BAD = ["connect", "disc", "reject", "send:33", "send:65536", "write:65536:8", "read:65536:8", "send:1048576", "write:1048576",
       "read:1048576", "mixed:8192:20", "bidir:20000:20"]
Batch("1 % loss, out", True, BAD, netem="loss 1%", wire=crc_used(True))
Batch("5 % loss, in", False, BAD, netem="loss 5% delay 1ms", wire=crc_used(True))
Batch("reordering, out", True, BAD, netem="delay 2ms reorder 25% 50% gap 3", wire=crc_used(True))
Batch("all at once, in", False, BAD, netem="loss 1% duplicate 2% reorder 10% delay 5ms 2ms", wire=crc_used(True))

if __name__ == "__main__":
    if sys.argv[1:2] == ["-k"]:
        select(sys.argv[2])
        del sys.argv[1:]
    try:
        rc = main()
    finally:
        cleanup()
    sys.exit(rc)
