"""What a host does not take is bent or left out with a note, on every wire that sends tools and settings as fields."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from midstream import Conversation, Options, Request, ToolSpec, encode_request, human, resolve
from midstream.core.blocks import Text
from tests.long_run import each_once

MODELS = {
    "openai-chat": "openai-compatible/any",
    "openai-responses": "openai-responses/gpt-5",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
    "cohere": "cohere/command-a-reasoning-08-2025",
}
TOOLS = tuple([ToolSpec(name, f"does {name}", {"type": "object", "properties": {}}) for name in "abc"])


def ask(wire: str, *, limits: dict[str, Any] | None = None, **asked: Any) -> tuple[dict[str, Any], Request]:
    target = resolve(MODELS[wire])
    changes = asked.pop("dialect", {})
    told = asked.pop("told", Conversation((human("q"),)))
    dialect = replace(target.dialect, limits=replace(target.dialect.limits, **(limits or {})), **changes)
    assert dialect.wire == wire
    request = encode_request(replace(target, dialect=dialect), told, cache=None, **asked)
    return json.loads(request.body), request


def names(body: dict[str, Any]) -> list[str]:
    """The tools a body declares, wherever its wire puts them."""
    found: list[str] = []
    for tool in body.get("tools", ()):
        inner = tool.get("functionDeclarations") or [tool.get("function") or tool]
        found += [function["name"] for function in inner]
    return found


def noted(request: Request, what: str) -> list[str]:
    return [note.action for note in request.notes if note.what == what]


@pytest.mark.parametrize("wire", MODELS)
def test_tools_above_the_limit_are_left_out(wire: str) -> None:
    body, request = ask(wire, limits={"max_tools": 2}, tools=TOOLS)
    assert names(body) == ["a", "b"]
    assert noted(request, "tool") == ["dropped"]
    body, request = ask(wire, limits={"max_tools": 3}, tools=TOOLS)
    assert names(body) == ["a", "b", "c"]
    assert noted(request, "tool") == []


@pytest.mark.parametrize("wire", MODELS)
def test_more_output_than_the_model_has_is_not_asked_for(wire: str) -> None:
    body, request = ask(wire, limits={"max_output": 500}, options=Options(max_tokens=900, thinking="off"))
    assert "500" in json.dumps(body) and "900" not in json.dumps(body)
    assert "adapted" in noted(request, "option")
    body, _ = ask(wire, limits={"max_output": 500}, options=Options(max_tokens=400, thinking="off"))
    assert "400" in json.dumps(body)


@pytest.mark.parametrize("wire", ["openai-chat", "openai-responses"])
@pytest.mark.parametrize("understood", [True, False])
def test_parallel_calls_are_spoken_of_where_that_is_understood(wire: str, understood: bool) -> None:
    options = Options(parallel_tool_calls=False)
    body, request = ask(wire, tools=TOOLS, options=options, dialect={"parallel_option": understood})
    assert body.get("parallel_tool_calls") is (False if understood else None)
    assert noted(request, "option") == ([] if understood else ["dropped"])


def test_gemini_has_no_word_for_parallel_calls() -> None:
    _, request = ask("gemini", tools=TOOLS, options=Options(parallel_tool_calls=False))
    assert noted(request, "option") == ["dropped"]


@pytest.mark.parametrize("wire", ["openai-responses", "gemini"])
@pytest.mark.parametrize("choice", ["required", "a"])
def test_a_forced_choice_that_is_refused_is_auto(wire: str, choice: str) -> None:
    refusing = {"forced_choice": (), "forced_choice_thinking": ()}
    body, request = ask(wire, tools=TOOLS, options=Options(tool_choice=choice), dialect=refusing)
    assert "auto" in json.dumps(body.get("tool_choice") or body["toolConfig"]).lower()
    assert noted(request, "option") == ["adapted"]
    body, request = ask(wire, tools=TOOLS, options=Options(tool_choice=choice))
    assert "auto" not in json.dumps(body.get("tool_choice") or body["toolConfig"]).lower()
    assert noted(request, "option") == []


@each_once(("wire", MODELS), ("understood", [True, False]))
def test_strict_is_said_where_it_is_understood(wire: str, understood: bool) -> None:
    strict = (ToolSpec("a", "does a", {"type": "object", "properties": {}}, strict=True),)
    body, _ = ask(wire, tools=strict, dialect={"strict_tools": understood})
    said = "strict_tools" if wire == "cohere" else "strict"
    assert (f'"{said}": true' in json.dumps(body)) is (understood and wire != "gemini")


@pytest.mark.parametrize(("wire", "place"), [("openai-chat", "user"), ("anthropic", "metadata")])
def test_who_asks(wire: str, place: str) -> None:
    body, _ = ask(wire, options=Options(user="u1"))
    assert body[place] in ("u1", {"user_id": "u1"})


def test_only_some_stop_sequences_are_taken_by_gemini() -> None:
    body, request = ask("gemini", options=Options(stop=tuple("abcdefg")))
    assert body["generationConfig"]["stopSequences"] == list("abcde")
    assert noted(request, "option") == ["dropped"]


def test_a_system_of_parts_keeps_what_is_marked() -> None:
    marked = Text("b", {"cache_control": {"type": "ephemeral"}})
    body, _ = ask("openai-chat", told=Conversation((human("q"),), (Text("a"), Text(""), marked)))
    assert body["messages"][0]["content"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}},
    ]
    body, _ = ask("openai-chat", told=Conversation((human("q"),), (Text("a"),)))
    assert body["messages"][0]["content"] == "a"


def test_the_callers_own_fields_lie_over_the_body() -> None:
    asked = Options(
        thinking_budget=1024, thinking="on", max_tokens=4096, extra_body={"thinking": {"display": "omitted"}, "x": 1}
    )
    body, _ = ask("anthropic", options=asked)
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 1024, "display": "omitted"}
    assert body["x"] == 1
    body, _ = ask("anthropic", options=Options(extra_body={"thinking": {"display": "omitted"}}))
    assert "thinking" not in body
