"""A command confined by Landlock and seccomp, for machines where no namespaces can be made.

Run as a script (`python -I -S landlock.py fd shell -c command`), so it imports nothing of midstream; the policy comes over the
descriptor. It forks: the child gives up every privilege, confines itself for good and becomes the command; the parent stays
outside, waits and reports how the command ended.

Landlock guards what is opened, made, renamed and removed. It does not guard a file's mode and times, and the kernel's filter
cannot see which file a call names. So those calls are handed to the parent (seccomp's user notification), which does them
itself if the file is inside the folders of the command: it opens the file once, looks at where that is, and changes what it
opened. Nothing that the command changes in the meantime makes a difference.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from typing import Any

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
MIN_ABI = 3  # before that, a file outside can be cut to nothing (truncate)
SIGNALS_ABI = 6

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_CHAR, MAKE_BLOCK = 1 << 6, 1 << 11
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
READ = EXECUTE | READ_FILE | READ_DIR
DEVICE = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV

PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 1, 24, 38, 47
SECCOMP = {"x86_64": 317, "aarch64": 277}
NOTIF_RECV, NOTIF_SEND, NOTIF_VALID = 0xC0502100, 0xC0182101, 0x40082102
AT_FDCWD, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH = -100, 0x100, 0x1000
UTIME_NOW, UTIME_OMIT = (1 << 30) - 1, (1 << 30) - 2
UNCHANGED = 0xFFFFFFFF

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def abi() -> int:
    """The version of Landlock that this kernel speaks, or 0."""
    return max(0, int(libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1)))


def main(policy_fd: int, command: list[str]) -> None:
    with open(policy_fd, "rb") as file:
        policy = json.load(file)
    ours, theirs = socket.socketpair()
    # The filter must not bind the one who answers for it, so there are two processes.
    child = os.fork()
    if child == 0:
        try:
            ours.close()
            # If the parent dies, calls that wait for its answer would hang for ever.
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these two
                signal.signal(number, signal.SIG_DFL)
            confine(policy, theirs)
            os.execv(command[0], command)
        except OSError as error:
            os.write(2, f"the sandbox could not be set up: {error}\n".encode())
        finally:
            # Never back into Python's own ending: this is a copy of the parent, and its cleanup is not ours.
            os._exit(126)
    theirs.close()
    _, fds, _, _ = socket.recv_fds(ours, 1, 1)
    ours.close()
    ended = serve(child, fds[0], policy) if fds else os.waitpid(child, 0)[1]
    code = os.waitstatus_to_exitcode(ended)
    if code < 0:
        # The same end as the command's, so that whoever waits for
        # us sees the signal; SIGKILL has no handler to reset.
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


def confine(policy: dict[str, Any], parent: socket.socket) -> None:
    """Give up all privileges, for good and for every descendant."""
    # First: without it neither Landlock nor seccomp may be used
    # by an ordinary user, and a setuid program would escape both.
    checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    restrict(policy)
    drop_capabilities()
    program = bytes.fromhex(policy["filter"])
    held = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: the number of instructions, and where they are
    fprog = struct.pack("@HP", len(program) // 8, ctypes.addressof(held))
    number = SECCOMP[policy["machine"]]
    listener = checked(int(libc.syscall(number, 1, 1 << 3, fprog)))  # SECCOMP_SET_MODE_FILTER, FLAG_NEW_LISTENER
    socket.send_fds(parent, [b"."], [listener])
    os.close(listener)
    parent.close()


def restrict(policy: dict[str, Any]) -> None:
    version = abi()
    # Rights are bits, and each version of Landlock knows more of
    # them; asking for one that the kernel does not know is an error.
    handled = (1 << (13 if version < 2 else 14 if version < 3 else 15 if version < 5 else 16)) - 1
    net = 0 if policy["network"] or version < 4 else 0b11  # bind and connect over TCP
    scoped = 0b11 if version >= SIGNALS_ABI else 0  # abstract sockets, signals
    size = 8 if version < 4 else 16 if version < SIGNALS_ABI else 24
    attributes = struct.pack("=QQQ", handled, net, scoped)
    ruleset = checked(int(libc.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(size), 0)))
    for paths, rights in (
        (policy["list"], READ_DIR),
        (policy["read"], READ),
        (policy["devices"], DEVICE),
        (policy["write"], ((1 << 15) - 1) & ~(MAKE_CHAR | MAKE_BLOCK)),
    ):
        for path in paths:
            add_rule(ruleset, path, rights & handled)
    checked(int(libc.syscall(RESTRICT_SELF, ruleset, 0)))
    os.close(ruleset)


def add_rule(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # gone meanwhile, or not ours to see: nothing is granted
    try:
        # Rights of folders on a file are an error too.
        if not os.path.isdir(f"/proc/self/fd/{fd}"):
            rights &= FILE_RIGHTS
        if rights:
            checked(int(libc.syscall(ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, fd), 0)))
    finally:
        os.close(fd)


def drop_capabilities() -> None:
    """Root's powers; without the bounding set, no program gets them back."""
    for capability in range(64):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.prctl(PR_CAP_AMBIENT, 4, 0, 0, 0)  # PR_CAP_AMBIENT_CLEAR_ALL
    checked(libc.capset(struct.pack("=II", 0x20080522, 0), bytes(24)))


def checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def serve(child: int, listener: int, policy: dict[str, Any]) -> int:
    """Do what the command asks for until it ends; how it ended."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    calls = {number: name for name, number in policy["on_behalf"].items()}
    folders = tuple([folder.rstrip("/") + "/" for folder in policy["write"]])
    pidfd = os.pidfd_open(child)
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(pidfd, select.POLLIN)
    while True:
        for fd, event in poll.poll():
            if fd == pidfd:
                return os.waitpid(child, 0)[1]
            if event & select.POLLIN:
                answer(listener, calls, folders)
            else:
                poll.unregister(listener)


def answer(listener: int, calls: dict[int, str], folders: tuple[str, ...]) -> None:
    notice = bytearray(80)
    try:
        fcntl.ioctl(listener, NOTIF_RECV, notice)
    except OSError:
        return  # the caller was killed meanwhile
    call_id, pid, _, number = struct.unpack_from("=QIIi", notice)
    arguments = struct.unpack_from("=6Q", notice, 32)
    try:
        request = Request(listener, call_id, pid, folders)
        CALLS[calls[number]](request, *arguments)
        failure = 0
    except OSError as error:
        # The caller sees the error as if its own call had failed.
        failure = -(error.errno or errno.EPERM)
    except Exception:
        # Whatever a hostile caller made up: an exception here would end the only one who can answer.
        failure = -errno.EINVAL
    try:
        fcntl.ioctl(listener, NOTIF_SEND, struct.pack("=Qqii", call_id, 0, failure, 0))
    except OSError:
        pass  # the caller was killed meanwhile


class Request:
    """One call of a confined process."""

    def __init__(self, listener: int, call_id: int, pid: int, folders: tuple[str, ...]) -> None:
        self._listener = listener
        self._id = call_id
        self._pid = pid
        self._folders = folders

    def chmod(self, at: int, path: int | None, mode: int, flags: int = 0) -> None:
        fd = self._open(at, path, flags)
        try:
            # Without the set-id bits, which would hand out our user's rights to others.
            os.chmod(f"/proc/self/fd/{fd}", mode & 0o1777)
        finally:
            os.close(fd)

    def utime(self, at: int, path: int | None, times: int, flags: int = 0) -> None:
        fd = self._open(at, path, flags)
        try:
            wanted = self._times(times, os.stat(fd)) if times else None
            name = f"/proc/self/fd/{fd}"
            os.utime(name, ns=wanted) if wanted else os.utime(name)
        finally:
            os.close(fd)

    def chown(self, user: int, group: int) -> None:
        """To oneself only, which changes nothing: whoever has no privileges may do little more."""
        if user & UNCHANGED not in (UNCHANGED, os.geteuid()) or group & UNCHANGED not in (UNCHANGED, os.getegid()):
            raise PermissionError(errno.EPERM, "")

    def _open(self, at: int, path: int | None, flags: int) -> int:
        """The file that the call names, if it is inside; held, so that it stays the same one."""
        number = ctypes.c_int(at).value
        base = f"/proc/{self._pid}/cwd" if number == AT_FDCWD else f"/proc/{self._pid}/fd/{number}"
        name = self._text(path) if path else b""
        how = os.O_PATH | os.O_CLOEXEC | (os.O_NOFOLLOW if flags & AT_SYMLINK_NOFOLLOW else 0)
        if path and not name and not flags & AT_EMPTY_PATH:
            raise FileNotFoundError(errno.ENOENT, "")
        if not name:
            fd = os.open(base, os.O_PATH | os.O_CLOEXEC)
        elif name.startswith(b"/"):
            # What is the caller's own in /proc must not be ours.
            if name.startswith((b"/proc/self/", b"/proc/thread-self/")):
                name = f"/proc/{self._pid}/".encode() + name.partition(b"self/")[2]
            fd = os.open(name, how)
        else:
            start = os.open(base, os.O_PATH | os.O_CLOEXEC)
            try:
                fd = os.open(name, how, dir_fd=start)
            finally:
                os.close(start)
        try:
            fcntl.ioctl(self._listener, NOTIF_VALID, struct.pack("=Q", self._id))  # it was this process that we asked
            if not (os.readlink(f"/proc/self/fd/{fd}") + "/").startswith(self._folders):
                raise PermissionError(errno.EPERM, "")
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _times(self, at: int, now: os.stat_result) -> tuple[int, int]:
        found = struct.unpack("=qqqq", self._memory(at, 32))
        current = (now.st_atime_ns, now.st_mtime_ns)
        both = [
            time.time_ns() if nano == UTIME_NOW else old if nano == UTIME_OMIT else second * 10**9 + nano
            for second, nano, old in zip(found[::2], found[1::2], current, strict=True)
        ]
        return both[0], both[1]

    def _text(self, at: int) -> bytes:
        text, end, _ = self._memory(at, 4096).partition(b"\0")
        if not end:
            raise OSError(errno.ENAMETOOLONG, "")
        return text

    def _memory(self, at: int, size: int) -> bytes:
        with open(f"/proc/{self._pid}/mem", "rb", 0) as memory:
            return os.pread(memory.fileno(), size, at)


CALLS: dict[str, Any] = {
    "chmod": lambda request, path, mode, *_: request.chmod(AT_FDCWD, path, mode),
    "fchmod": lambda request, fd, mode, *_: request.chmod(fd, None, mode),
    "fchmodat": lambda request, at, path, mode, *_: request.chmod(at, path, mode),
    "fchmodat2": lambda request, at, path, mode, flags, *_: request.chmod(at, path, mode, flags),
    "utimensat": lambda request, at, path, times, flags, *_: request.utime(at, path, times, flags),
    "chown": lambda request, _, user, group, *__: request.chown(user, group),
    "lchown": lambda request, _, user, group, *__: request.chown(user, group),
    "fchown": lambda request, _, user, group, *__: request.chown(user, group),
    "fchownat": lambda request, _, __, user, group, *___: request.chown(user, group),
}


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
