#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
rnicrun --embedded --sockets: TCP sockets of unchanged programs run iWARP over the kernel's TCP, without a daemon and
without privilege (doc/stream-sockets.md). They behave as the kernel's sockets; a peer in Python speaks the protocol
over a socket of the kernel's, and breaks its rules.
"""
import errno
import fcntl
import hashlib
import mmap
import os
import re
import signal
import socket
import struct
import sys
import termios

import wire
from embedded_rig import AT, BRIEF, control_socket, embedded, serving, wait_for
from rig import PATIENCE, Process, Skip, case, main, need, until
from sock_raw import ENDED, FIN, RESET, RX_HEAD, SIZE, STATE, TX_TAIL, Raw, addr
from sock_rig import CHANGES_USER, SEND_BY_WIRE as SEND, SERVE_BY_WIRE as SERVE
from sock_rig import lines, port_of, python
from walk_rig import SEEDS, walk
from wire_esock import CREDIT, DATA, END, Bytes, Windows, hello, message, window_hello

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, "sock_table.py")
RING = 262144  # octets of the window


@case
def sockets_do_what_the_kernels_do():
    kernel = lines(Process([sys.executable, TABLE, AT]))
    p = embedded(sys.executable, TABLE, AT)
    mine = lines(p)
    wrong = [f"{n}: {mine.get(n)}, the kernel says {kernel[n]}" for n in kernel if mine.get(n) != kernel[n]]
    assert kernel and not wrong, "\n".join(wrong)
    assert not p.stderr(), p.stderr()


@case
def a_worker_that_changes_its_user_serves_its_parents_listener():
    if os.geteuid() != 0:
        raise Skip("only root's programs can change their user")
    p = embedded(*python(CHANGES_USER, AT), own=True)
    assert p.ok() == "answer of 65534 by wire 2", p.tail()


# In a network namespace with a link-local address.
LINK_LOCAL = ["unshare", "--net", "sh", "-c",
              'ip link set lo up && ip addr add fe80::1/64 dev lo nodad && exec "$@"', "-"]

# Prints what both ends of connections are called; ports are names, as each run has others.
NAMES = """
import socket
for listens, at, to in (("0.0.0.0", None, "0.0.0.0"), ("0.0.0.0", "127.0.0.2", "0.0.0.0"), ("::", None, "::"),
                        ("::", None, "::ffff:0.0.0.0"), ("fe80::1%lo", None, "fe80::1%lo"),
                        ("::", None, "fe80::1%lo"), ("fe80::1%lo", "fe80::1%lo", None)):
    l, c = (socket.socket(socket.AF_INET6 if ":" in listens else socket.AF_INET) for _ in range(2))
    def name(host, port):
        return socket.getaddrinfo(host, port, l.family, socket.SOCK_STREAM)[0][4]
    l.bind(name(listens, 0))
    l.listen()
    if at:
        c.bind(name(at, 0))
    own = l.getsockname()
    c.connect(name(to, own[1]) if to else own)
    s, peer = l.accept()
    mine = c.getsockname()
    told = own, mine, c.getpeername(), s.getsockname(), s.getpeername(), peer
    print([{own[1]: "server", mine[1]: "client"}.get(x, x) for name in told for x in name])
"""


@case
def ends_of_connections_have_the_kernels_names():
    need("unshare")
    here = Process([*LINK_LOCAL, "true"])
    if here.wait() != 0:
        raise Skip(f"no network namespace can be made: {here.stderr()}")
    kernel = Process([*LINK_LOCAL, *python(NAMES)]).ok().splitlines()
    mine = embedded(*python(NAMES), before=LINK_LOCAL).ok().splitlines()
    wrong = [f"{m}, the kernel says {k}" for m, k in zip(mine, kernel) if m != k]
    assert len(mine) == len(kernel) == 7 and not wrong, "\n".join(wrong)


# Asks for keepalive when the socket listens or is connected, then takes the way to the peer away.
KEEPS_ALIVE = f"""
import signal, socket, subprocess, sys
signal.alarm({PATIENCE})
l = socket.create_server(("127.0.0.1", 0))
def ask(s, who):
    if sys.argv[1] == who:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name in socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT:
            s.setsockopt(socket.IPPROTO_TCP, name, 1)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000)  # if a frame is on its way
ask(l, "listener")
c = socket.create_connection(l.getsockname())
ask(c, "connected")
s, _ = l.accept()
ask(s, "accepted")
subprocess.run(["ip", "link", "set", "lo", "down"], check=True)
try:
    (c if sys.argv[1] == "connected" else s).recv(1)
