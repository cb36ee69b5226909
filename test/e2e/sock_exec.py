# SPDX-License-Identifier: BSD-3-Clause
"""Rows of sock_table.py: sockets that a program inherits by exec, and descriptors that children of vfork change."""
import contextlib
import ctypes
import os
import select
import socket
import struct
import subprocess
import sys
import threading

from sock_case import events, listener, pair, read_all
from sock_twice import ADDR, case, code, epoll_of

# The program that inherits the socket: argv[1] is the descriptor, argv[2] says what to do with it.
NEXT = """
import select, socket, sys
fd, what = int(sys.argv[1]), sys.argv[2]
s = socket.socket(fileno=fd)
if what == "echo":
    while b := s.recv(65536):
        s.sendall(b)
    s.shutdown(socket.SHUT_WR)
elif what == "say":
    peer = s.getpeername() if s.type == socket.SOCK_STREAM else ""
    options = [s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, 16)[:8],
               s.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)]
    at = s.getsockname()[0] == sys.argv[3]
    s.sendall(repr([s.family.name, s.type.name, at, bool(peer), options]).encode())
elif what == "accept":
    for _ in range(int(sys.argv[3])):
        c, _ = s.accept()
        c.sendall(b"next")
        c.close()
elif what == "datagrams":
    for _ in range(int(sys.argv[3])):
        select.select([s], [], [])
        b, who = s.recvfrom(100)
        s.sendto(b"answer to " + b, who)
"""

# The program that inherits an epoll set, argv[1], and the set's members, the other arguments. For each line of input it
# waits for an event, receives the member's bytes or accepts its connection, and prints the member and the event. At the
# end it changes the mask of the first member, and removes all members from the set.
WAITS = """
import select, socket, sys
e = select.epoll.fromfd(int(sys.argv[1]))
fds = list(map(int, sys.argv[2:]))
m = {fd: socket.socket(fileno=fd) for fd in fds}
print("ready", flush=True)
for line in sys.stdin:
    fd, what = e.poll(60)[0]
    if m[fd].getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        m[fd].accept()[0].close()
    else:
        m[fd].recv(100)
    print(fds.index(fd), what, e.poll(0), flush=True)
e.modify(fds[0], select.EPOLLOUT)
for _ in range(6000):  # until all three are ready: a connection may take a while to reach its listener
    ready = e.poll(0.01)
    if len(ready) == 3:
        break
print(sorted(what for _, what in ready), flush=True)
for fd in fds:
    e.unregister(fd)
print(e.poll(0), flush=True)
"""

# Prints the wire of each socket, or the error that the kernel has for the option.
WIRES = """
import socket, sys
out = []
for fd in sys.argv[1:]:
    try:
        out.append(socket.socket(fileno=int(fd)).getsockopt(0x524e, 1))
    except OSError:
        out.append(None)
print(out)
"""


def next_program(s, *what, **how):
    """Starts another program with this socket by subprocess, which may use fork or vfork."""
    return subprocess.Popen([sys.executable, "-c", NEXT, str(s.fileno()), *map(str, what)],
                            pass_fds=[s.fileno()], **how)


def execs(s, *what):
    """Starts another program with this socket by fork and exec."""
    pid = os.fork()
    if pid == 0:
        s.set_inheritable(True)
        os.execv(sys.executable, [sys.executable, "-c", NEXT, str(s.fileno()), *map(str, what)])
    return pid


@case
def the_next_program_goes_on_with_a_connection():
    c, s = pair()
    data = os.urandom(500_000)
    c.sendall(data[:1000])
    pid = execs(s, "echo")
    s.close()
    c.sendall(data[1000:100_000])
    c.shutdown(socket.SHUT_WR)
    return [read_all(c) == data[:100_000], os.waitpid(pid, 0)[1]]


@case
def the_next_program_knows_what_was_set_of_a_connection():
    c, s = pair()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 7, 0))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3))
    p = next_program(s, "say", ADDR)
    s.close()
    return [read_all(c).decode(), p.wait()]


@case
def both_programs_use_a_connection():
    c, s = pair()
    p = next_program(s, "say", ADDR)
    first = c.recv(1000).decode()
    p.wait()
    s.sendall(b" and the first one")
    s.close()
    return first + read_all(c).decode()


@case
def the_next_program_has_a_connection_as_its_input_and_output():
    c, s = pair()
    p = subprocess.Popen(["cat"], stdin=s, stdout=s)
    s.close()
    c.sendall(b"through cat")
    c.shutdown(socket.SHUT_WR)
    return [read_all(c).decode(), p.wait()]


@case
def a_shell_and_its_programs_have_a_connection():
    c, s = pair()
    p = subprocess.Popen("read a; echo got $a; seq 3 | sed s/^/n/; exec cat", shell=True,
                         stdin=s, stdout=s)
    s.close()
    c.sendall(b"word\nthe rest")
    c.shutdown(socket.SHUT_WR)
    got = read_all(c).decode().split("\n")
    return [got, p.wait()]


