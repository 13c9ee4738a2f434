"""`python -m tests.seeds.differences_page` writes docs/coming-from/differences.md of what the checks say; a test compares."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from tests.seeds.document import Document

PAGE = Path(__file__).parents[2] / "docs" / "coming-from" / "differences.md"
_HEAD = """# Where we differ from the documents, and why

midstream began with five documents by the authors of [llxprt, OpenClaw, Colibri and Alfred](agents.md): they had met the same difficulties
with Kimi and wrote down how they meant to solve them. `tests/seeds/` holds what they say, {statements} statements in their own words and with their own data.
{same} are so here. The others are otherwise on purpose; this table has each reason, with the check that runs it
(`pytest tests/seeds -k NAME`). It is written by `python -m tests.seeds.differences_page`.

| document | it says | here | check |
|---|---|---|---|
"""


def differences_page(documents: dict[str, Document]) -> str:
    statements = [statement for document in documents.values() for statement in document.statements]
    same = sum(not statement.because for statement in statements)
    rows: list[str] = []
    for name, document in documents.items():
        groups: dict[tuple[str, str], list[str]] = defaultdict(list)
        for statement in document.statements:
            if statement.because:
                groups[statement.check, statement.because].append(statement.words)
        for (check, because), words in groups.items():
            said = "<br>".join([f"“{_cell(each)}”" for each in words])
            rows.append(f"| {document.title} | {said} | {_cell(because, code=True)} | `{name}.{check}` |")
    return _HEAD.format(statements=len(statements), same=same) + "\n".join(rows) + "\n"


def _cell(text: str, *, code: bool = False) -> str:
    """Text that a table of Markdown shows as it is."""
    text = text.replace("|", "\\|")
    return text if code else re.sub(r"([*_`\[\]<>])", r"\\\1", text)


if __name__ == "__main__":
    from tests.seeds.test_table import DOCUMENTS

    PAGE.write_text(differences_page(DOCUMENTS), "utf-8")
