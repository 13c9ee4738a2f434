"""A store that lasts as long as its process: for tests, and for chats that shall leave no trace.

It keeps the same bytes the other stores write, so a value that one of them would refuse or change is refused or changed
here too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import RLock

from msgspec.structs import replace

from ..core.blocks import Conversation, Turn
from ..core.errors import StoreError
from .protocol import ConversationExists, ConversationInfo, Entry, Hit, LengthConflict, Original, UnknownConversation
from .records import (
    checked_entry,
    checked_text,
    decode_head,
    decode_turn,
    encode_head,
    encode_turn,
    models_of,
    new_id,
    title_of,
)
from .search import Query, folded, searchable


class _Stored:
    """One conversation: its turns as bytes, each with its words and its number in the store's order of arrival."""

    __slots__ = ("head", "info", "meta", "original", "seq", "turns")

    def __init__(
        self, seq: int, info: ConversationInfo, head: bytes, meta: dict[str, str], original: Original | None
    ) -> None:
        self.seq = seq
        self.info = info
        self.head = head
        self.meta = meta
        self.original = original
        self.turns: list[tuple[int, bytes, Sequence[str]]] = []


class MemoryStore:
    """A Store in memory."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lock = RLock()
        self._stored: dict[str, _Stored] = {}
        self._arrivals = 0
        self._closed = False

    def create(self, conversation: Conversation = Conversation(), /) -> str:  # noqa: B008  (a frozen value)
        return self.add(Entry(conversation))

    def add(self, entry: Entry) -> str:
        conversation = checked_entry(entry).conversation
        head = encode_head(conversation)
        turns = [(encode_turn(turn), folded(searchable(turn))) for turn in conversation.turns]
        created = self._now() if entry.created is None else entry.created
        info = ConversationInfo(
            conversation.id or new_id(),
            title_of(conversation.turns),
            created,
            created if entry.updated is None else entry.updated,
            len(turns),
            models_of(conversation.turns),
            entry.parent,
            entry.forked_at,
        )
        with self._lock:
            self._check_open()
            if info.id in self._stored:
                raise ConversationExists(info.id)
            stored = self._stored[info.id] = _Stored(self._next(), info, head, dict(entry.meta), entry.original)
            for data, held in turns:
                self._arrive(stored, data, held)
        return info.id

    def append(self, conversation_id: str, turn: Turn, expected_length: int) -> int:
        data = encode_turn(turn)
        held = folded(searchable(turn))
        with self._lock:
            stored = self._find(conversation_id)
            if len(stored.turns) != expected_length:
                raise LengthConflict(conversation_id, expected_length, len(stored.turns))
            self._arrive(stored, data, held)
            stored.info = replace(
                stored.info,
                title=stored.info.title or title_of((turn,)),
                updated=self._now(),
                turns=len(stored.turns),
                models=tuple(dict.fromkeys((*stored.info.models, *models_of((turn,))))),
            )
            return len(stored.turns)

    def load(self, conversation_id: str) -> Conversation:
        with self._lock:
            stored = self._find(conversation_id)
            rows = list(stored.turns)
        turns = tuple([decode_turn(row[1], conversation_id, position) for position, row in enumerate(rows)])
        return replace(decode_head(stored.head, conversation_id), turns=turns)

    def entry(self, conversation_id: str) -> Entry:
        with self._lock:
            stored = self._find(conversation_id)
            info = stored.info
            return Entry(
                self.load(conversation_id),
                dict(sorted(stored.meta.items())),
                info.created,
                info.updated,
                info.parent,
                info.forked_at,
                stored.original,
            )

    def info(self, conversation_id: str) -> ConversationInfo:
        with self._lock:
            return self._titled(self._find(conversation_id))

    def list(self, limit: int = 50, offset: int = 0) -> Sequence[ConversationInfo]:
        with self._lock:
            self._check_open()
            order = sorted(self._stored.values(), key=lambda stored: (stored.info.updated, stored.seq), reverse=True)
            return [self._titled(stored) for stored in order[max(0, offset) :][: max(0, limit)]]

    def search(self, query: str, limit: int = 20) -> Sequence[Hit]:
        wanted = Query(query)
        with self._lock:
            self._check_open()
            found = [
                (arrival, stored, position, data)
                for stored in self._stored.values()
                for position, (arrival, data, held) in enumerate(stored.turns)
                if wanted and wanted.matches(held)
            ]
            found.sort(key=lambda item: item[0], reverse=True)
            return [self._hit(wanted, stored, position, data) for _, stored, position, data in found[: max(0, limit)]]

    def fork(self, conversation_id: str, at_position: int | None = None) -> str:
        with self._lock:
            stored = self._find(conversation_id)
            length = len(stored.turns)
            at = length if at_position is None else at_position
            if not 0 <= at <= length:
                raise StoreError(f"cannot fork {conversation_id!r} at {at}: it has {length} turns")
            turns = [decode_turn(row[1], conversation_id, place) for place, row in enumerate(stored.turns[:at])]
            conversation = replace(decode_head(stored.head, ""), turns=tuple(turns))
            return self.add(Entry(conversation, dict(stored.meta), parent=conversation_id, forked_at=at))

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
            raise StoreError("this store is closed: open another")

    def _find(self, conversation_id: str) -> _Stored:
        self._check_open()
        stored = self._stored.get(conversation_id)
        if stored is None:
            raise UnknownConversation(conversation_id)
        return stored

    def _next(self) -> int:
        self._arrivals += 1
        return self._arrivals

    def _arrive(self, stored: _Stored, data: bytes, held: Sequence[str]) -> None:
        stored.turns.append((self._next(), data, held))

    @staticmethod
    def _titled(stored: _Stored) -> ConversationInfo:
        return replace(stored.info, title=stored.meta.get("title", stored.info.title))

    def _hit(self, wanted: Query, stored: _Stored, position: int, data: bytes) -> Hit:
        turn = decode_turn(data, stored.info.id, position)
        snippet, marks = wanted.snippet(searchable(turn))
        return Hit(stored.info.id, position, turn.speaker, self._titled(stored).title, snippet, marks)
