#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Stream sockets of unchanged programs: `rnicrun --sockets` between two ports and against the kernel's TCP; the calls
behave as the kernel's (sock_table.py); programs die, and break the rules of the shared memory.
"""
import errno
import hashlib
import json
import mmap
import os
import resource
import signal
import socket
import struct
import sys
import tempfile

from nets import KERNEL, OURS, tap
from rig import PATIENCE, RNICRUN, Daemon, Process, Skip, case, main, need, pair_conf, until
from sock_rig import SEND, SERVE, kernels, killed_daemon, lines, nothing_left, ours, port_of, python
from sock_raw import ENDED, FIN, RESET, RING, RX_HEAD, SIZE, STATE, TX_TAIL, Raw

A, B = "10.77.0.1", "10.77.0.2"
TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sock_table.py")

# Sends "bye" to each client and closes.
SHORT = """
import socket, sys
l = socket.socket()
l.bind((sys.argv[1], int(sys.argv[2])))
l.listen(8)
print("listening", l.getsockname()[1], flush=True)
while True:
    with l.accept()[0] as s:
        s.sendall(b"bye")
"""

HOLD = """
import socket, sys
l = socket.socket()
l.bind((sys.argv[1], 0))
l.listen(8)
print("listening", l.getsockname()[1], flush=True)
s, _ = l.accept()
print("accepted", flush=True)
while b := s.recv(65536):
    print("got", len(b), flush=True)
print("end", flush=True)
"""


CONNECT = """
import socket, sys, time
c = socket.create_connection((sys.argv[1], int(sys.argv[2])))
print("up", flush=True)
time.sleep(1000)
"""


def same_as_the_kernel(conf):
    kernel = lines(Process([sys.executable, TABLE, "127.0.0.1"]))
    with Daemon(conf) as d, nothing_left(d):
        mine = lines(ours(d, sys.executable, TABLE, A))
        wrong = [f"{n}: {mine.get(n)}, the kernel says {kernel[n]}" for n in kernel if mine.get(n) != kernel[n]]
        assert not wrong, "\n".join(wrong)


@case
def sockets_do_what_the_kernels_do():
    same_as_the_kernel(pair_conf())


@case
def sockets_do_what_the_kernels_do_with_two_workers():
    same_as_the_kernel(pair_conf(rnicd="workers = 0,1"))


@case
def bytes_survive_a_line_that_loses_and_reorders():
    line = "loss = 1%\nreorder = 5%\nduplicate = 1%"
    with Daemon(pair_conf(both=line)) as d:
        s = ours(d, *python(SERVE, A, 0, 1))
        ours(d, *python(SEND, A, port_of(s), 1, 3_000_000)).ok()
        s.ok()


@case
def a_program_talks_to_the_kernels_tcp_both_ways():
    with tap() as (ns, d):
        s = kernels(d, *python(SERVE, KERNEL, 0, 1), netns=ns)
        ours(d, *python(SEND, KERNEL, port_of(s), 2, 3_000_000), netns=ns).ok()
        s.ok()
        s = ours(d, *python(SERVE, OURS, 0, 1), netns=ns)
        kernels(d, *python(SEND, OURS, port_of(s), 3, 3_000_000), netns=ns).ok()
        s.ok()


@case
def what_no_port_reaches_stays_the_kernels():
    with Daemon(pair_conf()) as d:
        s = Process(python(SERVE, "127.0.0.1", 0, 1))
        ours(d, *python(SEND, "127.0.0.1", port_of(s), 4, 100_000)).ok()
        s.ok()
        s = ours(d, *python(SERVE, "0.0.0.0", 0, 1))
        Process(python(SEND, "127.0.0.1", port_of(s), 5, 100_000)).ok()
        s.ok()


@case
def without_a_daemon_sockets_are_the_kernels_and_it_is_said():
    with tempfile.TemporaryDirectory() as where:
        p = Process([RNICRUN, "--socket", where + "/none", "--sockets", *python("""
