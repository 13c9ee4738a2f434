"""Every screen of the chat once, in terminals of all kinds: readable, nothing cut without a mark.

The scenes are in tests/data/screens/scenes.json. They are played one after another in one chat for each terminal. `do` is what the
human does (`enter` a line, `type` keys, `wait` for words, be `ready` for the next line, take a `shot`), `shows` what must be on
the screen then, in any rows. What a narrow screen shows must be what a wide one shows, unless a mark says that it was cut
or `varies` says why. A command without a scene fails the test. MIDSTREAM_SCREENS=FOLDER keeps the screens as text.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from midstream.cli import commands  # noqa: F401  (registers the slash commands)
from midstream.cli import terminal as terminal_module
from midstream.cli.slash import COMMANDS

from ..long_run import cases
from .terminal import Terminal

DATA = Path(__file__).parents[1] / "data" / "screens" / "scenes.json"
TERMINALS: dict[str, tuple[int, dict[str, str]]] = {
    "200": (200, {}),
    "80": (80, {}),
    "40": (40, {}),
    "80, NO_COLOR": (80, {"NO_COLOR": "1"}),
    "80, dumb": (80, {"TERM": "dumb"}),
    "40, dumb": (40, {"TERM": "dumb"}),
    "200, dumb": (200, {"TERM": "dumb"}),
    "40, C": (40, {"LC_ALL": "C"}),
    "80, dumb and C": (80, {"TERM": "dumb", "LC_ALL": "C"}),
}
QUICK = {"200", "40", "80, NO_COLOR", "200, dumb", "80, dumb and C"}
PATIENCE = 30.0
COLOR = re.compile(rb"\x1b\[[0-9;]*\b(?:3[0-7]|9[0-7]|38)[0-9;]*m")


class Scene(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    do: list[list[str]]
    shows: list[str]
    needs: str = ""
    uses: str = ""
    varies: str = ""
    ends: bool = False

    @property
    def commands(self) -> set[str]:
        typed = [step[1] for step in self.do if step[0] == "enter"]
        return {line[1:].split()[0] for line in typed if re.match(r"/\w", line)} - {"frok"}

    def fits(self, dumb: bool) -> bool:
        known = {command.name for command in COMMANDS}
        return self.commands <= known and self.needs != ("cursor" if dumb else "no cursor")


SCENES = [msgspec.convert(scene, Scene) for scene in json.loads(DATA.read_text("utf-8"))]


class Stage:
    """A chat in a terminal, seen scene by scene."""

    def __init__(self, terminal: Terminal, shows: Callable[[str], str]) -> None:
        self.terminal = terminal
        self._as_shown = shows
        self._from = 0
        self._entered = -1
        self.shots: list[str] = []

    def play(self, scene: Scene) -> str:
        """What the scene put on the screen."""
        self.shots = []
        self._from = self._rows() - 1 if scene.name != "greeting" else 0
        for step in scene.do:
            match step:
                case ["enter", line]:
                    self._entered = self.terminal.rows_above_cursor
                    self.terminal.enter(line)
                case ["type", keys]:
                    self.terminal.type(keys)
                case ["wait", words]:
                    self.wait(words)
                case ["ready"]:
                    self.ready()
                case ["shot"]:
                    self.shots.append(self.shown())
        for words in scene.shows:
            self.wait(words)
        if not scene.ends:
            self.ready()
        self.shots.append(self.shown())
        return "\n".join(self.shots)

    def wait(self, words: str) -> None:
        wanted = squeezed(self._as_shown(words))
        self._until(lambda: wanted in squeezed(self.shown()), f"no {words!r}")

    def ready(self) -> None:
        """Until a prompt below what was entered waits for a line."""
        self._until(
            lambda: (
                self.terminal.cursor_line == self._as_shown("›") and self.terminal.rows_above_cursor > self._entered
            ),
            "no prompt",
        )

    def shown(self) -> str:
        return "\n".join(self.terminal.screen.split("\n")[self._from :])

    def _rows(self) -> int:
        """How many rows there are down to the cursor."""
        return self.terminal.rows_above_cursor + 1

    def _until(self, holds: object, what: str) -> None:
        end = time.monotonic() + PATIENCE
        assert callable(holds)
        while not holds():
            if not self.terminal.pump() or time.monotonic() > end:
                raise AssertionError(f"{what} on the screen:\n{self.shown()}")


def signs_of(name: str) -> Callable[[str], str]:
    """How a text looks in this terminal: the C locale has only ASCII."""
    if TERMINALS[name][1].get("LC_ALL") != "C":
        return str
    return lambda text: text.translate(terminal_module._STAND_INS).encode("ascii", "replace").decode()


def squeezed(text: str) -> str:
    return "".join(text.split())


def words_of(shown: str) -> str:
    """The text of a screen without what differs between two runs, or is broken differently by another width."""
    text = re.sub(r"in: 1 line, \d+ characters", "in:", shown)
    text = re.sub(r"(?m)^ *[│┆|:] ", "", text)  # the bars before the rows of an approval
    text = "".join(text.split())
    ids = r"(?:toolu|call|functions)[_.][\w-]+|(?:storedas|inacopy,|;)[0-9a-f]{8}"
    return re.sub(rf"{ids}|[0-9]+(?:[.,][0-9]+)*", "#", text)


def difference(here: str, there: str) -> str:
    """Where two texts begin to differ, if they do."""
    pairs = enumerate(zip(here, there, strict=False))
    place = next((place for place, (one, other) in pairs if one != other), min(len(here), len(there)))
    return (
        ""
        if here == there
        else f"…{here[max(0, place - 40) : place + 40]}\n  but: …{there[max(0, place - 40) : place + 40]}"
    )


@pytest.fixture(scope="module")
def screens(tmp_path_factory: pytest.TempPathFactory) -> Screens:
    return Screens(tmp_path_factory)


class Screens:
    """The screens of each terminal, made when they are first asked for."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._made: dict[str, dict[str, str]] = {}
        self.raw: dict[str, bytes] = {}

    def __call__(self, name: str, environ: dict[str, str]) -> dict[str, str]:
        if name not in self._made:
            self._made[name] = self._play(name, environ)
            keep(name, self._made[name])
        return self._made[name]

    def _play(self, name: str, environ: dict[str, str]) -> dict[str, str]:
        columns, changes = TERMINALS[name]
        dumb = changes.get("TERM") == "dumb"
        folder = self._folders.mktemp("w")
        work = folder / "work"
        prepare(work)
        environ = {
            **environ,
            **changes,
            "MIDSTREAM_HOME": str(folder / "home"),
            "SHELL": "/bin/sh",
            "HOME": str(folder),
        }
        shown: dict[str, str] = {}
        raw = b""
        for part in parts(dumb):
            terminal = Terminal("chat", "-m", "sim/kimi-k2.5", environ=environ, cwd=work, columns=columns, rows=40)
            stage = Stage(terminal, signs_of(name))
            try:
                stage.ready()
                for scene in part:
                    try:
                        shown[scene.name] = stage.play(scene)
                    except AssertionError as error:
                        raise AssertionError(f"{scene.name}, {name} columns: {error}") from None
                assert terminal.wait_for_end() == 0
            finally:
                terminal.close()
            raw += terminal.raw
        self.raw[name] = raw
        return shown


