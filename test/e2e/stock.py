# SPDX-License-Identifier: BSD-3-Clause
"""
For tests of the distribution's programs that connect without rdma_cm: the programs exchange GID and QP number over a
socket of the host. All cases of a file share one daemon for each personality. The daemons are in a network namespace of
the test's own, because the programs' ports are fixed.
"""

import programs
import rig
import wire
from rig import RNICRUN, Daemon, Foreign, Skip, need, pair_conf, repeating, until

world = {}
ONE = ((), ())
TWO = (("-d", "a"), ("-d", "b"))


def daemon(personality):
    if "error" in world:
        raise Skip(world["error"])
    try:
        if not world:
            wire.own_network()
    except Skip as s:
        world["error"] = str(s)
        raise
    if personality not in world:
        world[personality] = Daemon(pair_conf(both=f"personality = {personality}"))
    return world[personality]


def wait_listen(server, port):
    until(lambda: server.p.poll() is not None or port in rig.host_ports(), server.tail)
    assert server.p.poll() is None, server.tail()


def begin(program, args, on=ONE, port=18515, personality="iwarp", peer="127.0.0.1", **env):
    """Starts server and client; returns both processes."""
    need(program)
    d = daemon(personality)
    s = d.run(RNICRUN, program, *args, *on[0], **env)
    wait_listen(s, port)
    return s, d.run(RNICRUN, program, *args, *on[1], peer, **env)


def pair(*args, **how):
    """Runs server and client; returns both outputs."""
    def once():
        s, c = begin(*args, **how)
        good = c.wait() == 0
        if good:
            good = s.wait() == 0
        else:
            s.stop()
        why = "" if good else programs.race(s, c)
        if why:
            raise Foreign(why)
        assert good, c.tail() + s.tail()
        return s.stdout(), c.stdout()

    return repeating(once, args[0])


def perftest(program, *args, on=ONE, personality="iwarp"):
    programs.figures(pair(program, ("-F", *args), on, personality=personality)[1])


def nothing_is_left(d):
    rig.nothing_is_left(d, ("/rnic/clients", "/rnic/qps"))
