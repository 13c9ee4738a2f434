"""Every recorded Responses answer decodes to what was recorded, however its bytes are cut; every request says itself again."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from midstream import (
    Conversation,
    MidstreamError,
    Options,
    Turn,
    decode_response,
    human,
    make_decoder,
    resolve,
    tool_result,
)
from midstream.core.dialect import Dialect
from midstream.core.events import Done, ErrorEvent, Event
from midstream.dialects.openai_responses import GENERIC
from midstream.wires.openai_responses.parse import parse_request
from midstream.wires.request import Request
from midstream.wires.stream_decoder import decode_whole
from tests.long_run import in_share
from tests.wires.drafts import encode_draft
from tests.wires.feeding import at_random, by_byte, by_lengths, events_of
from tests.wires.openai_responses.exceptions import CORPUS, REPLAYS, REQUESTS
from tests.wires.openai_responses.requests import normal
from tests.wires.recordings import body_bytes, differences, is_stream, parsed, recordings, shared_only

WIRE = "openai-responses"
CASES = {case["id"]: case for case in recordings(WIRE)}
ASKED = {name: case for name, case in CASES.items() if isinstance((case["request"] or {}).get("body"), dict)}


def events(chunks: Any) -> list[Event]:
    return events_of(make_decoder(wire=WIRE, turn_key="t"), chunks)


def outcome(case: dict[str, Any]) -> list[str]:
    expected, raw = case["expected"], body_bytes(case)
    for call in expected["tool_calls"]:  # the input of a custom tool is text to the reference even where it is JSON
        call["arguments"] = parsed(call["arguments"]) if isinstance(call["arguments"], str) else call["arguments"]
    if is_stream(case):
        last = events([raw])[-1]
        if expected.get("error"):
            wanted = expected["error"]["message"]
            return [] if isinstance(last, ErrorEvent) and last.error.message == wanted else [f"{last} is not {wanted}"]
        if isinstance(last, ErrorEvent):
            return [f"unexpected {last.error}"]
        assert isinstance(last, Done)
        return differences(last.turn, case)
    try:
        turn = decode_response(raw, wire=WIRE, status=case["response"]["status"], turn_key="t")
    except MidstreamError as error:
        wanted = expected.get("error")
        if not wanted:
            return [f"unexpected {error!r}"]
        return [] if wanted["message"][:80] in str(error) else [f"{error} does not say {wanted['message']}"]
    return ["an error was expected"] if expected.get("error") else differences(turn, case)


def test_the_recordings_are_all_there() -> None:
    assert len(shared_only(CASES)) == 169
    assert len(shared_only(ASKED)) == 146
    assert sum(is_multi_turn(case["request"]["body"]) for case in shared_only(ASKED).values()) == 61


def test_answers_equal_what_was_recorded() -> None:
    wrong = {name: found for name, case in CASES.items() if (found := outcome(case)) and name not in CORPUS}
    assert not wrong, "\n".join(f"{name}: {found}" for name, found in wrong.items())


def test_at_most_one_answer_in_a_hundred_is_an_exception_and_none_is_stale() -> None:
    cases = shared_only(CASES)
    assert len(CORPUS) <= len(cases) * 0.01
    assert {name for name in CORPUS if not outcome(cases[name])} == set()


def test_any_cut_gives_the_same_events() -> None:
    for number, (name, case) in enumerate((name, case) for name, case in CASES.items() if is_stream(case)):
        raw = body_bytes(case)
        whole = events([raw])
        if in_share(number):
            assert events(by_byte(raw)) == whole, name
        assert events(at_random(raw, seed=len(raw))) == whole, name
        assert events([event + b"\n\n" for event in raw.split(b"\n\n")]) == whole, name
        if case["response"].get("chunk_lengths"):
            assert events(by_lengths(raw, case["response"]["chunk_lengths"])) == whole, name


def test_a_stream_without_its_terminal_event_is_truncated_and_keeps_what_came() -> None:
    checked = 0
    for name, case in CASES.items():
        raw = body_bytes(case)
        end = max(raw.rfind(b'"response.completed"'), raw.rfind(b'"response.incomplete"'))
        if not is_stream(case) or case["expected"].get("error") or end < 0:
            continue
        last = events([raw[: raw.rfind(b"\n", 0, end) + 1]])[-1]
        assert isinstance(last, ErrorEvent), name
        assert last.error.kind == "truncated", name
        assert last.turn.text == events([raw])[-1].turn.text, name
        checked += 1
    assert checked > (70 if any(not case.get("own") for case in CASES.values()) else 1)


def is_multi_turn(body: dict[str, Any]) -> bool:
    items = body["input"]
    spoken = isinstance(items, list) and any(
        item.get("role") == "assistant" or item.get("type") not in (None, "message") for item in items
    )
    return bool(spoken or body.get("previous_response_id"))


def dialect_of(case: dict[str, Any]) -> Dialect:
    """The registry's own dialect where the host has a row, else that of an unknown host of this name."""
    if case["provider"] in ("openai", "azure", "xai", "openrouter") and "invalid" not in case["model"]:
        return resolve(f"{case['provider']}-responses/{case['model']}").dialect
    return replace(GENERIC, name="recorded", provider=case["provider"])


