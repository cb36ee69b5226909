#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rnicd against Linux siw: errors and their Terminates, a thousand connections, ready-made RDMA programs."""
import os
import sys

import batch
from batch import PEER, PORT, Batch, autopsy, cleanup, conf, end, guest, select, whole, with_guest
from guest import GUEST, RNIC
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
import siw  # pylint: disable=wrong-import-position
from rig import BUILD, PATIENCE, TESTPMD, Daemon, Foreign, case, example, main, nothing_is_left, until

LIBRNIC = os.path.join(BUILD, "lib", "rnic", "librnic.so")

# ---- errors ----

# The first three octets of each device's Terminate (RFC 5040, 4.8): layer and error type; error code; the bits M, D and
# R, which say what is copied of the offending segment. siw swaps the nibbles of the first octet, and puts M, D and R
# into the low bits of the third. None: siw sends no Terminate.
ERRORS = {  # scenario: (rnicd's Terminate, siw's)
    "err_write_stag": ("1100c0", "110003"),      # DDP, tagged, invalid STag
    "err_write_key": ("1100c0", "110003"),
    "err_write_bounds:256": ("1101c0", "110103"),
    "err_write_perm": ("0102c0", "110003"),      # RDMAP, remote protection, access rights; siw: invalid STag
    "err_read_stag": ("0100e0", "100007"),       # RDMAP, remote protection
    "err_read_bounds:256": ("0101e0", "100107"),
    "err_read_perm": ("0102e0", None),           # siw serves a Read without looking at the rights
    "err_send_norecv": ("1202c0", "210203"),     # DDP, untagged, no buffer
    "err_send_long:256": ("1205c0", "210203"),   # DDP, untagged, message too long; siw: no buffer
    "err_sendinv_stag": ("0109c0", "200903"),    # RDMAP, STag cannot be invalidated; siw sends it as its QP is closed
    "err_write_inval": ("1100c0", "110003"),     # a Write to what a Send with Invalidate has invalidated
    "err_qp_error": ("000000", None),            # the end that errs ends the stream: rnicd by the Terminate "local
                                                 # catastrophic error", siw by a FIN alone
}


def terminates(victim_is_rnicd):
    def check(conns):
        for c, (name, (ours, theirs)) in zip(conns, ERRORS.items()):
            said = {side: body.hex()[:6] for side, body in c.terminates}
            if name == "err_qp_error":
                want = {} if victim_is_rnicd else {0: ours}
            elif victim_is_rnicd:
                want = {1: ours}
            else:
                want = {1: theirs} if theirs else {}
            assert said == want, f"{name}: Terminates {said}, should be {want}"
    return check


SERVED = {("err_read_perm", "client"): "the Read was served"}  # so it is the client's program that ends the connection
Batch("siw errs", False, list(ERRORS), wire=terminates(True))
Batch("siw judges", True, list(ERRORS), wire=terminates(False), excused=SERVED,
      counters={"terms_rcvd": sum(1 for _, t in ERRORS.values() if t)})
Batch("siw errs, no CRC", False, list(ERRORS), port="crc = off", wire=terminates(True))
Batch("siw judges, no CRC", True, list(ERRORS), port="crc = off", wire=terminates(False), excused=SERVED,
      counters={"terms_rcvd": sum(1 for _, t in ERRORS.values() if t)})
for where in ("host", "assisted"):
    Batch(f"siw errs, design {where}", False, list(ERRORS), design=where, wire=terminates(True))
    Batch(f"siw judges, design {where}", True, list(ERRORS), design=where, wire=terminates(False), excused=SERVED)


# ---- a thousand connections ----

def many(out, count=1000):
    g = guest()
    g.siw(peer_to_peer=1)
    before = g.sh("rdma resource show")
    with Daemon(conf(capture=False)) as d:
        serve, call = ["-s", "-q", "-p", PORT, "-a"], ["-p", PORT]
        if out:
            server = g.run(" ".join(["peer", *serve, GUEST]))
            server.wait_line("listening")
            client = d.run(PEER, *call, GUEST, f"many:64:{count}")
        else:
            server = d.run(PEER, *serve, RNIC)
            server.wait_line("listening")
            client = g.run(" ".join(["peer", *call, RNIC, f"many:64:{count}"]))
        said = client.ok(5 * PATIENCE)
        assert f"many {count} of {count} ok" in said, said
        server.stop()
        nothing_is_left(d)
        n = d.telemetry("/rnic/counters")
        assert n["opened"] == n["closed"] and n["opened"] >= count, f"opened {n['opened']}, closed {n['closed']}"
        bad = {k: v for k, v in n.items() if v and k.startswith(("no_", "bad_", "crc_", "ddp_", "rdmap_", "neg_"))}
        assert not bad, f"counters: {bad}"
    until(lambda: g.sh("rdma resource show") == before, lambda: f"siw had {before}, has {g.sh('rdma resource show')}")


@case
def a_thousand_connections_out():
    with_guest(lambda: many(True))


@case
def a_thousand_connections_in():
    with_guest(lambda: many(False))


# ---- programs that others wrote, with librnic preloaded on our side ----

CLOSING = "Failed to close connection between server and client"
CHANNEL = "rdma_get_cm_event: Bad file descriptor"


def race(failed, other, ours_failed):
    """
    Each end of perftest sends a last message, and closes when the other end's has come. siw may fail a Send that has
    arrived if the peer answers it by closing. Then our end succeeds and siw's end fails, after its last line of
    figures.
    """
    if not ours_failed and CLOSING in failed.tail() and other.wait() == 0:
        raise Foreign(f"siw fails a Send that has arrived if the peer answers by closing (perftest there: {CLOSING})")
    if not ours_failed and CHANNEL in failed.tail() and "DISCONNECT EVENT" in failed.tail() and other.wait() == 0:
        raise Foreign(f"rping closes its event channel while its own thread still waits for an event ({CHANNEL})")


