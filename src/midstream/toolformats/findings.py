"""What a text filter finds in a stream: plain text, thinking, tool calls, and problems worth reporting.

A filter is fed text in pieces of any size and gives findings; any split gives the same findings once neighbouring pieces of the
same kind are joined. It holds back only what may still become a marker, and costs O(n).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeAlias

import msgspec


class _Finding(msgspec.Struct, frozen=True, gc=False):
    pass


class TextFound(_Finding, frozen=True, tag="text"):
    text: str


class ThinkingFound(_Finding, frozen=True, tag="thinking"):
    text: str


class CallFound(_Finding, frozen=True, tag="call"):
    """A tool call begins: its name, and the id the model wrote, if any."""

    name: str
    raw_id: str | None = None


class ArgumentsFound(_Finding, frozen=True, tag="arguments"):
    """A piece of the JSON text of the open call's arguments."""

    json: str


class CallEnded(_Finding, frozen=True, tag="call_end"):
    pass


class ProblemFound(_Finding, frozen=True, tag="problem"):
    """Something that looked like a call but is not one: what came, and why it was not accepted."""

    why: str
    raw: str


Finding: TypeAlias = TextFound | ThinkingFound | CallFound | ArgumentsFound | CallEnded | ProblemFound


class Idle(NamedTuple):
    """A filter at rest in plain text: what holds none of `alarms` (the first characters of its markers) is text for sure. It
    may go past the filter, if it is appended to `text`: what comes later may ask where it stands."""

    text: list[str]
    # One character each, so that the caller's test is a substring search in C and not a call of the filter.
    alarms: str


class TextFilter(Protocol):
    @property
    def idle(self) -> Idle | None:
        """None unless the filter is at rest: it holds nothing back and is inside nothing."""
        ...

    @property
    def unclosed(self) -> bool:
        """Whether the text was taken to begin inside thinking and ended without a tag that said so. True from `close` on."""
        ...

    def feed(self, text: str) -> list[Finding]: ...

    def close(self) -> list[Finding]: ...
