"""The prompt as it grows: the template's own literals, and foreign text, which is neutralised.

Neighbouring pieces of foreign text are neutralised as one, so a token cut in two by a block boundary is found as well.
"""

from __future__ import annotations

from .specials import Specials


class PromptWriter:
    __slots__ = ("_foreign", "_parts", "_specials")

    def __init__(self, specials: Specials) -> None:
        self._specials = specials
        self._parts: list[str] = []
        self._foreign: list[str] = []

    def own(self, literal: str) -> None:
        """What the template itself says; never anything that came from outside."""
        if self._foreign:
            self._settle()
        self._parts.append(literal)

    def foreign(self, text: str) -> None:
        """What anyone else said."""
        if text:
            self._foreign.append(text)

    def text(self) -> str:
        if self._foreign:
            self._settle()
        return "".join(self._parts)

    def _settle(self) -> None:
        self._parts.append(self._specials.neutralise("".join(self._foreign)))
        self._foreign.clear()
