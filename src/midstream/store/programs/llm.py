"""llm: its `logs.db`, one file for all conversations; `store/llm_logs.py` reads it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from ...core.blocks import Opaque
from ...core.errors import StoreError
from ...core.history import canonicalize
from ..llm_logs import ATTACHMENT, read_llm_logs
from .program import Imported, LeftOut, Place, Program, SessionFile, first_words

NAME = "llm"
_FOLDER = {"darwin": "Library/Application Support/io.datasette.llm", "win32": "AppData/Roaming/io.datasette.llm"}


def _folder(place: Place) -> Path:
    return place.folder("LLM_USER_PATH", _FOLDER.get(sys.platform, ".config/io.datasette.llm"))


def find(place: Place) -> Iterator[SessionFile]:
    path = _folder(place) / "logs.db"
    try:
        there = path.is_file()
    except OSError as error:
        raise StoreError(f"cannot read {str(path)!r}: {error.strerror}") from error
    if there:
        yield from find_in(path)


def find_in(path: Path) -> Iterator[SessionFile]:
    """The conversations of one file, the latest first."""
    entries = sorted(read_llm_logs(path), key=lambda entry: -(entry.updated or entry.created or 0.0))
    for entry in entries:
        title = entry.meta.get("title") or first_words(entry.conversation.turns)
        updated = entry.updated or entry.created or 0.0
        yield SessionFile(NAME, entry.conversation.id, str(path), title=title, updated=updated)


def read(session: SessionFile) -> Imported:
    for entry in read_llm_logs(Path(session.path)):
        if entry.conversation.id == session.id:
            # The id is llm's; here it gets one of ours.
            conversation = replace(canonicalize(entry.conversation), id="")
            left_out = LeftOut()
            for block in [block for turn in conversation.turns for block in turn.blocks if isinstance(block, Opaque)]:
                # What our own plugin brought belongs to its host, and the switch report tells of it.
                if block.kind == ATTACHMENT:
                    left_out.add("attachments, which llm only names: the files are gone or have changed")
                elif block.kind.startswith(f"{NAME}."):
                    left_out.add(f"parts of the kind {block.kind.removeprefix(f'{NAME}.')!r}")
            return Imported(replace(entry, conversation=conversation), left_out.sentences())
    raise StoreError(f"{session.path} has no conversation {session.id}")


PROGRAM = Program(NAME, "llm", _folder, find, read, find_in=find_in)
