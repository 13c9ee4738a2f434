"""Writers made to be killed. For each line on stdin (a number of appends, and a delay in seconds) a fresh process appends
numbered turns until it is killed by signal 9 that long after so many were acknowledged; the last length that the store
acknowledged to it goes to stdout (0 for none).
"""

from __future__ import annotations

import os
import sys
from functools import partial

from midstream.core.blocks import Text, Turn
from midstream.store import SqliteStore
from tests.victim import killed

KILLS = 100  # tests/agent/test_kill.py counts on them for its two hundred


def turn_of(number: int) -> Turn:
    return Turn("human", (Text(f"turn {number} " + "filler " * (number * 37 % 400)),), key=f"k{number}")


def append_for_ever(path: str, conversation: str, acknowledge: int) -> None:
    store = SqliteStore(path)
    length = store.info(conversation).turns
    while True:
        length = store.append(conversation, turn_of(length), length)
        os.write(acknowledge, b"%d\n" % length)


def main(path: str, conversation: str) -> None:
    for line in sys.stdin:
        appends, delay = line.split()
        lines = killed(partial(append_for_ever, path, conversation), int(appends), float(delay))
        print(int(lines[-1]) if lines else 0, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
