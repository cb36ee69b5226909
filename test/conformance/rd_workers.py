# SPDX-License-Identifier: BSD-3-Clause
"""A case for each rule of doc/datagram-iwarp.md about the workers of a device, with two workers of rnicd."""
import contextlib

import wire
from rd_scene import COUNTER, QKEY, RETRY_EXC, SLOTS, STAG, WHERE, text
from rig import Daemon, case, helper, until
from rules import rule
from wire import tap_up
from wire_rd import COOKIE, DATA, HELLO, Device, Pair, Store, packet
from wire_world import daemon

ADDR, HOST = "10.80.0.1", "10.80.0.2"
CONF = wire.TAP_CONF.replace("rt0", "rt1").replace("10.79", "10.80").replace("[rnicd]", "[rnicd]\nworkers = 0,0")
LENGTH, WORKERS = 1000, 2


@contextlib.contextmanager
def two_workers():
    daemon()  # makes the network namespace, in which the second daemon runs
    with Daemon(CONF) as d:
        tap_up("rt1", HOST)
        device = Device(HOST, ADDR)
        yield d, device
        device.close()


def from_to(x, qpn, theirs):
    """
    From now on the device sends over a new flow: from the worker of our queue pair `qpn` to the worker of rnicd's queue
    pair `theirs`.
    """
    x.flow, x.way = 0, {"src": qpn % x.numbers, "dst": theirs % WORKERS}


def store_of(d):
    p = d.run(helper("rd_ends"), ADDR, "store", str(LENGTH), "0", "unordered")
    return p, *map(int, p.wait_line("store").split()[1:])


def end(p):
    p.p.stdin.close()
    p.ok()


@rule("MUST send to a HELLO to a worker that there is not", "An answer MUST have the two of the packet that it answers")
@case
def each_cookie_tells_how_many_workers_there_are():
    with two_workers() as (d, x):
        p, *_ = store_of(d)
        for src, dst in ((0, 0), (0, 1), (15, 0), (3, 2), (1, 5), (2, 0xffff)):
            x.flow += 1000
            x.put(packet(HELLO, src=src, dst=dst, flow=x.flow, body=bytes(16)))
            c = x.answered(COOKIE)
            assert (c.flow, c.src, c.dst, c.number) == (x.flow, dst, src, WORKERS), c
        bad = d.telemetry("/rnic/counters")["ud_bad"]
        x.put(packet(HELLO, src=16, flow=77, body=bytes(16)))
        x.put(packet(DATA, dst=WORKERS, flow=77, body=bytes(32)))
        until(lambda: d.telemetry("/rnic/counters")["ud_bad"] == bad + 2)
        end(p)


@case
def a_queue_pair_is_reached_by_the_flow_to_its_worker_alone():
    with two_workers() as (d, x):
        stores = {}
        while {q % WORKERS for q in stores} != set(range(WORKERS)):
            p, qpn, *_ = store_of(d)
            stores[qpn] = p
        for qpn in stores:
            for worker in (1 - qpn % WORKERS, qpn % WORKERS):
                x.flow, x.way = 0, {"src": 0, "dst": worker}
                pair = Pair(x, 0x4242 + worker, qpn, QKEY)
                pair.loose = True
                pair.put(*pair.message(text(worker, LENGTH)))
                if worker == qpn % WORKERS:
                    pair.taken()
                else:
                    assert pair.is_refused().body == b"", pair.refused
        for p in stores.values():
            end(p)


@rule("A sender MUST send what is for a queue pair over the flow to the queue pair's worker")
@case
def a_client_reaches_the_workers_of_another_device():
    with two_workers() as (d, x):
        x.numbers = 3
        p = d.run(helper("rd_ends"), ADDR, "client", str(LENGTH))
        mine = None
        for n in range(2 * x.numbers):
            qpn = 0x6000 + n
            p.p.stdin.write(f"to {HOST} {qpn} {WHERE} {STAG}\ngo 2\n")
            p.p.stdin.flush()
            ours = lambda qpn=qpn: [c for c in x.carried if c.dst == qpn]
            x.until(ours, p.tail)
            mine = ours()[0].src
            from_to(x, qpn, mine)
            store = Store(x, qpn, mine, 0, QKEY, stag=STAG, where=WHERE, size=COUNTER + SLOTS * LENGTH)
            store.serve_until(lambda store=store: len(store.messages) == 2)
            x.until(lambda n=n: len([s for s in p.out if s == "messages 2 status 0"]) == n + 1, p.tail)
        number = mine % WORKERS
        used = {(src, dst) for _, src, dst in x.ports}
        assert used == {(number, dst) for dst in range(x.numbers)}, used
        for port, src, dst in x.ports:
            assert port == (49152 + 16 * src + dst if src or dst else 4793), x.ports
        names = {line.split()[0] for line in d.telemetry("/rnic/flows")}
        assert names == {f"rnic0/{HOST}" + (f"/{s}-{t}" if s or t else "") for s, t in used}, names
        end(p)


@case
def a_device_that_returns_with_another_number_of_workers_is_reached():
    with two_workers() as (d, x):
        p = d.run(helper("rd_ends"), ADDR, "client", str(LENGTH))
        told = lambda: [s for s in p.out if s.startswith("messages")]
        for n, x.numbers in enumerate((3, 1, 2)):
            x.incoming.clear()  # as a device does that has restarted: DATA is answered with UNKNOWN
            while True:
                qpn, before = 0x6005 + n, len(told())
                p.p.stdin.write(f"to {HOST} {qpn} {WHERE} {STAG}\ngo 1\n")
                p.p.stdin.flush()
                x.carried.clear()
                x.until(lambda: len(told()) > before or [c for c in x.carried if c.dst == qpn], p.tail)
                if len(told()) == before:
                    break
                assert told()[-1] == f"messages 0 status {RETRY_EXC}", told()  # failed with the flow from before
            from_to(x, qpn, x.carried[0].src)
            store = Store(x, qpn, x.carried[0].src, 0, QKEY, stag=STAG, where=WHERE, size=COUNTER + SLOTS * LENGTH)
            store.serve_until(lambda store=store: store.messages)
            x.until(lambda before=before: told()[before:] == ["messages 1 status 0"], p.tail)
        end(p)
