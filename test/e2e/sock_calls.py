# SPDX-License-Identifier: BSD-3-Clause
"""
Cases of sock_table.py: signals during a call, time limits of a whole call, sockets passed over a UNIX socket, a port
that a client is bound to, splice and its kin, and what ioctl and getsockopt say.
"""
import array
import ctypes
import errno
import fcntl
import os
import signal
import socket
import struct
import termios
import threading

from sock_case import events, listener, pair, wait
from sock_twice import ADDR, IN, LIMIT, OUT, case, code

LIBC = ctypes.CDLL(None, use_errno=True)
RWF_NOWAIT, SPLICE_F_NONBLOCK = 8, 2
SIOCOUTQ, SIOCGIFADDR = 0x5411, 0x8915
MSG_ERRQUEUE = 0x2000


def call(name, *args):
    """A function of libc: its result, or the name of its errno. Python's own calls go on after every signal."""
    rc = getattr(LIBC, name)(*args)
    return errno.errorcode[ctypes.get_errno()] if rc < 0 else rc


def interrupted(restarts, name, *args, ends=False, then=lambda: None):
    """Calls a function of libc, and interrupts this thread in the call: until the call ends, or else some times, and
    then does what ends the wait."""
    old = signal.signal(signal.SIGUSR1, lambda *_: None)
    main = threading.get_ident()
    path = f"/proc/self/task/{threading.get_native_id()}/syscall"
    went = threading.Event()

    def sleeps():
        with open(path, encoding="ascii") as f:
            return not f.read().startswith("running")

    def signals():
        n = 0
        while not went.wait(0.02) and (ends or n < 3):
            if sleeps():
                signal.pthread_kill(main, signal.SIGUSR1)
                n += 1
        then()

    for sig in (signal.SIGUSR1, signal.SIGINT):
        signal.siginterrupt(sig, not restarts)
    t = threading.Thread(target=signals)
    t.start()
    rc = call(name, *args)
    went.set()
    t.join()
    signal.signal(signal.SIGUSR1, old)
    return rc


def read_until_quiet(s):
    while events(s, IN, 100):
        s.recv(1 << 20)


@case
def a_handler_that_restarts_calls_ends_none():
    c, s = pair()
    b = ctypes.create_string_buffer(9)
    out = [interrupted(True, "recv", s.fileno(), b, 9, 0, then=lambda: c.sendall(b"abc")), b.value.decode()]
    with listener() as l:
        k = socket.socket()
        fd = interrupted(True, "accept", l.fileno(), None, None, then=lambda: k.connect(l.getsockname()))
        out.append(isinstance(fd, int) and os.close(fd))
    with socket.socket() as l:
        l.bind(("", 0))
        l.listen()
        k = socket.socket()
        fd = interrupted(True, "accept", l.fileno(), None, None,
                         then=lambda: k.connect((ADDR, l.getsockname()[1])))
        out.append(isinstance(fd, int) and os.close(fd))
    while code(c.send, bytes(65536), socket.MSG_DONTWAIT) != "EAGAIN" or events(c, OUT, 20):
        pass
    out.append(interrupted(True, "send", c.fileno(), b"x", 1, 0, then=lambda: read_until_quiet(s)))
    return out


@case
def a_handler_that_does_not_restart_calls_ends_a_wait():
    c, s = pair()
    b = ctypes.create_string_buffer(9)
    out = [interrupted(False, "recv", s.fileno(), b, 9, 0, ends=True)]
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", LIMIT, 0))
    # with a time limit the call is never restarted
    out.append(interrupted(True, "recv", s.fileno(), b, 9, 0, ends=True))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, bytes(16))
    c.sendall(b"a")
    # nor is a call that has moved bytes already: it returns their number
    return out + [interrupted(True, "recv", s.fileno(), b, 9, socket.MSG_WAITALL, ends=True)]


@case
def a_time_limit_is_one_of_the_whole_call():
    c, s = pair()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 500_000))
    over = threading.Event()

    def slowly():
        for _ in range(60):
            c.sendall(b"x")
            if over.wait(0.1):
                break

    t = threading.Thread(target=slowly)
    t.start()
    n = len(s.recv(60, socket.MSG_WAITALL))
    over.set()
    t.join()
    return 0 < n < 60


