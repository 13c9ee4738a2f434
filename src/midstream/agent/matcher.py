"""The process that matches a regular expression, so that a pattern that never ends can be ended.

Run as a script (`python -I -S matcher.py seconds flags pattern`), so it imports nothing of midstream. Python's `re` backtracks, holds
the interpreter's lock and cannot be interrupted: in our own process one bad pattern would stop everything.
Standard input is a sequence of files, each an eight-byte length of its name, the name, a length and the content. For
each line that matches it writes `name NUL number NUL line LF`, lines cut to a bounded length. Memory and time are limited.
"""

from __future__ import annotations

import re
import resource
import sys
import warnings
from typing import BinaryIO

MAX_LINE = 400
MAX_MEMORY = 1 << 30


def main(seconds: str, flags: str, pattern: str) -> None:
    # We are ended when the time is over; this is for when nobody is left to do it.
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of syntax that may change its meaning one day
            expression = re.compile(pattern, re.IGNORECASE if "i" in flags else 0)
    except (re.error, OverflowError, RecursionError, MemoryError) as error:
        sys.stderr.write(f"{error or type(error).__name__}\n")
        sys.exit(2)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while True:
        name = take(source)
        if name is None:
            return
        data = take(source) or b""
        match(expression, name, data, sink)
        # After each file, so that what was found is there even if the next file never ends.
        sink.flush()


def take(source: BinaryIO) -> bytes | None:
    head = source.read(8)
    return source.read(int.from_bytes(head, "big")) if len(head) == 8 else None


def match(expression: re.Pattern[str], name: bytes, data: bytes, sink: BinaryIO) -> None:
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
        found = expression.search(line)
        if found is not None:
            # The match is kept in sight in a long line.
            start = max(0, found.start() - MAX_LINE // 2) if len(line) > MAX_LINE else 0
            shown = line[start : start + MAX_LINE].rstrip("\r")
            sink.write(b"%s\0%d\0%s\n" % (name, number, shown.encode("utf-8", "replace")))


if __name__ == "__main__":
    main(*sys.argv[1:])
