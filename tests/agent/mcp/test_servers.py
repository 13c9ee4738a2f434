"""Good servers: tools over every dialect in one conversation, results of all kinds, progress, cancellation, changes, the cache."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from midstream import Agent, Client, Conversation, Media, Session, Text, Toolbox, ToolSpec
from midstream.agent.approval import Approval, Decision
from midstream.agent.approval_request import ApprovalRequest
from midstream.agent.mcp.offer import MAX_SCHEMA, Offer, canonical_name, usable_schema
from midstream.agent.mcp.offer_cache import OfferCache
from midstream.agent.mcp.servers import McpServers, allow_patterns
from midstream.client.catalog import Catalog
from midstream.client.config import Config
from midstream.client.mcp_server import McpServer, literal, server_name
from midstream.core.blocks import ToolCall
from midstream.core.errors import ConfigError, ToolFailed
from midstream.core.events import ToolFinished
from midstream.sim.answer import Answer, Call
from midstream.sim.server import Sim

from .servers import DIALECTS, left_behind, scripted


@asynccontextmanager
async def running(folder: Path, *servers: McpServer, **options: Any) -> AsyncIterator[McpServers]:
    async with McpServers(servers or [scripted()], cache=OfferCache(folder), **options) as made:
        await made.ready()
        yield made


def test_what_a_listener_raises_reaches_the_program_and_breaks_no_server(tmp_path: Path) -> None:
    def breaks(line: str) -> None:
        raise KeyError(line)

    async def main() -> None:
        async with running(tmp_path, scripted("lies-in-its-schema"), tell=breaks) as servers:
            toolbox = Toolbox([servers], approve=Approval(yolo=True))
            with pytest.raises(KeyError, match="MCP server toy"):
                toolbox.specs()
            assert (await toolbox.run(ToolCall("c", "mcp__toy__echo", '{"text": "hi"}'))).is_error is False

    asyncio.run(main())


def test_one_conversation_uses_a_server_over_five_dialects(tmp_path: Path) -> None:
    """Hostile schemas among its tools: the strict doubles refuse nothing, and every call reaches its tool."""

    async def main() -> list[str]:
        async with (
            Sim(strict="paranoid") as sim,
            running(tmp_path, scripted(), scripted("lies-in-its-schema", name="liar")) as servers,
        ):
            catalog = Catalog(Config(), environ={}, providers=sim.providers())
            async with Client(catalog) as client:
                session = Session(DIALECTS[0], client=client)
                agent = Agent(session, Toolbox([servers], approve=Approval(allow=["mcp__*"])))
                results: list[str] = []
                for number, model in enumerate(DIALECTS):
                    session.use(model)
                    asked = f"Call mcp__toy__echo with text 'number {number}', then call mcp__liar__echo with text 'liar {number}'"
                    events = [event async for event in agent.run(asked)]
                    results += [event.response.text for event in events if isinstance(event, ToolFinished)]
                return results

    results = asyncio.run(main())
    assert results == [text for number in range(5) for text in (f"number {number}", f"liar {number}")]


def test_a_name_that_a_host_does_not_take_is_rewritten_there_and_restored(tmp_path: Path) -> None:
    """A tool with a long, odd name: each host calls it by a name that it takes, and it is our own name that is stored, approved
    and run."""
    called = canonical_name("liar", "naïve name/with $igns " + "x" * 90)
    asked: list[str] = []
    wire_names: dict[str, str] = {}

    def script(conversation: Conversation, tools: Sequence[ToolSpec], *, model: str, thinks: bool) -> Answer:
        if conversation.turns[-1].speaker != "human":
            return Answer("done")
        (name,) = [tool.name for tool in tools if tool.name.startswith("mcp__liar__na")]
        wire_names[model] = name
        return Answer(thinking="Hm." if thinks else "", calls=(Call(name),))

    async def ask(request: ApprovalRequest) -> Decision:
        asked.append(request.tool)
        return Decision(True)

    async def main() -> tuple[list[str], list[str]]:
        async with (
            Sim(strict="paranoid", script=script) as sim,
            running(tmp_path, scripted("lies-in-its-schema", name="liar")) as servers,
        ):
            catalog = Catalog(Config(), environ={}, providers=sim.providers())
            async with Client(catalog) as client:
                session = Session(DIALECTS[0], client=client)
                agent = Agent(session, Toolbox([servers], approve=Approval(ask)))
                results: list[str] = []
                for model in DIALECTS:
                    session.use(model)
                    events = [event async for event in agent.run("go")]
                    results += [event.response.text for event in events if isinstance(event, ToolFinished)]
                return results, [call.name for turn in session.conversation.turns for call in turn.tool_calls]

    results, stored = asyncio.run(main())
    assert results == ["grown up"] * 5 and stored == asked == [called] * 5
    assert len(called) > 64 and len(wire_names) == 5
    assert sum(len(name) <= 64 for name in wire_names.values()) >= 4, wire_names


def test_pictures_resources_and_failures_in_results(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as servers:
            connection = servers.connections["toy"]
            picture = await connection.call("picture", {})
            assert isinstance(picture[0], Media) and picture[0].mime == "image/png"
            assert await connection.call("note", {}) == (Text("[resource: memo://insides]\nmilk"),)
            with pytest.raises(ToolFailed, match="it is broken"):
                await connection.call("fail", {})
            assert await servers.read("toy", "memo://shopping") == (Text("[resource: memo://shopping]\nbuy milk"),)
            assert await servers.prompt("toy", "review", {"what": "it"}) == (Text("Please review it."),)
            assert list(servers.prompts()) == ["mcp__toy__review"]
            assert [each.uri for _, each in servers.resources()] == ["memo://shopping"]

    asyncio.run(main())


ODD = [
    ("block", "known [a block was left out: hologram, of an unknown kind] [a block was left out: it is no object]"),
    ("annotations", "for all"),
    ("bytes", "caf\ufffd"),
    ("surrogate", "cut ? here"),
    ("number", "long"),
    ("structured", '{"a":1}'),
]


def test_results_that_the_protocol_does_not_know_are_read_as_far_as_they_can_be(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as servers:
            connection = servers.connections["toy"]
            for kind, words in ODD:
                content = await connection.call("odd", {"kind": kind})
                assert " ".join([each.text for each in content if isinstance(each, Text)]) == words
            # At once, and not when the time for a call is over.
            for kind in ("nothing", "null"):
                async with asyncio.timeout(10):
                    with pytest.raises(ToolFailed, match="cannot be read"):
                        await connection.call("odd", {"kind": kind})
            assert servers.take_notices() == []

    asyncio.run(main())


def test_an_error_with_the_sdk_s_own_code_is_an_error_of_the_call(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as servers:
            connection = servers.connections["toy"]
            with pytest.raises(ToolFailed, match="refused the call of refuse: out of credit"):
                await connection.call("refuse", {})
            assert connection.state == "ready" and servers.take_notices() == []

    asyncio.run(main())


def test_progress_is_heard_and_gives_a_call_more_time(tmp_path: Path) -> None:
    async def main() -> tuple[str, list[str]]:
        # Eight steps of 0.15 s: more than the limit in all, less than it between two reports.
        async with running(tmp_path, scripted(call_timeout=1.0)) as servers:
            toolbox = Toolbox([servers], approve=Approval(yolo=True))
            heard: list[str] = []
            toolbox.progress = lambda call, text: heard.append(f"{call.name}: {text}")
            result = await toolbox.run(ToolCall("1", canonical_name("toy", "slow.work"), "{}"))
            return result.text, heard

    text, heard = asyncio.run(main())
    name = canonical_name("toy", "slow.work")
    assert text == "worked"
    assert heard == [f"{name}: {step} of 8: step {step}" for step in range(1, 9)]


def test_cancelling_a_call_tells_the_server(tmp_path: Path) -> None:
    async def main() -> str:
        async with running(tmp_path, scripted(call_timeout=30)) as servers:
            connection = servers.connections["toy"]
            call = asyncio.create_task(connection.call("wait", {}))
            await asyncio.sleep(0.1)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            content = await connection.call("cancelled", {})
            return content[0].text  # type: ignore[union-attr]

    assert asyncio.run(main()) != "[]"


ASKED_BACK = {
    "sampling/createMessage": {
        "messages": [{"role": "user", "content": {"type": "text", "text": "x"}}],
        "maxTokens": 9,
    },
    "elicitation/create": {"message": "your password?", "requestedSchema": {"type": "object", "properties": {}}},
    "roots/list": {},
}


@pytest.mark.parametrize("method", ASKED_BACK)
def test_what_a_server_asks_of_us_is_refused_at_once(tmp_path: Path, method: str) -> None:
    """A server gets neither a model, nor the user's words, nor a list of folders."""

    async def main() -> str:
        async with running(tmp_path) as servers:
            asked = {"method": method, "params": ASKED_BACK[method]}
            return (await servers.connections["toy"].call("ask-back", asked))[0].text  # type: ignore[union-attr]

    assert "not supported" in asyncio.run(main()).lower()


