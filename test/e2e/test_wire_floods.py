#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Floods of every kind at one port of a daemon whose only worker serves others too. The second wave of an attack must need
no more memory than the first, counters must tell of it, others must move their data meanwhile, and nothing may be left
behind. Nothing is timed here: ../bench/floods.py measures what a flood costs the others.
"""
import resource
import sys
import time

import attacks
import wire
from attacks import CONF, PORT
from rig import PATIENCE, TESTPMD, Daemon, case, main
from wire import Closed

WAVE = 10000      # frames of a wave
BATCH = 125       # frames sent at once; as many sent before them may still be under way
HELD = 150        # connections of a wave
GROWTH = 1 << 20  # bytes that the daemon may grow by in a second wave: a few pages
world = {}


class World:
    def __init__(self):
        wire.own_network()
        attacks.no_timestamps()
        self.d = Daemon(CONF % ("", "tap:rt0"))
        wire.tap_up()
        self.target = wire.Target(self.d)
        self.target.tell(f"listen {PORT} 8 4 4")
        self.server = self.d.run(TESTPMD, "-s", "-a", "10.77.0.1")
        self.server.wait_line("listening")
        self.frames = wire.Frames()
        self.bystander().ok()  # from now on the daemon has mapped what it maps at its first client

    def bystander(self):
        """A client of another port, whose data is verified."""
        return self.d.run(TESTPMD, "--mode", "soak", "--iters", "100", "10.77.0.1")

    def memory(self):
        """Resident bytes of the daemon's own memory, without the memory that it shares with clients."""
        total, own = 0, True
        with open(f"/proc/{self.d.pid}/smaps", encoding="ascii", errors="replace") as f:
            for line in f:
                words = line.split()
                if not words[0].endswith(":"):
                    own = "/memfd:rnic" not in line
                elif words[0] == "Rss:" and own:
                    total += int(words[1]) * 1024
        return total

    def counters(self):
        return {**self.d.telemetry("/rnic/counters"), **self.d.telemetry("/rnic/ports,rnic0")}

    def conn(self):
        """The counters of the only connection at the attacked port."""
        all_ = self.d.telemetry("/rnic/conns")
        at = [line.split()[0] for line in all_ if f":{PORT} " in line]
        assert len(at) == 1, all_
        return self.d.telemetry(f"/rnic/conns,{at[0]}")

    def put(self, frames):
        """
        Sends frames as fast as the daemon takes them. The tap's queue holds 500 frames. Two batches fit, and leave room
        for the frames with which the kernel answers the daemon's answers.
        """
        at = self.counters()["rx_packets"]
        for i in range(0, len(frames), BATCH):
            for f in frames[i:i + BATCH]:
                self.frames.put(f)
            # ARP and other traffic counts too, so a few of the batch's frames may still be in the tap's queue
            self.until(lambda due=at + i: self.counters()["rx_packets"] >= due, "rnicd does not read its port")

    @staticmethod
    def until(true, otherwise):
        end = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < end, otherwise
            time.sleep(0.01)


def the_world():
    if "error" in world:
        raise world["error"]
    if "w" not in world:
        try:
            world["w"] = World()
        except BaseException as e:
            world["error"] = e
            raise
    return world["w"]


def still_served(w):
    """A new client of the attacked port must be accepted, at once or later."""
    def served():
        try:
            with attacks.opened() as p:
                p.put(wire.tagged(wire.WRITE, 0, 0), wire.read_req(1, (1, 1), 0, (0, 0)))
                return p.get()[1] & 15 == wire.READ_RESP
        except (Closed, OSError):
            return False
    w.until(served, "new connections are no longer accepted")


def two_waves(wave, told):
    """wave(w): one attack from beginning to end, while others move their data. told: {a sum of counters: the least that
    one wave must add to this sum}."""
    w = the_world()
    size, before = [], w.counters()
    for _ in range(2):
        others = w.bystander()
        wave(w)
        others.ok()
        size.append(w.memory())
        assert w.d.alive(), w.d.tail()
    after = w.counters()
    still_served(w)
    assert size[1] - size[0] <= GROWTH, f"the second wave added {(size[1] - size[0]) >> 10} KiB to {size[0] >> 10}"
    for name, least in told.items():
        got = sum(after[k] - before[k] for k in name.split("+"))
        assert got >= 2 * least, f"{name} grew by {got}, at least {2 * least} were due"


