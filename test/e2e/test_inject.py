#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rnicrun --inject: the named call or completion fails in one process, and one line tells it."""
import os
import random
import re
import socket
import subprocess
import sys

import programs
from rig import BUILD, RNICRUN, TESTPMD, Daemon, Foreign, case, helper, main, need, pair_conf, said, until

SOURCE = os.environ.get("RNIC_SOURCE") or os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
SERVER, PEER = "10.77.0.1", "10.77.0.2"
STRANGER = ("setpriv", "--reuid", "65534", "--clear-groups")
RNICCTL = os.path.join(BUILD, "app", "rnicctl", "rnicctl")


def client(spec, *argv):
    """Runs a client with injected failures against a server without; returns the client's process after its end."""
    with Daemon(pair_conf()) as d:
        server = d.run(TESTPMD, "-s", "-a", SERVER, "--once")
        server.wait_line("listening")
        p = d.run(RNICRUN, "--inject", spec, *(argv or (TESTPMD, "-m", "write_bw", "--iters", "200", SERVER)))
        p.wait()
        server.stop()
        return p


def told(p):
    return re.findall(r"^rnic: injected .*$", p.stderr(), re.M)


def fails(spec, *words):
    p = client(spec)
    assert p.p.returncode not in (0, None) and p.p.returncode > 0, (spec, p.tail())
    lines = told(p)
    assert len(lines) == 1 and spec in lines[0], (spec, lines, p.tail())
    assert all(w in lines[0] for w in words), (spec, lines)


@case
def each_call_fails_with_the_errno_that_is_named():
    for what, function, errno in (("alloc_pd", "ibv_alloc_pd", "ENOMEM"), ("reg_mr", "ibv_reg_mr", "EFAULT"),
                                  ("create_cq", "ibv_create_cq", "EINVAL"), ("create_qp", "ibv_create_qp", "EAGAIN"),
                                  ("resolve_addr", "rdma_resolve_addr", "ENODEV"),
                                  ("resolve_route", "rdma_resolve_route", "EHOSTUNREACH"),
                                  ("connect", "rdma_connect", "ETIMEDOUT")):
        fails(f"{what}:1={errno}", f"call 1 of {function} fails with {errno}")


@case
def the_calls_of_a_server_fail():
    for what, function in (("listen", "rdma_listen"), ("accept", "rdma_accept")):
        with Daemon(pair_conf()) as d:
            server = d.run(RNICRUN, "--inject", f"{what}:1=EIO", TESTPMD, "-s", "-a", SERVER, "--once")
            if what == "accept":
                server.wait_line("listening")
                d.run(TESTPMD, "-m", "write_bw", "--iters", "200", SERVER)
            until(lambda p=server: told(p), server.tail)
            assert f"call 1 of {function} fails with EIO" in told(server)[0], server.tail()
            server.stop()


@case
def the_completion_that_is_named_fails():
    fails("wc.write:3=REM_ACCESS_ERR", "completes with an error")
    fails("wc:1=RETRY_EXC_ERR", "completes with an error")


@case
def calls_fail_with_a_private_daemon_and_with_none_too():
    for way, address in ((("--with-daemon",), SERVER), (("--embedded",), "127.0.0.1"),
                         (("--with-daemon", "--design", "host"), SERVER)):
        p = subprocess.run([RNICRUN, *way, "--inject", "alloc_pd:1=EPERM", TESTPMD, "-s", "-a", address, "--once"],
                           capture_output=True, text=True, timeout=600, check=False)
        assert p.returncode == 1 and p.stderr.count("rnic: injected alloc_pd:1=EPERM") == 1, (way, p)


