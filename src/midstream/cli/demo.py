"""`midstream demo`: one agent's work handed from model to model in the middle of its tool calls.

Without a key it talks to the doubles of midstream.sim, over real HTTP on loopback, which refuse what the providers refuse.
With `--live` it takes the same tour through models you name, with your keys.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import click

from ..agent.toolbox import Toolbox
from ..client.catalog import Catalog
from ..client.client import Client
from ..client.config import Config
from ..client.session import Session
from ..core.blocks import ToolCall, Turn
from ..core.errors import ProviderError
from ..core.ids import STRATEGIES
from ..doctor import naive_body, with_raw_ids
from ..sim.rules.hosts import host_for, judge
from ..sim.server import Sim
from ..store import Store
from .demo_stage import JsonStage, Row, Stage, Switch, TextStage, Totals
from .main import FAILED, OK
from .running import run
from .terminal import color_option

TOUR = (
    "moonshot/kimi-k2.5",
    "anthropic/claude-sonnet-4-5",
    "mistral/mistral-large-latest",
    "openai-responses/gpt-5.2",
    "deepinfra/moonshotai/Kimi-K2.5",
    "moonshot/kimi-k2.5",
)
FILES = {
    "plan.md": "Night train to Oslo on Friday, back on Monday.",
    "budget.md": "Museum 180 kr each, everything else under 2000 kr.",
    "packing.md": "Wool socks, the small camera, no umbrella.",
    "tickets.md": "Coach 7, seats 41 and 42.",
    "weather.md": "Snow on Saturday, sun on Sunday.",
    "phone.txt": "The hostel: ask for Ingrid.",
}
QUESTION = (
    "Find '*.md' and read plan.md, then read budget.md, then read packing.md and read tickets.md,"
    " then read weather.md, then read phone.txt. What should I know before I leave?"
)
# a real model may be done early: the next one is then asked for more, about the same conversation
FURTHER = (
    "Read weather.md again. Does that change your answer? One sentence.",
    "Which of the files matters most tonight? One sentence.",
    "Read tickets.md once more and tell me the seats.",
    "Say all of it in one sentence.",
)
PACE = 0.025


class Tour:
    """The conversation and its way through the models."""

    def __init__(self, session: Session, toolbox: Toolbox, stage: Stage, models: Sequence[str]) -> None:
        self._session = session
        self._toolbox = toolbox
        self._stage = stage
        self._models = models
        self._further = list(FURTHER)
        self._rows: list[Row] = []
        self._call: ToolCall | None = None
        self.totals = Totals(models=len(set(models)))

    async def run(self) -> Totals:
        self._stage.opening(QUESTION, self._models)
        for number, model in enumerate(self._models):
            if number:
                self._switch(model)
            await self._act(model, last=number == len(self._models) - 1)
        self._stage.closing(self.totals)
        return self.totals

    async def _act(self, model: str, last: bool) -> None:
        """One model's part: a turn and its tools, or, for the last one, all there is left to do."""
        while True:
            turns = self._session.conversation.turns
            words = () if turns and turns[-1].speaker == "tool" else (QUESTION if not turns else self._next(),)
            for text in words if turns else ():
                self._stage.says(text)
            turn = await self._turn(model, words)
            if turn is None or turn.failure or not turn.tool_calls:
                return
            results = await self._toolbox.run_all(turn.tool_calls, self._stage.result)
            await self._session.add(Turn("tool", tuple(results)))
            if self._call is None:
                self._call = turn.tool_calls[-1]
                self._rows.append(Row(f"as {model} sent it", self._call.raw_id or "(none)"))
                self._rows.append(Row("kept by midstream as", self._call.id))
            if not last:
                return

    async def _turn(self, model: str, words: tuple[str, ...]) -> Turn | None:
        self._stage.speaker(model, self._session.target.dialect.wire)
        self.totals.requests += 1
        reply = self._session.send(*words)
        try:
            async for event in reply:
                self._stage.event(event)
        except ProviderError as error:
            self.totals.refused += 1
            self._stage.failed(str(error))
            return None
        if reply.error is not None:
            self.totals.broken += 1
            self._stage.failed(reply.error.message)
        return reply.turn

    def _next(self) -> str:
        return self._further.pop(0) if self._further else FURTHER[-1]

    def _switch(self, model: str) -> None:
        report = self._session.use(model)
        call = ""
        if self._call is not None:
            call = f"{self._call.name}({self._call.arguments})"
            self._rows.append(Row(f"sent to {model} as", self._id_on_wire(self._call)))
        words = self._untranslated()
        self.totals.switches += 1
        self.totals.saved += bool(words)
        self._stage.switch(Switch(model, tuple(report.rows()), call, tuple(self._rows), words))

    def _id_on_wire(self, call: ToolCall) -> str:
        """The id in the bytes of the next request; wires without ids match by order."""
        request = self._session.request()
        assert request.dialect is not None
        mapper = STRATEGIES[request.dialect.ids].create_mapper(self._session.conversation.turns)
        wire_id = mapper.resolve_tool_call_id(call)
        return wire_id if wire_id.encode() in request.body else "(no ids on this wire)"

    def _untranslated(self) -> str:
        """What the model's double says to the same history as it stands; empty if it takes it."""
        target = self._session.target
        dialect = target.dialect
        body = naive_body(with_raw_ids(self._session.conversation), dialect.wire, target.model)
        if body is None:
            return ""
        problems = judge(body, host_for(dialect))
        return f"{problems[0].status} {problems[0].message}" if problems else ""


async def perform_tour(
    stage: Stage, models: Sequence[str], *, live: bool, delay: float, store: Store | None = None
) -> Totals:
    """The whole demo, in a scratch folder that is gone afterwards; the conversation is kept in `store`, if there is one."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="midstream-demo-"))
        for name, text in FILES.items():
            (Path(folder) / name).write_text(text + "\n", "utf-8")
        if live:
            catalog = Catalog()
        else:
            sim = await stack.enter_async_context(Sim(delay=delay))
            catalog = Catalog(Config(), environ={}, providers=sim.providers())
        client = await stack.enter_async_context(Client(catalog))
        toolbox = Toolbox(("glob", "read_file"), workdir=folder)
        session = Session(
            models[0], store=store, tools=toolbox.specs(), client=client, system="You help with a trip. Be brief."
        )
        return await Tour(session, toolbox, stage, models).run()


@click.command()
@click.option("--fast", is_flag=True, help="Do not pause between the streamed pieces.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@color_option
@click.option("--live", metavar="MODEL,MODEL…", help="Use these real models, with your keys.")
def demo(fast: bool, as_json: bool, live: str | None) -> int:
    """Hand one conversation from model to model in the middle of its tool calls."""
    models = tuple([name.strip() for name in live.split(",") if name.strip()]) if live else TOUR
    if not models:
        raise click.UsageError("--live needs models, such as moonshot/kimi-k2.5,anthropic/claude-sonnet-4-5")
    stage: Stage = JsonStage() if as_json else TextStage(live=bool(live))
    totals = run(perform_tour(stage, models, live=bool(live), delay=0.0 if fast or as_json else PACE))
    return FAILED if totals.refused or totals.broken else OK
