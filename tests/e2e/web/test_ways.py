"""The ways through the page: addresses, Back, the keyboard, and a server that is there no more."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.web.browser import hold, page_server, screenshot
from tests.e2e.web.test_screens import SCREENS, Line, expect, go_to, open_demo, say


@pytest.fixture
def cuttable(browser: Any, tmp_path: Path) -> Iterator[tuple[Any, Line]]:
    """The page of a newcomer, at the other end of a line that can be cut."""
    with page_server(tmp_path) as address:
        port = urlsplit(address).port
        assert port is not None
        line = Line(port)
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        page.goto(address.replace(str(port), str(line.port), 1))
        page.wait_for_selector(".row .title")
        page.wait_for_load_state("networkidle")
        yield page, line
        context.close()
        line.close()


def test_a_server_that_stops_is_told_and_the_page_goes_on_when_it_is_back(cuttable: tuple[Any, Line]) -> None:
    page, line = cuttable
    notice = page.locator(".notice")
    expect(notice).to_be_hidden()
    line.cut()
    page.click("nav a[data-screen=usage]")
    expect(notice).to_contain_text("midstream does not answer")
    screenshot(page, "gone")
    # What needs no answer works on.
    page.click("nav a[data-screen=doctor]")
    expect(page.locator(".drop")).to_be_visible()
    page.click("nav a[data-screen=models]")
    expect(page.locator(".empty")).to_contain_text("as soon as midstream answers")
    line.mend()
    expect(page.locator("tbody tr").first).to_be_visible()
    expect(notice).to_be_hidden()


def test_a_button_that_nobody_answers_says_so(cuttable: tuple[Any, Line]) -> None:
    page, line = cuttable
    open_demo(page)
    line.cut()
    page.click("text=Export JSONL")
    expect(page.locator(".notice")).to_contain_text("midstream does not answer")
    expect(page.locator(".turn.ai").first).to_be_visible()
    line.mend()
    expect(page.locator(".notice")).to_be_hidden()
    expect(page.locator(".turn.ai").first).to_be_visible()


def test_an_answer_that_was_cut_off_is_asked_for_again(cuttable: tuple[Any, Line]) -> None:
    page, line = cuttable
    page.click("nav a[data-screen=talk]")
    page.select_option("select[aria-label='Model']", "sim/kimi-k2.5")
    page.fill("textarea", "Tell me about rivers, in many words, please. " * 5)
    page.keyboard.press("Enter")
    page.wait_for_selector(".turn.coming .thinking.open, .turn.coming .prose")
    line.cut()
    expect(page.locator(".turn.ai .fault")).to_contain_text("does not answer")
    line.mend()
    expect(page.locator(".notice")).to_be_hidden()
    # It is stored: in sight, and not to be said once more.
    expect(page.locator("textarea")).to_have_value("")
    expect(page.locator(".turn.human")).to_contain_text("Tell me about rivers")
    page.click("button:has-text('Try again')")
    expect(page.locator(".turn.ai:not(.coming) .permalink").last).to_be_visible(timeout=20_000)
    expect(page.locator(".turn.human")).to_have_count(1)
    expect(page.locator("button.primary")).to_have_text("Send")


def test_what_was_not_sent_is_in_the_box_again(cuttable: tuple[Any, Line]) -> None:
    page, line = cuttable
    page.click("nav a[data-screen=talk]")
    page.select_option("select[aria-label='Model']", "sim/kimi-k2.5")
    page.fill("textarea", "Hello there.")
    line.cut()
    page.keyboard.press("Enter")
    expect(page.locator(".turn.ai .fault")).to_contain_text("does not answer")
    expect(page.locator("textarea")).to_have_value("Hello there.")
    expect(page.locator("button.primary")).to_have_text("Send")
    line.mend()


def test_a_message_without_its_answer_can_be_tried_again_later(at: Callable[[str], Any]) -> None:
    page = at("/talk")
    page.select_option("select[aria-label='Model']", "sim/kimi-k2.5")
    page.fill("textarea", "Tell me about rivers, in many words, please. " * 5)
    page.keyboard.press("Enter")
    # Its name is there before the host has accepted it.
    page.wait_for_url(re.compile(r"#/talk/\w+$"))
    button = page.locator("button.primary")
    expect(button).to_have_text("Stop")
    button.click()
    expect(button).to_have_text("Try again")
    page.reload()
    expect(button).to_have_text("Try again")
    page.fill("textarea", "Or something else?")
    expect(button).to_have_text("Send")
    page.fill("textarea", "")
    page.select_option("select[aria-label='Model']", "sim/mistral-large-latest")
    button.click()
    expect(page.locator(".turn.ai:not(.coming) .permalink").last).to_be_visible(timeout=20_000)
    expect(page.locator(".turn.ai .who").last).to_have_text("sim/mistral-large-latest")
    expect(button).to_have_text("Send")
    expect(page.locator(".turn.human")).to_have_count(1)
    expect(page.locator("textarea")).to_be_focused()


def test_back_closes_an_exchange(at: Callable[[str], Any]) -> None:
    page = at("/live")
    page.wait_for_selector(".bar .chip.good")
    session = page.evaluate("() => localStorage.getItem('midstream-session')")
    for model in ("sim/kimi-k2.5", "sim/mistral-large-latest"):
        say(urlsplit(page.url).port, session, model)
    rows, detail = page.locator("button.exchange"), page.locator(".detail")
    page.fill(".search", "sim/mistral")
    expect(rows.first).to_contain_text("sim/mistral")
    expect(page).to_have_url(re.compile(re.escape("#/live?q=sim%2Fmistral") + "$"))
    page.fill(".search", "sim/")
    expect(rows.nth(1)).to_contain_text("sim/kimi-k2.5")
    page.locator(".bar button").first.click()  # paused, as it stays
    rows.first.click()
    expect(detail.locator("h2")).to_have_text("sim/mistral-large-latest")
    expect(page).to_have_url(re.compile(r"#/live/\d+\?q=sim%2F$"))
    rows.nth(1).click()
    expect(detail.locator("h2")).to_have_text("sim/kimi-k2.5")
    place = page.url
    page.go_back()
    expect(detail).to_be_hidden()
    expect(rows.nth(1)).to_be_focused()
    expect(page.locator(".bar button").first).to_have_text("Go on")
    expect(page).to_have_url(re.compile(re.escape("#/live?q=sim%2F") + "$"))
    page.go_forward()
    expect(detail.locator("h2")).to_have_text("sim/kimi-k2.5")
    # The button takes no further step than Back would.
    detail.locator(".close").click()
    expect(detail).to_be_hidden()
    expect(page).to_have_url(re.compile(re.escape("#/live?q=sim%2F") + "$"))
    # As a link, of one that is there and of one that is not.
    page.goto(place)
    page.reload()
    expect(detail.locator("h2")).to_have_text("sim/kimi-k2.5")
    expect(page.locator(".search")).to_have_value("sim/")
    page.keyboard.press("Escape")
    expect(detail).to_be_hidden()
    expect(page.locator(".bar .chip.good")).to_be_visible()


def test_models_keep_their_filter_in_the_address(at: Callable[[str], Any]) -> None:
    page = at("/models?q=moonshot%20kimi-k2.5")
    expect(page.locator(".search")).to_have_value("moonshot kimi-k2.5")
    expect(page.locator("tbody tr").first).to_contain_text("functions.name:0")
    page.fill(".search", "mistral")
    expect(page).to_have_url(re.compile(re.escape("#/models?q=mistral") + "$"))
    page.click("nav a[data-screen=doctor]")
    page.wait_for_selector(".drop")
    page.go_back()
    expect(page.locator(".search")).to_have_value("mistral")


def test_a_program_that_was_started_again_is_entered_from_any_tab(browser: Any, tmp_path: Path) -> None:
    """Its sessions are gone with it: Live must not wait for ever, and the new address, opened beside it, counts for both."""
    context = browser.new_context()
    page = context.new_page()
    with page_server(tmp_path) as address:
        port = urlsplit(address).port
        page.goto(address)
        page.click("nav a[data-screen=live]")
        expect(page.locator(".chip.good", has_text="live")).to_be_visible()
        session = page.evaluate("() => localStorage.getItem('midstream-session')")
        for model in ("sim/kimi-k2.5", "sim/mistral-large-latest"):
            say(port, session, model)
        expect(page.locator("button.exchange.good")).to_have_count(2)
    expect(page.locator(".notice")).to_contain_text("midstream does not answer")
    with page_server(tmp_path, command=("web", "--port", str(port))) as address:
        expect(page.locator("main.closed")).to_contain_text("open the newest address", timeout=15_000)
        other = context.new_page()
        other.goto(address)
        other.wait_for_selector(".row .title")
        expect(page.locator(".chip.good", has_text="live")).to_be_visible(timeout=15_000)
        expect(page.locator("button.exchange")).to_have_count(0)
        context.close()


def test_live_of_another_life_of_the_program_is_not_mixed_with_this_one(browser: Any, tmp_path: Path) -> None:
    """A tab that slept hears of the new program only when the new session is there already: it never sees the door."""
    context = browser.new_context()
    page, other = context.new_page(), context.new_page()
    with page_server(tmp_path) as address:
        port = urlsplit(address).port
        page.goto(address)
        page.click("nav a[data-screen=live]")
        session = page.evaluate("() => localStorage.getItem('midstream-session')")
        for model in ("sim/kimi-k2.5", "sim/mistral-large-latest"):
            say(port, session, model)
        expect(page.locator("button.exchange.good")).to_have_count(2)
        held = hold(page, "**/web/api/**")
    with page_server(tmp_path, command=("web", "--port", str(port))) as address:
        other.goto(address)
        other.wait_for_selector(".row .title")
        say(port, other.evaluate("() => localStorage.getItem('midstream-session')"), "sim/gpt-5.2")
        page.wait_for_timeout(1_500)
        for each in list(held):
            each.continue_()
        page.unroute("**/web/api/**")
        expect(page.locator("button.exchange")).to_have_count(1, timeout=15_000)
        expect(page.locator("button.exchange")).to_contain_text("sim/gpt-5.2")
        context.close()


def test_back_leads_to_where_one_was(at: Callable[[str], Any]) -> None:
    page = at("/models")
    page.wait_for_selector("tbody tr >> nth=100")
    page.locator(".sheet").evaluate("node => { node.scrollTop = 1500; }")
    page.click("nav a[data-screen=conversations]")
    page.wait_for_selector(".row .title")
    page.go_back()
    page.wait_for_selector("tbody tr >> nth=100")
    page.wait_for_function("() => document.querySelector('.sheet').scrollTop === 1500")


def test_a_screen_that_was_left_before_it_came_stays_away(page: Any) -> None:
    """What comes late is nobody's: it must neither draw over the screen in sight nor take over its address."""
    open_demo(page)
    found = page.url.rpartition("/")[2]
    held = hold(page, f"**/conversations/{found}")
    page.evaluate("place => { location.hash = place; }", f"/wires/{found}/3")
    page.wait_for_timeout(300)
    page.click("nav a[data-screen=doctor]")
    page.wait_for_selector(".drop")
    assert held
    held[0].continue_()
    page.wait_for_timeout(500)
    assert page.url.endswith("#/doctor")
    expect(page.locator(".drop")).to_be_visible()


