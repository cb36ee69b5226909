# SPDX-License-Identifier: BSD-3-Clause
"""
What the end-to-end tests share: a daemon started from a configuration text, client processes, and TAP output.

A test file is a list of functions marked @case; `main()` runs them in order and prints one TAP line each. A case fails
by raising (assert included) and skips by raising Skip with the reason; Foreign has it run again. Every process started
here is ended here, by its id.
"""
import contextlib
import errno
import fcntl
import glob
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

BUILD = os.environ.get("RNIC_BUILD") or os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "build"))
RNICD = os.environ.get("RNIC_TEST_RNICD") or os.path.join(BUILD, "app", "rnicd", "rnicd")  # may be of another build
TESTPMD = os.path.join(BUILD, "app", "testpmd-rdma", "testpmd-rdma")
# A library under AddressSanitizer cannot be loaded into a program that is not. So a test of an instrumented rnicd runs
# programs that are not built here with rnicrun and the libraries of another build; LD_LIBRARY_PATH, with which `meson
# test` names its own build's libraries, would override these.
RNICRUN = os.path.join(os.environ.get("RNIC_STOCK_BUILD", BUILD), "app", "rnicrun", "rnicrun")
if "RNIC_STOCK_BUILD" in os.environ:
    os.environ.pop("LD_LIBRARY_PATH", None)
PATIENCE = int(os.environ.get("RNIC_TEST_PATIENCE", "60"))  # seconds until something that never ends counts as a failure; no test measures time with it


class Skip(Exception):
    pass


class Foreign(Exception):
    """A race within a foreign program, or a machine too busy to record what is judged, decided the result; the text
    names it and its evidence. The case is run again, at most twice."""


def example(name):
    return os.path.join(BUILD, "examples", name)


def helper(name):
    """A helper program of test/e2e."""
    return os.path.join(BUILD, "test", "e2e", name)


def need(program):
    if shutil.which(program) is None:
        raise Skip(f"{program} is not installed")


