#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
rnicctl: what it tells a person and a program about a running daemon, and its table of counters against the counters
that the daemon tells.
"""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from http.client import HTTPConnection

from rig import BUILD, TESTPMD, Daemon, Skip, case, helper, main, pair_conf, until

RNICCTL = os.path.join(BUILD, "app", "rnicctl", "rnicctl")
SOURCE = os.environ.get("RNIC_SOURCE") or os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
DOCUMENT = os.path.join(SOURCE, "doc", "counters.md")
ADDR, PEER = "10.77.0.1", "10.77.0.2"
HANG = 120  # seconds; no answer by then is a hang


def ctl(*args, sock=None, env=None):
    argv = [RNICCTL, *(["--socket", sock] if sock else []), *args]
    return subprocess.run(argv, capture_output=True, text=True, timeout=HANG, check=False, env=env)


def ok(*args, **more):
    p = ctl(*args, **more)
    assert p.returncode == 0, f"{args}: {p.returncode}\n{p.stdout}\n{p.stderr}"
    return p.stdout


class Busy:
    """A daemon with 2 workers that count cycles, and two clients with 4 connections between them, which last until the
    end."""

    def __enter__(self):
        self.d = Daemon(pair_conf(rnicd="workers = 0,1\nstage-cycles = yes"))
        try:
            self.server = self.d.run(TESTPMD, "-s", "-a", ADDR, "--once")
            self.server.wait_line("listening")
            self.client = self.d.run(TESTPMD, "--mode", "soak", "--qps", "4", "--seconds", "600", ADDR)
            while len(self.d.telemetry("/rnic/conns") or []) < 8:
                assert self.client.p.poll() is None, self.client.tail()
                time.sleep(0.05)
        except BaseException:
            self.d.close()
            raise
        return self.d

    def __exit__(self, *_):
        self.client.stop()
        self.server.stop()
        self.d.end()
        self.d.close()


def flow(d):
    """The daemon's telemetry of a flow of reliable datagrams that this function uses. The numbers of its queue pairs say
    which of the flows between the devices' workers it is."""
    end = d.run(helper("rd_ends"), ADDR, "store", "8", "0")
    words = end.wait_line("store").split()[1:]
    client = d.run(helper("rd_ends"), PEER, "client", "8")
    client.p.stdin.write(f"to {ADDR} {' '.join(words)}\ngo 1\n")
    client.p.stdin.flush()
    client.wait_line("messages 1 status 0")
    flows = [d.telemetry(f"/rnic/flows,{line.split()[0]}") for line in d.telemetry("/rnic/flows")
             if line.startswith(f"b/{ADDR}")]
    told = next(f for f in flows if f["packets_out"] > 0)
    for p in (client, end):
        p.p.stdin.close()
        p.ok()
    ended = [f" pid {p.pid} " for p in (client, end)]
    until(lambda: not any(pid in line for line in d.telemetry("/rnic/clients") for pid in ended), d.tail)
    return told


def names(page, group):
    """The names that a section of doc/counters.md lists."""
    part = re.search(rf"^## {group}\n(.*?)(?=^## |\Z)", page, re.M | re.S).group(1)
    return set(re.findall(r"^\| `(\w+)` \|", part, re.M))


@case
def the_table_of_counters_has_what_the_daemon_tells_and_nothing_else():
    page = ok("counters", "--list")
    with Busy() as d:
        conn = d.telemetry("/rnic/conns")[0].split()[0]
        told = {"stack": d.telemetry("/rnic/counters"), "port": d.telemetry("/rnic/ports,a"),
                "worker": d.telemetry("/rnic/workers,0"), "connection": d.telemetry(f"/rnic/conns,{conn}"),
                "client": d.telemetry("/rnic/clients,1"), "flow": flow(d)}
        for group, values in told.items():
            numbers = {name for name, v in values.items() if isinstance(v, int)}
            assert numbers == names(page, group), (group, numbers ^ names(page, group))


@case
def the_committed_page_is_the_table():
    with open(DOCUMENT, encoding="utf-8") as f:
        assert f.read() == ok("counters", "--list"), "run: rnicctl counters --list > doc/counters.md"


