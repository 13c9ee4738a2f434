"""What the site needs beyond docs/: the pages that stand at the root of the repository, links that lead to them, and diagrams.

On a code host a link such as `../CONTRIBUTING.md` opens the file. On the site the same file is a page below `project/`, so links
are turned here; everything else that leads out of docs/ is an error, because the site could not open it.

A code host draws a block of Mermaid itself. The theme would fetch a program from another host to do so, and show bare text where
that fails; so the one kind of diagram we have is drawn here, and a page that asks another host for anything fails the build.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "SECURITY.md": "project/security.md",
    "README.md": "index.md",
}
# What a page may show of the repository without being able to open it on the site.
_SHOWN = (
    "LICENSE",
    "examples",
    "Dockerfile",
    "compose.yaml",
    "CODE_OF_CONDUCT.md",
    "src",
    "tests",
    "benchmarks",
    "scripts",
)
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_HEADING = re.compile(r"<th[^>]*>(.*?)</th>", re.DOTALL)
_ROW = re.compile(r"<tr>.*?</tr>", re.DOTALL)
_TAG = re.compile(r"<[^>]+>")
_LONG = re.compile(r"<code>(?=(?:[^<]*\s)?[^<\s]{30})")
_DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_ARROW = re.compile(r"(\S+) --> (\S+?)(?:: (.+))?")
_END = "[*]"
# What a browser fetches by itself. The canonical address of a page is a link too, but nobody fetches it.
_FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|link(?![^>]*rel="canonical"))\b[^>]*?(?:src|href)="((?:https?:)?//[^"]+)"""
)
_LINK = re.compile(r"(\[(?:[^\]\[]|\[[^\]]*\])*\])\(([^)\s]+)\)")


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for name, page in PAGES.items():
        if files.get_file_from_path(page) is None and (ROOT / name).is_file():
            files.append(File.generated(config, page, content=_moved((ROOT / name).read_text("utf-8"), page)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    here = posixpath.dirname(page.file.src_uri)
    if (boost := _boost(page.file.src_uri)) != 1:
        page.meta["search"] = {"boost": boost}
    markdown = _DIAGRAM.sub(lambda diagram: _drawn(diagram[1]), markdown)
    return _LINK.sub(lambda link: _turned(link, here), markdown)


def _boost(path: str) -> float:
    """How much a page counts in the search: whoever pastes an error wants the page on errors, nobody the history of the project."""
    if path == "field-guide/why-400.md":
        return 5
    return 0.2 if path.startswith(("decisions/", "project/")) else 1


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    return _TABLE.sub(lambda table: _labelled(table[0]), html)


def on_post_page(output: str, page: Any, config: Any) -> str:
    foreign = _FETCHED.findall(output)
    if foreign or 'class="mermaid"' in output:
        raise ValueError(f"{page.file.src_uri}: the page would ask another host for {foreign or 'Mermaid'}")
    return output


def _drawn(text: str) -> str:
    """A state diagram of Mermaid as a picture in the colours of the page.

    The states stand in columns by their distance from the start. An event that leads from a state to itself is written into its box:
    a loop beside it would only cost room.
    """
    title, *lines = [line.strip() for line in text.strip().splitlines()]
    arrows = [found.groups() for line in lines if (found := _ARROW.fullmatch(line))]
    if title != "stateDiagram-v2" or len(arrows) != len(lines):
        raise ValueError(f"expected a state diagram of plain arrows, which is all the site can draw; got {text!r}")
    events: dict[tuple[str, str], list[str]] = {}
    for before, after, event in arrows:
        events.setdefault((before, after), []).append(event or "")
    columns = _columns(list(events))
    rows = max(map(len, columns))
    x, places = 40, {}
    for column in columns:
        labels = [
            ", ".join(names)
            for arrow, names in events.items()
            if column[0] not in columns[0] and set(arrow) & set(column)
        ]
        x += max([len(label) * 8 + 80 for label in labels], default=0)
        for row, state in enumerate(column):
            places[state] = (x, (row + (rows - len(column)) / 2) * 84 + 20)
        x += _WIDE
    width, height = x + 50, rows * 84 + 16
    said = "; ".join(
        [f"{before} to {after} on {', '.join(names)}" for (before, after), names in events.items() if names[0]]
    )
    parts = [*_edges(events, places), *_boxes(events, places)]
    return (
        f'<div class="diagram"><svg role="img" aria-label="{escape(said)}" viewBox="0 0 {width} {height}" width="{width}">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        f'<path d="M0 0 8 4 0 8z"/></marker></defs>{"".join(parts)}</svg></div>'
    )


def _columns(arrows: list[tuple[str, str]]) -> list[list[str]]:
    """The states by the number of steps that lead to them."""
    columns = [[after for before, after in arrows if before == _END]]
    seen = {_END, *columns[0]}
    while column := list(
        dict.fromkeys([b for state in columns[-1] for a, b in arrows if a == state and b not in seen])
    ):
        seen.update(column)
        columns.append(column)
    return columns


_WIDE, _HIGH = 140, 52


def _boxes(events: dict[tuple[str, str], list[str]], places: dict[str, tuple[float, float]]) -> Iterator[str]:
    for state, (x, y) in places.items():
        yield f'<rect x="{x}" y="{y}" width="{_WIDE}" height="{_HIGH}" rx="8"/>'
        own = events.get((state, state))
        middle = x + _WIDE / 2
        yield f'<text class="state" x="{middle}" y="{y + (22 if own else 31)}">{escape(state)}</text>'
        if own:
            yield f'<text x="{middle}" y="{y + 41}">↻ {escape(", ".join(own))}</text>'
        if (_END, state) in events:
            yield f'<circle cx="{x - 28}" cy="{y + _HIGH / 2}" r="6"/>'
            yield f'<path class="edge" d="M{x - 22} {y + _HIGH / 2}H{x}"/>'
        if (state, _END) in events:
            yield f'<path class="edge" d="M{x + _WIDE} {y + _HIGH / 2}h24"/>'
            yield f'<circle cx="{x + _WIDE + 32}" cy="{y + _HIGH / 2}" r="5"/>'
            yield f'<circle class="ring" cx="{x + _WIDE + 32}" cy="{y + _HIGH / 2}" r="8"/>'


def _edges(events: dict[tuple[str, str], list[str]], places: dict[str, tuple[float, float]]) -> Iterator[str]:
    """Arrows between columns: what leads on enters a box above its middle, what leads back leaves it below."""
    for (before, after), names in events.items():
        if _END in (before, after) or before == after:
            continue
        on = places[before][0] < places[after][0]
        left, right = (before, after) if on else (after, before)
        shift = 0 if (after, before) not in events else -12 if on else 12
        x1, y1 = places[left][0] + _WIDE, places[left][1] + _HIGH / 2 + shift / 2
        x2, y2 = places[right][0], places[right][1] + _HIGH / 2 + shift
        path = f"M{x1} {y1}C{x1 + 50} {y1} {x1 + 10} {y2} {x1 + 60} {y2}H{x2}"
        if not on:
            path = f"M{x2} {y2}H{x1 + 60}C{x1 + 10} {y2} {x1 + 50} {y1} {x1} {y1}"
        yield f'<path class="edge" d="{path}"/>'
        yield f'<text class="event" x="{x2 - 12}" y="{y2 + (15 if shift > 0 else -6)}">{escape(", ".join(names))}</text>'


def _labelled(table: str) -> str:
    """A table whose cells know their headings, if it has more than two columns: on a phone each row is a card, and the headings are
    gone. Code with a word that would push the other columns off the screen may be broken anywhere."""
    table = _LONG.sub('<code class="long">', table)
    headings = [_TAG.sub("", heading).strip().replace('"', "&quot;") for heading in _HEADING.findall(table)]
    if len(headings) < 3:
        return table

    def label(row: re.Match[str]) -> str:
        first, *others = row[0].split("<td")
        cells = zip(headings, others, strict=False)
        return first + "".join(
            f'<td data-column="{heading}"{cell}' if at and heading else f"<td{cell}"
            for at, (heading, cell) in enumerate(cells)
        )

    return _ROW.sub(label, table)


def _moved(text: str, page: str) -> str:
    """A page of the root as one of docs/: its links start from another folder."""

    def turn(link: re.Match[str]) -> str:
        target = link[2]
        if re.match(r"[a-z]+:|#", target):
            return link[0]
        name, mark, anchor = target.partition("#")
        if name in PAGES:
            found = PAGES[name]
        elif name.startswith("docs/"):
            found = name.removeprefix("docs/")
            found = found if posixpath.splitext(found)[1] else posixpath.join(found, "index.md")
        else:
            return link[1][1:-1]  # of the repository, not of the site: the words stay
        return f"{link[1]}({posixpath.relpath(found, posixpath.dirname(page) or '.')}{mark}{anchor})"

    return _LINK.sub(turn, text)


def _turned(link: re.Match[str], here: str) -> str:
    target = link[2]
    if re.match(r"[a-z]+:|#", target):
        return link[0]
    name, mark, anchor = target.partition("#")
    path = posixpath.normpath(posixpath.join("docs", here, name))
    if path.startswith("docs/"):
        return link[0]
    if path in PAGES:
        return f"{link[1]}({posixpath.relpath(PAGES[path], here or '.')}{mark}{anchor})"
    if path.split("/")[0] in _SHOWN:
        return link[1][1:-1]
    return link[0]
