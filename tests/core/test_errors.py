"""The table of errors: what is drawn is what there is, and every class survives the way into an event and back."""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import Any

import msgspec
import pytest

import midstream
from midstream.core import errors
from midstream.core.blocks import Turn
from midstream.core.errors import (
    KINDS,
    ConversationExists,
    LengthConflict,
    MidstreamError,
    Overloaded,
    ProviderError,
    RateLimited,
    RetriesExhausted,
    SchemaMismatch,
    TimedOut,
    UnknownConversation,
)
from midstream.core.events import ErrorEvent, ErrorInfo
from tests.long_run import each_kind

for _found in pkgutil.walk_packages(midstream.__path__, "midstream."):
    if "pytest_plugin" in _found.name or _found.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(_found.name)
    except ModuleNotFoundError as _missing:
        # An adapter imports the library that it is for, and only tests/e2e has those.
        if not _found.name.startswith("midstream.adapters.") or str(_missing.name).startswith("midstream"):
            raise

TOLD: dict[str, Any] = {
    "status": 418,
    "code": "teapot",
    "type": "kettle_error",
    "provider": "moonshot",
    "request_id": "req-1",
    "retry_after": 2.5,
}
MADE = {
    RetriesExhausted: lambda: RetriesExhausted("no", [RateLimited("slow", **TOLD), TimedOut("late")]),
    UnknownConversation: lambda: UnknownConversation("c1"),
    ConversationExists: lambda: ConversationExists("c1"),
    LengthConflict: lambda: LengthConflict("c1", 3, 5),
    SchemaMismatch: lambda: SchemaMismatch('{"age": "x"}', ['$.age: expected integer, got "x"']),
}


def below(kind: type[MidstreamError]) -> list[type[MidstreamError]]:
    found = [kind]
    for child in kind.__subclasses__():
        if child.__module__.startswith("midstream."):  # tests may have classes of their own
            found += below(child)
    return found


CLASSES = below(MidstreamError)


def make(kind: type[MidstreamError]) -> MidstreamError:
    if kind in MADE:
        return MADE[kind]()
    return kind("it went wrong", **TOLD) if issubclass(kind, ProviderError) else kind("it went wrong")


def likeness(error: BaseException) -> Any:
    """All there is to an error; those it holds are compared likewise."""
    told = {
        name: [likeness(each) for each in value] if name == "attempts" else value for name, value in vars(error).items()
    }
    return type(error), str(error), error.args, getattr(error, "retryable", None), told


def _made_of(kind: type[MidstreamError]) -> Any:
    """Errors that are made and told alike: those with arguments of their own, and of the others those with the same fields."""
    return kind if kind in MADE else (kind.fields, kind.__mro__[1])


@each_kind("kind", CLASSES, _made_of, ids=lambda kind: kind.__name__)
def test_an_error_comes_back_from_its_event_as_it_was(kind: type[MidstreamError]) -> None:
    error = make(kind)
    info = ErrorInfo.of(error)
    event = ErrorEvent(info, Turn("ai", failure=info.kind))
    back = event.to_exception()
    assert likeness(back) == likeness(error)
    assert ErrorInfo.of(back) == info
    sent = msgspec.json.decode(msgspec.json.encode(event), type=ErrorEvent)
    assert likeness(sent.to_exception()) == likeness(error)


@each_kind("kind", CLASSES, _made_of, ids=lambda kind: kind.__name__)
def test_a_failed_turn_raises_the_class_its_failure_names(kind: type[MidstreamError]) -> None:
    with pytest.raises(
        kind, match=re.escape(f"failed ({kind.kind}): {(kind.__doc__ or '').splitlines()[0]}")
    ) as caught:
        Turn("ai", failure=kind.kind).raise_for_failure()
    assert type(caught.value) is kind
    assert [getattr(caught.value, name) for name in kind.fields].count(None) in (0, len(ProviderError.fields))


def test_every_class_has_a_kind_of_its_own_and_a_docstring() -> None:
    for kind in CLASSES:
        assert "kind" in vars(kind), f"{kind.__name__} needs a `kind` of its own, or it comes back as its base"
        assert KINDS[kind.kind] is kind and kind.__doc__
    assert len({kind.kind for kind in CLASSES}) == len(CLASSES)


def test_kinds_that_stored_turns_hold_stay_readable() -> None:
    """These words are in databases."""
    old = "truncated empty malformed limit provider transport store aborted"
    for word in old.split():
        with pytest.raises(KINDS[word]):
            Turn("ai", failure=word).raise_for_failure()
    with pytest.raises(MidstreamError, match="failed \\(of a later version\\)"):
        Turn("ai", failure="of a later version").raise_for_failure()


def test_a_turn_that_ended_well_raises_nothing() -> None:
    turn = Turn("ai", "hi")
    assert turn.raise_for_failure() is turn


def test_a_kind_of_a_later_version_gives_the_nearest_base() -> None:
    assert type(ErrorInfo("new", "x", status=418).to_exception()) is ProviderError
    assert type(ErrorInfo("new", "x").to_exception()) is MidstreamError


def test_what_may_be_tried_again_is_kept_even_against_the_class() -> None:
    error = ErrorInfo("provider", "x", code="unexpected_tool_call", retryable=True).to_exception()
    assert type(error) is ProviderError and error.retryable and not ProviderError.retryable
    assert not ErrorInfo("overloaded", "x").to_exception().retryable and Overloaded.retryable


def test_a_subclass_of_a_caller_is_told_as_its_base() -> None:
    class Mine(RateLimited):
        pass

    assert type(ErrorInfo.of(Mine("slow", **TOLD)).to_exception()) is RateLimited


def drawn() -> dict[str, str]:
    """Child and parent, as the tree in the docstring shows them."""
    lines = (errors.__doc__ or "").split("\n\n")[1].splitlines()
    parents: dict[str, str] = {}
    stack: list[tuple[int, str]] = []
    for line in lines:
        names = re.sub(r"^[│├└─ ]*", "", line)
        depth = len(line) - len(names)
        names = re.split(r" {2,}", names)[0]
        while stack and stack[-1][0] >= depth:
            stack.pop()
        for name in names.split(" · "):
            if stack:
                parents[name] = stack[-1][1]
        stack.append((depth, name))
    return parents


def test_the_drawing_shows_every_class_under_its_base() -> None:
    there = {
        kind.__name__: kind.__mro__[1].__name__
        for kind in CLASSES
        if kind.__module__ == errors.__name__ and kind is not MidstreamError
    }
    assert drawn() == there
