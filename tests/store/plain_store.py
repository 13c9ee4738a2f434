"""The plainest store that keeps the protocol: dicts and lists, with which the others are compared, step by step.

It keeps the same bytes as the other stores, so it refuses what they refuse.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import RLock

import msgspec
from msgspec.structs import replace

from midstream.core.blocks import Conversation, Turn
from midstream.core.errors import StoreError
from midstream.store.protocol import (
    ConversationExists,
    ConversationInfo,
    Entry,
    Hit,
    LengthConflict,
    Original,
    UnknownConversation,
)
from midstream.store.records import (
    checked_text,
    decode_head,
    decode_turn,
    extended,
    fork_position,
    make_hit,
    make_record,
    turn_record,
)
from midstream.store.search import Query, folded_text


class _Stored(msgspec.Struct):
    """One conversation. Each turn has a number in the store's order of arrival, its bytes, and its text."""

    number: int
    info: ConversationInfo
    head: bytes
    meta: dict[str, str]
    original: Original | None
    turns: list[tuple[int, bytes, list[str]]]


class PlainStore:
    """A Store in memory, without SQLite."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lock = RLock()
        self._stored: dict[str, _Stored] = {}
        self._arrivals = 0
        self._closed = False

    def create(self, conversation: Conversation = Conversation(), /) -> str:  # noqa: B008  (a frozen value)
        return self.add(Entry(conversation))

    def add(self, entry: Entry) -> str:
        info, head, turns = make_record(entry, self._now())
        with self._lock:
            self._check_open()
            if info.id in self._stored:
                raise ConversationExists(info.id)
            number = self._next()
            numbered = [(self._next(), *turn) for turn in turns]
            self._stored[info.id] = _Stored(number, info, head, dict(entry.meta), entry.original, numbered)
        return info.id

    def append(self, conversation_id: str, turn: Turn, expected_length: int) -> int:
        data, text = turn_record(turn)
        with self._lock:
            stored = self._find(conversation_id)
            length = len(stored.turns)
            if length != expected_length:
                raise LengthConflict(conversation_id, expected_length, length)
            stored.turns.append((self._next(), data, text))
            title, models = extended(stored.info.title, stored.info.models, turn)
            stored.info = replace(stored.info, title=title, updated=self._now(), turns=length + 1, models=models)
            return length + 1

    def load(self, conversation_id: str) -> Conversation:
        with self._lock:
            return self._load(self._find(conversation_id))

    def entry(self, conversation_id: str) -> Entry:
        with self._lock:
            stored = self._find(conversation_id)
            info = stored.info
            meta = dict(sorted(stored.meta.items()))
            conversation = self._load(stored)
            return Entry(conversation, meta, info.created, info.updated, info.parent, info.forked_at, stored.original)

    def info(self, conversation_id: str) -> ConversationInfo:
        with self._lock:
            return self._titled(self._find(conversation_id))

    def list(self, limit: int = 50, offset: int = 0) -> Sequence[ConversationInfo]:
        with self._lock:
            self._check_open()
            order = sorted(self._stored.values(), key=lambda stored: (stored.info.updated, stored.number), reverse=True)
            return [self._titled(stored) for stored in order[max(0, offset) :][: max(0, limit)]]

    def search(self, query: str, limit: int = 20) -> Sequence[Hit]:
        wanted = Query(query)
        with self._lock:
            self._check_open()
            found = [
                (arrival, stored.info.id, position, self._titled(stored).title, data)
                for stored in self._stored.values()
                for position, (arrival, data, text) in enumerate(stored.turns)
                if wanted and wanted.matches(folded_text(text))
            ]
            found.sort(reverse=True)
            hits = [make_hit(wanted, name, at, title, data) for _, name, at, title, data in found[: max(0, limit)]]
            return [hit for hit in hits if hit is not None]

    def fork(self, conversation_id: str, at_position: int | None = None) -> str:
        with self._lock:
            stored = self._find(conversation_id)
            at = fork_position(conversation_id, at_position, len(stored.turns))
            conversation = replace(self._load(stored, at), id="")
            return self.add(Entry(conversation, stored.meta, parent=conversation_id, forked_at=at))

    def delete(self, conversation_id: str) -> None:
        with self._lock:
            self._find(conversation_id)
            del self._stored[conversation_id]

    def set_meta(self, conversation_id: str, key: str, value: str | None) -> None:
        checked_text(key, "a setting")
        with self._lock:
            stored = self._find(conversation_id)
            if value is None:
                stored.meta.pop(key, None)
            else:
                stored.meta[key] = checked_text(value, "a setting")

    def get_meta(self, conversation_id: str, key: str) -> str | None:
        with self._lock:
            return self._find(conversation_id).meta.get(key)

    def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("this store is closed; open a new one")

    def _find(self, conversation_id: str) -> _Stored:
        self._check_open()
        stored = self._stored.get(conversation_id)
        if stored is None:
            raise UnknownConversation(conversation_id)
        return stored

    def _next(self) -> int:
        self._arrivals += 1
        return self._arrivals

    @staticmethod
    def _load(stored: _Stored, length: int | None = None) -> Conversation:
        name = stored.info.id
        turns = [decode_turn(data, name, position) for position, (_, data, _) in enumerate(stored.turns[:length])]
        return replace(decode_head(stored.head, name), turns=tuple(turns))

    @staticmethod
    def _titled(stored: _Stored) -> ConversationInfo:
        return replace(stored.info, title=stored.meta.get("title", stored.info.title))
