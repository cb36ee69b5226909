#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The filters of examples/isosurface as processes. The picture is that of one process, whatever the number of processes,
the size of units, the transport and the design. A run that cannot go on prints the reason once and ends.
"""
import json
import os
import signal
import struct
import tempfile

from rig import PATIENCE, RNICRUN, Daemon, Process, case, example, main, nothing_is_left, pair_conf, until

ISO, STOCK = example("isosurface/isosurface"), example("isosurface/isosurface-verbs")
ENDS = ("10.77.0.1", "10.77.0.2")
DRAWN = ("--dims", "64", "--size", "256")
UNITS = ("8k", "1m")


def bytes_of(path):
    with open(path, "rb") as f:
        return f.read()


def alone(directory, *options):
    """The PNG that one process draws."""
    path = os.path.join(directory, "alone.png")
    Process([ISO, "-n", "1", "-o", path, *options]).ok()
    png = bytes_of(path)
    assert png.startswith(b"\x89PNG") and len(png) > 1000, len(png)
    return png


def drawn(run, directory, png, *argv):
    """Draws with --check; the PNG must equal `png` byte for byte. Returns the run's JSON."""
    path = os.path.join(directory, "many.png")
    p = run(*argv[:1], *argv[1:], "--check", "--json", "-o", path)
    told = json.loads(p.ok(3 * PATIENCE))
    assert told["checked"] and told["wrong_pixels"] == 0 and told["triangles"] > 1000, told
    assert bytes_of(path) == png, f"{p.name}: its picture differs from the picture of one process\n{p.tail()}"
    os.unlink(path)
    return told


def over_verbs(conf, *before, program=ISO, **env):
    with Daemon(conf) as d:
        png = alone(d.dir, *DRAWN)
        for unit in UNITS:
            told = drawn(lambda *a: d.run(*a, **env), d.dir, png, *before, program, *DRAWN, "--unit", unit, *ENDS)
            assert told["processes"] == 8 and told["units"] > 20, told
        nothing_is_left(d)


@case
def eight_processes_draw_the_picture_of_one():
    over_verbs(pair_conf())


@case
def any_number_of_processes_draws_it():
    with Daemon(pair_conf()) as d:
        png = alone(d.dir, *DRAWN)
        cells = set()
        for n in range(2, 8):
            told = drawn(d.run, d.dir, png, ISO, *DRAWN, "-n", str(n), "--unit", "16k", *ENDS)
            cells.add(told["cells"])
        assert cells == {63 ** 3}, cells
        nothing_is_left(d)


@case
def it_is_drawn_over_a_wire_that_loses():
    over_verbs(pair_conf(both="loss = 0.5%"))


@case
def it_is_drawn_where_iwarp_runs_in_the_program():
    for design in ("host", "assisted"):
        over_verbs(pair_conf(), RNIC_DESIGN=design)


@case
def the_program_of_the_stock_libraries_draws_it():
    over_verbs(pair_conf(), RNICRUN, program=STOCK)


@case
def spinning_processes_draw_it():
    with Daemon(pair_conf()) as d:
        png = alone(d.dir, *DRAWN)
        drawn(d.run, d.dir, png, ISO, *DRAWN, "-n", "3", "--wait", "poll", *ENDS)


@case
def one_buffer_and_the_least_unit_are_enough():
    with Daemon(pair_conf()) as d:
        small = ("--dims", "20x25x30", "--size", "90x60")
        drawn(d.run, d.dir, alone(d.dir, *small), ISO, *small, "--unit", "512", "--buffers", "1", *ENDS)


@case
def it_is_drawn_without_a_daemon_and_over_sockets():
    with tempfile.TemporaryDirectory() as d:
        png = alone(d, *DRAWN)
        for unit in UNITS:
            for argv in ([RNICRUN, "--embedded", ISO], [ISO, "--transport", "sockets"]):
                drawn(lambda *a: Process(list(a)), d, png, *argv, *DRAWN, "--unit", unit, "127.0.0.1")


