"""`ask` into a pipe: each piece of the answer is there as soon as it has come, and a reader that leaves ends the program."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from midstream.cli.main import OK, PIPE_CLOSED
from midstream.store import SqliteStore
from tests.event_loops import run
from tests.transport.loopback import Seen, Server, Wire

FIRST, REST = "One river.", " And another."


def piece(text: str, finish: str = "null") -> bytes:
    delta = '{"id":"x","choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":%s}]}'
    return f"data: {delta % (text, finish)}\n\n".encode()


def configure(home: Path, server: Server) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(f'[providers.work]\nbase_url = "{server.base}"\nauth = "none"\n')


async def ask(environ: dict[str, str], stdout: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "midstream.cli.main", "ask", "-m", "work/mine", "Name rivers"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=stdout,
        stderr=asyncio.subprocess.PIPE,
        env=environ,
    )


def test_a_pipe_gets_each_piece_as_it_comes(home: Path, environ: dict[str, str]) -> None:
    """The host goes on only when the reader of the pipe has the first piece."""

    async def main() -> None:
        read = asyncio.Event()

        async def script(wire: Wire, seen: Seen) -> None:
            await wire.begin("content-type: text/event-stream")
            await wire.chunk(piece(FIRST))
            await read.wait()
            await wire.chunk(piece(REST) + piece("", '"stop"') + b"data: [DONE]\n\n")
            await wire.end()

        async with Server(script) as server:
            configure(home, server)
            program = await ask(environ, asyncio.subprocess.PIPE)
            assert program.stdout is not None
            assert await program.stdout.readexactly(len(FIRST)) == FIRST.encode()
            read.set()
            rest, _ = await program.communicate()
            assert (rest.decode(), program.returncode) == (REST + "\n", OK)

    run(main())


@pytest.mark.parametrize("pieces", [("One\\n", "Two\\n", "Three"), ("One", "\\nTwo\\nThree")])
def test_a_reader_that_leaves_ends_it_and_keeps_what_has_come(
    home: Path, environ: dict[str, str], pieces: tuple[str, ...]
) -> None:
    """As `ask | head -1`: the host would go on for ever."""

    async def main() -> None:
        left = asyncio.Event()

        async def script(wire: Wire, seen: Seen) -> None:
            await wire.begin("content-type: text/event-stream")
            await wire.chunk(piece(pieces[0]))
            await left.wait()
            for each in pieces[1:]:
                await wire.chunk(piece(each))
            await wire.gone()

        reader, writer = os.pipe()
        async with Server(script) as server:
            configure(home, server)
            program = await ask(environ, writer)
            os.close(writer)
            assert await asyncio.to_thread(os.read, reader, 3) == b"One"
            os.close(reader)
            left.set()
            _, said = await program.communicate()
            assert (program.returncode, said) == (PIPE_CLOSED, b"")
            await server.all_closed()

    run(main())
    store = SqliteStore()
    (info,) = store.list()
    turns = store.load(info.id).turns
    store.close()
    assert [turn.speaker for turn in turns] == ["human", "ai"] and turns[1].text.startswith("One") and turns[1].failure
