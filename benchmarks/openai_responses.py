"""What the Responses wire costs: decoding beside the chat wire, and the next turn of a long history beside the first.

Run it with `python -m benchmarks.openai_responses`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from midstream import (
    Conversation,
    Text,
    Thinking,
    ToolCall,
    ToolSpec,
    Turn,
    encode_request,
    human,
    make_decoder,
    tool_result,
)
from midstream.core.blocks import Origin
from midstream.wires.history_cache import HistoryCache

CHUNKS = 20_000
MESSAGES = 10_000
KINDS = ("response.output_text.delta", "response.function_call_arguments.delta", "response.reasoning_text.delta")


def best(run: Callable[[], Any], times: int = 7) -> float:
    """Processor seconds of the fastest of several runs."""
    found = []
    for _ in range(times):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found)


def chat_stream() -> Iterator[bytes]:
    for number in range(CHUNKS):
        choice = {"index": 0, "delta": {"content": f" word{number}"}, "logprobs": None, "finish_reason": None}
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
        yield b"data: %b\n\n" % json.dumps(chunk).encode()
    yield b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def responses_stream(kind: str) -> Iterator[bytes]:
    item = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": ""}
    if "function" in kind:
        yield (
            b"data: %b\n\n"
            % json.dumps({"type": "response.output_item.added", "output_index": 0, "item": item}).encode()
        )
    for number in range(CHUNKS):
        event = {"type": kind, "sequence_number": number, "item_id": "msg_" + "0" * 48, "output_index": 0,
                 "content_index": 0, "delta": f" word{number}", "logprobs": [], "obfuscation": "abcdefgh"}  # fmt: skip
        yield b"event: %b\ndata: %b\n\n" % (kind.encode(), json.dumps(event).encode())
    yield b'data: {"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}\n\n'


def decoded(wire: str, chunks: list[bytes]) -> None:
    decoder = make_decoder(wire=wire, turn_key="t")
    for chunk in chunks:
        decoder.feed(chunk)
    assert decoder.ended


def history() -> Conversation:
    origin = Origin("openai", "openai-responses", "gpt-5.2")
    turns: list[Turn] = []
    for number in range(MESSAGES // 4):
        call = ToolCall(f"hist_tool_{number:024d}", "read_file", '{"path":"a/b"}', f"call_{number}", "openai",
                        {"item": {"id": f"fc_{number}", "status": "completed"}})  # fmt: skip
        thinking = Thinking("why", encrypted="x" * 200, origin=origin, extra={"item": {"id": f"rs_{number}"}})
        turns += [
            human("a question " * 10),
            Turn("ai", (thinking, call), key=f"a{number}", origin=origin),
            Turn("tool", (tool_result(call, "content " * 40),), key=f"t{number}"),
            Turn("ai", (Text("an answer " * 20),), key=f"b{number}", origin=origin),
        ]
    return Conversation(tuple(turns))


def main() -> None:
    chat = list(chat_stream())
    base = best(lambda: decoded("openai-chat", chat)) / len(chat)
    print(f"chat: {base * 1e6:.2f} µs a chunk")
    for kind in KINDS:
        chunks = list(responses_stream(kind))
        cost = best(lambda chunks=chunks: decoded("openai-responses", chunks)) / len(chunks)  # type: ignore[misc]
        print(f"{kind}: {cost * 1e6:.2f} µs a chunk, {cost / base:.2f} of the chat wire")
    talk, tools = history(), [ToolSpec(f"tool_{number}", "Does it.") for number in range(10)]
    cache = HistoryCache(max_bytes=1 << 30)

    def first() -> None:
        cache.clear()
        encode_request("openai-responses/gpt-5.2", talk, tools=tools, cache=cache)

    whole = best(first)
    grown = [talk]
    for _ in range(7):
        grown.append(grown[-1].add(human("and now")))
    following = iter(grown[1:])
    then = best(lambda: encode_request("openai-responses/gpt-5.2", next(following), tools=tools, cache=cache))
    print(f"{MESSAGES} messages: {whole * 1e3:.1f} ms, the next turn {then * 1e3:.2f} ms ({then / whole:.1%})")


if __name__ == "__main__":
    main()
