"""The OpenAI chat wire's rules, and what Moonshot, Mistral, DeepSeek and the hosts of Kimi's weights add to them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .rule import Body, Problem, Rule, Traits, is_object_text, objects

WIRE = "openai-chat"
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
MISTRAL_FIELDS = frozenset(
    "model messages tools tool_choice temperature top_p max_tokens stream stop random_seed presence_penalty"
    " frequency_penalty response_format parallel_tool_calls n safe_prompt prompt_mode prediction guardrails metadata".split()
)


def messages_of(body: Body) -> list[dict[str, Any]]:
    return objects(body.get("messages"))


def thinking_is_on(body: Body, traits: Traits) -> bool:
    thinking = body.get("thinking")
    if isinstance(thinking, dict):
        return thinking.get("type") == "enabled"
    if "reasoning_effort" in body and traits.reasoning_field:
        return body["reasoning_effort"] not in ("none", None)
    return traits.thinks_by_default


def _shape(body: Body, traits: Traits) -> Iterator[str]:
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "you must provide a model parameter"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead."
        return
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            role = message.get("role") if isinstance(message, dict) else message
            yield f"Invalid value: '{role}'. Supported values are: {', '.join(_ROLES)}. (messages[{index}].role)"


def _known_fields(body: Body, traits: Traits) -> Iterator[Problem]:
    for field in body:
        if traits.fields is not None and field not in traits.fields:
            yield Problem("known fields", f"Extra inputs are not permitted: body.{field}", 422, code="extra_forbidden")


def _ids_fit(body: Body, traits: Traits) -> Iterator[Problem]:
    for index, message in enumerate(messages_of(body)):
        found = [call.get("id") for call in objects(message.get("tool_calls"))]
        if message.get("role") == "tool":
            found.append(message.get("tool_call_id"))
        for wire_id in found:
            if not isinstance(wire_id, str) or not wire_id:
                yield Problem("ids fit", f"tool_call_id  is not found (messages[{index}])")
            elif traits.id_max is not None and len(wire_id) > traits.id_max and not traits.id_pattern:
                words = f"string too long. Expected a string with maximum length {traits.id_max}, but got a string with length {len(wire_id)}"
                yield Problem("ids fit", f"Invalid 'messages[{index}].tool_calls[0].id': {words} instead.")
            elif traits.id_pattern and not re.fullmatch(traits.id_pattern, wire_id):
                yield Problem("ids fit", traits.id_message.format(id=wire_id), code=traits.id_code)


def _ids_unique(body: Body, traits: Traits) -> Iterator[str]:
    seen: set[str] = set()
    for message in messages_of(body):
        for call in objects(message.get("tool_calls")):
            wire_id = str(call.get("id"))
            if wire_id in seen:
                yield f"tool call id {wire_id} is duplicated"
            seen.add(wire_id)


def _ids_count_up(body: Body, traits: Traits) -> Iterator[str]:
    """The template prints ids verbatim, so they must be the model's own, counted through the whole conversation."""
    count = 0
    for message in messages_of(body):
        for call in objects(message.get("tool_calls")):
            name = (call.get("function") or {}).get("name")
            if call.get("id") != f"functions.{name}:{count}":
                yield f"tool call id {call.get('id')} is not the model's own: functions.{name}:{count} was due"
            count += 1


def _paired(body: Body, traits: Traits) -> Iterator[str]:
    """Each call is answered once, by the tool messages directly after it; no tool message without a call."""
    waiting: list[str] = []
    answered: set[str] = set()
    for index, message in enumerate(messages_of(body)):
        role = message.get("role")
        if role == "tool":
            wire_id = str(message.get("tool_call_id"))
            if wire_id in waiting:
                waiting.remove(wire_id)
                answered.add(wire_id)
            elif wire_id in answered:
                yield f"messages[{index}]: tool_call_id {wire_id} was answered already"
            else:
                yield (
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with"
                    f" 'tool_calls'. (messages[{index}].role)"
                )
            continue
        if waiting:
            yield _unanswered(waiting)
        calls = objects(message.get("tool_calls"))
        waiting = [str(call.get("id")) for call in calls]
        answered = set()
        if "tool_calls" in message and not calls:
            yield f"Invalid 'messages[{index}].tool_calls': empty array."
    if waiting:
        yield _unanswered(waiting)


def _unanswered(waiting: list[str]) -> str:
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
        f" The following tool_call_ids did not have response messages: {', '.join(waiting)}"
    )


