"""What the gateway changed or left out is told by name: in a header where it is known in time, and in the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from midstream.client.catalog import Catalog
from midstream.core.handoff import Note, summarize_notes
from midstream.gateway.access_log import LogFormat
from midstream.gateway.assembly import AppOptions, GatewayApp
from midstream.gateway.config import parse_config
from midstream.sim.answer import Answer
from midstream.sim.providers import sim_providers
from midstream.sim.server import Sim
from tests.gateway.serving import asynchronous, served
from tests.gateway.test_manners import request

SUMMARIES: dict[str, tuple[list[Note], str]] = {
    "nothing": ([], ""),
    "what was kept is no news": ([Note("kept", "text", "blank_text", "")], ""),
    "an answer that was kept is": ([Note("kept", "answer", "empty_answer", "")], "empty_answer"),
    "codes are counted": ([Note("dropped", "media", "unsupported_media", "", n) for n in range(3)], "unsupported_media;n=3"),
    "options are named": (
        [Note("dropped", "option", "unsupported_option", "", name=name) for name in ("n", "seed", "n")],
        "unsupported_option: n;n=2, unsupported_option: seed",
    ),
    "a name cannot end a line, or be two": (
        [Note("dropped", "option", "unsupported_option", "", name="a,\r\nb: é")],
        "unsupported_option: a???b???",
    ),
    "nor can names be without end": (
        [Note("dropped", "option", "unsupported_option", "", name=f"x{n}") for n in range(1000)],
        ", ".join([*[f"unsupported_option: x{n}" for n in range(16)], "unsupported_option;n=984"]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SUMMARIES)
def test_notes_in_one_line(case: str) -> None:
    notes, line = SUMMARIES[case]
    assert summarize_notes(notes) == line


ASKED: list[tuple[dict[str, Any], str]] = [
    ({"n": 2}, "unsupported_option: n"),
    ({"store": True}, "unsupported_option: store"),
    ({"store": False, "metadata": {"a": "b"}}, ""),
    ({"logit_bias": {"1": 2}, "temperature": 1.5}, "unsupported_option: logit_bias, option_changed: temperature"),
    ({"stream": True}, "empty_answer"),
]
"""What a chat client asks of Claude beside a text, and what the log says of it. (The last is known too late for a header.)"""


@pytest.mark.parametrize("form", ["json", "text"])
@asynchronous
async def test_the_header_and_the_log_name_the_option(form: LogFormat, tmp_path: Path) -> None:
    def say(*_: Any, **__: Any) -> Answer:
        return Answer() if said.get("stream") else Answer("Hello.")

    with (tmp_path / "log").open("wb") as log:
        async with Sim(port=0, script=say) as doubles:
            options = AppOptions(log_format=form, log_fd=log.fileno())
            catalog = Catalog(providers=sim_providers(doubles.url), environ={})
            app = GatewayApp(parse_config(b"", "gateway.toml"), options, catalog=catalog)
            async with served(app) as url, aiohttp.ClientSession() as http:
                for said, line in ASKED:
                    path, body = request("openai-chat", "sim/claude-sonnet-4-5", stream=False)
                    async with http.post(url + path, json={**body, **said}) as answer:
                        assert answer.status == 200, await answer.text()
                        await answer.read()
                        told = answer.headers.get("x-midstream-notes", "")
                        assert told == ("" if said.get("stream") else line), said
    lines = (tmp_path / "log").read_text("ascii").splitlines()
    if form == "json":
        assert [json.loads(line).get("noted", "") for line in lines] == [line for _, line in ASKED]
    else:
        assert [f'noted="{line}"' in text or f"noted={line} " in text for text, (_, line) in zip(lines, ASKED, strict=True)] == [
            bool(line) for _, line in ASKED
        ]  # fmt: skip
