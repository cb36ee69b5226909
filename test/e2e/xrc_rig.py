# SPDX-License-Identifier: BSD-3-Clause
"""Processes of extended reliable connections: xrc_end.c, told what to do."""
import signal

from rig import PATIENCE, Process, helper, until


class End(Process):
    """A process of its own at a device of the daemon. under: a command that starts it and becomes it."""

    def __init__(self, d, device, under=()):
        super().__init__([*under, helper("xrc_end"), device], env=d.env(), name="xrc_end")
        d.children.append(self)
        self.wait_line("ready")
        self.read = self.out.index("ready") + 1

    def begin(self, *words):
        """Tells it something; answer() waits for what comes of it."""
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
        """The errno that comes of it."""
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
    """Queue pairs of both, which each end has made, or opened, and whose numbers are given."""
    (i, iqpn), (t, tqpn) = initiator, target
    t.do("join", "t", iqpn, *i.do("gid"))
    i.do("join", "i", tqpn, *t.do("gid"))
