#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The C sources are laid out as .clang-format says; `make format` lays them out. ratchet.txt has the number of lines
that were laid out otherwise when this became a test. usage: test_format.py [--ratchet] SOURCE_ROOT"""

import difflib
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import ratchet
from rooms import Tap, sources

TOOL = 'clang-format-14'


def changed(text, path, root):
    """The number of lines of the text that the formatter would change."""
    want = subprocess.run([TOOL, '--assume-filename', os.path.join(root, path)], input=text, check=True,
                          capture_output=True, text=True).stdout
    if want == text:
        return 0
    lines = difflib.unified_diff(text.split('\n'), want.split('\n'), n=0)
    return max(1, sum(1 for x in lines if x.startswith('-') and not x.startswith('---')))


def suspects(paths, root):
    """Those of the files that the formatter would change. One process looks at many files: starting it takes ten times
    as long as looking at one."""
    said = subprocess.run([TOOL, '--dry-run', *paths], cwd=root, check=True, capture_output=True, text=True).stderr
    told = {line.split(':')[0] for line in said.splitlines() if '[-Wclang-format-violations]' in line}
    return [p for p in paths if p in told]


def measure(root):
    texts = {p: t for p, t, _ in sources(root, ['lib', 'app', 'examples', 'test']) if p.endswith(('.c', '.h'))}
    paths = list(texts)
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda part: suspects(part, root), [paths[i:i + 100] for i in range(0, len(paths), 100)])
    counts = {p: changed(texts[p], p, root) for part in found for p in part}
    bad = [p for p, n in counts.items() if n]
    return {'all': (sum(counts.values()), ', '.join(bad[:5]))} if bad else {}


def main():
    root = os.path.abspath(sys.argv[-1])
    if shutil.which(TOOL) is None:
        print('1..0 # SKIP %s is not installed: scripts/deps.sh lint' % TOOL)
        return 0
    if '--ratchet' in sys.argv:
        for name, (value, _) in measure(root).items():
            print('unformatted_lines', name, value)
        return 0
    tap = Tap()
    tap.case('a line that is laid out otherwise is found',
             [] if changed('int a;\n', 'lib/base/x.c', root) == 0 and changed('int  a;\n', 'lib/base/x.c', root) == 1
             else ['an example is judged wrongly'])
    with tempfile.TemporaryDirectory() as d:
        shutil.copy(os.path.join(root, '.clang-format'), d)
        for name, text in (('good.c', 'int a;\n'), ('bad.c', 'int  a;\n'), ('more.c', 'int b;\n')):
            with open(os.path.join(d, name), 'w', encoding='utf-8') as f:
                f.write(text)
        found = suspects(['good.c', 'bad.c', 'more.c'], d)
    tap.case('a file with such a line is found among others',
             [] if found == ['bad.c'] else found or ['an example is judged wrongly'])
    tap.case('sources are laid out by .clang-format',
             ratchet.held('unformatted_lines', measure(root), ratchet.read().get('unformatted_lines', {}), 0))
    return tap.done()


sys.exit(main())
