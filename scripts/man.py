#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes a man page from a program's own output, so that both always agree.
usage: man.py help NAME SECTION VERSION PROGRAM ARGUMENT...    from PROGRAM --help: its headings become sections
       man.py config VERSION PROGRAM ARGUMENT...               rnicd.conf(5), from rnicd --help-config
       man.py counters VERSION PROGRAM ARGUMENT...             rnic-counters(7), from rnicctl counters --list
       man.py header NAME VERSION PROGRAM ARGUMENT...          NAME(3), from a C header that PROGRAM prints
       man.py markdown VERSION PROGRAM ARGUMENT...             doc/configuration.md, from rnicd --help-config"""

import re
import subprocess
import sys

SEE_ALSO = ['rnicd(8)', 'rnicd.conf(5)', 'rnicrun(1)', 'rnicctl(1)', 'testpmd-rdma(1)', 'rnic-counters(7)',
            'rnic(7)', 'rnic.h(3)', 'rnicdv(3)', 'esock.h(3)', 'sock.h(3)']
BRIEF = {'rnic.h': 'memory that is shared with rnicd from its allocation on',
         'rnicdv': 'datagram queue pairs beyond those of libibverbs',
         'esock.h': 'extended sockets: a connected TCP socket switches to iWARP',
         'sock.h': 'the wire that a socket under rnicrun --sockets uses'}
COMMENT = re.compile(r'/\*(.*?)\*/\n', re.S)


def roff(text):
    """Escapes text for roff: backslashes, and a dot or apostrophe at the start of a line."""
    text = text.replace('\\', '\\e').replace('-', '\\-')
    return '\\&' + text if text[:1] in ".'" else text


def title(name, section, version):
    return '.TH "%s" "%s" "" "software RNIC %s" "software RNIC"' % (name.upper(), section, version)


def paragraph(lines):
    """Keeps lines as they are, since the programs' help is wrapped by hand and has columns."""
    return ['.nf', *(roff(line[2:] if line.startswith('  ') else line) for line in lines), '.fi']


def sections(text):
    """[(heading, lines)]: a heading begins in the first column."""
    out = []
    for line in text.splitlines():
        if line and not line.startswith(' '):
            out.append((line.strip(), []))
        elif out:
            out[-1][1].append(line)
    return [(heading, '\n'.join(lines).strip('\n').split('\n')) for heading, lines in out]


def see_also(own):
    pages = [page.rstrip(')').split('(') for page in SEE_ALSO if page != own]
    return ['.SH SEE ALSO', ' ,\n'.join('.BR %s (%s)' % (name, section) for name, section in pages)]


def from_help(name, section, version, text):
    out = [title(name, section, version)]
    for heading, lines in sections(text):
        out.append('.SH ' + roff(heading.upper()))
        if heading == 'NAME':
            out.append(roff(lines[0].strip()))
        else:
            out += paragraph(lines)
    return out + see_also('%s(%s)' % (name, section))


def config_rows(text):
    """
    Splits what rnicd --help-config prints; yields (True, heading, note) for each section, and (False, key, meaning) for
    each key.
    """
    for line in text.splitlines():
        if line.startswith('['):
            heading, _, note = line[1:].partition(']')
            yield True, heading, note.strip() or 'The daemon itself. This section is given once.'
        elif line.strip():
            key, _, meaning = line.strip().partition(' ')
            yield False, key, meaning.strip()


def from_config(version, text):
    out = [title('rnicd.conf', 5, version), '.SH NAME', 'rnicd.conf \\- configuration of the software RDMA network adapter',
           '.SH DESCRIPTION',
           'Sections in square brackets hold lines of the form',
           '.IR "key = value" .',
           'A # begins a comment. Sizes may end in K, M or G, times in us, ms or s, shares in %.',
           '.B rnicd \\-\\-check FILE', 'names the line of each mistake.',
           '.SH FILES', '/etc/rnicd/rnicd.conf']
    for section, name, meaning in config_rows(text):
        out += ['.SH "SECTION %s"' % roff(name.upper()) if section else '.TP\n.B ' + roff(name), roff(meaning)]
    return out + see_also('rnicd.conf(5)')


