"""Dialects, endpoints and options are held to the words that exist when they are made, not when a request is encoded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from midstream.core.dialect import (
    EFFORTS,
    WIRES,
    CompletionApi,
    Dialect,
    Endpoint,
    Limits,
    Options,
    Place,
    Reasoning,
    SamplingOption,
    SchemaPass,
    TemplateName,
    TextFormat,
)
from midstream.core.errors import ConfigError
from midstream.core.ids import STRATEGIES, IdScheme
from midstream.core.schemas import PASSES
from midstream.templates.registry import TEMPLATES
from midstream.toolformats.registry import text_format
from midstream.wires.anthropic.thinking import CONTROLS as ANTHROPIC_CONTROLS
from midstream.wires.cohere.encode import CONTROLS as COHERE_CONTROLS
from midstream.wires.completion.flavours import FLAVOURS
from midstream.wires.gemini.thinking import CONTROLS as GEMINI_CONTROLS
from midstream.wires.ollama.encode import CONTROLS as OLLAMA_CONTROLS
from midstream.wires.openai_chat.thinking import CONTROLS as CHAT_CONTROLS
from midstream.wires.registry import get_wire


@pytest.mark.parametrize(
    "field, said, known",
    [
        ("thinking", "yes", "on, off, None"),
        ("thinking", 1, "on, off, None"),
        ("effort", "hi", "none, minimal, low, medium, high, xhigh, max, None"),
        ("effort", ["low"], "low"),
        ("missing_reasoning", "skip", "placeholder, disable-thinking, fail"),
        ("foreign_thinking", None, "drop, text, keep"),
        ("text_calls", "run", "execute, reask, show"),
        ("path", "raw", "auto, native, chat, None"),
    ],
)
def test_a_word_nobody_knows_is_refused_with_those_that_are(field: str, said: Any, known: str) -> None:
    for make in (lambda: Options(**{field: said}), lambda: replace(Options(), **{field: said})):
        with pytest.raises(ConfigError) as caught:
            make()
        assert f"invalid {field} {said!r}; expected one of" in str(caught.value) and known in str(caught.value)


@pytest.mark.parametrize("effort", [None, *EFFORTS])
def test_every_effort_may_be_asked_for(effort: str | None) -> None:
    assert Options(effort=effort).effort == effort


def test_thinking_may_be_said_as_yes_or_no() -> None:
    assert Options(thinking=True) == Options(thinking="on")  # type: ignore[arg-type]
    assert Options(thinking=False) == Options(thinking="off")  # type: ignore[arg-type]


CHAT = Dialect("mine", "openai-chat")


@pytest.mark.parametrize(
    "field, said, known",
    [
        ("wire", "openai", "openai-chat, openai-responses"),
        ("wire", None, "openai-chat"),
        ("ids", "openai", "standard, anthropic, kimi, kimi-k3, mistral"),
        ("tool_format", "kimi-k3", "openai, anthropic"),
        ("schema", "strict", "plain, openai, anthropic, moonshot, gemini"),
        ("system_role", "sytem", "system, developer, instructions"),
        ("blank_content", "", "keep, null, omit"),
        ("tool_result_media", "drop", "inline, user, none"),
        ("leaks", "openai", "kimi, kimi-k3, hermes"),
        ("template", "kimi", "kimi-k2-0711, kimi-k2"),
        ("completion", "vllm", "deepinfra, openai, llamacpp"),
        ("media", "image", "a tuple of image, audio, video, file"),
        ("media", ("image", "pdf"), "image, audio, video, file"),
        ("media", ["image"], "a tuple of image"),
        ("forced_choice", ("any",), "required, named"),
        ("forced_choice_thinking", ("auto",), "required, named"),
        ("sampling", ("temp",), "temperature, top_p, stop"),
        ("reasoning", Reasoning(control="budget"), "none, reasoning_effort, thinking.type"),
        ("path", "chat/completions", "/… with no other placeholder than {model}"),
        ("path", "/x/{deployment}", "/… with no other placeholder than {model}"),
        ("path", "/x?api-version=1", "/… with no other placeholder than {model}"),
    ],
)
def test_a_dialect_says_at_once_what_is_wrong_with_it(field: str, said: Any, known: str) -> None:
    fields: dict[str, Any] = {"name": "mine", "wire": "openai-chat", field: said}
    for make in (lambda: Dialect(**fields), lambda: replace(CHAT, **{field: said})):
        with pytest.raises(ConfigError) as caught:
            make()
        told = str(caught.value)
        assert (
            told.startswith("dialect 'mine': invalid ")
            and field in told
            and f"; expected {known}" in told.replace("one of ", "")
        )


@pytest.mark.parametrize(
    "make, told",
    [
        (lambda: Reasoning(control="tinking.type"), "invalid control 'tinking.type'; expected one of none,"),
        (lambda: Reasoning(echo="maybe"), "invalid echo 'maybe'; expected one of never, calls, always"),  # type: ignore[arg-type]
        (lambda: Reasoning(unsigned="keep"), "invalid unsigned 'keep'"),  # type: ignore[arg-type]
        (lambda: Reasoning(efforts=("low", "hgih")), "invalid efforts 'hgih'; expected one of none, minimal"),
        (lambda: Reasoning(wires=("chat",)), "invalid wires 'chat'; expected one of openai-chat"),
        (lambda: Limits(tool_name_pattern="["), "invalid tool_name_pattern '['"),
        (lambda: Endpoint("https://a", auth="basic"), "invalid auth 'basic'; expected bearer, none, or the header"),
        (lambda: Endpoint("https://a", auth="x api"), "invalid auth 'x api'"),
        (lambda: Endpoint("https://a", auth="content-length"), "invalid auth 'content-length'"),
        (lambda: Endpoint("https://{region}.a"), "invalid place in an address 'region'"),
        (lambda: Endpoint("https://a", query={"v": "a&b=c"}), "invalid query parameter 'v'"),
    ],
)
def test_so_do_its_parts(make: Any, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert told in str(caught.value)


def test_what_passed_once_is_checked_again_where_it_differs() -> None:
    """What passed is remembered by all of its values, never by some."""
    good = Dialect("a", "anthropic", ids="anthropic", reasoning=Reasoning(control="budget"))
    for _ in range(2):
        assert replace(good, name="b").ids == "anthropic"
        with pytest.raises(ConfigError, match=r"invalid reasoning\.control for openai-chat 'budget'"):
            replace(good, wire="openai-chat")


def test_the_words_are_those_of_the_tables_that_give_them_meaning() -> None:
    assert set(get_args(IdScheme)) == set(STRATEGIES)
    assert set(get_args(SchemaPass)) == set(PASSES)
    assert {text_format(name).name for name in get_args(TextFormat)} == set(get_args(TextFormat))
    assert set(get_args(TemplateName)) == set(TEMPLATES)
    assert set(get_args(CompletionApi)) == set(FLAVOURS)
    assert set(get_args(SamplingOption)) <= set(Options.__struct_fields__)


def test_the_controls_of_a_wire_are_those_it_can_encode() -> None:
    tables = {
        "openai-chat": CHAT_CONTROLS,
        "anthropic": ANTHROPIC_CONTROLS,
        "gemini": GEMINI_CONTROLS,
        "ollama": OLLAMA_CONTROLS,
        "cohere": COHERE_CONTROLS,
    }
    for wire, controls in WIRES.items():
        assert get_wire(wire).name == wire
        assert set(controls) == set(tables.get(wire, controls))


def test_a_query_joins_the_path() -> None:
    plain = Endpoint("https://a")
    dated = Endpoint("https://{region}.a", query={"api-version": "1"}, places={"region": Place(("R",))})
    assert plain.at("/x") == "/x"
    assert dated.at("/x") == "/x?api-version=1"
    assert dated.at("/x?alt=sse") == "/x?alt=sse&api-version=1"


def test_what_passed_is_remembered_within_bounds() -> None:
    """A program may make dialects of its users' data, for years."""
    from midstream.core.dialect import _FieldChecks

    checks = _FieldChecks({"word": ("a",)}, {}, also=("more",))
    for number in range(1100):
        checks.check(SimpleNamespace(word="a", more=number))
    assert len(checks._passed) == 1024
    with pytest.raises(ConfigError):
        checks.check(SimpleNamespace(word="b", more=0))
