"""The field guide: every citation opens, every rule of a double has its page, every page can be read in one go."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from midstream.sim.rules import HOSTS
from midstream.sim.rules.hosts import NO_TOOLS
from tests.markdown import anchors, links

ROOT = Path(__file__).resolve().parents[1]
GUIDE = ROOT / "docs" / "field-guide"
PAGES = sorted(GUIDE.glob("*.md"))
CITED = ("src/**/*.py", "tests/**/*.py", "tests/data/**/*.json", "tests/data/**/*.toml", "benchmarks/**/*.py")
# A citation may be broken over two lines of a comment or docstring.
CITATION = re.compile(r"field-guide/\s*(?:# )?([\w-]+\.md)(?:#([\w-]+))?")
RULES = {rule.guide: rule for host in HOSTS.values() for rule in host.rules} | {NO_TOOLS.guide: NO_TOOLS}


def citations() -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    for pattern in CITED:
        for path in sorted(ROOT.glob(pattern)):
            if path == Path(__file__):
                continue
            text = path.read_text("utf-8")
            found += [(str(path.relative_to(ROOT)), page, anchor or "") for page, anchor in CITATION.findall(text)]
    return found


def opens(page: str, anchor: str) -> bool:
    path = GUIDE / page
    return path.is_file() and (not anchor or anchor in anchors(path.read_text("utf-8")))


def test_every_citation_opens() -> None:
    cited = citations()
    assert len(cited) > 60
    broken = [f"{where}: {page}#{anchor}" for where, page, anchor in cited if not opens(page, anchor)]
    assert not broken, broken


def test_nothing_is_cited_that_the_repository_lacks() -> None:
    outside = [
        f"{path.relative_to(ROOT)}: {words}"
        for pattern in (*CITED, "docs/**/*.md", "*.md")
        for path in ROOT.glob(pattern)
        if path != Path(__file__) and "node_modules" not in path.parts
        for words in re.findall(r"\bfacts/[\w.-]+", path.read_text("utf-8"))
    ]
    assert not outside, outside


@pytest.mark.parametrize("guide", RULES)
def test_every_rule_of_a_double_has_its_page(guide: str) -> None:
    page, _, anchor = guide.partition("#")
    assert anchor and opens(page, anchor), RULES[guide].name


def test_no_rule_is_without_a_page() -> None:
    assert all(rule.guide for host in HOSTS.values() for rule in host.rules) and NO_TOOLS.guide


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_can_be_read_in_one_go(page: Path) -> None:
    text = page.read_text("utf-8")
    assert len(text.split()) < 1500
    if page.stem not in ("index", "why-400"):
        assert "index.md#how-to-read-it" in text, "says how its marks are read"
        assert "**D**" in text or "**O**" in text, "marks what it says"


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem != "index"], ids=lambda page: page.stem)
def test_the_index_leads_to_every_page(page: Path) -> None:
    assert f"]({page.name})" in (GUIDE / "index.md").read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_of_the_guide_opens(page: Path) -> None:
    for target in links(page.read_text("utf-8")):
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.is_file(), target
        assert not anchor or anchor in anchors(file.read_text("utf-8")), target
