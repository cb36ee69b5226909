# SPDX-License-Identifier: BSD-3-Clause
"""Reads C sources for the checks of this folder: comments, names, and functions with their lengths and arguments."""

import re

COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
DIRECTIVE = re.compile(r'^[ \t]*#(?:[^\n\\]|\\\n|\\.)*', re.M)
HEAD = re.compile(r'\b([A-Za-z_]\w*)\s*\(')
TAIL = re.compile(r'\s*(?:__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)\s*)*\{')
KEYWORDS = {'if', 'for', 'while', 'switch', 'return', 'sizeof', '__attribute__', '__asm__', '_Static_assert', 'defined'}


def blank(text):
    """The text with every character but newlines replaced by a blank."""
    return re.sub(r'[^\n]', ' ', text)


def comments(text):
    """(line, text) of each comment; line is that of the comment's first character, counted from 1."""
    return [(text.count('\n', 0, m.start()) + 1, m.group()) for m in COMMENT_OR_TEXT.finditer(text)
            if m.group().startswith('/')]


def code_only(text, directives=True):
    """
    The code without comments, string literals and (unless told otherwise) preprocessor lines; the rest keeps its place.
    """
    text = COMMENT_OR_TEXT.sub(lambda m: blank(m.group()), text)
    return DIRECTIVE.sub(lambda m: blank(m.group()), text) if directives else text


def matching(code, at, opens, closes):
    """The place of the bracket that closes the one at `at`; the end of the text if there is none."""
    depth = 0
    for i in range(at, len(code)):
        if code[i] == opens:
            depth += 1
        elif code[i] == closes:
            depth -= 1
            if depth == 0:
                return i
    return len(code) - 1


def outermost(code):
    """The code without everything inside braces."""
    out, depth = [], 0
    for ch in code:
        depth -= ch == '}'
        out.append(ch if depth == 0 or ch == '\n' else ' ')
        depth += ch == '{'
    return ''.join(out)


def arguments(inside):
    """The number of arguments in the text between a function's parentheses; `...` does not count."""
    depth, parts = 0, ['']
    for ch in inside:
        depth += ch in '([{'
        depth -= ch in ')]}'
        if ch == ',' and depth == 0:
            parts.append('')
        else:
            parts[-1] += ch
    return len([p for p in parts if p.strip() not in ('', 'void', '...')])


class Function:
    def __init__(self, name, line, lines, args, static):
        self.name, self.line, self.lines, self.args, self.static = name, line, lines, args, static


def functions(text):
    """The functions that the text defines, in order."""
    code = code_only(text)
    out, at, declared = [], 0, 0
    while True:
        m = re.compile(r'[;{}]|' + HEAD.pattern).search(code, at)
        if m is None:
            return out
        if m.group() in ';}':
            at = declared = m.end()
            continue
        if m.group() == '{':  # the body of a structure, or the values of a table
            at = matching(code, m.start(), '{', '}') + 1
            continue
        close = matching(code, m.end() - 1, '(', ')')
        tail = TAIL.match(code, close + 1)
        if tail is None or m.group(1) in KEYWORDS or m.group(1).isupper():
            at = close + 1
            continue
        end = matching(code, tail.end() - 1, '{', '}')
        first = re.compile(r'\S').search(code, declared).start()
        line = code.count('\n', 0, first) + 1
        out.append(Function(m.group(1), line, code.count('\n', first, end) + 1, arguments(code[m.end():close]),
                            re.search(r'\bstatic\b', code[declared:m.start()]) is not None))
        at = declared = end + 1


def columns(line):
    """The width of a line in columns; a tab stops at every eighth column."""
    return len(line.expandtabs(8))
