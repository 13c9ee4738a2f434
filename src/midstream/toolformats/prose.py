"""The text and thinking around tool calls, read up to the next marker that may open one.

Think tags are read here, in the same pass, because each side hides from the other: a tag inside a call's arguments is data,
and a call spelled out inside thinking is a thought, except for the formats whose markers are special tokens
(`in_thinking`): there it is a real call and ends the thinking (field-guide/kimi-formats.md#output).
White space alone between calls, or around them, is layout of the format and not reported; beside words it is kept.
In code or in a quotation everything is text, markers included (quoting.py): no call, and in code no think tag either. Only
the end of the thinking counts everywhere.
"""

from __future__ import annotations

from typing import TypeAlias

from .findings import Idle, ProblemFound, TextFound, ThinkingFound
from .quoting import Quoting
from .reader import Markers, Reader, Step, markers

Tags: TypeAlias = tuple[str, str]

# Only these are looked for where a caller does not say. `[THINK]` of Mistral comes as parts of the content instead.
KNOWN_TAGS: tuple[Tags, ...] = (
    ("<think>", "</think>"), ("<thinking>", "</thinking>"), ("<mm:think>", "</mm:think>"), ("◁think▷", "◁/think▷"),
)  # fmt: skip
"""The last pair is Kimi k1.5's and the one before it MiniMax M3's (field-guide/text-calls.md#thinking-tags)."""