@case
def each_name_that_users_may_know_has_a_counter_that_there_is():
    page = ok("counters", "--list")
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| (\w+) \| .* \|$", page.split("## Names of other devices")[1], re.M)
    missing = [row for row in rows if row[1] not in names(page, row[2])]
    assert len(rows) > 50 and not missing, missing
    heads = []  # the lines come in pairs: names, then numbers
    for file in ("/proc/net/snmp", "/proc/net/netstat"):
        with open(file, encoding="ascii") as f:
            heads += f.read().splitlines()[::2]
    kernels = {kind.rstrip(":") + name for kind, *words in map(str.split, heads) for name in words}
    assert {row[0] for row in rows if row[0].startswith("Tcp")} <= kernels, "this kernel lacks some of the counters"


@case
def the_committed_page_of_keys_is_what_the_daemon_says():
    argv = ["scripts/man.py", "markdown", "-", os.path.join(BUILD, "app", "rnicd", "rnicd"), "--help-config"]
    page = subprocess.run([sys.executable, "-B", *argv], cwd=SOURCE, capture_output=True, text=True, check=True).stdout
    with open(os.path.join(SOURCE, "doc", "configuration.md"), encoding="utf-8") as f:
        assert f.read() == page, f"run: python3 {' '.join(argv)} > doc/configuration.md"


@case
def lists_and_objects_agree_with_telemetry():
    with Busy() as d:
        assert flow(d)["packets_out"] > 0 and ok("records", sock=d.sock) == ""
        for kind, column in (("ports", "id"), ("clients", "id"), ("qps", "id"), ("conns", "id"), ("flows", "id"),
                             ("workers", "id")):
            head, *rows = ok(kind, sock=d.sock).splitlines()
            there = [line.split()[0] for line in d.telemetry(f"/rnic/{kind}")]
            assert head.split()[0] == column, head
            assert {r.split()[0] for r in rows} == set(there), (kind, rows, there)
            one = json.loads(ok("--json", kind, there[0], sock=d.sock))
            assert set(one) == set(d.telemetry(f"/rnic/{kind},{there[0]}")), (kind, one)
            many = json.loads(ok("--json", kind, sock=d.sock))
            assert {o["id"] for o in many} == set(there), many
        assert [line.split()[0] for line in ok("listeners", sock=d.sock).splitlines()], "rnicctl shows no listener"
        said = ok("status", sock=d.sock)
        assert "port a, address 10.77.0.1" in said and f"process {d.pid}" in said, said
        assert json.loads(ok("-j", "status", sock=d.sock))["pid"] == d.pid


@case
def a_connection_keeps_its_number_when_others_come():
    with Busy() as d:
        def numbers():
            return {line.split(" cwnd ")[0].split(" ", 1)[1].rsplit(" ", 1)[0]: line.split()[0]
                    for line in d.telemetry("/rnic/conns")}

        before = numbers()
        server = d.run(TESTPMD, "-s", "-a", PEER, "--once")
        server.wait_line("listening")
        client = d.run(TESTPMD, "--mode", "soak", "--seconds", "600", PEER)
        until(lambda: len(numbers()) > len(before), client.tail)
        after = numbers()
        assert before == {name: after[name] for name in before}, (before, after)
        for name, number in before.items():
            assert d.telemetry(f"/rnic/conns,{number}")["name"] == name, (name, number)
        client.stop()
        server.stop()


def crowd(d):
    """A server, and a client that keeps 300 connections to it open."""
    server = d.run(TESTPMD, "-s", "-a", ADDR)
    server.wait_line("listening")
    return server, d.run(TESTPMD, "--mode", "idle", "--qps", "300", "--seconds", "600", ADDR)


@case
def long_lists_are_whole():
    """301 connections, one of them testpmd-rdma's own, make 602 queue pairs: more than one answer of telemetry can
    hold."""
    with Daemon(pair_conf()) as d:
        server, client = crowd(d)

        def ids():
            return [q["id"] for q in json.loads(ok("--json", "qps", sock=d.sock))]

        until(lambda: len(ids()) == 602, lambda: f"{len(ids())} queue pairs: {client.tail()}")
        assert len(set(ids())) == 602, ids()
        assert len(d.telemetry("/rnic/qps")) < 600, "one answer holds all queue pairs: the case proves nothing"
        client.stop()
        server.stop()


