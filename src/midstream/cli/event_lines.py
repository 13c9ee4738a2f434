"""`ask --jsonl`: what happens as lines of JSON, one event each, for programs that read along.

The first line is `{"type": "midstream", "version": 1, …}`, the last `{"type": "result", …}`; between them stand the events of
the run as midstream.events names them (docs/structured-output.md lists the fields). A line is written whole and at once. The
version changes when a field changes its meaning or goes; new types and fields may come.
"""

from __future__ import annotations

import json
from typing import IO, Any

import msgspec

from ..core.events import AgentEvent, ErrorInfo
from ..wires.lenient_json import json_value
from .terminal import is_terminal

VERSION = 1


class EventLines:
    def __init__(self, out: IO[str]) -> None:
        self._out = out
        # A terminal gets ASCII, because JSON leaves C1 controls as they are; so does whatever cannot take UTF-8.
        utf8 = (getattr(out, "encoding", None) or "utf-8").lower().replace("_", "-") in ("utf-8", "utf8")
        self._ascii = is_terminal(out) or not utf8
        self._begun = False

    def begin(self, model: str | None, session: str) -> None:
        """The first line; once is enough."""
        if self._begun:
            return
        self._begun = True
        self._line({"type": "midstream", "version": VERSION, "model": model, "session": session or None})

    def event(self, event: AgentEvent) -> None:
        self._line(msgspec.to_builtins(event))

    def error(self, error: ErrorInfo) -> None:
        """What kept an answer from starting: an `error` without a turn."""
        self._line({"type": "error", "error": msgspec.to_builtins(error)})

    def result(self, found: dict[str, Any]) -> None:
        self._line({"type": "result", **found})

    def _line(self, value: Any) -> None:
        text = json_value(value).decode()
        if self._ascii and not text.isascii():
            text = json.dumps(json.loads(text), separators=(",", ":"))
        self._out.write(text + "\n")
        # At once: whoever reads along wants each event when it happens.
        self._out.flush()