def programs(title, server, client, *, out, siw=None, own=(), excused=None):
    """
    server and client are command lines with {a} for the server's address. own: paths of their programs on our side.
    excused: what the server on siw may print when it fails although the client succeeds.
    """
    def once():
        g = guest()
        g.siw(**(siw or {}))
        a = GUEST if out else RNIC
        s_cmd, c_cmd = server.format(a=a).split(), client.format(a=a).split()
        d = Daemon(conf())
        pre = {} if own else {"LD_PRELOAD": LIBRNIC}
        mine = dict(zip(("s", "c"), own))
        s = c = None
        try:
            # a closed port stays silent: perftest connects twice, and its client gives up when the port refuses
            g.refuse(False)
            s = g.run(" ".join(s_cmd)) if out else d.run(mine.get("s", s_cmd[0]), *s_cmd[1:], **pre)
            if out:  # rdma_connect waits for 10 s, which a server in a guest without CPU time may need to begin
                g.listening(s)
            else:
                until(lambda: any(not line.endswith(" 4791") for line in d.telemetry("/rnic/listeners")), s.tail)
            c = d.run(mine.get("c", c_cmd[0]), *c_cmd[1:], **pre) if out else g.run(" ".join(c_cmd))
            rc = c.wait()
            if rc != 0:
                autopsy()
                race(c, s, out)
            assert rc == 0, f"the client ended with {rc}"
            rc = s.wait()
            if rc != 0:
                race(s, c, not out)
            assert rc == 0 or (out and excused and excused in s.tail()), f"the server ended with {rc}"
        except AssertionError as e:
            raise AssertionError(f"{e}\n{c.tail() if c else ''}\n{s.tail() if s else ''}\n{d.telemetry('/rnic/conns')}") from None
        finally:
            if s:
                s.stop()
            capture = end(d)
            g.refuse(True)
        return capture

    def run():
        capture = with_guest(lambda: whole(once()))
        conns = capture.judge()
        assert any(c.fpdus > 1 for c in conns), [str(c) for c in conns]
        capture.remove()
    run.__name__ = f"{title}, {'out' if out else 'in'}"
    case(run)


for way in (True, False):
    programs("rping", "rping -s -a {a} -C 5", "rping -c -a {a} -C 5", out=way)
    programs("rping -V -S 4000", "rping -s -a {a} -C 10 -V -S 4000", "rping -c -a {a} -C 10 -V -S 4000", out=way)
    programs("rdma_client", "rdma_server -s {a} -p 7472", "rdma_client -s {a} -p 7472", out=way)
    # the servers of ucmatose and ib_write_lat send first: that needs peer-to-peer mode (RFC 6581), which siw as
    # initiator offers only when its knob says so
    p2p = {"peer_to_peer": 1}
    programs("ucmatose", "ucmatose -b {a} -p 7473 -C 50 -S 3000", "ucmatose -s {a} -p 7473 -C 50 -S 3000", out=way, siw=p2p)
    # stock rsockets in the guest and librnic's on our side: the messages and credits are those of librdmacm
    programs("rstream", "rstream -b {a} -p 7474 -T v -S 5000 -C 20 -I 10", "rstream -s {a} -p 7474 -T v -S 5000 -C 20 -I 10", out=way,
             siw=p2p)
    for op in ("write", "read", "send"):
        programs(f"ib_{op}_bw -R", f"ib_{op}_bw -R -F -s 16384 -n 100 -t 16", f"ib_{op}_bw -R -F -s 16384 -n 100 -t 16 {{a}}", out=way)
        programs(f"ib_{op}_lat -R", f"ib_{op}_lat -R -F -s 64 -n 100", f"ib_{op}_lat -R -F -s 64 -n 100 {{a}}", out=way, siw=p2p)
    # siw fails a Send that has arrived if the peer answers it by closing before siw has seen the acknowledgement
    programs("hello", "hello -s {a}", "hello {a}", out=way, own=(example("hello"), example("hello")),
             excused="sending: local QP operation error")
    programs("onesided", "onesided -s {a}", "onesided {a}", out=way, own=(example("onesided"), example("onesided")))
    programs("testpmd-rdma soak", "testpmd-rdma -s -a {a} --once", "testpmd-rdma --mode soak --iters 100 {a}", out=way,
             own=(TESTPMD, TESTPMD))


@case
def the_benchmark_measures_siw_beside_the_kernels_tcp():
    rows = {r.name: r for r in siw.rivals(1)}
    names = ("kernel TCP, 64 KiB, guest to itself", "Write 64 KiB, siw, guest to itself",
             "Send latency, 64 B, rnicd to siw")
    for row in rows.values():
        if row.device == "siw":  # fixed iterations: on a busy machine a run of fixed time may complete nothing
            at = row.argv.index("--seconds")
            row.argv[at:at + 2] = ["--iters", "20", "--warmup", "2"]

    def measured():
        guest().siw()
        with Daemon(conf(capture=False)) as d:
            place = siw.Place(batch, guest(), d)
            return {name: place.measure(rows[name]) for name in names}
    values = with_guest(measured)
    tcp, write, latency = (values[n] for n in names)
    rows[names[1]].values.append(write)
    told = rows[names[1]].told({names[0]: tcp})
    assert write > 0 and latency > 1 and told["of_tcp"] == (write / tcp if tcp else None), values


if __name__ == "__main__":
    if sys.argv[1:2] == ["-k"]:
        select(sys.argv[2])
        del sys.argv[1:]
    try:
        status = main()
    finally:
        cleanup()
    sys.exit(status)
