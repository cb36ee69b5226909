#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rnicrun --sanitize: each mistake of a program is told with its call and object, and nothing else is told."""
import os
import re
import subprocess
import sys

import programs
import stock
from rig import RNICRUN, Daemon, case, helper, main, pair_conf, until

SOURCE = os.environ.get("RNIC_SOURCE") or os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
ENDS = ("10.77.0.1", "10.77.0.2")
FOUND = 66


def told(p):
    return re.findall(r"^rnic: sanitize: (?!findings)(.*)$", p.stderr(), re.M)


def run(name, how="--sanitize", d=None):
    """Runs a case of san_cases to its end; returns the exit status and the findings."""
    if d is None:
        with Daemon(pair_conf()) as own:
            return run(name, how, own)
    p = d.run(RNICRUN, how, helper("san_cases"), *ENDS, name)
    status = p.wait()
    assert status in (0, FOUND), f"exit status {status}:\n{p.tail()}"
    return status, told(p)


def finds(name, *lines, how="--sanitize", d=None):
    """The run must report these findings and no other; each is a regular expression for the beginning of its line."""
    status, said = run(name, how, d)
    assert status == FOUND, (name, said)
    assert len(said) == len(lines), (name, said)
    for line, want in zip(said, lines):
        assert re.match(want, line), (want, line)


def finds_nothing(name, how="--sanitize", d=None):
    status, said = run(name, how, d)
    assert status == 0 and not said, (name, said)


@case
def a_program_that_is_right_has_no_finding():
    finds_nothing("right", "--sanitize=ib")


@case
def a_send_buffer_changed_before_its_completion_is_told():
    finds("changed_buffer", r"ibv_poll_cq: queue pair \d+: the buffer at 0x[0-9a-f]+ of Send 0x2 has changed")


@case
def a_region_deregistered_while_a_receive_names_it_is_told():
    finds("dereg_in_use", r"ibv_dereg_mr: the region with lkey 0x[0-9a-f]{8} is named by receive 0x1 of queue pair \d+")


@case
def a_region_may_go_when_its_connection_has_ended():
    finds_nothing("dereg_after_the_end")


@case
def bytes_sent_before_their_read_has_completed_are_told():
    finds("missing_fence", r"ibv_post_send: queue pair \d+: Send 0x3 sends bytes that RDMA Read 0x2, posted before")


@case
def a_fence_orders_a_read_and_the_send_of_its_bytes():
    finds_nothing("fence")


@case
def a_completion_queue_that_could_overrun_is_told_once():
    finds("small_cq", r"ibv_post_recv: completion queue \d+ was made for 2 completions, and 3 may come")


@case
def a_send_queue_that_nothing_can_free_is_told():
    finds("never_signaled", r"ibv_post_send: queue pair \d+: all its 4 work requests are posted without")


@case
def room_in_the_send_queue_comes_with_polled_completions_alone():
    finds_nothing("full_queue")


@case
def more_sges_or_inline_bytes_than_asked_for_are_told():
    finds("beyond_caps", r"ibv_post_send: queue pair \d+: 2 SGEs, and its max_send_sge is 1",
          r"ibv_post_send: queue pair \d+: 65536 bytes inline, and its max_inline_data is \d+")


@case
def an_event_that_is_never_acknowledged_is_told_while_the_destroy_waits():
    with Daemon(pair_conf()) as d:
        p = d.run(RNICRUN, "--sanitize", helper("san_cases"), *ENDS, "no_ack")
        until(lambda: told(p), p.tail)
        assert told(p)[0].startswith("ibv_destroy_cq: waits for the acknowledgement of an event"), p.tail()
        assert p.p.poll() is None, p.tail()
        p.stop()


@case
def private_data_beyond_infinibands_room_is_told_with_ib_alone():
    finds("long_private_data", r"rdma_connect: 100 bytes of private data, and InfiniBand has room for 56",
          how="--sanitize=ib")
    finds_nothing("long_private_data")


@case
def more_reads_at_a_time_than_the_peer_allows_are_told():
    finds("too_deep", r"rdma_accept: initiator_depth is 4, and responder_resources of the peer is 2")


