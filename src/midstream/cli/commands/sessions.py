"""Commands about the conversation: stored ones, a new one, a copy, one exchange less, a file of it."""

from __future__ import annotations

import time
from pathlib import PurePath
from typing import TYPE_CHECKING

from ...core.blocks import Conversation
from ...core.errors import LocalError
from ...store import Entry, to_jsonl, to_markdown
from ..sessions import search_lines, session_line, write_file
from ..slash import Words, command, words_of
from ..view import current_mark, shortened
from ..workspace import find_session
from .model import report_lines

if TYPE_CHECKING:
    from ..chat import Chat


def _stored_sessions(chat: Chat) -> Words:
    store = chat.workspace.store
    return [(info.id, shortened(info.title, 50)) for info in store.list(50)] if store is not None else ()


@command("/sessions [WORDS]", "list or search stored conversations")
async def _sessions(chat: Chat, words: str) -> None:
    store = chat.workspace.require_store()
    if words:
        chat.view.notice(*search_lines(store, words) or ["no matches"])
        return
    infos = store.list(20)
    now = time.time()
    current = chat.session.conversation.id
    chat.view.notice(
        *[current_mark(info.id == current) + session_line(info, now) for info in infos]
        or ["no conversation is stored yet"]
    )


@command("/resume [ID]", "continue a stored conversation", _stored_sessions)
async def _resume(chat: Chat, wanted: str) -> None:
    store = chat.workspace.require_store()
    if not wanted:
        await _sessions(chat, "")
        chat.view.notice("/resume ID continues one of them")
        return
    report = await chat.workspace.resume(find_session(store, wanted))
    chat.show_history()
    chat.view.notice(f"model: {chat.session.model}", *report_lines(report))


@command("/new", "start a new conversation")
async def _new(chat: Chat, _: str) -> None:
    chat.session.conversation = Conversation(system=chat.session.conversation.system)
    chat.view.notice("started a new conversation")


@command("/fork", "continue in a copy of this conversation")
async def _fork(chat: Chat, _: str) -> None:
    store = chat.workspace.require_store()
    conversation = chat.session.conversation
    if not conversation.id:
        raise LocalError("this conversation is not stored yet: say something first")
    chat.session.conversation = store.load(store.fork(conversation.id))
    chat.view.notice(f"continuing in a copy, {chat.session.conversation.id[:8]}; {conversation.id[:8]} stays unchanged")


@command("/undo", "continue from before the last exchange")
async def _undo(chat: Chat, _: str) -> None:
    """Continue from before the last exchange; the full conversation stays in the store."""
    before = chat.session.conversation
    said = [place for place, turn in enumerate(before.turns) if turn.speaker == "human" and not turn.role]
    if not said:
        raise LocalError("nothing to undo")
    await chat.session.rewind(said[-1])
    kept = f"; the full conversation is still stored as {before.id[:8]}" if before.id else ""
    undone = " ".join(before.turns[said[-1]].text.split())
    chat.view.notice(f"undone: {shortened(undone, 60)}{kept}")


@command("/export [md|jsonl] [FILE]", "write the conversation to a file", words_of("md", "jsonl"))
async def _export(chat: Chat, rest: str) -> None:
    conversation = chat.session.conversation
    kind, name = _export_target(rest)
    store = chat.workspace.store
    entry = store.entry(conversation.id) if store is not None and conversation.id else Entry(conversation)
    data = b"".join(to_jsonl([entry])) if kind == "jsonl" else to_markdown(entry).encode("utf-8", "replace")
    default = f"midstream-{conversation.id[:8] or 'chat'}.{kind}"
    path = write_file(name or default, data, "give another name, as in /export md NAME")
    chat.view.notice(f"written: {path}")


_KINDS = {"md": "md", "jsonl": "jsonl", ".md": "md", ".markdown": "md", ".txt": "md", ".jsonl": "jsonl"}


def _export_target(rest: str) -> tuple[str, str]:
    """The kind of file and its name, which may be empty. A word that is neither a kind nor the name of a file is refused: who
    asks for a PDF must not get Markdown in a file of that name."""
    first, _, name = rest.partition(" ")
    if not rest or first in ("md", "jsonl"):
        return first or "md", name.strip()
    suffix = PurePath(rest).suffix.lower()
    if suffix in _KINDS:
        return _KINDS[suffix], rest
    what = f"a {suffix} file" if suffix else repr(first)
    raise LocalError(f"cannot export as {what}; expected md or jsonl, as in /export md NAME")