@case
def syn_flood():
    """Nearly all SYNs are answered without keeping state; the few that are kept expire."""
    def wave(w):
        w.put(attacks.syns(w.frames.mac, WAVE))
        assert w.counters()["half_open"] <= 4 * 64, w.counters()
    two_waves(wave, {"syn_cookies+rx_unanswered": WAVE // 2})


def into_a_connection(make, told):
    def wave(w):
        with attacks.opened() as p:
            w.put(attacks.segments(make, w.frames.mac, attacks.learn(p), WAVE))
            # a few frames may still be under way
            w.until(lambda: sum(w.conn()[k] for k in told) >= WAVE - 50, f"counted: {w.conn()}")
            p.put(wire.read_req(1, (1, 1), 0, (0, 0)))
            assert p.get()[1] & 15 == wire.READ_RESP, "the attacked connection answers no Read"
    two_waves(wave, {})


@case
def ack_storm():
    into_a_connection(attacks.ack_storm, ["idle_acks"])


@case
def acks_of_what_was_never_sent():
    into_a_connection(attacks.acks_of_what_was_never_sent, ["dropped"])


@case
def out_of_order_bomb():
    """A limited number of octets is kept, and the connection goes on when the hole before them is filled."""
    into_a_connection(attacks.out_of_order_bomb, ["out_of_order", "out_of_order_dropped", "dropped", "duplicates"])


@case
def resets_and_syns_beside_the_window():
    into_a_connection(attacks.beside_the_window, ["challenges", "dropped"])


def held(begin, told, each=lambda s: None):
    """Opens connections that stay, all at once; what the connections hold must come back when they are closed."""
    def wave(w):
        at = w.counters()["blocks_used"]
        socks = [begin() for _ in range(HELD)]
        for s in socks:
            each(s)
        for s in socks:
            s.close()
        w.until(lambda: w.counters()["blocks_used"] <= at, f"the attackers' blocks are not free again: {w.counters()}")
    two_waves(wave, told)


@case
def half_open():
    """Connections without a byte, more than the backlog (128): the later ones are opened by SYN cookies."""
    held(attacks.silent, {"syn_cookies": 1})


@case
def a_listener_with_too_many_silent_peers_ends_the_oldest():
    """A listener has at most four times its backlog of half-open connections: each further one takes the place of the
    oldest."""
    w = the_world()
    port, limit, more = 7110, 4 * 128, 60
    w.target.tell(f"listen {port} 8 4 4")
    w.until(lambda: w.counters()["half_open"] == 0, "connections of earlier attacks are still half open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    before = w.counters()["syn_evicted"]
    socks = [attacks.silent(port) for _ in range(limit + more)]
    after = w.counters()  # on a busy machine the time of the oldest may be over before a newer one takes its place
    assert after["half_open"] <= limit and 0 < after["syn_evicted"] - before <= more, (before, after)
    socks[-1].settimeout(0)
    try:
        assert socks[-1].recv(1) is None, "the newest connection was ended"
    except BlockingIOError:
        pass
    for s in socks[:more]:
        try:
            assert s.recv(1) == b""
        except ConnectionResetError:
            pass
    for s in socks:
        s.close()
    w.until(lambda: w.counters()["half_open"] == 0, w.counters())


@case
def silent_peers_of_many_listeners_leave_set_ups_to_others():
    """Each listener has fewer half-open connections than its own limit, four times the backlog of 128. Together they
    would take all set-ups of the worker."""
    w = the_world()
    ports, each, limit = range(7100, 7104), 350, 1024  # 1024 is rc_cfg.setups
    for port in ports:
        w.target.tell(f"listen {port} 8 4 4")
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    before = w.counters()
    # The connections of the ports alternate: a listener whose own backlog is full answers with cookies.
    socks = [attacks.silent(port) for _ in range(each) for port in ports]
    after = w.counters()
    assert len(socks) > limit and after["half_open"] < limit, after
    assert after["syn_evicted"] > before["syn_evicted"] and after["no_setup"] == before["no_setup"], (before, after)
    with attacks.opened() as p:  # succeeds at once, since a silent connection makes room
        p.put(wire.read_req(1, (1, 1), 0, (0, 0)))
        assert p.get()[1] & 15 == wire.READ_RESP
    for s in socks:
        s.close()
    w.until(lambda: w.counters()["half_open"] == 0, w.counters())


@case
def requests_that_never_end():
    held(attacks.endless_request, {"syn_cookies": 1})


@case
def slow_senders():
    def octet(p):
        p.raw(b"\xc1")
    held(attacks.slow_sender, {}, octet)


@case
def tiny_windows():
    w = the_world()
    held(lambda: attacks.tiny_window(w.target.mr["ro"][:2]), {"resets": 1}, lambda p: p.s.recv(1))


@case
def tiny_segments():
    """FPDUs of which each octet comes in a segment of its own."""
    def wave(w):
        with attacks.opened() as p:
            w.put(attacks.segments(attacks.tiny_segments, w.frames.mac, attacks.learn(p), WAVE))
            p.kill()  # the kernel does not know the octets that were sent in its name
    two_waves(wave, {"staged": WAVE // attacks.TINY})


@case
def connect_and_reset():
    def wave(_):
        for _ in range(HELD):
            attacks.opened().kill()
    two_waves(wave, {"resets": HELD})


@case
def connections_that_come_to_nothing():
    """However fast connections are requested and reset, rnicd makes at most 1,000 at once and 5,000 a second."""
    w = the_world()
    w.until(lambda: w.counters()["half_open"] == 0, "connections of earlier attacks are still half open")
    time.sleep(0.3)  # a rate is tested: 1,000 connections at 5,000 a second are 0.2 s, and more time changes nothing
    before, start = w.counters(), time.monotonic()
    w.put(attacks.syns_and_resets(w.frames.mac, 10000))
    after = w.counters()
    most = 1000 + 5000 * (time.monotonic() - start)
    got, refused = (after[k] - before[k] for k in ("resets", "rx_unanswered"))
    assert 500 < got <= most + 100, f"{got} connections were made, at most {most:.0f} were due, {refused} were refused"
    assert got + refused > 9000, f"of 10,000 connections {got} were made and {refused} refused"
    still_served(w)


@case
def nothing_is_left():
    w = the_world()
    w.server.stop()
    w.target.say("quit")
    w.target.wait()
    for what in ("/rnic/clients", "/rnic/qps", "/rnic/conns"):
        w.until(lambda what=what: not w.d.telemetry(what), f"{what}: {w.d.telemetry(what)}")
    w.until(lambda: w.counters()["connections"] == 0, f"connections have not ended: {w.counters()}")
    w.d.end()


if __name__ == "__main__":
    try:
        code = main()
    finally:
        if "w" in world:
            world["w"].d.close()
    sys.exit(code)