@case
def programs_that_each_read_a_little_do_not_stop_a_connection():
    """None of them reads as much as a program reads before it tells rnicd."""
    c, s = pair()
    n, each = 20, 60_000
    t = threading.Thread(target=c.sendall, args=(bytes(n * each),))
    t.start()
    dd = ["dd", f"bs={each}", "count=1", "iflag=fullblock", "status=none"]
    got = [len(subprocess.run(dd, stdin=s, stdout=subprocess.PIPE, check=True).stdout) for _ in range(n)]
    t.join()
    return got


@case
def os_posix_spawn_hands_a_connection_on():
    c, s = pair()
    s.set_inheritable(True)
    argv = [sys.executable, "-c", NEXT, str(s.fileno()), "echo"]
    pid = os.posix_spawn(sys.executable, argv, os.environ)
    s.close()
    c.sendall(b"spawned")
    c.shutdown(socket.SHUT_WR)
    return [read_all(c).decode(), os.waitpid(pid, 0)[1]]


@case
def what_closes_on_exec_is_closed():
    c, s = pair()
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.set_inheritable(r, True)
        os.dup2(r, 0)
        c.close()
        os.execvp("cat", ["cat"])
    os.close(r)
    s.close()
    return [read_all(c).decode(), os.close(w), os.waitpid(pid, 0)[1]]


@case
def an_exec_that_fails_leaves_a_connection_as_it_was():
    c, s = pair()
    c.sendall(b"before")
    pid = os.fork()
    if pid == 0:
        s.set_inheritable(True)
        out = [code(os.execve, "/nonexistent", ["x"], {}), code(os.execve, "/etc/passwd", ["x"], {}),
               code(os.execv, "/", ["x"])]
        s.sendall(repr(out).encode() + s.recv(6))
        os._exit(0)
    s.close()
    return [read_all(c).decode(), os.waitpid(pid, 0)[1]]


@case
def the_next_program_listens_on():
    out = []
    with listener() as l:
        at = l.getsockname()
        p = next_program(l, "accept", 2)
        for _ in range(2):
            with socket.create_connection(at) as c:
                out.append(read_all(c).decode())
    return out + [p.wait(), code(socket.create_connection, at)]


@case
def the_next_program_listens_on_at_all_addresses():
    out = []
    with socket.socket() as l:
        l.bind(("0.0.0.0", 0))
        l.listen(8)
        at = l.getsockname()[1]
        p = next_program(l, "accept", 4)
    for to in (ADDR, "127.0.0.1", ADDR, "127.0.0.1"):
        with socket.create_connection((to, at)) as c:
            out.append(read_all(c).decode())
    return out + [p.wait(), code(socket.create_connection, ("127.0.0.1", at))]


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("0.0.0.0", 0))
        return s.getsockname()[1]


@case
def the_next_program_has_a_socket_of_datagrams():
    out = []
    for bound in (ADDR, "0.0.0.0"):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.bind((bound, 0 if bound == ADDR else free_port()))
            at = s.getsockname()[1]
            p = next_program(s, "datagrams", 2)
        for to in (ADDR, ADDR if bound == ADDR else "127.0.0.1"):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as c:
                c.sendto(b"a question", (to, at))
                out.append(c.recv(100).decode())
        out.append(p.wait())
    return out


@case
def the_next_program_has_a_connected_socket_of_datagrams():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as c:
        c.bind((ADDR, 0))
        s.connect(c.getsockname())
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 9, 0))
        p = next_program(s, "say", s.getsockname()[0])
        return [c.recv(1000).decode(), p.wait()]


def datagrams_at(ip):
    s = socket.socket(type=socket.SOCK_DGRAM)
    s.bind((ip, free_port()))
    return s


def says(p, line=""):
    p.stdin.write(line)
    p.stdin.flush()
    return p.stdout.readline()


