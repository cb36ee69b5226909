#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Ports whose paths are memif links, AF_PACKET, host and tap interfaces, wires inside the daemon, and mixtures of these:
every path carries verified data, no lost path costs a connection while another one is left, and a path that comes back
is used again.
"""
import contextlib
import re
import signal
import sys

from paths_rig import FAR, PORT, bytes_of, change, joined, port, received, sent, server, wired_and_joined
from rig import TESTPMD, case, helper, main, moves, said, until

MANY = 200  # frames


def all_used(d, n=2, end="a"):
    """Every path of the port sends and receives more frames from now on."""
    before = sent(d, end, n), received(d, end, n)

    def used():
        now = sent(d, end, n), received(d, end, n)
        return all(b - a > MANY for x, y in zip(before, now) for a, b in zip(x, y))

    until(used, lambda: f"not all carry frames: {before}, now {sent(d, end, n)}, {received(d, end, n)}\n{d.tail()}")


def counts_agree(d, n, end="a"):
    """The port's counts are the sums of its paths' counts, once no frame comes between the questions."""
    def told():
        total = port(d, end)
        return (total["tx_packets"], total["rx_packets"]), (sum(sent(d, end, n)), sum(received(d, end, n)))

    until(lambda: len(set(told())) == 1, lambda: f"port and sum of the paths: {told()}")
    assert port(d, end)["paths"] == n


def count(d, text):
    return sum(text in line for line in list(d.err))


@contextlib.contextmanager
def says(text, *daemons):
    """What is done inside makes each of the daemons log the text once more."""
    before = [count(d, text) for d in daemons]
    yield
    for d, n in zip(daemons, before):
        until(lambda d=d, n=n: count(d, text) > n, lambda d=d: f"no new line '{text}'\n{d.tail()}")


def soak_of(d, *args, **env):
    """While no path is left nothing completes, and TCP waits for about as long again before it sends once more."""
    return d.run(TESTPMD, "--mode", "soak", "--bidir", "--sizes", "16k", "--seconds", "600", "--timeout", "600s", "-p",
                 str(PORT), *args, FAR, **env)


def end(soak):
    soak.p.send_signal(signal.SIGINT)
    assert "verified" in soak.ok()


def used_and_lost(*kinds, keys="", rnicd="", design="offloaded"):
    """All paths carry data; each is lost, and comes back; then all are lost, and one comes back. design: of the near
    program; the far one has the design offloaded."""
    with joined(*kinds, keys=keys, rnicd=rnicd) as (far, near, links):
        n = len(links)
        server(far, FAR)
        soak = soak_of(near, RNIC_DESIGN=design)
        moves(far, PORT)
        for d in (far, near):
            all_used(d, n)
        watch = near.run(helper("link_watch"), "a")
        watch.wait_line("PORT_ACTIVE state")
        for i, link in enumerate(links):
            with says(f"port a/{i}: link down", far, near):
                link.cut()
            for d in (far, near):
                assert port(d, "a")["link"] == "up" and port(d, f"a/{i}")["link"] == "down"
            moves(far, PORT, beyond=max(bytes_of(far)))
            with says(f"port a/{i}: link up", far, near):
                link.mend()
            for d in (far, near):
                all_used(d, n)
        assert "EVENT" not in watch.stdout(), watch.stdout()
        with says("port a: link down: none of its paths carries frames", far, near):
            for link in links:
                link.cut()
        watch.wait_line("IBV_EVENT_PORT_ERR 1, state DOWN")
        with says("port a: link up", far, near):
            links[-1].mend()
        watch.wait_line("IBV_EVENT_PORT_ACTIVE 1, state ACTIVE")
        watch.ok()
        moves(far, PORT, beyond=max(bytes_of(far)))
        end(soak)
        for d in (far, near):
            counts_agree(d, n)


def beside_a_wire(*kinds):
    """The connection goes from one port of the daemon to the other. Its paths end one after the other, but not the
    wire."""
    with wired_and_joined(*kinds) as (d, links):
        n = 1 + len(links)
        server(d, FAR)
        soak = soak_of(d)
        moves(d, PORT)
        all_used(d, n, "a")
        all_used(d, n, "b")
        watch = d.run(helper("link_watch"), "a")
        watch.wait_line("PORT_ACTIVE state")
        for link in links:
            link.cut()
        for end_ in "ab":
            until(lambda e=end_: all(port(d, f"{e}/{i}")["link"] == "down" for i in range(1, n)), d.tail)
        moves(d, PORT, beyond=max(bytes_of(d)))
        for link in links:
            link.mend()
        all_used(d, n, "a")
        all_used(d, n, "b")
        assert "EVENT" not in watch.stdout(), watch.stdout()
        end(soak)
        for end_ in "ab":
            counts_agree(d, n, end_)


def a_case(*kinds, name="", **how):
    def f():
        used_and_lost(*kinds, **how)
    f.__name__ = name or "_and_".join(kinds)
    case(f)


a_case("memif", "memif")
a_case("af_packet", "af_packet")
a_case("host", "host")
a_case("tap", "tap")
a_case("memif", "af_packet")
a_case("memif", "host")
a_case("af_packet", "host")
a_case("memif", "af_packet", "host", "tap")
a_case("memif", "af_packet", name="two_workers", rnicd="workers = 0,0")
a_case("memif", "af_packet", name="least_queue", keys="spread = least-queue")
a_case("memif", "af_packet", name="large_frames", keys="mtu = 9000")
a_case("memif", "af_packet", name="the_design_host", design="host")
a_case("memif", "af_packet", name="the_design_assisted", design="assisted")


@case
def a_wire_and_a_memif():
    beside_a_wire("memif")


@case
def a_wire_and_an_af_packet():
    beside_a_wire("af_packet")


@case
def a_wire_and_a_host_and_a_memif():
    beside_a_wire("host", "memif")


@case
def a_path_that_delivers_nothing_although_it_is_up():
    with joined("memif", "af_packet") as (far, near, _):
        server(far, FAR)
        soak = soak_of(near)
        for i in range(2):
            all_used(near)
            before = port(near, f"a/{i}")["path_left"]
            for d in (far, near):
                change(d, f"port a/{i} loss=100%")
            until(lambda i=i, n=before: port(near, f"a/{i}")["path_left"] > n, near.tail)
            said(near, f"port a/{i}", "nothing arrives by this path")
            moves(far, PORT, beyond=max(bytes_of(far)))
            for d in (far, near):
                change(d, f"port a/{i} loss=0")
        all_used(near)
        end(soak)


@case
def a_memif_that_ends_while_workers_use_its_rings():
    """The driver unmaps the rings when a connection ends. Large frames keep a worker inside the rings for longer."""
    with joined("memif", "af_packet", keys="mtu = 9000") as (far, near, links):
        server(far, FAR)
        soak = soak_of(near)
        for _ in range(10):
            all_used(near)
            with says("port a/0: link down", far, near):
                links[0].cut()
            with says("port a/0: link up", far, near):
                links[0].mend()
        end(soak)


@case
def reliable_datagrams():
    with joined("memif", "af_packet") as (far, near, links):
        server(far, FAR)
        soak = soak_of(near, "--qp-type", "rd")
        all_used(near)
        for i, link in enumerate(links):
            with says(f"port a/{i}: link down", far, near):
                link.cut()
            before = port(near, "a")["rx_packets"]
            until(lambda n=before: port(near, "a")["rx_packets"] > n + 5 * MANY, near.tail)
            with says(f"port a/{i}: link up", far, near):
                link.mend()
            all_used(near)
        end(soak)


@case
def sigusr1_logs_the_frames_of_all_paths():
    with joined("memif", "memif") as (far, near, _):
        server(far, FAR)
        soak = soak_of(near)
        all_used(near)
        end(soak)
        near.p.send_signal(signal.SIGUSR1)
        line = said(near, "port a: link up,", "packets received")
        got, gone = map(int, re.search(r"(\d+) packets received, (\d+) sent", line).groups())
        assert got > 2 * MANY and gone > 2 * MANY, line


if __name__ == "__main__":
    sys.exit(main())
