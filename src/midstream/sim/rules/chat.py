"""The OpenAI chat wire's rules, and what Moonshot, Mistral, DeepSeek and the hosts of Kimi's weights add to them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from .answer_format import openai_format
from .images import is_unread
from .rule import Apart, Assumed, Body, Observed, Problem, Rule, Traits, is_object_text, objects
from .tool_schema import arrays_without_items, malformed, not_moonshots

WIRE = "openai-chat"
# What an assistant message may have in place of words.
_INSTEAD_OF_CONTENT = ("tool_calls", "function_call", "audio", "refusal")
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
# ChatCompletionRequest of the SDK mistralai 3
MISTRAL_FIELDS = frozenset(
    "model messages tools tool_choice temperature top_p top_k max_tokens min_tokens stream stop random_seed"
    " presence_penalty frequency_penalty repetition_penalty response_format parallel_tool_calls n safe_prompt prompt_mode"
    " prediction guardrails metadata reasoning_effort logprobs top_logprobs prompt_logprobs top_prompt_logprobs"
    " prompt_cache_key service_tier".split()
)


def messages_of(body: Body) -> list[dict[str, Any]]:
    return objects(body.get("messages"))


def _calls(body: Body) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every call, with the index of its message."""
    for index, message in enumerate(messages_of(body)):
        # Asked before `objects`: most messages have no calls, and every rule walks over all of them.
        if "tool_calls" in message:
            for call in objects(message["tool_calls"]):
                yield index, call


# Whether the host would think: by what the request says in either of its words, else by the model's default.
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


# Only hosts whose list of fields is known can refuse others; for the rest `fields` is None.
def _known_fields(body: Body, traits: Traits) -> Iterator[str]:
    for field in body:
        if traits.fields is not None and field not in traits.fields:
            yield f"Extra inputs are not permitted: body.{field}"


def _ids_fit(body: Body, traits: Traits) -> Iterator[Problem]:
    for index, message in enumerate(messages_of(body)):
        found = [call.get("id") for call in objects(message["tool_calls"])] if "tool_calls" in message else []
        if message.get("role") == "tool":
            found.append(message.get("tool_call_id"))
        for wire_id in found:
            if not isinstance(wire_id, str) or not wire_id:
                yield Problem("ids fit", f"tool_call_id  is not found (messages[{index}])", basis="observed")
            # A host with a pattern checks that instead; its length is part of it.
            elif traits.id_max is not None and len(wire_id) > traits.id_max and not traits.id_pattern:
                words = f"string too long. Expected a string with maximum length {traits.id_max}, but got a string with length {len(wire_id)}"
                message_text = f"Invalid 'messages[{index}].tool_calls[0].id': {words} instead."
                # The limit was 40 characters in reports until early 2026, and 64 since.
                yield Problem("ids fit", message_text, basis="observed" if len(wire_id) > 64 else "assumed")
            elif traits.id_pattern and not re.fullmatch(traits.id_pattern, wire_id):
                words = traits.id_message.format(id=wire_id)
                yield Problem("ids fit", words, code=traits.id_code, basis="observed")


def _ids_unique(body: Body, traits: Traits) -> Iterator[str]:
    seen: set[str] = set()
    for _, call in _calls(body):
        wire_id = str(call.get("id"))
        if wire_id in seen:
            yield f"tool call id {wire_id} is duplicated"
        seen.add(wire_id)


# No host refuses this. It is a rule all the same, because the harm comes later: the model imitates foreign ids, and
# the host's parser then loses its calls (field-guide/kimi.md#ids).
def _ids_count_up(body: Body, traits: Traits) -> Iterator[str]:
    """The template prints ids verbatim, so they must be the model's own, counted through the whole conversation."""
    for count, (_, call) in enumerate(_calls(body)):
        name = _name_in(call.get("function"))
        if call.get("id") != f"functions.{name}:{count}":
            yield f"tool call id {call.get('id')} is not the model's own: functions.{name}:{count} was due"