except OSError:
    print("told")
"""


@case
def keepalive_that_is_asked_for_later_finds_a_dead_peer():
    need("unshare")
    here = Process([*LINK_LOCAL, "true"])
    if here.wait() != 0:
        raise Skip(f"no network namespace can be made: {here.stderr()}")
    ends = [embedded(*python(KEEPS_ALIVE, who), own=True, before=LINK_LOCAL)
            for who in ("listener", "connected", "accepted")]
    for p in ends:
        assert p.ok() == "told", p.tail()


@case
def random_calls_on_sockets_give_what_the_kernels_give():
    walk(embedded, AT, SEEDS)


@case
def the_wire_is_chosen_by_program_and_socket():
    s, plain = embedded(*python(SERVE, AT)), embedded(*python(SERVE, AT), wire_of=None)

    def wires(at, *more, **how):
        return embedded(*python(SEND, AT, at, 1, 1_000_000, *more), **how).ok()
    assert wires(port_of(s)) == wires(port_of(s), 2, wire_of=None) == "wires 2 2"
    # with the wire plain, sockets are the kernel's as they are
    assert wires(port_of(plain), wire_of=None) == "wires 0 0"  # none was chosen
    assert wires(port_of(plain), wire_of="plain") == wires(port_of(plain), 1) == "wires 1 0"
    assert "kernel" in Process(python(SEND, AT, port_of(plain), 1, 1000)).ok()
    s.stop()
    plain.stop()


# ---- a peer in Python, over a socket of the kernel's ----

def dial(port, window=0):
    p = wire.Peer(port=port, addr=AT)
    p.hello(ird=1, ord_=1, priv=window_hello(0x123456, window, 8, 4096) if window else hello(8, 4096))
    b = Windows(p, 8, p.priv[4:], 0x123456, window) if window else Bytes(p, 8, p.priv[4:])
    b.put(CREDIT)
    return p, b


def ended(p):
    """The stream must end, perhaps behind a Terminate."""
    try:
        while True:
            p.get()
    except wire.Closed:
        pass


@case
def a_peer_of_its_own_connects():
    data = bytes(i % 253 for i in range(3 * RING))
    s = embedded(*python(SERVE, AT))
    for window in (0, 20000):
        p, b = dial(port_of(s), window)
        sent = 0
        while sent < len(data):
            wait_for(b, lambda b=b: b.credits >= 2 and (not window or b.room > 16000))
            if window and b.msn % 2:
                b.write(data[sent:sent + 16000])
                b.written(len(data[sent:sent + 16000]))
            else:
                b.put(DATA, data[sent:sent + 16000])
            sent += 16000
        wait_for(b, lambda b=b: b.credits >= 2)
        b.put(END)
        wait_for(b, lambda b=b: b.ended)
        assert b.came.decode().split() == [str(len(data)), hashlib.sha256(data).hexdigest(), "2"], b.came
        p.s.shutdown(socket.SHUT_WR)  # this end has closed first, so it sends its FIN first
        assert p.s.recv(1) == b"", "no FIN has come"
        p.s.close()
    s.stop()


@case
def a_peer_of_its_own_is_connected_to():
    with socket.create_server((AT, 0)) as l:
        p = embedded(*python(SEND, AT, l.getsockname()[1], 7, 900_000))
        peer = wire.Peer(sock=l.accept()[0])
        flags, rev, priv = peer.frame(wire.REQ)
        assert (flags & wire.R, rev) == (0, 2) and priv[:4] == bytes.fromhex("00010001"), (flags, rev, priv)
        peer.raw(wire.mpa_request(key=wire.REP, ird=1, ord_=1, priv=window_hello(0x654321, 20000, 8, 4096)))
        b = Windows(peer, 8, priv[4:], 0x654321, 20000)
        wait_for(b, lambda: b.ended)
        assert len(b.came) >= 900_000
        b.put(DATA, f"{len(b.came)} {hashlib.sha256(b.came).hexdigest()} 2".encode())
        b.put(END)
        assert p.ok() == "wires 2 2", p.tail()


@case
def what_breaks_a_rule_ends_the_connection_and_no_other():
    s = embedded(*python(SERVE, AT))
    port = port_of(s)
    bad = [
        lambda p, b: p.put(wire.tagged(wire.WRITE, 0x123400, 0, b"x")),
        lambda p, b: b.write(b"x", RING),  # behind the window
        lambda p, b: p.put(wire.read_req(1, (1, 0), 8, (b.their_stag, 0))),
        lambda p, b: b.written(RING + 1),  # more octets than there is room for
        lambda p, b: b.segments(b.head(9)),  # a kind that does not exist
        lambda p, b: p.put(wire.terminate(0, 0, 0)),
        lambda p, b: p.raw(wire.fpdu(wire.send(b.msn + 1, message(CREDIT)))[:-1] + b"x"),  # a bad CRC
    ]
    for i, breaks in enumerate(bad):
        p, b = dial(port, 20000)
        breaks(p, b)
        ended(p)
        until(lambda i=i: sum("ConnectionResetError" in x for x in list(s.out)) == i + 1,
              lambda i=i: f"rule {i}: {s.tail()}")
        p.s.close()
    # a Request without hello, one whose hello is invalid, and bytes that are no Request: no program learns of them
    for first in (wire.mpa_request(ird=1, ord_=1), wire.mpa_request(ird=1, ord_=1, priv=hello(1, 1)),
                  b"GET / HTTP/1.1\r\n\r\n" * 3):
        p = wire.Peer(port=port, addr=AT)
        p.raw(first)
        ended(p)
        p.s.close()
    assert sum("ConnectionResetError" in x for x in list(s.out)) == len(bad), s.tail()
    assert embedded(*python(SEND, AT, port, 5, 100_000)).ok() == "wires 2 2"
    s.stop()


@case
def rings_that_are_scribbled_over_harm_no_other_connection():
    s = embedded(*python(SERVE, AT))
    port = port_of(s)
    for at, value in ((TX_TAIL, 1 << 20), (TX_TAIL, -1), (RX_HEAD, 1), (FIN, RESET)):
        with Raw(control_socket(s)) as r, socket.socket() as c:
            r.join()
            c.connect((AT, port))
            status, m, fds = r.ask("IPC_SOCK_TAKE", addr(AT, port) + bytes(8), shows=[c.fileno()])
            assert status == 0 and len(fds) == 2, (status, fds)
            r.worker, r.bit = struct.unpack_from("<II", m, 8)
            r.mem = mmap.mmap(fds[1], SIZE)
            until(lambda r=r: r.word(STATE) & 1)
            r.put(at, value)
            r.bell()
            until(lambda r=r: r.word(STATE) & ENDED, "the connection has not ended")
        assert embedded(*python(SEND, AT, port, 5, 100_000)).ok() == "wires 2 2"
    # what is no TCP socket of the kernel's, a datagram socket, and a socket that neither listens nor connects
    with Raw(control_socket(s)) as r, socket.socket(type=socket.SOCK_DGRAM) as u, socket.socket() as c:
        r.join()
        for fd in (0, r.wake, u.fileno()):
            assert r.ask("IPC_SOCK_TAKE", bytes(32), shows=[fd])[0] != 0
        r.ask("IPC_SOCK_TAKE", bytes(32), shows=[c.fileno()])
        assert r.bind(AT)[0] != 0 and r.gram(AT)[0] != 0
    assert embedded(*python(SEND, AT, port, 5, 100_000)).ok() == "wires 2 2"
    s.stop()


@case
def a_client_gets_no_descriptor_of_the_serving_process_by_its_number():
    s = embedded(*python(SERVE, AT))
    p = embedded(*python(SEND, AT, port_of(s), 5, 20_000_000))
    with Raw(control_socket(s)) as r:
        with open(os.path.join(HERE, "..", "..", "lib", "ipc", "ipc.h"), encoding="utf-8") as f:
            version = int(re.search(r"IPC_VERSION\s+(\d+)", f.read()).group(1))
        for of in (version, version + 1):
            assert r.ask("IPC_HELLO", struct.pack("<II", of, 0) + bytes(24), [r.s.fileno()] * 2)[0] == errno.EOPNOTSUPP
        for joined in (False, True):
            if joined:
                r.join()
            for fd in range(3, 65):
                assert r.ask("IPC_CM_SOCKET", struct.pack("<IIII", 1, fd, 1, 0))[0] == errno.EOPNOTSUPP
    assert p.ok() == "wires 2 2", p.tail()
    s.stop()


# ---- ends ----

PATIENT = {"RNIC_SOCKETS_END": str(PATIENCE)}  # the time that closed sockets get at the end is not what is tested


def unacked(s):
    """Bytes that the socket's peer has not acknowledged."""
    return struct.unpack("i", fcntl.ioctl(s, termios.TIOCOUTQ, bytes(4)))[0]