@case
def sockets_that_a_running_process_receives():
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        signal.alarm(LIMIT)
        for _ in range(2):
            _, fds, _, _ = socket.recv_fds(theirs, 1, 2)
            s, l = socket.socket(fileno=fds[0]), socket.socket(fileno=fds[1])
            a, _ = l.accept()
            for x in (s, a):
                x.sendall(x.recv(9)[::-1])
                x.close()
            l.close()
        os._exit(0)
    out = []
    for _ in range(2):
        c, s = pair()
        with listener() as l:
            at = l.getsockname()
            c.sendall(b"123")
            socket.send_fds(ours, [b"x"], [s.fileno(), l.fileno()])
        s.close()
        with socket.create_connection(at) as k:
            k.sendall(b"abc")
            out += [c.recv(9).decode(), k.recv(9).decode(), c.recv(9).decode()]
    return out + [os.waitpid(pid, 0)[1]]


@case
def a_client_keeps_the_port_that_it_was_bound_to():
    out = []
    with listener() as l:
        for _ in range(3):
            c = socket.socket()
            c.bind(("", 0))
            port = c.getsockname()[1]
            c.connect(l.getsockname())
            s, at = l.accept()
            out.append([c.getsockname()[1] == port, at[1] == port, s.getpeername() == at])
            c.close()
            s.close()
    return out


@case
def two_clients_that_are_bound_to_one_port_connect():
    """The second one may have another port at its server."""
    out, both = [], []
    with listener() as one, listener() as two:
        at = ("", 0)
        for l in (one, two):
            c = socket.socket()
            c.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            c.bind(at)
            at = c.getsockname()
            out.append(code(c.connect, l.getsockname()))
            c.sendall(b"abc")
            s, peer = l.accept()
            out += [s.recv(9).decode(), peer == c.getsockname()]
            both += [c, s]
    for x in both:
        x.close()
    return out


@case
def splice_between_sockets_and_pipes():
    c, s = pair()
    r, w = os.pipe()
    data = os.urandom(50_000)
    threading.Thread(target=lambda: (os.write(w, data), os.close(w))).start()
    n = 0
    while k := os.splice(r, c.fileno(), 65536):
        n += k
    out = [n == len(data), s.recv(n, socket.MSG_WAITALL) == data]
    r, w = os.pipe()
    s.sendall(data)
    got = b""
    while len(got) < len(data):
        k = os.splice(c.fileno(), w, 65536)
        got += os.read(r, k)
    out.append(got == data)
    s.sendall(b"rest")
    wait(c, IN)
    out += [code(os.splice, c.fileno(), w, 2), os.read(r, 9).decode(), c.recv(9).decode()]
    out.append(code(lambda: os.splice(r, c.fileno(), 9, flags=SPLICE_F_NONBLOCK)))
    c.setblocking(False)
    out += [code(os.splice, c.fileno(), w, 9), code(os.splice, c.fileno(), s.fileno(), 9),
            code(os.splice, c.fileno(), w, 9, 0), code(os.splice, c.fileno(), w, 0)]
    s.close()
    wait(c, IN)
    return out + [os.splice(c.fileno(), w, 9)]


@case
def splice_into_a_full_pipe_loses_no_byte():
    c, s = pair()
    r, w = os.pipe()
    os.set_blocking(w, False)
    fill = 0
    while (k := code(os.write, w, bytes(4096))) != "EAGAIN":
        fill += k
    data = os.urandom(10_000)
    c.sendall(data)
    s.recv(len(data), socket.MSG_PEEK | socket.MSG_WAITALL)
    out = [code(os.splice, s.fileno(), w, len(data))]
    while fill > 0:
        fill -= len(os.read(r, fill))
    got = b""
    while len(got) < len(data):
        os.splice(s.fileno(), w, len(data))
        got += os.read(r, 65536)
    return out + [got == data]


@case
def reads_and_writes_with_flags():
    c, s = pair()
    b = bytearray(9)
    out = [code(os.preadv, s.fileno(), [b], -1, RWF_NOWAIT), code(os.pwritev, c.fileno(), [b"ab", b"c"], -1, 0)]
    wait(s, IN)
    return out + [code(os.preadv, s.fileno(), [b], -1, RWF_NOWAIT), bytes(b[:3]).decode(),
                  code(os.preadv, s.fileno(), [b], 0, 0), code(os.pwritev, c.fileno(), [b"x"], 5, 0)]


