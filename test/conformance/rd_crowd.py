# SPDX-License-Identifier: BSD-3-Clause
"""The rules of the transport with more devices than rnicd keeps the whole state of: it folds those that rest."""
import time

import wire
from rd_scene import QKEY, text
from rig import PATIENCE, Daemon, case, helper, until
from rules import rule
from wire import tap_up
from wire_rd import ACK, F_TWICE, TAKEN, UNKNOWN, Device, Pair
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


class Crowd:
    """A store of rnicd's, and devices that have each sent a message to the store; rnicd has folded FOLDS of them."""

    def __init__(self, r):
        tap_up("rt2", HOST)
        wire.run("ip", "route", "replace", "local", CROWD, "dev", "lo")
        self.r, self.devices = r, []
        self.store = r.run(helper("rd_ends"), ADDR, "store", str(LENGTH), "0")
        self.qpn = int(self.store.wait_line("store").split()[1])
        end = time.monotonic() + PATIENCE
        while self.counters()["rd_folds"] < FOLDS:
            assert time.monotonic() < end, self.counters()
            self.devices.append(meet(len(self.devices), self.qpn))

    def counters(self):
        return self.r.telemetry("/rnic/counters")

    def each_sends(self):
        """Each device sends one more message, which the store receives."""
        count = len(self.devices)
        for n, (_, p, _) in enumerate(self.devices, count):
            p.put(*p.message(text(n, LENGTH)))
            p.taken()
        assert came(self.store) == 2 * count, self.counters()

    def end(self):
        for d, _, _ in self.devices:
            d.close()


@rule("A receiver MUST deliver each number of a flow at most once")
@case
def a_folded_flow_takes_no_packet_twice_and_goes_on():
    daemon()  # makes the network namespace, in which the second daemon runs
    with Daemon(CONF) as r:
        c = Crowd(r)
        assert c.counters()["rd_peers"] == len(c.devices), (c.counters(), len(c.devices))
        for d, _, body in c.devices:
            d.answers.clear()
            d.until(lambda d=d: [p for p in d.answers if p.kind == ACK and p.flags & F_TWICE], "no ACK tells that",
                    lambda d=d, body=body: d.put_data(body, 0, cookie=d.cookie))
        assert c.counters()["rd_twice"] >= len(c.devices) == came(c.store), c.counters()
        c.each_sends()
        assert c.counters()["rd_unknown"] == 0, c.counters()
        c.end()


@case
def a_folded_flow_that_carries_nothing_is_forgotten():
    daemon()
    with Daemon(CONF.replace("[rnicd]", "[rnicd]\nrd-idle = 1s")) as r:  # the least time is 8 s
        c = Crowd(r)
        until(lambda: c.counters()["rd_peers"] == 0, c.counters)
        assert c.counters()["rd_folds"] == 0 and c.counters()["rd_idle"] == len(c.devices), c.counters()
        for d, p, _ in c.devices:
            d.until(lambda d=d: any(x.kind == UNKNOWN for x in d.answers), "rnicd knows the flow",
                    lambda d=d, body=p.packet(TAKEN): d.put_data(body, d.number))
            d.ask()
        c.each_sends()
        c.end()