@case
def objects_that_are_left_at_the_end_are_told_by_kind():
    finds("leaks", r"exit: protection domains that were never destroyed: 3: call ibv_dealloc_pd",
          r"exit: memory regions that were never destroyed: 4: call ibv_dereg_mr",
          r"exit: memory windows that were never destroyed: 1: call ibv_dealloc_mw",
          r"exit: completion queues that were never destroyed: 2",
          r"exit: event channels that were never destroyed: 2",
          r"exit: connection manager ids that were never destroyed: 2")


@case
def memory_that_the_device_may_be_writing_is_told_when_it_is_used():
    with Daemon(pair_conf()) as d:
        byte = r"the program: queue pair \d+: the byte at 0x[0-9a-f]+ is used, and "
        finds("receive_used", byte + "it is in the buffer of receive 0x1, of which no completion has been polled", d=d)
        finds_nothing("receive_read_in_turn", d=d)
        finds("written_used", byte + "a peer has written it: nothing says yet that the Write is whole", d=d)
        for how in ("--sanitize", "--sanitize=5", "--sanitize=ib,6"):
            finds_nothing("written_and_told", how, d)
        finds_nothing("written_and_counted", "--sanitize=7", d)


@case
def a_shared_receive_queue_and_what_lies_beside_it_is_held_back_as_well():
    """Receives of a shared receive queue, and Writes of a peer to a queue pair whose receives come from one."""
    with Daemon(pair_conf()) as d:
        byte = r"the program: queue pair \d+: the byte at 0x[0-9a-f]+ is used, and "
        finds("receive_used_of_srq", r"the program: the byte at 0x[0-9a-f]+ is used, and it is in the buffer of "
              "receive 0x1 of a shared receive queue, of which no completion has been polled", d=d)
        finds("written_used_beside_srq", byte + "a peer has written it: nothing says yet that the Write is whole", d=d)
        finds_nothing("receive_read_in_turn_of_srq", d=d)
        for how in ("--sanitize=5", "--sanitize=ib,6"):
            finds_nothing("written_and_told_by_srq", how, d)
    assert torn("--sanitize=1", "trusts_the_last_byte_beside_srq", ("--with-daemon",)) > 0


def torn(how, case_of, way=(), ends=ENDS):
    """How many of 200 Writes a program saw incomplete that takes the last byte for the whole Write."""
    argv = [RNICRUN, *way, *([how] if how else []), helper("san_cases"), *ends, case_of]
    p = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    assert p.returncode in (0, FOUND), p
    return int(re.search(r"^torn (\d+)$", p.stdout, re.M).group(1))


@case
def bytes_of_a_write_show_in_each_order_that_the_specification_allows():
    """On InfiniBand the bytes of a Write may show in any order; with iWARP a later Write may also show before an
    earlier one."""
    way = ("--with-daemon",)
    assert torn("", "trusts_the_last_byte", way) == 0
    assert torn("--sanitize=1", "trusts_the_last_byte", way) > 0
    assert torn("--sanitize=ib,1", "trusts_the_last_byte", way) > 0
    assert torn("--sanitize=1", "trusts_a_flag", way) > 0
    assert torn("--sanitize=ib,1", "trusts_a_flag", way) == 0
    assert torn("--sanitize=1", "trusts_the_last_byte", ("--embedded",), ("127.0.0.1", "127.0.0.1")) > 0


@case
def queues_of_each_kind_are_watched():
    with Daemon(pair_conf()) as d:
        finds("dereg_under_srq", "ibv_post_recv: 2 SGEs, and the receive queue was made for 1 at most",
              r"ibv_dereg_mr: the region with lkey 0x\w{8} is named by receive 0x9 of a shared receive queue", d=d)
        for name in ("ud_changed", "rd_changed"):
            finds(name, r"ibv_poll_cq: queue pair \d+: the buffer at 0x[0-9a-f]+ of Send 0x2 has changed", d=d)
        finds("unmapped_buffer", r"ibv_poll_cq: queue pair \d+: the buffer at 0x\w+ of Send 0x2 was unmapped", d=d)


