"""A plan carried out with whatever tools are declared, on every wire; cases in tests/data/testing/agent_tools.json."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from midstream.core.blocks import Conversation, ToolCall, Turn, human, system, tool_result
from midstream.core.errors import LocalError
from midstream.core.tools import ToolSpec, parse_arguments
from midstream.testing import AgentScript, Answer, CallTool, ReadFile, RunCommand, WriteFile, sim_server
from tests.long_run import each_once

CASES: list[dict[str, Any]] = msgspec.json.decode(
    (Path(__file__).parent.parent / "data" / "testing" / "agent_tools.json").read_bytes()
)
PATH = "/w/a b.txt"
STEPS = {"run": RunCommand("echo 1"), "write": WriteFile(PATH, "one\n"), "read": ReadFile(PATH)}
MODELS = ("moonshot/kimi-k2.5", "anthropic/claude-sonnet-5", "openai-responses/gpt-5.2", "gemini/gemini-3-pro-preview",
          "mistral/mistral-large-latest", "openai/gpt-4o", "deepinfra/moonshotai/Kimi-K2.5")  # fmt: skip
SHELL = ToolSpec(
    "Shell",
    "Run a command",
    {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)


def tools_of(case: dict[str, Any]) -> list[ToolSpec]:
    """Properties stand in the file with their type alone, where that is all of them."""
    return [
        ToolSpec(
            name,
            parameters={
                "type": "object",
                "properties": {
                    key: {"type": kind} if isinstance(kind, str) else kind for key, kind in shape["properties"].items()
                },
                "required": shape["required"],
            },
        )
        for name, shape in case["tools"].items()
    ]


def next_of(script: AgentScript, conversation: Conversation, *tools: ToolSpec, thinks: bool = False) -> Answer:
    return script(conversation, tools, model="m", thinks=thinks)


@each_once(("order", [1, -1]), ("step", STEPS), ("case", CASES))
def test_a_step_goes_to_the_tool_that_fits(case: dict[str, Any], step: str, order: int) -> None:
    (call,) = next_of(AgentScript(STEPS[step]), Conversation((human("go"),)), *tools_of(case)[::order]).calls
    assert [call.name, call.arguments] == case[step]


def test_tools_that_cannot_do_it_are_named() -> None:
    poem = ToolSpec("write_poem", parameters={"type": "object", "properties": {"path": {}, "content": {}}})
    freeform = ToolSpec("exec", kind="freeform")
    with pytest.raises(LocalError, match=r"no declared tool can do RunCommand\(command='ls'\).*write_poem, exec"):
        next_of(AgentScript(RunCommand("ls")), Conversation((human("go"),)), poem, freeform)


@pytest.mark.parametrize("name", ["patch", "functions__patch_0123abcd"], ids=["own name", "with its namespace"])
def test_a_tool_is_called_by_its_name(name: str) -> None:
    tools = (SHELL, ToolSpec("patches"), ToolSpec(name, kind="freeform", namespace="" if "_" in name else "functions"))
    (call,) = next_of(
        AgentScript(CallTool("patch", {"input": "*** Begin"})), Conversation((human("go"),)), *tools
    ).calls
    assert (call.name, call.kind, call.namespace) == (name, "freeform", tools[2].namespace)
    assert call.arguments == {"input": "*** Begin"}
    with pytest.raises(LocalError, match="expected pat, got Shell, patches"):
        next_of(AgentScript(CallTool("pat")), Conversation((human("go"),)), *tools)


@pytest.mark.parametrize(
    "tools", [(), (ToolSpec("web_search", builtin="web_search_20250305"),)], ids=["none", "builtin"]
)
def test_a_request_without_tools_gets_the_text(tools: tuple[ToolSpec, ...]) -> None:
    script = AgentScript(RunCommand("ls"), answer="A title")
    said = next_of(script, Conversation((human("Name this."),)), *tools, thinks=True)
    assert (said.text, said.calls, bool(said.thinking)) == ("A title", (), True)


def test_tools_that_the_conversation_declares_count() -> None:
    conversation = Conversation((human("go"), system("Also:", tools=[SHELL])))
    assert next_of(AgentScript(RunCommand("ls")), conversation).calls[0].name == "Shell"


@pytest.mark.parametrize("divided", [False, True], ids=["one turn a round", "one turn a call"])
def test_progress_is_read_from_the_conversation(divided: bool) -> None:
    script = AgentScript(RunCommand("1"), [RunCommand("2"), RunCommand("3")], RunCommand("4"), answer="end")
    conversation, seen = Conversation((human("go"),)), []
    while calls := next_of(script, conversation, SHELL).calls:
        seen.append([call.arguments["command"] for call in calls])
        made = [ToolCall(f"c{len(conversation.turns)}{at}", call.name, call.json) for at, call in enumerate(calls)]
        for part in [[call] for call in made] if divided else [made]:
            results = tuple([tool_result(call, "ok") for call in part])
            conversation = conversation.add(Turn("ai", tuple(part)), Turn("tool", results), human("a reminder"))
    assert seen == [["1"], ["2", "3"], ["4"]]
    assert next_of(script, conversation, SHELL).text == "end"


@pytest.mark.parametrize("model", MODELS)
def test_the_plan_is_done_on_every_wire(model: str, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    script = AgentScript(WriteFile(str(file), "one\n"), [RunCommand(f"echo two >> {file}"), ReadFile("/dev/null")])
    with sim_server(script=script, strict="paranoid") as sim:

        async def work() -> str:
            async with sim.client() as client:
                conversation = Conversation((human("go", key="q"),))
                for number in range(5):
                    turn = await client.complete(model, conversation, tools=[SHELL])
                    if not turn.tool_calls:
                        return turn.text
                    results = tuple([tool_result(call, run(call)) for call in turn.tool_calls])
                    conversation = conversation.add(turn, Turn("tool", results, key=f"r{number}"))
                raise AssertionError("the plan does not end")

        def run(call: ToolCall) -> str:
            command = parse_arguments(call)["command"]
            return subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout or "(nothing)"

        assert asyncio.run(work()) == "Done."
        assert (sim.requests, sim.refused) == (3, [])
    assert file.read_text() == "one\ntwo\n"


def test_lines_and_a_script_do_not_go_together() -> None:
    with pytest.raises(LocalError, match="either lines or a script"), sim_server("x", script=AgentScript()):
        pass
