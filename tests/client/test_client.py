"""One turn over the network: whole or streamed, by the first model of a chain that begins to answer."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from midstream.agent.loop import Agent
from midstream.client.breaker import Breaker
from midstream.client.catalog import Catalog
from midstream.client.client import Client, _Sent, complete, explain, stream
from midstream.client.config import Config, ModelConfig, ProviderConfig
from midstream.client.session import Session
from midstream.client.sync import SyncSession
from midstream.core.blocks import Conversation, Media, Text, Turn, human
from midstream.core.dialect import Options, TextCalls
from midstream.core.errors import (
    BadRequest,
    LocalError,
    MediaRefused,
    MidstreamError,
    MissingKey,
    Overloaded,
    RetriesExhausted,
    TruncatedStream,
    Unauthorized,
    UnknownModel,
)
from midstream.core.events import Done, ErrorEvent, TextDelta
from midstream.core.lifecycle import check
from midstream.core.secret import SecretHeaders
from midstream.core.tools import ToolSpec
from midstream.dialects.registry import resolve
from midstream.sim.answer import Answer, Call
from midstream.testing import sim_server
from midstream.transport import RetryPolicy, TransportOptions
from midstream.wires.request import Request
from tests.client import scripted
from tests.client.scripted import Cut, Drop, Host, Item, Refusal, Said, Stall, play
from tests.long_run import each_once
from tests.transport.loopback import Seen, Server, Wire

ASKED = Conversation((human("hi", key="t0"),))
LEAKY = "deepinfra/moonshotai/Kimi-K2.5"


def test_a_stream_is_lawful_and_its_turn_has_a_latency() -> None:
    async def act(host: Host, client: Client) -> None:
        reply = client.stream("a/m", ASKED, turn_key="k")
        events = [event async for event in reply]
        check(events)
        assert isinstance(events[-1], Done) and reply.turn == events[-1].turn
        assert reply.turn.key == "k" and (reply.turn.latency_ms or 0) > 0
        assert await reply == reply.turn  # once more: nothing is sent again
        assert len(host.bodies) == 1

    play([Answer("hello you", "hm")], act)


def test_complete_asks_for_no_stream_and_gives_the_same_turn() -> None:
    async def act(host: Host, client: Client) -> None:
        tools = [ToolSpec("look")]
        streamed = await client.stream("a/m", ASKED, tools=tools, turn_key="k")
        whole = await client.complete("a/m", ASKED, tools=tools, turn_key="k", options=Options(max_tokens=5))
        assert whole.text == streamed.text == "let me"
        for turn in (whole, streamed):
            assert [(call.name, call.arguments) for call in turn.tool_calls] == [("look", '{"path":"x"}')]
        assert not host.bodies[1].get("stream") and host.bodies[1]["max_tokens"] == 5

    play([Answer("let me", "", (Call("look", {"path": "x"}),))], act)


def test_a_client_takes_a_plain_string() -> None:
    async def act(host: Host, client: Client) -> None:
        assert (await client.stream("a/m", "hi")).text == "hello"
        assert (await client.complete("a/m", "hi")).text == "hello"
        assert [body["messages"] for body in host.bodies] == [[{"role": "user", "content": "hi"}]] * 2

    play([Answer("hello")], act)


def test_an_error_event_after_the_start_is_no_exception() -> None:
    async def act(host: Host, client: Client) -> None:
        events = [event async for event in client.stream("a/m", ASKED)]
        check(events)
        last = events[-1]
        assert isinstance(last, ErrorEvent) and last.error.kind == "truncated"
        assert isinstance(last.to_exception(), TruncatedStream)

    play([Cut(Answer("one two three"), 3)], act)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("text_calls", ["execute", "reask", "show"])
def test_a_call_leaked_as_text_runs_only_where_the_caller_lets_it(text_calls: TextCalls, whole: bool) -> None:
    tools, options = [ToolSpec("look")], Options(text_calls=text_calls, path="chat")

    async def ask(client: Client) -> Turn:
        if whole:
            return await client.complete(LEAKY, ASKED, tools=tools, options=options)
        return await client.stream(LEAKY, ASKED, tools=tools, options=options)

    async def main() -> Turn:
        async with sim.client() as client:
            return await ask(client)

    with sim_server(Answer("Let me look.", calls=(Call("look", {"path": "x"}),)), faults=["leak"]) as sim:
        turn = asyncio.run(main())
    assert turn.text == "Let me look."
    found = [(call.name, call.arguments) for call in turn.tool_calls]
    problems = (turn.extra or {}).get("problems", [])
    if text_calls == "execute":
        assert found == [("look", '{"path":"x"}')] and turn.stop_reason == "tool_use"
        assert problems == []
    else:
        assert found == [] and turn.stop_reason == "end_turn"
        (problem,) = problems
        assert "wrote a call as text" in problem["why"] and problem["raw"] == 'functions.look:0 {"path":"x"}'


def _chain(scripts: Sequence[Sequence[Item]], *, whole: bool = False) -> Any:
    """Ask hosts a, b, … in order; what came, and how often each was asked."""

    async def main() -> Any:
        hosts = [Host(script) for script in scripts]
        for host in hosts:
            await host.__aenter__()
        names = "abcdef"[: len(hosts)]
        client = scripted.client(**{name: host.base for name, host in zip(names, hosts, strict=True)})
        models = [f"{name}/m" for name in names]
        try:
            got: Any = await (client.complete(models, ASKED) if whole else client.stream(models, ASKED).result())
        except Exception as error:
            got = error
        await client.aclose()
        for host in hosts:
            await host.__aexit__()
        return got, [len(host.bodies) for host in hosts]

    return asyncio.run(main())


@each_once(("whole", [False, True]), ("status", [429, 500, 503, 529]))
def test_the_next_model_answers_where_one_cannot_begin_to(status: int, whole: bool) -> None:
    turn, asked = _chain([[Refusal(status)], [Refusal(status)], [Answer("from c")]], whole=whole)
    assert turn.text == "from c" and turn.origin.provider == "c"
    assert asked == [1, 1, 1]


@each_once(("whole", [False, True]), ("status", [400, 401, 404, 422]))
def test_what_another_try_cannot_mend_stops_the_chain(status: int, whole: bool) -> None:
    error, asked = _chain([[Refusal(status)], [Answer("x")]], whole=whole)
    assert error.status == status and error.provider == "a"
    assert asked == [1, 0]


@pytest.mark.parametrize("whole", [False, True])
def test_the_next_model_may_take_what_is_above_the_first_ones_rate_limit(whole: bool) -> None:
    said = "Request too large for m on tokens per min (TPM): Limit 30000, Requested 342389."
    turn, asked = _chain([[Refusal(429, said)], [Answer("from b")]], whole=whole)
    assert turn.text == "from b" and asked == [1, 1]
    error, asked = _chain([[Refusal(429, said)]], whole=whole)
    assert "30000" in str(error) and "342389" in str(error) and asked == [1]


OVERLOADED = b'{"error":{"message":"busy","code":503,"type":"overloaded_error"}}'
NOTHING = b'{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"stop"}]}'


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    "item",
    [Drop(), Drop(b"\n\n"), Drop(b'{"id":"x","cho'), Said(OVERLOADED), Said(NOTHING)],
    ids=["nothing", "blank lines", "half a body", "an error in a body", "an answer without a word"],
)
def test_the_next_model_answers_where_one_accepts_and_says_nothing(item: Item, whole: bool) -> None:
    turn, asked = _chain([[item], [Answer("from b")]], whole=whole)
    assert turn.text == "from b" and turn.origin.provider == "b" and turn.failure == ""
    assert asked == [1, 1]


def test_a_chain_of_whole_answers_that_fails_tells_of_every_model() -> None:
    error, asked = _chain([[Drop(b'{"id":')], [Drop(b"\n")]], whole=True)
    assert isinstance(error, RetriesExhausted) and "a/m" in str(error) and "b/m" in str(error)
    assert asked == [1, 1]
    error, _ = _chain([[Drop(b'{"id":')]], whole=True)
    assert isinstance(error, TruncatedStream)
    turn, asked = _chain([[Drop(b'{"id":')], [Said(NOTHING)]], whole=True)
    assert turn.failure == "empty" and asked == [1, 1], "the last one's turn, with what it used"


def test_a_whole_answer_is_asked_for_again_after_an_error_in_its_body() -> None:
    """As in a stream: the host has said that nothing was made."""

    async def main() -> tuple[str, int]:
        async with Host([Said(OVERLOADED), Answer("ok")]) as host:
            transport = TransportOptions(retry=RetryPolicy(max_retries=1, initial=0))
            async with Client(scripted.catalog(a=host.base), transport=transport) as client:
                return (await client.complete("a/m", ASKED)).text, len(host.bodies)

    assert asyncio.run(main()) == ("ok", 2)


def test_a_begun_answer_is_never_spliced() -> None:
    turn, asked = _chain([[Cut(Answer("one two three"), 3)], [Answer("x")]])
    assert turn.failure == "truncated" and turn.text.startswith("one")
    assert asked == [1, 0]


def test_a_chain_that_fails_tells_of_every_model() -> None:
    error, asked = _chain([[Refusal(500, "alpha")], [Refusal(503, "beta")]])
    assert isinstance(error, RetriesExhausted) and len(error.attempts) == 2
    assert "a/m" in str(error) and "alpha" in str(error) and "b/m" in str(error) and "beta" in str(error)
    assert asked == [1, 1]


def test_the_error_that_ends_a_chain_for_good_is_raised_as_it_is() -> None:
    error, _ = _chain([[Refusal(500)], [Refusal(400)]])
    assert isinstance(error, BadRequest)


@pytest.mark.parametrize("whole", [False, True])
def test_a_permanent_500_is_told_at_once_with_what_to_configure(whole: bool) -> None:
    said = "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"
    asked = Conversation((Turn("human", (Text("look"), Media("image/png", data="AAAA")), key="h"),))

    async def main() -> tuple[MediaRefused, int, str]:
        async with Host([Refusal(500, said), Answer("x")]) as host:
            told = Catalog(Config(providers={"a": ProviderConfig(base_url=host.base)}), environ={})
            deaf = Catalog(
                Config(providers={"a": ProviderConfig(base_url=host.base)}, models={"a/m": ModelConfig(media=())}),
                environ={},
            )
            async with Client(told) as client:  # with the retries that are usual
                with pytest.raises(MediaRefused) as caught:
                    await (client.complete("a/m", asked) if whole else client.stream("a/m", asked).result())
            count = len(host.bodies)
            async with Client(deaf) as client:
                await client.complete("a/m", asked)
            return caught.value, count, str(host.bodies[-1])

    error, count, healed = asyncio.run(main())
    assert count == 1
    assert 'media = [] under [models."a/m"]' in str(error)
    assert "image_url" not in healed and "[image omitted]" in healed


def test_one_model_alone_raises_its_own_error() -> None:
    error, _ = _chain([[Refusal(500, "alpha")]])
    assert isinstance(error, Overloaded) and str(error) == "a 500: alpha"


async def _answers(client: Client, models: list[str], whole: bool) -> Turn:
    return await (client.complete(models, ASKED) if whole else client.stream(models, ASKED).result())


@pytest.mark.parametrize("whole", [False, True])
def test_a_host_that_keeps_failing_is_left_alone_where_another_model_can_answer(whole: bool) -> None:
    async def main() -> None:
        async with Host([Refusal(500)]) as first, Host([Answer("from b")]) as second:
            for breaker, asked in ((Breaker(failures=2), 2), (None, 6)):
                del first.server.seen[:]
                async with scripted.client(breaker, a=first.base, b=second.base) as client:
                    for _ in range(6):
                        assert (await _answers(client, ["a/m", "b/m"], whole)).text == "from b"
                    assert len(first.bodies) == asked
                    # Alone, or last of a chain, it is asked however often it failed.
                    for models in (["a/m"], ["a/m", "a/m"]):
                        with pytest.raises(MidstreamError):
                            await _answers(client, models, whole)
                    assert len(first.bodies) == asked + (2 if breaker else 3)

    asyncio.run(main())


@pytest.mark.parametrize("whole", [False, True])
def test_a_hiccup_loses_no_batch(whole: bool) -> None:
    """Many at once, the first of them failures: without another model to go to, each request goes out."""

    async def main() -> list[Any]:
        async with Host([*[Refusal(500)] * 60, Answer("ok")]) as host, scripted.client(a=host.base) as client:
            async with asyncio.TaskGroup() as group:
                first = [group.create_task(_settled(_answers(client, ["a/m"], whole))) for _ in range(60)]
            assert len(host.bodies) == 60
            async with asyncio.TaskGroup() as group:
                second = [group.create_task(_settled(_answers(client, ["a/m"], whole))) for _ in range(20)]
            assert all(isinstance(each.result(), Overloaded) for each in first)
            return [each.result() for each in second]

    assert [turn.text for turn in asyncio.run(main())] == ["ok"] * 20


async def _settled(answer: Coroutine[Any, Any, Turn]) -> Turn | MidstreamError:
    try:
        return await answer
    except MidstreamError as error:
        return error


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("left", ["cancelled", "429"])
def test_a_trial_without_a_verdict_does_not_shut_the_host(left: str, whole: bool) -> None:
    async def main() -> tuple[Turn, int]:
        now = 0.0
        gone = Stall(Answer("x"), 0) if left == "cancelled" else Refusal(429, headers=("retry-after: 1",))
        script = [Refusal(500), Refusal(500), gone, Answer("from a")]
        async with Host(script) as first, Host([Answer("from b")]) as second:
            breaker = Breaker(failures=2, clock=lambda: now)
            async with scripted.client(breaker, a=first.base, b=second.base) as client:
                models = ["a/m", "b/m"]
                for _ in range(4):
                    await _answers(client, models, whole)
                assert len(first.bodies) == 2
                now = 30.0
                trial = asyncio.ensure_future(_answers(client, models, False))
                if left == "cancelled":
                    while len(first.bodies) < 3:  # noqa: ASYNC110
                        await asyncio.sleep(0)
                    trial.cancel()
                    await asyncio.wait([trial])
                else:
                    assert (await trial).text == "from b"
                return await _answers(client, models, whole), len(first.bodies)

    turn, asked = asyncio.run(main())
    assert turn.text == "from a" and asked == 4


CUT_AT_ONCE, CUT_LATER = Cut(Answer("one two"), 0), Cut(Answer("one two"), 3)


@pytest.mark.parametrize("retries", [0, 1, 2])
@pytest.mark.parametrize(
    "items, by_session, by_agent",
    [
        ([Refusal(500), Refusal(500), CUT_AT_ONCE], (1, 2, 3), (1, 2, 3)),
        ([CUT_AT_ONCE, Refusal(500), Refusal(500)], (1, 2, 3), (2, 2, 3)),
        ([Said(OVERLOADED), Refusal(500)], (1, 2, 3), (1, 2, 3)),
        ([CUT_LATER], (1, 1, 1), (2, 2, 2)),  # only an agent requests it again, once by default
        ([Refusal(500), Refusal(500), CUT_LATER], (1, 2, 3), (1, 2, 3)),
        ([Refusal(500), CUT_LATER], (1, 2, 2), (1, 2, 3)),
    ],
)
def test_one_count_for_all_requests_of_one_answer(
    items: list[Item], by_session: tuple[int, ...], by_agent: tuple[int, ...], retries: int
) -> None:
    """Refused, cut, refused again: whichever part of the program requests it again, it is one answer of one model."""

    async def main(agent: bool) -> int:
        transport = TransportOptions(retry=RetryPolicy(max_retries=retries, initial=0))
        async with (
            Host(items * 10) as host,
            Client(scripted.catalog(a=host.base), transport=transport) as client,
            Session("a/m", client=client) as session,
        ):
            with suppress(MidstreamError):
                await (Agent(session, []).run("Hi") if agent else session.send("Hi"))
            return len(host.bodies)

    assert (asyncio.run(main(False)), asyncio.run(main(True))) == (by_session[retries], by_agent[retries])


def test_each_model_of_a_chain_has_its_own_count() -> None:
    async def main() -> list[int]:
        transport = TransportOptions(retry=RetryPolicy(max_retries=2, initial=0))
        async with Host([Refusal(500), Said(OVERLOADED)] * 10) as first, Host([Said(OVERLOADED)]) as second:
            catalog = scripted.catalog(a=first.base, b=second.base)
            async with Client(catalog, transport=transport) as client:
                for whole in (False, True):
                    with suppress(MidstreamError):
                        await _answers(client, ["a/m", "b/m"], whole)
            return [len(first.bodies), len(second.bodies)]

    assert asyncio.run(main()) == [6, 6]


def test_no_model_and_an_unknown_one_are_said_before_anything_is_sent() -> None:
    async def act(host: Host, client: Client) -> None:
        with pytest.raises(LocalError, match="no model"):
            await client.complete([], ASKED)
        with pytest.raises(UnknownModel):
            await client.stream("nowhere/x", ASKED)
        with pytest.raises(MissingKey, match="MOONSHOT_API_KEY"):
            await client.stream("moonshot/kimi-k2.5", ASKED)
        assert host.bodies == []

    play([Answer("x")], act)


@pytest.mark.parametrize(
    "name, other",
    [
        ("moonshot/kimi-k2.5", "api.moonshot.cn"),
        ("moonshot-cn/kimi-k2.5", "api.moonshot.ai"),
        ("kimi-coding/kimi-for-coding", "api.moonshot.ai"),
    ],
)
def test_a_refused_key_of_moonshot_suggests_the_other_host(name: str, other: str) -> None:
    error = Unauthorized("Invalid Authentication", status=401)
    explain(error, resolve(name))
    assert other in str(error) and "not interchangeable" in str(error)
    assert error.provider == resolve(name).provider


def test_other_hosts_and_other_errors_get_no_such_hint() -> None:
    refused, limited = Unauthorized("no", status=401), Overloaded("busy", status=503)
    explain(refused, resolve("openai/gpt-4o"))
    explain(limited, resolve("moonshot/kimi-k2.5"))
    assert str(refused) == "openai 401: no" and str(limited) == "moonshot 503: busy"


def test_a_refusal_of_a_request_without_a_key_names_the_variable() -> None:
    error, open_host = Unauthorized("bad key", status=401), Unauthorized("no", status=401)
    explain(error, resolve("moonshot/kimi-k2.5"), keyless=True)
    assert str(error) == "moonshot 401: bad key. No key was sent: MOONSHOT_API_KEY is not set"
    explain(open_host, resolve("ollama/qwen3"), keyless=True)
    assert str(open_host) == "ollama 401: no"
    target = resolve("moonshot/kimi-k2.5")
    for changes in ({"auth": "none"}, {"key_env": ()}):
        unnamed = Unauthorized("no", status=401)
        explain(unnamed, replace(target, endpoint=replace(target.endpoint, **changes)), keyless=True)
        assert str(unnamed) == "moonshot 401: no"


def test_a_key_that_the_configuration_names_and_nobody_set_is_told_of_when_the_host_refuses() -> None:
    """A host on this machine is asked without one: most need none."""
    with sim_server("Hi.", key="k-1") as sim:
        work = ProviderConfig(base_url=sim.base_url("openai"), api_key_env="WORK_KEY")
        catalog = Catalog(Config(providers={"work": work}), environ={})
        told = r"No key was sent: WORK_KEY is not set$"
        with SyncSession("work/gpt-4o", client=Client(catalog)) as session, pytest.raises(Unauthorized, match=told):
            session.send("Hi").result()
        wrong = Catalog(Config(providers={"work": work}), environ={"WORK_KEY": "k-2"})
        with SyncSession("work/gpt-4o", client=Client(wrong)) as session, pytest.raises(Unauthorized) as caught:
            session.send("Hi").result()
        assert "No key was sent" not in str(caught.value)


_TAKE_NO_TOOLS = (
    "this server does not support tools",
    "registry.ollama.ai/library/gemma3:4b does not support tools",
    '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
    "tool calling is not supported by this model",
    "No endpoints found that support tool use",
)


@pytest.mark.parametrize("said", _TAKE_NO_TOOLS)
def test_a_host_that_takes_no_tools_is_answered_with_how_to_say_so(said: str) -> None:
    error = BadRequest(said, status=400)
    explain(error, resolve("vllm/gemma3"))
    assert str(error).startswith(f"vllm 400: {said}. If this model takes no tools, say tools = false under ")
    assert '[models."vllm/gemma3"] in config.toml' in str(error)


@pytest.mark.parametrize("said", ["tools.0.name: too long", "this tool id is unknown", "temperature is not supported"])
def test_other_refusals_are_left_as_they_are(said: str) -> None:
    error = BadRequest(said, status=400)
    explain(error, resolve("vllm/gemma3"))
    assert str(error) == f"vllm 400: {said}"


def test_closing_a_reply_closes_the_connection() -> None:
    async def act(host: Host, client: Client) -> None:
        async with client.stream("a/m", ASKED) as reply:
            async for event in reply:
                if isinstance(event, TextDelta):
                    break
        async with asyncio.timeout(20):
            await host.server.all_closed()

    play([scripted.Stall(Answer("one two three"), 3)], act)


def test_the_functions_of_the_module_make_and_close_a_client() -> None:
    async def main() -> None:
        async with Host([Answer("hello")]) as host:
            catalog = scripted.catalog(a=host.base)
            assert (await stream("a/m", "hi", catalog=catalog)).text == "hello"
            assert (await complete("a/m", ASKED, catalog=catalog)).text == "hello"
            assert [body["messages"][0]["content"] for body in host.bodies] == ["hi", "hi"]

    asyncio.run(main())


@each_once(("shape", ["an error", "an error as a stream", "the key beyond what is quoted"]), ("whole", [False, True]))
def test_a_key_the_peer_echoes_after_a_good_status_is_in_no_error(shape: str, whole: bool) -> None:
    key = "sk-canary-0123456789abcdef"

    async def echo(wire: Wire, seen: Seen) -> None:
        pad = "x" * 480 if "beyond" in shape else ""
        body = msgspec.json.encode({"error": {"message": f"{pad}Incorrect API key provided: {key}", "code": key}})
        as_stream = "stream" in shape or not whole
        body = b"data: " + body + b"\n\n" if as_stream else body
        await wire.answer(body, 200, f"content-type: {'text/event-stream' if as_stream else 'application/json'}")

    async def main() -> str:
        async with Server(echo) as server, Client(scripted.catalog(a=server.base), api_key=key) as client:
            if whole:
                with pytest.raises(MidstreamError) as caught:
                    await client.complete("a/m", ASKED)
                return f"{caught.value!r} {caught.value} {vars(caught.value)}"
            reply = client.stream("a/m", ASKED)
            events = [event async for event in reply]
            return f"{reply.error} {events[-1]}"

    told = asyncio.run(main())
    assert "Incorrect" in told or "beyond" in shape
    assert key[:14] not in told


@pytest.mark.parametrize("whole", [False, True])
def test_a_latency_is_in_milliseconds(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that is a second on at each look."""
    ticks = itertools.count()
    monkeypatch.setattr(
        "midstream.client.client.time", SimpleNamespace(monotonic=lambda: float(next(ticks)), time=lambda: 9.5)
    )

    async def act(host: Host, client: Client) -> None:
        turn = await (client.complete("a/m", ASKED) if whole else client.stream("a/m", ASKED))
        assert turn.latency_ms is not None and turn.latency_ms >= 1000 and turn.latency_ms % 1000 == 0
        assert turn.answered_at == 9.5
        # The first piece of a stream came before its end; a whole answer has no first piece.
        if whole:
            assert turn.ttft_ms is None
        else:
            assert turn.ttft_ms is not None and 1000 <= turn.ttft_ms < turn.latency_ms

    play([Answer("hello")], act)


def test_the_headers_of_an_endpoint_and_a_key_are_joined_once_and_no_more_than_a_bound_is_kept() -> None:
    names = [f"h{number}" for number in range(200)]
    hosts = {name: ProviderConfig(base_url="http://127.0.0.1:9", headers={"x-host": name}) for name in names}
    secret, request = SecretHeaders({"x-api-key": "k"}), Request("POST", "/chat", {}, b"{}")

    async def main() -> None:
        async with Client(Catalog(Config(providers=hosts), environ={}, fixed=True)) as client:

            def joined(name: str) -> SecretHeaders:
                return client._addressed(_Sent(client.catalog.resolve(f"{name}/m"), request), secret)[1]

            first = {name: joined(name) for name in names[:64]}
            for name, headers in first.items():
                assert headers.reveal() == {"x-host": name, "x-api-key": "k"}
                assert joined(name) is headers
            for name in names:
                joined(name)
                assert len(client._joined) <= 64

    asyncio.run(main())
