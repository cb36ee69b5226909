#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Extended reliable connections: rules that only they have (xrc_end.c has the processes), and the distribution's programs
for them. rdma-core's tests are in test_pyverbs.py, the bytes on the wire in test_wire_nocm.py.
"""
import errno
import os
import sys

import programs
from rig import RNICRUN, Daemon, case, main, nothing_is_left, pair_conf, until
from xrc_rig import End, connect

ROCE = "personality = roce"
SEND, RECV, IMM = 0, 128, 77
INVALID_REQUEST, ACCESS_ERROR, FLUSHED, RETRY, RNR_RETRY = 9, 10, 5, 12, 13
ERR = 6
EVENT_FATAL, EVENT_REQUEST = 1, 2


class Host:
    """A daemon with a file that names the XRC domain; members run on device a, initiators on device b."""

    def __init__(self, both=ROCE):
        self.d = Daemon(pair_conf(both=both))
        self.file = os.path.join(self.d.dir, "domain")
        with open(self.file, "w", encoding="ascii"):
            pass
        os.chmod(self.file, 0o644)

    def __enter__(self):
        self.d.__enter__()
        return self

    def __exit__(self, *how):
        return self.d.__exit__(*how)

    def member(self, flags="c", file=None, **more):
        """A process that opens the domain and has a shared receive queue, whose number is .srqn."""
        m = End(self.d, "a", **more)
        m.do("open", file or self.file, flags)
        m.srqn = m.number("srq")
        return m

    def pair(self, first):
        """Lets `first` make a target and connects an initiator to it; returns the initiator."""
        i = End(self.d, "b")
        first.qpn = first.number("target")
        connect((i, i.number("ini")), (first, first.qpn))
        return i

    def counter(self, name):
        return self.d.telemetry("/rnic/counters")[name]

    def ends(self, *processes):
        """Ends the processes; nothing may be left in the daemon."""
        for p in processes:
            p.p.stdin.close()
            assert p.wait() == 0, p.tail()
        until(lambda: not self.d.telemetry("/rnic/clients"), lambda: str(self.d.telemetry("/rnic/clients")))
        nothing_is_left(self.d)


@case
def one_connection_reaches_the_queues_of_two_processes():
    with Host() as h:
        one, two = h.member(), h.member("n")
        i = h.pair(one)
        two.number("openqp", one.qpn)
        one.do("recv", 0, 1)
        two.do("recv", 2, 3)
        for k, (to, slot, size) in enumerate(((one, 0, 100), (two, 2, 60000), (two, 3, 1), (one, 1, 65536))):
            i.do("send" if k != 2 else "imm", to.srqn, size, k)
            assert i.done()[:2] == (0, SEND)
            assert to.done() == (0, RECV, slot, size, IMM if k == 2 else 0)
            to.has(slot, size, k)
            for m in (one, two):
                assert m.number("empty") == 1
        for k, m in enumerate((one, two, one)):  # memory of both processes' PDs, in turns
            address, rkey = m.do("mem")
            i.do("write", address, rkey, 50000, 50 + k)
            assert i.done()[0] == 0
            m.has(0, 50000, 50 + k)
            i.do("read", address, rkey, 50000)
            assert i.done()[0] == 0
            i.has(15, 50000, 50 + k)
        h.ends(i, one, two)


@case
def a_queue_of_another_domain_is_refused_and_counted():
    with Host() as h:
        one, other = h.member(), h.member(file="-")
        i = h.pair(one)
        other.do("recv", 0)
        i.do("send", other.srqn, 64, 1)
        assert i.done()[0] == INVALID_REQUEST
        assert h.counter("xrc_refused") == 1
        assert one.number("event") == EVENT_REQUEST
        assert one.number("state", "t") == ERR
        assert other.number("empty") == 1
        h.ends(i, one, other)


@case
def memory_of_a_process_outside_the_domain_is_refused():
    with Host() as h:
        one, other = h.member(), h.member(file="-")
        i = h.pair(one)
        i.do("write", *other.do("mem"), 64, 1)
        assert i.done()[0] == ACCESS_ERROR
        other.has(0, 1, 0)  # the memory is still zero
        h.ends(i, one, other)


@case
def a_target_outlives_the_process_that_has_made_it():
    with Host() as h:
        one, two = h.member(), h.member("n")
        i = h.pair(one)
        two.number("openqp", one.qpn)
        two.do("recv", 0, 1)
        one.dies()
        until(lambda: not any(f"pid {one.pid} " in line for line in h.d.telemetry("/rnic/clients")))
        i.do("send", two.srqn, 5000, 3)
        assert i.done()[0] == 0
        assert two.done()[:4] == (0, RECV, 0, 5000)
        two.has(0, 5000, 3)
        three = h.member("n")  # a process that comes later finds the target too
        assert three.number("openqp", one.qpn) == 3
        three.do("recv", 7)
        i.do("send", three.srqn, 9, 4)
        assert i.done()[0] == 0 and three.done()[2] == 7
        h.ends(i, two, three)


@case
def the_last_process_of_a_domain_takes_its_targets_along():
    with Host() as h:
        one = h.member()
        i = h.pair(one)
        one.do("recv", 0)
        i.do("send", one.srqn, 10, 1)
        assert i.done()[0] == 0
        one.dies()
        until(lambda: not [q for q in h.d.telemetry("/rnic/qps") if q.startswith(f"{one.qpn} ")])
        i.do("send", one.srqn, 10, 1)
        assert i.done()[0] == RETRY
        h.ends(i)


@case
def the_death_of_a_receiver_ends_the_connection_only_when_a_message_is_for_it():
    with Host() as h:
        one, two, three = h.member(), h.member("n"), h.member("n")
        i = h.pair(one)
        two.number("openqp", one.qpn)
        two.do("recv", 0)
        three.dies()
        until(lambda: not any(f"pid {three.pid} " in line for line in h.d.telemetry("/rnic/clients")))
        i.do("send", two.srqn, 10, 1)
        assert i.done()[0] == 0 and two.done()[0] == 0
        before = h.counter("rnr_waits")
        i.do("send", one.srqn, 10, 1)  # this queue has no receive: the message waits
        until(lambda: h.counter("rnr_waits") > before)
        one.dies()
        assert two.number("event") == EVENT_REQUEST
        assert two.number("state", "t") == ERR
        assert h.counter("xrc_refused") == 1
        h.ends(i, two)


@case
def a_message_waits_for_a_receive_of_its_own_queue():
    with Host() as h:
        one, two = h.member(), h.member("n")
        i = h.pair(one)
        one.do("recv", 0)
        before = h.counter("rnr_waits")
        i.do("send", two.srqn, 40000, 6)
        i.do("send", one.srqn, 5, 7)
        until(lambda: h.counter("rnr_waits") > before)
        assert one.number("empty") == 1
        two.do("recv", 1)
        assert two.done()[:4] == (0, RECV, 1, 40000)
        assert one.done()[:4] == (0, RECV, 0, 5)
        h.ends(i, one, two)


@case
def no_receive_ends_the_connection_of_an_rnic():
    with Host(both="") as h:
        one = h.member()
        i = h.pair(one)
        i.do("send", one.srqn, 5, 7)
        assert i.done()[0] == INVALID_REQUEST
        h.ends(i, one)


@case
def the_end_of_a_target_leaves_posted_receives_to_others():
    with Host() as h:
        one = h.member()
        i = h.pair(one)
        one.do("recv", 0, 1)
        one.do("error", "t")
        assert one.number("empty") == 1  # a receive of the shared queue is not flushed when a queue pair ends
        i.do("send", one.srqn, 5, 7)
        assert i.done()[0] in (RETRY, FLUSHED)
        one.do("destroy", "t")
        j = h.pair(one)
        j.do("send", one.srqn, 5, 8)
        assert j.done()[0] == 0 and one.done()[2] == 0
        h.ends(i, j, one)


@case
def a_target_ends_with_the_last_handle_that_is_destroyed():
    with Host() as h:
        one, two = h.member(), h.member("n")
        i = h.pair(one)
        two.number("openqp", one.qpn)
        one.do("destroy", "t")
        two.do("recv", 0)
        i.do("send", two.srqn, 5, 7)
        assert i.done()[0] == 0 and two.done()[0] == 0
        assert one.fails("destroy", "xrcd") == errno.EBUSY
        two.do("destroy", "t")
        assert one.fails("openqp", one.qpn) == errno.EINVAL
        for m in (one, two):
            m.do("destroy", "srq")
            m.do("destroy", "xrcd")
        until(lambda: len(h.d.telemetry("/rnic/clients")) == 3, lambda: str(h.d.telemetry("/rnic/clients")))
        h.ends(i, one, two)


@case
def any_process_of_the_domain_brings_a_target_up():
    with Host() as h:
        one, two = h.member(), h.member("n")
        one.qpn = one.number("target")
        assert two.number("openqp", one.qpn) == 1
        i = End(h.d, "b")
        connect((i, i.number("ini")), (two, one.qpn))
        one.do("recv", 0)
        i.do("send", one.srqn, 5, 7)
        assert i.done()[0] == 0 and one.done()[0] == 0
        h.ends(i, one, two)


@case
def an_initiator_and_a_target_connect_with_nothing_else():
    with Host() as h:
        one = h.member()
        one.qpn = one.number("target")
        i, j = End(h.d, "b"), End(h.d, "b")
        iqpn, jqpn = i.number("ini"), j.number("ini")
        before = h.counter("qp_port_unwanted")
        i.do("join", "i", jqpn, *j.do("gid"))
        j.do("join", "i", iqpn, *i.do("gid"))
        until(lambda: h.counter("qp_port_unwanted") > before)
        h.ends(i, j, one)


@case
def flags_say_whether_a_domain_may_or_must_be_new():
    with Host() as h:
        one = End(h.d, "a")
        assert one.fails("open", h.file, "n") == errno.EAGAIN
        assert one.fails("open", "-", "n") == errno.EAGAIN
        one.do("open", h.file, "cx")
        two = End(h.d, "a")
        assert two.fails("open", h.file, "cx") == errno.EINVAL
        two.do("open", h.file, "n")
        other = End(h.d, "b")  # a domain belongs to one device
        assert other.fails("open", h.file, "n") == errno.EAGAIN
        h.ends(one, two, other)


@case
def a_client_has_so_many_domains():
    with Host() as h:
        one = End(h.d, "a")
        for _ in range(16):
            one.do("open", "-", "c")
        assert one.fails("open", "-", "c") == errno.ENOMEM
        h.ends(one)


@case
def another_user_with_the_same_file_has_a_domain_of_its_own():
    with Host() as h:
        os.chmod(h.d.dir, 0o711)
        one = h.member()
        i = h.pair(one)
        stranger = h.member(under=("setpriv", "--reuid", "65534", "--clear-groups"))
        assert stranger.fails("openqp", one.qpn) == errno.EINVAL
        stranger.do("recv", 0)
        i.do("send", stranger.srqn, 5, 7)
        assert i.done()[0] == INVALID_REQUEST
        h.ends(i, one, stranger)


@case
def an_administrator_cannot_drop_the_host_of_a_domain():
    with Host() as h:
        one = h.member()
        i = h.pair(one)
        host = next(line.split()[0] for line in h.d.telemetry("/rnic/clients") if " pid 0 " in line)
        answer = h.d.telemetry(f"/rnic/drop_client,{host}")
        assert not answer["done"] and "XRC domain" in answer["say"], answer
        one.do("recv", 0)
        i.do("send", one.srqn, 10, 1)
        assert i.done()[0] == 0 and one.done()[0] == 0
        h.ends(i, one)


@case
def pingpong_of_one_client_and_of_three():
    programs.own_network()
    for personality in ("iwarp", "roce"):
        with Daemon(pair_conf(both=f"personality = {personality}")) as d:
            for args in ([], ["-g", "0", "-e", "-n", "50"]):
                argv = ["ibv_xsrq_pingpong", *args]
                out, _ = programs.meet((d, d), [*argv, "-d", "a"], [*argv, "-d", "b", "127.0.0.1"],
                                       programs.on_host(18515))
                assert "success" in out, out
            # three clients share the domain: the server sends to each client over the connections of all clients
            argv = [RNICRUN, "ibv_xsrq_pingpong", "-n", "30"]
            s = d.run(*argv, "-d", "a", "-c", "3")
            until(lambda: s.p.poll() is not None or programs.on_host(18515)(d), s.tail)
            for p in [d.run(*argv, "-d", "b", "127.0.0.1") for _ in range(3)] + [s]:
                assert "success" in p.ok(), p.tail()


@case
def perftest():
    programs.own_network()
    runs = [["ib_write_bw", "-q", "4"], ["ib_write_lat"], ["ib_read_bw"], ["ib_read_lat"], ["ib_send_lat"],
            ["ib_atomic_bw"]]
    for personality in ("iwarp", "roce"):
        with Daemon(pair_conf(both=f"personality = {personality}")) as d:
            # ib_send_bw on an iWARP device fails with RC too: see programs.ADAPTERS_ONLY
            for name, *args in runs + ([["ib_send_bw"], ["ib_send_bw", "-b"]] if personality == "roce" else []):
                argv = [name, "-c", "XRC", "-n", "200", "-F", *args]
                programs.meet((d, d), [*argv, "-d", "a"], [*argv, "-d", "b", "127.0.0.1"], programs.on_host(18515))
            nothing_is_left(d)


@case
def where_queue_pairs_do_not_connect_by_themselves_there_are_no_domains():
    with Daemon(pair_conf(both="qp-port = 0")) as d:
        p = d.run(RNICRUN, "ibv_xsrq_pingpong", "-g", "0")
        assert p.wait() != 0 and "set 'qp-port'" in p.stderr(), p.tail()


if __name__ == "__main__":
    sys.exit(main())
