"""Requests on OpenAI's wires, answered in the process: what is carried in items, and what is asked of the host."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from midstream.adapters.backend import Backend
from midstream.adapters.openai_wires import CHAT, RESPONSES, OpenAIWires
from midstream.core.handoff import summarize_notes
from midstream.core.secret import Secret
from midstream.errors import BadRequest
from midstream.testing import Answer, SimServer, sim_server

from .openai_errands import RESPONSES_TOOLS
from .tour import MODELS, errand, judge, weather


@pytest.fixture
def sim() -> Iterator[SimServer]:
    with sim_server(strict="paranoid") as server:
        yield server


def asked(sim: SimServer, body: dict[str, Any]) -> dict[str, Any]:
    """One response, by a process that knows nothing of any other."""
    backend = Backend(sim.catalog())
    wires = OpenAIWires(backend, carry=True)
    try:
        reading = wires.read(RESPONSES, json.dumps(body).encode())
        if not reading.parsed.options.stream:
            return json.loads(backend.run(wires.whole(reading)))  # type: ignore[no-any-return]
        events = b"".join(backend.iterate(wires.stream(reading))).split(b"\n\n")
        last = json.loads(events[-2].rpartition(b"data: ")[2])
        assert last["type"] == "response.completed"
        return last["response"]  # type: ignore[no-any-return]
    finally:
        backend.close()


def test_items_carry_reasoning_from_process_to_process(sim: SimServer) -> None:
    items: list[Any] = []
    for number, model in enumerate(MODELS):
        items.append({"role": "user", "content": errand(number)})
        for _ in range(2):
            body = {
                "model": model,
                "input": items,
                "tools": RESPONSES_TOOLS,
                "reasoning": {"effort": "medium"},
                "include": [],
            }
            output = asked(sim, {**body, "stream": bool(number % 2)})["output"]
            items += output
            items += [
                {"type": "function_call_output", "call_id": item["call_id"], "output": weather(f"Town {number}")}
                for item in output
                if item["type"] == "function_call"
            ]
    judge(sim, requests=2 * len(MODELS))


@pytest.mark.parametrize("damage", ["", "?", "AAAA", "midstream1.", "bnVsbA=="])
def test_reasoning_that_was_changed_is_nobody_s(sim: SimServer, damage: str) -> None:
    kimi = MODELS[0]
    first = {"role": "user", "content": errand(0)}
    output = asked(sim, {"model": kimi, "input": [first], "tools": RESPONSES_TOOLS})["output"]
    for item in output:
        if item["type"] == "reasoning":
            item["encrypted_content"] = f"midstream1.{damage}"
    call = next(item for item in output if item["type"] == "function_call")
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "rain"}
    for model in (kimi, "openai-responses/gpt-5.2"):
        assert asked(sim, {"model": model, "input": [first, *output, result], "tools": RESPONSES_TOOLS})["output"]
    assert sim.refused == [] and "midstream1." not in json.dumps([seen.body for seen in sim.seen])


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_an_answer_that_says_nothing_is_an_answer(stream: bool) -> None:
    with sim_server(script=lambda *_, **__: Answer(thinking="Nothing to add.")) as sim:
        backend = Backend(sim.catalog())
        wires = OpenAIWires(backend)
        try:
            body = {"model": MODELS[0], "messages": [{"role": "user", "content": "hi"}], "stream": stream}
            reading = wires.read(CHAT, json.dumps(body).encode())
            if stream:
                said = b"".join(backend.iterate(wires.stream(reading)))
                assert b'"finish_reason":"stop"' in said and said.endswith(b"data: [DONE]\n\n")
            else:
                (choice,) = json.loads(backend.run(wires.whole(reading)))["choices"]
                assert (choice["finish_reason"], choice["message"]["content"]) == ("stop", "")
                assert "empty_answer" in summarize_notes(reading.notes)
        finally:
            backend.close()


def test_a_request_without_a_model_or_words_says_so(sim: SimServer) -> None:
    wires = OpenAIWires(Backend(sim.catalog(), api_key=Secret("k")))
    for body in ({"input": "x"}, {"model": 1}, {"model": MODELS[0], "input": []}):
        with pytest.raises(BadRequest, match=r"names no model|no messages"):
            wires.read(RESPONSES, json.dumps(body).encode())


@pytest.mark.parametrize("wire", [CHAT, RESPONSES])
@pytest.mark.parametrize("stream", [False, True])
def test_one_users_reasoning_is_not_sent_in_anothers_conversation(wire: str, stream: bool) -> None:
    """A program that serves both with one client: the same last question, answered in the same words."""
    users = ("Alice", "Bob")
    script = [Answer("Done.", thinking=f"Only {user} knows {user}'s plan.") for user in users]
    with sim_server(*script, "Fine.", "Fine.") as sim:
        wires = OpenAIWires(Backend(sim.catalog()))

        def ask(*said: dict[str, Any]) -> None:
            name = "messages" if wire == CHAT else "input"
            body = {"model": MODELS[0], name: list(said), "stream": stream}
            reading = wires.read(wire, json.dumps(body).encode())
            if stream:
                list(wires.backend.iterate(wires.stream(reading)))
            else:
                wires.backend.run(wires.whole(reading))

        def history(user: str) -> list[dict[str, Any]]:
            said = [f"I am {user}; my plan is {user}'s plan.", "Noted.", "Go on."]
            return [
                {"role": role, "content": text} for role, text in zip(("user", "assistant", "user"), said, strict=True)
            ]

        try:
            for user in users:
                ask(*history(user))
            for user in users:
                ask(*history(user), {"role": "assistant", "content": "Done."}, {"role": "user", "content": "And?"})
        finally:
            wires.backend.close()
        for user, seen in zip(users, sim.seen[2:], strict=True):
            thoughts = [message.get("reasoning_content", "") for message in seen.body["messages"]]
            assert [thought for thought in thoughts if thought.strip()] == [f"Only {user} knows {user}'s plan."]