def _paired(body: Body, traits: Traits) -> Iterator[str]:
    """Each call is answered once, by the tool messages directly after it; no tool message without a call."""
    # Counted, not a set: two calls of one message may share an id, and then two answers are due.
    waiting: dict[str, int] = {}
    answered: set[str] = set()
    for index, message in enumerate(messages_of(body)):
        role = message.get("role")
        if role == "tool":
            wire_id = str(message.get("tool_call_id"))
            if wire_id in waiting:
                waiting[wire_id] -= 1
                if not waiting[wire_id]:
                    del waiting[wire_id]
                answered.add(wire_id)
            elif wire_id in answered:
                yield Assumed(f"messages[{index}]: tool_call_id {wire_id} was answered already")
            else:
                yield (
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with"
                    f" 'tool_calls'. (messages[{index}].role)"
                )
            continue
        if waiting:
            yield _unanswered(waiting)
        calls = objects(message["tool_calls"]) if "tool_calls" in message else ()
        waiting = Counter([str(call.get("id")) for call in calls]) if calls else {}
        answered = set()
    if waiting:
        yield _unanswered(waiting)


def _unanswered(waiting: dict[str, int]) -> str:
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
        f" The following tool_call_ids did not have response messages: {', '.join(Counter(waiting).elements())}"
    )


def _lists_are_not_empty(body: Body, traits: Traits) -> Iterator[str]:
    words = "empty array. Expected an array with minimum length 1, but got an empty array instead."
    if body.get("tools") == []:
        yield f"Invalid 'tools': {words}"
    for index, message in enumerate(messages_of(body)):
        if message.get("tool_calls") == []:
            yield f"Invalid 'messages[{index}].tool_calls': {words}"


def _calls_are_whole(body: Body, traits: Traits) -> Iterator[str]:
    for index, call in _calls(body):
        function = call.get("function")
        # A freeform call has a text, not JSON arguments; hosts without them read it as a call without a function.
        if call.get("type") == "custom" and traits.freeform:
            custom = call.get("custom")
            if not isinstance(custom, dict) or not custom.get("name") or not isinstance(custom.get("input"), str):
                yield f"Invalid type for 'messages[{index}].tool_calls[0].custom': expected a name and an input."
            continue
        if not isinstance(function, dict) or not function.get("name"):
            yield f"messages[{index}].tool_calls: a call has no function name"
        elif not isinstance(function.get("arguments"), str):
            yield f"Invalid type for 'messages[{index}].tool_calls[0].function.arguments': expected a string."


def _arguments_are_json(body: Body, traits: Traits) -> Iterator[str]:
    for index, function in _functions(body):
        if isinstance(function.get("arguments"), str) and not is_object_text(function["arguments"]):
            yield f"messages[{index}].tool_calls: invalid function arguments json string"


def _call_names_fit(body: Body, traits: Traits) -> Iterator[str]:
    for index, function in _functions(body):
        if function.get("name") and not re.fullmatch(traits.name_pattern, str(function["name"])):
            yield f"Invalid 'messages[{index}].tool_calls[0].function.name': string does not match pattern."


def _functions(body: Body) -> Iterator[tuple[int, dict[str, Any]]]:
    """The function of every call, with the index of its message."""
    for index, call in _calls(body):
        if isinstance(call.get("function"), dict):
            yield index, call["function"]


def _last_is_not_the_assistants(body: Body, traits: Traits) -> Iterator[str]:
    messages = messages_of(body)
    if (
        messages
        and messages[-1].get("role") == "assistant"
        and not (messages[-1].get("partial") or messages[-1].get("prefix"))
    ):
        yield "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"


def _content_is_there(body: Body, traits: Traits) -> Iterator[str]:
    for index, message in enumerate(messages_of(body)):
        declares = traits.mid_tools and message.get("role") == "system" and bool(objects(message.get("tools")))
        if message.get("role") in ("user", "system", "developer") and message.get("content") is None and not declares:
            yield f"Invalid value for 'messages[{index}].content': expected a string or an array, got null."


