"""The process between us and a shell command, which sees to it that nothing the command started outlives it.

Run as a script (`python -I -S supervisor.py shell command`), so it imports nothing of midstream. It makes itself the reaper
of all its descendants, so a daemon that forked twice and left its session still ends up as its child. Standard input is the
leash: when it closes, because we said so or because we are gone, everything is ended. Standard output goes to the command.
The last line on standard error is the report: `exit <code> <left>` or `signal <number> <left>` of the command, or
`stopped 0 <left>`, where left counts the processes that had to be ended.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
GRACE = 0.4
GIVE_UP = 1.0


def main(shell: str, command: str) -> None:
    libc = ctypes.CDLL(None)
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
        become(libc, shell, command)
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    report = wait(child, wake_read)
    left = end_all()
    os.write(2, f"{report} {left}\n".encode())


def become(libc: ctypes.CDLL, shell: str, command: str) -> None:
    """In the child: turn into the shell, in a session of its own, with nothing to read."""
    try:
        os.setsid()
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(1, 2)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these two
            signal.signal(number, signal.SIG_DFL)
        os.execv(shell, [shell, "-c", command])
    finally:
        os._exit(127)


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
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                    # The command's name stands in parentheses and may hold any character, so read from the last one.
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError):
                continue  # gone meanwhile
            children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    todo = [os.getpid()]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
