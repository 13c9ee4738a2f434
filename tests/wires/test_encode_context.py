"""What every writer does alike: reasoning, media of results, forced choices, and clones that go on by themselves."""

from __future__ import annotations

import pytest

from midstream.core.blocks import Media, Origin, Text, Thinking, ToolCall, ToolResponse, Turn, human
from midstream.core.dialect import Dialect, Options, Reasoning
from midstream.core.errors import InvalidSchema, MissingReasoning
from midstream.core.tools import ToolSpec
from midstream.wires.encode_context import EncodeContext, result_text
from midstream.wires.history_cache import Writer
from midstream.wires.registry import WIRES, get_wire
from tests.conversations import PIXEL, weather_story

OTHER = Origin("elsewhere", "elsewhere", "model-x")
PICTURE = Media("image/png", data=PIXEL)


def context(options: Options = Options(), **fields: object) -> EncodeContext:
    return EncodeContext(Dialect("host", "openai-chat", "host", **fields), options, "m")  # type: ignore[arg-type]


def codes(made: EncodeContext) -> list[str]:
    return [note.code for note in made.notes]


@pytest.mark.parametrize(
    ("policy", "text", "keeps", "unsigned", "fate", "code"),
    [
        ("drop", "hm", True, False, "drop", "foreign_thinking"),
        ("drop", "hm", True, True, "drop", "unsigned_thinking"),
        ("text", "hm", True, False, "text", "thinking_as_text"),
        ("text", "hm", False, True, "text", "thinking_as_text"),
        ("text", " ", True, False, "drop", "foreign_thinking"),
        ("keep", "hm", True, False, "keep", None),
        ("keep", "", True, False, "drop", "foreign_thinking"),
        ("keep", "hm", False, False, "drop", "reasoning_not_accepted"),
        ("keep", "hm", True, True, "drop", "unsigned_thinking"),
    ],
)
def test_foreign_thinking(policy: str, text: str, keeps: bool, unsigned: bool, fate: str, code: str | None) -> None:
    made = context(Options(foreign_thinking=policy))  # type: ignore[arg-type]
    block = Thinking(text, "reasoning_content", origin=OTHER)
    assert made.foreign_thinking(block, keeps=keeps, unsigned=unsigned) == fate
    assert codes(made) == ([code] if code else [])


@pytest.mark.parametrize(("can_disable", "advice"), [(True, "placeholder or disable-thinking"), (False, "placeholder")])
def test_missing_reasoning_is_a_placeholder_or_an_error(can_disable: bool, advice: str) -> None:
    rules = Reasoning(required=True, placeholder="-", can_disable=can_disable)
    made = context(reasoning=rules)
    made.turn = 7
    assert made.missing_reasoning() == "-" and made.lacks_reasoning
    assert [(note.code, note.turn) for note in made.notes] == [("missing_reasoning", 7)]
    with pytest.raises(MissingReasoning, match=f"the prefill is .* set missing_reasoning to {advice}$"):
        context(Options(missing_reasoning="fail"), reasoning=rules).missing_reasoning()


@pytest.mark.parametrize(
    ("where", "kept", "moved", "noted"),
    [
        ("inline", PICTURE, False, []),
        ("user", PICTURE, True, ["moved_media"]),
        ("none", None, False, ["unsupported_media"]),
    ],
)
def test_media_of_a_result(where: str, kept: Media | None, moved: bool, noted: list[str]) -> None:
    made = context(tool_result_media=where)
    parts = made.result_parts(ToolResponse("c", "f", (PICTURE, Text("x"))))
    assert list(parts) == [kept or Text("[image omitted]"), Text("x")]
    assert made.moves_media() == moved
    assert codes(made) == noted


@pytest.mark.parametrize(
    ("choice", "thinking", "kind", "code"),
    [
        ("required", None, "required", None),
        ("f", None, "named", None),
        ("required", "on", "required", None),
        ("f", "on", "auto", "tool_choice_changed"),
    ],
)
def test_a_forced_choice_goes_as_far_as_the_host_lets_it(
    choice: str, thinking: str, kind: str, code: str | None
) -> None:
    made = context(Options(thinking=thinking), forced_choice_thinking=("required",))  # type: ignore[arg-type]
    assert made.forced_choice(choice) == kind
    assert codes(made) == ([code] if code else [])


def test_a_failed_result_says_so_once() -> None:
    failed = ToolResponse("c", "f", is_error=True)
    assert result_text(failed, ("it broke",)) == "Error: it broke"
    assert result_text(failed, ("an error came",)) == "an error came"
    assert result_text(ToolResponse("c", "f"), ("a", "b")) == "a\nb"
    assert result_text(ToolResponse("c", "f"), (), has_media=True) == "(see the attached media)"


def test_what_stands_around_a_history_shares_its_names_and_not_its_notes() -> None:
    history = context()
    history.turn = 3
    history.blank_turn()
    around = history.around(Options(thinking="on"))
    assert around.names is history.names and around.ids is history.ids
    assert (around.notes, around.turn, around.thinking, history.thinking) == ([], None, True, False)


WRITERS = {
    "openai-chat": "ChatWriter",
    "openai-responses": "ResponsesWriter",
    "anthropic": "MessagesWriter",
    "gemini": "ContentsWriter",
    "ollama": "OllamaWriter",
    "cohere": "CohereWriter",
}


@pytest.mark.parametrize("name", [name for name in WIRES if name != "completion"])
def test_a_clone_goes_on_by_itself(name: str) -> None:
    """Whatever the clone writes, the writer it came from holds, notes and says the same as before."""
    made = getattr(get_wire(name).room("encode"), WRITERS[name])
    story = weather_story().done().turns

    def fresh() -> Writer:
        writer: Writer = made(EncodeContext(get_wire(name).default, Options(tool_format="kimi"), "m"))
        writer.write(story, 0)
        return writer

    writer, untouched = fresh(), fresh()
    twin = writer.clone()
    more = (Turn("ai", (Thinking("hm", origin=OTHER), ToolCall("z", "my tool", "{}")), key="x"),)
    more += (Turn("tool", (ToolResponse("z", "my tool", (Text("1"),)),), key="y"), human("and?", key="z"))
    twin.write(more, len(story))
    assert state(writer) == state(untouched)
    assert state(twin) != state(untouched)
    writer.write(more, len(story))
    assert state(writer) == state(twin)


def state(writer: Writer) -> object:
    held = {
        key: vars(value) if hasattr(value, "closed") else value
        for key, value in vars(writer).items()
        if key != "context"
    }
    context = writer.context
    seen = {
        key: {k: v for k, v in value.items() if not callable(v) and k != "_context"}
        if isinstance(value, dict)
        else value
        for key, value in held.items()
    }
    again = context.ids.clone().resolve_tool_call_id(ToolCall("new", "f"))
    return repr(seen), writer.size, context.notes, context.names.changed, again


def test_the_schemas_of_all_tools_grow_within_one_limit() -> None:
    """Each is within its own: ten definitions that name the next one twice are a thousand."""
    twice = {
        f"d{number}": {"properties": {"a": {"$ref": f"#/$defs/d{number + 1}"}, "b": {"$ref": f"#/$defs/d{number + 1}"}}}
        for number in range(10)
    }
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {**twice, "d10": {}}}
    made = context(schema="moonshot")
    made.declare(ToolSpec("f", "", schema))
    with pytest.raises(InvalidSchema, match="together"):
        for _ in range(100):
            made.declare(ToolSpec("f", "", schema))
    made.around(Options()).declare(ToolSpec("f", "", schema))
