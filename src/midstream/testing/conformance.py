"""Does a host follow its wire's protocol? A few real requests to it, each with what it proves.

    report = check_host("http://127.0.0.1:8000/v1", "my-model")
    print(report)

The checks ask little of the model: to answer, to call the one tool it is told to call, to repeat a word. They test the host:
whether a stream ends properly, calls are complete, and histories of other models are accepted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from ..client.catalog import Catalog
from ..client.client import Client
from ..client.config import Config, ProviderConfig
from ..core.blocks import Conversation, Turn, human, tool_result
from ..core.dialect import Options
from ..core.errors import MidstreamError, ProviderError
from ..core.events import Done, TextDelta
from ..core.plural import pluralize
from ..core.secret import Secret, hide
from ..core.tools import ToolSpec, parse_arguments
from ..doctor.matrix import TOOLS, foreign_history, interrupted_history

# A word that no model would say by chance: if it is in the answer, the result was read.
WORD = "marmalade"
READ = ToolSpec(
    "read_note",
    "Read a note by its name.",
    {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
)
_ASKED = human("Read the note named 'breakfast' with the read_note tool and tell me what it says.", key="ask")


# An AssertionError, so that pytest shows it as a failed check and not as a crash.
class Broken(AssertionError):
    """The host did not do what the check expected."""


class Host(msgspec.Struct, frozen=True):
    """The model under test, and how to reach it."""

    model: str
    client: Client
    options: Options

    async def turn(self, *turns: Turn, tools: tuple[ToolSpec, ...] = (), system: str = "") -> Turn:
        reply = self.client.stream(self.model, Conversation(turns, system), tools=tools, options=self.options)
        turn = await reply
        # A reply that has started never raises; here an error inside it is the host's failure.
        if reply.error is not None:
            raise Broken(f"the stream ended with an error of kind {reply.error.kind}: {reply.error.message}")
        return turn


Probe: TypeAlias = Callable[[Host], Awaitable[object]]


class Check(msgspec.Struct, frozen=True):
    name: str
    proves: str
    probe: Probe
    wires: tuple[str, ...] = ()
    """The wires it applies to; empty for all."""


class Outcome(msgspec.Struct, frozen=True):
    check: str
    proves: str
    problem: str = ""

    @property
    def passed(self) -> bool:
        return not self.problem


class Report(msgspec.Struct, frozen=True):
    model: str
    outcomes: tuple[Outcome, ...]

    @property
    def passed(self) -> bool:
        return all(outcome.passed for outcome in self.outcomes)

    def __str__(self) -> str:
        lines = [
            f"{'ok  ' if outcome.passed else 'FAIL'} {outcome.check}: {outcome.problem or outcome.proves}"
            for outcome in self.outcomes
        ]
        good = sum(outcome.passed for outcome in self.outcomes)
        return "\n".join([*lines, f"{self.model}: {good} of {pluralize(len(self.outcomes), 'check')} passed"])


async def _streams(host: Host) -> None:
    reply = host.client.stream(host.model, Conversation((human("Say hello."),)), options=host.options)
    events = [event async for event in reply]
    _expect(isinstance(events[-1], Done), f"the stream ended with {reply.error}")
    _expect(any(isinstance(event, TextDelta) for event in events), "the answer had no text")


async def _ends(host: Host) -> None:
    turn = await host.turn(human("Say hello."))
    _expect(turn.stop_reason == "end_turn", f"expected a normal stop reason, got {turn.raw_stop or turn.stop_reason!r}")


async def _counts(host: Host) -> None:
    turn = await host.turn(human("Say hello."))
    _expect(turn.usage is not None and turn.usage.output > 0, "the answer reported no token usage")


async def _answers_whole(host: Host) -> None:
    turn = await host.client.complete(host.model, Conversation((human("Say hello."),)), options=host.options)
    _expect(bool(turn.text.strip()), "the answer without a stream had no text")


async def _listens_to_system(host: Host) -> None:
    turn = await host.turn(human("Say hello."), system="You are a polite assistant.")
    _expect(bool(turn.text.strip()), "the answer had no text")


async def _calls(host: Host) -> Turn:
    turn = await host.turn(_ASKED, tools=(READ,))
    _expect(bool(turn.tool_calls), f"no tool was called; the answer was {turn.text[:80]!r}")
    call = turn.tool_calls[0]
    _expect(call.name == READ.name, f"expected a call of {READ.name!r}, got {call.name!r}")
    _expect(
        "_parse_error" not in parse_arguments(call), f"the arguments are not a JSON object: {call.arguments[:80]!r}"
    )
    _expect(turn.stop_reason == "tool_use", f"expected a stop reason for tool calls, got {turn.raw_stop!r}")
    return turn


async def _takes_results(host: Host) -> None:
    turn = await _calls(host)
    results = Turn("tool", tuple([tool_result(call, f"It says: {WORD}.") for call in turn.tool_calls]), key="results")
    answer = await host.turn(_ASKED, turn, results, tools=(READ,))
    _expect(WORD in answer.text.lower(), f"the answer does not contain the tool's result: {answer.text[:80]!r}")


async def _takes_errors(host: Host) -> None:
    turn = await _calls(host)
    failed = Turn(
        "tool", tuple([tool_result(c, "no such note", is_error=True) for c in turn.tool_calls]), key="results"
    )
    # What the model says to it is its own affair; the host must only accept it.
    await host.turn(_ASKED, turn, failed, tools=(READ,))


async def _reads_others(host: Host) -> None:
    await host.turn(*foreign_history().turns, tools=TOOLS[:2])


async def _reads_interrupted(host: Host) -> None:
    await host.turn(*interrupted_history().turns, tools=TOOLS[:2])


async def _refuses_properly(host: Host) -> None:
    """An invalid request must fail with an error in the wire's format."""
    # Past the encoder, which would never send it.
    broken = Options(extra_body={"messages": []}, stream=False)
    try:
        await host.client.complete(host.model, Conversation((human("Say hello."),)), options=broken)
    except ProviderError as error:
        _expect(error.status is not None and 400 <= error.status < 500, f"expected a 4xx status, got {error.status}")
        return
    raise Broken("a request without messages was answered instead of refused")


