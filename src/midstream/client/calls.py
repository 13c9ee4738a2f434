"""One answer without a client of your own: a client is made for it, and closed with it.

Whoever asks more than once keeps a Client (or a Session): its connections and encoded histories are used again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from ..core.blocks import Conversation, Turn
from ..core.dialect import Options
from ..core.events import Event
from ..core.secret import Secret, hide
from ..core.tools import ToolSpec
from .catalog import Catalog
from .reply import Reply
from .turn import Client


def stream(
    model: str | Sequence[str],
    conversation: Conversation | str,
    *,
    tools: Sequence[ToolSpec] = (),
    options: Options | None = None,
    api_key: str | Secret | None = None,
    catalog: Catalog | None = None,
) -> Reply:
    """The events of the next answer; a plain string is a conversation of one human turn."""
    return Reply(batches(model, conversation, tools=tools, options=options, api_key=api_key, catalog=catalog))


async def complete(
    model: str | Sequence[str],
    conversation: Conversation | str,
    *,
    tools: Sequence[ToolSpec] = (),
    options: Options | None = None,
    api_key: str | Secret | None = None,
    catalog: Catalog | None = None,
) -> Turn:
    """The next answer, whole."""
    api_key = hide(api_key)
    async with Client(catalog, api_key=api_key) as client:
        return await client.complete(model, conversation, tools=tools, options=options)


async def batches(
    model: str | Sequence[str],
    conversation: Conversation | str,
    *,
    tools: Sequence[ToolSpec] = (),
    options: Options | None = None,
    api_key: str | Secret | None = None,
    catalog: Catalog | None = None,
) -> AsyncGenerator[list[Event], None]:
    """As `stream`, in the batches the network brought."""
    api_key = hide(api_key)
    async with Client(catalog, api_key=api_key) as client:
        answer = client.batches(model, conversation, tools=tools, options=options)
        async with aclosing(answer):
            async for batch in answer:
                yield batch
