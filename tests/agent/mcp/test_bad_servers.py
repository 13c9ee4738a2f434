"""Servers that hang, die, flood and lie: what the user and the model see is a table, and nothing of them is left behind."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from midstream.agent.approval import Approval
from midstream.agent.mcp.connection import MAX_RESTARTS, Connection
from midstream.agent.mcp.offer_cache import OfferCache
from midstream.agent.mcp.process import _decoded
from midstream.agent.mcp.servers import McpServers
from midstream.agent.toolbox import Toolbox
from midstream.client.mcp_server import McpServer
from midstream.core.blocks import ToolCall
from midstream.core.errors import ToolFailed

from .remote_server import remote
from .servers import left_behind, scripted
from .test_http import serving

TABLE = msgspec.json.decode(Path("tests/data/mcp/bad_servers.json").read_bytes())
REMOTE = msgspec.json.decode(Path("tests/data/mcp/bad_remote_servers.json").read_bytes())
SLACK = 60.0  # seconds for a busy machine: it takes as long only where something is wrong


async def outcome(server: McpServer, row: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What one server brings about: the tools that are offered, the result of a call, and what the user is told."""
    # The bound that matters: starting, calling and ending take no longer than the server's limits, whatever it does.
    async with (
        asyncio.timeout(server.start_timeout + server.call_timeout + SLACK),
        McpServers([server], cache=OfferCache(folder)) as servers,
    ):
        toolbox = Toolbox([servers], approve=Approval(yolo=True))
        await toolbox.ready()
        offered = len(toolbox)
        call = f"mcp__{server.name}__echo"
        result = await toolbox.run(ToolCall("1", call, '{"text": "hello"}')) if offered else None
        said = result.text if result is not None else await _unavailable(servers.connections[server.name])
        told: list[str] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(30):
                while missing(row, told):
                    await asyncio.sleep(0.02)
                    told += servers.take_notices()
    return {"tools": offered, "call": said, "told": told}


async def _unavailable(connection: Connection) -> str:
    try:
        await connection.ready()
    except ToolFailed as error:
        return str(error)
    return "it is available"


def missing(row: dict[str, Any], told: list[str]) -> list[str]:
    """What the user should have been told and was not."""
    return [line for line in row["told"] if not any(line in each for each in told)]


def compare(rows: list[dict[str, Any]], saw: list[dict[str, Any]]) -> None:
    wrong = [
        (row["server"], row, one)
        for row, one in zip(rows, saw, strict=True)
        if one["tools"] != row["tools"] or row["call"] not in one["call"] or missing(row, one["told"])
    ]
    assert not wrong, "\n".join([f"{server}:\n  expected {row}\n  saw {one}" for server, row, one in wrong])


def test_the_table_of_what_the_user_sees(tmp_path: Path) -> None:
    servers = [scripted(row["server"], name=f"s{number}", **row["limits"]) for number, row in enumerate(TABLE)]

    async def main() -> list[dict[str, Any]]:
        return await asyncio.gather(*[outcome(each, row, tmp_path) for each, row in zip(servers, TABLE, strict=True)])

    compare(TABLE, asyncio.run(main()))
    assert not left_behind(*servers)


def test_the_table_of_remote_servers(tmp_path: Path) -> None:
    async def one(number: int, row: dict[str, Any]) -> dict[str, Any]:
        async with serving(remote(row["server"])) as address:
            limits = {"start_timeout": 20.0, "call_timeout": 20.0, **row["limits"]}
            return await outcome(McpServer(f"s{number}", url=f"{address}/mcp", **limits), row, tmp_path)

    async def main() -> list[dict[str, Any]]:
        return await asyncio.gather(*[one(number, row) for number, row in enumerate(REMOTE)])

    compare(REMOTE, asyncio.run(main()))


def test_a_server_that_breaks_while_it_is_closed_ends(tmp_path: Path) -> None:
    """The end of a chat meets the SDK's own clearing away of a broken connection, a moment sooner or later."""

    async def one(address: str, pause: float) -> None:
        server = McpServer("far", url=f"{address}/mcp")
        async with asyncio.timeout(SLACK), McpServers([server], cache=OfferCache(tmp_path)) as servers:
            await servers.ready()
            with pytest.raises(ToolFailed):
                await servers.connections["far"].call("echo", {})
            await asyncio.sleep(pause)

    async def main() -> None:
        async with serving(remote("floods an answer")) as address:
            for step in range(6):
                await one(address, step * 0.001)

    asyncio.run(main())


def test_a_server_that_dies_each_time_is_given_up(tmp_path: Path) -> None:
    """Restarts are counted, and the pauses between them grow."""
    pauses: list[float] = []

    async def no_sleep(seconds: float) -> None:
        pauses.append(seconds)

    async def main() -> tuple[str, str, list[str]]:
        told: list[str] = []
        server = scripted("dies-in-a-call")
        connection = Connection(server, on_offer=lambda _: None, tell=told.append, sleep=no_sleep)
        connection.start()
        try:
            for _ in range(MAX_RESTARTS + 1):
                with pytest.raises(ToolFailed, match="exit code 3"):
                    await connection.call("echo", {"text": "x"})
            with pytest.raises(ToolFailed, match="given up"):
                await connection.call("echo", {"text": "x"})
            return connection.state, connection.fault, told
        finally:
            await connection.close()

    state, fault, told = asyncio.run(main())
    assert state == "failed" and "started 4 times and is given up" in fault
    assert pauses == [0.5, 1.0, 2.0]
    assert len(told) == MAX_RESTARTS + 1 and "/mcp restart toy" in told[-1]


