# SPDX-License-Identifier: BSD-3-Clause
"""
Cases of doc/datagram-iwarp.md about Write-Records and the answers to Read-Records whose segments come as IP fragments,
of which one is lost.
"""
from rig import case, helper, until
from rules import rule
from ud_scene import MY_QPN, WIRE_KEY, counters, peer, record, record_of, target
from wire import ADDR, HOST
from wire_world import daemon

UNIT = 32000  # octets of a segment; 22 fragments
TOTAL = 3 * UNIT - 1000


def frags():
    return {k[5:]: v for k, v in daemon().telemetry("/rnic/ports,rnic0").items() if k.startswith("frag_")}


def put_record(qpn, number, stag, to, which, gone, imm=None):
    """
    Sends the three segments of a record as IP fragments; segment `which` lacks the fragment with the number `gone`.
    The counters must say that the other segments came, and that one datagram was not whole in time. Returns False if
    the machine was too busy: the tap has lost a frame, or record-timeout has passed in the middle of the record; the
    next attempt may then fail too, because rnicd gives up what is left of this one.
    """
    body, had, before = record_of(0, TOTAL), counters(), frags()
    for n in (1, 2, 0):
        at = n * UNIT
        peer().put_fragments(record(qpn, number, body, at, stag, to, unit=UNIT, part=body[at:at + UNIT], imm=imm,
                                    control=0xc1 if n == 2 else 0x81), (gone,) if n == which else ())
    until(lambda: frags()["late"] > before["late"])
    now, after = frags(), counters()
    if now["whole"] != before["whole"] + 2 or after["in"] != had["in"] + 2 or now["late"] > before["late"] + 1:
        return False
    assert (now["late"], now["bad"], now["evicted"]) == (before["late"] + 1, before["bad"], before["evicted"]), now
    assert (after["bad"], after["crc"]) == (had["bad"], had["crc"]), after
    until(lambda: counters()["incomplete"] > had["incomplete"], counters)
    return counters()["incomplete"] == had["incomplete"] + 1


@rule("A receiver MUST NOT report an octet as valid that it has not placed")
@case
def a_record_lacks_the_segment_that_lost_an_ip_fragment_and_no_other():
    def attempt(number, which, gone, maps):
        # with a map, the target checks that all octets which are not reported as valid are still 0
        p, qpn, where, stag = target(1, TOTAL, *maps)
        if not put_record(qpn, number, stag, where, which, gone, imm=0):
            p.stop()
            return False
        assert f"told 1 whole 0 valid {TOTAL - min(UNIT, TOTAL - which * UNIT)}" in p.ok(), p.tail()
        return True

    number = 0
    for which, gone in ((0, 0), (1, 9), (2, 20)):  # the first fragment, one in the middle, and the last one
        for maps in ((), ("4",)):
            number += 1
            until(lambda which=which, gone=gone, maps=maps, number=number: attempt(number, which, gone, maps))


@rule("A receiver MUST NOT report an octet as valid that it has not placed")
@case
def an_answer_to_a_read_lacks_the_segment_that_lost_an_ip_fragment_and_no_other():
    w = peer()

    def attempt(which, gone):
        w.rest()
        reader = daemon().run(helper("ud_record"), ADDR, "reader", HOST, str(MY_QPN), "4096", "7", str(TOTAL),
                              str(TOTAL))
        reader.p.stdin.write("go\n")
        reader.p.stdin.close()
        ask = w.get()
        assert (ask.kind, ask.total) == (6, WIRE_KEY), ask
        stag, to = int.from_bytes(ask.body[:4], "big"), int.from_bytes(ask.body[4:12], "big")
        if not put_record(ask.src_qpn, ask.msn, stag, to, which, gone):
            reader.stop()
            return False
        # the reader checks that all octets which are not reported as valid are still 0
        valid = TOTAL - min(UNIT, TOTAL - which * UNIT)
        assert f"read 1 whole 0 lost 0 valid {valid}" in reader.ok(), reader.tail()
        return True

    for which, gone in ((0, 0), (1, 9), (2, 20)):
        until(lambda which=which, gone=gone: attempt(which, gone))
