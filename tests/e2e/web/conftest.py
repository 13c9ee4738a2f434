"""One browser for all tests of the page, and a loud word where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.web.browser import chromium, missing, page_server


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    why = missing()
    if why:
        pytest.skip(f"the page was not tried in a browser: {why}")
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="session")
def served(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """`midstream web` of a newcomer, with tools, and a browser that has opened its address."""
    home = tmp_path_factory.mktemp("newcomer")
    (home / "plan.md").write_text("Night train to Oslo on Friday.")
    with page_server(home, "--tools") as address:
        context = browser.new_context(viewport={"width": 1440, "height": 900}, accept_downloads=True)
        first = context.new_page()
        first.goto(address)
        first.wait_for_selector(".row")
        first.close()
        yield context, address.partition("#")[0]
        context.close()


@pytest.fixture
def page(served: Any) -> Iterator[Any]:
    """A page in that browser; whatever it reports as an error fails the test."""
    context, address = served
    opened = context.new_page()
    told = watch(opened)
    opened.goto(address)
    opened.wait_for_selector("nav a")
    yield opened
    opened.close()
    assert told == []


@contextmanager
def visited(browser: Any, home: Path, store: Path) -> Iterator[tuple[Any, str]]:
    """The page of a store, a browser that has entered it, and its address."""
    with page_server(home, "--store", str(store)) as address:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        page.goto(address)
        page.wait_for_selector(".row .title")
        page.close()
        yield context, address.partition("#")[0]
        context.close()


def watch(page: Any) -> list[str]:
    """What the page complains of: errors of scripts, and what its policy stopped."""
    told: list[str] = []
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("console", lambda message: told.append(message.text) if message.type == "error" else None)
    return told


@pytest.fixture
def at(page: Any) -> Callable[[str], Any]:
    """The page at one of its places."""

    def go(place: str) -> Any:
        page.evaluate("place => { location.hash = place; }", place)
        return page

    return go
