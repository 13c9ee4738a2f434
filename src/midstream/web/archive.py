"""The conversations of one or several stores, as a list that can be filtered, with what each has cost.

What a conversation cost and used is in its turns. A digest of them is made once for each version of a conversation, in a thread,
and remembered: ten thousand conversations are listed at once and their costs follow.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from ..client.catalog import Catalog
from ..client.prices import Price, price_of
from ..core.blocks import Conversation, Turn, Value
from ..core.errors import StoreError, UnknownConversation, UnknownModel
from ..store.protocol import ConversationInfo, Hit, Store, Versioned

_FRESH = 1.0  # seconds for which a search, or the list of a store that cannot tell its version, is good enough
_LOADED = 4  # conversations that stay in memory: paging through one must not read it again for each page
_HITS = 200  # turns that a quick search gives; one of everything takes longer than a person waits for the first rows
_ALL_HITS = 50_000
_AT_ONCE = 20  # digests between two looks at whether somebody waits for an answer: some milliseconds
_CALM = 0.5  # seconds after a question in which digests wait: whoever clicks now goes before what is made for later


class ModelUse(Value, frozen=True):
    """What one model used in a conversation on one day. `cost` is None if no price is known."""

    model: str
    day: str
    """"" where nothing says when the answers came: a conversation of an older version, or of another program."""
    answers: int
    input: int
    output: int
    cache_read: int
    cost: float | None


class Digest(Value, frozen=True):
    """What a conversation cost."""

    cost: float | None
    use: tuple[ModelUse, ...]
    inherited: tuple[ModelUse, ...] = ()
    """What the turns cost that a fork has from its parent: they were paid for once."""


class Filter(Value, frozen=True):
    """Which conversations to list; an empty field asks for nothing."""

    words: str = ""
    model: str = ""
    provider: str = ""
    day: str = ""
    cost: float | None = None
    """At least this many dollars."""
    thorough: bool = False
    """Whether to search to the end, where a quick search gives only the newest of many turns."""


class Archive:
    """Every conversation at hand. The first store is the user's own; what is talked about in the page goes there."""

    def __init__(
        self, *stores: Store, catalog: Catalog | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.stores = stores
        self._catalog = catalog
        self._clock = clock
        self._infos: tuple[Sequence[object], float, list[ConversationInfo]] = ((), float("-inf"), [])
        self._digests: dict[str, tuple[float, int, Digest]] = {}
        self._loaded: OrderedDict[str, tuple[float, int, Conversation]] = OrderedDict()
        self._searched: tuple[float, str, int, list[Hit]] = (float("-inf"), "", 0, [])
        self._prices: dict[str, Price | None] = {}
        self._digesting: asyncio.Task[None] | None = None
        self._asked = float("-inf")

    @property
    def own(self) -> Store | None:
        """Where new conversations go."""
        return self.stores[0] if self.stores else None

    def infos(self) -> list[ConversationInfo]:
        """All conversations, most recently changed first."""
        # Before they are read: what changes meanwhile is seen by the next look.
        versions = [store.version() if isinstance(store, Versioned) else None for store in self.stores]
        read, until, known = self._infos
        if versions == read and (None not in versions or self._clock() < until):
            return known
        found = [info for store in self.stores for info in store.list(limit=1_000_000)]
        if len(self.stores) > 1:
            found.sort(key=lambda info: -info.updated)
        self._infos = (versions, self._clock() + _FRESH, found)
        return found

    def changed(self) -> None:
        """Forget the list: something was added."""
        self._infos = ((), float("-inf"), [])
        self._searched = (float("-inf"), "", 0, [])

    def listed(self, wanted: Filter, offset: int, limit: int) -> dict[str, Any]:
        """One page of the list, and what it can be filtered by."""
        infos = self.infos()
        hits: dict[str, Hit] = {}
        partial = False
        if wanted.words.strip():
            most = _ALL_HITS if wanted.thorough else _HITS
            found_turns = self.search(wanted.words, most)
            partial = not wanted.thorough and len(found_turns) >= most
            for hit in found_turns:
                hits.setdefault(hit.conversation, hit)
            words = wanted.words.lower().split()
            infos = [info for info in infos if info.id in hits or all(word in info.title.lower() for word in words)]
        picky = wanted.model or wanted.provider or wanted.day or wanted.cost is not None
        found = [info for info in infos if self._fits(info, wanted)] if picky else infos
        return {
            "total": len(found),
            "all": len(self.infos()),
            "partial": partial,
            "rows": [self._row(info, hits.get(info.id)) for info in found[offset : offset + limit]],
            "digested": sum(1 for info in found if self._digest_of(info) is not None),
        }

    def facets(self) -> dict[str, Any]:
        """The models, providers and days that there are, with how many conversations have each."""
        infos = self.infos()
        models = Counter([model for info in infos for model in info.models])
        providers = Counter([name for info in infos for name in {model.partition("/")[0] for model in info.models}])
        days = Counter([day_of(info.updated) for info in infos])
        return {
            "models": sorted(models.items(), key=lambda item: -item[1])[:200],
            "providers": sorted(providers.items(), key=lambda item: -item[1]),
            "days": sorted(days.items(), reverse=True)[:400],
        }

    def search(self, words: str, most: int) -> list[Hit]:
        """The turns that have these words, the newest `most` of every store; remembered for a moment, for the next rows."""
        until, *searched, hits = self._searched
        if self._clock() < until and searched == [words, most]:
            return hits
        hits = [hit for store in self.stores for hit in store.search(words, limit=most)]
        self._searched = (self._clock() + _FRESH, words, most, hits)
        return hits

    def store_of(self, conversation_id: str) -> Store:
        """The store that has it; UnknownConversation if none has."""
        for store in self.stores:
            with suppress(UnknownConversation):
                store.info(conversation_id)
                return store
        raise UnknownConversation(conversation_id)

    def _read(self, conversation_id: str) -> Conversation:
        for store in self.stores:
            with suppress(UnknownConversation):
                return store.load(conversation_id)
        raise UnknownConversation(conversation_id)

    def info(self, conversation_id: str) -> ConversationInfo:
        return self.store_of(conversation_id).info(conversation_id)

    def load(self, conversation_id: str) -> Conversation:
        """The whole conversation; the last few stay in memory."""
        store = self.store_of(conversation_id)
        info = store.info(conversation_id)
        known = self._loaded.get(conversation_id)
        if known is not None and known[:2] == (info.updated, info.turns):
            self._loaded.move_to_end(conversation_id)
            return known[2]
        conversation = store.load(conversation_id)
        self._loaded[conversation_id] = (info.updated, info.turns, conversation)
        while len(self._loaded) > _LOADED:
            self._loaded.popitem(last=False)
        return conversation

    def forks(self, conversation_id: str) -> list[dict[str, Any]]:
        """The family of a conversation as a tree of rows, its oldest ancestor first; one row alone has no family."""
        infos = {info.id: info for info in self.infos()}
        root = infos.get(conversation_id)
        if root is None:
            return []
        seen = {root.id}
        while root.parent in infos and root.parent not in seen:
            root = infos[root.parent]
            seen.add(root.id)
        children: dict[str, list[ConversationInfo]] = {}
        for info in infos.values():
            if info.parent is not None:
                children.setdefault(info.parent, []).append(info)
        rows: list[dict[str, Any]] = []
        waiting, listed = [(root, 0)], set[str]()
        while waiting:
            info, depth = waiting.pop()
            # A store is only data: a parent that is its own descendant must not be followed for ever.
            if info.id in listed:
                continue
            listed.add(info.id)
            rows.append({"id": info.id, "title": info.title, "turns": info.turns, "at": info.forked_at, "depth": depth})
            born = sorted(children.get(info.id, ()), key=lambda child: child.created, reverse=True)
            waiting += [(child, depth + 1) for child in born]
        return rows if len(rows) > 1 else []

    def cost(self, turn: Turn) -> float | None:
        """What one answer cost in dollars: the host's own figure, else by price; None if nobody knows."""
        if turn.usage is None or turn.origin is None:
            return None
        if turn.usage.cost is not None:
            return turn.usage.cost
        name = turn.origin.name
        if name not in self._prices:
            self._prices[name] = self._price(name)
        price = self._prices[name]
        return None if price is None else price.cost(turn.usage)

    def usage(self) -> dict[str, Any]:
        """Tokens and dollars by model and by day. An answer counts once, however many forks have it."""
        rows: dict[tuple[str, str], list[float]] = {}
        unpriced: set[str] = set()
        pending = undated = 0
        infos = self.infos()
        there = {info.id for info in infos}
        for info in infos:
            digest = self._digest_of(info)
            if digest is None:
                pending += 1
                continue
            # What a fork has from a parent that was deleted is counted nowhere else.
            for use in digest.use if info.parent in there else (*digest.inherited, *digest.use):
                row = rows.setdefault((use.day or day_of(info.updated), use.model), [0, 0, 0, 0, 0.0])
                undated += 0 if use.day else use.answers
                for at, value in enumerate((use.answers, use.input, use.output, use.cache_read, use.cost or 0.0)):
                    row[at] += value
                if use.cost is None:
                    unpriced.add(use.model)
        return {
            "pending": pending,
            "undated": undated,
            "unpriced": sorted(unpriced),
            "rows": [
                {"day": day, "model": model, **dict(zip(_USED, values, strict=True))}
                for (day, model), values in sorted(rows.items())
            ],
        }

    def start_digesting(self) -> None:
        """Make the digests that are missing, in a thread, a few at a time."""
        if self._digesting is None or self._digesting.done():
            self._digesting = asyncio.create_task(self._digest_all())

    async def close(self) -> None:
        if self._digesting is not None:
            self._digesting.cancel()
            await asyncio.gather(self._digesting, return_exceptions=True)

    def asked(self) -> None:
        """Somebody waits for an answer."""
        self._asked = self._clock()

    async def _digest_all(self) -> None:
        missing = [info for info in await asyncio.to_thread(self.infos) if self._digest_of(info) is None]
        for start in range(0, len(missing), _AT_ONCE):
            # Once for each few and no longer: pages that ask all the time do not keep the digests from being made.
            await asyncio.sleep(max(0.0, self._asked + _CALM - self._clock()))
            await asyncio.to_thread(self._digest_some, missing[start : start + _AT_ONCE])

    def _digest_some(self, infos: Iterable[ConversationInfo]) -> None:
        for info in infos:
            try:
                turns: Sequence[Turn] = self._read(info.id).turns
            except StoreError:
                turns = ()  # one that cannot be read has no known cost, and must not keep the others from theirs
            self._digests[info.id] = (info.updated, info.turns, self.digest(turns, info))

    def digest(self, turns: Sequence[Turn], info: ConversationInfo) -> Digest:
        """What a conversation's turns cost."""
        forked_at = 0 if info.parent is None else info.forked_at or 0
        inherited, use = self._used(turns[:forked_at]), self._used(turns[forked_at:])
        known = [each.cost for each in (*inherited, *use) if each.cost is not None]
        return Digest(sum(known) if known else None, use, inherited)

    def _used(self, turns: Iterable[Turn]) -> tuple[ModelUse, ...]:
        """What these turns cost, by model and day."""
        found: dict[tuple[str, str], list[tuple[Turn, float | None]]] = {}
        for turn in turns:
            if turn.usage is not None and turn.origin is not None:
                day = "" if turn.answered_at is None else day_of(turn.answered_at)
                found.setdefault((turn.origin.name, day), []).append((turn, self.cost(turn)))
        return tuple([_use(model, day, answers) for (model, day), answers in found.items()])

    def _digest_of(self, info: ConversationInfo) -> Digest | None:
        known = self._digests.get(info.id)
        return known[2] if known is not None and known[:2] == (info.updated, info.turns) else None

    def _fits(self, info: ConversationInfo, wanted: Filter) -> bool:
        if wanted.model and wanted.model not in info.models:
            return False
        if wanted.provider and not any(model.partition("/")[0] == wanted.provider for model in info.models):
            return False
        if wanted.day and day_of(info.updated) != wanted.day:
            return False
        if wanted.cost is None:
            return True
        digest = self._digest_of(info)
        return digest is not None and digest.cost is not None and digest.cost >= wanted.cost

    def _row(self, info: ConversationInfo, hit: Hit | None) -> dict[str, Any]:
        digest = self._digest_of(info)
        row: dict[str, Any] = {
            "id": info.id,
            "title": info.title,
            "updated": info.updated,
            "turns": info.turns,
            "models": info.models,
            "forked": info.parent is not None,
            "cost": None if digest is None else digest.cost,
        }
        if hit is not None:
            row["hit"] = {"turn": hit.position, "snippet": hit.snippet, "marks": hit.marks}
        return row

    def _price(self, name: str) -> Price | None:
        try:
            if self._catalog is not None:
                return self._catalog.price(self._catalog.resolve(name))
        except UnknownModel:
            pass  # a provider of another time, or of doubles that do not run now: the table may still know it
        return price_of(*name.split("/", 1)) if "/" in name else None


_USED = ("answers", "input", "output", "cache_read", "cost")


def _use(model: str, day: str, answers: Sequence[tuple[Turn, float | None]]) -> ModelUse:
    usages = [turn.usage for turn, _ in answers if turn.usage is not None]
    known = [cost for _, cost in answers if cost is not None]
    return ModelUse(
        model,
        day,
        len(answers),
        sum([usage.read for usage in usages]),
        sum([usage.output for usage in usages]),
        sum([usage.cache_read for usage in usages]),
        sum(known) if known else None,
    )


def day_of(when: float) -> str:
    """The day of a time, where this program runs: 2026-11-17; "" of a time that no calendar has, which an imported file may claim."""
    try:
        return datetime.fromtimestamp(when).strftime("%Y-%m-%d")
    except (ValueError, OverflowError, OSError):
        return ""
