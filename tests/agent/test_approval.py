from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.agent.approval import ALWAYS, NO, ONCE, AllowList, Approval, Decision
from midstream.agent.approval_request import ApprovalRequest
from midstream.core.errors import ConfigError
from tests.long_run import each_kind


def bash(command: str) -> ApprovalRequest:
    return ApprovalRequest("bash", {"command": command}, runs=True)


def write(path: str) -> ApprovalRequest:
    return ApprovalRequest("write_file", {"path": path, "content": "x"}, writes=True)


ALLOWED = {
    "a tool by name": ("write_file", write("a")),
    "tools by prefix": ("mcp__docs__*", ApprovalRequest("mcp__docs__search", {}, runs=True)),
    "all of bash": ("bash", bash("rm -rf x; ls")),
    "an exact command": ("bash:make test && make check", bash("make test && make check")),
    "first words": ("bash:git status*", bash("git status --short src/a.py")),
    "the words alone": ("bash:git status*", bash("git status")),
    "a space before the star": ("bash:git log *", bash("git log -n 3")),
}

# Behind an allowed beginning, each of these makes the shell do something else.
SMUGGLED = [
    "git status; rm x",
    "git status && rm x",
    "git status & rm x",
    "git status || rm x",
    "git status | sh",
    "git status > /etc/x",
    "git status < x",
    "git status $(rm x)",
    "git status `rm x`",
    "git status ${IFS}x",
    "git status\nrm x",
    "git status\rrm x",
    "git status \\\n rm",
    "git status 'a'",
    'git status "a"',
    "git status *",
    "git status ?",
    "git status [a]",
    "git status {a,b}",
    "git status ~",
    "git status #x",
    "git status !x",
    "git status (x)",
    "git status\trm",
    "git status \u202e",
    "git status \u200b",
    "git status \x00",
]
NOT_ALLOWED = {
    "another tool": ("write_file", bash("ls")),
    "a tool whose name begins so": ("bash", ApprovalRequest("bash_all", {"command": "ls"}, runs=True)),
    "a word that begins so": ("bash:git status*", bash("git statusx")),
    "other words": ("bash:git status*", bash("git push")),
    "fewer words": ("bash:git status*", bash("git")),
    "a variable before": ("bash:git status*", bash("X=1 git status")),
    "more than the exact command": ("bash:ls", bash("ls -l")),
    "a pattern for commands and a tool without one": ("write_file:ls*", write("ls")),
    **{f"smuggled {command!r}": ("bash:git status*", bash(command)) for command in SMUGGLED},
}


@pytest.mark.parametrize("case", ALLOWED)
def test_the_allow_list_allows(case: str) -> None:
    pattern, request = ALLOWED[case]
    assert asyncio.run(Approval(allow=[pattern]).decide(request)).allowed


@each_kind("case", NOT_ALLOWED, lambda case: case.split()[0] if case.startswith("smuggled") else case)
def test_the_allow_list_does_not_allow(case: str) -> None:
    pattern, request = NOT_ALLOWED[case]
    answer = asyncio.run(Approval(allow=[pattern]).decide(request))
    assert not answer.allowed
    assert "nobody is there to approve it" in answer.reason


@given(st.text(st.sampled_from("ab ;|&$`\"'<>()\\\n*?[]{}~#!\t="), max_size=12))
def test_first_words_never_allow_a_sign_of_the_shell(rest: str) -> None:
    allowed = AllowList(["bash:git status*"]).allows(bash("git status " + rest))
    assert allowed == (not set(rest) & set(";|&$`\"'<>()\\\n*?[]{}~#!\t"))


@pytest.mark.parametrize(
    "pattern",
    ["", ":", "bash:", "bash:*", "b*sh", "bash:a;b*", "bash:echo $X*", "bash:'a'*", "bash:X=1 a*", "bash:a\nb*"],
)
def test_a_pattern_that_cannot_be_judged_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError):
        Approval(allow=[pattern])


@pytest.mark.parametrize("path", ["a.txt", ".git/config"])
def test_a_call_that_nobody_can_approve_is_refused_in_words_of_the_library(path: str) -> None:
    """How a user of the program allows it is the program's to say."""
    said = asyncio.run(Approval().decide(write(path))).reason
    assert "nobody is there" in said and "--" not in said
    assert asyncio.run(Approval(advice="press F5").decide(write(path))).reason == f"{said} (press F5)"


class Human:
    """Answers from a list, and notes what was asked."""

    def __init__(self, *answers: Decision) -> None:
        self.answers = list(answers)
        self.asked: list[ApprovalRequest] = []

    async def __call__(self, request: ApprovalRequest) -> Decision:
        self.asked.append(request)
        await asyncio.sleep(0)
        return self.answers.pop(0)


def test_an_answer_lasts_as_long_as_was_said() -> None:
    async def main() -> None:
        human = Human(ONCE, ALWAYS, NO, ALWAYS, ONCE)
        approval = Approval(human)
        assert (await approval.decide(bash("ls"))).allowed
        assert (await approval.decide(bash("ls"))).allowed  # asked again, for once was once
        assert (await approval.decide(bash("ls"))).allowed  # remembered
        assert len(human.asked) == 2
        assert not (await approval.decide(bash("ls -l"))).allowed  # another command is another question
        assert (await approval.decide(write("a"))).allowed
        assert (await approval.decide(write("b"))).allowed  # a tool that only writes is remembered whole
        assert len(human.asked) == 4
        approval.forget()
        assert (await approval.decide(write("b"))).allowed
        assert len(human.asked) == 5

    asyncio.run(main())


def test_a_no_is_not_remembered_and_carries_its_reason() -> None:
    human = Human(Decision(False, remember=True, reason="use pytest"), NO)
    approval = Approval(human)
    assert asyncio.run(approval.decide(bash("x"))).reason == "use pytest"
    assert not asyncio.run(approval.decide(bash("x"))).allowed
    assert len(human.asked) == 2


def test_yolo_asks_nobody() -> None:
    human = Human()
    assert asyncio.run(Approval(human, yolo=True).decide(bash("x"))).allowed
    assert human.asked == []


def test_questions_come_one_at_a_time_and_the_first_answer_may_settle_the_rest() -> None:
    human = Human(ALWAYS)
    approval = Approval(human)

    async def main() -> list[Decision]:
        return await asyncio.gather(*[approval.decide(write(str(i))) for i in range(5)])

    assert all(answer.allowed for answer in asyncio.run(main()))
    assert len(human.asked) == 1


def test_the_human_sees_all_that_is_there() -> None:
    shown = bash("ls\u202e\x1b[2K\rrm -rf x\u200b\ncommand: echo harmless").shown()
    assert shown == "\n".join(
        [
            "bash",
            "  command: 2 lines, 40 characters",
            "  │ ls\\u{202e}␛[2K␍rm -rf x\\u{200b}",
            "  │ command: echo harmless",
        ]
    )
