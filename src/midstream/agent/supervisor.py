"""The process between us and a shell command, which sees to it that nothing the command started outlives it.

Run as a script (`python -I -S supervisor.py marker fd [sandbox …] shell -c`), so it imports nothing of midstream; the command comes over a
descriptor, because a command line that held it would match the command's own `pkill -f`. It makes itself the reaper of all its
descendants, so a daemon that forked twice and left its session still ends up as its child. Standard input is the leash:
when it closes, because we said so or because we are gone, everything is ended. Standard output goes to the command. The last
line on standard error is the report: `exit <code> <left>` or `signal <number> <left>` of the command, or `stopped 0 <left>`,
where left counts the processes that had to be ended.

The command may kill its supervisor. So there are two, one above the other: the upper one, the guard, then inherits all that
is left and ends it. It may kill both, and midstream above them. So a watcher runs beside them, not above the command: when
both are gone without a word, it kills whatever bears the marks of the run. The marks are an environment variable and a limit on
a resource that Linux does not count any more: `env -i` removes the first; fork, exec and setsid keep the second.
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
# How long processes get between SIGTERM and SIGKILL, and how long we go on killing before we give up.
GRACE = 0.4
GIVE_UP = 1.0
MARKER = "MIDSTREAM_RUN"
STOPPED = "stopped 0"
# Hard limits that bear a mark: locks are not counted since Linux 2.4, and no process reaches 2**61 µs of real-time work.
# Two, so that a midstream run by this very tool finds one free.
MARK_LIMITS = ((10, b"Max file locks"), (15, b"Max realtime timeout"))
MARK_BASE = 1 << 61


def main(marker: str, command_fd: int, shell: list[str]) -> None:
    """The guard."""
    libc = ctypes.CDLL(None)
    # Nobody but root may look into these processes: their descriptors carry the report.
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    command = read_all(command_fd)
    # Before anything is forked, so that all of them bear it.
    bear(marker)
    # Before `become_reaper`: the watcher must not be a descendant that `end_all` would end.
    watcher = watch(marker)
    wake = become_reaper(libc)
    supervisor = os.fork()
    if supervisor == 0:
        try:
            supervise(libc, shell, command, marker)
        finally:
            os._exit(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    outcome: str | None = wait(supervisor, wake)
    if outcome == STOPPED:
        outcome = last_word(supervisor)  # it has heard the same, and ends everything now
    # Whatever its supervisor may have reported: if it did not end as it should, the guard looks for itself.
    if outcome != "exit 0":
        os.write(2, f"{STOPPED} {end_all(grace=0)}\n".encode())
    os.write(watcher, b".")


def supervise(libc: ctypes.CDLL, shell: list[str], command: bytes, marker: str) -> None:
    wake = become_reaper(libc)
    child = os.fork()
    if child == 0:
        become(libc, shell, command, marker)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    report = wait(child, wake)
    left = end_all()
    os.write(2, f"{report} {left}\n".encode())
    os._exit(0)


def become_reaper(libc: ctypes.CDLL) -> int:
    """Inherit every orphan below, and hear of every end: over the descriptor that is returned."""
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        sys.stderr.write("cannot become the reaper of the command's processes\n")
        os._exit(1)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    # Handlers, not SIG_IGN: what is ignored stays ignored in the command.
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    return wake_read


def read_all(fd: int) -> bytes:
    parts = []
    while data := os.read(fd, 1 << 16):
        parts.append(data)
    os.close(fd)
    return b"".join(parts)


def become(libc: ctypes.CDLL, shell: list[str], command: bytes, marker: str) -> None:
    """In the child: turn into the shell, in a session of its own, with nothing to read."""
    try:
        os.setsid()
        # The shell itself dies with its supervisor at once; what it started is found by the guard.
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(1, 2)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these two
            signal.signal(number, signal.SIG_DFL)
        os.execve(shell[0], [*[os.fsencode(word) for word in shell], command], {**os.environ, MARKER: marker})
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
    # The newest first: one that forks and leaves, over and over, is there.
    pids = sorted([int(name) for name in os.listdir("/proc") if name.isdigit()], reverse=True)  # noqa: PTH208 - as below
    return [pid for pid in pids if in_limits(pid, value) or variable in content(f"/proc/{pid}/environ")]


def in_limits(pid: int, value: bytes) -> bool:
    limits = content(f"/proc/{pid}/limits")
    return any(
        value in line for line in limits.splitlines() if line.startswith(tuple([name for _, name in MARK_LIMITS]))
    )


def content(path: str) -> bytes:
    """Nothing for a process that is gone meanwhile, or another user's."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - no pathlib here, see below
            return file.read()
    except OSError:
        return b""


def sweep(marker: str) -> None:
    """Kill all that bear the marker, until none is found three times in a row: one that forks may be missed once."""
    limit = time.monotonic() + GIVE_UP
    clean = 0
    while clean < 3 and time.monotonic() < limit:
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
        outcome = ending(child)
        if outcome is not None:
            return outcome
        if 0 in ready:
            return STOPPED


def last_word(child: int) -> str | None:
    """How the child ended, if it does so in the time it may take; it may be stopped."""
    limit = time.monotonic() + GRACE + GIVE_UP + 0.1
    outcome = None
    while outcome is None and time.monotonic() < limit:
        time.sleep(0.002)
        outcome = ending(child)
    return outcome


def ending(child: int) -> str | None:
    """`exit <code>` or `signal <number>`, None while it lives."""
    status = reap(child)
    if status is None:
        return None
    code = os.waitstatus_to_exitcode(status)
    return f"exit {code}" if code >= 0 else f"signal {-code}"


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


def end_all(grace: float = GRACE) -> int:
    """Ask all descendants to end, then make them; how many there were."""
    if all_gone():
        return 0
    started = descendants()
    inits = frozenset([pid for pid in started if is_init(pid)])
    if grace:
        # Asked first: a database or an editor may want to save something.
        send(started, signal.SIGTERM)
    limit = time.monotonic() + grace
    while not all_gone() and time.monotonic() < limit:
        time.sleep(0.005)
    limit = time.monotonic() + GIVE_UP
    while not all_gone() and time.monotonic() < limit:
        send(descendants(), signal.SIGKILL)
        # One that forks and leaves, over and over, is always our child, and gone before all of /proc is read.
        for _ in range(20):
            send(children(), signal.SIGKILL)
        time.sleep(0.001)
    return len([pid for pid in started if pid not in inits])


def is_init(pid: int) -> bool:
    """Whether it is the first process of a namespace: the sandbox's own, which dies a moment after the command. Or gone."""
    lines = content(f"/proc/{pid}/status").splitlines()
    numbers = next((line.split()[1:] for line in lines if line.startswith(b"NSpid:")), [])
    return not lines or (len(numbers) > 1 and numbers[-1] == b"1")


def children() -> list[int]:
    """The direct children, where the kernel lists them."""
    pid = os.getpid()
    return [int(child) for child in content(f"/proc/{pid}/task/{pid}/children").split()]


def send(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            pass  # it is gone already, or belongs to another user and nothing can be done


def descendants() -> list[int]:
    """All processes below this one, from the parent column of /proc."""
    below: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib takes longer to load than all of this
        if name.isdigit():
            fields = stat(int(name))
            if fields:
                below.setdefault(int(fields[1]), []).append(int(name))
    found: list[int] = []
    # From the whole table of processes, since a child that has forked twice is found by no other way.
    todo = [os.getpid()]
    while todo:
        more = below.get(todo.pop(), [])
        found += more
        todo += more
    return found


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
