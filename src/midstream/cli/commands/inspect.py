"""Commands that show something: the tools, what was spent, the next request, the list of commands; and the way out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from ...agent.toolbox import BUILTIN
from ...client.session import Session
from ...core.blocks import Media, Text, human
from ...core.compaction import sent_turns
from ...core.plural import pluralize
from ..attachment import content_of
from ..sandbox import sandbox_lines
from ..slash import COMMANDS, command, short_forms
from ..view import money, shortened, total_cost, two_columns

if TYPE_CHECKING:
    from ..chat import Chat

_NEXT = "(your next message)"


@command("/tools", "list the tools and which of them ask first")
async def _tools(chat: Chat, _: str) -> None:
    toolbox = chat.workspace.agent.toolbox
    if not toolbox:
        chat.view.notice("no tools; start the chat without --no-tools to have some")
    unattended = BUILTIN if toolbox.approve.unattended else ()
    for tool in toolbox:
        first = (tool.spec.description.strip().splitlines() or [""])[0]
        asks = "asks first" if (tool.writes or tool.runs) and tool.name not in unattended else "does not ask"
        chat.view.notice(f"  {tool.name} ({asks}): {shortened(first, 90)}")
    if "bash" in toolbox:
        chat.view.notice(*sandbox_lines(chat.workspace.sandbox, unattended=bool(unattended)))


@command("/usage", "show tokens and cost by model")
async def _usage(chat: Chat, _: str) -> None:
    costs = chat.session.costs()
    for model in dict.fromkeys(each.model for each in costs):
        mine = [each for each in costs if each.model == model]
        read, written = sum(each.usage.read for each in mine), sum(each.usage.output for each in mine)
        cached = sum(each.usage.cache_read for each in mine)
        cost = total_cost(mine)
        chat.view.notice(
            f"  {model}: {pluralize(len(mine), 'answer')}, {pluralize(read, 'token')} in ({cached:,} from the cache), {written:,} out, "
            + (money(cost) if cost is not None else "price unknown")
        )
    undone, total = chat.session.conversation.undone_cost, chat.session.spent()
    if undone:
        chat.view.notice(f"  answers that were undone: {money(undone)}")
    report = chat.session.preview()
    chat.view.notice(f"total: {money(total) if total is not None else 'unknown'}", f"  {report.lines()[-1]}")


@command("/wire [TEXT]", "show the exact request the model would get next, without secrets")
async def _wire(chat: Chat, text: str) -> None:
    waiting = (*chat.unsent, *content_of(text or _NEXT, chat.attachments.items))
    chat.view.notice(*wire_lines(chat.session, waiting, always=waiting != (_NEXT,)))


@command("/help", "show this list")
async def _help(chat: Chat, _: str) -> None:
    chat.view.notice(
        *two_columns([(each.usage, each.help) for each in COMMANDS], chat.view.width),
        "Enter sends; Alt-Enter, or a backslash before Enter, starts a new line. Esc stops an answer, Ctrl-T unfolds thinking.",
        "!COMMAND runs in your shell; its output goes with your next message.",
        f"The beginning of a command is enough where only one begins so (/und), and {short_forms()}.",
        "Ctrl-D, or Ctrl-C twice, quits.",
    )


@command("/quit", "leave the chat")
@command("/exit", "leave the chat")
async def _exit(chat: Chat, _: str) -> None:
    chat.leave()


def wire_lines(session: Session, content: Sequence[str | Text | Media], *, always: bool) -> Iterator[str]:
    """The request line, headers, body and notes of the next request, with a message of this content: `always`, or else only
    where it is the human's turn."""
    before = session.conversation
    sent = sent_turns(before.turns).turns
    last = sent[-1].speaker if sent else ""
    try:
        if always or last in ("", "ai"):
            session.conversation = before.add(human(*content))
        request = session.request()
    finally:
        session.conversation = before
    target = session.target
    catalog = session.client.catalog
    yield f"{request.method} {catalog.shown_address(target, request.path)}"
    source = catalog.key_source(target)
    key = f"‹{source}›" if source else "‹no key set›"
    for name, value in {**request.headers, **catalog.shown_headers(target, key)}.items():
        yield f"{name}: {value}"
    yield ""
    yield from msgspec.json.format(request.body, indent=2).decode().split("\n")
    for note in request.notes:
        yield f"# {note}"
