"""An error a provider sent, in any of the shapes they use, as one typed ProviderError.

The shape is read leniently (OpenAI's `error` object, Anthropic's wrapper, Google's status, Mistral's and Cohere's flat
bodies, FastAPI's `detail`, a bare string, HTML); the kind follows from rules kept as data, the first that fits wins.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..core.blocks import Value
from ..core.errors import (
    BadRequest,
    ContentFiltered,
    ContextTooLong,
    MalformedStream,
    MediaRefused,
    NotFound,
    Overloaded,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    Unauthorized,
)
from .lenient_json import decode_leniently

_SHOWN = 500


# A status can also stand in the body: inside a stream there is no other.
class ErrorFields(Value, frozen=True):
    message: str
    type: str | None = None
    code: str | None = None
    status: int | None = None


# Words of media as hosts use them in refusals.
_MEDIA = r"(?:image|vision|multi-?modal|audio|video)\w*"

# (statuses or None for any, pattern over "type code message", kind). Compiled when an error first comes.
# The order is the design. Statuses lie: 429 is a rate limit or an empty account, 400 is a mistake or a
# conversation that is too long, 500 may be a request that can never work. So what the words say comes
# before what the status says, and of the words the more specific come first: quota before rate limit (a
# retry would be useless), context before bad request (it can be compacted), media before 500 (it can be
# sent without). Rows with words only, at the end, are for errors inside a stream, which have no status.
# The texts are those that hosts were seen to send (field-guide/why-400.md, field-guide/kimi.md#errors).
_RULES: tuple[tuple[tuple[int, ...] | None, str, type[ProviderError]], ...] = (
    ((402,), r"", QuotaExceeded),
    (
        None,
        r"insufficient_quota|exceeded_current_quota|quota_exceeded|billing|insufficient balance|credit balance"
        r"|out of credits|payment required",
        QuotaExceeded,
    ),
    (
        None,
        r"context_length|context window|context size|maximum context|too many tokens"
        r"|(?:prompt|input|context|token length)(?: is)? too long"
        r"|exceeds? the (?:model's )?(?:maximum|max) (?:context|token|input|number of tokens)|request_too_large|token limit",
        ContextTooLong,
    ),
    ((413,), r"", ContextTooLong),
    # Servers of open models say so with 500, as if it might pass: llama.cpp, vLLM, Ollama, SGLang, routers.
    (
        None,
        rf"{_MEDIA}[\w ]{{0,30}}(?:(?:is|are) )?(?:not|n't|un)\s?(?:yet )?(?:be )?(?:supported|allowed|accepted|enabled)"
        rf"|(?:not|n't) (?:support|accept)[\w ]{{0,20}} ?{_MEDIA}"
        rf"|no endpoints? found that support {_MEDIA}|is not (?:a )?(?:multi-?modal|vision)|provide the mmproj"
        rf"|unsupported content(?: part)? type\W+(?:image|input_audio|video)|missing data required for image input"
        rf"|at most 0 (?:image|audio|video)",
        MediaRefused,
    ),
    (None, r"content_filter|content_policy|content management policy|high risk|moderation", ContentFiltered),
    ((401, 403), r"", Unauthorized),
    ((400,), r"api key not valid|api_key_invalid|incorrect api key", Unauthorized),
    ((404,), r"", NotFound),
    ((400, 422), r"", BadRequest),
    (None, r"engine_overloaded", Overloaded),
    (None, r"rate_limit|rate-limit|too many requests|resource_exhausted", RateLimited),
    ((429,), r"", RateLimited),
    # A cause that stays: no server gets better at what it does not do.
    (
        (500, 501),
        r"invalid_request_error|badrequesterror|(?:does|do) not support |(?:is|are) not supported",
        BadRequest,
    ),
    (None, r"overloaded|unavailable|server_error|internal_error", Overloaded),
    (
        None,
        r"invalid_authentication|incorrect_api_key|authentication_error|permission_error|invalid_api_key",
        Unauthorized,
    ),
    ((408, 409, 500, 502, 503, 504, 529), r"", Overloaded),
    (None, r"invalid_request|bad_request|validation_error|invalid_argument", BadRequest),
)


def read_error(body: Any) -> ErrorFields:
    """Find message, type and code wherever this provider put them."""
    # Google sends a list of one.
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, str):
        return ErrorFields(_short(body))
    if not isinstance(body, dict):
        return ErrorFields(_short(str(body)))
    # OpenAI nests, others do not.
    inner = body.get("error", body)
    if isinstance(inner, str):
        return ErrorFields(_short(inner), _text(body.get("type")), _text(body.get("code")), _status(body))
    if not isinstance(inner, dict):
        inner = body
    # OpenAI, DeepInfra's stream, others, FastAPI: each has its own key.
    message = inner.get("message") or inner.get("error_message") or inner.get("msg") or inner.get("detail")
    if message is None:
        message = body.get("message") or body.get("detail")
    if isinstance(message, list) and message and isinstance(message[0], dict):
        message = "; ".join([_detail(item) for item in message])
    if isinstance(message, dict):
        message = message.get("error") or message.get("message") or str(message)
    # OpenRouter puts the words of the host behind it there, and they are the ones that help.
    metadata = inner.get("metadata")
    if isinstance(metadata, dict) and metadata.get("raw"):
        message = f"{message} ({_short(str(metadata['raw']))})"
    kind = inner.get("type") or inner.get("status") or inner.get("error_type") or body.get("type")
    return ErrorFields(
        _short(str(message)) if message else _short(str(body)), _text(kind), _text(inner.get("code")), _status(inner)
    )


# `error: {}` and `error: null` beside a normal answer are some hosts' way to say that all is well.
def is_error(told: Any, *, beside: Any) -> bool:
    """Whether this says that anything went wrong. Hosts send an empty `error` beside an answer; alone it is one."""
    if isinstance(told, dict) and beside:
        return any(told.values())
    return bool(told) or (told is not None and not beside)


def provider_error(
    status: int | None,
    body: bytes | Any,
    *,
    headers: Mapping[str, str] | None = None,
    provider: str | None = None,
) -> ProviderError:
    """The typed error for an HTTP answer of status >= 400, or for an error object inside a stream."""
    if isinstance(body, bytes):
        try:
            fields = read_error(decode_leniently(body))
        except MalformedStream:
            fields = ErrorFields(_plain(body))
    else:
        fields = read_error(body)
    # Inside a stream the HTTP status was 200, and the body knows better.
    status = status if status is not None and status >= 400 else fields.status or status
    lowered = {key.lower(): value for key, value in (headers or {}).items()}
    # In order of how specific they are; `cf-ray` is at least something to give to a support team.
    request_id = next(
        (lowered[name] for name in ("x-request-id", "request-id", "x-trace-id", "cf-ray") if name in lowered), None
    )
    return _kind(status, fields)(
        fields.message,
        status=status,
        code=fields.code,
        type=fields.type,
        provider=provider,
        request_id=request_id,
        retry_after=_seconds(lowered),
    )


def told_error(data: bytes, provider: str) -> ProviderError:
    """The error in an event named `error`: under a key of that name, or the whole of it."""
    value = decode_leniently(data)
    inner = value.get("error", value) if isinstance(value, dict) else value
    return provider_error(None, {"error": inner}, provider=provider)


def _kind(status: int | None, fields: ErrorFields) -> type[ProviderError]:
    told = f"{fields.type or ''} {fields.code or ''} {fields.message}"
    for statuses, pattern, kind in _RULES:
        if (statuses is None or status in statuses) and re.search(pattern, told, re.I):
            return kind
    if status is not None:
        # An unknown 5xx may pass, an unknown 4xx will not.
        return Overloaded if status >= 500 else BadRequest if status >= 400 else ProviderError
    return ProviderError


def _detail(item: Any) -> str:
    """One finding of FastAPI's: where, and what."""
    if not isinstance(item, dict):
        return str(item)
    place = item.get("loc")
    return f"{'.'.join(map(str, place)) if isinstance(place, list) else ''}: {item.get('msg', item)}"


def _seconds(headers: Mapping[str, str]) -> float | None:
    """Retry-After where it is a plain number; the transport reads the date form, for that needs a clock."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            value = float(headers.get(name, ""))
        except ValueError:
            continue
        # `nan` and `inf` are valid floats to Python.
        if 0 <= value < float("inf"):
            return value * unit
    return None


def _status(body: dict[str, Any]) -> int | None:
    for name in ("status", "code", "status_code", "raw_status_code"):
        value = body.get(name)
        # A string of three digits is a status; longer ones are a host's own codes.
        if isinstance(value, str) and value.isdigit() and len(value) == 3:
            value = int(value)
        if isinstance(value, int) and 400 <= value < 600:
            return value
    return None


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _plain(body: bytes) -> str:
    """A body that is not JSON: its words without the markup, shortened."""
    # A page can be large, and its title is in its beginning.
    text = body[:4096].decode("utf-8", "replace")
    if "<" in text and ">" in text:
        title = re.search(r"<title>([^<]{1,200})</title>", text, re.I)
        return f"an HTML page instead of JSON ({title[1].strip()})" if title else "an HTML page instead of JSON"
    return _short(text.strip()) or "an empty body"
