"""What is common to the programs whose sessions can be carried on here: where a session is, what came of it, and how it goes back.

Every program keeps the history of a wire in a file of its own shape. So a reader only unwraps it and hands the messages to
that wire's parser, and a writer wraps what that wire's encoder makes of a conversation. What a program says to its model
beside the conversation (its system prompt, reminders, lists of tools) describes that program and stays behind; whatever
stays behind is told in a sentence.
"""

from __future__ import annotations

import codecs
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from ...core.blocks import SEAL, Conversation, Origin, Text, Thinking, ToolCall, ToolResponse, Turn, Value
from ...core.dialect import Dialect, Options, Reasoning
from ...core.errors import MalformedStream, MidstreamError, StoreError
from ...core.handoff import Note
from ...wires.lenient_json import decode_leniently, encode_json
from ...wires.openai_chat.wire import DEFAULT as CHAT
from ...wires.request import RequestDraft, parse_request
from ..protocol import Entry, Original

Json: TypeAlias = dict[str, Any]

LARGEST = 256 * 1024 * 1024
"""The most bytes of a session that are read: it goes through memory as a whole."""
_HEAD = 512 * 1024
"""How much of a file is read for a list: the first question stands near its beginning."""
_LONGEST_TITLE = 200
PLAIN_NAME = re.compile(r"[\w-]{1,128}", re.A)
"""What names a file beside a session: a file says what it likes, and a name may be a path, or longer than any file's."""
FAILED = "midstream_failed"
"""Beside a result in the chat wire until it is parsed: that the tool failed, for which that wire has no field."""


class SessionFile(Value, frozen=True):
    """A session of another program. `path` is the file it is in, `folder` the one it was about; `updated` is seconds since 1970."""

    program: str
    id: str
    path: str
    folder: str = ""
    title: str = ""
    updated: float = 0.0


class Imported(msgspec.Struct, frozen=True):
    """A session as a conversation, and a sentence for each thing that was not carried over."""

    entry: Entry
    left_out: Sequence[str] = ()


class Exported(msgspec.Struct, frozen=True):
    """A conversation as a session of another program: its files, by their path, the command that resumes it there, and what changed."""

    id: str
    files: Mapping[Path, bytes]
    resume: str
    notes: Sequence[Note] = ()


class Place(msgspec.Struct, frozen=True):
    """Where programs keep their things: the user's home, and the variables that say otherwise."""

    home: Path
    environ: Mapping[str, str] = {}

    @classmethod
    def of_this_user(cls) -> Place:
        return cls(Path.home(), os.environ)

    def folder(self, variable: str, default: str) -> Path:
        """The folder that a variable names, else the default below the home."""
        told = self.environ.get(variable, "").strip()
        return Path(told).expanduser() if told else self.home / default


class Program(msgspec.Struct, frozen=True):
    """A program: its name on our command line and its own, where it keeps its sessions, who they are, how one is read, and how
    one is written for a working folder. `write` is None where the program reads no file that we could write, `find_in` where a file is one session."""

    name: str
    title: str
    folder: Callable[[Place], Path]
    find: Callable[[Place], Iterator[SessionFile]]
    read: Callable[[SessionFile], Imported]
    write: Callable[[Conversation, Place, Path], Exported] | None = None
    find_in: Callable[[Path], Iterator[SessionFile]] | None = None


class LeftOut:
    """Counts what stays behind, and tells it."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, what: str, count: int = 1) -> None:
        """So many of `what`, which reads on after a number: `attachments of Claude Code`."""
        if count > 0:
            self._counts[what] += count

    def add_subagents(self, sessions: Iterable[object]) -> None:
        """Those that have sessions of their own."""
        self.add("subagents: what they answered is carried, but not how they came to it", sum(1 for _ in sessions))

    def sentences(self) -> list[str]:
        return [f"{count} {what}" for what, count in self._counts.items()]


def session_files(
    program: str, paths: Iterable[Path], describe: Callable[[Path], tuple[str, str, str]]
) -> Iterator[SessionFile]:
    """The sessions in these files, the latest changed first. `describe` gives the id, folder and title of one; a session without
    a title was opened and left, and is not listed."""
    dated: list[tuple[float, Path]] = []
    for path in paths:
        # A program may delete a session while we look. A pipe or a device with the right name would never end.
        with suppress(OSError):
            status = path.stat()
            if stat.S_ISREG(status.st_mode):
                dated.append((status.st_mtime, path))
    for updated, path in sorted(dated, key=lambda each: (-each[0], str(each[1]))):
        # One file that cannot be read is no reason not to find the others.
        with suppress(StoreError):
            session, folder, title = describe(path)
            if title:
                yield SessionFile(program, session or path.stem, str(path), folder, title, updated)


def files_below(folder: Path, pattern: str) -> Iterator[Path]:
    """The files below a folder of a program; none if it is not there. One that is closed to us is told: its sessions are there."""
    try:
        with os.scandir(folder):
            pass
        yield from folder.glob(pattern)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise StoreError(f"cannot read {str(folder)!r}: {error.strerror}") from error


def head_records(path: Path) -> Iterator[Json]:
    """The records at the beginning of a file of JSON lines, for a list of sessions."""
    # The last line may be cut by the limit; it reads as broken and is passed over.
    for value in _values(read_bytes(path, _HEAD)):
        if isinstance(value, dict):
            yield value


def read_records(data: bytes, left_out: LeftOut) -> list[Json]:
    """All records of a file of JSON lines. A line that is none is told: the program may be writing it, or the file is damaged."""
    values = list(_values(data))
    records = [value for value in values if isinstance(value, dict)]
    if len(records) < len(values):
        left_out.add("lines that are damaged or not yet written to their end", len(values) - len(records))
    return records


def read_bytes(path: Path, beginning: int | None = None) -> bytes:
    """The bytes of a file, or only this many at its beginning."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1 if beginning is None else beginning)
    except FileNotFoundError as error:
        raise StoreError(f"no such file: {str(path)!r}") from error
    except OSError as error:
        raise StoreError(f"cannot read {str(path)!r}: {error.strerror}") from error
    if len(data) > LARGEST:
        raise StoreError(f"{str(path)!r} is larger than {LARGEST >> 20} MiB")
    return data


