"""The codec as a whole: what its functions take, and that threads may share it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from midstream import Conversation, Text, Turn, encode_request, human
from midstream.wires.outgoing import HistoryCache


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
            alone = encode_request(talk, model, cache=None).body
            same = same and encode_request(talk, model, cache=cache).body == alone
            same = same and encode_request(Conversation(told[:length]), model, cache=cache).method == "POST"
        return same

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(grow, range(64)))