def _calls_are_whole(body: Body, traits: Traits) -> Iterator[str]:
    for index, message in enumerate(messages_of(body)):
        for call in objects(message.get("tool_calls")):
            function = call.get("function")
            if call.get("type") == "custom" and traits.freeform:
                custom = call.get("custom")
                if not isinstance(custom, dict) or not custom.get("name") or not isinstance(custom.get("input"), str):
                    yield f"Invalid type for 'messages[{index}].tool_calls[0].custom': expected a name and an input."
                continue
            if not isinstance(function, dict) or not function.get("name"):
                yield f"messages[{index}].tool_calls: a call has no function name"
            elif not re.fullmatch(traits.name_pattern, function["name"]):
                yield f"Invalid 'messages[{index}].tool_calls[0].function.name': string does not match pattern."
            elif not is_object_text(function.get("arguments")):
                yield f"messages[{index}].tool_calls: invalid function arguments json string"


def _last_is_not_the_assistants(body: Body, traits: Traits) -> Iterator[str]:
    messages = messages_of(body)
    if (
        messages
        and messages[-1].get("role") == "assistant"
        and not (messages[-1].get("partial") or messages[-1].get("prefix"))
    ):
        yield "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"


def _content_is_said(body: Body, traits: Traits) -> Iterator[str]:
    for index, message in enumerate(messages_of(body)):
        content = message.get("content")
        calls = bool(message.get("tool_calls"))
        blank = content is None or content == "" or content == [] or (isinstance(content, str) and content.isspace())
        declares = traits.mid_tools and message.get("role") == "system" and bool(objects(message.get("tools")))
        if message.get("role") in ("user", "system", "developer") and blank and not declares:
            yield f"Invalid request: the message at position {index} with role '{message['role']}' must not be empty"
        if message.get("role") == "assistant" and blank and not calls:
            yield f"Invalid request: the message at position {index} with role 'assistant' must not be empty"
        if calls and not traits.blank_content and content is not None and blank:
            yield "Invalid request: text content is empty"
        for part in objects(content):
            if part.get("type") == "text" and not part.get("text"):
                yield "Invalid request: text content is empty"
            if part.get("type") in ("image_url", "video_url") and not traits.images:
                yield f"messages[{index}]: unknown variant `{part['type']}`, expected `text`"


def _system_is_well_placed(body: Body, traits: Traits) -> Iterator[str]:
    """A system message is the first, or there is none; where it may follow, it may not declare tools unless that is known."""
    for index, message in enumerate(messages_of(body)):
        role = message.get("role")
        if role == "developer" and not traits.developer_role:
            yield f"Invalid value: 'developer'. (messages[{index}].role)"
        if role in ("system", "developer") and index and not traits.mid_system:
            yield "System message must be at the beginning."
        if "tools" in message and not traits.mid_tools:
            yield f"Unknown parameter: 'messages[{index}].tools'."


def _reasoning_is_there(body: Body, traits: Traits) -> Iterator[str]:
    if not traits.reasoning_field or not thinking_is_on(body, traits):
        return
    for index, message in enumerate(messages_of(body)):
        if message.get("tool_calls") and not isinstance(message.get(traits.reasoning_field), str):
            yield traits.reasoning_message.format(index=index)


def _tools_fit(body: Body, traits: Traits) -> Iterator[str]:
    tools = body.get("tools")
    if tools is None:
        return
    if not isinstance(tools, list) or not tools:
        yield "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead."
        return
    if traits.max_tools is not None and len(tools) > traits.max_tools:
        yield f"Invalid 'tools': array too long. Expected an array with maximum length {traits.max_tools}."
    names: set[str] = set()
    for tool in objects(tools):
        if tool.get("type") == "custom" and traits.freeform:
            custom = tool.get("custom")
            if not isinstance(custom, dict) or not re.fullmatch(traits.name_pattern, str(custom.get("name"))):
                yield "Invalid 'tools[0].custom.name': string does not match pattern."
            continue
        function = tool.get("function") or {}
        name = str(function.get("name"))
        if tool.get("type") == "builtin_function":
            if "parameters" in function:
                yield f"builtin_function {name} takes no parameters"
            continue
        if not re.fullmatch(traits.name_pattern, name):
            yield f"Invalid request: function name {name!r} is invalid, must start with a letter and can contain letters, numbers, underscores, and dashes"
        if name in names:
            yield f"function name {name} is duplicated"
        names.add(name)
        schema = function.get("parameters")
        if schema is not None and (not isinstance(schema, dict) or schema.get("type") != "object"):
            yield f"Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"'"
        elif traits.moonshot_schema and isinstance(schema, dict):
            for where in _not_moonshots(schema, "parameters"):
                yield f"Invalid request: tools.function.parameters is not a valid moonshot flavored json schema, details: <{where}>"


