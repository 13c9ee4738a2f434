"""axe, the judge of accessibility that most others use, on every screen in the states that people meet: light and dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.web.browser import screenshot
from tests.e2e.web.conftest import visited
from tests.e2e.web.stores import rich_store
from tests.e2e.web.test_access import BROKEN
from tests.e2e.web.test_screens import expect, go_to, open_demo

AXE = Path(__file__).parents[1] / "npm" / "node_modules" / "axe-core" / "axe.min.js"
TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa", "best-practice")
WIDTHS = {"phone": (360, 740), "desktop": (1440, 900)}

# Evaluated by the debugger, so the policy, which lets no other script in, stays as it is.
_JUDGE = """async (tags) => {
  const found = await axe.run(document, {
    runOnly: { type: "tag", values: tags }, rules: { "target-size": { enabled: true } }, resultTypes: ["violations", "passes"],
  });
  return [found.passes.length, found.violations.map((rule) =>
    `${rule.id}: ${rule.help}: ${rule.nodes.slice(0, 4).map((node) => `${node.html.slice(0, 120)} (${node.any.concat(node.all, node.none).map((each) => each.message).join("; ").slice(0, 160)})`).join(" | ")}`)];
}"""
_UNFOLD = "() => { for (const node of document.querySelectorAll('main details')) node.open = true; }"


@pytest.fixture(scope="session")
def judge(browser: Any) -> Callable[[Any], list[str]]:
    """What axe has against a page as it is now."""
    if not AXE.is_file():
        pytest.skip("axe did not judge the page: npm's axe-core is missing (run make test-e2e, which installs it)")
    source = AXE.read_text(encoding="utf-8")

    def judged(page: Any) -> list[str]:
        if not page.evaluate("() => 'axe' in window"):
            page.evaluate(source)
        passed, violations = page.evaluate(_JUDGE, list(TAGS))
        assert passed >= 15
        return list(violations)

    return judged


@pytest.fixture(scope="module")
def rich(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, str, dict[str, str]]]:
    home = tmp_path_factory.mktemp("rich")
    ids = rich_store(home / "own.db")
    with visited(browser, home, home / "own.db") as (context, address):
        yield context, address, ids


@pytest.fixture(params=[(scheme, device) for scheme in ("light", "dark") for device in WIDTHS], ids="-".join)
def look(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """A new page of a browser, in one of the two schemes and widths."""
    scheme, device = request.param
    made = []

    def opened(context: Any) -> Any:
        page = context.new_page()
        page.set_viewport_size(dict(zip(("width", "height"), WIDTHS[device], strict=True)))
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        made.append(page)
        return page

    request.addfinalizer(lambda: [page.close() for page in made])
    return opened


def place(page: Any, hash_: str, ready: str) -> None:
    page.evaluate("hash => { location.hash = hash; }", hash_)
    page.wait_for_selector(ready, state="attached")


def test_every_screen(served: Any, look: Callable[[Any], Any], judge: Callable[[Any], list[str]]) -> None:
    context, address = served
    page = look(context)
    page.goto(address)
    open_demo(page)
    found = page.url.rpartition("/")[2]
    told: list[str] = []

    def say(state: str) -> None:
        screenshot(page, f"axe-{state}-{page.viewport_size['width']}")
        told.extend([f"{state}: {violation}" for violation in judge(page)])

    go_to(page, "conversations", found)
    say("conversations")
    place(page, "/conversations?q=Ingrid", "mark")
    say("a search")
    place(page, "/conversations?q=nothing+like+it", ".empty")
    say("nothing found")
    go_to(page, "conversation", found)
    say("a conversation")
    page.evaluate(_UNFOLD)
    say("a conversation, unfolded")
    go_to(page, "wires", found)
    page.locator(".cell.left .pill").last.focus()
    say("wires with a traced id")
    page.evaluate(_UNFOLD)
    page.wait_for_timeout(200)
    say("wires, unfolded")
    place(page, f"/wires/{found}/3?left=completions/kimi-k2&right=mistral/mistral-large-latest", ".prompt .pill")
    say("wires with a raw prompt")
    talk(page)
    say("talk: a question about a tool")
    page.click("text=Allow once")
    page.wait_for_selector(".turn.ai:not(.coming) .permalink >> nth=1", timeout=20_000)
    page.select_option("select[aria-label='Model']", "sim/claude-sonnet-4-5")
    page.wait_for_selector(".switch .report-rows")
    say("talk: a report before the switch")
    page.select_option("select[aria-label='Model']", "moonshot/kimi-k2.5")
    page.fill("textarea", "And without a key?")
    page.keyboard.press("Enter")
    page.wait_for_selector(".turn .fault")
    say("talk: a failure")
    go_to(page, "live", found)
    page.wait_for_selector("button.exchange")
    say("live")
    page.locator("button.exchange").last.click()
    for tab in ("Client’s wire", "Canonical", "Upstream’s wire"):
        page.click(f"role=tab[name='{tab}']")
        page.evaluate(_UNFOLD)
        say(f"live: {tab}")
    go_to(page, "doctor", found)
    say("doctor")
    page.set_input_files("#history-file", {"name": "history.json", "mimeType": "text/plain", "buffer": BROKEN})
    page.wait_for_selector(".verdict.bad")
    say("doctor: a broken file")
    go_to(page, "usage", found)
    say("usage")
    go_to(page, "models", found)
    say("models")
    # The line is cut: what is said above the screen is part of it.
    page.route("**/web/api/**", lambda route: route.abort())
    page.click("nav a[data-screen=usage]")
    expect(page.locator(".notice")).to_be_visible()
    say("nobody answers")
    assert not told, "\n".join(told)


def talk(page: Any) -> None:
    """Go as far as the question whether a tool may be called."""
    place(page, "/talk", "textarea")
    page.select_option("select[aria-label='Model']", "sim/kimi-k2.5")
    page.click(".toolbox summary")
    page.check(".toolbox input[value=read_file]")
    page.fill("textarea", "Read plan.md, then say what is in it.")
    page.keyboard.press("Enter")
    page.wait_for_selector(".question button", timeout=20_000)


def test_what_a_turn_can_show(
    rich: tuple[Any, str, dict[str, str]], look: Callable[[Any], Any], judge: Callable[[Any], list[str]]
) -> None:
    """A picture, code in colours, a link that was opened, a family of forks, a plot of more than one day."""
    context, address, ids = rich
    page = look(context)
    page.goto(f"{address}#/c/{ids['picture']}")

    page.click("#turn-1 >> text=fork")
    page.wait_for_selector(".forks strong")
    place(page, f"/c/{ids['picture']}", "#turn-3")
    page.click("button.link")
    page.wait_for_selector("a.opened")
    page.evaluate(_UNFOLD)
    assert judge(page) == []
    place(page, "/usage", ".plot rect")
    assert judge(page) == []


def test_the_door(served: Any, browser: Any, look: Callable[[Any], Any], judge: Callable[[Any], list[str]]) -> None:
    """Who has no session sees nothing but where to get one."""
    _, address = served
    context = browser.new_context()
    page = look(context)
    page.goto(address)
    page.wait_for_selector("main.closed")
    assert judge(page) == []
    page.fill("input[type=password]", "msk_guess")
    page.keyboard.press("Enter")
    expect(page.locator("[role=status]")).not_to_be_empty()
    assert judge(page) == []
    context.close()
