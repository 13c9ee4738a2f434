"""Responses answers -> events: streams and whole bodies through one reading of their items.

An item's deltas stream as they come; `output_item.done` fills in what was not streamed (whole arguments, encrypted
reasoning, ids) and closes its block. Items go by output_index, for hosts change item ids mid-stream; whose arguments a delta
brings is decided by wires/tool_deltas. The final `output` is
read only for items the stream left out. The end is response.completed, .incomplete or .failed, or an error event; EOF or
[DONE] alone is `truncated`. Items of built-in tools are kept whole, for their origin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import msgspec

from ...core.blocks import Opaque, Usage
from ...core.errors import LimitExceeded, MalformedStream, ProviderError, TruncatedStream
from ...core.reduce import MAX_TURN_CHARS, Piece
from ..decode_context import DecodeContext
from ..lenient_json import decode_leniently, text_of, token_count
from ..provider_errors import provider_error
from ..sse import SSEParser
from ..stencil import Template
from ..stream_decoder import StreamDecoder
from ..tool_deltas import ToolDelta, ToolDeltaRouter
from .items import item_fields, namespace_of, part_extra, part_texts, reasoning_extra
from .shapes import ResponseEvent, decode_event, read_event, read_head, read_object, read_raw

# `response.done` is an older word for the same.
_FINAL = {"response.completed": "completed", "response.incomplete": "incomplete", "response.done": "completed"}
_NORMAL = ("completed", "complete")
# What can be read by stencil: everything that is one text under one label.
_DELTAS = {
    "response.output_text.delta": "text",
    "response.reasoning_summary_text.delta": "summary",
    "response.reasoning_text.delta": "content",
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "arguments",
}
_INCOMPLETE = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}


def stop_reason(status: str | None, why: str | None, calls: int) -> str:
    """The host's status in our words. Calls that end with a plain `completed` are calls."""
    if status in _NORMAL:
        return "tool_use" if calls else "end_turn"
    if status == "incomplete":
        return _INCOMPLETE.get(why or "", why or "max_tokens")
    return status or "unknown"


def make_decoder(context: DecodeContext) -> StreamDecoder:
    reader = ResponsesStreamReader(context)
    return StreamDecoder(reader, SSEParser(limit=context.limit), limit=context.limit, template=reader.template)


