"""Work that is done to its end once begun: a cancellation that comes meanwhile is raised afterwards.

Storing is such work. A store writes in a thread that no cancellation reaches, so whoever left it half way would not know
whether the turn is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def unbroken(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is never cancelled; CancelledError comes after it, in place of its result."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled from task.exception()
    return task.result()
