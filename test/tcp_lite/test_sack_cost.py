#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The cost of a SACK must not grow with the window. Instructions are counted, so the result does not depend on the
machine's load. 2,400 instructions for a SACK of four blocks are less than 400 ns on a processor that executes two
instructions per cycle at 3 GHz."""
import re
import shutil
import subprocess
import sys

LIMIT = 2400
PATTERNS = ['grow', 'holes', 'anywhere', 'backwards']


def count(prog, pattern, segments):
    run = subprocess.run(['valgrind', '--tool=callgrind', '--callgrind-out-file=/dev/null', '--toggle-collect=acks', prog,
                          pattern, str(segments)], capture_output=True, text=True)
    found = re.search(r'Collected : (\d+)', run.stderr)
    if run.returncode != 0 or not found:
        return None
    return int(found.group(1)) / int(run.stdout)


def main():
    if not shutil.which('valgrind'):
        print('1..0 # SKIP valgrind is missing: scripts/deps.sh test')
        return 0
    print(f'1..{len(PATTERNS)}')
    bad = 0
    for i, pattern in enumerate(PATTERNS, 1):
        few, many = (count(sys.argv[1], pattern, n) for n in (64, 4095))
        good = few is not None and many is not None and many <= min(LIMIT, 1.5 * few)
        bad += not good
        print(f'{"" if good else "not "}ok {i} - a_sack_costs_the_same_in_a_large_window: {pattern}')
        print(f'# instructions per ACK: 64 in flight {few and round(few)}, 4,095 in flight {many and round(many)}')
    return bad != 0


sys.exit(main())
