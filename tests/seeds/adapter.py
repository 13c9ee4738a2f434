"""Seed 002: the Kimi adapter with the surface of a completion function, its fifteen tests, its mappers, its risks."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from midstream import adapters
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
    KimiCompletionOptions,
    KimiConfigError,
    create_kimi_completion,
    create_kimi_completion_with_tools,
    map_finish_reason,
    map_kimi_tool_calls_to_anthropic,
    map_tools_to_kimi,
)
from midstream.dialects.registry import REGISTRY
from tests.adapters.test_kimi_completion import KEY, WEATHER, Sender, call, complete, refusal, reply
from tests.seeds.document import Document

DOCUMENT = Document("002", "P1.5.2 Kimi K2 Adapter")
yes, differs = DOCUMENT.yes, DOCUMENT.differs
ROOT = Path(__file__).parents[2]


def calling(arguments: str = '{"city":"Paris"}') -> Sender:
    return Sender(reply(None, finish="tool_calls", calls=[call(arguments)]))


def body(**options: Any) -> Any:
    sender = Sender(reply())
    complete(sender, **options)
    return sender.sent[0][3]


@yes(
    "a Kimi K2 HTTP wrapper with the same CompletionFn-compatible surface",
    "createKimiCompletion, createKimiCompletionWithTools",
)
def both_functions_give_a_completion_result() -> None:
    plain = asyncio.run(create_kimi_completion("hi", api_key=KEY, send=Sender(reply())))
    sender = calling()
    tools = asyncio.run(create_kimi_completion_with_tools("hi", [WEATHER], api_key=KEY, send=sender))
    assert isinstance(plain, CompletionResult) and isinstance(tools, CompletionResult)
    assert plain.content == "Hello!" and tools.stop_reason == "tool_use" and sender.sent[0][3]["tools"]


@differs(
    "another program's files, order of work and gates: here `make check` (mypy --strict, ruff) and `make test`, with these tests among them",
    "Ship src/domains/router/adapters/kimi.ts",
    "src/domains/router/index.ts is NOT modified in this slice",
    "npm run build — TypeScript strict compile must pass",
    "npm run lint — ESLint passes",
    "npm test — All tests pass",
    "src/domains/router/index.ts accidentally modified",
    "Node 20+ baseline (CLAUDE.md §1 stack guardrail)",
    "Mirror function-by-function; same helper names",
)
def the_gates_are_those_of_this_repository() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert (
        "check:" in makefile and "test:" in makefile and (ROOT / "src/midstream/adapters/kimi_completion.py").is_file()
    )
    assert "strict = true" in (ROOT / "pyproject.toml").read_text("utf-8")


@yes("plus 5–10 parity tests")
def the_adapter_has_its_tests() -> None:
    source = (ROOT / "tests/adapters/test_kimi_completion.py").read_text("utf-8")
    assert source.count("\ndef test_") >= 5


@differs(
    "the previews of K2 have ended: the default is a model that is served, and its limit leaves room to think",
    "DEFAULT_BASE_URL, DEFAULT_MODEL, DEFAULT_MAX_TOKENS, MAX_RETRIES, BASE_DELAY_MS",
)
@yes("https://api.moonshot.ai/v1/chat/completions")
def the_constants_are_there() -> None:
    assert DEFAULT_BASE_URL == "https://api.moonshot.ai/v1" and body()["model"] == DEFAULT_MODEL
    assert "preview" not in DEFAULT_MODEL and REGISTRY.providers["moonshot"].dialect_for(DEFAULT_MODEL).ids == "kimi"  # type: ignore[union-attr]
    assert body()["max_completion_tokens"] == DEFAULT_MAX_TOKENS and (MAX_RETRIES, BASE_DELAY_MS) == (3, 100)


@yes(
    "KimiConfigError, KimiApiError",
    "KimiCompletionOptions. Re-export AnthropicTool and CompletionResult as type",
)
def the_types_are_exported() -> None:
    for name in ("KimiConfigError", "KimiApiError", "KimiCompletionOptions", "AnthropicTool", "CompletionResult"):
        assert name in adapters.__all__
    declared = AnthropicTool(WEATHER["name"], WEATHER["input_schema"], WEATHER["description"])
    assert body(tools=[declared])["tools"] == body(tools=[WEATHER])["tools"]
    options: KimiCompletionOptions = {"api_key": KEY, "send": Sender(reply())}
    assert asyncio.run(create_kimi_completion("hi", **options)).content == "Hello!"
    assert set(KimiCompletionOptions.__annotations__) < set(
        inspect.signature(create_kimi_completion_with_tools).parameters
    )


@differs(
    "three mappers are public; requests, answers and retries are those of the whole library",
    "isRetryable, sleep, buildRequestBody, mapToolsToKimi, mapKimiToolCallsToAnthropic, mapFinishReason, parseResult",
)
@yes("Pure functions. Easy to unit-test", "Endpoint path: /chat/completions (not /messages)")
def the_mappers_are_functions_of_their_own() -> None:
    assert map_tools_to_kimi([]) == [] and map_kimi_tool_calls_to_anthropic([]) == [] and map_finish_reason("stop")
    sender = Sender(reply())
    complete(sender)
    assert sender.sent[0][1].endswith("/chat/completions")


@yes(
    "Headers: Authorization: Bearer <key> (not x-api-key); no anthropic-version",
    "Authorization: Bearer header includes API key",
    "Header set; no x-api-key",
    "Always 'Bearer ' + key",
)
def the_key_goes_as_a_bearer() -> None:
    sender = Sender(reply())
    complete(sender)
    headers = {name.lower(): value for name, value in sender.sent[0][2].items()}
    assert headers["authorization"] == f"Bearer {KEY}" and not {"x-api-key", "anthropic-version"} & set(headers)


@yes(
    "system → first messages[0] with role: 'system'",
    "system prompt prepended as messages[0] with role=system",
    "body.messages[0] is {role:'system', content:<prompt>}",
)
def the_system_prompt_is_the_first_message() -> None:
    assert body(system="Be brief.")["messages"][0] == {"role": "system", "content": "Be brief."}


@differs(
    "also, a name or schema that Moonshot refuses is adapted, and the name comes back as it was declared",
    "parameters: t.input_schema is the only field rename",
)
@yes(
    "tools → OpenAI function shape per mapToolsToKimi",
    "tools array maps AnthropicTool to Kimi function shape",
    "body.tools[0].type === 'function', .function.parameters === input_schema",
)
def tools_take_the_shape_of_functions() -> None:
    (tool,) = body(tools=[WEATHER])["tools"]
    assert tool["type"] == "function" and tool["function"]["parameters"] == WEATHER["input_schema"]
    assert set(tool["function"]) == {"name", "description", "parameters"}
    (renamed,) = body(tools=[{**WEATHER, "name": "fs.weather"}])["tools"]
    assert "." not in renamed["function"]["name"]


@yes("choices[0].message.content text → result.content (string)")
def the_text_is_the_content() -> None:
    assert complete(Sender(reply("Hello!"))).content == "Hello!"


@yes(
    "choices[0].message.tool_calls[] → Anthropic-shape tool_use blocks → JSON.stringify(blocks) becomes result.content",
    "tool-use response → Anthropic-shape JSON-stringified content",
    "JSON.parse(result.content) is [{type:'tool_use', id, name, input}]",
)
def calls_become_the_json_of_tool_use_blocks() -> None:
    (block,) = msgspec.json.decode(complete(calling(), tools=[WEATHER]).content)
    assert block == {"type": "tool_use", "id": "get_weather:0", "name": "get_weather", "input": {"city": "Paris"}}


@differs(
    "a stop for tools without a call in the answer is `end_turn`",
    "choices[0].finish_reasonmapFinishReasonresult.stopReason",
)
@yes("finish_reason 'tool_calls' maps to 'tool_use'", "result.stopReason === 'tool_use'")
def the_finish_reason_becomes_the_stop_reason() -> None:
    assert complete(calling(), tools=[WEATHER]).stop_reason == "tool_use"
    assert complete(Sender(reply("x", finish="length"))).stop_reason == "max_tokens"
    assert complete(Sender(reply("x", finish="tool_calls"))).stop_reason == "end_turn"


@yes(
    "usage.prompt_tokensresult.promptTokens",
    "usage.completion_tokensresult.completionTokens",
    "token accounting: prompt + completion tokens",
    "result.promptTokens === 10, result.completionTokens === 5",
)
def tokens_are_counted() -> None:
    result = complete(Sender(reply()))
    assert (result.prompt_tokens, result.completion_tokens) == (10, 5)


@differs(
    "fields are written with underscores, as Python does: `latency_ms`, `prompt_tokens`, `stop_reason`",
    "result.content === 'Hello!', fields present, latencyMs ≥ 0",
)
@yes("happy path: returns CompletionResult with correct fields")
def the_happy_path() -> None:
    result = complete(Sender(reply()))
    assert result.content == "Hello!" and result.model == DEFAULT_MODEL
    assert result.stop_reason == "end_turn" and result.latency_ms >= 0


@yes("error: 401 from Kimi → KimiApiError with status 401", "Throws KimiApiError, err.status === 401")
def a_401_is_an_error_with_its_status() -> None:
    with pytest.raises(KimiApiError) as caught:
        complete(Sender(refusal(401)))
    assert caught.value.status == 401


@yes("config: missing COLIBRI_KIMI_API_KEY → KimiConfigError")
def a_missing_key_is_an_error_of_the_configuration() -> None:
    with pytest.raises(KimiConfigError, match="COLIBRI_KIMI_API_KEY"):
        complete(Sender(reply()), environ={})


@differs(
    "`send(method, url, headers, body)` is the seam: there is no global `fetch` in Python",
    "injection seam: fetchFn override is invoked",
    "fetch global not available",
)
@yes(
    "Mock fetchFn called with POST + Kimi URL",
    "sends POST to Kimi base URL chat/completions endpoint",
    "makeMockFetch(responses)",
)
def the_sender_can_be_replaced() -> None:
    sender = Sender(reply())
    complete(sender)
    assert sender.sent[0][:2] == ("POST", "https://api.moonshot.ai/v1/chat/completions")


@differs(
    "measured by a clock that is handed in, so that no test waits",
    "latency measurement: 50ms delay → latencyMs >= 50",
)
@yes("result.latencyMs >= 50")
def the_latency_is_measured() -> None:
    times = iter((2.0, 2.05))
    assert complete(Sender(reply()), clock=lambda: next(times)).latency_ms >= 49.999


@yes(
    "429 retryable → exponential backoff up to MAX_RETRIES",
    "delayFn called with [100, 200, 400]; final throw is KimiApiError code === 'KIMI_RETRIES_EXHAUSTED'",
    "Use 'KIMI_RETRIES_EXHAUSTED' per contract §4",
    "makeInstantDelay()",
)
def a_429_is_tried_again_three_times() -> None:
    waits: list[float] = []

    async def delay(milliseconds: float) -> None:
        waits.append(milliseconds)

    with pytest.raises(KimiApiError) as caught:
        complete(Sender(refusal(429)), delay=delay)
    assert waits == [100, 200, 400] == [BASE_DELAY_MS * 2**n for n in range(MAX_RETRIES)]
    assert caught.value.code == KIMI_RETRIES_EXHAUSTED == "KIMI_RETRIES_EXHAUSTED"


@yes("Retry loop 285–340 attemptWithRetry", "Validate key, call attemptWithRetry")
def what_may_pass_is_tried_again_and_the_rest_is_not() -> None:
    for failure in (refusal(429), refusal(500), refusal(503), OSError("reset"), TimeoutError()):
        assert complete(Sender(failure, reply())).content == "Hello!"
    for status in (400, 401, 403, 404):
        with pytest.raises(KimiApiError) as caught:
            complete(Sender(refusal(status), reply()))
        assert caught.value.status == status


@yes("empty tools array does not send tools key", "'tools' in body === false")
def no_tools_are_no_field() -> None:
    assert "tools" not in body(tools=[])


@yes(
    "tool args JSON.parse failure → _parse_error wrapper",
    "input._parse_error set, no throw",
    "Wrap in try/catch + _parse_error envelope per I12",
    "_parse_error: err instanceof Error ? err.message : String(err)",
    "_raw: c.function.arguments",
)
def arguments_that_are_not_json_are_wrapped() -> None:
    for arguments in ('{"city"', "nonsense"):
        (block,) = msgspec.json.decode(complete(calling(arguments), tools=[WEATHER]).content)
        assert block["input"]["_parse_error"] and block["input"]["_raw"] == arguments


@differs(
    'arguments are an object: `[1]` and `"x"` are wrapped as well, and no text at all or `null` mean none',
    "input = JSON.parse(c.function.arguments) as Record<string, unknown>;",
)
@yes("type: 'tool_use' as const, id: c.id, name: c.function.name, input,")
def a_parse_gives_an_object() -> None:
    given = ("", "  ", "null", "[1]", '"x"', "7", '{"city":"Paris"}')
    made = map_kimi_tool_calls_to_anthropic([call(arguments) for arguments in given])
    assert [block["input"] for block in made[:3]] == [{}, {}, {}] and made[-1]["input"] == {"city": "Paris"}
    for block, raw, kind in zip(made[3:6], given[3:6], ("list", "str", "int"), strict=True):
        assert block["input"] == {"_parse_error": f"expected a JSON object, got {kind}", "_raw": raw}
    assert made[0] == {"type": "tool_use", "id": "get_weather:0", "name": "get_weather", "input": {}}


@yes(
    "name: t.name, description: t.description, parameters: t.input_schema,",
    "type: 'function' as const,",
)
def the_mapper_of_tools() -> None:
    function = {"name": "get_weather", "description": "Get the weather", "parameters": WEATHER["input_schema"]}
    assert map_tools_to_kimi([WEATHER]) == [{"type": "function", "function": function}]


@yes(
    "case 'stop': return 'end_turn';",
    "case 'tool_calls': return 'tool_use';",
    "case 'length': return 'max_tokens';",
    "case 'content_filter': return 'refusal';",
    "case undefined: return 'unknown';",
    "default: return kimi;",
)
def the_mapper_of_finish_reasons() -> None:
    words = ["stop", "tool_calls", "length", "content_filter", None, "a_new_one"]
    mapped = [map_finish_reason(word) for word in words]
    assert mapped == ["end_turn", "tool_use", "max_tokens", "refusal", "unknown", "a_new_one"]


@yes(
    "Use process.env[...] at call-time only",
    "Module top-level has zero process.env reads",
    "Logger writes to stdout",
)
def importing_reads_no_variable_and_nothing_goes_to_standard_output() -> None:
    done = without_a_key()
    assert done.returncode == 0 and done.stdout == ""


@differs(
    "`logging` by default, which writes warnings to standard error; `logger=` takes another",
    "Default to console.error; tests assert via injected logger",
)
@yes("makeSilentLogger()", "baseOptions(overrides)")
def warnings_go_to_the_logger() -> None:
    assert without_a_key().stderr.count("kimi: attempt") == MAX_RETRIES
    said: list[str] = []
    with pytest.raises(KimiApiError):
        complete(Sender(refusal(429)), logger=said.append)
    assert len(said) == MAX_RETRIES and not logging.getLogger("midstream").handlers


@yes("Live API calls (tests always use fetchFn mocks)")
def no_test_reaches_a_host() -> None:
    source = (ROOT / "tests/adapters/test_kimi_completion.py").read_text("utf-8")
    assert "send=" in source or '"send": sender' in source


@cache
def without_a_key() -> subprocess.CompletedProcess[str]:
    program = """
import asyncio, midstream.adapters as a
async def busy(*_): return a.KimiResponse(429, b"{}")
async def instant(_): pass
try: asyncio.run(a.create_kimi_completion("hi", api_key="k", send=busy, delay=instant))
except a.KimiApiError: pass
"""
    environ = {name: value for name, value in os.environ.items() if "KIMI" not in name and "MOONSHOT" not in name}
    return subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=False)
