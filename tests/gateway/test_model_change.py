"""One conversation of eight rounds of calls in Claude Code's format, and another model behind its alias in every round.

The client is written here after what Claude Code sends: it keeps every block as it came, moves its cache mark to the newest
message, gives the others back in another shape, and puts system messages between them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from midstream.client.catalog import Catalog
from midstream.gateway.assembly import AppOptions, GatewayApp
from midstream.gateway.config import load_config
from midstream.sim.providers import sim_providers
from midstream.sim.server import Seen, Sim
from midstream.testing import AgentScript, RunCommand
from tests.gateway.serving import served

ROUNDS = 8
MODELS = (
    "moonshot/kimi-k2.5",
    "anthropic/claude-sonnet-5",
    "openai-responses/gpt-5.2",
    "gemini/gemini-3-pro-preview",
    "mistral/mistral-large-latest",
)
HEADERS = {
    "authorization": "Bearer nobody's",
    "anthropic-version": "2023-06-01",
    "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,a-beta-that-nobody-knows-2031-01-01",
    "user-agent": "claude-cli/2.1.325 (external, sdk-cli)",
    "x-app": "cli",
    "x-claude-code-session-id": "2b223ac0-0000-4000-8000-000000000000",
}
_SCHEMA = {"$schema": "https://json-schema.org/draft/2020-12/schema", "additionalProperties": False, "type": "object"}
TOOLS = [
    {
        "name": "Bash",
        "description": "Run a command",
        "input_schema": {**_SCHEMA, "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
    {
        "name": "DeferredToolPlaceholder",
        "description": "Not yet there",
        "input_schema": {**_SCHEMA, "properties": {}},
        "defer_loading": True,
    },
]


class Coder:
    """A client that keeps a conversation as Claude Code does."""

    def __init__(self, url: str, http: aiohttp.ClientSession, thinking: dict[str, str] | None) -> None:
        self._url = url
        self._http = http
        self._thinking = thinking
        self.messages: list[dict[str, Any]] = [
            {"role": "user", "content": [_text("<system-reminder>Be good.</system-reminder>"), _text("Do the work.")]},
            {"role": "system", "content": [_text("# Environment: a test")], "output_config": {"effort": "medium"}},
        ]

    async def round(self) -> list[dict[str, Any]]:
        """The blocks of the next answer, which are kept; and what its calls gave, which is kept too."""
        async with self._http.post(f"{self._url}/v1/messages?beta=true", json=self._body(), headers=HEADERS) as answer:
            assert answer.status == 200, await answer.text()
            blocks = read_stream(await answer.text())
        self.messages.append({"role": "assistant", "content": blocks})
        results = [
            {"tool_use_id": block["id"], "type": "tool_result", "content": f"did {block['input']['command']}"}
            for block in blocks
            if block["type"] == "tool_use"
        ]
        if results:
            self.messages.append({"role": "user", "content": results})
            self.messages.append({"role": "system", "content": [_text("<total_tokens>9 tokens left</total_tokens>")]})
        return blocks

    def _body(self) -> dict[str, Any]:
        *older, newest = self.messages
        body = {
            "model": "the-model",
            "max_tokens": 32000,
            "stream": True,
            "system": [
                _text("x-anthropic-billing-header: cc_version=2.1.325.6aa; cc_entrypoint=sdk-cli;"),
                {**_text("You are an agent."), "cache_control": {"type": "ephemeral"}},
            ],
            "messages": [*map(_plain, older), _marked(newest)],
            "tools": TOOLS,
            "output_config": {"effort": "medium"},
            "metadata": {"user_id": '{"device_id":"0","account_uuid":"","session_id":"1"}'},
        }
        if self._thinking is not None:
            body["thinking"] = self._thinking
            body["context_management"] = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
        return body


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """A system message that is no longer the newest comes back as a string."""
    if message["role"] != "system":
        return message
    return {**message, "content": "".join([block["text"] for block in message["content"]])}


def _marked(message: dict[str, Any]) -> dict[str, Any]:
    *others, last = message["content"]
    return {**message, "content": [*others, {**last, "cache_control": {"type": "ephemeral"}}]}


def read_stream(text: str) -> list[dict[str, Any]]:
    """The blocks of a streamed answer, as the official SDKs put them together."""
    blocks: list[dict[str, Any]] = []
    arguments: dict[int, str] = {}
    kinds: list[str] = []
    for line in text.splitlines():
        if not line.startswith("data: "):
            continue
        event = json.loads(line.removeprefix("data: "))
        kinds.append(event["type"])
        match event:
            case {"type": "content_block_start", "index": index, "content_block": block}:
                assert index == len(blocks)
                blocks.append(dict(block))
            case {"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta"} as delta}:
                arguments[index] = arguments.get(index, "") + delta["partial_json"]
            case {"type": "content_block_delta", "index": index, "delta": {"type": "signature_delta"} as delta}:
                blocks[index]["signature"] = delta["signature"]
            case {"type": "content_block_delta", "index": index, "delta": delta}:
                (key,) = set(delta) - {"type"}
                blocks[index][key] += delta[key]
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop", kinds
    for index, raw in arguments.items():
        blocks[index]["input"] = json.loads(raw)
    return blocks


def plan() -> AgentScript:
    return AgentScript(*[RunCommand(f"step {number}") for number in range(ROUNDS)], answer="All eight are done.")


async def converse(
    folder: Path, thinking: dict[str, str] | None, vault: str = "", models: Sequence[str] = MODELS
) -> tuple[list[Seen], list[list[dict[str, Any]]]]:
    """What the models received, and what the client got, round by round; nothing was refused."""
    file = folder / "gateway.toml"
    answers = []
    async with Sim(port=0, script=plan(), strict="paranoid") as sim:
        _point(file, models[0], vault)
        catalog = Catalog(providers=sim_providers(sim.url), environ={})
        app = GatewayApp(load_config(file), AppOptions(config=file), catalog=catalog)
        async with served(app) as url, aiohttp.ClientSession() as http:
            coder = Coder(url, http, thinking)
            for number in range(ROUNDS + 1):
                _point(file, models[number % len(models)], vault)
                app.reload()
                answers.append(await coder.round())
        assert not sim.refused, [problem.message for problem in sim.refused]
        assert len(sim.seen) == ROUNDS + 1
        return list(sim.seen), answers


def _point(file: Path, model: str, vault: str) -> None:
    file.write_text(f'[vault]\n{vault}\n[aliases]\nthe-model = "{model}"\n', "utf-8")


def thought(number: int) -> str:
    return f"Round {number + 1} of {ROUNDS}: I will call Bash."


@pytest.mark.parametrize(
    "thinking",
    [{"type": "adaptive", "display": "omitted"}, {"type": "adaptive"}, None],
    ids=["thinking is omitted", "thinking is shown", "no thinking asked for"],
)
def test_eight_rounds_with_another_model_in_each(thinking: dict[str, str] | None, tmp_path: Path) -> None:
    seen, answers = asyncio.run(converse(tmp_path, thinking))
    made = [[block["input"]["command"] for block in blocks if block["type"] == "tool_use"] for blocks in answers]
    assert made == [*[[f"step {number}"] for number in range(ROUNDS)], []]
    assert answers[-1][-1]["text"] == "All eight are done."
    if thinking is None:
        assert not [block for blocks in answers for block in blocks if block["type"] == "thinking"]

    # Kimi again, five rounds later: it reads its own reasoning, as it said it.
    said = [message for message in seen[5].body["messages"] if message.get("tool_calls")]
    assert "/moonshot/" in seen[5].path and len(said) == 5
    assert said[0]["reasoning_content"] == thought(0)
    assert thought(1) not in json.dumps(said), "the reasoning of another model was given as Kimi's own"

    # Claude again: its thinking with its signature, and nobody else's, also for a client that never saw any.
    blocks = [
        block for message in seen[6].body["messages"] if message["role"] == "assistant" for block in message["content"]
    ]
    proven = [block["thinking"] for block in blocks if block["type"] == "thinking"]
    assert "/anthropic/" in seen[6].path
    assert proven == [thought(1)], proven

    # GPT again: what only OpenAI can read.
    items = [item for item in seen[7].body["input"] if item.get("type") == "reasoning"]
    assert "/openai-responses/" in seen[7].path
    assert [bool(item.get("encrypted_content")) for item in items] == [True], items

    # Gemini again: the signature of its call, and a stand-in where others called.
    parts = [part for content in seen[8].body["contents"] for part in content["parts"] if "functionCall" in part]
    signatures = [part.get("thoughtSignature") for part in parts]
    assert "/gemini/" in seen[8].path
    assert len(parts) == ROUNDS and signatures.count(signatures[3]) == 1 and signatures[3]


@pytest.mark.parametrize(
    ("vault", "comes_back"),
    [("enabled = false", True), ("seal = false", True), ("enabled = false\nseal = false", False)],
    ids=["the seal alone", "the vault alone", "neither"],
)
def test_the_seal_and_the_vault_are_enough_each(vault: str, comes_back: bool, tmp_path: Path) -> None:
    seen, _ = asyncio.run(converse(tmp_path, {"type": "adaptive", "display": "omitted"}, vault))
    said = [message for message in seen[5].body["messages"] if message.get("tool_calls")]
    assert (said[0]["reasoning_content"] == thought(0)) is comes_back


@pytest.mark.parametrize("model", MODELS)
def test_what_was_sent_before_is_sent_again_as_it_was(model: str, tmp_path: Path) -> None:
    """The client moves its cache mark and changes the shape of its messages; a model reads the same beginning every time."""
    seen, _ = asyncio.run(converse(tmp_path, {"type": "adaptive"}, models=[model]))
    histories = [
        next(each.body[name] for name in ("messages", "input", "contents") if name in each.body) for each in seen
    ]
    if not model.startswith("anthropic/"):
        assert "cache_control" not in json.dumps([each.body for each in seen])
    plain = [[_without_marks(message) for message in history] for history in histories]
    for before, after in pairwise(plain):
        assert after[: len(before)] == before


def _without_marks(value: Any) -> Any:
    """On Anthropic's own wire the marks move; nothing else does."""
    match value:
        case dict():
            return {name: _without_marks(each) for name, each in value.items() if name != "cache_control"}
        case list():
            return [_without_marks(each) for each in value]
        case _:
            return value


def test_no_seal_goes_to_a_model(tmp_path: Path) -> None:
    seen, answers = asyncio.run(converse(tmp_path, {"type": "adaptive"}))
    sealed = [block["signature"] for blocks in answers for block in blocks if block["type"] == "thinking"]
    assert len(sealed) >= ROUNDS - 2
    native = seen[6].body["messages"]
    sent = json.dumps([each.body for each in seen])
    ours = [signature for signature in sealed if signature not in json.dumps(native)]
    assert ours and not [signature for signature in ours if signature in sent]
