"""`midstream doctor`: files of every format, stored conversations, what is printed and what is written."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from midstream.cli.main import main
from midstream.core.blocks import Conversation, Text, ToolCall, ToolResponse, Turn, human
from midstream.doctor import examine, refusals
from midstream.sim.rules import judge
from midstream.store import SqliteStore, database_path, read_jsonl, to_jsonl
from midstream.store.protocol import Entry

CALL = {"id": "functions.ls:0", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
OPENAI = [{"role": "user", "content": "go"}, {"role": "assistant", "content": None, "tool_calls": [CALL]}]
ANTHROPIC = {
    "system": "Be kind.",
    "messages": [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_2", "content": "a.txt"}]},
    ],
}
RESPONSES = {
    "input": [
        {"role": "user", "content": "go"},
        {"type": "function_call", "call_id": "call_1", "name": "ls", "arguments": "{}"},
    ]
}
OWN = Conversation((human("go", key="a"), Turn("ai", (ToolCall("hist_tool_x", "ls"),), key="b")), id="abc")
SOUND = Conversation((human("go", key="a"), Turn("ai", (Text("gone"),), key="b")))


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MIDSTREAM_HOME", str(tmp_path / "home"))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["doctor", *arguments])


def written(path: str, value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    Path(path).write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("value", "kinds"),
    [
        (OPENAI, ["unanswered call"]),
        (ANTHROPIC, ["unanswered call", "orphan result"]),
        (RESPONSES, ["unanswered call"]),
        (OWN.to_json(), ["unanswered call"]),
        (b"".join(to_jsonl([Entry(OWN)])), ["unanswered call"]),
    ],
    ids=["openai", "anthropic", "responses", "conversation", "jsonl"],
)
def test_every_format_is_read_named_and_healed(value: Any, kinds: list[str]) -> None:
    result = run(written("history.json", value))
    assert result.exit_code == 1, result.output
    for kind in kinds:
        assert kind in result.output
    assert "accepted by every double" in result.output
    [healed] = read_jsonl(Path("history.json.healed.jsonl").read_bytes().split(b"\n"))
    assert not examine(healed.conversation).broken
    assert refusals(healed.conversation) == {}


def test_it_says_who_would_refuse_it_and_how() -> None:
    shown = run(written("h.json", OPENAI), "--look").output
    assert "The following tool_call_ids did not have response messages: functions.ls:0" in shown
    assert "Tool call id was functions.ls:0 but must be a-z, A-Z, 0-9, with a length of 9." in shown
    assert "thinking is enabled" not in shown.partition("moonshot-k2.5")[0]
    assert list(Path().glob("*.healed*")) == []


def test_a_stored_conversation_is_found_by_its_id() -> None:
    store = SqliteStore(database_path())
    call = ToolCall("hist_tool_" + "a" * 24, "ls")
    broken = Conversation((human("go", key="a"), Turn("tool", (ToolResponse(call.id, "ls", (Text("x"),)),), key="b")))
    name = store.create(broken)
    store.close()
    result = run(name)
    assert result.exit_code == 1 and "orphan result" in result.output
    assert Path(f"{name}.healed.jsonl").exists()
    assert "Nothing is broken" not in result.output


def test_what_is_neither_file_nor_stored_is_said() -> None:
    Path("folder").mkdir()
    for _ in range(2):  # without a store, then with one
        for target, words in {
            "nothing-of-the-kind": "no such file: 'nothing-of-the-kind'",
            "folder/missing.json": "no such file: 'folder/missing.json'",
            "folder": "there are no recordings of answers in 'folder'; name a file with a history",
            written("empty.json", b""): "empty.json is an empty file",
            written("blank.json", b" \n"): "blank.json is an empty file",
            written("x.json", b"neither"): "x.json is neither JSON nor JSON lines",
            written("odd.json", [{"said": "hi"}]): "cannot tell the format; name it with format= (--format on the",
        }.items():
            result = run(target)
            assert (result.exit_code, result.stdout) == (1, ""), target
            assert words in result.output
        SqliteStore(database_path()).close()
    assert "no conversation id starts with 'nothing-of-the-kind'" in run("nothing-of-the-kind").output


def test_the_format_can_be_said_where_it_is_not_told_or_told_wrongly() -> None:
    plain = [{"role": "user", "content": "go"}, {"role": "assistant", "content": [{"type": "text", "text": "gone"}]}]
    as_openai, as_anthropic = (
        json.loads(run(written("h.json", plain), "--look", "--json", "--format", name).output)["conversations"][0]
        for name in ("openai", "anthropic")
    )
    assert as_openai["findings"] == as_anthropic["findings"] == []
    assert run("h.json", "--format", "kimi", "--look").exit_code == 0
    assert run(written("own.json", OWN.to_json()), "--format", "midstream", "--look").exit_code == 1
    assert run("h.json", "--format", "word").exit_code == 2


def test_what_it_says_to_go_on_with_is_a_command_for_a_shell() -> None:
    result = run("--", written("-it's ö.json", OPENAI))
    (command,) = re.findall(r"--session \$\((midstream .*)\) -m MODEL", result.output)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    imported = subprocess.run(
        ["sh", "-c", command], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False, timeout=60
    )
    assert imported.returncode == 0, imported.stderr
    with closing(SqliteStore(database_path())) as store:
        assert store.load(imported.stdout.strip()).turns[0].text == "go"


def test_the_copy_is_written_beside_its_history_never_over_it_and_only_for_its_owner() -> None:
    Path("elsewhere").mkdir()
    history = written("elsewhere/h.json", OPENAI)
    before = Path(history).read_bytes()
    result = run(history)
    copy = Path("elsewhere/h.json.healed.jsonl")
    assert (
        f"The healed copy is {copy}.\nContinue it: midstream chat --session $(midstream sessions import {copy}) -m"
        in result.output
    )
    assert [each.name for each in Path().iterdir()] == ["elsewhere"]
    for path in (history, "elsewhere/../elsewhere/h.json"):
        refused = run(history, "-o", path)
        assert refused.exit_code == 1 and "is the history itself" in refused.output
    assert Path(history).read_bytes() == before
    Path("open.jsonl").touch(0o644)
    run(history, "-o", "open.jsonl")
    run(history, "--for", "mistral/mistral-large-latest", "-o", "m.json")
    for each in (copy, Path("open.jsonl"), Path("m.json")):
        assert each.stat().st_mode & 0o777 == 0o600


def test_a_sound_history_is_left_alone() -> None:
    result = run(written("h.json", SOUND.to_json()))
    assert result.exit_code == 0 and "Nothing is broken." in result.output
    assert list(Path().glob("*.healed*")) == []


def test_a_copy_is_never_written_over_unless_named() -> None:
    written("h.json", OPENAI)
    written("h.json.healed.jsonl", b"mine")
    result = run("h.json")
    assert result.exit_code == 1 and "exists already" in result.output
    assert Path("h.json.healed.jsonl").read_bytes() == b"mine"
    assert "The healed copy is h.json.healed.jsonl" in run("h.json", "-o", "h.json.healed.jsonl").output


def test_the_copy_can_be_a_request() -> None:
    run(written("h.json", OPENAI), "--for", "mistral/mistral-large-latest", "-o", "m.json")
    body = json.loads(Path("m.json").read_bytes())
    assert judge(body, "mistral", "paranoid") == []
    assert run("h.json", "--for", "nobody/x").exit_code == 2


def test_as_json() -> None:
    told = json.loads(run(written("h.json", OPENAI), "--json").output)
    [found] = told["conversations"]
    assert [finding["kind"] for finding in found["findings"]] == ["unanswered call"]
    assert found["verdicts"][0]["problems"] and told["healed"] == "h.json.healed.jsonl"


def test_each_verdict_says_how_it_is_known() -> None:
    blank = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "", "tool_calls": [CALL]}]
    result = run(written("a.json", [*blank, {"role": "tool", "tool_call_id": CALL["id"], "content": "x"}]), "--look")
    assert re.search(r"moonshot-k2 +400 \(assumed\) Invalid request: text content is empty", result.output)
    assert re.search(r"moonshot-k2\.5 +400 \(observed\) thinking is enabled but .* \(and 1 more\)", result.output)
    shown = json.loads(run("a.json", "--look", "--json").output)["conversations"][0]["verdicts"]
    verdicts = {verdict["host"]: [problem["basis"] for problem in verdict["problems"]] for verdict in shown}
    assert verdicts["moonshot-k2.5"] == ["observed", "assumed"]  # what is only assumed comes last
