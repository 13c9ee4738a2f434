"""Which tool format a request speaks, and why: the wire's own tool calls, or calls written as plain text.

A native name (`openai`, `anthropic`, `mistral`, `kimi`, `qwen` …) means the wire's own calls with the id scheme that goes with
it. One that the wire cannot speak is changed to the host's own, or to the text of the same family where the host takes no
tools, with a Note. A text name works everywhere. On a completion wire everything is text: the chat template has a format of
its own, and any other is declared in the system prompt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.blocks import Value
from ..core.dialect import Dialect, TextFormat
from ..core.handoff import Note
from ..core.ids import (
    OLD_WORDS,
    PINNED_SCHEMES,
    ToolFormat,
    chosen_tool_format,
    get_tool_id_strategy,
    valid_tool_format,
)
from ..core.modules import late_module

if TYPE_CHECKING:
    from ..toolformats import registry as formats
else:
    formats = late_module("..toolformats.registry", globals(), "formats")

# `kimi-text` and not `kimi`, because the plain name means the wire's own calls with Kimi's ids; `qwen-text` likewise.
TEXT_FORMATS: dict[ToolFormat, TextFormat] = {
    "hermes": "hermes",
    "qwen-text": "qwen",
    "xml": "xml",
    "llama": "llama",
    "gemma-text": "gemma",
    "deepseek-text": "deepseek",
    "kimi-text": "kimi",
    "kimi-k3-text": "kimi-k3",
    "mistral-text": "mistral",
    "qwen3-coder": "qwen3-coder",
    "glm": "glm",
}
"""The formats of plain text: the name a user says, and the text format it means."""
_NAMES = {format: name for name, format in TEXT_FORMATS.items()}

# The native names each wire can speak, its plain one first. Kimi's and Mistral's are OpenAI's calls with other ids, the other
# families' are OpenAI's as they are.
_FAMILIES: tuple[ToolFormat, ...] = ("kimi", "mistral", "qwen", "deepseek", "gemma")
_SPOKEN: dict[str, tuple[ToolFormat, ...]] = {
    "openai-chat": ("openai", *_FAMILIES),
    "openai-responses": ("openai", *_FAMILIES),
    "cohere": ("native", "openai", *_FAMILIES),
    "anthropic": ("anthropic",),
    "gemini": ("native",),
    "ollama": ("native",),
}
# Most open models have seen Hermes' tags (field-guide/text-calls.md#models-without-tools).
_FALLBACK: ToolFormat = "hermes"


class ToolFormatChoice(Value, frozen=True):
    """The format in use. `text` is the format to declare and read as plain text; empty where the wire, or the template of a
    completion wire, has its own way. `ids` is the native name whose id scheme counts; None leaves it to the dialect."""

    name: ToolFormat
    why: str
    automatic: bool = True
    text: TextFormat | None = None
    ids: ToolFormat | None = None
    note: Note | None = None

    @property
    def is_text(self) -> bool:
        """Whether calls travel as text."""
        return self.name in TEXT_FORMATS


def resolve_tool_format(dialect: Dialect, asked: str | None = None) -> ToolFormatChoice:
    """The format for a model: its own for None and `auto`, else the one that was asked for, if its wire can speak it."""
    chosen = chosen_tool_format(asked)
    if chosen is None:
        return _automatic(dialect)
    name, note = valid_tool_format(chosen), None
    if name in OLD_WORDS and (dialect.wire == "completion" or not dialect.native_tools):
        why = f"{dialect.name} takes no tools, so tool format {name} becomes {OLD_WORDS[name]}: they go over plain text"
        name, note = OLD_WORDS[name], Note("adapted", "option", "tool_format_changed", why)
    text = TEXT_FORMATS.get(name)
    if text is not None:
        # The template writes the calls in this very format already:
        # declaring the tools a second time would only confuse.
        if dialect.wire == "completion" and text == dialect.leaks:
            why = note.why if note is not None else "set by hand; it is the chat template's own"
            return ToolFormatChoice(name, why, False, note=note)
        refused = _clash(dialect, text)
        if not refused:
            why = note.why if note is not None else "set by hand: tools are declared in the system prompt"
            return ToolFormatChoice(name, why, False, text, note=note)
    else:
        refused = _objection(dialect, name)
    if refused:
        # Never an error: the request can be made, and a note says how.
        own = _automatic(dialect)
        why = f"tool format {name} {refused}; {own.name} is used instead"
        note = Note("adapted", "option", "tool_format_changed", why)
        return ToolFormatChoice(own.name, why, False, own.text, own.ids, note)
    if name == "native":
        return ToolFormatChoice(_native_name(dialect), f"set by hand: the tool calls of {dialect.wire}", False)
    scheme = get_tool_id_strategy(name).name
    return ToolFormatChoice(name, f"set by hand: the tool calls of {dialect.wire} with {scheme} ids", False, ids=name)


def _automatic(dialect: Dialect) -> ToolFormatChoice:
    if dialect.wire == "completion":
        name = _NAMES[dialect.leaks] if dialect.leaks is not None else dialect.tool_format
        return ToolFormatChoice(name, f"a raw prompt has only text, and the template {dialect.template} writes it so")
    if dialect.native_tools:
        name = _native_name(dialect)
        return ToolFormatChoice(name, f"{dialect.name} takes the tool calls of {dialect.wire} with {dialect.ids} ids")
    # What a family leaks is what it was trained to write.
    if dialect.leaks is not None:
        text, taught = dialect.leaks, "the form that this family of models writes"
    else:
        name = valid_tool_format(dialect.tool_format)
        text = TEXT_FORMATS.get(OLD_WORDS.get(name, name), TEXT_FORMATS[_FALLBACK])
        taught = "the form that most models know"
    name, why = _NAMES[text], f"{dialect.name} takes no tools; they go over plain text, in {taught}"
    return ToolFormatChoice(name, why, text=text, note=Note("adapted", "tool", "tools_as_text", why))


def _native_name(dialect: Dialect) -> ToolFormat:
    spoken, own = _SPOKEN[dialect.wire], valid_tool_format(dialect.tool_format)
    return own if own in spoken[1:] else spoken[0]


def _clash(dialect: Dialect, text: TextFormat) -> str:
    """Why the answers of this dialect cannot be read in a text format; empty if they can."""
    tags = dialect.reasoning.tags
    # Two ways of marking the thinking in one text cannot both be read.
    if tags is not None and formats.text_format(text).own_channels:
        return f"has channels of its own, and {dialect.name} thinks between {tags[0]} and {tags[1]}"
    return ""


def _objection(dialect: Dialect, name: ToolFormat) -> str:
    """Why this dialect cannot speak a native format; empty if it can."""
    if dialect.wire == "completion":
        return "needs a host that takes tools, and a raw completion is only text"
    if name == "native":
        return ""
    if name not in _SPOKEN[dialect.wire]:
        return f"cannot be spoken on {dialect.wire}"
    # The ids would be refused: see PINNED_SCHEMES.
    if dialect.ids in PINNED_SCHEMES and get_tool_id_strategy(name).name != dialect.ids:
        return f"has ids that {dialect.name} refuses"
    return ""
