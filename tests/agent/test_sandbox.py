"""The sandbox, for real: ninety ways out of it, and the ordinary work that it must not hinder."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from midstream.agent.approval import Approval, Decision
from midstream.agent.approval_request import ApprovalRequest
from midstream.agent.bash import Bash
from midstream.agent.paths import Folder
from midstream.agent.readable import readable_paths, secrets_of, without
from midstream.agent.sandbox import WAYS, Sandbox, Way
from midstream.agent.toolbox import Toolbox
from midstream.core.blocks import ToolCall
from midstream.core.errors import ConfigError

from ..long_run import covering
from .unprivileged import answers, environment, interpreter, rights

DATA = Path(__file__).parents[1] / "data" / "sandbox"
WORLD = Path(__file__).with_name("sandbox_world.py")
ESCAPES: list[dict[str, Any]] = tomllib.loads((DATA / "escapes.toml").read_text("utf-8"))["case"]
HOSTILE: list[dict[str, Any]] = tomllib.loads((DATA.parent / "hostile_commands.toml").read_text("utf-8"))["case"]
ORDINARY: list[dict[str, Any]] = tomllib.loads((DATA / "ordinary.toml").read_text("utf-8"))["case"]
PARTS = [
    ESCAPES[start : start + 25] for start in range(0, len(ESCAPES), 25)
]  # each within a test's time, on a busy machine
USERS = ("ours", "unprivileged") if os.geteuid() == 0 else ("ours",)

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the sandbox needs Linux")


@functools.cache
def fault(way: Way) -> str:
    try:
        Sandbox.find(ways=[way])
    except ConfigError as error:
        return str(error)
    return ""


def need(way: Way) -> None:
    if fault(way):
        pytest.skip(f"NOT TESTED: {fault(way)}")


def tried(way: str, user: str, cases: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The outcome of each case."""
    python = sys.executable if user == "ours" else interpreter()
    if python is None:
        pytest.skip("NOT TESTED: needs a Python that the user nobody may run")
    done = subprocess.run(
        [python, str(WORLD)],
        check=False,
        input=json.dumps({"way": way, "cases": cases}),
        env=environment({}),
        capture_output=True,
        text=True,
        timeout=170,
        cwd="/",
        start_new_session=True,
        **(rights() if user == "unprivileged" else {}),
    )
    assert done.returncode == 0, done.stderr
    found = {each["name"]: each for each in map(json.loads, done.stdout.splitlines())}
    assert list(found) == [case["name"] for case in cases]
    return found


def test_there_are_enough_of_them() -> None:
    assert len(ESCAPES) >= 20 and len({case["name"] for case in ESCAPES}) == len(ESCAPES)


@pytest.mark.parametrize(("way", "user", "part"), covering(WAYS, USERS, range(len(PARTS))))
def test_nothing_gets_out(way: Way, user: str, part: int) -> None:
    need(way)
    found = tried(way, user, PARTS[part])
    assert {name: each for name, each in found.items() if each["escapes"]} == {}


@pytest.mark.parametrize(("user", "part"), covering(USERS, range(len(PARTS))))
def test_without_a_sandbox_they_do_get_out(user: str, part: int) -> None:
    """So the check above can fail: each case tries something that works."""
    found = tried("off", user, PARTS[part])
    kept_in = {case["name"] for case in PARTS[part] if not found[case["name"]]["escapes"]}
    # What only root can do, root may not do in every container; and some of it depends on the kernel.
    excused = {case["name"] for case in PARTS[part] if case.get("off") in ("root", "maybe")}
    guarded = {case["name"] for case in PARTS[part] if case.get("off") == "nobody"}
    assert kept_in - excused == guarded


@pytest.mark.parametrize(("way", "part"), covering(WAYS, range(4)))
def test_no_hostile_command_leaves_a_process(way: Way, part: int) -> None:
    """Those that try the bash tool without a sandbox, fork bombs and killed supervisors among them."""
    need(way)
    python = interpreter()
    if python is None:
        pytest.skip("NOT TESTED: needs a Python that the user nobody may run")
    token = f"999.{int.from_bytes(os.urandom(8))}"
    words = {"{nap}": f"sleep {token}", "{python}": quote(python)}
    commands = [
        functools.reduce(lambda text, word: text.replace(*word), words.items(), each["command"]) for each in HOSTILE
    ]
    cases = [{"command": each, "timeout": 2, "token": token, "way": way} for each in commands[part::4]]
    found = answers(cases, {}, timeout=160)
    assert [each["left"] for each in found] == [[]] * len(cases)


@pytest.mark.parametrize(("way", "user"), covering(WAYS, USERS))
def test_ordinary_work_goes_on(way: Way, user: str) -> None:
    need(way)
    cases = [
        case for case in ORDINARY if case.get("only", way) == way and not (user == "unprivileged" and case.get("ours"))
    ]
    found = tried(way, user, cases)
    wrong = {
        case["name"]: found[case["name"]]
        for case in cases
        if case["expects"] not in found[case["name"]]["answer"] or found[case["name"]]["escapes"]
    }
    assert wrong == {}


