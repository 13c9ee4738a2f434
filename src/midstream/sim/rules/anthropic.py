"""Anthropic's Messages rules, in its own error texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .answer_format import anthropic_format
from .images import real_type
from .rule import Apart, Assumed, Body, Observed, Problem, Rule, Traits, objects
from .tool_schema import malformed, not_moonshots

WIRE = "anthropic"
_NO_THREAD = "thread_unsupported_request"
# The error types go by the status, as documented (field-guide/anthropic-messages.md#errors).
_TYPES = {
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
_ID = re.compile(r"[a-zA-Z0-9_-]+")


def _messages(body: Body) -> list[dict[str, Any]]:
    return objects(body.get("messages"))


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)


def _turns(body: Body) -> list[dict[str, Any]]:
    """The messages as the host reads them: consecutive ones of a role are one turn."""
    turns: list[dict[str, Any]] = []
    for message in _messages(body):
        if not turns or turns[-1]["role"] != message.get("role"):
            turns.append({"role": message.get("role"), "content": []})
        turns[-1]["content"] += _blocks(message)
    return turns


def _of(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [block for block in _blocks(message) if block.get("type") == kind]


def _thinks(body: Body) -> bool:
    thinking = body.get("thinking")
    return isinstance(thinking, dict) and thinking.get("type") in ("enabled", "adaptive")


def _shape(body: Body, traits: Traits) -> Iterator[str]:
    for field in ("model", "messages", "max_tokens"):
        if not body.get(field) and body.get(field) != 0:  # max_tokens 0 fills the cache
            yield f"{field}: Field required"
    for index, message in enumerate(_messages(body)):
        # From Opus 4.8 on, and never as the first message (field-guide/anthropic-messages.md#system-messages).
        if message.get("role") == "system" and traits.mid_system and index:
            continue
        if message.get("role") not in ("user", "assistant"):
            yield f"messages.{index}.role: Input should be 'user' or 'assistant'"


def _the_user_begins(body: Body, traits: Traits) -> Iterator[str]:
    for message in _messages(body)[:1]:
        if message.get("role") != "user":
            yield 'messages: first message must use the "user" role'


def _system_stands_between(body: Body, traits: Traits) -> Iterator[str]:
    messages = _messages(body)
    for index, message in enumerate(messages):
        if message.get("role") != "system" or not index:
            continue
        if messages[index - 1].get("role") != "user":
            yield f"messages.{index}: role 'system' must follow a 'user' message"
        if index + 1 < len(messages) and messages[index + 1].get("role") != "assistant":
            yield f"messages.{index}: role 'system' must precede an 'assistant' message or end the array"


# Kimi's `functions.a:0` has a dot and a colon and fails here; this is how hand-offs from Kimi to Claude used to end
# (field-guide/anthropic-messages.md#ids).
def _ids_fit(body: Body, traits: Traits) -> Iterator[str]:
    seen: set[str] = set()
    for index, message in enumerate(_messages(body)):
        for number, block in enumerate(_blocks(message)):
            for kind, key in (("tool_use", "id"), ("tool_result", "tool_use_id")):
                if block.get("type") != kind:
                    continue
                wire_id = str(block.get(key))
                words = (
                    f"messages.{index}.content.{number}.{kind}.{key}: String should match pattern '^[a-zA-Z0-9_-]+$'"
                )
                if not _ID.fullmatch(wire_id):
                    yield words
                elif len(wire_id) > 64:
                    # The 64 characters are documented for Bedrock only (field-guide/anthropic-messages.md#ids).
                    yield Assumed(words)
                if kind == "tool_use":
                    if wire_id in seen:
                        yield "messages: `tool_use` ids must be unique"
                    seen.add(wire_id)


def _paired(body: Body, traits: Traits) -> Iterator[str]:
    # By turns, not by messages: the host joins neighbours of one
    # role, so a result may stand in the second of two user messages.
    messages = _turns(body)
    for index, message in enumerate(messages):
        calls = [str(block.get("id")) for block in _of(message, "tool_use")]
        following = messages[index + 1] if index + 1 < len(messages) else {}
        results = {str(block.get("tool_use_id")) for block in _of(following, "tool_result")}
        missing = [wire_id for wire_id in calls if wire_id not in results]
        if missing:
            yield (
                f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after:"
                f" {', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the next message."
            )
        own = [str(block.get("tool_use_id")) for block in _of(message, "tool_result")]
        before = {str(block.get("id")) for block in _of(messages[index - 1], "tool_use")} if index else set()
        for wire_id in own:
            if wire_id not in before:
                yield (
                    f"messages.{index}.content.0: unexpected `tool_use_id` found in `tool_result` blocks: {wire_id}. Each"
                    " `tool_result` block must have a corresponding `tool_use` block in the previous message."
                )
        if len(set(own)) != len(own):
            yield f"messages.{index}: each tool_use must have a single result. Found multiple `tool_result` blocks"


def _results_come_first(body: Body, traits: Traits) -> Iterator[str]:
    for index, message in enumerate(_turns(body)):
        kinds = [block.get("type") for block in _blocks(message)]
        # With n results, the first n blocks must be results: one that comes later has something else before it.
        if "tool_result" in kinds and "tool_result" in kinds[len([k for k in kinds if k == "tool_result"]) :]:
            yield f"messages.{index}: `tool_result` blocks must come first in the content of a user message"


# Four refusals of text that says nothing, each with its own words (field-guide/anthropic-messages.md#content).
def _text_is_said(body: Body, traits: Traits) -> Iterator[str]:
    messages = _messages(body)
    for index, message in enumerate(messages):
        blocks = _blocks(message)
        # An empty last assistant message is a prefill with nothing in it, which the error text itself allows.
        if not blocks and not (index == len(messages) - 1 and message.get("role") == "assistant"):
            yield f"messages.{index}: all messages must have non-empty content except for the optional final assistant message"
        for block in blocks:
            text = block.get("text")
            if block.get("type") == "text" and not text:
                yield "messages: text content blocks must be non-empty"
            elif block.get("type") == "text" and isinstance(text, str) and text.isspace():
                yield "messages: text content blocks must contain non-whitespace text"
    for block in objects(body.get("system")):
        if not block.get("text"):
            yield "system: text content blocks must be non-empty"
    if messages and messages[-1].get("role") == "assistant":
        last = _blocks(messages[-1])
        if last and isinstance(last[-1].get("text"), str) and last[-1]["text"] != last[-1]["text"].rstrip():
            yield "messages: final assistant content cannot end with trailing whitespace"


def _thinking_is_own(body: Body, traits: Traits) -> Iterator[str]:
    for index, message in enumerate(_messages(body)):
        for number, block in enumerate(_blocks(message)):
            if block.get("type") not in ("thinking", "redacted_thinking"):
                continue
            signature = str(block.get("signature" if block["type"] == "thinking" else "data"))
            # A double cannot check a real signature; it gives its own a beginning
            # that it recognizes, and refuses all others as the host does.
            if not signature.startswith(traits.signature_prefix):
                yield f"messages.{index}.content.{number}: Invalid `signature` in `thinking` block"
            if block.get("type") == "thinking" and not isinstance(block.get("thinking"), str):
                yield f"messages.{index}.content.{number}.thinking.thinking: Field required"


def _thinking_leads(body: Body, traits: Traits) -> Iterator[str]:
    """While thinking within a budget, the assistant message of a running tool loop must begin with its thinking; adaptive
    thinking does not ask for it."""
    if not _thinks(body):
        return
    messages = _turns(body)
    thinking = body["thinking"]
    budget = thinking.get("budget_tokens")
    if thinking.get("type") == "enabled" and (not isinstance(budget, int) or budget < 1024):
        yield "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
    elif isinstance(budget, int) and isinstance(most := body.get("max_tokens"), int) and budget >= most:
        yield "`max_tokens` must be greater than `thinking.budget_tokens`."
    if body.get("temperature") not in (None, 1, 1.0):
        yield "`temperature` may only be set to 1 when thinking is enabled."
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") in ("any", "tool"):
        yield "Thinking may not be enabled when tool_choice forces tool use."
    # Only the turn whose tools are being answered is checked; older thinking may be left out.
    if thinking.get("type") == "enabled" and len(messages) >= 2 and _of(messages[-1], "tool_result"):
        first = (_blocks(messages[-2]) or [{}])[0].get("type")
        if first not in ("thinking", "redacted_thinking"):
            yield (
                f"messages.{len(messages) - 2}.content.0.type: Expected `thinking` or `redacted_thinking`, but found"
                f" `{first}`. When `thinking` is enabled, a final `assistant` message must start with a thinking block"
            )


def _reasoning_is_there(body: Body, traits: Traits) -> Iterator[str]:
    """Moonshot's Anthropic route requires thinking in every message with tool calls, as its chat route does."""
    if not traits.reasoning_message or not (_thinks(body) or ("thinking" not in body and traits.thinks_by_default)):
        return
    for index, message in enumerate(_messages(body)):
        if _of(message, "thinking"):
            continue
        if _of(message, "tool_use"):
            yield traits.reasoning_message.format(index=index)
        elif traits.preserves and message.get("role") == "assistant":
            # Known of the chat route of the same service, whose reasoning rule is the same in all else.
            yield Assumed("preserved thinking requires thinking on every assistant message")


