"""What the project was asked for in the beginning, statement by statement; test_table.py runs them all."""

import pytest

for _name in ("adapter", "canonical_ids", "kimi_format", "reasoning", "streaming"):
    pytest.register_assert_rewrite(f"{__name__}.{_name}")  # a failing check shows its values, as a test does