class ResponsesStreamReader:
    """Reads the events of a response, or a whole one."""

    __slots__ = (
        "_annotations", "_at", "_calls", "_dialect", "_done", "_kept", "_names", "_pending", "_said", "_seen",
        "_text_open", "builder",
    )  # fmt: skip

    # Other wires say the end and then send counts. Here the same event has both.
    end_was_said = False  # the terminal event ends the turn at once

    def __init__(self, context: DecodeContext) -> None:
        self._dialect = context.dialect
        self.builder = context.filtered_builder()
        self._names = context.tool_names
        self._calls = ToolDeltaRouter(self.builder, context.wire_names, context.tool_names)
        # Once whole, a call takes nothing more: another item under its labels is another call.
        self._done: set[Piece] = set()  # calls whose whole item has come
        self._at: tuple[str, int | None, int | None] | None = None  # the part that is streaming
        # A done item repeats all that was streamed. How many of its parts have been told decides what is new in it.
        self._said: dict[tuple[str, int | None], int] = {}  # how many parts of an item have streamed, by channel
        self._text_open = False
        self._annotations: list[Any] = []
        # Items that were begun and never done are looked up in the final output.
        self._pending: set[int | None] = set()  # items that were added and are not done
        self._kept = 0  # bytes of items kept whole
        self._seen = False

    def event(self, data: bytes, name: str) -> None:
        try:
            event = decode_event(data)
        except (msgspec.DecodeError, RecursionError, ValueError):
            event = read_event(data)
            self.builder.split_surrogates = True
        self._seen = True
        self._event(event, event.type or name, data)

    def template(self, data: bytes, name: str) -> Template | None:
        """A delta of text, of reasoning or of arguments."""
        try:
            event = decode_event(data)
        except (msgspec.DecodeError, RecursionError, ValueError):
            return None
        kind = event.type or name
        channel = _DELTAS.get(kind)
        if channel is None or not event.delta:
            return None
        if channel != "arguments":
            # Hosts change item ids within a stream; text goes by place.
            event.item_id = None  # only calls are looked up by it
        part = event.summary_index if channel == "summary" else event.content_index
        at = (channel, event.output_index, part)

        def tell(text: str) -> None:
            event.delta = text
            self._event(event, kind, data)

        return Template(event, event, "delta", tell, lambda texts: self._at == at and self._all_deltas(channel, texts))

    def _all_deltas(self, channel: str, texts: list[str]) -> bool:
        if channel == "text":
            return self.builder.all_text(texts)
        return self.builder.all_thinking(texts) is not None

    def _event(self, event: ResponseEvent, kind: str, data: bytes) -> None:
        # In order of how often they come.
        if kind == "response.output_text.delta":
            if event.delta:
                if self._at != ("text", event.output_index, event.content_index):
                    self._turn_to("text", event.output_index, event.content_index)
                self.builder.text(event.delta)
        elif kind == "response.function_call_arguments.delta" or kind == "response.custom_tool_call_input.delta":
            if event.delta:
                # A delta for a call that nobody announced: hosts drop `output_item.added`.
                self._call_of(event, kind)
                self._calls.array([ToolDelta(event.output_index, event.item_id, arguments=event.delta)])
        elif kind == "response.reasoning_summary_text.delta":
            self._thinking_delta("summary", event.output_index, event.summary_index, event.delta)
        elif kind == "response.reasoning_text.delta":
            self._thinking_delta("content", event.output_index, event.content_index, event.delta)
        else:
            handler = _HANDLERS.get(kind)
            if handler is not None:
                event.type = kind
                handler(self, event, data)
            # An error without a type of its own: some hosts send it among the events.
            elif event.error and read_raw(event.error) is not None:
                self._error(event, data)

    def _turn_to(self, channel: str, item: int | None, part: int | None) -> None:
        """Another part speaks: what was open ends."""
        self.builder.end_block()
        self._text_open = channel == "text"
        self._begin_part(channel, item, part)

    def _begin_part(self, channel: str, item: int | None, part: int | None) -> None:
        self._at = (channel, item, part)
        self._said[channel, item] = self._said.get((channel, item), 0) + 1

    def _thinking_delta(self, field: str, item: int | None, part: int | None, delta: str | None) -> None:
        if not delta:
            return
        at = self._at
        if at is None or at[0] != field or at[1] != item or at[2] != part:
            if self._is_thinking(item):
                # Summary and content parts of one reasoning item are one block, since they go back as one item.
                self._begin_part(field, item, part)  # the parts of one item are one block
            else:
                self._turn_to(field, item, part)
        self.builder.thinking(delta, field)

    def _is_thinking(self, item: int | None) -> bool:
        """Whether this item's reasoning is what streams now."""
        return self._at is not None and self._at[0] != "text" and self._at[1] == item

    def _call_of(self, event: ResponseEvent, kind: str) -> Piece:
        """The call an event is about; one that nobody announced is opened, and waits for its name."""
        piece = self._calls.find(event.output_index, event.item_id)
        if piece is None:
            item = {"type": "custom_tool_call"} if "custom_tool_call" in kind else None
            piece = self._open_call(event.output_index, event.item_id, None, "", item)
        return piece

    def _open_call(
        self, index: int | None, item_id: str | None, call_id: str | None, name: str, item: dict[str, Any] | None = None
    ) -> Piece:
        self._at = None
        self._text_open = False
        delta = ToolDelta(index, item_id, name, raw_id=call_id or "")
        if item is not None:
            delta.freeform, delta.namespace = item["type"] == "custom_tool_call", namespace_of(item)
        return self._calls.open(delta)

    def _created(self, event: ResponseEvent, payload: bytes) -> None:
        if not self.builder.started:
            head = read_head(event.response)
            self.builder.start(head.model or "", head.id)

    def _refusal_delta(self, event: ResponseEvent, payload: bytes) -> None:
        if event.delta:
            if self._at != ("text", event.output_index, event.content_index):
                self._turn_to("text", event.output_index, event.content_index)
            self.builder.text(event.delta, {"refusal": True})

    def _annotation(self, event: ResponseEvent, payload: bytes) -> None:
        self._annotations.append(read_raw(event.annotation))

    def _part_done(self, event: ResponseEvent, payload: bytes) -> None:
        """A message's part is whole: its citations are known now."""
        if self._at == ("text", event.output_index, event.content_index):
            self._mark_text(read_object(event.part))

    def _mark_text(self, part: dict[str, Any], fields: dict[str, Any] | None = None) -> None:
        extra = part_extra(part)
        if self._annotations and "annotations" not in extra:
            extra["annotations"] = self._annotations
        self._annotations = []
        if fields:
            extra["item"] = fields
        # Only while the text is open: citations of a closed one would join the next.
        if extra and self._text_open:
            self.builder.text("", extra)

    def _arguments_done(self, event: ResponseEvent, payload: bytes) -> None:
        piece = self._call_of(event, event.type or "")
        self._complete_call(piece, None, event.name, event.arguments or event.input)

    def _complete_call(self, piece: Piece, call_id: str | None, name: str | None, arguments: Any) -> None:
        """Whatever of a call came late, or not in deltas."""
        builder = self.builder
        if call_id and not piece.raw_id:
            piece.raw_id = call_id
        if arguments is not None and not piece.closed:
            text = text_of(arguments)
            streamed = "".join(piece.parts)
            if piece.freeform:
                builder.whole_input(piece, text)
            # Only what is new, and only if it continues what was streamed. What was told stays.
            elif len(text) > len(streamed) and text.startswith(streamed):
                builder.call_arguments(piece, text[len(streamed) :])
        if name and not piece.name:
            builder.name_call(piece, self._names.get(name, name))

    def _item_added(self, event: ResponseEvent, payload: bytes) -> None:
        item = read_object(event.item)
        self._keep(len(event.item))
        self._pending.add(event.output_index)
        if item.get("type") in ("function_call", "custom_tool_call"):
            piece = self._open_call(event.output_index, *_call_head(item), item)
            self._keep_call_fields(piece, item)

    def _item_done(self, event: ResponseEvent, payload: bytes) -> None:
        self._pending.discard(event.output_index)
        self._keep(len(event.item))
        self._item(read_object(event.item), event.output_index)

    def _keep(self, size: int) -> None:
        self._kept += size
        if self._kept > MAX_TURN_CHARS:
            raise LimitExceeded(f"the items of the answer are longer than {MAX_TURN_CHARS} bytes")

    def _item(self, item: dict[str, Any], index: int | None) -> None:
        """A whole item: close what it streamed, or take it as it is."""
        kind = item.get("type")
        if kind == "message":
            self._message(item, index)
        elif kind == "reasoning":
            self._reasoning(item, index)
        elif kind in ("function_call", "custom_tool_call"):
            self._call(item, index)
        elif kind:
            self.builder.whole(Opaque(str(kind), item, self.builder.origin))
        for channel in ("text", "summary", "content"):
            self._said.pop((channel, index), None)  # hosts without output_index: the next item starts from nothing
        self._at = None
        self._text_open = False

    def _message(self, item: dict[str, Any], index: int | None) -> None:
        fields = item_fields(item)
        content = item.get("content")
        # Imitators: a plain string, or data where parts belong.
        if isinstance(content, str):
            content = [{"type": "output_text", "text": content}]
        elif content is not None and not _has_parts(content):
            content = [{"type": "output_text", "text": text_of(content)}]
        # Parts are counted, not matched by content_index: some hosts begin that at 1.
        said = self._said.get(("text", index), 0)
        for place, part in enumerate(content if isinstance(content, list) else (), 1):
            if not isinstance(part, dict):
                part = {"type": "output_text", "text": text_of(part)}
            # This part was not streamed.
            if place > said:
                refusal = part.get("refusal")
                text = text_of(refusal if isinstance(refusal, str) else part.get("text"))
                if not text:
                    continue
                self._turn_to("text", index, place)
                self.builder.text(text, {"refusal": True} if refusal else None)
            if place >= said:
                self._mark_text(part, fields)
        if self._text_open:
            self.builder.end_block()

    def _reasoning(self, item: dict[str, Any], index: int | None) -> None:
        said = {channel: self._said.get((channel, index), 0) for channel in ("summary", "content")}
        streamed = any(said.values())
        for channel, count in said.items():
            # The same reasoning in both channels would be told twice.
            if count or not streamed:  # some hosts repeat in one what they streamed in the other
                for place, text in enumerate(part_texts(item.get(channel))[count:], count):
                    self._thinking_delta(channel, index, place, text)
        if not self._is_thinking(index):
            if streamed:
                return  # another item came between: the block is closed already
            self.builder.end_block()
        # Even without words: an item that holds nothing but encrypted reasoning has to go back.
        piece = self.builder.thinking("", "summary")
        piece.extra = reasoning_extra(item)
        encrypted = item.get("encrypted_content")
        piece.encrypted = encrypted if isinstance(encrypted, str) and encrypted else None
        self.builder.end_block()

    def _call(self, item: dict[str, Any], index: int | None) -> None:
        item_id, call_id, name = _call_head(item)
        piece = self._calls.find(index, item_id)
        # Another name at the same place is another call: hosts reuse indexes.
        if piece is None or piece in self._done or (piece.name and name and piece.name != self._names.get(name, name)):
            piece = self._open_call(index, item_id, call_id, name, item)
        self._keep_call_fields(piece, item)
        arguments = item.get("input") if item.get("type") == "custom_tool_call" else item.get("arguments")
        self._complete_call(piece, call_id, name, arguments)
        self.builder.close_call(piece)
        self._done.add(piece)

    @staticmethod
    def _keep_call_fields(piece: Piece, item: dict[str, Any]) -> None:
        fields = item_fields(item)
        piece.extra = {"item": fields} if fields else None

    def _final(self, event: ResponseEvent, payload: bytes) -> None:
        self._finish(read_object(event.response), _FINAL[event.type or ""])

    def _failed(self, event: ResponseEvent, payload: bytes) -> None:
        self._failure(read_object(event.response))

    def _failure(self, response: dict[str, Any]) -> NoReturn:
        error = response.get("error") or {"message": "the response failed, and no reason was given"}
        self.builder.usage = read_usage(response.get("usage"))
        raise self._refusal({"error": error})

    def _finish(self, response: dict[str, Any], status: str | None) -> None:
        """The response object at the end of a stream, or as a whole body."""
        builder = self.builder
        said = response.get("status")
        # The body's own status wins over the event's name.
        status = said if isinstance(said, str) else status
        if status == "failed":
            self._failure(response)
        model, response_id = response.get("model"), response.get("id")
        builder.start(str(model or ""), str(response_id) if response_id else None)
        output = response.get("output")
        # Asked before the items are read.
        unsaid = builder.is_blank  # nothing was streamed: the final output is all there is
        for index, item in enumerate(output if isinstance(output, list) else ()):
            # Everything else has been told already; reading the output again would double it.
            if isinstance(item, dict) and (unsaid or index in self._pending):
                self._item(item, index)
        builder.usage = read_usage(response.get("usage"))
        # A background response that was polled too early.
        if status in ("queued", "in_progress"):
            raise TruncatedStream(f"the response is still {status}")
        details = response.get("incomplete_details")
        why = details.get("reason") if isinstance(details, dict) else None
        why = why if isinstance(why, str) else None
        raw_stop = f"{status}:{why}" if status == "incomplete" and why else status
        builder.finish(stop_reason(status, why, builder.calls), raw_stop)

    def _error(self, event: ResponseEvent, payload: bytes) -> None:
        value = decode_leniently(payload)
        inner = value.get("error") or {key: found for key, found in value.items() if key != "type"}
        raise self._refusal({"error": inner})

    def whole(self, body: bytes) -> None:
        value = read_raw(msgspec.Raw(body))
        if not isinstance(value, dict):
            raise MalformedStream(f"expected a response object, got {type(value).__name__}")
        if "output" not in value and (value.get("error") or value.get("detail")):
            raise self._refusal(value)
        if "output" not in value and "status" not in value:
            raise MalformedStream("expected a response object with an `output` list")
        self._finish(value, None)

    def end(self) -> None:
        """The stream is over and no terminal event came."""
        builder = self.builder
        if self._dialect.sends_finish:
            what = "before the response was complete" if self._seen else "before anything came"
            raise TruncatedStream(f"the stream ended {what}")
        builder.finish("tool_use" if builder.calls else "end_turn")

    def settle(self) -> None:
        """The counts come with the terminal event only."""

    def _refusal(self, body: dict[str, Any]) -> ProviderError:
        return provider_error(None, body, provider=self._dialect.provider)


