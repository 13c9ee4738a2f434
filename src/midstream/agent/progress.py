"""Progress of a tool while it runs: its reports reach whatever shows the call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LISTENER: ContextVar[Callable[[str], None] | None] = ContextVar("progress", default=None)


def report_progress(text: str) -> None:
    """Report how far the running tool has come; does nothing if nobody listens."""
    listener = progress_listener()
    if listener is not None:
        listener(text)


def progress_listener() -> Callable[[str], None] | None:
    """The listener of the running tool, for work in another task, which does not see this context."""
    return _LISTENER.get()


@contextmanager
def listening(listener: Callable[[str], None] | None) -> Iterator[None]:
    """Listen to the tool that runs in this block."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)
