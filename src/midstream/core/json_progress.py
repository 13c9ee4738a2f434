"""How far the text of one JSON object has come, piece by piece: every character is looked at once.

The automaton knows brackets, strings and what may follow what; it does not spell numbers and words, so it says yes to a few
texts that are not JSON (`{"a":tru}`), and never no to one that is. To be certain, parse what it calls closed.
"""

from __future__ import annotations

import msgspec

from .patterns import late_pattern

# One token is a run of blanks, one structural character, or a run of anything else: a number, a word, or garbage.
# Strings are not tokens, because one may be megabytes long and cut anywhere.
_TOKEN = late_pattern(r'[ \t\r\n]+|["{}\[\]:,]|[^ \t\r\n"{}\[\]:,]+')
_IN_STRING = late_pattern(r'["\\]')

# What may come next. KEY and FIRST may also close their bracket, NEXT closes or goes on, WORD is NEXT within a number or word.
_START, _KEY, _AFTER_COMMA, _COLON, _VALUE, _FIRST, _NEXT, _WORD, _CLOSED = range(9)
_OUTSIDE, _IN_KEY, _IN_VALUE = range(3)
# States are kept in sets (`midstream.wires.tool_deltas`), so their size has to be bounded.
_MAX_DEPTH = 64

State = tuple[str, int, int, bool]
"""The open brackets, what may come next, which string it is in, and whether after a backslash."""


_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


# A call is complete if its arguments are an object: that is the question when the next call begins. The inner values
# are left as raw bytes, since nobody asks for them yet.
def object_text(raw: str) -> str | None:
    """`raw` if it is the text of one JSON object, else None."""
    try:
        _decode_object(raw)
    # UnicodeEncodeError: the text holds half a character, which no parser takes.
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError, ValueError):
        return None
    return raw


class JsonProgress:
    """Feed it the pieces of a text; `alive` says whether the text may still be one object, `closed` that it has come to its end."""

    __slots__ = ("_escaped", "_next", "_open", "_string", "alive")

    def __init__(self) -> None:
        self.alive = True
        self._open: list[str] = []
        self._next = _START
        self._string = _OUTSIDE
        self._escaped = False

    # `midstream.wires.tool_deltas` asks with it whether a piece without a label could finish an older call.
    @classmethod
    def at(cls, state: State) -> JsonProgress:
        """A copy that continues from a saved state."""
        made = cls()
        brackets, made._next, made._string, made._escaped = state
        made._open = list(brackets)
        return made

    @property
    def state(self) -> State | None:
        """The state, to compare and to continue from; None when it is dead, or nested too deeply."""
        if not self.alive or len(self._open) > _MAX_DEPTH:
            return None
        return "".join(self._open), self._next, self._string, self._escaped

    @property
    def is_blank(self) -> bool:
        return self._next == _START and self.alive

    @property
    def closed(self) -> bool:
        return self._next == _CLOSED and self.alive

    def feed(self, text: str) -> None:
        at, end = 0, len(text)
        while at < end and self.alive:
            if self._string == _OUTSIDE:
                token = _TOKEN.match(text, at)
                assert token is not None  # every character is of one kind
                at = token.end()
                self._token(token[0])
            elif self._escaped:
                self._escaped = False
                at += 1
            else:
                mark = _IN_STRING.search(text, at)
                # No quote and no backslash in the rest of the piece: it is all inside the string.
                if mark is None:
                    return
                at = mark.end()
                if mark[0] == "\\":
                    self._escaped = True
                else:
                    self._next = _COLON if self._string == _IN_KEY else _NEXT
                    self._string = _OUTSIDE

    def _token(self, token: str) -> None:
        may, kind = self._next, token[0]
        if kind in " \t\r\n":
            # A blank ends a word: `1 2` is not one number.
            if may == _WORD:
                self._next = _NEXT
        elif kind == "{" and may in (_START, _VALUE, _FIRST):
            self._open.append("{")
            self._next = _KEY
        # Arguments are always an object. A list, a string or a
        # number at the top can be given up at its first character.
        elif may == _START:
            self.alive = False
        elif kind == '"' and may in (_KEY, _AFTER_COMMA):
            self._string = _IN_KEY
        elif kind == '"' and may in (_VALUE, _FIRST):
            self._string = _IN_VALUE
        elif kind == "[" and may in (_VALUE, _FIRST):
            self._open.append("[")
            self._next = _FIRST
        elif kind == ":" and may == _COLON:
            self._next = _VALUE
        # After a comma an object wants another key and may not close, which is why `_AFTER_COMMA` is not `_KEY`.
        elif kind == "," and may in (_NEXT, _WORD):
            self._next = _AFTER_COMMA if self._open[-1] == "{" else _VALUE
        elif (kind == "}" and may in (_KEY, _NEXT, _WORD) and self._open[-1] == "{") or (
            kind == "]" and may in (_FIRST, _NEXT, _WORD) and self._open[-1] == "["
        ):
            self._open.pop()
            self._next = _NEXT if self._open else _CLOSED
        elif kind not in '"{}[]:,' and may in (_VALUE, _FIRST, _WORD):
            self._next = _WORD
        else:
            self.alive = False
