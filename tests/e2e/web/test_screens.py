"""Each screen, used as a person would."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.web.browser import page_server, screenshot


def expect(found: Any) -> Any:
    from playwright.sync_api import expect as asserted

    return asserted(found)


SCREENS = (
    ("conversations", "/conversations", ".row .title"),
    ("conversation", "/c/{id}", ".seam"),
    ("wires", "/wires/{id}/6", ".pill"),
    ("live", "/live", ".bar .chip.good"),
    ("talk", "/talk/{id}", ".switch .report-rows"),
    ("doctor", "/doctor", ".drop"),
    ("usage", "/usage", ".plot rect"),
    ("models", "/models", "[aria-label='Models'] tbody tr"),
)
"""Every screen with its place, where {id} is a conversation's, and what is there once it is drawn."""


def go_to(page: Any, name: str, conversation: str) -> None:
    """Open one of the screens and wait until it is drawn."""
    place, ready = next((place, ready) for each, place, ready in SCREENS if each == name)
    page.evaluate("place => { location.hash = place; }", place.format(id=conversation))
    page.wait_for_selector(ready, state="attached")
    page.wait_for_timeout(200)


def open_demo(page: Any) -> Any:
    page.wait_for_selector(".row .title")
    # The oldest, at the end of a list of which only what is in sight is drawn.
    page.locator(".windowed").evaluate("node => { node.scrollTop = node.scrollHeight; }")
    page.click("text=The demo: one trip")
    page.wait_for_selector(".turn.ai")
    return page


def test_a_newcomer_sees_the_demo_and_reads_it(page: Any) -> None:
    expect(page.locator(".row .title").filter(has_text="The demo: one trip")).to_be_visible()
    open_demo(page)
    expect(page.locator(".turn.human")).to_have_count(1)
    expect(page.locator(".seam")).to_have_count(5)
    # The report of a seam is there when it is in sight, and says what Claude did not get.
    first = page.locator(".seam").first
    expect(first).to_contain_text("anthropic/claude-sonnet-4-5")
    expect(first).to_contain_text("reasoning belongs to kimi-k2.5")
    thinking = page.locator("details.thinking").first
    expect(thinking.locator("pre")).to_be_hidden()
    thinking.locator("summary").click()
    expect(thinking.locator("pre")).to_contain_text("Step 1 of 5")
    call = page.locator("details.call").first
    call.locator("summary").click()
    expect(call).to_contain_text("hist_tool_")
    expect(call.locator(".result")).to_contain_text("plan.md")
    expect(page.locator(".turn.ai").first).to_contain_text("tokens")
    screenshot(page, "conversation")


def test_every_turn_has_a_link_and_the_conversation_can_be_taken_along(page: Any) -> None:
    open_demo(page)
    page.click("#turn-7 .permalink")
    assert re.search(r"#/c/\w+/7$", page.url)
    expect(page.locator("#turn-7.found")).to_be_in_viewport()
    for label, words in (("Export Markdown", "# The demo"), ("Export JSONL", '{"midstream":1')):
        with page.expect_download() as started:
            page.click(f"text={label}")
        assert words in Path(started.value.path()).read_text()


def test_search_and_filters(page: Any) -> None:
    page.fill(".search", "Ingrid")
    expect(page.locator(".row .snippet mark").first).to_have_text("Ingrid")
    page.click(".row")
    expect(page.locator(".turn.found, .anchor.found")).to_have_count(1)
    page.go_back()
    page.wait_for_selector("select >> option >> nth=5", state="attached")
    page.fill(".search", "")
    page.select_option("select[aria-label='Any provider']", "mistral")
    expect(page.locator(".row .title").first).to_contain_text("The demo")
    page.fill(".search", "no such words anywhere")
    expect(page.locator(".empty")).to_be_visible()


