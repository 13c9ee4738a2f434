"""/compact, its undo, and summaries that come by themselves: in a chat from a pipe, and in a terminal of 40 columns."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from midstream.core.blocks import Conversation
from midstream.core.compaction import sent_turns
from midstream.store import SqliteStore, read_jsonl
from tests.cli.terminal import Terminal

LONG = "Tell me more. " + "word " * 200


def chat(environ: dict[str, str], *lines: str, args: tuple[str, ...] = ()) -> tuple[str, int]:
    done = subprocess.run(
        [sys.executable, "-m", "midstream.cli.main", "chat", *(args or ("-m", "sim/kimi-k2.5"))],
        input="".join([line + "\n" for line in lines]),
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.stderr, done.returncode


def stored() -> Conversation:
    with closing(SqliteStore()) as store:
        return store.load(store.list(1)[0].id)


@pytest.fixture
def small_window(home: Path) -> Path:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text('[models."sim/claude-sonnet-4-5"]\ncontext = 1500\n')
    return home


def test_a_summary_is_made_shown_kept_and_taken_back(environ: dict[str, str]) -> None:
    err, code = chat(
        environ, "/compact", *[LONG] * 6, "/compact the budget is 4711", "/wire", "/compact undo", "/compact undo"
    )
    assert code == 1  # the last command had nothing to do, and nobody was there to see it
    assert "nothing to summarise: the conversation has only its last turns" in err
    assert "(sim/kimi-k2.5 summarises the first " in err
    assert "(summarised: about " in err and "/compact undo brings them back)" in err
    shown = err.partition("POST ")[2].partition("undone:")[0]
    assert (
        "(your next message)" in shown
        and "- the budget is 4711" in shown
        and "a summary is sent in place of the" in shown
    )
    assert "undone: models are sent the original turns again; context: " in err
    assert "nothing to undo: no turns of this conversation are summarised" in err
    marks = [turn.compacted.action for turn in stored().turns if turn.compacted is not None]
    assert marks == ["summary", "undo"]


def test_undo_takes_back_a_summary_just_made_and_then_the_exchange(environ: dict[str, str]) -> None:
    err, _ = chat(environ, *[LONG] * 6, "/compact", "/undo", "/undo", "Go on.", "/compact", "One more.", "/undo")
    assert "undone: models are sent the original turns again" in err
    assert "undone: Tell me more." in err and "undone: One more." in err
    left = stored()
    assert (
        sent_turns(left.turns).summary == len(left.turns) - 1
    )  # the message behind the summary is undone, not the summary


def test_a_summarised_conversation_is_resumed_listed_and_exported(environ: dict[str, str]) -> None:
    chat(environ, *[LONG] * 6, "/compact")
    before = stored()
    again = ("--continue",)
    err, _ = chat(environ, "/export md talk.md", "/export jsonl talk.jsonl", "Go on.", args=again)
    assert "(models are sent a summary in place of the first " in err
    assert "› [The conversation before" not in err
    with (Path.cwd() / "talk.jsonl").open("rb") as file:
        (entry,) = read_jsonl(file)
    assert entry.conversation == before
    text = (Path.cwd() / "talk.md").read_text()
    assert (
        text.startswith("# Tell me more.") and "## Summary of the first 9 turns, sent to models in their place" in text
    )
    assert text.count("Tell me more.") > 6
    assert stored().turns[: len(before.turns)] == before.turns


def test_a_change_to_a_smaller_window_says_what_will_be_done_and_does_it(
    small_window: Path, environ: dict[str, str]
) -> None:
    err, code = chat(environ, *[LONG] * 8, "/model sim/claude-sonnet-4-5", "Go on.")
    told = "compaction: with your next message, sim/kimi-k2.5 first summarises the earlier turns"
    done = "(sim/kimi-k2.5 summarises the first "
    assert code == 0 and 0 < err.index(told) < err.index(done)
    assert "the conversation does not fit the window of the new model" in err
    assert err.index(done) < err.index("(sim/claude-sonnet-4-5 · ")


def test_it_can_be_turned_off(small_window: Path, environ: dict[str, str]) -> None:
    config = small_window / "config.toml"
    config.write_text(config.read_text() + '[chat]\ncompact = "off"\n')
    err, _ = chat(environ, *[LONG] * 8, "/model sim/claude-sonnet-4-5", "Go on.")
    assert "too long: it will not fit" in err and "summarises" not in err


def test_a_setting_that_makes_no_sense_is_told(home: Path, environ: dict[str, str]) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text('[chat]\ncompact = "sometimes"\n')
    err, code = chat(environ, "Hello")
    assert code and "compact" in err and "config.toml" in err


def test_a_summary_that_is_refused_leaves_the_bar_as_it_was(environ: dict[str, str]) -> None:
    terminal = Terminal("chat", "-m", "sim/kimi-k2.5", environ=environ)
    try:
        terminal.wait_for("~")
        for number in range(2):
            terminal.enter("Hi.")
            terminal.wait_for("(sim/kimi-k2.5 · ", count=number + 1)
        terminal.wait_for_prompt()
        before = terminal.wait_for("4 turns · ").splitlines()[-1]
        terminal.enter("/compact")
        terminal.wait_for("(not summarised: ")
        terminal.wait_for_prompt()
        after = terminal.wait_for("4 turns · ").splitlines()[-1]
        assert "~" not in after and after.rpartition(" · ")[0] == before.rpartition(" · ")[0]  # the cost is another
        assert len(stored().turns) == 5  # what it cost
        terminal.enter("/usage")
        terminal.wait_for("sim/kimi-k2.5: 3 answers")
    finally:
        terminal.close()


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_bar_and_the_summary_in_a_terminal(environ: dict[str, str], columns: int) -> None:
    terminal = Terminal("chat", "-m", "sim/kimi-k2.5", environ=environ, columns=columns, rows=30)
    try:
        terminal.wait_for("~")
        for number in range(3):
            terminal.enter("Tell me more. " + "word " * 60)
            terminal.wait_for("(sim/kimi-k2.5 · ", count=number + 1)
        begins = "\nsim/kimi-k2.5 · " if columns == 40 else "6 turns · "
        bar = terminal.wait_for(begins).splitlines()[-1]
        assert ("/262k <1% · $" if columns == 40 else " of 262,144 tokens (<1%) · $") in bar, bar
        terminal.enter("/compact the budget")
        terminal.wait_for("(summarised:")
        terminal.wait_for("context: ~")
        terminal.enter("/exit")
        assert terminal.wait_for_end() == 0
    finally:
        terminal.close()
