#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""testpmd-rdma's prompt: from a pipe, as a script uses it, and on a terminal, as a person does."""
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

from rig import PATIENCE, TESTPMD, Daemon, case, main, pair_conf, until

ADDR = "10.77.0.1"
# How a row of the table begins and ends. On a busy machine a worker may send segments again, and the row says so.
ROW = r"^ +{} +\d.*verified(?:, \d+ (?:segments sent again|frames dropped))*$"
# A write_bw run that has counted messages of its measurement. A run that is stopped earlier prints no row.
MEASURING = re.compile(r"running: (?!.*warm-up).*, (?!0\.000 )[\d.]+ GB/s")


class Prompt:
    def __init__(self, d, *argv):
        self.p = d.run(TESTPMD, "-i", *argv)

    def say(self, line):
        self.p.p.stdin.write(line + "\n")
        self.p.p.stdin.flush()

    def expect(self, text, count=1):
        end = time.monotonic() + PATIENCE
        while self.p.stdout().count(text) < count:
            assert time.monotonic() < end and self.p.p.poll() is None, f"'{text}' was not printed:\n{self.p.tail()}"
            time.sleep(0.01)


def server(d, *argv):
    s = d.run(TESTPMD, "-s", "-a", ADDR, *argv)
    s.wait_line("listening")
    return s


@case
def a_script_sets_starts_shows_and_quits():
    with Daemon(pair_conf()) as d:
        s = server(d)
        p = Prompt(d)
        for line in ("set host " + ADDR, "set mode write_bw", "set size 4k", "set iters 500", "start", "wait", "set size 64,64k",
                     "start", "wait", "set mode send_lat", "set size 8", "start", "wait", "show config", "show stats", "quit"):
            p.say(line)
        out = p.p.ok()
        assert out.count("write_bw:") >= 2 and out.count("send_lat:") >= 1, out
        # each row appears twice: when its run ends, and in show stats
        for size in ("4k", "64", "64k", "8"):
            assert len(re.findall(ROW.format(size), out, re.M)) == 2, (size, out)
        assert re.search(r"^ +size +8$", out, re.M) and re.search(rf"^ +host +{ADDR}$", out, re.M), out
        s.stop()


@case
def a_run_is_stopped_and_another_started():
    with Daemon(pair_conf()) as d:
        s = server(d)
        p = Prompt(d, "--mode", "write_bw", "--size", "64k", ADDR)
        p.say("set seconds 600")
        p.say("start")
        p.say("start")
        p.expect("a run is going on: stop it first, or wait")
        end = time.monotonic() + PATIENCE
        while not MEASURING.search(p.p.stdout()):
            assert time.monotonic() < end, p.p.tail()
            p.say("show stats")
            time.sleep(0.1)
        p.say("stop")
        p.say("set iters 100")
        p.say("start")
        p.say("wait")
        p.say("stop")
        p.expect("nothing is running")
        p.say("clear stats")
        p.say("show stats")
        p.expect("no results yet")
        p.say("quit")
        out = p.p.ok()
        assert len(re.findall(ROW.format("64k"), out, re.M)) >= 2, out
        s.stop()


@case
def nonsense_is_answered_and_harms_nothing():
    with Daemon(pair_conf()) as d:
        s = server(d)
        p = Prompt(d)
        for line, answer in (("frobnicate", 'unknown command "frobnicate"'), ("start", "no server named"), ("set", "set what?"),
                             ("set colour red", "colour"), ("set size nought", "nought"), ("show", "show what?"),
                             ("set size 1 2 3", "one word too many"), ("x" * 700, "too long"), ("set csv", "command line"),
                             ("s", "could be several commands"), ("stop", "nothing is running")):
            p.say(line)
            p.expect(answer)
        for line in ("set host 10.77.0.99", "set timeout 1", "set iters 10", "start", "wait", "set timeout 60",
                     "set host " + ADDR, "start", "wait", "quit"):
            p.say(line)
        p.p.wait()
        assert "verified" in p.p.stdout() and "10.77.0.99" in p.p.stdout() + p.p.stderr(), p.p.tail()
        s.stop()


@case
def end_of_input_in_the_middle_of_a_run_is_an_end():
    with Daemon(pair_conf()) as d:
        s = server(d)
        p = Prompt(d, "--seconds", "600", ADDR)
        p.say("start")
        p.say("show stats")
        p.p.p.stdin.close()
        assert p.p.wait() == 0, p.p.tail()
        s.stop()


@case
def a_person_at_a_terminal():
    """A pseudo-terminal: the prompt is shown, ^C ends the run and not the program, ^D ends the program."""
    with Daemon(pair_conf()) as d:
        s = server(d)
        master, slave = pty.openpty()
        p = subprocess.Popen([TESTPMD, "-i", ADDR], stdin=slave, stdout=slave, stderr=slave, env=d.env(), close_fds=True)
        os.close(slave)
        seen = ""

        def read_until(text):
            """What comes before the text, which is read too."""
            nonlocal seen
            while text not in seen:
                assert select.select([master], [], [], PATIENCE)[0], f"'{text}' was not printed: {seen}"
                seen += os.read(master, 4096).decode(errors="replace")
            before, seen = seen.split(text, 1)
            return before

        def shown():
            os.write(master, b"show stats\n")
            return read_until("testpmd-rdma> ")

        try:
            read_until("testpmd-rdma> ")
            os.write(master, b"set seconds 600\n")
            read_until("testpmd-rdma> ")
            os.write(master, b"start\n")
            read_until("testpmd-rdma> ")
            until(lambda: MEASURING.search(shown()), "no measurement begins")
            p.send_signal(signal.SIGINT)
            read_until("verified")
            read_until("testpmd-rdma> ")
            os.write(master, b"show config\n")
            read_until("600")
            read_until("testpmd-rdma> ")
            os.write(master, b"\x04")
            assert p.wait(PATIENCE) == 0
        finally:
            if p.poll() is None:
                p.kill()
                p.wait()
            os.close(master)
        s.stop()


if __name__ == "__main__":
    sys.exit(main())
