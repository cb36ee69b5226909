# SPDX-License-Identifier: BSD-3-Clause
"""Socket options for sock_table.py: SO_LINGER in each of its settings, and the segment size."""
import socket
import struct

OFF, ON = struct.pack("ii", 0, 0), struct.pack("ii", 1, 0)
LINGER_SET = ("on the connection", "on its listener", "before connecting", "taken back")


def set_linger(s, value):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, value)


def linger_of(s):
    return struct.unpack("ii", s.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8))


def lingering(listener, where):
    """A new connection: (the end that has SO_LINGER, the other end)."""
    if where == "on its listener":
        set_linger(listener, ON)
    c = socket.socket()
    if where == "before connecting":
        set_linger(c, ON)
    c.connect(listener.getsockname())
    s, _ = listener.accept()
    ends, other = (c, s) if where == "before connecting" else (s, c)
    if where in ("on the connection", "taken back"):
        set_linger(ends, ON)
    if where == "taken back":
        set_linger(ends, OFF)
    return ends, other


def sizes_of_segments(s):
    """The segment size by TCP_INFO (tcpi_snd_mss) and by TCP_MAXSEG."""
    info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
    return struct.unpack_from("I", info, 16)[0], s.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
