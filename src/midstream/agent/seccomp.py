"""The system calls that a sandboxed command may make, as a filter program for the kernel (seccomp, classic BPF).

The mount namespace or Landlock decides about paths; this decides about what has no path: which sockets can be made, who may be
signalled or slowed down, which parts of the kernel are out of reach. Unknown architectures have no filter, so no sandbox.
A pointer cannot be followed here, so a call whose risk lies behind one (clone3, openat2) is reported as missing, which
programs handle: they fall back to the older call.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

Code: TypeAlias = list[tuple[int, int, int, int]]

_ALLOW = 0x7FFF0000
_NOTIFY = 0x7FC00000
_ERRNO = 0x00050000
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_SET, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_X32 = 0x40000000

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
INTERNET = (AF_INET, AF_INET6, AF_NETLINK)
_SET_ID = 0o6000
_NEW_LISTENER = 1 << 3  # whoever answers for a later filter could wave through what ours asks about
_CREATES = 0o100 | 0o20000000  # O_CREAT, O_TMPFILE: only then is there a mode to look at
_NAMESPACES = 0x7E020080
_TYPE_BITS, _SOCK_STREAM, _SOCK_SEQPACKET = 0xF, 1, 5


class Machine(NamedTuple):
    """An architecture: its number in the kernel, and its column in the table below."""

    audit: int
    column: int


MACHINES = {"x86_64": Machine(0xC000003E, 0), "aarch64": Machine(0xC00000B7, 1)}

# The numbers on x86_64 and aarch64; None where there is no such call.
NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "socket": (41, 198), "socketpair": (53, 199), "ioctl": (16, 29),
    "clone": (56, 220), "clone3": (435, 435), "unshare": (272, 97), "setns": (308, 268),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "modify_ldt": (154, None),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "open_tree_attr": (467, 467),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "open_by_handle_at": (304, 265), "fanotify_init": (300, 262), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "syslog": (103, 116), "settimeofday": (164, 170), "clock_settime": (227, 112), "sethostname": (170, 161),
    "setdomainname": (171, 162), "acct": (163, 89), "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142),
    "iopl": (172, None), "ioperm": (173, None), "vhangup": (153, 58), "lookup_dcookie": (212, 18),
    "openat2": (437, 437), "open": (2, None), "openat": (257, 56), "creat": (85, None), "mknod": (133, None),
    "mknodat": (259, 33), "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "utimensat": (280, 88), "utime": (132, None), "utimes": (235, None), "futimesat": (261, None),
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16), "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semctl": (66, 191),
    "semop": (65, 193), "msgget": (68, 186), "msgctl": (71, 187), "msgsnd": (69, 189), "msgrcv": (70, 188),
    "mq_open": (240, 180), "mq_unlink": (241, 181),
    "prlimit64": (302, 261), "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "sched_setattr": (314, 274), "migrate_pages": (256, 238), "move_pages": (279, 239), "setpriority": (141, 140),
    "ioprio_set": (251, 30), "seccomp": (317, 277),
}  # fmt: skip

# Three answers: refused (the program is told that it may not), missing (it falls back to an older call that can be
# judged), and judged by an argument.
_REFUSED = (
    "setns add_key request_key keyctl bpf perf_event_open userfaultfd modify_ldt mount umount2 pivot_root chroot open_tree "
    "open_tree_attr move_mount fsopen fsconfig fsmount fspick mount_setattr init_module finit_module delete_module kexec_load "
    "kexec_file_load open_by_handle_at fanotify_init quotactl quotactl_fd syslog settimeofday clock_settime sethostname "
    "setdomainname acct swapon swapoff reboot iopl ioperm vhangup lookup_dcookie"
).split()
_MISSING = "clone3 openat2 io_uring_setup io_uring_enter io_uring_register file_setattr".split()
# Typing into a terminal (TIOCSTI, TIOCLINUX), and the flags of a file (immutable …), which a descriptor for reading suffices for.
_IOCTLS = (0x5412, 0x541C, 0x40086602, 0x40087602, 0x401C5820)
# Where a call makes or changes a file's mode: the argument with the mode; for the second table also the one with the flags.
_MODES = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1, "mknodat": 2}
_OPENS = {"open": (1, 2), "openat": (2, 3)}

# Landlock knows nothing of these, so a command in it may not reach anybody else's: shared memory and queues …
_SHARED = "shmget shmat shmctl semget semctl semop msgget msgctl msgsnd msgrcv mq_open mq_unlink".split()
# … and other processes' limits and priorities: the argument that names the process must be 0, the caller itself.
_OTHERS = {
    "prlimit64": 0, "sched_setaffinity": 0, "sched_setscheduler": 0, "sched_setparam": 0, "sched_setattr": 0,
    "migrate_pages": 0, "move_pages": 0, "setpriority": 1, "ioprio_set": 1,
}  # fmt: skip
# Landlock does not guard modes, owners and times: these are done for the command by landlock.py, inside its folders only.
ON_BEHALF = "chmod fchmod fchmodat fchmodat2 utimensat chown fchown lchown fchownat".split()
_XATTRS = "setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat".split()
_OLD_TIMES = "utime utimes futimesat".split()


def machine() -> str | None:
    """This machine's architecture, if there is a filter for it."""
    import platform  # most conversations have no sandbox

    found = platform.machine()
    return found if found in MACHINES else None


