from __future__ import annotations

import random
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.core.blocks import Text, ToolCall, ToolResponse, Turn
from midstream.core.errors import UnknownToolFormat
from midstream.core.ids import (
    STRATEGIES,
    TOOL_FORMATS,
    ToolIdMapper,
    anthropic_strategy,
    canonical_tool_call_id,
    canonical_tool_response_id,
    detect_tool_format,
    from_own_id,
    get_tool_id_strategy,
    is_kimi_model,
    kimi_k3_strategy,
    kimi_strategy,
    mistral_strategy,
    scheme_for,
    standard_strategy,
)
from tests.core import id_exceptions
from tests.core.histories import from_vector, lawful
from tests.long_run import each_kind
from tests.shared_data import vector_params, vectors

CANONICAL = re.compile(r"hist_tool_[A-Za-z0-9_-]{24}\Z")
SHAPES = {
    "standard": re.compile(r"call_[A-Za-z0-9_-]{1,35}\Z"),
    "anthropic": re.compile(r"toolu_[A-Za-z0-9_-]{1,58}\Z"),
    "kimi": re.compile(r"functions\.[^:]+:\d+\Z"),
    "kimi-k3": re.compile(r".+_\d+\Z"),
    "mistral": re.compile(r"[A-Za-z0-9]{9}\Z"),
}


def ai(*calls: tuple[str, str]) -> Turn:
    return Turn("ai", tuple([ToolCall(call_id, name) for call_id, name in calls]))


def in_order(mapper: ToolIdMapper, turns: Any) -> list[str]:
    """The wire ids of all calls and responses in block order."""
    found = []
    for turn in turns:
        for block in turn.blocks:
            if type(block) is ToolCall:
                found.append(mapper.resolve_tool_call_id(block))
            elif type(block) is ToolResponse:
                found.append(mapper.resolve_tool_response_id(block))
    return found


# The canonical id.

parts = st.text(st.characters(codec=None), max_size=6)
seeds = st.tuples(parts, parts, parts, parts, st.integers(0, 50))


@given(seeds, seeds)
def test_canonical_ids_are_equal_exactly_when_their_seeds_are(a: Any, b: Any) -> None:
    assert (canonical_tool_call_id(*a) == canonical_tool_call_id(*b)) is (a == b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (("a|b", "", "", "", 0), ("a", "b|", "", "", 0)),
        (("", "ab", "c", "", 0), ("", "a", "bc", "", 0)),
        (("", "", "x", "|y", 0), ("", "", "x|", "y", 0)),
        (("1", "", "", "", 1), ("", "", "", "", 11)),
    ],
)
def test_parts_of_the_seed_cannot_run_together(a: Any, b: Any) -> None:
    assert canonical_tool_call_id(*a) != canonical_tool_call_id(*b)


@given(seeds)
def test_canonical_ids_have_one_shape_and_come_back(seed: Any) -> None:
    own = canonical_tool_call_id(*seed)
    assert CANONICAL.match(own)
    assert canonical_tool_response_id(*seed) == own
    call = ToolCall(own, "f")
    for strategy in (standard_strategy, anthropic_strategy):
        assert from_own_id(strategy.create_mapper().resolve_tool_call_id(call)) == own


def test_missing_parts_give_a_valid_id() -> None:
    assert CANONICAL.match(canonical_tool_call_id(None, None, None, "", 0))
    assert canonical_tool_call_id(None, None, None, "k", 0) == canonical_tool_call_id("", "", "", "k", 0)


def test_a_repeated_raw_id_is_another_call_in_another_turn_or_place() -> None:
    # Hosts restart their ids each turn: functions.read_file:0, DeepInfra's 0, K3's pwd_0.
    for raw in ("functions.read_file:0", "0", "pwd_0"):
        made = {
            canonical_tool_call_id("p", raw, "read_file", key, index)
            for key in ("turn-1", "turn-2")
            for index in (0, 1)
        }
        assert len(made) == 4


@pytest.mark.parametrize(
    "foreign", ["", "call_abc", "call_" + "x" * 23, "call_" + "x" * 25, "x" * 24, "functions.f:0", "call_" + "." * 24]
)
def test_foreign_ids_are_not_taken_for_ours(foreign: str) -> None:
    assert from_own_id(foreign) is None


