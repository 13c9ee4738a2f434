"""midstream as an MCP server, asked by the official client: in the process, as a program, and over HTTP."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from midstream.agent.mcp.offer_cache import OfferCache
from midstream.agent.mcp.servers import McpServers
from midstream.cli.mcp_server import Desk, make_server
from midstream.cli.options import Settings
from midstream.client.mcp_server import McpServer

WRITE = "Call write_file with path 'made.txt' and content 'by an agent'"


def asked(act: Callable[[Client], Awaitable[Any]], **settings: Any) -> Any:
    """What the official client gets of a server with these settings."""

    async def main() -> Any:
        async with Client(make_server(Desk(Settings(model="sim/kimi-k2.5", **settings)))) as client:
            return await act(client)

    return asyncio.run(main())


def text(result: Any) -> str:
    return "\n".join([block.text for block in result.content])


def test_a_conversation_goes_on_with_another_model_and_is_found(home: Path) -> None:
    async def act(client: Client) -> None:
        first = await client.call_tool("ask_model", {"prompt": "Remember the badger"})
        known = first.structured_content
        assert known is not None and known["model"] == "sim/kimi-k2.5" and known["switch"] == []
        assert "You said: Remember the badger" in text(first)
        second = await client.call_tool(
            "ask_model",
            {"prompt": "And now?", "model": "sim/claude-sonnet-4-5", "conversation": known["conversation"][:8]},
        )
        assert second.structured_content is not None
        assert second.structured_content["conversation"] == known["conversation"]
        assert any("reasoning belongs to kimi-k2.5" in line for line in second.structured_content["switch"])
        assert "dropped: thinking" in text(second)
        found = await client.call_tool("search_conversations", {"query": "badger", "limit": 1})
        assert found.structured_content is not None and len(found.structured_content["matches"]) == 1
        assert found.structured_content["matches"][0]["conversation"] == known["conversation"]
        sound = await client.call_tool("doctor", {"conversation": known["conversation"]})
        assert sound.structured_content is not None and not sound.structured_content["broken"]

    asked(act)


def test_a_broken_history_is_diagnosed(home: Path) -> None:
    history = '[{"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "1", "content": "y"}]'
    result = asked(lambda client: client.call_tool("doctor", {"history": history}))
    assert result.structured_content["broken"] and "orphan result" in text(result)
    assert "openai" in result.structured_content["conversations"][0]["refused_by"]


REFUSED = [
    ("ask_model", {"prompt": " "}, "the prompt is empty"),
    ("ask_model", {"prompt": "x", "model": "nobody/x"}, "unknown model 'nobody/x'"),
    ("ask_model", {"prompt": "x", "model": "moonshot/kimi-k2.5"}, "no key for moonshot"),
    ("ask_model", {"prompt": "x", "conversation": "beef"}, "no conversation id starts with 'beef'"),
    ("ask_model", {"prompt": "x", "conversation": "a", "system": "s"}, "system is for a new conversation"),
    ("search_conversations", {"query": ""}, "the query is empty"),
    ("doctor", {}, "expected either the id"),
    ("doctor", {"history": "{"}, "neither JSON nor JSON lines"),
]


@pytest.mark.parametrize(("tool", "arguments", "words"), REFUSED)
def test_what_cannot_be_done_is_an_error_of_the_tool(
    home: Path, tool: str, arguments: dict[str, Any], words: str
) -> None:
    result = asked(lambda client: client.call_tool(tool, arguments))
    assert result.is_error and words in text(result)


@pytest.mark.parametrize(
    ("settings", "written"),
    [({}, False), ({"tools": ("write_file",)}, False), ({"tools": ("write_file",), "allow": ("write_file",)}, True)],
)
def test_nobody_is_asked_so_only_what_was_allowed_is_done(home: Path, settings: dict[str, Any], written: bool) -> None:
    result = asked(lambda client: client.call_tool("ask_model", {"prompt": WRITE}), **settings)
    assert Path("made.txt").exists() is written and not result.is_error
    if settings and not written:
        assert "nobody is there to approve it" in text(result)


def test_a_program_that_our_own_client_uses(home: Path, tmp_path: Path) -> None:
    """The newest protocol on both sides, over a real pipe."""

    async def main() -> str:
        env = {"MIDSTREAM_HOME": str(home), "MIDSTREAM_SIM_DELAY": "0"}
        command = (sys.executable, "-m", "midstream.cli.main", "mcp", "serve", "-m", "sim/kimi-k2.5")
        async with McpServers([McpServer("self", command=command, env=env)], cache=OfferCache(tmp_path)) as servers:
            content = await servers.connections["self"].call("ask_model", {"prompt": "hello from inside"})
            assert [each.name for each in servers.tools()] == [
                "mcp__self__ask_model", "mcp__self__search_conversations", "mcp__self__doctor",
            ]  # fmt: skip
            return content[0].text  # type: ignore[union-attr]

    assert "You said: hello from inside" in asyncio.run(main())


def test_over_http_only_with_the_token(home: Path) -> None:
    command = [sys.executable, "-m", "midstream.cli.main", "mcp", "serve", "--http", "0", "-m", "sim/kimi-k2.5"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ}) as program:
        assert program.stderr is not None
        address = program.stderr.readline().split()[-1]
        key = program.stderr.readline().split()[-1]

        async def main() -> None:
            async with httpx2.AsyncClient() as stranger:
                assert (await stranger.post(address, json={})).status_code == 401
            async with (
                httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as http,
                Client(streamable_http_client(address, http_client=http)) as client,
            ):
                assert "You said: hello" in text(await client.call_tool("ask_model", {"prompt": "hello"}))

        try:
            asyncio.run(main())
        finally:
            program.terminate()
