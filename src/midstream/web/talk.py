"""Talk: a conversation in the page, with a model that may change between two messages, and tools that are asked for.

Tools are off unless the visitor turns them on, and then every call waits for a yes in the page, also one that only reads: whoever
sits there sees the whole call first. What streams to the page is what the agent does, one JSON object for each event.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ..agent.approval import Approval, Decision
from ..agent.approval_request import ApprovalRequest
from ..agent.loop import Agent
from ..agent.sandbox import Sandbox
from ..agent.tool import Tool
from ..agent.toolbox import BUILTIN, Toolbox
from ..client.client import Client
from ..client.session import Session
from ..core import events
from ..core.blocks import Conversation, Turn
from ..core.errors import LocalError, MidstreamError, NotFound, ProviderError
from ..core.handoff import SwitchReport
from .archive import Archive
from .traffic import Exchange, Traffic, TrafficLimits, serving

_MOST_TALKS = 8
_PATIENCE = 600.0  # seconds in which a call is allowed or refused
_LEAVING = 2.0  # seconds in which an answer that was stopped is over
_LEFT = 499  # as of a client of the gateway that closed its request
TOOLS = BUILTIN


class Talk:
    """The conversations that are being held in the page."""

    def __init__(
        self,
        archive: Archive,
        client: Client,
        *,
        traffic: Traffic | None = None,
        folder: Path | None = None,
        sandbox: Sandbox | None = None,
    ) -> None:
        self._archive = archive
        self._client = client
        self._traffic = traffic
        self._folder = folder
        self._sandbox = sandbox
        self._questions: dict[str, asyncio.Future[bool]] = {}
        self._talking: dict[str, asyncio.Event] = {}
        """The conversations that are being answered, and what is set when that is over."""

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that can be turned on: none where there is no folder to work in."""
        return TOOLS if self._folder is not None else ()

    def preview(self, conversation_id: str, model: str) -> SwitchReport:
        """What `model` would see of a conversation; nothing is sent."""
        return self._session(conversation_id, model).preview()

    def decide(self, question: str, allowed: bool) -> None:
        """Answer a question about a call; NotFound if nobody waits for it."""
        waiting = self._questions.get(question)
        if waiting is None or waiting.done():
            raise NotFound("this call does not wait for an answer any more", status=404)
        waiting.set_result(allowed)

    async def say(
        self, text: str, model: str, conversation_id: str = "", tools: Sequence[str] = ()
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Say something and give what happens, until the model has answered. Without a text, the last message of the
        conversation is answered, if it was not."""
        if not text.strip() and not conversation_id:
            raise LocalError("say something first: the message is empty")
        if conversation_id in self._talking:
            # Who stops an answer and goes on at once is here before the server has seen that the other connection is closed.
            with suppress(TimeoutError):
                async with asyncio.timeout(_LEAVING):
                    await self._talking[conversation_id].wait()
        if len(self._talking) >= _MOST_TALKS or conversation_id in self._talking:
            raise LocalError("an answer is still on its way: wait for it, or stop it")
        unknown = next((name for name in tools if name not in self.tools), None)
        if unknown is not None:
            raise LocalError(f"no tool {unknown!r} here; there are: {', '.join(self.tools) or 'none'}")
        happenings: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue(1_000)
        places = {conversation_id or secrets.token_hex(8)}
        over = asyncio.Event()
        self._talking |= dict.fromkeys(places, over)
        work: asyncio.Task[None] | None = None
        try:
            # A long conversation takes a while to read, and others are being answered.
            session = await asyncio.to_thread(self._session, conversation_id, model)
            if not text.strip() and not waits(session.conversation.turns):
                raise LocalError("say something first: the last message has its answer already")
            self._client.catalog.check_key(session.target, otherwise="choose a model whose key is set, or one of sim/")
            work = asyncio.create_task(self._work(session, text, tools, happenings))
            while (happening := await happenings.get()) is not None:
                # A new conversation has a name once its first message is stored; from then on it can be asked for twice.
                if "conversation" in happening:
                    places.add(happening["conversation"])
                    self._talking[happening["conversation"]] = over
                yield happening
        finally:
            if work is not None:
                work.cancel()
                with suppress(asyncio.CancelledError):
                    await work
            for place in places:
                del self._talking[place]
            over.set()
            self._archive.changed()

    async def _work(
        self, session: Session, text: str, tools: Sequence[str], happenings: asyncio.Queue[dict[str, Any] | None]
    ) -> None:
        known = len(session.conversation.turns) if text.strip() else 0
        told_stored = False

        def tell_stored() -> None:
            nonlocal told_stored
            if not told_stored and len(session.conversation.turns) > known:
                told_stored = True
                happenings.put_nowait({"type": "stored", "conversation": session.conversation.id})

        def begin() -> Exchange:
            # Told before the host has accepted it: whoever stops now goes on in the same conversation.
            tell_stored()
            return watch.begin()

        async def ask(request: ApprovalRequest) -> Decision:
            return await self._ask(request, happenings)

        toolbox = self._toolbox(tools, ask)
        watch = _Watch(self._traffic, session, self._archive)
        serving.set(begin)
        try:
            said = (text,) if text.strip() else ()
            run = Agent(session, toolbox).run(*said) if toolbox is not None else session.send(*said)
            async for event in run:
                watch.take(event)
                tell_stored()  # at the latest: without a tap nobody is asked to begin
                told = tell(event)
                if told is not None:
                    await happenings.put(told)
        except MidstreamError as error:
            watch.fail(error)
            await happenings.put({"type": "failed", "message": str(error), "kind": error.kind})
        finally:
            watch.end(_LEFT, "client_gone")
        tell_stored()
        await happenings.put(None)

    async def _ask(self, request: ApprovalRequest, happenings: asyncio.Queue[dict[str, Any] | None]) -> Decision:
        question = secrets.token_hex(8)
        waiting = self._questions[question] = asyncio.get_running_loop().create_future()
        try:
            await happenings.put(
                {
                    "type": "question",
                    "id": question,
                    "tool": request.tool,
                    "shown": request.shown(),
                    "caution": request.caution,
                }
            )
            async with asyncio.timeout(_PATIENCE):
                allowed = await waiting
        except TimeoutError:
            return Decision(False, reason="nobody answered in time")
        finally:
            del self._questions[question]
        return Decision(allowed)

    def _toolbox(self, names: Sequence[str], ask: Any) -> Toolbox | None:
        if not names or self._folder is None:
            return None
        box = Toolbox(names, approve=Approval(ask), workdir=self._folder, sandbox=self._sandbox)
        return Toolbox([asked_for(tool) for tool in box], approve=box.approve)

    def _session(self, conversation_id: str, model: str) -> Session:
        conversation = Conversation()
        store = self._archive.own
        if conversation_id:
            store = self._archive.store_of(conversation_id)
            conversation = store.load(conversation_id)
        return Session(model, store=store, conversation=conversation, client=self._client)


class _Watch:
    """Makes the requests of one message exchanges of the live traffic, one for each answer."""

    def __init__(self, traffic: Traffic | None, session: Session, archive: Archive) -> None:
        # Without anybody to show it to it is recorded all the same, and forgotten with the message.
        self._traffic = traffic if traffic is not None else Traffic(TrafficLimits(count=1))
        self._session = session
        self._archive = archive
        self._now: Exchange | None = None

    def begin(self) -> Exchange:
        """The exchange of the request that goes out now: the same one for another attempt."""
        if self._now is None:
            self._now = self._traffic.open("", "page", "POST", "talk")
            self._now.asked = self._now.model = self._session.model
            self._now.conversation = self._session.conversation
            self._now.stream = True
        return self._now

    def take(self, event: events.AgentEvent) -> None:
        now = self._now
        if now is None:
            return
        if isinstance(event, (events.TextDelta, events.ThinkingDelta, events.ToolCallStart)) and now.first is None:
            now.first = self._traffic.clock()
        elif isinstance(event, (events.Done, events.ErrorEvent)):
            now.answered(event.turn, self._archive.cost(event.turn))
            if isinstance(event, events.ErrorEvent):
                self.fail(event.to_exception())
            else:
                self.end(200)

    def fail(self, error: MidstreamError) -> None:
        """With the status that the host gave, if it gave one."""
        status = error.status if isinstance(error, ProviderError) else None
        self.end(status if status is not None and status >= 400 else 502, error.kind)

    def end(self, status: int, error: str = "") -> None:
        """The answer is over, if one is on its way."""
        now, self._now = self._now, None
        if now is not None:
            now.status, now.error = status, error
            now.notes = [
                note for note in (now.request.notes if now.request is not None else ()) if note.action != "kept"
            ]
            self._traffic.close(now)


def waits(turns: Sequence[Turn]) -> bool:
    """Whether the last message waits for an answer: none came, or one that failed or was stopped."""
    last = next((turn for turn in reversed(turns) if turn.compacted is None), None)
    return last is not None and (last.speaker in ("human", "tool") or bool(last.failure or last.tool_calls))


def asked_for(tool: Tool) -> Tool:
    """The tool, so that a call of it is always asked about: reading is no secret to a terminal's user, but this is a page."""
    if not (tool.writes or tool.runs):
        tool.runs = True
    return tool


def tell(event: events.AgentEvent) -> dict[str, Any] | None:
    """An event as the page gets it; None for one that it does not show."""
    match event:
        case events.Start():
            return {"type": "start", "model": event.model}
        case events.ThinkingDelta():
            return {"type": "thinking", "text": event.delta}
        case events.TextDelta():
            return {"type": "text", "text": event.delta}
        case events.ToolCallStart():
            return {"type": "call", "name": event.name}
        case events.ToolCallDelta():
            return {"type": "arguments", "text": event.delta}
        case events.ToolFinished():
            return {"type": "result", "result": msgspec.to_builtins(event.response), "failed": event.response.failed}
        case events.Done():
            return {"type": "done"}
        case events.ErrorEvent():
            return {"type": "failed", "message": event.error.message, "kind": event.error.kind}
        case events.CompactionStarted():
            return {"type": "notice", "text": f"{event.model} is summarising earlier turns"}
        case _:
            return None
