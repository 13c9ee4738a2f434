"""What a request demands of its answer, done: the scripted model's answer under `tool_choice`, `max_tokens`, `stop` and a format.

Answers that a test has written itself are given as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from ..core.blocks import Conversation, Text
from ..core.tools import ToolSpec
from ..wires.answer_schema import ANSWER, is_json_in_words, schema_in_words
from ..wires.request import ParsedRequest
from .answer import Answer, Call, tokens
from .schema_instance import instance
from .scripted_model import arguments_for, next_answer


class Demand(msgspec.Struct, frozen=True):
    """Which tools may be called, and whether one must be."""

    tools: tuple[ToolSpec, ...]
    forced: bool = False


def obedient_answer(request: ParsedRequest, *, model: str, thinks: bool) -> Answer:
    """The scripted model's next answer, as this request demands it."""
    options = request.options
    demand = demand_of(request)
    # Absent means allowed, on every wire that has the field.
    parallel = options.parallel_tool_calls is not False
    asked = _without_words(request.conversation)
    said = next_answer(asked, demand.tools, model=model, thinks=thinks, parallel=parallel)
    # The scripted model decides by words; a client that forces a tool gets a call of it whatever the words were.
    if demand.forced and not said.calls and demand.tools:
        tool = demand.tools[0]
        # The tool by which a schema is asked for where a host has no other way: its arguments are the answer.
        told = instance(tool.parameters, said.text) if tool.name == ANSWER else arguments_for(tool, said.text)
        call = Call(tool.name, told, tool.kind, tool.namespace)
        said = replace(said, text="", calls=(call,))
    elif not said.calls and (shape := _format(request)) is not None:
        made = {"answer": said.text} if shape is True else instance(shape, said.text)
        said = replace(said, text=msgspec.json.encode(made).decode())
    # Stops before the limit: a text that ends at a stop word may then be short enough.
    return _cut(_stopped(said, options.stop), options.max_tokens)


def demand_of(request: ParsedRequest) -> Demand:
    """What `tool_choice` says, in the words of any wire."""
    choice = request.options.tool_choice
    extra = request.options.extra_body or {}
    # Read first: a list of allowed tools comes as `tool_choice` too, and says more.
    allowed, mode = _allowed(extra)
    if allowed is not None:
        return Demand(tuple([tool for tool in request.tools if tool.name in allowed]), mode in ("required", "ANY"))
    match choice:
        case "none":
            return Demand(())
        case "required":
            return Demand(request.tools, True)
        case None | "auto":
            return Demand(request.tools)
        case _:
            named = tuple([tool for tool in request.tools if choice in (tool.name, tool.qualified_name)])
            # A choice that names no declared tool is for the rules
            # to refuse; under strict=False it is read as "auto".
            return Demand(named, True) if named else Demand(request.tools)


def _allowed(extra: dict[str, Any]) -> tuple[set[str] | None, str]:
    """The names that a list of allowed tools has: OpenAI's two ways to write it, and Google's."""
    choice = extra.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        inner = choice.get("allowed_tools")
        told = inner if isinstance(inner, dict) else choice
        return _names(told.get("tools")), str(told.get("mode"))
    config = extra.get("toolConfig")
    calling = config.get("functionCallingConfig") if isinstance(config, dict) else None
    if isinstance(calling, dict) and isinstance(calling.get("allowedFunctionNames"), list):
        return {str(name) for name in calling["allowedFunctionNames"]}, str(calling.get("mode"))
    return None, ""


def _names(tools: Any) -> set[str]:
    found: set[str] = set()
    for tool in tools if isinstance(tools, list) else ():
        inner = tool.get("function") or tool.get("custom") or tool if isinstance(tool, dict) else None
        if isinstance(inner, dict) and isinstance(inner.get("name"), str):
            found.add(inner["name"])
    return found


def _format(request: ParsedRequest) -> dict[str, Any] | bool | None:
    """The schema that the answer must follow; True for any JSON, None for text. A schema may be told in words, too."""
    shape = request.options.response_format or {}
    turns = request.conversation.turns
    said = turns[-1].text if turns and turns[-1].speaker == "human" else ""
    if is_json_in_words(said):
        return True
    told = schema_in_words(said)
    # A schema in words beside a JSON mode without one: the mode says JSON, the words say which.
    if told is not None and shape.get("type") != "json_schema":
        return told
    if shape.get("type") == "json_schema":
        named = shape.get("json_schema")
        schema = named.get("schema") if isinstance(named, dict) else shape.get("schema")
        return schema if isinstance(schema, dict) else True
    config = (request.options.extra_body or {}).get("generationConfig")
    if isinstance(config, dict) and isinstance(config.get("responseSchema"), dict):
        return dict(config["responseSchema"])
    return True if shape.get("type") == "json_object" else None


def _without_words(conversation: Conversation) -> Conversation:
    """The conversation up to the words that tell the form of the answer: what was asked stands before them."""
    turns = conversation.turns
    if not turns or not _are_words(turns[-1].text):
        return conversation
    rest = tuple([block for block in turns[-1].blocks if type(block) is not Text or not _are_words(block.text)])
    last = (replace(turns[-1], blocks=rest),) if rest else ()
    return replace(conversation, turns=(*turns[:-1], *last))


def _are_words(text: str) -> bool:
    return is_json_in_words(text) or schema_in_words(text) is not None


def _stopped(answer: Answer, stops: Sequence[str]) -> Answer:
    """The answer up to the first of these words."""
    found = [(at, stop) for stop in stops if stop and (at := answer.text.find(stop)) >= 0]
    if not found:
        return answer
    at, stop = min(found)
    return replace(answer, text=answer.text[:at], calls=(), stopped_by=stop)


def _cut(answer: Answer, most: int | None) -> Answer:
    """The answer within so many tokens: thinking, then text; a call that does not fit is not made."""
    if most is None or answer.output_tokens <= most:
        return answer
    # Thinking comes first and shares the limit, as at the hosts: a small limit may leave no text at all
    # (field-guide/kimi.md#sampling).
    thinking = tokens(answer.thinking)[:most]
    text = tokens(answer.text)[: most - len(thinking)]
    return replace(answer, thinking="".join(thinking), text="".join(text), calls=(), length_stop=True, stopped_by="")
