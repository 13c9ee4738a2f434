"""Conversations with all that a turn can show: filters, figures, pictures, code, forks; and requests to take along."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from midstream.core.blocks import Conversation, Origin, Text, Turn, human
from midstream.store import SqliteStore
from midstream.store.protocol import Entry
from tests.e2e.web.browser import page_server, screenshot
from tests.e2e.web.conftest import visited, watch
from tests.e2e.web.stores import rich_store
from tests.e2e.web.test_screens import expect

SERVE = ("serve", "--port", "0", "--page", "--log-format", "none")


@pytest.fixture(scope="module")
def rich(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, str, dict[str, str]]]:
    home = tmp_path_factory.mktemp("rich")
    ids = rich_store(home / "own.db")
    with visited(browser, home, home / "own.db") as (context, address):
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        told = watch(page)
        yield page, address, ids
        assert told == []


def test_each_filter_alone_and_the_address_that_it_has(rich: tuple[Any, str, dict[str, str]]) -> None:
    page, address, _ = rich
    picture, small, both = "What is in this picture", "A short question", "Ask both"
    page.goto(address)
    days = None
    for label, choice, titles in (
        ("Any model", "anthropic/claude-sonnet-4-5", [both, small]),
        ("Any model", "moonshot/kimi-k2.5", [both, picture]),
        ("Any provider", "anthropic", [both, small]),
        ("Any cost", "1", [picture]),
        ("Any day", 1, [both]),
        ("Any day", 3, [picture]),
    ):
        select = page.locator(f"select[aria-label='{label}']")
        page.wait_for_selector("select[aria-label='Any day'] option >> nth=3", state="attached")
        days = days or page.locator("select[aria-label='Any day'] option").evaluate_all(
            "nodes => nodes.map((node) => node.value)"
        )
        select.select_option(days[choice] if isinstance(choice, int) else choice)
        # Costs are worked out in the background: until they are there, nothing costs anything.
        expect(page.locator(".row .title")).to_have_text(
            [f"{title}" if title != picture else picture + ", and how do I count its colours?" for title in titles],
            timeout=15_000,
        )
        expect(page.locator("#total")).to_contain_text(f"{len(titles)} of 3 conversations")
        link = page.url
        page.goto("about:blank")
        page.goto(link)
        expect(page.locator(".row .title")).to_have_count(len(titles))
        page.wait_for_selector("select[aria-label='Any day'] option >> nth=3", state="attached")
        assert select.input_value() == (days[choice] if isinstance(choice, int) else choice)
        select.select_option("")
        expect(page.locator(".row .title")).to_have_count(3)


def test_a_common_word_is_found_in_every_conversation(browser: Any, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "own.db")
    for number in range(300):
        origin = Origin("moonshot" if number else "anthropic", "openai-chat", "kimi-k2.5")
        said = (human(f"Number {number}"), Turn("ai", (Text("An answer."),), origin=origin))
        store.add(Entry(Conversation(said), updated=1.76e9 + number))
    store.close()
    with visited(browser, tmp_path, tmp_path / "own.db") as (context, address):
        page = context.new_page()
        page.goto(address)
        page.fill(".search", "answer")
        expect(page.locator("#total")).to_have_text("300 conversations")
        # The oldest: it is not among the newest turns that a quick search gives.
        page.select_option("select[aria-label='Any provider']", "anthropic")
        expect(page.locator("#total")).to_have_text("1 of 300 conversations")
        expect(page.locator(".row .title")).to_have_text(["Number 0"])
        page.fill(".search", "nothing has this")
        expect(page.locator(".empty")).to_have_text("Nothing fits.")


def test_a_turn_has_its_figures_its_picture_and_its_code_in_colours(rich: tuple[Any, str, dict[str, str]]) -> None:
    page, address, ids = rich
    page.goto(f"{address}#/c/{ids['picture']}")
    answer = page.locator("#turn-1")
    for figure in ("moonshot/kimi-k2.5", "1,000,000 → 1,000,000 tokens", "$3.60", "first 120 ms", "2.0 s"):
        expect(answer.locator("header")).to_contain_text(figure)
    image = page.locator("#turn-0 figure img")
    image.scroll_into_view_if_needed()
    expect(image).to_have_js_property("naturalWidth", 24)
    assert answer.locator(".code .tw").all_text_contents() == ["def", "return"]
    assert answer.locator(".code .tc").all_text_contents() == ["# one"]
    # A link is inert: no address is there before somebody asks for it, and then it is shown.
    assert answer.locator("a[href^=http]").count() == 0
    answer.locator("button.link", has_text="the manual").click()
    opened = answer.locator("a.opened")
    expect(opened).to_have_attribute("href", "https://docs.example/colours")
    assert "noopener" in (opened.get_attribute("rel") or "")
    screenshot(page, "conversation-rich")


def test_forks_are_a_tree(rich: tuple[Any, str, dict[str, str]]) -> None:
    page, address, ids = rich
    page.goto(f"{address}#/c/{ids['picture']}")
    page.wait_for_selector("#turn-3")
    assert page.locator(".forks").count() == 0
    page.click("#turn-1 >> text=fork")
    expect(page.locator(".forks strong")).to_have_count(1)
    expect(page.locator("article.turn")).to_have_count(2)
    page.click("#turn-0 >> text=fork")
    expect(page.locator("article.turn")).to_have_count(1)
    rows = page.locator(".forks li")
    expect(rows).to_have_count(3)
    branches = [each.partition("─ ")[0] for each in rows.all_text_contents()]
    assert branches[1:] == ["└", "   └"]
    expect(rows.nth(2)).to_contain_text("1 turn, forked at #0")
    # A second fork of the first: the line goes on to it.
    rows.nth(0).locator("a").click()
    page.click("#turn-2 >> text=fork")
    expect(page.locator(".forks li")).to_have_count(4)
    branches = [each.partition("─ ")[0] for each in page.locator(".forks li").all_text_contents()]
    assert branches[1:] == ["├", "│  └", "└"]
    screenshot(page, "conversation-forks")
    rows.nth(0).locator("a").click()
    expect(page.locator("article.turn")).to_have_count(4)
    # Of the list they are known as forks.
    page.goto(f"{address}#/conversations")
    expect(page.locator(".row .chip.fork")).to_have_count(3)


def test_a_request_can_be_taken_along_as_a_command(rich: tuple[Any, str, dict[str, str]]) -> None:
    page, address, ids = rich
    for model, host, key in (
        ("anthropic/claude-sonnet-4-5", "https://api.anthropic.com/v1/messages", "x-api-key: YOUR_KEY"),
        ("moonshot/kimi-k2.5", "https://api.moonshot.ai/v1/chat/completions", "authorization: Bearer YOUR_KEY"),
        ("gemini/gemini-3-pro-preview", "https://generativelanguage.googleapis.com/", "x-goog-api-key: YOUR_KEY"),
        ("ollama/qwen3:4b", "http://127.0.0.1:11434/api/chat", ""),
    ):
        page.goto("about:blank")
        page.goto(f"{address}#/wires/{ids['both']}/3?left={model}&right=mistral/mistral-large-latest")
        page.wait_for_selector(".cell.heading.left .tools button")
        copy, curl = page.locator(".cell.heading.left .tools button").all()
        curl.click()
        expect(curl).to_have_text("Copied")
        words = shlex.split(page.evaluate("() => navigator.clipboard.readText()"))
        given = [words[at + 1] for at, word in enumerate(words) if word == "-H"]
        assert words[:3] == ["curl", "-X", "POST"] and words[3].startswith(host)
        assert "content-type: application/json" in given
        assert [each for each in given if "YOUR_KEY" in each] == ([key] if key else [])
        assert "Ask both" in json.dumps(json.loads(words[words.index("--data-raw") + 1]))
        # The body alone is what the command sends.
        copy.click()
        expect(copy).to_have_text("Copied")
        assert page.evaluate("() => navigator.clipboard.readText()") == words[words.index("--data-raw") + 1]


def test_live_traffic_has_links_and_can_be_asked_again(browser: Any, tmp_path: Any) -> None:
    with page_server(tmp_path, command=SERVE) as address:
        url = urlsplit(address)
        context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
        page = context.new_page()
        told = watch(page)
        page.goto(address)
        page.click("nav a[data-screen=live]")
        body = json.dumps({"model": "sim/kimi-k2.5", "messages": [{"role": "user", "content": "it's me"}]})
        asked(
            url.netloc,
            "POST",
            "/v1/chat/completions",
            {"content-type": "application/json", "authorization": "Bearer own"},
            body,
        )
        page.click("button.exchange")
        page.click("text=Copy as curl")
        expect(page.locator("button", has_text="Copied")).to_be_visible()
        words = shlex.split(page.evaluate("() => navigator.clipboard.readText()"))
        given = dict(words[at + 1].split(": ", 1) for at, word in enumerate(words) if word == "-H")
        assert given["authorization"] == "Bearer YOUR_KEY" and "own" not in " ".join(words)
        place = urlsplit(words[3])
        again = asked(place.netloc, words[2], place.path, given, words[words.index("--data-raw") + 1])
        assert "it's me" in again
        expect(page.locator("button.exchange")).to_have_count(2)
        # One exchange has an address of its own, and Escape leads back to the list.
        assert page.url.endswith("#/live/1")
        link = page.url
        page.goto("about:blank")
        page.goto(link)
        expect(page.locator(".detail h2")).to_have_text("sim/kimi-k2.5")
        page.keyboard.press("Escape")
        expect(page.locator(".detail")).to_be_hidden()
        assert told == []
        context.close()


def asked(host: str, method: str, path: str, headers: dict[str, str], body: str) -> str:
    connection = HTTPConnection(host, timeout=20)
    connection.request(method, path, body.encode(), headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    assert answer.status == 200, text
    return text