def test_a_tool_that_comes_later_is_declared_in_the_same_run(tmp_path: Path) -> None:
    async def main() -> list[str]:
        async with Sim() as sim, running(tmp_path) as servers:
            catalog = Catalog(Config(), environ={}, providers=sim.providers())
            async with Client(catalog) as client:
                session = Session(DIALECTS[0], client=client)
                agent = Agent(session, Toolbox([servers], approve=Approval(yolo=True)))
                await agent.run("Call mcp__toy__grow with x 1")
                while "mcp__toy__grown" not in agent.toolbox:  # noqa: ASYNC110 - the server tells when it likes
                    await asyncio.sleep(0.02)
                await agent.run("hello")
                return [spec.name for spec in session.tools]

    assert "mcp__toy__grown" in asyncio.run(main())


def test_a_tool_that_is_gone_is_declared_no_more(tmp_path: Path) -> None:
    """Also one that the session was told of before it was known to be gone."""

    async def main() -> None:
        cache = OfferCache(tmp_path)
        async with Sim() as sim, running(tmp_path) as servers:
            catalog = Catalog(Config(), environ={}, providers=sim.providers())
            offer = servers.offer("toy")
            async with Client(catalog) as client:
                toolbox = Toolbox([servers], approve=Approval(yolo=True))
                session = Session(DIALECTS[0], client=client, tools=toolbox.specs())
                agent = Agent(session, toolbox)
                await agent.run("hello")
                assert "mcp__toy__wait" in [spec.name for spec in session.tools]
                kept = type(offer)(tuple([each for each in offer.tools if each.name != "wait"]))
                servers._take(servers.servers[0], kept)
                await agent.run("hello")
                assert "mcp__toy__wait" not in [spec.name for spec in session.tools]
        assert cache.get(scripted()) is None  # another mark, another configuration

    asyncio.run(main())


