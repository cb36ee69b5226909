# SPDX-License-Identifier: BSD-3-Clause
"""Calls that Python lacks, as recvmmsg(2): called in libc, or in a preloaded library that overrides libc."""
import ctypes
import errno


class Buffer(ctypes.Structure):
    """struct iovec"""
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]


class Entry(ctypes.Structure):
    """struct mmsghdr; msg_flags includes the padding after it"""
    _fields_ = [("name", ctypes.c_void_p), ("namelen", ctypes.c_uint32), ("iov", ctypes.POINTER(Buffer)),
                ("iovlen", ctypes.c_size_t), ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t),
                ("flags", ctypes.c_size_t), ("len", ctypes.c_uint)]


def entries(sizes):
    """(array of struct mmsghdr, its buffers): one buffer an entry."""
    buffers = [ctypes.create_string_buffer(n) for n in sizes]
    v = (Entry * len(sizes))()
    for e, b, n in zip(v, buffers, sizes):
        e.iov, e.iovlen = ctypes.pointer(Buffer(ctypes.addressof(b), n)), 1
    return v, buffers


def send_several(s, parts, flags=0):
    v, buffers = entries([len(p) for p in parts])
    for b, p in zip(buffers, parts):
        b.raw = p
    n = ctypes.CDLL(None, use_errno=True).sendmmsg(s.fileno(), v, len(parts), flags)
    return [e.len for e in v[:n]] if n >= 0 else errno.errorcode[ctypes.get_errno()]


def recv_several(s, sizes, flags=0, limit=None):
    """limit: (seconds, nanoseconds)"""
    v, buffers = entries(sizes)
    at = ctypes.byref((ctypes.c_long * 2)(*limit)) if limit else None
    n = ctypes.CDLL(None, use_errno=True).recvmmsg(s.fileno(), v, len(sizes), flags, at)
    return [b.raw[:e.len].decode() for e, b in zip(v[:n], buffers)] if n >= 0 else errno.errorcode[ctypes.get_errno()]


def libc_result(n):
    return n if n >= 0 else errno.errorcode[ctypes.get_errno()]


def select_once(s, limit):
    """select() of one socket for reading; limit: (seconds, microseconds). (result, whether it is set, seconds left)"""
    bits = (ctypes.c_uint64 * 16)()
    bits[s.fileno() // 64] = 1 << s.fileno() % 64
    t = (ctypes.c_long * 2)(*limit)
    n = ctypes.CDLL(None, use_errno=True).select(s.fileno() + 1, bits, None, None, ctypes.byref(t))
    return libc_result(n), bits[s.fileno() // 64] != 0, t[0]


def poll_once(s, limit):
    """ppoll() of one socket for reading; limit: (seconds, nanoseconds)"""
    p = (ctypes.c_int * 2)(s.fileno(), 1)
    t = (ctypes.c_long * 2)(*limit)
    return libc_result(ctypes.CDLL(None, use_errno=True).ppoll(p, ctypes.c_ulong(1), ctypes.byref(t), None))