def _content_is_said(body: Body, traits: Traits) -> Iterator[str]:
    for index, message in enumerate(messages_of(body)):
        content, role = message.get("content"), message.get("role")
        if message.get("tool_calls"):
            # Left out is always right beside calls; empty is refused by some
            # (field-guide/openai-chat.md#content-beside-calls).
            if not traits.blank_content and content is not None and _is_blank(content):
                yield Assumed("Invalid request: text content is empty")  # reports say both: refused, and accepted
        elif role in ("user", "system", "developer", "assistant") and not traits.blank_text:
            if content in ("", []):
                yield _empty(index, role)
            elif _is_blank(content):
                yield Assumed(_empty(index, role))
        if role == "assistant" and content is None and not any(message.get(key) for key in _INSTEAD_OF_CONTENT):
            yield _empty(index, role)
        for part in objects(content):
            if part.get("type") == "text" and not part.get("text") and not traits.blank_text:
                yield "Invalid request: text content is empty"


def _empty(index: int, role: Any) -> str:
    return f"Invalid request: the message at position {index} with role '{role}' must not be empty"


def _is_blank(content: Any) -> bool:
    return content in ("", []) or (isinstance(content, str) and content.isspace())


def _images_are_taken(body: Body, traits: Traits) -> Iterator[str]:
    for index, message in enumerate(() if traits.images else messages_of(body)):
        for part in objects(message.get("content")):
            if part.get("type") in ("image_url", "video_url"):
                yield f"messages[{index}]: unknown variant `{part['type']}`, expected `text`"


def _images_are_readable(body: Body, traits: Traits) -> Iterator[str]:
    for message in messages_of(body):
        for part in objects(message.get("content")):
            image = part.get("image_url")
            if is_unread(image.get("url") if isinstance(image, dict) else image, traits.image_types):
                named = [kind.partition("/")[2] for kind in traits.image_types]
                yield f"You uploaded an unsupported image. Please make sure your image has of one the following formats: {named}."


def _system_is_well_placed(body: Body, traits: Traits) -> Iterator[str]:
    """A system message is the first, or there is none; where it may follow, it may not declare tools unless that is known."""
    for index, message in enumerate(messages_of(body)):
        if message.get("role") in ("system", "developer") and index and not traits.mid_system:
            yield "System message must be at the beginning."
        if "tools" in message and not traits.mid_tools:
            yield Assumed(f"Unknown parameter: 'messages[{index}].tools'.")


# `developer` is OpenAI's word; hosts that imitate the wire mostly stayed with `system`
# (field-guide/openai-chat.md#roles).
def _roles_are_known(body: Body, traits: Traits) -> Iterator[str]:
    for index, message in enumerate(() if traits.developer_role else messages_of(body)):
        if message.get("role") == "developer":
            yield f"Invalid value: 'developer'. (messages[{index}].role)"


def _reasoning_is_there(body: Body, traits: Traits) -> Iterator[str]:
    if not traits.reasoning_field or not thinking_is_on(body, traits):
        return
    for index, message in enumerate(messages_of(body)):
        if message.get("tool_calls") and not isinstance(message.get(traits.reasoning_field), str):
            yield traits.reasoning_message.format(index=index)


def _preserved_reasoning_is_there(body: Body, traits: Traits) -> Iterator[str]:
    thinking = body.get("thinking")
    asked = isinstance(thinking, dict) and thinking.get("keep") == "all"
    if not (traits.preserves == "always" or (traits.preserves and asked)) or not thinking_is_on(body, traits):
        return
    for message in messages_of(body):
        # Those with calls have a refusal of their own.
        if (
            message.get("role") == "assistant"
            and not message.get("tool_calls")
            and not isinstance(message.get(traits.reasoning_field), str)
        ):
            yield f"preserved thinking (thinking.keep=all) requires {traits.reasoning_field} on every assistant message"


