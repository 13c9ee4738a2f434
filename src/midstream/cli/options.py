"""The options that several commands share, and the settings they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec
from click.shell_completion import CompletionItem

from ..agent.allow import AllowPattern
from ..core.dialect import EFFORTS as ALL_EFFORTS
from ..core.errors import MidstreamError
from .terminal import color_option

F = TypeVar("F", bound=Callable[..., Any])

EFFORTS = tuple([effort for effort in ALL_EFFORTS if effort != "none"])  # that is said as `off`
THINKING = ("on", "off", *EFFORTS)


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


def _complete_model(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from .workspace import known_names  # reads the configuration: only where a shell asks

    return [CompletionItem(name) for name in known_names() if name.startswith(incomplete)]


def _checked_allow(_: click.Context, __: click.Parameter, patterns: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in patterns:
        try:
            AllowPattern(pattern)
        except MidstreamError as error:
            raise click.BadParameter(str(error)) from None
    return patterns


def _checked_thinking(_: click.Context, __: click.Parameter, word: str | None) -> str | None:
    if word is not None and word.lower() not in THINKING:
        raise click.BadParameter(f"choose one of {', '.join(THINKING)}")
    return word


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
        "--allow",
        multiple=True,
        metavar="PATTERN",
        callback=_checked_allow,
        help="Allow without asking: write_file, 'bash:git status*' …",
    ),
    click.option("-y", "--yolo", is_flag=True, help="Allow every tool without asking."),
    click.option(
        "--thinking",
        metavar="on|off|EFFORT",
        callback=_checked_thinking,
        help="Thinking: on, off, or an effort such as low or high.",
    ),
    click.option("--tool-format", metavar="NAME", help="The tool format; auto leaves it to the model."),
    click.option("--no-store", "store", flag_value=False, default=True, help="Keep nothing on disk."),
    color_option,
)


def conversation_options(command: F) -> F:
    """The options of every command that talks with a model."""
    for option in reversed(_CONVERSATION):
        command = option(command)
    return command
