"""The whole table: every requirement is checked, or has a reason; one function runs them all."""

from __future__ import annotations

import pytest

from tests.seeds import adapter, canonical_ids, kimi_format, reasoning, streaming
from tests.seeds.table import Table

TABLES: dict[str, Table] = {
    "kimi format": kimi_format.TABLE,
    "streaming": streaming.TABLE,
    "adapter": adapter.TABLE,
    "canonical ids": canonical_ids.TABLE,
    "reasoning": reasoning.TABLE,
}
CHECKS = {f"{name}: {words}": check for name, table in TABLES.items() for words, check in table.checks.items()}


@pytest.mark.parametrize("requirement", CHECKS)
def test_requirement(requirement: str) -> None:
    CHECKS[requirement]()


@pytest.mark.parametrize("name", TABLES)
def test_what_is_not_run_has_a_reason_and_what_differs_is_checked(name: str) -> None:
    table = TABLES[name]
    assert len(table.checks) >= 5
    assert not set(table.checks) & set(table.not_run)
    assert set(table.differs) <= set(table.checks), set(table.differs) - set(table.checks)
    assert all(why.strip() for why in (*table.not_run.values(), *table.differs.values()))
