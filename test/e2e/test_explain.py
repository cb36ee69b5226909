#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rnicctl explain: each cause that limits a connection is set up, and told with its figure."""
import json
import os
import subprocess
import sys

from rig import BUILD, PATIENCE, TESTPMD, Daemon, case, helper, main, moves, on_ordinary_pages, pair_conf, until

RNICCTL = os.path.join(BUILD, "app", "rnicctl", "rnicctl")
ADDR = "10.77.0.1"


def ctl(d, *args):
    p = subprocess.run([RNICCTL, "--socket", d.sock, *args], capture_output=True, text=True, timeout=PATIENCE,
                       check=False)
    assert p.returncode == 0, p
    return p.stdout


def limits_of(d):
    limits = json.loads(ctl(d, "--json", "explain"))
    assert limits == sorted(limits, key=lambda limit: -limit["weight"]), limits
    return limits


def explain(d):
    return {limit["cause"]: limit for limit in limits_of(d)}


class Traffic:
    """A client of testpmd-rdma whose traffic goes on until the end. It has begun when a megabyte has been sent."""

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
    """The cause is told, some time; so does the text for people."""
    until(lambda: cause in explain(d), lambda: f"{cause} is not told: {explain(d)}")
    until(lambda: all(w in ctl(d, "explain") for w in words), lambda: f"{words}: {ctl(d, 'explain')}")


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
        until(lambda: "capture" not in explain(d), "the capture has ended")


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
    """A window is a mebibyte: more than 512 FPDUs of a small MTU, and less than 512 of a large one."""
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
def a_receiver_that_is_not_ready_is_told():
    """The helper posts a receive when it has polled the one before, and not ahead."""
    with Daemon(pair_conf(both="rnr = wait")) as d:
        p = d.run(helper("slow_receiver"), ADDR, "10.77.0.2")
        tells(d, "receiver-not-ready", "because no receive was posted")
        p.stop()


if __name__ == "__main__":
    sys.exit(main())
