"""A file of requests: its format, what is kept of an answer, and the numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from midstream.client.catalog import Catalog
from midstream.client.config import Config
from midstream.core.errors import LocalError
from midstream.sim.answer import Answer, Call
from midstream.sim.server import Sim
from midstream.verify.checks import Findings, results
from midstream.verify.interview import Interview, make_client
from midstream.verify.samples import (
    SampleOutcome,
    compare,
    judge_samples,
    noise_floor,
    read_outcomes,
    read_samples,
    run_samples,
    summarize,
)
from midstream.verify.verification import Verification
from tests.event_loops import run
from tests.verify.stage import no_sleep

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "read_file",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    },
}
CALLS: dict[str, Any] = {
    "messages": [{"role": "_input", "content": "Be brief."}, {"role": "user", "content": "Read a.txt."}],
    "tools": [TOOL],
}
TALKS: dict[str, Any] = {"messages": [{"role": "user", "content": "Say hello."}], "stream": True, "temperature": 0.6}


def written(path: Path, *lines: Any) -> Path:
    path.write_text("\n".join([json.dumps(line) for line in lines]) + "\n\n")
    return path


def asked(
    path: Path, model: str = "openai/gpt-4o", runs: int = 1, **options: Any
) -> tuple[list[SampleOutcome], list[Any]]:
    async def main() -> tuple[list[SampleOutcome], list[Any]]:
        async with Sim(**options) as sim:
            catalog = Catalog(Config(), environ={}, providers=sim.providers())
            async with make_client(catalog) as client:
                host = Interview(client, model, sleep=no_sleep)
                outcomes = await run_samples(host, read_samples(path), runs=runs)
            return outcomes, [seen.body for seen in sim.seen]

    return run(main())


def test_a_line_goes_out_as_it_is(tmp_path: Path) -> None:
    path = written(tmp_path / "s.jsonl", CALLS, TALKS)
    outcomes, bodies = asked(path)
    assert [each.status for each in outcomes] == ["ok", "ok"]
    calls = next(body for body in bodies if body.get("tools"))
    assert calls == {
        **CALLS,
        "model": "gpt-4o",
        "messages": [{**CALLS["messages"][0], "role": "system"}, CALLS["messages"][1]],
    }
    talks = next(body for body in bodies if not body.get("tools"))
    assert talks == {**TALKS, "model": "gpt-4o", "stream_options": {"include_usage": True}}


@pytest.mark.parametrize(
    "model", ["anthropic/claude-sonnet-4-5", "openai-responses/gpt-5.2", "gemini/gemini-2.5-flash"]
)
def test_a_line_is_translated_for_another_wire(model: str, tmp_path: Path) -> None:
    outcomes, _ = asked(written(tmp_path / "s.jsonl", CALLS, {"messages": TALKS["messages"]}), model)
    assert [each.status for each in outcomes] == ["ok", "ok"]
    assert [each.names for each in outcomes] == [("read_file",), ()] and outcomes[0].valid


def test_no_text_is_kept(tmp_path: Path) -> None:
    outcomes, _ = asked(written(tmp_path / "s.jsonl", CALLS, TALKS))
    data = msgspec.json.encode(outcomes).decode()
    assert "hello" not in data.lower() and "a.txt" not in data
    (tmp_path / "o.jsonl").write_bytes(b"".join([msgspec.json.encode(each) + b"\n" for each in outcomes]))
    assert read_outcomes(tmp_path / "o.jsonl") == outcomes


def test_calls_that_do_not_fit_and_refusals_are_counted_apart(tmp_path: Path) -> None:
    path = written(tmp_path / "s.jsonl", CALLS, TALKS, {**TALKS, "tools": []})
    outcomes, _ = asked(path, always=("broken-schema",))
    told = summarize(outcomes)
    assert (told.answered.hits, told.answered.n, told.refused, told.failed) == (2, 3, 1, 0)
    assert (told.schema.hits, told.schema.n) == (0, 1) and (told.called.hits, told.called.n) == (1, 2)
    assert told.finishes == {"tool_calls": 1, "stop": 1} and told.calls_each == {0: 1, 1: 1}
    found = Findings()
    judge_samples(told, None, found)
    verdicts = {name: result.verdict for name, result in results(found.found).items()}
    assert verdicts["samples.answered"] == "fail" and verdicts["samples.trigger"] == "not offered"


def test_a_retry_that_helped_is_not_a_first_try(tmp_path: Path) -> None:
    outcomes, _ = asked(written(tmp_path / "s.jsonl", TALKS), faults=("429",))
    told = summarize(outcomes)
    assert (told.answered.hits, told.first_try.hits) == (1, 0) and outcomes[0].first == "rate_limited"


def test_runs_of_the_reference_give_the_floor(tmp_path: Path) -> None:
    def line(number: int, run: int, called: bool, **more: Any) -> SampleOutcome:
        return SampleOutcome(number, str(number), run, finish="tool_calls" if called else "stop", **more)

    reference = [line(number, run, number < 6 + run) for run in range(3) for number in range(10)]
    # Runs 0 and 2 agree least: 6 both, 2 only the one: 2 * 6 / (12 + 2).
    assert noise_floor(reference) == pytest.approx(12 / 14)
    assert noise_floor(reference[:10]) is None
    host = [line(number, 0, number < 6) for number in range(10)]
    same = compare(host, reference)
    assert (same.f1, same.lines, same.triggers.p) == (1.0, 10, 1.0)
    worse = compare([line(number, 0, number >= 6) for number in range(10)], reference)
    assert worse.f1 == 0.0 and worse.floor == pytest.approx(12 / 14)
    found = Findings()
    judge_samples(summarize(host), worse, found)
    assert results(found.found)["samples.trigger"].verdict == "fail"
    alone = Findings()
    judge_samples(summarize(host), compare(host, reference[:10]), alone)
    assert results(alone.found)["samples.trigger"].verdict == "not sure"


def test_a_hundred_lines_cannot_show_98_percent_however_often_they_are_asked() -> None:
    def verdict(lines: int, runs: int) -> str:
        outcomes = [
            SampleOutcome(n, str(n), run, finish="tool_calls", names=("f",), valid=True)
            for run in range(runs)
            for n in range(lines)
        ]
        found = Findings()
        judge_samples(summarize(outcomes), None, found)
        return results(found.found)["samples.schema"].verdict

    assert [verdict(100, 1), verdict(100, 10), verdict(200, 1)] == ["not sure", "not sure", "pass"]


def test_hosts_are_compared_on_the_lines_that_both_answered() -> None:
    mine = [SampleOutcome(n, str(n), 0, finish="tool_calls", names=("f",), valid=n > 7) for n in range(20)]
    theirs = [SampleOutcome(n, str(n), 0, finish="tool_calls", names=("f",), valid=True) for n in range(20)]
    theirs[19] = SampleOutcome(19, "19", 0, "refused")
    found = Findings()
    comparison = compare(mine, theirs)
    assert comparison.lines == 19 and (comparison.schemas.only_first, comparison.schemas.only_second) == (0, 8)
    assert comparison.schemas.p == pytest.approx(2 / 256)
    judge_samples(summarize(mine), comparison, found)
    assert results(found.found)["against.difference"].verdict == "fail"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("not json\n", "line 1 is not JSON"),
        ('{"messages": []}\n{"prompt": "x"}\n', "line 2: expected a chat request"),
        ("\n\n", "expected a chat request on each line"),
        ("[1]\n", "line 1: expected a chat request"),
    ],
)
def test_a_file_that_is_none_is_named(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(text)
    with pytest.raises(LocalError, match=words):
        read_samples(path)
    with pytest.raises(LocalError, match="unknown suite 'nothing'"):
        Verification("openai/gpt-4o", ("nothing",))


def test_reasoning_alone_is_no_answer(tmp_path: Path) -> None:
    def script(*_: Any, **__: Any) -> Answer:
        return Answer("", "Hm.", ())

    outcomes, _ = asked(written(tmp_path / "s.jsonl", CALLS), "moonshot/kimi-k2.5", script=script)
    assert not outcomes[0].said


def test_two_calls_are_counted(tmp_path: Path) -> None:
    def script(*_: Any, **__: Any) -> Answer:
        return Answer("", "", (Call("read_file", {"path": "a"}), Call("read_file", {"path": 1})))

    outcomes, _ = asked(written(tmp_path / "s.jsonl", CALLS), script=script)
    assert outcomes[0].names == ("read_file", "read_file") and outcomes[0].valid is False


@pytest.mark.parametrize("first", [0, 1])
def test_the_results_of_k2_vendor_verifier_are_a_reference(first: int, tmp_path: Path) -> None:
    path = written(tmp_path / "s.jsonl", CALLS, TALKS)
    samples = read_samples(path)
    theirs = [
        {"data_index": first + 1, "status": "success", "finish_reason": "stop", "tool_calls_valid": None, "hash": "x"},
        {
            "data_index": first,
            "status": "success",
            "finish_reason": "tool_calls",
            "tool_calls_valid": True,
            "hash": "y",
        },
    ]
    reference = read_outcomes(written(tmp_path / "results.jsonl", *theirs), samples)
    mine, _ = asked(path)
    assert compare(mine, reference).f1 == 1.0 and compare(mine, reference).lines == 2
    (tmp_path / "results.jsonl").write_text('{"a": 1}')
    with pytest.raises(LocalError, match="expected outcomes that"):
        read_outcomes(tmp_path / "results.jsonl")
