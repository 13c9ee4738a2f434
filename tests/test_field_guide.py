"""The field guide: every citation opens, every rule of a double has its page, every page can be read in one go."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from midstream.sim.rules import HOSTS
from midstream.sim.rules.hosts import NO_TOOLS
from tests.long_run import each_kind
from tests.markdown import anchors

ROOT = Path(__file__).resolve().parents[1]
GUIDE = ROOT / "docs" / "field-guide"
PAGES = sorted(GUIDE.glob("*.md"))
CITED = ("src/**/*.py", "tests/**/*.py", "tests/data/**/*.json", "tests/data/**/*.toml", "benchmarks/**/*.py")
# A citation may be broken over two lines of a comment or docstring.
CITATION = re.compile(r"field-guide/\s*(?:# )?([\w-]+\.md)(?:#([\w-]+))?")
RULES = {rule.guide: rule for host in HOSTS.values() for rule in host.rules} | {NO_TOOLS.guide: NO_TOOLS}


def citations() -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    for pattern in CITED:
        for path in sorted(ROOT.glob(pattern)):
            if path == Path(__file__):
                continue
            text = path.read_text("utf-8")
            found += [(str(path.relative_to(ROOT)), page, anchor or "") for page, anchor in CITATION.findall(text)]
    return found


def opens(page: str, anchor: str) -> bool:
    path = GUIDE / page
    return path.is_file() and (not anchor or anchor in anchors(path.read_text("utf-8")))


def test_every_citation_opens() -> None:
    cited = citations()
    assert len(cited) > 60
    broken = [f"{where}: {page}#{anchor}" for where, page, anchor in cited if not opens(page, anchor)]
    assert not broken, broken


def test_nothing_is_cited_that_the_repository_lacks() -> None:
    outside = [
        f"{path.relative_to(ROOT)}: {words}"
        for pattern in (*CITED, "docs/**/*.md", "*.md")
        for path in ROOT.glob(pattern)
        if path != Path(__file__) and "node_modules" not in path.parts
        for words in re.findall(r"\bfacts/[\w.-]+", path.read_text("utf-8"))
    ]
    assert not outside, outside


@each_kind("guide", RULES, lambda guide: guide.partition("#")[0])
def test_every_rule_of_a_double_has_its_page(guide: str) -> None:
    page, _, anchor = guide.partition("#")
    assert anchor and opens(page, anchor), RULES[guide].name


def test_no_rule_is_without_a_page() -> None:
    assert all(rule.guide for host in HOSTS.values() for rule in host.rules) and NO_TOOLS.guide


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem != "index"], ids=lambda page: page.stem)
def test_a_page_is_in_the_index_and_says_how_its_marks_are_read(page: Path) -> None:
    assert f"]({page.name})" in (GUIDE / "index.md").read_text("utf-8")
    if page.stem != "why-400":
        text = page.read_text("utf-8")
        assert "index.md#how-to-read-it" in text, "says how its marks are read"
        assert "**D**" in text or "**O**" in text, "marks what it says"


PASTED = """
400 thinking is enabled but reasoning_content is missing in assistant tool call message at index 3
The `reasoning_content` in the thinking mode must be passed back to the API.
messages.1.content.0: Invalid `signature` in `thinking` block
messages.3.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled
The encrypted content for item rs_68a could not be verified.
Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.
Item 'rs_0a1' of type 'reasoning' was provided without its required following item.
Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly.
Tool call id was functions.read:0 but must be a-z, A-Z, 0-9, with a length of 9.
messages.1.content.2.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'
Invalid 'messages[3].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got 52
tools: function name read is duplicated
Invalid 'input[2].id': 'call_abc'. Expected an ID that begins with 'fc'.
Invalid request: tool call id write:0 is duplicated
messages: `tool_use` ids must be unique
tool_call_id  is not found (messages[2])
An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.
Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.
messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_01
messages.4.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_01
messages.4: each tool_use must have a single result. Found multiple `tool_result` blocks
No tool output found for function call call_x.
No tool call found for function call output with call_id call_x.
Please ensure that the number of function response parts is equal to the number of function call parts of the turn.
messages: first message must use the "user" role
Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant
messages: text content blocks must be non-empty
all messages must have non-empty content except for the optional final assistant message
Invalid request: the message at position 2 with role 'assistant' must not be empty
messages[2]: unknown variant `image_url`, expected `text`
Extra inputs are not permitted: body.reasoning_content
invalid temperature: only 0.6 is allowed for this model
`temperature` may only be set to 1 when thinking is enabled.
`max_tokens` must be greater than `thinking.budget_tokens`.
prompt is too long: 215000 tokens > 200000 maximum
This model's maximum context length is 131072 tokens. However, your messages resulted in 140000 tokens.
tool_choice 'required' is incompatible with thinking enabled
tools.function.parameters is not a valid moonshot flavored json schema, details: <properties.x>
Invalid JSON payload received. Unknown name "$schema" at 'tools[0].function_declarations[0].parameters'
Invalid schema for response_format 'a': In context=(), 'additionalProperties' is required to be supplied and to be false.
""".strip().splitlines()
"""Errors as hosts word them, with what differs from one to the next filled in."""


def told_in(phrase: str, error: str) -> bool:
    """Whether an error has the words of a phrase, in their order; `…` and `N` stand for what differs."""
    pieces = [re.findall(r"\w+", piece) for piece in re.split(r"…|\bN\b", phrase)]
    return re.search(".*?".join([r"\W+".join(piece) for piece in pieces]), error) is not None


def _rows(error: str) -> list[tuple[str, str]]:
    """The cause and the remedy in each row of the page that has this error's words."""
    rows = re.findall(r"^\| (`.*?) \| (.*?) \| (.*?) \|$", (GUIDE / "why-400.md").read_text("utf-8"), re.M)
    return [
        (cause, remedy)
        for says, cause, remedy in rows
        if any(told_in(it, error) for it in re.findall(r"`([^`]+)`", says))
    ]


def _begins(error: str) -> str:
    """Where a host says that it is wrong, or how it begins to say so: one of each is quick."""
    return re.split(r"[\s.:\[]", error)[0]


@each_kind("error", PASTED, _begins)
def test_whoever_pastes_an_error_finds_its_row(error: str) -> None:
    found = _rows(error)
    assert len(found) == 1 and all(found[0]), found
