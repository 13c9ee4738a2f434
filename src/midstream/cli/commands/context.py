"""Commands about the model's window: summarise earlier turns, and take that back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.compaction import sent_turns
from ...core.errors import LocalError
from ..context_line import used
from ..slash import command
from ..view import Status

if TYPE_CHECKING:
    from ..chat import Chat


@command(
    "/compact [WHAT TO KEEP|undo]",
    "summarise the earlier turns to make room, keeping this word for word; undo takes it back",
    lambda chat: [("undo", "take the last summary back")] if _is_compacted(chat) else (),
)
async def _compact(chat: Chat, rest: str) -> None:
    if rest.lower() == "undo":
        await undo_compaction(chat)
        return
    keep = (rest.removeprefix("keep ").strip(),) if rest else ()
    failed: list[str] = []

    async def follow() -> None:
        async for event in chat.session.compacting(*keep):
            chat.show(event)
            if (error := getattr(event, "error", None)) is not None:
                failed.append(error.message)

    finished = await chat.until_stopped(follow(), Status(chat.session.model))
    chat.workspace.store_settings()
    if not finished:
        chat.view.notice("(stopped; nothing was changed)")
    elif not failed:
        chat.view.notice(f"context: {used(chat.session.context())}")


async def undo_compaction(chat: Chat) -> None:
    """Have models sent the original turns again."""
    if not _is_compacted(chat):
        raise LocalError("nothing to undo: no turns of this conversation are summarised")
    await chat.session.undo_compaction()
    chat.view.notice(
        f"undone: models are sent the original turns again; context: {used(chat.session.context())}",
    )


def _is_compacted(chat: Chat) -> bool:
    return sent_turns(chat.session.conversation.turns).summary >= 0
