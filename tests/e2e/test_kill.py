"""Kill -9 for every ordered pair of doubles: tests/agent/test_kill.py says what has to hold."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.agent.test_kill import PAIRS, play


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the bash tool needs Linux")
def test_kill_9_for_every_ordered_pair(tmp_path: Path) -> None:
    play(PAIRS, tmp_path)
