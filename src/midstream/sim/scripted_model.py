"""A small scripted model: it thinks, calls the tools a prompt asks for, then answers from their results. No randomness.

It reads the last human message as steps: `then`, full stops and new lines divide rounds, `and` and commas divide the calls of
a round. A part that names a tool, asks for what a tool is for (intent.py) or shares words with its name calls that tool; the
arguments come from the words and the schema.
`Call NAME with PARAMETER 'value' and PARAMETER 3` says them exactly. When all rounds are done, the answer quotes every result.
A prompt that asks for no tool is answered with text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ..core.blocks import Conversation, Text, Thinking, ToolCall, ToolResponse, Turn, human
from ..core.schema_check import faults
from ..core.tools import INPUT, ToolSpec
from ..wires.encode_context import INSTRUCTION_TAG
from ..wires.request import ParsedRequest, RequestedAnswer
from . import intent
from .answer import Answer, Call, tokens
from .schema_instance import instance

_ROUNDS = re.compile(r"\bthen\b|(?<=[.!?;])\s+|\n+", re.I)
_PARTS = re.compile(r"\band\b|,", re.I)
_EXACT = re.compile(r"\bcall\s+([\w-]+)\s+with\s+(?=[\w-]+[\s=])", re.I)
_EXACT_PARTS = re.compile(r"(?:\band\b|,)\s*(?=call\b)", re.I)
_WORD = re.compile(r"[a-z0-9]+")
_FILE = re.compile(r"[\w./-]*\w\.\w{1,5}\b")
_MESSAGE = re.compile(r"<\|im_(system|user|assistant)\|>(.*?)<\|im_middle\|>(.*?)(?:<\|im_end\|>|\Z)", re.S)
_CALL = re.compile(
    r"<\|tool_call_begin\|>functions\.(.+?):(\d+)<\|tool_call_argument_begin\|>(.*?)<\|tool_call_end\|>", re.S
)
_RESULT = re.compile(r"## Return of functions\.(.+?):(\d+)\n(.*)", re.S)
_TYPESCRIPT_TOOL = re.compile(r"^type (\S+) = \(_: \{(.*?)\}\) => any;", re.S | re.M)
_TYPESCRIPT_FIELD = re.compile(r"^\s*(\w+)(\?)?: ", re.M)
_INSTRUCTION = re.compile(f"<({INSTRUCTION_TAG}|system-reminder)>.*?</\\1>", re.S)
_SEARCHED = re.compile(r"\b(?:search|grep|look|find)\s+(?:for\s+)?(?:the\s+words?\s+)?(\S+?)[.,!?]?(?:\s|\Z)", re.I)
_SHOWN = 300
# What people type in a demonstration, as the words in the names of common tools. No cleverness is meant: the same
# prompt must always give the same calls.
_SYNONYMS = {
    "ls": "list", "show": "list", "directory": "files", "folder": "files", "cat": "read", "open": "read", "contents": "read",
    "look": "list", "file": "files", "run": "bash", "execute": "bash", "command": "bash", "search": "grep", "find": "glob",
    "create": "write", "save": "write",
}  # fmt: skip


def next_answer(
    conversation: Conversation, tools: Sequence[ToolSpec], *, model: str, thinks: bool, parallel: bool = True
) -> Answer:
    """The model's next answer."""
    asked, since = _question(conversation)
    rounds = plan(asked, tools)
    if not parallel:
        rounds = [[call] for calls in rounds for call in calls]
    # The model keeps no state: how far it has come is read from
    # the conversation, so it survives restarts and model switches.
    done = sum(1 for turn in since if turn.speaker == "ai" and turn.tool_calls)
    results = [block for turn in since for block in turn.blocks if isinstance(block, ToolResponse)]
    read = count_tokens(conversation)
    if done < len(rounds):
        calls = tuple(
            [
                Call(tool.name, arguments_for(tool, part, results), tool.kind, tool.namespace)
                for tool, part in rounds[done]
            ]
        )
        names = " and ".join(call.name for call in calls)
        why = f"Step {done + 1} of {len(rounds)}: I will call {names}."
        return Answer("" if done else "Let me look.", why if thinks else "", calls, input_tokens=read)
    if results:
        return Answer(_report(results), "I have every result, so I can answer." if thinks else "", input_tokens=read)
    text = f"This is {model}. You said: {asked.strip()[:_SHOWN] or 'nothing'}"
    return Answer(text, "No tool is needed here." if thinks else "", input_tokens=read)