import socket
c = socket.socket()
c.settimeout(0.1)
c.connect_ex(("10.77.0.1", 9))
print("tried")
""")])
        assert p.ok() == "tried" and "rnicd does not answer" in p.stderr(), p.tail()


@case
def a_killed_program_ends_its_connections_and_leaves_nothing():
    with Daemon(pair_conf()) as d, nothing_left(d):
        s = ours(d, *python(HOLD, A))
        c = ours(d, *python("""
import socket, sys, time
c = socket.create_connection((sys.argv[1], int(sys.argv[2])))
c.sendall(b"hello")
print("sent", flush=True)
time.sleep(1000)
""", A, port_of(s)))
        s.wait_line("got")
        c.stop(signal.SIGKILL)
        s.wait_line("end")
        s.ok()


@case
def a_killed_server_resets_what_it_has_not_read():
    with Daemon(pair_conf()) as d, nothing_left(d):
        s = ours(d, *python("""
import select, socket, sys, time
l = socket.socket()
l.bind((sys.argv[1], 0))
l.listen(8)
print("listening", l.getsockname()[1], flush=True)
s, _ = l.accept()
select.select([s], [], [])
print("unread", flush=True)
time.sleep(1000)
""", A))
        c = ours(d, *python("""
import socket, sys
c = socket.create_connection((sys.argv[1], int(sys.argv[2])))
c.sendall(b"hello")
try:
    c.recv(1)
except ConnectionResetError:
    print("reset", flush=True)
""", A, port_of(s)))
        s.wait_line("unread")
        s.stop(signal.SIGKILL)
        assert c.ok() == "reset"


@case
def bytes_go_out_after_the_program_has_ended():
    with Daemon(pair_conf()) as d, nothing_left(d):
        s = ours(d, *python(SERVE, A, 0, 1))
        ours(d, *python("""
import os, socket, sys
c = socket.create_connection((sys.argv[1], int(sys.argv[2])))
c.sendall(bytes(200_000))
os._exit(0)
""", A, port_of(s))).ok()
        s.ok()


@case
def a_program_that_was_asked_in_the_middle_of_accept_leaves_nothing():
    with Daemon(pair_conf()) as d, nothing_left(d):
        for _ in range(5):
            s = ours(d, *python(HOLD, A))
            at = port_of(s)
            c = [ours(d, *python(CONNECT, A, at)) for _ in range(3)]
            for p in c:
                p.wait_line("up")
            s.stop(signal.SIGKILL)
            for p in c:
                p.stop(signal.SIGKILL)


def broken(change):
    """Lets `change` break a rule in the memory of a raw client's connection: the connection must end, and the daemon
    must not."""
    with Daemon(pair_conf()) as d, nothing_left(d):
        s = ours(d, *python(HOLD, A))
        with Raw(d.sock) as r:
            r.join()
            r.stream(B, A, port_of(s))
            s.wait_line("accepted")
            change(r)
            r.bell()
            s.wait(PATIENCE)
            assert "ConnectionResetError" in s.stderr(), s.tail()
            until(lambda: r.word(260) & 4, "the stream has not ended")
        again = ours(d, *python(SERVE, A, 0, 1))
        ours(d, *python(SEND, A, port_of(again), 6, 100_000)).ok()
        again.ok()


# Opens argv[2] connections to itself, then both ends of each send their number, the last connection first.
MANY = """
import socket, sys
l = socket.socket()
l.bind((sys.argv[1], 0))
l.listen(64)
both = []
for _ in range(int(sys.argv[2])):
    c = socket.create_connection(l.getsockname())
    both.append((c, l.accept()[0]))
for i, (c, s) in reversed(list(enumerate(both))):
    c.sendall(b"c%d." % i)
    s.sendall(b"s%d." % i)
for i, (c, s) in enumerate(both):
    assert (s.recv(9), c.recv(9)) == (b"c%d." % i, b"s%d." % i), i
