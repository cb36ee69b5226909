#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The cost of an allocation of rnicrun --huge must not grow with the number of blocks. Instructions are counted, so the
result does not depend on the machine's load."""
import re
import shutil
import subprocess
import sys


def count(prog, blocks):
    run = subprocess.run(['valgrind', '--tool=callgrind', '--callgrind-out-file=/dev/null', '--toggle-collect=blocks',
                          prog, str(blocks)], capture_output=True, text=True)
    found = re.search(r'Collected : (\d+)', run.stderr)
    if run.returncode != 0 or not found:
        print(f'# {run.stderr}')
        return None
    return int(found.group(1)) / int(run.stdout)


def main():
    if not shutil.which('valgrind'):
        print('1..0 # SKIP valgrind is missing: scripts/deps.sh test')
        return 0
    few, many = (count(sys.argv[1], n) for n in (1000, 8000))
    good = few is not None and many is not None and many <= 1.5 * few
    print(f'1..1\n{"" if good else "not "}ok 1 - a_block_costs_the_same_beside_many_blocks')
    print(f'# instructions per block: 1,000 blocks {few and round(few)}, 8,000 blocks {many and round(many)}')
    return not good


sys.exit(main())
