"""Commands about the conversation: stored ones, a new one, a copy, one exchange less, a file of it."""

from __future__ import annotations

import time
from pathlib import PurePath
from typing import TYPE_CHECKING

from ...core.blocks import Conversation, Turn
from ...core.compaction import said_last, sent_turns
from ...core.errors import LocalError
from ...core.plural import pluralize
from ...core.visible import visible
from ...store import ConversationInfo, Entry, to_jsonl, to_markdown
from ..sessions import ago, search_lines, session_line, title_of, write_file
from ..slash import Words, command, words_of
from ..view import current_mark, shortened
from ..workspace import find_session
from .context import undo_compaction
from .model import report_lines

if TYPE_CHECKING:
    from ..chat import Chat


PICKED_FROM = 500
TITLE_LENGTH = 80


def _stored_sessions(chat: Chat) -> Words:
    store = chat.workspace.store
    return [(info.id, shortened(info.title, 50)) for info in store.list(50)] if store is not None else ()


@command("/sessions [WORDS]", "list or search stored conversations", short="s")
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
    found = find_session(store, wanted) if wanted else await _picked(chat)
    if not found:
        return
    report = await chat.workspace.resume(found)
    chat.show_history()
    chat.view.notice(f"model: {chat.session.model}", *report_lines(report))
    chat.tell_waiting()


async def _picked(chat: Chat) -> str | None:
    """The id that the human chose from the list; where there is no list to choose from, it is only shown."""
    infos = chat.workspace.require_store().list(PICKED_FROM)
    if not chat.picks or not infos:
        await _sessions(chat, "")
        if infos:
            chat.view.notice("/resume ID continues one of them")
        return None
    now = time.time()
    place = await chat.pick([_picker_row(info, now) for info in infos])
    return infos[place].id if place is not None else None


def _picker_row(info: ConversationInfo, now: float) -> str:
    """One conversation in a row that may be cut at its end: what tells it apart comes first."""
    models = ", ".join(info.models) or "no answer yet"
    return f"{title_of(info)} · {ago(now - info.updated)} · {pluralize(info.turns, 'turn')} · {models} · {info.id[:8]}"


@command("/title [TEXT]", "show or set the title of this conversation")
async def _title(chat: Chat, text: str) -> None:
    store = chat.workspace.require_store()
    conversation = _stored_id(chat)
    if text:
        chat.title = shortened(" ".join(visible(text).split()), TITLE_LENGTH)
    how = "" if chat.title else " (its first words; /title TEXT sets another)"
    chat.view.notice(f"title: {title_of(store.info(conversation))}{how}")


@command("/new", "start a new conversation")
async def _new(chat: Chat, _: str) -> None:
    chat.workspace.start_new()
    chat.view.notice("started a new conversation")
    chat.show_sources()
    chat.tell_waiting()


@command("/fork", "continue in a copy of this conversation")
async def _fork(chat: Chat, _: str) -> None:
    store = chat.workspace.require_store()
    before = _stored_id(chat)
    chat.session.conversation = chat.session.carry_costs(store.load(store.fork(before)))
    chat.view.notice(f"continuing in a copy, {chat.session.conversation.id[:8]}; {before[:8]} stays unchanged")


def _stored_id(chat: Chat) -> str:
    conversation = chat.session.conversation.id
    if not conversation:
        why = (
            "yet: say something first"
            if chat.workspace.writable_store is not None
            else "because the store is read-only"
        )
        raise LocalError(f"this conversation is not stored {why}")
    return conversation


@command("/undo", "continue from before the last exchange, or take back a summary just made")
async def _undo(chat: Chat, _: str) -> None:
    """Continue from before the last exchange; the full conversation stays in the store."""
    if chat.unsent:
        chat.unsent.pop()
        chat.view.notice("undone: the output of the last !command, which was not sent yet")
        return
    before = chat.session.conversation
    if before.turns and sent_turns(before.turns).summary == len(before.turns) - 1:
        await undo_compaction(chat)
        return
    undone, kept = await step_back(chat)
    chat.view.notice(f"undone: {shortened(' '.join(undone.text.split()), 60)}{kept}")


async def step_back(chat: Chat) -> tuple[Turn, str]:
    """Go back to before the last message of the human: that message, and a remark on where the full conversation is."""
    before = chat.session.conversation
    place = last_message(before)
    await chat.session.rewind(place)
    kept = f"; the full conversation is still stored as {before.id[:8]}" if before.id else ""
    return before.turns[place], kept


def last_message(conversation: Conversation) -> int:
    """Where the last message of the human is."""
    place = said_last(conversation.turns)
    if place is None:
        raise LocalError("nothing was said yet, so there is nothing to undo, to retry or to compare")
    return place


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