"""


@case
def a_user_has_more_sockets_than_one_block_of_doorbells_has_bits():
    n = 2_100  # connections: 4,200 bits, where a block has 4,096
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 5 * n:
        raise Skip(f"rnicd needs two descriptors for each of {2 * n} sockets: ulimit -n {5 * n}")
    for workers in ("0", "0,0"):
        conf = pair_conf(rnicd=f"workers = {workers}\nflows = {8 * n}\nuser-share = 100\npoll = adaptive")
        with Daemon(conf) as d, nothing_left(d):
            ours(d, *python(MANY, A, n)).ok()


@case
def a_program_may_reset_its_connection_though_bytes_wait():
    def change(r):
        r.put(TX_TAIL, 1000)
        r.put(FIN, RESET)

    broken(change)


@case
def a_killed_daemon_ends_what_waits_for_it():
    killed_daemon("""
l = socket.socket()
l.bind((sys.argv[1], 0))
l.listen(1)
c = socket.create_connection(l.getsockname())
s, _ = l.accept()
def send(): s.sendall(bytes(100000))
""", A, "ECONNRESET")


TRY = """
import errno, socket, sys
def tried(f, at):
    try:
        f(at)
        return "done"
    except OSError as e:
        return errno.errorcode[e.errno]
at = (sys.argv[1], int(sys.argv[2]))
print(tried(socket.socket().bind, at), tried(socket.socket().connect, at), tried(socket.socket().connect_ex, at))
c = socket.socket()
c.bind((sys.argv[3], 0))
print(tried(c.connect, at))
"""


@case
def no_program_of_any_user_connects_to_or_listens_on_the_port_of_queue_pairs():
    for port in (4791, 700):  # root may have ports below 1024, but not this one
        with Daemon(pair_conf(both=f"qp-port = {port}")) as d:
            assert ours(d, *python(TRY, A, port, B)).ok() == "EACCES EACCES done\nEACCES"
            refused = [k for k, v in d.telemetry("/rnic/counters").items() if k.startswith("qp_port_") and v]
            assert not refused, f"a connection to qp-port was made: {refused}"


@case
def listeners_of_tcp_programs_are_shown():
    with Daemon(pair_conf()) as d:
        s = ours(d, *python(HOLD, A))
        assert f"a {port_of(s)}" in d.telemetry("/rnic/listeners"), d.telemetry("/rnic/listeners")
        s.stop()
        until(lambda: not [x for x in d.telemetry("/rnic/listeners") if not x.endswith(" 4791")], d.tail)


@case
def a_tail_beyond_the_ring_resets_the_connection():
    broken(lambda r: r.put(TX_TAIL, RING + 1))


@case
def a_tail_that_goes_back_resets_the_connection():
    broken(lambda r: r.put(TX_TAIL, -1))


@case
def a_head_beyond_what_has_come_resets_the_connection():
    broken(lambda r: r.put(RX_HEAD, 1))


@case
def memory_that_is_scribbled_over_harms_nobody_else():
    with Daemon(pair_conf()) as d, nothing_left(d):
        server = ours(d, *python(SERVE, A, 0, 1))
        s = ours(d, *python("""
import socket, sys
l = socket.socket()
l.bind((sys.argv[1], 0))
l.listen(64)
print("listening", l.getsockname()[1], flush=True)
while True:
    l.accept()[0].close()
