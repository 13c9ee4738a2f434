"""The page at `/` of a real gateway: a call of the official SDK shows up while it streams, on all three wires."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.e2e.web.browser import page_server, screenshot
from tests.e2e.web.conftest import watch

openai = pytest.importorskip("openai", reason="the openai SDK is not installed (run make test-e2e, which installs it)")
SERVE = ("serve", "--port", "0", "--page", "--log-format", "none")


@pytest.fixture(scope="module")
def gateway(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, str]]:
    with page_server(tmp_path_factory.mktemp("gateway"), command=SERVE) as address:
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        told = watch(page)
        page.goto(address)
        page.wait_for_selector("nav a")
        yield page, address.partition("/#")[0]
        page.context.close()
        assert told == []


def test_a_call_of_the_sdk_is_live_traffic(gateway: tuple[Any, str]) -> None:
    from playwright.sync_api import expect

    page, url = gateway
    page.click("nav a[data-screen=live]")
    expect(page.locator(".chip.good", has_text="live")).to_be_visible()
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="a-key-that-nobody-may-see")
    question = [{"role": "user", "content": "Tell me about rivers, in many words, please."}]
    words = ""
    for chunk in client.chat.completions.create(model="sim/claude-sonnet-4-5", messages=question, stream=True):
        words += chunk.choices[0].delta.content or "" if chunk.choices else ""
    assert words
    row = page.locator("button.exchange").first
    expect(row).to_contain_text("sim/claude-sonnet-4-5")
    expect(row).to_contain_text("200")
    row.click()
    detail = page.locator(".detail")
    expect(detail.locator(".panel")).to_contain_text("/v1/chat/completions")
    expect(detail.locator(".panel")).to_contain_text("Tell me about rivers")
    expect(detail.locator(".timeline rect").first).to_be_attached()
    detail.locator("summary", has_text="Headers").click()
    expect(detail.locator(".panel")).to_contain_text("authorization: ‹hidden›")
    page.click("role=tab[name='Canonical']")
    expect(detail.locator(".panel")).to_contain_text('"speaker": "ai"')
    page.click("role=tab[name='Upstream’s wire']")
    expect(detail.locator(".panel")).to_contain_text("/v1/messages")
    expect(detail.locator(".panel")).to_contain_text("content_block_delta")
    expect(detail.locator(".panel h3")).to_have_text("Answer: 200")
    # From tab to tab with the arrows, as tabs are used without a pointer.
    page.keyboard.press("ArrowLeft")
    expect(page.locator("role=tab[name='Canonical']")).to_be_focused()
    detail.locator("summary", has_text="What was asked").click()
    expect(detail.locator(".panel")).to_contain_text("Tell me about rivers")
    page.keyboard.press("Escape")
    expect(detail).to_be_hidden()
    page.locator("button.exchange").first.click()
    page.click("role=tab[name='Upstream’s wire']")
    screenshot(page, "live-detail")
    assert "a-key-that-nobody-may-see" not in page.content()


def test_filter_pause_and_clear(gateway: tuple[Any, str]) -> None:
    from playwright.sync_api import expect

    page, url = gateway
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)
    for model in ("sim/kimi-k2.5", "sim/mistral-large-latest"):
        client.chat.completions.create(model=model, messages=[{"role": "user", "content": "hi"}])
    with pytest.raises(openai.APIStatusError):
        client.chat.completions.create(model="nobody/x", messages=[{"role": "user", "content": "hi"}])
    page.click("nav a[data-screen=live]")
    # The screen as it was left is there until the address has changed, a moment after the click.
    expect(page.locator(".detail")).to_be_hidden()
    page.fill(".search", "mistral 200")
    expect(page.locator("button.exchange")).to_have_count(1)
    page.fill(".search", "nobody")
    expect(page.locator("button.exchange.bad")).to_have_count(1)
    page.fill(".search", "")
    page.click("text=Pause")
    # The list is painted anew in the next frame, all of it at once: count it when the others are back.
    expect(page.locator("button.exchange:not(.bad)").first).to_be_visible()
    before = page.locator("button.exchange").count()
    client.chat.completions.create(model="sim/kimi-k2.5", messages=[{"role": "user", "content": "hi"}])
    expect(page.locator(".bar")).to_contain_text("waiting")
    assert page.locator("button.exchange").count() == before
    page.click("text=Go on")
    expect(page.locator("button.exchange")).to_have_count(before + 1)
    page.click("text=Clear")
    expect(page.locator("button.exchange")).to_have_count(0)
    page.reload()
    expect(page.locator(".empty")).to_be_visible()


def test_a_page_of_another_site_cannot_ask_and_its_try_is_seen(gateway: tuple[Any, str]) -> None:
    from playwright.sync_api import expect

    page, url = gateway
    elsewhere = page.context.new_page()
    form = f"""<form method="post" enctype="text/plain" action="{url}/v1/chat/completions">
      <input name='{{"model": "sim/gpt-4o", "messages": [{{"role": "user", "content": "hi"}}], "user": "' value='"}}'><button>A prize</button></form>"""
    elsewhere.route("http://evil.example/", lambda route: route.fulfill(body=form, content_type="text/html"))
    elsewhere.goto("http://evil.example/")
    with elsewhere.expect_response(f"{url}/**") as told:
        elsewhere.click("button")
    assert told.value.status == 403
    elsewhere.close()
    page.click("nav a[data-screen=live]")
    page.fill(".search", "403")
    row = page.locator("button.exchange.bad")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("/v1/chat/completions")
    row.click()
    expect(page.locator(".detail .panel")).to_contain_text("web pages of other sites may not ask")
    # Its body was never read, so there is no whole request to be copied.
    assert page.locator(".detail button", has_text="Copy as curl").count() == 0
    page.keyboard.press("Escape")
    page.fill(".search", "")
    page.click("text=Clear")
    expect(page.locator("button.exchange")).to_have_count(0)


def test_the_command_asks_for_what_the_client_asked_for(gateway: tuple[Any, str]) -> None:
    """The address with its query: without alt=sse, Gemini's answer would be another one."""
    from playwright.sync_api import expect

    page, url = gateway
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    asked = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    wanted = Request(
        f"{url}/v1beta/models/sim%2Fkimi-k2.5:streamGenerateContent?alt=sse&key=a-secret-of-mine",
        json.dumps(asked).encode(),
        {"content-type": "application/json"},
    )
    with urlopen(wanted, timeout=20) as answer:
        answer.read()
    page.click("nav a[data-screen=live]")
    page.locator("button.exchange").first.click()
    expect(page.locator(".panel .line")).to_contain_text("alt=sse")
    page.click("text=Copy as curl")
    expect(page.locator("text=Copied")).to_be_visible()
    command = page.evaluate("() => navigator.clipboard.readText()")
    assert ":streamGenerateContent?alt=sse&key=YOUR_KEY'" in command
    assert "a-secret-of-mine" not in command


def test_a_newcomer_needs_the_address(gateway: tuple[Any, str], browser: Any) -> None:
    _, url = gateway
    page = browser.new_context().new_page()
    page.goto(url)
    page.wait_for_selector("main.closed")
    page.fill("input[type=password]", "msk_guess")
    page.keyboard.press("Enter")
    page.locator("[role=status]", has_text="open the address").wait_for()