@case
def the_queue_of_errors_has_no_bytes_of_the_stream():
    c, s = pair()
    c.sendall(b"abc")
    wait(s, IN)
    return [code(s.recv, 9, MSG_ERRQUEUE), code(s.recv, 9, MSG_ERRQUEUE | socket.MSG_PEEK), s.recv(9).decode()]


@case
def a_send_that_connects():
    with listener() as l:
        c = socket.socket()
        out = [c.sendto(b"abc", socket.MSG_FASTOPEN, l.getsockname())]
        s, _ = l.accept()
        out += [s.recv(9).decode(), code(c.sendto, b"x", socket.MSG_FASTOPEN, l.getsockname())]
        k = socket.socket()
        out += [k.sendmsg([b"d", b"e"], [], socket.MSG_FASTOPEN, l.getsockname()), l.accept()[0].recv(9).decode()]
        return out


def outq(s):
    b = array.array("i", [-1])
    fcntl.ioctl(s, SIOCOUTQ, b)
    return b[0]


@case
def bytes_that_the_peer_has_not_acknowledged():
    c, s = pair()
    out = [outq(c)]
    c.setblocking(False)
    while not (code(c.send, bytes(65536)) == "EAGAIN" and not events(c, OUT, 20)):
        pass
    out.append(outq(c) > 0)
    n = 0
    while (k := code(s.recv, 1 << 20, socket.MSG_DONTWAIT)) != "EAGAIN" or outq(c) > 0:
        n += len(k) if k != "EAGAIN" else 0
    return out + [outq(c), n > 0, code(fcntl.ioctl, listener(), SIOCOUTQ, bytes(4))]


@case
def the_address_of_an_interface():
    c, _ = pair()
    got = fcntl.ioctl(c, SIOCGIFADDR, struct.pack("16s16x", b"lo"))
    return socket.inet_ntoa(got[20:24])


SO, TCP, IP = socket.SOL_SOCKET, socket.IPPROTO_TCP, socket.IPPROTO_IP
OPTIONS = ((SO, socket.SO_KEEPALIVE, 1), (SO, socket.SO_OOBINLINE, 1), (SO, socket.SO_PRIORITY, 3),
           (SO, socket.SO_RCVLOWAT, 1), (TCP, socket.TCP_NODELAY, 1), (TCP, socket.TCP_CORK, 1),
           (TCP, socket.TCP_KEEPIDLE, 77), (TCP, socket.TCP_KEEPIDLE, 0), (TCP, socket.TCP_KEEPINTVL, 5),
           (TCP, socket.TCP_KEEPCNT, 300), (TCP, socket.TCP_USER_TIMEOUT, 9000), (TCP, 99, 1), (IP, socket.IP_TOS, 16),
           (IP, socket.IP_TTL, 300), (IP, socket.IP_TTL, 9), (200, 1, 1))


def option(s, level, name):
    return code(s.getsockopt, level, name)


@case
def options_have_the_values_that_were_set():
    c, s = pair()
    out = []
    for x in (c, s):
        out += [[option(x, level, name), code(x.setsockopt, level, name, value), option(x, level, name)]
                for level, name, value in OPTIONS]
    return out


@case
def a_connection_has_the_options_of_its_listener():
    out = []
    for at in (ADDR, ""):
        with socket.socket() as l:
            l.setsockopt(SO, socket.SO_KEEPALIVE, 1)
            l.bind((at, 0))
            l.setsockopt(TCP, socket.TCP_NODELAY, 1)
            l.listen()
            l.setsockopt(TCP, socket.TCP_KEEPIDLE, 77)
            c = socket.create_connection((ADDR, l.getsockname()[1]))
            s, _ = l.accept()
            out += [[option(x, SO, socket.SO_KEEPALIVE), option(x, TCP, socket.TCP_NODELAY),
                     option(x, TCP, socket.TCP_KEEPIDLE)] for x in (s, c)]
            s.close()
            c.close()
    return out


@case
def bytes_to_read_are_told():
    c, s = pair()
    b = array.array("i", [-1])
    c.sendall(b"12345")
    wait(s, IN)
    fcntl.ioctl(s, termios.FIONREAD, b)
    return b[0]