@pytest.mark.parametrize("vector", vector_params("ids/id_canonical.json"))
def test_canonical_vectors(vector: dict[str, Any]) -> None:
    seed = vector["input"]
    args = (seed["providerName"], seed["rawId"], seed["toolName"], seed["turnKey"], seed["callIndex"])
    own = canonical_tool_call_id(*args)
    assert CANONICAL.match(own)
    assert (own != vector["expected"]) is (vector["id"] in id_exceptions.CANONICAL)


# Edge mapping.


@pytest.mark.parametrize("vector", vector_params("ids/id_normalization.json"))
def test_normalization_vectors(vector: dict[str, Any]) -> None:
    given_ids = vector.get("input_pair") or [vector["input"]]
    turns = [ai(*[(each, "f") for each in given_ids])]
    standard = in_order(standard_strategy.create_mapper(turns), turns)
    anthropic = in_order(anthropic_strategy.create_mapper(turns), turns)
    assert all(SHAPES["standard"].match(each) for each in standard)
    assert all(SHAPES["anthropic"].match(each) for each in anthropic)
    if "input_pair" in vector:
        assert len(set(standard)) == len(set(anthropic)) == 2
        return
    agree = standard == [vector["expected"]["openai"]] and anthropic == [vector["expected"]["anthropic"]]
    assert agree is (vector["id"] not in id_exceptions.NORMALIZATION), (standard, anthropic, vector["expected"])


@pytest.mark.parametrize("vector", vector_params("ids/id_strategy.json"))
def test_strategy_vectors(vector: dict[str, Any]) -> None:
    listed = vector["id"] in id_exceptions.STRATEGY
    if "format_in" in vector:
        assert (get_tool_id_strategy(vector["format_in"]).name == vector["expected_strategy"]) is not listed
        return
    strategy = get_tool_id_strategy(vector["format"])
    turns = from_vector(vector["history"])
    got, wanted = in_order(strategy.create_mapper(turns), turns), vector["expected_ids_in_order"]
    assert all(SHAPES[strategy.name].match(each) for each in got)
    assert (got == wanted) is not listed, got
    if listed and vector["id"] != "id_strategy-022":  # other ids, but equal exactly where theirs are
        assert [got.index(each) for each in got] == [wanted.index(each) for each in wanted]


def test_the_lists_of_exceptions_name_only_vectors() -> None:
    for name, listed in (
        ("id_canonical", id_exceptions.CANONICAL),
        ("id_normalization", id_exceptions.NORMALIZATION),
        ("id_strategy", id_exceptions.STRATEGY),
        ("model_detection", id_exceptions.DETECTION),
    ):
        assert set(listed) <= set(vectors(f"ids/{name}.json"))


BATCH = 200


@pytest.mark.parametrize("scheme", sorted(STRATEGIES))
@given(seed=st.integers(0, 2**64 - 1))
@settings(max_examples=50, deadline=None)
def test_mapping_ten_thousand_histories(scheme: str, seed: int) -> None:
    """50 examples of 200 histories each."""
    rng = random.Random(seed)
    strategy, shape = STRATEGIES[scheme], SHAPES[scheme]
    for _ in range(BATCH):
        turns = lawful(rng)
        cut = rng.randrange(len(turns) + 1)
        mapper = strategy.create_mapper(turns)
        wire = {call.id: mapper.resolve_tool_call_id(call) for turn in turns for call in turn.tool_calls}
        assert len(set(wire.values())) == len(wire)
        assert all(shape.match(each) for each in wire.values())
        grown = strategy.create_mapper(turns[:cut])
        before = in_order(grown, turns[:cut])
        twin = grown.clone()
        grown.extend(turns[cut:])
        after = in_order(grown, turns)
        assert after[: len(before)] == before
        assert after == in_order(mapper, turns)
        assert in_order(twin, turns[:cut]) == before
        assert all(wire[r.call_id] == grown.resolve_tool_response_id(r) for t in turns for r in t.tool_responses)


@pytest.mark.parametrize("scheme", sorted(STRATEGIES))
def test_a_clone_goes_its_own_way(scheme: str) -> None:
    mapper = STRATEGIES[scheme].create_mapper([ai(("a", "f"))])
    twin = mapper.clone()
    twin.extend([ai(("b", "f"))])
    first = mapper.resolve_tool_call_id(ToolCall("c", "f"))
    assert (
        STRATEGIES[scheme].create_mapper([ai(("a", "f"), ("c", "f"))]).resolve_tool_call_id(ToolCall("c", "f")) == first
    )