@pytest.mark.parametrize("way", WAYS)
def test_the_network_can_be_allowed(way: Way, tmp_path: Path) -> None:
    need(way)
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        tool = Bash(Folder(tmp_path), sandbox=Sandbox.find(network=True, ways=[way]))
        command = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo reached"
        assert asyncio.run(tool.bash(command)) == "reached"
        bus = "python3 -c 'import socket; socket.socket(socket.AF_UNIX)' 2>&1 | tail -1"
        assert "not permitted" in asyncio.run(tool.bash(bus)).lower(), "sockets of services stay closed"


@pytest.mark.parametrize("way", WAYS)
def test_commands_share_a_temporary_folder_and_further_paths_can_be_read(
    way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(way)
    home, data, work = (tmp_path / name for name in ("home", "data", "work"))
    for folder in (home / ".ssh", data, work):
        folder.mkdir(parents=True)
    (home / ".ssh/key").write_text("secret")
    (home / "plain.txt").write_text("plain")
    (data / "table.csv").write_text("a,b")
    monkeypatch.setenv("HOME", str(home))
    tool = Bash(Folder(work), sandbox=Sandbox.find(read=[str(data), "~"], ways=[way]))
    asyncio.run(tool.bash("echo kept > $TMPDIR/note"))
    table, new = (quote(str(data / name)) for name in ("table.csv", "new"))
    answer = asyncio.run(tool.bash(f"cat $TMPDIR/note {table} ~/plain.txt ~/.ssh/key; echo x > {new}"))
    assert answer.startswith("kept\na,bplain") and "secret" not in answer
    assert not (data / "new").exists()


@pytest.mark.parametrize("wider", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_readable_folder_may_lie_in_a_hidden_one(
    way: Way, wider: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(way)
    work, hidden = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    (hidden / "skills" / "one").mkdir(parents=True)
    (hidden / "skills" / "one" / "say.sh").write_text("echo said\n")
    (hidden / "keys.json").write_text("a key")
    monkeypatch.setenv("MIDSTREAM_HOME", str(hidden))
    read = [str(hidden / "skills" / "one"), *([str(tmp_path)] if wider else [])]
    tool = Bash(Folder(work), sandbox=Sandbox.find(read=read, ways=[way]))
    say, keys, new = (quote(str(hidden / name)) for name in ("skills/one/say.sh", "keys.json", "skills/new"))
    command = f"sh {say}; cat {keys}; echo > {new}"
    answer = asyncio.run(tool.bash(command))
    assert "said" in answer and "a key" not in answer and not (hidden / "skills" / "new").exists()


def test_where_there_is_none_an_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(
        ConfigError, match=r"bwrap is not installed.*Install bubblewrap.*Landlock.*leave the sandbox off"
    ):
        Sandbox.find(ways=["bubblewrap"])


def test_a_way_that_is_there_but_refused_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(ConfigError, match=r"tried and failed .*No permissions to create new namespace"):
        Sandbox.find(ways=["bubblewrap"])
    if not fault("landlock"):
        assert Sandbox.find().way == "landlock"


@pytest.mark.parametrize("folder", ["home", "", "home/.config"])
def test_a_folder_with_keys_in_it_is_refused(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home/.config/gh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(ConfigError, match="the sandbox cannot work in"):
        Bash(Folder(tmp_path / folder), sandbox=Sandbox("landlock"))
    (tmp_path / "home/project").mkdir()
    Bash(Folder(tmp_path / "home/project"), sandbox=Sandbox("landlock"))


def test_the_repository_of_a_worktree_can_be_read_and_nothing_that_only_claims_to_be_one(tmp_path: Path) -> None:
    for path in ("main/.git/objects", "main/.git/refs", "main/.git/worktrees/side", "side", "keys", "evil", "main/sub"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "main/.git/HEAD").touch()
    linked = tmp_path / "main/.git/worktrees/side"
    (linked / "HEAD").touch()
    (linked / "commondir").write_text("../..\n")
    (tmp_path / "side/.git").write_text(f"gitdir: {linked}\n")
    (tmp_path / "evil/.git").write_text(f"gitdir: {tmp_path}/keys\n")

    def read(folder: str) -> list[str]:
        found = readable_paths(str(tmp_path / folder), "/nonexistent", [], network=False)
        return [path.removeprefix(f"{tmp_path}/") for path in found if path.startswith(str(tmp_path))]

    assert read("side") == ["main/.git", "main/.git/worktrees/side"]
    assert read("main/sub") == ["main/.git"]
    assert read("main") == read("evil") == []


def test_what_may_be_read_holds_no_secret(tmp_path: Path) -> None:
    for path in (".ssh/id", ".config/gh/hosts.yml", ".config/app/x", "notes/a"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = A\n")
    secrets = secrets_of(str(tmp_path), {"MIDSTREAM_HOME": str(tmp_path / "notes")})
    parts = [path.removeprefix(f"{tmp_path}/") for path in without(str(tmp_path), secrets)]
    assert sorted(parts) == [".config/app", ".gitconfig"]
    (tmp_path / ".gitconfig").write_text('[url "https://me:hunter2hunter2@github.com/"]\n')
    assert str(tmp_path / ".gitconfig") in secrets_of(str(tmp_path), {})


UNATTENDED = {
    "a command in a sandbox": (ToolCall("1", "bash", '{"command": "echo ok > made"}'), True, True),
    "a command without one": (ToolCall("1", "bash", '{"command": "echo ok > made"}'), False, False),
    "a file in the folder": (ToolCall("1", "write_file", '{"path": "a.py", "content": "1"}'), True, True),
    "a file that runs code later": (ToolCall("1", "write_file", '{"path": ".envrc", "content": "1"}'), True, False),
    "the instructions of agents": (ToolCall("1", "write_file", '{"path": "AGENTS.md", "content": "1"}'), True, False),
}


@pytest.mark.parametrize("case", UNATTENDED)
def test_unattended_covers_what_cannot_leave_the_folder(case: str, tmp_path: Path) -> None:
    call, confined, allowed = UNATTENDED[case]
    sandbox = None
    if confined:
        try:
            sandbox = Sandbox.find()
        except ConfigError as error:
            pytest.skip(f"NOT TESTED: {error}")
    asked: list[ApprovalRequest] = []

    async def ask(request: ApprovalRequest) -> Decision:
        asked.append(request)
        return Decision(False)

    box = Toolbox(approve=Approval(ask, unattended=True), workdir=tmp_path, sandbox=sandbox)
    response = asyncio.run(box.run(call))
    assert response.is_error is not allowed and bool(asked) is not allowed


def test_a_tool_of_ones_own_is_asked_about_unattended_too() -> None:
    def deploy(where: str) -> str:
        return "done"

    from midstream.agent.tool import Tool

    for options in ({"runs": True}, {"writes": True}):
        box = Toolbox([Tool.from_function(deploy, **options)], approve=Approval(unattended=True))
        assert asyncio.run(box.run(ToolCall("1", "deploy", '{"where": "x"}'))).is_error


def test_the_question_and_the_model_are_told(tmp_path: Path) -> None:
    shown: list[str] = []

    async def ask(request: ApprovalRequest) -> Decision:
        shown.append(request.shown(columns=60))
        return Decision(False)

    box = Toolbox(["bash"], approve=Approval(ask), workdir=tmp_path, sandbox=Sandbox("landlock"))
    asyncio.run(box.run(ToolCall("1", "bash", '{"command": "ls"}')))
    told = "runs in a sandbox: writes only the working folder and a temporary one; no network"
    assert told in " ".join(shown[0].split())
    assert "It runs in a sandbox" in box.specs()[0].description
    plain = Toolbox(["bash"], approve=Approval(ask), workdir=tmp_path)
    asyncio.run(plain.run(ToolCall("1", "bash", '{"command": "ls"}')))
    assert "sandbox" not in shown[1] and "sandbox" not in plain.specs()[0].description


def test_what_programs_need_is_read_beside_the_folder_they_are_found_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`x/bin` needs `x/lib`; but not where `x` is a folder that holds other things too."""
    root, home = str(tmp_path.resolve()), str(tmp_path.resolve() / "home/me")
    monkeypatch.setattr("midstream.agent.readable._PROGRAMS", ())
    for name in (
        "opt/tool/bin",
        "opt/other/sbin",
        "opt/scripts",
        "home/me/bin",
        "home/me/.local/bin",
        "home/me/go/bin",
        "home/bin",
    ):
        (tmp_path / name).mkdir(parents=True)

    def read(*entries: str) -> list[str]:
        monkeypatch.setenv(
            "PATH", ":".join([entry if not entry[:1].isalpha() else f"{root}/{entry}" for entry in entries])
        )
        found = readable_paths("/nonexistent", home, [], network=False)
        return [path.removeprefix(f"{root}/") for path in found if path.startswith(root)]

    assert read("opt/tool/bin") == ["opt/tool/bin", "opt/tool"]
    assert read("opt/other/sbin") == ["opt/other/sbin", "opt/other"]
    assert read("opt/scripts") == ["opt/scripts"]
    assert read("home/me/go/bin") == ["home/me/go/bin", "home/me/go"]
    shared = ("home/me/bin", "home/me/.local/bin", "home/bin")
    assert all(other not in read(*shared) for other in ("home", "home/me", "home/me/.local"))
    assert read("home/me", "home", "./opt/scripts", "", "/") == []