# From the simplest to the hardest: the first that fails is most likely the cause of those behind it.
CHECKS = (
    Check("streams", "text is streamed and the stream ends properly", _streams),
    Check("ends", "an answer has a finish reason", _ends),
    Check("counts", "token usage is reported", _counts),
    Check("whole", "an answer can come without a stream", _answers_whole),
    Check("system", "a system prompt is accepted", _listens_to_system),
    Check("calls", "a tool call is complete: name, JSON arguments, finish reason", _calls),
    Check("results", "a tool result is matched to its call and read", _takes_results),
    Check("errors", "the result of a failed tool is accepted", _takes_errors),
    Check("others", "a history made by three other providers is accepted", _reads_others),
    Check("interrupted", "a history with an unanswered call is accepted", _reads_interrupted),
    Check(
        "refuses",
        "an invalid request is refused with a 4xx status and an error body",
        _refuses_properly,
        ("openai-chat",),
    ),
)


async def conformance(
    model: str, client: Client, *, options: Options | None = None, checks: tuple[Check, ...] = CHECKS
) -> Report:
    """Run the checks one after the other with a model the client can reach."""
    host = Host(model, client, options or Options())
    wire = client.catalog.resolve(model).dialect.wire
    outcomes = []
    for check in checks:
        if check.wires and wire not in check.wires:
            continue
        problem = ""
        try:
            await check.probe(host)
        # Everything else is an error of the check itself, and should be seen as one.
        except (MidstreamError, Broken) as error:
            problem = f"{type(error).__name__}: {error}"
        outcomes.append(Outcome(check.name, check.proves, problem))
    return Report(model, tuple(outcomes))


def check_host(
    base_url: str,
    model: str,
    *,
    like: str = "openai-compatible",
    api_key: str | Secret | None = None,
    options: Options | None = None,
) -> Report:
    """Run the checks with a host of your own; `like` names a known provider with the same dialect."""

    api_key = hide(api_key)

    async def run() -> Report:
        # A Config of its own: the user's keys and aliases stay out of it.
        catalog = Catalog(Config(providers={"host": ProviderConfig(like=like, base_url=base_url)}))
        async with Client(catalog, api_key=api_key) as client:
            return await conformance(f"host/{model}", client, options=options)

    return asyncio.run(run())


def _expect(kept: bool, otherwise: str) -> None:
    if not kept:
        raise Broken(otherwise)
