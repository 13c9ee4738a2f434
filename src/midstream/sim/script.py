"""A small scripted model: it calls the declared tools a prompt asks for, thinks, then answers from the results.

The last thing the human said is read as steps: `then` and full stops part rounds, `and` and commas part calls of one round.
A part that shares words with a declared tool calls it; its arguments are filled from the words and the schema. When the
rounds are done, the answer quotes every result. A prompt that asks for no tool is answered in words. No randomness.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..core.blocks import Conversation, Text, ToolResponse, Turn
from ..core.tools import ToolSpec
from .answer import Answer, Call, tokens

_ROUNDS = re.compile(r"\bthen\b|(?<=[.!?;])\s+|\n+", re.I)
_PARTS = re.compile(r"\band\b|,", re.I)
_WORD = re.compile(r"[a-z0-9]+")
_FILE = re.compile(r"[\w./-]*\w\.\w{1,5}\b")
_SHOWN = 300
_SYNONYMS = {
    "ls": "list", "show": "list", "directory": "files", "folder": "files", "cat": "read", "open": "read", "contents": "read",
    "look": "list", "file": "files", "run": "bash", "execute": "bash", "command": "bash", "search": "grep", "find": "glob",
    "create": "write", "save": "write",
}  # fmt: skip


def perform(conversation: Conversation, tools: Sequence[ToolSpec], *, model: str, thinks: bool) -> Answer:
    """What the model says next."""
    asked, since = _question(conversation)
    rounds = plan(asked, tools)
    done = sum(1 for turn in since if turn.speaker == "ai" and turn.tool_calls)
    results = [block for turn in since for block in turn.blocks if isinstance(block, ToolResponse)]
    read = sum(len(tokens(_words_of(turn))) for turn in conversation.turns) + len(tokens(conversation.system_text)) + 1
    if done < len(rounds):
        calls = tuple([Call(tool.name, _arguments(tool, part, results)) for tool, part in rounds[done]])
        names = " and ".join(call.name for call in calls)
        why = f"Step {done + 1} of {len(rounds)}: I will call {names}."
        return Answer("" if done else "Let me look.", why if thinks else "", calls, input_tokens=read)
    if results:
        return Answer(_report(results), "I have every result, so I can answer." if thinks else "", input_tokens=read)
    text = f"This is {model}. You said: {asked.strip()[:_SHOWN] or 'nothing'}"
    return Answer(text, "No tool is needed here." if thinks else "", input_tokens=read)


def plan(asked: str, tools: Sequence[ToolSpec]) -> list[list[tuple[ToolSpec, str]]]:
    """Rounds of calls: which tools, and the words each was asked for with."""
    rounds: list[list[tuple[ToolSpec, str]]] = []
    for clause in _ROUNDS.split(asked):
        calls = [(tool, part) for part in _PARTS.split(clause) if (tool := _asked_for(part, tools)) is not None]
        if calls:
            rounds.append(calls)
    return rounds


def _question(conversation: Conversation) -> tuple[str, list[Turn]]:
    """What the human last said, and what has come since."""
    for index in range(len(conversation.turns) - 1, -1, -1):
        turn = conversation.turns[index]
        if turn.speaker == "human" and not turn.role and turn.text.strip():
            return turn.text, list(conversation.turns[index + 1 :])
    return "", list(conversation.turns)


def _asked_for(part: str, tools: Sequence[ToolSpec]) -> ToolSpec | None:
    said = _meanings(part)
    best, most = None, 0
    for tool in tools:
        name = _meanings(tool.name.replace("_", " ").replace("-", " "))
        shared = len(said & name)
        if shared and shared * 2 >= len(name) and shared > most:
            best, most = tool, shared
    return best


def _meanings(text: str) -> set[str]:
    words = _WORD.findall(re.sub(r"([a-z])([A-Z])", r"\1 \2", text).lower())
    return {_SYNONYMS.get(word, word) for word in words}


def _arguments(tool: ToolSpec, part: str, results: Sequence[ToolResponse]) -> dict[str, Any]:
    schema = tool.parameters or {}
    required = schema.get("required") or []
    properties = schema.get("properties")
    wanted: dict[str, Any] = properties if isinstance(properties, dict) else {}
    names = [name for name in wanted if name in required] or list(wanted)[:1]
    return {name: _value(name, wanted[name], part, results) for name in names}


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
    if kind == "array":
        return []
    if kind == "object":
        return {}
    if "path" in name or "file" in name:
        named = _FILE.search(part)
        if named:
            return named[0]
        found = next((hit[0] for response in reversed(results) if (hit := _FILE.search(response.text))), None)
        return found if found and "read" in part.lower() else "."
    quoted = re.search(r"[\"'`]([^\"'`]+)[\"'`]", part)
    if quoted:
        return quoted[1]
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
    said = [block.text for block in turn.blocks if isinstance(block, Text)]
    said += [block.text for block in turn.blocks if isinstance(block, ToolResponse)]
    return " ".join(said)
