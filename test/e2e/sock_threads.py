# SPDX-License-Identifier: BSD-3-Clause
"""
Cases of sock_table.py with several threads at one connection: what a thread may do, and what a child of fork() may do,
while another thread waits in recv() or send().
"""
import itertools
import os
import select
import signal
import socket
import threading

from sock_case import RDHUP, events, listener, pair, plain, read_all, wait
from sock_twice import IN, LIMIT, OUT, case, code, epoll_of

FUTEX = ("98", "202")  # numbers of futex(2): of 64-bit Arm and of x86-64
LATER = socket.MSG_DONTWAIT


class Waits:
    """A thread that makes a call and waits in it. result(): the call's result, or the name of its errno."""

    def __init__(self, call, *args):
        self.got = []
        self.thread = threading.Thread(target=lambda: self.got.append(code(call, *args)), daemon=True)
        self.thread.start()
        while not self.sleeps():
            select.select([], [], [], 0.001)

    def sleeps(self):
        """Whether the thread sleeps in a system call. One that waits for a lock, or for Python, sleeps in futex(2)."""
        with open(f"/proc/self/task/{self.thread.native_id}/syscall", encoding="ascii") as f:
            number = f.read().split()[0]
        return number not in ("running", "-1") + FUTEX

    def result(self):
        self.thread.join()
        got = self.got[0]
        return got.decode() if isinstance(got, bytes) else got


def filled(s):
    """Sends until the peer's window and both buffers are full, so that the next send waits."""
    n = 0
    for _ in range(100_000):
        got = code(s.send, bytes(65536), LATER)
        if got == "EAGAIN" and not events(s, OUT, 10):
            return n
        n += got if got != "EAGAIN" else 0
    return "never"


def in_child(call, *args):
    """Runs the call in a child of fork(): 0 if it returned, the number of SIGALRM if it hung."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(LIMIT // 2)
        call(*args)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


@case
def a_thread_that_waits_for_bytes_stops_no_other_thread():
    c, s = pair()
    t = Waits(s.recv, 1)
    e = epoll_of(s, select.EPOLLIN)
    out = [events(s), [len(x) for x in select.select([s], [s], [], 0)], len(e.poll(0)), code(s.recv, 9, LATER),
           code(s.recv, 9, LATER | socket.MSG_PEEK), code(s.setsockopt, socket.SOL_SOCKET, socket.SO_LINGER, bytes(8)),
           s.send(b"abc")]
    c.sendall(b"x")
    out += [t.result(), c.recv(3, socket.MSG_WAITALL).decode()]
    c.sendall(b"y")
    return out + [len(e.poll(LIMIT)), wait(s, IN), s.recv(9).decode()]


@case
def a_thread_that_waits_for_all_bytes_stops_no_other_thread():
    c, s = pair()
    c.sendall(b"123")
    wait(s, IN)
    peek = Waits(s.recv, 8, socket.MSG_WAITALL | socket.MSG_PEEK)
    out = [events(s), code(s.recv, 9, LATER | socket.MSG_PEEK).decode()]
    c.sendall(b"45678")
    out.append(peek.result())
    s.recv(8)
    c.sendall(b"123")
    wait(s, IN)
    t = Waits(s.recv, 8, socket.MSG_WAITALL)
    wait(s, IN, gone=True)
    out += [events(s), code(s.recv, 9, LATER)]
    c.sendall(b"45678")
    return out + [t.result()]


@case
def two_threads_wait_for_bytes_of_one_connection():
    c, s = pair()
    out = set()
    for _ in range(50):
        both = [Waits(s.recv, 1), Waits(s.recv, 1)]
        c.sendall(b"a")
        c.sendall(b"b")
        out.add("".join(sorted(t.result() for t in both)))
    return sorted(out)


@case
def a_thread_that_waits_for_room_stops_no_other_thread():
    c, s = pair()
    out = [isinstance(filled(c), int)]
    t = Waits(c.sendall, bytes(1_000_000))
    e = epoll_of(c, select.EPOLLIN)
    out += [events(c) & IN, len(e.poll(0)), code(c.recv, 9, LATER), code(c.send, b"x", LATER),
            code(c.setsockopt, socket.SOL_SOCKET, socket.SO_LINGER, bytes(8))]
    s.sendall(b"y")
    out += [wait(c, IN) & IN, c.recv(9).decode()]
    n = threading.Thread(target=read_all, args=(s,))
    n.start()
    out.append(t.result())
    c.close()
    n.join()
    return out


@case
def the_end_of_writing_ends_a_thread_that_waits_for_room():
    out = []
    for how in (socket.SHUT_WR, socket.SHUT_RDWR):
        c, s = pair()
        full = filled(c)
        t = Waits(c.sendall, bytes(1_000_000))
        e = epoll_of(c, select.EPOLLOUT)
        out += [code(c.shutdown, how), t.result(), e.poll(LIMIT)[0][1] & select.EPOLLOUT, events(c) & OUT]
        got = read_all(s)
        out += [len(got) >= full, code(s.recv, 1).decode()]
    return out


@case
def the_end_of_reading_ends_threads_that_wait_for_bytes():
    out = []
    for how in (socket.SHUT_RD, socket.SHUT_RDWR):
        c, s = pair()
        both = [Waits(s.recv, 1), Waits(s.recv, 9, socket.MSG_WAITALL)]
        out += [code(s.shutdown, how)] + [t.result() for t in both]
        c.close()
    return out


@case
def a_thread_receives_what_comes_after_another_has_closed_the_number():
    """The number is another socket's then, whose bytes stay there."""
    out = []
    for watched in (False, True):
        c, s = pair()
        if watched:
            events(s)
        fd = s.detach()
        a, b = socket.socketpair()
        t = Waits(os.read, fd, 10)
        os.close(fd)
        os.dup2(a.fileno(), fd)
        b.sendall(b"other")
        c.sendall(b"x")
        out += [t.result(), os.read(fd, 10).decode()]
        os.close(fd)
    return out


