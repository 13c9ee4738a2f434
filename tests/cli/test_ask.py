"""`midstream ask`: the answer on standard output, everything else on standard error, and the exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from midstream.cli.main import FAILED, INTERRUPTED, OK, RETRY, USAGE, code_for
from midstream.core.blocks import Conversation, Turn, human
from midstream.core.errors import (
    BadRequest,
    ConfigError,
    MidstreamError,
    MissingKey,
    Overloaded,
    QuotaExceeded,
    RateLimited,
    TimedOut,
    TruncatedStream,
    Unauthorized,
    UnknownModel,
    UnknownToolFormat,
)
from midstream.sim.server import Sim
from midstream.store import SqliteStore

from .conftest import Cli

KIMI = ("-m", "sim/kimi-k2.5")


def test_the_answer_alone_is_on_stdout(cli: Cli) -> None:
    result = cli("ask", *KIMI, "Hello", "there")
    assert result.exit_code == OK
    assert result.stdout == "This is kimi-k2.5. You said: Hello there\n"
    assert "No tool is needed here." in result.stderr


def test_a_cloned_project_redirects_no_model_that_is_named_in_full(cli: Cli, home: Path) -> None:
    Path(".midstream.toml").write_text('[aliases]\n"sim/kimi-k2.5" = "sim/gpt-4o"\n')
    result = cli("ask", *KIMI, "Hello")
    assert result.stdout == "This is kimi-k2.5. You said: Hello\n"
    assert "midstream: ignored: " in result.stderr and "this project is not trusted" in result.stderr
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(f'trusted_projects = ["{Path.cwd()}"]\n')
    done = subprocess.run(
        [str(Path(sys.executable).parent / "midstream"), "ask", *KIMI, "Hello"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == OK, done.stderr
    assert done.stdout == "This is gpt-4o. You said: Hello\n"
    (told,) = [line for line in done.stderr.splitlines() if "trust" in line]
    assert told.startswith("midstream: warning: sim/kimi-k2.5 means sim/gpt-4o here: ")


def test_what_is_piped_in_stands_before_the_question(cli: Cli) -> None:
    result = cli("ask", *KIMI, "What is it?", stdin="a diff\n")
    assert result.stdout.endswith("You said: a diff\n\nWhat is it?\n")
    assert cli("ask", *KIMI, stdin="only this\n").stdout.endswith("You said: only this\n")


def test_nothing_to_ask_is_wrong_usage(cli: Cli) -> None:
    result = cli("ask", *KIMI)
    assert result.exit_code == USAGE
    assert "no question given" in result.stderr


def test_tools_run_and_show_on_stderr(cli: Cli) -> None:
    result = cli("ask", *KIMI, "-T", "glob", "-T", "read_file", 'Glob "*.txt", then read notes.txt')
    assert result.exit_code == OK
    assert result.stdout.endswith("Here is what I found. glob says: notes.txt read_file says: buy milk\n")
    assert '⚙ glob(pattern="*.txt")' in result.stderr
    assert "✓ buy milk" in result.stderr


def test_an_unknown_tool_lists_those_there_are(cli: Cli) -> None:
    result = cli("ask", *KIMI, "-T", "rm", "Hello")
    assert result.exit_code == USAGE
    assert "read_file" in result.stderr


@pytest.mark.parametrize(
    ("flags", "made"),
    [((), False), (("--yolo",), True), (("--allow", "bash:touch*"), True), (("--allow", "bash:ls"), False)],
)
def test_with_nobody_to_ask_only_what_is_allowed_runs(cli: Cli, flags: tuple[str, ...], made: bool) -> None:
    result = cli("ask", *KIMI, *flags, "-T", "bash", 'Run bash "touch made"')
    assert result.exit_code == OK
    assert Path("made").exists() is made
    assert ("nobody is there to approve it" in result.stderr) is not made


def test_json_is_one_object(cli: Cli) -> None:
    result = cli("ask", *KIMI, "--json", "-T", "glob", 'Glob "*.txt"')
    found = msgspec.json.decode(result.stdout)
    assert found["text"] == "Here is what I found. glob says: notes.txt"
    assert found["stopped"] == "text"
    assert found["usage"]["output"] > 0
    assert [turn["speaker"] for turn in found["turns"]] == ["human", "ai", "tool", "ai"]
    assert found["session"]


def test_no_stream_prints_the_whole(cli: Cli) -> None:
    result = cli("ask", *KIMI, "--no-stream", "Hello")
    assert result.stdout == "This is kimi-k2.5. You said: Hello\n"


def test_continue_goes_on_with_another_model_and_keeps_it(cli: Cli) -> None:
    cli("ask", *KIMI, "-T", "glob", "--tool-format", "hermes", 'Glob "*.txt"')
    second = cli("ask", "-c", "-m", "sim/claude-sonnet-4-5", "And now?")
    assert second.stdout == "This is claude-sonnet-4-5. You said: And now?\n"
    assert cli("ask", "-c", "Third").stdout == "This is claude-sonnet-4-5. You said: Third\n"
    store = SqliteStore()
    infos = store.list()
    assert len(infos) == 1 and infos[0].turns == 8
    assert store.get_meta(infos[0].id, "tool_format") == "hermes"
    store.close()


def test_a_session_is_found_by_the_beginning_of_its_id(cli: Cli) -> None:
    session = msgspec.json.decode(cli("ask", *KIMI, "--json", "One").stdout)["session"]
    assert cli("ask", "--session", session[:6], "Two").exit_code == OK
    missing = cli("ask", "--session", "zzz", "Two")
    assert missing.exit_code == FAILED
    assert "midstream sessions" in missing.stderr


def test_continue_with_nothing_to_continue(cli: Cli) -> None:
    result = cli("ask", "-c", "Hello")
    assert (result.exit_code, result.stdout) == (FAILED, "")
    assert "no conversation to continue" in result.stderr


def test_continue_skips_what_was_never_answered(cli: Cli) -> None:
    store = SqliteStore()
    answered = msgspec.json.decode(cli("ask", *KIMI, "--json", "One").stdout)["session"]
    unanswered = store.create(Conversation((human("Never answered"),)))
    assert msgspec.json.decode(cli("ask", "-c", "--json", "Two").stdout)["session"] == answered
    imported = store.create(Conversation((human("Of old"), Turn("ai", ["Yes?"]))))
    assert msgspec.json.decode(cli("ask", "-c", *KIMI, "--json", "Three").stdout)["session"] == imported
    store.delete(answered)
    store.delete(imported)
    nothing = cli("ask", "-c", "Four")
    assert nothing.exit_code == FAILED and "--session ID" in nothing.stderr
    assert cli("ask", "--session", unanswered[:8], *KIMI, "Five").exit_code == OK
    store.close()


@pytest.mark.parametrize("command", ["ask", "chat"])
def test_continue_and_session_together_are_wrong_usage(cli: Cli, command: str) -> None:
    cli("ask", *KIMI, "One")
    result = cli(command, "--continue", "--session", "a", *(("Two",) if command == "ask" else ()))
    assert result.exit_code == USAGE and "both" in result.stderr and result.stdout == ""


def test_no_store_keeps_nothing(cli: Cli, home: Path) -> None:
    assert cli("ask", *KIMI, "--no-store", "Hello").exit_code == OK
    assert not home.exists()


def test_the_store_is_where_the_flag_or_the_environment_says(
    cli: Cli, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "elsewhere" / "chats.db"
    session = msgspec.json.decode(cli("ask", *KIMI, "--store", str(place), "--json", "One").stdout)["session"]
    assert not home.exists()
    assert session[:8] in cli("sessions", "--store", str(place)).stdout
    assert "One" in cli("sessions", "--store", str(place), "search", "one").stdout
    assert session[:8] not in cli("sessions").stdout
    monkeypatch.setenv("MIDSTREAM_STORE", str(place))
    assert session[:8] in cli("sessions").stdout
    assert "One" in cli("sessions", "show", session).stdout
    assert cli("doctor", session, "--look").exit_code == OK
    assert f"store = {place}    # $MIDSTREAM_STORE" in cli("config", "show", "--origin").stdout
    assert cli("sessions", "delete", "-y", session).exit_code == OK
    assert cli("sessions").stdout == ""


def test_the_system_prompt_and_thinking_are_sent(cli: Cli) -> None:
    result = cli("ask", *KIMI, "-s", "Be kind.", "--thinking", "off", "Hello")
    assert "No tool is needed" not in result.stderr
    store = SqliteStore()
    assert store.load(store.list(1)[0].id).system_text == "Be kind."
    store.close()
    bad = cli("ask", *KIMI, "--thinking", "loudly", "Hello")
    assert bad.exit_code == USAGE and "on, off" in bad.stderr
    assert cli("ask", *KIMI, "--allow", "bash:", "Hello").exit_code == USAGE


def test_without_a_key_it_says_which_to_set_and_what_needs_none(cli: Cli) -> None:
    for model, variable in (
        ("moonshot/kimi-k2.5", "MOONSHOT_API_KEY"),
        ("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
    ):
        result = cli("ask", "-m", model, "Hello")
        assert result.exit_code == FAILED
        assert variable in result.stderr and "that needs none: sim/kimi-k2.5" in result.stderr
        assert result.stderr.count("\n") == 1 and "Traceback" not in result.stderr


def test_the_default_model_is_the_one_whose_key_is_set(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIDSTREAM_MODEL", "sim/mistral-large-latest")
    assert cli("ask", "Hello").stdout.startswith("This is mistral-large-latest.")


def test_an_unknown_model_is_wrong_usage_and_suggests(cli: Cli) -> None:
    result = cli("ask", "-m", "moonshto/kimi-k2.5", "Hello")
    assert result.exit_code == USAGE
    assert "moonshot/kimi-k2.5" in result.stderr


@pytest.mark.parametrize(
    ("fault", "times", "code"),
    [("429", 9, RETRY), ("500", 9, RETRY), ("cut", 9, RETRY), ("429", 1, OK), ("cut", 1, RETRY)],
)
def test_bad_days_end_in_75_if_they_last(cli: Cli, doubles: Sim, fault: str, times: int, code: int) -> None:
    doubles.inject(fault, times)
    result = cli("ask", "-m", "moonshot/kimi-k2.5", "Hello")
    assert result.exit_code == code, result.stderr
    assert "Traceback" not in result.stderr


def test_json_tells_of_a_failure_too(cli: Cli, doubles: Sim) -> None:
    doubles.inject("429", 9)
    result = cli("ask", "-m", "moonshot/kimi-k2.5", "--json", "Hello")
    assert result.exit_code == RETRY
    assert msgspec.json.decode(result.stdout)["error"]["retryable"] is True


def test_a_pipe_gets_the_answer_as_it_came(cli: Cli) -> None:
    hostile = "A\x1b[31mB\x07C"
    assert hostile in cli("ask", *KIMI, "-R", stdin=hostile).stdout


def test_no_cursor_tricks_where_stderr_is_no_terminal(cli: Cli) -> None:
    result = cli("ask", *KIMI, "-T", "glob", 'Glob "*.txt"')
    assert "\x1b" not in result.output and "\r" not in result.output


def test_color_can_be_forced_into_a_pipe(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[2m" in cli("ask", *KIMI, "--color", "always", "Hello").stderr
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[2m" in cli("ask", *KIMI, "Hello").stderr
    assert "\x1b" not in cli("--color", "never", "ask", *KIMI, "Hello").stderr


def test_an_interrupt_ends_with_130_and_loses_nothing(home: Path, environ: dict[str, str]) -> None:
    command = [sys.executable, "-m", "midstream.cli.main", "ask"]
    with subprocess.Popen(
        [*command, *KIMI, "Tell me " + "more " * 20],
        env={**environ, "MIDSTREAM_SIM_DELAY": "0.3"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        seen = b""
        while b"No tool" not in seen:
            read = os.read(process.stderr.fileno(), 1000)
            assert read, seen  # it ended before it was interrupted
            seen += read
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == INTERRUPTED
    assert b"Traceback" not in err
    store = SqliteStore()
    turns = store.load(store.list(1)[0].id).turns
    store.close()
    assert [turn.speaker for turn in turns] == ["human", "ai"]
    assert turns[1].failure == "aborted" and "No tool" in turns[1].thinking
    again = Cli()("ask", "-c", "Hello again")
    assert again.stdout == "This is kimi-k2.5. You said: Hello again\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RateLimited("slow down"), RETRY),
        (Overloaded("busy"), RETRY),
        (TimedOut("late"), RETRY),
        (TruncatedStream("cut"), RETRY),
        (QuotaExceeded("no credit"), FAILED),
        (Unauthorized("who?"), FAILED),
        (BadRequest("no"), FAILED),
        (MissingKey("none"), FAILED),
        (ConfigError("bad"), FAILED),
        (UnknownModel("what?"), USAGE),
        (UnknownToolFormat("what?"), USAGE),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_error_has_its_code(error: MidstreamError, code: int) -> None:
    assert code_for(error) == code


_PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489")


def test_files_go_with_the_question(cli: Cli) -> None:
    Path("photo.jpg").write_bytes(_PNG)  # content says what it is, not the name
    result = cli("ask", *KIMI, "--json", "-a", "photo.jpg", "-a", "notes.txt", "What is it?")
    assert result.exit_code == OK
    text, media = msgspec.json.decode(result.stdout)["turns"][0]["blocks"]
    assert text["text"] == "What is it?\n\n[attached file: notes.txt]\n```\nbuy milk\n```\n"
    assert (media["type"], media["mime"], media["name"]) == ("media", "image/png", "photo.jpg")
    assert "does not read" not in result.stderr


def test_a_model_without_images_is_told_of_before_the_answer(cli: Cli) -> None:
    Path("photo.png").write_bytes(_PNG)
    result = cli("ask", "-m", "sim/deepseek-chat", "-a", "photo.png", "What is it?")
    told = "sim/deepseek-chat does not read image/png: it gets a line of text instead of photo.png\n"
    assert result.stderr.startswith(told)
    assert "[image omitted: photo.png]" in result.stdout


def test_standard_input_can_be_attached(cli: Cli) -> None:
    result = cli("ask", *KIMI, "--json", "-a", "-", "What is it?", stdin=_PNG)
    blocks = msgspec.json.decode(result.stdout)["turns"][0]["blocks"]
    assert [block["type"] for block in blocks] == ["text", "media"]
    alone = cli("ask", *KIMI, "-a", "-", stdin="words\n")
    assert "[attached file: standard input]" in alone.stdout


def test_an_at_sign_in_a_question_is_only_that(cli: Cli) -> None:
    """A script's question may be anybody's text: files are named with -a."""
    assert cli("ask", *KIMI, "Read @notes.txt").stdout == "This is kimi-k2.5. You said: Read @notes.txt\n"


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("-a", "none.png"), FAILED, "cannot attach none.png: no such file"),
        (("-a", "."), FAILED, "it is a folder"),
        (("-a", "-", "-a", "-"), USAGE, "can be read only once"),
        (("-a", "-"), FAILED, "standard input: it is empty"),
        (("-a", "https://example.com/"), FAILED, "download it and attach the file"),
        (("-a", ".env"), FAILED, ".env was not sent: its name says that it may hold keys"),
    ],
)
def test_what_cannot_be_attached(cli: Cli, args: tuple[str, ...], code: int, words: str) -> None:
    Path(".env").write_text("A=1")
    result = cli("ask", *KIMI, *args, "What is it?")
    assert (result.exit_code, result.stdout) == (code, "")
    assert words in result.stderr