""", A))
        at = port_of(s)
        good = ours(d, *python(SEND, A, port_of(server), 7, 20_000_000))
        for seed in range(20):
            with Raw(d.sock) as r:
                r.join()
                r.stream(B, A, at)
                for i in range(200):
                    junk = hashlib.sha256(f"{seed} {i}".encode()).digest()
                    place = int.from_bytes(junk[:2], "little") % 512
                    r.mem[place:place + 8] = junk[8:16]
                    r.bell()
                r.put(FIN, 1)
        good.ok()
        server.ok()
        s.stop()


@case
def requests_that_make_no_sense_are_refused():
    with Daemon(pair_conf()) as d, nothing_left(d), Raw(d.sock) as r:
        assert r.ask("IPC_SOCK_BIND", bytes(32))[0] != 0, "a request before SOCK_JOIN was accepted"
    with Daemon(pair_conf()) as d, nothing_left(d), Raw(d.sock) as r:
        r.join()
        assert r.ask("IPC_SOCK_JOIN")[0] != 0
        assert r.ask("IPC_ALLOC_PD", bytes(8))[0] != 0, "a PD was given without memory for RDMA"
        assert r.bind("10.99.0.1")[0] != 0 and r.bind("0.0.0.0")[0] != 0
        assert r.connect(0, A, 5)[0] != 0 and r.connect(1 << 63, A, 5)[0] != 0
        status, m, _ = r.bind(A)
        sock = int.from_bytes(m[:8], "little")
        assert status == 0
        assert r.connect(sock, "10.99.0.1", 5)[0] != 0 and r.connect(sock, B, 0)[0] != 0
        assert r.ask("IPC_SOCK_ACCEPT", sock.to_bytes(8, "little") + bytes(8))[0] != 0
        assert r.ask("IPC_SOCK_LISTEN", sock.to_bytes(8, "little") + bytes(8))[0] == 0
        assert r.connect(sock, B, 5)[0] != 0
        assert r.ask("IPC_SOCK_ACCEPT", sock.to_bytes(8, "little") + bytes(8))[0] == 11, "EAGAIN"
        with socket.create_server(("127.0.0.1", 0)) as kernels:
            assert r.ask("IPC_SOCK_TAKE", bytes(32), shows=[kernels.fileno()])[0] == errno.EOPNOTSUPP
        assert r.ask("IPC_SOCK_CLOSED", bytes(40))[0] == errno.EOPNOTSUPP
        assert r.ask("IPC_SOCK_OPTION", bytes(24))[0] == errno.EOPNOTSUPP
        assert r.ask("IPC_SOCK_FIND")[0] == errno.EINVAL, "a request without its descriptor was accepted"
        with open("/dev/null", encoding="ascii") as other:
            for fd in (other.fileno(), r.s.fileno(), r.wake):
                assert r.ask("IPC_SOCK_FIND", shows=[fd])[0] == errno.EBADF
        status, m, fds = r.ask("IPC_SOCK_FIND", shows=[r.fds[2]])
        assert (status, m[:8], len(fds)) == (0, sock.to_bytes(8, "little"), 2), "a listener must have no memory"


@case
def a_user_gets_no_more_than_its_share():
    with Daemon(pair_conf(rnicd="flows = 16\nuser-share = 50")) as d, nothing_left(d):
        s = ours(d, *python(SERVE, A, 0, 1000))
        at = port_of(s)
        with Raw(d.sock) as r:
            r.join()
            memory = []
            for _ in range(40):
                status, m, _ = r.bind(B)
                assert status == 0, status
                status, _, fds = r.connect(int.from_bytes(m[:8], "little"), A, at)
                if status == 0:
                    memory.append(mmap.mmap(fds[0], SIZE))
                # the place of a connection whose other end finds no room is free again when the connection has ended
                live = sum(struct.unpack_from("<I", m, STATE)[0] & ENDED == 0 for m in memory)
                assert live <= 8, live
            assert memory
            until(lambda: "a user may have 8 of 16" in d.stderr(), d.tail)
        s.stop()


@case
def connections_that_have_ended_leave_room_for_new_ones():
    """300 connections, one after the other. Each leaves its server's end in TIME_WAIT for a second; TIME_WAIT may
    occupy at most 8 of the 64 places."""
    with Daemon(pair_conf(rnicd="flows = 64")) as d:
        s = ours(d, *python(SHORT, A, "0"))
        c = ours(d, *python("""
