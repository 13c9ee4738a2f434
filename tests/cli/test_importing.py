"""`midstream import` and `midstream sessions export --to`, in the home of somebody who uses other programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from midstream.cli.main import main
from midstream.store.programs import PROGRAMS
from tests.store.programs.test_programs import DATA, program_home

ASKED = "Note the tide."


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("claude-code", "codex"):
        shutil.copytree(DATA / name, tmp_path, dirs_exist_ok=True)
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "MIDSTREAM_STORE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MIDSTREAM_HOME", str(tmp_path / "midstream"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def test_programs_with_sessions_are_listed(home: Path) -> None:
    told = _run("import").stdout
    assert "claude-code   1 session  (midstream import claude-code)\n" in told and "codex" in told
    assert "opencode" not in told


def test_sessions_of_a_program_are_listed(home: Path) -> None:
    told = _run("import", "claude-code")
    assert told.exit_code == 0
    assert ASKED in told.stdout and "[/srv/project]" in told.stdout and "5b0e0c1e" in told.stdout


@pytest.mark.parametrize("which", [["--last"], ["--all"], ["5b0e"], ["FILE"]])
def test_a_session_is_imported_and_what_stays_behind_is_told(home: Path, which: list[str]) -> None:
    file = next(home.glob(".claude/projects/*/*.jsonl"))
    told = _run("import", "claude-code", *[str(file) if word == "FILE" else word for word in which])
    assert told.exit_code == 0, told.output
    own = told.stdout.strip()
    assert "imported 6 turns of Claude Code" in told.stderr and "not carried over: 1 reminders" in told.stderr
    assert f"midstream chat --session {own[:8]} -m MODEL" in told.stderr
    shown = _run("sessions", "show", own).stdout
    assert ASKED in shown and "It is 4242, Captain." in shown and "toolu_" not in shown


@pytest.mark.parametrize(("program", "turns"), [("llm", 6), ("opencode", 6)])
def test_a_database_that_is_named_stands_for_its_latest_session(
    tmp_path: Path, home: Path, program: str, turns: int
) -> None:
    elsewhere = program_home(program, tmp_path / "elsewhere")
    (session,) = PROGRAMS[program].find(elsewhere)
    told = _run("import", program, session.path)
    assert told.exit_code == 0, told.output
    assert f"imported {turns} turns of {PROGRAMS[program].title}" in told.stderr
    (tmp_path / "note.txt").write_text("not a database")
    assert "cannot read" in _run("import", program, str(tmp_path / "note.txt")).stderr


def test_a_session_goes_on_with_another_model_in_one_command(home: Path) -> None:
    command = [sys.executable, "-m", "midstream.cli.main", "import", "claude-code", "--last", "-m", "sim/kimi-k2.5"]
    environ = {**os.environ, "MIDSTREAM_SIM_DELAY": "0"}
    told = subprocess.run(
        command, input="hello\n", env=environ, capture_output=True, text=True, timeout=60, check=True
    )  # a program of its own, since the chat reads the terminal's own descriptor
    assert "You said: hello" in told.stdout, told.stderr
    listed = _run("sessions", "list", "--json").stdout
    assert told.stdout.split()[0] in listed and '"turns":8' in listed and "sim/kimi-k2.5" in listed


def test_one_broken_session_does_not_keep_the_others_from_being_imported(home: Path) -> None:
    good = next(home.glob(".claude/projects/*/*.jsonl"))
    question = {"type": "user", "uuid": "u", "message": {"role": "user", "content": "Hello."}}
    failed = {"type": "assistant", "uuid": "a", "isApiErrorMessage": True, "message": {"role": "assistant"}}
    good.with_name("broken.jsonl").write_text(f"{json.dumps(question)}\n{json.dumps(failed)}\n")
    told = _run("import", "claude-code", "--all")
    assert told.exit_code != 0 and len(told.stdout.split()) == 1, told.output
    assert "not imported: broken: " in told.stderr and "holds no conversation" in told.stderr
    assert "1 of 2 sessions of Claude Code were not imported; see above" in told.stderr


def test_a_variable_says_where_a_program_keeps_its_sessions(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".claude").rename(home / "moved")
    told = _run("import", "claude-code")
    assert (
        told.exit_code != 0
        and f"no sessions of Claude Code were found in {home / '.claude' / 'projects'}" in told.stderr
    )
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "moved"))
    assert ASKED in _run("import", "claude-code").stdout


def test_a_file_that_is_named_gets_its_first_question_as_title(home: Path) -> None:
    file = next(home.glob(".codex/sessions/*/*/*/*.jsonl"))
    assert f"of Codex: {ASKED}\n" in _run("import", "codex", str(file)).stderr
    wrong = _run("import", "claude-code", str(file))
    assert wrong.exit_code != 0 and "holds no conversation of claude-code" in wrong.stderr


def test_a_damaged_database_does_not_hide_the_other_programs(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_USER_PATH", str(home))
    (home / "logs.db").write_bytes(b"no database")
    told = _run("import")
    assert told.exit_code == 0 and "claude-code   1 session" in told.stdout
    assert "cannot read" in told.stderr and "logs.db" in told.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["import", "--last"], "name the program"),
        (["import", "codex", "--last", "--all"], "give one of"),
        (["import", "codex", "-m", "sim/kimi-k2.5"], "-m continues one session: give"),
        (["import", "codex", "--all", "-m", "sim/kimi-k2.5"], "--all imports many"),
        (["import", "codex", "zzz"], "no session of Codex starts with 'zzz'"),
        (["import", "codex", "z" * 5000], "no session of Codex starts with 'zzz"),
        (["import", "codex", "z\0"], "no session of Codex starts with 'z"),
        (["import", "gemini-cli"], ".gemini/tmp; to import a file from elsewhere: midstream import gemini-cli FILE"),
        (["import", "claude-code", "--last", "--here"], "no sessions of Claude Code about this folder"),
        (["sessions", "export", "--to", "llm"], "cannot write sessions of 'llm'; expected one of claude-code"),
        (["sessions", "export", "--to", "codex", "--all"], "give only an ID with it"),
    ],
)
def test_what_cannot_be_done_is_said(home: Path, words: list[str], why: str) -> None:
    told = _run(*words)
    assert told.exit_code != 0 and why in told.stderr, told.output


def test_a_conversation_goes_to_another_program(home: Path) -> None:
    own = _run("import", "claude-code", "--last").stdout.strip()
    told = _run("sessions", "export", own, "--to", "codex")
    assert told.exit_code == 0, told.output
    assert told.stdout.startswith("codex resume ")
    assert "reasoning belongs to claude-sonnet-5" in told.stderr
    session = told.stdout.split()[-1]
    (path,) = home.glob(f".codex/sessions/*/*/*/*{session}.jsonl")
    assert path.stat().st_mode & 0o077 == 0, "only its owner may read it"
    assert session in _run("import", "codex").stdout