@case
def ib_write_lat_takes_the_last_byte_for_the_whole():
    """A true finding: ib_write_lat looks at the last byte only, and neither InfiniBand nor iWARP promises that the
    others are there."""
    for p in stock.begin("ib_write_lat", ("-n", "20"), personality="roce", RNIC_SANITIZE="ib"):
        assert p.wait() == FOUND and "a peer has written it" in told(p)[0], p.tail()


@case
def a_program_that_embeds_the_engine_is_watched_too():
    for name, status in (("right", 0), ("changed_buffer", FOUND)):
        p = subprocess.run([RNICRUN, "--embedded", "--sanitize", helper("san_cases"), "127.0.0.1", "127.0.0.1", name],
                           capture_output=True, text=True, timeout=600, check=False)
        assert p.returncode == status, p
        assert p.stderr.count("rnic: sanitize: ibv_poll_cq") == (status == FOUND), p.stderr


@case
def stock_programs_have_no_finding():
    for program, args in (("ibv_rc_pingpong", ("-g", "0", "-n", "200")), ("ibv_rc_pingpong", ("-g", "0", "-e")),
                          ("ibv_srq_pingpong", ("-g", "0", "-n", "200")),
                          ("ibv_ud_pingpong", ("-g", "0", "-n", "200"))):
        stock.pair(program, args, RNIC_SANITIZE="ib")
    for what in ("write_bw", "read_bw", "read_lat", "send_lat", "atomic_bw"):
        stock.pair(f"ib_{what}", ("-n", "200"), personality="roce", RNIC_SANITIZE="ib")


@case
def stock_programs_of_the_connection_manager_have_no_finding():
    with Daemon(pair_conf()) as d:
        args = ["-a", ENDS[0], "-C", "20"]
        programs.meet((d, d), ["rping", "-s", *args], ["rping", "-c", *args], programs.on_device(7174),
                      RNIC_SANITIZE="ib")
        programs.meet((d, d), ["ucmatose"], ["ucmatose", "-s", ENDS[0]], programs.on_device(7471), RNIC_SANITIZE="ib")


@case
def a_program_that_polls_once_for_an_event_breaks_when_completions_are_late():
    """The event tells that a completion is there, but the completion is held back, as on a device whose event comes too
    early."""
    finds_nothing("polls_once_for_an_event")
    with Daemon(pair_conf()) as d:
        broken = []
        for seed in range(1, 21):
            p = d.run(RNICRUN, f"--sanitize={seed}", helper("san_cases"), *ENDS, "polls_once_for_an_event")
            if p.wait() != 0:
                assert "k == 1" in p.stdout() and not told(p), p.tail()
                broken.append(seed)
        assert broken and len(broken) < 20, broken
        p = d.run(RNICRUN, f"--sanitize={broken[0]}", helper("san_cases"), *ENDS, "polls_once_for_an_event")
        assert p.wait() != 0, "the same seed draws the same: " + p.tail()


@case
def right_programs_run_with_completions_as_late_as_they_may_be():
    for seed in (1, 2, 3):
        finds_nothing("right", f"--sanitize=ib,{seed}")
        finds_nothing("waits_for_events", f"--sanitize={seed}")
        stock.pair("ibv_rc_pingpong", ("-g", "0", "-n", "100"), RNIC_SANITIZE=f"ib,{seed}")
        stock.pair("ibv_rc_pingpong", ("-g", "0", "-n", "100", "-e"), RNIC_SANITIZE=f"ib,{seed}")
        stock.pair("ib_write_bw", ("-n", "100"), RNIC_SANITIZE=f"ib,{seed}")
        stock.pair("ib_read_lat", ("-n", "100", "-e"), personality="roce", RNIC_SANITIZE=f"ib,{seed}")


@case
def a_wrong_word_ends_the_program_with_a_sentence():
    p = subprocess.run([RNICRUN, "--sanitize=infiniband", "true"], capture_output=True, text=True, timeout=600,
                       check=False)
    assert p.returncode == 2, p
    assert "RNIC_SANITIZE is wrong at 'infiniband': the words are iwarp, ib, and a number" in p.stderr, p


if __name__ == "__main__":
    sys.exit(main())
