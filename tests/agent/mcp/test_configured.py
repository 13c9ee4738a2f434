"""Which servers may be started: those of the user, and a project's only when it is trusted, as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from midstream.agent.mcp.configured import configured_servers, servers_of_json, trust
from midstream.agent.project import Project
from midstream.client.config import load_config
from midstream.client.settings import list_settings
from midstream.core.errors import ConfigError, ToolFailed

OWN = """
[mcp.time]
command = ["uvx", "mcp-server-time"]
[mcp.docs]
url = "https://docs.example/mcp"
headers = { Authorization = "Bearer canary" }
env = { TOKEN = "canary" }
"""
PROJECT = {
    "mcpServers": {
        "Their Server": {"command": "npx", "args": ["-y", "theirs"], "env": {"T": "${T}"}, "theirOwnSetting": 7},
        "time": {"command": "evil"},
        "off": {"url": "http://127.0.0.1:1/mcp", "type": "http", "disabled": True},
        "old": {"type": "sse", "url": "http://127.0.0.1:1/sse"},
        "wrong": {"command": ["a", 7]},
        "nothing": {},
    }
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MIDSTREAM_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text(OWN)
    folder = tmp_path / "work"
    (folder / ".git").mkdir(parents=True)
    (folder / ".mcp.json").write_text(json.dumps(PROJECT))
    return folder


def found(folder: Path) -> tuple[list[str], list[str]]:
    servers = configured_servers(load_config(folder), Project(folder))
    return [f"{each.name} {each.argv[:1]}" for each in servers.usable], [each.server.name for each in servers.untrusted]


def seen(folder: Path) -> str:
    return configured_servers(load_config(folder), Project(folder)).digest


def test_a_file_that_changes_while_the_user_reads_it_is_not_trusted(project: Path) -> None:
    shown = seen(project)
    harmless = (project / ".mcp.json").read_text()
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"Their Server": {"command": "worse"}}}))
    with pytest.raises(ConfigError, match="has changed since it was shown"):
        trust(Project(project), shown)
    assert found(project)[1] == ["Their-Server"]
    (project / ".mcp.json").write_text(harmless)
    assert found(project)[1] == ["Their-Server", "off"]


def test_a_projects_servers_wait_for_trust_and_again_when_they_change(project: Path) -> None:
    mine = ["time ('uvx',)", "docs ()"]
    assert found(project) == (mine, ["Their-Server", "off"])
    trust(Project(project), seen(project))
    assert found(project) == (["time ('evil',)", "docs ()", "Their-Server ('npx',)"], [])
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"Their Server": {"command": "worse"}}}))
    assert found(project) == (mine, ["Their-Server"])


def test_a_trusted_folder_needs_no_question(project: Path, tmp_path: Path) -> None:
    config = tmp_path / "home" / "config.toml"
    config.write_text(f'trusted_projects = ["{project}"]\n{OWN}')
    assert found(project)[1] == []


def test_entries_that_cannot_be_used_are_told(project: Path) -> None:
    problems = "\n".join(configured_servers(load_config(project), Project(project)).problems)
    for words in (
        "old: unknown transport 'sse'",
        "wrong: ",
        "nothing: MCP server 'nothing': expected either `command`",
    ):
        assert words in problems


@pytest.mark.parametrize("text", ["", "[]", "{", '{"mcpServers": []}', "[" * 5000])
def test_a_file_that_is_none(text: str) -> None:
    with pytest.raises(ToolFailed):
        servers_of_json(text, [])


def test_a_file_of_somebody_else_does_not_count(project: Path) -> None:
    (project / ".mcp.json").chmod(0o666)
    servers = configured_servers(load_config(project), Project(project))
    assert [each.server.name for each in servers.found] == [
        "time",
        "docs",
    ] and "everybody may write it" in servers.problems[0]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('[mcp.a]\ncommand = "x"\nurl = "https://x"', "either `command`"),
        ('[mcp."a b"]\ncommand = "x"', "single _"),
        ('[mcp.a]\ncommand = "x"\nname = "b"', "leave `name` out"),
        ('[mcp.a]\ncomand = "x"', "did you mean command"),
        ('[mcp.a]\ncommand = "x"\nstart_timeout = 0', "start_timeout"),
        ("[mcp.a]", "either `command`"),
    ],
)
def test_a_wrong_table_is_named(project: Path, tmp_path: Path, table: str, words: str) -> None:
    config = tmp_path / "home" / "config.toml"
    config.write_text(table)
    with pytest.raises(ConfigError) as caught:
        load_config(project)
    assert words in str(caught.value) and str(config) in str(caught.value)


def test_a_projects_settings_may_not_name_servers(project: Path) -> None:
    (project / ".midstream.toml").write_text('[mcp.a]\ncommand = "x"')
    with pytest.raises(ConfigError, match="is not trusted"):
        load_config(project)


def test_no_value_of_a_header_or_variable_is_shown(project: Path) -> None:
    loaded = load_config(project)
    assert "canary" not in repr(loaded.config.mcp) + repr(list_settings(loaded, environ={}))
