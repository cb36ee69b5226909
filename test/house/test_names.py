#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Names. Comments name only files that exist. No two static functions of a room share a name, so the name in a profile
or a debugger says which function is meant. Names that a header declares below its line

    /* ---- private to FOLDER ---- */

occur in the files of that room only; tests may use them, too. usage: test_names.py [--ratchet] SOURCE_ROOT"""

import os
import re
import sys

import ratchet
from c_code import code_only, comments, functions, outermost
from rooms import Tap, room_of, sources

FILE_NAME = re.compile(r'(?<![\w.>/-])[\w/-]+\.(?:c|h|py|sh)\b(?!\()')
INCLUDE = re.compile(r'#\s*include\s*[<"]([^>"]+)')
PRIVATE = re.compile(r'^/\* ---- private to (\S+) ---- \*/$', re.M)
# Files that are not in this tree: DPDK's telemetry client, a header of the kernel.
ELSEWHERE = {'dpdk-telemetry.py', 'fs.h'}
MACRO = re.compile(r'^[ \t]*#[ \t]*define[ \t]+(\w+)', re.M)
# Names at the outermost level: the tag of a struct, enum or union, and the name of a function behind its type.
OUTERMOST = re.compile(r'\b(?:struct|enum|union)\s+(\w+)\s*\{|[\w*]\s+\**([A-Za-z_]\w*)\s*\(')
WORD = re.compile(r'[A-Za-z_]\w*')


def lost_files(files, known):
    """{name of an unknown file that a comment mentions: (how often, where first)}"""
    out = {}
    for path, text in files:
        for line, c in comments(text):
            for m in FILE_NAME.finditer(c):
                name = os.path.basename(m.group())
                if name not in known:
                    n, where = out.get(name, (0, '%s:%d' % (path, line)))
                    out[name] = (n + 1, where)
    return out


def known_files(everything):
    return ELSEWHERE | {os.path.basename(p) for p, _ in everything} | {
        os.path.basename(name) for _, t in everything for name in INCLUDE.findall(t)}


def doubles(files):
    """{'room name': (how many, where)} of static functions that share a name within a room."""
    seen = {}
    for path, text in files:
        for f in functions(text):
            if f.static and room_of(path) != 'examples':  # each example is a program of its own
                seen.setdefault((room_of(path), f.name), {})[path] = '%s:%d' % (path, f.line)
    return {'%s %s' % key: (len(where), ', '.join(sorted(where.values()))) for key, where in seen.items()
            if len(where) > 1}


def private_names(text):
    """(the room that the line names, the names that the header defines below the line)."""
    m = PRIVATE.search(text)
    if m is None:
        return None, set()
    below, above = text[m.end():], set(WORD.findall(code_only(text[:m.start()], directives=False)))
    names = {a or b for a, b in OUTERMOST.findall(outermost(code_only(below)))}
    return m.group(1), (names | set(MACRO.findall(code_only(below, directives=False)))) - above


def reached(path, includes):
    """The headers that a file includes, directly or through others."""
    seen, todo = set(), [path]
    while todo:
        for h in includes.get(todo.pop(), ()):
            if h not in seen:
                seen.add(h)
                todo.append(h)
    return seen


def included(files):
    """{path: paths of the files that it includes}"""
    paths = {p for p, _ in files}
    out = {}
    for path, text in files:
        for name in INCLUDE.findall(text):
            for folder in (os.path.dirname(path), 'lib', 'app/rnicd'):
                target = os.path.join(folder, name)
                if target in paths:
                    out.setdefault(path, set()).add(target)
                    break
    return out


def trespasses(files):
    """
    Uses of private names outside their room. A name counts only in files that include its header: elsewhere the same
    name means another thing.
    """
    out, includes = [], included(files)
    private = {}
    for path, text in files:
        place, names = private_names(text)
        if place is not None and place != os.path.dirname(path):
            out.append('%s: "private to %s" names another folder than its own' % (path, place))
        private[path] = names
    for path, text in files:
        words = None
        for header in sorted(reached(path, includes)):
            if not private[header] or room_of(path) == room_of(header):
                continue
            words = words or set(WORD.findall(code_only(text, directives=False)))
            out += ['%s: %s is private to %s' % (path, n, header) for n in sorted(private[header] & words)]
    return out


def self_tests(tap):
    tap.case('a name of no file is found',
             [] if lost_files([('x.c', 'int a; /* see\n gone.c, here.c, q->c.h */ "lost.c"')], {'here.c'}) ==
             {'gone.c': (1, 'x.c:1')} else ['an example is judged wrongly'])
    one, two = 'static int f(void)\n{\n}\nint g(void)\n{\n}\n', 'static void f(int a)\n{\n}\nstatic int h(void)\n{\n}\n'
    tap.case('two static functions of one name are found',
             [] if list(doubles([('lib/qp/a.c', one), ('lib/qp/b.c', two), ('lib/udp/c.c', two)])) == ['qp f']
             else ['an example is judged wrongly'])
    text = 'int open_one(void);\n/* ---- private to lib/qp ---- */\nstruct hidden {\n\tint a;\n};\nvoid close_one(void);\n' \
           '#define INSIDE 1\nstatic inline int twice(int a)\n{\n\treturn call(a);\n}\n'
    user = '#include "qp/x.h"\nint a(void)\n{\n\topen_one();\n\treturn %s();\n}\n'
    tap.case('a private name elsewhere is found',
             [] if private_names(text)[1] == {'hidden', 'close_one', 'INSIDE', 'twice'} and
             trespasses([('lib/qp/x.h', text), ('lib/udp/y.c', user % 'close_one'), ('lib/qp/z.c', user % 'close_one'),
                         ('lib/udp/v.c', user % 'open_one'), ('lib/udp/w.c', 'int close_one;\n')]) ==
             ['lib/udp/y.c: close_one is private to lib/qp/x.h'] and
             len(trespasses([('lib/udp/x.h', text)])) == 1 else ['an example is judged wrongly'])
    ratchet.self_test(tap)


def main():
    root = sys.argv[-1]
    code = [(p, t) for p, t, _ in sources(root, ['lib', 'app', 'examples']) if p.endswith(('.c', '.h'))]
    everything = [(p, t) for p, t, _ in sources(root, ['lib', 'app', 'examples', 'test', 'scripts'])]
    lost = lost_files([(p, t) for p, t in everything if p.endswith(('.c', '.h'))], known_files(everything))
    if '--ratchet' in sys.argv:
        for name, (value, _) in sorted(lost.items()):
            print('lost_file', name, value)
        for name, (value, _) in sorted(doubles(code).items()):
            print('static_name', name, value)
        return 0
    tap = Tap()
    self_tests(tap)
    tap.case('files that comments name exist', ratchet.held('lost_file', lost, ratchet.read().get('lost_file', {}), 0))
    tap.case('a static name stands for one function in its room',
             ratchet.held('static_name', doubles(code), ratchet.read().get('static_name', {}), 1))
    tap.case('what is private is used by its room only', trespasses(code))
    return tap.done()


sys.exit(main())
