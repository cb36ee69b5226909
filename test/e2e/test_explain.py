#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rnicctl explain: each cause that limits a connection is set up, and must be told with its figure."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading

from nets import OURS, conf
from rig import BUILD, PATIENCE, TESTPMD, Daemon, case, helper, main, moves, on_ordinary_pages, pair_conf, until

RNICCTL = os.path.join(BUILD, "app", "rnicctl", "rnicctl")
ADDR = "10.77.0.1"
SHORT = "0.5"  # seconds between two samples


def ctl(d, *args):
    p = subprocess.run([RNICCTL, "--socket", d.sock, *args], capture_output=True, text=True, timeout=PATIENCE,
                       check=False)
    assert p.returncode == 0, p
    return p.stdout


def limits_of(d, seconds=SHORT):
    limits = json.loads(ctl(d, "--json", "explain", "--interval", seconds))
    assert limits == sorted(limits, key=lambda limit: -limit["weight"]), limits
    return limits


def explain(d, seconds=SHORT):
    return {limit["cause"]: limit for limit in limits_of(d, seconds)}


class Traffic:
    """A testpmd-rdma client whose traffic goes on until the end. Traffic has begun when a megabyte has arrived."""

    def __init__(self, *args, conf=None, begun=moves):
        self.args, self.conf, self.begun = args, conf or pair_conf(), begun

    def __enter__(self):
        self.d = Daemon(self.conf)
        try:
            self.server = self.d.run(TESTPMD, "-s", "-a", ADDR, "--once")
            self.server.wait_line("listening")
            self.client = self.d.run(TESTPMD, "--seconds", "600", *self.args, ADDR)
            self.begun(self.d, 18600)
        except BaseException:
            self.d.close()
            raise
        return self.d

    def __exit__(self, *_):
        self.client.stop()
        self.server.stop()
        self.d.end()
        self.d.close()


def tells(d, cause, *words):
    """Waits until rnicctl explain names the cause, both as JSON and as text."""
    until(lambda: cause in explain(d), lambda: f"rnicctl explain does not name {cause}: {explain(d)}")
    text = lambda: ctl(d, "explain", "--interval", SHORT)
    until(lambda: all(w in text() for w in words), lambda: f"rnicctl explain does not have {words}: {text()}")


@case
def an_idle_daemon_has_nothing_to_explain():
    with Daemon(pair_conf()) as d:
        assert ctl(d, "explain", "--interval", "0.1").startswith("No connection carries data now."), ctl(d, "explain")


@case
def segments_that_are_sent_again_are_told_with_their_share():
    with Traffic("-m", "write_bw") as d:
        ctl(d, "set", "port", "b", "loss=2%")
        tells(d, "retransmissions", "were sent again", "% of its TCP segments")
        tells(d, "impairment", "port b: it lost or corrupted")


@case
def small_messages_are_told_and_large_ones_are_not():
    with Traffic("-m", "write_bw", "--size", "64") as d:
        tells(d, "small-messages", "messages are small")
    with Traffic("-m", "write_bw", "--size", "1m") as d:
        assert "small-messages" not in explain(d), explain(d)


@case
def programs_that_sleep_on_events_are_told_and_those_that_poll_are_not():
    with Traffic("-m", "send_lat", "--events", begun=lambda *_: None) as d:
        tells(d, "events", "they sleep on events")
    with Traffic("-m", "write_bw") as d:
        assert "events" not in explain(d), explain(d)


@case
def a_capture_is_told_while_it_lasts():
    with Traffic("-m", "write_bw") as d:
        ctl(d, "set", "port", "a", f"capture={d.dir}/a.pcapng")
        tells(d, "capture", "rnicctl set port a capture=")
        until(lambda: subprocess.run([RNICCTL, "--socket", d.sock, "set", "port", "a", "capture="], capture_output=True,
                                     timeout=PATIENCE, check=False).returncode == 0, "the change before ends")
        until(lambda: "capture" not in explain(d), "rnicctl explain still names the capture")


@case
def a_port_at_its_rate_is_told():
    with Traffic("-m", "write_bw", "--size", "1m", conf=pair_conf(b="rate = 1G")) as d:
        tells(d, "rate", "its rate is set to 1.000 Gb/s")


