"""The start and the end of an ASGI application, as its server tells them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ..core.errors import MidstreamError
from .guard import Receive, Send


async def run_lifespan(
    receive: Receive, send: Send, open: Callable[[], Awaitable[object]], close: Callable[[], Awaitable[object]]
) -> None:
    """Open at the start and close at the end. An error of ours in `open` is told to the server, which then ends."""
    is_open = False
    try:
        while (await receive())["type"] == "lifespan.startup":
            try:
                await open()
            except MidstreamError as error:
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            is_open = True
            await send({"type": "lifespan.startup.complete"})
    except asyncio.CancelledError:
        # The loop ends without a word from the server. Returning is the end of this task, and the server has no error to log.
        if is_open:
            await close()
        return
    await close()
    await send({"type": "lifespan.shutdown.complete"})
