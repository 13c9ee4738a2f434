"""The keys of one request, removed from every error message in which the peer echoes them.

A peer may repeat a key in an error's body, its headers, or after a good status in the stream itself. Only errors are
scrubbed: what a model says is passed on as it came. A key is found in any case, with blanks or signs between its characters, in
base64, base32, hex and numbers, and behind the escapes of JSON, URLs, HTML and mail, however often they were applied. A message
may be cut, so any long part of a key is taken out too.
"""

from __future__ import annotations

import base64
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias, TypeVar

from msgspec.structs import replace

from ..core.errors import MidstreamError, ProviderError
from ..core.events import ErrorEvent, ErrorInfo
from ..core.patterns import late_pattern
from ..core.secret import VEIL, Secret, SecretHeaders

# A shorter secret cannot be taken out: its letters are part of ordinary words, and the message would be unreadable.
_SHORTEST = 6
_TELLING = 12  # this many characters of a key in a row give too much away
_SCHEMES = ("bearer", "digest", "basic")
# One character, however it is written: \u002d \u{2d} \U0000002d \x2d \055 \/ %2d %252d %u002d &#45; &#x2d; &amp;#45; &sol;, or what
# is between characters. A run of backslashes is read once: from its first one (the lookbehind), as a whole (`++`). Otherwise each
# of n would be tried as a beginning, and each beginning with every length: 12 KB of them took a minute.
_WRITTEN = (
    r"(?<!\\)\\++(?:(?:u|U0000)(?P<u>[0-9a-fA-F]{4})|u\{0*(?P<b>[0-9a-fA-F]{1,5})\}|x(?P<x>[0-9a-fA-F]{2})|(?P<o>[01][0-7]{2})"
    r"|(?P<between>[nrt])|(?P<c>[^\w\s\\]))|(?P<blank>[\s\u00ad\u200b-\u200d\u2060\ufeff]+)|%(?:25)*(?:u00)?(?P<p>[0-9a-fA-F]{2})"
    r"|&(?:amp;|#38;|#[xX]26;)*(?P<h>#0*\d{1,6};?|#[xX]0*[0-9a-fA-F]{1,5};?|[A-Za-z]{2,8};)"
)
_MAIL_WRITTEN = _WRITTEN + r"|=(?P<q>[0-9a-fA-F]{2})"  # =2D, as mail writes it

_LEADING_ZEROS = late_pattern(r"^(#[xX]?)0+(?=[0-9a-fA-F])")

E = TypeVar("E", bound=MidstreamError)
Reading: TypeAlias = tuple[str, list[tuple[int, int]]]
"""The characters meant, and where each is in the text."""


class Secrets:
    """Each header's value and each word of it (the key behind `Bearer`)."""

    __slots__ = ("_forms", "_headers")

    def __init__(self, auth_headers: Mapping[str, str | Secret] | None = None) -> None:
        # Names stay readable, values do not: only the headers that authenticate are handed in here.
        self._headers = SecretHeaders(auth_headers)
        self._forms: _Forms | None = None  # made for the first error: most requests have none

    def __repr__(self) -> str:
        return f"<secrets of {len(self._headers)} headers>"

    def scrub(self, data: bytes) -> bytes:
        return self.scrub_text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def scrub_text(self, text: str) -> str:
        if self._forms is None:
            self._forms = _Forms(self._headers)
        # Two passes. The first reads the text as a decoder would and finds keys in their writing; the
        # second looks at letters and digits alone, for keys that were spelt out or put into a list.
        text = _veiled(text, _read(text), self._forms.found)
        return _veiled(text, _letters(text), self._forms.found_letters)

    def cover(self, text: str) -> str:
        """The same text with as many bytes: a star for each byte of a secret, so that what was cut at places is cut there again."""
        if self._forms is None:
            self._forms = _Forms(self._headers)
        text = _veiled(text, _read(text), self._forms.found, _stars)
        return _veiled(text, _letters(text), self._forms.found_letters, _stars)

    def spellings(self) -> frozenset[str]:
        """Every way of writing a secret that is looked for, as its letters and digits alone; for a search that only has to be quick."""
        if self._forms is None:
            self._forms = _Forms(self._headers)
        return self._forms.spellings

    def scrub_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {name: self.scrub_text(value) for name, value in headers.items()}

    def scrub_event(self, event: ErrorEvent) -> ErrorEvent:
        return replace(event, error=self._info(event.error))

    def scrub_error(self, error: E) -> E:
        """The same error without secrets, and without the frames and causes that may hold one."""
        # `args` is what str() and pickle show; the attributes are
        # what callers print. Both were made from the peer's body.
        error.args = tuple([self.scrub_text(part) if isinstance(part, str) else part for part in error.args])
        if isinstance(error, ProviderError):
            error.message = self.scrub_text(error.message)
            error.code, error.type = self._field(error.code), self._field(error.type)
            error.request_id = self._field(error.request_id)
        error.__cause__ = error.__context__ = error.__traceback__ = None
        return error

    def _info(self, info: ErrorInfo) -> ErrorInfo:
        return replace(
            info,
            message=self.scrub_text(info.message),
            code=self._field(info.code),
            type=self._field(info.type),
            request_id=self._field(info.request_id),
            attempts=tuple([self._info(each) for each in info.attempts]),
        )

    def _field(self, value: str | None) -> str | None:
        return None if value is None else self.scrub_text(value)