def looks(s, call, other):
    """
    Lets a thread call on a duplicate of s. While it looks whether it can go on, the number becomes the socket `other`.
    Returns the thread and the number.
    """
    fd, begun, got = os.dup(s.fileno()), [], []

    def run():
        begun.append(1)
        got.append(code(call, fd))
    t = threading.Thread(target=run, daemon=True)
    t.got = got
    t.start()
    while not begun:
        pass
    os.close(fd)
    os.dup2(other.fileno(), fd)
    return t, fd


@case
def another_socket_that_gets_the_number_of_a_call_in_progress_keeps_its_bytes():
    out = set()
    c, s = pair()
    rounds = itertools.count()
    while next(rounds) < 100 or not out:  # at least one call must begin in time
        a, b = socket.socketpair()
        b.send(b"other")
        t, fd = looks(s, lambda fd: os.read(fd, 1), a)
        select.select([], [], [], 0.002)
        c.send(b"x")
        t.join(LIMIT // 2)
        # else the call began too late: with the number's new socket, or when the number was none
        if t.got not in ([b"o"], ["EBADF"]):
            out.add((str(t.got), code(a.recv, 9, LATER)))
        os.close(fd)
    return sorted(out)


@case
def nothing_is_sent_into_another_socket_that_gets_the_number_of_a_call_in_progress():
    out, threads = set(), []
    c, s = pair()
    filled(c)
    for _ in range(100):
        a, b = socket.socketpair()
        t, fd = looks(c, lambda fd: os.write(fd, b"x"), a)
        threads.append((t, fd))
        select.select([], [], [], 0.002)
        out.add(b"\0" in b.recv(10_000, LATER) if events(b, IN) else False)
    s.close()
    for t, fd in threads:
        t.join(LIMIT // 2)
        os.close(fd)
    return sorted(out)


@case
def a_thread_accepts_after_another_has_closed_the_number():
    out = []
    with listener() as l:
        second = l.dup()
        fd = second.fileno()
        a, b = socket.socketpair()
        t = Waits(lambda: second._accept()[0] >= 0)  # pylint: disable=protected-access
        os.close(fd)
        os.dup2(a.fileno(), fd)
        b.sendall(b"other")
        c = socket.create_connection(l.getsockname())
        out += [t.result(), os.read(fd, 10).decode()]
        second.close()
        c.close()
    return out


@case
def a_child_uses_a_connection_whose_parent_waits_in_other_threads():
    c, s = pair()
    out = [isinstance(filled(c), int)]
    sends, receives = Waits(c.sendall, bytes(1_000_000)), Waits(c.recv, 1)
    out += [in_child(events, c), in_child(code, c.send, b"x", LATER), in_child(code, c.recv, 1, LATER),
            in_child(c.shutdown, socket.SHUT_WR), sends.result()]
    s.sendall(b"y")
    return out + [receives.result()]


@case
def a_child_closes_a_listener_at_which_a_thread_of_its_parent_waits():
    r, w = os.pipe()
    with socket.socket() as l:
        l.bind(("0.0.0.0", 0))
        l.listen(8)
        at = "127.0.0.1", l.getsockname()[1]
        t = Waits(lambda: l.accept()[0].close())
        pid = os.fork()
        if pid == 0:
            l.close()
            os.write(w, b"closed")
            signal.pause()
        os.read(r, 9)
        plain(at)
        out = [t.result()]
    out.append(code(plain, at))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return out


@case
def children_look_at_a_connection_that_threads_of_the_parent_use_without_a_pause():
    c, s = pair()
    stop = []

    def sends():
        while not stop:
            c.send(bytes(200_000))
        c.shutdown(socket.SHUT_WR)

    def receives():
        while s.recv(200_000):
            pass

    threads = [threading.Thread(target=f) for f in (sends, receives)]
    for t in threads:
        t.start()
    linger = socket.SOL_SOCKET, socket.SO_LINGER, bytes(8)
    out = {in_child(lambda: [events(c), events(s), c.setsockopt(*linger), s.setsockopt(*linger)]) for _ in range(20)}
    stop.append(1)
    for t in threads:
        t.join()
    return sorted(out)