@case
def a_worker_that_shares_its_cpu_is_told():
    cpu = min(os.sched_getaffinity(0))
    with Traffic("-m", "write_bw", conf=pair_conf(rnicd=f"workers = {cpu}")) as d:
        other = [d.run("taskset", "-c", str(cpu), sys.executable, "-c", "while True: pass") for _ in range(2)]
        tells(d, "cpu-shared", "waited for its CPU")
        for p in other:
            p.stop()


@case
def a_long_path_is_told_with_what_bounds_the_bytes_under_way():
    """The peer's window is one MiB: more than 512 FPDUs of a small MTU, and less than 512 FPDUs of a large one."""
    with Traffic("-m", "write_bw", "--size", "1m", conf=pair_conf(mtu=9000, both="delay = 10ms")) as d:
        tells(d, "peer-window", "and the peer's window is")
        assert "fpdus-under-way" not in explain(d), explain(d)
    with Traffic("-m", "write_bw", "--size", "1m", conf=pair_conf(both="delay = 10ms")) as d:
        tells(d, "fpdus-under-way", "FPDUs are under way")
        assert "peer-window" not in explain(d), explain(d)


@case
def the_heaviest_limits_of_a_cause_are_told_and_the_others_counted():
    with Traffic("-m", "write_bw", "--size", "1m", "--qps", "12", conf=pair_conf(mtu=9000, both="delay = 20ms")) as d:
        def folded():
            limits = [at["more"] for at in limits_of(d) if at["cause"] == "peer-window"]
            assert len(limits) <= 4 and not any(limits[:-1]), limits
            return limits and limits[-1]
        until(folded, lambda: limits_of(d))
        until(lambda: "The same is true of" in ctl(d, "explain"), lambda: ctl(d, "explain"))


@case
def working_memory_that_has_run_out_is_told():
    conf = on_ordinary_pages(pair_conf(rnicd="memory = 64M"))
    with Traffic("-m", "write_bw", "--size", "64", "--qps", "1024", "--depth", "16", conf=conf,
                 begun=lambda *_: None) as d:
        tells(d, "memory", "working memory or FPDU records had run out")


@case
def a_link_that_is_down_is_told():
    with Daemon(conf("memif:role=server,id=0,socket-abstract=no,socket={dir}/memif.sock")) as d:
        tells(d, "link", "port a: its link is down")


@case
def a_neighbour_that_answers_no_arp_is_told():
    def asked():
        d.run(TESTPMD, "-m", "write_bw", "-n", "1", "10.77.0.9")
        return explain(d).get("arp")
    with Daemon(pair_conf()) as d:
        told = until(asked, d.tail)
        assert "did not answer ARP" in told["text"] and "wrong VLAN" in told["text"], told


@case
def frames_that_a_port_cannot_send_are_told():
    """The daemon at the other end of a memif with 16 ring entries is stopped."""
    with tempfile.TemporaryDirectory() as folder:
        there, here = (conf(f"memif:role={role},id=0,rsize=4,socket-abstract=no,socket={folder}/memif.sock")
                       for role in ("server", "client"))
        with Daemon(there) as far, Daemon(here.replace(OURS, "10.79.0.3")) as d:
            until(lambda: d.telemetry("/rnic/ports,a")["link"] == "up", d.tail)
            server = far.run(TESTPMD, "-s", "-a", OURS, "--once")
            server.wait_line("listening")
            client = d.run(TESTPMD, "-m", "write_bw", "--qps", "4", "--seconds", "600", OURS)
            moves(far, 18600, 4)
            far.p.send_signal(signal.SIGSTOP)
            try:
                until(lambda: "frames were lost" in explain(d, "3").get("buffers", {"text": ""})["text"],
                      lambda: explain(d, "3"))
            finally:
                far.p.send_signal(signal.SIGCONT)
            client.stop()
            server.stop()


@case
def long_segments_that_are_copied_are_told_with_the_reason():
    with Traffic("-m", "write_bw", "--size", "1m", conf=pair_conf(mtu=9000, both="crc = always")) as d:
        tells(d, "by-copy", "were copied once more", "because a CRC or a checksum is computed")
    with Traffic("-m", "write_bw", "--size", "1m", conf=pair_conf(mtu=9000)) as d:
        assert "by-copy" not in explain(d) and d.telemetry("/rnic/ports,b")["tx_data"] > 100, explain(d)