import socket, sys
for _ in range(300):
    with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as c:
        assert c.recv(10) == b"bye" and c.recv(10) == b""
print("all", flush=True)
""", A, port_of(s)))
        assert "all" in c.ok()
        assert sum(d.telemetry(f"/rnic/ports,{p}")["time_wait_overflow"] for p in "ab") > 0
        s.stop()


@case
def web_pages_by_pythons_server_and_curl():
    need("curl")
    with tempfile.TemporaryDirectory() as where, Daemon(pair_conf()) as d:
        data = os.urandom(3_000_000)
        with open(where + "/file", "wb") as f:
            f.write(data)
        s = ours(d, sys.executable, "-u", "-m", "http.server", "--bind", A, "--directory", where, "8080")
        s.wait_line("Serving")
        for i in range(3):
            ours(d, "curl", "-sS", "--max-time", str(PATIENCE), "-o", f"{where}/got{i}", f"http://{A}:8080/file").ok()
            with open(f"{where}/got{i}", "rb") as f:
                assert f.read() == data
        s.stop()


@case
def iperf3_with_one_stream_and_four_and_back():
    need("iperf3")
    with Daemon(pair_conf()) as d:
        for more in ([], ["-P", "4"], ["-R"]):
            s = ours(d, "iperf3", "-s", "-1", "-B", A, "--forceflush")
            s.wait_line("listening")
            out = ours(d, "iperf3", "-c", A, "-n", "20M", "-J", *more).ok()
            sent, got = (json.loads(out)["end"][f"sum_{way}"]["bytes"] for way in ("sent", "received"))
            # iperf3 tells what its server had read when the client ended, which may be less
            assert sent >= 20_000_000 and got > 0, out
            s.ok()


# Sends argv[4] MiB to itself, from one process to another on the CPU argv[3]; they wait in select() if argv[5] is 1.
TURNS = """
import os, select, socket, sys
os.sched_setaffinity(0, {int(sys.argv[3])})
l = socket.create_server((sys.argv[1], 0))
mib, selects = int(sys.argv[4]), sys.argv[5] == "1"
if os.fork() == 0:
    c = socket.create_connection((sys.argv[1], l.getsockname()[1]), source_address=(sys.argv[2], 0))
    l.close()
    c.setblocking(not selects)
    for _ in range(mib):
        rest = memoryview(bytes(1 << 20))
        while rest:
            if selects:
                select.select([], [c], [])
            rest = rest[c.send(rest):]
    c.close()
    os._exit(0)
s = l.accept()[0]
s.setblocking(not selects)
b = bytearray(1 << 20)
n = 0
while True:
    if selects:
        select.select([s], [], [])
    k = s.recv_into(b)
    if k == 0:
        break
    n += k
assert os.wait()[1] == 0
assert n == mib << 20, n
"""


@case
def programs_that_share_a_cpu_wait_for_each_other_in_recv_and_in_select():
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise Skip("the programs and the worker need a CPU each")
    with Daemon(pair_conf(rnicd=f"workers = {cpus[1]}\npoll = busy")) as d:
        for selects in (0, 1, 1, 1, 1):
            ours(d, *python(TURNS, A, B, cpus[0], 16, selects)).ok()


@case
def socat_both_ends_ours_and_with_the_kernel():
    need("socat")
    data = os.urandom(500_000)
    with tap() as (ns, d), tempfile.TemporaryDirectory() as where:
        with open(where + "/in", "wb") as f:
            f.write(data)
        s = ours(d, "socat", "-u", "-d", "-d", f"TCP-LISTEN:7,bind={OURS}", f"CREATE:{where}/out", netns=ns)
        until(lambda: "listening on" in s.stderr(), "socat does not listen")
        kernels(d, "socat", "-u", f"OPEN:{where}/in", f"TCP:{OURS}:7", netns=ns).ok()
        s.ok()
        with open(where + "/out", "rb") as f:
            assert f.read() == data


# Executes another program with a connection as its stdin and stdout, closes its own end, and reads at the peer's end.
HANDS_ON = """
import os, socket, subprocess, sys
l = socket.socket()
l.bind((sys.argv[1], 0))
l.listen(8)
c = socket.create_connection(l.getsockname())
s, _ = l.accept()
p = subprocess.Popen(sys.argv[2:], stdin=s, stdout=s)
s.close()
c.sendall(b"hello")
c.shutdown(socket.SHUT_WR)
got = b""
try:
    while b := c.recv(100):
        got += b
    print("end", got.decode())
