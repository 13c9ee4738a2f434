"""A second host if the first fails before its first word."""

import asyncio

from midstream import Session


async def main() -> None:
    async with Session(["moonshot/kimi-k2.5", "openrouter/moonshotai/kimi-k2.5"]) as session:
        turn = (await session.send("Why is the sky blue?")).raise_for_failure()
        print(f"{turn.text} (by {turn.origin.provider if turn.origin else 'somebody'})")


asyncio.run(main())
