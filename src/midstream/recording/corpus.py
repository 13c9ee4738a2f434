"""Recordings in the form of a corpus case: one JSON object per exchange, with what a reader should make of it.

A case has no times and no way to say how an answer ended. `chunk_lengths` keep the cuts of a stream; `ending` and `error` in its
response are ours, and others pass over them.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ..core.errors import LocalError
from .exchange import Chunk, Payload, RecordedError, RecordedExchange, RecordedHead, RecordedRequest, encode_json

# What the corpus calls our wires.
_WIRES = {
    "anthropic-messages": "anthropic",
    "cohere-chat": "cohere",
    "kimi": "openai-chat",
    "mistral-chat": "openai-chat",
    "ollama-chat": "ollama",
}
_NAMES = {ours: theirs for theirs, ours in _WIRES.items() if ours != "openai-chat"}


def from_case(case: dict[str, Any], name: str = "the case") -> RecordedExchange:
    """The exchange of a corpus case. Where its reads were not recorded, the body is one chunk."""
    try:
        response, request = case["response"], case.get("request") or {}
        status, body = int(response["status"]), response["body"]
        wire, provider = str(case.get("wire") or ""), str(case.get("provider") or "")
        # The path may begin with a placeholder instead of a slash; the host is not told, and is nobody's.
        host = re.sub(r"[^a-z0-9]+", "-", provider.lower()).strip("-") or "host"
        url = f"https://{host}.invalid/{str(request.get('path') or '').lstrip('/')}"
        headers = {str(key).lower(): str(value) for key, value in (response.get("headers") or {}).items()}
        data = body.encode() if isinstance(body, str) else encode_json(body)
        asked = request.get("body")
        error = response.get("error")
        return RecordedExchange(
            RecordedRequest(str(request.get("method") or "POST"), url, {}, None if asked is None else _payload(asked)),
            RecordedHead(status, {"content-type": _kind(wire, bool(response.get("stream"))), **headers}),
            _chunks(data, response.get("chunk_lengths")),
            response.get("ending", "clean"),
            None if error is None else msgspec.convert(error, RecordedError),
            model=f"{provider}/{case.get('model') or ''}" if provider else "",
            wire=_WIRES.get(wire, wire),
            note=str(case.get("id") or ""),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise LocalError(
            f"{name} is not a corpus case: {error!r}; expected an object with request and response"
        ) from None


def to_case(exchange: RecordedExchange, name: str, expected: dict[str, Any] | None = None) -> dict[str, Any]:
    """The corpus case of an exchange; LocalError where it has no answer, or one that is no text."""
    if exchange.head is None:
        raise LocalError(f"{name} has no answer, which a corpus case cannot say")
    stream = len(exchange.chunks) > 1 or exchange.streamed
    try:
        text = exchange.body.decode()
    except UnicodeDecodeError:
        raise LocalError(f"the answer in {name} is not UTF-8, which a corpus case cannot hold") from None
    body: Any = text
    if not stream:
        try:
            body = msgspec.json.decode(text)
        except msgspec.DecodeError:
            pass  # an error page: kept as text
    parts = urlsplit(exchange.request.url)
    provider, _, model = exchange.model.partition("/")
    payload = exchange.request.body
    response: dict[str, Any] = {
        "status": exchange.head.status,
        "headers": exchange.head.headers,
        "stream": stream,
        "body": body,
    }
    if stream:
        response["chunk_lengths"] = [len(chunk.data) for chunk in exchange.chunks]
    if exchange.ending != "clean":
        response["ending"] = exchange.ending
    if exchange.error is not None:
        response["error"] = msgspec.to_builtins(exchange.error)
    return {
        "id": name,
        "wire": _NAMES.get(exchange.wire, exchange.wire),
        "provider": provider,
        "model": model,
        "source": {"repo": "midstream", "path": name},
        "request": {
            "method": exchange.request.method,
            "path": parts.path,
            "body": None
            if payload is None
            else payload.json
            if payload.json is not None
            else payload.data.decode("utf-8", "replace"),
        },
        "response": response,
        "expected": expected,
        "features": [],
        "oddities": [] if exchange.ending == "clean" else [f"ended: {exchange.ending}"],
    }


def _payload(body: Any) -> Payload | None:
    return Payload.of(body.encode()) if isinstance(body, str) else Payload(json=body)


def _chunks(data: bytes, lengths: list[int] | None) -> tuple[Chunk, ...]:
    # Lengths that do not add up were counted on other bytes, before decompression for one; better no cuts than wrong ones.
    if not lengths or sum(lengths) != len(data):
        return (Chunk(0, data),) if data else ()
    chunks, at = list[Chunk](), 0
    for length in lengths:
        chunks.append(Chunk(0, data[at : at + length]))
        at += length
    return tuple(chunks)


def _kind(wire: str, stream: bool) -> str:
    if not stream:
        return "application/json"
    return "application/x-ndjson" if wire == "ollama-chat" else "text/event-stream"
