"""`@file` and `@folder/` in a message, and a path that was dropped or pasted into it.

A mention starts a word: `me@example.com` and `a@b` are none, and neither is anything between backticks. `@"my file.txt"`,
`@'my file.txt'` and `@my\\ file.txt` have blanks. What is no file stays as it was typed; punctuation behind a name is not a
part of it, unless the file is called so. A folder is meant only with its slash.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from ..core.patterns import late_pattern

_TICKS = late_pattern(r"`+")
# Behind a blank, a bracket, a quote or punctuation, never inside a word: addresses and decorators are no mentions.
_MENTION = late_pattern(r"""(?<![^\s(\[{<"',;:])@(?:"([^"\n]+)"|'([^'\n]+)'|((?:\\.|[^\s\\"'`])+))""")
_OPEN = late_pattern(r"""(?<![^\s(\[{<"',;:])@("[^"\n]*|'[^'\n]*|(?:\\.|[^\s\\"'`])*)\Z""")
_PATHS = late_pattern(r"""\s*(?:"([^"\n]+)"|'([^'\n]+)'|((?:\\.|[^\s\\"'])+))""")
_TAIL = ".,;:!?)]}>…"
_MAX_MENTIONS = 64
_MAX_NAMES = 200
_MAX_PATH = 4096


class Mention(msgspec.Struct, frozen=True):
    """A file or folder that a message names. `shown` is the path as it was written."""

    path: Path
    shown: str
    is_folder: bool = False


def mentions(text: str) -> list[Mention]:
    """The files and folders that a message names, each once, in their order."""
    found: dict[str, Mention] = {}
    for match in _MENTION.finditer(_without_code(text)):
        quoted = match[1] or match[2]
        mention = _existing(quoted) if quoted else _unquoted(_unescaped(match[3]))
        if mention is not None:
            # The same file under two names is attached once.
            found.setdefault(os.path.realpath(mention.path), mention)
        if len(found) >= _MAX_MENTIONS:
            break
    return list(found.values())


def resource_mentions(text: str, servers: Collection[str]) -> list[tuple[str, str]]:
    """The resources of MCP servers that a message names, `@server:address`, each once."""
    found: dict[tuple[str, str], None] = {}
    for match in _MENTION.finditer(_without_code(text)):
        quoted = match[1] or match[2]
        server, colon, address = (quoted or _unescaped(match[3]).rstrip(_TAIL)).partition(":")
        if colon and address and server in servers:
            found.setdefault((server, address))
    return list(found)[:_MAX_MENTIONS]


def written(path: str) -> str:
    """A mention of this path, with quotes if it needs them."""
    plain = all(each.isalnum() or each in "/._-~+=%#@" or ord(each) > 127 for each in path) and path[-1:] not in _TAIL
    if plain and not any(each.isspace() for each in path):
        return f"@{path}"
    return (
        f'@"{path}"' if '"' not in path else f"@'{path}'" if "'" not in path else "@" + re.sub(r"(\W)", r"\\\1", path)
    )


def dropped_paths(text: str) -> list[str] | None:
    """The paths of files, if the text is nothing else: as terminals paste a file that is dropped on them (quoted, with
    backslashes, or as file:// addresses). None for anything else, and for words that only happen to be names of files."""
    paths: list[str] = []
    place, text = 0, text.strip()
    if not text or len(text) > _MAX_MENTIONS * _MAX_PATH:
        return None
    while place < len(text):
        match = _PATHS.match(text, place)
        if match is None:
            return None
        word = match[1] or match[2] or _unescaped(match[3])
        path = _local(word)
        if path is None or _existing(path) is None:
            return None
        paths.append(path)
        place = match.end()
    return paths


def complete_mention(line: str) -> tuple[str, list[tuple[str, str]]]:
    """For the end of a line that may be a mention: what is to be replaced, and by what (with its meaning)."""
    match = _OPEN.search(line[-_MAX_PATH:])
    if match is None:
        return "", []
    start = match[1]
    quoted = start[:1] in ("'", '"')
    return match[0], [
        (written(path), meaning) for path, meaning in complete_path(start[1:] if quoted else _unescaped(start))
    ]


def complete_path(start: str) -> list[tuple[str, str]]:
    """The files and folders whose paths start so; folders end in a slash. Hidden ones only if a dot was typed."""
    head, slash, last = start.rpartition("/")
    folder = Path((head + slash) or ".").expanduser()
    found: list[tuple[str, str]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.name.lower().startswith(last.lower()) or (
                    entry.name[0] == "." and not last.startswith(".")
                ):
                    continue
                if not entry.name.isprintable():
                    continue
                is_folder = entry.is_dir()
                found.append((f"{head}{slash}{entry.name}{'/' if is_folder else ''}", "folder" if is_folder else ""))
                if len(found) >= _MAX_NAMES:
                    break
    except (OSError, ValueError):
        return []
    return sorted(found)


def split_paths(text: str) -> list[str]:
    """The paths in the argument of a command: separated by blanks, quoted or with backslashes where they have some."""
    found: list[str] = []
    for match in _PATHS.finditer(text):
        word = match[1] or match[2] or _unescaped(match[3])
        found.append(_local(word) or word)
    return found


def _without_code(text: str) -> str:
    """The text with blanks for all that stands between two runs of as many backticks."""
    if "`" not in text:
        return text
    parts: list[str] = []
    done = 0
    opened: re.Match[str] | None = None
    for run in _TICKS.finditer(text):
        if opened is None:
            opened = run
        elif len(run[0]) == len(opened[0]):
            parts += [text[done : opened.start()], " " * (run.end() - opened.start())]
            done, opened = run.end(), None
    return "".join([*parts, text[done:]])


def _unquoted(word: str) -> Mention | None:
    """The longest beginning of the word that is a file, cutting off punctuation only."""
    while word:
        mention = _existing(word)
        # `see @notes.txt.` ends a sentence; `@notes.txt.` may also be a file, so the whole word is tried first.
        if mention is not None or word[-1] not in _TAIL:
            return mention
        word = word[:-1]
    return None


def _existing(word: str) -> Mention | None:
    if "\0" in word or len(word) > _MAX_PATH:
        return None
    try:
        path = Path(word).expanduser()
        if word.endswith("/"):
            if not word.strip("/"):
                return None  # nobody means the whole file system
            return Mention(path, word, True) if path.is_dir() else None
        return Mention(path, word) if path.is_file() else None
    except (OSError, ValueError, RuntimeError):  # RuntimeError: a user's home that nobody knows
        return None


def _local(word: str) -> str | None:
    """The path that a dropped word means: absolute, from the home folder, or a file:// address of this machine."""
    if word.startswith("file://"):
        parts = urlsplit(word)
        return unquote(parts.path) if parts.netloc in ("", "localhost") else None
    return word if word.startswith(("/", "~/")) else None


def _unescaped(word: str) -> str:
    return re.sub(r"\\(.)", r"\1", word, flags=re.DOTALL)
