"""For everybody: every control by the keyboard and seen there, every word in enough contrast, no motion for who wants none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.web.conftest import watch
from tests.e2e.web.test_screens import SCREENS, expect, go_to, open_demo

BROKEN = (
    b'[{"role": "user", "content": "hi"}, {"role": "tool", "tool_call_id": "x", "content": "an answer to nothing"}]'
)

# What can be used and is in sight, each once. Elements of one closed <details> are not, but its summary is.
_CONTROLS = """() => [...document.querySelectorAll(
  "a[href], button, input, select, textarea, summary, [tabindex='0']")].filter((node) => {
    const box = node.getBoundingClientRect(), style = getComputedStyle(node);
    return node.checkVisibility() && !node.disabled && node.tabIndex >= 0 && (box.width > 1 || node.type === "file") && style.visibility !== "hidden"
      && !node.classList.contains("skip");
  })"""

# The words on the screen whose contrast with what is behind them is less than WCAG's AA asks for. A pixel of a canvas tells what
# a colour of any notation is, and lays one that is not opaque over what is behind it.
_WEAK = """() => {
  const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const over = (colour, below) => {
    pen.fillStyle = below ? `rgb(${below.join()})` : "#fff";
    pen.fillRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const behind = (node) => {
    const layers = [];
    for (let each = node; each; each = each.parentElement) layers.unshift(getComputedStyle(each).backgroundColor);
    return layers.reduce((below, colour) => over(colour, below), null);
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((part) => part / 255).map((part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => { const [low, high] = [light(one), light(other)].sort((a, b) => a - b); return (high + 0.05) / (low + 0.05); };
  const opacity = (node) => { let all = 1; for (let each = node; each; each = each.parentElement) all *= Number(getComputedStyle(each).opacity); return all; };
  const weak = [];
  let seen = 0;
  const judge = (node, colour, words, least) => {
    const below = behind(node), share = opacity(node);
    const ink = over(colour, below).map((part, at) => part * share + below[at] * (1 - share));
    const found = contrast(ink, below);
    seen += 1;
    if (found < least) weak.push(`${node.tagName}.${node.getAttribute("class")} ${JSON.stringify(words.slice(0, 30))}: ${found.toFixed(2)}`);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode.parentElement, words = texts.currentNode.textContent.trim();
    if (!words || !node.checkVisibility({ visibilityProperty: true }) || node.closest("option, :disabled, noscript, .skip")) continue;
    const style = getComputedStyle(node), large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    judge(node, node instanceof SVGElement ? style.fill : style.color, words, large ? 3 : 4.5);
  }
  for (const field of document.querySelectorAll("input:not([type=checkbox], [type=file]), select, textarea")) {
    if (!field.checkVisibility()) continue;
    if (field.placeholder) judge(field, getComputedStyle(field, "::placeholder").color, field.placeholder, 4.5);
    // The line around a field is how it is known as one: 3 to 1 (1.4.11). One without a line has the line of what it stands in.
    const edge = getComputedStyle(field);
    if (parseFloat(edge.borderTopWidth)) judge(field.parentElement, edge.borderTopColor, "its edge", 3);
  }
  return [seen, weak];
}"""


@pytest.fixture
def demo(served: Any) -> Iterator[tuple[Any, str]]:
    """A page, and the id of the demo's conversation."""
    context, address = served
    page = context.new_page()
    told = watch(page)
    page.goto(address)
    open_demo(page)
    yield page, page.url.rpartition("/")[2]
    page.close()
    # What a test asks for in vain is told by the browser, too.
    assert [each for each in told if "400 (Bad Request)" not in each] == []


@pytest.mark.parametrize("name", [name for name, *_ in SCREENS])
def test_tab_reaches_every_control_and_shows_where_it_is(demo: tuple[Any, str], name: str) -> None:
    page, found = demo
    go_to(page, name, found)
    page.evaluate("() => { window.scrollTo(0, 0); document.activeElement.blur(); }")
    page.evaluate(f"() => {{ window.wanted = new Set(({_CONTROLS})()); window.unseen = []; }}")
    total = page.evaluate("() => wanted.size")
    assert total >= 7
    page.locator("a.skip").focus()
    for _ in range(total + 40):
        left = page.evaluate(
            """() => {
              const node = document.activeElement, style = getComputedStyle(node);
              // A field inside of a label that lights up with it shows where it is by that.
              const lit = node.type === "file" ? getComputedStyle(node.closest("label")).borderTopStyle : style.outlineStyle;
              if (wanted.has(node) && (lit === "none" || (node.type !== "file" && parseFloat(style.outlineWidth) < 2))) unseen.push(node.outerHTML.slice(0, 90));
              wanted.delete(node);
              return wanted.size;
            }"""
        )
        if not left:
            break
        page.keyboard.press("Tab")
    assert page.evaluate("() => [...wanted].map((node) => node.outerHTML.slice(0, 120))") == []
    assert page.evaluate("() => unseen") == []


def test_the_keyboard_alone_is_enough(demo: tuple[Any, str]) -> None:
    page, found = demo
    page.reload()
    page.wait_for_selector(".turn")
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.id") == "main"
    # A call is opened by Enter, and a conversation by its row.
    go_to(page, "conversation", found)
    page.locator("details.call summary").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("details.call").first).to_have_attribute("open", "")
    go_to(page, "conversations", found)
    page.locator("a.row", has_text="The demo").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".turn")
    # Ids light up when they are reached, and turns are walked with Alt and the arrows.
    go_to(page, "wires", found)
    page.locator(".cell.left .pill").first.focus()
    expect(page.locator(".pill.lit").first).to_be_visible()
    page.keyboard.press("Alt+ArrowLeft")
    expect(page.locator("input.jump")).to_have_value("5")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_word_has_enough_contrast(demo: tuple[Any, str], scheme: str) -> None:
    page, found = demo
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    weak = {}
    for name, *_ in SCREENS:
        go_to(page, name, found)
        # All that can be unfolded is, and what is said while an id is traced is judged too.
        page.evaluate("() => { for (const node of document.querySelectorAll('main details')) node.open = true; }")
        page.wait_for_timeout(150)
        seen, bad = page.evaluate(_WEAK)
        assert seen >= 12, name
        if bad:
            weak[name] = sorted(set(bad))[:8]
        if name == "doctor":
            page.set_input_files("#history-file", {"name": "history.json", "mimeType": "text/plain", "buffer": BROKEN})
            page.wait_for_selector(".verdict.bad")
            weak["a broken file"] = page.evaluate(_WEAK)[1]
    page.evaluate("() => { location.hash = '/conversations?q=Ingrid'; }")
    page.wait_for_selector("mark")
    weak["a search"] = page.evaluate(_WEAK)[1]
    page.evaluate("() => { location.hash = '/talk'; }")
    page.wait_for_selector("textarea")
    page.select_option("select[aria-label='Model']", "sim/kimi-k2.5")
    page.fill("textarea", "Tell me about rivers, in many words, please.")
    page.keyboard.press("Enter")
    page.wait_for_selector(".turn.coming .thinking.open")
    weak["an answer that is coming"] = page.evaluate(_WEAK)[1]
    page.wait_for_selector(".turn.ai:not(.coming) .permalink")
    page.select_option("select[aria-label='Model']", "moonshot/kimi-k2.5")
    page.fill("textarea", "And without a key?")
    page.keyboard.press("Enter")
    page.wait_for_selector(".fault")
    weak["a failure"] = page.evaluate(_WEAK)[1]
    page.evaluate("() => { location.hash = '/live'; }")
    page.click("button.exchange")
    page.wait_for_selector(".detail .timeline")
    weak["an exchange"] = page.evaluate(_WEAK)[1]
    assert not {name: each for name, each in weak.items() if each}


def test_who_wants_no_motion_gets_none(demo: tuple[Any, str]) -> None:
    page, found = demo
    moving = """() => [...document.querySelectorAll("*")].flatMap((node) => ["", "::before", "::after"].map((part) => getComputedStyle(node, part || null)))
      .filter((style) => style.animationName !== "none" || style.transitionDuration.split(", ").some((each) => each !== "0s") || style.scrollBehavior === "smooth").length"""
    for wish, moves in (("no-preference", True), ("reduce", False)):
        page.emulate_media(reduced_motion=wish)
        found_any = False
        for name in ("conversation", "wires"):
            go_to(page, name, found)
            found_any = found_any or page.evaluate(moving) > 0
        # The dot beside an answer that is still coming.
        page.evaluate("() => { location.hash = '/talk'; }")
        page.wait_for_selector("textarea")
        page.select_option("select[aria-label='Model']", "sim/kimi-k2.5")
        page.fill("textarea", "Tell me about rivers, in many words, please. " * 4)
        page.keyboard.press("Enter")
        page.wait_for_selector(".turn.coming")
        pulse = page.evaluate("() => getComputedStyle(document.querySelector('.coming .who'), '::after').animationName")
        assert (pulse != "none") is moves
        assert found_any is moves
        page.wait_for_selector(".turn.ai:not(.coming) .permalink")
