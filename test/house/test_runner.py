#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
What test/run counts and prints, and that the hugepages that it reserves are given back.
usage: test_runner.py SOURCE_ROOT
"""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import sys
import tempfile
import time

loader = importlib.machinery.SourceFileLoader("runner", os.path.join(sys.argv[1], "test", "run"))
runner = importlib.util.module_from_spec(importlib.util.spec_from_loader("runner", loader))
loader.exec_module(runner)
sys.path.insert(0, os.path.join(sys.argv[1], "test", "e2e"))
sys.argv[1:] = []  # rig.main() takes arguments for names of cases
import rig  # pylint: disable=wrong-import-position


def count(out, result="OK", code=0):
    return runner.count_program({"name": "p", "stdout": out, "result": result, "returncode": code})


def counted(c):
    return c.passed, c.failed, c.skipped, c.repeated


def cases_are_counted():
    c, wrong = count("1..3\nok 1 - a\nnot ok 2 - b\nok 3 - c # SKIP no reason\n", "FAIL", 1)
    assert counted(c) == (1, 1, 1, 0), counted(c)
    assert wrong == ["failed: 2 b", "skipped: c # SKIP no reason"], wrong


def a_build_runs_what_is_not_left_out_and_what_is_named_nevertheless():
    tests = [{"name": "arp", "suite": ["rnic:rnicd"]}, {"name": "e2e-ops", "suite": ["rnic:e2e"]},
             {"name": "e2e-pair", "suite": ["rnic:e2e"]}]
    assert runner.of_build(tests, set(), set()) == ["arp", "e2e-ops", "e2e-pair"]
    assert runner.of_build(tests, {"e2e"}, {"e2e-ops"}) == ["arp", "e2e-ops"]


def a_skip_that_says_not_ok_is_no_failure():
    c, _ = count("1..1\nnot ok 1 - a # SKIP\n", "FAIL", 0)
    assert counted(c) == (0, 0, 1, 0) and c.pardoned == 1, counted(c)


def a_case_that_never_ran_is_a_failure():
    c, _ = count("1..3\nok 1 - a\n", "FAIL", -9)
    assert counted(c) == (1, 2, 0, 0), counted(c)


def a_program_that_timed_out_is_a_failure():
    assert counted(count("1..1\nok 1 - a\n", "TIMEOUT", -9)[0]) == (1, 1, 0, 0)


def a_repeated_case_is_counted_and_named():
    c, wrong = count("1..1\n# repeated: a: its peer has a race\nok 1 - a\n")
    assert counted(c) == (1, 0, 0, 1) and wrong == ["repeated: a: its peer has a race"], wrong


def a_case_is_repeated_at_most_twice_and_only_for_what_is_foreign():
    for error, runs in ((rig.Foreign, 3), (AssertionError, 1)):
        ran = []

        def always():
            ran.append(1)
            raise error("its peer has a race")

        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            try:
                rig.CASES[:] = [always]
                code = rig.main()
            finally:
                rig.CASES.clear()
        assert code == 1 and len(ran) == runs, (code, len(ran))
        out = told.getvalue()
        assert out.count("# repeated: always: its peer has a race") == runs - 1 and "not ok 1 - always" in out, out
        assert counted(count(out, "FAIL", 1)[0]) == (0, 1, 0, runs - 1), out


def the_last_line_has_three_numbers():
    c, _ = count("1..1\n# repeated: a: why\nok 1 - a\n")
    assert str(c) == "1 passed, 0 failed, 0 skipped", c


def each_program_is_told_with_its_failures():
    lines = runner.tally([("a", False), ("b", False), ("a", True), ("a", True)])
    assert [" ".join(line.split()) for line in lines] == ["a 2 of 3 runs failed", "b 0 of 1 runs failed"], lines


def the_end_tells_why_the_first_case_failed():
    ours = "ok 1 - a\nnot ok 2 - b\n# Traceback\n# AssertionError: no bytes came\nok 3 - c\n# of c\n"
    assert runner.reason(ours) == ["# Traceback", "# AssertionError: no bytes came"], runner.reason(ours)
    cmocka = "ok 1 - a\n# x.c:7: error: Failure!\nnot ok 2 - b\nok 3 - c\n"
    assert runner.reason(cmocka, 1) == ["# x.c:7: error: Failure!"], runner.reason(cmocka, 1)
    assert runner.reason("ok 1 - a\nnot ok 2 - b # SKIP\nlast words\n", 1) == ["last words"]
    lines = runner.told_last({"name": "p", "stdout": ours}, ["failed: 2 b", "skipped: d"])
    assert lines == ["p failed: 2 b", "    # Traceback", "    # AssertionError: no bytes came"], lines


def programs_are_chosen_by_name_and_strange_names_are_told():
    known = ["e2e-ops", "e2e-cm", "crc32c"]
    assert runner.chosen(["e2e-*", "nosuch"], known) == (["e2e-ops", "e2e-cm"], ["nosuch"])


class System:
    """A folder that stands for /sys and /proc."""

    def __init__(self, total, free, available_gib):
        self.dir = tempfile.TemporaryDirectory()
        self.pages = runner.Hugepages(self.dir.name)
        os.makedirs(self.pages.knob)
        os.makedirs(os.path.dirname(self.pages.meminfo))
        with open(self.pages.meminfo, "w", encoding="ascii") as f:
            f.write(f"MemTotal: 99999999 kB\nMemAvailable:   {available_gib << 20} kB\n")
        self.pages.write(total)
        with open(os.path.join(self.pages.knob, "free_hugepages"), "w", encoding="ascii") as f:
            f.write(str(free))

    def total(self):
        return self.pages.read("nr_hugepages")


def only_missing_hugepages_are_reserved_and_given_back():
    s = System(total=200, free=100, available_gib=20)
    s.pages.begin(512)
    assert s.total() == 612, s.total()
    s.pages.write(s.total() + 7)  # hugepages that another process has reserved
    s.pages.end()
    assert s.total() == 207, s.total()
    s.pages.end()
    assert s.total() == 207, s.total()


def hugepages_that_are_there_are_left_alone():
    s = System(total=600, free=600, available_gib=20)
    s.pages.begin(512)
    s.pages.end()
    assert s.total() == 600, s.total()


def no_hugepages_are_taken_from_a_small_machine():
    s = System(total=0, free=0, available_gib=4)
    assert "too little memory" in s.pages.begin(512)
    s.pages.end()
    assert s.total() == 0, s.total()


def a_machine_with_less_memory_reserves_fewer_hugepages():
    for available, reserved in ((20, 1536), (7, 1536), (6, 1024), (5, 0)):
        s = System(total=0, free=0, available_gib=available)
        s.pages.begin(1536, 1024)
        assert s.total() == reserved, (available, s.total())


def where_there_are_no_hugepages_the_run_goes_on():
    with tempfile.TemporaryDirectory() as empty:
        pages = runner.Hugepages(empty)
        assert "no hugepages are reserved" in pages.begin()
        pages.end()


RULES = """
rule make
  command = echo $$$$ >$out.begun; chrt -p $$$$ >$out.policy; $more; touch $out
