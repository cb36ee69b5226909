# SPDX-License-Identifier: BSD-3-Clause
"""The table of rooms of ARCHITECTURE.md for the checks of this folder, and their TAP output."""

import os

# The rooms of lib/ that each wing of rnicd may include.
BELOW_RNICD = ['base', 'crc32c', 'ring', 'pkt', 'wqe', 'tcp_lite', 'udp', 'iwarp', 'qp', 'dgram', 'rc', 'conn', 'ipc']
WINGS = ['border', 'plane', 'sockets', 'control']

# room: the rooms that it may include
MAY_INCLUDE = {
    'version': [],
    'base': [],
    'crc32c': ['base'],
    'ring': ['base'],
    'pkt': ['base'],
    'wqe': ['base'],
    'tcp_lite': ['base'],
    'udp': ['base', 'crc32c'],
    'esock': ['base'],
    'inject': ['base'],
    'iwarp': ['base', 'crc32c'],
    'qp': ['base', 'crc32c', 'ring', 'wqe', 'iwarp'],
    'dgram': ['base', 'crc32c', 'ring', 'wqe', 'iwarp', 'udp', 'qp'],
    'rc': ['base', 'ring', 'wqe', 'iwarp', 'qp'],
    'conn': ['base', 'tcp_lite', 'rc'],
    'ipc': ['base', 'ring'],
    'iws': ['base', 'ring', 'wqe', 'iwarp', 'qp', 'rc', 'esock', 'ipc'],
    # The rooms of librnic; files in librnic's own folder are below these rooms.
    'rnic': ['base', 'inject', 'ring', 'ipc'],
    'rnic/mem': ['base', 'ring', 'ipc', 'rnic'],
    'rnic/verbs': ['base', 'inject', 'ring', 'wqe', 'ipc', 'rnic', 'rnic/mem'],
    'rnic/cm': ['base', 'inject', 'ring', 'ipc', 'rnic', 'rnic/verbs'],
    'rnic/rsock': ['base'],
    'rnic/esock': ['base', 'esock'],
    'rnic/sock': ['base', 'ipc'],
    # The wings of rnicd. The two planes and control include border, and never each other.
    'border': BELOW_RNICD,
    'plane': BELOW_RNICD + ['border', 'iws'],
    'sockets': BELOW_RNICD + ['border', 'iws', 'rnic/sock'],
    'control': BELOW_RNICD + ['border'],
    'rnicd': BELOW_RNICD + WINGS + ['version'],
    'testpmd-rdma': ['version'],
    'rnicrun': ['version', 'ipc'],
    'rnicctl': ['base', 'inject', 'iwarp', 'ipc', 'version'],
    'examples': [],
}

# Pure rooms: without allocation, system calls, clock, output and state of their own.
PURE = ['base', 'crc32c', 'ring', 'pkt', 'wqe', 'tcp_lite', 'udp', 'esock', 'iwarp', 'qp', 'dgram', 'rc',
        'conn', 'iws']

# {header of an extension that other RDMA devices lack: the rooms that may include it}. Code in these rooms must report
# it when the device lacks the extension.
DEVICE_OWN = {'rnic/rnicdv.h': ['rnic', 'rnic/verbs', 'rnic/cm', 'rnic/esock', 'testpmd-rdma', 'examples']}

# The only room that may include DPDK.
DPDK = ['rnicd', 'border', 'plane', 'control']


def closure(room):
    """The rooms that a room may depend on, directly or through others."""
    seen, todo = set(), list(MAY_INCLUDE[room])
    while todo:
        r = todo.pop()
        if r not in seen:
            seen.add(r)
            todo += MAY_INCLUDE[r]
    return seen


SOURCE_NAMES = ('.c', '.h', '.py', '.sh', '.build', '.S')


def room_of(path):
    parts = path.split('/')
    if parts[:2] == ['app', 'rnicd'] and len(parts) > 3 and parts[2] in WINGS:
        return parts[2]
    if len(parts) > 3 and '/'.join(parts[1:3]) in MAY_INCLUDE:
        return '/'.join(parts[1:3])
    if parts[0] in ('lib', 'app') and len(parts) > 2:
        return parts[1]
    return 'examples' if parts[0] == 'examples' else None


def sources(root, tops):
    for top in tops:
        for folder, dirs, files in os.walk(os.path.join(root, top)):
            dirs[:] = sorted(d for d in dirs if not d.startswith(('.', 'build', '__pycache__')))
            for f in sorted(files):
                if f.endswith(SOURCE_NAMES):
                    path = os.path.join(folder, f)
                    with open(path, encoding='utf-8', errors='replace') as h:
                        yield os.path.relpath(path, root), h.read(), files


class Tap:
    def __init__(self):
        self.count = 0
        self.failed = 0

    def case(self, name, problems):
        """One case, which passes if the list of problems is empty."""
        self.count += 1
        for p in problems:
            print('# ' + p)
        print('%s %d - %s' % ('not ok' if problems else 'ok', self.count, name))
        self.failed += bool(problems)

    def done(self):
        print('1..%d' % self.count)
        return 1 if self.failed else 0