def _tools_fit(body: Body, traits: Traits) -> Iterator[str]:
    names: set[str] = set()
    for index, tool in enumerate(objects(body.get("tools"))):
        name = str(tool.get("name"))
        if not re.fullmatch(traits.name_pattern, name):
            yield f"tools.{index}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        if name in names:
            yield Observed("tools: Tool names must be unique.")
        names.add(name)
        # Server tools have no schema of the client's.
        if "type" in tool and tool["type"] != "custom":
            continue
        schema = tool.get("input_schema")
        if not isinstance(schema, dict) or schema.get("type") != "object":
            yield f"tools.{index}.custom.input_schema.type: Field required"
        elif {"oneOf", "anyOf", "allOf"} & schema.keys():
            words = "input_schema does not support oneOf, allOf, or anyOf at the top level"
            yield Observed(f"tools.{index}.custom.input_schema: {words}")
        elif traits.checks_schemas and next(malformed(schema), None) is not None:
            words = "JSON schema is invalid. It must match JSON Schema draft 2020-12"
            yield Observed(f"tools.{index}.custom.input_schema: {words}")
        elif traits.moonshot_schema and (where := next(not_moonshots(schema, "input_schema"), None)):
            # Known of the chat route of the same service.
            yield Observed(f"tools.{index}: not a valid moonshot flavored json schema, details: <{where}>")
    for message in _messages(body):
        for block in _of(message, "tool_use"):
            if not isinstance(block.get("input"), dict):
                yield "messages: tool_use.input: Input should be a valid dictionary"
            if not re.fullmatch(traits.name_pattern, str(block.get("name"))):
                yield Observed("messages: tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'")


