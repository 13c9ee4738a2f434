"""The meter: how much of the model's window the conversation takes, and what it has cost so far.

A `~` marks an estimate; without it the figure is the host's own count of the last request and its answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..client.compaction import ContextUse
from ..client.session import Session
from ..core.blocks import Conversation
from .context_line import used
from .terminal import cells
from .view import money, shortened

_SHORTEST_MODEL = 8


class Meter:
    """The figures of a session's conversation, worked out when it has changed: a status bar is drawn at every key."""

    def __init__(self) -> None:
        self._known: tuple[Conversation, str, int] | None = None
        self._use = ContextUse(0)
        self._cost: float | None = None

    def bar(self, session: Session, width: int, *others: str) -> str:
        """The status bar: the model, `others`, the window, the cost, as far as `width` columns go. What matters least goes
        first: the others from the last on, the long form of the figures, the provider's name, the end of the model's."""
        self._look(session)
        cost = [money(self._cost)] if self._cost is not None else []
        long, short = used(self._use), used(self._use, short=True)
        model, bare = session.model, session.model.rpartition("/")[2]
        for count in range(len(others), -1, -1):
            line = _joined([model, *others[:count], long, *cost])
            if cells(line) <= width:
                return line
        for parts in ([model, short, *cost], [bare, short, *cost]):
            if len(_joined(parts)) <= width:
                return _joined(parts)
        for rest in ([short, *cost], [short]):
            room = width - len(_joined(["", *rest]))
            if room >= _SHORTEST_MODEL or not cost or rest == [short]:
                return _joined([shortened(bare, max(1, room)), *rest]) if room >= 1 else shortened(short, max(1, width))
        return shortened(short, max(1, width))

    def _look(self, session: Session) -> None:
        known = (session.conversation, session.model, len(session.tools))
        # By identity: a conversation is a frozen value, and a new one is made for every change.
        if self._known is not None and self._known[0] is known[0] and self._known[1:] == known[1:]:
            return
        self._known = known
        self._use = session.context()
        self._cost = session.spent()


def _joined(parts: Sequence[str]) -> str:
    return " · ".join(parts)