@case
def time_that_the_host_of_a_virtual_machine_takes_is_told():
    """rnicctl reads a made-up /proc/stat whose CPUs are busy half of the time and stolen half of the time."""
    end = threading.Event()

    def pass_time(file):
        ticks = 1000
        while not end.wait(0.02):
            ticks += 1
            os.pwrite(file, b"cpu  %010d 0 0 0 0 0 0 %010d 0 0\n" % (ticks, ticks), 0)

    with Daemon(pair_conf()) as d, tempfile.NamedTemporaryFile() as stat:
        os.pwrite(stat.fileno(), b"cpu  %010d 0 0 0 0 0 0 %010d 0 0\n" % (1000, 1000), 0)
        clock = threading.Thread(target=pass_time, args=(stat.fileno(),))
        clock.start()
        try:
            user = ["--map-root-user"] if os.geteuid() != 0 else []
            said = subprocess.run(["unshare", *user, "--mount", "sh", "-c",
                                   'mount --bind "$1" /proc/stat; shift; exec "$@"', "sh", stat.name, RNICCTL,
                                   "--socket", d.sock, "explain"], capture_output=True, text=True, timeout=PATIENCE,
                                  check=False)
        finally:
            end.set()
            clock.join()
        assert "took 50 % of the time of its CPUs" in said.stdout, said


class Told(threading.Thread):
    """Plays the telemetry of an rnicd whose connections are those of looks[0] at the first look, and so on."""

    def __init__(self, path, looks):
        super().__init__(daemon=True)
        self.looks, self.now = iter(looks), {}
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(path)
        self.listener.listen()
        self.start()

    def answer(self, command):
        if command == "/rnic/conns":
            self.now = next(self.looks)
            return [f"{number} a" for number in self.now]
        if command.startswith("/rnic/conns,") and "+" not in command:
            return self.now[command.split(",")[1]]
        return {} if command == "/rnic/counters" else []

    def run(self):
        s, _ = self.listener.accept()
        with self.listener, s:
            s.sendall(json.dumps({"version": "DPDK", "pid": 1, "max_output_len": 16384}).encode())
            while (command := s.recv(1024).decode()):
                s.sendall(json.dumps({command.split(",")[0]: self.answer(command)}).encode())


def explained(*looks):
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "telemetry")
        told = Told(path, looks)
        p = subprocess.run([RNICCTL, "--telemetry", path, "explain", "--interval", SHORT], capture_output=True,
                           text=True, timeout=PATIENCE, check=False)
        told.join(PATIENCE)
    assert p.returncode == 0, p
    return p.stdout


def a_connection(**counters):
    return {"name": "a 10.77.0.1:1 10.77.0.2:2", "mss": 1448, "snd_wnd": 1 << 20, "fpdus_most": 64, **counters}


@case
def counters_of_32_bits_that_begin_anew_give_the_right_share():
    said = explained({"7": a_connection(bytes_out=0, segs_out=(1 << 32) - 6000, retransmits=(1 << 32) - 10)},
                     {"7": a_connection(bytes_out=10**7, segs_out=4000, retransmits=90)})
    assert "1.0 % of its TCP segments were sent again (100 of 10000)" in said, said


@case
def a_later_connection_is_not_compared_with_one_that_has_ended():
    said = explained({"7": a_connection(bytes_out=0, segs_out=9000)},
                     {"9": a_connection(bytes_out=10**7, segs_out=9000)})
    # one more line may come, on CPU time that the host of a virtual machine takes
    assert re.fullmatch(r"No connection carries data now\.\n(1\. the host of this virtual machine took .*\n)?", said), said


@case
def a_receiver_that_is_not_ready_is_told():
    """slow_receiver posts a receive only after the completion of the one before."""
    with Daemon(pair_conf(both="rnr = wait")) as d:
        p = d.run(helper("slow_receiver"), ADDR, "10.77.0.2")
        tells(d, "receiver-not-ready", "because no receive was posted")
        p.stop()


if __name__ == "__main__":
    sys.exit(main())
