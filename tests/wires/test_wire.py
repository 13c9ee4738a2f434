"""Every wire has the same rooms, and they are loaded only when they are entered."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from midstream.core.errors import LocalError, UnknownModel
from midstream.dialects.registry import REGISTRY, resolve
from midstream.wires.registry import WIRES, get_wire
from midstream.wires.request import Request, RequestDraft
from tests.conversations import weather_story
from tests.doctor import test_matrix
from tests.sim import test_server
from tests.wires import test_limits, test_long_histories, test_odd_answers, test_strange_requests

ROOMS = {
    ("encode", "encode_request"): ["draft"],
    ("decode", "make_decoder"): ["context"],
    ("parse", "parse_request"): ["body", "provider", "identity"],
    ("answer", "make_writer"): ["context"],
}
NO_ROOM = {("completion", "parse"): "a prompt is one text: what was a message cannot be told for sure"}


@pytest.mark.parametrize("name", WIRES)
def test_the_rooms_have_the_same_doors_in_every_wire(name: str) -> None:
    wire = get_wire(name)
    assert wire.name == wire.default.wire == name
    for (room, function), parameters in ROOMS.items():
        if (name, room) in NO_ROOM:
            with pytest.raises(LocalError, match=f"{name!r} has no {room!r}"):
                wire.room(room)
        else:
            door = getattr(wire.room(room), function)
            assert list(inspect.signature(door).parameters)[: len(parameters)] == parameters


LISTS = {
    "the hand-off matrix": {REGISTRY.dialect(name).wire for name in test_matrix.CORE},
    "the server of doubles": {resolve(name).dialect.wire for name in test_server.ONE_EACH_WIRE},
    "odd answers": {wire for wire, _ in test_odd_answers.FIELDS},
    "strange requests": set(test_strange_requests.BASES) & {resolve(name).dialect.wire for name in test_strange_requests.TARGETS},
    "long histories": {resolve(name).dialect.wire for name in test_long_histories.MODELS},
    "limits": set(test_limits.MODELS),
}  # fmt: skip
NO_ROW = {
    ("limits", "ollama"): "it has no word for a tool choice, a strict tool or a limit of tools",
    **{(what, "completion"): "a prompt is one text: its own tests hold it to what it can carry" for what in LISTS},
}


@pytest.mark.parametrize("what", LISTS)
def test_every_wire_has_its_row_in_the_lists_of_the_tests(what: str) -> None:
    """So that a new wire is held to what all others are held to."""
    missing = {name for name in WIRES if name not in LISTS[what] and (what, name) not in NO_ROW}
    assert not missing, f"{what}: no row for {missing}"


def test_an_unknown_wire_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownModel, match=f"expected one of {', '.join(sorted(WIRES))}"):
        get_wire("telegraph")


def test_dialects_and_registry_load_no_room() -> None:
    code = (
        "import sys, midstream.dialects.registry, midstream.wires.registry\n"
        "print([name for name in sys.modules if name.startswith('midstream.wires.') "
        "and name.rpartition('.')[2] in ('encode', 'decode', 'parse', 'answer', 'shapes')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", WIRES)
def test_a_request_makes_the_decoder_of_its_answer(name: str) -> None:
    request = RequestDraft(weather_story().done(), get_wire(name).default, "m").encode()
    assert request.dialect is not None and request.dialect.wire == name
    events = request.decoder("key").read_body(b"<html></html>")
    assert events[-1].turn.key == "key" and events[-1].turn.origin.model == "m"


def test_a_request_of_nobodys_making_has_no_decoder() -> None:
    with pytest.raises(LocalError, match="encode_request"):
        Request("POST", "/", {}, b"").decoder("key")