def count_tokens(conversation: Conversation, tools: Sequence[ToolSpec] = ()) -> int:
    """About how many tokens a request holds, by its words: what was said, thought and called, and the tools."""
    said = sum(len(tokens(_words_of(turn))) for turn in conversation.turns) + len(tokens(conversation.system_text))
    return said + sum(_count_tool(tool) for tool in tools) + 1


def _count_tool(tool: ToolSpec) -> int:
    # JSON without blanks is one word to `tokens`; its names and values are what a model reads.
    schema = msgspec.json.encode(tool.parameters or {}).decode()
    return len(tokens(f"{tool.name} {tool.description}")) + len(_WORD.findall(schema.lower()))


def plan(asked: str, tools: Sequence[ToolSpec]) -> list[list[tuple[ToolSpec, str]]]:
    """The rounds of calls: each a tool and the words that asked for it."""
    rounds: list[list[tuple[ToolSpec, str]]] = []
    for clause in intent.split(_ROUNDS, asked):
        parts = intent.split(_EXACT_PARTS if _EXACT.search(clause) else _PARTS, clause)
        calls = [(tool, part) for part in parts if (tool := _asked_for(part, tools)) is not None]
        if calls:
            rounds.append(calls)
    return rounds


def _question(conversation: Conversation) -> tuple[str, list[Turn]]:
    """The last human message, and the turns after it."""
    for index in range(len(conversation.turns) - 1, -1, -1):
        turn = conversation.turns[index]
        said = _INSTRUCTION.sub("", turn.text)  # the system's words in the user's name are no question
        if turn.speaker == "human" and not turn.role and said.strip():
            return said, list(conversation.turns[index + 1 :])
    return "", list(conversation.turns)


def _asked_for(part: str, tools: Sequence[ToolSpec]) -> ToolSpec | None:
    exact = _EXACT.search(part)
    if exact is not None and (called := next((tool for tool in tools if tool.name == exact[1]), None)) is not None:
        return called
    if (named := intent.named_tool(part, tools)) is not None:
        return named
    said = _meanings(part)
    scored = [(tool, _words(tool.name), len(said & _meanings(tool.name))) for tool in tools]
    wanted = intent.intent_of(part)
    if wanted is not None and (preferred := intent.preferred_tool(wanted, scored)) is not None:
        return preferred
    best, most = None, 0
    for tool, name, shared in scored:
        # At least half of the name's words: "read" alone must not call `read_mail_attachment`.
        if shared and shared * 2 >= len(name) and shared > most:
            best, most = tool, shared
    return best


def _words(text: str) -> set[str]:
    return set(_WORD.findall(re.sub(r"([a-z])([A-Z])", r"\1 \2", text).lower()))


def _meanings(text: str) -> set[str]:
    return {_SYNONYMS.get(word, word) for word in _words(text)}


def arguments_for(tool: ToolSpec, part: str, results: Sequence[ToolResponse] = ()) -> dict[str, Any]:
    """The arguments of a call, from the words that asked for it and the schema."""
    if tool.kind == "freeform":
        return {INPUT: part.strip()}
    schema = tool.parameters or {}
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    properties = schema.get("properties")
    wanted: dict[str, Any] = properties if isinstance(properties, dict) else {}
    told = _told(wanted, part) if (exact := _EXACT.search(part)) is not None and exact[1] == tool.name else {}
    # Required fields and those that were named, or else the first: a call with every optional field filled in looks like no model's.
    names = [name for name in wanted if name in required or name in told] or list(wanted)[:1]
    made = {name: told[name] if name in told else _value(name, wanted[name], part, results) for name in names}
    # Bounds, references and choices are beyond the words of a prompt. What was told exactly is passed on as it was told.
    return made if told or not faults(made, schema) else instance(schema, part.strip(" ."))


def _told(wanted: dict[str, Any], part: str) -> dict[str, Any]:
    """The arguments that are written out, as far as their type fits: `sku 'A 1'`, `limit 3`, `path=a.py`."""
    told: dict[str, Any] = {}
    said = _EXACT.split(part, maxsplit=1)[-1]
    for name, schema in wanted.items():
        found = re.search(
            rf"(?<![\w-]){re.escape(name)}\s*[\s=:]\s*(?:'([^']*)'|\"([^\"]*)\"|`([^`]*)`|([^\s,'\"`]+))", said
        )
        if found is None:
            continue
        text = next(group for group in found.groups() if group is not None)
        text = text if found[4] is None else text.rstrip(".,;!?")
        try:
            told[name] = _READERS[schema.get("type", "string") if isinstance(schema, dict) else "string"](text)
        except (KeyError, ValueError):
            continue
    return told


