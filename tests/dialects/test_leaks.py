"""A call that a host leaves in the content or the reasoning is a call, for every family that leaks, wherever it is served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from midstream import ToolSpec, make_decoder
from midstream.core.blocks import Turn
from midstream.core.dialect import Dialect, TextCalls
from midstream.core.events import Done, ErrorEvent
from midstream.core.ids import detect_tool_format, is_kimi_model
from midstream.core.lifecycle import check
from midstream.core.tools import parse_arguments
from midstream.dialects.families import LEAKS
from midstream.dialects.registry import REGISTRY, resolve
from tests.long_run import cases, each_once

FAMILIES: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "data/dialects/leaks.json").read_text())
TOOLS = [ToolSpec("look", "", {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]})]

HOSTS = (
    "moonshot", "moonshot-cn", "kimi-coding", "vllm", "sglang", "openrouter", "together", "fireworks", "novita", "groq",
    "baseten", "huggingface", "cerebras", "azure", "bedrock", "deepinfra", "llamacpp", "openai-compatible", "qwen", "deepseek",
    "zai", "minimax", "ollama", "ollama-cloud", "azure-deployment", "bedrock-mantle",
)  # fmt: skip

EACH_KIND = {"moonshot", "openai-compatible", "deepinfra", "qwen", "deepseek", "zai", "minimax", "ollama", "llamacpp"}
"""Hosts whose models leak in other formats, over other wires or on two paths; all others are as the plain one."""

QUOTES = {
    "a fence": "```\n{}\n```",
    "a fence with an info string": "```xml\n{}\n```",
    "tildes": "~~~\n{}\n~~~",
    "a longer fence": "`````\n{}\n`````",
    "a fence in a list": "- so:\n  ```\n  {}\n  ```",
    "a fence that never ends": "```\n{}",
    "inline code": "as in `{}` here",
    "double inline code": "as in ``{}`` here",
    "quotation marks": 'it says "{}" there',
    "<code>": "as in <code>{}</code>",
    "<pre>": "<pre>\n{}\n</pre>",
}


def rows() -> list[tuple[str, str, dict[str, Any], Dialect]]:
    """Each host with each model it takes."""
    found = []
    for host in HOSTS:
        for family in FAMILIES:
            for model in family["models"]:
                dialect = REGISTRY.providers[host].dialect_for(model)
                if dialect is not None and (host != "kimi-coding" or is_kimi_model(model)):
                    found.append((host, model, family, dialect))
    return found


def test_every_family_has_its_cases_and_every_host_is_asked() -> None:
    assert {family["format"] for family in FAMILIES} == {format for _, format in LEAKS}
    assert {host for host, *_ in rows()} == set(HOSTS)
    told = {
        name
        for name, row in REGISTRY.providers.items()
        if any(d.wire in ("openai-chat", "ollama") for _, d in row.dialects)
    }
    others = {"openai", "mistral", "xai"}  # they serve their own models alone
    assert told == {*HOSTS, *others}


def answer(dialect: Dialect, pieces: list[str], *, reasoning: bool, text_calls: TextCalls = "execute") -> Turn:
    decoder = make_decoder(dialect=dialect, turn_key="turn", tools=TOOLS, text_calls=text_calls)
    events = []
    for piece in pieces:
        if dialect.wire == "ollama":
            line = {"message": {"thinking" if reasoning else "content": piece}}
            events += decoder.feed(json.dumps(line).encode() + b"\n")
        else:
            field = dialect.reasoning.field if reasoning else "content"
            events += decoder.feed(b"data: %s\n\n" % json.dumps({"choices": [{"delta": {field: piece}}]}).encode())
    if dialect.wire == "ollama":
        events += decoder.feed(b'{"message":{"content":"end"},"done":true}\n' if reasoning else b'{"done":true}\n')
    else:
        last = {"choices": [{"delta": {"content": "end"} if reasoning else {}, "finish_reason": "stop"}]}
        events += decoder.feed(b"data: %s\n\ndata: [DONE]\n\n" % json.dumps(last).encode())
    check(events)
    end = events[-1]
    assert isinstance(end, Done | ErrorEvent)
    return end.turn


def splits(text: str) -> list[list[str]]:
    return [[text], list(text), [text[at : at + 7] for at in range(0, len(text), 7)]]


@pytest.mark.parametrize("host", cases(HOSTS, EACH_KIND))
@pytest.mark.parametrize("reasoning", [False, True])
def test_a_leaked_call_is_a_call(host: str, reasoning: bool) -> None:
    for name, model, family, dialect in rows():
        if name != host:
            continue
        assert dialect.leaks == family["format"], (host, model)
        for pieces in splits("Let me see.\n\n" + family["leak"]):
            turn = answer(dialect, pieces, reasoning=reasoning)
            where = (host, model, len(pieces), turn)
            assert [(call.name, parse_arguments(call)) for call in turn.tool_calls] == [("look", {"path": "a"})], where
            said = turn.thinking if reasoning else turn.text
            assert said.strip() == "Let me see.", where
            assert turn.stop_reason == "tool_use", where


@pytest.mark.parametrize("host", cases(HOSTS, EACH_KIND))
@pytest.mark.parametrize("reasoning", [False, True])
def test_so_it_is_in_a_whole_body(host: str, reasoning: bool) -> None:
    for name, model, family, dialect in rows():
        if name != host:
            continue
        text = "Let me see.\n\n" + family["leak"]
        field = ("thinking" if dialect.wire == "ollama" else dialect.reasoning.field) if reasoning else "content"
        message = {"role": "assistant", "content": "end" if reasoning else "", field: text}
        body = (
            {"message": message, "done": True, "done_reason": "stop"}
            if dialect.wire == "ollama"
            else {"choices": [{"message": message, "finish_reason": "stop"}]}
        )
        decoder = make_decoder(dialect=dialect, turn_key="turn", tools=TOOLS)
        end = decoder.read_body(json.dumps(body).encode())[-1]
        assert isinstance(end, Done), (host, model, end)
        assert [(call.name, parse_arguments(call)) for call in end.turn.tool_calls] == [("look", {"path": "a"})], model
        assert (end.turn.thinking if reasoning else end.turn.text).strip() == "Let me see.", (host, model)


@pytest.mark.parametrize("policy", ["reask", "show"])
@pytest.mark.parametrize("reasoning", [False, True], ids=["content", "reasoning"])
def test_the_policy_holds_for_every_family(policy: TextCalls, reasoning: bool) -> None:
    for _, model, family, dialect in rows():
        turn = answer(dialect, ["see ", family["leak"]], reasoning=reasoning, text_calls=policy)
        assert not turn.tool_calls, model
        assert turn.extra and len(turn.extra["problems"]) == 1, model
        assert (turn.thinking if reasoning else turn.text).strip() == "see", model


@each_once(("quote", QUOTES), ("reasoning", [False, True]))
def test_a_quoted_call_is_none(quote: str, reasoning: bool) -> None:
    seen = set()
    for _, model, family, dialect in rows():
        if (family["leak"], dialect.wire) in seen:
            continue  # how a format is quoted does not depend on the host
        seen.add((family["leak"], dialect.wire))
        text = "The format is this.\n\n" + QUOTES[quote].replace("{}", family["leak"]) + "\n\nThat is all."
        for pieces in splits(text):
            turn = answer(dialect, pieces, reasoning=reasoning)
            assert not turn.tool_calls, (model, quote, len(pieces), turn)
            assert (turn.thinking if reasoning else turn.text) == text, (model, quote, len(pieces))


def test_without_a_declared_tool_text_stays_text() -> None:
    """Only special tokens are kept out of the text of an answer that can call nothing."""
    for family in FAMILIES:
        dialect = resolve(f"vllm/{family['models'][0]}").dialect
        decoder = make_decoder(dialect=dialect, turn_key="turn")
        body = {"choices": [{"message": {"content": "see " + family["leak"]}, "finish_reason": "stop"}]}
        end = decoder.read_body(json.dumps(body).encode())[-1]
        assert isinstance(end, Done) and not end.turn.tool_calls
        special = family["format"] in ("kimi", "kimi-k3", "deepseek")
        assert end.turn.text.strip() == ("see" if special else "see " + family["leak"])


def test_other_models_have_no_filter() -> None:
    for name in (
        "openai/gpt-5.1",
        "openrouter/anthropic/claude-sonnet-4.5",
        "groq/llama-3.3-70b",
        "xai/grok-4",
        "vllm/my-deepseak3",
    ):
        assert resolve(name).dialect.leaks is None, name


def test_the_dialect_of_a_model_is_one_value() -> None:
    """Encoded histories are kept by dialect."""
    provider = REGISTRY.providers["vllm"]
    assert provider.dialect_for("Qwen/Qwen3-32B") is provider.dialect_for("qwen/qwen3-8b")


@pytest.mark.parametrize(
    "name", ["K2-Thinking", "K2Thinking", "kimi-latest", "Kimi-K2.5", "k3[1m]", "moonshotai/Kimi-K3"]
)
def test_these_are_kimi(name: str) -> None:
    assert is_kimi_model(name)
    dialect = resolve(f"openai-compatible/{name}").dialect
    assert dialect.tool_format == "kimi" and dialect.ids.startswith("kimi")


@each_once(
    ("host", ["vllm", "sglang", "openrouter", "minimax", "openai-compatible", "ollama"]),
    ("model", ["MiniMaxAI/MiniMax-M3", "minimax-m3"]),
)
def test_minimax_m3_thinks_in_tags_of_its_own(host: str, model: str) -> None:
    dialect = REGISTRY.providers[host].dialect_for(model)
    assert dialect is not None
    for pieces in splits("<mm:think>hm, <think> is not mine</mm:think>yes"):
        turn = answer(dialect, pieces, reasoning=False)
        assert (turn.thinking, turn.text) == ("hm, <think> is not mine", "yes"), pieces


RULES = {
    "moonshot/kimi-latest": ("kimi", "kimi", True),
    "moonshot/K2Thinking": ("kimi", "kimi", True),
    "qwen/kimi-k2.6": ("kimi", "kimi", True),
    "dashscope/Moonshot-Kimi-K2-Instruct": ("kimi", "kimi", False),
    "ollama/kimi-k2:1t": ("standard", "kimi", False),
    "ollama-cloud/kimi-k2-thinking": ("standard", "kimi", True),
    "ollama-cloud/kimi-k2.5:cloud": ("standard", "kimi", True),
    "vllm/K2-Thinking": ("kimi", "kimi", True),
    "together/kimi-latest": ("kimi", "kimi", True),
}


@pytest.mark.parametrize("name", RULES)
def test_these_have_kimis_rules(name: str) -> None:
    dialect = resolve(name).dialect
    assert (dialect.ids, dialect.tool_format, dialect.reasoning.default_on) == RULES[name]
    assert dialect.leaks == "kimi" and dialect.limits.tool_name_pattern


@pytest.mark.parametrize("name", ["deepseek3", "qwen-k2x", "task3", "k20"])
def test_these_are_not(name: str) -> None:
    assert not is_kimi_model(name)
    dialect = resolve(f"openai-compatible/{name}").dialect
    assert dialect.tool_format == detect_tool_format(name) != "kimi" and dialect.ids == "standard"


@pytest.mark.parametrize("reasoning", [False, True], ids=["content", "reasoning"])
def test_a_character_cut_in_half_goes_through_the_filter(reasoning: bool) -> None:
    """Text goes past a filter at rest; half a character must not, for the other half may come with a marker."""
    family = FAMILIES[0]
    dialect = resolve("vllm/kimi-k2.5").dialect
    turn = answer(dialect, ["good ", "morning \ud83d", "\ude00 and\n\n" + family["leak"]], reasoning=reasoning)
    assert (turn.thinking if reasoning else turn.text).strip() == "good morning \U0001f600 and"
    assert [call.name for call in turn.tool_calls] == ["look"]
    turn = answer(dialect, ["good ", "morning \ud83d", "\ude00 again"], reasoning=reasoning)
    assert (turn.thinking if reasoning else turn.text) == "good morning \U0001f600 again"
