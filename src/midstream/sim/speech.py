"""An Answer in each wire's format, streamed or whole: its events, written by the wire's own `answer` room.

How a host writes them is a Style; `Style.habits` says it in the words of that room. There is no other writer of answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from ..core.blocks import Text, Thinking, ToolCall, Turn, Usage
from ..core.events import (
    Done,
    Event,
    Start,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from ..wires.answer import AnswerContext, AnswerWriter, answer_to, make_writer
from ..wires.request import ParsedRequest
from .answer import Answer, Style, pieces, tokens

_PIECES = re.compile(rb".+?(?:\r?\n\r?\n|\Z)", re.S)
"""One event of a stream, or one line; JSON holds no line ends."""
_TOKEN_TIME = 10_000_000
"""Nanoseconds that a double takes for a token, so it says."""
_STOPS = {"end": "end_turn", "calls": "tool_use", "length": "max_tokens"}
# A bound: a test must not be able to ask for a million copies of an answer.
_MOST_CHOICES = 16
_SSE_DATA = b"data: "


class Speaker(msgspec.Struct, frozen=True):
    """How a wire is spoken."""

    media_type: str = "text/event-stream"
    streams: bool = False
    """Whether it streams unless told not to."""
    names_calls: bool = True
    """Whether the host gives its calls ids."""
    response_prefix: str = ""
    shows_thoughts: bool = True
    """Whether thinking is shown unless the client says otherwise."""


# Defaults of the wires, where a request says nothing: Ollama streams (field-guide/ollama.md#stream), Gemini shows no
# thoughts unless asked (field-guide/gemini.md#thinking) and gives no ids.
SPEAKERS: dict[str, Speaker] = {
    "openai-chat": Speaker(),
    "anthropic": Speaker(),
    "openai-responses": Speaker(response_prefix="resp_"),
    "gemini": Speaker(names_calls=False, shows_thoughts=False),
    "ollama": Speaker("application/x-ndjson", streams=True, names_calls=False),
    "cohere": Speaker(),
    "completion": Speaker(),
}


def speak(
    wire: str, answer: Answer, style: Style, asked: ParsedRequest | None = None, **fields: Any
) -> Iterator[bytes]:
    """The pieces of the stream, as the host would send them to one who `asked` so; without a request, all it can tell.
    `fields` are more of the answer's context."""
    writer = _writer(wire, answer, style, asked, fields)
    for event in _events(_turn(wire, answer, style)):
        yield from _PIECES.findall(writer.event(event))


def speak_whole(wire: str, answer: Answer, style: Style, asked: ParsedRequest | None = None, **fields: Any) -> bytes:
    """The JSON of the same answer without a stream."""
    return _writer(wire, answer, style, asked, fields).body(_turn(wire, answer, style))


def counted(wire: str, tokens: int) -> dict[str, Any]:
    """How a wire tells how many tokens a request holds."""
    match wire:
        case "gemini":
            return {"totalTokens": tokens, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens}]}
        case "openai-responses":
            return {"object": "response.input_tokens", "input_tokens": tokens}
        case _:
            return {"input_tokens": tokens}


def _writer(
    wire: str, answer: Answer, style: Style, asked: ParsedRequest | None, fields: Mapping[str, Any]
) -> AnswerWriter:
    speaker = SPEAKERS[wire]
    # Without a request, everything that can be told is told: the matrix needs histories with all their parts.
    context = AnswerContext(style.model, include=("reasoning.encrypted_content",))
    if asked is not None:
        context = answer_to(asked, response_id="", created=0, model=style.model)
    return make_writer(
        wire,
        replace(
            context,
            response_id=speaker.response_prefix + style.response_id,
            thinking=context.thinking or speaker.shows_thoughts,
            usage=context.usage or style.counts_unasked,
            input_tokens=answer.input_tokens,
            elapsed=answer.output_tokens * _TOKEN_TIME,
            habits=style.habits(names_calls=speaker.names_calls),
            **fields,
        ),
    )