@case
def bytes_go_out_after_the_program_has_ended():
    s = embedded(*python(SERVE, AT))
    for _ in range(10):
        p = embedded(*python("""
import os, socket, sys
c = socket.create_connection((sys.argv[1], int(sys.argv[2])))
c.sendall(bytes(200_000))
os._exit(0)
""", AT, port_of(s)), **PATIENT)
        p.ok()
    # the answer finds no reader: either end of it is right
    until(lambda: len(s.out) == 11, s.tail)
    s.stop()


@case
def a_killed_program_resets_what_it_has_not_read():
    with socket.create_server((AT, 0)) as l:
        p = embedded(*python("""
import socket, sys, time
c = socket.create_connection((sys.argv[1], int(sys.argv[2])))
print("connected", flush=True)
time.sleep(1000)
""", AT, l.getsockname()[1]))
        p.wait_line("connected")
        peer = wire.Peer(sock=l.accept()[0])
        _, _, priv = peer.frame(wire.REQ)
        peer.raw(wire.mpa_request(key=wire.REP, ird=1, ord_=1, priv=hello(8, 4096)))
        b = Bytes(peer, 8, priv[4:])
        b.get()
        for _ in range(9):
            b.put(DATA, b"unread")
        wait_for(b, lambda: b.kinds.count(CREDIT) == 2)  # the bytes have come
        server = serving(p)
        os.kill(int(Process(["pgrep", "-P", str(p.pid), "python3"]).ok()), signal.SIGKILL)
        ended(peer)
        p.wait()
        until(lambda: not os.path.exists(f"/proc/{server}"), "the process that serves has not ended")


