"""Judges that nobody here wrote: the official SDKs' own types and the Open Responses schemas accept all that we write.

Every event of 100 answers on each wire, and every body, goes through the types of the wire's own client (group `e2e` of
pyproject.toml). What they do not name is on a list, with its reason. A damaged answer shows that each judge can refuse.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from msgspec.structs import replace

from midstream.core.events import Event
from midstream.wires.answer import AnswerContext, Habits, make_writer
from tests.wires.answers import Act, Answer, answers, last_turn, speak

CONTEXT = AnswerContext(
    "m", "resp_1", 1_790_000_000, include=("reasoning.encrypted_content",), input_tokens=7, request_id="req_1"
)
Judge = Callable[[dict[str, Any]], Any]
"""Raises for what it does not accept."""

EXTRA: dict[str, dict[str, str]] = {
    "openai-chat": {
        "reasoning_content": "the field that hosts of reasoning models added to this wire",
        "cost": "OpenRouter's: what the answer cost, where that is known",
        "cache_write_tokens": "tokens written to a cache, where there are any",
        "annotations": "in a stream; the types have it in bodies only",
    },
    "openai-responses": {
        "presence_penalty": "in the Open Responses schema",
        "frequency_penalty": "in the Open Responses schema",
        "cache_write_tokens": "xAI's and others'; beside the counts that are required",
        "store": "in the Open Responses schema",
        "name": "on the end of a call's arguments: the types of earlier SDKs require it",
        "status": "on calls of free-form tools, like on every other item",
    },
    "anthropic": {},
    "ollama": {"id": "newer servers give calls one; the client passes over it"},
    "cohere": {
        "content": "empty in message-start, as the host sends it",
        "citations": "empty in message-start, as the host sends it",
        "tool_calls": "empty in message-start, as the host sends it",
        "tool_plan": "empty in message-start, as the host sends it",
        "reasoning_tokens": "beside the other counts, as the host sends it",
    },
    "completion": {"cost": "as on the chat wire", "cache_write_tokens": "as on the chat wire"},
}
"""Fields that an SDK's types keep but do not name, and why they are written."""


