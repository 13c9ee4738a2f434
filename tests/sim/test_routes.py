"""Every route of the doubles over HTTP: the shapes of each provider, with and without a version, and what has no route."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import msgspec
import pytest

from midstream.sim.http_server import HTTPRequest
from midstream.sim.server import Sim
from midstream.testing import SimServer, sim_server
from tests.event_loops import run
from tests.long_run import each_once

KEY = "the right one"


class Case(msgspec.Struct, frozen=True):
    """A request and what its answer must hold, as paths of keys into the JSON with the value there."""

    path: str
    status: int
    method: str = "GET"
    body: Any = None
    headers: dict[str, str] = {}
    holds: dict[str, Any] = {}
    has: tuple[str, ...] = ()


CASES = msgspec.json.decode((Path(__file__).parents[1] / "data" / "sim" / "routes.json").read_bytes(), type=list[Case])


@pytest.fixture(scope="module")
def sim() -> Iterator[SimServer]:
    with sim_server() as running:
        yield running


@pytest.fixture(scope="module")
def guarded() -> Iterator[SimServer]:
    with sim_server(key=KEY) as running:
        yield running


def ask(
    sim: SimServer, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, bytes, dict[str, str]]:
    connection = HTTPConnection("127.0.0.1", int(sim.url.rpartition(":")[2]), timeout=20)
    try:
        raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection.request(method, path, raw, {"content-type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


def at(value: Any, path: str) -> Any:
    for key in path.split("."):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.method} {case.path}")
def test_a_route_answers_in_its_providers_shape(case: Case, sim: SimServer) -> None:
    status, raw, _ = ask(sim, case.method, case.path, case.body, case.headers)
    assert status == case.status, raw
    value = json.loads(raw)
    for path in case.has:
        assert at(value, path) not in (None, ""), (path, value)
    for path, expected in case.holds.items():
        assert at(value, path) == expected, (path, value)


@pytest.mark.parametrize(
    "path", ["/openai/v1/models", "/gemini/v1beta/models", "/ollama/api/tags", "/cohere/v1/models"]
)
def test_head_is_get_without_a_body(path: str, sim: SimServer) -> None:
    status, raw, headers = ask(sim, "HEAD", path)
    assert (status, raw) == (200, b"") and int(headers["content-length"]) > 10


def test_a_method_that_a_path_has_not_is_405_and_says_which_it_has(sim: SimServer) -> None:
    status, _, headers = ask(sim, "DELETE", "/openai/v1/chat/completions")
    assert (status, headers["allow"]) == (405, "POST")


def test_a_response_can_be_asked_for_again_until_it_is_deleted(sim: SimServer) -> None:
    body = {"model": "gpt-5.2", "input": "Good morning."}
    _, raw, _ = ask(sim, "POST", "/openai/v1/responses", body)
    name = json.loads(raw)["id"]
    assert ask(sim, "GET", f"/openai/v1/responses/{name}")[1] == raw
    items = json.loads(ask(sim, "GET", f"/openai/responses/{name}/input_items")[1])
    assert items["data"][0]["content"] == "Good morning."
    assert json.loads(ask(sim, "DELETE", f"/openai-responses/responses/{name}")[1])["deleted"] is True
    assert ask(sim, "GET", f"/openai/v1/responses/{name}")[0] == 404
    _, raw, _ = ask(sim, "POST", "/openai/v1/responses", {**body, "store": False})
    assert ask(sim, "GET", f"/openai/v1/responses/{json.loads(raw)['id']}")[0] == 404


def test_pages_of_models_follow_each_other(sim: SimServer) -> None:
    whole = [row["id"] for row in json.loads(ask(sim, "GET", "/anthropic/v1/models?limit=1000")[1])["data"]]
    found, after = [], ""
    while True:
        page = json.loads(ask(sim, "GET", f"/anthropic/v1/models?limit=2{after}")[1])
        found += [row["id"] for row in page["data"]]
        if not page["has_more"]:
            break
        after = f"&after_id={page['last_id']}"
    assert found == whole and len(whole) > 2


@each_once(
    ("given", [None, "", "wrong"]),
    (
        "path, status",
        [
            ("/openai/v1/models", 401),
            ("/anthropic/v1/models", 401),
            ("/gemini/v1beta/models", 400),
            ("/ollama/api/tags", 200),
        ],
    ),
)
def test_a_missing_an_empty_and_a_wrong_key_are_refused_everywhere(
    given: str | None, path: str, status: int, guarded: SimServer
) -> None:
    headers = {} if given is None else {"authorization": f"Bearer {given}"}
    assert ask(guarded, "GET", path, headers=headers)[0] == status
    assert ask(guarded, "GET", path, headers={"authorization": f"Bearer {KEY}"})[0] == 200


ANSWERS = (
    "/openai/v1/chat/completions", "/openai/v1/responses", "/anthropic/v1/messages", "/ollama/api/chat",
    "/gemini/v1beta/models/gemini-3-pro-preview:generateContent", "/cohere/v2/chat",
    "/anthropic/v1/messages/count_tokens", "/openai/v1/responses/input_tokens", "/ollama/api/show",
    "/gemini/v1beta/models/gemini-3-pro-preview:countTokens", "/deepinfra/inference/moonshotai/Kimi-K2.5",
)  # fmt: skip
HOSTILE: dict[str, bytes] = {
    "no JSON": b"{",
    "no UTF-8": b'{"model":"\xff\xfe"}',
    "no object": b"[]",
    "deep": b'{"messages":' + b"[" * 100_000,
    "deep and closed": b'{"model":"gpt-4o","messages":' + b'[{"content":' * 400 + b"1" + b"}]" * 400 + b"}",
    "numbers": b'{"model":1e400,"messages":1e999}',
    "wrong types": b'{"model":[],"messages":{"a":1},"contents":7,"input":{},"tools":"x","stream":"yes","system":5}',
    "wrong inside": b'{"model":"m","messages":[1,null,{"role":7,"content":[null,{"type":[]}],"tool_calls":5}],'
    b'"input":[null,{"type":5}],"contents":[null,{"parts":5,"role":[]}],"tools":[null,5,{"function":5}]}',
    "surrogate": b'{"model":"m","messages":[{"role":"user","content":"\\ud800"}],"input":"\\ud800"}',
}


@each_once(("hostile", HOSTILE), ("path", ANSWERS))
def test_no_body_makes_an_internal_error(path: str, hostile: str, sim: SimServer) -> None:
    status, raw, _ = ask(sim, "POST", path, HOSTILE[hostile])
    assert 200 <= status < 500, (status, raw)
    json.loads(raw)


def test_a_bomb_and_a_body_without_end_are_refused(sim: SimServer) -> None:
    bomb = gzip.compress(bytes(100 * 1024 * 1024), 9)
    assert ask(sim, "POST", ANSWERS[0], bomb, {"content-encoding": "gzip"})[0] == 413
    connection = HTTPConnection("127.0.0.1", int(sim.url.rpartition(":")[2]), timeout=20)
    connection.putrequest("POST", ANSWERS[0])
    connection.putheader("content-length", str(100 * 1024 * 1024))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_what_is_remembered_is_bounded() -> None:
    async def play() -> None:
        async with Sim(keep=3) as sim:
            for number in range(5):
                body = {"model": "gpt-4o", "messages": [], "user": str(number)}
                request = HTTPRequest("POST", "/openai/v1/chat/completions", "", (), json.dumps(body).encode())
                await sim._handle(request, _Mute())  # type: ignore[arg-type]
            assert [seen.body["user"] for seen in sim.seen] == ["2", "3", "4"]
            assert len(sim.refused) == 3 and sim.refusals >= 5

    run(play())


class _Mute:
    """Takes an answer and says it to nobody."""

    async def send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        assert status == 400
