"""An error a provider sent, in any of the shapes they use, as one typed ProviderError.

The shape is read leniently (OpenAI's `error` object, Anthropic's wrapper, Google's status, Mistral's and Cohere's flat
bodies, FastAPI's `detail`, a bare string, HTML). The kind follows from what is typed (codes, Google's details), then from
numbers and times that a rate limit names, then from rules kept as data, the first that fits wins.
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
_JUDGED = 8000  # what the kind is judged by is longer: Google names the wait behind a list of metrics


# A status can also stand in the body: inside a stream there is no other.
class ErrorFields(Value, frozen=True):
    message: str
    type: str | None = None
    code: str | None = None
    status: int | None = None
    words: str = ""
    """More of the message than is shown, and the details beside it."""


# A 429 is an account without money or a limit that is over in a minute, and hosts use the same sentence for both: Gemini's "check
# your plan and billing details", Groq's link to its billing page. What is typed decides (field-guide/names.md#rate-limits).
_EMPTY_ACCOUNT = r"insufficient_quota|exceeded_current_quota|quota_exceeded|(?<![/\w])billing|insufficient_balance"
# A router quotes the body of the host behind it.
_EMPTY_ACCOUNT_INSIDE = r"(?:type|code)\W{1,8}(?:insufficient_quota|exceeded_current_quota)"
_NO_QUOTA = r"quotaId\W{1,8}\w*(?:PerDay|Daily)|\blimit:? 0\b(?![.,]\d)"
_RATE_LIMIT = r"rate[_ -]?limit|too many requests|resource_exhausted|throttl"
_ASKED = r"\blimit:? ([\d,]{1,20}), (?:used:? [\d,]{1,20}, )?requested:? ([\d,]{1,20})"
_TIME = (
    r"(?:re)?try(?:ing)?(?: again| your request)? (?:in|after)\b|retryDelay|please wait|per[ _-]?(?:minute|min\b|second|sec\b|hour)"
    r"|\b[RT]P[MSH]\b"
)
_RETRY_INFO = r"retryDelay\W{1,8}(?:seconds\W{1,8})?(\d{1,9}(?:\.\d{1,9})?)"
_WAIT = r"try(?:ing)?(?: again| your request)? (?:in|after):? ((?:\d[\d.]{0,12} ?[a-z]{1,12}[ ,]{0,2}){1,4})"
_AMOUNT = r"(\d{1,9}(?:\.\d{1,9})?) ?(?:(ms|milli(?:second)?s?)|([smhd])(?:ec|in|ay|r)?(?:ond|ute|our)?s?)(?![a-z])"
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

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
        r"insufficient_quota|exceeded_current_quota|quota_exceeded|(?<![/\w])billing|insufficient balance|credit balance"
        r"|out of credits|payment required",
        QuotaExceeded,
    ),
    # Bedrock's "Too many tokens, please wait" is a throttle; a full window is a 400 or a 413 everywhere.
    ((429,), r"too many tokens", RateLimited),
    (None, r"throttl", RateLimited),
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
        return _words_alone(body, {})
    if not isinstance(body, dict):
        return _words_alone(str(body), {})
    # OpenAI nests, others do not.
    inner = body.get("error", body)
    if isinstance(inner, str):
        return _words_alone(inner, body)
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
    message = str(message) if message else str(body)
    words = f"{message[:_JUDGED]} {str(inner.get('details') or '')[:_JUDGED]}"
    # OpenRouter puts the words of the host behind it there, and they are the ones that help.
    metadata = inner.get("metadata")
    if isinstance(metadata, dict) and metadata.get("raw"):
        raw = str(metadata["raw"])
        message, words = f"{message} ({_short(raw)})", f"{words} {raw[:_JUDGED]}"
    kind = inner.get("type") or inner.get("status") or inner.get("error_type") or body.get("type")
    return ErrorFields(_short(message), _text(kind), _text(inner.get("code")), _status(inner), words)


def _words_alone(said: str, body: Mapping[str, Any]) -> ErrorFields:
    return ErrorFields(_short(said), _text(body.get("type")), _text(body.get("code")), _status(body), said[:_JUDGED])


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
            fields = _words_alone(_plain(body), {})
    else:
        fields = read_error(body)
    # Inside a stream the HTTP status was 200, and the body knows better.
    status = status if status is not None and status >= 400 else fields.status or status
    lowered = {key.lower(): value for key, value in (headers or {}).items()}
    # In order of how specific they are; `cf-ray` is at least something to give to a support team.
    request_id = next(
        (lowered[name] for name in ("x-request-id", "request-id", "x-trace-id", "cf-ray") if name in lowered), None
    )
    kind, message = _kind(status, fields, lowered), fields.message
    if kind is ContextTooLong and (asked := _over_limit(fields)):
        # The host's own sentence may be cut before its numbers.
        message = f"{message} (asked for {asked[0]} where the limit is {asked[1]}: waiting does not help, a shorter request does)"
        # Also inside a stream: a chain of models goes by it, for the limit is this account's, not the next model's.
        status = status if status is not None and status >= 400 else 429
    return kind(
        message,
        status=status,
        code=fields.code,
        type=fields.type,
        provider=provider,
        request_id=request_id,
        retry_after=_wait(lowered, fields) if kind in (RateLimited, Overloaded) else _seconds(lowered),
    )


def told_error(data: bytes, provider: str) -> ProviderError:
    """The error in an event named `error`: under a key of that name, or the whole of it."""
    value = decode_leniently(data)
    inner = value.get("error", value) if isinstance(value, dict) else value
    return provider_error(None, {"error": inner}, provider=provider)


def _kind(status: int | None, fields: ErrorFields, headers: Mapping[str, str]) -> type[ProviderError]:
    typed = f"{fields.type or ''} {fields.code or ''}"
    told = f"{typed} {fields.words}"
    if _found(_EMPTY_ACCOUNT, typed) or _found(_EMPTY_ACCOUNT_INSIDE, told):
        return QuotaExceeded
    # Inside a stream there is no status, and the words have to say that it is a limit.
    if status == 429 or ((status is None or status < 400) and _found(_RATE_LIMIT, told)):
        if _found(_NO_QUOTA, told):
            return QuotaExceeded
        if _over_limit(fields):
            return ContextTooLong
        if "engine_overloaded" in typed:
            return Overloaded
        if _found(_TIME, told) or "retry-after" in headers or "retry-after-ms" in headers:
            return RateLimited
    shown = f"{typed} {fields.message}"
    for statuses, pattern, kind in _RULES:
        if (statuses is None or status in statuses) and _found(pattern, shown):
            return kind
    if status is not None:
        # An unknown 5xx may pass, an unknown 4xx will not.
        return Overloaded if status >= 500 else BadRequest if status >= 400 else ProviderError
    return ProviderError


def _found(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.I) is not None


def _over_limit(fields: ErrorFields) -> tuple[int, int] | None:
    """How much was asked for and the limit, where it is more than the limit ever holds."""
    for found in re.finditer(_ASKED, fields.words, re.I):
        limit, asked = [int(number.replace(",", "") or 0) for number in found.groups()]
        if asked > limit:
            return asked, limit
    return None


def _detail(item: Any) -> str:
    """One finding of FastAPI's: where, and what."""
    if not isinstance(item, dict):
        return str(item)
    place = item.get("loc")
    return f"{'.'.join(map(str, place)) if isinstance(place, list) else ''}: {item.get('msg', item)}"


def _wait(headers: Mapping[str, str], fields: ErrorFields) -> float | None:
    """The wait that the host asks for, wherever it says so: in a header, in Google's details, in words."""
    if (told := _seconds(headers)) is not None:
        return told
    if found := re.search(_RETRY_INFO, fields.words):
        return float(found[1])
    found = re.search(_WAIT, fields.words, re.I)
    amounts = re.findall(_AMOUNT, found[1], re.I) if found else ()
    return sum(float(number) * (0.001 if small else _UNITS[unit.lower()]) for number, small, unit in amounts) or None


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


def _status(body: Mapping[str, Any]) -> int | None:
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
