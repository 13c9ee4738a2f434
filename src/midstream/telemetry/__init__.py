"""OpenTelemetry: spans and metrics of answers, tool runs and agent runs, in the words of its conventions for generative AI.

Only the API package is used, and only where a program has set up an SDK, or asks for it with `Client(telemetry=Telemetry(…))`:
elsewhere nothing is done, and nothing is imported. The names are in `conventions`. See docs/telemetry.md.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .telemetry import Telemetry as Telemetry

__all__ = ["Telemetry", "current_telemetry"]

ASKED: ContextVar[Telemetry | None] = ContextVar("midstream_telemetry", default=None)
"""The telemetry of the run that is going on, where its caller brought one."""
_found: tuple[Any, Any, Telemetry] | None = None


def current_telemetry() -> Telemetry | None:
    """The telemetry of the run that is going on, or of the SDK that this program has set up; None if there is neither.

    Nothing is imported to find out: a program that has set up an SDK has loaded the API.
    """
    asked = ASKED.get()
    if asked is not None:
        return asked
    return None if "opentelemetry.trace" not in sys.modules else _of_program()


def _of_program() -> Telemetry | None:
    global _found  # noqa: PLW0603  (the SDK's providers are the process's, too)
    from opentelemetry import metrics, trace

    tracers, meters = trace.get_tracer_provider(), metrics.get_meter_provider()
    # Both are stand-ins until somebody sets one, and everything that they are given is thrown away.
    if isinstance(tracers, trace.ProxyTracerProvider) and type(meters).__name__ == "_ProxyMeterProvider":
        return None
    if _found is None or _found[0] is not tracers or _found[1] is not meters:
        _found = (tracers, meters, import_module(".telemetry", __name__).Telemetry(tracers, meters))
    return _found[2]


if not TYPE_CHECKING:  # a type checker must see that other names do not exist

    def __getattr__(name: str) -> object:
        if name != "Telemetry":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return import_module(".telemetry", __name__).Telemetry
