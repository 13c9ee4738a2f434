"""What a prompt to the scripted model asks for in plain words: to list files, to read one, to run a command.

Only what people type in a demonstration is understood, and nothing else is run: a sentence that is no command becomes an `echo`
of itself.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Literal, TypeAlias

from ..core.command_line import path_word
from ..core.tools import ToolSpec

Intent: TypeAlias = Literal["list", "read", "run"]

_FILES = r"(?:files?|director(?:y|ies)|folders?|contents)\b"
_LIST = re.compile(
    rf"\b(?:list|show|display|find)\b(?!.*\w\.\w{{1,5}}\b).*\b{_FILES}|\bwhat(?:'s| is) in\b.*\b{_FILES}|\bwhat files\b",
    re.I,
)
_READ = re.compile(r"\b(?:read|open|view)\b|\b(?:show|print|display)\b.*\w\.\w{1,5}\b", re.I)
_RUN = re.compile(r"\b(?:run|execute)\b\s*(?:(?:the\s+)?(?:following\s+)?(?:shell\s+)?command\b)?[\s:]*", re.I)
_PWD = re.compile(r"\bwhere am i\b|\b(?:print|show|what is) the (?:current|working) (?:directory|folder)\b", re.I)
# What people type without quoting it.
_PROGRAM = re.compile(
    r"(?:ls|cat|pwd|echo|git|grep|find(?= \S*[./-])|date|whoami|uname|head|tail|wc|mkdir|touch|sort|python3?|pytest|make|npm)(?![\w-])"
)
_PREFERRED: dict[Intent, tuple[str, ...]] = {
    "list": ("list", "ls", "dir", "glob", "find", "bash", "shell"),
    "read": ("read", "cat", "open", "view", "bash", "shell"),
    "run": ("bash", "shell", "terminal", "run", "execute", "exec", "command"),
}
"""The words in a tool's name, best first."""
_GENERAL = frozenset(("ls", "dir", "glob", "find", "bash", "shell", "terminal"))
"""Those that will do whatever else the name says."""
_WITH_TOOL = re.compile(
    r"\s*\b(?:using|with|via|through|in|by)\s+(?:the\s+)?(?:`?[\w-]+`?\s+tool|bash|shell|terminal)\b", re.I
)
_QUOTED = re.compile(r"`([^`]+)`|\"([^\"]+)\"|(?<!\w)'([^']+)'(?!\w)")
_FILE = re.compile(r"(?<![\w.])(?:\.{0,2}/|~/)[\w./-]*\w|[\w./-]*\w\.\w{1,5}\b")
_BARE_FILE = re.compile(r"\b(?:read|cat|open|view)\s+(?:the\s+)?(?:file\s+)?([\w-]+)\s*[.!?]?\s*\Z", re.I)
_PLACE = re.compile(
    r"\b(?:in|of|from|under)\s+(the\s+|this\s+|my\s+)?(?:(?:folder|directory)\s+)?([\w./~-]*[\w/])(\s+(?:folder|directory))?"
)
_WILD = re.compile(r"[\w./-]*[*?][\w.*?/{},-]*")
_ARTICLES = frozenset("the a an it them this that all my your some".split())
_PRONOUNS = frozenset("it them one all each file files both that this first last current".split())


def intent_of(part: str) -> Intent | None:
    """What a part of a prompt asks for, if it is one of the usual things."""
    said = _WITH_TOOL.sub("", part).strip(" .,;:!?\n")
    program = _PROGRAM.match(said)
    if program is not None and program[0] in ("ls", "cat"):
        return "list" if program[0] == "ls" else "read"
    if program is not None or _RUN.search(said) or _PWD.search(said):
        return "run"
    if _LIST.search(said):
        return "list"
    return "read" if _READ.search(said) else None


def named_tool(part: str, tools: Sequence[ToolSpec]) -> ToolSpec | None:
    """The tool that a part of a prompt names: `using bash`, `with the read_file tool`."""
    for tool in tools:
        name = re.escape(tool.name)
        if re.search(
            rf"(?<![\w-]){name}\s+tool\b|\b(?:use|using|via|through)\s+(?:the\s+)?`?{name}(?![\w-])", part, re.I
        ):
            return tool
    return None


def preferred_tool(intent: Intent, scored: Sequence[tuple[ToolSpec, set[str], int]]) -> ToolSpec | None:
    """The tool for an intent, of tools with the words of their names and how many of those were said; None if none is for it."""
    found: list[tuple[int, int, int]] = []
    for order, (_, words, shared) in enumerate(scored):
        rank = next((place for place, word in enumerate(_PREFERRED[intent]) if word in words), None)
        # `list_mail_attachments` lists no files: half of a name must be meant, but for the general ones.
        if rank is not None and (words & _GENERAL or max(shared, 1) * 2 >= len(words)):
            found.append((rank, -shared, order))
    return scored[min(found)[2]][0] if found else None


def command_for(part: str) -> str:
    """A shell command that does what a part of a prompt asks for."""
    said = _WITH_TOOL.sub("", part).strip(" .,;:!?\n")
    quoted = quoted_in(said)
    if _PROGRAM.match(said):
        return said
    run = _RUN.search(said)
    if run is not None and (command := quoted or said[run.end() :]) and command.split()[0].lower() not in _ARTICLES:
        return command
    if _PWD.search(said):
        return "pwd"
    intent = intent_of(said)
    if intent == "list":
        if not quoted and (wild := _WILD.search(said)) is not None:
            return f"ls {wild[0]}"
        place = quoted or place_in(said)
        return f"ls {path_word(place)}" if place else "ls"
    if intent == "read" and (path := quoted or path_in(said)):
        return f"cat {path_word(path)}"
    return quoted or f"echo {shlex.quote(said)}"


def pattern_for(part: str) -> str:
    """The name pattern of the files that a part of a prompt asks for."""
    wild = _WILD.search(part.strip(" .,;:!?\n"))
    place = place_in(part)
    return wild[0] if wild is not None else f"{place.rstrip('/')}/*" if place else "*"


def quoted_in(part: str) -> str:
    """The first quoted text; empty if there is none."""
    found = _QUOTED.search(part)
    return next(group for group in found.groups() if group is not None) if found is not None else ""


def place_in(part: str) -> str:
    """The folder that is named; empty for the current one."""
    said = _WITH_TOOL.sub("", part)
    after = re.match(r"\s*ls\s+([^\s-]\S*)", said)
    if after is not None:
        return after[1]
    for article, name, noun in _PLACE.findall(said):
        # `in src`, `in the src folder`; not `in the current folder`, `of the project`.
        if (
            name.lower() not in _PRONOUNS
            and (not article or noun or "/" in name)
            and name.lower() not in ("folder", "directory")
        ):
            return str(name)
    return ""


def path_in(part: str) -> str:
    """The file that is named, by an ending, a folder, or as the only word after `read`; empty if none is."""
    found = _FILE.search(part)
    if found is not None:
        return found[0]
    bare = _BARE_FILE.search(part)
    # `read it`, `read one`: a word for what was found before, not a name.
    return bare[1] if bare is not None and bare[1].lower() not in _PRONOUNS else ""


def split(pattern: re.Pattern[str], text: str) -> list[str]:
    """`pattern.split(text)`, with quoted text left whole."""
    masked = _QUOTED.sub(lambda quoted: "\0" * len(quoted[0]), text)
    pieces, last = [], 0
    for found in pattern.finditer(masked):
        pieces.append(text[last : found.start()])
        last = found.end()
    return [*pieces, text[last:]]
