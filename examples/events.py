"""Every event of a stream: start, blocks that never nest, and exactly one end."""

import asyncio

from midstream import Session
from midstream.events import Done, ErrorEvent, TextDelta, ThinkingDelta


async def main() -> None:
    async with Session("moonshot/kimi-k2.5") as session:
        async for event in session.send("Why is the sky blue?"):
            match event:
                case ThinkingDelta(delta=words):
                    print("thinking", repr(words))
                case TextDelta(delta=words):
                    print("text    ", repr(words))
                case Done(turn=turn):
                    print("done    ", turn.stop_reason, turn.usage)
                case ErrorEvent(error=error):
                    print("error   ", error.kind, error.message)
                case _:
                    print(type(event).__name__)


asyncio.run(main())
