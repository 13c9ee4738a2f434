"""The list of conversations: filters, search, costs, forks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from midstream.core.blocks import Conversation, Origin, Text, Turn, Usage, human
from midstream.store import ConversationInfo, MemoryStore, SqliteStore
from midstream.store.protocol import Entry
from midstream.web.archive import Archive, Filter, day_of
from tests.gateway.serving import asynchronous
from tests.store.plain_store import PlainStore

KIMI = Origin("moonshot", "openai-chat", "kimi-k2.5")
CLAUDE = Origin("anthropic", "anthropic", "claude-sonnet-4-5")
DAY = 86_400.0


def answer(origin: Origin, tokens: int) -> Turn:
    return Turn("ai", (Text("An answer."),), origin=origin, usage=Usage(tokens, tokens))


def stocked() -> tuple[Archive, dict[str, str]]:
    store = MemoryStore(now=lambda: 10 * DAY)
    ids = {
        "oslo": store.add(Entry(Conversation((human("A trip to Oslo"), answer(KIMI, 1_000_000))), updated=10 * DAY)),
        "code": store.add(Entry(Conversation((human("Fix the bug"), answer(CLAUDE, 10))), updated=5 * DAY)),
        "both": store.add(Entry(Conversation((human("Oslo again"), answer(KIMI, 1), answer(CLAUDE, 1))), updated=DAY)),
    }
    return Archive(store), ids


def test_each_filter_and_the_search() -> None:
    archive, ids = stocked()
    archive._digest_some(archive.infos())
    for wanted, expected in (
        (Filter(), ["oslo", "code", "both"]),
        (Filter(words="oslo"), ["oslo", "both"]),
        (Filter(words="oslo agai"), ["both"]),
        (Filter(model="anthropic/claude-sonnet-4-5"), ["code", "both"]),
        (Filter(provider="moonshot"), ["oslo", "both"]),
        (Filter(provider="moonshot", words="trip"), ["oslo"]),
        (Filter(day=day_of(5 * DAY)), ["code"]),
        (Filter(cost=1.0), ["oslo"]),
        (Filter(words="nothing has this"), []),
    ):
        found = archive.listed(wanted, 0, 100)
        assert [row["id"] for row in found["rows"]] == [ids[name] for name in expected], wanted
        assert (found["total"], found["all"]) == (len(expected), 3)
    hit = archive.listed(Filter(words="oslo"), 0, 1)["rows"][0]["hit"]
    assert hit["turn"] == 0 and hit["snippet"][slice(*hit["marks"][0])] == "Oslo"


def test_a_common_word_is_found_everywhere_by_a_thorough_search() -> None:
    store = MemoryStore(now=lambda: 10 * DAY)
    for number in range(300):
        store.add(Entry(Conversation((human(f"Number {number}"), answer(KIMI, 1))), updated=number))
    # The newest: all that a quick search gives is in this one.
    store.add(Entry(Conversation(tuple([answer(KIMI, 1) for _ in range(250)])), updated=1_000))
    archive = Archive(store)
    quick = archive.listed(Filter(words="answer"), 0, 10)
    assert quick["partial"] and quick["total"] < 301
    whole = archive.listed(Filter(words="answer", thorough=True), 0, 10)
    assert not whole["partial"] and whole["total"] == 301
    assert not archive.listed(Filter(words="number 7"), 0, 10)["partial"]


def test_a_time_that_no_calendar_has_is_no_day() -> None:
    store = MemoryStore()
    store.add(Entry(Conversation((human("From the end of time"), answer(KIMI, 1))), updated=1e18))
    archive = Archive(store)
    archive._digest_some(archive.infos())
    assert archive.facets()["days"] == [("", 1)] and archive.listed(Filter(), 0, 1)["total"] == 1
    assert archive.usage()["rows"][0]["day"] == ""


@asynchronous
async def test_costs_follow_the_list() -> None:
    archive, _ = stocked()
    assert [row["cost"] for row in archive.listed(Filter(), 0, 9)["rows"]] == [None] * 3
    archive.start_digesting()
    assert archive._digesting is not None
    await archive._digesting
    assert [round(row["cost"], 6) for row in archive.listed(Filter(), 0, 9)["rows"]] == [3.6, 0.00018, 0.000022]
    usage = archive.usage()
    assert usage["pending"] == 0 and {row["model"] for row in usage["rows"]} == {"moonshot/kimi-k2.5", CLAUDE.name}
    assert sum(row["cost"] for row in usage["rows"]) > 3.6
    await archive.close()


@asynchronous
async def test_whoever_asks_now_goes_before_the_costs_of_all() -> None:
    now = [100.0]
    store = MemoryStore()
    for _ in range(50):
        store.add(Entry(Conversation((human("a"), answer(KIMI, 1)))))
    archive = Archive(store, clock=lambda: now[0])
    archive.asked()
    archive.start_digesting()
    assert archive._digesting is not None
    await asyncio.sleep(0.1)
    assert archive.usage()["pending"] == 50  # they wait
    now[0] += 60
    await archive._digesting
    assert archive.usage()["pending"] == 0
    await archive.close()


def test_an_answer_counts_once_and_on_its_own_day() -> None:
    """Also where forks have it, and where the conversation went on for days."""
    store = MemoryStore(now=lambda: 30 * DAY)
    first, later = answer(KIMI, 100), replace(answer(KIMI, 30), answered_at=20 * DAY)
    root = store.create(Conversation((human("a"), replace(first, answered_at=10 * DAY), human("b"), later)))
    child = store.fork(root, 2)
    store.append(child, replace(answer(CLAUDE, 5), answered_at=21 * DAY), 2)
    store.append(child, answer(CLAUDE, 7), 3)
    store.fork(child)
    expected = {
        (day_of(10 * DAY), KIMI.name): 100,
        (day_of(20 * DAY), KIMI.name): 30,
        (day_of(21 * DAY), CLAUDE.name): 5,
        (day_of(30 * DAY), CLAUDE.name): 7,  # nothing says when
    }
    archive = Archive(store)
    archive._digest_some(archive.infos())

    def used() -> dict[tuple[str, str], int]:
        return {(row["day"], row["model"]): row["input"] for row in archive.usage()["rows"]}

    assert used() == expected
    assert archive.usage()["undated"] == 1
    store.delete(root)
    archive.changed()
    del expected[day_of(20 * DAY), KIMI.name]
    assert used() == expected  # what the fork has of its parent is now counted there


def test_forks_are_a_tree() -> None:
    store = MemoryStore()
    root = store.create(Conversation((human("a"), answer(KIMI, 1), human("b"))))
    child = store.fork(root, 2)
    grandchild = store.fork(child, 1)
    alone = store.create(Conversation((human("c"),)))
    archive = Archive(store)
    for each in (root, child, grandchild):
        rows = archive.forks(each)
        assert [(row["id"], row["depth"]) for row in rows] == [(root, 0), (child, 1), (grandchild, 2)]
    assert archive.forks(alone) == []


def test_parents_in_a_circle_end() -> None:
    store = MemoryStore()
    store.add(Entry(Conversation((human("a"),), id="a"), parent="b"))
    store.add(Entry(Conversation((human("b"),), id="b"), parent="a"))
    assert len(Archive(store).forks("a")) == 2


def test_the_list_is_read_again_only_when_something_changed(tmp_path: Path) -> None:
    class Counting(SqliteStore):
        reads = 0

        def list(self, limit: int = 50, offset: int = 0) -> Sequence[ConversationInfo]:
            self.reads += 1
            return super().list(limit, offset)

    with closing(Counting(tmp_path / "own.db")) as store, closing(SqliteStore(tmp_path / "own.db")) as program:
        # A clock that stands still: only the store can say that there is something new.
        archive = Archive(store, clock=lambda: 0.0)
        made = program.create(Conversation((human("One"),)))
        assert [info.title for info in archive.infos()] == [info.title for info in archive.infos()] == ["One"]
        assert store.reads == 1
        program.set_meta(made, "title", "Two")
        assert [info.title for info in archive.infos()] == ["Two"]
        assert store.reads == 2


def test_a_store_that_cannot_tell_its_version_is_read_again_after_a_moment() -> None:
    now = [0.0]
    store = PlainStore()
    archive = Archive(store, clock=lambda: now[0])
    assert archive.infos() == []
    store.create(Conversation((human("One"),)))
    assert archive.infos() == []
    now[0] += 1.0
    assert [info.title for info in archive.infos()] == ["One"]
