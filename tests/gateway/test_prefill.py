"""A history that ends with the model's own words: every host takes it, and those that have a word for it are told."""

from __future__ import annotations

from typing import Any

from tests.event_loops import run
from tests.gateway.serving import gate
from tests.long_run import each_once

BEGUN = "Sure: "
_SAID = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": BEGUN}]
_PARTS = [{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": [{"text": BEGUN}]}]
CLIENTS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": _SAID},
    "/v1/responses": {"input": _SAID},
    "/v1/messages": {"messages": _SAID, "max_tokens": 1000},
    "/v1beta/models/{model}:generateContent": {"contents": _PARTS},
}
FLAGS = {
    "sim/mistral-large-latest": "prefix",
    "sim/kimi-k2.5": "partial",
    "sim/gpt-4o": None,
    "sim/gpt-5.2": None,
    "sim/claude-sonnet-5": None,
    "sim/gemini-3-pro-preview": None,
}


@each_once(("model", FLAGS), ("path", CLIENTS))
def test_the_answer_is_begun(path: str, model: str) -> None:
    async def check() -> None:
        async with gate() as gateway:
            status, _, answer = await gateway.post(path.format(model=model), {"model": model, **CLIENTS[path]})
            assert status == 200, answer
            assert gateway.sim.refused == []
            sent = gateway.sim.seen[-1].body
            last = (sent.get("messages") or sent.get("input") or sent["contents"])[-1]
            assert "Sure:" in str(last)
            flag = FLAGS[model]
            assert flag is None or (last[flag] is True and last["content"] == BEGUN)

    run(check())