def _images_are_readable(body: Body, traits: Traits) -> Iterator[str]:
    for index, message in enumerate(_messages(body)):
        inner = [part for block in _of(message, "tool_result") for part in objects(block.get("content"))]
        for block in (*_of(message, "image"), *[part for part in inner if part.get("type") == "image"]):
            source = block.get("source")
            if not isinstance(source, dict) or source.get("type") != "base64":
                continue
            told, real = str(source.get("media_type")), real_type(source)
            if told not in traits.image_types:
                named = ", ".join([f"'{kind}'" for kind in traits.image_types])
                yield f"messages.{index}: image.source.base64.media_type: Input should be one of {named}"
            elif real != told:
                yield Observed(
                    f"messages.{index}: image.source.base64: The image was specified using the {told} media type, but the"
                    f" image appears to be a {real} image"
                )


def _no_thread(body: Body, traits: Traits) -> Iterator[str]:
    """The double holds no conversations for its clients. It says so as the host does where it cannot hold one, and clients
    then send the whole conversation."""
    if body.get("thread") is not None:
        yield "thread: this request cannot be threaded; send the full conversation without `thread`"


def error(problem: Problem, traits: Traits) -> dict[str, Any]:
    told: dict[str, Any] = {"type": _TYPES.get(problem.status, problem.type), "message": problem.message}
    if problem.code == _NO_THREAD:
        told["details"] = {"error_code": problem.code}
    return {"type": "error", "error": told, "request_id": "req_sim"}


