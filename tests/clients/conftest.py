"""The doubles for the whole run, in a network of our own, and the table of what every agent did."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from midstream.core.blocks import Conversation, Thinking, Turn
from midstream.core.tools import ToolSpec, declared_tools
from midstream.sim.rules.rule import Problem
from midstream.sim.server import Seen
from midstream.testing import AgentScript, Answer, SimServer, sim_server
from tests.clients.agents import AGENTS, FOLDER
from tests.clients.gateway import Gateway, gateway_process, upstreams
from tests.clients.namespace import is_alone, leave_the_network

LOG = FOLDER / "results.md"
# The names that agents ask for. Some agents know a name and ask for a newer one of its kind.
CONFIG = """
[aliases]
"kimi-k2.5" = "moonshot/kimi-k2.5"
"kimi-k2-0905-preview" = "moonshot/kimi-k2-0905-preview"
"claude-sonnet-5*" = "anthropic/claude-sonnet-5"
"gpt-5.2*" = "openai-responses/gpt-5.2"
"gemini-3*-pro-preview" = "gemini/gemini-3-pro-preview"
"mistral-large-latest" = "mistral/mistral-large-latest"
"""
_SIGNED = re.compile("c2ltO")  # how the doubles' signatures begin
_RESULTS = pytest.StashKey[list["Result"]]()


class Result(msgspec.Struct, frozen=True):
    """One line of the table."""

    agent: str
    target: str
    rounds: int
    requests: int
    refused: int
    reasoning: str
    """How many rounds came back with the model's own reasoning, of how many had some."""
    files: bool | None
    seconds: float

    def row(self) -> str:
        files = "-" if self.files is None else "yes" if self.files else "NO"
        figures = f"{self.rounds} | {self.requests} | {self.refused} | {self.reasoning} | {files} | {self.seconds:.1f}"
        return f"| {self.agent} | {self.target} | {figures} |"


class Stage:
    """The doubles, with a plan that the test at hand has given, and what they received since then."""

    def __init__(self) -> None:
        self.plan = AgentScript()
        self.sim: SimServer | None = None
        self.heard = Conversation()
        """The last conversation in which there were tools, as the model read it."""
        self.thought = 0
        """Rounds of calls that had reasoning before them."""
        self.models: list[str] = []
        """Who made the calls of each round."""
        self.after: Callable[[], None] | None = None
        """What happens after each round of calls, before the agent hears of them."""
        self._before = 0
        self._refused = 0

    def __call__(self, conversation: Conversation, tools: Sequence[ToolSpec], *, model: str, thinks: bool) -> Answer:
        answer = self.plan(conversation, tools, model=model, thinks=thinks)
        if tools or declared_tools(conversation.turns):
            self.heard = conversation
            self.thought += bool(answer.thinking and answer.calls)
            self.models.append(model)
            if answer.calls and self.after is not None:
                self.after()
        return answer

    def begin(self, plan: AgentScript, after: Callable[[], None] | None = None) -> None:
        self.plan = plan
        self.after = after
        self.heard = Conversation()
        self.thought = 0
        self.models = []
        self._before = self.running.requests
        self._refused = len(self.running.refused)

    @property
    def running(self) -> SimServer:
        assert self.sim is not None
        return self.sim

    @property
    def requests(self) -> int:
        return self.running.requests - self._before

    @property
    def seen(self) -> list[Seen]:
        return self.running.seen[-self.requests :] if self.requests else []

    @property
    def echoed(self) -> int:
        """Rounds whose reasoning came back: as the model said it, or as what only its host can read."""
        return sum(1 for turn in self.heard.turns if turn.tool_calls and has_reasoning(turn))

    @property
    def refused(self) -> list[Problem]:
        return self.running.refused[self._refused :]


def has_reasoning(turn: Turn) -> bool:
    """Whether an answer has the reasoning that a double gave it: not words or a signature that were put in its place."""
    signatures = [str((call.extra or {}).get("thoughtSignature")) for call in turn.tool_calls]
    thoughts = [block for block in turn.blocks if isinstance(block, Thinking)]
    proofs = [*signatures, *[str(block.encrypted) for block in thoughts]]
    return any(block.text.startswith("Round ") for block in thoughts) or any(_SIGNED.match(proof) for proof in proofs)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_RESULTS] = []


@pytest.fixture(scope="session", autouse=True)
def alone() -> bool:
    """Whether nothing can leave; before any thread or process of the tests is there."""
    return leave_the_network()


@pytest.fixture(scope="session")
def stage(alone: bool) -> Iterator[Stage]:
    stage = Stage()
    with sim_server(script=stage) as stage.sim:
        yield stage


@pytest.fixture(scope="session")
def gateway(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One gateway for the whole run, as people have it."""
    with gateway_process(tmp_path_factory.mktemp("gateway"), CONFIG, upstreams(stage.running)) as running:
        yield running


@pytest.fixture
def results(request: pytest.FixtureRequest) -> list[Result]:
    return request.config.stash[_RESULTS]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show the table, keep it, and name the agents that did not run."""
    results = config.stash[_RESULTS]
    if results:
        versions = ", ".join([f"{agent.name} {agent.version}" for agent in AGENTS if agent.installed])
        titles = ("agent", "model", "rounds", "requests", "refused", "reasoning", "files", "seconds")
        head = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
        lines = [versions, "", *head, *[result.row() for result in results]]
        LOG.write_text("\n".join(lines) + "\n", "utf-8")
        terminalreporter.section("what the agents did")
        terminalreporter.write_line("\n".join(lines))
        terminalreporter.write_line(f"\nwritten to {Path(LOG).relative_to(FOLDER.parent)}")
    missing = [agent.name for agent in AGENTS if not agent.installed]
    if missing:
        terminalreporter.section("NOT RUN", sep="*", red=True, bold=True)
        terminalreporter.write_line(f"not installed: {', '.join(missing)}", red=True)
    if not is_alone():
        terminalreporter.write_line("the agents could reach the network: run as root to keep them from it", yellow=True)