class _Forms:
    """What to look for: parts of so many characters, and words that count only whole (short ones, and those with blanks).

    Long ones are also looked for by their letters and digits alone, whatever is between them: `s-k-c`, `["s", "k"]`, `73:6b`.
    """

    __slots__ = ("_letters", "_parts", "_whole", "spellings")

    def __init__(self, headers: SecretHeaders) -> None:
        values = [value.reveal() for value in headers.values()]
        # The scheme's name alone is no secret, and "bearer" stands in many honest error messages.
        words = {part for value in values for part in (value, *value.split()) if part.lower() not in _SCHEMES}
        words = {word for word in words if len(_bare(word)) >= _SHORTEST}
        # `Bearer sk-…` as a whole counts only whole: parts of it would match "bearer" and the start of any key.
        single = {word for word in words if not any(character.isspace() for character in word)}
        forms = {form for word in single for form in (_bare(word), *_codes(word))}
        self._whole = [_bare(word) for word in words if word not in single or len(word) < _TELLING]
        self._parts = _parts(forms)
        letters = {_letters(form)[0] for word in single for form in (word, *_codes(word))}
        self._letters = _parts(letters)
        self.spellings = frozenset({*letters, *[_letters(word)[0] for word in words]})

    def found(self, bare: str) -> Iterator[tuple[int, int]]:
        """Where secrets begin and end, in order; those that touch are joined."""
        return self._joined(bare, self._size_at)

    def found_letters(self, bare: str) -> Iterator[tuple[int, int]]:
        return self._joined(bare, lambda text, at: _TELLING if text[at : at + _TELLING] in self._letters else 0)

    def _joined(self, bare: str, size_at: Callable[[str, int], int]) -> Iterator[tuple[int, int]]:
        start = end = -1
        for at in range(len(bare)):
            size = size_at(bare, at)
            if size and at > end:
                if end >= 0:
                    yield start, end
                start = at
            if size:
                end = max(end, at + size)
        if end >= 0:
            yield start, end

    def _size_at(self, bare: str, at: int) -> int:
        if bare[at : at + _TELLING] in self._parts:
            return _TELLING
        return max([len(word) for word in self._whole if bare.startswith(word, at)], default=0)


def _parts(forms: Iterable[str]) -> set[str]:
    return {form[at : at + _TELLING] for form in forms for at in range(len(form) - _TELLING + 1)}


def _veiled(
    text: str,
    read: Reading,
    found: Callable[[str], Iterator[tuple[int, int]]],
    veil: Callable[[str], str] = lambda _: VEIL,
) -> str:
    bare, places = read
    pieces, done = list[str](), 0
    for at, end in found(bare):
        start, stop = places[at][0], places[end - 1][1]
        pieces += [text[done:start], veil(text[start:stop])]
        done = stop
    return "".join([*pieces, text[done:]])


def _stars(secret: str) -> str:
    return "*" * len(secret.encode("utf-8", "surrogateescape"))


def _letters(text: str) -> Reading:
    """Only the letters and digits."""
    bare, places = _read(text, _MAIL_WRITTEN)
    kept = [at for at, character in enumerate(bare) if character.isalnum()]
    return "".join([bare[at] for at in kept]), [places[at] for at in kept]


def _read(text: str, written: str = _WRITTEN) -> Reading:
    """The characters meant, in lower case and without blanks, and where each is in the text."""
    characters: list[str] = []
    places: list[tuple[int, int]] = []
    at = 0
    for match in re.finditer(written, text):
        for plain in range(at, match.start()):
            characters.append(_small(text[plain]))
            places.append((plain, plain + 1))
        at = match.end()
        if match["between"] is None and match["blank"] is None:
            characters.append(_small(_meant(match)))
            places.append(match.span())
    for plain in range(at, len(text)):
        characters.append(_small(text[plain]))
        places.append((plain, plain + 1))
    return "".join(characters), places


def _meant(match: re.Match[str]) -> str:
    groups = match.groupdict()
    code = match["u"] or match["b"] or match["x"] or match["p"] or groups.get("q")
    if code:
        return chr(int(code, 16))
    if match["o"]:
        return chr(int(match["o"], 8))
    if match["c"]:
        return match["c"]
    import html  # its table of names is large, and most errors hold none of them

    # Without the zeros before a number: `int` refuses more than 4,300 digits, and an error has room for them.
    meant = html.unescape("&" + _LEADING_ZEROS.sub(r"\1", match["h"]))
    # An unknown name, or one that means two characters, cannot
    # be part of a key; NUL matches nothing and keeps the place.
    return meant if len(meant) == 1 else "\0"


def _small(character: str) -> str:
    small = (character if character.isascii() else unicodedata.normalize("NFKC", character)).lower()
    return small if len(small) == 1 else character


def _bare(word: str) -> str:
    return "".join([_small(character) for character in word if not character.isspace()])


def _codes(word: str) -> Iterator[str]:
    """The word in hex and as numbers, and in base64 (also twice) and base32 wherever in the coded text it may begin, as far as
    that depends on it alone."""
    data = word.encode("utf-8", "surrogatepass")
    yield data.hex()
    yield "".join([f"0x{byte:02x}" for byte in data])
    yield "".join([str(byte) for byte in data])
    # Twice: a peer may encode a text in which the key already stands in base64, as in a Basic header.
    for coded in (data, base64.b64encode(data)):
        for sure in _within(coded, base64.b64encode, 6):
            yield sure
            yield sure.replace("+", "-").replace("/", "_")
    yield from _within(data, base64.b32encode, 5)


def _within(data: bytes, encode: Callable[[bytes], bytes], bits: int) -> Iterator[str]:
    # Where a key begins within a coded text decides which characters it becomes. There are as many ways as bytes
    # until the groups of bits line up again; characters at either end that share bits with a neighbour are left out.
    for before in range(8 * bits // math.gcd(8, bits) // 8):
        coded = encode(b"\0" * before + data).decode().rstrip("=").lower()
        yield coded[(before * 8 + bits - 1) // bits : (before + len(data)) * 8 // bits]
