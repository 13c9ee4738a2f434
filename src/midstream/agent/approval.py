"""Who may say yes to a tool that writes or runs, and how long the yes lasts.

In order: `yolo` allows everything; the allow-list allows what it names; an answer given as "always" is remembered for this
session; else the human is asked; with nobody to ask, the answer is no. What cannot be judged is never allowed.

An allow pattern is a tool's name (`write_file`, `mcp__docs__*`), or `bash:` and a command: the exact text, or, with a star
at its end, its first words (`bash:git status*`). First words only allow a command made of plain words: anything a shell
would read as more than that (quotes, ; | & $ > * ~ newline …) is asked about, so no second command hides behind the first.
An "always" is remembered for the exact arguments of a tool that runs things, and for the whole tool where it only writes.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

import msgspec

from midstream.core.blocks import Value
from midstream.core.errors import ConfigError
from midstream.core.visible import visible

_PLAIN_WORDS = re.compile(r"[A-Za-z0-9_./:=@%+, -]+\Z")


class Request(Value, frozen=True):
    """A call that waits for a yes: the tool, its checked arguments as JSON values, and what it does."""

    tool: str
    arguments: dict[str, Any]
    writes: bool = False
    runs: bool = False

    @property
    def command(self) -> str | None:
        """The command line of a tool that runs one."""
        command = self.arguments.get("command")
        return command if self.runs and isinstance(command, str) else None

    def shown(self) -> str:
        """All of the call, with hidden characters written out, for the human who decides."""
        lines = [visible(self.tool)]
        for name, value in self.arguments.items():
            text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()
            # Each further line is marked, so that no value can look like another argument.
            lines.append(f"  {visible(name)}: " + visible(text).replace("\n", "\n  │ "))
        return "\n".join(lines)


class Answer(Value, frozen=True):
    """What the human said; `reason` goes to the model with a no."""

    allowed: bool
    remember: bool = False
    reason: str = ""


ONCE = Answer(True)
ALWAYS = Answer(True, remember=True)
NO = Answer(False)

Ask: TypeAlias = Callable[[Request], Awaitable[Answer]]


class Approval:
    """The policy of one session."""

    def __init__(self, ask: Ask | None = None, *, yolo: bool = False, allow: Iterable[str] = ()) -> None:
        self.yolo = yolo
        self._ask = ask
        self._patterns = [AllowPattern(pattern) for pattern in allow]
        self._remembered: set[tuple[str, bytes]] = set()
        self._one_at_a_time = asyncio.Lock()

    async def decide(self, request: Request) -> Answer:
        """May this call be made?"""
        if self._is_known(request):
            return ONCE
        if self._ask is None:
            return Answer(
                False,
                reason="nobody can be asked here; it has to be allowed beforehand (an allow pattern, or --yolo for everything)",
            )
        async with self._one_at_a_time:
            # The answer to the question before this one may have settled it.
            if self._is_known(request):
                return ONCE
            answer = await self._ask(request)
            if answer.allowed and answer.remember:
                self._remembered.add(_memory(request))
            return answer

    def forget(self) -> None:
        """Drop all remembered answers."""
        self._remembered.clear()

    def _is_known(self, request: Request) -> bool:
        return (
            self.yolo
            or any(pattern.allows(request) for pattern in self._patterns)
            or _memory(request) in self._remembered
        )


class AllowPattern:
    """One line of the allow-list."""

    def __init__(self, pattern: str) -> None:
        self._tool, colon, command = pattern.strip().partition(":")
        self._command = command.strip() if colon else None
        if not self._tool or self._command == "" or "*" in self._tool.removesuffix("*"):
            raise ConfigError(
                f"allow pattern {pattern!r}: expected a tool's name, `name*`, or `bash:command` with * only at the end"
            )
        if self._command is not None and self._command.endswith("*"):
            words = self._command.removesuffix("*").rstrip()
            if not words or not _PLAIN_WORDS.match(words):
                raise ConfigError(
                    f"allow pattern {pattern!r}: before the * there must be plain words, without quotes or other signs of the shell"
                )

    def allows(self, request: Request) -> bool:
        if not _is_named(self._tool, request.tool):
            return False
        if self._command is None:
            return True
        command = request.command
        if command is None:
            return False
        if not self._command.endswith("*"):
            return command.strip(" ") == self._command
        if not _PLAIN_WORDS.match(command):
            return False
        words, wanted = command.split(), self._command.removesuffix("*").split()
        return words[: len(wanted)] == wanted


def _is_named(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _memory(request: Request) -> tuple[str, bytes]:
    if request.runs:
        return request.tool, msgspec.json.encode(request.arguments, order="deterministic", enc_hook=str)
    return request.tool, b""
