"""With every library of the adapters installed, none of them is imported before it is used, as `-X importtime` tells it."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from midstream.testing import sim_server
from tests.e2e.doubles_environment import doubles_environment
from tests.test_public import EXTRAS, USES


def imported(*words: str, environ: dict[str, str] | None = None) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *words],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return {match[1].strip() for match in re.finditer(r"^import time:.*\|(.*)$", done.stderr, re.M)}


def test_the_libraries_are_there() -> None:
    missing = [name for name in EXTRAS if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed, so nothing is known about them: {', '.join(missing)}")


@pytest.mark.parametrize("program", USES)
def test_no_extra_is_imported_by_a_program(program: str) -> None:
    assert not {name.split(".")[0] for name in imported("-c", program)} & set(EXTRAS)


def test_no_extra_is_imported_by_a_question(tmp_path: Path) -> None:
    with sim_server() as sim:
        environ = doubles_environment(sim, tmp_path)
        command = str(Path(sys.executable).with_name("midstream"))
        found = imported(command, "ask", "-m", "moonshot/kimi-k2.5", "hello", environ=environ)
        assert sim.requests == 1 and "midstream.client.client" in found
    assert not {name.split(".")[0] for name in found} & set(EXTRAS)
