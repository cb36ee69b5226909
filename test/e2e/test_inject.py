#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rnicrun --inject: the call or completion that is named fails, in one process, and is told in one line."""
import os
import re
import subprocess
import sys

import programs
from rig import RNICRUN, TESTPMD, Daemon, Foreign, case, helper, main, need, pair_conf, until

SOURCE = os.environ.get("RNIC_SOURCE") or os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
SERVER = "10.77.0.1"


def client(spec, *argv):
    """Runs a client with failures against a server that has none; returns the client after its end."""
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
                       ("the_daemon_is_gone_and_a_device_that_is_opened_anew_works", "daemon:2=GONE")):
        with Daemon(pair_conf()) as d:
            p = d.run(RNICRUN, "--inject", spec, helper("inject_cases"), SERVER, "10.77.0.2", name)
            assert p.wait() == 0 and len(told(p)) == spec.count(":"), p.tail()


@case
def what_is_never_reached_fails_nothing():
    """The program's traffic has no atomics, and it makes fewer queue pairs than a thousand."""
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
    with open(os.path.join(SOURCE, "lib", "rnic", "inject.c"), encoding="utf-8") as f:
        words = re.findall(r'\{ (?:RNIC_INJECT_\w+, )?"([A-Za-z_.]+)",', f.read())
    assert len(words) > 20, words
    missing = [w for w in words if f"`{w}`" not in page]
    assert not missing, missing


if __name__ == "__main__":
    sys.exit(main())
