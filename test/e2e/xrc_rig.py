# SPDX-License-Identifier: BSD-3-Clause
"""Processes for extended reliable connections: xrc_end.c, driven by commands."""
import signal

from rig import PATIENCE, Process, helper, until


class End(Process):
    """The program xrc_end on a device of the daemon. under: a command that execs it."""

    def __init__(self, d, device, under=()):
        super().__init__([*under, helper("xrc_end"), device], env=d.env(), name="xrc_end")
        d.children.append(self)
        self.wait_line("ready")
        self.read = self.out.index("ready") + 1

    def begin(self, *words):
        """Sends a command; answer() waits for its result."""
        self.p.stdin.write(" ".join(str(w) for w in words) + "\n")
        self.p.stdin.flush()

    def answer(self, patience=PATIENCE):
        until(lambda: len(self.out) > self.read or self.p.poll() is not None, self.tail, patience)
        if len(self.out) <= self.read:
            self.join()
        assert len(self.out) > self.read, self.tail()
        self.read += 1
        return self.out[self.read - 1].split()

    def fails(self, *words):
        """The errno with which a command fails."""
        self.begin(*words)
        a = self.answer()
        assert a[0] == "err", (words, a)
        return int(a[1])

    def do(self, *words):
        self.begin(*words)
        a = self.answer()
        assert a[0] == "ok", (words, a, self.tail())
        return a[1:]

    def number(self, *words):
        return int(self.do(*words)[0])

    def done(self):
        """The next completion: status, opcode, wr_id, bytes, immediate."""
        return tuple(int(n) for n in self.do("poll"))

    def has(self, slot, size, salt):
        assert self.number("check", slot, size, salt) == 1, (slot, size, salt)

    def dies(self):
        self.stop(signal.SIGKILL)


def connect(initiator, target):
    """Connects a queue pair of the initiator's process with one of the target's. initiator and target are (process, QP
    number); each process has made or opened its queue pair."""
    (i, iqpn), (t, tqpn) = initiator, target
    t.do("join", "t", iqpn, *i.do("gid"))
    i.do("join", "i", tqpn, *t.do("gid"))