@case
def all_connections_are_listed_however_many_there_are():
    """301 connections have 602 ends. A worker is asked for 512 at a time."""
    with Daemon(pair_conf()) as d:
        server, client = crowd(d)

        def ids():
            return [c["id"] for c in json.loads(ok("--json", "conns", sock=d.sock))]

        until(lambda: len(ids()) == 602, lambda: f"{len(ids())} connections: {client.tail()}")
        assert len(set(ids())) == 602, ids()
        first = ok("conns", min(ids(), key=int), sock=d.sock)  # the oldest, which is the last of the list
        assert "ESTABLISHED" in first, first
        client.stop()
        server.stop()


@case
def counters_that_are_zero_are_left_out_unless_asked_for():
    with Busy() as d:
        some, every = ok("counters", sock=d.sock), ok("counters", "--all", sock=d.sock)
        assert re.search(r"^wqes +[1-9]\d* requests", some, re.M), some
        assert not re.search(r"^bad_rings ", some, re.M) and re.search(r"^bad_rings +0 rings", every, re.M), every
        assert json.loads(ok("--json", "counters", sock=d.sock))["bad_rings"] == 0


# Prometheus' own reader, of the distribution's python: [kind, meaning, [[name, labels, value], ...]] of each metric.
PARSE = """
import json, sys
from prometheus_client.parser import text_string_to_metric_families as families
json.dump([(f.type, f.documentation, [(s.name, s.labels, s.value) for s in f.samples]) for f in
families(sys.stdin.read())], sys.stdout)
"""


def parsed(text):
    p = subprocess.run(["/usr/bin/python3", "-c", PARSE], input=text, capture_output=True, text=True, check=False)
    if "No module named 'prometheus_client'" in p.stderr:
        raise Skip("python3-prometheus-client is not installed")
    assert p.returncode == 0, p.stderr
    return json.loads(p.stdout)


@case
def metrics_are_what_prometheus_reads():
    with Busy() as d:
        text = ok("metrics", sock=d.sock)
        sample = {}
        for kind, meaning, samples in parsed(text):
            assert kind in ("counter", "gauge") and meaning, (kind, meaning, samples)
            for name, labels, value in samples:
                sample[(name, tuple(labels.items()))] = value
        assert sample[("rnic_stack_wqes_total", ())] > 0, text
        assert sample[("rnic_port_rx_packets_total", (("port", "a"),))] > 0, text
        assert sample[("rnic_worker_turns_total", (("worker", "1"),))] > 0, text
        assert sample[("rnic_stack_connections", ())] >= 8, text


class Listens:
    """Runs rnicctl metrics --listen and sends HTTP requests to it."""

    def __init__(self, address, *sock):
        self.address = address
        self.p = subprocess.Popen([RNICCTL, *sock, "metrics", "--listen", address], stdout=subprocess.PIPE, text=True)
        assert self.p.stdout.readline() == f"rnicctl: counters are served at {address}\n"

    def get(self, path="/metrics", method="GET"):
        """(status, type, text)"""
        unix = self.address.startswith("/")
        s = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
        s.settimeout(HANG)
        s.connect(self.address if unix else ("127.0.0.1", int(self.address.split(":")[1])))
        http = HTTPConnection("localhost")
        http.sock = s
        http.request(method, path)
        r = http.getresponse()
        text = r.read().decode()
        http.close()
        return r.status, r.getheader("Content-Type"), text

    def end(self):
        self.p.terminate()
        return self.p.wait(HANG)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


@case
def metrics_are_told_over_http_also_after_a_restart_of_the_daemon():
    with tempfile.TemporaryDirectory(prefix="rnic-test-") as folder:
        conf, sock = pair_conf().replace("{dir}", folder), os.path.join(folder, "rnicd.sock")
        with Daemon(conf):
            listens = Listens(f"127.0.0.1:{free_port()}", "--socket", sock)
            status, kind, text = listens.get()
            assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8"), (status, kind, text)
            names = {name for _, _, samples in parsed(text) for name, _, _ in samples}
            asked = {name for _, _, samples in parsed(ok("metrics", sock=sock)) for name, _, _ in samples}
            assert names == asked and "rnic_stack_connections" in names, names ^ asked
            assert listens.get("/")[0] == 404 and "/metrics" in listens.get("/")[2]
            assert listens.get(method="HEAD")[0] == 200 and listens.get(method="POST")[0] in (405, 501)
        status, _, text = listens.get()
        assert status == 503 and "no rnicd answers" in text, (status, text)
        with Daemon(conf):
            assert listens.get()[0] == 200
        assert listens.end() == 0


