#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Each header compiles alone, so it includes all that it needs. The compiler and its options are those with which the
build compiles a source file of the same folder. usage: test_headers.py SOURCE_ROOT BUILD_ROOT"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from rooms import Tap


def commands(build):
    """{source file: (words of its compile command without input, output, and what only costs time here)}"""
    out = {}
    with open(os.path.join(build, 'compile_commands.json'), encoding='utf-8') as h:
        for c in json.load(h):
            words, kept, skip = shlex.split(c['command']), [], False
            for w in words:
                if skip:
                    skip = False
                elif w in ('-o', '-MF', '-MQ', '-c'):
                    skip = True
                elif not w.startswith(('-MD', '-O', '-g')) and os.path.basename(w) != 'ccache':
                    kept.append(w)
            out[os.path.normpath(os.path.join(c['directory'], c['file']))] = kept
    return out


def candidates(header, known):
    """
    The compile commands to try for a header: those of the source files that share the longest path with the header,
    which most often lie in the same folder.
    """
    shared = {path: len(os.path.commonpath([header, path])) for path in known}
    most = max(shared.values())
    return list({tuple(w for w in known[p] if w.startswith(('-I', '-i', '-D', '-std')) or w == known[p][0]):
                 known[p] for p in known if shared[p] == most}.values())


def compiles(command, header, build):
    """Returns the compiler's messages if the compiler refuses the header."""
    r = subprocess.run(command + ['-fsyntax-only', '-include', header, '-x', 'c', '/dev/null'], cwd=build,
                       capture_output=True, text=True, check=False)
    return r.stderr if r.returncode != 0 else None


def problems(root, build, headers):
    known = commands(build)

    def one(path):
        for command in candidates(path, known):
            said = compiles(command, path, build)
            if said is None:
                break
        return None if said is None else '%s does not compile alone: %s' % (
            os.path.relpath(path, root), next((x for x in said.splitlines() if 'error' in x), said)[:300])
    with ThreadPoolExecutor(4) as pool:
        return [p for p in pool.map(one, headers) if p is not None]


def main():
    root, build = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    tap = Tap()
    with tempfile.TemporaryDirectory() as d:
        bad, good = os.path.join(d, 'bad.h'), os.path.join(d, 'good.h')
        for path, text in ((bad, 'struct a { uint32_t b; };\n'), (good, '#include <stdint.h>\nstruct a { uint32_t b; };\n')):
            with open(path, 'w', encoding='utf-8') as h:
                h.write(text)
        said = problems(root, build, [bad, good])
        tap.case('a header that lacks an include is found',
                 [] if len(said) == 1 and 'bad.h' in said[0] else said or ['an example is judged wrongly'])
    for top in ('lib', 'app', 'examples', 'test'):
        headers = [os.path.join(f, n) for f, _, names in os.walk(os.path.join(root, top)) for n in sorted(names)
                   if n.endswith('.h')]
        tap.case('headers of ' + top, problems(root, build, headers))
    return tap.done()


sys.exit(main())
