"""Kimi K2, K2-Thinking, and K2.5 to K2.7 (field-guide/kimi-formats.md#messages).

    <|im_user|>NAME<|im_middle|>TEXT<|im_end|>      the same for im_assistant and im_system (also for tools), nothing in between

Tools come first, then the system message. Ids are the request's: `functions.{name}:{n}`, counted through all of it, the same
for a call and its result. Reasoning is kept only in the current tool loop, after the last answer without calls. Images are
placeholders that the server fills in; other media are named in the text.

K2.5 and later declare tools in TypeScript, or all of them as sorted JSON if one has no TypeScript form, and have no default
system message (field-guide/kimi-formats.md#versions). Their prompt opens `<think>`, so the answer starts inside thinking; instant mode
(`thinking=False`) closes it again and leaves out all earlier reasoning. `preserve_thinking` keeps the reasoning of finished
turns; K2.7-Code always does, and always thinks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from ..core.ids import ToolIdMapper, kimi_strategy
from ..core.tools import ToolSpec
from .prompt import BARS, PromptWriter, Rendering, Specials, Template
from .transcript import Message, compact_json, last_index, raw_arguments, spaced_json, tool_object
from .typescript import NotTypeScript, declare_typescript

# The vocabulary has these tokens in square brackets beside the `<|…|>` ones.
BRACKETS = ("[BOS]", "[EOS]", "[EOT]", "[UNK]", "[PAD]")
# `[EOS]` as in the stop list DeepInfra documents (field-guide/raw-completion.md#deepinfras-native-path).
_STOP = ("<|im_end|>", "[EOS]")

# A tool's result is a system message with another name (field-guide/kimi-formats.md#messages).
_OPENINGS = {
    "system": "<|im_system|>",
    "tool": "<|im_system|>",
    "user": "<|im_user|>",
    "assistant": "<|im_assistant|>",
}


def _declare_json(tools: Sequence[ToolSpec]) -> str:
    return spaced_json([tool_object(tool) for tool in tools])


def _declare_typescript(tools: Sequence[ToolSpec]) -> str:
    try:
        return declare_typescript(tools)
    except NotTypeScript:
        return compact_json([tool_object(tool) for tool in tools])


# A value for each published template, not a class: they differ in a few details (field-guide/kimi-formats.md#versions),
# and each of these was trained on, so none may be tidied away.
class _KimiK2(msgspec.Struct, frozen=True):
    """One published template of the family: what distinguishes it from the others."""

    media: Mapping[str, str]
    """The placeholder for each kind of media the template can show."""
    declare: Callable[[Sequence[ToolSpec]], str] = _declare_json
    default_system: str = ""
    default_system_gap: str = ""
    """What the template writes between its default system message and the first message."""
    prints_names: bool = True
    result_gap: str = "\n"
    """What the template writes between the heading of a result and the result."""
    reasoning: Literal["none", "loop", "asked", "all"] = "none"
    """Which reasoning of the history is shown: none, that of the current tool loop, that or all if asked to, always all."""
    thinks_first: bool = False
    """Whether the prompt opens the thinking with which the answer begins."""
    can_disable: bool = False

    def template(self, name: str) -> Template:
        # For a model that never saw think tags, they are ordinary words and stay.
        think = () if self.reasoning == "none" else ("<think>", "</think>")
        specials = Specials(*BRACKETS, *think, patterns=(BARS,))
        return Template(name, specials, _STOP, self._write, frozenset(self.media), kimi_strategy)

    def _write(self, given: Rendering, out: PromptWriter) -> bool:
        ids = given.ids
        instant = self.can_disable and given.thinking is False
        whole = self.reasoning == "all" or (self.reasoning == "asked" and given.preserve_thinking)
        # `last_index` gives the last answer without calls: reasoning after it belongs to the running tool loop
        # (field-guide/kimi-formats.md#which-reasoning-is-kept).
        kept_from = -1 if whole else last_index(given.messages, "assistant")
        self._open(out, given.tools, given.messages)
        for index, message in enumerate(given.messages):
            out.begin(message.turn)
            self._header(out, message)
            if message.role == "assistant" and self.reasoning != "none":
                shown = index > kept_from and not instant
                # An empty pair where nothing is shown: the template writes the tags in every assistant message.
                out.enclose("<think>", message.thinking if shown else "", "</think>")
            if message.response is not None:
                out.enclose("## Return of ", ids.resolve_tool_response_id(message.response), self.result_gap)
            self._content(out, message)
            if message.calls:
                _write_calls(out, message, ids)
            out.own("<|im_end|>")
        if given.add_generation_prompt:
            out.own("<|im_assistant|>assistant<|im_middle|>")
            if self.thinks_first:
                # Instant mode closes the thinking at once; the model was taught that this means "answer now".
                out.own("<think></think>" if instant else "<think>")
        return given.add_generation_prompt and self.thinks_first and not instant

    def _open(self, out: PromptWriter, tools: Sequence[ToolSpec], messages: Sequence[Message]) -> None:
        if tools:
            out.enclose("<|im_system|>tool_declare<|im_middle|>", self.declare(tools), "<|im_end|>")
        if self.default_system and (not messages or messages[0].role != "system"):
            out.own(f"<|im_system|>system<|im_middle|>{self.default_system}<|im_end|>{self.default_system_gap}")

    def _header(self, out: PromptWriter, message: Message) -> None:
        out.own(_OPENINGS[message.role])
        # A name comes from a person or a tool, so it is foreign text; the role's name is ours.
        if self.prints_names and message.name:
            out.foreign(message.name)
        else:
            out.own(message.role)
        out.own("<|im_middle|>")

    def _content(self, out: PromptWriter, message: Message) -> None:
        for part in message.content:
            if isinstance(part, str):
                out.foreign(part)
            else:
                out.own(self.media[part.kind])


def _write_calls(out: PromptWriter, message: Message, ids: ToolIdMapper) -> None:
    out.own("<|tool_calls_section_begin|>")
    for call in message.calls:
        out.enclose("<|tool_call_begin|>", ids.resolve_tool_call_id(call))
        out.enclose("<|tool_call_argument_begin|>", raw_arguments(call), "<|tool_call_end|>")
    out.own("<|tool_calls_section_end|>")


# K2's image token is spelled `media_start`, K2.5's `media_begin`.
_IMAGE = {"image": "<|media_start|>image<|media_content|><|media_pad|><|media_end|>\n"}
_KIMI = "You are Kimi, an AI assistant created by Moonshot AI."
_K25 = _KimiK2(
    {
        "image": "<|media_begin|>image<|media_content|><|media_pad|><|media_end|>\n",
        "video": "<|kimi_k25_video_placeholder|>\n",
    },
    declare=_declare_typescript,
    reasoning="asked",
    thinks_first=True,
    can_disable=True,
)

# The first template writes a backslash and an `n` after the heading of a result, and the model was trained on that.
KIMI_K2_0711 = _KimiK2(
    _IMAGE, default_system="You are a helpful assistant", prints_names=False, result_gap="\\n"
).template("kimi-k2-0711")
KIMI_K2 = _KimiK2(_IMAGE, default_system=_KIMI, default_system_gap="\n").template("kimi-k2")
KIMI_K2_THINKING = _KimiK2(_IMAGE, default_system=_KIMI, reasoning="loop").template("kimi-k2-thinking")
KIMI_K25 = _K25.template("kimi-k2.5")
KIMI_K26 = _K25.template("kimi-k2.6")
KIMI_K27_CODE = replace(_K25, reasoning="all", can_disable=False).template("kimi-k2.7-code")
