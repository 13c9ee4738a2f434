"""Seed 000: the `kimi` tool format, K2's ids made anew for each request, and conversations that change to K2 and away from it."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, get_args

import msgspec

from midstream import (
    Client,
    Conversation,
    Options,
    Session,
    ToolCall,
    ToolResponse,
    ToolSpec,
    Turn,
    decode_response,
    encode_request,
    human,
    resolve,
    tool_result,
)
from midstream.adapters import to_model_messages
from midstream.ids import (
    TOOL_FORMATS,
    ToolFormat,
    ToolIdMapper,
    ToolIdStrategy,
    detect_tool_format,
    from_own_id,
    get_tool_id_strategy,
    is_kimi_model,
    kimi_strategy,
    standard_strategy,
)
from midstream.testing import Answer, Call, SimServer, sim_server
from midstream.wires.tool_format import resolve_tool_format
from tests.seeds.document import Document

DOCUMENT = Document("000", "Kimi K2 Thinking Streaming Tool ID Fix")
yes, differs = DOCUMENT.yes, DOCUMENT.differs
ROOT = Path(__file__).parents[2]

READ = ToolSpec("read_file", "Read a file", {"type": "object", "properties": {"path": {"type": "string"}}})
GLOB = ToolSpec("glob", "List files", {"type": "object", "properties": {"pattern": {"type": "string"}}})
K2 = "groq/moonshotai/kimi-k2-instruct-0905"
"""A host that numbers calls as K2 itself does."""
OPENAI = "openai/gpt-4o"


def ai(*calls: ToolCall) -> Turn:
    return Turn("ai", calls, key="a")


# The documents' contents, as they write them.
ABC = ai(ToolCall("hist_tool_abc", "read_file", {}))
TWO = ai(ToolCall("hist_tool_1", "read_file", {}), ToolCall("hist_tool_2", "glob", {}))
RESPONSE = Turn("tool", (ToolResponse("hist_tool_abc", "read_file", {}),), key="t")  # type: ignore[arg-type]
LIST_FILES = Conversation(
    (
        human("list files"),
        ai(ToolCall("hist_tool_abc", "glob", {})),
        Turn("tool", (tool_result(ToolCall("hist_tool_abc", "glob"), ["file.ts"]),), key="t"),
    )
)


@yes(
    "When K2 makes tool calls, it expects to receive responses with IDs in its specific format",
    "K2 Expects: functions.read_file:3",
    "functions.{tool_name}:{global_index}",
    "Example: functions.read_file:3",
)
def k2_gets_its_ids_counted_through_the_request() -> None:
    calls = [ToolCall(f"hist_tool_{n}", "read_file", {}) for n in range(4)]
    turns = [turn for call in calls for turn in (ai(call), Turn("tool", (tool_result(call, {}),)))]
    body = body_of(K2, Conversation((human("Read them"), *turns)))
    assert ids_of(body) == [f"functions.read_file:{n}" for n in range(4)]
    assert body["messages"][-1]["tool_call_id"] == "functions.read_file:3"


@differs(
    "nothing is stripped: an id that is not ours is hashed with its turn, so that no two become one",
    "sanitize() strips '.' and ':' → hist_tool_functionsread_file3",
    "normalizeToOpenAIToolId() → call_functionsread_file3",
    "removes all non-alphanumeric characters except underscore",
    "This strips the . and : characters that K2 requires in its ID format",
)
@yes("extractKimiToolCallsFromText() calls normalizeToHistoryToolId(rawId)")
def a_call_in_the_text_gets_a_canonical_id_and_keeps_its_own() -> None:
    written = "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:3<|tool_call_argument_begin|>{}"
    text = f"{written}<|tool_call_end|><|tool_calls_section_end|>"
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    body = msgspec.json.encode({"id": "x", "object": "chat.completion", "choices": [choice]})
    turn = decode_response(body, dialect=K2, tools=[READ], turn_key="k")
    (call,) = turn.tool_calls
    assert (call.name, call.raw_id, turn.text) == ("read_file", "functions.read_file:3", "")
    assert re.fullmatch(r"hist_tool_[\w-]{24}", call.id) and from_own_id("hist_tool_functionsread_file3") is None
    one, other = ToolCall("functions.read_file:3", "f"), ToolCall("functionsread_file3", "f")
    mapper = standard_strategy.create_mapper([ai(one, other)])
    assert mapper.resolve_tool_call_id(one) != mapper.resolve_tool_call_id(other)


@yes(
    "K2 crashes/loops because tool_call_id doesn't match its internal state",
    "should complete 4 rounds of tool calls without crash",
    "Verify functions.read_file:0 is preserved through pipeline",
    "4+ tool call rounds without crash",
    "tests the full pipeline with real K2 message format",
)
def k2_goes_through_four_rounds() -> None:
    rounds = [Answer(calls=(Call("read_file", {"path": str(n)}),)) for n in range(4)]
    with sim_server(*rounds, "Done.") as sim:
        turns = asyncio.run(rounds_of(sim, [K2] * 5))
        ids = [f"functions.read_file:{n}" for n in range(4)]
        assert ids_of(sim.seen[-1].body) == ids and not sim.refused
        assert [call.raw_id for turn in turns for call in turn.tool_calls] == ids
    assert turns[-1].text == "Done."


@yes("K2 multi-turn tool calling works without crash/loop")
def several_hosts_of_kimi_go_through_five_rounds_of_two_calls() -> None:
    rounds = [Answer("", "Hm.", (Call("read_file", {"path": "a"}), Call("read_file", {"path": "b"}))) for _ in range(5)]
    for model in ("moonshot/kimi-k2.5", "deepinfra/moonshotai/Kimi-K2.5"):
        with sim_server(*rounds, "Done.") as sim:
            turns = asyncio.run(rounds_of(sim, [model] * 6))
            assert ids_of(sim.seen[-1].body) == [f"functions.read_file:{n}" for n in range(10)] and not sim.refused
        assert turns[-1].text == "Done."


@yes(
    "Users must be able to switch models mid-conversation while sharing context",
    "When switching TO K2 from another provider, there are no K2 IDs to preserve",
    "When switching TO K2, we regenerate K2 IDs for the entire history",
    "should preserve context when switching from OpenAI to K2",
    "History from OpenAI should work when continuing with K2",
    "History from OpenAI works when switching to K2",
    "Model switching preserves context and works correctly",
)
def a_history_of_openai_goes_on_with_k2() -> None:
    with sim_server(*two_calls()) as sim:
        asyncio.run(rounds_of(sim, [OPENAI, K2, K2]))
        assert ids_of(sim.seen[1].body) == ["functions.read_file:0"]
        assert ids_of(sim.seen[2].body) == ["functions.read_file:0", "functions.read_file:1"]
        assert texts_of(sim.seen[2].body) == ["result of 0", "result of 1"] and not sim.refused


@yes(
    "We cannot simply store K2's exact IDs (other providers won't understand them)",
    "When switching FROM K2, other providers use their standard ID formats",
    "should preserve context when switching from K2 to OpenAI",
    "History from K2 should work when continuing with OpenAI",
    "History from K2 works when switching to OpenAI",
)
def a_history_of_k2_goes_on_with_openai() -> None:
    with sim_server(*two_calls()) as sim:
        asyncio.run(rounds_of(sim, [K2, OPENAI, OPENAI]))
        ids = ids_of(sim.seen[2].body)
        assert len(set(ids)) == 2 and all(re.fullmatch(r"call_[\w-]{24}", id) for id in ids)
        assert texts_of(sim.seen[2].body) == ["result of 0", "result of 1"] and not sim.refused


@yes(
    "We need a provider-agnostic internal format with dynamic ID generation per-provider",
    "Internal format stays hist_tool_xxx (provider-agnostic)",
    "No changes to internal storage format (hist_tool_xxx)",
)
def what_is_stored_has_the_same_form_whoever_answered() -> None:
    for models in ([K2, K2, OPENAI], [OPENAI, K2, K2]):
        with sim_server(*two_calls()) as sim:
            turns = asyncio.run(rounds_of(sim, models))
        calls = [call.id for turn in turns for call in turn.tool_calls]
        responses = [block.call_id for turn in turns for block in turn.tool_responses]
        assert calls == responses and all(re.fullmatch(r"hist_tool_[\w-]{24}", id) for id in calls)


@yes(
    "Add 'kimi' as a new value in the ToolFormat type",
    "export type ToolFormat = | 'openai' | 'anthropic' | 'deepseek' | 'qwen' | 'kimi'",
    "'hermes' | 'xml' | 'llama' | 'gemma';",
    "Add 'kimi' to ToolFormat type",
)
def the_type_has_the_nine_formats() -> None:
    nine = {"openai", "anthropic", "deepseek", "qwen", "kimi", "hermes", "xml", "llama", "gemma"}
    assert nine <= set(get_args(ToolFormat)) == set(TOOL_FORMATS)


@yes(
    "const STRUCTURED_FORMATS = ['openai', 'anthropic', 'deepseek', 'qwen', 'kimi', 'gemma'];",
    "Handle kimi format (same as qwen for tool definitions)",
    "The kimi format implies both OpenAI-style tool definitions AND K2-style ID handling",
)
def the_structured_formats_declare_tools_as_json_functions() -> None:
    wires = {"anthropic": "anthropic/claude-sonnet-4-5"}
    for format in ("openai", "anthropic", "deepseek", "qwen", "kimi", "gemma"):
        model = wires.get(format, OPENAI)
        assert resolve_tool_format(resolve(model).dialect, format).name == format
        body = body_of(model, LIST_FILES, tool_format=format)
        assert len(body["tools"]) == 2, format
    kimi, qwen = (body_of(OPENAI, LIST_FILES, tool_format=format) for format in ("kimi", "qwen"))
    assert kimi["tools"] == qwen["tools"] and ids_of(kimi) == ["functions.glob:0"] and ids_of(qwen) == ["call_abc"]


@yes(
    "dynamically regenerate K2-format IDs based on conversation position",
    "Scan all tool calls in conversation history",
    "functions.{toolName}:{globalIndex} (0-indexed)",
    "Kimi strategy: generates functions.{name}:{idx} format",
    "should generate K2 ID for first tool call",
    "should generate sequential K2 IDs for multiple tool calls",
    ".toBe('functions.glob:1')",
)
def k2_ids_are_made_from_the_place_in_the_conversation() -> None:
    assert call_ids(ABC) == ["functions.read_file:0"]
    assert call_ids(TWO) == ["functions.read_file:0", "functions.glob:1"]


@yes(
    "Tool responses use the same mapping to find their corresponding call's K2 ID",
    "should resolve tool response ID to match its call",
    "expect(mapper.resolveToolResponseId(response)).toBe('functions.read_file:0')",
)
def a_response_has_the_id_of_its_call() -> None:
    (response,) = RESPONSE.tool_responses
    assert kimi_strategy.create_mapper([ABC, RESPONSE]).resolve_tool_response_id(response) == "functions.read_file:0"


@yes("The mapping is rebuilt fresh each time messages are constructed")
def a_mapping_belongs_to_one_request() -> None:
    call, later = ToolCall("hist_tool_1", "glob", {}), ToolCall("hist_tool_2", "glob", {})
    assert kimi_strategy.create_mapper([ai(call), ai(later)]).resolve_tool_call_id(later) == "functions.glob:1"
    assert kimi_strategy.create_mapper([ai(later)]).resolve_tool_call_id(later) == "functions.glob:0"


@differs(
    "Python, and other modules: `midstream.ids` has the strategies, the wires build the messages",
    "Location: packages/core/src/tools/ToolIdStrategy.ts",
    "packages/core/src/providers/openai/OpenAIProvider.ts",
    "packages/core/src/providers/openai-vercel/OpenAIVercelProvider.ts",
    "packages/cli/src/ui/commands/toolformatCommand.ts",
)
@yes(
    "export interface ToolIdMapper {",
    "resolveToolCallId(tc: ToolCallBlock): string;",
    "resolveToolResponseId(tr: ToolResponseBlock): string;",
    "export interface ToolIdStrategy {",
    "createMapper(contents: IContent[]): ToolIdMapper;",
    "export const standardStrategy: ToolIdStrategy;",
    "export const kimiStrategy: ToolIdStrategy;",
    "export function getToolIdStrategy(format: ToolFormat): ToolIdStrategy;",
    "export function isKimiModel(model: string): boolean;",
)
def the_module_has_these_names() -> None:
    for strategy in (standard_strategy, kimi_strategy):
        assert isinstance(strategy, ToolIdStrategy)
        mapper: ToolIdMapper = strategy.create_mapper([ABC, RESPONSE])
        assert isinstance(mapper.resolve_tool_call_id(ABC.tool_calls[0]), str)
        assert isinstance(mapper.resolve_tool_response_id(RESPONSE.tool_responses[0]), str)
    assert get_tool_id_strategy("kimi") is kimi_strategy and get_tool_id_strategy("openai") is standard_strategy
    assert is_kimi_model("kimi") is True
    for module in ("core/ids.py", "wires/openai_chat/encode.py", "adapters/ai_sdk.py", "cli/commands/model.py"):
        assert (ROOT / "src/midstream" / module).is_file()


@yes(
    "Detect tool format via detectToolFormat() (auto-detects kimi for K2 models)",
    "Get the appropriate ID strategy via getToolIdStrategy(format)",
    "Create a mapper from conversation contents",
    "Use the mapper when building messages",
    "id: idMapper.resolveToolCallId(tc), type: 'function', function: { name: tc.name, arguments: ... }",
    "tool_call_id: idMapper.resolveToolResponseId(tr)",
    "should use K2 ID format for tool calls when format is kimi",
    "expect(assistantMsg.tool_calls[0].id).toBe('functions.glob:0')",
    "expect(toolMsg.tool_call_id).toBe('functions.glob:0')",
)
def messages_are_built_with_the_mapper_of_the_detected_format() -> None:
    """The document's own history, at a host of K2's."""
    mapper = get_tool_id_strategy(detect_tool_format("kimi-k2-0711-preview")).create_mapper(LIST_FILES.turns)
    _, assistant, tool = body_of("vllm/kimi-k2-0711-preview", LIST_FILES)["messages"]
    (call,), (response,) = LIST_FILES.turns[1].tool_calls, LIST_FILES.turns[2].tool_responses
    assert assistant["tool_calls"] == [
        {"id": mapper.resolve_tool_call_id(call), "type": "function", "function": {"name": "glob", "arguments": "{}"}}
    ]
    assert tool["tool_call_id"] == mapper.resolve_tool_response_id(response) == "functions.glob:0"
    assert tool["content"] == '["file.ts"]'


@differs(
    "K2 counts only as a word of its own: `gpt-k2000` or `ink2` is no Kimi",
    "if (modelName.includes('kimi') || modelName.includes('k2')) {",
)
@yes(
    "const modelName = (this.getModel() || this.getDefaultModel()).toLowerCase();",
    "should return true for kimi-k2-0711-preview",
    "should return true for K2-Thinking",
    "should return false for gpt-4o",
    "should return false for qwen3-coder-plus",
)
def k2_is_told_by_its_name() -> None:
    assert is_kimi_model("kimi-k2-0711-preview") and is_kimi_model("K2-Thinking")
    assert not is_kimi_model("gpt-4o") and not is_kimi_model("qwen3-coder-plus")
    assert all(map(is_kimi_model, ["moonshotai/Kimi-K2.5", "KIMI-LATEST", "my-k2", "k2", "K2Thinking"]))
    assert not any(map(is_kimi_model, ["gpt-k2000", "ink2"]))


@yes(
    "Auto-detect K2 models in detectToolFormat()",
    "// K2 models use kimi format",
    "existing detection for qwen, glm, etc.",
    "should detect kimi format for kimi-k2-0711-preview",
    "should detect kimi format for K2-Thinking",
    "should detect kimi format for kimi-k2 models",
    "K2 models correctly detected as kimi format",
    "Auto-detection works for K2 models",
)
def the_format_is_detected_by_the_models_name() -> None:
    for model in ("kimi-k2-0711-preview", "K2-Thinking"):
        assert detect_tool_format(model) == "kimi"
        assert resolve(f"vllm/{model}").dialect.tool_format == "kimi"
    assert detect_tool_format("qwen3-coder-plus") == resolve("qwen/qwen3-coder-plus").dialect.tool_format == "qwen"
    assert detect_tool_format("glm-4.6") == resolve("zai/glm-4.6").dialect.tool_format == "qwen"


@differs(
    "with a schema that has a type, because Moonshot refuses `{}`; everything else is the same",
    "{ name: 'read_file', description: 'Read a file', parameters: {} } } ]);",
)
@yes("should convert tools to OpenAI format (same as qwen)")
def tools_of_kimi_are_openais() -> None:
    tool = ToolSpec("read_file", "Read a file", {})
    schema = {"type": "object", "properties": {}}
    wanted = {"type": "function", "function": {"name": "read_file", "description": "Read a file", "parameters": schema}}
    for model, format in ((K2, "kimi"), ("qwen/qwen3-coder-plus", "qwen")):
        assert resolve(model).dialect.tool_format == format
        body = msgspec.json.decode(encode_request(model, "list files", tools=[tool]).body)
        assert body["tools"] == [wanted]


@differs(
    "`to_model_messages(conversation, ids)` takes a strategy or a mapper, not two functions",
    "resolveToolCallId: (id, name) => mapper.resolveToolCallId({ id, name } as ToolCallBlock)",
)
@yes(
    "Accept ID resolver parameter",
    "should use K2 ID format when kimi resolver provided",
    "expect(assistantMsg.content[0].toolCallId).toBe('functions.read_file:0')",
)
def messages_of_the_ai_sdk_take_the_ids_of_kimi() -> None:
    turns = (ai(ToolCall("hist_tool_xyz", "read_file", {})),)
    for ids in (kimi_strategy, kimi_strategy.create_mapper(turns)):
        (message,) = to_model_messages(Conversation(turns), ids)
        assert message["content"][0]["toolCallId"] == "functions.read_file:0"


@differs(
    "the command prints lines; there is no result object",
    "expect(result.messageType).toBe('info')",
)
@yes(
    "should accept kimi as a valid format",
    "expect(result.content).toContain('kimi')",
    "Add kimi to format list",
    "/toolformat kimi works correctly",
    "Manual override via /toolformat kimi works",
)
def the_command_takes_kimi() -> None:
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


@yes("Users can manually override with /toolformat kimi")
def a_format_set_by_hand_brings_its_ids_to_any_host() -> None:
    assert ids_of(body_of("vllm/my-finetune", LIST_FILES, tool_format="kimi")) == ["functions.glob:0"]
    assert ids_of(body_of("vllm/my-finetune", LIST_FILES)) == ["call_abc"]


@differs(
    "by taking another prefix; what a canonical id cannot hold is hashed, never stripped",
    "Standard strategy: uses normalizeToOpenAIToolId (call_xxx format)",
)
@yes("should normalize hist_tool_xxx to call_xxx format", ".toBe('call_abc123')")
def the_standard_strategy_takes_another_prefix() -> None:
    call = ToolCall("hist_tool_abc123", "read_file", {})
    assert standard_strategy.create_mapper([ai(call)]).resolve_tool_call_id(call) == "call_abc123"
    odd = ToolCall("functions.a:0", "f")
    assert re.fullmatch(r"call_[\w-]{24}", standard_strategy.create_mapper([ai(odd)]).resolve_tool_call_id(odd))


@yes("OpenAI/Anthropic/Qwen/etc. still work correctly")
def other_hosts_take_the_same_conversation() -> None:
    """Each judged by the double of its host."""
    models = [OPENAI, "anthropic/claude-sonnet-4-5", "qwen/qwen3-coder-plus", "mistral/mistral-large-latest"]
    rounds = [Answer(calls=(Call("read_file", {"path": str(n)}),)) for n in range(len(models) + 1)]
    with sim_server(*rounds, "Done.") as sim:
        turns = asyncio.run(rounds_of(sim, [*models, K2, OPENAI]))
        assert not sim.refused
    assert turns[-1].text == "Done."


@differs(
    "another program's tests and steps; ours are the rest of this suite, and each change comes with its test (CONTRIBUTING.md)",
    "All existing provider tests pass",
    "RED → GREEN → REFACTOR → COMMIT",
)
def changes_come_with_their_tests() -> None:
    assert "tests and documentation in the same commit" in (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    for wire in ("openai_chat", "anthropic", "gemini", "openai_responses", "cohere", "ollama", "completion"):
        assert (ROOT / "tests/wires" / wire).is_dir()


def call_ids(*turns: Turn) -> list[str]:
    mapper = kimi_strategy.create_mapper(turns)
    return [mapper.resolve_tool_call_id(call) for turn in turns for call in turn.tool_calls]


def two_calls() -> list[Answer]:
    return [*[Answer(calls=(Call("read_file", {"path": str(n)}),)) for n in range(2)], Answer("Done.")]


@cache
def body_of(model: str, conversation: Conversation, tool_format: str | None = None) -> dict[str, Any]:
    request = encode_request(model, conversation, tools=[READ, GLOB], options=Options(tool_format=tool_format))
    body: dict[str, Any] = msgspec.json.decode(request.body)
    return body


def ids_of(body: dict[str, Any]) -> list[str]:
    """The ids of the calls, which the results have too."""
    calls = [call["id"] for message in body["messages"] for call in message.get("tool_calls") or ()]
    assert [message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"] == calls
    return calls


def texts_of(body: dict[str, Any]) -> list[str]:
    return [message["content"] for message in body["messages"] if message["role"] == "tool"]


async def rounds_of(sim: SimServer, models: list[str]) -> tuple[Turn, ...]:
    """One request to each model in turn, its calls answered before the next."""
    async with sim.client() as client:
        return await converse(client, models)


async def converse(client: Client, models: list[str]) -> tuple[Turn, ...]:
    async with Session(models[0], tools=[READ], client=client) as session:
        for number, model in enumerate(models):
            session.switch_model(model)
            turn = await (session.send() if number else session.send("Read them"))
            if turn.tool_calls:
                results = [tool_result(call, f"result of {number}") for call in turn.tool_calls]
                await session.add(Turn("tool", tuple(results)))
        return session.conversation.turns
