#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Reliable datagrams between processes of one daemon and of two daemons: Send, Write, Read and an atomic addition of every
size, verified, over wires that lose, repeat, reorder and corrupt; a store without receives; a process and a daemon that
end in the middle and start again.
"""
import os
import signal
import time

import wire
import wire_ud
from rig import PATIENCE, TESTPMD, Daemon, Skip, case, helper, main, memif_conf, nothing_is_left, pair_conf, until

A, B = "10.77.0.1", "10.77.0.2"
SUCCESS = 0
LOSSY = "loss = 5%\nduplicate = 1%\nreorder = 2%\ncorrupt = 1%"


def counters(d):
    return {k: v for k, v in d.telemetry("/rnic/counters").items() if k.startswith("rd_")}


class Store:
    def __init__(self, d, address, length, later=False, how=()):
        self.address, self.p = address, d.run(helper("rd_ends"), address, "store", str(length), str(int(later)), *how)
        self.words = self.p.wait_line("store").split()[1:]

    def say(self, line=""):
        self.p.p.stdin.write(line + "\n")
        self.p.p.stdin.flush()

    def came(self):
        self.say()
        words = self.p.wait_line("came").split()
        return int(words[1]), int(words[3])

    def end(self):
        self.p.p.stdin.close()
        self.p.ok()


class Client:
    def __init__(self, d, address, length, how=()):
        self.p, self.told = d.run(helper("rd_ends"), address, "client", str(length), *how), 0

    def say(self, line):
        self.p.p.stdin.write(line + "\n")
        self.p.p.stdin.flush()

    def to(self, store):
        self.say(f"to {store.address} {' '.join(store.words)}")

    def answer(self):
        """Number of messages that were complete, and the status of the last work request."""
        self.told += 1
        lines = lambda: [s for s in self.p.out if s.startswith("messages")]
        until(lambda: len(lines()) >= self.told, self.p.tail, 3 * PATIENCE)
        words = lines()[self.told - 1].split()
        return int(words[1]), int(words[3])

    def go(self, n):
        self.say(f"go {n}")
        return self.answer()

    def end(self):
        self.p.p.stdin.close()
        self.p.ok()


def verified(d, length, count, e=None, how=()):
    store = Store(e or d, B, length, how=how)
    client = Client(d, A, length, how=how)
    client.to(store)
    assert client.go(count) == (count, SUCCESS)
    assert store.came() == (count, count)
    client.end()
    store.end()


def flow_of(d, device, peer):
    return d.telemetry(f"/rnic/flows,{device}/{peer}")


@case
def flows_are_told_with_what_they_have_carried():
    with Daemon(pair_conf(rnicd="workers = 0,0\nrd-workers = 1", both="loss = 2%")) as d:
        assert d.telemetry("/rnic/flows") == [] and flow_of(d, "a", B) is None
        verified(d, 20000, 30)
        said = sorted(line.split()[0] for line in d.telemetry("/rnic/flows"))
        assert said == [f"a/{B}", f"b/{A}"], said
        there, back = flow_of(d, "a", B), flow_of(d, "b", A)
        assert there["name"] == f"a/{B}" and there["state"] in ("open", "closed") and there["from"] == "open", there
        for one in (there, back):
            assert one["srtt_ns"] >= one["min_rtt_ns"] > 0 and one["cwnd"] > 0 and one["lost"] == 0, one
        # a Write, a Send and the response to a Read are 15 segments each
        assert there["packets_out"] >= 30 * 2 * 15 and back["packets_out"] >= 30 * 15, (there, back)
        assert there["packets_in"] <= back["packets_out"] and back["packets_in"] <= there["packets_out"], (there, back)
        assert there["again"] + back["again"] > 0, "no packet was lost, so the case proves nothing"
        told = counters(d)
        assert told["rd_twice"] == there["twice"] + back["twice"], (told, there, back)
        assert told["rd_again"] == there["again"] + back["again"] and told["rd_lost"] == 0, (told, there, back)


@case
def a_flow_that_carries_nothing_is_forgotten_and_the_next_message_makes_another():
    # takes at least 8 s
    with Daemon(pair_conf(rnicd="workers = 0,0\nrd-workers = 1\nrd-idle = 1s", both=LOSSY)) as d:
        store, client = Store(d, B, 20000), Client(d, A, 20000)
        client.to(store)
        for n in (1, 2):
            assert client.go(5) == (5 * n, SUCCESS)
            assert flow_of(d, "a", B)["lost"] == 0
            until(lambda: d.telemetry("/rnic/flows") == [], lambda: d.telemetry("/rnic/flows"))
            assert counters(d)["rd_idle"] == 2 * n, counters(d)  # each of the two ends has counted the flow
        assert client.go(5) == (15, SUCCESS) and store.came() == (15, 15)
        client.end()
        store.end()
        nothing_is_left(d)


@case
def a_flow_whose_message_waits_for_a_receive_is_not_forgotten():
    with Daemon(pair_conf(rnicd="rd-idle = 1s")) as d:
        def idles(_):
            until(lambda: d.telemetry("/rnic/counters")["rnr_waits"] > 0, "no message waits for a receive")
            asked = flow_of(d, "a", B)["packets_out"]  # the waiting end asks once a second
            until(lambda: flow_of(d, "a", B)["packets_out"] >= asked + 10, lambda: d.telemetry("/rnic/flows"))
        late_receive(d, idles)
        assert counters(d)["rd_idle"] == 0 and flow_of(d, "b", A)["lost"] == 0


@case
def packets_fit_an_mtu_of_1500_whatever_segments_and_mtu_say():
    for mtu in (1500, 9000):
        with Daemon(pair_conf(mtu=mtu, both="segments = 64k", a="capture = {dir}/a.pcapng")) as d:
            verified(d, 20000, 5)
            assert [d.telemetry(f"/rnic/ports,{port}")["frag_tx"] for port in "ab"] == [0, 0]
            d.end()
            sizes = []
            kinds = {p[1] for _, _, _, p, _ in wire_ud.packets(d.dir + "/a.pcapng", wire_ud.PORT, sizes)}
            assert 34 in kinds and 1400 < max(sizes) <= 1500, (kinds, max(sizes))


def of_each_worker(d, workers, make):
    """Ends with queue pairs until each worker has one, by QPN; the QPN tells the queue pair's worker."""
    ends, told = {}, {}

    def another():
        words = [line.split() for line in d.telemetry("/rnic/qps")]
        told.update((int(w[0]), int(w[w.index("worker") + 1])) for w in words)
        return told.keys() - ends.keys()

    while {q % workers for q in ends} != set(range(workers)):
        end = make()
        until(another, end.p.tail)
        ends[another().pop()] = end
    assert all(w == q % workers for q, w in told.items()), told
    return ends


