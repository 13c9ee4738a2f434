"""A real engine under the verifier: an honest, mixed report. Its weights are random, so what is right is what its server does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from midstream.client.catalog import Catalog
from midstream.client.config import Config, ProviderConfig
from midstream.verify import CHECKS, Verdicts, Verification, html_report, make_client, text_lines
from tests.e2e.conftest import KEY

# What llama.cpp's server does right, whatever its model says; the second needs a model that has something to say.
KEPT = (
    "finish.said", "usage.present", "usage.once", "usage.sums", "usage.repeat", "usage.counts-text",
    "usage.counts-system", "usage.counts-tools", "params.sampling", "handoff.foreign", "handoff.interrupted",
)  # fmt: skip
SAID = ("answer.said", "limit.tokens", "usage.cached", "plain.shape")


def verified(engine: str, *suites: str, key: str | None = None, dialect: dict[str, Any] | None = None) -> Verdicts:
    provider = ProviderConfig(base_url=f"{engine}/v1", dialect=dialect or {})
    catalog = Catalog(Config(providers={"engine": provider}), environ={})

    async def run() -> Verdicts:
        async with make_client(catalog, key) as client:
            return await Verification("engine/tiny", suites, max_tokens=120).run(client)

    return asyncio.run(run())


@pytest.fixture(scope="module")
def plain(engine: str) -> Verdicts:
    return verified(engine, "quick", "contract", "loop")


@pytest.fixture(scope="module")
def eager(guarded_engine: str) -> Verdicts:
    return verified(guarded_engine, "quick", "contract", "loop", key=KEY)


def test_what_the_server_does_right_passes(plain: Verdicts, eager: Verdicts) -> None:
    for found, kept in ((plain, KEPT + SAID), (eager, KEPT)):
        told = {result.check: (result.verdict, result.evidence) for result in found.report.host.results}
        assert not found.report.host.unfinished
        assert {check: told[check] for check in kept if told[check][0] != "pass"} == {}
        assert found.verified.facts["usage_place"] == ["top"]


def test_the_search_finds_what_the_server_demands(plain: Verdicts, engine: str) -> None:
    """A model without eyes refuses pictures (with status 500); with the dialect that was found, nothing is refused."""
    assert plain.verified.dialect == {"media": []}
    again = verified(engine, "contract", dialect=plain.verified.dialect)
    assert again.report.host.verdict("dialect.fits") == "pass" and again.report.host.tally.refused == 0


def test_what_random_weights_cannot_show_is_not_sure(plain: Verdicts) -> None:
    host = plain.report.host
    for check in ("results.read", "limit.stop", "finish.announced", "loop.calls"):
        assert host.verdict(check) == "not sure"
    assert {"pass", "fail", "not offered", "not sure"} == {result.verdict for result in host.results}
    assert plain.report.exit_code == 1


def test_a_request_without_messages_is_answered_and_said_so(plain: Verdicts) -> None:
    """A difference from OpenAI that is llama.cpp's own."""
    assert plain.report.host.verdict("refuses.messages") == "fail"


def test_calls_that_a_grammar_forces_are_judged(eager: Verdicts) -> None:
    host = eager.report.host
    for check in ("arguments.json", "names.declared", "ids.present", "index.dense", "names.once", "calls.apart"):
        assert host.verdict(check) == "pass", text_lines(eager.report)


def test_no_key_is_in_a_report(eager: Verdicts) -> None:
    assert {result.check for result in eager.report.host.results} <= set(CHECKS)
    for text in (html_report(eager.report), eager.report.to_json().decode(), *text_lines(eager.report)):
        assert KEY not in text