@case
def a_raw_volume_is_drawn():
    with tempfile.TemporaryDirectory() as d:
        path, dims = os.path.join(d, "raw"), (20, 24, 28)
        with open(path, "wb") as f:  # a volume whose value grows with the square of the distance from the middle
            f.writelines(struct.pack(">H", (x - 10) ** 2 + (y - 12) ** 2 + (z - 14) ** 2)
                         for z in range(dims[2]) for y in range(dims[1]) for x in range(dims[0]))
        raw = ("--input", path, "--type", "u16be", "--dims", "x".join(map(str, dims)), "--level", "50.5", "--size",
               "128")
        told = drawn(lambda *a: Process(list(a)), d, alone(d, *raw), ISO, "-t", "sockets", "--unit", "1k", *raw,
                     "127.0.0.1")
        assert told["cells"] == 19 * 23 * 27, told
        p = Process([ISO, "-n", "1", *raw[:-5], "9", "--level", "1"])
        assert p.wait() == 1 and "--dims and --type" in p.stderr(), p.tail()


@case
def a_process_that_dies_ends_all_with_one_sentence():
    with Daemon(pair_conf()) as d:
        ranks = [d.run(ISO, "--dims", "256", "-n", "3", "--rank", str(r), "-o", os.path.join(d.dir, "x.png"), *ENDS)
                 for r in (1, 2)]
        states = lambda: [d.telemetry(f"/rnic/conns,{c.split()[0]}")["state"] for c in d.telemetry("/rnic/conns")]
        until(lambda: len(s := states()) == 2 and set(s) <= {"OPERATIONAL", "WAIT_FIRST"},
              lambda: f"extract and merge are not joined: {states()}")
        ranks[0].stop(signal.SIGKILL)
        assert ranks[1].wait() == 1, ranks[1].tail()
        assert len(ranks[1].err) == 1, ranks[1].tail()
        assert ranks[1].stderr().startswith("isosurface: rank 2 (rasterise): "), ranks[1].tail()
        nothing_is_left(d)


@case
def what_is_wrong_is_said_once():
    with Daemon(pair_conf()) as d:
        for argv, says in (
                ((ISO, "-P", "0", "-n", "4", "--rank", "1", ENDS[0]), "does not listen on 10.77.0.1 port 18642"),
                ((ISO, "10.77.0.9"), "10.77.0.9"),
                ((ISO, "-o", os.path.join(d.dir, "no", "x.png"), "-d", "20", *ENDS), "cannot be written")):
            p = d.run(*argv)
            assert p.wait() == 1, p.tail()
            said = [line for line in p.err if not line.startswith("rnic: ")]
            assert len(said) == 1 and says in said[0], p.tail()
        one = d.run(ISO, "-n", "2", "--rank", "1", "--unit", "8k", ENDS[0])
        other = d.run(ISO, "-n", "2", "--rank", "0", "--unit", "4k", "-P", "1", ENDS[0])
        assert one.wait() == 1 and "give all the same --buffers and --unit" in one.stderr(), one.tail()
        assert other.wait() == 1, other.tail()
        nothing_is_left(d)


@case
def wrong_options_are_refused():
    for argv, says in ((["--unit", "100", "a"], "--unit"), (["--unit", "1000", "a"], "multiple of 64"),
                       (["--dims", "4x4", "a"], "--dims"), (["--dims", "9x9x9x9", "a"], "--dims"), ([], "address"),
                       (["--input", "x", "a"], "--level"), (["-n", "4", "--rank", "4", "a"], "--rank"),
                       (["--transport", "pigeons", "a"], "pigeons"), (["--level", "much", "a"], "number")):
        p = Process([ISO, *argv])
        assert p.wait() == 2 and says in p.stderr() and "--help" in p.stderr(), p.tail()


main()