def test_known_tools_are_there_before_the_server_runs(tmp_path: Path) -> None:
    server = scripted()

    async def first() -> int:
        async with running(tmp_path, server) as servers:
            return len(servers.tools())

    async def second() -> tuple[int, str, list[int], str]:
        async with McpServers([server], lazy=True, cache=OfferCache(tmp_path)) as servers:
            known, state, started = (
                len(servers.tools()),
                servers.connections["toy"].state,
                left_behind(server, seconds=0),
            )
            content = await servers.connections["toy"].call("echo", {"text": "awake"})
            return known, state, started, content[0].text  # type: ignore[union-attr]

    assert asyncio.run(first()) == 8
    assert asyncio.run(second()) == (8, "idle", [], "awake")


def test_an_offer_is_kept_in_folders_that_are_missing_and_in_those_that_are_there(tmp_path: Path) -> None:
    server = scripted()
    cache = OfferCache(tmp_path / "missing" / "data" / "offers")
    for offer in (Offer(), Offer(problems=("later",))):
        cache.put(server, offer)
        assert cache.get(server) == offer


def test_a_damaged_cache_counts_as_none(tmp_path: Path) -> None:
    server = scripted()

    async def main() -> int:
        async with running(tmp_path, server) as servers:
            return len(servers.tools())

    asyncio.run(main())
    (file,) = tmp_path.glob("*.json")
    file.write_bytes(b'{"version": 1, "offer": {"tools": 7}}')
    assert OfferCache(tmp_path).get(server) is None and asyncio.run(main()) == 8


@pytest.mark.parametrize(
    ("allow", "settings", "asked"),
    [
        ([], {}, True),
        (["mcp__toy__*"], {}, False),
        (["mcp__toy__echo"], {}, False),
        (["mcp__toy__fail"], {}, True),
        ([], {"allow": ("echo",)}, False),
        ([], {"allow": ("e*",)}, False),
        ([], {"allow": ("f*",)}, True),
    ],
)
def test_every_call_is_asked_about_unless_a_pattern_allows_it(
    tmp_path: Path, allow: list[str], settings: dict[str, Any], asked: bool
) -> None:
    questions: list[ApprovalRequest] = []

    async def ask(request: ApprovalRequest) -> Decision:
        questions.append(request)
        return Decision(False, reason="no")

    async def main() -> str:
        server = scripted(**settings)
        async with running(tmp_path, server) as servers:
            toolbox = Toolbox([servers], approve=Approval(ask, allow=[*allow, *allow_patterns([server])]))
            return (await toolbox.run(ToolCall("1", "mcp__toy__echo", '{"text": "hello"}'))).text

    text = asyncio.run(main())
    assert (text == "hello") is not asked
    assert [each.tool for each in questions] == (["mcp__toy__echo"] if asked else [])