@case
def a_socket_of_metrics_is_for_its_user_and_leaves_nothing():
    with Daemon(pair_conf()) as d:
        path = os.path.join(d.dir, "metrics.sock")
        listens = Listens(path, "--socket", d.sock)
        assert listens.get()[0] == 200 and os.stat(path).st_mode & 0o007 == 0
        p = ctl("metrics", "--listen", path, sock=d.sock)
        assert p.returncode == 2 and "the file exists already" in p.stderr, p
        assert listens.end() == 0 and not os.path.exists(path)


@case
def metrics_are_not_told_beyond_this_host():
    for address, word in (("0.0.0.0:9464", "only loopback addresses"), ("[::]:9464", "only loopback addresses"),
                          ("192.0.2.1:9464", "only loopback addresses"), ("9464", "give a loopback address and a port"),
                          ("127.0.0.1:", "give a loopback address"), ("127.0.0.1:70000", "give a loopback address"),
                          ("127.0.0.1:0", "give a loopback address"),
                          ("/" + 120 * "x", "at most 107 characters")):
        p = ctl("metrics", "--listen", address)
        assert p.returncode == 2 and word in p.stderr, (address, p)
    assert ctl("ports", "--listen", "127.0.0.1:9464").returncode == 2


@case
def the_dashboard_asks_for_metrics_that_there_are():
    with open(os.path.join(SOURCE, "config", "grafana.json"), encoding="utf-8") as f:
        board = json.load(f)
    with Daemon(pair_conf(rnicd="stage-cycles = yes")) as d:
        there = {name for _, _, samples in parsed(ok("metrics", sock=d.sock)) for name, _, _ in samples}
    asked = {name for panel in board["panels"] for target in panel["targets"]
             for name in re.findall(r"rnic_\w+", target["expr"])}
    assert len(asked) > 30 and asked <= there, asked - there


@case
def top_shows_rates_as_often_as_asked():
    with Busy() as d:
        out = ok("top", "--count", "2", "--interval", "0.2", sock=d.sock)
        assert out.count("rx frames/s") == 2 and out.count("idle ") >= 2, out


@case
def events_are_told_as_they_happen_and_those_before_on_request():
    with Daemon(pair_conf()) as d:
        assert d.run(TESTPMD, "-m", "write_bw", "-n", "1", ADDR).wait() != 0, "a client without a server succeeded"
        follows = d.run(RNICCTL, "--socket", d.sock, "events", "--all", "--json")
        until(lambda: follows.out, follows.tail)
        server = d.run(TESTPMD, "-s", "-a", ADDR, "--once")
        server.wait_line("listening")
        client = d.run(TESTPMD, "-m", "write_bw", "-n", "1", ADDR)
        assert client.wait() == 0 and server.wait() == 0, client.tail() + server.tail()

        def told(kind, pattern):
            events = [json.loads(line) for line in follows.out]
            assert [e["number"] for e in events] == list(range(events[0]["number"], events[-1]["number"] + 1)), events
            assert all(re.match(r"20\d\d-\d\d-\d\dT[\d:.]+Z$", e["time"]) for e in events), events
            return any(e["kind"] == kind and re.search(pattern, e["text"]) for e in events)

        ends = r"port b: 10\.77\.0\.2:\d+ to 10\.77\.0\.1:\d+ is "
        who = rf"client \d+ \(pid {client.pid}, uid 0\) is "
        for kind, pattern in (("client", who + "here"), ("connection", ends + "refused"),
                              ("info", "the peer refused the connection"), ("connection", ends + "established"),
                              ("connection", ends + "ended"), ("client", who + "gone")):
            until(lambda k=kind, p=pattern: told(k, p), lambda p=pattern: p + "\n" + follows.tail())
        first = ok("events", "--all", "--count", "3", sock=d.sock).splitlines()
        assert len(first) == 3 and re.match(r"\d\d:\d\d:\d\d\.\d{3} \w+ +\S", first[0]), first
        follows.stop()


