"""What other projects recorded of DeepInfra's two paths, and of thinking between tags."""

from __future__ import annotations

import json
from typing import Any

import pytest

from midstream import encode_request, make_decoder, resolve
from midstream.core.blocks import Conversation, Media, Text, ToolResponse, Turn, human
from midstream.core.dialect import Options
from midstream.core.reduce import reduce
from midstream.core.tools import ToolSpec
from midstream.toolformats.findings import TextFound, ThinkingFound
from midstream.toolformats.registry import think_filter
from midstream.wires.openai_chat.decode import read_usage
from tests.shared_data import ROOT, vector_params, vectors
from tests.wires.completion.answers import decoder, dialect
from tests.wires.completion.exceptions import EXCEPTIONS
from tests.wires.feeding import by_byte, events_of

Vector = dict[str, Any]
FILES = ("streaming/deepinfra-native.json", "streaming/moonshot-deepinfra-thinktags.json")
MODEL = "moonshotai/Kimi-K2.5"
_STOPS = {"stop": "end_turn", "length": "max_tokens"}


def conversation(spoken: Vector) -> Conversation:
    turns: list[Turn] = []
    for message in spoken["messages"]:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        blocks = [Text(part["text"]) if part["type"] == "text" else Media("image/png", part["data"]) for part in parts]
        if message["role"] == "toolResult":
            turns.append(Turn("tool", (ToolResponse(message["toolCallId"], "", tuple(blocks)),)))
        else:
            turns.append(human(*blocks) if message["role"] == "user" else Turn("ai", tuple(blocks)))
    return Conversation(tuple(turns), spoken.get("system", ""))


def check_prompt(given: Vector, expected: Vector) -> None:
    request = encode_request(f"deepinfra/{MODEL}", conversation(given), options=Options(path="native"), cache=None)
    assert json.loads(request.body)["input"] == expected["prompt"]


def check_request(given: Vector, expected: Vector) -> None:
    asked = given.get("options", {})
    options = Options(temperature=asked.get("temperature"), max_tokens=asked.get("maxTokens"), path="native")
    target = resolve(f"deepinfra/{given['model'] if '/' in given['model'] else MODEL}")
    request = encode_request(target, Conversation((human("Hi"),)), options=options, cache=None)
    base = given["base_url"].removesuffix("/").removesuffix("/inference")
    assert target.endpoint.base_url == base and base + request.path == expected["url"]
    body = json.loads(request.body)
    assert {**body, "input": "<prompt>"} == expected["body"]


def check_native_stream(given: Vector, expected: Vector) -> None:
    data = "".join(given["sse_chunks"]).encode()
    read_by = dialect("deepinfra-kimi-k2.5-native")
    events = events_of(decoder(read_by), [data])
    turn = reduce(events)
    assert reduce(events_of(decoder(read_by), by_byte(data))) == turn
    if "raw_text" in expected:
        said = f"<think>{turn.thinking}" + (f"</think>{turn.text}" if turn.text else "")
        assert said == expected["raw_text"]
        assert not turn.failure
    if "better" in expected:
        assert {"thinking": turn.thinking, "text": turn.text} == expected["better"]
    if "usage" in expected:
        assert turn.usage is not None
        assert {"input": turn.usage.input, "output": turn.usage.output} == expected["usage"]
    reason = expected.get("finish_reason", expected.get("correct_stop_reason"))
    assert turn.stop_reason == _STOPS[reason]


def check_tools_route(given: Vector, expected: Vector) -> None:
    tools = [ToolSpec(f"t{number}") for number in range(given["tools"])]
    target = resolve(f"deepinfra/{MODEL}")
    asked = Conversation((human("Hi"),))
    request = encode_request(target, asked, tools=tools, options=Options(tool_choice="auto"), cache=None)
    assert target.endpoint.base_url + request.path == expected["url"]
    body = json.loads(request.body)
    # It sends no stream_options and so loses the usage; we send them.
    assert sorted(body) == sorted([*expected["body_keys"], "stream_options"])


def check_chat_stream(given: Vector, expected: Vector) -> None:
    data = "".join(given["sse_chunks"]).encode()
    turn = reduce(events_of(make_decoder(dialect=resolve("moonshot/kimi-k3").dialect, turn_key="t"), [data]))
    parts = expected["parts"]
    assert turn.text == "".join([part["delta"] for part in parts if part["type"] == "text-delta"])
    assert turn.thinking == "".join([part["delta"] for part in parts if part["type"] == "reasoning-delta"])
    finish = parts[-1]
    assert turn.raw_stop == finish["finishReason"]["raw"] and turn.usage is not None
    assert turn.usage.input == finish["usage"]["inputTokens"]["total"]
    assert (turn.usage.output, turn.usage.reasoning) == tuple(finish["usage"]["outputTokens"].values())


def check_usage(given: Vector, expected: Vector) -> None:
    usage = read_usage(given["usage"])
    assert (usage.output, usage.reasoning) == (expected["output_total"], expected["output_reasoning"])
    assert usage.output - usage.reasoning == expected["output_text"]


def check_tags(given: Vector, expected: Vector) -> None:
    tag = given.get("tag", "think")
    filter = think_filter((f"<{tag}>", f"</{tag}>"), given.get("start_with_reasoning", False))
    deltas = given["text_deltas"] if "text_deltas" in given else [given["text"]]
    found = [finding for delta in deltas for finding in filter.feed(delta)] + filter.close()
    said: list[tuple[str, str]] = []
    for finding in found:
        assert isinstance(finding, (TextFound, ThinkingFound))
        kind = "text" if isinstance(finding, TextFound) else "reasoning"
        before = said.pop()[1] if said and said[-1][0] == kind else ""
        said.append((kind, before + finding.text))
    if "reasoning" in expected:
        assert "".join([text for kind, text in said if kind == "reasoning"]) == expected["reasoning"]
        assert "".join([text for kind, text in said if kind == "text"]) == expected["text"]
        return
    wanted: list[tuple[str, str]] = []
    for part in expected["parts"]:
        kind, delta = part.get("type", "text-delta").removesuffix("-delta"), part.get("delta", part.get("text"))
        if delta is not None:
            before = wanted.pop()[1] if wanted and wanted[-1][0] == kind else ""
            wanted.append((kind, before + delta))
    assert said == wanted


def check(vector: Vector) -> None:
    given, expected = vector["input"], vector["expected"]
    if "prompt" in expected:
        check_prompt(given, expected)
    elif "base_url" in given:
        check_request(given, expected)
    elif "tools" in given:
        check_tools_route(given, expected)
    elif "usage" in given:
        check_usage(given, expected)
    elif "sse_chunks" in given:
        (check_native_stream if vector["id"].startswith("deepinfra") else check_chat_stream)(given, expected)
    else:
        check_tags(given, expected)


@pytest.mark.parametrize("vector", [param for name in FILES for param in vector_params(name)])
def test_vector(vector: Vector) -> None:
    if vector["id"] in EXCEPTIONS:
        with pytest.raises(AssertionError):
            check(vector)  # an exception that holds no longer is stale
    else:
        check(vector)


@pytest.mark.skipif(not (ROOT / "vectors").exists(), reason="shared data vectors/ is not here: set MIDSTREAM_SHARED")
def test_every_exception_is_of_a_vector() -> None:
    assert set(EXCEPTIONS) <= {key for name in FILES for key in vectors(name)}
