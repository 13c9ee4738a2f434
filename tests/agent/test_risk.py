"""The allow-list and "always" against everything that wants to slip through."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from midstream.agent.approval import ALWAYS, NO, Approval, Decision
from midstream.agent.approval_request import ApprovalRequest
from midstream.agent.risk import holds_secrets, runs_later
from midstream.agent.toolbox import Toolbox
from midstream.core.blocks import ToolCall, ToolResponse
from tests.long_run import each_kind

DATA = Path(__file__).parents[1] / "data" / "approvals"
TRICKS = json.loads((DATA / "tricks.json").read_text("utf-8"))
ALLOWED = json.loads((DATA / "allowed.json").read_text("utf-8"))
RUN_LATER = json.loads((DATA / "run_later.json").read_text("utf-8"))


def _kind_of_trick(case: str) -> str:
    """What begins with `git status` or `cat` is a trick of the shell's own; the others are tricks of the program that is allowed."""
    (pattern, *_), command = TRICKS[case]
    return case if pattern in ("bash:git status*", "bash:cat*", "bash:cd*", "bash:git log*") else command.split()[0]


def _kind_of_path(path: str) -> str:
    """The ways to write a path to git's own files are told apart one by one, the other files by what would run them."""
    return path if "git" in path.lower() else runs_later(path)