@case
def the_daemon_of_the_named_socket_is_shown_and_no_other():
    with Daemon(pair_conf()) as a, Daemon(pair_conf()) as b:
        for d in (a, b):
            assert f"process {d.pid};" in ok("status", sock=d.sock)
            assert f"process {d.pid};" in ok("status", env=d.env())
            assert f"process {d.pid};" in ok("--telemetry", d.runtime_socket(), "status")
        p = ctl("status", sock=a.sock + ".none")
        assert p.returncode == 1 and "no rnicd answers at" in p.stderr, p


@case
def a_vendor_err_is_explained():
    out = ok("explain", "0x10202")
    assert "no buffer available" in out and "post receives" in out, out
    assert "STag" in ok("explain", str(0x10100))
    p = ctl("explain", "0x77")
    assert p.returncode == 1 and "no RFC names" in p.stderr, p


@case
def a_report_has_what_a_report_of_a_fault_needs():
    with Busy() as d:
        out = ok("report", sock=d.sock)
        for part in ("rnicctl 0.", os.uname().release, f"process {d.pid};",
                     '"rx_bad_csum": 0', "## clients", "## workers", "## listeners",
                     "10.77.0.1:", "wqes"):
            assert part in out, (part, out)


@case
def a_port_changes_while_it_runs():
    with Busy() as d:
        def lost():
            return d.telemetry("/rnic/ports,a")["impair_lost"]

        def set_a(*words):
            return ok("set", "port", "a", *words, sock=d.sock)

        assert lost() == 0
        assert set_a("loss=5%", "delay=100us") == "port a is changed\n"
        until(lambda: lost() > 20, "no frames are lost after set port a loss=5%")
        file = os.path.join(d.dir, "a.pcapng")
        set_a("loss=", "delay=", f"capture={file}")
        until(lambda: os.path.exists(file) and os.path.getsize(file) > 10000, "the capture does not grow")
        for word in (f"capture={file}.2", "capture=", f"capture={file}.3", "capture="):
            assert set_a(word) == "port a is changed\n"  # also right after another change, which may still be going on
        assert set_a("capture=") == "port a stays as it is\n", "the capture was still running"
        before = lost()
        moved = d.telemetry("/rnic/ports,a")["tx_packets"]
        until(lambda: d.telemetry("/rnic/ports,a")["tx_packets"] > moved + 1000, "no frames are sent after the change")
        assert lost() == before, "frames are still lost after set port a loss=0"


@case
def what_cannot_change_is_refused_and_nothing_changes():
    with Daemon(pair_conf()) as d:
        for words, part in (
                ("port a loss=5% mtu=9000", "takes a restart"),
                ("port c loss=1%", "no port c"),
                ("port a loss=5% loss=lots", "'loss=lots'"),
                ("port a losses=1%", "no key 'losses'"),
                ("port a loss", "form KEY=VALUE"),
                ("port a", "KEY=VALUE"),
                ("port", "no port"),
                ("port a capture=a.pcap", "absolute path"),
                ("port a capture=/none/a.pcap", "make it first"),
                ("log-level loud", "one of error, warning, info or debug"),
                ("speed", "port NAME KEY=VALUE"),
                ("port a capture=/" + "x" * 500, "give it in two")):
            p = ctl("set", *words.split(), sock=d.sock)
            assert p.returncode == 1 and part in p.stderr and len(p.stderr.splitlines()) == 1, (words, p)
        assert ok("set", "port", "a", "loss=0", sock=d.sock) == "port a stays as it is\n"


@case
def the_log_level_changes_while_it_runs():
    with Daemon(pair_conf(rnicd="log-level = warning")) as d:
        assert "debug" in ok("set", "log-level", "debug", sock=d.sock)
        d.run(TESTPMD, "-m", "write_bw", "-n", "1", ADDR).wait()
        until(lambda: "debug:" in d.stderr(), lambda: d.tail())


