"""What every store promises (store/protocol.py), asked of each of them."""

from __future__ import annotations

import random
import string
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from midstream.core.blocks import Conversation, Origin, Text, Thinking, ToolResponse, Turn, human
from midstream.core.errors import StoreError
from midstream.store import ConversationExists, Entry, LengthConflict, Original, Store, UnknownConversation

from . import samples
from .conftest import MakeStore


def ai(text: str, origin: Origin | None = None) -> Turn:
    return Turn("ai", (Text(text),), origin=origin)


def said(store: Store, *lines: str) -> str:
    return store.create(Conversation(tuple([human(line) for line in lines])))


def changed_later(value: object) -> Text:
    """A block that took a dict which JSON can write, and whose caller has kept the dict and put something else into it."""
    extra: dict[str, object] = {}
    block = Text("x", extra)
    extra["key"] = value
    return block


many = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class TestCreateAndLoad:
    def test_gives_back_what_was_stored(self, store: Store) -> None:
        made = store.create(samples.TOOL_TALK)
        assert store.load(made) == replace(samples.TOOL_TALK, id=made)

    def test_mints_distinct_ids(self, store: Store) -> None:
        assert len({store.create() for _ in range(50)}) == 50

    def test_keeps_a_given_id_and_refuses_it_twice(self, store: Store) -> None:
        assert store.create(Conversation(id="mine", system="first")) == "mine"
        with pytest.raises(ConversationExists, match="'mine'"):
            store.create(Conversation(id="mine", system="second"))
        assert store.load("mine").system == "first"

    def test_an_unknown_id_is_named(self, store: Store) -> None:
        for action in (
            lambda: store.load("nobody"),
            lambda: store.entry("nobody"),
            lambda: store.info("nobody"),
            lambda: store.append("nobody", human("hi"), 0),
            lambda: store.fork("nobody"),
            lambda: store.delete("nobody"),
            lambda: store.set_meta("nobody", "a", "b"),
            lambda: store.get_meta("nobody", "a"),
        ):
            with pytest.raises(UnknownConversation, match="'nobody'"):
                action()

    def test_no_thinking_and_empty_thinking_stay_different(self, store: Store) -> None:
        without, empty = Turn("ai", (Text("a"),)), Turn("ai", (Thinking(""), Text("a")))
        made = store.create(Conversation((without, empty)))
        assert store.load(made).turns == (without, empty)

    @given(samples.conversations)
    @many
    def test_any_conversation_comes_back_equal(self, lasting_store: Store, conversation: Conversation) -> None:
        made = lasting_store.create(conversation)
        assert lasting_store.load(made) == replace(conversation, id=made)


class TestAppend:
    def test_grows_by_one_and_says_the_new_length(self, store: Store) -> None:
        made = store.create(Conversation(system="s"))
        for number, turn in enumerate(samples.TOOL_TALK.turns):
            assert store.append(made, turn, number) == number + 1
        assert store.load(made) == Conversation(samples.TOOL_TALK.turns, "s", made)

    @pytest.mark.parametrize("wrong", [0, 1, 3, -1, 10**30])
    def test_a_wrong_length_writes_nothing(self, store: Store, wrong: int) -> None:
        made = said(store, "one", "two")
        before = store.entry(made)
        with pytest.raises(LengthConflict) as caught:
            store.append(made, human("three"), wrong)
        assert (caught.value.expected, caught.value.length) == (wrong, 2)
        assert store.entry(made) == before
        assert store.search("three") == []

    @pytest.mark.parametrize(
        "turn",
        [
            human("a lone \ud83d surrogate"),
            Turn("ai", (changed_later(object()),)),
            Turn("ai", origin=Origin(model="\udc00")),
        ],
        ids=["surrogate", "object", "surrogate-in-model"],
    )
    def test_what_could_not_be_read_back_is_refused(self, store: Store, turn: Turn) -> None:
        made = said(store, "one")
        with pytest.raises(StoreError, match="cannot be stored"):
            store.append(made, turn, 1)
        assert len(store.load(made).turns) == 1
        assert store.append(made, human("fine"), 1) == 2

    def test_deep_values_are_refused_not_fatal(self, store: Store) -> None:
        deep: list[object] = []
        for _ in range(100_000):
            deep = [deep]
        with pytest.raises(StoreError):
            store.append(store.create(), Turn("ai", (changed_later(deep),)), 0)

    def test_racing_threads_lose_no_turn(self, store: Store) -> None:
        made = store.create()

        def push(worker: int) -> list[str]:
            won = []
            for number in range(10):
                text = f"{worker}-{number}"
                while True:
                    try:
                        store.append(made, human(text), store.info(made).turns)
                        break
                    except LengthConflict:
                        continue
                won.append(text)
            return won

        with ThreadPoolExecutor(4) as pool:
            won = [text for texts in pool.map(push, range(4)) for text in texts]
        assert sorted(turn.text for turn in store.load(made).turns) == sorted(won)