@case
def programs_whose_serving_process_is_killed_get_errors():
    s = embedded(*python(SERVE, AT))
    at = port_of(s)
    text = """
import errno, select, socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
if sys.argv[3] == "poll":
    s.setblocking(False)
print("waits", flush=True)
if sys.argv[3] == "poll":
    select.select([s], [], [])
try:
    while True:
        if sys.argv[3] == "send":
            s.sendall(bytes(100000))
        else:
            s.recv(9)
except OSError as e:
    print(errno.errorcode[e.errno], flush=True)
"""
    for how in ("recv", "poll", "send"):
        p = embedded(*python(text, AT, at, how))
        p.wait_line("waits")
        os.kill(serving(p), signal.SIGKILL)
        p.wait()
        assert p.out[-1] == "ECONNRESET", p.tail()
    s.stop()


@case
def nothing_is_left_of_a_program():
    before = set(os.listdir("/tmp"))
    p = embedded(*python("import socket; l = socket.create_server(('127.0.0.1', 0)); print('listening', 1, flush=True);"
                         " l.accept()"))
    port_of(p)
    server = serving(p)
    assert server is not None
    p.p.terminate()
    p.wait()
    assert not os.path.exists(f"/proc/{server}")
    assert not [f for f in set(os.listdir("/tmp")) - before if f.startswith("rnicrun-")]


@case
def many_connections_at_once():
    p = embedded(*python("""
import selectors, socket, sys
N = 300
l = socket.create_server((sys.argv[1], 0), backlog=N)
ends = []
for i in range(N):
    c = socket.create_connection(l.getsockname())
    c.sendall(i.to_bytes(4, "big") * 250)
    ends.append((c, l.accept()[0]))
for i, (c, s) in enumerate(ends):
    got = b""
    while len(got) < 1000:
        got += s.recv(1000)
    assert got == i.to_bytes(4, "big") * 250
    s.sendall(got[::-1])
for i, (c, s) in enumerate(ends):
    s.close()
    got = b""
    while b := c.recv(1000):
        got += b
    assert got == (i.to_bytes(4, "big") * 250)[::-1]
print("all")
""", AT))
    assert p.ok() == "all", p.tail()


@case
def iperf3_and_back():
    need("iperf3")
    for more in ([], ["-P", "4"], ["-R"]):
        s = embedded("iperf3", "-s", "-1", "-B", AT, "-p", "5391", "--forceflush")
        s.wait_line("listening")
        embedded("iperf3", "-c", AT, "-p", "5391", "-n", "20M", "-J", *more).ok()
        s.ok()


@case
def web_pages_by_pythons_server_and_curl():
    need("curl")
    w = embedded(sys.executable, "-m", "http.server", "-b", AT, "-d", HERE, "5393")
    until(lambda: Process(["ss", "-Hltn", "sport", "=", "5393"]).ok(), w.tail)
    with open(TABLE, "rb") as f:
        want = hashlib.sha256(f.read()).hexdigest()
    got = embedded("sh", "-c", f"curl -sS http://{AT}:5393/sock_table.py | sha256sum").ok().split()[0]
    assert got == want
    w.stop()


