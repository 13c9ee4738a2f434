from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.core.visible import readable, revealed, terminal_safe, visible

from .read_back import read_back

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


def test_what_a_model_reads_keeps_joiners_and_selectors_and_nothing_else_hidden() -> None:
    kept = "\u200c\u200d" + "".join(map(chr, range(0xFE00, 0xFE10)))
    for code in (*range(0x10000), *range(0xE0000, 0xE1000)):
        char = chr(code)
        assert readable(char) == (char if char in kept else visible(char))
    assert readable("⚠️ نمی‌خواهم 👩‍💻\n\tx") == "⚠️ نمی‌خواهم 👩‍💻\n\tx"


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


REVEALED = {
    "plain text stays": ("git log -n 3  # é 漢", "git log -n 3  # é 漢", "git log -n 3  # \\u{e9} \\u{6f22}"),
    "padding is counted": ("ls" + " " * 3000 + "; rm x", "ls␠×3000; rm x", "ls\\u{20}{3000}; rm x"),
    "a digit behind padding": ("a" + " " * 20 + "5", "a␠×19␠5", "a\\u{20}{20}5"),
    "an indent stays": ("        x", "        x", "        x"),
    "a deep indent is counted": (" " * 30 + "x", "␠×30x", "\\u{20}{30}x"),
    "blanks at the end": ("x  ", "x␠×2", "x\\u{20}\\u{20}"),
    "tabs and line breaks": ("a\tb\nc\r", "a␉b␊c␍", "a\\u{9}b\\u{a}c\\u{d}"),
    "other blanks": ("a\u00a0b\u2003c", "a\\u{a0}b\\u{2003}c", "a\\u{a0}b\\u{2003}c"),
    "marks drawn over a letter": ("a\u0336", "a\\u{336}", "a\\u{336}"),
    "private and unassigned": ("\ue000\u0378", "\\u{e000}\\u{378}", "\\u{e000}\\u{378}"),
    "our own signs in the text": ("␠×5 ⏎", "\\u{2420}\\u{d7}5 \\u{23ce}", "\\u{2420}\\u{d7}5 \\u{23ce}"),
    "an escape in the text": ("\\u{202e}", "\\u{5c}u{202e}", "\\u{5c}u{202e}"),
    "a sign and what counts it": ("\t×3\t{3}", "␉\\u{d7}3␉{3}", "\\u{9}\\u{d7}3\\u{9}\\u{7b}3}"),
}


@pytest.mark.parametrize("case", REVEALED)
def test_what_is_revealed(case: str) -> None:
    text, shown, ascii_shown = REVEALED[case]
    assert revealed(text) == shown
    assert revealed(text, "ascii") == ascii_shown


@given(ANY_TEXT | st.text(st.sampled_from(" 0×{}\\u␠⏎␛\t\n\x1b\u200bae5"), max_size=40), st.booleans())
def test_what_is_revealed_can_be_read_back(text: str, ascii_only: bool) -> None:
    shown = revealed(text, "ascii" if ascii_only else "utf-8")
    assert read_back(shown, ascii_only=ascii_only) == text
    shown.encode("ascii" if ascii_only else "utf-8")
    assert not any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in shown)
    assert not shown.endswith(" ") and " " * 16 not in shown
