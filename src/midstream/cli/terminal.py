"""What a terminal may be sent: colour, and tricks with the cursor.

Colour, in this order: `--color always|never`, NO_COLOR, FORCE_COLOR, TERM=dumb, whether the stream is a terminal. Cursor
tricks (a spinner, a live view) only where the stream is a terminal that is not dumb; colour forced into a pipe brings none.
"""

from __future__ import annotations

import locale
import os
import shutil
from collections.abc import Mapping
from typing import IO, Literal, TypeAlias, cast

import click

ColorChoice: TypeAlias = Literal["auto", "always", "never"]

_COLOR = "midstream.cli.color"
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def is_terminal(stream: IO[str] | None) -> bool:
    """Whether a human is at the other end; a stream that was closed before we began is None."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def has_cursor(stream: IO[str] | None, environ: Mapping[str, str] | None = None) -> bool:
    """Whether lines that were written may be written over."""
    environ = os.environ if environ is None else environ
    return is_terminal(stream) and environ.get("TERM", "") not in ("", "dumb")


def columns(stream: IO[str]) -> int:
    """How wide the terminal really is. COLUMNS may say more, and then rows would break where we do not see it."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return shutil.get_terminal_size((80, 24)).columns


def encoding(stream: IO[str]) -> str:
    """What a terminal can be sent: in the C locale only ASCII, although Python would write UTF-8 there."""
    own = getattr(stream, "encoding", None) or "ascii"
    for name in (own, locale.getencoding()):
        try:
            "│␠é".encode(name)
        except (UnicodeEncodeError, LookupError):
            return "ascii"  # an encoding that lacks our signs has little else, and ASCII is in all of them
    return own


def wants_color(choice: ColorChoice, stream: IO[str], environ: Mapping[str, str] | None = None) -> bool:
    environ = os.environ if environ is None else environ
    if choice != "auto":
        return choice == "always"
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "") not in ("", "0", "false"):
        return True
    return has_cursor(stream, environ)


def color_choice() -> ColorChoice:
    """What `--color` says, wherever on the command line it stood."""
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
    help="Colour: auto heeds NO_COLOR, FORCE_COLOR, TERM and whether it is a terminal.",
)


class Paint:
    """Styles for plain text; does nothing where there is no colour."""

    def __init__(self, on: bool) -> None:
        self.on = on

    def __call__(self, text: str, *styles: str) -> str:
        if not self.on or not text:
            return text
        codes = ";".join([_STYLES[style] for style in styles])
        return f"\x1b[{codes}m{text}\x1b[0m"
