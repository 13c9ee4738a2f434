"""`midstream serve` as an operator runs it: providers' addresses and keys from the environment, a key of its own for the client.

The doubles want the operator's key. Anthropic's SDK runs one loop whose alias leads to another host in each round.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anthropic
import pytest

from midstream.dialects.registry import REGISTRY
from midstream.gateway.seal import PREFIX
from midstream.testing import SimServer, sim_server
from tests.e2e.test_clients import TOOLS

OPERATORS_KEY = "sk-of-the-operator-1234567890"
ALIAS = "claude-sonnet-5"
MODELS = {
    "moonshot": "kimi-k2.5",
    "anthropic": "claude-sonnet-5",
    "openai-responses": "gpt-5.2",
    "gemini": "gemini-3-pro-preview",
    "mistral": "mistral-large-latest",
}
ORDER = [*MODELS, "moonshot", "anthropic", "openai-responses"]
ASK = "Read a.txt and read b.txt, then list files, then read c.txt, then read d.txt and list files, then read e.txt, then list files, then read f.txt, then read g.txt"
_BOUND = 30.0


class Command(NamedTuple):
    url: str
    key: str
    config: Path
    doubles: SimServer
    process: subprocess.Popen[str]

    def point(self, provider: str) -> None:
        """Let the alias lead to this provider's model, without a restart."""
        self.config.write_text(f'[aliases]\n{ALIAS} = "{provider}/{MODELS[provider]}"\n')
        self.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + _BOUND
        with anthropic.Anthropic(base_url=self.url, api_key=self.key, max_retries=0) as api:
            while True:
                raw = api.messages.with_raw_response.create(
                    model=ALIAS, max_tokens=100, messages=[{"role": "user", "content": "hi"}]
                )
                if raw.headers["x-midstream-model"] == f"{provider}/{MODELS[provider]}":
                    return
                assert time.monotonic() < deadline, "the alias still leads elsewhere"
                time.sleep(0.05)


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with sim_server(key=OPERATORS_KEY) as doubles:
        environ = {
            "PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8", "XDG_CONFIG_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path),
        }  # fmt: skip
        config = tmp_path / "gateway.toml"
        config.write_text(f'[aliases]\n{ALIAS} = "moonshot/kimi-k2.5"\n')
        for provider in MODELS:
            endpoint = REGISTRY.providers[provider].endpoint
            environ[endpoint.base_env[0]] = doubles.base_url(provider)
            environ[endpoint.key_env[0]] = OPERATORS_KEY
        program = [str(Path(sys.executable).with_name("midstream"))]
        store = ["--store", str(tmp_path / "gateway.db")]
        made = subprocess.run(
            [*program, "gateway", "keys", "create", "--name", "me", *store],
            env=environ, capture_output=True, text=True, check=True, timeout=_BOUND,
        )  # fmt: skip
        serve = [*program, "serve", "--port", "0", "--config", str(config), "--log-format", "none", *store]
        with subprocess.Popen(serve, env=environ, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            try:
                said = ""
                while (found := re.search(r"gateway at (http://\S+?);", said)) is None:
                    line = process.stderr.readline()
                    assert line, f"it did not start: {said}"
                    said += line
                yield Command(found[1], made.stdout.strip(), config, doubles, process)
            finally:
                process.terminate()
                process.communicate(timeout=_BOUND)
        assert process.returncode == 0


def test_one_loop_goes_through_eight_rounds_and_five_hosts(command: Command) -> None:
    tools: Any = [
        {"name": name, "description": tool["description"], "input_schema": tool["parameters"]}
        for name, tool in TOOLS.items()
    ]
    thinking: Any = {"type": "adaptive", "display": "summarized"}
    messages: list[Any] = [{"role": "user", "content": ASK}]
    asked: list[tuple[str, dict[str, Any]]] = []
    with anthropic.Anthropic(base_url=command.url, api_key=command.key, max_retries=0) as api:
        for provider in ORDER:
            command.point(provider)
            answer = api.messages.create(
                model=ALIAS, max_tokens=5000, messages=messages, tools=tools, thinking=thinking
            )
            asked.append((command.doubles.seen[-1].path, command.doubles.seen[-1].body))
            calls = [block for block in answer.content if block.type == "tool_use"]
            assert calls, provider
            messages.append({"role": "assistant", "content": [block.to_dict() for block in answer.content]})
            results = [
                {"type": "tool_result", "tool_use_id": call.id, "content": f"{call.name} says {call.input}"} for call in calls
            ]  # fmt: skip
            messages.append({"role": "user", "content": results})
        command.point("mistral")
        last = api.messages.create(model=ALIAS, max_tokens=5000, messages=messages, tools=tools, thinking=thinking)
    text = "".join([block.text for block in last.content if block.type == "text"])
    assert all(f"{name}.txt" in text for name in "abcdefg")
    assert command.doubles.refused == [] and {seen.status for seen in command.doubles.seen} == {200}
    assert [path.split("/")[1] for path, _ in asked] == ORDER
    # Kimi is back in round six, with its own reasoning of round one and nobody else's.
    again = [each for each in asked[5][1]["messages"] if each["role"] == "assistant"]
    assert "Step 1 of 8" in again[0]["reasoning_content"]
    assert not [each for each in again[1:] if "Step" in (each.get("reasoning_content") or "")]
    upstream = json.dumps([seen.body for seen in command.doubles.seen])
    assert PREFIX not in upstream and command.key not in upstream
