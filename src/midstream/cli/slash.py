"""The registry of the slash commands: what /help lists, what Tab completes, what a line that starts with a slash runs.

To add a command, write its function under `@command(usage, help, words)` in a module of `cli/commands/`. A new module needs
a line in `cli/commands/__init__.py`; nothing else needs to change. /help, completion and abbreviations come from that line.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from ..core.errors import LocalError
from ..core.nearest import nearest
from .mention import complete_path
from .server_prompt import PREFIX, prompt_words, resource_words, run_prompt

if TYPE_CHECKING:
    from .chat import Chat

Words: TypeAlias = Iterable[tuple[str, str]]
"""Completions, each with its meaning."""
Run: TypeAlias = Callable[["Chat", str], Awaitable[None]]


class Command(msgspec.Struct, frozen=True):
    """`run` gets what follows the name; `words` gives the completions of it; with `paths`, these are files. `short` means this
    command, although others begin like that: those that are used every minute keep their letter when new ones come."""

    name: str
    usage: str
    help: str
    run: Run
    words: Callable[[Chat], Words]
    paths: bool = False
    short: str = ""


COMMANDS: list[Command] = []
"""In the order of /help."""


def command(
    usage: str, help: str, words: Callable[[Chat], Words] = lambda chat: (), *, paths: bool = False, short: str = ""
) -> Callable[[Run], Run]:
    """Make a function a slash command. It is called with the chat and what follows the name."""

    def register(run: Run) -> Run:
        COMMANDS.append(Command(usage.split()[0].removeprefix("/"), usage, help, run, words, paths, short))
        return run

    return register


async def dispatch(chat: Chat, line: str) -> None:
    """Run the command at the start of a line; its name may be abbreviated as long as it is unambiguous."""
    name, _, rest = line[1:].partition(" ")
    if name.startswith(PREFIX):
        await run_prompt(chat, name.strip(), rest.strip())
        return
    await _find(name.strip().lower()).run(chat, rest.strip())


def is_command(line: str) -> bool:
    """Whether a line is a command: `/etc/hosts has …` goes to the model."""
    # A path as the first word has a second slash, which no command has.
    first = line.split(maxsplit=1)[0] if line.strip() else ""
    return first.startswith("/") and "/" not in first[1:] and len(first) > 1


def names_command(line: str) -> bool:
    """Whether a line begins with a command that there is, or with the beginning of one: `/tmp is full` does not."""
    if not is_command(line):
        return False
    name = line.split(maxsplit=1)[0][1:].lower()
    return any(name == each.short or each.name.startswith(name) for each in COMMANDS)


def complete(chat: Chat, line: str) -> Words:
    """The completions of a line that starts with a slash, or of a mention of a server's resource."""
    if line.startswith("@"):
        return resource_words(chat, line)
    name, space, rest = line[1:].partition(" ")
    if not space:
        named = [(f"/{each.name}", each.help) for each in COMMANDS if each.name.startswith(name.lower())]
        # Behind the first letters only: a server may have hundreds, and the commands would drown in them.
        prompts = prompt_words(chat) if name.startswith(PREFIX[:4]) else []
        return [*named, *[row for row in prompts if row[0].startswith(f"/{name}")]]
    found = next((each for each in COMMANDS if each.name == name.lower()), None)
    if found is not None and found.paths:
        return complete_path(rest.rpartition(" ")[2])
    if found is None or " " in rest:
        return ()
    wanted = rest.lower()
    return [(word, meaning) for word, meaning in found.words(chat) if wanted in word.lower()]


def _find(name: str) -> Command:
    exact = [each for each in COMMANDS if name in (each.name, each.short)]
    fits = exact or [each for each in COMMANDS if each.name.startswith(name)]
    if len(fits) == 1:
        return fits[0]
    near = nearest(name, [each.name for each in COMMANDS], 1)
    if fits:
        raise LocalError(f"/{name} is ambiguous: {', '.join(f'/{each.name}' for each in fits)}")
    raise LocalError(f"no command /{name}; " + (f"did you mean /{near[0]}?" if near else "/help lists them all"))


def short_forms() -> str:
    """The letters that stand for a command, in words."""
    return ", ".join([f"/{each.short} is /{each.name}" for each in COMMANDS if each.short])


def words_of(*words: str) -> Callable[[Chat], Words]:
    """Completions that are always the same."""
    return lambda chat: [(word, "") for word in words]
