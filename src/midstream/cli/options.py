"""The options that several commands share, and the settings they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import click
import msgspec
from click.shell_completion import CompletionItem

from .terminal import ColorChoice

F = TypeVar("F", bound=Callable[..., Any])

_COLOR = "midstream.cli.color"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks of a conversation."""

    model: str | None = None
    system: str = ""
    session: str | None = None
    resume: bool = False
    tools: tuple[str, ...] = ()
    yolo: bool = False
    allow: tuple[str, ...] = ()
    store: bool = True
    thinking: str | None = None
    tool_format: str | None = None


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


def _complete_model(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from .workspace import known_names  # reads the configuration: only where a shell asks

    return [CompletionItem(name) for name in known_names() if name.startswith(incomplete)]


_CONVERSATION = (
    click.option(
        "-m",
        "--model",
        metavar="MODEL",
        shell_complete=_complete_model,
        help="provider/model or an alias, e.g. moonshot/kimi-k2.5; sim/kimi-k2.5 needs no key. [env: MIDSTREAM_MODEL]",
    ),
    click.option("-s", "--system", default="", metavar="TEXT", help="The system prompt of a new conversation."),
    click.option("-c", "--continue", "resume", is_flag=True, help="Go on with the last conversation."),
    click.option("--session", metavar="ID", help="Go on with this conversation (the beginning of its id is enough)."),
    click.option(
        "--allow", multiple=True, metavar="PATTERN", help="Allow without asking: write_file, 'bash:git status*' …"
    ),
    click.option("-y", "--yolo", is_flag=True, help="Allow every tool without asking."),
    click.option("--thinking", metavar="on|off|EFFORT", help="Thinking: on, off, or an effort such as low or high."),
    click.option("--tool-format", metavar="NAME", help="The tool format; auto leaves it to the model."),
    click.option("--no-store", "store", flag_value=False, default=True, help="Keep nothing on disk."),
    color_option,
)


def conversation_options(command: F) -> F:
    """The options of every command that talks with a model."""
    for option in reversed(_CONVERSATION):
        command = option(command)
    return command