@contextlib.contextmanager
def installing(folder):
    """Installs the build into the folder. Nobody else installs it until the end of the context, since `ninja uninstall`
    removes what the build's log names, and this log is the last installation's."""
    with open(os.path.join(BUILD, "meson-private", "installing"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", folder], check=True,
                       capture_output=True)
        yield


def install(folder):
    """As installing(), for a test that does not uninstall."""
    with installing(folder):
        pass


def host_ports():
    """The TCP ports of the host's kernel that programs listen at, of both versions of IP."""
    with open("/proc/self/net/tcp", encoding="ascii") as v4, open("/proc/self/net/tcp6", encoding="ascii") as v6:
        return {int(port, 16) for port in re.findall(r":([0-9A-F]{4}) [0-9A-F]+:0000 0A ", v4.read() + v6.read())}


def until(true, what="", patience=PATIENCE):
    """Waits until true() is true, and returns its value. `what` is the failure's message: a text, or a function that
    returns a text."""
    end = time.monotonic() + patience
    while not (is_so := true()):
        assert time.monotonic() < end, (what() if callable(what) else what) or "the awaited event has not come"
        time.sleep(0.01)
    return is_so


class Process:
    """A child process whose output is collected in the background. The process is killed when the test ends."""

    def __init__(self, argv, env=None, cwd=None, name=None):
        self.name = name or os.path.basename(argv[0])
        self.argv = argv
        tied = ["setpriv", "--pdeathsig", "KILL"] if threading.current_thread() is threading.main_thread() else []
        self.p = subprocess.Popen(tied + argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env=env, cwd=cwd, text=True, errors="replace")
        self.out, self.err = [], []
        self._threads = [threading.Thread(target=self._drain, args=a, daemon=True)
                         for a in ((self.p.stdout, self.out), (self.p.stderr, self.err))]
        for t in self._threads:
            t.start()

    @staticmethod
    def _drain(stream, lines):
        for line in stream:
            lines.append(line.rstrip("\n"))

    @property
    def pid(self):
        return self.p.pid

    def stdout(self):
        return "\n".join(self.out)

    def stderr(self):
        return "\n".join(self.err)

    def wait_line(self, text, timeout=PATIENCE):
        """Waits for a line of stdout that contains text."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            for line in list(self.out):
                if text in line:
                    return line
            if self.p.poll() is not None:
                self.join()
                for line in self.out:
                    if text in line:
                        return line
                raise AssertionError(f"{self.name} ended ({self.p.returncode}) before '{text}':\n{self.tail()}")
            time.sleep(0.01)
        raise AssertionError(f"{self.name} printed no line with '{text}':\n{self.tail()}")

    def join(self):
        for t in self._threads:
            t.join(5)

    def wait(self, timeout=PATIENCE):
        try:
            rc = self.p.wait(timeout)
        except subprocess.TimeoutExpired:
            where = self.threads()
            self.p.kill()
            self.p.wait()
            self.join()
            raise AssertionError(f"{self.name} did not end:\n{self.tail()}\n{where}") from None
        self.join()
        return rc

    def ok(self, timeout=PATIENCE):
        rc = self.wait(timeout)
        assert rc == 0, f"{self.name} ended with {rc}:\n{self.tail()}"
        return self.stdout()

    def tail(self, n=25):
        return "\n".join([f"  $ {' '.join(self.argv)}"] + ["  | " + s for s in self.out[-n:]] +
                         ["  ! " + s for s in self.err[-n:]])

    def threads(self):
        """A line for each thread: its state, its CPU time in ticks, and where in the kernel it sleeps."""
        lines = []
        for t in sorted(glob.glob(f"/proc/{self.pid}/task/*")):
            try:
                stat, wchan = (open(f"{t}/{f}", encoding="ascii", errors="replace").read() for f in ("stat", "wchan"))
            except OSError:  # the thread has ended
                continue
            name, rest = stat.partition("(")[2].rpartition(")")[::2]
            state, *_, user, system = rest.split()[:13]
            lines.append(f"  thread {name}: {state}, {user} user, {system} system, {wchan}")
        return "\n".join(lines)

    def stop(self, sig=signal.SIGTERM, timeout=PATIENCE):
        if self.p.poll() is None:
            self.p.send_signal(sig)
        try:
            rc = self.p.wait(timeout)
        except subprocess.TimeoutExpired:
            self.p.kill()
            rc = self.p.wait()
        self.join()
        return rc


class Daemon(Process):
    """An rnicd with its own directory, socket and configuration. `conf` may use {dir}. `under`: a command that execs
    rnicd, as another user for example."""

    def __init__(self, conf, argv=(), netns=None, under=()):
        self.dir = tempfile.mkdtemp(prefix="rnic-test-")
        self.sock = os.path.join(self.dir, "rnicd.sock")
        self.conf = os.path.join(self.dir, "rnicd.conf")
        with open(self.conf, "w", encoding="utf-8") as f:
            f.write(conf.replace("{dir}", self.dir))
        if under:
            os.chmod(self.dir, 0o711)
        pre = ["ip", "netns", "exec", netns] if netns else []
        # RNICD_SOCKET takes precedence over the configuration
        env = {k: v for k, v in os.environ.items() if k != "RNICD_SOCKET"}
        super().__init__(pre + [*under, RNICD, "--config", self.conf, *argv], env=env, name="rnicd")
        self.children = []
        self.ended = False
        try:
            self.wait_line("ready")
        except AssertionError:
            self.close()
            raise

    def env(self, **more):
        return dict(os.environ, RNICD_SOCKET=self.sock, **more)

    def run(self, *argv, **env):
        """Starts a client program of this daemon."""
        p = Process(list(argv), env=self.env(**env))
        self.children.append(p)
        return p

    def telemetry(self, command):
        """Sends one command to the daemon's rte_telemetry socket; returns the decoded answer. A null that comes late is
        no answer: rnicd gives up after 10 s when one of its workers gets no CPU. Then the question is asked again."""
        end = time.monotonic() + PATIENCE
        while True:
            asked = time.monotonic()
            answer = self.ask(command)
            if answer is not None or time.monotonic() - asked < 1 or asked > end:
                return answer

    def ask(self, command):
        path = self.runtime_socket()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.settimeout(PATIENCE)
            while s.connect_ex(path) == errno.EAGAIN:  # several threads of the test may ask at the same time
                time.sleep(0.01)
            json.loads(s.recv(4096))  # the greeting that DPDK's telemetry sends first
            s.send(command.encode())
            return json.loads(s.recv(1 << 20))[command.split(",")[0]]

    def runtime_socket(self):
        for line in self.out:
            if "telemetry " in line:
                return line.split("telemetry ", 1)[1].split()[0].rstrip(",")
        raise AssertionError(f"rnicd did not say where its telemetry socket is:\n{self.tail()}")

    def alive(self):
        return self.p.poll() is None

    def end(self):
        """Sends SIGTERM, upon which the daemon must end in order. Its captures are complete only after this."""
        self.ended = True
        assert self.alive(), f"rnicd died:\n{self.tail()}"
        rc = self.stop()
        assert rc == 0, f"rnicd ended with {rc}:\n{self.tail()}"
        assert not os.path.exists(self.sock), "rnicd left its socket behind"

    def close(self):
        for c in self.children:
            c.stop(signal.SIGKILL)
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None and not self.ended:
                self.end()
            elif self.alive():
                self.stop()
                sys.stdout.write("".join(f"# {s}\n" for s in self.tail(15).splitlines()))
        finally:
            self.close()


def pair_conf(mtu=1500, a="", b="", rnicd="", both=""):
    """Two wired ports in one daemon: 10.77.0.1 (a) and 10.77.0.2 (b)."""
    return f"""
[rnicd]
socket = {{dir}}/rnicd.sock
hugepages = auto
{rnicd}
[port a]
device = pair:b
address = 10.77.0.1/24
mtu = {mtu}
{both}
{a}
[port b]
device = pair:a
address = 10.77.0.2/24
mtu = {mtu}
{both}
{b}
"""


def memif_conf(role, socket, address, port="", rnicd=""):
    """One end of a shared-memory link between two daemons; `socket` is the link's, which the role server makes."""
    return f"""
[rnicd]
socket = {{dir}}/rnicd.sock
hugepages = no
{rnicd}
[port m]
device = memif:role={role},id=0,bsize=16384,socket-abstract=no,socket={socket}
address = {address}/24
{port}
"""


def on_ordinary_pages(conf):
    """Turns hugepages off in the daemon, for cases that must run the same with and without free hugepages. Clients need
    RNIC_HUGE=0 beside it."""
    return conf.replace("hugepages = auto", "hugepages = no")


def alone_conf(rnicd="", port=""):
    """A port 10.77.0.1 (a) that reaches no other port: the other end of its wire lies in another subnet."""
    return pair_conf(rnicd=rnicd, a=port).replace("10.77.0.2", "10.78.0.1")


def be32(data, off):
    return struct.unpack_from(">I", data, off)[0]


def bytes_in(d, port):
    """Bytes received by each connection of a testpmd-rdma server at that port: one number a connection."""
    lines = [line for line in d.telemetry("/rnic/conns") if re.search(rf":{port}\b", line) and " ESTABLISHED " in line]
    told = [d.telemetry(f"/rnic/conns,{line.split()[0]}") for line in lines]
    return [t["bytes_in"] for t in told if t is not None]


def moves(d, port, qps=1, beyond=0):
    """Waits until data moves on `qps` queue pairs of the testpmd-rdma server at that port: 1 MB in each, more than
    `beyond`."""
    until(lambda: sum(n > beyond + 1e6 for n in bytes_in(d, port)) >= qps,
          lambda: f"no data moves: {d.telemetry('/rnic/conns')}")


class Soak:
    """A testpmd-rdma client that sends verified data to a server at `addr` until end(). What a case does must not
    disturb it."""

    def __init__(self, d, addr, port, *args):
        self.d, self.port = d, port
        self.p = d.run(TESTPMD, "--mode", "soak", "--sizes", "16k", "--seconds", "600", "-p", str(port), *args, addr)
        # the soak must run before an attack starts: the attack may take away what a new connection needs
        moves(d, port)

    def end(self, blind=False):
        """blind: the daemon cannot be asked whether data still moves; only the comparison of the received data
        counts."""
        if not blind:
            moves(self.d, self.port, beyond=max(bytes_in(self.d, self.port), default=0))
        self.p.p.send_signal(signal.SIGINT)
        out = self.p.ok()
        assert re.search("verified", out), out


def nothing_is_left(d, kinds=("/rnic/clients", "/rnic/qps", "/rnic/conns")):
    """Waits until the daemon holds nothing of the clients that have ended."""
    left = lambda: {k: d.telemetry(k) for k in kinds if d.telemetry(k)}
    until(lambda: not left(), lambda: f"rnicd still holds: {left()}")


def said(d, *words):
    """Waits for a line of the daemon's log that contains all these words; returns it."""
    def line():
        return next((s for s in d.stderr().splitlines() if all(w in s for w in words)), None)
    until(line, lambda: f"rnicd's log has no line with {words}:\n{d.tail()}")
    return line()


CASES = []


def case(f):
    CASES.append(f)
    return f


def cases_of(program, conf, what="", ends=("10.77.0.1", "10.77.0.2"), without=(), under=(), says=None, **env):
    """
    Makes a case of each case that a helper program has, and one that checks that nothing is left in the daemon
    afterwards. The program runs all its cases in one process over two devices, or over one. under: the command that
    runs the program, such as rnicrun for one that is linked with the stock libraries. says: {name of a case: words of
    one line of the daemon's log}; makes a further case of each.
    """
    results = {}
    checks = {name: lambda d, words=words: said(d, *words) for name, words in (says or {}).items()}
    checks["nothing_is_left_in_the_daemon"] = nothing_is_left

    def run_all():
        with Daemon(conf) as d:
            p = d.run(*under, helper(program), *ends, *(n for n in listed if n not in without), **env)
            rc = p.wait(10 * PATIENCE)
            notes = []
            for line in p.out:
                if line.startswith("#"):
                    notes.append(line)
                elif line.startswith(("ok ", "not ok ")):
                    results[line.split()[-1]] = (line.startswith("ok "), "\n".join(notes))
                    notes = []
            results["*"] = (rc in (0, 1), f"{program} ended with {rc}\n{p.tail()}")
            for name, check in checks.items():
                try:
                    check(d)
                    results[name] = (True, "")
                except AssertionError as e:
                    results[name] = (False, str(e))

    def make(name):
        def f():
            if not results:
                run_all()
            ok, why = results.get(name, results["*"] if not results["*"][0] else (False, "not run"))
            assert ok, why
            if why.startswith("# SKIP "):
                raise Skip(why.removeprefix("# SKIP "))
        f.__name__ = name + what
        case(f)

    listed = subprocess.run([helper(program), "--list"], check=True, capture_output=True, text=True).stdout.split()
    for name in [n for n in listed if n not in without] + [*checks]:
        make(name)


def repeating(f, name=None, times=2):
    """Runs f, and runs it again after a Foreign; test/run counts the "# repeated" lines that this prints."""
    for left in range(times, -1, -1):
        try:
            return f()
        except Foreign as why:
            if left == 0:
                raise
            print(f"# repeated: {name or f.__name__}: {why}", flush=True)


def main():
    only = sys.argv[1:]
    cases = [c for c in CASES if not only or c.__name__ in only]
    print(f"1..{len(cases)}", flush=True)
    failed = 0
    for i, c in enumerate(cases, 1):
        name = c.__name__
        try:
            repeating(c)
            print(f"ok {i} - {name}", flush=True)
        except Skip as s:
            print(f"ok {i} - {name} # SKIP {s}", flush=True)
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print(f"not ok {i} - {name}")
            print("".join(f"# {line}\n" for line in traceback.format_exc().splitlines()), end="", flush=True)
    return 1 if failed else 0
