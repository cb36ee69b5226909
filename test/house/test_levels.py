#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Reads the sources: includes go down only, pure rooms include nothing impure, no #if in .c files outside crc32c,
every file names its licence. usage: test_levels.py SOURCE_ROOT"""

import os
import re
import sys

from rooms import DEVICE_OWN, DPDK, MAY_INCLUDE, PURE, Tap, closure, room_of, sources

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
CONDITION = re.compile(r'^\s*#\s*(if|ifdef|ifndef|elif|else)\b', re.M)
SPDX = 'SPDX-License-Identifier: BSD-3-Clause'

# The headers that a pure room may include: types, memory functions, intrinsics of the processor.
PURE_HEADERS = {
    'limits.h', 'stdalign.h', 'stdatomic.h', 'stdbool.h', 'stddef.h', 'stdint.h', 'string.h',
    'immintrin.h', 'cpuid.h', 'arm_acle.h', 'arm_neon.h',
}
# On Arm the processor's features cannot be read by an instruction, so this header is needed.
PURE_EXCEPTIONS = {('lib/crc32c/crc32c_dispatch.c', 'sys/auxv.h'),
                   # the numbers of errors that programs get, not the variable
                   ('lib/iws/iws_int.h', 'errno.h')}


def include_problems(path, text, here):
    """Checks the includes of one file. here: names of the files in its folder, which may be included without a room."""
    room = room_of(path)
    out = []
    for kind, name in INCLUDE.findall(text):
        target = '/'.join(name.split('/')[:2])
        if target not in MAY_INCLUDE:
            target = name.split('/')[0]
        if name in DEVICE_OWN and room not in DEVICE_OWN[name]:
            out.append('%s: %s may not include <%s>' % (path, room, name))
        if target in MAY_INCLUDE and '/' in name:
            public = (target, kind) == ('rnic', '<')  # <rnic/rnic.h>, the public header of the extension
            if target != room and target not in MAY_INCLUDE[room] and not public:
                out.append('%s: %s may not include "%s"' % (path, room, name))
        elif kind == '"' and (name not in here or '/' in name):
            out.append('%s: "%s" names no room' % (path, name))
        elif name.startswith('rte_') and room not in DPDK:
            out.append('%s: <%s>: only rnicd knows DPDK' % (path, name))
        elif kind == '<' and room in PURE and name not in PURE_HEADERS and (path, name) not in PURE_EXCEPTIONS:
            out.append('%s: <%s> in a pure room' % (path, name))
    return out


# The message engine knows no carrier and the reliable connection no stream: their code contains none of these names.
CARRIERS = {'qp': re.compile(r'\b(tcpl|mpa|udpl|rc|dgram)_\w+'), 'rc': re.compile(r'\b(tcpl|rc_tcp|udpl|dgram)_\w+')}
COMMENT = re.compile(r'/\*.*?\*/', re.S)


def carrier_problems(path, text):
    names = CARRIERS.get(room_of(path))
    if names is None:
        return []
    return ['%s: %s belongs to another room' % (path, m.group(0)) for m in names.finditer(COMMENT.sub('', text))]


# Members below the line "private" in qp.h are for lib/qp and the carriers only; rnicd calls functions instead.
# Exception: a QP that is in none of the engine's lists may be put into a list of its owner by `link`.
QP_HEADER = 'lib/qp/qp.h'
QP_OPEN = {'link'}


def private_members(header):
    """The members of struct qp."""
    body = COMMENT.sub('', header).split('struct qp {', 1)[1].split('};', 1)[0]
    return {n for line in body.split(';') for n in re.findall(r'(\w+)\s*(?:,|$)', line.strip())} - QP_OPEN


def private_problems(path, text, members):
    if not path.startswith('app/'):
        return []
    return ['%s: qp->%s is private' % (path, m) for m in re.findall(r'\bqp->(\w+)', COMMENT.sub('', text)) if m in members]


def condition_problems(path, text):
    base = os.path.basename(path)
    if not base.endswith('.c') or base.startswith('crc32c_'):
        return []
    return ['%s: #%s in a .c file' % (path, m) for m in CONDITION.findall(text)]


def licence_problems(path, text):
    return [] if any(SPDX in line for line in text.split('\n')[:3]) else [path + ': no SPDX line at the top']


def self_tests(tap):
    """Proves that the check finds violations."""
    bad = [
        ('lib/crc32c/x.c', '#include "qp/qp.h"\n'),
        ('lib/tcp_lite/x.c', '#include "iwarp/ddp.h"\n'),
        ('lib/tcp_lite/x.c', '#  include <iwarp/ddp.h>\n'),
        ('lib/qp/x.c', '#include "pkt/pkt.h"\n'),
        ('lib/qp/x.c', '#include <stdio.h>\n'),
        ('lib/base/x.h', '#include <time.h>\n'),
        ('lib/crc32c/x.c', '#include <sys/auxv.h>\n'),
        ('lib/rnic/x.c', '#include <rte_mbuf.h>\n'),
        ('lib/rnic/x.c', '#include "rnicd/rnicd.h"\n'),
        ('lib/rnic/x.c', '#include "rnic/mem/mem.h"\n'),
        ('lib/rnic/mem/x.c', '#include "rnic/verbs/verbs.h"\n'),
        ('lib/rnic/rsock/x.c', '#include "rnic/cm/cm.h"\n'),
        ('app/rnicd/x.c', '#include "rnic/common.h"\n'),
        ('app/rnicd/plane/x.c', '#include "control/client.h"\n'),
        ('app/rnicd/control/x.c', '#include "plane/worker_int.h"\n'),
        ('app/rnicd/border/x.c', '#include "plane/port.h"\n'),
        ('app/rnicd/sockets/x.c', '#include "control/client.h"\n'),
        ('app/rnicd/sockets/x.c', '#include "plane/conn.h"\n'),
        ('app/rnicd/sockets/x.c', '#include <rte_mbuf.h>\n'),
        ('app/testpmd-rdma/x.c', '#include "base/rn_be.h"\n'),
        ('examples/x.c', '#include "ring/spsc.h"\n'),
        ('app/rnicrun/x.c', '#include <rnic/rnicdv.h>\n'),
        ('lib/base/x.c', '#include "nowhere.h"\n'),
        ('lib/base/x.c', '#include "../qp/qp.h"\n'),
    ]
    good = [
        ('lib/qp/x.c', '#include "qp/y.h"\n#include "ring/spsc.h"\n#include "here.h"\n#include <string.h>\n'),
        ('lib/rnic/verbs/x.c', '#include "rnic/mem/mem.h"\n#include "rnic/common.h"\n'),
        ('lib/rnic/rsock/x.c', '#include "rnic/rsock/rsock.h"\n#include <rnic/rnic.h>\n'),
        ('lib/ipc/x.c', '#include <sys/socket.h>\n#include "ring/spsc.h"\n'),
        ('app/rnicd/x.c', '#include <rte_ethdev.h>\n#include "qp/qp.h"\n'),
        ('app/testpmd-rdma/x.c', '#include <infiniband/verbs.h>\n#include <rnic/rnic.h>\n#include <rnic/rnicdv.h>\n'),
    ]
    tap.case('the include check finds forbidden includes',
             ['passed: %s: %s' % (p, t.strip()) for p, t in bad if not include_problems(p, t, ['here.h'])])
    tap.case('the include check accepts allowed includes',
             [q for p, t in good for q in include_problems(p, t, ['here.h'])])
    tap.case('the table has no cycle', [r for r in MAY_INCLUDE if r in closure(r)])
    tap.case('a carrier\'s name in the message engine is found, a comment is not',
             [] if carrier_problems('lib/qp/x.c', 'tcpl_idle(c);') and carrier_problems('lib/qp/x.h', 'struct mpa_view v;')
             and not carrier_problems('lib/qp/x.c', '/* mpa_rx_next */ int rc;') else ['an example is judged wrongly'])
    tap.case('a stream\'s name in the reliable connection is found, the protocol\'s is not',
             [] if carrier_problems('lib/rc/x.c', 'tcpl_idle(c);') and carrier_problems('lib/rc/x.h', 'struct rc_tcp_ctx *c;')
             and not carrier_problems('lib/rc/x.c', 'mpa_rx_next(); qp_pull();') else ['an example is judged wrongly'])
    qp = '/* private */ struct qp {\n\tuint8_t state; /* x */\n\tuint32_t sq_done, rq_done;\n\tstruct rn_slink link;\n};'
    tap.case('a private member of a queue pair is found',
             [] if private_members(qp) == {'state', 'sq_done', 'rq_done'}
             and private_problems('app/rnicd/x.c', 'q->qp->state = 1;', {'state'})
             and not private_problems('app/rnicd/x.c', 'qp->link; /* qp->state */', {'state'})
             else ['an example is judged wrongly'])
    tap.case('the other checks find what they forbid',
             [] if condition_problems('lib/qp/x.c', '#ifdef X\n') and not condition_problems('lib/a/crc32c_x.c', '#if 1\n')
             and licence_problems('x.c', 'int x;\n') else ['a check misses what it forbids'])


def main():
    root = sys.argv[1]
    tap = Tap()
    self_tests(tap)
    code = list(sources(root, ['lib', 'app', 'examples']))
    for room in MAY_INCLUDE:
        mine = [(p, t, here) for p, t, here in code if room_of(p) == room and p.endswith(('.c', '.h'))]
        tap.case('includes of ' + room, [q for p, t, here in mine for q in include_problems(p, t, here)])
    unknown = {room_of(p) for p, _, _ in code} - set(MAY_INCLUDE) - {None}
    tap.case('every room is in the table', ['unknown room ' + r for r in sorted(unknown)])
    tap.case('no conditional compilation in .c files outside crc32c',
             [q for p, t, _ in code for q in condition_problems(p, t)])
    tap.case('the message engine knows no carrier, the reliable connection no stream',
             [q for p, t, _ in code for q in carrier_problems(p, t)])
    header = next(t for p, t, _ in code if p == QP_HEADER)
    tap.case('rnicd leaves the private part of a queue pair alone',
             [q for p, t, _ in code for q in private_problems(p, t, private_members(header))])
    everything = code + list(sources(root, ['test', 'scripts']))
    tap.case('every source file names the licence', [q for p, t, _ in everything for q in licence_problems(p, t)])
    return tap.done()


sys.exit(main())
