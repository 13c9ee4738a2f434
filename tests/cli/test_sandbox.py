"""The sandbox from the command line: its flags, its setting, and what is said about it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from midstream.agent.sandbox import Sandbox
from midstream.cli.main import FAILED, OK
from midstream.core.errors import ConfigError

from .conftest import Cli

KIMI = ("-m", "sim/kimi-k2.5")
ASK = ("ask", *KIMI, "-T", "all")


@pytest.fixture
def sandbox() -> Sandbox:
    try:
        return Sandbox.find()
    except ConfigError as error:
        pytest.skip(f"NOT TESTED: {error}")


def configure(home: Path, text: str) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(f"[sandbox]\n{text}\n")


@pytest.mark.usefixtures("sandbox")
def test_unattended_runs_commands_in_the_sandbox_without_asking(cli: Cli, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    asked = cli(*ASK, "--sandbox", 'Run bash "touch made"')
    assert "nobody is there to approve it" in asked.stderr and not Path("made").exists()
    assert cli(*ASK, "--sandbox", "--unattended", 'Run bash "touch made"').exit_code == OK
    assert Path("made").exists()
    cli(*ASK, "--sandbox", "--unattended", f'Run bash "touch {outside}"')
    assert not outside.exists()
    refused = cli(*ASK, "--sandbox", "--unattended", 'Run bash "touch /usr/share/made"')
    assert "runs in a sandbox: it writes only the working folder" in refused.stderr
    assert cli(*ASK, "--sandbox", "--yolo", f'Run bash "touch {outside}"').exit_code == OK
    assert not outside.exists(), "--yolo answers the question; it does not open the sandbox"


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--unattended",), "needs a sandbox: add --sandbox"),
        (("--unattended", "--no-sandbox"), "needs a sandbox: add --sandbox"),
        (("--sandbox-network",), "add --sandbox"),
    ],
)
def test_flags_that_need_a_sandbox_say_so(cli: Cli, flags: tuple[str, ...], says: str) -> None:
    result = cli(*ASK, *flags, 'Run bash "touch made"')
    assert result.exit_code == FAILED and says in result.stderr and not Path("made").exists()


@pytest.mark.usefixtures("sandbox")
def test_the_configuration_asks_for_it_and_a_flag_overrides_it(cli: Cli, home: Path, tmp_path: Path) -> None:
    configure(home, 'use = "on"')
    outside = tmp_path / "outside"
    cli(*ASK, "--yolo", f'Run bash "touch {outside}"')
    assert not outside.exists()
    cli(*ASK, "--yolo", "--no-sandbox", f'Run bash "touch {outside}"')
    assert outside.exists()
    shown = cli("config", "show", "--origin").stdout
    assert f"sandbox.use = on    # {home}/config.toml" in shown


def test_where_there_is_none_on_is_an_error_and_auto_a_line(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A machine that no filter of system calls is written for, as far as we are told.
    monkeypatch.setattr("platform.machine", lambda: "sparc64")
    wanted = cli(*ASK, "--sandbox", 'Run bash "touch made"')
    assert wanted.exit_code == FAILED and not Path("made").exists()
    assert "no sandbox works on this machine" in wanted.stderr and "Install bubblewrap" in wanted.stderr
    configure(home, 'use = "auto"')
    assert cli(*ASK, "--unattended", 'Run bash "touch made"').exit_code == FAILED
    assert not Path("made").exists()
    lenient = cli(*ASK, "--yolo", 'Run bash "touch made"')
    assert lenient.exit_code == OK and Path("made").exists()
    assert "midstream: commands run without a sandbox: no sandbox works on this machine" in lenient.stderr


def test_in_a_home_on_is_an_error_and_auto_a_line(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox
) -> None:
    monkeypatch.setenv("HOME", str(Path.cwd()))
    assert "the sandbox cannot work in" in cli(*ASK, "--sandbox", "--yolo", 'Run bash "touch made"').stderr
    assert not Path("made").exists()
    configure(home, 'use = "auto"')
    assert "run without a sandbox: the sandbox cannot work in" in cli(*ASK, "--yolo", 'Run bash "touch made"').stderr
    assert Path("made").exists()


def tools(*flags: str) -> str:
    """What /tools shows."""
    done = subprocess.run(
        [sys.executable, "-m", "midstream.cli.main", "chat", *KIMI, *flags],
        input="/tools\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stderr


@pytest.mark.usefixtures("home")
def test_tools_shows_where_commands_run(sandbox: Sandbox) -> None:
    confined = f"bash runs in a sandbox ({sandbox.way}): writes only the working folder and a temporary one; no network"
    assert "bash runs without a sandbox" in tools()
    shown = tools("--sandbox")
    assert confined in shown and "bash (asks first)" in shown and "unattended" not in shown
    alone = tools("--sandbox", "--unattended")
    assert "bash (does not ask)" in alone and "unattended: only files that run code later are asked about" in alone
    assert "the network is open" in tools("--sandbox", "--sandbox-network")


@pytest.mark.usefixtures("sandbox")
def test_scripts_of_skills_run_in_the_sandbox_and_what_lies_beside_them_stays_hidden(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(home, f"read = ['{home.parent}']")  # more than the skill, and the folder that is hidden is in it
    (home / "keys.json").write_text("{}")
    project = Path.cwd()
    (project / ".git").mkdir()
    (project / "inner").mkdir()
    below = {"user": home / "skills" / "hello", "project": project / ".midstream" / "skills" / "bye"}
    for scope, folder in below.items():
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {folder.name}\ndescription: of the {scope}\n---\nRun say.sh\n")
        (folder / "say.sh").write_text(f"echo this is {scope}\n")
    monkeypatch.chdir(project / "inner")
    run = ("ask", *KIMI, "-T", "all", "--skills", "--sandbox", "--unattended")
    for scope, folder in below.items():
        assert f"this is {scope}" in cli(*run, f'Run bash "sh {folder}/say.sh"').output
    assert "[exit code 1]" in cli(*run, f'Run bash "cat {home}/keys.json"').output
    assert "[exit code 1]" in cli(*run, f'Run bash "echo no >> {below["user"]}/say.sh"').output
    assert "no" not in (below["user"] / "say.sh").read_text()
