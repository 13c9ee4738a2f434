"""Sensitivity and specificity: each fault is found by its name, and a double without one passes everything."""

from __future__ import annotations

import pytest

from midstream import resolve
from midstream.dialects.registry import REGISTRY
from midstream.sim.faults import FAULTS
from midstream.sim.players import make_players
from midstream.verify.checks import CHECKS
from midstream.verify.suites import SUITES
from tests.long_run import LONG, each_kind
from tests.verify.faults_table import FOUND_BY, NO_ANSWER, each_provider
from tests.verify.stage import ALL, PROBES, verified


def test_every_fault_has_a_row() -> None:
    assert {*FOUND_BY, *NO_ANSWER} == set(FAULTS)
    assert {row.check for row in FOUND_BY.values()} <= set(CHECKS)


@each_kind("fault", FOUND_BY, lambda fault: FOUND_BY[fault] if fault.startswith("leak-") else fault)
def test_each_fault_is_found_by_its_name(fault: str) -> None:
    row = FOUND_BY[fault]
    _, clean = verified(row.model, [PROBES[row.probe]])
    assert clean[row.check].verdict == "pass", clean[row.check]
    _, found = verified(row.model, [PROBES[row.probe]], fault)
    assert found[row.check].verdict == "fail", found[row.check]
    assert found[row.check].evidence


# Faults of what is heard, counted and said are the same on every wire; a wire that has no place for something does not offer it.
EACH_WIRE = {
    "anthropic/claude-sonnet-4-5": {"accept-anything", "ignore-echo"},
    "openai-responses/gpt-5.2": {"accept-anything", "ignore-stop", "ignore-echo"},
    "gemini/gemini-3-pro-preview": {
        "accept-anything",
        "refuse-own-ids",
        "leak-thinking",
        "ignore-parallel",
        "ignore-echo",
    },
    "ollama/qwen3:4b": {"accept-anything", "refuse-own-ids", "ignore-choice", "ignore-parallel", "ignore-format"},
    "cohere/command-a-reasoning-08-2025": {"accept-anything", "ignore-parallel"},
    "deepinfra/moonshotai/Kimi-K2.5": set[str](),
}
SPOKEN = [
    name
    for name in FOUND_BY
    if (FAULTS[name].write is None and not name.startswith("leak-")) or name == "leak-thinking"
]


@pytest.mark.parametrize("model", EACH_WIRE)
def test_faults_are_found_on_every_wire(model: str) -> None:
    missed = set()
    for fault in SPOKEN:
        row = FOUND_BY[fault]
        _, found = verified(model, [PROBES[row.probe]], fault)
        if row.check not in found or found[row.check].verdict != "fail":
            missed.add(fault)
    assert missed == EACH_WIRE[model]


# One model for each double of each wire: every rule and every way to write answers is among them.
def _each_double() -> dict[str, str]:
    found: dict[str, str] = {}
    for player in make_players().values():
        if player.target.dialect.wire != "completion":
            found.setdefault(player.host.name, f"{player.target.provider}/{player.target.model}")
    return found


def test_no_provider_is_left_out() -> None:
    played = {model.partition("/")[0] for model in each_provider()}
    assert set(REGISTRY.providers) - played == {"completions"}, "a host of raw completions alone, which has no double"


DOUBLES = _each_double()


@pytest.mark.parametrize("name", DOUBLES)
def test_a_faithful_double_passes_everything(name: str) -> None:
    host, found = verified(DOUBLES[name])
    assert not host.unfinished
    assert {check: result.evidence for check, result in found.items() if result.verdict in ("fail", "not sure")} == {}
    assert sum(result.verdict == "pass" for result in found.values()) >= 25


@each_kind("model", each_provider(), lambda model: resolve(model).dialect.wire)
def test_the_double_of_every_provider_passes(model: str) -> None:
    """Everything; without the long run the quick suite, since each double passed everything above."""
    _, found = verified(model, ALL if LONG else SUITES["quick"])
    assert {check: result.evidence for check, result in found.items() if result.verdict in ("fail", "not sure")} == {}


def test_the_doubles_together_pass_every_check_that_needs_no_file() -> None:
    """No check is one that nobody can pass."""
    wanted = {check for check in CHECKS if not check.startswith(("samples.", "against.", "usage.cached"))}
    passed: set[str] = set()
    for model in ("openai/gpt-4o", "moonshot/kimi-k2.5"):
        _, found = verified(model, ALL)
        passed |= {check for check, result in found.items() if result.verdict == "pass"}
    assert wanted <= passed
