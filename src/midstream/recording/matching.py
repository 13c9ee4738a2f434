"""Whether a request is the one that was recorded, and what differs if not.

Two requests are the same if their methods, places and bodies are, in canonical form. Of a place the host counts, except where one of the
two is on this machine: a port of a test server is another every time. A body that is JSON is compared as a value. Ids of tool calls in it
are labels: midstream makes new ones for every conversation, and what counts is which call each belongs to. So they are numbered
by their first appearance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from ..core.blocks import Value
from ..transport.target import is_loopback
from .exchange import RecordedRequest, encode_json

_LABELS = frozenset(("id", "call_id", "tool_call_id", "tool_use_id"))
# What a named tool was given, gave back or takes is content: an `id` in there means something.
_CONTENT = frozenset(("input", "args", "arguments", "parameters", "input_schema", "schema", "response", "output"))
# A message, not a diff: the first differences show which part of the request has changed.
_SHOWN = 8
_LONG = 60


class CanonicalRequest(Value, frozen=True):
    """What is compared of a request."""

    method: str
    host: str
    path: str
    query: str
    body: Any
    key: bytes
    """All but the host, as bytes: equal for requests that match."""

    @classmethod
    def of(cls, request: RecordedRequest) -> CanonicalRequest:
        parts = urlsplit(request.url)
        # The order of a query means nothing to any host we know, and clients differ in it.
        query = "&".join(sorted(parts.query.split("&")))
        payload = request.body
        body: Any = None
        if payload is not None:
            # A text and the same in base64 cannot meet: which of the two is kept follows from the bytes.
            body = payload.text or payload.base64 if payload.json is None else _numbered(payload.json, {})
        key = encode_json([request.method, parts.path, query, body])
        return cls(request.method, parts.netloc, parts.path, query, body, key)

    def at_the_same_host(self, other: CanonicalRequest) -> bool:
        return self.host == other.host or _local(self.host) or _local(other.host)

    def differences(self, now: CanonicalRequest) -> list[Difference]:
        """What is not as recorded, the place first."""
        found = [
            Difference(name, before, after)
            for name, before, after in (
                ("method", self.method, now.method),
                ("path", self.path, now.path),
                ("query", self.query, now.query),
            )
            if before != after
        ]
        if not self.at_the_same_host(now):
            found.append(Difference("host", self.host, now.host))
        return [*found, *_differences("", self.body, now.body)]


class _Absent:
    def __repr__(self) -> str:
        return "nothing"


ABSENT = _Absent()


class Difference(Value, frozen=True):
    """Something in a request that is not as it was recorded."""

    place: str
    recorded: Any
    now: Any

    def __str__(self) -> str:
        recorded, now = self.recorded, self.now
        if isinstance(recorded, str) and isinstance(now, str) and max(len(recorded), len(now)) > _LONG:
            # Where two long texts part is what a reader looks for.
            at = next((at for at, (one, two) in enumerate(zip(recorded, now, strict=False)) if one != two), None)
            start = max(0, (min(len(recorded), len(now)) if at is None else at) - _LONG // 3)
            lead = "…" if start else ""
            return f"{self.place}: recorded {lead}{_short(recorded[start:])}, now {lead}{_short(now[start:])}"
        return f"{self.place or 'the body'}: recorded {_short(recorded)}, now {_short(now)}"


def tell(differences: list[Difference]) -> str:
    """A few lines for a person."""
    lines = [f"  {each}" for each in differences[:_SHOWN]]
    if len(differences) > _SHOWN:
        lines.append(f"  … and {len(differences) - _SHOWN} more")
    return "\n".join(lines)


def _numbered(value: Any, seen: dict[str, str], label: bool = False) -> Any:
    if isinstance(value, str):
        return seen.setdefault(value, f"id {len(seen) + 1}") if label else value
    if isinstance(value, list):
        return [_numbered(each, seen) for each in value]
    if isinstance(value, dict):
        content = _CONTENT if "name" in value else frozenset[str]()
        return {
            name: each if name in content else _numbered(each, seen, name in _LABELS) for name, each in _ordered(value)
        }
    return value


def _ordered(value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    # Sorted, as ids are numbered in the order in which they are met, and that of a JSON object means nothing.
    return iter(sorted(value.items()))


def _differences(place: str, recorded: Any, now: Any) -> Iterator[Difference]:
    if isinstance(recorded, dict) and isinstance(now, dict):
        for name in sorted({*recorded, *now}):
            yield from _differences(
                f"{place}.{name}" if place else name, recorded.get(name, ABSENT), now.get(name, ABSENT)
            )
    elif isinstance(recorded, list) and isinstance(now, list):
        for at in range(max(len(recorded), len(now))):
            yield from _differences(
                f"{place}[{at}]",
                recorded[at] if at < len(recorded) else ABSENT,
                now[at] if at < len(now) else ABSENT,
            )
    # True equals 1 in Python, and JSON has both.
    elif recorded != now or type(recorded) is not type(now):
        yield Difference(place, recorded, now)


def _short(value: Any) -> str:
    text = repr(value) if isinstance(value, _Absent) else encode_json(value).decode()
    return text if len(text) <= _LONG else text[: _LONG - 1] + "…"


def _local(netloc: str) -> bool:
    return is_loopback(urlsplit(f"//{netloc}").hostname or "")