def bridged(workers):
    """Two daemons on taps that the kernel bridges. workers: how many each has."""
    daemons = []
    wire.own_network()
    if not os.path.exists("/dev/net/tun"):
        raise Skip("no /dev/net/tun")
    wire.run("ip", "link", "add", "name", "br0", "type", "bridge")
    wire.run("ip", "link", "set", "br0", "up")
    for i, (address, n) in enumerate(zip((A, B), workers)):
        conf = f"[rnicd]\nsocket = {{dir}}/rnicd.sock\nworkers = {','.join('0' * n)}\n[port m]\ndevice = tap:t{i}\n"
        daemons.append(Daemon(f"{conf}mac = 02:00:00:00:0d:0{i}\naddress = {address}/24\nloss = 2%\n"))
        wire.run("ip", "link", "set", f"t{i}", "master", "br0", "up")
    return daemons


@case
def queue_pairs_of_different_workers_use_different_flows():
    for here, there in ((1, 1), (2, 1), (2, 3)):
        d, e = bridged((here, there))
        with d, e:
            clients = of_each_worker(d, here, lambda d=d: Client(d, A, 5000, ANY_ORDER))
            stores = of_each_worker(e, there, lambda e=e: Store(e, B, 5000, how=ANY_ORDER))
            for client in clients.values():
                for store in stores.values():
                    client.to(store)
                    client.say("ask 10")
                    client.say("told")
                    assert client.answer() == (10, SUCCESS)
            flows = [d.telemetry(f"/rnic/flows,{line.split()[0]}") for line in d.telemetry("/rnic/flows")]
            used = {(f["worker"], f["peer_worker"]) for f in flows if f["packets_out"] > 0}
            assert used == {(i, k) for i in range(here) for k in range(there)}, flows
            assert all(f["lost"] == 0 for f in flows), flows
            client, store = next(iter(clients.values())), next(iter(stores.values()))
            client.to(store)
            assert client.go(10) == (10, SUCCESS) and store.came() == (10, 10)
            for x in (*clients.values(), *stores.values()):
                x.end()
            nothing_is_left(d)
            nothing_is_left(e)


@case
def every_size_arrives():
    with Daemon(pair_conf()) as d:
        for length in (8, 1320, 4096, 65536, 1 << 20):
            verified(d, length, 20)
        nothing_is_left(d)


