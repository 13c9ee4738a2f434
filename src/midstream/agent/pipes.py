"""The reading end of a pipe on the event loop, which can be let go of although somebody still holds the other end.

asyncio's own subprocess streams wait for that end to close; a process that was handed the pipe could make us wait for ever.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

CHUNK = 1 << 16


class PipeReader:
    """Hands each chunk that arrives to `take` until the end, or until closed. `done` is set then."""

    def __init__(self, fd: int, take: Callable[[bytes], None]) -> None:
        self._fd = fd
        self._take = take
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._on_ready)

    def close(self) -> None:
        if not self.done.done():
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self.done.set_result(None)

    def _on_ready(self) -> None:
        try:
            data = os.read(self._fd, CHUNK)
        except BlockingIOError:
            return
        if data:
            self._take(data)
        else:
            self.close()