def test_two_calls_without_an_answer_start_it_again(tmp_path: Path) -> None:
    async def main() -> list[str]:
        server = scripted(call_timeout=1.0)
        async with McpServers([server], cache=OfferCache(tmp_path)) as servers:
            connection = servers.connections["toy"]
            for words in ("the call was cancelled$", "started again"):
                with pytest.raises(ToolFailed, match=words):
                    await connection.call("wait", {})
            # The next call waits for the new program and is answered by it.
            content = await connection.call("echo", {"text": "again"})
            assert content[0].text == "again"  # type: ignore[union-attr]
            return servers.take_notices()

    assert any("did not answer 2 calls in a row" in line for line in asyncio.run(main()))


def test_a_slow_start_is_waited_for_once(tmp_path: Path) -> None:
    """The first run waits for a server that hangs, no later one does."""

    async def main() -> None:
        async with McpServers([scripted("hangs-at-start", start_timeout=0.4)], cache=OfferCache(tmp_path)) as servers:
            await servers.ready()
            # Would time out if it waited a second time for the same start.
            async with asyncio.timeout(0.35):
                await servers.ready()

    asyncio.run(main())


def test_whoever_asks_while_it_starts_waits_too(tmp_path: Path) -> None:
    """An editor is told of the prompts in the background: the first question must not be without tools because of that."""

    async def main() -> list[int]:
        async with McpServers([scripted()], cache=OfferCache(tmp_path)) as servers:

            async def offered() -> int:
                await servers.ready()
                return len(servers.tools())

            return await asyncio.gather(offered(), offered())

    first, second = asyncio.run(main())
    assert first == second > 0


def test_what_a_server_is_given_and_says_holds_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    canary = "sk-canary-0123456789abcdef"
    monkeypatch.setenv("OPENAI_API_KEY", canary)
    monkeypatch.setenv("OWN_TOKEN", "own-canary-0123456789")

    async def main() -> tuple[str, str, list[str]]:
        server = scripted(env={"SECRET_OF_SERVER": "${OWN_TOKEN}"})
        async with McpServers([server], cache=OfferCache(tmp_path)) as servers:
            connection = servers.connections["toy"]
            content = await connection.call("environment", {})
            return content[0].text, repr(server) + repr(connection.server), connection.log  # type: ignore[union-attr]

    environment, shown, log = asyncio.run(main())
    assert canary not in environment and "own-canary-0123456789" in environment
    assert "own-canary" not in shown + "".join(log) and any("token=***" in line for line in log)
    assert not any("canary" in path.read_text() for path in tmp_path.rglob("*.json"))


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b" what it says\r", "what it says"),
        (b"x" * 500, "x" * 500),
        (b"x" * 501, "x" * 500 + "…"),
        ("é".encode() * 501, "é" * 500 + "…"),
    ],
    ids=["short", "as long as may be", "too long", "counted in characters"],
)
def test_a_line_of_a_log_is_cut(line: bytes, shown: str) -> None:
    assert _decoded(line) == shown


def test_no_program_outlives_a_killed_midstream(tmp_path: Path) -> None:
    import signal
    import subprocess
    import sys

    server = scripted("leaves-children")
    program = (
        "import asyncio, sys\n"
        "from midstream.agent.mcp.servers import McpServers\n"
        "from midstream.client.mcp_server import McpServer\n"
        "import msgspec\n"
        "async def main():\n"
        "    async with McpServers([msgspec.json.decode(sys.argv[1], type=McpServer)]) as servers:\n"
        "        await servers.connections['toy'].ready()\n"
        "        print('ready', flush=True)\n"
        "        await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    environ = {"PATH": "/usr/bin:/bin", "MIDSTREAM_HOME": str(tmp_path)}
    command = [sys.executable, "-c", program, msgspec.json.encode(server).decode()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environ) as running:
        assert running.stdout is not None and running.stdout.readline() == b"ready\n"
        assert left_behind(server, seconds=0)
        running.send_signal(signal.SIGKILL)
    assert not left_behind(server)


def test_the_documentation_has_the_table() -> None:
    page = Path("docs/mcp-faults.md").read_text("utf-8")
    lines = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| the server |")]
    rows = [*TABLE, *[{**row, "server": f"a remote one {row['server']}"} for row in REMOTE]]
    for row in rows:
        (line,) = [line for line in lines if line.startswith(f"| {row['server'].replace('-', ' ')} ")]
        said = line.split(" | ")[1].removesuffix(" |").replace("(…); its arguments", "(")
        words = [row["call"], *row["told"]]
        assert said.startswith("the result") or any(said.split(" (…)")[0] in each or each in said for each in words), (
            line
        )