_READERS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "integer": int,
    "number": lambda text: float(text) if "." in text else int(text),
    "boolean": lambda text: {"true": True, "false": False}[text.lower()],
}


def _value(name: str, schema: Any, part: str, results: Sequence[ToolResponse]) -> Any:
    shape = schema if isinstance(schema, dict) else {}
    if shape.get("enum"):
        return shape["enum"][0]
    kind = shape.get("type")
    numbers = re.findall(r"-?\d+", part)
    if kind in ("integer", "number"):
        return int(numbers[0]) if numbers else 1
    if kind == "boolean":
        return True
    if kind in ("array", "object"):
        return instance(shape, part.strip(" ."))
    if "command" in name or name in ("cmd", "script"):
        return intent.command_for(part)
    if name == "pattern" and intent.intent_of(part) == "list":
        return intent.quoted_in(part) or intent.pattern_for(part)
    if "path" in name or "file" in name:
        named = intent.path_in(part) or intent.place_in(part)
        if named:
            return named
        # "List the files, then read one": the name comes from the results of the round before.
        found = next((hit[0] for response in reversed(results) if (hit := _FILE.search(response.text))), None)
        return found if found and "read" in part.lower() else "."
    if quoted := intent.quoted_in(part):
        return quoted
    if name == "pattern" and (searched := _SEARCHED.search(part)) is not None:
        return searched[1]
    # A name such as "Paris"; not the first letter, since a sentence begins with a capital too.
    proper = re.findall(r"\b[A-Z][a-z]+\b", part.strip()[1:])
    return proper[-1] if proper else part.strip(" .")


def _report(results: Sequence[ToolResponse]) -> str:
    lines = [
        f"{response.name or 'the tool'} {'failed' if response.is_error else 'says'}: {_short(response)}"
        for response in results
    ]
    return "Here is what I found. " + " ".join(lines)


def _short(response: ToolResponse) -> str:
    text = " ".join(response.text.split()) or "(no text)"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _words_of(turn: Turn) -> str:
    # Everything that goes back to a host is read by its model, and paid for; a count that
    # leaves something out could not tell who uses what it is sent from who throws it away.
    said = [block.text for block in turn.blocks if isinstance(block, Text | Thinking)]
    said += [f"{block.name} {block.arguments}" for block in turn.blocks if isinstance(block, ToolCall)]
    said += [block.text for block in turn.blocks if isinstance(block, ToolResponse)]
    return " ".join(said)


# Only K2's template is read. This is a double of one host's path, not a second reader of templates.
def read_prompt(prompt: str) -> ParsedRequest:
    """A Kimi prompt read back into a conversation, as far as this model needs it."""
    turns: list[Turn] = []
    tools: list[ToolSpec] = []
    system = ""
    for kind, role, text in _MESSAGE.findall(prompt):
        if role == "tool_declare":
            tools = [_declared_tool(name, fields) for name, fields in _TYPESCRIPT_TOOL.findall(text)]
        elif kind == "user":
            turns.append(human(text))
        elif kind == "assistant":
            calls = tuple([ToolCall(f"hist_tool_{number}", name, raw) for name, number, raw in _CALL.findall(text)])
            said = re.sub(r"<think>.*?</think>|<\|tool_calls_section_begin\|>.*", "", text, flags=re.S)
            if calls or said.replace("<think>", "").strip():
                turns.append(Turn("ai", (Text(said), *calls)))
        elif result := _RESULT.search(text):
            name, number, content = result.groups()
            turns.append(Turn("tool", (ToolResponse(f"hist_tool_{number}", name, (Text(content),)),)))
        else:
            system = text
    return ParsedRequest(Conversation(tuple(turns), system), tools=tuple(tools), requested=RequestedAnswer(usage=True))


def _declared_tool(name: str, fields: str) -> ToolSpec:
    found = _TYPESCRIPT_FIELD.findall(fields)
    properties = {field: {"type": "string"} for field, _ in found}
    required = [field for field, optional in found if not optional]
    return ToolSpec(name, parameters={"type": "object", "properties": properties, "required": required})
