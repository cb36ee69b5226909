# SPDX-License-Identifier: BSD-3-Clause
"""
Tables of calls that are made twice, on the kernel's sockets and on ours: `PROGRAM ADDRESS [CASE ...]` prints a line of
JSON for each case, its name and what it gives.
"""
import errno
import json
import select
import signal
import sys

LIMIT = 60  # seconds: a hang
ADDR = sys.argv[1]
IN, OUT = select.POLLIN, select.POLLOUT
TABLE = []


def case(f):
    TABLE.append(f)
    return f


def code(call, *args):
    """The name of the errno that a call ends with, or what it gives."""
    try:
        return call(*args)
    except OSError as e:
        return errno.errorcode[e.errno] if e.errno else type(e).__name__


def epoll_of(s, mask):
    e = select.epoll()
    e.register(s, mask)
    return e


def main():
    wanted = sys.argv[2:]
    for f in TABLE:
        if wanted and f.__name__ not in wanted:
            continue
        signal.alarm(LIMIT)
        try:
            result = f()
        except Exception as e:  # pylint: disable=broad-except
            result = f"{type(e).__name__}: {e}"
        print(json.dumps([f.__name__, result], default=repr), flush=True)
