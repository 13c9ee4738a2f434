"""An answer, as it arrives."""

import asyncio

from midstream import Session


async def main() -> None:
    async with Session("moonshot/kimi-k2.5", system="Be brief.") as session:
        async for words in session.send("Why is the sky blue?").iter_text():
            print(words, end="", flush=True)
        print()


asyncio.run(main())
