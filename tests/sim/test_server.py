"""The doubles over HTTP: bad days on order, and what the client makes of them; unknown addresses; what was seen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from midstream.client.catalog import Catalog
from midstream.client.client import Client
from midstream.client.config import Config
from midstream.client.reply import Reply
from midstream.client.session import Session
from midstream.core.blocks import Text, Thinking, ToolResponse, Turn
from midstream.core.errors import ContextTooLong, LocalError, Overloaded, ProviderError, RateLimited, RetriesExhausted
from midstream.doctor.matrix import TOOLS
from midstream.sim.server import Sim
from midstream.transport import TransportOptions
from midstream.transport.options import RetryPolicy
from tests.event_loops import run
from tests.long_run import each_once
from tests.representatives import PLAYERS, dialect_cases

pytestmark = pytest.mark.usefixtures("each_loop")

QUICK = TransportOptions(retry=RetryPolicy(max_retries=2, initial=0.001, max_backoff=0.001))
CHAT = "openai/gpt-4o"
ONE_EACH_WIRE = (
    CHAT, "moonshot/kimi-k2.5", "anthropic/claude-sonnet-4-5", "openai-responses/gpt-5.2", "gemini/gemini-3-pro-preview",
    "ollama/qwen3:4b", "cohere/command-a-03-2025", "cohere/command-a-reasoning-08-2025",
)  # fmt: skip
_BAD_KEY: dict[str, int | None] = {"gemini/gemini-3-pro-preview": 400, "ollama/qwen3:4b": None}


def on_stage(play: Callable[[Sim, Client], Awaitable[Any]], transport: TransportOptions = QUICK, **options: Any) -> Any:
    async def main() -> Any:
        async with Sim(**options) as sim:
            catalog = Catalog(Config(), environ={}, providers=sim.providers())
            async with Client(catalog, transport=transport) as client:
                return await play(sim, client)

    return run(main())


async def ask(client: Client, model: str, words: str = "List the files and read a.txt") -> tuple[Session, Reply, Turn]:
    session = Session(model, tools=TOOLS[:2], client=client)
    reply = session.send(words)
    return session, reply, await reply


async def carry_on(session: Session, turn: Turn) -> Turn:
    responses = [ToolResponse(call.id, call.name, (Text(f"seen {call.arguments}"),)) for call in turn.tool_calls]
    await session.add(Turn("tool", tuple(responses)))
    return await session.send()


@each_once(("model", ONE_EACH_WIRE), ("fault", ["429", "500"]))
def test_a_failure_before_the_answer_is_tried_again(fault: str, model: str) -> None:
    async def play(sim: Sim, client: Client) -> None:
        sim.inject(fault)
        _, reply, turn = await ask(client, model)
        assert reply.error is None and len(turn.tool_calls) == 2
        assert [seen.status for seen in sim.seen] == [int(fault), 200]

    on_stage(play)


@pytest.mark.parametrize(("fault", "kind"), [("429", RateLimited), ("500", Overloaded)])
def test_a_host_that_keeps_failing_is_an_exception(fault: str, kind: type[ProviderError]) -> None:
    async def play(sim: Sim, client: Client) -> None:
        sim.inject(fault, times=3)
        with pytest.raises(RetriesExhausted) as caught:
            await ask(client, "moonshot/kimi-k2.5")
        last = caught.value.attempts[-1]
        assert isinstance(last, kind) and last.status == int(fault)
        assert sim.requests == 3

    on_stage(play)


@pytest.mark.parametrize("model", ONE_EACH_WIRE)
def test_a_cut_stream_keeps_what_came_and_is_not_replayed(model: str) -> None:
    async def play(sim: Sim, client: Client) -> None:
        sim.inject("cut")
        session, reply, turn = await ask(client, model)
        assert reply.error is not None and reply.error.kind == "truncated", reply.error
        assert turn.failure == reply.error.kind and turn.blocks
        assert session.conversation.turns[-1] is turn
        again = await session.send("Hello again")
        assert not again.failure
        assert sim.refused == []

    on_stage(play)


@pytest.mark.parametrize("model", ONE_EACH_WIRE)
def test_a_silent_stream_is_given_up(model: str) -> None:
    async def play(sim: Sim, client: Client) -> None:
        sim.inject("stall")
        _, reply, turn = await ask(client, model)
        assert reply.error is not None and turn.failure == reply.error.kind == "idle_timeout"
        assert "0.2" in reply.error.message, reply.error.message

    on_stage(play, TransportOptions(idle=0.2))


LEAKY = [
    name
    for name, player in PLAYERS.items()
    if (player.target.dialect.leaks, player.target.dialect.wire) == ("kimi", "openai-chat")
]


@pytest.mark.parametrize(
    "name", dialect_cases("ids", "reasoning.echo", "reasoning.tags", "reasoning.field", among=LEAKY)
)
def test_leaked_markers_become_calls_where_the_dialect_reads_them(name: str) -> None:
    model = PLAYERS[name].target.name

    async def play(sim: Sim, client: Client) -> None:
        sim.inject("leak")
        session, reply, turn = await ask(client, model)
        assert reply.error is None and turn.stop_reason == "tool_use"
        assert "<|" not in turn.text and "functions." not in turn.text
        assert [call.name for call in turn.tool_calls] == ["list_files", "read_file"]
        assert "seen" in (await carry_on(session, turn)).text
        assert sim.refused == []

    on_stage(play)


@each_once(
    ("model", [CHAT, "moonshot/kimi-k2.5", "mistral/mistral-large-latest"]), ("fault", ["repeat-ids", "restart-index"])
)
def test_hosts_that_label_calls_badly_still_get_two_calls(fault: str, model: str) -> None:
    async def play(sim: Sim, client: Client) -> None:
        sim.inject(fault)
        session, reply, turn = await ask(client, model)
        assert reply.error is None
        assert [(call.name, call.arguments) for call in turn.tool_calls] == [
            ("list_files", '{"path":"."}'),
            ("read_file", '{"path":"a.txt"}'),
        ]
        assert len({call.id for call in turn.tool_calls}) == 2
        answer = await carry_on(session, turn)
        assert 'seen {"path":"."}' in answer.text and 'seen {"path":"a.txt"}' in answer.text
        assert sim.refused == []

    on_stage(play)


def test_an_unknown_fault_is_refused_at_once() -> None:
    with pytest.raises(LocalError, match="expected one of 429"):
        Sim(faults=("flood",))


def test_the_next_requests_take_the_faults_in_order() -> None:
    async def play(sim: Sim, client: Client) -> None:
        await ask(client, CHAT)
        assert [seen.status for seen in sim.seen] == [429, 500, 200]

    on_stage(play, faults=("429", "500"))


def test_what_is_not_served_is_said() -> None:
    async def play(sim: Sim, client: Client) -> None:
        async with aiohttp.ClientSession() as http:
            for path, body, status, words in (
                ("/moonshot/nothing", {"model": "kimi-k2.5"}, 404, "moonshot has no path /nothing"),
                ("/nobody/chat/completions", {"model": "x"}, 404, "unknown provider 'nobody'"),
                ("/anthropic/chat/completions", {"model": "claude-sonnet-5"}, 404, "anthropic has no path"),
                ("/sim/messages", {"model": "gpt-4o"}, 404, "is not served at"),
                ("/openai/chat/completions", [], 400, "could not parse the JSON body"),
            ):
                async with http.post(sim.url + path, json=body) as answer:
                    assert answer.status == status, path
                    assert words in (await answer.json())["error"]["message"]
            async with http.get(sim.url + "/sim/models") as answer:
                assert "kimi-k2.5" in [model["id"] for model in (await answer.json())["data"]]

    on_stage(play)


@pytest.mark.parametrize(("model", "status"), [(model, _BAD_KEY.get(model, 401)) for model in ONE_EACH_WIRE])
def test_another_key_than_the_right_one_is_refused(model: str, status: int | None) -> None:
    async def play(sim: Sim, client: Client) -> None:
        if status is None:
            assert (await ask(client, model))[2].tool_calls
            return
        with pytest.raises(ProviderError) as refused:
            await ask(client, model)
        assert (refused.value.status, sim.seen[-1].status) == (status, status)

    on_stage(play, key="the right one")


@pytest.mark.parametrize(
    "headers",
    [{"Authorization": "Bearer right"}, {"x-api-key": "right"}, {"x-goog-api-key": "right"}, {"x-api-key": "wrong"}],
)
def test_a_key_is_found_wherever_a_client_puts_it(headers: dict[str, str]) -> None:
    async def play(sim: Sim, client: Client) -> int:
        body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}
        async with (
            aiohttp.ClientSession() as http,
            http.post(f"{sim.url}/openai/chat/completions", json=body, headers=headers) as answer,
        ):
            return answer.status

    assert on_stage(play, key="right") == (401 if "wrong" in headers.values() else 200)


def test_a_lenient_double_takes_anything() -> None:
    async def play(sim: Sim, client: Client) -> None:
        body = {"model": "mistral-large-latest", "messages": [{"role": "tool", "tool_call_id": "x", "content": "?"}]}
        async with (
            aiohttp.ClientSession() as http,
            http.post(f"{sim.url}/mistral/chat/completions", json=body) as answer,
        ):
            assert answer.status == 200

    on_stage(play, strict=False)


@pytest.mark.parametrize(
    ("strict", "statuses"),
    [("documented", (200, 400)), (True, (200, 400)), ("paranoid", (400, 400)), (False, (200, 200))],
)
def test_a_double_is_as_strict_as_it_is_asked_to_be(strict: Any, statuses: tuple[int, int]) -> None:
    """An empty text beside calls is assumed to be refused, a call without a result was observed to be."""
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    asked = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    answered = [*asked, {"role": "tool", "tool_call_id": "a", "content": "x"}]

    async def play(sim: Sim, client: Client) -> tuple[int, ...]:
        found = []
        async with aiohttp.ClientSession() as http:
            for messages in (answered, asked):
                body = {"model": "kimi-k2-0905-preview", "messages": messages}
                async with http.post(f"{sim.url}/moonshot/chat/completions", json=body) as answer:
                    found.append(answer.status)
        return tuple(found)

    assert on_stage(play, strict=strict) == statuses


def test_an_unknown_strictness_is_said() -> None:
    with pytest.raises(LocalError, match="invalid strict='very'"):
        Sim(strict="very")  # type: ignore[arg-type]


def test_thinking_can_be_turned_off_and_on() -> None:
    async def play(sim: Sim, client: Client) -> None:
        for model in (
            "moonshot/kimi-k2.5",
            "ollama/qwen3:4b",
            "anthropic/claude-sonnet-4-5",
            "cohere/command-a-reasoning-08-2025",
        ):
            for mode in ("on", "off"):
                session = Session(model, tools=TOOLS[:2], client=client)
                session.options = type(session.options)(thinking=mode)
                turn = await session.send("Read a.txt")
                thought = any(isinstance(block, Thinking) for block in turn.blocks)
                assert thought is (mode == "on"), (model, mode)
                assert "seen" in (await carry_on(session, turn)).text
        assert sim.refused == []

    on_stage(play)


def test_clients_that_leave_before_the_answer_are_no_error_of_the_server(caplog: pytest.LogCaptureFixture) -> None:
    body = b'{"model":"gpt-4o","stream":true,"messages":[{"role":"user","content":"hi"}]}'
    head = f"POST /openai/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode()

    async def leave(sim: Sim, client: Client) -> None:
        for _ in range(20):
            _, writer = await asyncio.open_connection("127.0.0.1", sim.port)
            writer.write(head + body)
            writer.transport.abort()
        await ask(client, CHAT)
        assert sim.requests == 21

    on_stage(leave)
    assert caplog.records == []


@pytest.mark.parametrize("model", ONE_EACH_WIRE)
def test_a_request_that_does_not_fit_the_window_is_refused_as_its_host_does(model: str) -> None:
    async def play(sim: Sim, client: Client) -> None:
        short = await client.complete(model, "Hello there")
        assert short.usage is not None and 2 <= short.usage.read <= 30
        with pytest.raises(ContextTooLong):
            await client.complete(model, "Hello there, " * 20)
        assert [problem.rule for problem in sim.refused] == ["window"]

    on_stage(play, window=30)
