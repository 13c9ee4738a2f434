"""Every recorded chat answer decodes to what was recorded of it, however its bytes are cut."""

from __future__ import annotations

from typing import Any

import pytest

from midstream import MidstreamError, decode_response, make_decoder
from midstream.core.errors import ProviderError
from midstream.core.events import Done, ErrorEvent
from tests.long_run import in_share
from tests.wires.feeding import at_random, by_byte, by_lengths, events_of
from tests.wires.openai_chat.exceptions import CORPUS, NO_FINISH, REASONING_APART
from tests.wires.recordings import body_bytes, differences, is_stream, recordings, shared_only

FOLDERS = ("openai-chat", "kimi", "mistral-chat")
CASES = {case["id"]: case for case in recordings(*FOLDERS)}


def events(case: dict[str, Any], chunks: Any) -> list[Any]:
    return events_of(make_decoder(wire="openai-chat", turn_key="t"), chunks)


def compare(turn: Any, case: dict[str, Any]) -> list[str]:
    usage = case["expected_usage_norm"] or {}
    apart = case["provider"] == REASONING_APART and (usage.get("total_tokens") or 0) >= sum(
        usage.get(name) or 0 for name in ("input_tokens", "output_tokens", "reasoning_tokens")
    )
    return differences(turn, case, output_holds_reasoning=not apart)


def outcome(case: dict[str, Any]) -> list[str]:
    expected, raw = case["expected"], body_bytes(case)
    if is_stream(case):
        last = events(case, [raw])[-1]
        if expected.get("error"):
            error = last.to_exception() if isinstance(last, ErrorEvent) else None
            return [] if isinstance(error, ProviderError) else ["no error came"]
        if isinstance(last, ErrorEvent) and case["id"] not in NO_FINISH:
            return [f"unexpected {last.error}"]
        return compare(last.turn, case)
    try:
        turn = decode_response(raw, wire="openai-chat", status=case["response"]["status"], turn_key="t")
    except MidstreamError as error:
        wanted = expected.get("error")
        if not wanted:
            return [f"unexpected {error!r}"]
        return [] if (wanted["message"] or "")[:80] in str(error) else [f"{error} does not say {wanted['message']}"]
    return ["an error was expected"] if expected.get("error") else compare(turn, case)


def test_the_recordings_are_all_there() -> None:
    assert len(shared_only(CASES)) == 495


@pytest.mark.parametrize("folder", FOLDERS)
def test_answers_equal_what_was_recorded(folder: str) -> None:
    wrong = {
        name: found
        for name, case in CASES.items()
        if case["wire"] == folder and (found := outcome(case)) and name not in CORPUS
    }
    assert not wrong, "\n".join(f"{name}: {found}" for name, found in wrong.items())


def test_at_most_one_in_a_hundred_is_an_exception_and_none_is_stale() -> None:
    cases = shared_only(CASES)
    assert len(CORPUS) <= len(cases) * 0.01
    assert {name for name in CORPUS if not outcome(cases[name])} == set()
    for name in NO_FINISH:
        assert isinstance(events(CASES[name], [body_bytes(CASES[name])])[-1], ErrorEvent)


def test_any_cut_gives_the_same_events() -> None:
    for number, (name, case) in enumerate((name, case) for name, case in CASES.items() if is_stream(case)):
        raw = body_bytes(case)
        whole = events(case, [raw])
        if in_share(number):
            assert events(case, by_byte(raw)) == whole, name
        assert events(case, at_random(raw, seed=len(raw))) == whole, name
        if case["response"].get("chunk_lengths"):
            assert events(case, by_lengths(raw, case["response"]["chunk_lengths"])) == whole, name


def test_a_cut_stream_is_an_error_that_keeps_what_came() -> None:
    """Cut every tenth recording before its finish reason: never done, and never more text than the whole had."""
    for name, case in list(CASES.items())[::10]:
        if not is_stream(case) or case["expected"].get("error") or name in NO_FINISH:
            continue
        raw = body_bytes(case)
        cut = raw[: raw.find(b'"finish_reason":"') if b'"finish_reason":"' in raw else len(raw) // 2]
        last = events(case, [cut])[-1]
        assert isinstance(last, ErrorEvent), name
        whole = events(case, [raw])[-1]
        assert isinstance(whole, Done)
        assert whole.turn.text.startswith(last.turn.text), name
