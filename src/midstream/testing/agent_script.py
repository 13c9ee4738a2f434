"""A model that carries out a plan with the tools of whatever agent asks it: write a file, run a command, read a file.

Agents name their tools as they like (`Bash`, `exec_command`, `run_shell_command` …). A step goes to the declared tool whose
name and schema fit: one that takes a command line, a path and a content, or a path alone. A file step for which there is no tool is
done by a command. How far the plan has come is read from the conversation, so one script serves any number of agents at a time.

    with sim_server(script=AgentScript(WriteFile("a.txt", "one\\n"), RunCommand("wc -l a.txt"))) as sim:
        ...  # point an agent at sim.base_url("openai")
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

import msgspec

from ..core.blocks import Conversation
from ..core.command_line import path_word
from ..core.errors import LocalError
from ..core.tools import ToolSpec, declared_tools, join_tools
from ..sim.answer import Answer, Call
from ..sim.schema_instance import instance
from ..sim.scripted_model import count_tokens

# `run_shell_command`, `RunShellCommand` and `runShellCommand` all give the same words.
_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
# The names under which agents ask for a path, a content and a command, without underscores and in lower case.
_PATH = frozenset({"path", "filepath", "absolutepath", "filename", "file"})
_CONTENT = frozenset({"content", "contents", "text", "filetext"})
_COMMAND = frozenset({"command", "cmd", "commandline"})
_SHELLS = frozenset({"bash", "shell", "sh", "zsh", "exec", "execute", "run", "command", "cmd", "terminal", "local"})
_WRITERS = frozenset({"write", "create", "save", "file"})
_READERS = frozenset(
    {"read", "view", "cat", "open", "file"}
)  # a name with another word (`view_image`) means another thing


class RunCommand(msgspec.Struct, frozen=True):
    """Run a command line."""

    command: str


class WriteFile(msgspec.Struct, frozen=True):
    """Write a file, whole. Many agents want an absolute path."""

    path: str
    content: str


class ReadFile(msgspec.Struct, frozen=True):
    """Read a file."""

    path: str


class CallTool(msgspec.Struct, frozen=True):
    """Call a tool by its name; a freeform one takes its text as `input`. A tool of a namespace is found by its own name, also
    where the namespace has become a part of it."""

    name: str
    arguments: dict[str, Any] = {}


Step: TypeAlias = RunCommand | WriteFile | ReadFile | CallTool


class AgentScript:
    """Rounds of calls, then a text. A round is a step, or several that are called at once.

    A request without tools of the agent's own (agents ask for titles, summaries and searches) is answered with the text.
    Raises LocalError if there are such tools and none can do the next step.
    """

    def __init__(self, *rounds: Step | Sequence[Step], answer: str = "Done.") -> None:
        self.rounds = tuple([tuple(each) if isinstance(each, Sequence) else (each,) for each in rounds])
        self.answer = answer

    def __call__(self, conversation: Conversation, tools: Sequence[ToolSpec], *, model: str, thinks: bool) -> Answer:
        read = count_tokens(conversation, tools)
        # Tools may also be declared in a system turn, in the middle of the conversation.
        known = join_tools(tools, [tool for _, tool in declared_tools(conversation.turns)])
        # The host's own tools (a web search) do nothing on the agent's machine.
        offered = [tool for tool in known if tool.builtin is None]
        number = self.rounds_done(conversation)
        if not offered or number == len(self.rounds):
            return Answer(self.answer, "The work is done." if thinks else "", input_tokens=read)
        calls = tuple([call_for(step, offered) for step in self.rounds[number]])
        names = " and ".join([call.name for call in calls])
        why = f"Round {number + 1} of {len(self.rounds)}: I will call {names}."
        return Answer("", why if thinks else "", calls, input_tokens=read)

    def rounds_done(self, conversation: Conversation) -> int:
        """How many rounds the conversation holds, by its calls: some agents divide the calls of a round into turns."""
        # By calls, since agents regroup them into other turns than the model made.
        made = sum(len(turn.tool_calls) for turn in conversation.turns)
        done = 0
        while done < len(self.rounds) and made >= len(self.rounds[done]):
            made -= len(self.rounds[done])
            done += 1
        return done


def call_for(step: Step, tools: Sequence[ToolSpec]) -> Call:
    """The call that does this step, by the schemas of the tools."""
    match step:
        case WriteFile():
            found = _find(tools, _WRITERS, {_PATH: step.path, _CONTENT: step.content})
            # `printf %s`, not `echo`: the content is written as it
            # is, backslashes and the missing last newline included.
            other = f"printf %s {shlex.quote(step.content)} > {path_word(step.path)}"
        case ReadFile():
            found = _find(tools, _READERS, {_PATH: step.path})
            other = f"cat {path_word(step.path)}"
        case RunCommand():
            found, other = None, step.command
        case CallTool():
            found, other = _named(step, tools), ""
    found = found or (_find(tools, _SHELLS, {_COMMAND: other}) if other else None)
    if found is None:
        wanted = step.name if isinstance(step, CallTool) else "one that runs a command line"
        names = ", ".join([tool.qualified_name for tool in tools])
        raise LocalError(f"no declared tool can do {step}; expected {wanted}, got {names}")
    return found


def _named(step: CallTool, tools: Sequence[ToolSpec]) -> Call | None:
    # A namespace may have become a prefix of the name, and a digest its end where the name was too long for the host.
    spelled = re.compile(rf"(?:\w+__)?{re.escape(step.name)}(?:_[0-9a-f]{{8}})?")
    found = next((tool for tool in tools if spelled.fullmatch(tool.name)), None)
    return None if found is None else Call(found.name, step.arguments, found.kind, found.namespace)


def _find(tools: Sequence[ToolSpec], words: frozenset[str], wanted: Mapping[frozenset[str], str]) -> Call | None:
    """The call of the first tool whose name is made of these words and that has a property for every wanted value. A tool
    that requires nothing else is better than one that does."""
    calls: list[tuple[int, Call]] = []
    for tool in tools:
        properties = (tool.parameters or {}).get("properties")
        if tool.kind != "function" or not isinstance(properties, dict) or not words.issuperset(_words(tool.name)):
            continue
        named = {_first(properties, names): value for names, value in wanted.items()}
        # A value without a property, or two values that would go into one.
        if None in named or len(named) < len(wanted):
            continue
        given = {name: _shaped(properties[name], value) for name, value in named.items() if name is not None}
        required = (tool.parameters or {}).get("required")
        others = [name for name in properties if isinstance(required, list) and name in required and name not in given]
        filled = {name: _filled(properties[name], next(iter(wanted.values()))) for name in others}
        calls.append((len(others), Call(tool.name, {**given, **filled}, namespace=tool.namespace)))
    # The fewest further fields; `min` takes the first of equals, so the order of declaration decides.
    return min(calls, key=itemgetter(0))[1] if calls else None


def _first(properties: Mapping[str, Any], names: frozenset[str]) -> str | None:
    return next((name for name in properties if name.replace("_", "").lower() in names), None)


def _shaped(schema: Any, value: str) -> Any:
    """A command line as a list of words, where the tool takes one."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    # Some agents take a list of words and run no shell by themselves.
    return ["sh", "-c", value] if isinstance(kind, str) and kind.lower() == "array" else value


def _filled(schema: Any, words: str) -> Any:
    """A value for what else a tool requires: its default, no to a question (`in_background`), or the smallest."""
    shape = schema if isinstance(schema, dict) else {}
    if "default" in shape:
        return shape["default"]
    return False if str(shape.get("type")).lower() == "boolean" else instance(schema, words)


def _words(name: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(name)}
