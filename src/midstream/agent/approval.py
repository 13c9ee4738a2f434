"""Approval: which calls of tools that write or run are allowed, and for how long.

In order: `yolo` allows everything; `unattended` allows commands in a sandbox and changes to files in the folder; the
allow-list allows what it names; an answer of "always" is remembered for this
session; otherwise the human is asked; with nobody to ask, the call is refused. What cannot be judged is never allowed, and
what is too large to read is refused instead of shown.

An "always" covers the exact arguments of a tool that runs things, and the whole tool where it only writes. Neither it, nor
the allow-list, nor `unattended` covers a file that runs code later (risk.py): that is asked about each time.

A pattern of the allow-list is a tool's name (`write_file`, `mcp__docs__*`), or `bash:` and a command: its exact text, or
with a star at the end its first words (`bash:git status*`). First words allow a command of plain words whose further words
are harmless (risk.py), and a chain of such commands if a pattern allows each part. docs/approvals.md describes all of it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from ..core.blocks import Value
from ..core.errors import ConfigError
from .approval_request import MAX_CHARACTERS, MAX_ROWS, ApprovalRequest
from .risk import is_harmless, is_plain, simple_commands
from .tool import in_thread, is_async


class Decision(Value, frozen=True):
    """The answer to an ApprovalRequest. `remember` applies it to similar calls of this session; `reason` tells the model why not."""

    allowed: bool
    remember: bool = False
    reason: str = ""


ONCE = Decision(True)
ALWAYS = Decision(True, remember=True)
NO = Decision(False)

Ask: TypeAlias = Callable[[ApprovalRequest], Awaitable[Decision] | Decision]


class Approval:
    """The policy of one session: asks `ask` about each call that is neither allowed by a pattern nor remembered.

    `ask` is an async function or a plain one, which runs in a thread; it gives a Decision (ONCE, ALWAYS, NO). What it raises is raised
    by the run, and never told to the model. `advice` is added to the reason of a call that is refused because there is nobody to ask: how
    a user of this program allows it.
    """

    def __init__(
        self,
        ask: Ask | None = None,
        *,
        yolo: bool = False,
        unattended: bool = False,
        allow: Iterable[str] = (),
        advice: str = "",
    ) -> None:
        self.yolo = yolo
        self.unattended = unattended
        self._ask = ask
        self._advice = advice
        self._allowed = AllowList(allow)
        self._remembered: set[tuple[str, bytes]] = set()
        # Calls of one turn run at once, but a person reads one question at a time.
        self._one_at_a_time = asyncio.Lock()

    async def decide(self, request: ApprovalRequest) -> Decision:
        """Whether this call may run."""
        # Before anything else, so that what is allowed anyway is never refused for its size.
        if self._is_known(request):
            return ONCE
        if self._ask is None:
            return Decision(False, reason=self._nobody_to_ask(request))
        if too_large := _too_large(request):
            return Decision(False, reason=too_large)
        async with self._one_at_a_time:
            # The previous question's answer may cover this call too.
            if self._is_known(request):
                return ONCE
            answer = await _answered(self._ask, request)
            # A no is not remembered: the next call may be the better one that the model was asked for.
            if answer.allowed and answer.remember and request.scope:
                self._remembered.add(_memory(request))
            return answer

    def allow(self, *patterns: str) -> None:
        """Add patterns to the allow-list."""
        self._allowed.add(*patterns)

    def forget(self) -> None:
        """Drop all remembered answers."""
        self._remembered.clear()

    def _nobody_to_ask(self, request: ApprovalRequest) -> str:
        advice = f" ({self._advice})" if self._advice else ""
        if request.caution:
            return f"nobody is there to approve it, and an allow pattern does not cover this file: {request.caution}{advice}"
        return f"nobody is there to approve it; allow it beforehand with an allow pattern{advice}"

    def _is_known(self, request: ApprovalRequest) -> bool:
        return (
            self.yolo
            or (self.unattended and _is_confined(request))
            or self._allowed.allows(request)
            or (bool(request.scope) and _memory(request) in self._remembered)
        )


def _is_confined(request: ApprovalRequest) -> bool:
    """Whether this can only reach the folder: a command in a sandbox, or a file of ours that runs no code later."""
    # What a command may reach is the sandbox's business; what a file tool reaches is known from its preview.
    if request.runs:
        return bool(request.sandbox)
    return request.change is not None and not request.caution


async def _answered(ask: Ask, request: ApprovalRequest) -> Decision:
    # A plain function may wait for a person at `input()`: in a thread, so that limits of time and Ctrl-C count meanwhile.
    given = ask(request) if is_async(ask) else await in_thread(ask, request)
    answer = await given if inspect.isawaitable(given) else given
    if not isinstance(answer, Decision):
        raise TypeError(f"an approver gives a Decision (ONCE, ALWAYS, NO or Decision(…)), got {answer!r}"[:200])
    return answer


def _too_large(request: ApprovalRequest) -> str:
    """Why this is too much to read before approving it, or ""."""
    characters = request.size
    rows = 0
    # `size` is a lower bound that costs little; only what passes it is laid out in full.
    if characters <= MAX_CHARACTERS:
        shown = request.shown()
        characters, rows = len(shown), shown.count("\n") + 1
    if characters <= MAX_CHARACTERS and rows <= MAX_ROWS:
        return ""
    found = f"{rows:,} lines" if rows > MAX_ROWS else f"{characters:,} characters"
    return (
        f"it is too large to read before approving it ({found}; at most {MAX_CHARACTERS:,} characters and "
        f"{MAX_ROWS:,} lines); do it in smaller steps"
    )


def _memory(request: ApprovalRequest) -> tuple[str, bytes]:
    if request.runs:
        # The order of keys is the model's whim and must not make two calls of one.
        return request.tool, msgspec.json.encode(request.arguments, order="deterministic", enc_hook=str)
    return request.tool, b""


class AllowList:
    """Patterns that apply together: different ones may allow the parts of one chain."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self._patterns = [AllowPattern(pattern) for pattern in patterns]

    def add(self, *patterns: str) -> None:
        self._patterns += [AllowPattern(pattern) for pattern in patterns]

    def allows(self, request: ApprovalRequest) -> bool:
        patterns = [pattern for pattern in self._patterns if pattern.is_for(request.tool)]
        if not patterns:
            return False
        if any(pattern.command is None for pattern in patterns):
            return not request.caution
        command = request.command
        if command is None:
            return False
        # Only blanks are stripped: a tab or a line break may mean something to the shell.
        if any(command.strip(" ") == pattern.command for pattern in patterns if not pattern.is_prefix):
            return True
        parts = simple_commands(command)
        return parts is not None and all(
            any(pattern.begins(words, request.folder) for pattern in patterns) for words in parts
        )


