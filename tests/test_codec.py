"""The codec as a whole: what its functions take, and that threads may share it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from midstream import Conversation, Options, Text, ToolSpec, Turn, decode_stream, encode_request, human, resolve
from midstream.client.catalog import Catalog
from midstream.client.config import Config
from midstream.core.errors import LocalError, UnknownModel
from midstream.wires.history_cache import HistoryCache
from midstream.wires.request import parse_request


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty_threads")
@pytest.mark.parametrize("model", ["openai/gpt-4o", "anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-pro"])
def test_threads_that_share_a_cache_do_not_write_into_each_others_requests(model: str) -> None:
    told = tuple([human(f"q{n}") if n % 2 == 0 else Turn("ai", (Text(f"a{n}"),), key=f"t{n}") for n in range(21)])
    cache = HistoryCache(max_entries=3)

    def grow(thread: int) -> bool:
        same = True
        for length in range(1, len(told), 2):
            talk = Conversation((*told[:length], human(f"thread {thread}")))
            alone = encode_request(model, talk, cache=None).body
            same = same and encode_request(model, talk, cache=cache).body == alone
            same = same and encode_request(model, Conversation(told[:length]), cache=cache).method == "POST"
        return same

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(grow, range(64)))


def test_a_tool_that_is_not_there_cannot_be_chosen() -> None:
    tools = [ToolSpec("look"), ToolSpec("listen")]
    asked = Conversation((human("hi"),))
    for choice in ("auto", "none", "required", "listen", None):
        encode_request("openai/gpt-4o", asked, tools=tools, options=Options(tool_choice=choice))
    with pytest.raises(LocalError, match=r"tool_choice='lok'.*the tools are: look, listen"):
        encode_request("openai/gpt-4o", asked, tools=tools, options=Options(tool_choice="lok"))
    with pytest.raises(LocalError, match=r"the tools are: \(none\)"):
        encode_request("openai/gpt-4o", asked, options=Options(tool_choice="look"))


@pytest.mark.parametrize(
    "wire, body",
    [
        ("openai-chat", {"messages": [], "reasoning_effort": "default"}),
        ("openai-responses", {"input": "x", "reasoning": {"effort": "default"}}),
        ("anthropic", {"messages": [], "thinking": {"type": "adaptive"}, "output_config": {"effort": "default"}}),
        ("gemini", {"contents": [], "generationConfig": {"thinkingConfig": {"thinkingLevel": "default"}}}),
        ("ollama", {"messages": [], "think": "default"}),
    ],
)
def test_an_effort_of_a_stranger_that_we_have_no_word_for_is_passed_on(wire: str, body: dict[str, Any]) -> None:
    options = parse_request(wire, json.dumps(body).encode()).options
    assert options.effort is None and "default" in str(options.extra_body)


def test_a_plain_string_is_a_conversation_of_one_human_turn() -> None:
    asked = encode_request("openai/gpt-4o", Conversation((human("hi"),)))
    assert encode_request("openai/gpt-4o", "hi") == asked


SAID = b'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def test_a_stream_may_come_in_one_piece() -> None:
    assert list(decode_stream(SAID, turn_key="k")) == list(decode_stream([SAID], turn_key="k"))


@pytest.mark.parametrize("name", ["moonshot/kimi-k2.5", "moonshot:kimi-k2.5", "moonshot-k2.5"])
def test_a_dialect_may_be_named_by_a_model_that_speaks_it(name: str) -> None:
    found = resolve("moonshot/kimi-k2.5")
    done = list(decode_stream(SAID, dialect=name, turn_key="k", model="" if "kimi" in name else "kimi-k2.5"))[-1]
    assert done == list(decode_stream(SAID, dialect=found.dialect, turn_key="k", model="kimi-k2.5"))[-1]


def test_a_dialect_that_is_none_is_said() -> None:
    for name in ("nobody/x", "nonsense"):
        with pytest.raises(UnknownModel, match="unknown "):
            decode_stream(SAID, dialect=name)


def test_a_conversation_where_the_model_belongs_is_said() -> None:
    told = Conversation((human("hi"),))
    for swapped in (told, told.turns[0]):
        with pytest.raises(TypeError, match=r"a model first .* swap the two arguments"):
            encode_request(swapped, "openai/gpt-4o")  # type: ignore[arg-type]


def test_a_request_for_a_configured_model_is_made_by_what_its_catalog_resolves() -> None:
    config = Config(aliases={"fast": "openai/gpt-4o"})
    with pytest.raises(UnknownModel):
        encode_request("fast", "hi")
    assert encode_request(Catalog(config, environ={}).resolve("fast"), "hi") == encode_request("openai/gpt-4o", "hi")
