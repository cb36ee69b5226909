# SPDX-License-Identifier: BSD-3-Clause
"""
Tables of calls that are run twice, on the kernel's sockets and on rnicd's: `PROGRAM ADDRESS [CASE ...]` prints one line
of JSON for each case with its name and its result.
"""
import errno
import json
import select
import signal
import sys

LIMIT = 60  # seconds; longer is a hang
ADDR = sys.argv[1]
IN, OUT = select.POLLIN, select.POLLOUT
TABLE = []


def case(f):
    TABLE.append(f)
    return f


def code(call, *args):
    """Returns the name of the errno with which a call fails, or the call's result."""
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
