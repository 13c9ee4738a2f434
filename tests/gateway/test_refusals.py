"""Requests that are refused before they are read: the operator sees them in the log and in the metrics."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from midstream.client.catalog import Catalog
from midstream.gateway.access_log import LogFormat
from midstream.gateway.api_key import make_key
from midstream.gateway.assembly import AppOptions, GatewayApp
from midstream.gateway.config import parse_config
from midstream.gateway.state import KeyRecord, open_state

from .serving import asynchronous, served

MADE = make_key()
KEY = MADE.key.reveal()
LONG = "/v1/" + "x" * 1000
HELLO = {"model": "nobody/knows", "messages": [{"role": "user", "content": "hello"}]}
REFUSED: list[tuple[str, str, str, int, dict[str, Any]]] = [
    # method, path, key, status, and what the log says
    ("POST", "/v1/messages", "", 401, {"wire": "anthropic", "error": "unauthorized"}),
    ("POST", "/v1/chat/completions", KEY[:-1], 401, {"wire": "openai-chat", "error": "unauthorized"}),
    ("GET", "/v1/models", "", 401, {"error": "unauthorized"}),
    ("GET", "/v1/chat/completions", KEY, 405, {"error": "bad_request"}),
    ("POST", "/v1/v1/messages", KEY, 404, {"error": "not_found"}),
    ("GET", LONG, KEY, 404, {"error": "not_found", "path": LONG[:128] + "…"}),
    ("POST", "/v1/chat/completions", KEY, 404, {"tenant": "me", "asked": "nobody/knows", "path": ""}),
    ("POST", "/v1/chat/completions", KEY, 429, {"tenant": "me", "key": MADE.id, "error": "rate_limited"}),
]


@pytest.mark.parametrize("form", ["json", "text"])
@asynchronous
async def test_the_operator_sees_what_was_refused(form: LogFormat, tmp_path: Path) -> None:
    state = open_state(str(tmp_path / "state.db"))
    await state.open()
    await state.add_key(KeyRecord(MADE.id, "me", MADE.digest, "me", created=time.time(), rate=1))
    await state.close()
    with (tmp_path / "log").open("wb") as log:
        options = AppOptions(state=str(tmp_path / "state.db"), log_format=form, log_fd=log.fileno())
        app = GatewayApp(parse_config(b"", "gateway.toml"), options, catalog=Catalog(environ={}))
        async with served(app) as url, aiohttp.ClientSession() as http:
            for method, path, key, status, _ in REFUSED:
                headers = {"x-api-key": key} if key else {}
                async with http.request(method, url + path, headers=headers, json=HELLO) as answer:
                    assert answer.status == status, await answer.text()
                    if path.startswith("/v1/v1"):
                        assert "leave it out of the base URL" in await answer.text()
            async with http.get(f"{url}/metrics") as answer:
                metrics = await answer.text()
    for status, count in ((401, 3), (404, 2), (405, 1), (429, 1)):
        assert f'midstream_refused_total{{status="{status}"}} {count}.0' in metrics
    lines = (tmp_path / "log").read_text("ascii").splitlines()
    assert len(lines) == len(REFUSED) and KEY[4:20] not in str(lines)
    for line, (_, path, _, status, says) in zip(lines, REFUSED, strict=True):
        wanted = {"status": status, "path": path, **says}
        if form == "json":
            found = json.loads(line)
            assert {name: found.get(name, "") for name in wanted} == wanted
        else:
            assert (
                f" {status} " in line
                and (path[:100] in line or not wanted["path"])
                and ("path=" in line) == bool(wanted["path"])
            )