def over_a_wire_with(loss):
    with Daemon(pair_conf(both=f"loss = {loss}\nduplicate = 1%\nreorder = 2%\ncorrupt = 1%")) as d:
        verified(d, 20000, 50)
        nothing_is_left(d)


@case
def all_is_right_over_a_wire_that_loses_a_hundredth():
    over_a_wire_with("1%")


@case
def all_is_right_over_a_wire_that_loses_a_twentieth():
    over_a_wire_with("5%")


def overtaken(conf, length, count, client_is, store_is):
    """Number of work requests that completed before an older one; checks that each arrived once."""
    with Daemon(pair_conf(both=conf)) as d:
        store, client = Store(d, B, length, how=store_is), Client(d, A, length, how=client_is)
        client.to(store)
        client.say(f"burst {2 * count}")
        n = int(client.p.wait_line("overtaken", 3 * PATIENCE).split()[1])
        assert store.came() == (count, 0)
        client.end()
        store.end()
        nothing_is_left(d)
        return n


ANY_ORDER = ("unordered",)


@case
def of_an_unordered_queue_pair_each_message_arrives_once_in_any_order():
    assert overtaken(LOSSY, 6000, 300, ANY_ORDER, ANY_ORDER) > 0


@case
def an_ordered_queue_pair_completes_in_order_over_the_same_wire():
    assert overtaken(LOSSY, 6000, 300, (), ANY_ORDER) == 0


@case
def all_that_a_queue_pair_does_is_right_when_it_is_unordered_with_three_workers():
    with Daemon(pair_conf(rnicd="workers = 0,0,0", both=LOSSY)) as d:
        for length in (8, 20000, 1 << 18):
            verified(d, length, 20, how=ANY_ORDER)
        nothing_is_left(d)


@case
def a_device_reaches_itself():
    with Daemon(pair_conf()) as d:
        store, client = Store(d, A, 5000), Client(d, A, 5000)
        client.to(store)
        assert client.go(20) == (20, SUCCESS)
        client.end()
        store.end()
        nothing_is_left(d)


def late_receive(d, meanwhile, how=()):
    """A Send arrives when the receive is posted, which happens after meanwhile(client)."""
    slow, client = Store(d, B, 3000, later=True, how=how), Client(d, A, 3000)
    client.to(slow)
    client.say("go 1")
    meanwhile(client)
    slow.say()
    assert client.answer() == (1, SUCCESS)
    assert slow.came() == (1, 1)
    client.end()
    slow.end()
    nothing_is_left(d)


@case
def a_send_waits_for_a_receive_and_holds_up_nobody_else():
    with Daemon(pair_conf()) as d:
        def others(client):
            verified(d, 3000, 20)
            assert not client.p.out
        late_receive(d, others)


@case
def a_shared_receive_queue_serves_reliable_datagrams_of_two_workers_too():
    with Daemon(pair_conf(rnicd="workers = 0,0", both=LOSSY)) as d:
        verified(d, 20000, 20, how=("shared",))
        verified(d, 20000, 20, how=("shared", "unordered"))
        late_receive(d, lambda _: until(lambda: d.telemetry("/rnic/counters")["rnr_waits"] > 0,
                                        "no message waits for a receive"), how=("shared",))


@case
def a_send_waits_no_longer_for_a_receive_than_its_sender_wants():
    with Daemon(pair_conf()) as d:
        slow, ready = Store(d, B, 3000, later=True), Store(d, B, 3000)
        client = Client(d, A, 3000, ("rnr=0",))
        client.to(slow)
        assert client.go(1) == (0, 13)  # IBV_WC_RNR_RETRY_EXC_ERR
        client.to(ready)
        assert client.go(5) == (5, SUCCESS)
        client.end()
        slow.say()
        slow.end()
        ready.end()
        nothing_is_left(d)


@case
def a_strict_queue_pair_ends_with_its_first_failure():
    with Daemon(pair_conf()) as d:
        store, client = Store(d, B, 3000), Client(d, A, 3000, ("strict",))
        client.say(f"to {B} {store.words[0]} {store.words[1]} {int(store.words[2]) ^ 1}")
        assert client.go(1) == (0, 10)  # IBV_WC_REM_ACCESS_ERR
        client.to(store)
        assert client.go(1) == (0, 5)  # IBV_WC_WR_FLUSH_ERR
        client.end()
        store.end()
        nothing_is_left(d)