def _has_parts(content: Any) -> bool:
    """Whether this is a list of parts, and not an answer that is itself an object or a list."""
    return isinstance(content, list) and (not content or any(isinstance(part, dict) for part in content))


def _call_head(item: dict[str, Any]) -> tuple[str | None, str | None, str]:
    """Item id, call id and name of a call."""
    item_id, call_id, name = item.get("id"), item.get("call_id"), item.get("name")
    return str(item_id) if item_id else None, str(call_id) if call_id else None, str(name or "")


_Handler = Callable[[ResponsesStreamReader, ResponseEvent, bytes], None]
# By name, and not as a chain of ifs: these come once or twice in an answer.
_HANDLERS: dict[str, _Handler] = {
    "response.created": ResponsesStreamReader._created,
    "response.in_progress": ResponsesStreamReader._created,
    "response.queued": ResponsesStreamReader._created,
    "response.output_item.added": ResponsesStreamReader._item_added,
    "response.output_item.done": ResponsesStreamReader._item_done,
    "response.content_part.done": ResponsesStreamReader._part_done,
    "response.output_text.annotation.added": ResponsesStreamReader._annotation,
    "response.refusal.delta": ResponsesStreamReader._refusal_delta,
    "response.function_call_arguments.done": ResponsesStreamReader._arguments_done,
    "response.custom_tool_call_input.done": ResponsesStreamReader._arguments_done,
    "response.completed": ResponsesStreamReader._final,
    "response.incomplete": ResponsesStreamReader._final,
    "response.done": ResponsesStreamReader._final,
    "response.failed": ResponsesStreamReader._failed,
    "error": ResponsesStreamReader._error,
}


_TICKS = 1e10
"""xAI's cost_in_usd_ticks: ten billion to the dollar."""


def read_usage(raw: Any) -> Usage | None:
    """Missing and null counts are 0. Cached tokens are part of the input, reasoning is part of the output."""
    if not isinstance(raw, dict) or not raw:
        return None
    read, written = _details(raw, "input_tokens_details"), _details(raw, "output_tokens_details")
    cost = raw.get("cost")
    if cost is None and isinstance(raw.get("cost_in_usd_ticks"), (int, float)):
        cost = raw["cost_in_usd_ticks"] / _TICKS
    return Usage(
        input=token_count(raw.get("input_tokens")),
        output=token_count(raw.get("output_tokens")),
        cache_read=token_count(read.get("cached_tokens")),
        cache_write=token_count(read.get("cache_write_tokens")),
        reasoning=token_count(written.get("reasoning_tokens")),
        cost=float(cost) if isinstance(cost, (int, float)) and not isinstance(cost, bool) else None,
        raw=raw,
    )


def _details(raw: dict[str, Any], name: str) -> dict[str, Any]:
    value = raw.get(name)
    return value if isinstance(value, dict) else {}
