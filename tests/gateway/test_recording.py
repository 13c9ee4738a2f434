"""A gateway that records: what its hosts said is in files, and nobody's key."""

from __future__ import annotations

from pathlib import Path

from midstream.doctor import read_answer
from midstream.recording import Cassette

from .serving import asynchronous, gate

KEY = "sk-canary-7f3a90b2c4d1e6f8"
HEADER = "x-midstream-provider-key"


@asynchronous
async def test_every_exchange_with_a_host_is_kept(tmp_path: Path) -> None:
    config = (
        f"[server]\nrecord = {str(tmp_path)!r}\nrecord_scrub = ['acct_\\d+']\n[defaults]\npass_client_keys = true\n"
    )
    async with gate(config) as here:
        here.sim.inject("500")
        asked = {
            "model": "moonshot/kimi-k2.5",
            "stream": True,
            "messages": [{"role": "user", "content": "hello, acct_77"}],
        }
        streamed = await here.stream("/v1/chat/completions", asked, **{HEADER: KEY})
        whole = {"model": "openai/gpt-4o", "max_tokens": 99, "messages": [{"role": "user", "content": "hi"}]}
        status, _, _ = await here.post("/v1/messages", whole, **{HEADER: KEY})
    assert status == 200 and streamed.endswith(b"[DONE]\n\n")
    found = [exchange for _, exchange in Cassette(tmp_path).read()]
    assert [exchange.status for exchange in found] == [500, 200, 200]
    assert [read_answer(exchange).model for exchange in found[1:]] == ["moonshot/kimi-k2.5", "openai/gpt-4o"]
    turn = read_answer(found[2]).turn
    assert turn is not None and turn.text.endswith("You said: hi")
    written = "".join([path.read_text() for path in Cassette(tmp_path).files()])
    assert KEY not in written and "hello, ***" in written and "acct_" not in written
