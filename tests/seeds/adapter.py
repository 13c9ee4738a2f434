"""The Kimi adapter with the surface of a completion function: its fifteen tests, its mappers, its risks."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from midstream.adapters import (
    BASE_DELAY_MS,
    DEFAULT_BASE_URL,
    DEFAULT_MAX_TOKENS,
    DEFAULT_MODEL,
    KIMI_RETRIES_EXHAUSTED,
    MAX_RETRIES,
    AnthropicTool,
    CompletionResult,
    KimiApiError,
    KimiConfigError,
    create_kimi_completion,
    create_kimi_completion_with_tools,
    map_finish_reason,
    map_kimi_tool_calls_to_anthropic,
    map_tools_to_kimi,
)
from midstream.dialects.registry import REGISTRY
from tests.adapters.test_kimi_completion import KEY, WEATHER, Sender, call, complete, refusal, reply
from tests.seeds.table import Table

TABLE = Table(
    not_run={
        "src/domains/router/index.ts is NOT modified in this slice": "a file of another program",
        "npm run build, npm run lint, npm test": "another program's gates",
        "fetch global not available": "there is no such thing in Python; `send` is the seam",
        "Test fixtures drift from Claude adapter's pattern": "that adapter is not here",
        "Live API calls": "out of scope there; here the tests reach 127.0.0.1 at most",
        "MCP tool registration, fallback chain, scoring algorithm": "out of scope there too",
    },
    differs={
        "happy path: returns CompletionResult with correct fields": "fields are written with underscores: `latency_ms`",
        "latency measurement: 50ms delay → latencyMs >= 50": "measured by a clock that is handed in, so that no test waits",
        "injection seam: fetchFn override is invoked": "`send(method, url, headers, body)`",
        "mapKimiToolCallsToAnthropic": "no arguments at all, or `null`, mean none, where JSON.parse would fail on nothing",
        "isRetryable": "429, 5xx and faults of the network, which `send` may raise as OSError or TimeoutError",
        "Logger writes to stdout": "`logging` by default, which writes warnings to stderr",
        "DEFAULT_MODEL": "the previews of K2 have ended: the default is one that is served, and its limit leaves room to think",
        "tools array maps AnthropicTool to Kimi function shape": (
            "also, a name or schema that Moonshot refuses is adapted; names come back as declared"
        ),
        "finish_reason 'tool_calls' maps to 'tool_use'": "unless there is no call in the answer: then it is `end_turn`",
        "tool args JSON.parse failure → _parse_error wrapper": "JSON that is not an object is wrapped too",
    },
)
checked = TABLE.checked


def calling(arguments: str = '{"city":"Paris"}') -> Sender:
    return Sender(reply(None, finish="tool_calls", calls=[call(arguments)]))


def body(**options: Any) -> Any:
    sender = Sender(reply())
    complete(sender, **options)
    return sender.sent[0][3]


@checked("happy path: returns CompletionResult with correct fields")
def _() -> None:
    result = complete(Sender(reply()))
    assert result.content == "Hello!" and result.model == DEFAULT_MODEL
    assert result.stop_reason == "end_turn" and result.latency_ms >= 0


@checked("token accounting: prompt + completion tokens")
def _() -> None:
    result = complete(Sender(reply()))
    assert (result.prompt_tokens, result.completion_tokens) == (10, 5)


@checked("error: 401 from Kimi → KimiApiError with status 401")
def _() -> None:
    with pytest.raises(KimiApiError) as caught:
        complete(Sender(refusal(401)))
    assert caught.value.status == 401


@checked("config: missing COLIBRI_KIMI_API_KEY → KimiConfigError")
def _() -> None:
    with pytest.raises(KimiConfigError, match="COLIBRI_KIMI_API_KEY"):
        complete(Sender(reply()), environ={})


@checked("tool-use response → Anthropic-shape JSON-stringified content")
def _() -> None:
    (block,) = msgspec.json.decode(complete(calling(), tools=[WEATHER]).content)
    assert block == {"type": "tool_use", "id": "get_weather:0", "name": "get_weather", "input": {"city": "Paris"}}


@checked("injection seam: fetchFn override is invoked")
def _() -> None:
    sender = Sender(reply())
    complete(sender)
    assert sender.sent[0][0] == "POST" and sender.sent[0][1].startswith(DEFAULT_BASE_URL)


@checked("latency measurement: 50ms delay → latencyMs >= 50")
def _() -> None:
    times = iter((2.0, 2.05))
    assert complete(Sender(reply()), clock=lambda: next(times)).latency_ms == pytest.approx(50)


@checked("sends POST to Kimi base URL chat/completions endpoint")
def _() -> None:
    sender = Sender(reply())
    complete(sender)
    assert sender.sent[0][:2] == ("POST", "https://api.moonshot.ai/v1/chat/completions")


@checked("Authorization: Bearer header includes API key", "Authorization header malformed")
def _() -> None:
    sender = Sender(reply())
    complete(sender)
    headers = {name.lower(): value for name, value in sender.sent[0][2].items()}
    assert headers["authorization"] == f"Bearer {KEY}" and not {"x-api-key", "anthropic-version"} & set(headers)


@checked("tools array maps AnthropicTool to Kimi function shape", "Tool descriptor mapping field-rename mistake")
def _() -> None:
    (tool,) = body(tools=[WEATHER])["tools"]
    assert tool["type"] == "function" and tool["function"]["parameters"] == WEATHER["input_schema"]
    assert "input_schema" not in tool["function"]


@checked("429 retryable → exponential backoff up to MAX_RETRIES", "Retry exhaustion uses wrong literal")
def _() -> None:
    waits: list[float] = []

    async def delay(milliseconds: float) -> None:
        waits.append(milliseconds)

    with pytest.raises(KimiApiError) as caught:
        complete(Sender(refusal(429)), delay=delay)
    assert waits == [100, 200, 400] == [BASE_DELAY_MS * 2**n for n in range(MAX_RETRIES)]
    assert caught.value.code == KIMI_RETRIES_EXHAUSTED == "KIMI_RETRIES_EXHAUSTED"


@checked("isRetryable")
def _() -> None:
    for failure in (refusal(429), refusal(500), refusal(503), OSError("reset"), TimeoutError()):
        assert complete(Sender(failure, reply())).content == "Hello!"
    for status in (400, 401, 403, 404):
        with pytest.raises(KimiApiError) as caught:
            complete(Sender(refusal(status), reply()))
        assert caught.value.status == status


@checked("system prompt prepended as messages[0] with role=system")
def _() -> None:
    assert body(system="Be brief.")["messages"][0] == {"role": "system", "content": "Be brief."}


@checked("empty tools array does not send tools key")
def _() -> None:
    assert "tools" not in body(tools=[])


@checked("tool args JSON.parse failure → _parse_error wrapper", "Tool-args parse-fail crashes tests")
def _() -> None:
    for arguments in ('{"city"', "nonsense", "[1]"):
        (block,) = msgspec.json.decode(complete(calling(arguments), tools=[WEATHER]).content)
        assert block["input"]["_parse_error"] and block["input"]["_raw"] == arguments


@checked("finish_reason 'tool_calls' maps to 'tool_use'")
def _() -> None:
    assert complete(calling(), tools=[WEATHER]).stop_reason == "tool_use"
    assert complete(Sender(reply("x", finish="tool_calls"))).stop_reason == "end_turn"


@checked("mapToolsToKimi")
def _() -> None:
    function = {"name": "get_weather", "description": "Get the weather", "parameters": WEATHER["input_schema"]}
    assert map_tools_to_kimi([WEATHER]) == [{"type": "function", "function": function}] and map_tools_to_kimi([]) == []


@checked("mapKimiToolCallsToAnthropic")
def _() -> None:
    good, bad, none = map_kimi_tool_calls_to_anthropic([call(), call("{"), call("")])
    assert good == {"type": "tool_use", "id": "get_weather:0", "name": "get_weather", "input": {"city": "Paris"}}
    assert set(bad["input"]) == {"_parse_error", "_raw"} and bad["input"]["_raw"] == "{" and none["input"] == {}


@checked("mapFinishReason")
def _() -> None:
    words = ["stop", "tool_calls", "length", "content_filter", None, "a_new_one"]
    mapped = [map_finish_reason(word) for word in words]
    assert mapped == ["end_turn", "tool_use", "max_tokens", "refusal", "unknown", "a_new_one"]


@checked("DEFAULT_MODEL")
def _() -> None:
    assert body()["model"] == DEFAULT_MODEL and "preview" not in DEFAULT_MODEL
    assert REGISTRY.providers["moonshot"].dialect_for(DEFAULT_MODEL).ids == "kimi"


@checked("DEFAULT_MAX_TOKENS", "MAX_RETRIES", "BASE_DELAY_MS")
def _() -> None:
    assert body()["max_completion_tokens"] == DEFAULT_MAX_TOKENS
    assert (MAX_RETRIES, BASE_DELAY_MS) == (3, 100)


@checked("Re-export AnthropicTool and CompletionResult as type")
def _() -> None:
    declared = AnthropicTool(WEATHER["name"], WEATHER["input_schema"], WEATHER["description"])
    assert isinstance(complete(Sender(reply())), CompletionResult)
    assert body(tools=[declared])["tools"] == body(tools=[WEATHER])["tools"]


@checked("Public API: createKimiCompletion, createKimiCompletionWithTools")
def _() -> None:
    plain = asyncio.run(create_kimi_completion("hi", api_key=KEY, send=Sender(reply())))
    sender = calling()
    tools = asyncio.run(create_kimi_completion_with_tools("hi", [WEATHER], api_key=KEY, send=sender))
    assert plain.content == "Hello!" and tools.stop_reason == "tool_use" and sender.sent[0][3]["tools"]


@checked("DEFAULT_BASE_URL")
def _() -> None:
    assert DEFAULT_BASE_URL == "https://api.moonshot.ai/v1"


@checked("Module-load throw on missing env", "Logger writes to stdout")
def _() -> None:
    program = """
import asyncio, midstream.adapters as a
async def busy(*_): return a.KimiResponse(429, b"{}")
async def instant(_): pass
try: asyncio.run(a.create_kimi_completion("hi", api_key="k", send=busy, delay=instant))
except a.KimiApiError: pass
"""
    environ = {name: value for name, value in os.environ.items() if "KIMI" not in name and "MOONSHOT" not in name}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == "" and done.stderr.count("kimi: attempt") == MAX_RETRIES
