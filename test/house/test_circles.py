#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Circles: files that call each other in a loop, so that none can be read, tested or replaced without the others. The
calls are those of the object files: a file that names another one's function calls it, whether it calls at once or
stores the function's address for later. No circle crosses a room; inside a room a circle may have at most 5 files (8 in
rsock). ratchet.txt lists the circles that were larger when this became a test, by the rooms that they touch.
usage: test_circles.py [--ratchet] SOURCE_ROOT BUILD_ROOT"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

import ratchet
from rooms import Tap, room_of

MOST, MOST_IN = 5, {'rnic/rsock': 8}
SYMBOL = re.compile(r'^(.*?): *(?:[0-9a-f]+ )?([A-Za-z]) (\S+)$')


def objects(root, build):
    """
    {source, relative to the root: its object file}; for a source that is built more than once, one of the object files.
    """
    out = {}
    with open(os.path.join(build, 'compile_commands.json'), encoding='utf-8') as h:
        for c in json.load(h):
            source = os.path.relpath(os.path.normpath(os.path.join(c['directory'], c['file'])), root)
            words = shlex.split(c['command'])
            if source.startswith(('lib/', 'app/', 'examples/')) and '-o' in words:
                out.setdefault(source, os.path.join(c['directory'], words[words.index('-o') + 1]))
    return out


def program_of(source):
    """
    The program or example that a source belongs to; "lib" for a source of any library. A called function is looked up
    first in the caller's own program, then in "lib".
    """
    parts = source.split('/')
    return 'lib' if parts[0] == 'lib' else '/'.join(parts[:2])


def calls(nm_lines, source_of):
    """{source: sources whose functions it names}"""
    defined, wanted = {}, {}
    for line in nm_lines:
        m = SYMBOL.match(line)
        if m is None:
            continue
        source, kind, name = source_of[m.group(1)], m.group(2), m.group(3)
        if kind in 'TWi':
            defined.setdefault((program_of(source), name), source)
        elif kind == 'U':
            wanted.setdefault(source, set()).add(name)
    graph = {}
    for source, names in wanted.items():
        to = {defined.get((program_of(source), n)) or defined.get(('lib', n)) for n in names}
        graph[source] = {t for t in to if t is not None and t != source}
    return graph


def circles(graph):
    """The strongly connected components of more than one file (Tarjan's algorithm, without recursion)."""
    index, low, stack, on, out = {}, {}, [], set(), []
    for start in graph:
        if start in index:
            continue
        work = [(start, iter(sorted(graph.get(start, ()))))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on.add(start)
        while work:
            node, rest = work[-1]
            for n in rest:
                if n not in index:
                    index[n] = low[n] = len(index)
                    stack.append(n)
                    on.add(n)
                    work.append((n, iter(sorted(graph.get(n, ())))))
                    break
                if n in on:
                    low[node] = min(low[node], index[n])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    ring = []
                    while not ring or ring[-1] != node:
                        ring.append(stack.pop())
                        on.discard(ring[-1])
                    if len(ring) > 1:
                        out.append(sorted(ring))
    return sorted(out, key=len, reverse=True)


def too_large(found):
    """{rooms: (number of files, their names)} of circles that cross a room or are larger than a room allows."""
    out = {}
    for ring in found:
        rooms = sorted({room_of(f) for f in ring})
        name = '+'.join(rooms)
        if (len(rooms) > 1 or len(ring) > MOST_IN.get(name, MOST)) and name not in out:
            out[name] = (len(ring), ', '.join(os.path.basename(f) for f in ring))
    return out


def look(root, build):
    source_of = {obj: source for source, obj in objects(root, build).items()}
    missing = sorted(source_of[o] for o in source_of if not os.path.exists(o))
    if missing:
        sys.exit('not built: ' + ', '.join(missing))
    nm = subprocess.run(['nm', '-A'] + sorted(source_of), check=True, capture_output=True, text=True).stdout
    return circles(calls(nm.splitlines(), source_of))


def self_tests(tap):
    with tempfile.TemporaryDirectory() as d:
        # b stores the address of c's function, which counts as a call.
        text = {'a': 'void b(void); void a(void) { b(); }', 'b': 'void c(void); void (*p)(void) = c; void b(void) { p(); }',
                'c': 'void a(void); void c(void) { a(); }', 'd': 'void a(void); void d(void) { a(); }'}
        source_of = {}
        for name, body in text.items():
            path = os.path.join(d, name)
            with open(path + '.c', 'w', encoding='utf-8') as h:
                h.write(body + '\n')
            subprocess.run(['cc', '-c', '-o', path + '.o', path + '.c'], check=True)
            source_of[path + '.o'] = 'lib/%s/%s.c' % ('udp' if name == 'c' else 'qp', name)
        nm = subprocess.run(['nm', '-A'] + list(source_of), check=True, capture_output=True, text=True).stdout
        found = circles(calls(nm.splitlines(), source_of))
    tap.case('a circle is found, also through a stored address',
             [] if found == [['lib/qp/a.c', 'lib/qp/b.c', 'lib/udp/c.c']] else [str(found)])
    tap.case('a circle across rooms is too large',
             [] if list(too_large(found)) == ['qp+udp'] else ['an example is judged wrongly'])
    six = [['lib/qp/%d.c' % i for i in range(6)]]
    tap.case('a circle of six is too large, in rsock one of nine',
             [] if list(too_large(six)) == ['qp'] and too_large([r[:5] for r in six]) == {} and
             too_large([['lib/rnic/rsock/%d.c' % i for i in range(8)]]) == {} and
             list(too_large([['lib/rnic/rsock/%d.c' % i for i in range(9)]])) == ['rnic/rsock']
             else ['an example is judged wrongly'])
    ratchet.self_test(tap)


def main():
    root, build = os.path.abspath(sys.argv[-2]), os.path.abspath(sys.argv[-1])
    found = look(root, build)
    if '--ratchet' in sys.argv:
        for name, (value, _) in sorted(too_large(found).items()):
            print('circle', name, value)
        return 0
    tap = Tap()
    self_tests(tap)
    tap.case('no circle crosses a room, and the largest is small',
             ratchet.held('circle', too_large(found), ratchet.read().get('circle', {}), 0))
    for ring in found:
        print('# %d files: %s' % (len(ring), ', '.join(ring)))
    return tap.done()


sys.exit(main())