@pytest.mark.parametrize("name", samples.HOSTILE)
class TestHostileText:
    def test_round_trips_everywhere(self, store: Store, name: str) -> None:
        text = samples.HOSTILE[name]
        other = said(store, "an innocent bystander")
        original = Original(text, text.encode(), text)
        made = store.add(
            Entry(Conversation((human(text),), text, text, {text: text}), {text: text}, parent=text, original=original)
        )
        assert made == text or (not text and made)
        store.append(made, ai(text, Origin(text, text, text)), 1)
        store.set_meta(made, "title", text)
        entry = store.entry(made)
        assert entry.conversation == Conversation(
            (human(text), ai(text, Origin(text, text, text))), text, made, {text: text}
        )
        assert (entry.meta, entry.parent, entry.original) == ({text: text, "title": text}, text, original)
        assert store.info(made).title == text
        assert store.info(made).models == ((Origin(text, text, text).name,) if text else ())
        fork = store.fork(made)
        store.delete(made)
        assert {info.id for info in store.list()} == {other, fork}

    def test_is_a_plain_query(self, store: Store, name: str) -> None:
        made = said(store, "nothing of the kind", samples.HOSTILE[name] + " needle")
        for hit in store.search(samples.HOSTILE[name] + " needle"):
            assert (hit.conversation, hit.position) == (made, 1)


def test_lone_surrogates_are_refused_everywhere(store: Store) -> None:
    bad = "\ud800"
    made = said(store, "one")
    for action in (
        lambda: store.create(Conversation(id=bad)),
        lambda: store.create(Conversation(system=bad)),
        lambda: store.add(Entry(Conversation(), {"key": bad})),
        lambda: store.add(Entry(Conversation(), {bad: "value"})),
        lambda: store.add(Entry(Conversation(), parent=bad)),
        lambda: store.add(Entry(Conversation(), original=Original("f", b"", bad))),
        lambda: store.set_meta(made, "title", bad),
        lambda: store.set_meta(made, bad, "x"),
        lambda: store.load(bad),
        lambda: store.delete(bad),
    ):
        with pytest.raises(StoreError):
            action()
    assert [info.id for info in store.list()] == [made]
    assert store.search(bad) == []


class TestInfoAndList:
    def test_says_what_a_list_shows(self, store: Store) -> None:
        made = store.create(Conversation((human("\n  First   line\nsecond"),)))
        for number, origin in enumerate((samples.KIMI, samples.CLAUDE, samples.KIMI), 1):
            store.append(made, ai("x", origin), number)
        info = store.info(made)
        assert info.title == "First line"
        assert info.models == ("moonshot/kimi-k2.5", "anthropic/claude-sonnet-4-5")
        assert info.turns == 4
        assert (info.parent, info.forked_at) == (None, None)
        assert 1000 <= info.created < info.updated
        assert store.list() == [info]

    def test_the_title_waits_for_a_human_and_yields_to_a_given_one(self, store: Store) -> None:
        made = store.create()
        store.append(made, Turn("human", (Text("rules"),), role="developer"), 0)
        store.append(made, ai("hello"), 1)
        assert store.info(made).title == ""
        store.append(made, human("x" * 500), 2)
        store.append(made, human("later"), 3)
        assert store.info(made).title == "x" * 79 + "…"
        store.set_meta(made, "title", "Given")
        assert store.info(made).title == store.list()[0].title == store.search("later")[0].title == "Given"
        store.set_meta(made, "title", None)
        assert store.info(made).title == "x" * 79 + "…"

    def test_last_changed_comes_first(self, store: Store) -> None:
        first, second, third = said(store, "1"), said(store, "2"), said(store, "3")
        store.append(first, human("again"), 1)
        order = [first, third, second]
        assert [info.id for info in store.list()] == order
        assert [info.id for info in store.list(2)] == order[:2]
        assert [info.id for info in store.list(2, 1)] == order[1:]
        assert [info.id for info in store.list(10**30, 2)] == order[2:]
        assert store.list(0) == store.list(-1) == store.list(5, 5) == []


