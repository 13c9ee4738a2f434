"""Kimi-K2.5 on DeepInfra: the native path without tools, the chat path with tools, the whole lifecycle on both."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from midstream import Conversation, ToolCall, ToolSpec, Turn, encode_request, human, reduce, tool_result
from midstream.client.client import Client
from midstream.core.lifecycle import check
from midstream.events import (
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
from midstream.sim.answer import Style
from midstream.sim.speech import speak
from midstream.testing import Answer, Call, sim_server
from midstream.wires.request import Request
from midstream.wires.sse import SSEParser
from tests.client.scripted import catalog
from tests.seeds.table import Table
from tests.transport.asking import run
from tests.transport.loopback import Seen, Server, Wire

TABLE = Table(
    not_run={
        "Files Changed": "a TypeScript file of another program",
        "The model configuration in openclaw.json remains unchanged": "that program's file; no configuration is needed here",
        "createOllamaStreamFn, streamSimple": "its routing by an `api` field; here the provider's row says which wire it is",
        "Preserves the lower-latency path": "how fast DeepInfra answers can only be measured there",
        "MCP tools, built-in tools, and custom skills": "that program's tools; any declared tool is one here",
        "Removed buildNativeAssistantMessage() and buildChatAssistantMessage()": "its own functions",
    },
    differs={
        'Sets stopReason: "toolUse" when tool calls are detected': "the word is `tool_use`",
        "Closes any open blocks at stream end and emits done with finalized usage": (
            "a stream that breaks off ends in an error event with what came so far, not in `done`"
        ),
        "Accumulates tool call arguments as raw strings, then parses JSON at toolcall_end": (
            "the block keeps the text exactly as it came; it is parsed when the call is run"
        ),
        "SSE event framing: Split on \\n\\n boundaries": "by the whole WHATWG specification, of which this is a part",
        "makePartialAssistantMessage, makeEmptyUsage, finalizeUsage": "`midstream.reduce` gives the turn of the events so far",
        "Shared SSE data-line extractor": "one parser for every wire that streams events",
        "Parallel tool calls via an index map": "a call that begins while another is open waits for that one's end",
    },
)
checked = TABLE.checked

MODEL = "deepinfra/moonshotai/Kimi-K2.5"
BASH = ToolSpec("bash", "Run a command", {"type": "object", "properties": {"command": {"type": "string"}}})
TOLD = Answer("One, two, three and four.", "Let me think about it.", input_tokens=7)
CALLS = Answer("Two at once.", "Hm.", (Call("bash", {"command": "ls -la /tmp"}), Call("bash", {"command": "pwd"})))
NATIVE, CHAT = "/inference/moonshotai/Kimi-K2.5", "/openai/chat/completions"


def request(*, tools: bool, conversation: Conversation | str = "List files") -> Request:
    return encode_request(MODEL, conversation, tools=[BASH] if tools else ())


def body(sent: Request) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(sent.body)
    return decoded


def pieces(*, tools: bool) -> list[bytes]:
    """An answer as DeepInfra streams it on this path."""
    wire = "openai-chat" if tools else "completion"
    return list(speak(wire, CALLS if tools else TOLD, Style("Kimi-K2.5", ids="bare")))


def arriving(*, tools: bool) -> list[list[Event]]:
    """The events that each piece brings as soon as it is there."""
    decoder = request(tools=tools).decoder("k")
    batches = [decoder.feed(piece) for piece in pieces(tools=tools)]
    return [*batches, decoder.close()]


def all_events(*, tools: bool) -> list[Event]:
    events = [event for batch in arriving(tools=tools) for event in batch]
    check(events)
    return events


def kinds(events: list[Event]) -> list[type]:
    """Without repetition of deltas."""
    found = [type(event) for event in events]
    return [kind for before, kind in zip([None, *found], found, strict=False) if kind is not before]


@checked("When NO tools are present: native inference endpoint (/v1/inference/{model})")
def _() -> None:
    sent = request(tools=False)
    assert sent.path == NATIVE and isinstance(body(sent)["input"], str) and "messages" not in body(sent)


@checked("When tools ARE present: OpenAI-compatible chat endpoint (/v1/openai/chat/completions)")
def _() -> None:
    sent = request(tools=True)
    assert sent.path == CHAT and body(sent)["messages"] and "input" not in body(sent)


@checked(
    "Converts tool definitions to OpenAI function calling format",
    "Pass tools in request body",
    "Extract tools from context.tools",
)
def _() -> None:
    function = {"name": "bash", "description": "Run a command", "parameters": BASH.parameters}
    assert body(request(tools=True))["tools"] == [{"type": "function", "function": function}]


@checked('All other DeepInfra models using api: "openai-completions" are unaffected')
def _() -> None:
    for tools in ((), (BASH,)):
        sent = encode_request("deepinfra/Qwen/Qwen3-32B", "List files", tools=tools)
        assert sent.path == CHAT and body(sent)["messages"]


@checked("Builds a ThinkingContent block and a TextContent block on the AssistantMessage.content array incrementally")
def _() -> None:
    told: list[Event] = []
    lengths: list[list[int]] = []
    for batch in arriving(tools=False):
        told += batch
        if told:
            lengths.append([len(block.text) for block in reduce(told).blocks])
    assert [len(found) for found in lengths] == sorted(len(found) for found in lengths) and len(lengths[-1]) == 2
    for at in (0, 1):  # each block grows piece by piece
        sizes = [found[at] for found in lengths if len(found) > at]
        assert sizes == sorted(sizes) and len(set(sizes)) > 2
    assert [type(block).__name__ for block in reduce(told).blocks] == ["Thinking", "Text"]


@checked("Creates ToolCall content items with proper id, name, arguments")
def _() -> None:
    calls = reduce(all_events(tools=True)).tool_calls
    assert [(call.name, call.arguments) for call in calls] == [
        ("bash", '{"command":"ls -la /tmp"}'),
        ("bash", '{"command":"pwd"}'),
    ]
    assert all(call.id.startswith("hist_tool_") for call in calls) and len({call.id for call in calls}) == 2


@checked("Converts messages to OpenAI chat format with proper tool/assistant role handling", "Convert tool messages")
def _() -> None:
    call = ToolCall("hist_tool_a", "bash", '{"command":"ls"}')
    turns = (human("List"), Turn("ai", (call,), key="a"), Turn("tool", (tool_result(call, "a.txt"),), key="t"))
    user, assistant, tool = body(request(tools=True, conversation=Conversation(turns)))["messages"]
    assert (user["role"], assistant["role"], tool["role"]) == ("user", "assistant", "tool")
    (sent,) = assistant["tool_calls"]
    assert sent["id"] == tool["tool_call_id"] and sent["function"]["arguments"] == '{"command":"ls"}'
    assert tool["content"] == "a.txt"


@checked("Sends stream_options: { include_usage: true } so the final usage chunk includes token counts")
def _() -> None:
    assert body(request(tools=True))["stream_options"] == {"include_usage": True}
    for tools in (True, False):
        last = all_events(tools=tools)[-1]
        assert isinstance(last, Done) and last.turn.usage is not None
        assert last.turn.usage.output == (CALLS if tools else TOLD).output_tokens


@checked(
    "Native path: Emits start event immediately after establishing the connection",
    "Chat path: Emits start event immediately after establishing the connection",
)
def _() -> None:
    for tools in (False, True):
        run(_start_comes_first(tools))


@checked(
    "Native path: thinking_start / thinking_delta / thinking_end, then text_start / text_delta / text_end after </think>"
)
def _() -> None:
    expected = [Start, ThinkingStart, ThinkingDelta, ThinkingEnd, TextStart, TextDelta, TextEnd, Done]
    events = all_events(tools=False)
    assert kinds(events) == expected
    last = events[-1]
    assert isinstance(last, Done) and (last.turn.thinking, last.turn.text) == (TOLD.thinking, TOLD.text)


@checked("Chat path: text_start / text_delta or toolcall_start / toolcall_delta per SSE delta")
def _() -> None:
    call = [ToolCallStart, ToolCallDelta, ToolCallEnd]
    thought, text = [ThinkingStart, ThinkingDelta, ThinkingEnd], [TextStart, TextDelta, TextEnd]
    assert kinds(all_events(tools=True)) == [Start, *thought, *text, *call, *call, Done]


@checked("When switching block types emits *_end for the prior block and *_start for the new one")
def _() -> None:
    opened: list[int] = []
    for event in all_events(tools=True):
        if isinstance(event, ThinkingStart | TextStart | ToolCallStart):
            assert not opened
            opened.append(event.index)
        elif isinstance(event, ThinkingEnd | TextEnd | ToolCallEnd):
            assert opened.pop() == event.index
    assert not opened


@checked(
    "Thinking tokens appear in real-time",
    "Text tokens stream incrementally after thinking completes",
    "Tool calls stream argument fragments and finalize on completion",
)
def _() -> None:
    for tools, deltas in ((False, (ThinkingDelta, TextDelta)), (True, (ThinkingDelta, TextDelta, ToolCallDelta))):
        batches = arriving(tools=tools)
        for delta in deltas:
            brought = [batch for batch in batches if any(isinstance(event, delta) for event in batch)]
            assert len(brought) >= (1 if tools and delta is ThinkingDelta else 2), delta
            assert all(sum(isinstance(event, delta) for event in batch) == 1 for batch in brought)


@checked("Accumulates tool call arguments as raw strings, then parses JSON at toolcall_end")
def _() -> None:
    events = all_events(tools=True)
    for end in [event for event in events if isinstance(event, ToolCallEnd)]:
        parts = [event.delta for event in events if isinstance(event, ToolCallDelta) and event.index == end.index]
        assert "".join(parts) == end.block.arguments and msgspec.json.decode(end.block.arguments)["command"]


@checked("Parallel tool calls via an index map")
def _() -> None:
    def chunk(*calls: tuple[int, str, str]) -> bytes:
        deltas = [{"index": i, "function": {"arguments": part, **({"name": n} if n else {})}} for i, n, part in calls]
        choice = {"index": 0, "delta": {"tool_calls": deltas}}
        return b"data: " + msgspec.json.encode({"id": "x", "choices": [choice]}) + b"\n\n"

    decoder = request(tools=True).decoder("k")
    for piece in (
        chunk((0, "bash", '{"command":'), (1, "bash", '{"command":')),
        chunk((1, "", '"b"}'), (0, "", '"a"}')),
    ):
        decoder.feed(piece)
    last = decoder.feed(b'data: {"id":"x","choices":[{"delta":{},"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n')[
        -1
    ]
    assert isinstance(last, Done)
    assert [call.arguments for call in last.turn.tool_calls] == ['{"command":"a"}', '{"command":"b"}']


@checked(
    'Sets stopReason: "toolUse" when tool calls are detected',
    "ToolCall in content array",
    "Parse tool_calls from response",
)
def _() -> None:
    last = all_events(tools=True)[-1]
    assert isinstance(last, Done) and last.turn.stop_reason == "tool_use"
    first, second = last.turn.tool_calls
    assert first.id != second.id and first.name == second.name == "bash"
    plain = all_events(tools=False)[-1]
    assert isinstance(plain, Done) and plain.turn.stop_reason == "end_turn"


@checked("Closes any open blocks at stream end and emits done with finalized usage")
def _() -> None:
    for tools in (False, True):
        decoder = request(tools=tools).decoder("k")
        events = [event for piece in pieces(tools=tools)[:3] for event in decoder.feed(piece)] + decoder.close()
        check(events)
        assert not isinstance(events[-1], Done)
        whole = all_events(tools=tools)[-1]
        assert isinstance(whole, Done) and whole.turn.usage is not None and not whole.turn.failure


@checked("SSE event framing: Split on \\n\\n boundaries")
def _() -> None:
    parser = SSEParser()
    assert parser.feed(b"data: {\ndata: }\n") == []
    assert [event.data for event in parser.feed(b"\ndata: 2\n\n")] == [b"{\n}", b"2"]


@checked("Shared SSE data-line extractor")
def _() -> None:
    for tools in (False, True):
        stream = b"".join(pieces(tools=tools))
        for end in (b"\n", b"\r\n"):
            decoder = request(tools=tools).decoder("k")
            cut = stream.replace(b"\n", end)
            events = [event for at in range(len(cut)) for event in decoder.feed(cut[at : at + 1])] + decoder.close()
            assert events == all_events(tools=tools)


@checked("makePartialAssistantMessage, makeEmptyUsage, finalizeUsage")
def _() -> None:
    from midstream import reduce

    events = all_events(tools=False)
    partial = reduce(events[:5])
    assert partial.thinking and TOLD.thinking.startswith(partial.thinking) and not partial.text
    assert reduce(events).text == TOLD.text


@checked(
    "The handler dynamically chooses the right endpoint based on whether tools are present",
    "No config changes required",
)
def _() -> None:
    async def ask(client: Client) -> list[Turn]:
        async with client:
            return [
                await client.stream(MODEL, "hi"),
                await client.stream(MODEL, "hi", tools=[BASH]),
                await client.stream(MODEL, "hi"),
            ]

    with sim_server(TOLD, CALLS, TOLD) as sim:
        turns = asyncio.run(ask(sim.client()))
        assert [seen.path.removeprefix("/deepinfra") for seen in sim.seen] == [NATIVE, CHAT, NATIVE] and not sim.refused
    assert [len(turn.tool_calls) for turn in turns] == [0, 2, 0]


async def _start_comes_first(tools: bool) -> None:
    """The host sends its headers and then nothing, until the client has told of the start."""
    go_on = asyncio.Event()

    async def script(wire: Wire, seen: Seen) -> None:
        await wire.begin("content-type: text/event-stream")
        await go_on.wait()
        for piece in pieces(tools=tools):
            await wire.chunk(piece)
        await wire.end()

    async with Server(script) as server, Client(catalog({"DEEPINFRA_API_KEY": "k"}, deepinfra=server.base)) as client:
        batches = client.batches(MODEL, "hi", tools=[BASH] if tools else ())
        (first,) = await anext(batches)
        assert isinstance(first, Start)
        go_on.set()
        rest = [event async for batch in batches for event in batch]
        assert isinstance(rest[-1], Done) and server.seen[0].line.split()[1].endswith(CHAT if tools else NATIVE)
