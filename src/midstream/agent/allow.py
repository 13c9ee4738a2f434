"""The allow-list: what may be done without a question.

A pattern is a tool's name (`write_file`, `mcp__docs__*`), or `bash:` and a command: the exact text of it, or with a star at
the end its first words (`bash:git status*`). First words allow a command of plain words whose further words are harmless
(see command.py), and a chain of such commands where each part is allowed by a pattern. A tool's name does not cover files
that run code later. docs/approvals.md describes all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..core.errors import ConfigError
from .command import is_harmless, is_plain, simple_commands
from .request import Request


class AllowList:
    """Patterns that count together, for the parts of a chain may be allowed by different ones."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self._patterns = [AllowPattern(pattern) for pattern in patterns]

    def allows(self, request: Request) -> bool:
        patterns = [pattern for pattern in self._patterns if pattern.is_for(request.tool)]
        if not patterns:
            return False
        if any(pattern.command is None for pattern in patterns):
            return not request.caution
        command = request.command
        if command is None:
            return False
        if any(command.strip(" ") == pattern.command for pattern in patterns if not pattern.is_prefix):
            return True
        parts = simple_commands(command)
        return parts is not None and all(
            any(pattern.begins(words, request.folder) for pattern in patterns) for words in parts
        )


class AllowPattern:
    """One line of the list."""

    def __init__(self, pattern: str) -> None:
        self._tool, colon, command = pattern.strip().partition(":")
        self.command = command.strip() if colon else None
        self._words: list[str] | None = None
        if not self._tool or self.command == "" or "*" in self._tool.removesuffix("*"):
            raise ConfigError(
                f"allow pattern {pattern!r}: expected a tool's name, `name*`, or `bash:command` with * only at the end"
            )
        if self.command is not None and self.command.endswith("*"):
            words = self.command.removesuffix("*").rstrip()
            if not words or not is_plain(words):
                raise ConfigError(
                    f"allow pattern {pattern!r}: before the * there must be plain words, without quotes, variables or "
                    "other signs of the shell"
                )
            self._words = words.split()

    @property
    def is_prefix(self) -> bool:
        return self._words is not None

    def is_for(self, tool: str) -> bool:
        return tool.startswith(self._tool[:-1]) if self._tool.endswith("*") else tool == self._tool

    def begins(self, words: Sequence[str], folder: str) -> bool:
        """Whether a plain command begins with the words of this pattern, and goes on harmlessly."""
        wanted = self._words
        return wanted is not None and list(words[: len(wanted)]) == wanted and is_harmless(words, len(wanted), folder)