def test_only_the_tools_that_are_named(tmp_path: Path) -> None:
    async def main() -> list[str]:
        async with running(tmp_path, scripted(tools=("echo", "no*"))) as servers:
            return [each.name for each in servers.tools()]

    assert asyncio.run(main()) == ["mcp__toy__echo", "mcp__toy__note"]


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    async def main() -> str:
        async with running(tmp_path, McpServer("gone", command="no-such-program-here")) as servers:
            return servers.connections["gone"].fault

    assert "cannot run no-such-program-here: No such file or directory" in asyncio.run(main())


def test_a_variable_that_is_not_set_is_named(tmp_path: Path) -> None:
    async def main() -> str:
        server = scripted(env={"A": "${SURELY_NOT_SET}", "B": "${ALSO_NOT:-fallback}"})
        async with running(tmp_path, server, environ={}) as servers:
            return servers.connections["toy"].fault

    assert asyncio.run(main()).startswith("${SURELY_NOT_SET} is not set; set the variable, or store it with")


FILLED = [
    ("a ${B} c", "a b c"),
    ("${B}${B}", "bb"),
    ("${NO:-otherwise}", "otherwise"),
    ("${B:-otherwise}", "b"),
    ("$${B} and ${B}", "${B} and b"),
    (literal("${B} $$ {B}"), "${B} $$ {B}"),
    ("$B {B}", "$B {B}"),
]


@pytest.mark.parametrize(("given", "made"), FILLED)
def test_variables_are_put_in(given: str, made: str) -> None:
    server = McpServer("x", command=("run", given), env={"E": given}, headers={"H": given})
    filled = server.filled({"B": "b"}.get)
    assert (filled.argv[1], filled.env["E"], filled.headers["H"]) == (made, made, made)


def test_tools_of_servers_come_behind_the_others(tmp_path: Path) -> None:
    """A host that takes only so many tools leaves out the last."""

    async def main() -> list[str]:
        async with running(tmp_path) as servers:
            return [each.name for each in Toolbox([servers, "read_file"])]

    assert asyncio.run(main())[:2] == ["read_file", "mcp__toy__echo"]


NAMES = [("GitHub Server", "GitHub-Server"), ("a__b", "a_b"), ("__", "server"), ("x" * 60, "x" * 40), ("ok_1", "ok_1")]


@pytest.mark.parametrize(("given", "made"), NAMES)
def test_names_of_other_programs_files(given: str, made: str) -> None:
    assert server_name(given) == made
    assert McpServer(made, command="x").checked().name == made


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (McpServer("a__b", command="x"), "single _"),
        (McpServer("", command="x"), "single _"),
        (McpServer("a"), "either `command`"),
        (McpServer("a", command="x", url="https://x"), "either `command`"),
        (McpServer("a", url="ftp://x"), "https://"),
        (McpServer("a", command=("x", "\0")), "NUL"),
    ],
)
def test_a_server_that_cannot_be(server: McpServer, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        server.checked()


def test_names_never_meet_and_never_grow() -> None:
    names = ["a.b", "a_b", "a/b", "a b", "", "x" * 300, "x" * 301, "ä", "ö"]
    made = [canonical_name("toy", name) for name in names]
    assert len(set(made)) == len(names) and all(len(name) <= 128 for name in made)
    assert made == [canonical_name("toy", name) for name in names]


def test_schemas_that_no_pass_takes_are_replaced() -> None:
    assert usable_schema({"type": "object", "properties": {"a": {"type": "string"}}})[2] == ""
    for schema in ("text", None, {"type": "object", "description": "x" * 70_000}):
        used, growth, fault = usable_schema(schema)
        assert used == {"type": "object"} and growth == 0 and fault


def test_a_schema_of_exactly_the_limit_is_taken() -> None:
    schema = {"type": "object", "description": ""}
    schema["description"] = "x" * (MAX_SCHEMA - len(json.dumps(schema, separators=(",", ":"))))
    used, _, fault = usable_schema(schema)
    assert used == schema and fault == ""
    schema["description"] += "x"
    assert usable_schema(schema)[2].startswith("it has ")


def test_a_schema_whose_references_multiply_is_replaced() -> None:
    levels = {
        f"l{n}": {"type": "object", "properties": {side: {"$ref": f"#/$defs/l{n + 1}"} for side in "ab"}}
        for n in range(13)
    }
    schema = {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/l0"}},
        "$defs": {**levels, "l13": {"type": "string"}},
    }
    used, growth, fault = usable_schema(schema)
    assert used == {"type": "object"} and growth == 0 and "bytes" in fault, fault


def test_the_sdk_is_not_loaded_before_a_server_starts() -> None:
    import subprocess

    program = (
        "import sys; from midstream import McpServer, McpServers, Toolbox\n"
        "Toolbox([McpServers([McpServer('a', command='x')], key_names=())])\n"
        "print([name for name in ('mcp', 'mcp_types', 'pydantic', 'httpx2', 'anyio') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
