"""A process made to be killed: forked, so that it costs a millisecond, from one that has everything imported and no thread."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable


def killed(work: Callable[[int], None], acknowledged: int, delay: float) -> list[bytes]:
    """Let `work`, which must not end, write lines of acknowledgement to the descriptor it is given, and kill it by signal 9
    `delay` seconds after it has written so many. The lines it wrote."""
    reading, writing = os.pipe()
    victim = os.fork()
    if not victim:
        os.close(reading)
        try:
            work(writing)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        written = b""
        while written.count(b"\n") < acknowledged and (data := pipe.read(65536)):
            written += data
        time.sleep(delay)
        os.kill(victim, signal.SIGKILL)
        _, status = os.waitpid(victim, 0)
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, "the victim ended by itself"
        while data := pipe.read(65536):
            written += data
    return written.split(b"\n")[:-1]
