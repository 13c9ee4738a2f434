"""What the site's hooks make of a page: tables that a phone can show, diagrams, and no request to another host."""

from __future__ import annotations

import re
import runpy
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from midstream.core.lifecycle import TRANSITIONS, diagram

from .blocks import ROOT

HOOKS = runpy.run_path(str(ROOT / "scripts" / "docs_hooks.py"))
LONG = "a" * 40


def page(path: str = "lifecycle.md") -> SimpleNamespace:
    return SimpleNamespace(file=SimpleNamespace(src_uri=path), meta={})


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


def test_a_diagram_is_drawn_with_every_state_and_event() -> None:
    html = HOOKS["on_page_markdown"](f"Before\n\n```mermaid\n{diagram()}```\n\nAfter", page(), None, None)
    drawn = re.search(r"<svg.*</svg>", html)
    assert drawn is not None and "```" not in html and html.startswith("Before") and html.endswith("After")
    said = " ".join([text.text or "" for text in ElementTree.fromstring(drawn[0]).iter("text")])
    states = {state for state, _ in TRANSITIONS} | set(TRANSITIONS.values())
    events = {event.__struct_config__.tag for _, event in TRANSITIONS}  # type: ignore[attr-defined]
    assert set(re.findall(r"\w+", said)) == states | events


@pytest.mark.parametrize("text", ["graph TD\n  a --> b\n", "stateDiagram-v2\n  state a {\n  b --> c\n  }\n"])
def test_a_diagram_that_cannot_be_drawn_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="state diagram"):
        HOOKS["on_page_markdown"](f"```mermaid\n{text}```\n", page(), None, None)


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://cdn.example/mermaid.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/css">',
        '<img alt="badge" src="https://badges.example/a.svg">',
        '<pre class="mermaid"><code>graph</code></pre>',
    ],
)
def test_a_page_that_asks_another_host_is_refused(html: str) -> None:
    with pytest.raises(ValueError, match=r"lifecycle\.md: the page would ask another host"):
        HOOKS["on_post_page"](html, page(), None)


def test_a_page_may_link_to_another_host() -> None:
    html = '<link rel="canonical" href="https://midstream.example/"><a href="https://opentelemetry.io/">it</a><img src="a.svg">'
    assert HOOKS["on_post_page"](html, page(), None) == html


def test_the_page_of_errors_is_found_before_the_history_of_the_project() -> None:
    weights = {}
    for name in ("field-guide/why-400.md", "guides/agent.md", "decisions/0001-event-block.md"):
        HOOKS["on_page_markdown"]("Words", here := page(name), None, None)
        weights[name] = here.meta.get("search", {}).get("boost", 1)
    assert sorted(weights, key=weights.get, reverse=True) == list(weights)  # type: ignore[arg-type]
