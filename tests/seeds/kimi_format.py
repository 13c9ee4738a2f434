"""The `kimi` tool format: K2's ids, made anew for each request, and conversations that change to K2 and away from it."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
from typing import Any

import msgspec

from midstream import (
    Client,
    Conversation,
    Options,
    Session,
    ToolCall,
    ToolSpec,
    Turn,
    decode_response,
    encode_request,
    human,
    resolve,
    tool_result,
)
from midstream.adapters import to_model_messages
from midstream.ids import TOOL_FORMATS, detect_tool_format, get_tool_id_strategy, is_kimi_model, kimi_strategy
from midstream.ids import standard_strategy as standard
from midstream.testing import Answer, Call, SimServer, sim_server
from tests.seeds.table import Table

TABLE = Table(
    not_run={
        "Files to Modify": "TypeScript files of another program",
        "REFACTOR and COMMIT steps": "how that program's authors worked, not what their program does",
        "All existing provider tests pass": "they are that program's; ours are the rest of this suite",
    },
    differs={
        "isKimiModel: modelName.includes('kimi') || modelName.includes('k2')": (
            "K2 counts only as a word of its own: `gpt-k2000` or `ink2` is no Kimi"
        ),
        "kimiStrategy: resolveToolResponseId without its call": (
            "unsaid there; here it gets the next unused id, so that no two things of a request share one"
        ),
        "No changes to internal storage format (hist_tool_xxx)": (
            "xxx is a hash of 24 characters here, from the host, its id, the tool, the turn and the position"
        ),
        "K2 ID round-trip: functions.read_file:0 is preserved through pipeline": (
            "kept beside the canonical id as `raw_id`; the id that is sent is made anew, and is the same"
        ),
        "/toolformat kimi: should accept kimi as a valid format": "the command prints a line; there is no result object",
        "standardStrategy: should normalize hist_tool_xxx to call_xxx format": (
            "by taking another prefix; what a canonical id cannot hold is hashed, never stripped"
        ),
        "Regression: OpenAI/Anthropic/Qwen/etc. still work correctly": "each judged by the double of its host",
    },
)
checked = TABLE.checked

READ = ToolSpec("read_file", "Read a file", {"type": "object", "properties": {"path": {"type": "string"}}})
GLOB = ToolSpec("glob", "List files", {"type": "object", "properties": {"pattern": {"type": "string"}}})
K2 = "groq/moonshotai/kimi-k2-instruct-0905"
"""A host that numbers calls as K2 itself does."""
OPENAI = "openai/gpt-4o"


def ai(*calls: ToolCall) -> Turn:
    return Turn("ai", calls, key="a")


@checked("isKimiModel: should return true for kimi-k2-0711-preview")
def _() -> None:
    assert is_kimi_model("kimi-k2-0711-preview")


@checked("isKimiModel: should return true for K2-Thinking")
def _() -> None:
    assert is_kimi_model("K2-Thinking")


@checked("isKimiModel: should return false for gpt-4o")
def _() -> None:
    assert not is_kimi_model("gpt-4o")


@checked("isKimiModel: should return false for qwen3-coder-plus")
def _() -> None:
    assert not is_kimi_model("qwen3-coder-plus")


@checked("isKimiModel: modelName.includes('kimi') || modelName.includes('k2')")
def _() -> None:
    assert all(map(is_kimi_model, ["moonshotai/Kimi-K2.5", "kimi-latest", "my-k2", "k2", "K2Thinking"]))
    assert not any(map(is_kimi_model, ["gpt-k2000", "ink2"]))


@checked("kimiStrategy: should generate K2 ID for first tool call")
def _() -> None:
    call = ToolCall("hist_tool_abc", "read_file")
    assert kimi_strategy.create_mapper([ai(call)]).resolve_tool_call_id(call) == "functions.read_file:0"


@checked("kimiStrategy: should generate sequential K2 IDs for multiple tool calls")
def _() -> None:
    calls = ToolCall("hist_tool_1", "read_file"), ToolCall("hist_tool_2", "glob")
    mapper = kimi_strategy.create_mapper([ai(*calls)])
    assert [mapper.resolve_tool_call_id(call) for call in calls] == ["functions.read_file:0", "functions.glob:1"]


@checked("kimiStrategy: should resolve tool response ID to match its call")
def _() -> None:
    call = ToolCall("hist_tool_abc", "read_file")
    response = tool_result(call, "{}")
    mapper = kimi_strategy.create_mapper([ai(call), Turn("tool", (response,), key="t")])
    assert mapper.resolve_tool_response_id(response) == "functions.read_file:0"


@checked("kimiStrategy: resolveToolResponseId without its call")
def _() -> None:
    mapper = kimi_strategy.create_mapper([ai(ToolCall("hist_tool_1", "glob"))])
    assert mapper.resolve_tool_response_id(tool_result(ToolCall("hist_tool_gone", "glob"), "")) == "functions.glob:1"


@checked("The mapping is rebuilt fresh each time messages are constructed")
def _() -> None:
    call, later = ToolCall("hist_tool_1", "glob"), ToolCall("hist_tool_2", "glob")
    assert kimi_strategy.create_mapper([ai(call), ai(later)]).resolve_tool_call_id(later) == "functions.glob:1"
    assert kimi_strategy.create_mapper([ai(later)]).resolve_tool_call_id(later) == "functions.glob:0"


@checked("standardStrategy: should normalize hist_tool_xxx to call_xxx format")
def _() -> None:
    call = ToolCall("hist_tool_abc123", "read_file")
    assert standard.create_mapper([ai(call)]).resolve_tool_call_id(call) == "call_abc123"


@checked("getToolIdStrategy: Get strategy for a tool format")
def _() -> None:
    assert get_tool_id_strategy("kimi") is kimi_strategy and get_tool_id_strategy("openai") is standard


@checked("ToolFormat type: openai, anthropic, deepseek, qwen, kimi, hermes, xml, llama, gemma")
def _() -> None:
    assert set("openai anthropic deepseek qwen kimi hermes xml llama gemma".split()) <= set(TOOL_FORMATS)


@checked("toProviderFormat with kimi: should convert tools to OpenAI format (same as qwen)")
def _() -> None:
    function = {"name": "read_file", "description": "Read a file", "parameters": READ.parameters}
    for model in (K2, "moonshot/kimi-k2.5", "alibaba/qwen3-coder-plus"):
        assert _body(model, Conversation((human("hi"),)))["tools"][0] == {"type": "function", "function": function}


@checked(
    "detectToolFormat: should detect kimi format for kimi-k2-0711-preview",
    "OpenAIVercelProvider K2 detection: should detect kimi format for kimi-k2 models",
    "Auto-detection: K2 models correctly detected as kimi format",
)
def _() -> None:
    assert detect_tool_format("kimi-k2-0711-preview") == "kimi"
    assert resolve("moonshot/kimi-k2-0711-preview").dialect.tool_format == "kimi"


@checked("detectToolFormat: should detect kimi format for K2-Thinking")
def _() -> None:
    assert detect_tool_format("K2-Thinking") == "kimi"


@checked("buildMessagesWithReasoning: should use K2 ID format for tool calls when format is kimi")
def _() -> None:
    _, assistant, tool = _body(K2, _listed())["messages"]
    assert assistant["tool_calls"][0]["id"] == tool["tool_call_id"] == "functions.glob:0"


@checked("convertToVercelMessages: should use K2 ID format when kimi resolver provided")
def _() -> None:
    turns = (ai(ToolCall("hist_tool_xyz", "read_file")),)
    for ids in (kimi_strategy, kimi_strategy.create_mapper(turns)):
        (message,) = to_model_messages(Conversation(turns), ids)
        assert message["content"][0]["toolCallId"] == "functions.read_file:0"


@checked(
    "/toolformat kimi: should accept kimi as a valid format",
    "Manual override via /toolformat kimi works",
)
def _() -> None:
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [sys.executable, "-m", "midstream.cli.main", "chat", "-m", "sim/gpt-4o"],
            input="/toolformat\n/toolformat kimi\n",
            env={"MIDSTREAM_HOME": home, "MIDSTREAM_SIM_DELAY": "0"},
            cwd=home,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert re.search(r"tool format: openai \(automatic.*tool format: kimi \(set by you", done.stderr, re.S)


@checked("extractKimiToolCallsFromText: sanitize() strips '.' and ':'")
def _() -> None:
    written = "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:3<|tool_call_argument_begin|>{}"
    text = f"{written}<|tool_call_end|><|tool_calls_section_end|>"
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    body = msgspec.json.encode({"id": "x", "object": "chat.completion", "choices": [choice]})
    turn = decode_response(body, dialect=K2, tools=[READ], turn_key="k")
    (call,) = turn.tool_calls
    assert (call.name, call.raw_id, turn.text) == ("read_file", "functions.read_file:3", "")
    assert re.fullmatch(r"hist_tool_[\w-]{24}", call.id)


@checked("Users can manually override with /toolformat kimi")
def _() -> None:
    request = encode_request("vllm/my-finetune", _listed(), tools=[GLOB], options=Options(tool_format="kimi"))
    assert _ids(msgspec.json.decode(request.body)) == ["functions.glob:0"]
    assert _ids(_body("vllm/my-finetune", _listed())) == ["call_abc"]


@checked(
    "K2 multi-turn tool calling: should complete 4 rounds of tool calls without crash",
    "Multi-turn K2: 4+ tool call rounds without crash",
    "K2 ID round-trip: functions.read_file:0 is preserved through pipeline",
)
def _() -> None:
    rounds = [Answer(calls=(Call("read_file", {"path": str(n)}),)) for n in range(4)]
    with sim_server(*rounds, "Done.") as sim:
        turns = asyncio.run(_rounds(sim, [K2] * 5))
        ids = [f"functions.read_file:{n}" for n in range(4)]
        assert _ids(sim.seen[-1].body) == ids and not sim.refused
        assert [call.raw_id for turn in turns for call in turn.tool_calls] == ids
    assert turns[-1].text == "Done."


@checked("K2 multi-turn tool calling works without crash/loop")
def _() -> None:
    rounds = [Answer("", "Hm.", (Call("read_file", {"path": "a"}), Call("read_file", {"path": "b"}))) for _ in range(5)]
    for model in ("moonshot/kimi-k2.5", "deepinfra/moonshotai/Kimi-K2.5", "together/moonshotai/Kimi-K2.5"):
        with sim_server(*rounds, "Done.") as sim:
            turns = asyncio.run(_rounds(sim, [model] * 6))
            assert _ids(sim.seen[-1].body) == [f"functions.read_file:{n}" for n in range(10)] and not sim.refused
        assert turns[-1].text == "Done."


@checked(
    "model switching: should preserve context when switching from OpenAI to K2",
    "When switching TO K2, we regenerate K2 IDs for the entire history",
)
def _() -> None:
    with sim_server(*_two_calls()) as sim:
        asyncio.run(_rounds(sim, [OPENAI, K2, K2]))
        assert _ids(sim.seen[1].body) == ["functions.read_file:0"]
        assert _ids(sim.seen[2].body) == ["functions.read_file:0", "functions.read_file:1"]
        assert _texts(sim.seen[2].body) == ["result of 0", "result of 1"] and not sim.refused


@checked(
    "model switching: should preserve context when switching from K2 to OpenAI",
    "When switching FROM K2, other providers use their standard ID formats",
)
def _() -> None:
    with sim_server(*_two_calls()) as sim:
        asyncio.run(_rounds(sim, [K2, OPENAI, OPENAI]))
        ids = _ids(sim.seen[2].body)
        assert len(set(ids)) == 2 and all(re.fullmatch(r"call_[\w-]{24}", id) for id in ids)
        assert _texts(sim.seen[2].body) == ["result of 0", "result of 1"] and not sim.refused


@checked("No changes to internal storage format (hist_tool_xxx)")
def _() -> None:
    for models in ([K2, K2, OPENAI], [OPENAI, K2, K2]):
        with sim_server(*_two_calls()) as sim:
            turns = asyncio.run(_rounds(sim, models))
        calls = [call.id for turn in turns for call in turn.tool_calls]
        responses = [block.call_id for turn in turns if turn.speaker == "tool" for block in turn.blocks]
        assert calls == responses and all(re.fullmatch(r"hist_tool_[\w-]{24}", id) for id in calls)


@checked("Regression: OpenAI/Anthropic/Qwen/etc. still work correctly")
def _() -> None:
    models = [OPENAI, "anthropic/claude-sonnet-4-5", "alibaba/qwen3-coder-plus", "mistral/mistral-large-latest"]
    rounds = [Answer(calls=(Call("read_file", {"path": str(n)}),)) for n in range(len(models) + 1)]
    with sim_server(*rounds, "Done.") as sim:
        turns = asyncio.run(_rounds(sim, [*models, K2, OPENAI]))
        assert not sim.refused
    assert turns[-1].text == "Done."


def _two_calls() -> list[Answer]:
    return [*[Answer(calls=(Call("read_file", {"path": str(n)}),)) for n in range(2)], Answer("Done.")]


def _listed() -> Conversation:
    call = ToolCall("hist_tool_abc", "glob")
    return Conversation((human("list files"), ai(call), Turn("tool", (tool_result(call, "file.ts"),), key="t")))


def _body(model: str, conversation: Conversation) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.json.decode(encode_request(model, conversation, tools=[READ, GLOB]).body)
    return body


def _ids(body: dict[str, Any]) -> list[str]:
    """The ids of the calls, which the results have too."""
    calls = [call["id"] for message in body["messages"] for call in message.get("tool_calls") or ()]
    assert [message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"] == calls
    return calls


def _texts(body: dict[str, Any]) -> list[str]:
    return [message["content"] for message in body["messages"] if message["role"] == "tool"]


async def _rounds(sim: SimServer, models: list[str]) -> tuple[Turn, ...]:
    """One request to each model in turn, its calls answered before the next."""
    async with sim.client() as client:
        return await _converse(client, models)


async def _converse(client: Client, models: list[str]) -> tuple[Turn, ...]:
    async with Session(models[0], tools=[READ], client=client) as session:
        for number, model in enumerate(models):
            session.switch_model(model)
            turn = await (session.send() if number else session.send("Read them"))
            if turn.tool_calls:
                results = [tool_result(call, f"result of {number}") for call in turn.tool_calls]
                await session.add(Turn("tool", tuple(results)))
        return session.conversation.turns
