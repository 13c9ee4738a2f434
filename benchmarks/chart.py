"""Bars as SVG text: panels side by side, one row a name, lengths on a logarithmic scale (the figures span three decades)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

_LABEL, _BAR, _FIGURE, _ROW, _TOP, _FOOT = 150, 260, 90, 22, 64, 30
_OURS, _THEIRS, _INK, _FAINT = "#0b7285", "#adb5bd", "#212529", "#868e96"


def bar_chart(title: str, caption: str, panels: Mapping[str, Mapping[str, float]], unit: str, ours: str) -> str:
    """`panels`: heading -> name -> figure. Names that begin with `ours` are coloured."""
    figures = [value for panel in panels.values() for value in panel.values()]
    low = 10 ** math.floor(math.log10(min(figures)))
    span = math.log10(max(figures) / low) or 1.0
    wide = _LABEL + _BAR + _FIGURE
    height = _TOP + _ROW * max(map(len, panels.values())) + _FOOT
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide * len(panels)}" height="{height}" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="{_INK}">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        _text(12, 22, title, size=15, weight="600"),
    ]
    for place, (heading, panel) in enumerate(panels.items()):
        left = place * wide
        out.append(_text(left + _LABEL, 50, heading, weight="600"))
        for row, (name, value) in enumerate(sorted(panel.items(), key=lambda item: item[1])):
            y = _TOP + row * _ROW
            length = max(2.0, math.log10(value / low) / span * _BAR)
            colour = _OURS if name.startswith(ours) else _THEIRS
            out.append(_text(left + _LABEL - 8, y + 12, name, anchor="end"))
            out.append(
                f'<rect x="{left + _LABEL}" y="{y}" width="{length:.1f}" height="{_ROW - 6}" rx="2" fill="{colour}"/>'
            )
            out.append(_text(left + _LABEL + length + 6, y + 12, f"{value:,.1f} {unit}", fill=_FAINT))
    out.append(_text(12, height - 10, caption, size=11, fill=_FAINT))
    return "\n".join([*out, "</svg>", ""])


def _text(
    x: float, y: float, words: str, *, size: int = 12, weight: str = "400", anchor: str = "start", fill: str = _INK
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" '
        f'fill="{fill}">{escape(words)}</text>'
    )
