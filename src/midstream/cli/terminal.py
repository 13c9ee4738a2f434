"""Terminals: what can be sent to a stream (colour, cursor movement, characters), writing to it, and notifications.

Colour is decided in this order: `--color always|never`, NO_COLOR, FORCE_COLOR, TERM=dumb, whether the stream is a terminal.
Cursor movement (a spinner, a live view) needs a terminal that is not dumb; colour forced into a pipe does not bring it.
"""

from __future__ import annotations

import locale
import os
import unicodedata
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Literal, TypeAlias, cast

import click

from ..core.modules import late_module
from ..core.visible import visible

if TYPE_CHECKING:
    import shutil

    from ..client.config import ChatConfig
else:
    # It brings bz2 and lzma along, and is asked only where the terminal does not say how wide it is.
    shutil = late_module("shutil", globals())

ColorChoice: TypeAlias = Literal["auto", "always", "never"]

_COLOR = "midstream.cli.color"
# The eight colours that every terminal has and its user has chosen the shades of.
_STYLES = {
    "bold": 1,
    "dim": 2,
    "italic": 3,
    "red": 31,
    "green": 32,
    "yellow": 33,
    "blue": 34,
    "magenta": 35,
    "cyan": 36,
}
# What a terminal without these characters gets instead of our own signs; any other that it lacks is a question mark.
_STAND_INS = str.maketrans(
    {
        "✓": "ok",
        "✗": "FAILED",
        "⚙": "call",
        "▸": "+",
        "›": ">",
        "·": "-",
        "…": "...",
        "⏎": "\\n",
        "‹": "<",
        "•": "*",
    }
    | {"│": "|", "─": "-", "━": "=", "┃": "|", "“": '"', "”": '"', "‘": "'", "’": "'", "–": "-", "—": "-"}
    | dict.fromkeys("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "*")
)
_LONGEST_NOTIFICATION = 200


def is_terminal(stream: IO[str] | None) -> bool:
    """Whether a human is at the other end. A stream that was closed before we started is None."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def has_cursor(stream: IO[str] | None, environ: Mapping[str, str] | None = None) -> bool:
    """Whether lines that were written may be overwritten."""
    environ = os.environ if environ is None else environ
    return is_terminal(stream) and environ.get("TERM", "") not in ("", "dumb")


def columns(stream: IO[str]) -> int:
    """How wide the terminal really is. COLUMNS may say more, and rows would then wrap unnoticed."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return shutil.get_terminal_size((80, 24)).columns


def cells(text: str) -> int:
    """How many columns a text takes: a wide character (of Chinese, an emoji) takes two."""
    return (
        len(text) if text.isascii() else sum([2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text])
    )


def encoding(stream: IO[str]) -> str:
    """The encoding a terminal can show: in the C locale only ASCII, although Python would write UTF-8 there."""
    own = getattr(stream, "encoding", None) or "ascii"
    # Python takes UTF-8 for a C locale, and would write what the terminal shows as garbage.
    for name in (own, locale.getencoding()):
        try:
            "│␠é".encode(name)
        except (UnicodeEncodeError, LookupError):
            return "ascii"  # ASCII is a part of every encoding in use
    return own


def showable(text: str, stream: IO[str]) -> str:
    """The text in characters that a terminal can show; unchanged where the stream is no terminal."""
    if text.isascii() or not is_terminal(stream) or encoding(stream) != "ascii":
        return text
    return text.translate(_STAND_INS).encode("ascii", "replace").decode()


def write(stream: IO[str], text: str) -> None:
    """Write at once, whatever the stream buffers."""
    stream.write(text)
    stream.flush()


def wants_color(choice: ColorChoice, stream: IO[str], environ: Mapping[str, str] | None = None) -> bool:
    environ = os.environ if environ is None else environ
    if choice != "auto":
        return choice == "always"
    # Set and not empty, as no-color.org has it.
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "") not in ("", "0", "false"):
        return True
    return has_cursor(stream, environ)


def color_choice() -> ColorChoice:
    """The value of `--color`, wherever it is on the command line."""
    context = click.get_current_context(silent=True)
    return cast(ColorChoice, context.meta.get(_COLOR, "auto")) if context is not None else "auto"


def _set_color(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta[_COLOR] = value


color_option = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    callback=_set_color,
    expose_value=False,
    is_eager=True,
    help="When to use colour; auto follows NO_COLOR, FORCE_COLOR, TERM and whether the output is a terminal.",
)


class Paint:
    """ANSI styles for text; returns it unchanged where colour is off."""

    def __init__(self, on: bool) -> None:
        self.on = on

    def __call__(self, text: str, *styles: str) -> str:
        if not self.on or not text or not styles:
            return text
        codes = ";".join([str(_STYLES[style]) for style in styles])
        # Always reset behind the text: what a command prints next must not inherit our colours.
        return f"\x1b[{codes}m{text}\x1b[0m"


class Notifier:
    """Rings the bell, or sends a desktop notification by OSC 9, when something that took long has ended; off by default."""

    def __init__(self, terminal: IO[str], config: ChatConfig) -> None:
        self._terminal = terminal
        self._config = config

    def notify(self, seconds: float, what: str) -> None:
        if self._config.notify == "off" or seconds < self._config.notify_after:
            return
        # A semicolon would begin another field: some terminals read `9;4;…` as a progress bar.
        text = visible(f"midstream: {what} ({seconds:.0f} s)").replace(";", ",")[:_LONGEST_NOTIFICATION]
        write(self._terminal, "\a" if self._config.notify == "bell" else f"\x1b]9;{text}\a")