def test_an_address_that_was_cut_leads_somewhere(at: Callable[[str], Any]) -> None:
    page = at("/doctor")
    page.wait_for_selector(".drop")
    page.evaluate("() => { location.hash = '/%E0%A4%A'; }")
    expect(page.locator(".row .title").first).to_be_visible()
    expect(page.locator("nav a[aria-current]")).to_have_text("Conversations")


def test_what_a_link_filters_by_is_seen(at: Callable[[str], Any]) -> None:
    page = at("/conversations?cost=5&model=nobody/x&day=2020-01-01")
    expect(page.locator(".empty")).to_be_visible()
    for label, shown in (("Any model", "nobody/x"), ("Any day", "2020-01-01"), ("Any cost", "at least $5")):
        expect(page.locator(f"select[aria-label='{label}'] option:checked")).to_contain_text(shown)


def test_each_screen_has_a_title_and_takes_the_focus(page: Any) -> None:
    expect(page).to_have_title("Conversations · midstream")
    page.locator("a.row", has_text="The demo: one trip").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_title(re.compile("^The demo: one trip"))
    expect(page.locator("#main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator(".crumb a")).to_be_focused()


def test_the_focus_is_in_a_screen_that_is_still_on_its_way(at: Callable[[str], Any]) -> None:
    page = at("/usage")
    page.locator(".scroll").first.focus()
    held = hold(page, "**/web/api/models")
    at("/models")
    # Else the next Tab would begin wherever the browser likes.
    expect(page.locator("#main")).to_be_focused()
    expect(page.locator("tbody tr")).to_have_count(0)
    held[0].continue_()
    expect(page.locator("tbody tr").first).to_be_visible()
    expect(page.locator("#main")).to_be_focused()


def test_a_conversation_that_comes_while_the_costs_are_worked_out_hides_no_other(page: Any) -> None:
    asked: list[int] = []

    def digest_later(route: Any) -> None:
        found = route.fetch().json()
        asked.append(found["total"])
        route.fulfill(json=found | ({"digested": 0} if len(asked) == 1 else {}))

    page.wait_for_selector(".row .title")
    page.route("**/web/api/conversations?*", digest_later)
    page.reload()
    page.wait_for_selector(".row .title")
    say(urlsplit(page.url).port, page.evaluate("() => localStorage.getItem('midstream-session')"), "sim/kimi-k2.5")
    expect(page.locator("#total")).to_contain_text(f"{asked[0] + 1} conversations")
    assert len(asked) > 1
    open_demo(page)
    page.unroute("**/web/api/conversations?*")


def test_the_report_is_that_of_the_model_that_is_chosen(page: Any) -> None:
    """Two models chosen in quick succession: the slower report must not stand under the later name."""
    open_demo(page)
    page.click("text=Go on talking")
    page.wait_for_selector(".switch .report-rows")
    held = hold(page, "**/talk/preview?*claude-sonnet-4-5*")
    page.select_option("select[aria-label='Model']", "sim/claude-sonnet-4-5")
    page.select_option("select[aria-label='Model']", "sim/mistral-large-latest")
    expect(page.locator(".switch")).to_contain_text("what sim/mistral-large-latest will see")
    held[0].continue_()
    page.wait_for_timeout(500)
    expect(page.locator(".switch")).to_contain_text("what sim/mistral-large-latest will see")


# The first turn below the frame's head, and how far below.
_TOP = """() => { const node = [...document.querySelectorAll(".chunks .turn")].find((each) => each.getBoundingClientRect().bottom > 60);
  return [node.id, Math.round(node.getBoundingClientRect().top)]; }"""


def test_back_leads_to_the_turn_that_was_read(page: Any) -> None:
    """How far down it is depends on the reports of switches above it, which are loaded when they are seen."""
    open_demo(page)
    page.set_viewport_size({"width": 900, "height": 420})
    page.mouse.move(450, 300)
    for _ in range(30):
        page.mouse.wheel(0, 100)
        page.wait_for_timeout(30)
    page.wait_for_timeout(300)
    name, top = page.evaluate(_TOP)
    assert name != "turn-0"
    page.locator(f"#{name} a.small").dispatch_event("click")
    page.wait_for_selector(".cell.right .pill")
    page.go_back()
    page.wait_for_selector(f"#{name}")
    page.wait_for_timeout(800)
    found, there = page.evaluate(_TOP)
    assert found == name and abs(there - top) < 8


def test_back_leads_to_the_row_that_was_opened(page: Any) -> None:
    open_demo(page)
    page.go_back()
    expect(page.locator("a.row", has_text="The demo: one trip")).to_be_focused()


def test_a_place_that_is_not_there_says_so_and_leads_on(served: Any) -> None:
    context, address = served
    page = context.new_page()
    page.goto(f"{address}#/c/nobody")
    expect(page.locator("h1")).to_have_text("Nothing is here")
    expect(page.locator(".fault")).to_contain_text("there is no conversation 'nobody' here")
    expect(page).to_have_title("Nothing is here · midstream")
    # Said once, and not above the next screen.
    expect(page.locator(".notice")).to_be_hidden()
    page.click("main a")
    expect(page.locator(".row .title").first).to_be_visible()
    page.close()


def test_what_goes_wrong_on_one_screen_is_not_told_on_the_next(page: Any) -> None:
    open_demo(page)
    page.evaluate("""async () => {
      const { Refused } = await import("/web/api.js");
      Promise.reject(new Refused(500, "the disk is full"));
    }""")
    expect(page.locator(".notice")).to_contain_text("the disk is full")
    page.click("nav a[data-screen=usage]")
    expect(page.locator(".plot rect").first).to_be_attached()
    expect(page.locator(".notice")).to_be_hidden()


def test_what_was_typed_outlasts_another_screen_and_a_reload(at: Callable[[str], Any]) -> None:
    page = at("/talk")
    page.select_option("select[aria-label='Model']", "sim/mistral-large-latest")
    page.fill("textarea", "A long thought, not finished")
    page.click("nav a[data-screen=models]")
    page.wait_for_selector("tbody tr")
    page.go_back()
    for again in (lambda: None, page.reload):
        again()
        expect(page.locator("textarea")).to_have_value("A long thought, not finished")
        expect(page.locator("select[aria-label='Model']")).to_have_value("sim/mistral-large-latest")
    page.locator("textarea").press("Enter")
    page.wait_for_selector(".turn.ai:not(.coming) .permalink")
    expect(page.locator(".crumb")).to_contain_text("A long thought, not finished")
    page.click("text=New conversation")
    expect(page.locator("h1")).to_have_text("Talk")
    expect(page.locator("textarea")).to_have_value("")


def test_an_answer_goes_on_while_one_looks_elsewhere(at: Callable[[str], Any]) -> None:
    page = at("/talk")
    page.select_option("select[aria-label='Model']", "sim/kimi-k2.5")
    page.fill("textarea", "Tell me about rivers, in many words, please. " * 12)
    page.keyboard.press("Enter")
    page.wait_for_selector(".turn.coming .prose")
    place = page.url
    page.click("nav a[data-screen=live]")
    expect(page.locator("button.exchange").first).to_contain_text("sim/kimi-k2.5")
    assert page.url.endswith("#/live")
    page.click("nav a[data-screen=talk]")
    # As far as it is by now, and then to its end.
    expect(page.locator(".turn.coming .prose")).to_be_visible()
    assert page.url == place
    page.click("nav a[data-screen=live]")
    expect(page.locator("button.exchange.open")).to_have_count(0, timeout=20_000)
    expect(page.locator("button.exchange").first).to_contain_text("200")
    page.go_back()
    expect(page.locator(".turn.ai .permalink")).to_have_count(1)
    expect(page.locator(".turn.ai .chip.bad")).to_have_count(0)


def test_the_end_of_a_talk_is_in_sight_until_one_scrolls_away(served: Any) -> None:
    context, address = served
    page = context.new_page()
    page.goto(f"{address}#/talk")
    page.wait_for_selector("textarea")
    page.set_viewport_size({"width": 900, "height": 500})

    def say(model: str, words: str) -> None:
        page.select_option("select[aria-label='Model']", model)
        page.fill("textarea", words)
        page.locator("textarea").press("Enter")

    def hidden_by() -> float:
        """How far the last answer reaches behind the box."""
        return float(page.evaluate("() => [...document.querySelectorAll('.turn.ai')].at(-1).getBoundingClientRect().bottom - document.querySelector('.composer').getBoundingClientRect().top"))  # fmt: skip

    for number, model in enumerate(("sim/kimi-k2.5", "sim/claude-sonnet-4-5", "sim/mistral-large-latest")):
        say(model, "Hello there.")
        page.wait_for_selector(f".turn.ai:not(.coming) .permalink >> nth={number}")
    page.wait_for_timeout(600)
    assert hidden_by() < 0
    # Opened anew, with the reports of the switches, which come when they are seen.
    page.reload()
    page.wait_for_selector(".turn.ai .permalink >> nth=2")
    page.wait_for_timeout(800)
    assert hidden_by() < 0
    say("moonshot/kimi-k2.5", "And without a key?")
    expect(page.locator(".turn .fault")).to_be_visible()
    page.wait_for_timeout(200)
    assert hidden_by() < 0
    say("sim/kimi-k2.5", "Tell me about rivers, in many words, please. " * 12)
    page.wait_for_selector(".turn.coming .prose")
    page.mouse.move(450, 150)
    page.mouse.wheel(0, -3000)
    page.wait_for_timeout(500)
    assert page.locator(".turn.coming").count() == 1
    assert page.evaluate("() => scrollY") == 0
    page.wait_for_selector(".turn.ai:not(.coming) .permalink >> nth=3", timeout=20_000)
    page.close()


def test_a_file_that_was_mended_can_be_chosen_again(at: Callable[[str], Any], tmp_path: Path) -> None:
    page = at("/doctor")
    history = tmp_path / "history.json"
    history.write_text('[{"role": "user", "content": "hi"}, {"role": "tool", "tool_call_id": "x", "content": "y"}]')
    page.set_input_files("#history-file", str(history))
    expect(page.locator(".verdict.bad")).to_be_visible()
    assert page.input_value("#history-file") == ""
    history.write_text('[{"role": "user", "content": "hi"}]')
    page.set_input_files("#history-file", str(history))
    expect(page.locator(".verdict.good")).to_be_visible()


def test_large_letters_on_a_small_screen(page: Any) -> None:
    """320 by 256 pixels are 1280 by 1024 at 400 %: what WCAG asks for (1.4.10)."""
    open_demo(page)
    page.set_viewport_size({"width": 320, "height": 256})
    found = page.url.rpartition("/")[2]
    for name, *_ in SCREENS:
        go_to(page, name, found)
        wide = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, name
    go_to(page, "conversations", found)
    assert page.locator(".windowed").evaluate("node => node.clientHeight") >= 60
    open_demo(page)


def test_somebody_elses_colours_lose_nothing(page: Any) -> None:
    """With forced colours there are no backgrounds: what only they told is told by a line."""
    page.emulate_media(forced_colors="active")
    open_demo(page)
    go_to(page, "wires", page.url.rpartition("/")[2])
    page.locator(".cell.left .pill").first.focus()
    line = "(node) => [getComputedStyle(node).textDecorationLine, getComputedStyle(node).outlineStyle]"
    assert page.locator("nav a[aria-current]").evaluate(line)[0] == "underline"
    assert page.locator(".differs").first.evaluate(line)[0] == "underline"
    assert page.locator(".cell.right .pill.lit").first.evaluate(line)[1] == "solid"
    page.emulate_media(forced_colors="none")
