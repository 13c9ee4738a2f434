"""Every text format against a real engine: its tokenizer, its chat template, its stream; a grammar of the format forces calls.

The grammar is made of what the format itself renders, with chance in the place of the words and of the arguments' values.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from midstream.core.blocks import Conversation, ToolCall, Turn, tool_result
from midstream.core.dialect import Options
from midstream.toolformats.registry import text_format
from midstream.wires.tool_format import TEXT_FORMATS
from tests.e2e.test_llamacpp import ASKED, ask, chat, client, sound_calls
from tests.e2e.tiny_model import SPECIALS

CHANCE = {"WORDS": "[a-z]{1,8}", "VALUE": "[a-z/.]{1,12}"}
# The model, how it is reached, and what stands before the words of an answer.
ENDPOINTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "chat": ("llamacpp/tiny", {}, ""),
    "completion": ("llamacpp/kimi-k2.5", {"path": "native"}, "[a-z ]{1,24} " + json.dumps("</think>")),
    "completions": ("completions/tiny", {}, ""),
}


def grammar(format: str, before: str) -> str:
    """Some words, then one or two calls, as the format writes them."""
    known = text_format(TEXT_FORMATS[format])  # type: ignore[index]
    call = ToolCall("x", "read_file", '{"path": "VALUE"}')
    answers = [known.answer("WORDS.", [call] * count) for count in (1, 2)]
    return f"root ::= {before} ( {' | '.join([_rule(answer) for answer in answers])} )"


def _rule(text: str) -> str:
    parts = re.split(f"({'|'.join(CHANCE)})", text)
    return " ".join([CHANCE.get(part) or json.dumps(part, ensure_ascii=False) for part in parts if part])


def options(format: str, endpoint: str, seed: int) -> Options:
    _, how, before = ENDPOINTS[endpoint]
    # The server prints no control token unless it is told to: not the end of the answer, please.
    shown = {*text_format(TEXT_FORMATS[format]).markers, "<think>", "</think>"} & set(SPECIALS) - {"<|im_end|>"}  # type: ignore[index]
    forced = {"grammar": grammar(format, before), "preserved_tokens": sorted(shown)}
    return Options(tool_format=format, seed=seed, max_tokens=600, extra_body=forced, **how)


def read_calls(turn: Turn) -> tuple[ToolCall, ...]:
    """The calls of an answer that lost nothing: the words before them, whole arguments, and not a marker left in the text."""
    assert (turn.failure, turn.stop_reason) == ("", "tool_use"), turn
    assert re.fullmatch(r"[a-z]{1,8}\.\s*", turn.text) and not (turn.extra or {}).get("problems"), turn
    for call in turn.tool_calls:
        assert call.name == "read_file" and re.fullmatch(r"[a-z/.]{1,12}", json.loads(call.arguments)["path"]), call
    assert len({call.id for call in turn.tool_calls}) == len(turn.tool_calls) > 0
    return turn.tool_calls


# K3's channels cannot be read where a model thinks between tags: on a raw completion the format is changed, with a note.
CASES = [
    (format, endpoint)
    for format in TEXT_FORMATS
    for endpoint in ENDPOINTS
    if format != "kimi-k3-text" or endpoint == "chat"
]


@pytest.mark.parametrize(("format", "endpoint"), CASES)
def test_four_rounds_in_text_then_a_native_host_and_back(engine: str, format: str, endpoint: str) -> None:
    model = ENDPOINTS[endpoint][0]

    async def run() -> list[int]:
        counts: list[int] = []
        async with client(engine) as asking:
            conversation: Conversation = ASKED

            def answered(turn: Turn, calls: tuple[ToolCall, ...]) -> Conversation:
                counts.append(len(calls))
                results = tuple([tool_result(call, f"line {len(counts)}") for call in calls])
                return conversation.add(turn, Turn("tool", results, key=f"r{len(counts)}"))

            for number in range(4):
                turn = await ask(asking, model, conversation, options(format, endpoint, number))
                conversation = answered(turn, read_calls(turn))
            turn = await ask(asking, "llamacpp/kimi-k2", conversation, chat(4))
            conversation = answered(turn, sound_calls(turn))
            turn = await ask(asking, model, conversation, options(format, endpoint, 5))
            conversation = answered(turn, read_calls(turn))
        return counts

    counts = asyncio.run(run())
    assert len(counts) == 6 and max(counts) > 1