class AllowPattern:
    """One pattern of the allow-list."""

    def __init__(self, pattern: str) -> None:
        self._tool, colon, command = pattern.strip().partition(":")
        self.command = command.strip() if colon else None
        self._words: list[str] | None = None
        if not self._tool or self.command == "" or "*" in self._tool.removesuffix("*"):
            raise ConfigError(
                f"invalid allow pattern {pattern!r}; expected a tool's name, `name*`, or `bash:command` with * only at the end"
            )
        if self.command is not None and self.command.endswith("*"):
            words = self.command.removesuffix("*").rstrip()
            # A prefix with quotes or variables could be completed into anything.
            if not words or not is_plain(words):
                raise ConfigError(
                    f"invalid allow pattern {pattern!r}; expected plain words before the *, without quotes, variables or "
                    "other shell syntax"
                )
            self._words = words.split()

    @property
    def is_prefix(self) -> bool:
        return self._words is not None

    def is_for(self, tool: str) -> bool:
        return tool.startswith(self._tool[:-1]) if self._tool.endswith("*") else tool == self._tool

    def begins(self, words: Sequence[str], folder: str) -> bool:
        """Whether a plain command starts with the words of this pattern, and the rest of it is harmless."""
        wanted = self._words
        return wanted is not None and list(words[: len(wanted)]) == wanted and is_harmless(words, len(wanted), folder)