class Prose:
    """Reads prose, reports it, and stops at openers. Besides `openers` a format may name:

    - `noise`: left out without a word (end-of-message tokens);
    - `wrappers`: left out where they are not quoted (tags around calls);
    - `stray`: left out and reported (the inner markers of a format, met outside a call);
    - `starts`: openers only where no words came since the beginning or the last call (the bracket of a bare JSON call);
    - `fences`: openers that are themselves a code fence. They must begin a line, and open nothing where calls are only rescued.
    """

    __slots__ = (
        "_blank", "_called", "_closers", "_fences", "_fresh", "_idle", "_in_thinking", "_inside", "_listening", "_noise",
        "_openers", "_outside", "_pairs", "_reader", "_said_thinking", "_starts", "_stray", "_stray_close", "_supposed", "_text_quoting", "_thought_quoting",
        "_wrappers",
    )  # fmt: skip

    def __init__(
        self,
        reader: Reader,
        openers: tuple[str, ...] = (),
        *,
        tags: tuple[Tags, ...] = (),
        starts_inside: bool = False,
        in_thinking: bool = False,
        noise: tuple[str, ...] = (),
        stray: tuple[str, ...] = (),
        starts: tuple[str, ...] = (),
        wrappers: tuple[str, ...] = (),
        fences: tuple[str, ...] = (),
    ) -> None:
        self._reader = reader
        self._fences = fences
        self._wrappers = wrappers
        # Text and thinking are quoted apart: a fence that is left open in thinking does not swallow the answer.
        self._text_quoting = Quoting(marks=reader.rescue)
        self._thought_quoting = Quoting(marks=reader.rescue)
        # A fence that opens calls (`tool_code`) is a format's own. Where calls are only rescued, code is code.
        openers = openers if reader.rescue else (*openers, *fences)
        self._openers = openers
        self._stray = stray
        self._starts = starts
        self._noise = noise
        self._in_thinking = in_thinking
        self._pairs = dict(tags)
        closers = tuple(self._pairs.values())
        self._outside = markers(*openers, *noise, *wrappers, *stray, *self._pairs, *closers)
        # The same list the filter appends to, see `Idle`.
        self._idle = Idle(self._text_quoting.text, self._outside.firsts)
        self._listening = False  # for an opener, in text
        self._fresh = markers(*self._outside.words, *starts) if starts else self._outside
        # Which ends may close the thinking we are in; None outside. If the prompt opened it, any of the known ends may.
        self._closers: tuple[str, ...] | None = closers if starts_inside and tags else None
        self._inside = self._markers_inside(closers)
        self._said_thinking = False
        # Whether only the dialect says that we are inside thinking, and no tag has said so yet.
        self._supposed = self._closers is not None
        # Whether an end of thinking may come without a beginning: the prompt may have opened it unknown to us, or a
        # call inside the thinking has closed it early.
        self._stray_close = True
        # Blanks since the beginning or the last call, as long as nothing else came; None once there were words. A list
        # and not a flag, because they are text if words follow.
        self._blank: list[str] | None = []
        self._called = False

    @property
    def thinking(self) -> bool:
        """Whether the stream is inside thinking."""
        return self._closers is not None

    def call(self) -> None:
        """A call is being reported: blanks before it are layout."""
        self._quoting.called()
        self._blank = []
        self._called = True

    def say(self, text: str) -> None:
        """Report text (or thinking) that turned out to be no call."""
        (self._text if self._closers is None else self._thought)(text)

    # For formats that read text themselves, between the calls of a section.
    def quotes(self, text: str) -> bool:
        """Whether a call after this text, met outside prose, would be quoted by it."""
        quoting = Quoting(marks=self._reader.rescue)
        quoting.text.append(text)
        return quoting.covers()

    @property
    def _quoting(self) -> Quoting:
        return self._text_quoting if self._closers is None else self._thought_quoting

    def opener(self) -> Step[str | None]:
        """Report prose up to the next opener; the opener, or None at the end of the stream."""
        while True:
            if self._closers is None:
                fresh = self._blank is not None
                self._listening = True
                # No fast way while the text is all blanks: the first word has to bring them along.
                self._reader.idle = None if fresh else self._idle
                marker = yield from self._reader.until(self._fresh if fresh else self._outside, self._text)
                self._listening = False
                self._reader.idle = None
            else:
                marker = yield from self._reader.until(self._inside, self._thought)
            if marker is None:
                self._end()
                return None
            if marker in self._noise:
                self._blank = self._blank or []
                continue
            if marker in self._starts:
                # A bracket opens a call only where an answer may begin.
                if self._blank is not None:
                    return marker
                self._text(marker)
                continue
            # Whether it is quoted is asked only when a marker is met; reading it out of the text costs something.
            if marker in self._openers or marker in self._stray or marker in self._wrappers:
                if self._is_quoted(marker):
                    self.say(marker)
                    continue
            elif self._closers is None and self._quoting.in_code():
                self._text(marker)
                continue
            if marker in self._wrappers:
                self._blank = self._blank or []
                continue
            if marker in self._stray:
                self._reader.out.append(ProblemFound("a marker of a tool call without the call", marker))
                continue
            if marker in self._openers:
                # A section of calls inside thinking ends it
                # (field-guide/kimi-formats.md#output). The end tag may still come.
                if self._closers is not None:
                    self._closers = None
                    self._stray_close = True
                return marker
            self._tag(marker)

    def _is_quoted(self, marker: str) -> bool:
        quoting = self._quoting
        return quoting.covers() or (marker in self._fences and not quoting.at_line_start())

    def _tag(self, marker: str) -> None:
        self._supposed = False
        if marker in self._pairs:
            if self._closers is None:
                self._thought_quoting = Quoting(marks=self._reader.rescue)
                self._closers = (self._pairs[marker],)
                self._inside = self._markers_inside(self._closers)
                # An empty piece, so that thinking with nothing in it is thinking all the same: empty is not absent.
                self._thought("")
            # The first tag of an answer that began inside thinking repeats
            # what the prompt said; a later one is a thought about tags.
            elif self._said_thinking:
                self._thought(marker)
        elif self._closers is not None:
            if not self._said_thinking:
                self._thought("")
            self._closers = None
            self._stray_close = False
        elif self._stray_close:
            # The prompt opened the thinking, which the dialect does not say: it was reported as text and cannot be taken back.
            self._stray_close = False
            # After a call inside thinking, its end tag is expected and nothing to report.
            if not self._called:
                self._reader.out.append(
                    ProblemFound("an end of thinking without a beginning: the text before it was thinking", marker)
                )
        else:
            # A second stray end is text about tags.
            self._text(marker)

    def _markers_inside(self, closers: tuple[str, ...]) -> Markers:
        openers = self._openers if self._in_thinking else ()
        return markers(*openers, *self._noise, *self._wrappers, *self._stray, *closers, *self._pairs)

    def _text(self, piece: str) -> None:
        self._text_quoting.text.append(piece)
        if self._blank is not None:
            if piece.isspace():
                self._blank.append(piece)
                return
            piece = "".join(self._blank) + piece
            self._blank = None
            if self._listening:
                self._reader.idle = self._idle
        self._reader.out.append(TextFound(piece))

    def _thought(self, piece: str) -> None:
        self._thought_quoting.text.append(piece)
        self._said_thinking = True
        self._reader.out.append(ThinkingFound(piece))

    def _end(self) -> None:
        # An answer of nothing but blanks is still what the model said; between calls they are layout.
        if self._blank and not self._called:
            self._reader.out.append(TextFound("".join(self._blank)))
        self._blank = None
        self._reader.unclosed = self._supposed and self._closers is not None
