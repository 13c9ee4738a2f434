"""What cannot be seen, made visible, before it is shown to a human.

Text of a model, a tool or a file may carry terminal escapes, carriage returns that overwrite a line, bidirectional
controls that reorder it and characters of no width that hide in it. `visible` writes every one of them out: the C0 set
and DEL as their control pictures (␛), all others as \\u{…}. Newline and tab stay. `terminal_safe` does the same for what
steers a terminal or reorders a line, and leaves joiners and selectors, which scripts and emoji need in running prose.
Both are linear, and give text that can always be encoded as UTF-8.
"""

from __future__ import annotations

import re

# Cc: ESC, CR, BEL … and the C1 set, which terminals read as escapes too. Lone surrogates cannot be written to a terminal
# at all; the line and paragraph separators break a line where a log or a prompt does not expect it.
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
# Format characters, fillers and selectors that take no room or look like none (the tag block carries hidden ASCII).
_HIDDEN = (
    "\u00ad\u034f\u070f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)

_UNSEEN = re.compile(f"[{_CONTROLS}{_BIDI}{_HIDDEN}]")
_STEERING = re.compile(f"[{_CONTROLS}{_BIDI}]")


def visible(text: str) -> str:
    """The text with every hidden character written out: for approvals, and wherever a human must see what is there."""
    return _UNSEEN.sub(_written_out, text)


def terminal_safe(text: str) -> str:
    """The text with what could steer the terminal or reorder a line written out: for running prose."""
    return _STEERING.sub(_written_out, text)


def _written_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return f"\\u{{{code:x}}}"
