"""What the benchmarks read and write: answers of every wire as lists of events, and histories of a given length.

The answers have the size and the fields of real ones. All of it is made from one seed, so two runs read the same bytes.
"""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

from midstream import Conversation, Text, ToolCall, Turn, human, tool_result
from midstream.core.blocks import Origin

CHUNKS = 2_000
_PIECES = (
    " a",
    " river",
    "s",
    " run",
    "ning",
    " to",
    " the",
    " sea",
    ",",
    " über",
    "\n",
    ' "so"',
    " 7",
    " 水",
    ".",
    " again",
)


class _Words:
    def __init__(self) -> None:
        self._random = random.Random(11)

    def take(self, count: int) -> list[str]:
        return self._random.choices(_PIECES, k=count)


def _data(value: Any) -> bytes:
    return b"data: " + _json(value) + b"\n\n"


def _named(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\n".encode() + _data({"type": kind, **fields})


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


_USAGE = {
    "prompt_tokens": 900, "completion_tokens": CHUNKS, "total_tokens": 900 + CHUNKS,
    "prompt_tokens_details": {"cached_tokens": 512}, "completion_tokens_details": {"reasoning_tokens": 0},
}  # fmt: skip


def _chat_chunk(delta: dict[str, Any], finish: str | None = None, **fields: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return _data({
        "id": "chatcmpl-5mWq0nB8vTz3RkY7cXe1LhUa", "object": "chat.completion.chunk", "created": 1760000000,
        "model": "gpt-4o-2024-08-06", "service_tier": "default", "system_fingerprint": "fp_5d1c3b9e07",
        "choices": [choice], "usage": None, **fields,
    })  # fmt: skip


def _chat(middle: list[bytes], finish: str) -> list[bytes]:
    return [
        _chat_chunk({"role": "assistant", "content": "", "refusal": None}),
        *middle,
        _chat_chunk({}, finish),
        _chat_chunk({}, choices=[], usage=_USAGE),
        b"data: [DONE]\n\n",
    ]


def chat_text(chunks: int = CHUNKS) -> list[bytes]:
    return _chat([_chat_chunk({"content": word}) for word in _Words().take(chunks)], "stop")


def chat_varying(chunks: int = CHUNKS) -> list[bytes]:
    """As OpenAI sends it: padding in every chunk, and now and then another second."""
    words = _Words()
    padding = ["".join(words.take(3)).encode().hex()[: 1 + place % 13] for place in range(chunks)]
    middle = [
        _chat_chunk({"content": word}, created=1760000000 + place // 80, obfuscation=pad)
        for place, (word, pad) in enumerate(zip(_Words().take(chunks), padding, strict=True))
    ]
    return _chat(middle, "stop")


def chat_reasoning(chunks: int = CHUNKS) -> list[bytes]:
    middle = [_chat_chunk({"reasoning_content": word}) for word in _Words().take(chunks)]
    return _chat([*middle, _chat_chunk({"content": "so"})], "stop")


def chat_tools(chunks: int = CHUNKS) -> list[bytes]:
    """Half reasoning, then three calls whose arguments come interleaved."""
    fragments = chunks // 6
    middle = [_chat_chunk({"reasoning_content": word}) for word in _Words().take(chunks // 2)]
    pieces = [_argument_pieces(number, fragments) for number in range(3)]
    for number in range(3):
        function = {"name": "write_file", "arguments": ""}
        call = {"index": number, "id": f"call_{number}Jd83kQpLw0ZsXvN5", "type": "function", "function": function}
        middle.append(_chat_chunk({"tool_calls": [call]}))
    for place in range(fragments):
        for number in range(3):
            fragment = {"index": number, "function": {"arguments": pieces[number][place]}}
            middle.append(_chat_chunk({"tool_calls": [fragment]}))
    return _chat(middle, "tool_calls")


def _argument_pieces(number: int, count: int) -> list[str]:
    """A JSON object cut into so many pieces."""
    numbers = ", ".join(str(7 * place % 1000) for place in range(count))
    text = json.dumps({"path": f"src/part_{number}.py", "content": f"table = [{numbers}]"})
    cuts = [len(text) * place // count for place in range(count + 1)]
    return [text[start:end] for start, end in pairwise(cuts)]


def anthropic_text(chunks: int = CHUNKS) -> list[bytes]:
    return _messages(
        [{"type": "text", "text": ""}], [[{"type": "text_delta", "text": w} for w in _Words().take(chunks)]]
    )


def anthropic_tools(chunks: int = CHUNKS) -> list[bytes]:
    blocks: list[dict[str, Any]] = [{"type": "thinking", "thinking": "", "signature": ""}]
    deltas = [[{"type": "thinking_delta", "thinking": word} for word in _Words().take(chunks // 2)]]
    for number in range(3):
        blocks.append(
            {"type": "tool_use", "id": f"toolu_01{number}Jd83kQpLw0ZsXvN5", "name": "write_file", "input": {}}
        )
        pieces = _argument_pieces(number, chunks // 6)
        deltas.append([{"type": "input_json_delta", "partial_json": piece} for piece in pieces])
    return _messages(blocks, deltas)


def _messages(blocks: list[dict[str, Any]], deltas: list[list[dict[str, Any]]]) -> list[bytes]:
    usage = {"input_tokens": 900, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 512, "output_tokens": 1}
    message: dict[str, Any] = {
        "id": "msg_01Jd83kQpLw0ZsXvN5", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    events = [_named("message_start", message=message)]
    for index, (block, parts) in enumerate(zip(blocks, deltas, strict=True)):
        events.append(_named("content_block_start", index=index, content_block=block))
        events += [_named("content_block_delta", index=index, delta=part) for part in parts]
        events.append(_named("content_block_stop", index=index))
    stop = "tool_use" if len(blocks) > 1 else "end_turn"
    delta = {"stop_reason": stop, "stop_sequence": None}
    return [*events, _named("message_delta", delta=delta, usage={"output_tokens": CHUNKS}), _named("message_stop")]


def responses_text(chunks: int = CHUNKS) -> list[bytes]:
    item = "msg_" + "5d1c3b9e07" * 5
    words = _Words().take(chunks)
    usage = {"input_tokens": 900, "output_tokens": chunks, "total_tokens": 900 + chunks}
    head = {"id": "resp_5d1c3b9e07", "object": "response", "status": "in_progress", "model": "gpt-5.2", "output": []}
    part = {"type": "output_text", "text": "", "annotations": []}
    message = {"id": item, "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    place = {"item_id": item, "output_index": 0, "content_index": 0}
    whole = {**message, "status": "completed", "content": [{**part, "text": "".join(words)}]}
    return [
        _named("response.created", sequence_number=0, response=head),
        _named("response.output_item.added", sequence_number=1, output_index=0, item=message),
        _named("response.content_part.added", sequence_number=2, **place, part=part),
        *[
            _named(
                "response.output_text.delta",
                sequence_number=n,
                **place,
                delta=w,
                logprobs=[],
                obfuscation="x7Kq0aTb2mWq0n"[n % 11 :],
            )
            for n, w in enumerate(words, 3)
        ],
        _named("response.output_text.done", sequence_number=chunks + 3, **place, text="".join(words)),
        _named("response.output_item.done", sequence_number=chunks + 4, output_index=0, item=whole),
        _named(
            "response.completed",
            sequence_number=chunks + 5,
            response={**head, "status": "completed", "output": [whole], "usage": usage},
        ),
    ]


def gemini_text(chunks: int = CHUNKS) -> list[bytes]:
    def chunk(word: str, tokens: int, **fields: Any) -> bytes:
        usage = {"promptTokenCount": 900, "candidatesTokenCount": tokens, "totalTokenCount": 900 + tokens}
        candidate = {"content": {"parts": [{"text": word}], "role": "model"}, "index": 0, **fields}
        return _data(
            {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-pro", "responseId": "r7Kq"}
        )

    words = _Words().take(chunks)
    middle = [chunk(word, number) for number, word in enumerate(words, 1)]
    return [*middle, chunk("", chunks, finishReason="STOP")]


def ollama_text(chunks: int = CHUNKS) -> list[bytes]:
    head = {"model": "qwen3:8b", "created_at": "2026-01-01T00:00:00.000000Z"}
    words = _Words().take(chunks)
    lines = [
        _json({
            **head, "created_at": f"2026-01-01T00:00:{place // 100:02d}.{place % 100:02d}0000Z",
            "message": {"role": "assistant", "content": word}, "done": False,
        }) + b"\n"
        for place, word in enumerate(words)
    ]  # fmt: skip
    end = {"done": True, "done_reason": "stop", "prompt_eval_count": 900, "eval_count": chunks, "total_duration": 1}
    return [*lines, _json({**head, "message": {"role": "assistant", "content": ""}, **end}) + b"\n"]


WIRES = {
    "openai-chat": chat_text,
    "anthropic": anthropic_text,
    "openai-responses": responses_text,
    "gemini": gemini_text,
    "ollama": ollama_text,
}


def plain_history(messages: int) -> Conversation:
    """Questions and answers in turn."""
    prose = _prose()
    turns = [
        human(prose[n % 64]) if n % 2 == 0 else Turn("ai", (Text(prose[n % 64]),), key=f"a{n}", origin=_ORIGIN)
        for n in range(messages)
    ]
    return Conversation(tuple(turns), "You answer briefly.")


def agent_history(messages: int) -> Conversation:
    """A question, a call, its result, an answer; and again."""
    prose = _prose()
    turns: list[Turn] = []
    for n in range(messages // 4):
        arguments = f'{{"path": "src/part_{n}.py", "limit": 200}}'
        call = ToolCall(f"hist_tool_{n:024d}", "read_file", arguments, f"call_{n}", _ORIGIN.provider)
        turns += [
            human(prose[n % 64]),
            Turn("ai", (Text(prose[n % 7]), call), key=f"c{n}", origin=_ORIGIN),
            Turn("tool", (tool_result(call, prose[n % 64] * 3),), key=f"r{n}"),
            Turn("ai", (Text(prose[n % 63]),), key=f"a{n}", origin=_ORIGIN),
        ]
    return Conversation(tuple(turns), "You answer briefly.")


_ORIGIN = Origin("openai", "openai-chat", "gpt-4o")


def _prose() -> list[str]:
    words = _Words()
    return ["".join(words.take(40 + place)).strip() for place in range(64)]