def test_ids_are_traced_across_two_wires(page: Any) -> None:
    open_demo(page)
    page.click("text=The same turn on every wire")
    page.wait_for_selector(".cell.right .pill")
    kimi = page.locator(".cell.left .pill", has_text="functions.read_file:1").first
    kimi.hover()
    lit = page.locator(".pill.lit")
    # The call and its result, on both wires: four ids that are one.
    expect(lit).to_have_count(4)
    names = lit.all_text_contents()
    assert {name for name in names if name.startswith("functions.")} == {"functions.read_file:1"}
    assert len({name for name in names if name.startswith("toolu_")}) == 1
    expect(page.locator(".knot.lit")).to_have_count(2)
    expect(page.locator(".trace")).to_contain_text("hist_tool_")
    assert page.locator(".threads path").count() >= 20
    screenshot(page, "wires")
    # Mistral's are nine characters; by the keyboard this time.
    page.select_option("select[aria-label='The right wire']", "mistral/mistral-large-latest")
    expect(page.locator(".cell.right.heading")).to_contain_text("mistral-large-latest")
    page.locator(".cell.left .pill", has_text="functions.glob:0").first.focus()
    nine = [name for name in page.locator(".pill.lit").all_text_contents() if not name.startswith("functions.")]
    assert nine and all(re.fullmatch(r"[0-9A-Za-z]{9}", name) for name in nine)
    # A raw prompt has them in its text.
    page.select_option("select[aria-label='The right wire']", "completions/kimi-k2")
    expect(page.locator(".prompt .pill").first).to_be_visible()
    expect(page.locator(".prompt .token").first).to_contain_text("<|")
    screenshot(page, "wires-prompt")


def test_notes_stand_at_their_turn_and_differences_are_marked(page: Any) -> None:
    open_demo(page)
    page.click("text=The same turn on every wire")
    # Turn 1 is Kimi's with its thinking, which Claude does not get; turn 3 is Claude's, to which Kimi's wire adds a placeholder.
    expect(page.locator(".cell.right[data-row='1'] .note.dropped")).to_contain_text("reasoning belongs to kimi-k2.5")
    expect(page.locator(".cell.left[data-row='3'] .note.adapted")).to_contain_text("placeholder")
    marked = page.locator(".cell.left[data-row='1'] .differs").all_text_contents()
    assert '"reasoning_content"' in marked and '"role"' not in marked
    page.uncheck("text=mark what differs")
    colour = page.locator(".differs").first.evaluate("node => getComputedStyle(node).backgroundColor")
    assert colour == "rgba(0, 0, 0, 0)"


def test_two_prompts_share_their_marks_and_a_prompt_has_no_keys(page: Any) -> None:
    open_demo(page)
    page.click("text=The same turn on every wire")
    page.select_option("select[aria-label='The right wire']", "completions/llama-3.3-70b")
    expect(page.locator(".cell.right.heading")).to_contain_text("llama-3.3-70b")
    page.select_option("select[aria-label='The left wire']", "anthropic/claude-sonnet-4-5")
    expect(page.locator(".cell.left.heading")).to_contain_text("claude-sonnet-4-5")
    # The words may well be in what was said; the keys are not.
    for key in ("type", "text", "content", "role"):
        # In the first row the prompt has tools, whose schemas have keys of their own.
        found = page.locator(".cell.left[data-row]:not([data-row='0']) .jk", has_text=re.compile(f'^"{key}"$'))
        assert found.count() and found.count() == found.and_(page.locator(".differs")).count(), key
    for one, other, same in (("kimi-k2", "kimi-k2-thinking", True), ("kimi-k2", "llama-3.3-70b", False)):
        link = page.url.partition("?")[0]
        page.goto(f"{link}?left=completions/{one}&right=completions/{other}")
        page.reload()
        page.wait_for_selector(".cell.right .token")
        assert page.locator(".cell.left .token").count() > 10
        marked = page.locator(".cell.left .token.differs")
        assert marked.count() == (0 if same else page.locator(".cell.left .token").count())


CROSSED = """() => {
  const box = document.querySelector('.picture').getBoundingClientRect(), found = [];
  const words = [...document.querySelectorAll('.stop > .line, .cell.right[data-row] .jl')].map((node) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    return [node, range.getBoundingClientRect()];
  });
  for (const path of document.querySelectorAll('.threads path')) for (let at = 0; at < path.getTotalLength(); at += 3) {
    const point = path.getPointAtLength(at), x = box.left + point.x, y = box.top + point.y;
    for (const [node, { left, right, top, bottom }] of words) {
      if (x > left && x < right && y > top + 3 && y < bottom - 3) found.push(`${path.dataset.call} ${node.textContent}`);
    }
  }
  return found;
}"""


