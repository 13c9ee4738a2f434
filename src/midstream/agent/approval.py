"""Who may say yes to a tool that writes or runs, and how long the yes lasts.

In order: `yolo` allows everything; the allow-list allows what it names; an answer given as "always" is remembered for this
session; else the human is asked; with nobody to ask, the answer is no. What cannot be judged is never allowed, and what is
too large to be read is refused instead of shown.

An "always" is remembered for the exact arguments of a tool that runs things, and for the whole tool where it only writes:
but neither it nor the allow-list covers a file that runs code later (autorun.py). That is asked for each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

import msgspec

from ..core.blocks import Value
from .allow import AllowList
from .request import MAX_CHARACTERS, MAX_ROWS, Request


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
        self._allowed = AllowList(allow)
        self._remembered: set[tuple[str, bytes]] = set()
        self._one_at_a_time = asyncio.Lock()

    async def decide(self, request: Request) -> Answer:
        """May this call be made?"""
        if self._is_known(request):
            return ONCE
        if self._ask is None:
            return Answer(False, reason=_nobody(request))
        if too_large := _too_large(request):
            return Answer(False, reason=too_large)
        async with self._one_at_a_time:
            # The answer to the question before this one may have settled it.
            if self._is_known(request):
                return ONCE
            answer = await self._ask(request)
            if answer.allowed and answer.remember and request.scope:
                self._remembered.add(_memory(request))
            return answer

    def forget(self) -> None:
        """Drop all remembered answers."""
        self._remembered.clear()

    def _is_known(self, request: Request) -> bool:
        return (
            self.yolo or self._allowed.allows(request) or (bool(request.scope) and _memory(request) in self._remembered)
        )


def _nobody(request: Request) -> str:
    if request.caution:
        return f"nobody can be asked here, and no allow pattern covers this file: {request.caution} (only --yolo does)"
    return "nobody can be asked here; it has to be allowed beforehand (an allow pattern, or --yolo for everything)"


def _too_large(request: Request) -> str:
    """Why nobody can be expected to read this before a yes, or ""."""
    characters = request.size
    rows = 0
    if characters <= MAX_CHARACTERS:
        shown = request.shown()
        characters, rows = len(shown), shown.count("\n") + 1
    if characters <= MAX_CHARACTERS and rows <= MAX_ROWS:
        return ""
    found = f"{rows:,} lines" if rows > MAX_ROWS else f"{characters:,} characters"
    return (
        f"it is too large to be read before it is approved ({found}; at most {MAX_CHARACTERS:,} characters and "
        f"{MAX_ROWS:,} lines): do it in smaller steps"
    )


def _memory(request: Request) -> tuple[str, bytes]:
    if request.runs:
        return request.tool, msgspec.json.encode(request.arguments, order="deterministic", enc_hook=str)
    return request.tool, b""