def need(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        pytest.skip(f"NOT JUDGED: {name} is not installed; run `make test-e2e`, which installs it")


@cache
def adapter(kind: Any, wire: str) -> Judge:
    """A type as a judge, which also looks at every field that the type does not name."""
    pydantic = need("pydantic")
    checked = pydantic.TypeAdapter(kind)

    def judge(value: dict[str, Any]) -> Any:
        made = checked.validate_python(value)
        unknown = set(_unnamed(made, pydantic)) - set(EXTRA[wire])
        assert not unknown, f"fields that the types do not name: {unknown}"
        return made

    return judge


def _unnamed(value: Any, pydantic: Any) -> list[str]:
    found: list[str] = []
    if isinstance(value, pydantic.BaseModel):
        found += list(value.model_extra or ())
        for name in type(value).model_fields:
            found += _unnamed(getattr(value, name, None), pydantic)
    elif isinstance(value, list):
        for item in value:
            found += _unnamed(item, pydantic)
    return found


def chat() -> tuple[Judge, Judge]:
    types = need("openai.types.chat")
    return adapter(types.ChatCompletionChunk, "openai-chat"), adapter(types.ChatCompletion, "openai-chat")


def responses() -> tuple[Judge, Judge]:
    types = need("openai.types.responses")
    return adapter(types.ResponseStreamEvent, "openai-responses"), adapter(types.Response, "openai-responses")


def open_responses() -> tuple[Judge, Judge]:
    types = need("openresponses_types.types")
    by_type = {}
    for name, kind in vars(types).items():
        if name.endswith("StreamingEvent"):
            by_type[next(iter(kind.model_fields["type"].annotation)).value] = kind

    def judge(value: dict[str, Any]) -> Any:
        return by_type[value["type"]].model_validate(value)

    return judge, types.ResponseResource.model_validate


def messages() -> tuple[Judge, Judge]:
    types = need("anthropic.types")
    return adapter(types.RawMessageStreamEvent, "anthropic"), adapter(types.Message, "anthropic")


def gemini() -> tuple[Judge, Judge]:
    types = need("google.genai.types")  # its models forbid fields that they do not name
    judge = types.GenerateContentResponse.model_validate
    return judge, judge


def ollama() -> tuple[Judge, Judge]:
    types = need("ollama")

    def judge(value: dict[str, Any]) -> Any:
        return types.ChatResponse(**value)

    return judge, judge


def cohere() -> tuple[Judge, Judge]:
    types = need("cohere")
    stream = adapter(types.V2ChatStreamResponse, "cohere")
    return stream, adapter(types.V2ChatResponse, "cohere")


def completion() -> tuple[Judge, Judge]:
    types = need("openai.types")
    judge = adapter(types.Completion, "completion")

    def judge_chunk(value: dict[str, Any]) -> Any:
        # The types know no chunk before the last: every host sends null there, and so does OpenAI.
        unsaid = [{**choice, "finish_reason": choice["finish_reason"] or "stop"} for choice in value["choices"]]
        return judge({**value, "choices": unsaid})

    return judge_chunk, judge


JUDGES: dict[str, tuple[str, Callable[[], tuple[Judge, Judge]]]] = {
    "openai": ("openai-chat", chat),
    "openai responses": ("openai-responses", responses),
    "open responses": ("openai-responses", open_responses),
    "anthropic": ("anthropic", messages),
    "google-genai": ("gemini", gemini),
    "ollama": ("ollama", ollama),
    "cohere": ("cohere", cohere),
    "openai completions": ("completion", completion),
}
UNNAMED_ITEMS = {"open responses": ("own",)}
"""Items that a judge has no type for: the built-in tools of one host are not in the open schema."""


def events_of(data: bytes, wire: str) -> list[dict[str, Any]]:
    """The JSON of every event; an array or lines as well. Keep-alives and errors have no type of their own."""
    if wire == "ollama":
        return [json.loads(line) for line in data.splitlines()]
    lines = data.replace(b"\r\n", b"\n").split(b"\n")
    return [json.loads(line[6:]) for line in lines if line.startswith(b"data: ") and line != b"data: [DONE]"]


def kept(answer: Answer, judge: str) -> Answer:
    gone = UNNAMED_ITEMS.get(judge, ())
    acts = tuple([act for act in answer.acts if act.kind not in gone])
    return replace(answer, acts=(*acts, Act("text", ("said",))), failure="")


def written(events: list[Event], wire: str, context: AnswerContext) -> bytes:
    writer = make_writer(wire, context)
    return b"".join([writer.event(event) for event in events])


@pytest.mark.parametrize("name", JUDGES)
@settings(max_examples=100, phases=[Phase.explicit, Phase.reuse, Phase.generate])  # types are slow: no shrinking
@given(answer=answers())
def test_every_event_and_body_is_what_the_wires_own_client_expects(name: str, answer: Answer) -> None:
    wire, make = JUDGES[name]
    judge_event, judge_body = make()
    events = speak(kept(answer, name), wire)
    for event in events_of(written(events, wire, CONTEXT), wire):
        judge_event(event)
    judge_body(json.loads(make_writer(wire, CONTEXT).body(last_turn(events))))


@pytest.mark.parametrize("name", ["openai responses", "open responses"])
def test_a_failed_response_is_what_clients_expect(name: str) -> None:
    wire, make = JUDGES[name]
    judge, _ = make()
    for failure in ("rate_limited", "truncated"):
        events = speak(Answer((Act("text", ("a",)),), failure=failure), wire)
        for event in events_of(written(events, wire, CONTEXT), wire):
            judge(event)


def test_a_gemini_array_is_made_of_the_same_chunks() -> None:
    judge, _ = gemini()
    events = speak(Answer((Act("text", ("a", "b")),)), "gemini")
    for chunk in json.loads(written(events, "gemini", replace(CONTEXT, array=True))):
        judge(chunk)


@pytest.mark.parametrize("habits", [Habits(usage="finish"), Habits(whole_calls=True), Habits(ids="own")])
def test_a_hosts_habits_are_within_the_types(habits: Habits) -> None:
    judge, _ = chat()
    events = speak(Answer((Act("call", ("{}",), "f"), Act("call", ("{", "}"), "f")), "tool_use"), "openai-chat")
    for event in events_of(written(events, "openai-chat", replace(CONTEXT, habits=habits)), "openai-chat"):
        judge(event)


@pytest.mark.parametrize("name", JUDGES)
def test_a_judge_refuses_damage(name: str) -> None:
    """The control: for every event and body some field can be broken so that the judge notices."""
    wire, make = JUDGES[name]
    judge_event, judge_body = make()
    events = speak(Answer((Act("text", ("a",)), Act("call", ("{}",), "f")), "tool_use"), wire)
    for judge, values in (
        (judge_event, events_of(written(events, wire, CONTEXT), wire)),
        (judge_body, [json.loads(make_writer(wire, CONTEXT).body(last_turn(events)))]),
    ):
        for value in values:
            assert any(_refused(judge, {**value, key: [[7]]}) for key in value), value


def _refused(judge: Judge, value: dict[str, Any]) -> bool:
    try:
        judge(value)
    except (ValueError, KeyError, TypeError, AssertionError):
        return True
    return False