@pytest.mark.parametrize("right", ["moonshot/kimi-k2.5", "anthropic/claude-sonnet-4-5", "gemini/gemini-3-pro-preview"])
def test_a_thread_crosses_no_words(page: Any, right: str) -> None:
    open_demo(page)
    page.click("text=The same turn on every wire")
    page.select_option("select[aria-label='The left wire']", "mistral/mistral-large-latest")
    page.select_option("select[aria-label='The right wire']", right)
    expect(page.locator(".cell.right.heading")).to_contain_text(right)
    page.wait_for_function("() => document.querySelectorAll('.threads path').length >= 20")
    assert page.evaluate(CROSSED) == []


@pytest.mark.parametrize(("refused", "other"), [("left", "right"), ("right", "left")])
def test_what_one_wire_refuses_stands_beside_what_the_other_sends(page: Any, refused: str, other: str) -> None:
    open_demo(page)
    page.click("text=The same turn on every wire")
    page.wait_for_selector(".cell.right .pill")
    place = page.url.partition("?")[0]
    page.goto(f"{place}?{refused}=nobody/gone&{other}=moonshot/kimi-k2.5")
    page.reload()
    expect(page.locator(f".cell.heading.{refused} .fault")).to_contain_text("nobody")
    expect(page.locator(f".cell.heading.{refused} .model")).to_have_text("nobody/gone")
    # The other is whole, with its turns, its ids and their threads; nothing is marked where nothing is to compare with.
    assert (
        page.locator(f".cell.{other}[data-row]").count() >= 10
        and page.locator(f".cell.{refused}[data-row]").count() == 0
    )
    assert page.locator(".stop").count() >= 10 and page.locator(".threads path").count() >= 5
    expect(page.locator(".differs")).to_have_count(0)
    page.locator(f".cell.{other} .pill").first.focus()
    expect(page.locator(".trace")).to_contain_text("to moonshot/kimi-k2.5 as functions.")
    expect(page.locator(".trace")).not_to_contain_text("nobody")
    screenshot(page, f"wires-refused-{refused}")
    # Another model in its place, and both are there.
    page.select_option(f"select[aria-label='The {refused} wire']", "anthropic/claude-sonnet-4-5")
    expect(page.locator(f".cell.{refused} .pill").first).to_be_visible()
    assert page.locator(".fault").count() == 0 and page.locator(".differs").count() > 5


def test_talk_streams_switches_and_shows_the_report_first(at: Callable[[str], Any]) -> None:
    page = at("/talk")
    page.select_option("select[aria-label='Model']", "sim/kimi-k2.5")
    page.fill("textarea", "Tell me about rivers, in many words, please.")
    page.keyboard.press("Enter")
    # Seen before the end: the turn is still coming, and has words already.
    page.wait_for_selector(".turn.coming .prose, .turn.coming .thinking.open")
    assert page.locator(".turn.coming").count() == 1
    screenshot(page, "talk-streaming")
    page.wait_for_selector(".turn.ai:not(.coming) .permalink")
    page.select_option("select[aria-label='Model']", "sim/claude-sonnet-4-5")
    report = page.locator(".switch")
    expect(report).to_contain_text("Before anything is sent: what sim/claude-sonnet-4-5 will see")
    expect(report).to_contain_text("dropped")
    screenshot(page, "talk-switch")
    page.fill("textarea", "And now?")
    page.click("button:has-text('Send')")
    expect(page.locator(".seam")).to_contain_text("sim/claude-sonnet-4-5", timeout=20_000)
    expect(page.locator(".turn.ai .who").last).to_have_text("sim/claude-sonnet-4-5")