@case
def events_come_in_the_place_of_success_and_beside_completions():
    for name, spec in (("connections_fail_by_events",
                        "connect:1=REJECTED,connect:2=UNREACHABLE,connect:3=CONNECT_ERROR"),
                       ("resolving_fails_by_events", "resolve_addr:2=ADDR_ERROR,resolve_route:1=ROUTE_ERROR"),
                       ("asynchronous_events_come_with_completions", "async:2=PORT_ERR,async:3=QP_FATAL"),
                       ("a_shared_receive_queue_has_an_event_of_its_own", "async:1=SRQ_LIMIT_REACHED"),
                       ("the_daemon_is_gone_and_a_device_that_is_opened_anew_works", "daemon:2=GONE"),
                       ("a_port_goes_down_and_up_and_events_come_at_a_time",
                        "async@passive:1=PORT_ERR,async@passive:2=PORT_ACTIVE,async@passive:100ms=QP_LAST_WQE_REACHED,"
                        "async:100ms=DEVICE_FATAL"),
                       ("the_daemon_restarts_after_a_time", "daemon:2=GONE/300ms")):
        with Daemon(pair_conf()) as d:
            runs_case(d, name, spec)


def runs_case(d, name, spec):
    p = d.run(RNICRUN, "--inject", spec, helper("inject_cases"), SERVER, PEER, name)
    assert p.wait() == 0 and len(told(p)) == spec.count(":"), p.tail()


@case
def what_is_late_comes_later_and_not_before():
    held = "post_recv:2=HELD/300ms"
    late = "wc.send@active:2=DELAYED/300ms"
    with Daemon(pair_conf(both="rnr = wait")) as d:
        runs_case(d, "a_completion_is_delayed_and_those_behind_it_with_it", late)
        runs_case(d, "a_delayed_completion_wakes_who_waits_for_its_event", late)
        runs_case(d, "a_receiver_is_not_ready_for_a_time", held)
        runs_case(d, "a_shared_receive_queue_is_not_ready_for_a_time", "post_srq_recv:2=HELD/300ms")
    with Daemon(pair_conf()) as d:
        runs_case(d, "a_receiver_that_is_not_ready_ends_the_stream", held)


@case
def a_connection_fails_in_each_way_on_both_kinds_of_device():
    spec = "connect:1=REFUSED,connect:2=REJECTED,connect:3=TIMED_OUT/300ms"
    for more in ("", "personality = roce"):
        with Daemon(pair_conf(both=more)) as d:
            runs_case(d, "a_connection_is_refused_rejected_or_times_out", spec)


@case
def the_calls_of_objects_and_posts_fail():
    with Daemon(pair_conf()) as d:
        runs_case(d, "other_calls_fail_with_their_errno",
                  "open_device:1=EACCES,create_comp_channel:1=EMFILE,create_srq:1=ENOMEM,"
                  "create_ah:1=EHOSTUNREACH,alloc_mw:1=EPERM,"
                  "post_send:1=ENOMEM,post_recv:1=EINVAL,modify_qp:1=EIO,post_srq_recv:1=ENOMEM")
    p = embedded("bind_addr:1=EADDRINUSE", "none")
    assert p.returncode == 2 and "call 1 of rdma_bind_addr fails with EADDRINUSE" in p.stderr, p


def embedded(spec, name):
    argv = [RNICRUN, "--embedded", "--inject", spec, helper("inject_cases"), "127.0.0.1", "127.0.0.1", name]
    return subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)


@case
def a_seed_repeats_what_chance_does():
    def failed(seed):
        p = embedded(f"create_comp_channel:?20=ENOMEM,seed={seed}", "many_channels_are_made")
        return re.findall(r"call (\d+) of ibv_create_comp_channel fails", p.stderr)

    assert failed(3) == failed(3) and failed(3) != failed(4) and len(failed(3)) > 5, failed(3)


def ctl(d, *words, under=()):
    return subprocess.run([*under, RNICCTL, "--socket", d.sock, "inject", *words], capture_output=True, text=True,
                          timeout=600, check=False)


def refused(d, word, *words, under=()):
    p = ctl(d, *words, under=under)
    assert p.returncode != 0 and word in p.stderr and p.stderr.count("\n") == 1, p