class Human:
    """Gives the same answer to each question, and notes what was asked."""

    def __init__(self, answer: Decision) -> None:
        self.answer = answer
        self.asked: list[ApprovalRequest] = []

    async def __call__(self, request: ApprovalRequest) -> Decision:
        self.asked.append(request)
        return self.answer


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder with a repository, and links into it."""
    root = tmp_path / "work"
    for folder in (".git/hooks", "sub", "src", "tests/agent", "scripts"):
        (root / folder).mkdir(parents=True)
    (root / ".git" / "config").write_text("old\n")
    (root / "notes.txt").write_text("b\na\n")
    (root / "x").write_text("x\n")
    (root / "linked").symlink_to(".git")
    (root / "config_link").symlink_to("sub/../.git/config")
    (root / "sub" / "up").symlink_to("..")
    (root / "up_link").symlink_to("sub")
    return root


def call(box: Toolbox, name: str, **arguments: str) -> ToolResponse:
    return asyncio.run(box.run(ToolCall("call_1", name, msgspec.json.encode(arguments).decode())))


@each_kind("case", TRICKS, _kind_of_trick)
def test_no_trick_runs_unasked(case: str, work: Path) -> None:
    patterns, command = TRICKS[case]
    before = sorted(work.rglob("*"))
    human = Human(NO)
    response = call(Toolbox(["bash"], approve=Approval(human, allow=patterns), workdir=work), "bash", command=command)
    assert response.is_error
    if "\0" not in command:  # which no shell can be given, so nobody is asked
        assert [request.command for request in human.asked] == [command]
    assert sorted(work.rglob("*")) == before


@pytest.mark.parametrize("case", ALLOWED)
def test_what_a_pattern_means_is_not_asked_about(case: str, work: Path) -> None:
    patterns, command = ALLOWED[case]
    human = Human(NO)
    request = ApprovalRequest("bash", {"command": command}, runs=True, folder=str(work))
    assert asyncio.run(Approval(human, allow=patterns).decide(request)).allowed
    assert human.asked == []


@each_kind("path", RUN_LATER["asked"], _kind_of_path)
def test_a_file_that_runs_code_later_is_asked_for_each_time(path: str, work: Path) -> None:
    path = path.replace("{root}", str(work))
    human = Human(ALWAYS)
    approval = Approval(human, allow=["read_file"])
    box = Toolbox(["write_file", "edit_file"], approve=approval, workdir=work)
    assert not call(box, "write_file", path="a.txt", content="1\n").is_error
    assert not call(box, "write_file", path="b.txt", content="1\n").is_error
    assert len(human.asked) == 1, "an always covers ordinary files"
    human.answer = NO
    for _ in range(2):
        assert "not allowed" in call(box, "write_file", path=path, content="evil\n").text
    assert len(human.asked) == 3
    human.answer = ALWAYS
    call(box, "write_file", path=path, content="evil\n")
    call(box, "write_file", path=path, content="evil again\n")
    assert len(human.asked) == 5, "and no always is remembered for it"
    assert all(request.caution and not request.scope for request in human.asked[1:])

    listed = Toolbox(["write_file"], approve=Approval(allow=["write_file", "*"]), workdir=work)
    assert "does not cover this file" in call(listed, "write_file", path=path, content="other\n").text
    assert not call(
        Toolbox(["write_file"], approve=Approval(yolo=True), workdir=work), "write_file", path=path, content="y"
    ).is_error


@pytest.mark.parametrize("path", RUN_LATER["not asked"])
def test_an_ordinary_file_is_covered(path: str, work: Path) -> None:
    box = Toolbox(["write_file"], approve=Approval(allow=["write_file"]), workdir=work)
    assert not call(box, "write_file", path=path, content="1\n").is_error


def test_an_always_for_such_a_file_grants_nothing_else(work: Path) -> None:
    human = Human(ALWAYS)
    box = Toolbox(["write_file"], approve=Approval(human), workdir=work)
    for path in (".git/config", "a.txt", "b.txt"):
        call(box, "write_file", path=path, content="1\n")
    assert [request.arguments["path"] for request in human.asked] == [".git/config", "a.txt"]


def test_edits_are_held_to_the_same(work: Path) -> None:
    box = Toolbox(["edit_file"], approve=Approval(allow=["edit_file"]), workdir=work)
    assert (
        "does not cover this file"
        in call(box, "edit_file", path="linked/config", old_string="old", new_string="evil").text
    )
    assert not call(box, "edit_file", path="notes.txt", old_string="a", new_string="c").is_error


def test_a_folder_in_such_a_place_counts(work: Path) -> None:
    box = Toolbox(["write_file"], approve=Approval(allow=["write_file"]), workdir=work / ".git" / "hooks")
    assert "does not cover this file" in call(box, "write_file", path="any", content="1").text


def test_the_paths_of_a_foreign_tool_are_looked_for_in_its_arguments() -> None:
    human = Human(ALWAYS)
    approval = Approval(human)
    for number, name in enumerate(["a", "b", ".git/config", "src/../Makefile", ".git/config"]):
        asyncio.run(approval.decide(ApprovalRequest("put", {"files": [{"name": name}]}, writes=True)))
        assert len(human.asked) == max(1, number), name


def test_what_changed_while_the_human_read_is_not_overwritten(work: Path) -> None:
    async def swap(_: ApprovalRequest) -> Decision:
        (work / "notes.txt").write_text("somebody else's\na\n")
        return ALWAYS

    box = Toolbox(["write_file", "edit_file"], approve=Approval(swap), workdir=work)
    assert "changed while" in call(box, "edit_file", path="notes.txt", old_string="a\n", new_string="c\n").text
    assert (work / "notes.txt").read_text() == "somebody else's\na\n"


def test_a_link_that_is_swapped_in_while_the_human_reads_leads_nowhere(work: Path) -> None:
    async def swap(_: ApprovalRequest) -> Decision:
        (work / "up_link").unlink()
        (work / "up_link").symlink_to(".git")
        return ALWAYS

    box = Toolbox(["write_file"], approve=Approval(swap), workdir=work)
    assert "changed while" in call(box, "write_file", path="up_link/new", content="evil").text
    assert not (work / ".git" / "new").exists()


def test_nobody_is_asked_about_a_call_that_must_fail(work: Path) -> None:
    human = Human(ALWAYS)
    box = Toolbox(["write_file", "edit_file", "bash"], approve=Approval(human), workdir=work)
    assert "outside" in call(box, "write_file", path="/etc/x", content="1").text
    assert "0 matches" in call(box, "edit_file", path="notes.txt", old_string="z", new_string="y").text
    assert "NUL" in call(box, "bash", command="ls\0").text
    assert human.asked == []


SECRETS = {
    "": "src/main.py README.md .env.example config.env.template id_rsa.pub keys.json environment.py .envoy monkey.py docs/keys.md",
    "(": ".env .env.local prod.env x/.ENV .netrc ~/.ssh/config a/.ssh/id_rsa id_ed25519 server.pem tls.KEY .aws/credentials "
    "credentials.json secrets.yaml .npmrc x/.config/midstream/keys.json vault.kdbx .config/gh/hosts.yml",
}


@pytest.mark.parametrize(("path", "says"), [(path, says) for says, paths in SECRETS.items() for path in paths.split()])
def test_files_that_may_hold_keys_are_known_by_their_names(path: str, says: str) -> None:
    assert ("(" in holds_secrets(f"/home/me/{path}")) is bool(says)


def test_a_private_key_is_known_by_its_content() -> None:
    for kind in ("", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "):
        assert holds_secrets("/x/notes.txt", b"so:\n-----BEGIN " + kind.encode() + b"PRIVATE KEY-----\nMII")
    assert not holds_secrets("/x/notes.txt", b"-----BEGIN CERTIFICATE-----")


def test_the_file_of_the_keys_is_known_wherever_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIDSTREAM_HOME", str(tmp_path / "mine"))
    assert holds_secrets(f"{tmp_path}/mine/keys.json") and not holds_secrets(f"{tmp_path}/other/keys.json")