def test_an_answer_can_be_stopped_and_the_conversation_goes_on(at: Callable[[str], Any]) -> None:
    page = at("/talk")
    page.select_option("select[aria-label='Model']", "sim/kimi-k2.5")
    page.fill("textarea", "Tell me about rivers, in many words, please.")
    page.keyboard.press("Enter")
    page.wait_for_selector(".turn.coming .thinking.open")
    page.click("button:has-text('Stop')")
    expect(page.locator(".turn.ai")).to_contain_text("Stopped.")
    expect(page.locator(".turn.coming")).to_have_count(0)
    assert re.search(r"#/talk/\w+$", page.url)
    place = page.url
    page.fill("textarea", "Once more, briefly.")
    page.keyboard.press("Enter")
    page.wait_for_selector(".turn.ai:not(.coming) .permalink >> nth=-1")
    expect(page.locator(".turn.human")).to_have_count(2)
    expect(page.locator(".scratch")).to_have_count(0)
    assert page.url == place


@pytest.mark.parametrize("answer", ["Refuse", "Allow once"])
def test_a_tool_waits_until_the_whole_call_was_seen(at: Callable[[str], Any], answer: str) -> None:
    page = at("/talk")
    page.select_option("select[aria-label='Model']", "sim/kimi-k2.5")
    expect(page.locator(".toolbox summary")).to_have_text("Tools: off")
    page.click(".toolbox summary")
    page.check(".toolbox input[value=read_file]")
    page.fill("textarea", "Read plan.md, then say what is in it.")
    page.keyboard.press("Enter")
    question = page.locator(".question")
    expect(question).to_contain_text("Allow read_file?", timeout=20_000)
    expect(question.locator("pre")).to_contain_text("plan.md")
    screenshot(page, "talk-question")
    question.locator(f"text={answer}").click()
    page.wait_for_selector(".turn.ai:not(.coming) .permalink >> nth=1", timeout=20_000)
    seen = page.locator("details.call").first
    seen.locator("summary").click()
    words = seen.locator(".result").text_content()
    assert ("Night train to Oslo" in words) is (answer == "Allow once")


def test_a_file_is_dropped_on_the_doctor(at: Callable[[str], Any], tmp_path: Path) -> None:
    page = at("/doctor")
    broken = [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{"}}],
        },
        {"role": "user", "content": "and?"},
    ]
    history = tmp_path / "history.json"
    history.write_text(json.dumps(broken))
    page.wait_for_selector(".drop")
    # As the system hands it over, and beside the box, too: there a browser would open the file in place of the page.
    box = page.locator(".drop").bounding_box()
    session = page.context.new_cdp_session(page)
    for x, y in ((box["x"] + 40, box["y"] + 40), (box["x"] + 40, box["y"] + box["height"] + 200)):
        page.reload()
        page.wait_for_selector(".drop")
        data = {"items": [], "files": [str(history)], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            session.send("Input.dispatchDragEvent", {"type": kind, "x": x, "y": y, "data": data})
        expect(page.locator(".verdict")).to_contain_text("broken")
        assert "#/doctor" in page.url
    expect(page.locator(".findings")).to_contain_text("unanswered call")
    expect(page.locator(".verdicts")).to_contain_text("400")
    screenshot(page, "doctor")
    with page.expect_download() as started:
        page.click("text=Download the healed copy")
    healed = tmp_path / "healed.jsonl"
    started.value.save_as(healed)
    page.set_input_files("#history-file", str(healed))
    expect(page.locator(".verdict")).to_have_text("Nothing is broken")
    # Of a file of many it says that not all are examined, nor in the copy.
    many = tmp_path / "many.jsonl"
    many.write_text("\n".join([json.dumps({"messages": broken})] * 25))
    page.set_input_files("#history-file", str(many))
    expect(page.get_by_role("status")).to_contain_text("The first 20 conversations of 25")


def test_usage_and_models(at: Callable[[str], Any]) -> None:
    page = at("/usage")
    expect(page.locator(".figures")).to_contain_text("Tokens written")
    assert page.locator(".plot rect").count() >= 5
    screenshot(page, "usage")
    page.click("nav a[data-screen=models]")
    page.fill(".search", "moonshot kimi-k2.5")
    expect(page.locator("tbody tr").first).to_contain_text("functions.name:0")
    screenshot(page, "models")


def test_talk_is_live_traffic_of_this_process(at: Callable[[str], Any]) -> None:
    page = at("/live")
    expect(page.locator(".chip.good", has_text="live")).to_be_visible()
    talk_to(page.context, page.url.partition("#")[0], "sim/mistral-large-latest")
    newest = page.locator("button.exchange", has_text="sim/mistral-large-latest").first
    expect(newest).to_contain_text("200")
    newest.click()
    expect(page.locator(".detail h2")).to_contain_text("mistral")
    page.click("role=tab[name='Upstream’s wire']")
    expect(page.locator(".panel")).to_contain_text("/chat/completions")
    expect(page.locator(".timeline rect").first).to_be_attached()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("device", "width", "height"), [("phone", 360, 740), ("desktop", 1440, 900)])
