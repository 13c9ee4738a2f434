"""With the keys alone: what each screen is for, from its link to its end, with the focus in sight at every stop."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.e2e.web.test_access import BROKEN
from tests.e2e.web.test_screens import expect

# What has the focus, and what is wrong with where it is: nothing to be seen of it, or something else over all of it.
_STOP = """() => {
  const node = document.activeElement, shown = node.type === "file" ? node.closest("label") : node, style = getComputedStyle(shown);
  if (node === document.body) return "the focus is nowhere";
  const box = shown.getBoundingClientRect(), seen = node.type === "file" ? style.borderTopStyle !== "none" : parseFloat(style.outlineWidth) >= 2 && style.outlineStyle !== "none";
  const points = [[0.5, 0.5], [0.05, 0.2], [0.95, 0.2], [0.05, 0.8], [0.95, 0.8]].map(([x, y]) => [
    Math.min(innerWidth - 1, Math.max(0, box.left + box.width * x)), Math.min(innerHeight - 1, Math.max(0, box.top + box.height * y))]);
  const free = points.some(([x, y]) => { const there = document.elementFromPoint(x, y); return there && (shown.contains(there) || there.contains(shown) && there.matches("article, details, .inside, .result, pre, td, li, span, p")); });
  return seen && free ? "" : `${seen ? "covered" : "no outline"}: ${node.outerHTML.slice(0, 120)}`;
}"""


class Keys:
    """Somebody without a pointer."""

    def __init__(self, page: Any) -> None:
        self._page = page

    def to(self, selector: str, *, back: bool = False, most: int = 120) -> None:
        """Tab, looking where the focus is at each stop, until it is at what `selector` finds."""
        for _ in range(most):
            if self.at(selector):
                return
            before = self._page.evaluate_handle("() => document.activeElement")
            self._page.keyboard.press("Shift+Tab" if back else "Tab")
            assert not self._page.evaluate("(before) => document.activeElement === before", before), "a trap"
            assert self._page.evaluate(_STOP) == ""
        raise AssertionError(f"Tab does not lead to {selector}")

    def at(self, selector: str) -> bool:
        return bool(self._page.evaluate("selector => document.activeElement.matches(selector)", selector))

    def press(self, *keys: str) -> None:
        for key in keys:
            self._page.keyboard.press(key)

    def go(self, screen: str, ready: str) -> None:
        """From wherever one is to another screen; the focus stays on its link, or is in it."""
        self._page.evaluate("() => { scrollTo(0, 0); document.querySelector('a.skip').focus(); }")
        self.to(f"nav a[data-screen={screen}]")
        self.press("Enter")
        # Its title comes when it is drawn; until then the screen before is in sight, and may have such a thing, too.
        expect(self._page).to_have_title(re.compile(f"^{screen} ", re.IGNORECASE))
        self._page.wait_for_selector(ready)
        assert not self.at("body")


def test_what_each_screen_is_for(page: Any, tmp_path: Path) -> None:
    keys = Keys(page)
    # From now on: a chooser that is opened before the browser knows that somebody waits for it is cancelled by it.
    page.on("filechooser", lambda chooser: None)
    page.wait_for_selector(".row .title")

    # Conversations: search, open, unfold a call, come back to the same row.
    keys.go("live", ".bar .chip.good")
    keys.go("conversations", ".row .title")
    keys.to(".search")
    page.keyboard.type("Ingrid")
    expect(page.locator(".row mark").first).to_be_visible()
    keys.to("a.row")
    keys.press("Enter")
    page.wait_for_selector(".turn.found, .anchor.found")
    expect(page.locator("#main")).to_be_focused()
    keys.to("details.call > summary")
    keys.press("Enter")
    expect(page.locator("details.call[open]")).to_have_count(1)
    page.go_back()
    expect(page.locator("a.row").first).to_be_focused()

    # Wires: another model, and an id traced; the choice keeps the focus.
    keys.press("Enter")
    page.wait_for_selector(".turn")
    keys.to("a.button.primary")
    keys.press("Enter")
    page.wait_for_selector(".cell.right .pill")
    keys.to("select[aria-label='The right wire']")
    keys.press("ArrowDown")
    expect(page.locator(".cell.right.heading")).not_to_contain_text("claude")
    expect(page.locator("select[aria-label='The right wire']")).to_be_focused()
    keys.to(".cell.left .pill")
    expect(page.locator(".pill.lit").first).to_be_visible()

    # Talk: a tool is turned on, asked for and allowed; then the next message can be typed.
    keys.go("talk", "textarea")
    expect(page.locator("textarea")).to_be_focused()
    keys.to(".toolbox summary")
    keys.press("Enter")
    keys.to(".toolbox input[value=read_file]")
    keys.press("Space")
    keys.to("select[aria-label='Model']", back=True)
    page.keyboard.type("sim/kimi-k2.5")
    keys.to("textarea", back=True)
    page.keyboard.type("Read plan.md, then say what is in it.")
    keys.press("Enter")
    expect(page.locator(".question button", has_text="Refuse")).to_be_focused(timeout=20_000)
    assert page.evaluate(_STOP) == ""
    keys.to(".question button.primary", back=True)
    keys.press("Enter")
    page.wait_for_selector(".turn.ai:not(.coming) .permalink >> nth=1", timeout=20_000)
    expect(page.locator("textarea")).to_be_focused()

    # Live: an exchange is opened and read, and closed where it was opened.
    keys.go("live", "button.exchange")
    keys.to("button.exchange")
    keys.press("Enter")
    expect(page.locator(".detail")).to_be_focused()
    keys.to("[role=tab]")
    keys.press("ArrowLeft")
    expect(page.locator("role=tab[name='Canonical']")).to_be_focused()
    keys.press("Escape")
    expect(page.locator("button.exchange").first).to_be_focused()

    # Doctor: a file is chosen, and its healed copy taken.
    history = tmp_path / "history.json"
    history.write_bytes(BROKEN)
    keys.go("doctor", ".drop")
    keys.to("#history-file")
    with page.expect_file_chooser() as chooser:
        keys.press("Enter")
    chooser.value.set_files(str(history))
    page.wait_for_selector(".verdict.bad")
    keys.to("button.primary")
    with page.expect_download():
        keys.press("Enter")

    keys.go("usage", ".plot rect")
    keys.to(".scroll")
    keys.go("models", "tbody tr")
    keys.to(".search")
    page.keyboard.type("moonshot kimi-k2.5")
    expect(page.locator("tbody tr").first).to_contain_text("functions.name:0")