except OSError as e:
    print(type(e).__name__)
p.wait()
"""


@case
def a_program_that_is_not_preloaded_is_told_and_its_socket_is_reset():
    with Daemon(pair_conf()) as d:
        assert ours(d, *python(HANDS_ON, A, "cat")).ok() == "end hello"
        for argv, why in (("env -i cat", "no LD_PRELOAD"), ("env -u LD_PRELOAD cat", "no LD_PRELOAD")):
            p = ours(d, *python(HANDS_ON, A, *argv.split()))
            assert p.ok() == "ConnectionResetError", p.tail()
            assert p.stderr().count("librnicsock") == 1 and why in p.stderr(), p.tail()
            assert "cat: -: Connection reset" in p.stderr(), p.tail()


# A server that gives up root's rights after listen(), as most servers do.
OTHER_USER = """
import encodings.idna, os, socket, subprocess, sys
l = socket.socket()
l.bind((sys.argv[1], 0))
l.listen(8)
print("listening", l.getsockname()[1], flush=True)
os.setgid(65534)
os.setuid(65534)
if os.fork() == 0:
    s, _ = l.accept()
    subprocess.run(["cat"], stdin=s, stdout=s)
    with socket.create_connection((sys.argv[2], int(sys.argv[3]))) as c:
        c.sendall(b"from nobody")
    os._exit(0)
os.wait()
"""


@case
def a_server_of_another_user_than_its_listeners_accepts_connects_and_executes():
    with Daemon(pair_conf(rnicd="socket-mode = 0666")) as d:
        os.chmod(os.path.dirname(d.sock), 0o755)
        h = ours(d, *python(SERVE, B, 0, 1))
        s = ours(d, *python(OTHER_USER, A, B, port_of(h)))
        p = ours(d, "sh", "-c", f"echo through cat | nc -N {A} {port_of(s)}")
        assert p.ok() == "through cat", p.tail()
        s.ok()
        assert s.stderr() == "", s.tail()
        h.ok()


@case
def each_user_that_has_shown_a_sockets_descriptor_may_use_the_socket():
    with Daemon(pair_conf(rnicd="socket-mode = 0666")) as d:
        os.chmod(d.dir, 0o711)
        def client(uid):
            os.seteuid(uid)
            try:
                r = Raw(d.sock)
            finally:
                os.seteuid(0)
            r.join()
            return r
        maker, stranger, ninth, *users = clients = [client(uid) for uid in (0, 60100, 60009, *range(60001, 60009))]
        status, m, fds = maker.bind(A)
        assert status == 0, status
        shows = lambda r: r.ask("IPC_SOCK_FIND", shows=fds)[0]
        listens = lambda r: r.ask("IPC_SOCK_LISTEN", m[:8] + struct.pack("<II", 4, 0))[0]
        assert [shows(r) for r in users * 2] == [0] * 16
        assert [listens(r) for r in (maker, *users, stranger)] == [0] * 9 + [errno.EBADF]
        # rnicd remembers eight users beside the maker; a user that it has forgotten shows the descriptor again
        for r in (ninth, users[0]):
            assert [listens(r), shows(r), listens(r)] == [errno.EBADF, 0, 0]
        for r in clients:
            r.close()


if __name__ == "__main__":
    sys.exit(main())
