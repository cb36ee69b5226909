#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the completion of a program for bash or zsh from the program's own --help, so that both always agree.
usage: completion.py bash|zsh NAME PROGRAM ARGUMENT...    from PROGRAM --help: options, and COMMANDS if it has some"""

import re
import subprocess
import sys

# In a line of --help one space stands before the option's argument, and two or more before the option's meaning.
OPTION = re.compile(r'^ +(?:(-\w), )?(--[\w-]+)(?:\[=[^ ]*)?(?: ([A-Za-z][^ ]*))?(?: +(.*))?$')
COMMAND = re.compile(r'^  ([a-z][a-z-]*)(?: .*?)?(?:  +(.*))?$')
PATHS = ('FILE', 'PATH', 'FOLDER')
RUNS_PROGRAMS = ('rnicrun',)  # what follows the options is a command line of its own


def parse(text):
    """Returns ([(short or '', long, argument or '', meaning)] of the options, [(command, meaning)]) of a --help."""
    options, commands, heading = [], [], ''
    for line in text.splitlines():
        if line and not line.startswith(' '):
            heading = line.strip()
            continue
        option, command = OPTION.match(line), COMMAND.match(line)
        if option and not any(o[1] == option.group(2) for o in options):
            options.append(tuple(g or '' for g in option.groups()))
        elif heading == 'COMMANDS' and command and command.group(1) not in [c[0] for c in commands]:
            commands.append((command.group(1), command.group(2) or ''))
    return options, commands


def seconds(text):
    """Returns {command: [fixed words that may follow it]}, such as {"set": ["port", "log-level"]}."""
    out = {}
    for command, word in re.findall(r'^  ([a-z][a-z-]*) ([a-z][a-z-]*)(?= [A-Z])', text, re.M):
        out.setdefault(command, []).append(word)
    return out


def bash(name, options, commands, behind):
    f = '_' + name.replace('-', '_')
    words = ' '.join([o[1] for o in options] + [o[0] for o in options if o[0]])
    files = '|'.join(w for o in options if o[2] in PATHS for w in o[:2] if w)
    others = '|'.join(w for o in options if o[2] and o[2] not in PATHS for w in o[:2] if w)
    out = ['# bash completion of %s(%s)' % (name, '8' if name == 'rnicd' else '1'), f + '()', '{',
           '\tlocal cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}', '\tCOMPREPLY=()']
    if name in RUNS_PROGRAMS:
        out += ['\tlocal i', '\tfor ((i = 1; i < COMP_CWORD; i++)); do',
                '\t\tcase ${COMP_WORDS[i]} in', '\t\t%s) ((++i)) ;;' % '|'.join(filter(None, (files, others))),
                '\t\t-*) ;;', '\t\t*) return ;; # the program\'s own arguments', '\t\tesac', '\tdone']
    if commands:
        out += ['\tlocal i command', '\tfor ((i = 1; i < COMP_CWORD; i++)); do',
                '\t\tcase ${COMP_WORDS[i]} in', '\t\t%s) ((++i)) ;;' % '|'.join(filter(None, (files, others))),
                '\t\t-*) ;;', '\t\t*) command=${COMP_WORDS[i]}; break ;;', '\t\tesac', '\tdone']
    out += ['\tcase $before in']
    if files:
        out += ['\t%s) COMPREPLY=($(compgen -f -- "$cur")); return ;;' % files]
    if others:
        out += ['\t%s) return ;;' % others]
    out += ['\tesac', '\tcase $cur in', '\t-*) COMPREPLY=($(compgen -W "%s" -- "$cur")) ;;' % words]
    if commands:
        out += ['\t*)', '\t\tcase $command in',
                '\t\t"") COMPREPLY=($(compgen -W "%s" -- "$cur")) ;;' % ' '.join(c for c, _ in commands)]
        out += ['\t\t%s) [[ $before != %s ]] || COMPREPLY=($(compgen -W "%s" -- "$cur")) ;;' % (c, c, ' '.join(words))
                for c, words in behind.items()]
        out += ['\t\tesac ;;']
    elif name in RUNS_PROGRAMS:
        out += ['\t*) COMPREPLY=($(compgen -c -- "$cur")) ;;']
    return out + ['\tesac', '}', 'complete -o default -F %s %s' % (f, name)]


def quoted(text):
    return text.replace("'", '').replace('[', '(').replace(']', ')').replace(':', ' -')


def zsh(name, options, commands):
    out = ['#compdef ' + name, '_arguments -s \\']
    for short, long, argument, meaning in options:
        names = "'(%s %s)'{%s,%s}" % (short, long, short, long) if short else "'%s" % long
        what = ':%s:%s' % (argument, '_files' if argument in PATHS else ' ') if argument else ''
        out.append("\t%s%s[%s]%s' \\" % (names, "'" if short else '', quoted(meaning), what))
    if name in RUNS_PROGRAMS:
        out += ["\t'*::program:_normal'"]
    elif commands:
        told = ' '.join('%s\\:"%s"' % (c, quoted(m).replace('"', '')) for c, m in commands)
        out += ["\t'1:command:((%s))' \\" % told, "\t'*: : '"]
    else:
        out += ["\t'*:file:_files'"]
    return out


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in ('bash', 'zsh'):
        sys.exit(__doc__)
    text = subprocess.run(sys.argv[3:], check=True, stdout=subprocess.PIPE, text=True).stdout
    options, commands = parse(text)
    name = sys.argv[2]
    print('\n'.join(bash(name, options, commands, seconds(text)) if sys.argv[1] == 'bash' else
                    zsh(name, options, commands)))


if __name__ == '__main__':
    main()