@case
def a_running_program_is_told_by_rnicctl():
    with Daemon(pair_conf()) as d:
        p = d.run(RNICRUN, "--inject", "none", helper("inject_cases"), SERVER, PEER, "a_running_program_is_told")
        p.wait_line("runs")
        who = f"pid={p.p.pid}"
        refused(d, "no such client", "pid=1", "none")
        refused(d, "no such client", "77", "none")
        refused(d, "first word", who, "alloc:1=ENOMEM")
        refused(d, "needs the number", "me", "none")
        number, = [line.split()[0] for line in d.telemetry("/rnic/clients")]
        assert ctl(d, number, "create_qp:1=ENOMEM").returncode == 0
        answer = ctl(d, who, "alloc_pd:3=ENOMEM")
        assert answer.returncode == 0 and "has the new failures" in answer.stdout, answer
        said(d, f"client {number} (pid {p.p.pid}) is to inject alloc_pd:3=ENOMEM, uid {os.geteuid()} says")
        assert p.wait() == 0 and len(told(p)) == 1, p.tail()
        orders = re.findall(r"^rnic: rnicctl inject: from now on (.*)$", p.stderr(), re.M)
        assert orders == ["create_qp:1=ENOMEM", "alloc_pd:3=ENOMEM"], p.tail()


@case
def a_program_that_runs_iwarp_itself_is_told_by_its_process_number():
    """For a program that is embedded or runs over rnicd's streams (designs host and assisted). An order to a process of
    another user is refused, and so is an order to a program that takes no orders."""
    with Daemon(pair_conf()) as d:
        os.chmod(d.dir, 0o711)
        for way, ends in (("--embedded", ("127.0.0.1", "127.0.0.1")), ("--design=host", (SERVER, PEER)),
                          ("--design=assisted", (SERVER, PEER))):
            p = d.run(RNICRUN, way, "--inject", "none", helper("inject_cases"), *ends, "a_running_program_is_told")
            p.wait_line("runs")
            who = f"pid={p.p.pid}"
            refused(d, "another user's", who, "alloc_pd:3=ENOMEM", under=STRANGER)
            assert ctl(d, who, "create_qp:1=ENOMEM").returncode == 0
            answer = ctl(d, who, "alloc_pd:3=ENOMEM")
            assert answer.returncode == 0 and "has the new failures" in answer.stdout, (way, answer)
            assert p.wait() == 0 and len(told(p)) == 1, p.tail()
            orders = re.findall(r"^rnic: rnicctl inject: from now on (.*)$", p.stderr(), re.M)
            assert orders == ["create_qp:1=ENOMEM", "alloc_pd:3=ENOMEM"], p.tail()
        p = d.run(RNICRUN, "--embedded", helper("inject_cases"), "127.0.0.1", "127.0.0.1", "a_running_program_is_told")
        p.wait_line("runs")
        refused(d, "rnicrun --inject", f"pid={p.p.pid}", "alloc_pd:3=ENOMEM")
        p.stop()
    refused(d, "takes no orders itself", "pid=1", "none")


@case
def the_child_of_a_program_that_runs_iwarp_itself_is_told_by_a_number_of_its_own():
    with Daemon(pair_conf()) as d:
        p = d.run(RNICRUN, "--embedded", "--inject", "none", helper("inject_cases"), "127.0.0.1", "127.0.0.1",
                  "a_child_is_told")
        child = p.wait_line("child runs").split()[-1]
        assert ctl(d, f"pid={child}", "alloc_pd:3=ENOMEM").returncode == 0
        assert p.wait() == 0 and len(told(p)) == 1, p.tail()


