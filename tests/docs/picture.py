"""docs/assets/demo.svg: the demo as a terminal shows it. `python -m tests.docs.picture` plays it and draws it anew; nobody draws by hand."""

from __future__ import annotations

import os
import re
from pathlib import Path
from xml.sax.saxutils import escape

from click.testing import CliRunner

from midstream.cli.demo import demo

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "assets" / "demo.svg"
WIDTH = 88
_ADVANCE, _LINE, _MARGIN, _BAR = 8.0, 19, 18, 34
_COLORS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff", "35": "#d2a8ff", "36": "#56d4dd"}
_PLAIN, _DIM, _BACK, _EDGE = "#e6edf3", "#9198a1", "#0d1117", "#30363d"
_SGR = re.compile(r"\x1b\[([\d;]*)m")


def played() -> list[str]:
    """The lines of a run, coloured."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(WIDTH)
    try:
        return CliRunner().invoke(demo, ["--fast", "--color", "always"], color=True).output.splitlines()
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.__setitem__("COLUMNS", before)


def plain(line: str) -> str:
    return _SGR.sub("", line)


def chosen(lines: list[str]) -> list[str]:
    """What fits a picture: the first model and the first switch, then the last switch and the end."""
    words = [plain(line) for line in lines]
    first = next(place for place, line in enumerate(words) if line.startswith("moonshot/"))
    switches = [place for place, line in enumerate(words) if line.startswith("── switch to ")]
    second = words.index("", switches[0])
    last = next(place for place in range(switches[-1], len(words)) if words[place].startswith("  the id of"))
    ended = words.index("", last)
    total = next(place for place, line in enumerate(words) if "requests," in line and "refused" in line)
    return [*lines[first:second], "", "[…]", *lines[last:ended], "", "[…]", lines[total]]


def drawn(lines: list[str]) -> str:
    width, height = int(WIDTH * _ADVANCE + 2 * _MARGIN), len(lines) * _LINE + _BAR + 2 * _MARGIN
    rows = "\n".join([_row(line, _BAR + _MARGIN + _LINE * number) for number, line in enumerate(lines, 1)])
    dots = "".join(
        [
            f'<circle cx="{20 + 20 * n}" cy="17" r="6" fill="{fill}"/>'
            for n, fill in enumerate(("#ff5f57", "#febc2e", "#28c840"))
        ]
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-labelledby="title">
<title id="title">midstream demo: one conversation handed from model to model in the middle of its tool calls</title>
<rect width="{width}" height="{height}" rx="10" fill="{_BACK}" stroke="{_EDGE}"/>{dots}
<text x="{width / 2:g}" y="22" fill="{_DIM}" text-anchor="middle" font-family="monospace" font-size="13">make demo</text>
<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="13.2" xml:space="preserve">
{rows}
</g>
</svg>
"""


def _row(line: str, y: int) -> str:
    spans: list[str] = []
    style: set[str] = set()
    at, column = 0, 0
    for mark in [*_SGR.finditer(line), None]:
        text = line[at : mark.start() if mark else len(line)]
        if text.strip():  # blanks around a text are places, not characters: browsers collapse them
            spans.append(_span(text.strip(), column + len(text) - len(text.lstrip()), style))
        column += len(text)
        if mark is not None:
            codes = {code for code in mark[1].split(";") if code not in ("", "0")}
            style = codes if mark[1] in ("", "0") or not codes else style | codes
            at = mark.end()
    return f'<text y="{y}">{"".join(spans)}</text>'


def _span(text: str, column: int, style: set[str]) -> str:
    fill = next((_COLORS[code] for code in style if code in _COLORS), _DIM if "2" in style else _PLAIN)
    weight = ' font-weight="bold"' if "1" in style else ""
    slant = ' font-style="italic"' if "3" in style else ""
    # The length is said, so that columns stay columns in whatever font the reader has.
    return f'<tspan x="{_MARGIN + column * _ADVANCE:g}" textLength="{len(text) * _ADVANCE:g}" fill="{fill}"{weight}{slant}>{escape(text)}</tspan>'


if __name__ == "__main__":
    PICTURE.write_text(drawn(chosen(played())), "utf-8")
