"""Writers made to be killed. For each line on stdin (a delay in seconds) a fresh process appends numbered turns until it is
killed by signal 9 that long after its birth; the last length the store acknowledged to it goes to stdout (0 for none).

Forking from this small process makes a victim in a millisecond, where starting a Python would take a hundred.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from midstream.core.blocks import Text, Turn
from midstream.store import SqliteStore

KILLS = 100  # tests/agent/test_kill.py counts on them for its two hundred


def turn_of(number: int) -> Turn:
    return Turn("human", (Text(f"turn {number} " + "filler " * (number * 37 % 400)),), key=f"k{number}")


def append_for_ever(path: str, conversation: str, acknowledge: int) -> None:
    store = SqliteStore(path)
    length = store.info(conversation).turns
    while True:
        length = store.append(conversation, turn_of(length), length)
        os.write(acknowledge, b"%d\n" % length)


def killed_after(delay: float, path: str, conversation: str) -> int:
    reading, writing = os.pipe()
    victim = os.fork()
    if not victim:
        os.close(reading)
        append_for_ever(path, conversation, writing)
    os.close(writing)
    time.sleep(delay)
    os.kill(victim, signal.SIGKILL)
    _, status = os.waitpid(victim, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL, "the writer ended by itself"
    with os.fdopen(reading, "rb") as pipe:
        lines = pipe.read().split(b"\n")[:-1]
    return int(lines[-1]) if lines else 0


def main(path: str, conversation: str) -> None:
    for line in sys.stdin:
        print(killed_after(float(line), path, conversation), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
