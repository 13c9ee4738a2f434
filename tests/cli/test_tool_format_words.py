"""`qwen`, `deepseek` and `gemma`: declared to the host where they are typed, text where an earlier version stored them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from midstream.store import SqliteStore

from .test_commands import Script

STORED = Path(__file__).parents[1] / "data" / "cli" / "ad19a45.sqlite3"
"""What `midstream ask -m sim/gpt-4o -T glob --tool-format qwen 'Glob "*.txt"'` stored at that commit."""
GPT = ("-m", "sim/gpt-4o")


@pytest.fixture
def script(environ: dict[str, str]) -> Script:
    return Script(environ)


def body_of(shown: str) -> Any:
    """The last request that `/wire` printed."""
    _, _, after = shown.rpartition("content-type: application/json\n\n")
    return json.JSONDecoder().raw_decode(after)[0]


def stored_word() -> str | None:
    store = SqliteStore()
    try:
        return store.get_meta(store.list()[0].id, "tool_format")
    finally:
        store.close()


@pytest.mark.parametrize(
    ("typed", "kept", "declared"),
    [("qwen", "qwen-json", True), ("gemma-json", "gemma-json", True), ("deepseek-text", "deepseek-text", False)],
)
def test_a_format_that_is_chosen_closed_and_resumed_sends_the_same_request(
    script: Script, home: Path, typed: str, kept: str, declared: bool
) -> None:
    _, before = script(f"/toolformat {typed}", 'Glob "*.txt"', "/wire And now?", args=GPT)
    assert stored_word() == kept
    _, after = script("/wire And now?", args=("--continue",))
    assert body_of(after) == body_of(before) and ("tools" in body_of(after)) is declared
    assert "means" not in after


def test_a_conversation_of_an_earlier_version_is_resumed_as_it_was(script: Script, home: Path) -> None:
    home.mkdir()
    shutil.copy(STORED, home / "conversations.db")
    _, err = script("/toolformat", "/wire And now?", "Thanks", args=("--continue",))
    body = body_of(err[: err.rindex("}\n") + 2])
    assert "tools" not in body and "<tools>" in body["messages"][0]["content"]
    assert body["messages"][2]["content"].endswith(
        '<tool_call>\n{"name": "glob", "arguments": {"pattern":"*.txt"}}\n</tool_call>'
    )
    assert "tool format: qwen-text (set by you" in err
    told = (
        'midstream: tool format of this conversation: "qwen" means qwen-text here; write that, or qwen-json for tools'
    )
    assert err.count(told) == 1
    assert stored_word() == "qwen-text"  # only unmistakable words are written
    _, again = script("/toolformat", args=("--continue",))
    assert "tool format: qwen-text (set by you" in again and "means" not in again


def test_a_configuration_of_an_earlier_version_means_what_it_meant(script: Script, home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text(
        '[providers.work]\nbase_url = "http://127.0.0.1:9/v1"\nauth = "none"\n'
        '[providers.work.dialect]\nnative_tools = false\ntool_format = "gemma"\n'
    )
    _, err = script("/toolformat", "/wire Hi", args=("-m", "work/mine"))
    body = body_of(err)
    assert "tools" not in body and "[TOOL_REQUEST]" in body["messages"][0]["content"]
    assert "tool format: gemma-text (automatic" in err
    assert (
        err.count('[providers.work.dialect] tool_format: "gemma" means gemma-text here; write that, or gemma-json') == 1
    )


def test_typed_on_a_host_without_tools_it_becomes_text(script: Script, home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text(
        '[providers.work]\nbase_url = "http://127.0.0.1:9/v1"\nauth = "none"\n[models."work/mine"]\ntools = false\n'
    )
    _, err = script("/toolformat deepseek", "/wire Hi", args=("-m", "work/mine"))
    assert "tool format: deepseek-text (you asked for deepseek-json; /toolformat auto undoes it)" in err
    assert "takes no tools, so tool format deepseek becomes deepseek-text" in err
    assert "tools" not in body_of(err) and "tool_format_changed" not in err


def test_models_and_toolformat_say_the_same_word(script: Script, cli: Any) -> None:
    rows = {row["name"]: row["tool_format"] for row in map(json.loads, cli("models", "--json").stdout.splitlines())}
    assert rows["qwen/qwen3-coder-plus"] == "qwen" and rows["deepseek/deepseek-chat"] == "deepseek"