def test_every_screen_fits(served: Any, browser: Any, scheme: str, device: str, width: int, height: int) -> None:
    context, address = served
    page = context.new_page()
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.goto(address)
    open_demo(page)
    found = page.url.rpartition("/")[2]
    for name, *_ in SCREENS:
        go_to(page, name, found)
        # Nothing makes the page itself wider than the screen; what is wide scrolls in its own place.
        wide = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, (name, wide)
        screenshot(page, f"{name}-{device}-{scheme}")
    page.close()


class Line:
    """The way from a browser to a server, which can be cut: every connection is closed, and no new one is made until it is mended."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._is_down = False
        self._open: list[socket.socket] = []
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def cut(self) -> None:
        self._is_down = True
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def mend(self) -> None:
        self._is_down = False

    def close(self) -> None:
        self.cut()
        self._door.close()

    def _serve(self) -> None:
        while True:
            try:
                here, _ = self._door.accept()
            except OSError:
                return
            if self._is_down:
                here.close()
                continue
            there = socket.create_connection(("127.0.0.1", self._port))
            self._open += [here, there]
            for one, other in ((here, there), (there, here)):
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65_536):
                other.sendall(data)
        for each in (one, other):
            each.close()


def test_what_came_while_the_line_was_down_is_told(browser: Any, tmp_path: Path) -> None:
    """The stream is cut and begun again: the page says what it has heard last, and is told the rest."""
    with page_server(tmp_path) as address:
        port = urlsplit(address).port
        assert port is not None
        line = Line(port)
        context = browser.new_context()
        try:
            page = context.new_page()
            asked: list[str | None] = []
            page.on("request", lambda request: asked.append(request.headers.get("last-event-id")) if request.url.endswith("/live") else None)  # fmt: skip
            page.goto(address.replace(str(port), str(line.port), 1))
            page.click("nav a[data-screen=live]")
            expect(page.locator(".chip.good", has_text="live")).to_be_visible()
            session = page.evaluate("() => localStorage.getItem('midstream-session')")
            say(port, session, "sim/kimi-k2.5")
            expect(page.locator("button.exchange.good")).to_have_count(1)
            line.cut()
            expect(page.locator(".chip.caution", has_text="again in a moment")).to_be_visible()
            say(port, session, "sim/mistral-large-latest")
            assert page.locator("button.exchange").count() == 1
            line.mend()
            expect(page.locator("button.exchange.good")).to_have_count(2, timeout=15_000)
            expect(page.locator("button.exchange").first).to_contain_text("sim/mistral-large-latest")
            assert asked[0] is None and asked[-1] is not None and int(asked[-1]) > 0
        finally:
            context.close()
            line.close()


def say(port: int, session: str, model: str) -> None:
    """Talk without the page, to the end of the answer."""
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    headers = {"content-type": "application/json", "x-midstream-session": session}
    connection.request("POST", "/web/api/talk", json.dumps({"text": "Hello there.", "model": model}).encode(), headers)
    assert b'"stored"' in connection.getresponse().read()
    connection.close()


def talk_to(context: Any, address: str, model: str) -> None:
    """Say something in another tab."""
    other = context.new_page()
    other.goto(f"{address}#/talk")
    other.wait_for_selector("textarea")
    other.select_option("select[aria-label='Model']", model)
    other.fill("textarea", "Hello there.")
    other.keyboard.press("Enter")
    other.wait_for_selector(".turn.ai:not(.coming) .permalink")
    other.close()
