"""Every provider of the registry has a fixture: reviewed facts of its requests, and the double that judges them.

tests/data/dialects/providers.json holds them, one line for each kind of model: where a request goes and with which header,
the id of a tool call, the field that carries the model's own reasoning back, and how a forced tool choice, a token limit and
thinking are said. `judge` names the double of `midstream.sim` that holds the whole hand-off matrix against the provider's
rules, or says why there is none (`none: …`); `source` says where the facts are from.

`python -m tests.dialects.test_providers provider/model` writes the line for a new one, to be reviewed and given its source.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from midstream.client.catalog import Catalog
from midstream.client.config import Config
from midstream.codec import encode_request
from midstream.core.blocks import Conversation, Text, ToolCall, ToolResponse, Turn, human
from midstream.core.dialect import Options
from midstream.core.tools import ToolSpec
from midstream.dialects import chat_hosts
from midstream.dialects.registry import REGISTRY, Resolved
from midstream.sim.answer import Answer, Call
from midstream.sim.players import Player
from midstream.sim.rules.hosts import HOSTS, Host, host_for, judge
from midstream.wires.request import Request
from tests.long_run import each_kind

CASES: list[dict[str, Any]] = msgspec.json.decode(
    (Path(__file__).parents[1] / "data" / "dialects" / "providers.json").read_bytes()
)
NAMES = [f"{case['provider']}/{case['model']}" for case in CASES]
HISTORY = ("messages", "input", "contents", "prompt")
FACTS = ("url", "header", "id", "reasoning", "forced", "limit", "thinking")

TOOL = ToolSpec("look", "Look at a folder", {"type": "object", "properties": {"path": {"type": "string"}}})
CALL = "hist_tool_AAAABBBBCCCCDDDDEEEEFFFF"
THOUGHT = "I think so"
LIMIT = 3777
ENVIRON = {
    "AZURE_OPENAI_ENDPOINT": "https://acme.openai.azure.com/",
    "AWS_REGION": "us-west-2",
    "GOOGLE_CLOUD_PROJECT": "acme",
    "GOOGLE_CLOUD_LOCATION": "us-central1",
}


def test_the_headers_of_a_row_go_with_every_request_of_its_host() -> None:
    """Not with those of one kind of model only, as a field of the dialect would."""
    row = chat_hosts._host("acme", "https://acme.example/v1", headers={"x-team": "blue"})
    catalog = Catalog(Config(), environ={}, providers=[row])
    for model in ("acme/kimi-k2.5", "acme/other"):
        target = catalog.resolve(model)
        assert target.endpoint.headers == {"x-team": "blue"} and target.dialect.headers is None


def test_every_provider_has_a_fixture_and_a_judge() -> None:
    described = {case["provider"] for case in CASES}
    missing = sorted(set(REGISTRY.providers) - described)
    assert not missing, f"no fixture in tests/data/dialects/providers.json for {missing}; see docs/providers.md"
    assert not described - set(REGISTRY.providers), "a fixture for a provider that is gone"
    assert len(set(NAMES)) == len(NAMES)
    for name, case in zip(NAMES, CASES, strict=True):
        assert set(case) == {"provider", "model", "judge", "source", *FACTS}, name
        assert case["source"], f"{name}: say where the facts are from"


def _asked(case: dict[str, Any]) -> str:
    """All that is stated of a provider but where it is and where that is known from."""
    return repr([case[fact] for fact in ("judge", *FACTS) if fact != "url"])


@each_kind("case", CASES, _asked, ids=lambda case: f"{case['provider']}/{case['model']}")
def test_a_request_is_as_the_provider_wants_it_and_as_its_judge_takes_it(case: dict[str, Any]) -> None:
    assert facts(case["provider"], case["model"]) == {fact: case[fact] for fact in FACTS}
    target = resolved(case["provider"], case["model"])
    stated = case["judge"]
    if stated.startswith("none: "):
        return
    assert stated in HOSTS, f"no double {stated!r}; expected one of {', '.join(HOSTS)}, or `none: ` and the reason"
    double = double_of(target)
    assert double.name == stated
    assert judge(encoded(target).body, double, "paranoid") == []


def facts(name: str, model: str) -> dict[str, Any]:
    """What the fixture says, as our own code makes it."""
    target = resolved(name, model)
    body = msgspec.json.decode(encoded(target).body)
    thinking = msgspec.json.decode(encoded(target, thinking="on").body)
    # the tool choice alone: some hosts refuse it while the model thinks
    forced = msgspec.json.decode(encoded(target, tool_choice="required", thinking="off").body)
    catalog = Catalog(Config(), environ={**ENVIRON, **key(target)})
    headers = catalog.auth_headers(catalog.resolve(target.name)).reveal()
    return {
        "url": target.endpoint.base_url + target.endpoint.at(encoded(target).path),
        "header": next((f"{header}: {value}" for header, value in headers.items()), None),
        "id": call_id(body),
        "reasoning": next((place for place, value in walk(thinking) if value == THOUGHT), None),
        "forced": forced.get("tool_choice") or forced.get("toolConfig"),
        "limit": next((place for place, value in walk(body) if value == LIMIT), None),
        "thinking": {
            field: value for field, value in thinking.items() if field not in HISTORY and body.get(field) != value
        }
        or None,
    }


def double_of(target: Resolved) -> Host:
    dialect = target.dialect
    return host_for(dialect)


def key(target: Resolved) -> dict[str, str]:
    return dict.fromkeys(target.endpoint.key_env[:1], "KEY")


def resolved(name: str, model: str) -> Resolved:
    row = REGISTRY.providers[name]
    environ = {**ENVIRON, **dict.fromkeys(row.endpoint.key_env[:1], "KEY")}
    return Catalog(Config(), environ=environ).resolve(f"{name}/{model}")


def encoded(target: Resolved, **options: Any) -> Request:
    asked = Options(max_tokens=LIMIT, stream=False, **options)
    return encode_request(target, history(target), tools=(TOOL,), options=asked, cache=None)


def history(target: Resolved) -> Conversation:
    """A call as the provider's double makes it, with its reasoning, and the result."""
    said = Player(target, double_of(target)).answer(Answer("", THOUGHT, (Call("look", {"path": "."}),)), key="a1")
    blocks = tuple([replace(block, id=CALL) if isinstance(block, ToolCall) else block for block in said.blocks])
    turns = (
        human("What is here?", key="h1"),
        replace(said, blocks=blocks),
        Turn("tool", (ToolResponse(CALL, "look", (Text("a.txt"),)),), key="t1"),
    )
    return Conversation(turns, system="Be brief.")


def call_id(body: dict[str, Any]) -> str | None:
    """The id by which a result names its call."""
    for place, value in walk(body):
        if place.rpartition(".")[2] in ("tool_call_id", "tool_use_id", "call_id") and isinstance(value, str):
            return value
        if place in ("prompt", "input") and isinstance(value, str):
            found = re.search(r"functions\.\w+:\d+", value)
            return found[0] if found else None
    return None


def walk(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with the keys that lead to it; the numbers of a list are left out."""
    yield place, value
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from walk(inner, f"{place}.{name}" if place else name)
    elif isinstance(value, list):
        for inner in value:
            yield from walk(inner, place)


if __name__ == "__main__":
    for each in sys.argv[1:]:
        row, _, called = each.partition("/")
        judged = {"judge": double_of(resolved(row, called)).name, "source": ""}
        print(msgspec.json.encode({"provider": row, "model": called, **facts(row, called), **judged}).decode() + ",")
