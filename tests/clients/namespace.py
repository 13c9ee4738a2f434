"""A network with nothing in it but loopback, so that no client can send anything out."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct
import sys

_CLONE_NEWNET = 0x40000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
_ELSEWHERE = ("192.0.2.1", 9)  # an address for documentation (RFC 5737): a packet to it has nobody to annoy


def leave_the_network() -> bool:
    """Move this thread, and every thread and process that it starts, to a network of its own. False if we may not: that takes
    Linux and root."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        _, flags = struct.unpack("16sh14x", fcntl.ioctl(control, _SIOCGIFFLAGS, request))
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))
    return True


def is_alone() -> bool:
    """Whether a packet cannot leave this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ELSEWHERE)  # of a datagram socket: looks for a route and sends nothing
        except OSError as error:
            return error.errno == errno.ENETUNREACH
    return False
