#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares the exported symbols of librnic, name and version, with those of the system's libibverbs, librdmacm and
libefa. usage: abi_check.py LIBRNIC  (speaks TAP)
"""
import re
import subprocess
import sys

LIBRARIES = ('libibverbs.so.1', 'librdmacm.so.1', 'libefa.so.1')
# Left to the stock libraries, since these functions take none of our objects (conversions for librdmacm, sysfs).
LEFT_OUT = re.compile(r'^(ibv_copy_(ah_attr|path_rec|qp_attr)_(from|to)_kern|ibv_get_sysfs_path|ibv_read_sysfs_file)$')
OWN = {'rnic_alloc', 'rnic_free', 'rnicdv_await_socket', 'rnicdv_create_qp', 'rnicdv_group_bind', 'rnicdv_poll_cq',
       'rnicdv_query_device', 'rnicdv_read_map', 'rnicdv_resolve_socket', 'rnicdv_wc_read_record'}
OWN |= {'rnic_sock_' + call for call in (
    'close', 'deregister', 'error', 'post_recv', 'post_send', 'prepare', 'qp', 'read', 'recv', 'recv_done', 'register',
    'send', 'send_done', 'shutdown', 'start', 'switch', 'write', 'writev')}
# functions of libc that librnic interposes
HOOKS = {'__realpath_chk', 'access', 'closedir', 'dlopen', 'fork', 'madvise', 'mremap', 'open', 'open64', 'opendir',
         'readdir', 'readdir64', 'realpath', 'rewinddir', 'sigaction', 'signal', 'stat', 'stat64', 'statx'}


def exported(path):
    out = subprocess.run(['nm', '-D', '--defined-only', path], check=True, capture_output=True, text=True).stdout
    names = (line.split() for line in out.splitlines())
    return {n[2].split('@@')[0]: n[2].split('@@')[1] for n in names if n[1] != 'A' and '@@' in n[2]}


def unversioned(path):
    out = subprocess.run(['nm', '-D', '--defined-only', path], check=True, capture_output=True, text=True).stdout
    return {n[2] for n in map(str.split, out.splitlines()) if n[1] != 'A' and '@' not in n[2]}


def stock(name):
    out = subprocess.run(['ldconfig', '-p'], check=True, capture_output=True, text=True,
                         env={'PATH': '/sbin:/usr/sbin:/bin:/usr/bin'}).stdout
    return exported(re.search(r'=> (\S*/%s)$' % re.escape(name), out, re.M).group(1))


def main():
    ours = exported(sys.argv[1])
    results = []
    for lib in LIBRARIES:
        public = {n: v for n, v in stock(lib).items() if 'PRIVATE' not in v or n == 'ibv_query_gid_type'}
        missing = sorted(n for n in public if n not in ours and not LEFT_OUT.match(n))
        other = sorted(n for n in public if n in ours and ours[n] != public[n])
        results.append((f'every public function of {lib} that takes an object is defined', missing))
        results.append((f'the version nodes are those of {lib}', other))
    known = {n: v for lib in LIBRARIES for n, v in stock(lib).items()}
    results.append(('nothing else is exported', sorted(n for n in ours if n not in known and n not in OWN)))
    results.append(('without a version only the functions of libc that librnic replaces are exported', sorted(unversioned(sys.argv[1]) ^ HOOKS)))
    dyn = subprocess.run(['readelf', '-d', sys.argv[1]], check=True, capture_output=True, text=True).stdout
    results.append(('the soname is private', [] if 'soname: [librnic.so.0]' in dyn else ['soname']))
    stays = re.search(r'FLAGS_1\).*NODELETE', dyn)
    results.append(('it stays loaded, as its threads and handlers do', [] if stays else ['dlclose']))
    needed = re.findall(r'NEEDED.*\[(.*)\]', dyn)
    results.append(('only libc is needed', sorted(set(needed) - {'libc.so.6', 'ld-linux-x86-64.so.2', 'ld-linux-aarch64.so.1'})
                    if 'asan' not in dyn else []))
    print(f'1..{len(results)}')
    for i, (what, wrong) in enumerate(results, 1):
        print(f'{"not ok" if wrong else "ok"} {i} - {what}' + (f' # {" ".join(wrong)}' if wrong else ''))


main()