def test_two_prefixes_of_one_suffix_stay_two_ids() -> None:
    turns = [ai(("call_abc", "f"), ("toolu_abc", "f"), ("hist_tool_abc", "f"), ("abc", "f"))]
    for strategy in (standard_strategy, anthropic_strategy):
        found = in_order(strategy.create_mapper(turns), turns)
        assert len(set(found)) == 4
        assert found[0].endswith("_abc")


# Kimi.


def test_kimi_counts_over_the_whole_request() -> None:
    turns = [
        ai(("a", "read_file"), ("b", "glob")),
        Turn("tool", (ToolResponse("b"), ToolResponse("a"))),
        ai(("c", "glob")),
    ]
    want = [
        "functions.read_file:0",
        "functions.glob:1",
        "functions.glob:1",
        "functions.read_file:0",
        "functions.glob:2",
    ]
    assert in_order(kimi_strategy.create_mapper(turns), turns) == want


def test_kimi_numbers_by_place_in_the_request_not_by_order_of_asking() -> None:
    mapper = kimi_strategy.create_mapper([ai(("a", "f"))])
    mapper.extend([ai(("b", "f"), ("c", "f"))])
    assert [mapper.resolve_tool_call_id(ToolCall(each, "f")) for each in "cba"] == [
        "functions.f:2", "functions.f:1", "functions.f:0",
    ]  # fmt: skip


def test_kimi_k3_keeps_its_own_shape() -> None:
    turns = [ai(("a", "pwd")), ai(("b", "pwd"))]
    assert in_order(kimi_k3_strategy.create_mapper(turns), turns) == ["pwd_0", "pwd_1"]


def test_kimi_orphan_response_takes_the_next_number() -> None:
    turns = [
        ai(("a", "f")),
        Turn("tool", (ToolResponse("gone", "g"), ToolResponse("gone", "g"), ToolResponse("other"))),
    ]
    want = ["functions.f:0", "functions.g:1", "functions.g:1", "functions.tool:2"]
    assert in_order(kimi_strategy.create_mapper(turns), turns) == want


def test_kimi_duplicate_canonical_ids_are_one_call_and_the_first_wins() -> None:
    turns = [ai(("dup", "a")), Turn("tool", (ToolResponse("dup", "a"),)), ai(("dup", "b"), ("c", "c"))]
    want = ["functions.a:0", "functions.a:0", "functions.a:0", "functions.c:1"]
    assert in_order(kimi_strategy.create_mapper(turns), turns) == want


def test_kimi_interleaved_turns_answer_across_turns() -> None:
    turns = [
        ai(("a", "f")), Turn("human", (Text("wait"),)), ai(("b", "f")),
        Turn("tool", (ToolResponse("b"),)), Turn("tool", (ToolResponse("a"),)),
    ]  # fmt: skip
    want = ["functions.f:0", "functions.f:1", "functions.f:1", "functions.f:0"]
    assert in_order(kimi_strategy.create_mapper(turns), turns) == want


def test_kimi_numbers_only_calls_of_the_model() -> None:
    turns = [Turn("human", (ToolCall("h", "f"),)), ai(("a", "f"))]
    assert kimi_strategy.create_mapper(turns).resolve_tool_call_id(ToolCall("a", "f")) == "functions.f:0"


# Mistral.


def test_mistral_collisions_are_rehashed_with_a_salt(monkeypatch: pytest.MonkeyPatch) -> None:
    class Weak:
        """A hash of two values."""

        def __init__(self, data: bytes) -> None:
            canonical, salt = data.decode().rsplit("|", 1)
            self.value = (len(canonical) + int(salt)) % 7

        def digest(self) -> bytes:
            return bytes([0] * 15 + [self.value])

    monkeypatch.setattr("hashlib.sha256", Weak)
    turns = [ai(*[(f"hist_tool_{n}", "f") for n in range(6)])]
    found = in_order(mistral_strategy.create_mapper(turns), turns)
    assert len(set(found)) == 6
    assert all(SHAPES["mistral"].match(each) for each in found)
    assert in_order(mistral_strategy.create_mapper(turns), turns) == found


def test_mistral_keeps_an_id_of_its_own_shape() -> None:
    assert mistral_strategy.create_mapper().resolve_tool_call_id(ToolCall("abc123XYZ", "f")) == "abc123XYZ"


