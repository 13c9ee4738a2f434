"""The fifteen cases of the adapter's own specification, and what lies around them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from midstream.adapters.kimi_completion import (
    DEFAULT_BASE_URL,
    DEFAULT_MAX_TOKENS,
    DEFAULT_MODEL,
    KIMI_RETRIES_EXHAUSTED,
    AnthropicTool,
    CompletionResult,
    KimiApiError,
    KimiCompletionOptions,
    KimiConfigError,
    KimiResponse,
    create_kimi_completion,
    create_kimi_completion_with_tools,
    map_finish_reason,
    map_kimi_tool_calls_to_anthropic,
    map_tools_to_kimi,
)
from midstream.core.errors import ConnectFailed, TransportError
from midstream.sim.answer import Answer, Call
from tests.client.scripted import Host, Refusal

KEY = "sk-canary-of-the-test"
WEATHER = {
    "name": "get_weather",
    "description": "Get the weather",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def reply(
    text: str | None = "Hello!", *, finish: str | None = "stop", calls: list[dict[str, Any]] | None = None
) -> KimiResponse:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = calls
    body = {
        "id": "cmpl-1",
        "object": "chat.completion",
        "model": DEFAULT_MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }
    return KimiResponse(200, msgspec.json.encode(body))


def call(arguments: str = '{"city":"Paris"}') -> dict[str, Any]:
    return {"id": "get_weather:0", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}


def refusal(status: int) -> KimiResponse:
    return KimiResponse(status, b'{"error":{"message":"no","type":"some_error","code":"some_code"}}')


LOST = [ConnectFailed("gone"), ConnectionResetError("reset"), OSError(101, "unreachable"), TimeoutError()]


class Sender:
    """Plays the given responses, the last one for ever, and keeps what it was sent."""

    def __init__(self, *responses: KimiResponse | Exception) -> None:
        self._left = list(responses)
        self.sent: list[tuple[str, str, Mapping[str, str], Any]] = []

    async def __call__(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> KimiResponse:
        self.sent.append((method, url, headers, msgspec.json.decode(body)))
        response = self._left.pop(0) if len(self._left) > 1 else self._left[0]
        if isinstance(response, Exception):
            raise response
        return response


def complete(sender: Sender, *, tools: list[Any] | None = None, **options: Any) -> CompletionResult:
    options = {
        "environ": {"COLIBRI_KIMI_API_KEY": KEY},
        "send": sender,
        "delay": _instant,
        "logger": _silent,
        **options,
    }
    if tools is None:
        return asyncio.run(create_kimi_completion("hi", **options))
    return asyncio.run(create_kimi_completion_with_tools("hi", tools, **options))


async def _instant(_: float) -> None:
    return None


def _silent(_: str) -> None:
    return None


def test_01_happy_path() -> None:
    result = complete(Sender(reply()))
    assert result.content == "Hello!"
    assert result.model == DEFAULT_MODEL
    assert result.stop_reason == "end_turn"
    assert result.latency_ms >= 0


def test_02_token_accounting() -> None:
    result = complete(Sender(reply()))
    assert (result.prompt_tokens, result.completion_tokens) == (10, 5)


def test_03_a_401_is_an_api_error_with_its_status_and_is_not_retried() -> None:
    sender = Sender(refusal(401))
    with pytest.raises(KimiApiError) as caught:
        complete(sender)
    assert caught.value.status == 401 and caught.value.code == "some_code"
    assert len(sender.sent) == 1


def test_04_a_missing_key_is_a_config_error() -> None:
    sender = Sender(reply())
    with pytest.raises(KimiConfigError, match="COLIBRI_KIMI_API_KEY"):
        complete(sender, environ={})
    assert sender.sent == []


def test_05_tool_use_comes_as_anthropic_shaped_json() -> None:
    result = complete(Sender(reply(None, finish="tool_calls", calls=[call()])), tools=[WEATHER])
    assert msgspec.json.decode(result.content) == [
        {"type": "tool_use", "id": "get_weather:0", "name": "get_weather", "input": {"city": "Paris"}}
    ]


def test_06_the_injected_send_is_used() -> None:
    sender = Sender(reply())
    complete(sender)
    assert sender.sent[0][0] == "POST"


def test_07_latency_is_measured() -> None:
    times = iter((1.0, 1.05))
    assert complete(Sender(reply()), clock=lambda: next(times)).latency_ms == pytest.approx(50)


def test_08_the_url_is_kimis_chat_completions() -> None:
    sender = Sender(reply())
    complete(sender)
    assert sender.sent[0][1] == "https://api.moonshot.ai/v1/chat/completions"


def test_09_the_key_goes_as_a_bearer_token() -> None:
    sender = Sender(reply())
    complete(sender)
    headers = {name.lower(): value for name, value in sender.sent[0][2].items()}
    assert headers["authorization"] == f"Bearer {KEY}"
    assert "x-api-key" not in headers and "anthropic-version" not in headers


def test_10_tools_become_functions() -> None:
    sender = Sender(reply())
    complete(sender, tools=[WEATHER])
    (tool,) = sender.sent[0][3]["tools"]
    assert tool["type"] == "function"
    assert tool["function"]["name"] == "get_weather"
    assert tool["function"]["description"] == "Get the weather"
    assert tool["function"]["parameters"] == WEATHER["input_schema"]


@pytest.mark.parametrize("failure", [refusal(429), refusal(503), *LOST])
def test_11_what_may_be_retried_is_three_times_with_growing_delays(failure: Any) -> None:
    waits: list[float] = []
    told: list[str] = []

    async def delay(milliseconds: float) -> None:
        waits.append(milliseconds)

    sender = Sender(failure)
    with pytest.raises(KimiApiError) as caught:
        complete(sender, delay=delay, logger=told.append)
    assert waits == [100, 200, 400]
    assert caught.value.code == KIMI_RETRIES_EXHAUSTED == "KIMI_RETRIES_EXHAUSTED"
    assert caught.value.status == (failure.status if isinstance(failure, KimiResponse) else None)
    assert len(sender.sent) == 4 and len(told) == 3


@pytest.mark.parametrize("failure", LOST, ids=repr)
def test_a_network_fault_of_an_injected_send_is_cured_by_the_next_attempt(failure: Exception) -> None:
    assert complete(Sender(failure, reply())).content == "Hello!"


@pytest.mark.parametrize(("failure", "kind"), [(OSError("no"), "connect_failed"), (TimeoutError("no"), "timed_out")])
def test_the_cause_says_what_kind_of_network_fault_it_was(failure: Exception, kind: str) -> None:
    with pytest.raises(KimiApiError) as caught:
        complete(Sender(failure))
    cause = caught.value.__cause__
    assert isinstance(cause, TransportError) and cause.kind == kind


def test_a_fault_of_the_injected_send_itself_is_not_retried() -> None:
    sender = Sender(ValueError("a bug"))
    with pytest.raises(ValueError, match="a bug"):
        complete(sender)
    assert len(sender.sent) == 1


@pytest.mark.parametrize("name", ["fs.read", "mcp.server.read_file", "1st", "a b"])
def test_a_name_comes_back_as_it_was_declared(name: str) -> None:
    async def echo(method: str, url: str, headers: Mapping[str, str], body: bytes) -> KimiResponse:
        (tool,) = msgspec.json.decode(body)["tools"]
        sent.append(tool["function"]["name"])
        called = {"id": "x:0", "type": "function", "function": {"name": sent[0], "arguments": "{}"}}
        return reply(None, finish="tool_calls", calls=[called])

    sent: list[str] = []
    result = complete(echo, tools=[{**WEATHER, "name": name}])  # type: ignore[arg-type]
    assert sent[0] != name and msgspec.json.decode(result.content)[0]["name"] == name


def test_the_mappings_alone() -> None:
    function = {"name": "get_weather", "description": "Get the weather", "parameters": WEATHER["input_schema"]}
    assert map_tools_to_kimi([WEATHER]) == [{"type": "function", "function": function}]
    assert map_tools_to_kimi([AnthropicTool(**WEATHER)]) == map_tools_to_kimi([WEATHER])  # type: ignore[arg-type]
    good, bad = map_kimi_tool_calls_to_anthropic([call(), call("{")])
    assert good == {"type": "tool_use", "id": "get_weather:0", "name": "get_weather", "input": {"city": "Paris"}}
    assert bad["input"]["_raw"] == "{" and bad["input"]["_parse_error"]


def test_the_defaults() -> None:
    sender = Sender(reply())
    complete(sender)
    _, url, _, body = sender.sent[0]
    assert url == f"{DEFAULT_BASE_URL}/chat/completions" and body["model"] == DEFAULT_MODEL
    assert DEFAULT_MAX_TOKENS in (body.get("max_tokens"), body.get("max_completion_tokens"))


def test_an_option_that_the_model_does_not_take_is_not_sent_and_that_is_logged() -> None:
    told: list[str] = []
    sender = Sender(reply())
    complete(sender, temperature=0.3, logger=told.append)
    assert "temperature" not in sender.sent[0][3] and "temperature" in told[0]


def test_12_the_system_prompt_is_the_first_message() -> None:
    sender = Sender(reply())
    complete(sender, system="Be brief.")
    assert sender.sent[0][3]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
    ]


def test_13_no_tools_no_key() -> None:
    sender = Sender(reply())
    complete(sender, tools=[])
    assert "tools" not in sender.sent[0][3]


@pytest.mark.parametrize("arguments", ['{"city": "Par', "[1]", "nonsense"])
def test_14_arguments_that_do_not_parse_come_in_an_envelope(arguments: str) -> None:
    result = complete(Sender(reply(None, finish="tool_calls", calls=[call(arguments)])), tools=[WEATHER])
    ((block),) = msgspec.json.decode(result.content)
    assert block["input"]["_parse_error"] and block["input"]["_raw"] == arguments


def test_15_tool_calls_maps_to_tool_use() -> None:
    result = complete(Sender(reply(None, finish="tool_calls", calls=[call()])), tools=[WEATHER])
    assert result.stop_reason == "tool_use"


def test_every_finish_reason_has_its_word() -> None:
    words = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}
    assert {word: map_finish_reason(word) for word in words} == words
    assert map_finish_reason(None) == "unknown" and map_finish_reason("new_word") == "new_word"
    assert complete(Sender(reply("x", finish="length"))).stop_reason == "max_tokens"
    assert complete(Sender(reply("x", finish=None))).stop_reason == "unknown"


def test_a_stop_for_tools_without_a_call_is_a_plain_end() -> None:
    assert complete(Sender(reply("x", finish="tool_calls")), tools=[WEATHER]).stop_reason == "end_turn"


def test_a_stop_beside_calls_is_one_for_tools() -> None:
    result = complete(Sender(reply(None, finish="stop", calls=[call()])), tools=[WEATHER])
    assert result.stop_reason == "tool_use" and '"tool_use"' in result.content


@pytest.mark.parametrize("body", [b"{}", b'{"object":"chat.completion","usage":{"prompt_tokens":3}}', b"data: {}"])
def test_what_has_no_end_gives_no_calls(body: bytes) -> None:
    with pytest.raises(KimiApiError) as caught:
        complete(Sender(KimiResponse(200, body)), tools=[WEATHER])
    assert caught.value.code == "KIMI_BAD_RESPONSE"


def test_a_retry_that_is_answered_is_an_answer() -> None:
    assert complete(Sender(refusal(500), reply())).content == "Hello!"


@pytest.mark.parametrize("name", ["MOONSHOT_API_KEY", "MOONSHOTAI_API_KEY", "KIMI_API_KEY"])
def test_the_usual_names_of_the_key_are_read_too(name: str) -> None:
    sender = Sender(reply())
    complete(sender, environ={name: "sk-other-canary"})
    assert sender.sent[0][2]["authorization"] == "Bearer sk-other-canary"


def test_no_answer_at_all_is_an_api_error() -> None:
    with pytest.raises(KimiApiError):
        complete(Sender(KimiResponse(200, b"<html>busy</html>")))


def test_the_key_is_in_no_message_of_an_injected_send() -> None:
    told: list[str] = []
    with pytest.raises(KimiApiError) as caught:
        complete(Sender(OSError(f"cannot send {KEY}")), logger=told.append)
    assert KEY not in f"{caught.value!r} {caught.value} {caught.value.__cause__!r} {told}" and "cannot send" in told[0]


@pytest.mark.parametrize("status", [200, 401, 500])
def test_the_key_is_in_no_message(status: int) -> None:
    told: list[str] = []
    echo = KimiResponse(status, msgspec.json.encode({"error": {"message": f"no such key: {KEY}", "code": KEY}}))
    with pytest.raises(KimiApiError) as caught:
        complete(Sender(echo), logger=told.append)
    assert "no such key: ***" in str(caught.value)
    assert KEY not in f"{caught.value!r} {caught.value} {vars(caught.value)} {caught.value.__cause__!r} {told}"


def test_without_an_injected_send_it_goes_over_the_network() -> None:
    async def main() -> list[CompletionResult]:
        items = [Refusal(500), Answer("hi", input_tokens=3), Answer(calls=(Call("get_weather", {"city": "Rome"}),))]
        async with Host(items) as host:
            options: dict[str, Any] = {"base_url": host.base, "api_key": KEY, "delay": _instant, "logger": _silent}
            return [
                await create_kimi_completion("hi", **options),
                await create_kimi_completion_with_tools("hi", [WEATHER], **options),
            ]

    said, called = asyncio.run(main())
    assert said.content == "hi" and said.prompt_tokens == 3
    assert msgspec.json.decode(called.content)[0]["input"] == {"city": "Rome"}


def test_the_options_have_a_name_and_are_those_of_the_function() -> None:
    taken = inspect.signature(create_kimi_completion_with_tools).parameters
    assert set(KimiCompletionOptions.__annotations__) == set(taken) - {"prompt", "tools"}
    options: KimiCompletionOptions = {"api_key": KEY, "send": Sender(reply()), "system": "Be brief."}
    assert asyncio.run(create_kimi_completion("hi", **options)).content == "Hello!"
