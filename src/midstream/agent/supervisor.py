"""The process between us and a shell command, which sees to it that nothing the command started outlives it.

Run as a script (`python -I -S supervisor.py shell marker fd`), so it imports nothing of midstream; the command comes over a
descriptor, because a command line that held it would match the command's own `pkill -f`. It makes itself the reaper of all its
descendants, so a daemon that forked twice and left its session still ends up as its child. Standard input is the leash:
when it closes, because we said so or because we are gone, everything is ended. Standard output goes to the command. The last
line on standard error is the report: `exit <code> <left>` or `signal <number> <left>` of the command, or `stopped 0 <left>`,
where left counts the processes that had to be ended.

The command may kill this process, and midstream above it. So a watcher runs beside them, not above the command: when this
process ends without a word, it kills whatever bears the marks of the run. The marks are an environment variable and a limit
on a resource that Linux does not count any more: `env -i` removes the first; fork, exec and setsid keep the second.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
GRACE = 0.4
GIVE_UP = 1.0
MARKER = "MIDSTREAM_RUN"
# Hard limits that bear a mark: locks are not counted since Linux 2.4, and no process reaches 2**61 µs of real-time work.
# Two, so that a midstream run by this very tool finds one free.
MARK_LIMITS = ((10, b"Max file locks"), (15, b"Max realtime timeout"))
MARK_BASE = 1 << 61


def main(shell: str, marker: str, command_fd: int) -> None:
    libc = ctypes.CDLL(None)
    # Nobody but root may look into this process: its descriptors carry the report.
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    command = read_all(command_fd)
    bear(marker)
    watcher = watch(marker)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        sys.stderr.write("cannot become the reaper of the command's processes\n")
        sys.exit(1)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    # Handlers, not SIG_IGN: what is ignored stays ignored in the command.
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    child = os.fork()
    if child == 0:
        become(libc, shell, command, marker)
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    report = wait(child, wake_read)
    left = end_all()
    os.write(2, f"{report} {left}\n".encode())
    os.write(watcher, b".")


def read_all(fd: int) -> bytes:
    parts = []
    while data := os.read(fd, 1 << 16):
        parts.append(data)
    os.close(fd)
    return b"".join(parts)


def become(libc: ctypes.CDLL, shell: str, command: bytes, marker: str) -> None:
    """In the child: turn into the shell, in a session of its own, with nothing to read."""
    try:
        os.setsid()
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(1, 2)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these two
            signal.signal(number, signal.SIG_DFL)
        os.execve(shell, [os.fsencode(shell), b"-c", command], {**os.environ, MARKER: marker})
    finally:
        os._exit(127)


def bear(marker: str) -> None:
    """Take on the mark that a changed environment does not take off, if a limit is free for it."""
    value = mark_value(marker)
    for number, _ in MARK_LIMITS:
        if resource.getrlimit(number)[1] == resource.RLIM_INFINITY:
            resource.setrlimit(number, (value, value))
            return


def mark_value(marker: str) -> int:
    return MARK_BASE + int(marker[:15], 16)


def marked(marker: str) -> list[int]:
    """The living processes that bear the marker: in their environment, or among their limits."""
    variable = f"{MARKER}={marker}".encode()
    value = str(mark_value(marker)).encode()
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib takes longer to load than all of this
        if name.isdigit() and (in_limits(name, value) or variable in content(f"/proc/{name}/environ")):
            found.append(int(name))
    return found


def in_limits(pid: str, value: bytes) -> bool:
    limits = content(f"/proc/{pid}/limits")
    return any(value in line for line in limits.splitlines() if line.startswith(tuple([name for _, name in MARK_LIMITS])))


def content(path: str) -> bytes:
    """Nothing for a process that is gone meanwhile, or another user's."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return b""


def sweep(marker: str) -> None:
    """End all that bear the marker, until none is found twice in a row: one that forks may be missed once."""
    limit = time.monotonic() + GIVE_UP
    clean = 0
    while clean < 2 and time.monotonic() < limit:
        found = [pid for pid in marked(marker) if pid != os.getpid() and not ended(pid)]
        send(found, signal.SIGKILL)
        clean = 0 if found else clean + 1
        if found:
            time.sleep(0.002)


def ended(pid: int) -> bool:
    return stat(pid)[:1] in ([], [b"Z"], [b"X"])


def stat(pid: int) -> list[bytes]:
    """The state, the parent and so on; empty for a process that is gone."""
    # The command's name stands in parentheses and may hold any character, so read from the last one.
    return content(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def watch(marker: str) -> int:
    """Start the watcher; one byte written to the descriptor that is returned tells it that all is well.

    It is forked twice before this process becomes a reaper, so it is neither above the command nor below it. It holds the
    report's pipe open until it is done: whoever reads that to its end knows that nothing is left.
    """
    alive_read, alive_write = os.pipe()
    first = os.fork()
    if first:
        os.close(alive_read)
        os.waitpid(first, 0)
        return alive_write  # open as long as this process lives; the command does not inherit it
    try:
        os.setsid()
        if os.fork() == 0:
            os.close(alive_write)
            devnull = os.open(os.devnull, os.O_RDWR)
            os.dup2(devnull, 0)
            os.dup2(devnull, 1)
            for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            if not os.read(alive_read, 1):
                sweep(marker)
    finally:
        os._exit(0)


def wait(child: int, wake: int) -> str:
    """Until the command ends or the leash is let go."""
    poll = select.poll()
    poll.register(0, select.POLLIN | select.POLLHUP)
    poll.register(wake, select.POLLIN)
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if wake in ready:
            os.read(wake, 4096)
        status = reap(child)
        if status is not None:
            code = os.waitstatus_to_exitcode(status)
            return f"exit {code}" if code >= 0 else f"signal {-code}"
        if 0 in ready:
            return "stopped 0"


def reap(child: int = 0) -> int | None:
    """Collect whoever has ended; the status of `child` if it is among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == child:
            found = status


def all_gone() -> bool:
    """No child is left, so no descendant is: every orphan among them would have become our child."""
    reap()
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def end_all() -> int:
    """Ask all descendants to end, then make them; how many there were."""
    if all_gone():
        return 0
    started = descendants()
    send(started, signal.SIGTERM)
    limit = time.monotonic() + GRACE
    while not all_gone() and time.monotonic() < limit:
        time.sleep(0.005)
    limit = time.monotonic() + GIVE_UP
    while not all_gone() and time.monotonic() < limit:
        send(descendants(), signal.SIGKILL)
        time.sleep(0.002)
    return len(started)


def send(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            pass  # it is gone already, or belongs to another user and nothing can be done


def descendants() -> list[int]:
    """All processes below this one, from the parent column of /proc."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib takes longer to load than all of this
        if name.isdigit():
            fields = stat(int(name))
            if fields:
                children.setdefault(int(fields[1]), []).append(int(name))
    found: list[int] = []
    todo = [os.getpid()]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
