"""The only HTTP client: deadlines, retries, bounded reads. aiohttp is imported when the first request is made."""

from __future__ import annotations

from .client import Transport
from .options import RetryPolicy, TransportOptions
from .response import HTTPResponse
from .stream import stream_events
from .target import KeyInClearText, OutgoingRequest

__all__ = [
    "HTTPResponse",
    "KeyInClearText",
    "OutgoingRequest",
    "RetryPolicy",
    "Transport",
    "TransportOptions",
    "stream_events",
]