def from_config_markdown(_version, text):
    out = ['# Configuration', '',
           'This page is made from the table in the code:',
           '`python3 scripts/man.py markdown - build/app/rnicd/rnicd --help-config > doc/configuration.md`.', '',
           'Sections in square brackets hold lines of the form `key = value`. A `#` begins a comment. Sizes may end in',
           '`K`, `M` or `G`, times in `us`, `ms` or `s`, shares in `%`. `rnicd --check FILE` names the line of each',
           'mistake. At SIGHUP a running rnicd reads the file again: log level, rate, impairment and capture change at',
           'once. Other keys that have changed wait for a restart; the log names their section or port.']
    for section, name, meaning in config_rows(text):
        if section:
            out += ['', '## Section [%s]' % name, '', meaning[0].upper() + meaning[1:], '']
            out += ['| key | meaning | default |', '|---|---|---|']
            continue
        meaning, _, default = meaning.rpartition(' (default ') if ' (default ' in meaning else (meaning, '', '')
        default = default[:-1] if default else ''
        if meaning.endswith('(must be given)'):
            meaning, default = meaning[:-len('(must be given)')].rstrip(), 'must be given'
        out.append('| `%s` | %s | %s |' % (name, meaning.replace('|', '\\|'), default))
    return out


def from_counters(version, text):
    out = [title('rnic-counters', 7, version), '.SH NAME', 'rnic-counters \\- every counter of rnicd and its meaning',
           '.SH DESCRIPTION', 'A counter only grows. A gauge rises and falls.',
           '.B rnicctl counters', 'shows them.']
    for line in text.splitlines():
        if line.startswith('## '):
            out.append('.SH ' + roff(line[3:].upper()))
        elif line.startswith('`') and line.endswith(':'):
            out.append('.SS ' + roff(line.rstrip(':').replace('`', '')))
        elif re.match(r'\| `\w+` \| `', line):  # a name on another device, the name in rnicd
            name, here, group, but = [c.strip() for c in line.replace('`', '').strip('|').split('|')]
            out += ['.TP', '.B ' + roff(name), roff('%s of the %s%s.' % (here, group, '; ' + but if but else ''))]
        elif line.startswith('| `'):
            name, kind, unit, meaning = [c.strip() for c in line.strip('|').split('|')]
            out += ['.TP', '.B ' + roff(name.strip('`')), roff('%s (%s, %s).' % (meaning, kind, unit))]
    return out + see_also('rnic-counters(7)')


def of_comment(text):
    """The lines of a C comment without its stars."""
    return [re.sub(r'^ ?\*? ?', '', line).rstrip() for line in text.strip().splitlines()]


def from_header(name, version, text):
    """The comment at the head of the header, then each declaration with the comment before it."""
    head = next(m for m in COMMENT.finditer(text) if 'SPDX' not in m.group(1))
    body = text.partition('extern "C" {\n#endif\n')[2].rpartition('#ifdef __cplusplus')[0]
    out = [title(name, 3, version), '.SH NAME', '%s \\- %s' % (roff(name), BRIEF[name]), '.SH SYNOPSIS',
           '.B #include <rnic/%s.h>' % name.removesuffix('.h'), '.SH DESCRIPTION',
           *paragraph(of_comment(head.group(1))), '.SH DECLARATIONS']
    for part in re.split(r'\n\n(?=/\*|\w)', body.strip('\n')):
        comment = COMMENT.match(part)
        code = part[comment.end():] if comment else part
        out += ['.PP', *paragraph(code.expandtabs(8).strip('\n').split('\n'))]
        if comment:
            out += ['.RS', *paragraph(of_comment(comment.group(1))), '.RE']
    return out + see_also(name + '(3)')


def main():
    kind, rest = sys.argv[1], sys.argv[2:]
    head = rest[:{'help': 3, 'header': 2}.get(kind, 1)]
    text = subprocess.run(rest[len(head):], check=True, capture_output=True, text=True).stdout
    make = {'help': from_help, 'config': from_config, 'counters': from_counters, 'markdown': from_config_markdown,
            'header': from_header}[kind]
    print('\n'.join(make(*head, text)))


main()
