"""Small agents on the official SDKs of OpenAI and Anthropic, with the tools of the clients' table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import cycle
from typing import Any

import anthropic
import openai

from midstream.testing import SimServer
from tests.e2e.test_clients import ERRANDS, TOOLS

KIMI = "kimi-k2.5"


class Stripping:
    """An agent on OpenAI's SDK that keeps of an answer only what chat completions had before there was reasoning. It asks the
    hosts at `urls` in turn."""

    def __init__(self, urls: Sequence[str], key: str, model: str, *, stream: bool = False) -> None:
        self._urls = cycle(urls)
        self._key = key
        self._model = model
        self._stream = stream
        self._tools: Any = [{"type": "function", "function": {"name": name, **tool}} for name, tool in TOOLS.items()]
        self.messages: list[Any] = [{"role": "user", "content": ERRANDS}]
        self.notes = ""

    def ask(self) -> list[Any]:
        """One round; gives its calls."""
        with openai.OpenAI(base_url=next(self._urls), api_key=self._key, max_retries=0) as api:
            message = self._answer(api.chat.completions)
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": call.function.arguments}}
            for call in message.tool_calls or ()
        ]  # fmt: skip
        self.messages.append(
            {"role": "assistant", "content": message.content, **({"tool_calls": calls} if calls else {})}
        )
        self.messages += [
            {"role": "tool", "tool_call_id": call["id"], "content": "says " + json.loads(call["function"]["arguments"])["path"]}
            for call in calls
        ]  # fmt: skip
        return calls

    def _answer(self, api: Any) -> Any:
        asked = {"model": self._model, "messages": self.messages, "tools": self._tools}
        if self._stream:
            with api.stream(**asked) as stream:
                stream.until_done()
                return stream.get_final_completion().choices[0].message
        raw = api.with_raw_response.create(**asked)
        self.notes = raw.headers.get("x-midstream-notes", "")
        return raw.parse().choices[0].message

    def run(self) -> int:
        """All rounds with calls; gives their number."""
        rounds = 0
        while self.ask():
            rounds += 1
        return rounds


class Bringing:
    """An agent on Anthropic's SDK."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self._key = key
        self._tools: Any = [
            {"name": name, "description": tool["description"], "input_schema": tool["parameters"]}
            for name, tool in TOOLS.items()
        ]
        self.notes = ""

    def ask(self, messages: list[Any]) -> list[Any]:
        thinking: Any = {"type": "enabled", "budget_tokens": 2000}
        with anthropic.Anthropic(base_url=self.url, api_key=self._key, max_retries=0) as api:
            raw = api.messages.with_raw_response.create(
                model=f"sim/{KIMI}", max_tokens=4000, messages=messages, tools=self._tools, thinking=thinking
            )
            self.notes = raw.headers.get("x-midstream-notes", "")
            answer: Any = raw.parse()
        return [block.to_dict() for block in answer.content]


def history(content: list[Any], signature: str) -> list[Any]:
    blocks = [{**block, "signature": signature} if block["type"] == "thinking" else block for block in content]
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": "fine"}
        for block in content
        if block["type"] == "tool_use"
    ]
    asked = {"role": "user", "content": ERRANDS}
    return [asked, {"role": "assistant", "content": blocks}, {"role": "user", "content": results}]


def thoughts(doubles: SimServer) -> list[str]:
    """What Kimi was given of its own reasoning in the last request."""
    return [each["reasoning_content"] for each in doubles.seen[-1].body["messages"] if each["role"] == "assistant"]
