"""The scripted server as tests start it, and the processes that a run of it left behind."""

from __future__ import annotations

import os
import secrets
import sys
import time
from pathlib import Path
from typing import Any

from midstream.client.mcp_server import McpServer

SCRIPT = str(Path(__file__).with_name("scripted_server.py"))
MARK = "MIDSTREAM_TEST_SERVER"
DIALECTS = (
    "moonshot/kimi-k2.5",
    "anthropic/claude-sonnet-4-5",
    "openai-responses/gpt-5.1",
    "gemini/gemini-2.5-flash",
    "mistral/mistral-large-latest",
)
TINY = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""An image of one dot."""


def scripted(*behaviours: str, name: str = "toy", **settings: Any) -> McpServer:
    """A scripted server with a mark of its own in its environment."""
    given = {"start_timeout": 20.0, "call_timeout": 20.0, **settings}
    env = {MARK: secrets.token_hex(8), **given.pop("env", {})}
    return McpServer(name, command=(sys.executable, "-I", "-S", SCRIPT, *behaviours), env=env, **given)


def left_behind(*servers: McpServer, seconds: float = 5.0) -> list[int]:
    """The processes of these servers that still live; one that is ending gets a moment."""
    return processes_with(*[f"{MARK}={each.env[MARK]}" for each in servers], seconds=seconds)


def processes_with(*variables: str, seconds: float = 5.0) -> list[int]:
    """The processes that have one of these variables, after the time that they may take to end."""
    marks = [each.encode() for each in variables]
    limit = time.monotonic() + seconds
    while (
        found := [pid for pid in _pids() if any(mark in _environ(pid) for mark in marks)]
    ) and time.monotonic() < limit:
        time.sleep(0.02)
    return found


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208


def _environ(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
