"""The answer of a double, before it is written in any wire's format, and how its provider writes answers."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ..core.tools import ToolKind
from ..wires.answer import Habits, UsagePlace

# A small number that matches no token: cuts fall in the middle of names and escapes, and a decoder that only works on
# whole tokens fails here first.
_PIECE = 7
_TOKENS = re.compile(r"\s*\S+\s*?(?=\s|\Z)|\s+")


class Call(msgspec.Struct, frozen=True):
    """A call; a `freeform` one has its text as `input` among the arguments."""

    name: str
    arguments: dict[str, Any] = {}
    kind: ToolKind = "function"
    namespace: str = ""

    @property
    def json(self) -> str:
        return msgspec.json.encode(self.arguments).decode()


class Answer(msgspec.Struct, frozen=True):
    """Thinking, then text, then calls; `stop` is `end`, `calls` or `length`."""

    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    length_stop: bool = False
    stopped_by: str = ""
    """The stop sequence that ended it."""
    input_tokens: int = 1

    @property
    def stop(self) -> str:
        return "length" if self.length_stop else "calls" if self.calls else "end"

    @property
    def output_tokens(self) -> int:
        calls = sum(len(tokens(call.json)) + 1 for call in self.calls)
        return max(1, self.reasoning_tokens + len(tokens(self.text)) + calls)

    @property
    def reasoning_tokens(self) -> int:
        return len(tokens(self.thinking))


class Style(msgspec.Struct, frozen=True):
    """How one provider writes its answers: its model's name, field names, call ids and signatures."""

    model: str
    reasoning_field: str = "reasoning_content"
    ids: str = "call"
    """How the host numbers calls: `call`, `functions`, `bare`, `name:n`, `name_n`, `nine` or `toolu`."""
    first_call: int = 0
    """The number of calls already in the conversation, for hosts that count through all of it."""
    signature: str = ""
    """The beginning of every signature it gives; empty if it signs nothing."""
    whole_calls: bool = False
    """Whether a call's arguments are sent in one piece."""
    calls_together: bool = False
    """Whether all calls of an answer come in its last chunk."""
    thinking_parts: bool = False
    """Whether reasoning stands among the parts of the content."""
    usage: UsagePlace = "chunk"
    counts_unasked: bool = False
    """Whether tokens are counted in every stream, asked for or not."""
    response_id: str = "sim-1"
    completion: str = "deepinfra"
    """On a raw completion: the format of its chunks."""
    text_format: str = "kimi"
    """On a raw completion: how the model writes calls and channels."""
    starts_inside: bool = True
    """On a raw completion: whether the prompt has already opened the thinking."""

    prices: bool = False
    """Whether it says what an answer cost."""

    def habits(self, *, names_calls: bool = True) -> Habits:
        """The same for the `answer` room of the host's wire."""
        return Habits(
            ids="own" if names_calls else "none",
            whole_calls=self.whole_calls,
            calls_together=self.calls_together,
            thinking_parts=self.thinking_parts,
            usage=self.usage,
            reasoning_field=self.reasoning_field,
            completion=self.completion,
            text_format=self.text_format,
            starts_inside=self.starts_inside,
            pieces=_PIECE,
        )

    def sign(self, text: str) -> str:
        """The signature it gives a text; empty if it signs nothing. Base64, as the hosts' own are."""
        if not self.signature:
            return ""
        signed = f"{self.signature}{len(text)}"
        # Base64 has a length that is divisible by four; some clients check this before they send a signature back.
        return signed + "A" * (-len(signed) % 4)

    def call_id(self, name: str, number: int) -> str:
        count = self.first_call + number
        match self.ids:
            case "functions":
                return f"functions.{name}:{count}"
            case "name:n":
                return f"{name}:{count}"
            case "name_n":
                return f"{name}_{count}"
            # DeepInfra's: they begin again with each answer, so they repeat within a conversation
            # (field-guide/hosts.md#kimi-host-by-host).
            case "bare":
                return str(number)
            # Exactly nine letters or digits, as Mistral's are (field-guide/tool-ids.md#who-demands-what).
            case "nine":
                return f"c{count:08d}"
            case "toolu":
                return f"toolu_sim{self.response_id[-6:]}{number}"
            case _:
                return f"call_sim{self.response_id[-6:]}{number}"


def tokens(text: str) -> list[str]:
    """The text cut into pieces of about a word."""
    return _TOKENS.findall(text) if text else []


def pieces(text: str, size: int = _PIECE) -> list[str]:
    """A JSON text cut anywhere, as hosts stream it."""
    return [text[at : at + size] for at in range(0, len(text), size)]
