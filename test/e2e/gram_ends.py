# SPDX-License-Identifier: BSD-3-Clause
"""
Datagram messages one by one between two programs, each of which may run embedded or over rnicd. The network between
them may lose a datagram, and a machine with much to do may stop a program in the middle of a message for longer than
the receiver waits. So a message that has not come is sent again.
"""
import contextlib
import signal
import time

from host_rig import in_netns
from rig import PATIENCE, RNICRUN, helper

AGAIN_S = 2  # a message that takes longer is sent again


class End:
    """Where one end's programs run. daemon None: embedded, with these keys."""

    def __init__(self, ns, address, daemon=None, keys=""):
        self.ns, self.address, self.daemon, self.keys = ns, address, daemon, keys

    def run(self, program, *args):
        argv = [helper(program), self.address, *map(str, args)]
        if self.daemon is not None:
            return in_netns(self.ns, *argv, RNICD_SOCKET=self.daemon.sock)
        return in_netns(self.ns, RNICRUN, "--embedded", *argv, RNIC_EMBEDDED_KEYS=self.keys)


@contextlib.contextmanager
def running(*programs):
    try:
        yield
    finally:
        for p in programs:
            p.stop(signal.SIGKILL)


def tell(p, line):
    p.p.stdin.write(line + "\n")
    p.p.stdin.flush()


def came(p):
    return sum(line.startswith("came") for line in list(p.out))


def one_more(source, sink):
    """Has the source send its next message, again until one more has come at the sink."""
    had, end = came(sink), time.monotonic() + PATIENCE
    while came(sink) == had:
        assert time.monotonic() < end, f"no message has come\n{source.tail()}\n{sink.tail()}"
        assert source.p.poll() is None, source.tail()
        tell(source, "")
        again = time.monotonic() + AGAIN_S
        while came(sink) == had and time.monotonic() < again and sink.p.poll() is None:
            time.sleep(0.002)
        if sink.p.poll() is not None:
            sink.join()
            assert came(sink) > had, sink.tail()


def send(from_, to, length, count=1, from_port=None, to_port=None):
    """Sends `count` messages; *_port: UDP ports of the ends' queue pairs. The QPNs of the sink and of the sender."""
    with_port = lambda port: () if port is None else (f"port={port}",)
    sink = to.run("ud_long", "sink", count, length, *with_port(to_port), "paced")
    with running(sink):
        qpn = sink.wait_line("qpn").split()[1]
        source = from_.run("ud_long", "source", to.address, qpn, length, *with_port(from_port), "paced")
        with running(source):
            while came(sink) < count:  # a message that was sent again may come twice
                one_more(source, sink)
            out = sink.ok()
            assert out.count(f"came {length}\n") == count, sink.tail()
            source.p.stdin.close()
            source.ok()
    return int(qpn), int(out.split()[-1])


def records(kind, from_, to, lens, maps=(), group=None):
    """
    kind "writer": from_ writes a record of each of these lengths into memory of `to`, each when the one before it was
    told; "reader": from_ reads one of each length. group: the writer writes to this multicast group, in which `to` is.
    Each byte that is told as valid is verified by the programs. Returns how many records were told whole, and the
    number of valid bytes.
    """
    what = ("member", len(lens), max(lens), group, 77) if group is not None else \
        ("target", len(lens), max(lens), *maps) if kind == "writer" else ("store", len(lens), max(lens))
    store = to.run("ud_record", *what)
    with running(store):
        _, qpn, where, rkey = store.wait_line("target").split()
        actor = from_.run("ud_record", kind, group or to.address, qpn, where, rkey, max(lens), *lens)
        with running(actor):
            for n in range(1, len(lens) + 1):
                tell(actor, "go")
                if kind == "writer":
                    store.wait_line(f"record {n - 1}")
            actor.p.stdin.close()
            out = actor.ok(3 * PATIENCE)
            if kind == "writer":
                out = store.ok()
            said = dict(zip(out.split()[-8:][::2], out.split()[-8:][1::2]))
    return int(said["whole"]), int(said["valid"])


def all_records(kind, from_, to, lens, maps=(), group=None):
    """The same until all are told whole in one run."""
    tries = []
    for _ in range(5):
        tries.append(records(kind, from_, to, lens, maps, group))
        if tries[-1] == (len(lens), sum(lens)):
            return
    raise AssertionError(f"whole records and valid bytes of each run: {tries}; expected {len(lens)}, {sum(lens)}")
