# SPDX-License-Identifier: BSD-3-Clause
"""
A batch: one daemon, one configuration, one capture, and a list of scenarios (peer.h) between rnicd and siw. Each
scenario is a test case of its own, which passes if both sides report success. One more case judges the capture.
"""
import os
import shutil
import tempfile

from guest import GUEST, HOST, RNIC, VETH, Guest  # imported first, since it puts test/e2e on the path
import wire_check
from rig import BUILD, CASES, PATIENCE, Daemon, Foreign, Process, Skip, case, until
from shark import shark

PORT = "7471"
PEER = os.path.join(BUILD, "test", "interop", "peer")
world = {"number": 1}


def guest():
    """The guest of this run; boots it at the first call."""
    if "error" in world:
        raise world["error"]
    if "guest" not in world:
        try:
            world["guest"] = Guest()
        except BaseException as e:
            world["error"] = e
            raise
    return world["guest"]


def autopsy():
    """
    To be called after a failure: raises Foreign if the guest has crashed; the next call of guest() boots a new one.
    """
    try:
        guest().autopsy()
    except Foreign:
        world.pop("guest").close()
        raise


def with_guest(run):
    """Calls run() and returns its result. If it fails because the guest has crashed, raises Foreign instead."""
    try:
        return run()
    except (AssertionError, OSError):
        autopsy()
        raise


def conf(mtu=1500, port="", capture=True):
    return f"""
[rnicd]
socket = {{dir}}/rnicd.sock
[port rnic0]
device = af_packet:{VETH}
mac = 02:00:00:00:0c:01
address = {RNIC}/24
mtu = {mtu}
verify-checksums = yes
{"capture = {dir}/port.pcapng" if capture else ""}
{port}
"""


def found(told):
    """What tshark has found wrong, with the lines around it; "": nothing."""
    for bad in ("Malformed", "Bad CRC"):
        at = told.find(bad)
        if at >= 0:
            return f"tshark: {bad}:\n{told[max(0, at - 1500):at + 200]}"
    return ""


class Capture:
    """The frames of the port while the daemon ran, as an independent checker and tshark read them."""

    def __init__(self, daemon, holes):
        self.holes = holes
        fd, self.path = tempfile.mkstemp(prefix="rnic-siw-", suffix=".pcapng")
        os.close(fd)
        shutil.copyfile(os.path.join(daemon.dir, "port.pcapng"), self.path)

    def shark_says(self, without):
        """What tshark says of the connections, but for those from these ports."""
        known = "".join(f" && tcp.port != {p}" for p in without)
        return shark(self.path, "-o", "tcp.check_checksum:TRUE", "-o", "tcp.reassemble_out_of_order:TRUE", "-O",
                     "iwarp_mpa", "-Y", "tcp" + known)

    def judge(self, complete=True):
        """Returns the connections; raises if an octet on the wire is wrong."""
        conns = wire_check.check(self.path, complete=complete)
        ports = [c.key.split("->")[0] for c in conns]
        # tshark takes a second connection between the same ports for the continuation of the first one
        twice = {p for p in ports if ports.count(p) > 1}
        told = self.shark_says(twice)
        if found(told):
            # Behind a segment that was sent again tshark may take payload for an FPDU. wire_check has read these
            # connections octet by octet.
            twice |= {p for c, p in zip(conns, ports) if c.awkward}
            told = self.shark_says(twice)
        assert not found(told), found(told)
        good = sum(c.crc_good for c, p in zip(conns, ports) if p not in twice)
        seen = told.count("Good CRC32")  # tshark may miss CRCs when parts of several segments are retransmitted
        assert seen >= 0.9 * good, f"tshark checked {seen} of {good} CRCs:\n{shark(self.path, '-c', '12')}"
        return conns

    def remove(self):
        os.unlink(self.path)


def end(daemon):
    """Stops a daemon in order; returns its capture."""
    try:
        holes = daemon.telemetry("/rnic/ports,rnic0")["capture_drops"] if daemon.alive() else 0
        daemon.end()
        return Capture(daemon, holes)
    finally:
        daemon.close()


def whole(capture):
    """
    Returns the capture. On a busy machine it may lack frames, which the daemon counts: then raises Foreign, and the
    case runs again.
    """
    if capture.holes:
        capture.remove()
        raise Foreign(f"the machine was too busy to write the capture, which lacks {capture.holes} frames")
    return capture


