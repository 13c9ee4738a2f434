"""Hostile text in every field: nothing of it runs, the policy has nothing to stop, and the page stays as wide as it is. And
what other sites may not do with a real browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.web.browser import page_server, screenshot
from tests.e2e.web.conftest import visited, watch
from tests.e2e.web.stores import ALL, BOMBS, LINE, hostile_store
from tests.e2e.web.test_screens import expect

# Words and labels in which something is left that reorders or steers.
STEERS = r"""() => {
  const steers = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/, found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) if (steers.test(texts.currentNode.data)) found.push(texts.currentNode.parentElement.outerHTML.slice(0, 80));
  for (const node of document.querySelectorAll("[title], [aria-label], [alt]")) for (const name of ["title", "aria-label", "alt"]) if (steers.test(node.getAttribute(name) || "")) found.push(`${node.tagName} ${name}`);
  return found;
}"""


@pytest.fixture(scope="module")
def hostile(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, str, str]]:
    home = tmp_path_factory.mktemp("hostile")
    made = hostile_store(home / "own.db")
    with visited(browser, home, home / "own.db") as (context, address):
        yield context, address, made


@pytest.mark.parametrize("width", [1280, 360])
def test_nothing_runs_and_the_layout_holds(hostile: tuple[Any, str, str], width: int) -> None:
    context, address, made = hostile
    page = context.new_page()
    page.set_viewport_size({"width": width, "height": 900})
    told = watch(page)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.add_init_script(
        "window.violations = []; addEventListener('securitypolicyviolation', (event) => violations.push(event.blockedURI + event.violatedDirective));"
    )
    page.goto(address)
    for place, ready in (
        ("/conversations", ".row"),
        ("/conversations?q=script", ".row"),
        (f"/c/{made}", ".turn.ai"),
        (f"/wires/{made}/6?left=moonshot/kimi-k2.5&right=anthropic/claude-sonnet-4-5", ".pill, .fault"),
        (f"/wires/{made}/2?left=completions/kimi-k2&right=gemini/gemini-3-pro-preview", ".pill, .fault"),
        (f"/talk/{made}", ".turn"),
        ("/usage", ".figures"),
        ("/models", "tbody tr"),
        ("/__proto__", "main"),
        ("/constructor/x?toString=1", "main"),
    ):
        page.evaluate("place => { location.hash = place; }", place)
        page.wait_for_selector(ready, state="attached")
        page.evaluate("() => { for (const node of document.querySelectorAll('main details')) node.open = true; }")
        page.evaluate("() => { for (const node of document.querySelectorAll('main button.link')) node.click(); }")
        page.wait_for_timeout(200)
        wide = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, place
        assert page.evaluate(STEERS) == [], place
        # Every link was clicked, so what they lead to is in sight: the web or a place of the page, and nothing that runs.
        opened = page.evaluate("() => [...document.querySelectorAll('main a[href]')].map((node) => node.protocol)")
        assert set(opened) <= {"http:", "https:"}, place
    page.evaluate("place => { location.hash = place; }", f"/c/{made}")
    page.wait_for_selector(".turn.ai")
    screenshot(page, f"hostile-{width}")
    assert page.evaluate("() => window.canary") is None
    assert page.evaluate("() => ({}).polluted") is None
    assert page.evaluate("() => window.violations") == []
    # A picture that is none may fail to load; nothing else may complain, and nobody else is asked.
    assert [each for each in told if "ERR_INVALID_URL" not in each and "Failed to load resource" not in each] == []
    assert all(each.startswith((address, "data:image/png")) for each in asked), set(asked)
    # What would reorder or hide is written out, markup is text, and links lead nowhere but to the web.
    words = page.locator(".turn.human").first.text_content()
    assert "⟨U+202E⟩" in words and "␛[31m" in words and "<script>window.canary=1</script>" in words
    links = page.evaluate(
        "() => [...document.querySelectorAll('main a[href]')].map((node) => node.getAttribute('href'))"
    )
    assert all(each.startswith(("#", "http")) for each in links)
    assert page.locator("img").evaluate_all("nodes => nodes.map((node) => node.src.slice(0, 15))") == [
        "http://127.0.0.",
        "data:image/png;",
    ]
    page.close()


class Elsewhere(BaseHTTPRequestHandler):
    """Another site, which tries what a browser lets it."""

    target = ""

    def do_GET(self) -> None:
        page = f"""<!doctype html><title>elsewhere</title><iframe id=frame src="{self.target}/"></iframe>
