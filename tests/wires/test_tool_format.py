"""Which format a request speaks: never another than was asked for without a note, and always with a reason."""

from __future__ import annotations

import json
from itertools import combinations

import pytest
from msgspec.structs import replace

from midstream import Options, encode_request, resolve
from midstream.core.errors import UnknownToolFormat
from midstream.core.ids import TOOL_FORMATS
from midstream.core.tools import ToolSpec
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
    ("completions/qwen3-32b", "openai", "qwen"),
    ("completions/kimi-k2.5", "kimi-k3-text", "kimi-text"),
]
AUTOMATIC = {
    "openai/gpt-4o": "openai",
    "moonshot/kimi-k2.5": "kimi",
    "mistral/mistral-large-latest": "mistral",
    "deepseek/deepseek-chat": "openai",
    "anthropic/claude-sonnet-4-5": "anthropic",
    "gemini/gemini-2.5-flash": "native",
    "ollama/qwen3:4b": "native",
    "ollama/gemma3": "gemma",
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
        same = used[one] == used[other] or {one, other} <= {"native", used["native"]}
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
    assert resolve_tool_format(replace(dialect, tool_format="qwen")).name == "qwen"
    assert resolve_tool_format(dialect, "openai").text is None  # the user knows better
    assert resolve_tool_format(dialect, "xml").text == "xml"


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
