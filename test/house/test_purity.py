#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks by the linker's symbols: a pure room's archive needs nothing but memory functions and the rooms below it, and
holds no writable state. usage: test_purity.py ROOM=ARCHIVE..."""

import re
import subprocess
import sys

from rooms import PURE, Tap, closure

OUTSIDE = re.compile(
    r'^(memcpy|memmove|memset|memcmp|memchr|bcmp|strlen|strnlen|strcmp|strncmp'
    r'|__(memcpy|memmove|memset)_chk|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_'
    r'|__aarch64_(cas|swp|ldadd|ldclr|ldset|ldeor)\w+)$')
# On Arm the processor's features cannot be read by an instruction, so this function is needed.
EXCEPTIONS = {('crc32c', 'getauxval')}
# The choice of an implementation; it is written before main() runs.
STATE_EXCEPTIONS = {('crc32c', 'crc32c_impls')}


def run(*cmd):
    return subprocess.run(cmd, check=True, capture_output=True, text=True).stdout


def symbols(nm_output):
    """(defined globals, undefined symbols), from lines of `nm`: 'value type name' or 'type name'."""
    defined, undefined = set(), set()
    for line in nm_output.splitlines():
        f = line.split()
        if len(f) == 2 and f[0] in 'Uwv':
            undefined.add(f[1])
        elif len(f) == 3 and f[1].isupper():
            defined.add(f[2])
    return defined, undefined - defined


def foreign(room, undefined, below):
    return ['%s needs %s' % (room, s) for s in sorted(undefined - below)
            if not OUTSIDE.match(s) and (room, s) not in EXCEPTIONS]


def writable(room, objdump_output):
    out = []
    for line in objdump_output.splitlines():
        m = re.match(r'^[0-9a-f]{16} ......[O ] \.(data|bss|tdata|tbss)(\.(?!rel\.ro)\S*)?\s+[0-9a-f]{16}\s+(?:\.hidden )?(\S+)$', line)
        if m and m.group(3) != '.' + m.group(1) and (room, m.group(3)) not in STATE_EXCEPTIONS:
            out.append('%s keeps state in %s' % (room, m.group(3)))
    return out


def self_tests(tap):
    nm = '\nx.o:\n0000000000000000 T own\n0000000000000010 t local\n                 U memcpy\n' \
         '                 U own\n                 U malloc\n                 U rn_wheel_arm\n'
    defined, undefined = symbols(nm)
    tap.case('a foreign symbol is found', [] if foreign('qp', undefined, {'rn_wheel_arm'}) == ['qp needs malloc']
             and defined == {'own'} else ['an example is judged wrongly'])
    dump = '0000000000000000 l     O .bss\t0000000000000004 counter\n' \
           '0000000000000000 l     O .data.rel.ro.local\t0000000000000010 names\n' \
           '0000000000000000 l    d  .data\t0000000000000000 .data\n' \
           '0000000000000000 g     O .data\t0000000000000020 crc32c_impls\n'
    tap.case('writable state is found', [] if writable('crc32c', dump) == ['crc32c keeps state in counter']
             else ['an example is judged wrongly'])


def main():
    archives = dict(a.split('=', 1) for a in sys.argv[1:])
    tap = Tap()
    self_tests(tap)
    table = {room: symbols(run('nm', path)) for room, path in archives.items()}
    for room in PURE:
        if room not in archives:
            continue
        below = set().union(*(table[r][0] for r in closure(room) if r in table))
        tap.case(room + ' needs only what lies below it', foreign(room, table[room][1], below))
        tap.case(room + ' keeps no state', writable(room, run('objdump', '-t', archives[room])))
    return tap.done()


sys.exit(main())
