"""Whether the end of the text so far is quoted: a call inside code or a quotation is talked about, not made.

Quoted is what is
- in a code fence of three or more backticks or tildes, with any info string and indentation, also in a list. It ends at a
  line of as many of them or more; a fence with an info string inside it is a fence of its own. One that never ends holds
  everything up to the end of the text (or of the thinking: each has its own fences);
- in inline code, between runs of backticks of the same length, and in `<code>`, `<pre>` and the like;
- on a line of a block quote (`>`), and in `<blockquote>` and `<q>`;
- between quotation marks. A straight mark opens where a word may begin, or right before the call, so an apostrophe or an inch sign
  does not; one that ends a line opens behind a blank, and three open anywhere. Where a
  call in the text is only rescued, a mark holds for the rest of its paragraph; in a format chosen on purpose only if it stands
  right before the call, for there a lost call is as bad as a wrong one.
Inline code, quotation marks and `<code>` that are never closed end with their paragraph. A quoted call brings marks and
backticks of its own, so after one in anything but a fence, nothing is a call before the next blank line, nor before what quotes it has ended.

Text is only gathered as it comes, and read when a marker asks: a stream without markers pays for a list's append. Each
character is read once.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from ..core.patterns import late_pattern

# One mode at a time, and no stack but that of fences: what is quoted inside a quotation is quoted already.
Mode: TypeAlias = Literal["plain", "fence", "span", "mark", "tag", "block"]

# The opening mark -> what closes it. Opening and closing differ from language to language: „German“, »Danish«,
# ”Swedish”. A mark that closes in one language opens in another, so several may close what one opened.
_MARKS = {
    '"': '"', "'": "'", "“": "”", "”": "”", "„": "“”", "‘": "’", "‚": "‘’", "«": "»", "»": "«", "‹": "›", "「": "」", "『": "』",
    "《": "》", "〝": "〞〟", "＂": "＂", "❝": "❞",
}  # fmt: skip
_EITHER = "\"'”»"
"""Marks that open or close, depending on what stands beside them."""
_TRIPLES = {'"""': late_pattern(r'\n|"{3}'), "'''": late_pattern(r"\n|'{3}")}
"""Marks of a text over several lines, in the way of Python."""
_APOSTROPHES = "\"'’"
"""Marks that close nothing inside a word."""
# Behind these a straight mark closes, or is an inch or a foot sign.
_NO_OPENING = ".!?)]}%°"

_TAGS = ("code", "pre", "blockquote", "q", "kbd", "samp", "tt")
_LASTING = ("pre", "blockquote")
"""Tags that hold paragraphs."""
# The beginning of a line: indentation, markers of lists (a fence may stand in an item), and then a fence.
_LINE = late_pattern(
    r"(?:[^\S\n]|[\ufeff\u200b])*+((?:(?:[-*+•◦▪‣–]|(?:\d{1,9}|[a-zA-Z])[.)]|\[[ xX]\])[ \t]++)*+)(`{3,}+|~{3,}+)?+"
)
_PLAIN = late_pattern(
    rf"\n|`++|<({'|'.join(_TAGS)})(?=[\s>])[^<>]{{0,200}}+>|\"{{3}}|'{{3}}|[{''.join(_MARKS)}]", re.IGNORECASE
)
_SPAN = late_pattern(r"\n|`++")
_CLOSING = {closers: late_pattern(rf"\n|[{closers}]") for closers in set(_MARKS.values())}
_TAG_END = {tag: late_pattern(rf"\n|</{tag}\s*+>", re.IGNORECASE) for tag in _TAGS}
_FENCE_LINE = late_pattern(r"^([ \t]*+)(`{3,}+|~{3,}+)([^\n]*+)\n", re.MULTILINE)
# A word behind the backticks makes them open a fence; nothing behind them makes them close one.
_INFO = late_pattern(r"[ \t]*+[\w{.][^`]*+\Z")
_SLACK = 3
"""How much further than its beginning a fence's end may be indented."""


class Quoting:
    """Follows a text. `text` is where the reader of the text appends what it reads."""

    __slots__ = ("_closer", "_fences", "_held", "_holds", "_indent", "_line_start", "_marks", "_maybe_fence", "_mode", "_prev", "_run", "text")  # fmt: skip

    def __init__(self, *, marks: bool) -> None:
        # Two ways of being careful, see the docstring: `marks` is on where calls are only rescued from text.
        self._marks = marks
        self.text: list[str] = []
        self._mode: Mode = "plain"
        self._line_start = True
        self._prev = "\n"
        self._held = False  # something quoted was met since the last blank line
        self._holds = False  # and it stands in what is open now
        self._fences: list[tuple[str, int, int]] = []  # of each open fence: its character, length and indentation
        self._run = 0  # the length of the backticks that opened inline code
        self._maybe_fence = False  # they stand where a fence may begin, and no others followed on the line
        self._indent = 0
        self._closer = _SPAN  # what ends the mark or tag

    def covers(self) -> bool:
        """Whether a call that begins here is quoted."""
        self._read()
        if self._mode == "plain":
            return self._held
        # A quoted call was met here: its own quotes and backticks have
        # upset the count, so nothing is trusted until the next blank line.
        if self._mode != "fence" and not self._is_block_of_code():
            self._held = self._holds = True
        return True

    def in_code(self) -> bool:
        """Whether this place is in a fence or inline code."""
        self._read()
        return self._mode in ("fence", "span", "tag")

    def at_line_start(self) -> bool:
        """Whether nothing but white space stands before this place on its line."""
        self._read()
        return self._line_start

    def called(self) -> None:
        """A call stands here: what follows it begins a line."""
        self._read()
        self._line_start = True
        self._prev = "\n"

    def _read(self) -> None:
        if not self.text:
            return
        # Joined and read in one go, when somebody asks: a stream that never asks only appends.
        text = "".join(self.text)
        self.text.clear()
        pos = 0
        while pos < len(text):
            if self._mode == "fence":
                pos = self._in_fence(text, pos)
            elif self._line_start:
                pos = self._begin_line(text, pos)
            else:
                pos = self._in_line(text, pos)
        if text:
            self._prev = text[-1]

    def _begin_line(self, text: str, pos: int) -> int:
        match = _LINE.match(text, pos)
        assert match
        end = match.end()
        fence = match[2] or ""
        # Cut within the indentation: nothing can be said yet about this line.
        if end == len(text) and not fence:
            return end
        self._line_start = False
        if not fence and text[end] == "\n":
            self._line_start = True
            # An item of a list that is empty so far is not a blank line.
            if not match[1]:
                self._end_paragraph()
            return end + 1
        if not fence and text[end] == ">":
            self._open("block")
            return end + 1
        # Inside a long run of backticks another one closes it: it is read as part of the line.
        if not fence or self._is_block_of_code():
            return match.end(1)
        self._indent = _width(text[pos : match.start(2)])
        if fence[0] == "~":
            self._open_fence("~", len(fence))
        else:
            # Backticks at the start of a line may be inline code as well.
            # A second run on the same line decides, or the line's end.
            self._open("span")
            self._run = len(fence)
            self._maybe_fence = True
        return end

    def _in_line(self, text: str, pos: int) -> int:
        mode = self._mode
        if mode == "plain":
            match = _PLAIN.search(text, pos)
        elif mode == "block":
            end = text.find("\n", pos)
            if end < 0:
                return len(text)
            self._mode = "plain"
            self._line_start = True
            return end + 1
        else:
            match = (_SPAN if mode == "span" else self._closer).search(text, pos)
        if match is None:
            return len(text)
        found = match[0]
        if found == "\n":
            self._line_start = True
            # The line ended without another run: it was a fence.
            if mode == "span" and self._maybe_fence:
                self._open_fence("`", self._run)
                self._line_start = True
        elif mode == "plain":
            self._open_inline(text, match)
        elif mode == "span":
            self._maybe_fence = False
            if len(found) == self._run:
                self._mode = "plain"
        elif mode == "tag" or self._closes(text, match):
            self._mode = "plain"
        return match.end()

    def _open_inline(self, text: str, match: re.Match[str]) -> None:
        found, start = match[0], match.start()
        if found[0] == "`":
            # An escaped backtick is not one.
            run = len(found) - (self._before(text, start) == "\\")
            if run:
                self._open("span")
                self._run = run
                self._maybe_fence = False
        elif found[0] == "<":
            self._open("tag")
            self._closer = _TAG_END[match[1].lower()]
        elif self._opens(text, match):
            self._open("mark")
            self._closer = _TRIPLES.get(found) or _CLOSING[_MARKS[found]]

    def _opens(self, text: str, match: re.Match[str]) -> bool:
        # In a chosen format a mark quotes only what stands right behind it, which is where the text ends.
        if not self._marks and match.end() < len(text):
            return False
        if match[0] not in _EITHER:
            return True
        before = self._before(text, match.start())
        after = text[match.end() : match.end() + 1]
        if not after:  # it stands right before what may be a call
            return not _in_word(before)
        if after in "\r\n":
            # A mark at the end of a line opens only behind a blank; behind a word it closes.
            return before.isspace()
        return not (_in_word(before) or before in _NO_OPENING or after.isspace())

    def _closes(self, text: str, match: re.Match[str]) -> bool:
        after = text[match.end() : match.end() + 1]
        # Inside a word it is an apostrophe: `don't`.
        return match[0] not in _APOSTROPHES or not (_in_word(after) or after == "_")

    def _before(self, text: str, at: int) -> str:
        return text[at - 1] if at else self._prev

    def _open(self, mode: Mode) -> None:
        self._mode = mode
        self._holds = False

    def _open_fence(self, char: str, run: int) -> None:
        self._mode = "fence"
        self._fences.append((char, run, self._indent))
        self._line_start = False

    def _end_paragraph(self) -> None:
        mode = self._mode
        lasting = self._is_block_of_code() or (mode == "tag" and any(self._closer is _TAG_END[tag] for tag in _LASTING))
        # What holds a quoted call lasts beyond its paragraph: the call may have contained the blank line.
        if mode != "plain" and not lasting and not self._holds:
            self._mode = "plain"
        if self._mode == "plain":
            self._held = False

    def _is_block_of_code(self) -> bool:
        """Whether inline code is so long a run of backticks that a fence is meant, though words stand before it."""
        return self._mode == "span" and self._run >= 3

    def _in_fence(self, text: str, pos: int) -> int:
        if not self._line_start:
            end = text.find("\n", pos)
            if end < 0:
                return len(text)
            self._line_start = True
            return end + 1
        match = _FENCE_LINE.search(text, pos)
        if match is None:
            self._line_start = text.endswith("\n")
            return len(text)
        char, run, indent = self._fences[-1]
        if match[2][0] == char and len(match[2]) >= run:
            if not match[3].strip():
                # A line that is indented much deeper than the fence is a line of the code.
                if _width(match[1]) <= indent + _SLACK:
                    self._fences.pop()
                    if not self._fences:
                        self._mode = "plain"
            elif _INFO.match(match[3]):
                self._fences.append((char, len(match[2]), _width(match[1])))
        return match.end()


def _in_word(char: str) -> bool:
    """Whether words of this character's script are set apart by blanks, so that a mark beside it may be an apostrophe."""
    # Scripts from CJK on are written without blanks, so a mark beside a letter is a mark.
    return char.isalnum() and char < "\u2e80"


def _width(indent: str) -> int:
    return len(indent.expandtabs(4))
