"""Recordings judged by programs that nobody here wrote: the official SDKs record through one server and read from the other without noticing, and vcrpy
replays what is exported for it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anthropic
import openai
import pytest
import vcr
from msgspec.structs import replace
from vcr.serialize import deserialize
from vcr.serializers import yamlserializer

from midstream.recording import Cassette, Chunk, RecordedHead
from midstream.recording.vcr import to_vcr
from midstream.testing import Answer, Call, sim_server
from tests.recording.exchanges import exchange

KEY = "sk-canary-7f3a90b2c4d1e6f8a5"
ASK: Any = [{"role": "user", "content": "How is it in Oslo?"}]
PARAMETERS: Any = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION: Any = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}
TOOL: Any = {"name": "get_weather", "input_schema": PARAMETERS}
LINES = (Answer("Let me look. 天気 😀", "Oslo …", (Call("get_weather", {"city": "Oslo"}),)), "It rains in Oslo.")


@contextmanager
def midstream(*words: str) -> Iterator[str]:
    """The command as a process of its own, and the origin that it shows."""
    command = [sys.executable, "-m", "midstream.cli.main", *words, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        shown = re.findall(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
        try:
            yield shown[-1]
        finally:
            process.send_signal(signal.SIGINT)
            process.stdout.read()
    assert process.returncode == 0


def chat(origin: str) -> Any:
    """Two rounds with a tool, the first streamed, by OpenAI's SDK."""
    with openai.OpenAI(base_url=f"{origin}/openai", api_key=KEY, max_retries=0) as client:
        with client.chat.completions.stream(model="gpt-4o", messages=ASK, tools=[FUNCTION]) as stream:
            events = [event.type for event in stream]
            first = stream.get_final_completion().choices[0].message
        (call,) = first.tool_calls or ()
        said = {
            "role": "assistant",
            "content": first.content,
            "tool_calls": [call.model_dump(include={"id", "type", "function"})],
        }
        said["tool_calls"][0]["function"] = {"name": call.function.name, "arguments": call.function.arguments}
        result = {"role": "tool", "tool_call_id": call.id, "content": "rain"}
        messages: Any = [*ASK, said, result]
        last = client.chat.completions.create(model="gpt-4o", messages=messages, tools=[FUNCTION])
        return events, first.model_dump(), last.model_dump()


def messages(origin: str) -> Any:
    """The same by Anthropic's."""
    with anthropic.Anthropic(base_url=f"{origin}/anthropic", api_key=KEY, max_retries=0) as client:
        model = "claude-sonnet-5"
        with client.messages.stream(model=model, max_tokens=999, messages=ASK, tools=[TOOL]) as stream:
            events = [event.type for event in stream]
            first = stream.get_final_message()
        call = next(block for block in first.content if block.type == "tool_use")
        said: Any = [block.model_dump(exclude_none=True) for block in first.content]
        for block in said:
            block.pop("parsed_output", None)
        answer: Any = [{"type": "tool_result", "tool_use_id": call.id, "content": "rain"}]
        turns: Any = [*ASK, {"role": "assistant", "content": said}, {"role": "user", "content": answer}]
        last = client.messages.create(model=model, max_tokens=999, messages=turns, tools=[TOOL])
        return events, first.model_dump(), last.model_dump()


def error(origin: str) -> Any:
    with openai.OpenAI(base_url=f"{origin}/openai", api_key=KEY, max_retries=0) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(model="gpt-4o", messages=[])
        return caught.value.status_code, caught.value.body


@pytest.mark.parametrize("program", [chat, messages, error])
@pytest.mark.parametrize("pace", ["chunks", "bytes"])
def test_an_sdk_does_not_notice(program: Callable[[str], Any], pace: str, tmp_path: Path) -> None:
    with sim_server(*LINES) as sim:
        with midstream("record", "serve", sim.url, "--into", str(tmp_path)) as origin:
            recorded = program(origin)
        assert program is error or not sim.refused
        asked = sim.requests
    with midstream("replay", "serve", str(tmp_path), "--pace", pace, "--once") as origin:
        assert program(origin) == recorded
    files = Cassette(tmp_path).files()
    assert len(files) == asked == (1 if program is error else 2)
    assert KEY not in "".join([file.read_text() for file in files])


def test_vcrpy_replays_what_is_exported(tmp_path: Path) -> None:
    def ask(url: str, text: str) -> bytes:
        body = json.dumps({"messages": [{"content": text, "role": "user"}], "model": "gpt-4o", "stream": True}).encode()
        headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as answer:
            data: bytes = answer.read()
            return data

    texts = ["hello", '天気 😀 \u2028 \x7f "quoted" \\ back']
    with sim_server("fine", LINES[0]) as sim, midstream("record", "serve", sim.url, "--into", str(tmp_path)) as origin:
        recorded = [ask(f"{origin}/openai/chat/completions", text) for text in texts]
    found = [exchange for _, exchange in Cassette(tmp_path).read()]
    (tmp_path / "cassette.yaml").write_text(to_vcr(found), "utf-8")
    host = urlsplit(found[0].request.url)
    with vcr.VCR(record_mode="none", match_on=["method", "uri", "body"]).use_cassette(
        str(tmp_path / "cassette.yaml")
    ) as tape:
        # The host is gone: what answers is the tape.
        replayed = [ask(f"http://{host.netloc}/openai/chat/completions", text) for text in texts]
        assert replayed == recorded and tape.all_played


def test_vcrpy_reads_bytes() -> None:
    made = replace(
        exchange(1), ending="clean", head=RecordedHead(200, {}), chunks=(Chunk(0, b"\xff\xfe\x00"), Chunk(1, b"\xc3"))
    )
    _, responses = deserialize(to_vcr([made]), yamlserializer)
    assert responses[0]["body"]["string"] == b"\xff\xfe\x00\xc3"
