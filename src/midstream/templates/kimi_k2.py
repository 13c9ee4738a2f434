"""Kimi K2 and K2-Thinking; the shape that K2.5 to K2.7 share (facts/kimi.md §1).

    <|im_user|>NAME<|im_middle|>TEXT<|im_end|>      im_assistant, im_system (also for tools) likewise, nothing in between

Tools come first, then the system message. Ids are the request's: `functions.{name}:{n}`, counted over all of it, and the
same for a call and its result. Reasoning is kept only in the running tool loop: behind the last answer without calls.
Images are placeholders the server fills; other media are named in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from ..core.ids import ToolIdMapper, kimi_strategy
from ..core.tools import ToolSpec
from .prompt import BARS, Prompt, PromptWriter, Rendering, Specials
from .transcript import Message, callable_tools, compact_json, raw_arguments, spaced_json, tool_object, transcribe
from .typescript import Unsayable, declare_typescript

# The tokens in square brackets are in the vocabulary beside the `<|…|>` ones.
BRACKETS = ("[BOS]", "[EOS]", "[EOT]", "[UNK]", "[PAD]")
THINK = ("<think>", "</think>")
# `[EOS]` as in the stop list DeepInfra documents (facts/kimi.md §5).
STOP = ("<|im_end|>", "[EOS]")

_OPENINGS = {
    "system": "<|im_system|>",
    "tool": "<|im_system|>",
    "user": "<|im_user|>",
    "assistant": "<|im_assistant|>",
}


def declare_json(tools: Sequence[ToolSpec]) -> str:
    return spaced_json([tool_object(tool) for tool in tools])


class KimiK2(msgspec.Struct, frozen=True):
    """One published template of the family: the fields are all in which they differ."""

    name: str
    specials: Specials
    media: Mapping[str, str]
    """The placeholder of each kind of media the template can show."""
    declare: Callable[[Sequence[ToolSpec]], str] = declare_json
    default_system: str = ""
    default_system_gap: str = ""
    """What the template leaves between its default system message and the first message."""
    prints_names: bool = True
    result_gap: str = "\n"
    """What stands between the heading of a result and the result."""
    reasoning: Literal["none", "loop", "asked", "all"] = "none"
    """Which reasoning of the history is shown: never, of the running tool loop, that or all when asked to, always all."""
    thinks_first: bool = False
    """The prompt opens the thinking that the answer begins with."""
    can_disable: bool = False

    def write(self, given: Rendering) -> Prompt:
        transcript = transcribe(given.conversation, frozenset(self.media))
        notes = transcript.notes
        mapper = kimi_strategy.create_mapper() if given.ids is None else given.ids
        instant = self.can_disable and given.thinking is False
        whole = self.reasoning == "all" or (self.reasoning == "asked" and given.preserve_thinking)
        kept_from = -1 if whole else transcript.last_answer
        out = PromptWriter(self.specials)
        self._open(out, callable_tools(given.tools, notes), transcript.messages)
        for index, message in enumerate(transcript.messages):
            self._header(out, message)
            if message.role == "assistant" and self.reasoning != "none":
                out.own("<think>")
                if index > kept_from and not instant:
                    out.foreign(message.thinking)
                out.own("</think>")
            if message.response is not None:
                out.own("## Return of ")
                out.foreign(mapper.resolve_tool_response_id(message.response))
                out.own(self.result_gap)
            self._content(out, message)
            if message.calls:
                _write_calls(out, message, mapper)
            out.own("<|im_end|>")
        if given.add_generation_prompt:
            out.own("<|im_assistant|>assistant<|im_middle|>")
            if self.thinks_first:
                out.own("<think></think>" if instant else "<think>")
        inside = given.add_generation_prompt and self.thinks_first and not instant
        return Prompt(out.text(), STOP, inside, tuple(notes))

    def _open(self, out: PromptWriter, tools: Sequence[ToolSpec], messages: Sequence[Message]) -> None:
        if tools:
            out.own("<|im_system|>tool_declare<|im_middle|>")
            out.foreign(self.declare(tools))
            out.own("<|im_end|>")
        if self.default_system and (not messages or messages[0].role != "system"):
            out.own(f"<|im_system|>system<|im_middle|>{self.default_system}<|im_end|>{self.default_system_gap}")

    def _header(self, out: PromptWriter, message: Message) -> None:
        out.own(_OPENINGS[message.role])
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
        out.own("<|tool_call_begin|>")
        out.foreign(ids.resolve_tool_call_id(call))
        out.own("<|tool_call_argument_begin|>")
        out.foreign(raw_arguments(call))
        out.own("<|tool_call_end|>")
    out.own("<|tool_calls_section_end|>")


_MEDIA = {"image": "<|media_start|>image<|media_content|><|media_pad|><|media_end|>\n"}
_KIMI = "You are Kimi, an AI assistant created by Moonshot AI."

# The first template writes a backslash and an `n` behind the heading of a result, and the model has seen it so.
KIMI_K2_0711 = KimiK2(
    "kimi-k2-0711",
    Specials(*BRACKETS, patterns=(BARS,)),
    _MEDIA,
    default_system="You are a helpful assistant",
    prints_names=False,
    result_gap="\\n",
)
KIMI_K2 = KimiK2(
    "kimi-k2", Specials(*BRACKETS, patterns=(BARS,)), _MEDIA, default_system=_KIMI, default_system_gap="\n"
)
KIMI_K2_THINKING = KimiK2(
    "kimi-k2-thinking", Specials(*BRACKETS, *THINK, patterns=(BARS,)), _MEDIA, default_system=_KIMI, reasoning="loop"
)


def declare_tools(tools: Sequence[ToolSpec]) -> str:
    try:
        return declare_typescript(tools)
    except Unsayable:
        return compact_json([tool_object(tool) for tool in tools])


KIMI_K25 = KimiK2(
    "kimi-k2.5",
    Specials(*BRACKETS, *THINK, patterns=(BARS,)),
    declare=declare_tools,
    reasoning="asked",
    thinks_first=True,
    can_disable=True,
    media={
        "image": "<|media_begin|>image<|media_content|><|media_pad|><|media_end|>\n",
        "video": "<|kimi_k25_video_placeholder|>\n",
    },
)
KIMI_K26 = replace(KIMI_K25, name="kimi-k2.6")
KIMI_K27_CODE = replace(KIMI_K25, name="kimi-k2.7-code", reasoning="all", can_disable=False)
