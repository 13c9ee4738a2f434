"""What the site needs beyond docs/: the pages that stand at the root of the repository, and links that lead to them.

On a code host a link such as `../CONTRIBUTING.md` opens the file. On the site the same file is a page below `project/`, so links
are turned here; everything else that leads out of docs/ is an error, because the site could not open it.
"""

from __future__ import annotations

import posixpath
import re
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
_LINK = re.compile(r"(\[(?:[^\]\[]|\[[^\]]*\])*\])\(([^)\s]+)\)")


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for name, page in PAGES.items():
        if files.get_file_from_path(page) is None and (ROOT / name).is_file():
            files.append(File.generated(config, page, content=_moved((ROOT / name).read_text("utf-8"), page)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    here = posixpath.dirname(page.file.src_uri)
    return _LINK.sub(lambda link: _turned(link, here), markdown)


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    return _TABLE.sub(lambda table: _labelled(table[0]), html)


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
