"""Which format a request speaks: never another than was asked for without a note, and always with a reason."""

from __future__ import annotations

import json
from itertools import combinations

import pytest
from msgspec.structs import replace

from midstream import Options, encode_request, resolve
from midstream.core.errors import UnknownToolFormat
from midstream.core.ids import (
    TOOL_FORMATS,
    chosen_tool_format,
    detect_tool_format,
    get_tool_id_strategy,
    valid_tool_format,
)
from midstream.core.tools import ToolSpec
from midstream.dialects.registry import REGISTRY
from midstream.wires.tool_format import TEXT_FORMATS, resolve_tool_format
from tests.conversations import weather_story

TOOLS = (ToolSpec("get_weather", "Weather of a city", {"type": "object", "properties": {"city": {"type": "string"}}}),)
MODELS = {
    "openai-chat": "openai/gpt-4o",
    "openai-responses": "openai-responses/gpt-5.1",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
    "ollama": "ollama/qwen3:4b",
    "cohere": "cohere/command-a-03-2025",
}
# What each wire makes of a native name: the name in use, and the beginning of an id where it has one.
NATIVE = {
    ("openai-chat", "openai"): ("openai", "call_"),
    ("openai-chat", "kimi"): ("kimi", "functions.get_weather:0"),
    ("openai-chat", "mistral"): ("mistral", ""),
    ("openai-chat", "native"): ("openai", "call_"),
    ("openai-responses", "kimi"): ("kimi", "functions.get_weather:0"),
    ("cohere", "kimi"): ("kimi", "functions.get_weather:0"),
    ("cohere", "openai"): ("openai", "call_"),
    ("anthropic", "anthropic"): ("anthropic", "toolu_"),
    ("anthropic", "native"): ("anthropic", "toolu_"),
    ("gemini", "native"): ("native", ""),
    ("ollama", "native"): ("native", ""),
}
CHANGED = [
    ("openai/gpt-4o", "anthropic", "openai"),
    ("openai-responses/gpt-5.1", "anthropic", "openai"),
    ("anthropic/claude-sonnet-4-5", "openai", "anthropic"),
    ("anthropic/claude-sonnet-4-5", "kimi", "anthropic"),
    ("mistral/mistral-large-latest", "kimi", "mistral"),
    ("mistral/mistral-large-latest", "openai", "mistral"),
    ("gemini/gemini-2.5-flash", "openai", "native"),
    ("ollama/qwen3:4b", "kimi", "native"),
    ("completions/qwen3-32b", "openai", "qwen-text"),
    ("anthropic/claude-sonnet-4-5", "qwen", "anthropic"),
    ("gemini/gemini-2.5-flash", "gemma", "native"),
    ("ollama/qwen3:4b", "qwen", "native"),
    ("mistral/mistral-large-latest", "deepseek", "mistral"),
    ("ollama/gemma3", "gemma", "gemma-text"),
    ("completions/qwen3-32b", "qwen", "qwen-text"),
    ("completions/kimi-k2.5", "kimi-k3-text", "kimi-text"),
]
OPENAIS = ("openai", "qwen", "deepseek", "gemma")
"""The native names that mean OpenAI's calls with OpenAI's ids."""
AUTOMATIC = {
    "openai/gpt-4o": "openai",
    "moonshot/kimi-k2.5": "kimi",
    "mistral/mistral-large-latest": "mistral",
    "deepseek/deepseek-chat": "deepseek",
    "alibaba/qwen3-coder-plus": "qwen",
    "zai/glm-4.6": "qwen",
    "vllm/Qwen/Qwen3-32B": "qwen",
    "openrouter/deepseek/deepseek-chat": "deepseek",
    "together/mistralai/Mistral-7B": "openai",  # the host's own ids, not Mistral's
    "anthropic/claude-sonnet-4-5": "anthropic",
    "gemini/gemini-2.5-flash": "native",
    "ollama/qwen3:4b": "native",
    "ollama/gemma3": "gemma-text",
    "ollama/llama3:8b": "hermes",
    "completions/kimi-k2.5": "kimi-text",
    "completions/llama-3.1-8b": "llama",
    "completions/anything": "hermes",
}


def sent(model: str, format: str | None, **options: str) -> tuple[str, tuple[str, ...]]:
    """The body without what a cache could tell, and the codes of its notes about tools."""
    request = encode_request(model, weather_story().done(), tools=TOOLS, options=Options(tool_format=format, **options))  # type: ignore[arg-type]
    return request.body.decode(), tuple([note.code for note in request.notes if note.turn is None])


@pytest.mark.parametrize(("place", "expected"), NATIVE.items(), ids="-".join)
def test_a_native_format_brings_its_ids(place: tuple[str, str], expected: tuple[str, str]) -> None:
    wire, name = place
    choice = resolve_tool_format(resolve(MODELS[wire]).dialect, name)
    assert (choice.name, choice.automatic, choice.note, choice.is_text) == (expected[0], False, None, False)
    body, notes = sent(MODELS[wire], name)
    assert "tool_format_changed" not in notes and '"tools":' in body
    assert f'"{expected[1]}' in body


@pytest.mark.parametrize(("model", "asked", "used"), CHANGED)
def test_one_that_cannot_be_spoken_is_changed_with_a_note(model: str, asked: str, used: str) -> None:
    choice = resolve_tool_format(resolve(model).dialect, asked)
    assert choice.name == used and not choice.automatic
    assert choice.note is not None and choice.note.why == choice.why and asked in choice.why and used in choice.why
    body, notes = sent(model, asked)
    own, none = sent(model, None)
    assert body == own and "tool_format_changed" in notes and "tool_format_changed" not in none


