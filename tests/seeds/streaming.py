"""Seed 001: Kimi-K2.5 on DeepInfra, the native path without tools, the chat path with tools, the whole lifecycle on both."""

from __future__ import annotations

import asyncio
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from midstream import Conversation, ToolCall, ToolSpec, Turn, Usage, encode_request, human, reduce, resolve, tool_result
from midstream.client.client import Client
from midstream.core.lifecycle import check
from midstream.events import (
    Done,
    ErrorEvent,
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
from tests.seeds.document import Document
from tests.transport.asking import run
from tests.transport.loopback import Seen, Server, Wire

DOCUMENT = Document("001", "DeepInfra Kimi-K2.5 Tool Calling Fix")
yes, differs = DOCUMENT.yes, DOCUMENT.differs
SOURCE = Path(__file__).parents[2] / "src/midstream"

MODEL = "deepinfra/moonshotai/Kimi-K2.5"
BASH = ToolSpec("bash", "Run a command", {"type": "object", "properties": {"command": {"type": "string"}}})
TOLD = Answer("One, two, three and four.", "Let me think about it.", input_tokens=7)
CALLS = Answer("Two at once.", "Hm.", (Call("bash", {"command": "ls -la /tmp"}), Call("bash", {"command": "pwd"})))
NATIVE, CHAT = "/inference/moonshotai/Kimi-K2.5", "/openai/chat/completions"
TOOL_USE = "the word is `tool_use`"
WHOLE_SSE = "events are framed by the whole WHATWG specification, of which `\\n\\n` is a part"


def request(*, tools: bool, conversation: Conversation | str = "List files") -> Request:
    return encode_request(MODEL, conversation, tools=[BASH] if tools else ())


def body(sent: Request) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(sent.body)
    return decoded


@cache
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


@differs(
    "which paths a host has stands on its row (`Dialect.native`), there is no `api` field to route by",
    "createOllamaStreamFn() (supports tools)",
    "createDeepInfraInferenceStreamFn() (NO tool support)",
    'api: "deepinfra-inference" still routes to our handler',
    "src/agents/deepinfra-inference-stream.ts",
)
def a_model_has_its_paths_on_its_row() -> None:
    dialect = resolve(MODEL).dialect
    assert dialect.native is not None and (dialect.wire, dialect.native.wire) == ("openai-chat", "completion")
    assert resolve("ollama/llama3.1").dialect.wire == "ollama"
    assert (SOURCE / "wires/completion/decode.py").is_file() and (SOURCE / "wires/openai_chat/decode.py").is_file()


@yes(
    "lower latency via the native inference endpoint (/v1/inference/{model})",
    "Takes a single input string with chat template tokens, not structured messages",
    "Continues using the native inference endpoint (/v1/inference/{model})",
    "Preserves the lower-latency path for simple text conversations",
    "Fast native inference for tool-free messages (lower latency, thinking block support)",
)
def without_tools_the_native_path_is_taken() -> None:
    sent = request(tools=False)
    assert sent.path == NATIVE and "messages" not in body(sent)
    assert "<|im_user|>" in body(sent)["input"] and body(sent)["input"].endswith("<think>")
    assert resolve(MODEL).endpoint.at(sent.path) == NATIVE


@yes(
    "Has no concept of tool definitions, tool_calls, or tool results",
    "dual-path strategy",
    "Uses the DeepInfra OpenAI-compatible chat endpoint (/v1/openai/chat/completions)",
    "Full OpenAI-compatible tool calling when tools are needed",
)
def with_tools_the_chat_path_is_taken() -> None:
    sent = request(tools=True)
    assert sent.path == CHAT and body(sent)["messages"] and "input" not in body(sent)


@yes("Returns raw generated text only")
def the_native_answer_is_plain_text() -> None:
    decoder = request(tools=False).decoder("k")
    decoder.feed(b'data: {"token":{"text":"Hm.</think>Four files."},"generated_text":""}\n\n')
    last = decoder.feed(b'data: {"token":{"text":""},"details":{"finish_reason":"stop"}}\n\ndata: [DONE]\n\n')[-1]
    assert isinstance(last, Done) and (last.turn.thinking, last.turn.text) == ("Hm.", "Four files.")


@yes(
    "start -> thinking_start/delta/end -> text_start/delta/end -> toolcall_start/delta/end -> done",
    "Incremental streaming across both paths for responsive TUI rendering",
)
def the_whole_lifecycle_is_told() -> None:
    call = [ToolCallStart, ToolCallDelta, ToolCallEnd]
    thought, text = [ThinkingStart, ThinkingDelta, ThinkingEnd], [TextStart, TextDelta, TextEnd]
    assert kinds(all_events(tools=True)) == [Start, *thought, *text, *call, *call, Done]


@differs(
    WHOLE_SSE,
    "Split on \\n\\n boundaries",
    "Fixed parseOpenAISseStream to split on \\n\\n (event boundaries) instead of single \\n",
)
@yes("could mis-frame events when the server sent multi-line SSE payloads")
def events_are_framed_by_the_specification() -> None:
    parser = SSEParser()
    assert parser.feed(b"data: {\ndata: }\n") == []
    assert [event.data for event in parser.feed(b"\ndata: 2\n\n")] == [b"{\n}", b"2"]
    assert [event.data for event in parser.feed(b"data: 3\r\n\r\n: a comment\n\ndata: 4\r\r")] == [b"3", b"4"]


@yes(
    "Extract tools from context.tools",
    "Pass tools in request body",
    "Converts tool definitions to OpenAI function calling format",
)
def tools_are_declared_as_functions() -> None:
    function = {"name": "bash", "description": "Run a command", "parameters": BASH.parameters}
    assert body(request(tools=True))["tools"] == [{"type": "function", "function": function}]


@yes(
    "Convert tool messages",
    "Converts messages to OpenAI chat format with proper tool/assistant role handling",
)
def calls_and_results_become_messages_of_their_roles() -> None:
    call = ToolCall("hist_tool_a", "bash", {"command": "ls"})
    turns = (
        human("List files"),
        Turn("ai", (call,), key="a"),
        Turn("tool", (tool_result(call, ["file.ts"]),), key="t"),
    )
    user, assistant, tool = body(request(tools=True, conversation=Conversation(turns)))["messages"]
    assert (user["role"], assistant["role"], tool["role"]) == ("user", "assistant", "tool")
    (sent,) = assistant["tool_calls"]
    assert sent["id"] == tool["tool_call_id"] and sent["function"]["arguments"] == '{"command":"ls"}'
    assert tool["content"] == '["file.ts"]'


@yes(
    "Parse tool_calls from response",
    "Accumulates tool_calls from chunks",
    "Parses streaming tool_calls from response deltas (accumulated by index)",
    "ToolCall in content array",
    "Creates ToolCall content items with proper id, name, arguments",
)
def calls_are_put_together_from_their_pieces() -> None:
    turn = reduce(all_events(tools=True))
    assert [(call.name, call.arguments) for call in turn.tool_calls] == [
        ("bash", '{"command":"ls -la /tmp"}'),
        ("bash", '{"command":"pwd"}'),
    ]
    assert all(call.id.startswith("hist_tool_") for call in turn.tool_calls) and set(turn.tool_calls) < set(turn.blocks)
    assert len({call.id for call in turn.tool_calls}) == 2


@differs(
    TOOL_USE,
    'Set stopReason: "toolUse"',
    'Sets stopReason: "toolUse" when tool calls are detected',
)
def an_answer_with_calls_stops_for_them() -> None:
    called, plain = all_events(tools=True)[-1], all_events(tools=False)[-1]
    assert isinstance(called, Done) and called.turn.stop_reason == "tool_use"
    assert isinstance(plain, Done) and plain.turn.stop_reason == "end_turn"


@yes(
    "Emitted at beginning of response",
    "Emits start event immediately after establishing the connection",
)
def the_start_comes_with_the_connection() -> None:
    for tools in (False, True):
        run(start_comes_first(tools))


@yes(
    "Emitted for <think> blocks in native path",
    "Emitted for text content tokens",
    "Tracks <think> block boundaries: emits thinking_start / thinking_delta / thinking_end as thinking tokens arrive",
    "then transitions to text_start / text_delta / text_end after the closing </think> tag",
)
def the_native_path_tells_thinking_and_text_apart() -> None:
    events = all_events(tools=False)
    assert kinds(events) == [Start, ThinkingStart, ThinkingDelta, ThinkingEnd, TextStart, TextDelta, TextEnd, Done]
    last = events[-1]
    assert isinstance(last, Done) and (last.turn.thinking, last.turn.text) == (TOLD.thinking, TOLD.text)
    assert b"</think>" in b"".join(pieces(tools=False))


@yes("Emitted for each tool call in OpenAI chat path")
def each_call_has_its_events() -> None:
    events = all_events(tools=True)
    for index in [event.index for event in events if isinstance(event, ToolCallStart)]:
        mine = [type(event) for event in events if getattr(event, "index", None) == index]
        assert mine[0] is ToolCallStart and mine[-1] is ToolCallEnd and set(mine[1:-1]) == {ToolCallDelta}


@yes(
    "include_usage: true for token counts",
    "Sends stream_options: { include_usage: true } so the final usage chunk includes token counts",
    "finalizeUsage() - Sets final token counts on the AssistantMessage",
)
def the_counts_are_asked_for_and_stand_on_the_turn() -> None:
    assert body(request(tools=True))["stream_options"] == {"include_usage": True}
    for tools in (True, False):
        last = all_events(tools=tools)[-1]
        assert isinstance(last, Done) and last.turn.usage is not None
        assert last.turn.usage.output == (CALLS if tools else TOLD).output_tokens


@yes(
    "Single extractSseDataLines() generator",
    "Extracted extractSseDataLines() generator shared by both parseSseStream (native) and parseOpenAISseStream (OpenAI)",
    "Both parsers now follow the same framing logic",
)
def one_parser_frames_both_paths() -> None:
    for tools in (False, True):
        stream = b"".join(pieces(tools=tools))
        for end in (b"\n", b"\r\n"):
            decoder = request(tools=tools).decoder("k")
            cut = stream.replace(b"\n", end)
            events = [event for at in range(len(cut)) for event in decoder.feed(cut[at : at + 1])] + decoder.close()
            assert events == all_events(tools=tools)


@differs(
    "a turn's usage is None as long as the host stated none, never zeros: those would look like an answer that cost nothing; "
    "`turn.usage or Usage()` is the empty one",
    "makeEmptyUsage() - Creates a zero-valued Usage object (used for error fallback and initial state)",
)
def a_turn_without_counts_has_none() -> None:
    for tools in (False, True):
        decoder = request(tools=tools).decoder("k")
        events = [event for piece in pieces(tools=tools)[:3] for event in decoder.feed(piece)]
        assert reduce(events).usage is None
        failed = reduce([*events, *decoder.close()])
        assert failed.failure == "truncated" and failed.usage is None
        assert (failed.usage or Usage()) == Usage(input=0, output=0) and Usage().total == 0


@differs(
    "no skeleton that is filled in: `midstream.reduce` gives the turn of the events so far, and of none an empty one",
    "makePartialAssistantMessage() - Creates a skeleton AssistantMessage with empty content array",
)
@yes(
    "Removed buildNativeAssistantMessage() and buildChatAssistantMessage() (no longer needed; messages are built incrementally)"
)
def the_events_so_far_make_a_turn() -> None:
    assert reduce([]).blocks == ()
    events = all_events(tools=False)
    partial = reduce(events[:5])
    assert partial.thinking and TOLD.thinking.startswith(partial.thinking) and not partial.text
    assert reduce(events).text == TOLD.text


@yes("Builds a ThinkingContent block and a TextContent block on the AssistantMessage.content array incrementally")
def the_blocks_grow_piece_by_piece() -> None:
    told: list[Event] = []
    lengths: list[list[int]] = []
    for batch in arriving(tools=False):
        told += batch
        if told:
            lengths.append([len(block.text) for block in reduce(told).blocks])
    assert [len(found) for found in lengths] == sorted(len(found) for found in lengths) and len(lengths[-1]) == 2
    for at in (0, 1):
        sizes = [found[at] for found in lengths if len(found) > at]
        assert sizes == sorted(sizes) and len(set(sizes)) > 2
    assert [type(block).__name__ for block in reduce(told).blocks] == ["Thinking", "Text"]


@differs(
    "a stream that breaks off ends in an error event with what came so far, not in `done`",
    "Closes any open blocks at stream end and emits done with finalized usage",
)
def a_stream_that_breaks_off_is_an_error() -> None:
    for tools in (False, True):
        decoder = request(tools=tools).decoder("k")
        events = [event for piece in pieces(tools=tools)[:3] for event in decoder.feed(piece)] + decoder.close()
        check(events)
        assert isinstance(events[-1], ErrorEvent) and events[-1].error.kind == "truncated"
        whole = all_events(tools=tools)[-1]
        assert isinstance(whole, Done) and whole.turn.usage is not None and not whole.turn.failure


@yes(
    "Tracks a currentBlock (either TextContent or ToolCall) and emits text_start / text_delta or toolcall_start / toolcall_delta per SSE delta",
    "When switching block types (text -> tool call, or between tool calls), emits *_end for the prior block and *_start for the new one",
)
def one_block_ends_before_the_next_begins() -> None:
    opened: list[int] = []
    for event in all_events(tools=True):
        if isinstance(event, ThinkingStart | TextStart | ToolCallStart):
            assert not opened
            opened.append(event.index)
        elif isinstance(event, ThinkingEnd | TextEnd | ToolCallEnd):
            assert opened.pop() == event.index
    assert not opened


@differs(
    "the block keeps the text exactly as it came; it is parsed once, strictly, when the call is run",
    "Accumulates tool call arguments as raw strings (partialArgs), then parses JSON at toolcall_end",
)
def arguments_stay_the_text_that_came() -> None:
    events = all_events(tools=True)
    for end in [event for event in events if isinstance(event, ToolCallEnd)]:
        parts = [event.delta for event in events if isinstance(event, ToolCallDelta) and event.index == end.index]
        assert "".join(parts) == end.block.arguments and msgspec.json.decode(end.block.arguments)["command"]


@differs(
    "by index, id and place, and a call that begins while another is unfinished waits for that one's end, so that blocks never nest",
    "Handles parallel tool calls via an index map from SSE tool_call index to content array position",
)
def interleaved_calls_are_put_in_order() -> None:
    def chunk(*calls: tuple[int, str, str]) -> bytes:
        deltas = [{"index": i, "function": {"arguments": part, **({"name": n} if n else {})}} for i, n, part in calls]
        choice = {"index": 0, "delta": {"tool_calls": deltas}}
        return b"data: " + msgspec.json.encode({"id": "x", "choices": [choice]}) + b"\n\n"

    decoder = request(tools=True).decoder("k")
    first = chunk((0, "bash", '{"command":'), (1, "bash", '{"command":'))
    events = [*decoder.feed(first), *decoder.feed(chunk((1, "", '"b"}'), (0, "", '"a"}')))]
    events += decoder.feed(
        b'data: {"id":"x","choices":[{"delta":{},"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n'
    )
    check(events)
    last = events[-1]
    assert isinstance(last, Done)
    assert [call.arguments for call in last.turn.tool_calls] == ['{"command":"a"}', '{"command":"b"}']


@yes(
    "The handler dynamically chooses the right endpoint based on whether tools are present",
    "No config changes required for existing deployments",
    "The model could handle regular text conversations but failed silently on any tool call",
)
def the_path_is_chosen_for_each_request() -> None:
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


@yes('All other DeepInfra models using api: "openai-completions" are unaffected')
def other_models_of_the_host_take_the_chat() -> None:
    for tools in ((), (BASH,)):
        sent = encode_request("deepinfra/Qwen/Qwen3-32B", "List files", tools=tools)
        assert sent.path == CHAT and body(sent)["messages"]


@yes(
    'the TUI would show "streaming" but no response text appeared until the entire response finished',
    "Thinking tokens appear in real-time in the TUI",
    "Text tokens stream incrementally after thinking completes",
    "Tool calls stream argument fragments and finalize on completion",
)
def each_piece_is_told_as_it_comes() -> None:
    """The terminal's own tests wait for the pieces: tests/cli/test_ask_streams.py, tests/cli/test_chat_terminal.py."""
    for tools, deltas in ((False, (ThinkingDelta, TextDelta)), (True, (ThinkingDelta, TextDelta, ToolCallDelta))):
        batches = arriving(tools=tools)
        for delta in deltas:
            brought = [batch for batch in batches if any(isinstance(event, delta) for event in batch)]
            assert len(brought) >= (1 if tools and delta is ThinkingDelta else 2), delta
            assert all(sum(isinstance(event, delta) for event in batch) == 1 for batch in brought)


@yes("MCP tools, built-in tools, and custom skills all function correctly")
def a_tool_is_a_tool_wherever_it_comes_from() -> None:
    tools = [ToolSpec("mcp__files__list", "", {"type": "object"}), BASH, ToolSpec("skill", "", {"type": "object"})]
    sent = encode_request(MODEL, "List files", tools=tools)
    assert sent.path == CHAT
    assert [tool["function"]["name"] for tool in body(sent)["tools"]] == [tool.name for tool in tools]


async def start_comes_first(tools: bool) -> None:
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
