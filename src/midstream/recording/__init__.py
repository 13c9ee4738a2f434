"""Exchanges with hosts as they happened, chunk by chunk: recorded to files, and replayed."""

from __future__ import annotations

from .cassette import Cassette, read_exchange
from .exchange import (
    BadRecording,
    Chunk,
    Payload,
    RecordedError,
    RecordedExchange,
    RecordedHead,
    RecordedRequest,
    decode_exchange,
    encode_exchange,
)
from .recorder import Recorder, record
from .replay import NoRecording, Replay, replay
from .scrub import Scrub, SecretRemains

__all__ = [
    "BadRecording",
    "Cassette",
    "Chunk",
    "NoRecording",
    "Payload",
    "RecordedError",
    "RecordedExchange",
    "RecordedHead",
    "RecordedRequest",
    "Recorder",
    "Replay",
    "Scrub",
    "SecretRemains",
    "decode_exchange",
    "encode_exchange",
    "read_exchange",
    "record",
    "replay",
]
