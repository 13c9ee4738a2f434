"""The contrast of every pair of colours that stand on each other, computed from the style sheet: WCAG AA, light and dark."""

from __future__ import annotations

import re

import pytest

from midstream.web.app import static_files

CSS = static_files()["/web/style.css"][0].decode()
SURFACES = ("page", "card", "sunk")
PAIRS = [
    *[(text, surface) for text in ("ink", "quiet", "accent", "good", "bad", "caution", "dropped") for surface in SURFACES],
    *[(text, "card") for text in ("key", "string", "number", "word", "comment")],
    *[(text, "sunk") for text in ("key", "string", "number", "word", "comment", "quiet")],
    *[(text, "differs") for text in ("key", "string", "number", "ink", "quiet")],
    *[(f"t{number}", surface) for number in range(8) for surface in ("card", "page")],
    *[("card", f"t{number}") for number in range(8)],
    ("accent-ink", "accent"), ("accent", "accent-soft"), ("ink", "accent-soft"), ("quiet", "accent-soft"), ("good", "good-soft"),
    ("bad", "bad-soft"), ("caution", "caution-soft"), ("dropped", "dropped-soft"),
]  # fmt: skip


def table(selector: str) -> dict[str, str]:
    start = CSS.index(selector)
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})\b", CSS[start : CSS.index("}", start)]))


THEMES = {
    "light": table(":root {"),
    "dark": table(':root[data-theme="dark"] {'),
    "dark by the system": table(':root:not([data-theme="light"]) {'),
}


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted([luminance(one), luminance(other)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", THEMES)
def test_text_can_be_read(theme: str) -> None:
    colours = THEMES[theme]
    assert len(colours) > 30
    weak = {pair: round(value, 2) for pair in PAIRS if (value := contrast(colours[pair[0]], colours[pair[1]])) < 4.5}
    assert not weak


@pytest.mark.parametrize("theme", THEMES)
def test_an_id_can_be_read_also_while_it_is_lit(theme: str) -> None:
    """An id stands on its own colour, thinned with the card's: by how much, the rules say."""
    colours = THEMES[theme]
    rules = re.findall(
        r"\.pill(?:\.lit)? \{[^}]*background: color-mix\(in srgb, var\(--t\) (\d+)%, var\(--card\)\)", CSS
    )
    assert len(rules) == 2
    weak = {
        (share, number): round(value, 2)
        for share in rules
        for number in range(8)
        if (value := contrast(ink := colours[f"t{number}"], mixed(ink, colours["card"], int(share) / 100))) < 4.5
    }
    assert not weak


def mixed(one: str, other: str, share: float) -> str:
    parts = [(int(one[at : at + 2], 16), int(other[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(here * share + there * (1 - share)):02x}" for here, there in parts)


def test_edges_of_fields_can_be_seen() -> None:
    for colours in THEMES.values():
        assert all(contrast(colours["edge"], colours[surface]) >= 3 for surface in SURFACES)


def test_the_two_tables_of_the_dark_agree() -> None:
    assert THEMES["dark"] == THEMES["dark by the system"]


def test_who_wants_no_motion_gets_none() -> None:
    assert "prefers-reduced-motion: reduce" in CSS
