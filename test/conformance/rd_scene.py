# SPDX-License-Identifier: BSD-3-Clause
"""
The parts of a case about reliable datagrams: rnicd on a tap, test/e2e/rd_ends.c as rnicd's program, and a device of our
own making (test/e2e/wire_rd.py). rd_ends.c is a store whose memory we change, or a client that works on our store. Each
device of ours has an address of its own, so no case sees the flows of another.
"""
import itertools
import struct

import wire
from rig import PATIENCE, case, helper, until
from wire import ADDR, WRITE, tagged
from wire_rd import REFUSED, Device, Pair, Store
from wire_world import daemon

QKEY = 0x1234  # the Q_Key of rd_ends.c
COUNTER, SLOTS = 64, 4  # the memory of rd_ends.c: a counter, then slots
RETRY_EXC, REM_ACCESS = 12, 10
numbers = itertools.count(10)
hosts = itertools.count(10)
WHERE, STAG = 0x7f0000100000, 0x5500aa  # address and STag of our own store


def device():
    """Makes a device with an address of its own."""
    daemon()
    host = f"10.79.0.{next(hosts)}"
    wire.run("ip", "addr", "add", f"{host}/24", "dev", "rt0")
    return Device(host, ADDR)


def text(m, length):
    """The content of rd_ends.c's message number m."""
    return struct.pack("<I", m) + bytes((m * 31 + i * 7 + (i >> 8) * 13 | 1) & 255 for i in range(4, length))


def counters():
    return daemon().telemetry("/rnic/counters")


def flow_of(dev):
    return daemon().telemetry(f"/rnic/flows,rnic0/{dev.host}")


class Scene:
    """rd_ends.c as a store, a device of ours, and a pair between that device and the store."""

    def __init__(self, length=1000, later=False, how=()):
        self.length, self.m = length, 0
        self.p = daemon().run(helper("rd_ends"), ADDR, "store", str(length), str(int(later)), *how)
        self.qpn, self.where, self.stag = map(int, self.p.wait_line("store").split()[1:])
        self.d = device()
        self.pair = Pair(self.d, 0x4242, self.qpn, QKEY)
        self.said = 0

    def say(self):
        self.p.p.stdin.write("\n")
        self.p.p.stdin.flush()

    def came(self):
        """How many Sends the store has received, and the value of its counter."""
        self.say()
        self.said += 1
        lines = lambda: [s for s in self.p.out if s.startswith("came")]
        until(lambda: len(lines()) >= self.said, self.p.tail)
        words = lines()[self.said - 1].split()
        return int(words[1]), int(words[3])

    def send(self):
        self.pair.put(*self.pair.message(text(self.m, self.length)))
        self.m += 1

    def works(self):
        """Sends once more; the Send arrives, and the store has received nothing but our Sends."""
        self.send()
        self.pair.taken()
        assert self.came()[0] == self.m, (self.came(), self.m)

    def memory(self):
        """The store's memory, read by a new pair of its own."""
        reader = Pair(self.d, 0x9000 + next(numbers), self.qpn, QKEY)
        return reader.read(self.stag, self.where, COUNTER + SLOTS * self.length)

    def attack(self, to=0, size=64):
        """A Write that would change the store's memory if it were carried out."""
        return tagged(WRITE, self.stag, self.where + COUNTER + to, b"\xee" * size)

    def dropped(self, name, what, n=1):
        """what() adds exactly n to the counter `name`, changes no memory, and leaves the connection working."""
        was = self.memory()
        self.d.barrier()
        before = counters()
        what()
        until(lambda: counters()[name] >= before[name] + n, lambda: f"{name}: {before[name]}, {counters()[name]}")
        assert counters()[name] == before[name] + n, (name, before[name], counters()[name])
        assert self.memory() == was, "the store's memory has changed"
        self.works()

    def refused(self, pair, *ddp, term=None):
        """
        Sends segments on the pair: its run is refused with this Terminate (term None: without one), and the store's
        memory does not change.
        """
        was = self.memory()
        pair.put(*ddp)
        c = pair.is_refused()
        assert (c.kind, c.peer_run) == (REFUSED, pair.run), c
        if term is None:
            assert c.body == b"", c
        else:
            assert c.body[:2] == bytes(term) and c.body[3] == 0, c
        if term is not None and c.body[2]:
            head = 14 if ddp[-1][0] & 0x80 else 18
            assert c.body[2] & 0xC0 == 0xC0 and struct.unpack_from(">H", c.body, 4)[0] == len(ddp[-1]), c
            assert c.body[6:6 + head] == ddp[-1][:head], (c, ddp[-1][:head].hex())
        assert self.memory() == was, "the store's memory has changed"
        return c

    def end(self):
        self.p.p.stdin.close()
        self.p.ok()
        self.d.close()


def scene(**how):
    """Makes a case of a function that takes a Scene; the scene is ended after it."""
    def made(f):
        def run_it():
            x = Scene(**how)
            f(x)
            x.end()
        run_it.__name__ = f.__name__
        return case(run_it)
    return made


class Customer:
    """rd_ends.c as a client, which works on a store of ours."""

    def __init__(self, length=1000, how=()):
        self.length, self.said = length, 0
        self.d = device()
        self.p = daemon().run(helper("rd_ends"), ADDR, "client", str(length), *how)
        self.mine = 0x6000 + next(numbers)
        self.tell(f"to {self.d.host} {self.mine} {WHERE} {STAG}")

    def tell(self, line):
        self.p.p.stdin.write(line + "\n")
        self.p.p.stdin.flush()

    def store(self):
        """Makes our store, as soon as the client's first packet is here."""
        self.d.until(lambda: self.d.carried, "the client sends no packet")
        return Store(self.d, self.mine, self.d.carried[0].src, 0, QKEY, stag=STAG, where=WHERE,
                     size=COUNTER + SLOTS * self.length)

    def over(self):
        self.d.pump(0.01)
        return len([s for s in self.p.out if s.startswith("messages")]) > self.said

    def answer(self):
        """How many messages the client has completed, and the last status."""
        until(self.over, self.p.tail, 3 * PATIENCE)
        self.said += 1
        words = [s for s in self.p.out if s.startswith("messages")][self.said - 1].split()
        return int(words[1]), int(words[3])

    def serves(self, store, n, before=0):
        """The client sends n messages; checks each of them in our store."""
        count = len(store.messages)
        store.serve_until(lambda: len(store.messages) == count + n)
        assert self.answer() == (before + n, 0)
        for k in range(n):
            want = text(before + k, self.length)
            assert store.messages[count + k] == want, k
            if k + SLOTS >= n:
                at = COUNTER + (before + k) % SLOTS * self.length
                assert store.memory[at:at + self.length] == want, k
        assert struct.unpack_from("<Q", store.memory)[0] == before + n

    def end(self):
        self.p.p.stdin.close()
        self.p.ok()
        self.d.close()


def customer(**how):
    def made(f):
        def run_it():
            c = Customer(**how)
            f(c)
            c.end()
        run_it.__name__ = f.__name__
        return case(run_it)
    return made