build all: phony {targets}
default all
"""


def folder_of(place, name, *targets):
    """A build folder with these targets: (name, shell command that runs before the target is there)."""
    folder = os.path.join(place, name)
    os.mkdir(folder)
    with open(os.path.join(folder, "build.ninja"), "w", encoding="ascii") as f:
        f.write(RULES.format(targets=" ".join(t for t, _ in targets)))
        f.writelines(f"build {t}: make\n  more = {more}\n" for t, more in targets)
    return folder


def wait_for(path):
    end = time.monotonic() + 60
    while not os.path.exists(path):
        assert time.monotonic() < end, path
        time.sleep(0.01)


def later_builds_are_compiled_where_nothing_else_wants_a_processor():
    with tempfile.TemporaryDirectory() as place:
        first = folder_of(place, "first", ("bad", "false"), ("good", "true"))
        second = folder_of(place, "second", ("short", "true"), ("long", "sleep 600"))
        ahead = runner.Ahead([first, second])
        try:
            wait_for(os.path.join(second, "short"))
            wait_for(os.path.join(second, "long.policy"))
        finally:
            ahead.end()
        with open(os.path.join(second, "short.policy"), encoding="ascii") as f:
            assert "SCHED_IDLE" in f.read()
        with open(os.path.join(second, "long.begun"), encoding="ascii") as f:
            pid = int(f.read())
        assert not os.path.exists(f"/proc/{pid}") and not os.path.exists(os.path.join(second, "long"))
    runner.Ahead([]).end()


CASES = [cases_are_counted, a_build_runs_what_is_not_left_out_and_what_is_named_nevertheless,
         a_skip_that_says_not_ok_is_no_failure, a_case_that_never_ran_is_a_failure,
         a_program_that_timed_out_is_a_failure, a_repeated_case_is_counted_and_named,
         a_case_is_repeated_at_most_twice_and_only_for_what_is_foreign, the_last_line_has_three_numbers,
         each_program_is_told_with_its_failures, the_end_tells_why_the_first_case_failed,
         programs_are_chosen_by_name_and_strange_names_are_told,
         only_missing_hugepages_are_reserved_and_given_back,
         hugepages_that_are_there_are_left_alone, no_hugepages_are_taken_from_a_small_machine,
         a_machine_with_less_memory_reserves_fewer_hugepages, where_there_are_no_hugepages_the_run_goes_on,
         later_builds_are_compiled_where_nothing_else_wants_a_processor]
print(f"1..{len(CASES)}")
for number, case in enumerate(CASES, 1):
    try:
        case()
        print(f"ok {number} - {case.__name__}")
    except Exception as e:  # pylint: disable=broad-except
        print(f"not ok {number} - {case.__name__}\n# {type(e).__name__}: {e}")
