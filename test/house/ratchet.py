# SPDX-License-Identifier: BSD-3-Clause
"""Exceptions for code that already broke a rule when the rule became a test. An entry is (rule, name): value. A value
may shrink but never grow; an entry is deleted as soon as the rule holds without the entry. A name is that of a file
without its folder, or of a function, so a file that moves keeps its entry. `python3 test/house/test_sizes.py
--ratchet .` prints the entries that are needed today."""

import os
import re


def read(folder=os.path.dirname(os.path.abspath(__file__))):
    """{rule: {name: value}}, from ratchet.txt."""
    out = {}
    with open(os.path.join(folder, 'ratchet.txt'), encoding='utf-8') as h:
        for line in h:
            m = re.match(r'(\w+) (.+) (\d+)$', line.strip())
            if m is not None:
                out.setdefault(m.group(1), {})[m.group(2)] = int(m.group(3))
    return out


def held(rule, found, allowed, limit):
    """The problems of one rule. found: {name: (value, where)}, all that break the rule; allowed: {name: value}."""
    out = []
    for name, (value, where) in sorted(found.items()):
        if value > allowed.get(name, limit):
            out.append('%s: %s %s is %d, at most %d' % (where, rule, name, value, allowed.get(name, limit)))
    for name in sorted(set(allowed) - set(found)):
        out.append('test/house/ratchet.txt: "%s %s %d" is not needed any more: delete the line' %
                   (rule, name, allowed[name]))
    return out


def self_test(tap):
    found = {'a': (9, 'x.c'), 'b': (7, 'y.c')}
    tap.case('a value that grows and an entry without need are found', [] if held('r', found, {'a': 9, 'b': 7}, 5) == []
             and len(held('r', found, {'a': 8, 'b': 7}, 5)) == 1
             and len(held('r', found, {'a': 9}, 5)) == 1
             and len(held('r', {'a': (9, 'x.c')}, {'a': 9, 'b': 7}, 5)) == 1 else ['one of them is not found'])
