"""Reading JSON from outside: typed and fast first, then lenient; the only error is MalformedStream.

The fast road is msgspec's typed decode. What it refuses (a number where text was due, NaN, a lone surrogate, invalid UTF-8)
takes the slow road once: lone surrogates become U+FFFD, NaN and infinities null, of duplicate keys the last counts. Depth
and digit bombs end there in MalformedStream.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ..core.errors import LocalError, MalformedStream
from ..core.json_progress import object_text
from ..core.modules import late_module
from ..core.surrogates import clean, mended

if TYPE_CHECKING:
    import json
else:
    # Only for what msgspec refuses.
    json = late_module("json", globals())

T = TypeVar("T")

encode_json = msgspec.json.Encoder().encode
encode_json_lines = msgspec.json.Encoder().encode_lines
_decode = msgspec.json.Decoder().decode
_SHOWN = 120
# The largest integer that every JSON reader keeps exactly; no answer has as many tokens.
_MAX_COUNT = 1 << 53
# Short texts only: what is remembered is bounded in number and, by this, in bytes.
_REMEMBERED, _REMEMBERED_LENGTH = 8192, 1024


def decode_leniently(data: bytes | str, halves: Collection[str] = ()) -> Any:
    """Any JSON value, leniently; MalformedStream for what is not JSON at all.

    The texts of fields named in `halves` keep half a character at their edge: the next piece may bring the other half.
    """
    # Escapes may spell half a character, and msgspec has no way to mend one. (mypy does not see that both are of one type.)
    if not halves and (b"\\u" if isinstance(data, bytes) else "\\u") not in data:  # type: ignore[operator]
        try:
            return _decode(data)
        except (msgspec.DecodeError, RecursionError, ValueError):
            pass  # the lenient reader says what it is, or why it is nothing
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    try:
        # `strict=False` takes raw line breaks inside strings, which models
        # and hosts write. NaN and infinity have no value here: null.
        value = json.loads(text, parse_constant=lambda _: None, strict=False)
        # Only an escape can bring half a character in: bytes have been decoded with replacement.
        return clean(value, halves) if "\\u" in text or "\\U" in text else value
    except (ValueError, RecursionError) as error:
        raise MalformedStream(f"expected JSON, got {_excerpt(text)}: {_reason(error)}") from None


def decode_object(data: bytes, what: str, texts: Collection[str] = ()) -> dict[str, Any]:
    """As decode_leniently, for one JSON object; `what` names it in the error."""
    value = decode_leniently(data, texts)
    if not isinstance(value, dict):
        raise MalformedStream(f"expected {what}, got {type(value).__name__}") from None
    return value


def convert_leniently(value: Any, type: type[T]) -> T:
    """`value` as `type`; MalformedStream names what does not fit."""
    try:
        # Not strict: hosts send numbers as strings and the other way round.
        return msgspec.convert(value, type, strict=False)
    except (msgspec.ValidationError, RecursionError, ValueError) as error:
        raise MalformedStream(f"unexpected shape: {error}") from None


_NUMBERS = frozenset({int, float})


def token_count(*values: Any) -> int:
    """The first of these that is a count; 0 if none is. What is infinite, or more than a store can hold, counts nothing."""
    for value in values:
        # By its type: a bool is an int in Python, and `true` is no count.
        if value is not None and type(value) in _NUMBERS and 0 < value < _MAX_COUNT:
            return int(value)
    return 0


def json_text(value: str) -> bytes:
    """A JSON string literal; a lone surrogate, which UTF-8 cannot carry, becomes U+FFFD."""
    try:
        return encode_json(value)
    except UnicodeEncodeError:
        # Only now: mending looks at every character, and nearly every text is fine.
        return encode_json(mended(value))


def json_value(value: Any) -> bytes:
    """Any JSON value, made safe for UTF-8; what JSON cannot hold is a LocalError."""
    try:
        return encode_json(value)
    except (UnicodeEncodeError, OverflowError):  # half a character, or an integer of more than 64 bits
        # Slower, and it takes integers of any size.
        return json.dumps(clean(value), ensure_ascii=False, separators=(",", ":"), default=_opened).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise LocalError(f"this cannot be written as JSON: {error}") from None


def _opened(value: Any) -> Any:
    """JSON that was kept as it came, for a writer that cannot put it in unread."""
    if isinstance(value, msgspec.Raw):
        return json.loads(bytes(value))
    raise TypeError(f"{type(value).__name__} is no JSON")


def arguments_text(raw: str) -> str | None:
    """The arguments of a call as the text of one JSON object; `{}` for nothing and for null, None for anything else."""
    if is_object_text(raw):
        return raw
    return "{}" if raw.strip() in ("", "null") else None


_object_texts: set[str] = set()


def is_object_text(raw: str) -> bool:
    """Whether arguments are the text of one JSON object; those that were are remembered, for a history is sent many times."""
    if raw in _object_texts:
        return True
    if object_text(raw) is None:
        return False
    if len(raw) <= _REMEMBERED_LENGTH:
        # Forgotten all at once: no order of use has to be kept for each lookup.
        if len(_object_texts) >= _REMEMBERED:
            _object_texts.clear()
        _object_texts.add(raw)
    return True


def text_of(value: Any) -> str:
    """A value where text is expected: text as it is, nothing for null, anything else as its JSON."""
    if isinstance(value, str):
        return value
    try:
        return "" if value is None else json_value(value).decode()
    except LocalError as error:
        raise MalformedStream(str(error)) from None


def _excerpt(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
