# SPDX-License-Identifier: BSD-3-Clause
"""recvmmsg(2) and sendmmsg(2), which Python lacks: called in libc, or in a preloaded library that overrides libc."""
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
