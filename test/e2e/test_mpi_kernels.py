#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The kernels of examples/mpi over minimpi, by each of its channels, over a good wire and over one that loses datagrams.
Each kernel checks its own result.
"""
import re

from rig import PATIENCE, Daemon, case, example, main, nothing_is_left, pair_conf

LOSS = "loss = 1%"
KERNELS = (["pingpong", "20", "300000"], ["cg", "48"])
# channel of minimpi: the transports that may carry the channel's bytes
CHANNELS = {"rc": ["rc"], "ud": ["ud"], "hybrid": ["ud", "rc"], "rd": ["rd"]}


def kernel(d, argv, ranks, channel, *options):
    """Runs a kernel; returns the resources used by all ranks together."""
    p = d.run(example("mpi/minirun"), "-n", str(ranks), "-c", channel, *options, example("mpi/" + argv[0]), *argv[1:])
    out = p.ok(5 * PATIENCE)
    assert re.search(rf"^{argv[0]}: .*\bright$", out, re.M), out
    words = re.search(r"^minimpi: all (.*)$", out, re.M).group(1).split()
    return {k: float(v) for k, v in zip(words[::2], words[1::2])}


def all_kernels(channel, carriers, port=""):
    """carriers: the transports among rc, ud, rd that may carry bytes; the first one must."""
    with Daemon(pair_conf(both=port)) as d:
        for argv in KERNELS:
            for ranks in (2, 4):
                used = kernel(d, argv, ranks, channel)
                assert {c for c in ("rc", "ud", "rd") if used[c] > 0} <= set(carriers), (argv, ranks, used)
                assert used[carriers[0]] > 0, (argv, ranks, used)
        nothing_is_left(d)


@case
def results_are_right_over_connections():
    all_kernels("rc", ["rc"])


@case
def results_are_right_over_datagrams():
    all_kernels("ud", ["ud"])


@case
def results_are_right_over_both():
    all_kernels("hybrid", ["ud", "rc"])


@case
def results_are_right_over_reliable_datagrams():
    all_kernels("rd", ["rd"])


@case
def results_are_right_over_datagrams_that_get_lost():
    all_kernels("ud", ["ud"], port=LOSS)


@case
def results_are_right_over_both_where_datagrams_get_lost():
    all_kernels("hybrid", ["ud", "rc"], port=LOSS)


def over_every_channel(*argv, ranks=4, port=""):
    with Daemon(pair_conf(both=port)) as d:
        for channel, carriers in CHANNELS.items():
            used = kernel(d, argv, ranks, channel)
            assert {c for c in ("rc", "ud", "rd") if used[c] > 0} <= set(carriers), (channel, used)
            assert used[carriers[0]] > 0, (channel, used)
        nothing_is_left(d)


@case
def multigrid_finds_its_solution():
    over_every_channel("mg", "16", ranks=3)  # the ranks' boxes differ in size


@case
def multigrid_finds_its_solution_where_frames_get_lost():
    over_every_channel("mg", "8", port=LOSS)


@case
def a_wave_front_finds_its_solution():
    over_every_channel("lu", "16", "30")


@case
def keys_are_sorted():
    over_every_channel("radix", "20000", ranks=5)


@case
def semicoarsening_multigrid_finds_its_solution():
    over_every_channel("smg", "8")


@case
def two_pairs_send_both_ways():
    over_every_channel("bibw", "2", "70000", "8")


@case
def a_result_that_is_not_reached_is_called_wrong():
    with Daemon(pair_conf()) as d:
        for name in ("mg", "lu", "smg", "cg"):
            p = d.run(example("mpi/minirun"), "-n", "2", example("mpi/" + name), "16", "1")
            assert p.wait(PATIENCE) == 1 and re.search(rf"^{name}: .*: wrong$", p.stdout(), re.M), p.tail()


@case
def what_is_lost_is_sent_again():
    with Daemon(pair_conf(both="loss = 5%")) as d:
        used = kernel(d, ["pingpong", "20", "20000"], 2, "ud")
        assert used["repeated"] > 0, used


@case
def a_rank_has_no_more_connections_than_it_may():
    with Daemon(pair_conf()) as d:
        used = kernel(d, ["cg", "48"], 4, "hybrid", "-x", "1")
        assert 0 < used["connections"] <= 4 and used["rc"] > 0 and used["ud"] > 0, used
        assert kernel(d, ["cg", "48"], 4, "hybrid", "-x", "0")["rc"] == 0


@case
def a_rank_that_fails_ends_the_others():
    with Daemon(pair_conf()) as d:
        p = d.run(example("mpi/minirun"), "-n", "3", example("mpi/cg"), "2")
        assert p.wait(PATIENCE) == 1 and "a rank has failed" in p.stderr(), p.tail()
        nothing_is_left(d)


main()
