"""Requests of real clients' shapes, and damaged ones: a conversation or a typed error, in time that grows with the request only."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from midstream import encode_request
from midstream.core.blocks import Conversation, Opaque, Text, Turn
from midstream.core.errors import InvalidHistory, MidstreamError
from midstream.wires.answer import answer_to, make_writer
from midstream.wires.history_digest import HistoryDigest
from midstream.wires.registry import WIRES
from midstream.wires.request import ParsedRequest, RequestedAnswer, parse_request
from tests.conversations import weather_story
from tests.long_run import each_once
from tests.shared_data import ROOT
from tests.wires.test_strange_requests import BASES, READABLE

CLIENTS = json.loads((Path(__file__).parents[1] / "data" / "clients" / "requests.json").read_text("utf-8"))
MUTATIONS = int(os.environ.get("MIDSTREAM_MUTATIONS", "2000"))
"""How many damaged requests each wire is tried with."""


def read(case: dict[str, Any]) -> ParsedRequest:
    return parse_request(case["wire"], json.dumps(case["body"]).encode(), headers=case.get("headers"))


def digest(body: dict[str, Any]) -> str | None:
    return digest_of(parse_request("anthropic", json.dumps(body).encode()).conversation)


def digest_of(conversation: Conversation) -> str | None:
    made = HistoryDigest(conversation)
    for turn in conversation.turns:
        made.add(turn)
    return made.key("")


@pytest.mark.parametrize("case", CLIENTS, ids=lambda case: case["name"])
def test_a_clients_request_is_read(case: dict[str, Any]) -> None:
    parsed, expected = read(case), case["expected"]
    assert parsed.model == expected["model"]
    assert parsed.options.stream is expected["stream"]
    assert [tool.name for tool in parsed.tools] == expected["tools"]
    assert len(parsed.conversation.turns) == expected["turns"]
    results = [response for turn in parsed.conversation.turns for response in turn.tool_responses]
    assert [response.text for response in results] == expected["results"]
    calls = {call.id for turn in parsed.conversation.turns for call in turn.tool_calls}
    assert {response.call_id for response in results} <= calls
    wanted = msgspec.convert(expected["requested"], RequestedAnswer)
    assert msgspec.structs.replace(parsed.requested, echo=None) == wanted


@pytest.mark.parametrize("case", CLIENTS, ids=lambda case: case["name"])
def test_nothing_that_nobody_knows_is_lost_or_refused(case: dict[str, Any]) -> None:
    """What comes from the future is in an opaque block, in a tool's extras or among the options' own fields."""
    parsed = read(case)
    kept = json.dumps(msgspec.to_builtins([parsed.conversation, parsed.tools, parsed.options.extra_body]))
    for word in ("part_from_the_future", "partFromTheFuture", "item_from_the_future", "field_from_the_future", "kind_from_the_future"):  # fmt: skip
        assert (word in json.dumps(case["body"])) == (word in kept)
    for turn in parsed.conversation.turns:
        for block in turn.blocks:
            assert not isinstance(block, Opaque) or block.data


@pytest.mark.parametrize("case", CLIENTS, ids=lambda case: case["name"])
def test_the_answer_to_a_client_is_what_it_asked_for(case: dict[str, Any]) -> None:
    parsed = read(case)
    context = answer_to(parsed, response_id="r1", created=0, input_tokens=3)
    asked = parsed.requested
    assert (context.model, context.usage, context.include) == (parsed.model, asked.usage, asked.include)
    assert context.thinking is (asked.thinking is not False)
    body = json.loads(make_writer(case["wire"], context).body(Turn("ai", (Text("hi"),), stop_reason="end_turn")))
    assert "hi" in json.dumps(body)
    if asked.echo is not None:
        assert body["prompt_cache_key"] == case["body"]["prompt_cache_key"]
        assert [tool["type"] for tool in body["tools"]] == [tool["type"] for tool in case["body"]["tools"]]


def variants() -> Iterator[tuple[str, Callable[[dict[str, Any]], None]]]:
    """Ways in which one client sends the same history from one request to the next."""

    def as_string(body: dict[str, Any]) -> None:
        body["messages"][0]["content"] = body["messages"][0]["content"][0]["text"]

    def as_list(body: dict[str, Any]) -> None:
        result = body["messages"][2]["content"][0]
        result["content"] = [{"type": "text", "text": result["content"], "cache_control": {"type": "ephemeral"}}]

    def moved_mark(body: dict[str, Any]) -> None:
        del body["messages"][2]["content"][0]["cache_control"]
        body["messages"][0]["content"][0]["cache_control"] = {"type": "ephemeral", "ttl": "1h"}

    def no_mark(body: dict[str, Any]) -> None:
        del body["system"][1]["cache_control"]

    def system_string(body: dict[str, Any]) -> None:
        body["system"] = body["system"][1]["text"]

    def billed(body: dict[str, Any]) -> None:
        body["system"][0]["text"] = "x-anthropic-billing-header: cc_version=9; cch=12345;"

    def unbilled(body: dict[str, Any]) -> None:
        del body["system"][0]

    def effort(body: dict[str, Any]) -> None:
        body["messages"][3]["output_config"] = {"effort": "high"}
        body["output_config"] = {"effort": "high"}

    def key_order(body: dict[str, Any]) -> None:
        for message in body["messages"]:
            for block in message["content"] if isinstance(message["content"], list) else ():
                items = list(block.items())
                block.clear()
                block.update(reversed(items))
        body["messages"][1]["content"][1]["input"] = {"timeout": 5, "command": "echo hi"}

    for change in (as_string, as_list, moved_mark, no_mark, system_string, billed, unbilled, effort, key_order):
        yield change.__name__, change


@pytest.mark.parametrize(
    ("name", "change"), list(variants()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_the_shape_of_a_request_does_not_change_its_digest(name: str, change: Callable[[dict[str, Any]], None]) -> None:
    body = json.loads(json.dumps(CLIENTS[0]["body"]))
    body["messages"][1]["content"][1]["input"] = {"command": "echo hi", "timeout": 5}
    before = digest(body)
    changed = json.loads(json.dumps(body))
    change(changed)
    assert changed != body or json.dumps(changed) != json.dumps(body)
    assert digest(changed) == before


def test_the_words_of_a_request_do_change_it() -> None:
    body = json.loads(json.dumps(CLIENTS[0]["body"]))
    before = digest(body)
    body["messages"][0]["content"][0]["text"] += "!"
    assert digest(body) != before


FOLDERS = {
    "openai-chat": ("openai-chat", "kimi", "mistral-chat"),
    "openai-responses": ("openai-responses",),
    "anthropic": ("anthropic-messages",),
    "gemini": ("gemini",),
    "ollama": ("ollama-chat",),
    "cohere": ("cohere-chat",),
}
MODELS = {
    "openai-chat": "openai/gpt-4o",
    "openai-responses": "openai-responses/gpt-5.2",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-3-pro-preview",
    "ollama": "ollama/llama3.1",
    "cohere": "cohere/command-a-reasoning-08-2025",
}
LARGEST = 40_000
"""Longer recordings say nothing new and take their time."""


def honest_requests(wire: str) -> list[bytes]:
    """Requests to damage: those of this file, our own, and recorded ones where they are there."""
    found = [json.dumps(case["body"]).encode() for case in CLIENTS if case["wire"] == wire]
    found += [json.dumps(BASES[wire]).encode(), own_request(wire)]
    for folder in FOLDERS[wire]:
        for path in sorted((ROOT / "corpus" / folder).glob("*.json")):
            request = json.loads(path.read_bytes()).get("request") or {}
            if isinstance(request.get("body"), dict):
                found.append(json.dumps(request["body"]).encode())
    return [body for body in found if len(body) <= LARGEST]


def own_request(wire: str) -> bytes:
    return encode_request(MODELS[wire], weather_story().done(), cache=None).body


def _deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 2**70, 1.5, float("nan"), "", "text", "\ud800", "\udc00x", "nul\x00", [], {}, [[]], [None],
    [{}], {"type": None}, {"type": "text"}, {"type": "text", "text": 5}, {"role": "tool"}, {"": ""}, _deep(60),
    {"type": "from_the_future", "content": [{"text": {"text": []}}]}, "a" * 5000, [0] * 500,
)  # fmt: skip


def damaged(body: bytes, dice: random.Random) -> bytes:
    """One request with one to three things wrong, in its structure or in its bytes."""
    value = json.loads(body)
    for _ in range(dice.randint(1, 3)):
        _damage(value, dice)
    data = json.dumps(value).encode()
    match dice.randrange(12):
        case 0:
            return data[: dice.randrange(len(data))]
        case 1:
            at = dice.randrange(len(data))
            return data[:at] + bytes([dice.randrange(256)]) + data[at + 1 :]
        case 2:
            at = dice.randrange(len(data))
            return data[:at] + dice.randbytes(3) + data[at:]
        case 3:
            depth = dice.choice([50, 2_000, 100_000])
            return data.replace(b'"', b"[" * depth + b'"', 1)
        case 4:
            return data.replace(b":", b": " + b"9" * dice.choice([400, 5000]) + b', "x":', 1)
    return data


def _damage(value: Any, dice: random.Random) -> None:
    holders = [value]
    while True:  # walk down to some object or list
        inner = [
            each
            for each in (value.values() if isinstance(value, dict) else value)
            if isinstance(each, (dict, list)) and each
        ]
        if not inner or dice.random() < 0.2:
            break
        value = dice.choice(inner)
        holders.append(value)
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    if not keys:
        return
    key = dice.choice(keys)
    match dice.randrange(6):
        case 0:
            del value[key]
        case 1 | 2:
            value[key] = deepcopy(dice.choice(ODD))
        case 3 if isinstance(value, dict):
            value[dice.choice(["unknown", "type", "role", "content", "\ud800"])] = value.pop(key)
        case 3:
            dice.shuffle(value)
        case 4 if isinstance(value, list):
            value.insert(dice.randrange(len(value) + 1), deepcopy(dice.choice([*ODD, value[key]])))
        case _:
            value[key] = deepcopy(dice.choice(holders))


@pytest.mark.parametrize("wire", READABLE)
def test_a_damaged_request_is_a_conversation_or_a_typed_error(wire: str) -> None:
    dice = random.Random(wire)
    honest = honest_requests(wire)
    read_well = 0
    for number in range(MUTATIONS):
        data = damaged(honest[number % len(honest)], dice)
        try:
            parsed = parse_request(wire, data)
        except MidstreamError as error:
            assert isinstance(error, InvalidHistory), (number, error)
        else:
            read_well += 1
            assert digest_of(parsed.conversation)
            msgspec.json.encode(parsed)  # every text can be written
    assert read_well > MUTATIONS // 3, "most damage is survived, or this test tests nothing"


WRONG: dict[str, bytes] = {
    "nothing": b"",
    "not JSON": b"hello",
    "invalid UTF-8": b'{"messages": [{"role": "user", "content": "\xff\xfe"}',
    "deep": b'{"messages": ' + b"[" * 200_000,
    "a list": b"[]",
    "digits": b'{"messages": [], "max_tokens": ' + b"9" * 5_000 + b"}",
    "a lone surrogate": b'{"messages": "\\ud800"}',
    "a cut": b'{"messages": [{"role": "us',
}


@each_once(("wire", READABLE), ("name", WRONG))
def test_what_is_no_request_is_the_clients_mistake(wire: str, name: str) -> None:
    try:
        parse_request(wire, WRONG[name])
    except InvalidHistory as error:
        assert make_writer(wire, answer_to(EMPTY, response_id="r", created=0)).error(error)[0] == 400
    else:
        assert name == "digits" or wire == "openai-responses", "an empty conversation is for the wire to judge"


EMPTY = parse_request("openai-responses", b'{"input": []}')


class Work:
    """Counts calls of functions, and the blocks of every turn that is made: copying them is work too."""

    def __init__(self) -> None:
        self.done = 0

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            self.done += 1
            if frame.f_code.co_name == "__post_init__" and isinstance(frame.f_locals.get("self"), Turn):
                self.done += len(frame.f_locals["self"].blocks)


def work(wire: str, body: bytes) -> int:
    counted = Work()
    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        parse_request(wire, body)
    except MidstreamError:
        pass
    finally:
        sys.setprofile(before)
    return counted.done


def long_request(wire: str, size: int) -> bytes:
    """A user's word, one answer with many calls, and all of their results."""
    ids = [f"c{number}" for number in range(size)]
    match wire:
        case "anthropic":
            calls = [{"type": "tool_use", "id": each, "name": "f", "input": {}} for each in ids]
            results = [{"type": "tool_result", "tool_use_id": each, "content": "y"} for each in ids]
            messages = [{"role": "assistant", "content": calls}, {"role": "user", "content": results}]
        case "openai-responses":
            made = [{"type": "function_call", "call_id": each, "name": "f", "arguments": "{}"} for each in ids]
            told = [{"type": "function_call_output", "call_id": each, "output": "y"} for each in ids]
            return json.dumps({"model": "m", "input": [*made, *told]}).encode()
        case "gemini":
            parts = [{"functionCall": {"id": each, "name": "f", "args": {}}} for each in ids]
            answers = [{"functionResponse": {"id": each, "name": "f", "response": {}}} for each in ids]
            contents = [{"role": "model", "parts": parts}, {"role": "user", "parts": answers}]
            return json.dumps({"contents": contents}).encode()
        case _:
            arguments: Any = {} if wire == "ollama" else "{}"
            made = [{"id": each, "type": "function", "function": {"name": "f", "arguments": arguments}} for each in ids]
            messages = [{"role": "assistant", "content": "", "tool_calls": made}]
            messages += [{"role": "tool", "tool_call_id": each, "content": "y"} for each in ids]
    return json.dumps({"model": "m", "messages": messages}).encode()


@pytest.mark.parametrize("wire", READABLE)
def test_four_times_the_request_is_four_times_the_work(wire: str) -> None:
    short, long = work(wire, long_request(wire, 200)), work(wire, long_request(wire, 800))
    assert long < 4.4 * short, (short, long)


@pytest.mark.parametrize("wire", READABLE)
def test_no_damage_costs_more_than_its_bytes(wire: str) -> None:
    dice = random.Random(wire)
    honest = honest_requests(wire)
    for number in range(60):
        data = damaged(honest[number % len(honest)], dice)
        assert work(wire, data) < 2_000 + 4 * len(data), number


def test_every_wire_that_is_read_is_here() -> None:
    assert {case["wire"] for case in CLIENTS} == set(FOLDERS) == set(MODELS) == set(WIRES) - {"completion"}
