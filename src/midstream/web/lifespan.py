"""The start and the end of an ASGI application, as its server tells them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ..core.errors import MidstreamError
from .guard import Receive, Send


async def run_lifespan(
    receive: Receive, send: Send, open: Callable[[], Awaitable[object]], close: Callable[[], Awaitable[object]]
) -> None:
    """Open at the start and close at the end. An error of ours in `open` is told to the server, which then ends."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            try:
                await open()
            except MidstreamError as error:
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            await send({"type": "lifespan.startup.complete"})
        else:
            await close()
            await send({"type": "lifespan.shutdown.complete"})
            return
