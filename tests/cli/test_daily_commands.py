"""The commands of a day at the terminal: !command, /title, /resume, /diff, /retry, /compare, vi keys, the bell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from midstream.cli import commands  # noqa: F401  (registers the slash commands)
from midstream.cli.slash import COMMANDS
from midstream.core.blocks import Text
from midstream.store import SqliteStore

from .terminal import Open, Terminal

ALLOW = "Allow this?"


def chat(opened: Open, *args: str, model: str = "sim/kimi-k2.5", **changes: str) -> Terminal:
    terminal = opened("chat", "-m", model, *args, **changes)
    terminal.wait_for("›")
    return terminal


def conversations() -> list[list[str]]:
    """What was said in each stored conversation, the newest first: human messages, and the models that answered."""
    store = SqliteStore()
    try:
        found = [store.load(info.id) for info in store.list()]
    finally:
        store.close()
    return [
        [
            turn.text if turn.speaker == "human" else f"<{turn.origin.model}>" if turn.origin else "<?>"
            for turn in conversation.turns
            if turn.speaker in ("human", "ai")
        ]
        for conversation in found
    ]


def test_a_shell_command_shows_its_output_and_goes_with_the_next_message(opened: Open) -> None:
    terminal = chat(opened, "--no-tools", SHELL="/bin/sh", MOONSHOT_API_KEY="sk-canary-1234567890")
    terminal.enter("!")
    terminal.wait_for("its output goes with your next message")
    terminal.enter(
        "!printf 'mil\\033[31mk\\033[0m\\n\\033]0;PWNED\\007\\342\\200\\256x\\n'; echo $MOONSHOT_API_KEY; exit 3"
    )
    terminal.wait_for("(exit code 3; goes with your next message")
    assert "\nmilk\n" in terminal.screen
    assert b"PWNED" not in terminal.raw.partition(b"sim/kimi")[2].rpartition(b"canary")[2]
    assert conversations() == []
    terminal.enter("What was that?")
    terminal.wait_for("out ·")
    store = SqliteStore()
    turns = store.load(store.list(1)[0].id).turns
    store.close()
    assert [turn.speaker for turn in turns] == ["human", "ai"]
    output, question = turns[0].blocks
    assert isinstance(output, Text) and isinstance(question, Text)
    assert question.text == "What was that?"
    assert output.text.startswith("I ran this command in my shell:\n$ printf")
    assert output.text.endswith("milk\n\\u{202e}x\n‹MOONSHOT_API_KEY›\n[exit code 3]")
    assert "\x1b" not in output.text and "canary" not in output.text

    terminal.enter("!echo not this one")
    terminal.wait_for("(exit code 0;")
    terminal.enter("/undo")
    terminal.wait_for("which was not sent yet")
    terminal.enter(" !is text")
    terminal.wait_for("out ·", count=2)
    assert conversations()[0][2] == " !is text"


def test_a_shell_command_is_stopped_with_all_it_started_and_is_bounded(opened: Open, tmp_path: Path) -> None:
    terminal = chat(opened, "--no-tools", SHELL="/bin/sh")
    terminal.enter(
        f"!trap '' INT; (sleep 300; touch {tmp_path}/late) & echo $! > {tmp_path}/pid; echo going; sleep 300"
    )
    terminal.wait_for("\ngoing")
    terminal.type("\x1b")
    terminal.wait_for("(stopped; goes with your next message")
    pid = int((tmp_path / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]
    terminal.enter("!seq 100000")
    terminal.wait_for("… 99,800 more lines")
    terminal.enter("Thanks")
    terminal.wait_for("out ·")
    said = conversations()[0][0]
    assert "bytes of output cut" in said and "99999\n100000" in said and len(said) < 80_000


def test_a_piped_line_runs_nothing(environ: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "midstream.cli.main", "chat", "-m", "sim/kimi-k2.5"],
        input="!touch made\n",
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "only at a terminal" in done.stderr and done.returncode == 1
    assert not Path("made").exists()


def test_a_title_is_set_and_shown_and_the_picker_resumes(opened: Open) -> None:
    first = chat(opened)
    first.enter("/title Too early")
    first.wait_for("not stored yet")
    first.enter("Of rivers")
    first.wait_for("out ·")
    first.enter("/title")
    first.wait_for("title: Of rivers (its first words")
    first.enter("/title The  long\u202e river")
    first.wait_for("title: The long\\u{202e} river")
    first.wait_for("sim/kimi-k2.5 · The long\\u{202e} river · ")
    first.enter("/exit")
    assert first.wait_for_end() == 0

    second = chat(opened)
    second.enter("Of mountains")
    second.wait_for("out ·")
    second.enter("/resume")
    shown = second.wait_for("2 of 2:")
    assert "> Of mountains · now · 2 turns · " in shown and "  The long" in shown
    second.type("\x1b")
    second.wait_for_end_of("2 of 2:")
    second.enter("/resume")
    second.wait_for("2 of 2:")
    second.type("RIV")
    second.wait_for("1 of 2:")
    second.type("zz")
    second.wait_for("no matches")
    second.type("\x7f\x7f")
    second.wait_for("> The long")
    second.type("\r")
    second.wait_for("You said: Of rivers")
    second.enter("And the sea?")
    second.wait_for("You said: And the sea?")
    second.wait_for("out ·", count=2)
    assert [said[0::2] for said in conversations()] == [["Of rivers", "And the sea?"], ["Of mountains"]]
    second.enter("/resume")
    second.wait_for("2 of 2:")
    second.type("\x1b[B")
    second.wait_for("> Of mountains")
    second.type("\r")
    second.wait_for("You said: Of mountains", count=2)


def test_retry_keeps_the_first_answer_in_the_store(opened: Open) -> None:
    terminal = chat(opened)
    terminal.enter("/retry")
    terminal.wait_for("nothing was said yet")
    terminal.enter("First")
    terminal.wait_for("out ·")
    terminal.enter("Second")
    terminal.wait_for("out ·", count=2)
    terminal.enter("/retry")
    terminal.wait_for("answering again; the full conversation is still stored as")
    terminal.wait_for("out ·", count=3)
    terminal.enter("/retry sim/claude-sonnet-4-5")
    terminal.wait_for("model: sim/claude-sonnet-4-5")
    terminal.wait_for("out ·", count=4)
    terminal.enter("/retry moonshot/kimi-k2.5")
    terminal.wait_for("MOONSHOT_API_KEY")
    both, claude = ["First", "<kimi-k2.5>", "Second", "<kimi-k2.5>"], "<claude-sonnet-4-5>"
    assert conversations() == [[*both[:3], claude], both, both]
    terminal.enter("Third")
    terminal.wait_for("out ·", count=5)
    assert conversations()[0] == [*both[:3], claude, "Third", claude]


@pytest.mark.parametrize("columns", [90, 140])
def test_compare_shows_both_answers_and_keeps_one(opened: Open, columns: int) -> None:
    terminal = opened("chat", "-m", "sim/kimi-k2.5", columns=columns)
    terminal.wait_for("›")
    terminal.enter("/compare")
    terminal.wait_for("/compare needs a model")
    terminal.enter("Read notes.txt")
    terminal.wait_for("out ·")
    terminal.enter("/compare sim/claude-sonnet-4-5")
    terminal.wait_for("it may use only tools that read: read_file, glob, grep")
    screen = terminal.wait_for("Keep which answer?")
    row = next(line for line in screen.splitlines() if line.startswith("1 · "))
    assert ("2 · sim/claude" in row) == (columns >= 100)
    assert screen.count("buy milk") >= 3 and "2 · sim/claude-sonnet-4-5" in screen
    terminal.enter("")
    terminal.wait_for("kept 1; the other answer is stored as")
    kimi, claude = ["Read notes.txt", *["<kimi-k2.5>"] * 2], ["Read notes.txt", *["<claude-sonnet-4-5>"] * 2]
    assert conversations() == [kimi, claude]
    terminal.enter("/compare sim/claude-sonnet-4-5")
    terminal.wait_for("Keep which answer?", count=2)
    terminal.enter("2")
    terminal.wait_for("kept 2; the other answer is stored as")
    terminal.enter("Thanks")
    terminal.wait_for("You said: Thanks")
    terminal.wait_for("(sim/claude-sonnet-4-5 ·")
    assert conversations() == [[*claude, "Thanks", "<claude-sonnet-4-5>"], kimi, claude]


def git(*arguments: str) -> None:
    about = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *about, *arguments], check=True, capture_output=True, timeout=30)


@pytest.mark.parametrize("repository", [False, True], ids=["folder", "git"])
def test_diff_shows_what_the_tools_changed(opened: Open, repository: bool) -> None:
    Path("data.bin").write_bytes(b"\0\1\2")
    Path("change.sh").write_text("echo bread >> notes.txt; printf '\\0ab' > data.bin; echo new > made.txt\n")
    if repository:
        git("init")
        git("add", "notes.txt", "data.bin")
        git("commit", "-m", "one")
    Path("mine.txt").write_text("of the user\n")
    terminal = chat(opened, model="sim/gpt-4o")
    terminal.enter("/diff")
    terminal.wait_for("no tool has changed a file in this chat")
    terminal.enter('Write hello.txt "one"')
    terminal.wait_for(ALLOW)
    terminal.enter("y")
    terminal.wait_for("out ·")
    terminal.enter('Run bash "sh change.sh"')
    terminal.wait_for(ALLOW, count=2)
    terminal.enter("y")
    terminal.wait_for("out ·", count=2)
    terminal.enter("/diff")
    terminal.wait_for("@@ hello.txt: creates a file: 1 line")
    terminal.wait_for("+one")
    if repository:
        screen = terminal.wait_for("@@ notes.txt: edits the file: 1 line before, 2 lines after (+1 -0)")
        screen = terminal.wait_for("+bread")
        assert "@@ data.bin: changed, but cannot be shown: a binary file of 3 bytes" in screen
        assert "@@ made.txt: creates a file" in screen and "+new" in screen
        assert "@@ mine.txt" not in screen
    else:
        terminal.wait_for("(what commands changed is not known: not a git repository")
        assert "+bread" not in terminal.screen
    terminal.enter("/diff hello.txt")
    terminal.wait_for("@@ hello.txt", count=2)
    terminal.enter("/diff nothing.txt")
    terminal.wait_for("no tool changed nothing.txt")


def settings(home: Path, text: str) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(text)


def test_vi_keys_by_setting(opened: Open, home: Path) -> None:
    settings(home, "[chat]\nvi = true\n")
    terminal = chat(opened)
    terminal.type("one two\x1b")
    terminal.wait_for("› one two")
    terminal.type("bcwthree\x1b")
    terminal.wait_for("› one three")
    terminal.type("\r")
    terminal.wait_for("You said: one three")


@pytest.mark.parametrize(
    ("how", "after", "heard"),
    [
        ("off", 0, b""),
        ("bell", 0, b"\a"),
        ("osc9", 0, b"\x1b]9;midstream: sim/kimi-k2.5 has answered ("),
        ("osc9", 3600, b""),
    ],
)
def test_a_long_answer_is_told_by_setting(opened: Open, home: Path, how: str, after: int, heard: bytes) -> None:
    settings(home, f'[chat]\nnotify = "{how}"\nnotify_after = {after}\n')
    terminal = chat(opened)
    terminal.enter("Hello")
    terminal.wait_for("out ·")
    terminal.enter("/exit")
    assert terminal.wait_for_end() == 0
    assert (heard in terminal.raw) if heard else b"\a" not in terminal.raw


def test_the_page_about_the_terminal_names_every_command() -> None:
    page = (Path(__file__).parents[2] / "docs" / "terminal.md").read_text("utf-8")
    assert [command.name for command in COMMANDS if f"`/{command.name}" not in page] == []
