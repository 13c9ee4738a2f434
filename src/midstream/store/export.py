"""Conversations as files: lossless JSONL, and Markdown for people.

JSONL: one line for the conversation (`{"midstream": 1, …}`: its system prompt, settings and so on), then one line per turn.
Several conversations follow each other. Reading a file gives equal entries, and writing those gives the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, assert_never

import msgspec
from msgspec.structs import replace

from ..core.blocks import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResponse, Turn
from ..core.errors import StoreError
from ..core.plural import pluralize
from ..core.tools import freeform_input
from .protocol import Entry
from .records import checked_entry, encode_head, encode_turn, title_of

# Raised only when an older midstream would misread a file. New
# fields with defaults do not need it: they are ignored there.
VERSION = 1


_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


class _Opening(msgspec.Struct, frozen=True):
    """The first line of a conversation."""

    midstream: int
    entry: Entry
    turns: int


_decode_opening = msgspec.json.Decoder(_Opening).decode
_decode_turn = msgspec.json.Decoder(Turn).decode


def to_jsonl(entries: Iterable[Entry]) -> Iterator[bytes]:
    """The lines of a JSONL file, each with its newline."""
    for entry in entries:
        conversation = checked_entry(entry).conversation
        encode_head(conversation)  # refuses, with a reason, what cannot be written
        # The settings are sorted, so that the same conversation
        # always gives the same bytes and exports can be compared.
        head = replace(entry, conversation=replace(conversation, turns=()), meta=dict(sorted(entry.meta.items())))
        yield msgspec.json.encode(_Opening(VERSION, head, len(conversation.turns))) + b"\n"
        for turn in conversation.turns:
            yield encode_turn(turn) + b"\n"


def read_jsonl(lines: Iterable[bytes]) -> Iterator[Entry]:
    """The entries of a JSONL file, one at a time. A file that was cut short is refused where it ends."""
    opening: _Opening | None = None
    turns: list[Turn] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            # The count in the opening line tells turns from the
            # next opening: a line is never guessed at by its shape.
            if opening is not None and len(turns) < opening.turns:
                turns.append(_decode_turn(line))
                continue
            fresh = _decode_opening(line)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise StoreError(f"line {number} is not valid in a midstream export: {error}") from error
        if opening is not None:
            yield _closed(opening, turns)
        if fresh.midstream > VERSION:
            raise StoreError(
                f"line {number}: this export has version {fresh.midstream}, which this midstream does not support; upgrade it"
            )
        opening, turns = fresh, []
    if opening is not None:
        yield _closed(opening, turns)


def _closed(opening: _Opening, turns: list[Turn]) -> Entry:
    if len(turns) != opening.turns:
        name = opening.entry.conversation.id
        raise StoreError(
            f"the export is incomplete: conversation {name!r} has {len(turns)} of its {pluralize(opening.turns, 'turn')}"
        )
    return replace(opening.entry, conversation=replace(opening.entry.conversation, turns=tuple(turns)))


def to_markdown(entry: Entry, *, thinking: bool = False) -> str:
    """A conversation to read, with tool calls and results as code blocks, and reasoning if `thinking` is true."""
    conversation = entry.conversation
    title = entry.meta.get("title") or title_of(conversation.turns) or "Conversation"
    parts = [f"# {' '.join(title.split())}"]
    if conversation.system_text:
        parts.append(f"## System\n\n{_closed_fences(conversation.system_text)}")
    for turn in conversation.turns:
        shown = [text for block in turn.blocks if (text := _block(block, thinking))]
        if turn.failure:
            shown.append(f"*This answer failed: {_line(turn.failure)}.*")
        if turn.tools:
            names = ", ".join([f"`{_line(tool.qualified_name)}`" for tool in turn.tools])
            shown.append(f"*Tools from here on: {names}.*")
        # Other records of compaction are instructions to the encoder; there is nothing in them to read.
        if turn.compacted is None or turn.compacted.action == "summary":
            parts.append("\n\n".join([f"## {_speaker(turn)}", *shown]))
    return "\n\n".join(parts) + "\n"


def _speaker(turn: Turn) -> str:
    if turn.compacted is not None:
        return f"Summary of the first {pluralize(turn.compacted.until, 'turn')}, sent to models in their place"
    if turn.role:
        return _line(turn.role).capitalize()
    if turn.speaker == "ai":
        return _line(turn.origin.name if turn.origin is not None else "") or "Assistant"
    return {"human": "You", "tool": "Tools", "system": "System"}[turn.speaker]


def _block(block: Block, thinking: bool) -> str:
    match block:
        case Text():
            return _closed_fences(block.text)
        case Thinking():
            return "\n".join([f"> {line}".rstrip() for line in block.text.splitlines()]) if thinking else ""
        case ToolCall():
            said = (
                _fenced(freeform_input(block))
                if block.kind == "freeform"
                else _fenced(_pretty(block.arguments), "json")
            )
            return f"**{_line(block.qualified_name)}**\n\n{said}"
        case ToolResponse():
            inner = [_fenced(part.text) if type(part) is Text else _block(part, thinking) for part in block.content]
            return "\n\n".join([f"**{_line(block.name) or 'result'}**" + (" failed" if block.is_error else ""), *inner])
        case Media():
            return f"*[{_line(' '.join([part for part in (block.kind, block.name, block.mime) if part]))}]*"
        case Opaque():
            return f"*[{_line(block.kind)}]*"
        case _:
            assert_never(block)


def _pretty(arguments: str) -> str:
    try:
        value: Any = msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return arguments
    return msgspec.json.format(msgspec.json.encode(value)).decode()


def _line(name: str) -> str:
    """A name as one line: behind a line break in it could stand a turn that nobody took."""
    return " ".join(name.split())


def _closed_fences(text: str) -> str:
    """The text, without a code block left open in it: what follows would be part of that."""
    fence = ""
    for line in text.split("\n"):
        if not fence:
            opened = _FENCE.match(line)
            fence = opened[1] if opened and not ("`" in opened[1] and "`" in line[opened.end() :]) else ""
        elif (mark := line.strip()).startswith(fence) and not mark.strip(fence[0]):
            fence = ""
    return f"{text}\n{fence}" if fence else text


def _fenced(text: str, language: str = "") -> str:
    """A code block whose fence is longer than any run of backticks in it."""
    # 2, so that the shortest fence is the usual three backticks.
    longest = max([len(run) for run in re.findall(r"`{3,}", text)], default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