class TestSearch:
    @pytest.mark.parametrize(
        ("text", "query"),
        [
            ("The quick brown fox", "quick"),
            ("The quick brown fox", "QUICK"),
            ("The quick brown fox", "fox quick"),
            ("The quick brown fox", "bro"),
            ("The quick brown fox", "the bro"),
            ("calls get_weather(city)", "weather"),
            ("calls get_weather(city)", "get_weather"),
            ("calls get_weather(city)", "get_wea"),
            ("see src/core/ids.py", "core/ids.py"),
            ("Crème brûlée in Zürich", "creme brulee"),
            ("creme brulee", "CRÈME BRÛLÉE"),
            ("cafe\u0301s", "cafés"),
            ("STRASSE", "straße"),
            ("今天天气很好", "天气"),
            ("今天天气很好", "天"),
            ("東京タワーへ行く", "タワー"),
            ("서울은 덥다", "서울"),
            ("Привет, мир", "МИР"),
            ("مرحبا بالعالم", "بالعالم"),
            ("नमस्ते दुनिया", "दुनिया"),
            ("new script \U0001e900\U0001e901", "\U0001e900"),
            ("x² + ½", "½"),
            ("it's 3.14", "3.14"),
            ("nul\x00inside", "inside"),
        ],
    )
    def test_finds(self, store: Store, text: str, query: str) -> None:
        said(store, "something else altogether")
        made = said(store, "first", text)
        assert [(hit.conversation, hit.position) for hit in store.search(query)] == [(made, 1)]

    @pytest.mark.parametrize(
        ("text", "query"),
        [
            ("The quick brown fox", "quick cat"),
            ("The quick brown fox", "qui brown"),  # only the last word may be a beginning
            ("The quick brown fox", "rown"),
            ("weather, get it", "get_weather"),  # a chunk's words stand side by side
            ("天 and 气", "气天"),
            ("a OR b", "c OR d"),
            ("plain", "words:plain"),
            ("plain", ""),
            ("plain", "  "),
            ("plain *", "*"),
            ("plain", '"'),
            ("plain", "!!! ???"),
        ],
    )
    def test_does_not_find(self, store: Store, text: str, query: str) -> None:
        said(store, text)
        assert store.search(query) == []

    def test_reads_what_was_said_called_and_answered_but_not_thought(self, store: Store) -> None:
        made = store.create(samples.TOOL_TALK)
        found = {query: [hit.position for hit in store.search(query)] for query in ("weather", "sunny", "zurich", "hm")}
        assert found == {"weather": [2, 1, 0], "sunny": [3, 2], "zurich": [1, 0], "hm": []}
        assert {hit.conversation for hit in store.search("weather")} == {made}

    def test_gives_the_newest_first_up_to_the_limit(self, store: Store) -> None:
        first, second = said(store, "needle a", "needle b"), said(store, "needle c")
        store.append(first, human("needle d"), 2)
        places = [(first, 2), (second, 0), (first, 1), (first, 0)]
        assert [(hit.conversation, hit.position) for hit in store.search("needle")] == places
        assert [(hit.conversation, hit.position) for hit in store.search("needle", 2)] == places[:2]
        assert len(store.search("needle", 10**30)) == 4
        assert store.search("needle", 0) == store.search("needle", -1) == []

    def test_shows_where(self, store: Store) -> None:
        store.create(Conversation((ai("word " * 1000 + "The Nöedle and the nöedles. " + "word " * 1000),)))
        (hit,) = store.search("the noedle")
        assert hit.speaker == "ai"
        assert len(hit.snippet) <= 200
        assert [hit.snippet[start:end] for start, end in hit.marks] == ["The", "Nöedle", "the", "nöedles"]

    def test_a_very_long_query_is_answered(self, store: Store) -> None:
        said(store, "a " * 5000)
        assert len(store.search("a " * 5000)) == 1
        assert store.search("b." * 5000) == []

    @given(samples.texts, samples.texts)
    @many
    def test_no_query_is_an_error_and_each_text_finds_itself(self, lasting_store: Store, text: str, query: str) -> None:
        made = said(lasting_store, text)
        lasting_store.search(query)
        if any(char in string.ascii_letters for char in text):
            assert made in {hit.conversation for hit in lasting_store.search(text, 1)}
        lasting_store.delete(made)


