"""The command line with a store that can only be read: listed, searched, shown, exported; a conversation
goes on and says that it keeps nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from midstream.store import SqliteStore
from tests.store.test_read_only import folder, read_only

from .conftest import Cli

__all__ = ["folder"]
KIMI = ("-m", "sim/kimi-k2.5")


def test_a_read_only_store_can_be_read(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "conversations.db"
    work = folder / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("MIDSTREAM_HOME", str(folder))
    cli("ask", *KIMI, "Where is the river?")
    with_store = ("--store", str(path))
    commands = {
        ("sessions", *with_store): "Where is the river?",
        ("sessions", *with_store, "search", "river"): "Where is the river?",
        ("sessions", *with_store, "show", ""): "## You",
        ("sessions", *with_store, "export", "--format", "jsonl"): '"midstream":1',
    }
    ask = ("ask", *KIMI, "--continue", *with_store, "Which file did I ask about before?")
    for arguments in commands:
        cli(*arguments)  # everything is imported before privileges are dropped
    before = path.read_bytes()
    with read_only(path, folder):
        for arguments, words in commands.items():
            result = cli(*arguments)
            assert (result.exit_code, result.stderr) == (0, ""), (arguments, result.output)
            assert words in result.stdout
        talked = cli(*ask)
        refused = cli("sessions", *with_store, "delete", "-y", "")
    assert talked.exit_code == 0, talked.output
    assert f"{path} is read-only: nothing of this is stored" in talked.stderr
    assert "This is kimi-k2.5" in talked.stdout
    assert refused.exit_code == 1 and "is read-only, so nothing can be stored in it" in refused.stderr
    assert path.read_bytes() == before
    store = SqliteStore(path)
    assert [info.turns for info in store.list()] == [2]
    store.close()
