"""What became of each request that was sent for an answer: who was asked, what came, and how long it took.

An answer may take several: a host is asked again, and then the next model of a chain. A model that could not be asked at all (its
host's breaker is open, its key is missing) counts as well, without a status: it is why another one answered.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

from ..core.blocks import Value
from ..core.errors import Aborted, MidstreamError
from ..dialects.registry import Resolved
from ..transport.response import HTTPResponse
from ..wires.request import Request
from .breaker import host_of

_LEFT = Aborted.kind


class Attempt(Value, frozen=True):
    """One request to one host, when it is over."""

    model: str
    """`provider/model`."""
    host: str
    """Its name, and the port if the address has one."""
    status: int = 0
    """The HTTP status that came; 0 for none."""
    error: str = ""
    """The kind of error that ended it; empty if it was answered."""
    ms: float = 0.0
    """Until it failed, or its answer was over."""
    at: float = 0.0
    """When that was, in seconds since 1970."""


class Tries:
    """The failed requests for one answer, by model: one count for the transport, the client and an agent, which each may request it again."""

    __slots__ = ("_by_model", "last", "limit")

    def __init__(self) -> None:
        self._by_model: dict[str, list[MidstreamError]] = {}
        self.last: list[MidstreamError] = []
        """Those of the model that was asked last."""
        self.limit = 0
        """How many retries a model has."""

    def of(self, model: str) -> list[MidstreamError]:
        self.last = self._by_model.setdefault(model, [])
        return self.last

    def allow(self, retries: int) -> bool:
        """Whether the last model may be asked once more, by a caller who allows so many retries."""
        return len(self.last) <= max(self.limit, retries)


Report: TypeAlias = Callable[[Attempt], object]
Sending: TypeAlias = Callable[[Resolved, Request], Report | None]
"""Called with each model that is asked and what it is sent. What it returns is called with each attempt that is over."""


class Reporter:
    """Reports the attempts with one model."""

    __slots__ = ("_host", "_model", "_report")

    def __init__(self, target: Resolved, report: Report) -> None:
        self._model = target.name
        self._host = host_of(target.endpoint.base_url)
        self._report = report

    def failed(self, status: int, error: BaseException, seconds: float) -> None:
        """No answer could be read. An error that is not ours is the caller's cancellation."""
        self._tell(status, error.kind if isinstance(error, MidstreamError) else _LEFT, seconds)

    def ended(self, answer: HTTPResponse, error: str = "") -> None:
        """An answer was read to its end, or to the error of this kind."""
        self._tell(answer.status, error, time.monotonic() - answer.began)

    def left(self, answer: HTTPResponse) -> None:
        """The reader left before the end."""
        self.ended(answer, _LEFT)

    def _tell(self, status: int, error: str, seconds: float) -> None:
        self._report(Attempt(self._model, self._host, status, error, round(seconds * 1000, 1), time.time()))