def parts(dumb: bool) -> Iterator[list[Scene]]:
    """The scenes of each run of the program: one ends it, and the next begins with a new one."""
    part: list[Scene] = []
    for scene in SCENES:
        if scene.fits(dumb):
            part.append(scene)
            if scene.ends:
                yield part
                part = []
    assert not part


def prepare(work: Path) -> None:
    work.mkdir()
    (work / "notes.txt").write_text("buy milk\n")
    (work / "change.sh").write_text("echo bread >> notes.txt; echo changed\n")
    (work / "AGENTS.md").write_text("Be brief.\n")
    skill = work / ".midstream" / "skills" / "rivers"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: rivers\ndescription: All about rivers\n---\nThey flow.\n")
    about = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    for arguments in (["init"], ["add", "-A"], ["commit", "-m", "one"]):
        subprocess.run(["git", *about, *arguments], cwd=work, check=True, capture_output=True, timeout=30)


def keep(name: str, shown: dict[str, str]) -> None:
    """Screenshots as text, where somebody wants them."""
    if folder := os.environ.get("MIDSTREAM_SCREENS"):
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        columns = TERMINALS[name][0]
        text = "\n\n".join(
            f"== {scene} {'=' * max(0, columns - len(scene) - 4)}\n{text}" for scene, text in shown.items()
        )
        (path / f"{re.sub(r'[^0-9A-Za-z]+', '-', name)}.txt").write_text(text + "\n", "utf-8")


def test_every_command_has_a_scene() -> None:
    played = {command for scene in SCENES for command in scene.commands}
    assert {command.name for command in COMMANDS} - played == set()


@pytest.mark.parametrize("name", cases(TERMINALS, QUICK))
def test_every_screen_is_readable_and_nothing_is_cut_without_a_mark(
    screens: Screens, environ: dict[str, str], name: str
) -> None:
    shown = screens(name, environ)
    wide = screens("200, dumb" if "dumb" in name else "200", environ)
    as_shown = signs_of(name)
    cut = {}
    for scene in SCENES:
        if scene.name not in shown or scene.varies:
            continue
        here, there = body(shown[scene.name]), as_shown(body(wide[scene.name]))
        if as_shown("…") not in here and (found := difference(words_of(here), words_of(there))):
            cut[scene.name] = found
    assert not cut, "".join(f"\n{scene}: {found}" for scene, found in cut.items())
    if "NO_COLOR" in name:
        assert not COLOR.search(screens.raw[name])
    if "dumb" in name:
        assert b"\x1b" not in screens.raw[name]


def body(shown: str) -> str:
    """A screen without the status bar and the hint at folded thinking, which are shown as far as they fit."""
    return re.sub(r"\n{3,}.*\Z", "", shown).replace(" (Ctrl-T unfolds)", "")
