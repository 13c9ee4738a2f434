"""What the site's hooks make of a table: on a phone its rows are cards, and a cell has to say which column it is from."""

from __future__ import annotations

import runpy

import pytest

from .blocks import ROOT

HOOKS = runpy.run_path(str(ROOT / "scripts" / "docs_hooks.py"))
LONG = "a" * 40


@pytest.mark.parametrize(
    ("html", "shown"),
    [
        ("<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>", "<td>1</td><td>2</td>"),
        (
            '<table><tr><th>a</th><th style="x"><em>b</em> "c"</th><th></th></tr><tr><td>1</td><td>2</td><td>3</td></tr></table>',
            '<td>1</td><td data-column="b &quot;c&quot;">2</td><td>3</td>',
        ),
        (f"<table><tr><td><code>x {LONG}</code></td></tr></table>", f'<code class="long">x {LONG}</code>'),
        ("<table><tr><td><code>short words only, many of them</code></td></tr></table>", "<td><code>short"),
        (f"<p><code>{LONG}</code></p>", f"<p><code>{LONG}</code></p>"),
    ],
)
def test_a_cell_says_which_column_it_is_from(html: str, shown: str) -> None:
    assert shown in HOOKS["on_page_content"](html, None, None, None)
