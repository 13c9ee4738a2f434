"""Clients that nobody here wrote, against the doubles: one table of client x feature, each cell a test.

What a cell expects is what the real host does. A cell that the doubles do not pass yet is in `known_failures.json` with its
reason, and fails the run as soon as it passes, until it is taken out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from midstream.doctor.matrix import PIXEL
from midstream.testing import SimServer, sim_server
from tests.e2e.clients import CLIENTS, KNOWN_FAILURES, Driver, NotInstalled, Row

KEY = "sim-key-that-is-good"
HELLO = "Good morning."
ERRANDS = "Read a.txt and read b.txt, then list files, then read c.txt and list files, then read d.txt"
_PATH = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}
TOOLS = {
    "read_file": {"description": "Read a file", "parameters": _PATH},
    "list_files": {"description": "List the files of a folder", "parameters": _PATH},
}
ROUNDS = [
    [("read_file", "a.txt"), ("read_file", "b.txt")],
    [("list_files", ".")],
    [("read_file", "c.txt"), ("list_files", ".")],
    [("read_file", "d.txt")],
]
FEATURES = (
    "text", "streaming", "tools", "tools streamed", "thinking", "thinking streamed", "images", "usage", "models",
    "count tokens", "400", "401", "429", "429 retried",
)  # fmt: skip
_FAULTS = {"429": ("429",), "429 retried": ("429",)}


def cells() -> Iterator[Any]:
    for row in CLIENTS:
        for feature in (*FEATURES, *row.also):
            if feature in row.lacks:
                continue
            why = KNOWN_FAILURES.get(row.name, {}).get(feature)
            marks = [pytest.mark.xfail(strict=True, reason=why)] if why else []
            yield pytest.param(row, feature, id=f"{row.name}-{feature}", marks=marks)


@pytest.fixture(scope="session")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Driver]]:
    """The clients that run, by name; each is started when it is first asked."""
    running: dict[str, Driver] = {}
    yield running
    for driver in running.values():
        driver.close()


@pytest.fixture
def server() -> Iterator[SimServer]:
    with sim_server(key=KEY) as running:
        yield running


@pytest.mark.parametrize(("row", "feature"), list(cells()))
def test_client(
    row: Row, feature: str, server: SimServer, drivers: dict[str, Driver], tmp_path_factory: pytest.TempPathFactory
) -> None:
    key = f"{row.environment} {row.driver}"
    try:
        if key not in drivers:
            drivers[key] = Driver(row, tmp_path_factory.mktemp("home"))
    except NotInstalled as missing:
        pytest.skip(f"DID NOT RUN: {missing}")
    for fault in _FAULTS.get(feature, ()):
        server.inject(fault)
    provider, model = row.target(feature)
    answer = drivers[key].ask(
        feature=feature,
        url=server.base_url(provider) + row.path,
        model=model,
        key="sim-key-that-is-bad" if feature == "401" else KEY,
        prompt=ERRANDS if feature.startswith("tools") else HELLO,
        tools=TOOLS,
        image=PIXEL,
        host=row.host,
    )
    assert "outcome" in answer, f"{answer['failure']}\nthe doubles refused: {server.refused}"
    check(feature, answer["outcome"], row, server)


def check(feature: str, outcome: dict[str, Any], row: Row, server: SimServer) -> None:
    match feature:
        case "text" | "streaming":
            assert HELLO in outcome["text"] and outcome["stop"] == row.stop
            assert outcome.get("pieces", 2) > 1, "the answer came in one piece"
        case "tools" | "tools streamed" | "tools threaded":
            rounds = [[(made["name"], made["arguments"]["path"]) for made in calls] for calls in outcome["rounds"]]
            assert rounds == ROUNDS
            assert all(f"{name} says {path}!" in outcome["text"] for calls in ROUNDS for name, path in calls)
        case "thinking" | "thinking streamed":
            assert outcome["thinking"], "no thinking came"
            assert HELLO in outcome["text"] and outcome["thinking"] not in outcome["text"]
        case "images":
            assert HELLO in outcome["text"]
            arrived = json.dumps(server.seen[-1].body).translate(str.maketrans("-_", "+/"))
            assert PIXEL in arrived, "the picture did not arrive"
        case "usage":
            for counted in (outcome["whole"], outcome["streamed"]):
                read, written, total = counted
                assert read > 0 and written > 0 and total == read + written, counted
            assert outcome["whole"] == outcome["streamed"]
        case "models":
            assert row.model in outcome["listed"] and outcome["one"] == row.model
        case "count tokens":
            assert outcome["input"] > 0
        case "400":
            assert outcome["status"] == 400 and len(outcome["message"]) > 20, outcome
        case "401":
            assert outcome["status"] == row.bad_key and len(outcome["message"]) > 10, outcome
        case "429":
            assert outcome["status"] == 429 and "too many requests" in outcome["message"], outcome
        case "429 retried":
            assert HELLO in outcome["text"]
            assert [seen.status for seen in server.seen] == [429, 200]
        case _:
            raise AssertionError(f"no expectation for {feature}")


def test_the_tables_fit_together() -> None:
    names = {row.name for row in CLIENTS}
    assert len(names) == len(CLIENTS) and set(KNOWN_FAILURES) <= names
    for row in CLIENTS:
        failing = KNOWN_FAILURES.get(row.name, {})
        assert set(row.lacks) | set(failing) <= {*FEATURES, *row.also} and not set(row.lacks) & set(failing), row.name
