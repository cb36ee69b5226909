# SPDX-License-Identifier: BSD-3-Clause
"""The rules of the transport with more devices than rnicd keeps the whole state of: it folds those that rest."""
import time

import wire
from rd_scene import QKEY, text
from rig import PATIENCE, Daemon, case, helper, until
from rules import rule
from wire import tap_up
from wire_rd import ACK, F_TWICE, Device, Pair
from wire_world import daemon

ADDR, HOST, CROWD = "10.81.0.1", "10.81.0.2", "10.82.0.0/16"
CONF = wire.TAP_CONF.replace("rt0", "rt2").replace("10.79", "10.81") + f"gateway = {HOST}\n"
LENGTH, FOLDS = 1000, 200


def meet(n, qpn):
    """Device number n opens a flow and sends a message. Returns the device, its pair, and what the packet carried."""
    d = Device(f"10.82.{n // 250}.{n % 250 + 1}", ADDR)
    p = Pair(d, 0x4242, qpn, QKEY)
    body, = p.chain(*p.message(text(n, LENGTH)))
    d.deliver(body)
    p.taken()
    return d, p, body


def came(store):
    """How many messages the store has received."""
    said = len([s for s in store.out if s.startswith("came")])
    store.p.stdin.write("\n")
    store.p.stdin.flush()
    lines = lambda: [s for s in store.out if s.startswith("came")]
    until(lambda: len(lines()) > said, store.tail)
    return int(lines()[-1].split()[1])


@rule("A receiver MUST deliver each number of a flow at most once")
@case
def a_folded_flow_takes_no_packet_twice_and_goes_on():
    daemon()  # makes the network namespace, in which the second daemon runs
    with Daemon(CONF) as r:
        tap_up("rt2", HOST)
        wire.run("ip", "route", "add", "local", CROWD, "dev", "lo")
        store = r.run(helper("rd_ends"), ADDR, "store", str(LENGTH), "0")
        qpn = int(store.wait_line("store").split()[1])
        counters = lambda: r.telemetry("/rnic/counters")
        crowd, end = [], time.monotonic() + PATIENCE
        while counters()["rd_folds"] < FOLDS:
            assert time.monotonic() < end, counters()
            crowd.append(meet(len(crowd), qpn))
        assert counters()["rd_peers"] == len(crowd), (counters(), len(crowd))
        for d, _, body in crowd:
            d.answers.clear()
            d.until(lambda d=d: [p for p in d.answers if p.kind == ACK and p.flags & F_TWICE], "no ACK tells that",
                    lambda d=d, body=body: d.put_data(body, 0, cookie=d.cookie))
        assert counters()["rd_twice"] >= len(crowd) and came(store) == len(crowd), counters()
        for n, (_, p, _) in enumerate(crowd, len(crowd)):
            p.put(*p.message(text(n, LENGTH)))
            p.taken()
        assert came(store) == 2 * len(crowd) and counters()["rd_unknown"] == 0, counters()
        for d, _, _ in crowd:
            d.close()
