#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sizes that a reader can take in: 600 lines a file, 80 a function, 6 arguments, 120 columns; in tests, too.
ratchet.txt lists what was larger when this became a test. usage: test_sizes.py [--ratchet] SOURCE_ROOT"""

import os
import sys

import ratchet
from c_code import columns, functions
from rooms import Tap, sources

FILE, FUNCTION, ARGUMENTS, COLUMNS = 600, 80, 6, 120


def long_files(files):
    return {os.path.basename(p): (t.count('\n'), p) for p, t in files if t.count('\n') > FILE}


def wide_lines(files):
    """(number of lines that are too wide, in all files; which lines)."""
    wide = ['%s:%d' % (path, i) for path, text in files for i, line in enumerate(text.split('\n'), 1)
            if columns(line) > COLUMNS]
    return {'all': (len(wide), ', '.join(wide))} if wide else {}


def large_functions(files):
    """(functions with too many lines, functions with too many arguments)."""
    lines, args = {}, {}
    for path, text in files:
        if not path.endswith(('.c', '.h')):
            continue
        for f in functions(text):
            where = '%s:%d' % (path, f.line)
            if f.lines > FUNCTION:
                lines[f.name] = (f.lines, where)
            if f.args > ARGUMENTS:
                args[f.name] = (f.args, where)
    return lines, args


def measure(files):
    lines, args = large_functions(files)
    return [('lines_of_file', long_files(files), FILE), ('lines_of_function', lines, FUNCTION),
            ('arguments', args, ARGUMENTS), ('wide_lines', wide_lines(files), 0)]


def self_tests(tap):
    body = ''.join('\tx();\n' for _ in range(78))
    good = 'int a;\n\nstatic int f(int a, int b, int (*g)(int, int), int d, int e, int f)\n{\n' + body[:-6] + '}\n' \
           'struct s { int x; };\nstatic const struct s t[] = {\n' + 100 * '\t{ 1 },\n' + '};\n' \
           '/* int g(int a, int b, int c, int d, int e, int f, int g)\n{ */\n' \
           'int h(void)\n{\n\tputs("{");\n\treturn \'}\';\n}\n'
    tall = 'void f(void)\n{\n' + body + '}\n'
    many = 'static inline int f(int a, int b,\n\tint c, int d, int e, int f, int g) { return a; }\n'
    tap.case('sizes that are right pass', [str(m) for m in measure([('x.c', good)]) if m[1]])
    tap.case('a long file is found',
             [] if 'x.c' in long_files([('x.c', '\n' * 601)]) else ['an example is judged wrongly'])
    tap.case('a long function is found',
             [] if large_functions([('x.c', tall)])[0]['f'][0] == 81 else ['an example is judged wrongly'])
    tap.case('a function of seven arguments is found',
             [] if large_functions([('x.c', many)])[1] == {'f': (7, 'x.c:1')} else ['an example is judged wrongly'])
    tap.case('a wide line is found', [] if wide_lines([('x.c', '\n' + '\t' * 15 + 'x\n' + 'x' * 120 + '\n')]) ==
             {'all': (1, 'x.c:2')} else ['an example is judged wrongly'])
    ratchet.self_test(tap)


def main():
    root = sys.argv[-1]
    files = [(p, t) for p, t, _ in sources(root, ['lib', 'app', 'examples', 'test', 'scripts'])]
    if '--ratchet' in sys.argv:
        for rule, found, _ in measure(files):
            for name, (value, _) in sorted(found.items()):
                print(rule, name, value)
        return 0
    tap = Tap()
    self_tests(tap)
    allowed = ratchet.read()
    names = {'lines_of_file': 'files have at most %d lines' % FILE,
             'lines_of_function': 'functions have at most %d lines' % FUNCTION,
             'arguments': 'functions have at most %d arguments' % ARGUMENTS,
             'wide_lines': 'lines have at most %d columns' % COLUMNS}
    for rule, found, limit in measure(files):
        tap.case(names[rule], ratchet.held(rule, found, allowed.get(rule, {}), limit))
    return tap.done()


sys.exit(main())
