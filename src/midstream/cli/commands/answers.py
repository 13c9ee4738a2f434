"""Commands about the last answer: another one to the same message, or another model's beside it.

No answer is removed: each stays in the store, in the conversation it was given in.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ...agent.loop import Agent
from ...agent.toolbox import Toolbox
from ...client.session import Session
from ...core import events
from ...core.blocks import Conversation, Media, Text, Turn
from ...core.errors import LocalError
from ...store import Entry
from ..attachment import unread
from ..slash import command
from ..view import Status, summary, total_cost
from .model import models, report_lines
from .sessions import last_message, step_back

if TYPE_CHECKING:
    from ..chat import Chat

_MOMENT = 0.001  # seconds


@command("/retry [MODEL]", "answer your last message again, or let another model answer it", models)
async def _retry(chat: Chat, model: str) -> None:
    before = chat.session.conversation
    place = last_message(before)
    if model:
        model = await chat.workspace.reach(model)
    message, kept = await step_back(chat)
    chat.view.notice(f"answering again{kept}")
    if any(turn.tool_calls for turn in before.turns[place:]):
        chat.view.notice("what the tools of the earlier answer did is not undone")
    if model:
        chat.view.notice(f"model: {model}", *report_lines(await chat.workspace.use(model)))
        chat.view.notice(*unread(chat.session, _media(message)))
    try:
        await chat.answer(*_content(message))
    finally:
        if not chat.was_said(place):  # stopped before it was sent: neither it nor the earlier answer may be lost
            chat.session.conversation = chat.session.carry_costs(before)
            chat.view.notice("the earlier answer is kept")


@command("/compare MODEL", "let another model answer your last message too, and keep one of the two answers", models)
async def _compare(chat: Chat, model: str) -> None:
    if not model:
        raise LocalError(
            "/compare needs a model to compare with, such as /compare sim/claude-sonnet-4-5; Tab completes"
        )
    mine = chat.session
    place = last_message(mine.conversation)
    if not _text(mine.conversation.turns[place:]):
        raise LocalError("there is no answer to compare with yet; /retry asks for one")
    model = await chat.workspace.reach(model)
    other = await _rival(chat, model, place)
    message = mine.conversation.turns[place]
    chat.view.notice(f"asking {model}; it may use only tools that read: {_names(other.toolbox)}")
    chat.view.notice(*unread(other.session, _media(message)))
    status = Status(model)
    failures: list[str] = []
    finished = await chat.until_stopped(_answered(other, message, status, failures), status)
    theirs = other.session
    # Whichever is kept, both were paid for.
    mine.conversation = _with_cost(mine.conversation, total_cost(theirs.costs(place)))
    if not finished:
        chat.view.notice("(stopped; your conversation is unchanged)")
        return
    heading = f"{_model_of(mine.conversation.turns[place:]) or mine.model} · {_figures(mine, place)}"
    chat.view.beside(
        (f"1 · {heading}", _text(mine.conversation.turns[place:])),
        (f"2 · {summary(theirs, place, status.seconds)}", _text(theirs.conversation.turns[place:]) or "(no answer)"),
    )
    if failures or not _text(theirs.conversation.turns[place:]):
        raise LocalError(f"{model} gave no whole answer{': ' if failures else ''}{' '.join(failures)}; 1 is kept")
    keeps_theirs = await chat.ask("Keep which answer? [1] or 2: ") == "2"
    stored = _stored(chat, theirs.conversation, model, place, is_last=keeps_theirs)
    if not keeps_theirs:
        chat.view.notice(f"kept 1{_remark(stored)}")
        return
    dropped = _remark(mine.conversation)
    mine.conversation = mine.carry_costs(stored)
    await chat.workspace.use(model)
    chat.view.notice(f"kept 2{dropped}", f"model: {model}")


async def _rival(chat: Chat, model: str, place: int) -> Agent:
    """Another session at the same point, with a copy of what was said so far and the tools that only read.

    It has no store: its answer is stored when it is there, so that one that is stopped or fails leaves nothing behind.
    """
    mine = chat.session
    # Two models that both change files would each work on what the other has done.
    toolbox = Toolbox([tool for tool in chat.workspace.agent.toolbox if not tool.writes and not tool.runs])
    session = Session(
        model,
        tools=toolbox.specs(),
        conversation=mine.conversation,
        options=mine.options,
        client=mine.client,
        compaction=mine.compaction,
    )
    await session.rewind(place)
    return Agent(session, toolbox)


def _stored(chat: Chat, theirs: Conversation, model: str, place: int, *, is_last: bool) -> Conversation:
    """The other model's conversation, in the store if mine is there. Unless it `is_last`, it counts as older than mine:
    `--continue` goes on with the answer that was kept."""
    store, parent = chat.workspace.writable_store, chat.session.conversation.id
    if store is None or not parent:
        return theirs
    mine = store.entry(parent)
    updated = None if is_last or mine.updated is None else mine.updated - _MOMENT
    entry = Entry(theirs, {**mine.meta, "model": model}, None, updated, parent, place)
    return replace(theirs, id=store.add(entry))


async def _answered(agent: Agent, message: Turn, status: Status, failures: list[str]) -> None:
    async with aclosing(agent.run(*_content(message))) as run:
        async for event in run:
            match event:
                case events.TextDelta() | events.ThinkingDelta() | events.ToolCallDelta():
                    status.add(event.delta)
                case events.ToolStarted():
                    status.doing = f"running {event.call.name}"
                case events.ToolFinished():
                    status.doing = ""
                case events.Stopped() if event.detail:
                    failures.append(event.detail)
                case _:
                    pass


def _with_cost(conversation: Conversation, cost: float | None) -> Conversation:
    return conversation if cost is None else replace(conversation, undone_cost=(conversation.undone_cost or 0.0) + cost)


def _content(message: Turn) -> list[Text | Media]:
    return [block for block in message.blocks if isinstance(block, Text | Media)]


def _media(message: Turn) -> list[Media]:
    return [block for block in message.blocks if isinstance(block, Media)]


def _text(turns: tuple[Turn, ...]) -> str:
    return "\n\n".join([turn.text for turn in turns if turn.speaker == "ai" and turn.text and not turn.failure])


def _model_of(turns: tuple[Turn, ...]) -> str:
    return next((turn.origin.name for turn in reversed(turns) if turn.origin), "")


def _figures(session: Session, first: int) -> str:
    """What the answer that is there already took; its latency is that of its answers, without the tools."""
    seconds = sum(turn.latency_ms or 0.0 for turn in session.conversation.turns[first:]) / 1000
    return summary(session, first, seconds).partition(" · ")[2]


def _names(toolbox: Toolbox) -> str:
    return ", ".join([tool.name for tool in toolbox]) or "none here"


def _remark(dropped: Conversation) -> str:
    return f"; the other answer is stored as {dropped.id[:8]}" if dropped.id else ""