@pytest.mark.parametrize("first", [True, False])
def test_mistral_minted_and_kept_ids_do_not_meet(first: bool) -> None:
    minted = mistral_strategy.create_mapper().resolve_tool_call_id(ToolCall("hist_tool_a", "f"))
    both = [("hist_tool_a", "f"), (minted, "f")]
    turns = [ai(*(both if first else reversed(both)))]
    found = in_order(mistral_strategy.create_mapper(turns), turns)
    assert found[0] == minted
    assert found[1] != minted
    assert SHAPES["mistral"].match(found[1])


# Detection.


@pytest.mark.parametrize(
    "model",
    ["kimi-k2-0711-preview", "K2-Thinking", "moonshotai/Kimi-K2.5", "k2.6", "kimi-k3", "k3-256k", "moonshot/k2"],
)
def test_kimi_models(model: str) -> None:
    assert is_kimi_model(model)
    assert detect_tool_format(model) == "kimi"


@pytest.mark.parametrize(
    "model", ["gpt-4o", "qwen3-coder-plus", "mk2000", "claude-sonnet-4", "mk2", "k20", "gemma-3k2b"]
)
def test_other_models_are_not_kimi(model: str) -> None:
    assert not is_kimi_model(model)
    assert detect_tool_format(model) != "kimi"


def test_an_override_beats_detection() -> None:
    assert detect_tool_format("kimi-k2", "openai") == "openai"
    assert detect_tool_format("gpt-4o", " Kimi ") == "kimi"
    assert detect_tool_format("kimi-k2", "auto") == detect_tool_format("kimi-k2", "") == "kimi"


def test_a_wrong_name_lists_the_valid_ones() -> None:
    for ask in (lambda: detect_tool_format("kimi-k2", "kimmi"), lambda: get_tool_id_strategy("kimmi")):
        with pytest.raises(UnknownToolFormat) as caught:
            ask()
        assert "'kimmi'" in str(caught.value)
        assert all(name in str(caught.value) for name in TOOL_FORMATS)


def test_provider_raw_id_and_name_may_be_left_out_and_the_rest_may_not() -> None:
    """Seed 003: `providerName?`, `rawId?`, `toolName?`; a stable `turnKey` and the call's index."""
    for make in (canonical_tool_call_id, canonical_tool_response_id):
        assert make(turn_key="t", call_index=1) == make(None, None, None, "t", 1) == make("", "", "", "t", 1)
        assert make(raw_id="0", turn_key="t", call_index=1) == make(None, "0", None, "t", 1)
        for missing in ({}, {"turn_key": "t"}, {"call_index": 0}):
            with pytest.raises(TypeError, match="needs turn_key and call_index"):
                make(**missing)  # type: ignore[call-overload]


def test_every_format_has_a_scheme() -> None:
    assert {name: get_tool_id_strategy(name).name for name in TOOL_FORMATS} == {
        "openai": "standard", "anthropic": "anthropic", "deepseek": "standard", "qwen": "standard", "kimi": "kimi",
        "mistral": "mistral", "hermes": "standard", "xml": "standard", "llama": "standard", "gemma": "standard",
        "kimi-text": "standard", "kimi-k3-text": "standard", "mistral-text": "standard", "qwen3-coder": "standard",
        "glm": "standard", "native": "standard", "deepseek-text": "standard", "qwen-text": "standard",
        "gemma-text": "standard", "deepseek-json": "standard", "qwen-json": "standard", "gemma-json": "standard",
    }  # fmt: skip


@pytest.mark.parametrize("vector", vector_params("ids/model_detection.json"))
def test_detection_vectors(vector: dict[str, Any]) -> None:
    model, listed = vector["model"], vector["id"] in id_exceptions.DETECTION
    if vector.get("predicate"):
        wanted = {"isKimiModel": "kimi", "isMistralModel": "mistral"}[vector["predicate"]]
        assert (detect_tool_format(model) == wanted) is vector["expected"]
        return
    override = vector.get("override")
    if listed and override is not None:
        with pytest.raises((UnknownToolFormat, AttributeError)):
            detect_tool_format(model, override)
        return
    assert (detect_tool_format(model, override) == vector["expected_format"]) is not listed


@each_kind("format", TOOL_FORMATS, get_tool_id_strategy)
def test_a_chosen_tool_format_brings_its_ids_only_where_the_host_takes_them(format: str) -> None:
    assert scheme_for("standard", format) is get_tool_id_strategy(format)
    assert scheme_for("kimi", format) is get_tool_id_strategy(format)
    assert scheme_for("anthropic", format) is anthropic_strategy
    assert scheme_for("mistral", format) is mistral_strategy
    assert scheme_for("kimi", None) is kimi_strategy
