"""Whether bytes may hold a secret, asked of every recording before it is written.

`Secrets` reads a text character by character, which costs a thousand times what an answer may. This search is for what is nearly
always so, that there is none: letters and digits alone, eight of them at every fourth place, or at every thirty-second if no
spelling is so short that it could stand between, against the eight-character parts of every spelling in one set. It finds each
spelling, and in a short text any part of one with eleven characters; what it finds is then looked at with care.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache
from struct import Struct
from urllib.parse import unquote_to_bytes

from ..core.patterns import late_pattern
from ..transport.secrets import Secrets

_LOWER = bytes(range(256)).lower()
_NOT_LETTERS = bytes(byte for byte in range(256) if not (byte < 128 and chr(byte).isalnum()))
_BRACE = b"{"
_LONG = 32 * 1024
_END = 4 * 1024
_SAMPLE = 8 * 1024
_WIDTH = 8
# Every so many characters eight are looked up; of a text that is not long, more often.
_FINE = 4
_COARSEST = 32
_AT_ONCE = 64
"""So many are cut out by one call: a call for each would cost more than looking it up."""
_FEW = 256

# The escapes that `transport/secrets.py` reads, as far as they write letters, or what is not seen between them: of four digits only
# those that begin so, for others are most of an answer in Chinese. `\\"` needs none: its marks fall out with the rest.
_ESCAPES = late_pattern(
    rb"\\(?:(?:u|U0000)(?P<u>(?:00|20|[fF][eEfF])[0-9a-fA-F]{2})|u\{0*(?P<b>[0-9a-fA-F]{1,5})\}|x(?P<x>[0-9a-fA-F]{2})|(?P<o>[01][0-7]{2}))"
)
_GAPS = (b"\\n", b"\\r", b"\\t")
# What follows on a backslash in these, and in those that write letters.
_GAP_KINDS = frozenset((b"n", b"r", b"t"))
_OTHER_KINDS = _GAP_KINDS - {b"n"}
_LETTER_KINDS = frozenset((b"u", b"U", b"x", b"0", b"1"))
_MARKUP = late_pattern(rb"&(?:amp;|#38;|#[xX]26;)*#(?:0*(?P<d>\d{2,3})|[xX]0*(?P<h>[2-7][0-9a-fA-F]));?")
_PERCENT = late_pattern(rb"%(?:25)*(?:u00)?(?=[2-7][0-9a-fA-F])")
_MAIL = late_pattern(rb"=(?=[2-7][0-9a-fA-F])")
_WIDE = b"\xef"  # what full-width letters begin with


class SecretSearch:
    """A quick look for the spellings of known secrets. It may be wrong in one way: to see one where there is none."""

    __slots__ = ("_coarse", "_parts", "_short")

    def __init__(self, secrets: Iterable[Secrets] = ()) -> None:
        self._parts: set[bytes] = set()
        self._short: set[bytes] = set()
        self._coarse = _COARSEST
        for each in secrets:
            self.add(each)

    def add(self, secrets: Secrets) -> None:
        for spelling in secrets.spellings():
            data = spelling.encode("ascii", "ignore")
            if len(data) < _sure(_FINE):
                self._short.add(data)
                continue
            while self._coarse > _FINE and len(data) < _sure(self._coarse):
                self._coarse //= 2
            for at in range(len(data) - _WIDTH + 1):
                self._parts.add(data[at : at + _WIDTH])
        self._short.discard(b"")

    def suspects(self, data: bytes) -> bool:
        """Whether a spelling may be in the data; of a short text, and at both ends of a long one, also a long part of one."""
        if not self._parts and not self._short:
            return False
        if len(data) <= _LONG:
            return self._suspects(data, _FINE)
        # Hosts quote a key in part when they refuse it, in a short body or in the last event of a stream.
        ends = data[:_END] + _BRACE + data[-_END:]
        # No spelling goes over a brace, so it is enough to look at each piece once where most of them are the same.
        text = _BRACE.join(set(data.split(_BRACE))) if _repeats(data) else data
        return self._suspects(ends, _FINE) or self._suspects(text, self._coarse)

    def _suspects(self, text: bytes, step: int) -> bool:
        if self._seen(text, step):
            return True
        # One writing of a letter at a time, and only what has one: most of an answer has none.
        texts = [text]
        if b"\\" in text:
            plain = _unescaped(text)
            if self._seen(plain, step):
                return True
            texts.append(plain)
        return any(
            mark in each and self._seen(read(_with(mark, each)), step) for each in texts for mark, read in _WRITINGS
        )

    def _seen(self, data: bytes, step: int) -> bool:
        letters = data.translate(_LOWER, _NOT_LETTERS)
        if any(word in letters for word in self._short):
            return True
        if len(letters) < _FEW:
            places = range(0, len(letters) - _WIDTH + 1, step)
            return any(letters[at : at + _WIDTH] in self._parts for at in places)
        packed, stride = _windows(step), max(step, _WIDTH)
        for at in range(0, min(_WIDTH, len(letters)), step):
            # Filled up with what is in no spelling.
            padded = letters[at:] + _BRACE * (-(len(letters) - at) % (stride * _AT_ONCE))
            if not all(map(self._parts.isdisjoint, packed.iter_unpack(padded))):
                return True
        return False


@cache
def _windows(step: int) -> Struct:
    """Eight characters and a gap, again and again."""
    return Struct(f"{_WIDTH}s{max(0, step - _WIDTH)}x" * _AT_ONCE)


def _sure(step: int) -> int:
    """Of so many characters in a row, eight stand where they are looked up."""
    return _WIDTH + step - 1


def _repeats(data: bytes) -> bool:
    """Whether most of a stream is the same over and over, between the same braces."""
    middle = len(data) // 2
    sample = data[middle : middle + _SAMPLE]
    return 3 * sum(map(len, set(sample.split(_BRACE)))) < len(sample)


def _with(mark: bytes, text: bytes) -> bytes:
    """What of the text has this in it, between two braces each; most often nothing. No spelling goes over a brace."""
    return b"".join([piece + _BRACE for piece in text.split(_BRACE) if mark in piece])


def _narrowed(data: bytes) -> bytes:
    return unicodedata.normalize("NFKC", data.decode("utf-8", "replace")).encode("utf-8", "replace")


def _unescaped(text: bytes) -> bytes:
    """What of the text has escapes that write letters, or stand between letters, without those; from brace to brace."""
    kinds = {piece[:1] for piece in text.split(b"\\")[1:]}
    if not kinds.isdisjoint(_LETTER_KINDS):
        escaped = _with(b"\\", text)
        # Escapes that have braces of their own were taken apart: such a piece ends where the brace was.
        data = text if b"\\u{" in escaped else escaped
        for gap in _GAPS:
            data = data.replace(gap, b"")
        return _ESCAPES.sub(_character, data)
    if kinds.isdisjoint(_GAP_KINDS):
        return b""
    # Only ends of lines: found by looking for them alone, since most backslashes stand before a quotation mark.
    newline, *others = _GAPS
    for gap in others if kinds & _OTHER_KINDS else ():
        text = text.replace(gap, newline)
    first, *pieces = text.split(newline)
    kept = [first.rpartition(_BRACE)[2]]
    for piece in pieces:
        head, brace, tail = piece.partition(_BRACE)
        kept.append(head)
        if brace:
            kept += [brace, tail.rpartition(_BRACE)[2]]
    return b"".join(kept)


def _character(match: re.Match[bytes]) -> bytes:
    groups = match.groupdict()
    for name, base in (("u", 16), ("b", 16), ("x", 16), ("o", 8), ("d", 10), ("h", 16)):
        if code := groups.get(name):
            return chr(int(code, base)).encode("utf-8", "replace")
    return b""


# What may write a letter in another way, by what it begins with.
_WRITINGS: tuple[tuple[bytes, Callable[[bytes], bytes]], ...] = (
    (b"&", lambda text: _MARKUP.sub(_character, text)),
    (b"%", lambda text: unquote_to_bytes(_PERCENT.sub(b"%", text))),
    (b"=", lambda text: unquote_to_bytes(_MAIL.sub(b"%", text))),
    (_WIDE, _narrowed),
)
