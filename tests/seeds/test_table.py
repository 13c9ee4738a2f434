"""Each statement of the five documents has a verdict; one function runs all checks, and the page of differences says the same."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.seeds import adapter, canonical_ids, kimi_format, reasoning, streaming
from tests.seeds.differences_page import PAGE, differences_page
from tests.seeds.document import Document
from tests.shared_data import ROOT as SHARED

DOCUMENTS: dict[str, Document] = {
    "kimi_format": kimi_format.DOCUMENT,
    "streaming": streaming.DOCUMENT,
    "adapter": adapter.DOCUMENT,
    "canonical_ids": canonical_ids.DOCUMENT,
    "reasoning": reasoning.DOCUMENT,
}
CHECKS: dict[str, Callable[[], None]] = {
    f"{name}.{check}": function for name, document in DOCUMENTS.items() for check, function in document.checks.items()
}


@pytest.mark.parametrize("check", CHECKS)
def test_statements(check: str) -> None:
    CHECKS[check]()


def test_there_are_enough_and_each_document_has_its_share() -> None:
    assert sum(len(document.statements) for document in DOCUMENTS.values()) >= 200
    assert all(len(document.statements) >= 30 for document in DOCUMENTS.values())


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_words_are_the_documents(name: str) -> None:
    document = DOCUMENTS[name]
    found = list((SHARED / "seeds").glob(f"{document.number}_*.txt")) if SHARED.exists() else []
    if not found:
        pytest.skip("the documents are not here: set MIDSTREAM_SHARED")
    text = plain(found[0].read_text("utf-8"))
    missing = [statement.words for statement in document.statements if plain(statement.words) not in text]
    assert not missing


def plain(text: str) -> str:
    """Without markup, boxes and the breaks of lines."""
    return " ".join(re.sub(r"[|│▼↓]", " ", re.sub(r"[`*]", "", text)).split())


def test_the_page_lists_what_differs_and_why() -> None:
    """docs/coming-from/differences.md, a row for each reason: the document's words, ours, and the check."""
    assert PAGE.read_text("utf-8") == differences_page(DOCUMENTS), "run python -m tests.seeds.differences_page"
    reasons = {
        (name, each.check, each.because)
        for name, document in DOCUMENTS.items()
        for each in document.statements
        if each.because
    }
    assert len(reasons) >= 17
