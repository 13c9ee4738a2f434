"""What a double is about to say, before it takes any wire's form."""

from __future__ import annotations

import re
from typing import Any

import msgspec

_TOKENS = re.compile(r"\s*\S+\s*?(?=\s|\Z)|\s+")


class Call(msgspec.Struct, frozen=True):
    name: str
    arguments: dict[str, Any] = {}

    @property
    def json(self) -> str:
        return msgspec.json.encode(self.arguments).decode()


class Answer(msgspec.Struct, frozen=True):
    """Thinking, then text, then calls; `stop` is `end`, `calls` or `length`."""

    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    length_stop: bool = False
    input_tokens: int = 1

    @property
    def stop(self) -> str:
        return "length" if self.length_stop else "calls" if self.calls else "end"

    @property
    def output_tokens(self) -> int:
        said = (
            len(tokens(self.thinking)) + len(tokens(self.text)) + sum(len(tokens(call.json)) + 1 for call in self.calls)
        )
        return max(1, said)

    @property
    def reasoning_tokens(self) -> int:
        return len(tokens(self.thinking))


class Voice(msgspec.Struct, frozen=True):
    """How one double speaks its wire: names, ids, seals and habits."""

    model: str
    reasoning_field: str = "reasoning_content"
    ids: str = "call"
    """`call`, `functions`, `bare`, `name:n`, `name_n`, `nine`, `toolu`: how this host labels calls."""
    first_call: int = 0
    """How many calls the conversation holds already, for hosts that count over all of it."""
    seal: str = ""
    whole_calls: bool = False
    """Send a call's arguments in one piece."""
    response_id: str = "sim-1"
    completion: str = "deepinfra"
    """On a raw completion: the form its chunks take."""
    text_format: str = "kimi"
    """On a raw completion: how the model writes calls and channels."""
    starts_inside: bool = True
    """On a raw completion: the prompt has opened the thinking."""

    def call_id(self, name: str, number: int) -> str:
        count = self.first_call + number
        match self.ids:
            case "functions":
                return f"functions.{name}:{count}"
            case "name:n":
                return f"{name}:{number}"
            case "name_n":
                return f"{name}_{number}"
            case "bare":
                return str(number)
            case "nine":
                return f"c{count:08d}"
            case "toolu":
                return f"toolu_sim{self.response_id[-6:]}{number}"
            case _:
                return f"call_sim{self.response_id[-6:]}{number}"


def tokens(text: str) -> list[str]:
    """Word-sized pieces that join back to the text."""
    return _TOKENS.findall(text) if text else []


def pieces(text: str, size: int = 7) -> list[str]:
    """Pieces of a JSON text, cut without regard to its grammar, as models do."""
    return [text[at : at + size] for at in range(0, len(text), size)]