def number(name: str, architecture: str) -> int | None:
    return NUMBERS[name][MACHINES[architecture].column]


def filter_program(architecture: str, *, families: Iterable[int], landlock: bool = False) -> bytes:
    """The program: sockets only of these families, and with `landlock` also what that leaves open."""
    rules = _rules(tuple(families))
    if landlock:
        rules |= _landlock_rules(rules)
    # The machine first, since numbers of calls mean nothing without
    # it; then x32, a second set of numbers on the same machine.
    code: Code = [
        (_LOAD, 0, 0, 4),
        (_IF_EQUAL, 1, 0, MACHINES[architecture].audit),
        _refuse(errno.EPERM),  # a 32-bit program: its calls have other numbers
        (_LOAD, 0, 0, 0),
        (_IF_AT_LEAST, 0, 1, _X32),
        _refuse(errno.EPERM),
    ]
    for name, body in rules.items():
        found = number(name, architecture)
        if found is not None:
            # A chain of comparisons: not this call, then skip its body.
            # Every body ends in a verdict, so none falls into the next.
            code += [(_IF_EQUAL, 0, len(body), found), *body]
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join([struct.pack("=HBBI", *each) for each in code])


def _rules(families: tuple[int, ...]) -> dict[str, Code]:
    """For each call what is done about it; every path through it ends in a verdict."""
    end = [_verdict(_ALLOW)]
    return {
        **{name: [_refuse(errno.EPERM)] for name in _REFUSED},
        **{name: [_refuse(errno.ENOSYS)] for name in _MISSING},
        **{name: [*_unless_set(argument, _SET_ID), *end] for name, argument in _MODES.items()},
        **{name: [*_unless_creates(*arguments), *end] for name, arguments in _OPENS.items()},
        **{name: [*_unless_set(0, _NAMESPACES), *end] for name in ("clone", "unshare")},
        "seccomp": [*_unless_set(1, _NEW_LISTENER), *end],
        "ioctl": [*_unless_among(1, _IOCTLS), *end],
        "socket": _socket(families),
        "socketpair": _socketpair(),
    }


def _landlock_rules(plain: dict[str, Code]) -> dict[str, Code]:
    on_behalf = {name: [*plain.get(name, [_verdict(_ALLOW)])[:-1], _verdict(_NOTIFY)] for name in ON_BEHALF}
    return {
        **{name: [_refuse(errno.EPERM)] for name in _SHARED},
        **{name: [_load(argument), (_IF_EQUAL, 1, 0, 0), _refuse(errno.EPERM), _verdict(_ALLOW)] for name, argument in _OTHERS.items()},
        **{name: [_refuse(errno.EOPNOTSUPP)] for name in _XATTRS},
        **{name: [_refuse(errno.ENOSYS)] for name in _OLD_TIMES},
        **on_behalf,
    }  # fmt: skip


def _socket(families: tuple[int, ...]) -> Code:
    """Only these families; of netlink, which speaks to many parts of the kernel, only the one that lists addresses."""
    code: Code = [_load(0)]
    for family in families:
        if family == AF_NETLINK:
            code += [(_IF_EQUAL, 0, 4, family), _load(2), (_IF_EQUAL, 0, 1, 0), _verdict(_ALLOW), _refuse(errno.EPERM)]
        else:
            code += [(_IF_EQUAL, 0, 1, family), _verdict(_ALLOW)]
    return [*code, _refuse(errno.EPERM)]


def _socketpair() -> Code:
    """A pair that is connected for good: a datagram socket could be connected anew, to somebody else."""
    return [
        _load(0),
        (_IF_EQUAL, 0, 5, AF_UNIX),
        _load(1),
        (_AND, 0, 0, _TYPE_BITS),
        (_IF_EQUAL, 1, 0, _SOCK_STREAM),
        (_IF_EQUAL, 0, 1, _SOCK_SEQPACKET),
        _verdict(_ALLOW),
        _refuse(errno.EPERM),
    ]


def _unless_set(argument: int, bits: int) -> Code:
    return [_load(argument), (_IF_SET, 0, 1, bits), _refuse(errno.EPERM)]


def _unless_creates(flags: int, mode: int) -> Code:
    # 3 is the length of what is skipped: an open that creates nothing has no mode.
    return [_load(flags), (_IF_SET, 0, 3, _CREATES), *_unless_set(mode, _SET_ID)]


def _unless_among(argument: int, values: Iterable[int]) -> Code:
    code: Code = [_load(argument)]
    for value in values:
        code += [(_IF_EQUAL, 0, 1, value), _refuse(errno.EPERM)]
    return code


def _load(argument: int) -> tuple[int, int, int, int]:
    """The lower half of an argument: all that the kernel looks at in those that are tested here."""
    return _LOAD, 0, 0, 16 + 8 * argument


def _refuse(number: int) -> tuple[int, int, int, int]:
    return _verdict(_ERRNO | number)


def _verdict(value: int) -> tuple[int, int, int, int]:
    return _RETURN, 0, 0, value