class Batch:
    """
    out: rnicd's client is the initiator. siw: siw's knobs; port: lines of rnicd's [port]; host, guest: options of peer.
    wire(conns) checks the connections of the capture. excused: known failures of siw, {(scenario, side): words}.
    counters: counts that the daemon must have. netem: impairment of the guest's network, in tc's words. design: where
    the iWARP of rnicd's side runs, if not in rnicd; then the program has the keys of the port. With design embedded there
    is neither a daemon nor a capture: the program uses the kernel's TCP at the bridge's address.
    """

    def __init__(self, name, out, scenarios, *, siw=None, port="", mtu=1500, host="", guest_opts="", wire=None, excused=None,
                 counters=None, netem="", design=""):
        self.name, self.out, self.scenarios = name, out, scenarios
        self.siw, self.port, self.mtu = siw or {}, port, mtu
        self.host, self.guest_opts, self.wire = host.split(), guest_opts, wire
        self.excused, self.counters, self.netem = excused or {}, counters or {}, netem
        keys = port.replace(" ", "").replace("\n", ";")
        self.env = {"RNIC_DESIGN": design, "RNIC_EMBEDDED_KEYS": keys} if design else {}
        self.lines, self.error, self.ran, self.capture = {}, None, False, None
        for i, s in enumerate(scenarios):
            self._case(f"{name}: {s}" + (" again" if s in scenarios[:i] else ""), lambda i=i: self.verdict(i))
        self.embedded = design == "embedded"
        if not self.embedded:
            self._case(f"{name}: on the wire", lambda: self.on_the_wire())

    @staticmethod
    def _case(name, f):
        f.__name__ = name
        case(f)

    def run(self):
        if not self.ran:
            self.ran = True
            try:
                self.capture = with_guest(self.without_daemon if self.embedded else lambda: whole(self.go()))
                if any(" FAIL " in s for s in self.lines["client"]):
                    autopsy()
            except Foreign:
                self.again()  # in a new guest if this one has crashed
                raise
            except BaseException as e:  # pylint: disable=broad-except
                self.error = e
        if self.error:
            raise self.error

    def prepare(self):
        """Sets up the guest and numbers the scenarios; returns the guest."""
        g = guest()
        g.siw(**self.siw)
        self.first = world["number"]
        world["number"] += len(self.scenarios)
        if self.netem:
            g.netem(self.netem)
        return g

    def scenes(self, g, run, here):
        """Runs all scenarios. run(*argv, **env) starts the program of this side, whose address is `here`."""
        serve, call = ["-s", "-p", PORT, "-a"], ["-p", PORT, "-n", str(self.first)]
        if self.out:
            server = g.run(" ".join(["peer", *serve, GUEST, self.guest_opts]))
            server.wait_line("listening")
            client = run(PEER, *call, *self.host, GUEST, *self.scenarios, **self.env)
        else:
            server = run(PEER, *serve, here, *self.host, **self.env)
            server.wait_line("listening")
            client = g.run(" ".join(["peer", *call, self.guest_opts, here, *self.scenarios]))
        client.wait(5 * PATIENCE)
        last = f"{self.first + len(self.scenarios) - 1} {self.scenarios[-1]}"
        try:
            server.wait_line(last)
        except AssertionError:
            pass  # the case of that scenario reports the failure
        server.stop()
        self.lines = {"client": client.out, "server": server.out}

    def after(self, g):
        if self.netem:
            g.netem("")

    def go(self):
        g = self.prepare()
        d = Daemon(conf(self.mtu, self.port))
        try:
            self.scenes(g, d.run, RNIC)
            # capture and counters are complete when the last FIN of each connection has come
            until(lambda: all(" TIME_WAIT " in line for line in d.telemetry("/rnic/conns")),
                  lambda: f"connections have not ended: {d.telemetry('/rnic/conns')}")
            self.counted = {k: v for k, v in d.telemetry("/rnic/counters").items() if k in self.counters}
        finally:
            capture = end(d)
            self.after(g)
        return capture

    def without_daemon(self):
        g = self.prepare()
        try:
            self.scenes(g, lambda *argv, **env: Process(list(argv), env={**os.environ, **env}), HOST)
        finally:
            self.after(g)

    def verdict(self, i):
        self.run()
        number, name = self.first + i, self.scenarios[i]
        for side in ("client", "server"):
            lines = self.lines[side]
            word = [s for s in lines if s.startswith(f"{number} {name} ")]
            story = "\n".join(s for s in lines if s.startswith(f"{number}") or "DIE" in s)
            assert word, f"the {side} printed no result of {number} {name}\n{story}"
            good = word[0] == f"{number} {name} ok"
            want = self.excused.get((name, side))
            if want is not None:
                assert want in word[0], f"{side}: {word[0]}, not '{want}'\n{story}"
            elif self.rtr_was_lost(name, word[0]):
                self.again()
                raise Foreign(f"the client disconnected before siw had sent its RTR: {word[0]}")
            else:
                assert good, f"{side}: {word[0]}\n{story}"

    def rtr_was_lost(self, name, word):
        """
        Whether a connection failed because siw never sent its RTR. siw queues the RTR for a thread of its own and tells
        its program of the connection at once. If the program disconnects before that thread runs, siw resets the
        connection. So this is possible only in the scenario whose client disconnects at once, and only if siw has sent
        nothing on an accepted connection. Design embedded has no capture: there scenario and error alone decide.
        """
        if self.out or not self.siw.get("peer_to_peer") or name != "connect" or "CONNECT_ERROR" not in word:
            return False
        return self.embedded or any(not c.rep["R"] and not c.ops[0] for c in wire_check.check(self.capture.path))

    def again(self):
        """All scenarios run once more when the next case asks for its verdict."""
        self.ran = False
        if self.capture:
            self.capture.remove()
            self.capture = None

    def on_the_wire(self):
        self.run()
        conns = self.capture.judge()
        assert len(conns) == len(self.scenarios), f"{len(conns)} connections"
        if self.wire:
            self.wire(conns)
        assert self.counted == self.counters, f"counters {self.counted}, should be {self.counters}"
        os.environ.get("RNIC_KEEP") or self.capture.remove()


def select(pattern):
    """Keeps only the cases whose name contains pattern."""
    CASES[:] = [c for c in CASES if pattern in c.__name__]


def cleanup():
    if "guest" in world:
        world["guest"].close()


__all__ = ["Batch", "Capture", "autopsy", "cleanup", "conf", "end", "guest", "select", "whole", "with_guest", "world",
           "Skip", "PEER", "PORT"]
