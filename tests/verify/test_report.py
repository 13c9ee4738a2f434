"""The journal, the report, its page, and what becomes of a run that could not be finished."""

from __future__ import annotations

import json
import re
import tomllib
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.client.catalog import Catalog
from midstream.client.config import Config
from midstream.core.errors import ConfigError, LocalError
from midstream.recording import Cassette
from midstream.sim.server import Sim
from midstream.verify import ProbeRecorder, Report, Verdicts, Verification, html_report, make_client, text_lines
from midstream.verify.checks import Finding, Result, results
from midstream.verify.interview import Tally
from midstream.verify.report import HostSection
from midstream.verify.run import Journal, Outcome
from midstream.verify.verified import read_verified, to_toml, toml_lines, without_password
from tests.event_loops import run
from tests.verify.stage import no_sleep


def verdicts(
    model: str = "openai/gpt-4o",
    *,
    journal: Journal | None = None,
    recorder: ProbeRecorder | None = None,
    sim: dict[str, Any] | None = None,
    **options: Any,
) -> Verdicts:
    async def main() -> Verdicts:
        async with Sim(**(sim or {})) as doubles:
            catalog = Catalog(Config(), environ={}, providers=doubles.providers())
            async with make_client(catalog, recorder=recorder) as client:
                verification = Verification(model, **options)
                return await verification.run(
                    client, journal=journal, sleep=no_sleep, now=lambda: datetime(2026, 11, 17, tzinfo=UTC)
                )

    return run(main(), limit=120)


def test_exit_codes() -> None:
    assert verdicts().report.exit_code == 0
    assert verdicts(sim={"always": ("leak",)}).report.exit_code == 1
    assert verdicts(sim={"always": ("500",)}).report.exit_code == 75


def test_a_run_is_resumed_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    # The money is used up in the middle.
    first = verdicts(journal=Journal(path), suites=("quick",), max_cost=0.004, max_tokens=300)
    assert first.report.exit_code == 75 and "raise --max-cost" in first.report.host.unfinished[0]
    done = len(path.read_text().splitlines())
    assert 0 < done < 10
    second = verdicts(journal=Journal(path, resume=True), suites=("quick",))
    assert second.report.exit_code == 0 and second.report.host.tally.requests < 15
    assert len(path.read_text().splitlines()) == 10
    fresh = verdicts(journal=Journal(path), suites=("quick",))
    assert fresh.report.host.tally.requests == 15


def test_a_journal_knows_its_own_lines_only(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.add(Outcome("m", "p", 0, (Finding("leak.text", "pass", "x"),)))
    journal.add(Outcome("m", "q", 0, unfinished="later"))
    path.write_bytes(path.read_bytes() + b'{"model": "m", "pro')
    assert list(Journal(path, resume=True).done) == [("m", "p", 0)]
    path.write_bytes(b"nonsense\n" + path.read_bytes() + b"\n")
    with pytest.raises(LocalError, match="line 1 is not of a run of verify"):
        Journal(path, resume=True)


def test_one_failure_fails_a_check_and_the_rate_says_how_many() -> None:
    found = [Finding("leak.text", "pass", "fine")] * 9 + [Finding("leak.text", "fail", "a marker")]
    result = results(found)["leak.text"]
    assert (result.verdict, result.evidence, result.passed, result.failed) == ("fail", "a marker", 9, 1)
    assert "9 of 10 (90.0 %; 95 %: 55.5 % to 99.7 %)" in str(result.rate)
    unsure = [Finding("leak.text", "not sure", "?"), Finding("leak.text", "not offered", "-")]
    assert results(unsure)["leak.text"].verdict == "not sure"
    assert results([*unsure, Finding("leak.text", "pass", "fine")])["leak.text"].verdict == "pass"


EVIL = "</td><script>alert(1)</script><img src=x onerror=alert(1)>\"'&"


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text(max_size=60) | st.just(EVIL))
def test_the_page_is_self_contained_and_escapes_what_a_host_said(words: str) -> None:
    result = Result("leak.text", "fail", words, 3, 2)
    other = HostSection(words, (Result("leak.text", "pass", words, 5),), Tally())
    host = HostSection(words or "m", (result,), Tally(5, 4), unfinished=(words,))
    page = html_report(Report(host, (words,), created=words, against=other))
    seen = Tags()
    seen.feed(page)
    assert seen.tags <= set(
        "html head meta title style body h1 h2 p table tr th td span br svg rect text line circle".split()
    )
    assert not [name for name, _ in seen.attributes if name.startswith("on") or name in ("src", "href", "xlink:href")]
    assert not re.search(r"https?://|//\w|url\(|@import", page.replace(words, "") if words else page)
    assert "default-src 'none'" in page


def test_two_hosts_side_by_side() -> None:
    found = verdicts("openai/gpt-4o", against="xai/grok-3", suites=("quick", "contract"))
    report = found.report
    assert report.against is not None and report.against.model == "xai/grok-3"
    assert (
        report.host.verdict("against.prompt-tokens") == "pass" and report.host.verdict("against.difference") == "pass"
    )
    assert any("[ok]" in line for line in text_lines(report))