def _not_moonshots(schema: Any, where: str) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    if "anyOf" in schema and "type" in schema:
        yield f"{where}: type must not stand beside anyOf"
    if "$ref" in schema and len(schema) > 1:
        yield f"{where}: no keyword may stand beside $ref"
    if isinstance(schema.get("items"), list):
        yield f"{where}.items: a list of schemas belongs in prefixItems"
    for name, child in (schema.get("properties") or {}).items() if isinstance(schema.get("properties"), dict) else ():
        if isinstance(child, dict) and not {"type", "anyOf", "oneOf", "allOf", "$ref"} & child.keys():
            yield f"{where}.properties.{name}: type is not defined"
        yield from _not_moonshots(child, f"{where}.properties.{name}")
    for key in ("items", "additionalProperties"):
        yield from _not_moonshots(schema.get(key), f"{where}.{key}")
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for number, child in enumerate(objects(schema.get(key))):
            yield from _not_moonshots(child, f"{where}.{key}[{number}]")
    for name, child in (schema.get("$defs") or {}).items() if isinstance(schema.get("$defs"), dict) else ():
        yield from _not_moonshots(child, f"{where}.$defs.{name}")


def _choice_fits(body: Body, traits: Traits) -> Iterator[str]:
    choice = body.get("tool_choice")
    if choice is None:
        return
    if not body.get("tools"):
        yield "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
        return
    kind = {"required": "required", "any": "required"}.get(choice) if isinstance(choice, str) else "named"
    if kind and thinking_is_on(body, traits) and kind not in traits.forced_choice_thinking:
        word = "specified" if kind == "named" else kind
        yield f"tool_choice '{word}' is incompatible with thinking enabled"
    if isinstance(choice, dict):
        name = (choice.get("function") or {}).get("name")
        if name not in [(tool.get("function") or {}).get("name") for tool in objects(body["tools"])]:
            yield f"Tool choice '{name}' not found in 'tools' parameter."


def _thinking_is_well_said(body: Body, traits: Traits) -> Iterator[str]:
    if "thinking" in body and not isinstance(body["thinking"], dict):
        yield "expected type object for field thinking, bool is not acceptable"
    if "thinking" in body and "reasoning_effort" in body and traits.fixed_sampling:
        yield "cannot specify both 'thinking' and 'reasoning_effort'"
    if traits.fixed_sampling and "temperature" in body:
        allowed = 1.0 if thinking_is_on(body, traits) else 0.6
        if body["temperature"] != allowed:
            yield f"invalid temperature: only {allowed:g} is allowed for this model"


def _stream_options_belong_to_streams(body: Body, traits: Traits) -> Iterator[str]:
    if "stream_options" in body and not body.get("stream"):
        yield "The 'stream_options' parameter is only allowed when 'stream' is enabled."


def error(problem: Problem, traits: Traits) -> dict[str, Any]:
    brief = {"message": problem.message, "type": problem.type}
    match traits.error_shape:
        case "flat":
            flat = {**brief, "param": None, "code": problem.code or "3000"}
            return {"object": "error", **flat, "raw_status_code": problem.status}
        case "brief":
            return {"error": brief}
        case "full":
            return {"error": {**brief, "param": None, "code": problem.code}}


RULES = (
    Rule("shape", "OpenAI API reference, chat.completions: model and messages are required", _shape),
    Rule("ids fit", "facts/tool-ids-and-formats.md §3 (OpenAI 40 characters; Mistral code 3280)", _ids_fit),
    Rule("paired", "OpenAI error texts for tool messages; facts/streaming-and-handoff.md §b", _paired),
    Rule("calls are whole", "facts/tool-ids-and-formats.md §3 (MiniMax 2013: arguments must be a JSON object)", _calls_are_whole),
    Rule("system is well placed", "Qwen's, Llama's and Gemma's templates; MiniMax 2013; Mistral `Unexpected role 'system'`", _system_is_well_placed),
    Rule("content is said", "facts/kimi.md §4: `text content is empty`", _content_is_said),
    Rule("tools fit", "facts/kimi.md §4: at most 128 tools, names, moonshot flavored json schema", _tools_fit),
    Rule("choice fits", "facts/kimi.md §4: forced tool_choice and thinking", _choice_fits),
    Rule("stream options", "OpenAI API reference: stream_options", _stream_options_belong_to_streams),
)  # fmt: skip
UNIQUE_IDS = Rule("ids unique", "facts/kimi.md §3.5: `tool call id … is duplicated`", _ids_unique)
OWN_IDS = Rule("ids count up", "facts/kimi.md §3.1, §3.7: hosts of the weights print ids verbatim", _ids_count_up)
REASONING = Rule(
    "reasoning is there", "facts/kimi.md §4; facts/tool-ids-and-formats.md §3 (DeepSeek)", _reasoning_is_there
)
THINKING = Rule(
    "thinking is well said", "facts/kimi.md §4: thinking is an object, sampling is fixed", _thinking_is_well_said
)
LAST_ROLE = Rule("last role", "Mistral: `Expected last role User or Tool`", _last_is_not_the_assistants)
KNOWN_FIELDS = Rule("known fields", "Mistral answers 422 extra_forbidden to unknown body fields", _known_fields, 422)
