"""The group: help, lazy imports, errors as one line."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from midstream import __version__
from midstream.cli import main as module
from midstream.cli.main import COMMANDS
from tests.long_run import cases

from .conftest import Cli


def test_version_and_help_import_nothing_heavy(environ: dict[str, str]) -> None:
    code = (
        "import sys\nfrom midstream.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('aiohttp', 'rich', 'prompt_toolkit', 'sqlite3') if name in sys.modules])"
    )
    for flag in ("--version", "--help"):
        done = subprocess.run(
            [sys.executable, "-c", code, flag], env=environ, capture_output=True, text=True, check=True
        )
        assert done.stdout.endswith("[]\n")
    assert __version__ in Cli()("--version").stdout


@pytest.mark.parametrize("name", cases([*COMMANDS, "completion"], {"chat", "gateway", "completion"}))
def test_every_command_teaches(cli: Cli, name: str) -> None:
    result = cli(name, "--help")
    assert result.exit_code == 0
    assert f"midstream {name}" in result.stdout


@pytest.mark.parametrize("name", ["chat", "ask", "models", "sessions"])
def test_help_gives_examples(cli: Cli, name: str) -> None:
    assert "Examples:" in cli(name, "--help").stdout


def test_a_defect_is_one_line_unless_debugging(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def broken() -> None:
        raise RuntimeError("boom\x1b[2J\nmore")

    monkeypatch.setattr(module.LazyGroup, "get_command", lambda *_: broken)
    result = cli("broken")
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1 and "boom␛[2J more" in result.stderr
    monkeypatch.setenv("MIDSTREAM_DEBUG", "1")
    assert "Traceback" in cli("broken").stderr


def test_a_broken_configuration_is_one_line(cli: Cli, home: object) -> None:
    from pathlib import Path

    Path(".midstream.toml").write_text("default_modle = 3\n")
    result = cli("models")
    assert result.exit_code == 1
    assert ".midstream.toml" in result.stderr and "default_model" in result.stderr and "Traceback" not in result.stderr
