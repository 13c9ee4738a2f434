"""Attachments in the chat: what is typed, dropped and pasted into a real terminal, and what is told before it is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from midstream.core.blocks import Media

from .terminal import Open, Terminal
from .test_attachment import PNG
from .test_chat_terminal import stored
from .test_commands import Script

KIMI = ("chat", "-m", "sim/kimi-k2.5", "--no-tools")
BLIND = "sim/deepseek-chat"


@pytest.fixture
def opened(opened: Open) -> Open:
    """Terminals in a folder with two pictures, at their prompt."""
    Path("photo.png").write_bytes(PNG)
    Path("my photo.png").write_bytes(PNG)

    def open_terminal(*args: str, **how: Any) -> Terminal:
        terminal = opened(*args, **how)
        terminal.wait_for("›")
        return terminal

    return open_terminal


def test_files_are_named_completed_attached_and_shown_by_name_when_resumed(opened: Open) -> None:
    terminal = opened(*KIMI)
    terminal.type("Read @not")
    terminal.wait_for("@notes.txt")
    terminal.type("\t")
    terminal.wait_for("Read @notes.txt")
    terminal.enter(" please, me@example.com")
    screen = terminal.wait_for("attached: notes.txt (text, 9 B)")
    terminal.wait_for("(sim/kimi-k2.5 · ")
    terminal.enter("/attach photo.png")
    terminal.wait_for("attached: photo.png (image/png, 70 B); it goes with your next message")
    terminal.enter("/attach")
    terminal.wait_for("1. photo.png (image/png, 70 B)")
    terminal.enter("What is on it?")
    terminal.wait_for("You said: What is on it?")
    terminal.wait_for("(sim/kimi-k2.5 · ", count=2)
    terminal.enter("/attach")
    terminal.wait_for("nothing is attached")
    terminal.enter("/exit")
    assert terminal.wait_for_end() == 0
    assert "does not read" not in screen

    turns = stored().turns
    assert turns[0].text == ("Read @notes.txt please, me@example.com\n\n[attached file: notes.txt]\n```\nbuy milk\n```")
    assert [type(block).__name__ for block in turns[2].blocks] == ["Text", "Media"]
    again = opened("chat", "--continue")
    screen = again.wait_for("[image: photo.png]")
    assert "› Read @notes.txt please, me@example.com\n[file: notes.txt, 1 line]" in screen


def test_a_model_that_reads_no_images_is_told_of_before_anything_is_sent(opened: Open) -> None:
    terminal = opened("chat", "-m", BLIND)
    told = f"{BLIND} does not read image/png: it gets a line of text instead of photo.png"
    terminal.enter("/attach photo.png")
    terminal.wait_for(told)
    terminal.enter("/model sim/kimi-k2.5")
    terminal.wait_for("model: sim/kimi-k2.5")
    terminal.enter(f"/model {BLIND}")
    terminal.wait_for(told, count=2)
    terminal.enter("/attach remove photo.png")
    terminal.wait_for("removed: photo.png")
    terminal.enter("Look at @photo.png")
    screen = terminal.wait_for(told, count=3)
    assert "[image omitted: photo.png]" not in screen
    terminal.wait_for("[image omitted: photo.png]")


def test_a_dropped_file_becomes_a_mention_or_is_attached(opened: Open) -> None:
    terminal = opened(*KIMI)
    path = Path("my photo.png").absolute()
    quoted = str(path).replace(" ", "\\ ")
    terminal.type(f"\x1b[200~{quoted}\x1b[201~")
    terminal.wait_for_words(f'@"{path}"')
    terminal.enter("what is it?")
    terminal.wait_for_words("my photo.png (image/png, 70 B)")
    terminal.wait_for("(sim/kimi-k2.5 · ")
    terminal.type("\x1b[200~two lines,\rnot a file\x1b[201~")
    terminal.wait_for("not a file")
    terminal.enter("")
    terminal.wait_for("(sim/kimi-k2.5 · ", count=2)
    terminal.enter(f"file://{str(path).replace(' ', '%20')}")
    terminal.wait_for_words("my photo.png (image/png, 70 B); it goes with your next message")
    terminal.enter("And this?")
    terminal.wait_for("(sim/kimi-k2.5 · ", count=3)
    said = [turn for turn in stored().turns if turn.speaker == "human"]
    assert [len([block for block in turn.blocks if type(block) is Media]) for turn in said] == [1, 0, 1]
    assert said[1].text == "two lines,\nnot a file" and said[2].text == "And this?"


def test_a_file_of_keys_is_asked_about(opened: Open) -> None:
    Path(".env").write_text("KEY=canary")
    terminal = opened(*KIMI)
    terminal.enter("Explain @.env")
    question = ".env: its name says that it may hold keys or passwords (.env)Send it to sim/kimi-k2.5?"
    terminal.wait_for_words(question)
    terminal.enter("n")
    terminal.wait_for("not sent")
    terminal.enter("/attach .env")
    terminal.wait_for_words(question, count=2)
    terminal.type("\x1b")
    terminal.wait_for("›")
    terminal.enter("/attach")
    terminal.wait_for("nothing is attached")
    terminal.enter("Explain @.env")
    terminal.wait_for_words(question, count=3)
    terminal.enter("y")
    terminal.wait_for("(sim/kimi-k2.5 · ")
    turns = stored().turns
    assert len(turns) == 2 and "KEY=canary" in turns[0].text


def test_an_image_from_the_clipboard(opened: Open, tmp_path: Path, environ: dict[str, str]) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "image").write_bytes(PNG)
    script = tools / "wl-paste"
    script.write_text(f'#!/bin/sh\ncase "$*" in *list*) echo image/png;; *) cat {tools}/image;; esac\n')
    script.chmod(0o755)
    terminal = opened(*KIMI, PATH=f"{tools}:{environ['PATH']}", WAYLAND_DISPLAY="wayland-0")
    terminal.type("What is \x16")
    terminal.wait_for("attached: pasted-1.png (image/png, 70 B)")
    terminal.enter("this?")
    terminal.wait_for("You said: What is this?")
    terminal.wait_for("(sim/kimi-k2.5 · ")
    terminal.enter("/paste")
    terminal.wait_for("attached: pasted-2.png (image/png, 70 B)")
    bare = opened(*KIMI, WAYLAND_DISPLAY="", DISPLAY="", WSL_DISTRO_NAME="")
    bare.enter("/paste")
    bare.wait_for("there is no clipboard here: no desktop session")


def test_what_cannot_be_attached_is_told_and_the_message_not_sent(opened: Open) -> None:
    Path("data.bin").write_bytes(b"\0\xff" * 50)
    terminal = opened(*KIMI)
    terminal.enter("Read @data.bin")
    terminal.wait_for_words("not sent: cannot attach data.bin: no model reads application/octet-stream as it is")
    terminal.enter("Read `@data.bin`")
    terminal.wait_for("You said: Read")
    terminal.enter("/attach none.png notes.txt")
    terminal.wait_for("cannot attach none.png: no such file")
    terminal.enter("/attach remove none.png")
    terminal.wait_for("'none.png' is not attached (attached: nothing)")
    terminal.enter("/attach *.png notes.txt")
    terminal.wait_for("attached: photo.png")
    terminal.enter("/attach remove 1 notes.txt")
    terminal.wait_for("removed: notes.txt")
    terminal.enter("/attach remove all")
    terminal.wait_for("removed: photo.png")


def test_a_folder_is_listed_and_its_texts_go_along(opened: Open) -> None:
    Path("src").mkdir()
    Path("src/main.py").write_text("print('hi')\n")
    terminal = opened(*KIMI)
    terminal.enter("Review @src/")
    terminal.wait_for("attached: src/ (folder, 1 file listed, 1 of them included")
    terminal.wait_for("(sim/kimi-k2.5 · ")
    assert "[attached folder: src/]\n```\nmain.py\n```\n\n[attached file: src/main.py]" in stored().turns[0].text


def test_what_comes_through_a_pipe_names_no_files(environ: dict[str, str]) -> None:
    """It may be anybody's text; only what somebody types at a terminal takes a file along."""
    Path(".env").write_text("KEY=canary")
    Path("photo.png").write_bytes(PNG)
    out, err = Script(environ)("About @notes.txt", str(Path("photo.png").absolute()), "/attach .env", args=KIMI[1:])
    assert "You said: About @notes.txt" in out and "buy milk" not in out
    assert ".env was not attached" in err and "there is nobody to ask" in err
    said = [turn for turn in stored().turns if turn.speaker == "human"]
    assert [[type(block).__name__ for block in turn.blocks] for turn in said] == [["Text"], ["Text"]]
    assert said[0].text == "About @notes.txt"
    Script(environ)("/attach photo.png", "What is it?", args=KIMI[1:])
    assert [type(block).__name__ for block in stored().turns[0].blocks] == ["Text", "Media"]


@pytest.mark.parametrize(("answer", "code"), [("n", 1), ("y", 0)])
def test_ask_asks_before_it_sends_a_file_of_keys(environ: dict[str, str], answer: str, code: int) -> None:
    Path(".env").write_text("KEY=canary")
    terminal = Terminal("ask", "-m", "sim/kimi-k2.5", "-a", ".env", "Explain", environ=environ)
    try:
        terminal.wait_for_words("Send it to sim/kimi-k2.5? [y]es, [n]o:")
        terminal.enter(answer)
        assert terminal.wait_for_end() == code
        assert ("KEY=canary" in terminal.screen) is (answer == "y")
    finally:
        terminal.close()