@case
def a_client_is_dropped_by_its_number_and_the_others_stay():
    with Daemon(pair_conf()) as d:
        dropped, stays = [d.run(TESTPMD, "-s", "-a", addr) for addr in (ADDR, "10.77.0.2")]
        for p in (dropped, stays):
            p.wait_line("listening")
        number = {line.split()[2]: line.split()[0] for line in d.telemetry("/rnic/clients")}
        first, second = number[str(stays.pid)], number[str(dropped.pid)]
        assert f"client {second} (pid {dropped.pid}) is dropped" in ok("drop-client", second, sock=d.sock)
        until(lambda: [line.split()[0] for line in d.telemetry("/rnic/clients")] == [first],
              "the dropped client is still listed")
        until(lambda: "its administrator asked for it" in d.stderr(), lambda: d.tail())
        for none in (second, "77", "x"):
            p = ctl("drop-client", none, sock=d.sock)
            assert p.returncode == 1 and "there is no client" in p.stderr, p


@case
def another_user_can_neither_see_nor_change():
    with Daemon(pair_conf()) as d:
        other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        for words in (("status",), ("set", "port", "a", "loss=100%"), ("drop-client", "1")):
            argv = [*other, RNICCTL, "--telemetry", d.runtime_socket(), *words]
            p = subprocess.run(argv, capture_output=True, text=True, timeout=HANG, check=False)
            assert p.returncode == 1 and "Permission denied" in p.stderr, p


def pretend(path):
    """A process of another user that answers at a telemetry socket as a daemon does, until its standard input ends."""
    os.makedirs(os.path.dirname(path))
    program = f"""
import json, os, socket, sys, threading
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind({path!r})
s.listen(8)
print("ready", flush=True)
def serve():
    while True:
        c, _ = s.accept()
        answer = dict(version="x", pid=os.getpid(), max_output_len=16384)
        try:
            while True:
                c.send(json.dumps(answer).encode())
                q = c.recv(1000).decode()
                answer = {{q.split(",")[0]: [] if "+" in q else ["\x1b]0;owned\x07"]}}
        except OSError:
            pass
threading.Thread(target=serve, daemon=True).start()
sys.stdin.read()
"""
    os.chown(os.path.dirname(path), 65534, 65534)
    p = subprocess.Popen(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-B", "-c",
                          program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"
    return p


@case
def a_process_of_another_user_is_no_daemon():
    """Anyone can make a folder where rnicctl searches. A socket that the user names is asked whoever listens there."""
    with tempfile.TemporaryDirectory() as runtime:
        os.chmod(runtime, 0o755)
        path = os.path.join(runtime, "dpdk", "rnicd1", "dpdk_telemetry.v2")
        p = pretend(path)
        env = {**os.environ, "XDG_RUNTIME_DIR": runtime}
        told = ctl("ports", env=env)
        assert "owned" not in told.stdout + told.stderr and str(p.pid) not in told.stdout + told.stderr, told
        named = ctl("--telemetry", path, "listeners")
        assert "owned" in named.stdout and "\x1b" not in named.stdout and "\x07" not in named.stdout, named
        p.stdin.close()
        p.wait(HANG)


@case
def wrong_usage_says_so_in_one_line():
    for args in ((), ("nonsense",), ("status", "x"), ("ports", "a", "b"), ("explain", "x"),
                 ("explain", "1", "2"), ("top", "--count", "0"),
                 ("top", "--interval", "-1"), ("ports", "--list"), ("--nonsense",), ("set",), ("drop-client",)):
        p = ctl(*args)
        assert p.returncode == 2 and "--help" in p.stderr.splitlines()[-1], (args, p)
    with Daemon(pair_conf()) as d:
        p = ctl("ports", "none", sock=d.sock)
        assert p.returncode == 1 and len(p.stderr.splitlines()) == 1, p


@case
def a_daemon_that_stands_still_holds_up_no_question_to_another():
    with Daemon(pair_conf()) as still, Daemon(pair_conf()) as d:
        still.p.send_signal(signal.SIGSTOP)
        try:
            for _ in range(4):  # more questions than the backlog of a socket whose owner does not accept
                p = subprocess.run(["strace", "-f", "-e", "trace=connect", RNICCTL, "--socket", d.sock, "ports"],
                                   capture_output=True, text=True, timeout=HANG, check=False)
                assert p.returncode == 0 and ADDR in p.stdout, p
                assert f"/rnicd{d.p.pid}/" in p.stderr and f"/rnicd{still.p.pid}/" not in p.stderr, p.stderr
        finally:
            still.p.send_signal(signal.SIGCONT)


main()
