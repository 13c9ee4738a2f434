"""What an agent tells while it works: the events of every answer, and between them what becomes of the calls.

Each call of an answer that did not fail in the sending gets exactly one `tool_finished`; only calls that were run get a
`tool_started` before it. A run that is not cut off by its caller or by an exception ends with one `stopped`.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from ..core.blocks import ToolCall, ToolResponse
from ..core.events import Event


class ToolStarted(msgspec.Struct, frozen=True, omit_defaults=True, tag="tool_started"):
    call: ToolCall


class ToolFinished(msgspec.Struct, frozen=True, omit_defaults=True, tag="tool_finished"):
    response: ToolResponse


class Stopped(msgspec.Struct, frozen=True, omit_defaults=True, tag="stopped"):
    """Why the run is over.

    `text`: the model answered. `max_tokens`, `refusal`: so did its answer end, without calls. `rounds`, `tokens`, `cost`,
    `time`: a limit. `failed`: the answer failed, and was asked for again as often as allowed. `detail` is for people.
    """

    reason: str
    detail: str = ""


AgentEvent: TypeAlias = Event | ToolStarted | ToolFinished | Stopped