@case
def calls_beyond_the_limit_of_descriptors_fail_alone():
    p = embedded(*python("""
import errno, socket, sys, time
def until_refused(make, socks):
    while True:
        s = socket.socket()
        try:
            make(s)
        except OSError as e:
            return s, errno.errorcode[e.errno]
        socks.append(s)
def again(call, *args):  # closed sockets give back what they had a little later
    while True:
        try:
            return call(*args)
        except OSError as e:
            if e.errno != errno.ENOBUFS:
                raise
            time.sleep(0.01)
names = {}
def listen(s):
    s.bind((sys.argv[1], 0))
    names[s] = s.getsockname()
    s.listen()
def echo(c, s):
    c.sendall(b"x")
    return s.recv(1) == b"x"
l = socket.create_server((sys.argv[1], 0), backlog=64)
c = socket.create_connection(l.getsockname())
s = l.accept()[0]
many = []
late, why = until_refused(lambda s: s.connect(l.getsockname()), many)
print("connect", why)
try:
    while True:
        many.append(l.accept()[0])
except OSError as e:
    print("accept", errno.errorcode[e.errno])
print("first", echo(c, s))
for x in many:
    x.close()
again(late.connect, l.getsockname())
late.sendall(b"late")
while (b := (end := again(l.accept)[0]).recv(4)) != b"late":
    assert b == b"", b
print("late", echo(end, late))
end.close()
late.close()
many = []
late, why = until_refused(listen, many)
print("listen", why)
plain = socket.socket()
plain.setsockopt(0x524e, 1, 1)
try:
    plain.connect(late.getsockname())
except OSError as e:
    print("not listening", errno.errorcode[e.errno])
plain.close()
other = socket.socket()
try:
    other.bind(names[late])
except OSError as e:
    print("bound", errno.errorcode[e.errno])
other.close()
for x in many:
    x.close()
again(late.listen)
print("name", late.getsockname() == names[late])
c2 = again(socket.create_connection, late.getsockname())
print("late", echo(again(late.accept)[0], c2), "first", echo(c, s))
""", AT), before=("prlimit", "--nofile=64"))
    assert p.ok().split("\n") == ["connect ENOBUFS", "accept ENOBUFS", "first True", "late True", "listen ENOBUFS",
                                  "not listening ECONNREFUSED", "bound EADDRINUSE", "name True",
                                  "late True first True"], p.tail()
    assert not p.stderr(), p.stderr()


@case
def a_program_that_has_ended_waits_for_no_peer_that_goes_on():
    # the peer's own end does not come, so TCP's FIN must; the process that sends it waits for the peer's FIN
    with socket.create_server((AT, 0)) as l:
        p = embedded(*python(BRIEF, AT, l.getsockname()[1]), **PATIENT)
        peer = wire.Peer(sock=l.accept()[0])
        _, _, priv = peer.frame(wire.REQ)
        peer.raw(wire.mpa_request(key=wire.REP, ird=1, ord_=1, priv=hello(8, 4096)))
        b = Bytes(peer, 8, priv[4:])
        b.get()
        b.put(CREDIT)
        wait_for(b, lambda: b.ended)
        assert b.came == b"brief"
        ended(peer)
        b.put(END)
        errors = []
        until(lambda: errors.append(peer.s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)) or any(errors)
              or not unacked(peer.s))
        assert not any(errors), "the process has not waited for its peer's FIN"
        peer.s.close()
        p.ok()


@case
def what_a_program_has_sent_before_its_end_is_read_later():
    s = embedded(*python("""
import socket, sys
l = socket.create_server((sys.argv[1], 0))
print("listening", l.getsockname()[1], flush=True)
c = l.accept()[0]
print("accepted", flush=True)
sys.stdin.readline()
print(c.recv(5, socket.MSG_WAITALL), c.recv(1), flush=True)
sys.stdin.readline()
""", AT))
    p = embedded(*python(BRIEF, AT, port_of(s)), **PATIENT)
    s.wait_line("accepted")
    p.ok()
    s.p.stdin.write("read\n")
    s.p.stdin.flush()
    s.wait_line("b'brief' b''")
    s.p.stdin.write("end\n")
    s.p.stdin.flush()
    s.ok()


main()
