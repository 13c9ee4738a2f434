"""The checks for a host: the doubles pass, and each planted defect fails the check that is about it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from midstream.sim.answer import Answer, Call
from midstream.testing import CHECKS, Report, check_host, conformance, sim_server
from midstream.testing.conformance import WORD
from midstream.transport.options import RetryPolicy, TransportOptions

QUICK = TransportOptions(retry=RetryPolicy(initial=0.001, max_backoff=0.001))
"""As many attempts as ever, without the waiting."""


def check(model: str, *lines: Any, **options: Any) -> Report:
    with sim_server(*lines, **options) as sim:

        async def run() -> Report:
            async with sim.client(transport=QUICK) as client:
                return await conformance(model, client)

        return asyncio.run(run())


def failed(report: Report) -> set[str]:
    return {outcome.check for outcome in report.outcomes if not outcome.passed}


MODELS = ("openai/gpt-4o", "moonshot/kimi-k2.5", "anthropic/claude-sonnet-4-5", "openai-responses/gpt-5.2",
          "gemini/gemini-3-pro-preview", "mistral/mistral-large-latest", "deepinfra/moonshotai/Kimi-K2.5")  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
def test_every_double_conforms(model: str) -> None:
    report = check(model)
    assert report.passed, str(report)
    assert len(report.outcomes) >= len(CHECKS) - 1


def test_a_host_of_ones_own_is_checked_by_its_address() -> None:
    with sim_server() as sim:
        report = check_host(sim.base_url("openai"), "gpt-4o")
        assert report.passed, str(report)
        assert str(report).endswith(f"host/gpt-4o: {len(CHECKS)} of {len(CHECKS)} checks passed")


def test_a_host_that_is_not_there_fails_every_check() -> None:
    report = check("openai/gpt-4o", *["x"] * 0, faults=["500"] * 99)
    assert failed(report) >= {"streams", "calls", "others"}
    assert "FAIL streams" in str(report)


def test_a_model_that_never_calls_fails_the_tool_checks() -> None:
    report = check("openai/gpt-4o", *["I would rather talk."] * 20)
    assert failed(report) == {"calls", "results", "errors"}


def test_a_model_that_forgets_results_is_found() -> None:
    call = Answer("", "", (Call("read_note", {"name": "breakfast"}),))
    lines = ["hello"] * 5 + [call, call, "I forgot.", call, "oh", "hi", "hi"]
    report = check("openai/gpt-4o", *lines)
    assert failed(report) == {"results"}
    assert WORD not in str(report)


def test_a_host_that_refuses_nothing_is_found() -> None:
    assert "refuses" in failed(check("openai/gpt-4o", strict=False))


def test_nothing_of_pytest_is_imported() -> None:
    code = "import sys, midstream.testing; sys.exit('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