@case
def whoever_says_nothing_or_nonsense_does_not_keep_orders_away():
    with Daemon(pair_conf()) as d:
        p = d.run(RNICRUN, "--embedded", "--inject", "none", helper("inject_cases"), "127.0.0.1", "127.0.0.1",
                  "a_running_program_is_told")
        p.wait_line("runs")
        for junk in (b"", b"x", bytes(40), random.Random(1).randbytes(2000)):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
                s.connect(f"\0rnic-inject-{p.p.pid}")
                if junk:
                    s.send(junk)
        silent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        silent.connect(f"\0rnic-inject-{p.p.pid}")
        assert ctl(d, f"pid={p.p.pid}", "alloc_pd:3=ENOMEM").returncode == 0
        silent.close()
        assert p.wait() == 0 and len(told(p)) == 1, p.tail()


@case
def a_program_that_takes_no_orders_or_is_another_users_is_left_alone():
    with Daemon(pair_conf()) as d:
        p = d.run(RNICRUN, helper("inject_cases"), SERVER, PEER, "a_running_program_is_told")
        p.wait_line("runs")
        refused(d, "takes no orders", f"pid={p.p.pid}", "alloc_pd:3=ENOMEM")
        p.stop()
        os.chmod(d.dir, 0o711)
        p = d.run(RNICRUN, "--inject", "none", helper("inject_cases"), SERVER, PEER, "a_running_program_is_told")
        p.wait_line("runs")
        refused(d, "another user's", f"pid={p.p.pid}", "alloc_pd:3=ENOMEM", under=STRANGER)
        said(d, "uid 65534 may not inject failures into client", f"(pid {p.p.pid}) of uid {os.geteuid()}")
        assert p.p.poll() is None and "rnicctl inject" not in p.stderr(), p.tail()
        p.stop()


@case
def what_is_never_reached_fails_nothing():
    """The program posts no atomics and makes fewer than a thousand queue pairs."""
    p = client("wc.atomic:1=FATAL_ERR,create_qp:1000=ENOMEM")
    assert p.p.returncode == 0 and not told(p), p.tail()


@case
def ib_write_bw_reports_the_completion_that_fails():
    need("ib_write_bw")
    with Daemon(pair_conf()) as d:
        server = d.run(RNICRUN, "ib_write_bw", "-R", "-n", "200")
        until(lambda: server.p.poll() is not None or programs.on_device(18515)(d), server.tail)
        p = d.run(RNICRUN, "--inject", "wc.write:2=RETRY_EXC_ERR", "ib_write_bw", "-R", "-n", "200", SERVER)
        code = p.wait()
        server.stop()
        if not told(p) and programs.race(server, p):
            raise Foreign(programs.race(server, p))
        assert code != 0, p.tail()
        assert "Failed status 12" in p.stdout() + p.stderr(), p.tail()
        assert len(told(p)) == 1, p.tail()


@case
def a_wrong_specification_ends_the_program_with_a_sentence():
    for spec, word in (("reg_mr:1=NONSENSE", "errno"), ("wc:0=FATAL_ERR", "number from 1 on"),
                       ("wx:1=EIO", "first word"),
                       ("accept:1=REJECTED", "errno"), ("async:1=FATAL_ERR", "IBV_EVENT_"),
                       ("daemon:1=EIO", "GONE")):
        p = subprocess.run([RNICRUN, "--inject", spec, "true"], capture_output=True, text=True, timeout=600,
                           check=False)
        assert p.returncode == 2 and p.stderr.count("\n") == 1, p
        assert spec in p.stderr and word in p.stderr, p.stderr


@case
def the_page_has_each_word_of_the_specification():
    with open(os.path.join(SOURCE, "doc", "testing.md"), encoding="utf-8") as f:
        page = f.read()
    with open(os.path.join(SOURCE, "lib", "inject", "inject_spec.c"), encoding="utf-8") as f:
        words = re.findall(r'\{ (?:INJECT_\w+, )?"([A-Za-z_.]+)",', f.read())
    assert len(words) > 20, words
    missing = [w for w in words if f"`{w}`" not in page]
    assert not missing, missing


if __name__ == "__main__":
    sys.exit(main())
