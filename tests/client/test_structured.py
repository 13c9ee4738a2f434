"""Answers by a schema: the same schemas at every wire's double, answers that break them, and what stays of it all."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest
from jsonschema import Draft202012Validator

from midstream import Agent, Client, Options, Session, SyncAgent, SyncSession, complete_sync
from midstream.client.answer_type import AnswerType
from midstream.client.catalog import Catalog
from midstream.client.config import Config, ProviderConfig
from midstream.codec import encode_request
from midstream.core.answer_schemas import WRAPPED, is_object
from midstream.core.blocks import Conversation, Text, Turn, human
from midstream.core.errors import InvalidSchema, LocalError, Overloaded, SchemaMismatch
from midstream.core.events import Done, ErrorEvent, Start
from midstream.core.lifecycle import check
from midstream.core.tools import ToolSpec
from midstream.sim.answer import Answer, Call
from midstream.sim.players import make_players
from midstream.sim.rules.hosts import judge
from midstream.store import MemoryStore
from midstream.testing import sim_server
from midstream.testing.server import SimServer
from midstream.transport.options import RetryPolicy, TransportOptions
from tests.long_run import each_once
from tests.representatives import dialect_cases

DATA = Path(__file__).parents[1] / "data" / "schemas"
CASES = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(DATA.glob("*.json"))}
# One model for every wire, and for every way of asking.
MODELS: dict[str, tuple[str, Options]] = {
    "openai-chat": ("openai/gpt-4o", Options()),
    "openai-chat thinking": ("openai/gpt-5.2", Options(effort="high")),
    "json": ("moonshot/kimi-k2.5", Options()),
    "json without thinking": ("deepseek/deepseek-chat", Options()),
    "tool": ("qwen/qwen-plus", Options()),
    "words": ("minimax/MiniMax-M2", Options()),
    "grammar": ("vllm/some-model", Options()),
    "mistral": ("mistral/mistral-large-latest", Options()),
    "openai-responses": ("openai-responses/gpt-5.2", Options()),
    "anthropic": ("anthropic/claude-sonnet-4-5", Options()),
    "anthropic thinking": ("anthropic/claude-sonnet-4-5", Options(thinking="on")),
    "anthropic by a tool": ("anthropic/claude-sonnet-4-0", Options()),
    "anthropic by words": ("anthropic/claude-sonnet-4-0", Options(thinking="on")),
    "gemini": ("gemini/gemini-2.5-flash", Options()),
    "ollama": ("ollama/qwen3:4b", Options()),
    "cohere": ("cohere/command-a-03-2025", Options()),
    "cohere thinking": ("cohere/command-a-reasoning-08-2025", Options()),
    "completion": ("deepinfra/moonshotai/Kimi-K2.5", Options(path="native")),
}
WIRES = (
    "openai-chat",
    "openai-responses",
    "anthropic",
    "anthropic by a tool",
    "gemini",
    "ollama",
    "cohere",
    "completion",
    "json",
)


class Person(msgspec.Struct):
    name: str
    age: int
    nick: str | None = None


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0


class Row(TypedDict):
    word: str
    count: int


class Pet(pydantic.BaseModel):
    name: str
    legs: int = pydantic.Field(ge=0, le=8)


Act = Callable[[Session, SimServer], Coroutine[Any, Any, Any]]


def talk(model: str, act: Act, *, options: Options | None = None, script: Any = None, **more: Any) -> Any:
    async def main(sim: SimServer) -> Any:
        async with sim.client() as client:
            session = Session(model, client=client, options=options, **more)
            return await act(session, sim)

    with sim_server(script=script) as sim:
        return asyncio.run(main(sim))


def says(*values: Any) -> Any:
    """A model that gives these answers in order, the last again and again, by text or by the tool that it was given."""
    left = list(values)

    def script(conversation: Conversation, tools: Sequence[ToolSpec], *, model: str, thinks: bool) -> Answer:
        value = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(value, Answer):
            return value
        if not any(tool.name == "answer" for tool in tools):
            return Answer(json.dumps(value, ensure_ascii=False))
        tool = next(tool for tool in tools if tool.name == "answer")
        inside = list((tool.parameters or {}).get("properties", {})) == [WRAPPED] and not isinstance(value, dict)
        return Answer(
            calls=(Call("answer", {WRAPPED: value} if inside else value if isinstance(value, dict) else {"?": value}),)
        )

    return script


@pytest.mark.parametrize("kind", MODELS)
def test_every_schema_at_every_double_gives_a_valid_value_or_a_typed_error(kind: str) -> None:
    model, options = MODELS[kind]
    valid: list[str] = []

    async def act(_: Session, sim: SimServer) -> None:
        async with sim.client() as client:
            for name, case in CASES.items():
                session = Session(model, client=client, options=options)
                try:
                    value = await session.send("Invent one.", schema=case["schema"]).value()
                except SchemaMismatch as error:
                    assert error.places and error.text
                    assert [turn.failure for turn in session.conversation.turns[1:]] == [SchemaMismatch.kind] * 2, name
                else:
                    assert Draft202012Validator(case["schema"]).is_valid(value), (name, value)
                    valid.append(name)
        assert sim.refused == []

    talk(model, act)
    assert len(valid) >= 24, f"{len(valid)} of {len(CASES)}; not {set(CASES) - set(valid)}"


@pytest.mark.parametrize("kind", WIRES)
def test_what_the_model_says_arrives_as_it_was_said(kind: str) -> None:
    model, options = MODELS[kind]

    async def one(name: str, value: Any) -> None:
        async def act(session: Session, sim: SimServer) -> None:
            found = await session.send("Invent one.", schema=CASES[name]["schema"]).value()
            assert found == value, name
            assert sim.requests == 1 and sim.refused == []
            answer = session.conversation.turns[-1]
            assert not answer.tool_calls and answer.stop_reason == "end_turn" and not answer.failure

        with sim_server(script=says(value)) as sim:
            async with sim.client() as client:
                await act(Session(model, client=client, options=options), sim)

    async def main() -> None:
        for name, case in CASES.items():
            for value in case["valid"][:1]:
                if kind == "anthropic by a tool" and not isinstance(value, dict) and is_object(case["schema"]):
                    continue
                await one(name, value)

    asyncio.run(main())


@pytest.mark.parametrize("kind", WIRES)
def test_an_answer_that_breaks_its_schema_once_is_healed(kind: str) -> None:
    model, options = MODELS[kind]
    store = MemoryStore()

    async def act(session: Session, sim: SimServer) -> None:
        await session.send("Hello")
        reply = session.send("Who?", schema=Person)
        events = [event async for event in reply]
        assert await reply.value() == Person("Ada", 36)
        assert reply.error is None and sim.requests == 3 and sim.refused == []
        again = [number for number, event in enumerate(events) if isinstance(event, Start)]
        assert len(again) == 2
        check(events[: again[1]])
        check(events[again[1] :])
        failed = events[again[1] - 1]
        assert isinstance(failed, ErrorEvent) and failed.error.kind == "schema_mismatch"
        assert isinstance(events[-1], Done)
        reproach = json.dumps(sim.seen[-1].body)
        assert "expected integer" in reproach and "does not follow" in reproach
        turns = session.conversation.turns
        assert [turn.speaker for turn in turns] == ["human", "ai", "human", "ai", "ai"]
        assert [turn.failure for turn in turns] == ["", "", "", "schema_mismatch", ""]
        assert all(turn.usage is not None for turn in turns if turn.speaker == "ai")  # what was spent is kept
        assert store.load(session.conversation.id) == session.conversation
        # Later requests know nothing of the failed answer, nor of the words around it.
        session.options = Options()
        session.switch_model("anthropic/claude-sonnet-4-5")
        await session.send("Thanks")
        later = json.dumps(sim.seen[-1].body)
        assert "does not follow" not in later and "JSON schema" not in later and "thirty" not in later
        assert sim.refused == []

    script = says(Answer("Hi."), {"name": "Ada", "age": "thirty"}, {"name": "Ada", "age": 36}, Answer("Gladly."))
    talk(model, act, options=options, script=script, store=store)


@pytest.mark.parametrize("kind", WIRES)
def test_an_answer_that_always_breaks_its_schema_is_a_typed_error(kind: str) -> None:
    model, options = MODELS[kind]

    async def act(session: Session, sim: SimServer) -> None:
        reply = session.send("Who?", schema=Person)
        with pytest.raises(SchemaMismatch, match="age") as raised:
            await reply.value()
        assert raised.value.places == ['$.age: expected integer, got "x"'] and '"x"' in raised.value.text
        turn = await reply
        assert turn.failure == "schema_mismatch" and reply.error is not None
        assert sim.requests == 2 and sim.refused == []
        session.options = Options()
        for other in ("openai/gpt-4o", "anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-flash", "moonshot/kimi-k3"):
            session.switch_model(other)
            await session.send("Go on.")
        assert sim.refused == []

    talk(model, act, options=options, script=says({"name": "Ada", "age": "x"}))


TYPES: tuple[tuple[Any, Any, Any], ...] = (
    (Person, {"name": "Ada", "age": 36}, Person("Ada", 36)),
    (Point, {"x": 1.5}, Point(1.5)),
    (Row, {"word": "a", "count": 2}, {"word": "a", "count": 2}),
    (Pet, {"name": "Rex", "legs": 4}, Pet(name="Rex", legs=4)),
    (pydantic.TypeAdapter(list[Pet]), [{"name": "Rex", "legs": 4}], [Pet(name="Rex", legs=4)]),
    (list[Person], [{"name": "Ada", "age": 36}], [Person("Ada", 36)]),
    (int, 7, 7),
    (dict[str, int], {"a": 1}, {"a": 1}),
    ({"type": "array", "items": {"type": "integer"}}, [1, 2], [1, 2]),
)


@each_once(("given, said, value", TYPES), ("kind", ["openai-chat", "anthropic by a tool", "words"]))
def test_types_give_values_of_their_own(kind: str, given: Any, said: Any, value: Any) -> None:
    model, options = MODELS[kind]

    async def act(session: Session, _: SimServer) -> None:
        assert await session.send("Go", schema=given).value() == value

    talk(model, act, options=options, script=says(said))


def test_a_pydantic_model_says_what_is_wrong_with_an_answer() -> None:
    class Even(pydantic.BaseModel):
        n: int

        @pydantic.field_validator("n")
        @classmethod
        def _even(cls, n: int) -> int:
            if n % 2:
                raise ValueError("must be even")
            return n

    class Pairs(pydantic.BaseModel):
        pairs: list[Even]

    async def act(session: Session, sim: SimServer) -> None:
        assert await session.send("Go", schema=Pairs).value() == Pairs(pairs=[Even(n=2), Even(n=4)])
        assert "$.pairs[1].n: Value error, must be even" in json.dumps(sim.seen[-1].body)

    talk("openai/gpt-4o", act, script=says({"pairs": [{"n": 2}, {"n": 3}]}, {"pairs": [{"n": 2}, {"n": 4}]}))


@pytest.mark.parametrize("given", [object(), 3, lambda: None, Person | Point, {1: 2}])
def test_what_is_no_schema_is_refused_before_anything_is_sent(given: Any) -> None:
    with pytest.raises(InvalidSchema):
        AnswerType(given)


TEXTS = (
    ('{"name":"Ada","age":36}', True),
    ('  \n{"name":"Ada","age":36}\n', True),
    ('```json\n{"name": "Ada", "age": 36}\n```', True),
    ('Sure! Here it is:\n\n```\n{"name": "Ada", "age": 36}\n```\nAnything else?', True),
    ('The person is {"name": "Ada", "age": 36}, as you see.', True),
    ('First {"name": "Bob"} and then {"name": "Ada", "age": 36}.', True),
    ('{"name":"Ada","age":36,"nick":null}', True),
    ('{"name":"Ada"', False),
    ("Ada, 36", False),
    ("", False),
    ("[" * 5000, False),
    ("```\n" * 50_000, False),
    ('```json\n{"name": "Bob"}\n```\nNo, this:\n```json\n{"name": "Ada", "age": 36}\n```', True),
    ('{"name": NaN, "age": 36} or {"name": "Ada", "age": 36}', True),
    ("null", False),
)


@pytest.mark.parametrize(("text", "valid"), TEXTS)
def test_the_value_is_found_in_what_a_model_says(text: str, valid: bool) -> None:
    answer: AnswerType[Person] = AnswerType(Person)
    turn = Turn("ai", (Text(text),))
    if valid:
        assert answer.read(turn) == Person("Ada", 36)
    else:
        with pytest.raises(SchemaMismatch) as raised:
            answer.read(turn)
        assert raised.value.text == text and raised.value.places


@pytest.mark.parametrize("text", ["[1,2]", '{"value":[1,2]}', '```\n{"value": [1, 2]}\n```'])
def test_an_answer_inside_an_object_is_taken_out(text: str) -> None:
    assert AnswerType[list[int]](list[int]).read(Turn("ai", (Text(text),))) == [1, 2]
    inside = {"type": "object", "properties": {"value": {"type": "array"}}, "required": ["value"]}
    if text[0] == "{":  # one that is meant to have that property keeps it
        assert AnswerType[Any](inside).read(Turn("ai", (Text(text),))) == {"value": [1, 2]}


def test_a_null_for_what_need_not_be_there_is_nothing() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}
    assert AnswerType[Any](schema).read(Turn("ai", (Text('{"a":"x","b":null}'),))) == {"a": "x"}


def test_an_answer_that_was_cut_off_is_not_asked_for_again() -> None:
    async def act(session: Session, sim: SimServer) -> None:
        with pytest.raises(SchemaMismatch, match="token limit"):
            await session.send("Who?", schema=Person).value()
        assert sim.requests == 1

    def cut(*_: Any, **__: Any) -> Answer:
        return Answer('{"name": "A', length_stop=True)

    talk("openai/gpt-4o", act, script=cut)


def test_the_text_of_an_answer_is_given_once_and_only_when_it_is_right() -> None:
    async def act(session: Session, _: SimServer) -> None:
        reply = session.send("Who?", schema=Person)
        assert [text async for text in reply.iter_text()] == ['{"name": "Ada", "age": 36}']

    talk("openai/gpt-4o", act, script=says({"name": "A"}, {"name": "Ada", "age": 36}))


def test_an_error_at_the_second_attempt_is_an_event() -> None:
    async def main(sim: SimServer) -> None:
        once = TransportOptions(retry=RetryPolicy(max_retries=0))
        async with sim.client(transport=once) as client:
            session = Session("openai/gpt-4o", client=client)
            reply = session.send("Who?", schema=Person)
            events = []
            async for event in reply:
                events.append(event)
                if isinstance(event, ErrorEvent) and len(events) < 8:
                    sim.inject("500")
            assert reply.error is not None and reply.error.kind == "overloaded" and isinstance(events[-2], Start)
            assert [turn.failure for turn in session.conversation.turns] == ["", "schema_mismatch"]
            with pytest.raises(Overloaded):
                await reply.value()

    with sim_server(script=says({"name": "A"})) as sim:
        asyncio.run(main(sim))


def test_a_session_without_async_and_complete_take_a_schema_too() -> None:
    script = says({"name": "Ada"}, {"name": "Ada", "age": 36})
    with sim_server(script=script) as sim, SyncSession("gemini/gemini-2.5-flash", client=sim.client()) as session:
        reply = session.send("Who?", schema=Person)
        assert reply.value() == Person("Ada", 36) and reply.error is None
        assert list(session.send("Who?", schema=Person).iter_text()) == ['{"name": "Ada", "age": 36}']
    with sim_server(script=says({"name": "Ada"}, {"name": "Ada", "age": 36})) as sim:
        found = complete_sync("anthropic/claude-sonnet-4-0", "Who?", schema=Person, catalog=sim.catalog())
        assert found.value == Person("Ada", 36) and found.turn.text == '{"name":"Ada","age":36}'
        assert found.rejected is not None and found.rejected.failure == "schema_mismatch"
        assert complete_sync("openai/gpt-4o", "Who?", catalog=sim.catalog()).text
    with sim_server(script=says({"name": "Ada"})) as sim, pytest.raises(SchemaMismatch):
        complete_sync("ollama/qwen3:4b", "Who?", schema=Person, catalog=sim.catalog())


@pytest.mark.parametrize("kind", [kind for kind in WIRES if kind != "completion"])
def test_an_agent_runs_its_tools_and_ends_with_the_value(kind: str) -> None:
    model, options = MODELS[kind]

    def script(conversation: Conversation, tools: Sequence[ToolSpec], *, model: str, thinks: bool) -> Answer:
        results = [turn for turn in conversation.turns if turn.speaker == "tool"]
        if not results:
            return Answer(calls=(Call("age_of", {"name": "Ada"}),))
        age = results[-1].tool_responses[0].text
        return Answer(json.dumps({"name": "Ada", "age": age if bad.pop() else int(age)}))

    def age_of(name: str) -> int:
        """How old somebody is."""
        return 36

    bad = [False, True]

    async def act(session: Session, sim: SimServer) -> None:
        result = await Agent(session, [age_of]).run("How old is Ada?", schema=Person)
        assert result.value == Person("Ada", 36) and result.reason == "text"
        assert sim.refused == [] and sim.requests == 3
        bad[:] = [True, True]
        failed = await Agent(session, [age_of]).run("Again", schema=Person)
        assert failed.value is None and failed.reason == "failed"
        with pytest.raises(SchemaMismatch):
            failed.raise_for_failure()

    talk(model, act, options=options, script=script)


def test_an_agent_without_async_too() -> None:
    with (
        sim_server(script=says({"name": "Ada", "age": 36})) as sim,
        SyncSession("openai/gpt-4o", client=sim.client()) as session,
    ):
        assert SyncAgent(session, []).run("Who?", schema=Person).result().value == Person("Ada", 36)


@pytest.mark.parametrize(
    ("ways", "tool", "words"), [(["tool"], "answer", False), ([], "", True), (["schema"], "", False)]
)
def test_a_host_of_ones_own_may_have_other_ways(ways: list[str], tool: str, words: bool) -> None:
    mine = ProviderConfig(base_url="http://127.0.0.1:1/v1", dialect={"answer_ways": ways})
    catalog = Catalog(Config(providers={"mine": mine}), environ={})
    request = encode_request(catalog.resolve("mine/model"), "Hi", options=Options(schema=CASES["person"]["schema"]))
    assert request.answer_tool == tool and (b"JSON schema" in request.body) is words


def test_an_answer_with_calls_has_no_value_yet() -> None:
    def calls(*_: Any, **__: Any) -> Answer:
        return Answer(calls=(Call("look", {}),))

    async def act(session: Session, _: SimServer) -> None:
        with pytest.raises(LocalError, match="calls tools"):
            await session.send("Who?", schema=Person).value()

    talk("openai/gpt-4o", act, script=calls, tools=[ToolSpec("look", "Look.", {"type": "object", "properties": {}})])


PLAYERS = make_players()
TOOL = ToolSpec("look", "Look.", {"type": "object", "properties": {}})
ASKED = Conversation((human("Hello"), Turn("ai", (Text("Hi."),)), human("Invent one.")))


@pytest.mark.parametrize(
    "name",
    dialect_cases(
        "answer_ways", "answer_pass", "answer_beside_tools", "schema", "forced_choice_thinking", "reasoning.control"
    ),
)
def test_no_double_of_any_dialect_refuses_a_request_with_a_schema(name: str) -> None:
    player = PLAYERS[name]
    for kind, case in CASES.items():
        asked = Options(schema=case["schema"], path="chat" if player.target.dialect.native is not None else None)
        rows: list[tuple[Options, tuple[ToolSpec, ...]]] = [(asked, ())]
        if kind in ("person", "top-level-array", "tree"):
            rows += [(msgspec.structs.replace(asked, thinking="on"), ()), (asked, (TOOL,))]
        for options, tools in rows:
            request = encode_request(player.target, ASKED, tools=tools, options=options, cache=None)
            problems = judge(request.body, player.host)
            assert not problems, (kind, problems, request.body)


@pytest.mark.parametrize("kind", MODELS)
def test_what_is_said_of_a_schema_comes_last_and_the_rest_begins_the_next_request(kind: str) -> None:
    model, options = MODELS[kind]
    if kind == "completion":
        pytest.skip("a prompt is one text")
    client = Client(remember=True)
    said = Conversation((human("One"), Turn("ai", (Text("Two."),)), human("Three")))
    plain = client.encode(model, said, options=options).body
    by_schema = client.encode(
        model, said, options=msgspec.structs.replace(options, schema=CASES["person"]["schema"])
    ).body
    after = client.encode(model, said.add(Turn("ai", (Text("Four."),)), human("Five")), options=options).body
    field = {"openai-responses": "input", "gemini": "contents"}.get(kind, "messages")
    bare, asked, later = [json.loads(body)[field] for body in (plain, by_schema, after)]
    if asked != bare:  # told in words, behind all that was said
        assert "JSON schema" in json.dumps(asked[-1])
        kept = (
            [*asked[:-1], {**asked[-1], "content": asked[-1]["content"][:-1]}]
            if len(asked) == len(bare)
            else asked[:-1]
        )
        assert kept == bare
    assert later[: len(bare)] == bare and "JSON schema" not in json.dumps(later)
