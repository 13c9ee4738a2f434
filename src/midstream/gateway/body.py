"""The body of a client's request, read and inflated within limits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ..core.errors import Aborted, BadRequest, MalformedStream, MidstreamError
from ..transport.encoding import inflater
from ..wires.lenient_json import decode_leniently

ANSWERING = ("/chat/completions", "/responses", "/messages")
"""The paths of requests that a model answers: OpenAI's chat, Responses, Anthropic's Messages."""
# Listed, never "anything": an unknown path of a host with the operator's key could do anything that key may do.
PASSED = ("/embeddings", "/moderations", "/rerank", "/completions", "/images/generations", "/audio/speech")
"""Paths whose requests are passed on to an OpenAI-compatible host."""
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]


async def read_body(receive: Receive, encoding: bytes, limit: int) -> bytes:
    """All of it; BadRequest with status 413 if it is longer than `limit`, Aborted if the client left before its end."""
    # Nearly every body comes in one message, so this case has no loop and no list.
    message = await receive()
    body: bytes = message.get("body", b"")
    # `http.disconnect` instead of a body: the client has gone.
    if message.get("more_body") or message["type"] != "http.request":
        parts, size = [body], len(body)
        while message["type"] == "http.request" and message.get("more_body"):
            message = await receive()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            # Checked at every piece: the length that a client announced
            # need not be true, and chunked bodies announce none.
            if size > limit:
                raise too_large(limit)
        if message["type"] != "http.request":
            raise Aborted("the client left before its request was whole")
        body = b"".join(parts)
    if len(body) > limit:
        raise too_large(limit)
    return inflated(body, encoding, limit) if encoding else body


def inflated(body: bytes, encoding: bytes, limit: int) -> bytes:
    """The body without its Content-Encoding, never more of it than `limit`."""
    name = encoding.decode("latin-1")
    try:
        decoder = inflater(name)
    except MidstreamError:
        raise BadRequest(
            f"Content-Encoding {name[:40]!r} is not read here: send the body as it is", status=415
        ) from None
    if decoder is None:
        return body
    parts, size = [], 0
    try:
        decoder.feed(body)
        while piece := decoder.piece():
            size += len(piece)
            if size > limit:
                raise too_large(limit)
            parts.append(piece)
        decoder.close()
    # Ours, with its own status; only what the decoder raised is translated below.
    except BadRequest:
        raise
    except MidstreamError as error:
        raise BadRequest(f"the body cannot be read: {error}", status=400) from None
    return b"".join(parts)


def sent_json(body: bytes) -> Any:
    """What a client sent as JSON. That it is none is the client's mistake, not an upstream's."""
    try:
        return decode_leniently(body)
    except MalformedStream as error:
        raise BadRequest(str(error), status=400) from None


def too_large(limit: int) -> BadRequest:
    return BadRequest(f"the request is larger than {limit} bytes, which is all this gateway takes", status=413)