def test_a_reference_that_cannot_be_asked_leaves_the_run_unfinished(tmp_path: Path) -> None:
    """The host is fine; that it is no worse than the other was not found out."""

    async def main() -> Verdicts:
        async with Sim() as doubles, Sim(always=("500",)) as broken:
            environ = {"OPENAI_BASE_URL": f"{doubles.url}/openai", "XAI_BASE_URL": f"{broken.url}/xai"}
            catalog = Catalog(Config(), environ={**environ, "OPENAI_API_KEY": "x", "XAI_API_KEY": "x"}, providers=())
            async with make_client(catalog) as client:
                return await Verification("openai/gpt-4o", against="xai/grok-3").run(client, sleep=no_sleep)

    report = run(main(), limit=120).report
    assert report.host.unfinished == () and report.exit_code == 75
    assert any(line.startswith("Not finished: xai/grok-3: ") for line in text_lines(report))
    assert "Not finished: xai/grok-3" in html_report(report)


def test_a_hidden_prompt_shows_beside_the_same_weights() -> None:
    """Twice the same model, at a host that counts what it should and at one that loses the tools."""
    found = verdicts("openai/gpt-4o", against="azure/gpt-4o", suites=("contract",))
    assert found.report.host.verdict("against.prompt-tokens") == "pass"
    drifting = verdicts("openai/gpt-4o", against="azure/gpt-4o", suites=("quick",), sim={"always": ("drift-usage",)})
    assert drifting.report.host.verdict("against.prompt-tokens") == "fail"


def test_the_page_begins_with_what_is_wrong(tmp_path: Path) -> None:
    line = {"messages": [{"role": "user", "content": "Say hello."}]}
    (tmp_path / "s.jsonl").write_text(json.dumps(line) + "\n")
    suites = ("quick", str(tmp_path / "s.jsonl"))
    page = html_report(verdicts(sim={"always": ("double-usage",)}, suites=suites, against="xai/grok-3", runs=2).report)
    wrong, right = page.index("What is wrong"), page.index("<h2>Checks")
    assert wrong < page.index("2 counts at top in one stream") < page.index("clients that add up count twice") < right
    assert "called only here, only there" in page and page.count("<svg") == 5
    assert "What is wrong" not in html_report(verdicts().report)


def test_runs_are_counted_together() -> None:
    report = verdicts(suites=("loop",), runs=3).report
    result = next(each for each in report.host.results if each.check == "loop.calls")
    assert result.passed == 24 and report.host.tally.requests == 27


def test_raw_answers_are_kept_by_probe(tmp_path: Path) -> None:
    recorder = ProbeRecorder(tmp_path)
    verdicts(recorder=recorder)
    assert recorder.saved["hello"] == 3 and not recorder.problems
    exchanges = [exchange for _, exchange in Cassette(tmp_path / "hello").read()]
    assert len(exchanges) == 3 and any(b"[DONE]" in exchange.body for exchange in exchanges)


def test_the_report_is_json_and_the_result_is_toml(tmp_path: Path) -> None:
    found = verdicts("moonshot/kimi-k2.5", suites=("quick", "contract"))
    told = json.loads(found.report.to_json())
    assert told["host"]["model"] == "moonshot/kimi-k2.5" and told["version"] == 1
    path = tmp_path / "verified.toml"
    path.write_text(to_toml(found.verified))
    again = read_verified(path)
    assert again.host == found.verified.host and again.facts["reasoning_field"] == "reasoning_content"
    assert again.dialect == {} and again.checks == found.verified.checks
    path.write_text(to_toml(found.verified).replace("version = 1", "version = 9"))
    with pytest.raises(ConfigError, match="version 9 is not known"):
        read_verified(path)
    path.write_text("x = [")
    with pytest.raises(ConfigError, match="expected a file that"):
        read_verified(path)


_TOML = st.recursive(
    st.booleans() | st.integers(-(2**60), 2**60) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), _TOML, max_size=4))
def test_what_is_written_as_toml_is_read_as_it_was(table: dict[str, Any]) -> None:
    assert tomllib.loads("\n".join(toml_lines(table))) == table


def test_a_password_in_an_address_is_not_written() -> None:
    assert without_password("https://me:secret@models.example:8443/v1") == "https://models.example:8443/v1"
    assert without_password("http://127.0.0.1:8080/v1") == "http://127.0.0.1:8080/v1"


def test_an_estimate_is_made_before_anything_is_sent() -> None:
    catalog = Catalog(Config(), environ={})
    estimate = Verification("moonshot/kimi-k2.5", ("quick", "loop"), runs=2).estimate(catalog)
    assert estimate.requests == 48 and estimate.dollars is not None and 0 < estimate.dollars < 1
    both = Verification("moonshot/kimi-k2.5", ("quick",), "openai/gpt-4o").estimate(catalog)
    assert both.requests == 30
    assert Verification("novita/some-model").estimate(catalog).dollars is None
