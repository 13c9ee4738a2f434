"""What a recording must not hold, taken out before it is written: keys, cookies, user ids, and what you name yourself.

Whatever authenticates a request is a known secret: the values of its headers that carry keys, of its query, and those you name.
Known secrets are taken out wherever they stand, in every writing that `transport/secrets.py` knows. In an answer each byte of one
becomes a star, so the chunks stay as they were cut. What cannot be changed (a compressed body) is not saved.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from msgspec.structs import replace

from ..core.errors import LocalError
from ..core.patterns import late_pattern
from ..core.secret import VEIL, Secret, SecretHeaders, hide_url_secrets, is_secret_header
from ..transport.secrets import Secrets
from .exchange import (
    Chunk,
    Payload,
    RecordedExchange,
    RecordedHead,
    RecordedRequest,
    encode_json,
    plain_headers,
    unpacked,
)
from .secret_search import SecretSearch

# Names of headers whose values say who the caller is. Their names stay, as those of keys do, to show how the request was authorised.
_PERSONAL_NAME = late_pattern(
    r"user(?!-agent)|organi[sz]ation|project|account|tenant|forwarded|real-ip|client-ip|email", re.IGNORECASE
)
# Hop by hop, or different in every request without meaning anything.
_DROPPED = frozenset(
    "accept-encoding connection content-length host keep-alive proxy-connection te trailer transfer-encoding upgrade".split()
)
# Of an answer, the headers that say how to read it, when to ask again and what to quote to the host's support.
_TELLING = late_pattern(
    r"content-type|content-encoding|location|retry-after.*|x-should-retry|.*ratelimit.*|.*request-?id|.*trace-?id|x-midstream-.*"
)
# The careful search takes seconds for so much, and everything else waits for it.
_CAREFUL = 1024 * 1024
_USER_FIELDS = frozenset(("user", "user_id", "safety_identifier", "end_user_id"))
_USER_IDS = late_pattern(rb'"user_id" ?: ?"([^"\\]+)"')


class SecretRemains(LocalError):
    """A recording was not saved: a known secret is in it, where it cannot be taken out."""

    kind = "secret_remains"


class Scrub:
    """`secrets` are values to remove beside the keys that requests are sent with; `patterns` are regular expressions, each match of
    which is removed, or its first group if it has one. `user_ids=False` keeps the ids of users.
    """

    def __init__(
        self,
        *,
        secrets: Iterable[str | Secret] = (),
        patterns: Iterable[str | re.Pattern[str]] = (),
        user_ids: bool = True,
    ) -> None:
        self._named = [Secret(each) for each in secrets]
        self._patterns = [re.compile(each) for each in patterns]
        self._user_ids = user_ids
        self._known: dict[frozenset[Secret], _Known] = {}

    def __repr__(self) -> str:
        return f"<Scrub: {len(self._named)} secrets, {len(self._patterns)} patterns>"

    def known(self, headers: Mapping[str, Secret], url: str) -> _Known:
        """What must not remain of a request with these headers, sent to this address."""
        values = {Secret(value) for _, value in parse_qsl(urlsplit(url).query)}
        values.update(value for name, value in headers.items() if is_secret_header(name))
        values.update(self._named)
        found = self._known.get(key := frozenset(values))
        if found is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            found = self._known[key] = _Known(values)
        return found

    def request(
        self, method: str, url: str, headers: Mapping[str, Secret], body: bytes, known: _Known
    ) -> RecordedRequest:
        """The request without its secrets, in canonical order."""
        shown = {
            name: VEIL if is_secret_header(name) or _PERSONAL_NAME.search(name) else self._text(value.reveal(), known)
            for name, value in sorted(headers.items())
            if name not in _DROPPED
        }
        return RecordedRequest(
            method, self._text(hide_url_secrets(url, VEIL), known), plain_headers(shown), self.payload(body, known)
        )

    def payload(self, body: bytes, known: _Known) -> Payload | None:
        payload = Payload.of(body)
        if payload is None:
            return None
        if payload.json is not None and self._user_ids:
            payload = Payload(json=_without_users(payload.json))
        # As a whole first: a request carries the whole conversation, and most hold nothing to remove.
        if not self._patterns and not known.search.suspects(payload.data):
            return payload
        if payload.json is not None:
            return Payload(json=_mapped(payload.json, lambda text: self._text(text, known)))
        if payload.text is not None:
            return Payload(text=self._text(payload.text, known))
        return payload

    def head(self, head: RecordedHead, known: _Known) -> RecordedHead:
        headers = {
            name: self._text(value, known)
            for name, value in sorted(head.headers.items())
            if _TELLING.fullmatch(name) and not _PERSONAL_NAME.search(name)
        }
        return replace(head, headers=plain_headers(headers))

    def passes(self, head: RecordedHead | None, body: bytes, known: _Known) -> bool:
        """Whether an answer can be kept to the byte: nothing in it has to be taken out."""
        compressed = head is not None and head.headers.get("content-encoding", "identity") != "identity"
        identified = self._user_ids and b'"user_id"' in body
        return not (compressed or identified or self._patterns or known.search.suspects(body))

    def exchange(self, exchange: RecordedExchange, known: _Known) -> RecordedExchange:
        """The exchange without secrets; its request is already without. SecretRemains if that cannot be done."""
        head = None if exchange.head is None else self.head(exchange.head, known)
        error = exchange.error
        if error is not None:
            error = replace(error, message=self._text(error.message, known))
        scrubbed = replace(exchange, head=head, error=error)
        if head is not None and head.headers.get("content-encoding", "identity") != "identity":
            if known.search.suspects(b"".join(unpacked(exchange))):
                raise SecretRemains("not saved: the compressed answer holds a key, and cannot be changed")
        elif (covered := self._covered(scrubbed, known)) is not None:
            scrubbed = replace(scrubbed, chunks=_cut_alike(scrubbed.chunks, covered))
            self._check("the answer", covered, scrubbed.request, known)
        self._check_around(scrubbed, known)
        return scrubbed

    def _covered(self, exchange: RecordedExchange, known: _Known) -> bytes | None:
        """The body with stars for what must not be in it; None if nothing is to be done."""
        body = exchange.body
        identified = self._user_ids and b'"user_id"' in body
        suspected = known.search.suspects(body)
        if not (identified or suspected or self._patterns):
            return None
        if identified:
            body = _USER_IDS.sub(lambda match: _starred(match, 1), body)
        if self._patterns:
            text = body.decode("utf-8", "surrogateescape")
            for pattern in self._patterns:
                text = pattern.sub(_starred_text, text)
            body = text.encode("utf-8", "surrogateescape")
        if suspected:
            if len(body) > _CAREFUL:
                raise SecretRemains(
                    f"not saved: a key may be in the answer, which has more than {_CAREFUL} bytes, too many to search with care"
                )
            body = known.secrets.cover(body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        return body

    def _text(self, text: str, known: _Known) -> str:
        for pattern in self._patterns:
            text = pattern.sub(lambda match: _replaced(match, VEIL), text)
        if known.search.suspects(text.encode("utf-8", "surrogatepass")):
            return known.secrets.scrub_text(text)
        return text

    def _check_around(self, exchange: RecordedExchange, known: _Known) -> None:
        """The last look at what is about to be written beside the answer."""
        request, head = exchange.request, exchange.head
        places = {
            "the request": encode_json([request.method, request.url, request.headers]),
            "the request's body": b"" if request.body is None else request.body.data,
            "the head of the answer": b"" if head is None else encode_json(head.headers),
            "the error": b"" if exchange.error is None else exchange.error.message.encode("utf-8", "replace"),
        }
        for place, data in places.items():
            self._check(place, data, request, known)

    def _check(self, place: str, data: bytes, request: RecordedRequest, known: _Known) -> None:
        # With the careful search where the quick one sees something.
        if known.search.suspects(data) and known.remains(data):
            where = request.url.partition("?")[0]
            raise SecretRemains(f"not saved: a key is still in {place} of {request.method} {where}")


_KEPT = 256
"""So many sets of secrets are remembered: a gateway sees one for each key of its clients."""


class _Known:
    """The secrets of a request: to look for quickly, and to take out with care."""

    __slots__ = ("search", "secrets")

    def __init__(self, values: Iterable[Secret]) -> None:
        self.secrets = Secrets(SecretHeaders({str(number): value for number, value in enumerate(values)}))
        self.search = SecretSearch([self.secrets])

    def remains(self, data: bytes) -> bool:
        return self.secrets.scrub(data) != data


def _without_users(value: Any) -> Any:
    """The JSON with a veil for who the user is. Only where the wires have it: at the top and in its `metadata`."""
    if not isinstance(value, dict):
        return value
    veiled = _veiled_users(value)
    if isinstance(metadata := veiled.get("metadata"), dict):
        veiled["metadata"] = _veiled_users(metadata)
    return veiled


def _veiled_users(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: VEIL if name in _USER_FIELDS and isinstance(each, str) else each for name, each in fields.items()}


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """The JSON with every text and name in it changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_mapped(each, change) for each in value]
    if isinstance(value, dict):
        return {change(name): _mapped(each, change) for name, each in value.items()}
    return value


def _replaced(match: re.Match[str], veil: str) -> str:
    if not match.re.groups:
        return veil
    start, end = match.span(1)
    if start < 0:
        return match[0]
    offset = match.start()
    return match[0][: start - offset] + veil + match[0][end - offset :]


def _starred_text(match: re.Match[str]) -> str:
    secret = match[1] if match.re.groups else match[0]
    return _replaced(match, "*" * len((secret or "").encode("utf-8", "surrogateescape")))


def _starred(match: re.Match[bytes], group: int) -> bytes:
    start, end = match.start(group) - match.start(), match.end(group) - match.start()
    return match[0][:start] + b"*" * (end - start) + match[0][end:]


def _cut_alike(chunks: tuple[Chunk, ...], body: bytes) -> tuple[Chunk, ...]:
    cut, at = list[Chunk](), 0
    for chunk in chunks:
        cut.append(Chunk(chunk.at_us, body[at : at + len(chunk.data)]))
        at += len(chunk.data)
    return tuple(cut)