@pytest.mark.parametrize(("model", "name"), AUTOMATIC.items())
def test_auto_is_the_hosts_own_and_says_why(model: str, name: str) -> None:
    dialect = resolve(model).dialect
    choice = resolve_tool_format(dialect)
    assert (choice.name, choice.automatic) == (name, True) and choice.why
    assert resolve_tool_format(dialect, " Auto ") == choice
    assert sent(model, None) == sent(model, "auto")


@pytest.mark.parametrize("model", [*MODELS.values(), "completions/qwen3-32b", "completions/kimi-k2.5"])
def test_the_requests_of_all_formats_differ_as_they_should(model: str) -> None:
    dialect = resolve(model).dialect
    bodies = {name: sent(model, name)[0] for name in TOOL_FORMATS}
    used = {name: resolve_tool_format(dialect, name).name for name in TOOL_FORMATS}
    for one, other in combinations(TOOL_FORMATS, 2):
        # On these wires an id is not sent, or two names are one way.
        plain = {"native", used["native"], *(OPENAIS if used["native"] in OPENAIS else ())}
        same = used[one] == used[other] or {used[one], used[other]} <= plain
        assert (bodies[one] == bodies[other]) is same, (one, other)
    for name in TEXT_FORMATS:
        if used[name] == name:
            assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(json.loads(bodies[name])), name


def test_a_host_without_tools_gets_text_unless_told_otherwise() -> None:
    dialect = replace(resolve("vllm/my-finetune").dialect, native_tools=False)
    choice = resolve_tool_format(dialect)
    assert (choice.name, choice.text) == ("hermes", "hermes")
    assert choice.note is not None and choice.note.code == "tools_as_text"
    assert resolve_tool_format(replace(dialect, leaks="glm")).name == "glm"  # what the family writes
    for name in THREE:
        assert resolve_tool_format(replace(dialect, tool_format=name)).name == f"{name}-text"
    assert resolve_tool_format(dialect, "openai").text is None  # the user knows better
    assert resolve_tool_format(dialect, "xml").text == "xml"


THREE = ("qwen", "deepseek", "gemma")


@pytest.mark.parametrize("word", THREE)
def test_three_families_are_declared_to_the_host_and_their_text_has_a_name_of_its_own(word: str) -> None:
    """Seed 000 lists them as structured, and each dialect that carries such a name declares tools natively."""
    plain = sent("openai/gpt-4o", "openai")[0]
    assert sent("openai/gpt-4o", word)[0] == sent("openai/gpt-4o", f"{word}-json")[0] == plain
    as_text = sent("openai/gpt-4o", f"{word}-text")[0]
    assert as_text != plain and "tools" not in json.loads(as_text)
    # The three spellings of the structured way are one word once they are given.
    assert {Options(tool_format=spelt).tool_format for spelt in (word, word.upper(), f"{word}-json")} == {
        f"{word}-json"
    }
    dialect = resolve("openai/gpt-4o").dialect
    assert {resolve_tool_format(dialect, spelt).name for spelt in (word, f"{word}-json")} == {word}
    assert valid_tool_format(f"{word}-json") == word and chosen_tool_format(word) == f"{word}-json"


@pytest.mark.parametrize("word", THREE)
def test_on_a_host_without_tools_they_become_text_with_a_note(word: str) -> None:
    dialect = replace(resolve("vllm/my-finetune").dialect, native_tools=False)
    for spelt in (word, f"{word}-json"):
        choice = resolve_tool_format(dialect, spelt)
        assert (choice.name, choice.automatic) == (f"{word}-text", False)
        assert (
            choice.note is not None and choice.note.code == "tool_format_changed" and f"{word}-text" in choice.note.why
        )
    assert resolve_tool_format(dialect, f"{word}-text").note is None


def test_the_same_word_is_said_for_the_same_thing() -> None:
    """By its dialect and by the choice for it; on OpenAI's chat by its name too, unless the host has other ids."""
    compared = 0
    for name in REGISTRY.known_models():
        dialect = resolve(name).dialect
        if not dialect.native_tools or dialect.wire == "completion":
            continue
        if dialect.wire == "ollama" and dialect.tool_format == "kimi":
            continue  # the family's name, on a wire that pairs by name and has no ids
        used = resolve_tool_format(dialect).name
        assert used == dialect.tool_format, name
        if dialect.wire != "openai-chat":
            continue
        detected = detect_tool_format(name.partition("/")[2])
        if get_tool_id_strategy(detected).name == dialect.ids:
            assert used == detected, name
            compared += 1
    assert compared > 50


def test_an_unknown_name_lists_the_others() -> None:
    with pytest.raises(UnknownToolFormat, match="kimi-text"):
        resolve_tool_format(resolve("openai/gpt-4o").dialect, "nonsense")


def test_kimi_text_goes_over_the_raw_path_where_asked() -> None:
    model = "deepinfra/moonshotai/Kimi-K2.5"
    chat = encode_request(model, weather_story().done(), tools=TOOLS)
    raw = encode_request(
        model, weather_story().done(), tools=TOOLS, options=Options(tool_format="kimi-text", path="native")
    )
    assert chat.wire == "openai-chat" and "tools" in json.loads(chat.body)
    assert raw.wire == "completion" and "tool_declare" in json.loads(raw.body)["input"]
    over_chat = encode_request(model, weather_story().done(), tools=TOOLS, options=Options(tool_format="kimi-text"))
    assert over_chat.wire == "openai-chat" and "tools" not in json.loads(over_chat.body)