<form id=form method=post action="{self.target}/web/api/live/clear" enctype="text/plain"><input name=x></form>
<script>
window.results = {{}};
for (const [name, options] of Object.entries({{plain: {{}}, nocors: {{mode: 'no-cors'}}, post: {{method: 'POST', body: '{{}}', headers: {{'content-type': 'text/plain'}}}},
  header: {{headers: {{'x-midstream-session': 'x'}}}}, json: {{method: 'POST', body: '{{}}', headers: {{'content-type': 'application/json'}}}}}}))
  fetch('{self.target}/web/api/me', options).then(async (r) => {{ results[name] = r.type + ' ' + r.status + ' ' + (await r.text()).length; }}, (e) => {{ results[name] = 'refused'; }});
import('{self.target}/web/main.js').then(() => {{ results.module = 'loaded'; }}, () => {{ results.module = 'refused'; }});
</script>"""
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, *_: object) -> None: ...


def test_other_sites_get_nothing(hostile: tuple[Any, str, str]) -> None:
    context, address, _ = hostile
    Elsewhere.target = address.rstrip("/")
    server = HTTPServer(("127.0.0.1", 0), Elsewhere)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        page = context.new_page()
        for name in ("localhost", "127.0.0.1"):
            page.goto(f"http://{name}:{server.server_port}/")
            page.wait_for_function("() => Object.keys(window.results).length === 6")
            results = page.evaluate("() => window.results")
            # An opaque answer tells nothing: no status and no length.
            assert set(results.values()) <= {"refused", "opaque 0 0"}, results
            frame = page.frame_locator("#frame").locator("body")
            assert "midstream" not in (frame.text_content() or "")
            with page.expect_navigation() as posted:
                page.evaluate("() => document.getElementById('form').submit()")
            assert posted.value.status == 403
        page.close()
    finally:
        server.shutdown()
        server.server_close()


def test_a_name_that_was_pointed_here_is_refused(hostile: tuple[Any, str, str], browser: Any) -> None:
    from tests.e2e.web.browser import ARGUMENTS

    _, address, _ = hostile
    port = address.rstrip("/").rpartition(":")[2]
    # As DNS rebinding does it: the browser takes evil.example for this machine.
    rebound = browser.browser_type.launch(
        executable_path=shutil.which("chromium"),
        args=[*ARGUMENTS, "--host-resolver-rules=MAP evil.example 127.0.0.1"],
    )
    try:
        page = rebound.new_page()
        for path in ("/", "/web/main.js", "/web/api/me"):
            answer = page.goto(f"http://evil.example:{port}{path}")
            assert answer.status == 403
    finally:
        rebound.close()


def test_without_the_token_or_with_a_used_one_the_page_says_what_to_do(browser: Any, tmp_path: Path) -> None:
    with page_server(tmp_path) as address:
        first = browser.new_context().new_page()
        first.goto(address.partition("#")[0])
        first.wait_for_selector("main.closed")
        assert "open the newest address" in first.locator("main.closed").text_content()
        first.goto(address)
        first.reload()
        first.wait_for_selector(".row")
        assert "token" not in first.url
        # The same link once more, as a click in the terminal opens it: the session is there, so it leads in.
        again = first.context.new_page()
        again.goto(address)
        again.wait_for_selector(".row")
        assert "token" not in again.url
        second = browser.new_context().new_page()
        second.goto(address)
        second.wait_for_selector("main.closed")
        assert "used before" in second.locator("main.closed").text_content()


def settle(page: Any) -> float:
    """Milliseconds until the page paints again: a script that runs for long keeps it from that."""
    return float(
        page.evaluate(
            "async () => { const begun = performance.now(); await new Promise((done) => requestAnimationFrame(() => setTimeout(done))); return performance.now() - begun; }"
        )
    )


def listening(page: Any) -> list[str]:
    """As `watch`, with what the policy had to stop and what left for elsewhere."""
    told = watch(page)
    page.on(
        "request",
        lambda request: None if urlsplit(request.url).hostname in ("127.0.0.1", None) else told.append(request.url),
    )
    page.add_init_script(
        "window.violations = []; addEventListener('securitypolicyviolation', (event) => violations.push(event.blockedURI + event.violatedDirective));"
    )
    return told


def unharmed(page: Any, told: list[str]) -> None:
    """Nothing of it ran, nothing was stopped, and the page is as wide as it was."""
    assert page.evaluate("() => [window.canary ?? null, ({}).polluted ?? null, violations.length]") == [None, None, 0]
    assert page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    assert page.evaluate(STEERS) == []
    assert [each for each in told if "400 (Bad Request)" not in each] == []


@pytest.mark.parametrize("width", [1280, 360])
def test_long_lines_and_costly_text_hold_up_nobody(hostile: tuple[Any, str, str], width: int) -> None:
    context, address, _ = hostile
    page = context.new_page()
    page.set_viewport_size({"width": width, "height": 900})
    told = listening(page)
    page.goto(address)
    page.wait_for_selector(".row .title")
    links = {
        row.text_content()[:5]: row.get_attribute("href") for row in page.locator("a.row").all() if row.text_content()
    }
    for title in ("bombs", "zzzzz", "wider"):
        page.evaluate("place => { location.hash = place; }", links[title])
        page.wait_for_selector(".turn.ai")
        page.evaluate("() => { for (const node of document.querySelectorAll('main details')) node.open = true; }")
        settle(page)
        unharmed(page, told)
        page.evaluate("place => { location.hash = place; }", links[title].replace("#/c/", "/wires/") + "/1")
        page.wait_for_selector(".columns, .fault")
        settle(page)
        unharmed(page, told)
    for place in ("/conversations", "/usage", links["wider"].replace("#/c/", "/talk/")):
        page.evaluate("place => { location.hash = place; }", place)
        page.wait_for_selector(".row .title, .figures, .talk .turn")
        settle(page)
        unharmed(page, told)
    page.close()


@pytest.mark.parametrize("pair", [("moonshot/kimi-k2.5", "anthropic/claude-sonnet-4-5"), ("cohere/command-a-03-2025", "ollama/qwen3:4b"), ("completions/kimi-k2", "gemini/gemini-3-pro-preview")])  # fmt: skip
def test_odd_ids_are_traced_and_of_many_the_first_are_drawn(
    hostile: tuple[Any, str, str], pair: tuple[str, str]
) -> None:
    context, address, _ = hostile
    page = context.new_page()
    told = listening(page)
    page.goto(address)
    place = page.locator("a.row", has=page.locator(".title", has_text=re.compile("^odd$"))).get_attribute("href")
    page.evaluate("place => { location.hash = place; }", place.replace("#/c/", "/wires/") + f"/4?left={pair[0]}&right={pair[1]}")  # fmt: skip
    for knot in page.locator(".knot").all():
        knot.focus()
        expect(page.locator(".trace")).to_contain_text(f"stored as {knot.get_attribute('data-call')}")
    assert page.locator("main *").count() < 5_000
    # The rest is there when it is asked for.
    more = page.locator("pre button.more", has_text="59,900 more" if "ollama" in pair[1] else "more").first
    before = page.locator("main *").count()
    more.click()
    page.wait_for_function("before => document.querySelectorAll('main *').length > before", arg=before)
    unharmed(page, told)
    page.close()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\u202eabc\u2066", "⟨U+202E⟩abc⟨U+2066⟩"),
        ("a\u206a\u180e\u3164\ufff9b", "a⟨U+206A⟩⟨U+180E⟩⟨U+3164⟩⟨U+FFF9⟩b"),
        ("hi\U000e0068\U000e0069", "hi⟨U+E0068⟩⟨U+E0069⟩"),
        ("\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", None),  # a flag
        ("e" + "\u0301" * 10_000 + "x", "e" + "\u0301" * 10 + "⟨9990 more marks⟩x"),
        ("e" + "\ufe0f\U000e0100" * 20, "e" + "\ufe0f\U000e0100" * 5 + "⟨30 more marks⟩"),
        ("שָׁלוֹם สวัสดี नमस्ते 👩‍👩‍👧 é", None),
    ],
)
def test_what_hides_or_covers_is_written_out(hostile: tuple[Any, str, str], text: str, shown: str | None) -> None:
    context, address, _ = hostile
    page = context.new_page()
    page.goto(address)
    made = page.evaluate("async (text) => (await import('/web/dom.js')).visible(text)", text)
    page.close()
    assert made == (text if shown is None else shown)


_STUB = "curl() { printf '%s\\0' \"$@\"; }\n"
# What a shell, or the terminal into which a command is pasted, does something with.
_SHELL = (
    "it's", "$(touch canary)", "`touch canary`", "$HOME ${x}", "a\nb\n\ntouch canary\n", "\\", "\\'", "'", "''\"", "!!", "!x\t", "@/etc/passwd", "-o x", "#", "~", "*", "{a,b}", "[1-9]", ";&|<>()",
    "\x03\ntouch canary\n", "\x1b[201~\ntouch canary\n", "\x9b201~\r", "\x04\x15\x7f", "tab\there", "\t'\\!\u00e9\u202e", "\u2028\U0001f600", "\b\v\f\a\x1a",
)  # fmt: skip


@pytest.mark.parametrize("word", _SHELL, ids=repr)
def test_a_copied_command_says_what_was_sent_and_types_nothing(
    hostile: tuple[Any, str, str], tmp_path: Path, word: str
) -> None:
    context, address, _ = hostile
    page = context.new_page()
    page.goto(address)
    line, plain = word.replace("\n", " "), f"http://127.0.0.1:1/{word}"
    command = page.evaluate(
        "async (given) => (await import('/web/dom.js')).curlOf(...given)",
        ["POST", plain, {"x-a": line, "x-empty": "", "authorization": "‹hidden›"}, f'{{"a": "{word}'],
    )
    page.close()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", command)
    script = tmp_path / "script"
    script.write_text(_STUB + command)
    ran = subprocess.run(["bash", str(script)], capture_output=True, cwd=tmp_path, check=True, timeout=20)
    words = ran.stdout.decode().split("\0")[:-1]
    if any(sign in plain for sign in "[]{}"):
        assert words.pop(0) == "-g"
    assert words == ["-X", "POST", plain, "-H", f"x-a: {line}", "-H", "x-empty;", "-H", "authorization: Bearer YOUR_KEY", "--data-raw", f'{{"a": "{word}']  # fmt: skip
    assert ran.stderr == b"" and not (tmp_path / "canary").exists()


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda text: repr(text[:12]))
def test_no_text_is_slow_to_read(hostile: tuple[Any, str, str], bomb: str) -> None:
    """What is read in one pass takes milliseconds; an expression that tries every place from every place takes seconds."""
    context, address, _ = hostile
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector(".row .title")
    # The quickest of three: a busy machine slows down some, a careless expression all.
    taken = page.evaluate(
        """async (text) => {
          const { prose } = await import("/web/text.js");
          const once = () => { const begun = performance.now(); prose(text); return performance.now() - begun; };
          return Math.min(once(), once(), once());
        }""",
        bomb,
    )
    assert taken < 1_500
    page.close()


def test_hostile_words_in_talk_stream_as_words(served: Any) -> None:
    context, address = served
    page = context.new_page()
    told = listening(page)
    page.goto(f"{address}#/talk")
    page.wait_for_selector("textarea")
    page.select_option("select[aria-label='Model']", "sim/kimi-k2.5")
    page.fill("textarea", ALL)
    page.click("button:has-text('Send')")
    page.wait_for_selector(".turn.ai:not(.coming) .permalink", timeout=30_000)
    # The double repeats what it was told, so the answer is as hostile as the question.
    expect(page.locator(".turn.ai .prose").last).to_contain_text("<script>window.canary=1</script>")
    unharmed(page, told)
    # A call that is asked about, with markup in its arguments.
    page.evaluate("() => { location.hash = '/talk'; }")
    page.wait_for_selector(".empty")
    page.select_option("select[aria-label='Model']", "sim/kimi-k2.5")
    page.click(".toolbox summary")
    page.check(".toolbox input[value=read_file]")
    page.fill("textarea", "Call read_file with path '<img src=x onerror=window.canary=1>'.")
    page.click("button:has-text('Send')")
    expect(page.locator(".question pre")).to_contain_text("<img src=x onerror=window.canary=1>", timeout=20_000)
    page.click("text=Refuse")
    page.wait_for_selector(".turn.ai:not(.coming) .permalink >> nth=1", timeout=20_000)
    unharmed(page, told)
    page.close()


def test_a_hostile_file_is_examined_as_text(served: Any) -> None:
    context, address = served
    page = context.new_page()
    told = listening(page)
    page.goto(f"{address}#/doctor")
    call = {"id": ALL, "type": "function", "function": {"name": ALL, "arguments": ALL}}
    history = [{"role": "user", "content": ALL}, {"role": "assistant", "content": ALL, "tool_calls": [call]}, {"role": ALL, "content": LINE}]  # fmt: skip
    name = "<img src=x onerror=window.canary=1>.json"
    for messages in (history, history[:2], {"__proto__": {"polluted": 1}, "messages": history[:2]}):
        data = json.dumps(messages).encode()
        page.set_input_files("#history-file", {"name": name, "mimeType": "application/json", "buffer": data})
        expect(page.locator(".verdict, .fault").first).to_be_visible(timeout=20_000)
        settle(page)
        unharmed(page, told)
    expect(page.locator(".card h2")).to_have_text(name)
    page.close()


def test_hostile_traffic_is_shown_as_text(browser: Any, tmp_path: Path) -> None:
    with page_server(tmp_path, command=("serve", "--port", "0", "--page", "--log-format", "none")) as address:
        page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        told = listening(page)
        page.goto(address)
        page.click("nav a[data-screen=live]")
        host = urlsplit(address).netloc
        mark = "<img src=x onerror=window.canary=1>"
        for model, body in (
            ("sim/kimi-k2.5", {"messages": [{"role": "user", "content": ALL}]}),
            ("sim/claude-sonnet-4-5", {"messages": [{"role": "user", "content": LINE}]}),
            (ALL, {"messages": [{"role": "user", "content": "hi"}]}),
            (f"sim/{mark}", {"messages": [{"role": mark, "content": mark}], "__proto__": {"polluted": 1}}),
        ):
            connection = HTTPConnection(host, timeout=20)
            headers = {"content-type": "application/json", "user-agent": mark, "x-mark": mark, "x-own-token": "a-secret-of-mine"}  # fmt: skip
            connection.request("POST", "/v1/chat/completions", json.dumps({"model": model, **body}).encode(), headers)
            connection.getresponse().read()
            connection.close()
        expect(page.locator("button.exchange")).to_have_count(4)
        for number in range(4):
            page.locator("button.exchange").nth(number).click()
            page.wait_for_selector(".detail h2 >> visible=true")
            for tab in ("Client’s wire", "Canonical", "Upstream’s wire"):
                page.click(f"role=tab[name='{tab}']")
                page.evaluate(
                    "() => { for (const node of document.querySelectorAll('main details')) node.open = true; }"
                )
                settle(page)
                unharmed(page, told)
            page.click("role=tab[name='Client’s wire']")
            expect(page.locator(".panel")).to_contain_text("x-own-token: ‹hidden›", use_inner_text=False)
        assert "a-secret-of-mine" not in page.content()
        page.context.close()
