"""A history sent without midstream's care: no repair, no translation of ids, reasoning wherever the wire has a field for it.

A double's verdict on such a request is what the real provider says to a hand-off that nobody translated. `with_raw_ids` gives
calls and results back the ids their maker used.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from ..core.blocks import Block, Conversation, Media, Text, Thinking, ToolCall, ToolResponse, Turn

Json: TypeAlias = dict[str, Any]


# Deliberately without the encoders of `wires/`: they repair, and here it must be seen what happens without that.
def naive_body(conversation: Conversation, wire: str, model: str = "model") -> Json | None:
    """The body of a request on a wire whose messages carry call ids; None for any other wire."""
    match wire:
        case "openai-chat":
            return {"model": model, "messages": [*_system(conversation), *_each(conversation, _chat)]}
        case "anthropic":
            body: Json = {"model": model, "max_tokens": 4096, "messages": _each(conversation, _anthropic)}
            return {**body, "system": conversation.system_text} if conversation.system_text else body
        case "openai-responses":
            return {"model": model, "input": [*_system(conversation), *_each(conversation, _responses)]}
    return None


def with_raw_ids(conversation: Conversation) -> Conversation:
    """The conversation with the ids that calls and results arrived with; those without one keep their own."""
    given: dict[str, str] = {}
    turns: list[Turn] = []
    for turn in conversation.turns:
        blocks: list[Block] = []
        for block in turn.blocks:
            if isinstance(block, ToolCall):
                # Results of files often have no id of their own; they take the raw one of their call.
                given[block.id] = block.raw_id or block.id
                block = replace(block, id=given[block.id])
            elif isinstance(block, ToolResponse):
                block = replace(block, call_id=block.raw_id or given.get(block.call_id, block.call_id))
            blocks.append(block)
        turns.append(replace(turn, blocks=tuple(blocks)))
    return replace(conversation, turns=tuple(turns))


def _system(conversation: Conversation) -> list[Json]:
    return [{"role": "system", "content": conversation.system_text}] if conversation.system_text else []


def _each(conversation: Conversation, write: Any) -> list[Json]:
    return [message for turn in conversation.turns for message in write(turn)]


def _chat(turn: Turn) -> list[Json]:
    results = [
        {"role": "tool", "tool_call_id": result.call_id, "content": result.text} for result in turn.tool_responses
    ]
    said = [block for block in turn.blocks if isinstance(block, Text | Media)]
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in turn.tool_calls
    ]
    message: Json = {"role": _role(turn), "content": _chat_content(said)}
    for block in turn.blocks:
        if isinstance(block, Thinking) and block.field:
            message[block.field] = message.get(block.field, "") + block.text
    if calls:
        message["tool_calls"] = calls
        # `null` beside calls, as most clients write it; an empty
        # text would be a finding that is not the history's fault.
        message["content"] = message["content"] or None
    speaks = said or calls or (turn.speaker != "tool" and not results)
    return [*results, message] if speaks else results


def _chat_content(said: list[Text | Media]) -> Any:
    if all(isinstance(block, Text) for block in said):
        return "".join([block.text for block in said if isinstance(block, Text)])
    return [
        {"type": "text", "text": block.text}
        if isinstance(block, Text)
        else {"type": "image_url", "image_url": {"url": block.url or f"data:{block.mime};base64,{block.data}"}}
        for block in said
    ]


def _anthropic(turn: Turn) -> list[Json]:
    content = [part for block in turn.blocks if (part := _anthropic_block(block)) is not None]
    return [{"role": "assistant" if turn.speaker == "ai" else "user", "content": content}]


def _anthropic_block(block: Block) -> Json | None:
    match block:
        case Text():
            return {"type": "text", "text": block.text}
        case Thinking():
            # Whatever signature there is: a program that does not translate passes on what it has.
            return {"type": "thinking", "thinking": block.text, "signature": block.signature or block.encrypted or ""}
        case ToolCall():
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": _arguments(block)}
        case ToolResponse():
            return {"type": "tool_result", "tool_use_id": block.call_id, "content": block.text}
        case Media():
            source = {"type": "url", "url": block.url} if block.url else {"type": "base64", "data": block.data}
            return {"type": "image", "source": source}
    return None


def _responses(turn: Turn) -> list[Json]:
    items: list[Json] = []
    for block in turn.blocks:
        if isinstance(block, ToolCall):
            call = {"call_id": block.id, "name": block.name, "arguments": block.arguments}
            items.append({"type": "function_call", **call})
        elif isinstance(block, ToolResponse):
            items.append({"type": "function_call_output", "call_id": block.call_id, "output": block.text})
        elif isinstance(block, Thinking):
            encrypted = block.encrypted or block.signature or ""
            items.append({"type": "reasoning", "summary": [], "encrypted_content": encrypted})
        elif isinstance(block, Text):
            items.append({"type": "message", "role": _role(turn), "content": block.text})
    return items


def _role(turn: Turn) -> str:
    return turn.role or {"human": "user", "ai": "assistant", "tool": "user", "system": "system"}[turn.speaker]


def _arguments(call: ToolCall) -> Any:
    try:
        return msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return call.arguments
