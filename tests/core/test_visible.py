from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.core.visible import terminal_safe, visible

ANY_TEXT = st.text(st.characters(codec=None))

SHOWN = {
    "plain text stays": ("plain text stays", "plain text stays"),
    "newline and tab stay": ("a\n\tb", "a\n\tb"),
    "escape": ("\x1b[31mred", "␛[31mred"),
    "carriage return": ("rm -rf /\rls       ", "rm -rf /␍ls       "),
    "bell": ("\x07", "␇"),
    "nul": ("\x00", "␀"),
    "delete": ("\x7f", "␡"),
    "C1 control sequence introducer": ("\x9b31m", "\\u{9b}31m"),
    "bidirectional override": ("a\u202eb\u202c", "a\\u{202e}b\\u{202c}"),
    "isolate": ("\u2066x\u2069", "\\u{2066}x\\u{2069}"),
    "zero width": ("git\u200b status\ufeff", "git\\u{200b} status\\u{feff}"),
    "tag characters": ("\U000e0041", "\\u{e0041}"),
    "lone surrogate": ("\ud800", "\\u{d800}"),
    "line separator": ("a\u2028b", "a\\u{2028}b"),
    "soft hyphen": ("a\u00adb", "a\\u{ad}b"),
}

# Format characters that do draw something: signs that stand before a number or a name.
DRAWN = {*range(0x600, 0x606), 0x6DD, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}


@pytest.mark.parametrize("case", SHOWN)
def test_hidden_characters_are_written_out(case: str) -> None:
    text, shown = SHOWN[case]
    assert visible(text) == shown


def test_every_control_format_and_surrogate_character_is_written_out() -> None:
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp") and code not in DRAWN | {9, 10}:
            assert visible(chr(code)) != chr(code), hex(code)


def test_prose_keeps_joiners_and_emoji_but_nothing_that_steers() -> None:
    family = "👩\u200d👧 ☺\ufe0f می\u200cخواهم"
    assert terminal_safe(family) == family
    assert terminal_safe("\x1b]0;title\x07\u202e") == "␛]0;title␇\\u{202e}"


@given(ANY_TEXT)
def test_what_is_visible_is_stable_and_can_be_written(text: str) -> None:
    shown = visible(text)
    assert visible(shown) == shown
    assert terminal_safe(shown) == shown
    shown.encode()
    assert not any(c for c in shown if unicodedata.category(c) == "Cc" and c not in "\n\t")
    assert shown.count("\n") == text.count("\n")
