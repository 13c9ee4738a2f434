"""Hidden characters made visible before text is shown to a person.

Text of a model, a tool or a file may carry terminal escapes, carriage returns that overwrite a line, bidirectional
controls that reorder it and characters of no width that hide in it. `visible` writes every one of them out: the C0 set
and DEL as their control pictures (␛), all others as \\u{…}. Newline and tab stay. `terminal_safe` does the same for what
steers a terminal or reorders a line, and leaves joiners and selectors, which scripts and emoji need in running prose.
`readable` is between the two: it leaves only those, for text that a model is told and nobody has looked through.
All are linear, and give text that can always be encoded as UTF-8.

`revealed` is for what a human is asked to approve: one line, from which the text can be read back exactly. Tabs, line
breaks, blanks at the end and long runs of blanks are written out as well (␠×3000), and so is whatever the terminal's
encoding lacks, and any sign of ours that occurs in the text itself.
"""

from __future__ import annotations

import re
import unicodedata

# Cc: ESC, CR, BEL … and the C1 set, which terminals read as escapes too. Lone surrogates cannot be written to a terminal
# at all; the line and paragraph separators break a line where a log or a prompt does not expect it.
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
# Format characters, fillers and selectors that take no room or look like none (the tag block carries hidden ASCII).
_HIDDEN = (
    "\u00ad\u034f\u070f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U00016fe4\ufffc\U000e0000-\U000e0fff"
)

# Patterns are written out, not compiled: most runs of the program never need them, and `re` remembers those it met.
_UNSEEN = f"[{_CONTROLS}{_BIDI}{_HIDDEN}]"
_STEERING = f"[{_CONTROLS}{_BIDI}]"
# The zero-width joiner and non-joiner spell words in Persian and Indic scripts and glue emoji; the sixteen variation
# selectors choose between a text and an emoji form.
_NEEDED = frozenset("\u200c\u200d" + "".join(map(chr, range(0xFE00, 0xFE10))))


def visible(text: str) -> str:
    """The text with every hidden character written out: for approvals, and wherever a human must see what is there."""
    return re.sub(_UNSEEN, _written_out, text)


def terminal_safe(text: str) -> str:
    """The text with what could steer the terminal or reorder a line written out: for running prose."""
    return re.sub(_STEERING, _written_out, text)


def readable(text: str) -> str:
    """The text with hidden characters written out, except the joiners and selectors that scripts and emoji need: what a
    model reads here, a person can see in an editor."""
    return re.sub(_UNSEEN, lambda match: match[0] if match[0] in _NEEDED else _written_out(match), text)


def _written_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return f"\\u{{{code:x}}}"


_RUNS = r"(?s)(.)\1*"
# The bounds are about a reader, not a machine: a line pushed off the screen by blanks hides what comes behind it.
_BLANKS_INSIDE = 8  # this many blanks in a row are counted, not drawn
_BLANKS_BEFORE = 16  # the same at the beginning of a line, where code is indented
_REPEATED = 4
_SIGNS = "[\u2400-\u2426\u23ce]"
# Marks drawn over the character before them; those of living scripts are left alone where they belong: on a letter that is
# not ASCII, and no more than two of them.
_OVERLAID = "[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f\u2800]"
_MARKS_IN_A_ROW = 2
_NOT_DRAWN = frozenset({"Cc", "Cf", "Cs", "Cn", "Co", "Zs", "Zl", "Zp"})


def revealed(text: str, encoding: str = "utf-8") -> str:
    """The text as one line in which nothing hides and no two texts look the same.

    Signs: ␛ and its like for controls, ␠ for a blank, ␊ for a line break, \\u{…} for anything else that would not be
    drawn, ×n for a run. An encoding that lacks these signs gets \\u{…} throughout, and \\u{20}{n} for a run.
    """
    # All or nothing: a mixture of pictures and escapes in one line would be harder to read than either.
    signs = can_encode("␠␊×", encoding)
    written: list[str] = []
    after_sign = False
    # `base` is the last character that is not a mark, `marks` how many have been stacked on it.
    base, marks = "", 0
    for match in re.finditer(_RUNS, text):
        char, count = match[1], len(match[0])
        if not char.isascii() and unicodedata.category(char) in ("Mn", "Me"):
            marks += count
        else:
            base, marks = char, 0
        if (marks and (base.isascii() or not base.isalpha() or marks > _MARKS_IN_A_ROW)) or _is_hidden(
            char, match.start(), match.end(), len(text), encoding
        ):
            one = _sign(char) if signs else f"\\u{{{ord(char):x}}}"
            written.append(_run(one, count, signs, follower=text[match.end() : match.end() + 1]))
            after_sign = True
            base = base if marks else ""  # a mark may not be drawn over our sign
            continue
        # Our own sign for a run, right behind a sign, would be read
        # as one. Written out, so that no two texts look the same.
        if after_sign and char == ("×" if signs else "{"):
            written.append(f"\\u{{{ord(char):x}}}" * count)
            continue
        # A text that contains `\u{…}` itself must not look like one of our escapes. Only the last backslash matters.
        if char == "\\" and text.startswith("u{", match.end()):
            written.append("\\" * (count - 1) + "\\u{5c}")
        else:
            written.append(match[0])
        after_sign = False
    return "".join(written)


def folded_breaks(count: int, encoding: str = "utf-8") -> str:
    """So many line breaks with nothing between them, as `revealed` writes a run."""
    return f"⏎×{count}" if can_encode("⏎×", encoding) else f"\\u{{a}}{{{count}}}"


def can_encode(text: str, encoding: str) -> bool:
    try:
        # Not checked by a list of encodings: which characters one lacks is known to the codec alone.
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _is_hidden(char: str, start: int, end: int, length: int, encoding: str) -> bool:
    if char == " ":
        # Blanks at the end cannot be seen at all, so even a single one is shown there.
        return end == length or end - start >= (_BLANKS_INSIDE if start else _BLANKS_BEFORE)
    # The everyday case, before anything is looked up.
    if "!" <= char <= "~":
        return False
    return bool(
        unicodedata.category(char) in _NOT_DRAWN
        or re.match(_UNSEEN, char)
        or re.match(_OVERLAID, char)
        or re.match(_SIGNS, char)
        or not can_encode(char, encoding)
    )


def _sign(char: str) -> str:
    if char <= " ":
        return chr(0x2400 + ord(char))
    return "\u2421" if char == "\x7f" else f"\\u{{{ord(char):x}}}"


def _run(one: str, count: int, signs: bool, follower: str) -> str:
    if count == 1 or (count < _REPEATED and one != "␠"):
        return one * count
    if not signs:
        return f"{one}{{{count}}}"
    # A digit behind the number would be read as a part of it.
    return f"{one}×{count - 1}{one}" if follower.isdigit() else f"{one}×{count}"
