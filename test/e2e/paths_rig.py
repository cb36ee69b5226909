# SPDX-License-Identifier: BSD-3-Clause
"""
Two daemons, joined by links of any kind, one link for each path. A test can cut each link, and mend it again.
"""
import contextlib
import os
import socket
import tempfile
import threading

from nets import netns, sh
from rig import TESTPMD, Daemon, until

PORT = 7461
NEAR, FAR = "10.79.0.3", "10.79.0.2"
MEMIF_MESSAGE, MEMIF_FDS = 256, 8  # more than any message of memif's control channel has


def port(d, name):
    return d.telemetry(f"/rnic/ports,{name}")


def server(d, addr):
    d.run(TESTPMD, "-s", "-a", addr, "-p", str(PORT)).wait_line("listening")


def conns_of(d):
    lines = [line for line in d.telemetry("/rnic/conns") if f":{PORT}" in line and " ESTABLISHED " in line]
    return [t for t in (d.telemetry(f"/rnic/conns,{line.split()[0]}") for line in lines) if t]


def bytes_of(d):
    return [c["bytes_in"] for c in conns_of(d)] or [0]


def sent(d, end="a", n=2):
    return [port(d, f"{end}/{i}")["tx_packets"] for i in range(n)]


def received(d, end="a", n=2):
    return [port(d, f"{end}/{i}")["rx_packets"] for i in range(n)]


def change(d, what):
    """Changes a path; asks again until an earlier change is done."""
    until(lambda: d.telemetry(f"/rnic/set,{what}")["done"], what)


class Veth:
    """A veth pair. Cutting it takes the far end down, so the near end has no carrier."""

    def __init__(self, ns, folder, i, kind):
        self.ns, self.down = ns, f"f{i}"
        self.far, self.near = f"{kind}:f{i}", f"{kind}:n{i}"
        sh("ip", "-n", ns, "link", "add", f"f{i}", "type", "veth", "peer", "name", f"n{i}")
        for end in "fn":
            sh("ip", "-n", ns, "link", "set", f"{end}{i}", "mtu", "9000", "up")

    def plug(self):
        """The daemons run now."""

    def cut(self):
        sh("ip", "-n", self.ns, "link", "set", self.down, "down")

    def mend(self):
        sh("ip", "-n", self.ns, "link", "set", self.down, "up")

    def close(self):
        """The link ends with its namespace."""


class Taps(Veth):
    """Two taps on a bridge. The daemons make the taps, so they are joined when the daemons run."""

    def __init__(self, ns, folder, i, kind):  # pylint: disable=super-init-not-called
        self.ns, self.down, self.i = ns, f"tf{i}", i
        self.far, self.near = f"{kind}:tf{i}", f"{kind}:tn{i}"
        sh("ip", "-n", ns, "link", "add", f"br{i}", "type", "bridge", "stp_state", "0", "forward_delay", "0")
        sh("ip", "-n", ns, "link", "set", f"br{i}", "up")

    def plug(self):
        for end in (f"tf{self.i}", f"tn{self.i}"):
            sh("ip", "-n", self.ns, "link", "set", end, "master", f"br{self.i}", "up")

    def cut(self):
        for end in (f"tf{self.i}", f"tn{self.i}"):
            sh("ip", "-n", self.ns, "link", "set", end, "down")

    def mend(self):
        self.plug()


class Memif:
    """
    A memif link through a relay: the client connects to the relay, which connects to the server, and passes on the
    messages of the control channel with their descriptors. The frames go by the memory that these share. Cutting the
    link closes the control channel, upon which both ends must stop using the memory.
    """

    def __init__(self, ns, folder, i, kind):
        self.own, self.to = os.path.join(folder, f"relay{i}"), os.path.join(folder, "server")
        common = f"id={i},socket-abstract=no"
        self.far = f"{kind}:role=server,{common},socket={self.to}"
        self.near = f"{kind}:role=client,{common},socket={self.own}"
        self.listener = None
        self.ends, self.threads = [], []
        self.mend()

    def plug(self):
        """The daemons run now."""

    def mend(self):
        if os.path.exists(self.own):
            os.unlink(self.own)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(self.own)
        self.listener.listen()
        self.start(self.accept, self.listener)

    def cut(self):
        for s in (self.listener, *self.ends):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
        for t in self.threads:
            t.join()
        for s in (self.listener, *self.ends):
            s.close()
        self.ends, self.threads = [], []

    def close(self):
        self.cut()

    def start(self, f, *args):
        t = threading.Thread(target=f, args=args, daemon=True)
        self.threads.append(t)
        t.start()

    def accept(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:  # the link is cut
                return
            other = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.ends += [client, other]
            if other.connect_ex(self.to) != 0:  # the server does not run yet: the client tries again
                client.shutdown(socket.SHUT_RDWR)
                continue
            self.start(self.relay, client, other)
            self.start(self.relay, other, client)

    @staticmethod
    def relay(here, there):
        """Passes on messages until either end closes; then closes the other one, too."""
        with contextlib.suppress(OSError):
            while True:
                data, fds, _, _ = socket.recv_fds(here, MEMIF_MESSAGE, MEMIF_FDS)
                if not data:
                    break
                try:
                    socket.send_fds(there, [data], fds)
                finally:
                    for fd in fds:
                        os.close(fd)
        with contextlib.suppress(OSError):
            there.shutdown(socket.SHUT_RDWR)


LINKS = {"af_packet": Veth, "host": Veth, "tap": Taps, "memif": Memif}


def head(rnicd=""):
    return f"""
[rnicd]
socket = {{dir}}/rnicd.sock
hugepages = no
{rnicd}"""


def port_conf(name, devices, address, keys=""):
    return f"""
[port {name}]
paths = {', '.join(devices)}
address = {address}/24
{keys}"""


@contextlib.contextmanager
def linked(kinds):
    """A network namespace with a link of each of these kinds: its name and the links."""
    with netns() as ns, tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as last:
        links = [LINKS[kind](ns, folder, i, kind) for i, kind in enumerate(kinds)]
        for link in links:
            last.callback(link.close)
        yield ns, links


def plug(links, *ports):
    """Waits until all paths of the ports, given as (daemon, name, path of the first link), are up."""
    for link in links:
        link.plug()
    for d, name, first in ports:
        up = lambda d=d, name=name, first=first: all(
            port(d, f"{name}/{first + i}")["link"] == "up" for i in range(len(links)))
        until(up, d.tail)


@contextlib.contextmanager
def joined(*kinds, keys="", rnicd=""):
    """Two daemons whose ports a have a path of each of these kinds: the far one, the near one, and the links."""
    with linked(kinds) as (ns, links):
        far, near = (head(rnicd) + port_conf("a", devices, address, keys) for devices, address in
                     (([link.far for link in links], FAR), ([link.near for link in links], NEAR)))
        with Daemon(far, netns=ns) as there, Daemon(near, netns=ns) as here:
            plug(links, (there, "a", 0), (here, "a", 0))
            yield there, here, links


@contextlib.contextmanager
def wired_and_joined(*kinds):
    """One daemon, whose ports a and b have a wire inside the daemon as their first path, and a path of each of these
    kinds: the daemon and the links."""
    with linked(kinds) as (ns, links):
        text = head() + port_conf("a", ["pair:b"] + [link.near for link in links], NEAR) + \
            port_conf("b", ["pair:a"] + [link.far for link in links], FAR)
        with Daemon(text, netns=ns) as d:
            plug(links, (d, "a", 1), (d, "b", 1))
            yield d, links
