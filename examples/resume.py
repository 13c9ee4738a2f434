"""Store a conversation, and go on tomorrow with another model."""

import asyncio
import tempfile
from pathlib import Path

from midstream import Session
from midstream.store import open_store


async def main(folder: Path) -> None:
    store = open_store(folder / "chats.db")
    async with Session("moonshot/kimi-k2.5", store=store) as session:
        await session.send("Remember the number seven.")
    store.close()

    store = open_store(folder / "chats.db")  # tomorrow
    last = store.list(1)[0]
    async with Session("anthropic/claude-sonnet-4-5", store=store, conversation=store.load(last.id)) as session:
        print((await session.send("Which number?")).text)
        print(f"{len(session.conversation.turns)} turns in {last.id[:8]}")
    store.close()


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(Path(folder)))
