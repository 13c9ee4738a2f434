"""What an encode gives: one HTTP request without its secrets, and the notes of what had to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.blocks import Value
from ..core.dialect import Dialect, Options
from ..core.handoff import Note


class Request(Value, frozen=True):
    """`path` is relative to the endpoint's base URL. `tool_names` maps a name on the wire back to the tool's own.

    `dialect` is the one that reads the answer: the path that was chosen, and how the prompt left off.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    notes: tuple[Note, ...] = ()
    tool_names: dict[str, str] | None = None
    stream: bool = True
    wire: str = ""
    model: str = ""
    dialect: Dialect | None = None


def merge_body(body: dict[str, Any], extra: dict[str, Any] | None) -> None:
    """The caller's own fields go last; an object joins the object that is there (`thinking` gains `keep`)."""
    for key, value in (extra or {}).items():
        known = body.get(key)
        body[key] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value


def join_body(head: bytes, items: list[bytes], tail: bytes) -> bytes:
    """Head, items with commas between them, and tail, in one copy, for a long history is most of a body. Uses `items` up."""
    if not items:
        return head + tail
    items[0] = head + items[0]
    items[-1] += tail
    return b",".join(items)


SAMPLING = ("temperature", "top_p", "seed", "presence_penalty", "frequency_penalty")


def sampling_fields(
    options: Options,
    dialect: Dialect,
    notes: list[Note],
    names: Sequence[str] = SAMPLING,
    spelled: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The values of the named options, by their own names or as they are `spelled` here."""
    fields: dict[str, Any] = {}
    for name in names:
        value = getattr(options, name)
        if value is None or value == ():
            continue
        if name in dialect.sampling:
            fields[spelled.get(name, name) if spelled else name] = value
        else:
            notes.append(Note("dropped", "option", f"{name} is fixed or unknown for this model"))
    return fields


def token_limit(options: Options, dialect: Dialect, notes: list[Note]) -> int | None:
    """How long the answer may be, as far as the model can go; None leaves it to the host."""
    limit, most = options.max_tokens or dialect.default_max_tokens, dialect.limits.max_output
    if limit is None or most is None or limit <= most:
        return limit
    notes.append(Note("adapted", "option", f"max_tokens {limit} is above this model's {most}"))
    return most
