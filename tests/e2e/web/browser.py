"""The system's Chromium, driven by Playwright, and `midstream web` as a person starts it."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.web.page import clean_environment

ARGUMENTS = (
    "--no-sandbox",  # containers have no user namespaces for it; what it would confine here is our own page
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SCREENS = "MIDSTREAM_SCREENSHOTS"
"""The variable that names the folder for screenshots."""


def missing() -> str:
    """Why no browser can be driven here; "" if one can."""
    if importlib.util.find_spec("playwright") is None:
        return "playwright is not installed (run make test-e2e, which installs it)"
    return "" if shutil.which("chromium") else "chromium is missing (run make e2e-tools)"


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def page_server(home: Path, *arguments: str, command: Sequence[str] = ("web", "--port", "0")) -> Iterator[str]:
    """The address that the command prints; it runs in `home`, with nothing of this machine's user."""
    line = [sys.executable, "-m", "midstream.cli.main", *command, *arguments]
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=clean_environment(home), cwd=home
    ) as server:
        try:
            assert server.stdout is not None
            words = []
            for told in server.stdout:
                words.append(told)
                found = re.search(r"http://\S+#token=\S+", told)
                if found:
                    yield found[0]
                    return
            raise AssertionError(f"it did not start: {words}")
        finally:
            server.terminate()
            server.wait(timeout=20)


def hold(page: Any, pattern: str) -> list[Any]:
    """The requests that the page makes for `pattern`; each waits until its `continue_` is called."""
    held: list[Any] = []

    # A function of Python's own: Playwright keeps its wrapper as an attribute of the handler, which `held.append` cannot have.
    def handler(route: Any) -> None:
        held.append(route)

    page.route(pattern, handler)
    return held


def screenshot(page: Any, name: str) -> None:
    """A picture of what is in sight, if somebody asks for pictures."""
    folder = os.environ.get(SCREENS)
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(folder) / f"{name}.png"))
