#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Documents: the README is short, links lead to files and headings that exist, the picture is XML that a browser reads,
rnic(7) has the variables of the environment that the library reads.
usage: test_docs.py SOURCE_ROOT"""

import glob
import os
import re
import sys
import xml.etree.ElementTree

from rooms import Tap

README_LINES = 150
LINK = re.compile(r'\]\(([^)\s]+)\)')


def anchors(text):
    """The anchor that links use for a heading of Markdown."""
    heads = re.findall(r'^#+ (.*)$', text, re.M)
    return {re.sub(r'[^\w\- ]', '', h).strip().lower().replace(' ', '-') for h in heads}


def bad_links(path, text, read):
    """Problems of the links. read(path): the text of a file, None if there is none."""
    out = []
    for link in LINK.findall(text):
        if re.match(r'[a-z]+:', link):
            continue
        to, _, anchor = link.partition('#')
        there = read(os.path.normpath(os.path.join(os.path.dirname(path), to))) if to else text
        if there is None or (anchor and anchor not in anchors(there)):
            out.append('%s: the link %s has no target' % (path, link))
    return out


def main():
    root = os.path.abspath(sys.argv[1])

    def read(path):
        try:
            with open(os.path.join(root, path), encoding='utf-8') as h:
                return h.read()
        except OSError:
            return None

    tap = Tap()
    two = {'a.md': '# A b\n[x](doc/b.md) [y](#a-b)\n', 'doc/b.md': '[z](../a.md#a-c)\n[w](c.md)\n'}
    good, bad = (bad_links(page, two[page], two.get) for page in two)
    tap.case('a link without a target is found',
             [] if not good and len(bad) == 2 else ['an example is judged wrongly'])
    n = len(read('README.md').splitlines())
    tap.case('the README has at most %d lines' % README_LINES,
             [] if n <= README_LINES else ['the README has %d lines' % n])
    pages = [os.path.relpath(p, root) for p in glob.glob(root + '/*.md') + glob.glob(root + '/doc/*.md')]
    bad = [problem for page in sorted(pages) for problem in bad_links(page, read(page), read)]
    tap.case('each link of the documents has a target', bad)
    code = ''.join(read(os.path.relpath(p, root)) for p in glob.glob(root + '/lib/**/*.c', recursive=True) +
                   glob.glob(root + '/app/rnicd/embedded.c'))
    variables = set(re.findall(r'getenv\("(RNIC\w*)"\)', code))
    named = set(re.findall(r'^  (RNIC\w*)', read('doc/rnic.txt'), re.M))
    tap.case('rnic(7) has each variable that the library reads, and no other',
             ['%s is missing in the page or in the code' % v for v in sorted(variables ^ named)] +
             ([] if variables else ['no variable was found in the code']))
    xml.etree.ElementTree.fromstring(read('doc/picture.svg'))
    tap.case('the picture is XML', [])
    return tap.done()


sys.exit(main())
