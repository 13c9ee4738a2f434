"""The pages that are made from the code are what the code says, and every page can be found, opened and read in one go."""

from __future__ import annotations

import re
from pathlib import Path

from midstream.cli.main import COMMANDS, main
from tests.long_run import each_kind
from tests.markdown import anchors, links

from .blocks import ROOT, pages
from .reference import _ENVIRONMENT, REFERENCE, made, said_in_the_source

MADE = made()
PAGES = [*pages(), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
LONG = {"CHANGELOG.md"}
"""Nobody reads it from top to bottom."""


@each_kind("name", MADE, lambda name: name.partition("/")[0] if "/" in name else name)
def test_a_page_says_what_the_code_says(name: str) -> None:
    path = REFERENCE / name
    assert path.is_file() and path.read_text("utf-8") == MADE[name].rstrip("\n") + "\n", "run `make docs-pages`"


def test_no_page_of_a_command_is_left_over() -> None:
    there = {path.stem for path in (REFERENCE / "commands").glob("*.md")}
    assert there == {"index", *COMMANDS, *main.commands}


def test_every_variable_of_the_source_is_told() -> None:
    assert said_in_the_source() == set(_ENVIRONMENT)


def _kind(page: Path) -> str:
    """The pages outside the site by themselves, for nothing else reads their links; `make check` follows those of all the others."""
    return page.name if page.parent == ROOT else str(page.parent.relative_to(ROOT))


@each_kind("page", PAGES, _kind, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_can_be_read_in_one_go_and_what_it_points_to_is_there(page: Path) -> None:
    text = page.read_text("utf-8")
    for target in links(text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file.read_text("utf-8")), target
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in re.findall(r"(?:`|^ *(?:\$ )?)make ([a-z][\w-]*)", text, re.M):
        assert re.search(rf"^{target}:", makefile, re.M), f"make {target}"
    if page.name not in LONG:
        assert len(text.split()) < 1500


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2]))
    there = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert {name for name in there if not name.startswith("decisions/0")} <= listed


def test_the_decisions_are_all_listed() -> None:
    listed = (ROOT / "docs" / "decisions" / "index.md").read_text("utf-8")
    assert [path.name for path in (ROOT / "docs" / "decisions").glob("0*.md") if f"]({path.name})" not in listed] == []
