"""OpenAI Responses: items that are added, take deltas and are done; the response closes the stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ...core.tools import INPUT
from ..answer import Answer, Style, pieces, tokens


def stream(answer: Answer, style: Style) -> Iterator[bytes]:
    say = _Numbered()
    yield say("response.created", response=_response(answer, style, "in_progress", []))
    yield say("response.in_progress", response=_response(answer, style, "in_progress", []))
    items = _items(answer, style)
    for index, item in enumerate(items):
        where = {"output_index": index, "item_id": item["id"]}
        if item["type"] == "reasoning":
            opened = {**item, "summary": [], "encrypted_content": ""}
            yield say("response.output_item.added", output_index=index, item=opened)
            part = {"type": "summary_text", "text": ""}
            yield say("response.reasoning_summary_part.added", **where, summary_index=0, part=part)
            for token in tokens(answer.thinking):
                yield say("response.reasoning_summary_text.delta", **where, summary_index=0, delta=token)
            yield say("response.reasoning_summary_text.done", **where, summary_index=0, text=answer.thinking)
            yield say("response.reasoning_summary_part.done", **where, summary_index=0, part=item["summary"][0])
        elif item["type"] == "message":
            opened = {**item, "content": [], "status": "in_progress"}
            yield say("response.output_item.added", output_index=index, item=opened)
            empty = {"type": "output_text", "text": "", "annotations": []}
            yield say("response.content_part.added", **where, content_index=0, part=empty)
            for token in tokens(answer.text):
                yield say("response.output_text.delta", **where, content_index=0, delta=token)
            yield say("response.output_text.done", **where, content_index=0, text=answer.text)
            yield say("response.content_part.done", **where, content_index=0, part=item["content"][0])
        elif item["type"] == "custom_tool_call":
            opened = {**item, "input": "", "status": "in_progress"}
            yield say("response.output_item.added", output_index=index, item=opened)
            for part_text in pieces(item["input"]):
                yield say("response.custom_tool_call_input.delta", **where, delta=part_text)
            yield say("response.custom_tool_call_input.done", **where, input=item["input"])
        else:
            yield say(
                "response.output_item.added",
                output_index=index,
                item={**item, "arguments": "", "status": "in_progress"},
            )
            for part_text in pieces(item["arguments"]):
                yield say("response.function_call_arguments.delta", **where, delta=part_text)
            yield say("response.function_call_arguments.done", **where, arguments=item["arguments"])
        yield say("response.output_item.done", output_index=index, item=item)
    status = "incomplete" if answer.length_stop else "completed"
    yield say(f"response.{status}", response=_response(answer, style, status, items))


def body(answer: Answer, style: Style) -> bytes:
    status = "incomplete" if answer.length_stop else "completed"
    return msgspec.json.encode(_response(answer, style, status, _items(answer, style)))


class _Numbered:
    """Writes events with their running number."""

    def __init__(self) -> None:
        self._number = -1

    def __call__(self, kind: str, **fields: Any) -> bytes:
        self._number += 1
        data = msgspec.json.encode({"type": kind, "sequence_number": self._number, **fields})
        return f"event: {kind}\ndata: ".encode() + data + b"\n\n"


def _items(answer: Answer, style: Style) -> list[dict[str, Any]]:
    stem = style.response_id.replace("-", "").replace(":", "")
    items: list[dict[str, Any]] = []
    if answer.thinking:
        summary = [{"type": "summary_text", "text": answer.thinking}]
        encrypted = f"{style.signature}{len(answer.thinking)}"
        items.append({"id": f"rs_{stem}", "type": "reasoning", "summary": summary, "encrypted_content": encrypted})
    if answer.text:
        content = [{"type": "output_text", "text": answer.text, "annotations": []}]
        items.append(
            {"id": f"msg_{stem}", "type": "message", "role": "assistant", "status": "completed", "content": content}
        )
    for number, call in enumerate(answer.calls):
        freeform = call.kind == "freeform"
        items.append(
            {
                "id": f"{'ctc' if freeform else 'fc'}_{stem}{number}",
                "type": "custom_tool_call" if freeform else "function_call",
                "status": "completed",
                "call_id": style.call_id(call.name, number),
                "name": call.name,
                **({"namespace": call.namespace} if call.namespace else {}),
                **({"input": call.arguments.get(INPUT, "")} if freeform else {"arguments": call.json}),
            }
        )
    return items


def _response(answer: Answer, style: Style, status: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    ended = status != "in_progress"
    return {
        "id": f"resp_{style.response_id}",
        "object": "response",
        "created_at": 0,
        "status": status,
        "model": style.model,
        "output": items,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "usage": _usage(answer) if ended else None,
    }


def _usage(answer: Answer) -> dict[str, Any]:
    return {
        "input_tokens": answer.input_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": answer.output_tokens,
        "output_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
        "total_tokens": answer.input_tokens + answer.output_tokens,
    }