def _tools_fit(body: Body, traits: Traits) -> Iterator[str]:
    tools = body.get("tools")
    if tools is None:
        return
    if not isinstance(tools, list):
        yield "Invalid type for 'tools': expected an array of objects."
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
        function = tool["function"] if isinstance(tool.get("function"), dict) else {}
        name = str(function.get("name"))
        # Moonshot's own tools, which bring their parameters themselves (field-guide/kimi.md#tools).
        if tool.get("type") == "builtin_function":
            if "parameters" in function:
                yield f"builtin_function {name} takes no parameters"
            continue
        if not re.fullmatch(traits.name_pattern, name):
            yield f"Invalid request: function name {name!r} is invalid, must start with a letter and can contain letters, numbers, underscores, and dashes"
        if name in names:
            yield Observed(f"function name {name} is duplicated")
        names.add(name)
        schema = function.get("parameters")
        if schema is not None and (not isinstance(schema, dict) or schema.get("type") != "object"):
            yield Observed(f"Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"'")
        elif traits.moonshot_schema and isinstance(schema, dict):
            for where in not_moonshots(schema, "parameters"):
                words = f"tools.function.parameters is not a valid moonshot flavored json schema, details: <{where}>"
                yield Observed(f"Invalid request: {words}")
        elif traits.checks_schemas and schema is not None:
            for words in (*malformed(schema), *arrays_without_items(schema)):
                yield Observed(f"Invalid schema for function '{name}': {words}.")


def _choice_fits(body: Body, traits: Traits) -> Iterator[str]:
    choice = body.get("tool_choice")
    if choice is None:
        return
    if not body.get("tools"):
        yield "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
        return
    if not isinstance(choice, dict) or choice.get("type") == "allowed_tools":
        if isinstance(choice, dict) and not traits.allowed_tools:
            yield "Invalid value: 'allowed_tools'. (tool_choice.type)"
        return
    kind = "custom" if choice.get("type") == "custom" else "function"
    name = _name_in(choice.get(kind))
    if name not in [_name_in(tool.get(kind)) for tool in objects(body["tools"])]:
        yield f"Tool choice '{name}' not found in 'tools' parameter."


def _name_in(value: Any) -> Any:
    return value.get("name") if isinstance(value, dict) else None


def _choice_and_thinking(body: Body, traits: Traits) -> Iterator[str]:
    choice = body.get("tool_choice")
    # A list of allowed tools forces nothing by itself.
    if choice is None or (isinstance(choice, dict) and choice.get("type") == "allowed_tools"):
        return
    kind = {"required": "required", "any": "required"}.get(choice) if isinstance(choice, str) else "named"
    if kind and thinking_is_on(body, traits) and kind not in traits.forced_choice_thinking:
        word = "specified" if kind == "named" else kind
        yield f"tool_choice '{word}' is incompatible with thinking enabled"


def _thinking_is_well_said(body: Body, traits: Traits) -> Iterator[str]:
    if "thinking" in body and not isinstance(body["thinking"], dict):
        yield "expected type object for field thinking, bool is not acceptable"
    if "thinking" in body and "reasoning_effort" in body and traits.fixed_sampling:
        yield "cannot specify both 'thinking' and 'reasoning_effort'"
    if traits.fixed_sampling and "temperature" in body:
        # The one value that is accepted depends on the mode; the message names it (field-guide/kimi.md#sampling).
        allowed = 1.0 if thinking_is_on(body, traits) else 0.6
        if body["temperature"] != allowed:
            yield f"invalid temperature: only {allowed:g} is allowed for this model"


def _stream_options_belong_to_streams(body: Body, traits: Traits) -> Iterator[str]:
    if "stream_options" in body and not body.get("stream"):
        yield "The 'stream_options' parameter is only allowed when 'stream' is enabled."


def error(problem: Problem, traits: Traits) -> dict[str, Any]:
    brief = {"message": problem.message, "type": problem.type}
    # Clients read the error's fields, so its form is as much a part of the double as its words
    # (field-guide/names.md#errors-by-wire).
    match traits.error_shape:
        case "flat":
            flat = {**brief, "param": None, "code": problem.code or "3000"}
            return {"object": "error", **flat, "raw_status_code": problem.status}
        case "brief":
            return {"error": brief}
        case "full":
            return {"error": {**brief, "param": None, "code": problem.code}}


_OPENAI = "OpenAI API reference, chat.completions"


def _format_fits(body: Body, traits: Traits) -> Iterator[str]:
    asked = body.get("response_format")
    if isinstance(asked, dict) and asked.get("type") == "json_schema":
        yield from openai_format(asked.get("json_schema"))


# How to read a row: its basis, the source in words, the check; `hosts` are those
# the source speaks of, and at any other host of this wire the rule is only
# assumed. `apart` is what within a check is known in another way than the rest.
RULES = (
    Rule("shape", "documented", f"{_OPENAI}: model and messages are required, and every message has a role", _shape, guide="openai-chat.md#shape"),
    Rule(
        "ids fit", "observed",
        "error texts: OpenAI `string too long` (agno 5382), Mistral code 3280 (eca 233), Moonshot `tool_call_id  is not found`",
        _ids_fit, hosts=("openai", "mistral", "moonshot"),
        apart=(Apart("assumed", "an id of 41 to 64 characters, refused in reports until early 2026"),),
        guide="tool-ids.md#who-demands-what",
    ),
    Rule(
        "paired", "observed",
        "error texts: OpenAI and DeepSeek `must be followed by tool messages` (deer-flow 2706, zed 51944), Moonshot the same,"
        " Mistral `Not the same number of function calls and responses` (camel 1467), MiniMax 2013 (opencode 32608)",
        _paired, hosts=("openai", "deepseek", "moonshot", "mistral", "minimax"),
        apart=(Apart("assumed", "a second answer to one call"),),
        guide="openai-chat.md#calls",
    ),
    Rule(
        "lists are not empty", "observed", "OpenAI error text `empty array. Expected an array with minimum length 1`",
        _lists_are_not_empty, hosts=("openai",),
        guide="openai-chat.md#shape",
    ),
    Rule("calls are whole", "documented", f"{_OPENAI}: a call has a name, and arguments that are a string", _calls_are_whole, guide="openai-chat.md#calls"),
    Rule(
        "arguments are JSON", "observed", "MiniMax 2013 `invalid function arguments json string` (cc-switch 4531, pi 5468)",
        _arguments_are_json, hosts=("minimax",),
        guide="openai-chat.md#calls",
    ),
    Rule(
        "call names fit", "observed", "OpenAI error text `tool_calls[0].function.name: string does not match pattern`",
        _call_names_fit, hosts=("openai",),
        guide="openai-chat.md#calls",
    ),
    Rule(
        "roles are known", "observed",
        "pi-ai's table of hosts that refuse the role developer; the types of the SDK mistralai 3",
        _roles_are_known, hosts=("moonshot", "deepseek", "xai", "zai", "qwen", "mistral"),
        guide="openai-chat.md#roles",
    ),
    Rule(
        "system is well placed", "observed", "Qwen's template; MiniMax 2013; Mistral `Unexpected role 'system'`",
        _system_is_well_placed, hosts=("qwen", "minimax", "mistral"),
        apart=(Apart("assumed", "tools declared in a message"),),
        guide="openai-chat.md#roles",
    ),
    Rule("content is there", "documented", f"{_OPENAI}: user and system messages have content", _content_is_there, guide="openai-chat.md#shape"),
    Rule(
        "content is said", "observed",
        "Moonshot `must not be empty` (AstrBot 7200) and `text content is empty` (kosong); Z.ai 1213"
        " (llxprt-code 2410); Mistral `Assistant message must have either content or tool_calls`; OpenAI"
        " `expected a string, got null`",
        _content_is_said, hosts=("moonshot", "mistral", "zai", "openai"),
        apart=(Apart("assumed", "empty text beside calls, where reports conflict; text that is only white space"),),
        guide="openai-chat.md#content-beside-calls",
    ),
    Rule(
        "images are taken", "observed", "DeepSeek error text: unknown variant `image_url`, expected `text`",
        _images_are_taken, hosts=("deepseek",),
        guide="openai-chat.md#images",
    ),
    Rule(
        "images are readable", "observed", "OpenAI error text `You uploaded an unsupported image` (STranslate 277, Memoh 977)",
        _images_are_readable, hosts=("openai",), code="invalid_image_format",
        guide="openai-chat.md#images",
    ),
    Rule(
        "tools fit", "documented",
        f"{_OPENAI}: names, at most 128 tools; the same in DeepSeek's reference and Moonshot's guide",
        _tools_fit, hosts=("openai", "deepseek", "moonshot"),
        apart=(
            Apart("observed", "a name declared twice, a schema that is not an object's, one that is not moonshot flavored", "error texts `is duplicated`, `schema must be a JSON Schema`, `moonshot flavored json schema` (kimi-cli 1903), `Conflict in schema definitions for key 'if'` (pi 5822)"),
            Apart("observed", "a schema that is not valid, an array without items, at OpenAI", "error texts `False is not of type 'array'` (mcp-gsuite 34), `array schema missing items` (mcphost 35)"),
        ),
        guide="openai-chat.md#tools",
    ),
    Rule(
        "choice fits", "observed",
        "OpenAI error texts: `'tool_choice' is only allowed when 'tools' are specified`, `not found in 'tools' parameter`",
        _choice_fits, hosts=("openai",),
        guide="openai-chat.md#tools",
    ),
    Rule(
        "choice and thinking", "observed", "Moonshot `tool_choice … is incompatible with thinking enabled` (oh-my-pi 827, inspect_ai 5152)",
        _choice_and_thinking,
        guide="kimi.md#tool-choice",
    ),
    Rule(
        "stream options", "documented", f"{_OPENAI}: only with stream; DeepSeek API reference: the same",
        _stream_options_belong_to_streams, hosts=("openai", "deepseek"),
        guide="openai-chat.md#shape",
    ),
    Rule(
        "format fits", "documented", "OpenAI's guide on structured outputs: supported schemas, and what strict requires",
        _format_fits, hosts=("openai",), guide="openai-chat.md#structured-output",
    ),
)  # fmt: skip
# Not in RULES: these hold at some hosts only, which name them in sim/rules/hosts.py.
UNIQUE_IDS = Rule(
    "ids unique", "observed", "Moonshot `tool call id … is duplicated` (openclaw 51155); Mistral `Duplicate tool call id`",
    _ids_unique, hosts=("moonshot", "mistral"),
    guide="kimi.md#ids",
)  # fmt: skip
OWN_IDS = Rule(
    "ids count up", "assumed",
    "Kimi's templates print ids verbatim (sglang 25358). No host refuses others, but the model imitates them and its calls are lost",
    _ids_count_up,
    guide="kimi.md#ids",
)  # fmt: skip
REASONING = Rule(
    "reasoning is there", "observed",
    "error texts of Moonshot (mastra 12592) and DeepSeek (opencode 24722), whose guides say so too",
    _reasoning_is_there,
    guide="reasoning.md#who-wants-it-back",
)  # fmt: skip
PRESERVED = Rule(
    "preserved reasoning is there", "observed",
    "Moonshot `preserved thinking (thinking.keep=all) requires reasoning_content on every assistant message` (kimi-cli 2498)",
    _preserved_reasoning_is_there,
    guide="kimi.md#reasoning",
)  # fmt: skip
THINKING = Rule(
    "thinking is well said", "observed",
    "Moonshot `bool is not acceptable` (TeXRA 1905), `cannot specify both` (nanobot 3939), `only 0.6 is allowed` (recorded)",
    _thinking_is_well_said,
    guide="kimi.md#switching-thinking",
)  # fmt: skip
LAST_ROLE = Rule(
    "last role",
    "observed",
    "Mistral: `Expected last role User or Tool`",
    _last_is_not_the_assistants,
    guide="openai-chat.md#roles",
)
KNOWN_FIELDS = Rule(
    "known fields", "observed",
    "Mistral answers 422 extra_forbidden to unknown body fields; the known ones are those of the SDK mistralai 3",
    _known_fields, 422, "extra_forbidden",
    guide="openai-chat.md#tools",
)  # fmt: skip