@case
def seven_hundred_queue_pairs_have_pairs_at_the_same_time_and_each_works_twice():
    """Each queue pair sends, rests, and sends again."""
    with Daemon(pair_conf(rnicd="user-share = 100")) as d:
        server = d.run(TESTPMD, "-s", "-a", A, "--once", "--timeout", "60")
        server.wait_line("listening")
        d.run(TESTPMD, "--mode", "idle", "--qps", "700", "--seconds", "1", "--timeout", "60", "--qp-type", "rd", A).ok()
        server.ok()
        c = counters(d)
        assert c["rd_segs_in"] >= 1400 and c["rd_no_pair"] == c["rd_no_work"] == c["rd_evicted"] == 0, c
        nothing_is_left(d)
        until(lambda: counters(d)["rd_pairs"] == 0, lambda: counters(d))


@case
def more_queue_pairs_than_fill_the_flow_send_at_the_same_time():
    """Each of them waits again and again for room in the flow that all share."""
    with Daemon(pair_conf(rnicd="user-share = 100\npoll = busy")) as d:
        server = d.run(TESTPMD, "-s", "-a", A, "--once", "--timeout", "60")
        server.wait_line("listening")
        d.run(TESTPMD, "--mode", "send_bw", "--size", "64", "--depth", "16", "--qps", "256", "--iters", "100000",
              "--timeout", "60", "--qp-type", "rd", A).ok()
        server.ok()
        nothing_is_left(d)


@case
def a_killed_end_fails_what_goes_there_and_nothing_else():
    with Daemon(pair_conf(rnicd="workers = 0,0")) as d:
        dead, alive, client = Store(d, B, 20000), Store(d, B, 20000), Client(d, A, 20000)
        client.to(dead)
        assert client.go(5) == (5, SUCCESS)
        client.say("until")
        dead.p.stop(signal.SIGKILL)
        assert client.answer()[1] != SUCCESS
        client.to(alive)
        assert client.go(5) == (5, SUCCESS)
        assert alive.came() == (5, 5)
        client.end()
        alive.end()
        nothing_is_left(d)
        c = counters(d)
        assert c["rd_refused"] > 0 and c["rd_segs_in"] > 10 * 20000 / 1360 and c["rd_no_pair"] == 0, c


@case
def queue_pairs_that_end_give_back_their_places_on_two_workers():
    with Daemon(pair_conf(rnicd="workers = 0,0\nflows = 16\nuser-share = 100")) as d:
        for _ in range(20):  # altogether more queue pairs than the daemon has places for flows
            verified(d, 5000, 5)
        nothing_is_left(d)


@case
def a_daemon_that_stands_still_fails_nothing():
    """The daemon stands still for longer than a silent peer is waited for, 5 s, and for longer than a packet is on the
    way, 8 s. What the peer has sent meanwhile has only not been read."""
    with Daemon(pair_conf(both="loss = 1%")) as d:
        store, client = Store(d, B, 20000), Client(d, A, 20000)
        client.to(store)
        assert client.go(1) == (1, SUCCESS)
        for n, seconds in enumerate((6, 9)):
            had = counters(d)["rd_segs_out"]
            client.say("go 1500")
            until(lambda k=had: counters(d)["rd_segs_out"] > k + 100, client.p.tail)
            d.p.send_signal(signal.SIGSTOP)
            time.sleep(seconds)
            d.p.send_signal(signal.SIGCONT)
            answer = client.answer()
            assert answer == (1500 * n + 1501, SUCCESS) and counters(d)["rd_lost"] == 0, (answer, counters(d))
        client.end()
        store.end()


@case
def who_has_no_key_gets_an_error_and_goes_on():
    with Daemon(pair_conf()) as d:
        store, client = Store(d, B, 3000), Client(d, A, 3000)
        client.say(f"to {B} {store.words[0]} {store.words[1]} {int(store.words[2]) ^ 1}")
        assert client.go(1) == (0, 10)  # IBV_WC_REM_ACCESS_ERR
        client.to(store)
        assert client.go(5) == (5, SUCCESS)
        client.end()
        store.end()


@case
def a_killed_daemon_fails_what_goes_there_and_its_successor_is_another():
    with Daemon(memif_conf("server", "{dir}/wire.sock", A)) as d:
        peer = memif_conf("client", d.dir + "/wire.sock", B)
        client, e = Client(d, A, 20000), Daemon(peer)
        try:
            client.to(Store(e, B, 20000))
            assert client.go(5) == (5, SUCCESS)
            client.say("until")
            e.stop(signal.SIGKILL)
            assert client.answer()[1] != SUCCESS
        finally:
            e.close()
        with Daemon(peer) as e:
            store = Store(e, B, 20000)
            client.to(store)
            assert client.go(5) == (5, SUCCESS)
            assert store.came() == (5, 5)
            store.end()
        client.end()


main()
