#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Asks librnic for the devices while the process has few threads or descriptors, and again when it has enough:
start_again.py threads|descriptors MORE

MORE: how many more than now the process may have at first. Threads are limited for each user, but not for root: so the
process becomes one of a user who has no other. Prints "first N" and "again N", the numbers of devices, and
between them "left T F": how many threads and descriptors a first call without devices has left.
"""
import ctypes
import os
import resource
import sys

LIMITS = {"threads": resource.RLIMIT_NPROC, "descriptors": resource.RLIMIT_NOFILE}


def used():
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")) - 1


def devices():
    n = ctypes.c_int(0)
    return n.value if listed(ctypes.byref(n)) else 0


def limit(soft):
    resource.setrlimit(which, (soft, most))


listed = ctypes.CDLL(None).ibv_get_device_list
listed.restype = ctypes.c_void_p
which, most = LIMITS[sys.argv[1]], resource.getrlimit(LIMITS[sys.argv[1]])[1]
if which == resource.RLIMIT_NPROC:
    os.setuid(20000 + os.getpid() % 40000)
    ctypes.CDLL(None).prctl(4, 1)  # PR_SET_DUMPABLE: its files in /proc are its own again
before = used()
limit(before[which == resource.RLIMIT_NOFILE] + int(sys.argv[2]))
first = devices()
limit(most)
print("first", first)
if first == 0:
    print("left", *(now - then for now, then in zip(used(), before)))
print("again", devices())
