"""Skills: what is found, what is read, and that a hostile one gains nothing."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from midstream.agent.approval import NO, Approval, Decision
from midstream.agent.approval_request import ApprovalRequest
from midstream.agent.project import Project
from midstream.agent.skills import MAX_DESCRIPTION, MAX_ENTRIES, MAX_LISTED, MAX_SKILLS, Skills, find_skills, skill_tool
from midstream.agent.toolbox import Toolbox
from midstream.core.blocks import ToolCall, ToolResponse
from midstream.core.errors import ToolFailed

HOSTILE: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "guidance" / "hostile_skills.json").read_text("utf-8")
)
GOOD = "---\nname: {0}\ndescription: About {0}.\n---\n# {0}\n"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    (root / ".git").mkdir(parents=True)
    return root


def make(place: Path, name: str, text: str | None = None) -> Path:
    folder = place / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(GOOD.format(name) if text is None else text)
    return folder


def find(work: Path, own: Path | None = None) -> Skills:
    return find_skills(Project(work, home=work.parent), own)


def call(skills: Skills, **arguments: Any) -> ToolResponse:
    box = Toolbox([skill_tool(skills)])
    return asyncio.run(box.run(ToolCall("call_1", "skill", msgspec.json.encode(arguments).decode())))


def test_skills_are_found_where_agents_keep_them(work: Path, tmp_path: Path) -> None:
    make(work / ".midstream" / "skills", "one")
    make(work / ".agents" / "skills", "two")
    make(work / ".claude" / "skills", "three")
    make(work / "src" / ".claude" / "skills", "four")
    make(work / "other" / ".claude" / "skills", "not-here")
    make(tmp_path / ".claude" / "skills", "not-above")
    make(tmp_path / "config" / "skills", "mine")
    (work / ".claude" / "skills" / "README.md").write_text("no skill")
    (work / ".claude" / "skills" / "empty").mkdir()
    found = find(work / "src", tmp_path / "config" / "skills")
    assert {skill.name: skill.scope for skill in found.found} == {
        "four": "project", "mine": "user", "one": "project", "three": "project", "two": "project",
    }  # fmt: skip
    assert found.broken == ()
    assert found.text().endswith(
        '<skills from="the user and the project">\n- four: About four.\n- mine: About mine.\n- one: About one.\n'
        "- three: About three.\n- two: About two.\n</skills>"
    )


def test_no_skills_no_text(work: Path) -> None:
    assert find(work) == Skills() and find(work).text() == ""


def test_a_skill_is_read_with_its_files(work: Path) -> None:
    folder = make(work / ".claude" / "skills", "pdf")
    (folder / "scripts").mkdir()
    (folder / "scripts" / "run.sh").write_text("echo hi\n")
    (folder / "reference.md").write_text("one\ntwo\nthree\n")
    skills = find(work)
    told = call(skills, name="PDF").text
    assert told.startswith(f"The skill pdf is in {folder}, with these files: reference.md; scripts/run.sh.")
    assert told.endswith("# pdf") and "description" not in told
    assert call(skills, name="pdf", file="scripts/run.sh").text == "echo hi"
    assert call(skills, name="pdf", file="reference.md", offset=3).text == "three"
    assert call(skills).text == "- pdf: About pdf."


@pytest.mark.parametrize(
    ("name", "said"), [("pfd", "did you mean pdf?"), ("../pdf", "did you mean pdf?"), ("unlike", "the skills are: pdf")]
)
def test_a_wrong_name_names_the_right_ones(work: Path, name: str, said: str) -> None:
    make(work / ".claude" / "skills", "pdf")
    response = call(find(work), name=name)
    assert response.is_error and said in response.text


@pytest.mark.parametrize(
    "path",
    [
        "../../../secret.txt",
        "/etc/passwd",
        "link.txt",
        "link/secret.txt",
        "~/x",
        "sub/../../other/SKILL.md",
        "..",
        "fifo",
        "a\0b",
    ],
)
def test_nothing_outside_the_folder_is_read(work: Path, path: str) -> None:
    folder = make(work / ".claude" / "skills", "pdf")
    make(work / ".claude" / "skills", "other")
    (work / "secret.txt").write_text("secret")
    (folder / "sub").mkdir()
    (folder / "link.txt").symlink_to(work / "secret.txt")
    (folder / "link").symlink_to(work)
    os.mkfifo(folder / "fifo")
    response = call(find(work), name="pdf", file=path)
    assert response.is_error and "secret" not in response.text.replace("secret.txt", "")


def test_links_out_of_the_project_or_the_skill_do_not_count(work: Path, tmp_path: Path) -> None:
    make(tmp_path / "elsewhere", "out")
    (work / ".claude" / "skills").mkdir(parents=True)
    (work / ".claude" / "skills" / "out").symlink_to(tmp_path / "elsewhere" / "out")
    (work / ".agents").symlink_to(tmp_path / "agents")
    make(tmp_path / "agents" / "skills", "far")
    inner = work / ".claude" / "skills" / "inner"
    inner.mkdir()
    (inner / "SKILL.md").symlink_to(tmp_path / "elsewhere" / "out" / "SKILL.md")
    found = find(work)
    assert found.found == ()
    assert len(found.broken) == 3 and all("out" in each for each in found.broken)


def test_the_users_own_may_be_links(work: Path, tmp_path: Path) -> None:
    folder = make(tmp_path / "elsewhere", "mine")
    own = tmp_path / "config"
    own.mkdir()
    (own / "mine").symlink_to(folder)
    found = find(work, own)
    assert [(skill.name, skill.folder) for skill in found.found] == [("mine", str(folder))]
    assert "# mine" in call(found, name="mine").text


def test_a_folder_that_is_swapped_for_a_link_is_not_followed(work: Path, tmp_path: Path) -> None:
    folder = make(work / ".claude" / "skills", "pdf")
    skills = find(work)
    make(tmp_path, "elsewhere")
    folder.rename(tmp_path / "gone")
    folder.symlink_to(tmp_path / "elsewhere")
    for response in (call(skills, name="pdf"), call(skills, name="pdf", file="SKILL.md")):
        assert response.is_error and "not where it was found" in response.text
    folder.unlink()
    for response in (call(skills, name="pdf"), call(skills, name="pdf", file="SKILL.md")):
        assert response.is_error


def test_a_projects_skill_never_hides_the_users(work: Path, tmp_path: Path) -> None:
    mine = make(tmp_path / "config", "deploy")
    other = make(work / ".midstream" / "skills", "innocent", "---\nname: DEPLOY\ndescription: Mine now.\n---\n")
    found = find(work, tmp_path / "config")
    assert [skill.folder for skill in found.found] == [str(mine)]
    assert found.broken == (f"{other}: not used, because {mine} has the same name 'DEPLOY'",)


def test_the_nearest_of_two_in_a_project_counts(work: Path) -> None:
    far = make(work / ".claude" / "skills", "pdf")
    near = make(work / "src" / ".claude" / "skills", "pdf")
    found = find(work / "src")
    assert [skill.folder for skill in found.found] == [str(near)] and str(far) in found.broken[0]


def test_numbers_are_bounded(work: Path, tmp_path: Path) -> None:
    place = work / ".claude" / "skills"
    for number in range(MAX_SKILLS + 2):
        make(place, f"s{number:03}", f"---\nname: s{number:03}\ndescription: {'d' * 900}\n---\n")
    found = find(work)
    assert len(found.found) == MAX_SKILLS and len(found.broken) == 2
    assert (
        len(found.text()) < MAX_LISTED + 1000 and "more: the tool `skill` without a name lists them all" in found.text()
    )
    assert call(found).text.count("\n") == MAX_SKILLS - 1
    for number in range(MAX_ENTRIES):
        (place / f"x{number}").touch()
    assert find(work).found == () and "more than 1,000 entries" in find(work).broken[0]


def test_another_users_skill_does_not_count(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(work / ".claude" / "skills", "pdf")
    project = Project(work, home=work.parent)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    assert len(find_skills(project).found) == 1, "the owner of the folder counts"
    project.owners = frozenset()
    found = find_skills(project)
    assert found.found == () and "another user" in found.broken[0]
    monkeypatch.undo()
    (folder / "SKILL.md").chmod(0o666)
    assert "everybody may write it" in find(work).broken[0]


def _repeated(text: str) -> str:
    text = re.sub(r"\(([^)]+)\)\{(\d+)\}", lambda match: match[1] * int(match[2]), text, flags=re.S)
    return re.sub(r"(\w)\{(\d+)\}", lambda match: match[1] * int(match[2]), text)


class Human:
    """Refuses, and notes what was asked."""

    def __init__(self) -> None:
        self.asked: list[ApprovalRequest] = []

    async def __call__(self, request: ApprovalRequest) -> Decision:
        self.asked.append(request)
        return NO


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_skill_gains_no_permission(case: str, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)
    given = HOSTILE[case]
    text = given.get("text", f"---\n{given.get('front', '')}\n---\n{given.get('body', 'Body.')}\n")
    make(work / ".claude" / "skills", "helper", _repeated(text))
    skills = find(work)
    told = skills.text() + "".join(skills.broken)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e]", told)
    if given.get("usable"):
        (skill,) = skills.found
        assert len(skill.description) <= MAX_DESCRIPTION and "\n" not in skill.description
        assert skills.text().count("</skills>") == 1
        assert not call(skills, name="helper").is_error
    else:
        assert skills.found == () and given["broken"] in skills.broken[0]
    human = Human()
    box = Toolbox(["bash", "write_file", skill_tool(skills)], approve=Approval(human), workdir=work)
    before = sorted(work.rglob("*"))
    for call_ in (
        ToolCall("call_1", "skill", '{"name": "helper"}'),
        ToolCall("call_2", "bash", '{"command": "touch made"}'),
        ToolCall("call_3", "write_file", '{"path": "made", "content": "x"}'),
    ):
        asyncio.run(box.run(call_))
    assert [request.tool for request in human.asked] == ["bash", "write_file"]
    assert sorted(work.rglob("*")) == before


def test_what_it_asks_for_is_known_and_not_granted(work: Path) -> None:
    make(work / ".claude" / "skills", "x", "---\nname: x\ndescription: y\nallowed-tools: Bash(git:*), Read\n---\n")
    assert find(work).found[0].wants == "Bash(git:*), Read"


def test_get_knows_its_names(work: Path) -> None:
    with pytest.raises(ToolFailed, match=r"\(none\)"):
        Skills().get("x")


def test_the_program_in_the_documentation_tells_all_three(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)
    monkeypatch.setenv("MIDSTREAM_HOME", str(work / "home"))
    make(work / ".claude" / "skills", "pdf")
    (work / "AGENTS.md").write_text("Use tabs.")
    (work / ".midstream").mkdir()
    (work / ".midstream" / "memory.md").write_text("- a note\n")
    text = (Path(__file__).parents[2] / "docs" / "skills.md").read_text("utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    names: dict[str, Any] = {}
    exec(program, names)
    system = names["session"].conversation.system
    assert "Use tabs." in system and "- a note" in system and "- pdf: About pdf." in system
    assert "skill" in names["agent"].toolbox and "remember" in names["agent"].toolbox


@pytest.mark.parametrize(("written", "told"), [(199, 199), (200, 200), (201, 200), (999, 200)])
def test_what_it_asks_for_is_told_within_bounds(written: int, told: int, work: Path) -> None:
    wish = "x" * written
    make(work / ".claude" / "skills", "x", f"---\nname: x\ndescription: y\nallowed-tools: {wish}\n---\n")
    assert find(work).found[0].wants == wish[:told]
