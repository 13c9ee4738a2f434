"""What holds for every template, whatever the conversation."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.core.blocks import Conversation, Media, Text, Thinking, ToolCall, ToolResponse, Turn, human, tool_result
from midstream.core.dialect import EFFORTS, Options
from midstream.core.errors import ConfigError
from midstream.core.tools import ToolSpec
from midstream.templates.prompt import JOINER, PromptWriter, Specials
from midstream.templates.registry import TEMPLATES, get_template
from tests.long_run import cases
from tests.templates.strategies import HALVES, TOKENS, Draft, drafts, harmless, tool_drafts

ALIKE = {"kimi-k2-0711", "kimi-k2", "kimi-k2.6", "kimi-k2.7-code"}
"""Written by the code of kimi-k2-thinking and kimi-k2.5, with other values."""
every_template = pytest.mark.parametrize("name", cases(TEMPLATES, set(TEMPLATES) - ALIKE))
switches = st.fixed_dictionaries(
    {
        "thinking": st.sampled_from([None, True, False]),
        "preserve_thinking": st.booleans(),
        "add_generation_prompt": st.booleans(),
    }
)
options = st.builds(
    Options,
    effort=st.sampled_from((None, *EFFORTS)),
    tool_choice=st.sampled_from([None, "none", "required", "<|sep|>"]),
    response_format=st.sampled_from([None, {"type": "json_object"}, {"type": "json_schema", "json_schema": "<|sep|>"}]),
)


@settings(max_examples=200, deadline=None)
@given(drafts(), tool_drafts(), switches, options)
def test_any_conversation_renders_and_always_the_same(
    draft: Draft, tools: Draft, switch: dict[str, bool], asked: Options
) -> None:
    for template in TEMPLATES.values():
        first = template.render(draft.build(str), tools=tools.build(str), options=asked, **switch)  # type: ignore[arg-type]
        again = template.render(draft.build(str), tools=tools.build(str), options=asked, **switch)  # type: ignore[arg-type]
        assert first == again, template.name
        assert not (first.starts_inside_thinking and not switch["add_generation_prompt"])


@settings(max_examples=300, deadline=None)
@given(drafts(), tool_drafts(), switches)
def test_nothing_foreign_becomes_a_token(draft: Draft, tools: Draft, switch: dict[str, bool]) -> None:
    """The tokens of the prompt are those of the same conversation in which no text could be a token."""
    for template in TEMPLATES.values():
        hostile = template.render(draft.build(str), tools=tools.build(str), **switch).text  # type: ignore[arg-type]
        tame = template.render(draft.build(harmless), tools=tools.build(harmless), **switch).text  # type: ignore[arg-type]
        assert template.specials.find(hostile) == template.specials.find(tame), template.name


@every_template
def test_each_token_in_each_place_is_broken(name: str) -> None:
    """One forgery at a time, where the property above might not look."""
    template = get_template(name)

    def tokens(text: str) -> list[str]:
        call = ToolCall("a", f"f{text}", f'{{"k{text}": "{text}"}}')
        turns = (
            human(f"u{text}"),
            Turn("ai", (Text(f"t{text}"), call), extra={"name": f"n{text}"}),
            Turn("tool", (ToolResponse("a", f"f{text}", (Text(f"r{text}"),)),)),
        )
        return template.specials.find(template.render(Conversation(turns, f"s{text}")).text)

    for token in TOKENS:
        assert tokens(token) == tokens("x"), token


@every_template
def test_a_token_cut_by_a_block_boundary_is_broken(name: str) -> None:
    template = get_template(name)

    def tokens(*parts: str) -> list[str]:
        said = tuple([Text(part) for part in parts])
        turns = (
            Turn("human", said),
            Turn("ai", (*said, ToolCall("a", "f"))),
            Turn("tool", (ToolResponse("a", "f", said),)),
        )
        return template.specials.find(template.render(Conversation(turns)).text)

    wanted = tokens("x")
    for token in TOKENS:
        for cut in range(1, len(token)):
            assert tokens(token[:cut], "", token[cut:]) == wanted, (token, cut)


@every_template
def test_all_that_the_template_writes_as_a_marker_is_special(name: str) -> None:
    call = ToolCall("a", "f")
    turns = (
        human("q", Media("image/png", "AA=="), Media("video/mp4", "AA==")),
        Turn("ai", (Thinking("r"), Text("t"), call)),
        Turn("tool", (ToolResponse("a", "f", (Text("r"),)),)),
    )
    template = get_template(name)
    prompt = template.render(Conversation(turns, "s"), tools=[ToolSpec("f", "d")])
    looks = set(re.findall(r"<[^<>\s]+>|\[/?[A-Z_]+\]", prompt.text + "".join(prompt.stop)))
    assert looks
    # Qwen's instructions show these two as words to fill in; no vocabulary holds them.
    assert looks - {"<function-name>", "<args-json-object>"} == set(
        template.specials.find(prompt.text + "".join(prompt.stop))
    )


@every_template
def test_plain_text_is_left_alone(name: str) -> None:
    plain = "if a < b | c > d: x[0] = '<b>' # <|not a token|> é \u200d"
    assert plain in get_template(name).render(Conversation((human(plain),))).text


@settings(max_examples=200)
@given(st.lists(st.sampled_from(TOKENS + HALVES), max_size=8).map("".join))
def test_neutralising(text: str) -> None:
    for template in TEMPLATES.values():
        once = template.specials.neutralise(text)
        assert template.specials.find(once) == []
        assert once.replace(JOINER, "") == text
        assert template.specials.neutralise(once) == once


def test_the_scheme() -> None:
    assert Specials("<a>").neutralise("1<a>2") == f"1<{JOINER}a>2"


def test_a_token_cannot_be_put_together_from_two_foreign_texts() -> None:
    writer = PromptWriter(Specials("<ab>"))
    writer.foreign("<a")
    writer.enclose("", "b", "")
    writer.enclose("", ">", "<ab>")
    assert writer.text() == f"<{JOINER}ab><ab>"


@every_template
def test_a_prompt_tells_where_each_turn_begins(name: str) -> None:
    call = ToolCall("c", "f", '{"a": 1}')
    results = Turn("tool", (tool_result(call, "two"),))
    turns = (human("zero"), Turn("ai", (Text("one"), call)), results, Turn("ai", (Text("three"),)), human("four"))
    prompt = get_template(name).render(Conversation(turns, system="before"))
    told = [begin for begin in prompt.begins if begin[0] >= 0]
    assert {0, 1, 3, 4} <= {turn for turn, _ in told}  # a result may come with its call
    for (turn, at), (_, end) in itertools.pairwise([*told, (5, len(prompt.text))]):
        assert turns[turn].text in prompt.text[at:end]
        # The marks that open a turn are its own.
        assert not prompt.text[:at].endswith(("<|start_header_id|>", "<|im_start|>", "<start_of_turn>", "[INST]"))


def test_foreign_text_is_not_cut_where_a_turn_begins() -> None:
    writer = PromptWriter(Specials("<ab>"))
    writer.begin(0)
    writer.foreign("x<a")
    writer.begin(1)
    writer.foreign("b>")
    writer.begin(2)
    writer.own("<ab>")
    assert writer.text() == f"x<{JOINER}ab><ab>"
    assert writer.begins() == [(0, 0), (2, 6)]


@every_template
def test_rendering_does_not_grow_faster_than_the_history(name: str) -> None:
    """Each further round adds the same text, whatever went before: nothing is said twice."""

    def size(rounds: int) -> int:
        turns: list[Turn] = []
        for number in range(rounds):
            call = ToolCall(f"{number:04}", "f", '{"a": 1}')
            turns += [human("q"), Turn("ai", (call,)), Turn("tool", (ToolResponse(call.id, "f", (Text("r"),)),))]
            turns.append(Turn("ai", (Text("a"),)))
        return len(get_template(name).render(Conversation(tuple(turns))).text)

    assert size(1009) - size(1005) == size(1005) - size(1001)


def test_an_unknown_name_lists_the_valid_ones() -> None:
    with pytest.raises(ConfigError, match=r"unknown chat template 'kimi-k9'; expected one of .*kimi-k2\.5.*deepseek"):
        get_template("kimi-k9")


def test_names_are_read_kindly() -> None:
    assert get_template(" Kimi-K2.5 ").name == "kimi-k2.5"
    assert all(get_template(name).name == name for name in TEMPLATES)
