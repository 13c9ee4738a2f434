"""The only HTTP client: HTTP/1.1 on llhttp, with deadlines, retries and bounded reads."""

from __future__ import annotations

from .client import Transport
from .options import RetryPolicy, TransportOptions
from .response import HTTPResponse
from .stream import EventReader, stream_events
from .target import KeyInClearText, OutgoingRequest

__all__ = [
    "EventReader",
    "HTTPResponse",
    "KeyInClearText",
    "OutgoingRequest",
    "RetryPolicy",
    "Transport",
    "TransportOptions",
    "stream_events",
]