_OWN = ("anthropic", "claude")
_GUIDE = "Anthropic extended thinking guide"


def _format_fits(body: Body, traits: Traits) -> Iterator[str]:
    config = body.get("output_config")
    asked = config.get("format") if isinstance(config, dict) else None
    if isinstance(asked, dict) and asked.get("type") == "json_schema":
        yield from anthropic_format(asked.get("schema"))


# Each rule says how it is known, at which hosts (`hosts`: at any other it is only assumed), and which of its messages
# are known in another way (`apart`, which the Labelled messages above belong to). `guide` is opened by a test.
RULES = (
    Rule("shape", "documented", "Anthropic API reference, messages.create: required fields and roles", _shape, guide="anthropic-messages.md#shape"),
    Rule(
        "the user begins", "observed", "Anthropic error text `first message must use the \"user\" role`",
        _the_user_begins, hosts=_OWN,
        guide="anthropic-messages.md#shape",
    ),
    Rule(
        "system stands between", "observed", "Anthropic error text `role 'system' must precede an 'assistant' message`",
        _system_stands_between, hosts=_OWN,
        guide="anthropic-messages.md#system-messages",
    ),
    Rule(
        "ids fit", "observed", "Anthropic error texts `String should match pattern` (cc-switch 1181), `ids must be unique`",
        _ids_fit, hosts=_OWN, apart=(Apart("assumed", "an id longer than 64 characters"),),
        guide="anthropic-messages.md#ids",
    ),
    Rule(
        "paired", "observed", "Anthropic error texts for tool_use and tool_result, which its tool use guide explains",
        _paired, hosts=_OWN,
        guide="anthropic-messages.md#pairing",
    ),
    Rule(
        "results come first", "documented", "Anthropic tool use guide: tool_result blocks come first in the content",
        _results_come_first, hosts=_OWN,
        guide="anthropic-messages.md#pairing",
    ),
    Rule(
        "text is said", "observed",
        "Anthropic error texts `text content blocks must be non-empty`, `must contain non-whitespace text`, `all messages must"
        " have non-empty content`, `cannot end with trailing whitespace`",
        _text_is_said, hosts=_OWN,
        guide="anthropic-messages.md#content",
    ),
    Rule(
        "images are readable", "documented", "Anthropic's guide on vision: the types of images",
        _images_are_readable, hosts=_OWN,
        apart=(Apart("observed", "a label that is not the data's", "error text `the image appears to be` (llxprt-code 2130)"),),
        guide="anthropic-messages.md#images",
    ),
    Rule("thinking is own", "documented", f"{_GUIDE}: signatures are verified", _thinking_is_own, hosts=_OWN, guide="anthropic-messages.md#thinking"),
    Rule(
        "thinking leads", "documented", f"{_GUIDE}: tool use, budget, temperature, tool_choice; adaptive thinking: validation changes",
        _thinking_leads, hosts=_OWN,
        guide="anthropic-messages.md#thinking",
    ),
    Rule(
        "tools fit", "documented", "Anthropic API reference, messages.create: tools", _tools_fit, hosts=_OWN,
        apart=(
            Apart("observed", "a name declared twice, a union at the top of a schema, a schema that is not valid, the name in a call", "error texts `Tool names must be unique`, `does not support oneOf`, `It must match JSON Schema draft 2020-12` (claude-code 586)"),
        ),
        guide="anthropic-messages.md#tools",
    ),
    Rule(
        "no thread", "documented", "anthropic 2.8.0, ThreadUnsupportedRequestError: send the full conversation",
        _no_thread, code=_NO_THREAD,
        guide="anthropic-messages.md#tools",
    ),
    Rule(
        "format fits", "documented", "Anthropic's guide on structured outputs: limitations of JSON Schema",
        _format_fits, hosts=_OWN, guide="anthropic-messages.md#structured-output",
    ),
)  # fmt: skip
REASONING = Rule(
    "reasoning is there",
    "observed",
    "Moonshot's error text on its Anthropic route (hermes-agent 17057)",
    _reasoning_is_there,
    apart=(
        Apart("assumed", "an answer without calls, of a model that keeps all reasoning: the chat route refuses it"),
    ),
    guide="anthropic-messages.md#thinking",
)