class TestFork:
    def test_takes_the_turns_before_the_place(self, store: Store) -> None:
        made = store.create(samples.TOOL_TALK)
        store.set_meta(made, "model", "moonshot/kimi-k2.5")
        fork = store.fork(made, 2)
        assert store.load(fork) == replace(samples.TOOL_TALK, id=fork, turns=samples.TOOL_TALK.turns[:2])
        info = store.info(fork)
        assert (info.parent, info.forked_at, info.turns) == (made, 2, 2)
        assert info.models == ("moonshot/kimi-k2.5",)
        assert store.get_meta(fork, "model") == "moonshot/kimi-k2.5"

    def test_shares_nothing(self, store: Store) -> None:
        made = said(store, "needle")
        fork = store.fork(made)
        store.append(fork, human("only in the fork"), 1)
        store.set_meta(fork, "title", "Fork")
        store.append(made, human("only in the parent"), 1)
        assert store.get_meta(made, "title") is None
        assert [turn.text for turn in store.load(made).turns] == ["needle", "only in the parent"]
        store.delete(made)
        assert [turn.text for turn in store.load(fork).turns] == ["needle", "only in the fork"]
        assert [hit.conversation for hit in store.search("needle")] == [fork]

    @pytest.mark.parametrize("place", [-1, 2, 10**30])
    def test_a_place_outside_is_refused(self, store: Store, place: int) -> None:
        made = said(store, "one")
        with pytest.raises(StoreError, match=r"it has 1 turn$"):
            store.fork(made, place)
        assert len(store.list()) == 1

    def test_at_the_very_start_only_the_system_prompt_stays(self, store: Store) -> None:
        made = store.create(samples.TOOL_TALK)
        fork = store.fork(made, 0)
        assert store.load(fork) == replace(samples.TOOL_TALK, id=fork, turns=())


class TestDelete:
    def test_removes_every_trace(self, store: Store) -> None:
        made = store.add(Entry(Conversation((human("needle"),), id="x"), {"a": "b"}, original=Original("f", b"needle")))
        store.delete(made)
        assert store.list() == store.search("needle") == []
        with pytest.raises(UnknownConversation):
            store.load(made)
        store.create(Conversation((human("hay"),), id="x"))
        assert store.entry("x").meta == {}
        assert store.entry("x").original is None
        assert store.search("needle") == []


class TestMeta:
    def test_keeps_settings_until_removed(self, store: Store) -> None:
        made = store.create()
        assert store.get_meta(made, "model") is None
        store.set_meta(made, "model", "a")
        store.set_meta(made, "model", "b")
        store.set_meta(made, "tool_format", "")
        assert (store.get_meta(made, "model"), store.get_meta(made, "tool_format")) == ("b", "")
        store.set_meta(made, "model", None)
        store.set_meta(made, "never there", None)
        assert store.entry(made).meta == {"tool_format": ""}


class TestEntry:
    def test_moves_whole(self, store: Store) -> None:
        entry = Entry(
            replace(samples.TOOL_TALK, id="moved"),
            {"title": "T", "model": "m"},
            created=1.5,
            updated=2.5,
            parent="p",
            forked_at=3,
            original=Original("openai", b"\x00\xff", "file.json"),
        )
        assert store.add(entry) == "moved"
        assert store.entry("moved") == entry
        info = store.info("moved")
        assert (info.created, info.updated, info.parent, info.forked_at) == (1.5, 2.5, "p", 3)


def test_a_closed_store_says_so(store: Store) -> None:
    made = said(store, "one")
    store.close()
    store.close()
    for action in (lambda: store.load(made), lambda: store.append(made, human("x"), 1), store.list):
        with pytest.raises(StoreError, match="closed"):
            action()


def test_random_work_gives_the_same_everywhere(makers: list[MakeStore], tmp_path: Path) -> None:
    """The stores are run side by side through the same actions and must agree on every answer."""
    chance = random.Random(11)
    words = ["alpha", "beta", "gamma", "天气", "get_weather", "Zürich"]
    stores = [make(tmp_path, lambda: 5.0) for make in makers]
    ids: list[str] = []
    for step in range(300):
        match chance.randrange(6):
            case 0:
                ids.append(f"c{step}")
                for store in stores:
                    store.create(Conversation(id=ids[-1]))
            case 1 | 2 | 3 if ids:
                chosen, text = chance.choice(ids), " ".join(chance.choices(words, k=3))
                for store in stores:
                    store.append(chosen, human(text), store.info(chosen).turns)
            case 4 if len(ids) > 3:
                gone = ids.pop(chance.randrange(len(ids)))
                for store in stores:
                    store.delete(gone)
            case _:
                query = " ".join(chance.choices(words, k=chance.randint(1, 2)))[: chance.randint(1, 12)]
                first, *others = [store.search(query) for store in stores]
                assert all(first == other for other in others), query
    first, *others = [store.list(1000) for store in stores]
    assert all(first == other for other in others)
    for store in stores:
        store.close()


def test_an_empty_tool_response_is_kept(store: Store) -> None:
    turn = Turn("tool", (ToolResponse("hist_tool_x"),))
    made = store.create(Conversation((turn,)))
    assert store.load(made).turns == (turn,)