def encoded_again(case: dict[str, Any]) -> Request:
    """The recorded request read and written for the same dialect; `store` is the host's default where it was not said."""
    body = case["request"]["body"]
    parsed_request = parse_request(json.dumps(body).encode(), provider=case["provider"])
    options = parsed_request.options
    if "store" not in body:
        options = replace(options, extra_body={**(options.extra_body or {}), "store": True})
    return encode_draft(
        parsed_request.conversation, dialect_of(case), parsed_request.model, tools=parsed_request.tools, options=options
    )


def says_the_same(case: dict[str, Any]) -> bool:
    body = case["request"]["body"]
    unsaid = tuple(name for name in ("store", "include") if name not in body)
    return normal(json.loads(encoded_again(case).body), without=unsaid) == normal(body, without=unsaid)


def test_a_request_read_and_encoded_says_the_same() -> None:
    wrong = [name for name, case in ASKED.items() if name not in REQUESTS and not says_the_same(case)]
    assert not wrong


def test_at_most_two_in_a_hundred_requests_are_exceptions_and_none_is_stale() -> None:
    multi_turn = [name for name, case in shared_only(ASKED).items() if is_multi_turn(case["request"]["body"])]
    assert len(set(REQUESTS) & set(multi_turn)) <= len(multi_turn) * 0.02
    assert not [name for name in REQUESTS if says_the_same(ASKED[name])]


def replay_differs(case: dict[str, Any]) -> bool:
    """Whether an answer, sent back to the model that made it, is other items than the ones that came."""
    dialect, raw = dialect_of(case), body_bytes(case)
    decoder = make_decoder(dialect=dialect, turn_key="t", model=case["model"])
    if is_stream(case):
        turn = events_of(decoder, [raw])[-1].turn
        lines = [
            line[5:] for line in raw.split(b"\n") if b'"response.output_item.done"' in line and line[:5] == b"data:"
        ]
        items = [json.loads(line)["item"] for line in lines]
    else:
        turn = decode_whole(decoder, raw)
        items = json.loads(raw)["output"]
    results = Turn("tool", tuple(tool_result(call, "ok") for call in turn.tool_calls), key="r")
    conversation = Conversation((human("hi"), turn, *([results] if results.blocks else [])))
    stored = Options(extra_body={"store": True})
    sent = json.loads(encode_draft(conversation, dialect, case["model"], options=stored).body)["input"]
    answer = sent[1 : len(sent) - len(results.blocks)]
    return bool(normal({"input": answer})["input"] != normal({"input": items})["input"])


def test_an_answer_goes_back_to_its_origin_item_by_item() -> None:
    answered = {
        name: case
        for name, case in CASES.items()
        if case["response"]["status"] < 400 and not case["expected"].get("error")
    }
    assert {name for name, case in answered.items() if replay_differs(case)} == set(REPLAYS) & set(CASES)