def _values(data: bytes) -> Iterator[Any]:
    """The value of each line that is not blank; None for one that is not JSON."""
    for line in data.removeprefix(codecs.BOM_UTF8).split(b"\n"):
        if line.strip():
            yield decoded(line)


def decoded(data: bytes | str) -> Any:
    """A JSON value, with what is not valid Unicode replaced; None for what is not JSON."""
    try:
        return decode_leniently(data)
    except MalformedStream:
        return None


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def object_at(value: Any, *names: str) -> Json:
    """The object at the end of these names; an empty one where something else stands."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def objects_in(value: Any) -> list[Json]:
    """The objects of a list; nothing where something else stands."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def shown_title(said: str) -> str:
    return " ".join(said.split())[:_LONGEST_TITLE]


def stamp(moment: float) -> str:
    """A time as programs in JavaScript write it."""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _parsed(wire: str, body: Json, origins: Iterable[Origin], session: SessionFile) -> tuple[Turn, ...]:
    try:
        conversation = parse_request(wire, encode_json(body)).conversation
    except (MidstreamError, RecursionError) as error:
        raise StoreError(f"{session.path}: {error}") from error
    failed = iter([FAILED in message for message in objects_in(body.get("messages")) if message.get("role") == "tool"])
    given = iter(origins)
    turns: list[Turn] = []
    for turn in conversation.turns:
        if turn.speaker == "ai":
            turn = _owned(turn, next(given, Origin()))
        elif turn.speaker == "tool":
            turn = replace(
                turn, blocks=tuple([_failure(block) if next(failed, False) else block for block in turn.blocks])
            )
        turns.append(turn)
    return tuple(turns)


def _failure(block: Any) -> Any:
    return replace(block, is_error=True) if isinstance(block, ToolResponse) else block


def _owned(turn: Turn, origin: Origin) -> Turn:
    """The turn as this origin's own: what only its maker can read goes back to it alone."""
    blocks = tuple([_owned_block(block, origin) for block in turn.blocks])
    return replace(turn, origin=origin, blocks=blocks)


def _owned_block(block: Any, origin: Origin) -> Any:
    match block:
        # A gateway's seal opens only there, and a host would refuse it as a forged signature. Its text is carried on.
        case Thinking() if (block.signature or block.encrypted or "").startswith(SEAL):
            return replace(block, signature=None, encrypted=None, origin=origin)
        case Thinking():
            return replace(block, origin=origin)
        case ToolCall():
            return replace(block, provider=origin.provider)
        case _:
            return block


def imported(
    session: SessionFile,
    wire: str,
    body: Json,
    origins: Iterable[Origin],
    data: bytes,
    left_out: LeftOut,
    *,
    title: str = "",
) -> Imported:
    """The conversation in the messages of a wire, with the bytes that it was read from. `origins` says who gave each answer, in
    order: a session may have changed its model."""
    turns = _parsed(wire, body, origins, session)
    if not turns:
        raise StoreError(f"{session.path} holds no conversation of {session.program}")
    title = title or session.title or first_words(turns)
    entry = Entry(
        Conversation(turns),
        {"title": title} if title else {},
        # Files say when they were written last, and only some when they were begun.
        session.updated or None,
        session.updated or None,
        original=Original(session.program, data, Path(session.path).name),
    )
    return Imported(entry, left_out.sentences())


def encoded(
    conversation: Conversation, dialect: Dialect, model: str, options: Options = Options()
) -> tuple[Json, Sequence[Note]]:
    """The body of the request that a wire's encoder makes of a conversation, and what had to change."""
    request = RequestDraft(conversation, dialect, model, options=options).encode()
    body: Json = msgspec.json.decode(request.body)
    return body, request.notes


# Programs that speak to many models keep the reasoning of each, and decide later what the next one is sent of it.
_CHAT = replace(
    CHAT, reasoning=Reasoning(echo="always", default_on=True, fixed_field=True), freeform=False, developer_role=False
)


def encoded_chat(conversation: Conversation, model: str) -> tuple[Json, Sequence[Note]]:
    """The same for a program whose sessions belong to no vendor: chat messages, with all reasoning beside them."""
    return encoded(conversation, _CHAT, model, Options(foreign_thinking="keep"))


def answering_model(conversation: Conversation, default: str) -> str:
    """The model that answered last, by its own name: programs show it, and ask it again unless told otherwise."""
    for turn in reversed(conversation.turns):
        if turn.speaker == "ai" and turn.origin is not None and turn.origin.model:
            return turn.origin.model
    return default


def first_words(turns: Iterable[Turn]) -> str:
    for turn in turns:
        if turn.speaker == "human":
            return shown_title(" ".join([block.text for block in turn.blocks if isinstance(block, Text)]))
    return ""


def origin_for(wire: str, provider: str, model: str, family: str) -> Origin:
    """Who answered: the program's own vendor if the model's name says so, else a model of somebody unknown, behind a gateway.
    What an unknown host signed is shown to nobody else."""
    return Origin(provider, wire, model) if model.startswith(family) else Origin("", wire, model)