@case
def the_next_program_waits_at_an_epoll_set():
    c, s = pair()
    u, wild, l = datagrams_at(ADDR), datagrams_at("0.0.0.0"), socket.socket()
    l.bind(("0.0.0.0", 0))
    l.listen(8)
    members, e = [s, u, wild, l], select.epoll()
    for m in members:
        e.register(m, select.EPOLLIN)
    os.set_inheritable(e.fileno(), True)
    fds = [x.fileno() for x in [e, *members]]
    p = subprocess.Popen([sys.executable, "-c", WAITS, *map(str, fds)], pass_fds=fds, stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
    at = [m.getsockname()[1] for m in members]
    for x in [e, *members]:
        x.close()
    out = [says(p)]
    with socket.socket(type=socket.SOCK_DGRAM) as sends:
        def tell(i, to):
            if i == 0:
                c.sendall(b"some")
            elif i == 3:
                socket.create_connection((to, at[i])).close()
            else:
                sends.sendto(b"one", (ADDR if i == 1 else to, at[i]))
        for to in (ADDR, "127.0.0.1", ADDR):
            for i in range(4):
                tell(i, to)
                out.append(says(p, "next\n"))
        tell(3, "127.0.0.1")
        tell(2, "127.0.0.1")
    return out + [p.communicate()[0], p.returncode]


# The program that inherits an epoll set and a socket in it that has no address: it connects the socket.
CONNECTS = """
import select, socket, sys
e, s = select.epoll.fromfd(int(sys.argv[1])), socket.socket(fileno=int(sys.argv[2]))
e.poll(0)
s.connect((sys.argv[3], int(sys.argv[4])))
print([what for _, what in e.poll(60)])
"""


@case
def the_next_program_connects_a_member_of_an_epoll_set():
    with socket.socket() as c, listener() as l:
        e = epoll_of(c, select.EPOLLIN)
        os.set_inheritable(e.fileno(), True)
        p = subprocess.Popen([sys.executable, "-c", CONNECTS, str(e.fileno()), str(c.fileno()), ADDR,
                              str(l.getsockname()[1])], pass_fds=[e.fileno(), c.fileno()], stdout=subprocess.PIPE,
                             text=True)
        l.accept()[0].sendall(b"to be read")
        return [p.communicate()[0], p.returncode]


def wires(socks):
    """The wires of these sockets in the next program."""
    fds = [s.fileno() for s in socks]
    p = subprocess.run([sys.executable, "-c", WIRES, *map(str, fds)], pass_fds=fds, capture_output=True, text=True,
                       check=True)
    return p.stdout.strip()


def wire_of(s, wire=None):
    """Chooses the wire, and tells it; None: the kernel has no such option."""
    with contextlib.suppress(OSError):  # a socket that cannot have this wire keeps the one that it has
        if wire is not None:
            s.setsockopt(0x524e, 1, wire)
    try:
        return s.getsockopt(0x524e, 1)
    except OSError:
        return None


@case
def the_next_program_has_the_wire_that_was_chosen_for_each_socket():
    out = []
    for wire in (2, 1, 0):
        socks = [socket.socket(), socket.socket(), socket.socket(), socket.socket(type=socket.SOCK_DGRAM),
                 socket.socket(type=socket.SOCK_DGRAM), socket.socket(type=socket.SOCK_DGRAM)]
        chosen = [wire_of(s, wire) for s in socks[:5]]  # not of the last one
        for s in (socks[1], socks[2], socks[4]):
            s.bind((ADDR, 0))
        socks[2].listen(1)
        want = str(chosen + [wire_of(socks[5])])
        out += [wires(socks) == want, wires(socks) == want, os.environ.get("RNIC_SOCK_WIRES")]
        for s in socks:
            s.close()
    return out


@case
def what_a_child_of_vfork_does_to_its_descriptors_is_its_own():
    c, s = pair()
    os.dup2(s.fileno(), 100)
    # close_fds closes descriptor 100, in the child only
    p = subprocess.Popen(["true"], close_fds=True, stdin=subprocess.PIPE)
    p.communicate()
    t = socket.socket(fileno=100)
    c.sendall(b"still here")
    out = [t.recv(100).decode(), events(t), t.fileno()]
    t.sendall(b"and there")
    return out + [c.recv(100).decode()]


@case
def numbers_that_are_closed_all_at_once():
    c, s = pair()
    low, high = min(c.fileno(), s.fileno()), max(c.fileno(), s.fileno())
    pid = os.fork()
    if pid == 0:
        os.dup2(s.fileno(), 1000)
        ctypes.CDLL(None).closefrom(low)
        out = [code(os.fstat, high), code(os.fstat, 1000)]
        with socket.socket() as l:
            l.bind((ADDR, 0))
            l.listen(1)
            d = socket.create_connection(l.getsockname())
            e, _ = l.accept()
            d.sendall(repr(out).encode())
            os._exit(0 if e.recv(100).decode() == "['EBADF', 'EBADF']" else 1)
    s.close()
    return [read_all(c).decode(), os.waitpid(pid, 0)[1] >> 8]


# C's stdio streams over sockets, called by ctypes.
STDIO = """
import ctypes, os, sys
c = ctypes.CDLL(None)
c.fdopen.restype = ctypes.c_void_p
f = ctypes.c_void_p(c.fdopen(int(sys.argv[1]), b"r+"))
line = ctypes.create_string_buffer(100)
c.fgets(line, 100, f)
c.fprintf(f, b"got %s", line)
c.fflush(f)
c.dprintf(c.fileno(f), b"by number %d\\n", 7)
print(c.fileno(f) == int(sys.argv[1]), c.fclose(f))
"""


@case
def a_stream_of_stdio_on_a_connection():
    c, s = pair()
    p = subprocess.Popen([sys.executable, "-c", STDIO, str(s.fileno())], pass_fds=[s.fileno()], stdout=subprocess.PIPE)
    s.close()
    c.sendall(b"a line\nrest")
    return [read_all(c).decode(), p.communicate()[0].decode()]


@case
def what_printf_writes_goes_where_the_standard_output_is_turned_to():
    c, s = pair()
    pid = os.fork()
    if pid == 0:
        os.dup2(s.fileno(), 1)
        lib = ctypes.CDLL(None)
        lib.printf(b"%d bottles", 99)
        lib.fflush(None)
        os._exit(0)
    s.close()
    return [read_all(c).decode(), os.waitpid(pid, 0)[1]]