def _turn(wire: str, answer: Answer, style: Style) -> Turn:
    if wire == "completion" and style.text_format == "kimi":
        style = replace(style, ids="functions")  # the name of the tool is in the id, and nowhere else
    signed = style.sign(answer.thinking) or None
    calls = [
        ToolCall(
            style.call_id(call.name, number),
            call.name,
            call.json,
            # Gemini signs the first call of a turn; on other wires nobody looks at this.
            extra={"thoughtSignature": style.sign(call.json)} if number == 0 and style.signature else None,
            kind=call.kind,
            namespace=call.namespace,
        )
        for number, call in enumerate(answer.calls)
    ]
    said = [Thinking(answer.thinking, signature=_proof(wire, signed), encrypted=signed)] if answer.thinking else []
    cost = answer.output_tokens / 1_000_000 if style.prices else None
    return Turn(
        "ai",
        (*said, *([Text(answer.text)] if answer.text else []), *calls),
        usage=Usage(answer.input_tokens, answer.output_tokens, reasoning=answer.reasoning_tokens, cost=cost),
        stop_reason=_STOPS[answer.stop],
        raw_stop="stop_sequence" if answer.stopped_by else None,
        extra={"stop_sequence": answer.stopped_by} if answer.stopped_by else None,
    )


def _proof(wire: str, signed: str | None) -> str | None:
    """Thinking is signed on one wire only; Gemini's signature is on its calls."""
    return signed if wire == "anthropic" else None


def _events(turn: Turn) -> Iterator[Event]:
    """The turn as a host streams it: words one by one, arguments cut anywhere."""
    yield Start()
    for index, block in enumerate(turn.blocks):
        match block:
            case Thinking():
                yield ThinkingStart(index)
                for token in tokens(block.text):
                    yield ThinkingDelta(index, token)
                yield ThinkingEnd(index, block)
            case Text():
                yield TextStart(index)
                for token in tokens(block.text):
                    yield TextDelta(index, token)
                yield TextEnd(index, block)
            case ToolCall():
                yield ToolCallStart(index, block.id, block.name, block.kind, block.namespace)
                # Cut anywhere, even inside an escape: hosts do.
                for piece in pieces(block.arguments):
                    yield ToolCallDelta(index, piece)
                yield ToolCallEnd(index, block)
    yield Done(turn)


def requested_choices(wire: str, body: dict[str, Any]) -> int:
    """How many choices a request asks for, on the wire that has them."""
    count = body.get("n")
    if wire != "openai-chat" or not isinstance(count, int) or isinstance(count, bool):
        return 1
    return max(1, min(_MOST_CHOICES, count))


def whole_choices(answer: bytes, count: int) -> bytes:
    """A whole answer with this many choices."""
    if count == 1:
        return answer
    body = msgspec.json.decode(answer)
    body["choices"] = [{**choice, "index": index} for index in range(count) for choice in body["choices"]]
    _count_usage(body, count)
    return msgspec.json.encode(body)


def streamed_choices(pieces: Iterable[bytes], count: int) -> Iterator[bytes]:
    """A stream that repeats each chunk for every choice."""
    for piece in pieces:
        if count == 1 or not piece.startswith(_SSE_DATA + b"{"):
            yield piece
            continue
        chunk = msgspec.json.decode(piece[len(_SSE_DATA) :])
        _count_usage(chunk, count)
        # The last chunk, with the usage alone; it belongs to no choice and is sent once.
        if not chunk["choices"]:
            yield _SSE_DATA + msgspec.json.encode(chunk) + b"\n\n"
        for index in range(count):
            for choice in chunk["choices"]:
                copy = {**chunk, "choices": [{**choice, "index": index}]}
                if index < count - 1 and chunk.get("usage"):
                    copy["usage"] = None  # it stands with the last choice
                yield _SSE_DATA + msgspec.json.encode(copy) + b"\n\n"


def _count_usage(body: dict[str, Any], count: int) -> None:
    usage = body.get("usage")
    if usage:
        usage["completion_tokens"] *= count
        usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
