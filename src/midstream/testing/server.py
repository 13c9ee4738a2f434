"""The doubles in a thread of their own, so that sync and async tests can reach them over real HTTP."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, TypeAlias

from ..client.catalog import Catalog
from ..client.client import Client
from ..client.config import Config
from ..client.sync import Background
from ..core.blocks import Conversation
from ..core.errors import LocalError
from ..core.tools import ToolSpec
from ..dialects.registry import meant
from ..sim.answer import Answer, Call
from ..sim.rules.hosts import Strict
from ..sim.rules.rule import Problem
from ..sim.scripted_model import next_answer
from ..sim.server import Script, Seen, Sim

_KEPT = 1000
"""So many conversations are remembered."""
Line: TypeAlias = str | Answer | Callable[[Conversation], str | Answer]


class ScriptedModel:
    """Answers to give in order, one per request: texts, Answers, or functions of the conversation as the provider read it."""

    def __init__(self, *lines: Line) -> None:
        for line in lines:
            if not callable(line):
                _as_answer(line)  # said where the script is written, not in the thread of the doubles
        self._lines = deque(lines)
        self._given = 0
        self.received: list[Conversation] = []

    def __call__(self, conversation: Conversation, tools: Sequence[ToolSpec], *, model: str, thinks: bool) -> Answer:
        self.received.append(conversation)
        # A double may run for hours in front of an agent.
        del self.received[:-_KEPT]
        if not self._lines:
            raise LocalError(f"all {self._given} scripted answers have been given; add one for this request")
        line = self._lines.popleft()
        self._given += 1
        return _as_answer(line(conversation) if callable(line) else line)


def _as_answer(said: object) -> Answer:
    """An answer of a script; LocalError says how one is written."""
    if isinstance(said, str):
        return Answer(said)
    if isinstance(said, Call):
        raise LocalError(f"a call stands in an answer: Answer(calls=(Call({said.name!r}, …),))")
    if isinstance(said, (list, tuple)):
        raise LocalError("each answer is an argument of its own: sim_server(*answers)")
    if not isinstance(said, Answer):
        raise LocalError(
            f"a scripted answer is a text, an Answer, or a function that gives one, not {type(said).__name__}"
        )
    if not isinstance(said.calls, (tuple, list)) or not all(isinstance(call, Call) for call in said.calls):
        raise LocalError("the calls of an Answer are a tuple of Call, with a comma also behind a single one")
    return said


class SimServer:
    """A running Sim: its address, and the requests it has received."""

    def __init__(self, sim: Sim, script: ScriptedModel | None) -> None:
        self._sim = sim
        self.script = script

    @property
    def url(self) -> str:
        return self._sim.url

    @property
    def requests(self) -> int:
        return self._sim.requests

    @property
    def refused(self) -> list[Problem]:
        """The last problems, each with the message it was refused with."""
        return list(self._sim.refused)

    @property
    def seen(self) -> list[Seen]:
        """The last requests, as they arrived."""
        return list(self._sim.seen)

    def base_url(self, provider: str) -> str:
        """The base URL to give another program for this provider; `sim` goes by the model's name."""
        known = [row.name for row in self._sim.providers()]
        if provider not in known:
            raise LocalError(
                f"there is no double of {provider!r}{meant(provider, known) or '.'} Known: {', '.join(known)}"
            )
        return f"{self.url}/{provider}"

    def inject(self, fault: str | int, times: int = 1) -> None:
        """Make the next requests go wrong: docs/doubles.md lists the faults."""
        self._sim.inject(fault, times)

    def catalog(self, **environ: str) -> Catalog:
        """A catalog in which every provider, and `sim`, is at this address. No key is needed."""
        # No environment but what the test gives: a real key on the machine must never reach a test.
        return Catalog(Config(), environ=environ, providers=self._sim.providers())

    def client(self, **options: Any) -> Client:
        """A client with that catalog, for use in one event loop."""
        return Client(self.catalog(), **options)


@contextmanager
def sim_server(
    *lines: Line,
    delay: float = 0.0,
    faults: Iterable[str | int] = (),
    always: Iterable[str | int] = (),
    strict: Strict = "documented",
    port: int = 0,
    key: str | None = None,
    script: Script | None = None,
    window: int | None = None,
) -> Iterator[SimServer]:
    """Start the doubles. They answer with `lines`, one per request, or with a `script` that decides by the conversation
    (`AgentScript`, or a function of yours), or else with the scripted model, which reads the prompt.

    Each of the `faults` spoils one of the next requests, and `always` spoils all of them (docs/reference/faults.md).

    They refuse what a host is documented or was observed to refuse; with strict="paranoid" also what we assume it refuses,
    with strict=False nothing. With a `key`, they refuse any other key, as the hosts do; with a `window`, they refuse a
    conversation that has more tokens.
    """
    if lines and script is not None:
        raise LocalError("give sim_server either lines or a script, not both")
    scripted = ScriptedModel(*lines) if lines else None
    chosen = scripted or script or next_answer
    sim = Sim(
        port=port, delay=delay, faults=faults, always=always, strict=strict, script=chosen, key=key, window=window
    )
    # A thread with its own loop, so that a synchronous test, or one
    # with another loop, can wait for an answer without blocking it.
    with closing(Background()) as background:
        yield SimServer(background.enter(sim), scripted)
