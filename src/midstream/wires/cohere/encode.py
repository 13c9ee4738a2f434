"""Conversation -> one Cohere chat request.

The history is written by CohereWriter (and kept in the cache); the rest adds what stands around it: system prompt, tools,
thinking, sampling. The host refuses text beside tool calls: what was said there goes as thinking where thinking goes back, else
as the tool plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, assert_never

from ...core.blocks import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResponse, Turn
from ..encode_context import SAMPLING, EncodeContext, result_text, write_turns
from ..lenient_json import json_text, json_value
from ..media import MEDIA_FOLLOWS, image_detail, is_address
from ..reasoning import is_own
from ..request import Request, RequestDraft, below_system, join_body, merge_body
from .wire import PLAN, THINKING

_SPELLED = {"top_p": "p", "stop": "stop_sequences"}
# The ranges that the host documents (field-guide/cohere.md#tools).
_RANGES = {"p": (0.01, 0.99), "presence_penalty": (0.0, 1.0), "frequency_penalty": (0.0, 1.0)}
_MAX_STOPS = 5


def encode_request(draft: RequestDraft) -> Request:
    options = draft.options
    # Any effort but `none` writes the history alike: only whether the model thinks matters.
    effort = options.effort if options.effort in (None, "none") else "some"
    key = (options.thinking, effort, options.foreign_thinking, options.tool_format)
    return _CohereRequest(draft, draft.history(CohereWriter, *key)).build()


class _CohereRequest:
    def __init__(self, draft: RequestDraft, writer: CohereWriter) -> None:
        self.draft, self.writer = draft, writer
        self.dialect, self.options = draft.dialect, draft.options
        self.context = writer.context.around(draft.options)

    def build(self) -> Request:
        body: dict[str, Any] = {"model": self.draft.model, "stream": self.options.stream}
        body |= self._tools()
        body |= CONTROLS[self.dialect.reasoning.control](self.context)
        # Needs to know whether tools are sent: the two exclude each other.
        body |= self._answer_format("tools" in body)
        limit = self.context.token_limit()
        if limit is not None:
            body[self.dialect.max_tokens_field] = limit
        body |= self._sampling()
        self.context.user()  # no place for it here: noted
        merge_body(body, self.dialect.extra_body, self.options.extra_body)
        return self.draft.request(
            self.dialect.path or "/v2/chat",
            join_body(json_value(body)[:-1] + b',"messages":[', self._messages(), b"]}"),
            self.writer.context,
            self.context,
        )

    def _messages(self) -> list[bytes]:
        messages = below_system(self.draft.conversation, self.writer.messages)
        if self.options.prefill:
            self.context.option_dropped("prefill", "prefill: this host continues no answer that was begun for it")
        return messages

    def _tools(self) -> dict[str, Any]:
        """The tools and the choice among them. There is no word for a named choice: that tool is sent alone."""
        tools, choice, context = self.draft.tools, self.options.tool_choice, self.context
        fields: dict[str, Any] = {}
        if choice == "none":
            fields["tool_choice"] = "NONE"
        elif choice not in (None, "auto"):
            # No name can be said, so the choice is made by leaving out the rest.
            only = [tool for tool in tools if tool.name == choice]
            if only:
                why = f"a named tool choice is refused here; {choice} is sent as the only tool instead"
                context.note("adapted", "option", "tool_choice_changed", why)
                tools, choice = only, "required"
            if context.forced_choice(choice) == "required":
                fields["tool_choice"] = self.dialect.required_word
        if self.dialect.strict_tools and all(tool.strict for tool in tools):
            fields["strict_tools"] = True  # said once, for all of them
        context.parallel_calls()  # no word for it here: noted
        described: list[dict[str, Any]] = []
        for tool in context.within_limit(tools):
            if context.host_tool(tool) is not None:
                continue
            if tool.builtin is not None:
                context.foreign_builtin(tool)
            else:
                described.append({"type": "function", "function": context.declare(tool)})
        return {"tools": described, **fields} if described else {}

    def _answer_format(self, has_tools: bool) -> dict[str, Any]:
        kind, schema = self.context.answer_schema()
        if not kind:
            return {}
        # Tools win: without them the caller's agent could not go on.
        if has_tools:
            self.context.option_dropped("response_format", "response_format is refused beside tools")
            return {}
        return {"response_format": {"type": "json_object", **({"json_schema": schema} if schema is not None else {})}}

    def _sampling(self) -> dict[str, Any]:
        fields = self.context.sampling((*SAMPLING, "stop"), _SPELLED)
        for name, (least, most) in _RANGES.items():
            asked = fields.get(name)
            if asked is not None and not least <= asked <= most:
                fields[name] = min(max(asked, least), most)
                why = f"{name} {asked:g} is sent as {fields[name]:g}; this host takes {least:g} to {most:g}"
                self.context.option_changed(name, why)
        stops = fields.get("stop_sequences", ())
        if len(stops) > _MAX_STOPS:
            fields["stop_sequences"] = stops[:_MAX_STOPS]
            self.context.option_dropped(
                "stop", f"this host takes at most {_MAX_STOPS} stop sequences; the others are left out"
            )
        return fields


def _none(context: EncodeContext) -> dict[str, Any]:
    if context.options.thinking == "on" or context.options.effort not in (None, "none"):
        context.option_dropped("thinking", "this model does not think")
    return {}


def _thinking(context: EncodeContext) -> dict[str, Any]:
    """Said only where it differs from what the model does by itself."""
    options, rules = context.options, context.dialect.reasoning
    if not thinks(context):
        # A model that would not think anyway is told nothing.
        return {"thinking": {"type": "disabled"}} if rules.default_on and rules.can_disable else {}
    if options.effort is not None:
        context.option_dropped("effort", "effort: this model takes a number of tokens; set thinking_budget instead")
    if options.thinking_budget:
        return {"thinking": {"type": "enabled", "token_budget": options.thinking_budget}}
    return {"thinking": {"type": "enabled"}} if options.thinking == "on" or not rules.default_on else {}


CONTROLS: dict[str, Callable[[EncodeContext], dict[str, Any]]] = {"none": _none, "token_budget": _thinking}


def thinks(context: EncodeContext) -> bool:
    """Whether the reader thinks in this request: only then does it take thinking back."""
    return context.thinking and context.options.effort != "none" and context.dialect.reasoning.field == THINKING


class CohereWriter:
    """`messages` are finished JSON objects."""

    def __init__(self, context: EncodeContext) -> None:
        self.context = context
        self.messages: list[bytes] = []
        self._size = 0

    @property
    def size(self) -> int:
        return self._size

    def clone(self) -> CohereWriter:
        twin = copy(self)
        twin.context = self.context.clone()
        twin.messages = self.messages.copy()
        return twin

    def write(self, turns: Sequence[Turn], offset: int) -> None:
        write_turns(self, turns, offset)

    def _add(self, role: bytes, content: bytes | None, rest: bytes = b"") -> None:
        said = b',"content":' + content if content is not None else b""
        message = b'{"role":"%b"%b%b}' % (role, said, rest)
        self.messages.append(message)
        self._size += len(message)

    def human(self, turn: Turn) -> None:
        self._said(b"user", turn.blocks)

    def system(self, turn: Turn) -> None:
        self._said(b"system", turn.blocks)

    def _said(self, role: bytes, blocks: Sequence[Block]) -> None:
        parts = self._parts(blocks)
        # A message without words is refused (field-guide/cohere.md#shape).
        if any(part.get("type") != "text" or part["text"].strip() for part in parts):
            self._add(role, _compact(parts))
        else:
            self.context.blank_turn()

    def _parts(self, blocks: Sequence[Block]) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        for block in blocks:
            match block:
                case Text():
                    if block.text:
                        parts.append({"type": "text", "text": block.text})
                case Media():
                    parts.append(self._media(block))
                case Opaque():
                    if self.context.is_own_part(block):
                        parts.append(block.data)
                    else:
                        self.context.foreign_block(block)
                case Thinking() | ToolCall() | ToolResponse():
                    self.context.misplaced(block)
                case _:
                    assert_never(block)
        return parts

    def _media(self, media: Media) -> dict[str, Any]:
        found = self.context.readable(media)
        if found is None or found.kind != "image" or (found.data is None and not is_address(found.url or "")):
            return {"type": "text", "text": self.context.unreadable(media)}
        url = found.url if found.data is None else f"data:{found.mime};base64,{found.data}"
        return {"type": "image_url", "image_url": {"url": url, **image_detail(found)}}

    def answer(self, turn: Turn) -> None:
        texts: list[str] = []
        thoughts: list[str] = []
        plans: list[str] = []
        calls = turn.tool_calls
        for block in turn.blocks:
            match block:
                case Text():
                    texts.append(block.text)
                case ToolCall():
                    pass
                case Thinking():
                    self._thinking(block, bool(calls), thoughts, plans, texts)
                case Opaque():
                    self._opaque(block)
                case Media() | ToolResponse():
                    self.context.misplaced(block, "an assistant message")
                case _:
                    assert_never(block)
        text = "".join(texts)
        # Text beside calls is refused (field-guide/cohere.md#text-beside-calls), so it has to move.
        if calls:
            if text.strip():
                why = f"text beside tool calls is refused here; sent as {'thinking' if thoughts else 'the tool plan'}"
                self.context.note("adapted", "text", "misplaced_block", why)
            self._calls(calls, thoughts, [*plans, text])
        elif not text.strip():
            self.context.blank_turn()
        elif thoughts:
            said = {"type": "text", "text": text}
            self._add(b"assistant", json_value([_thought("".join(thoughts)), said]))
        else:
            self._add(b"assistant", json_text(text))

    def _thinking(self, block: Thinking, calls: bool, thoughts: list[str], plans: list[str], texts: list[str]) -> None:
        """Thinking goes back to a reader that thinks; beside calls, to any other as their plan."""
        context = self.context
        echo = context.dialect.reasoning.echo
        as_thinking = thinks(context) and (calls or echo == "always") and echo != "never"
        if is_own(block, context.dialect, context.model):
            # Its own plan stays with the plans, even for a model that thinks.
            if calls and (block.field == PLAN or not as_thinking):
                plans.append(block.text)
            elif as_thinking and block.field != PLAN:
                thoughts.append(block.text)
            else:
                context.not_echoed(block)
            return
        fate = context.foreign_thinking(block, keeps=as_thinking or calls)
        if fate == "keep":
            (thoughts if as_thinking else plans).append(block.text)
        elif fate == "text":
            texts.append(block.text + "\n\n")

    def _opaque(self, block: Opaque) -> None:
        if block.kind == "citations":
            # They point into a content that may have changed on its way.
            self.context.note("dropped", "opaque", "foreign_citations", "citations are not sent back")
        else:
            self.context.foreign_block(block)

    def _calls(self, calls: Sequence[ToolCall], thoughts: Sequence[str], plans: Sequence[str]) -> None:
        """Text beside calls is refused (`text content is not allowed when tool_calls are provided`)."""
        content, plan = None, b""
        said = [text for text in ("".join(thoughts), *plans) if text.strip()]
        # Thinking and plan together are not known to be taken
        # (field-guide/cohere.md#text-beside-calls): if there is thinking, all goes there.
        if thoughts:
            content = json_value([_thought("\n\n".join(said))]) if said else None
        elif said:
            plan = b',"tool_plan":' + json_text("\n\n".join(said))
        written = b",".join([self._call(call) for call in calls])
        self._add(b"assistant", content, plan + b',"tool_calls":[' + written + b"]")

    def _call(self, call: ToolCall) -> bytes:
        context = self.context
        arguments, name = context.arguments(call), context.names.wire(call.name)
        # Some schemes spell the name in the id: it must be the one the reader knows.
        call_id = context.ids.resolve_tool_call_id(call if name == call.name else ToolCall(call.id, name))
        return b'{"id":%b,"type":"function","function":{"name":%b,"arguments":%b}}' % (
            json_text(call_id), json_text(name), json_text(arguments),
        )  # fmt: skip

    def results(self, blocks: Sequence[Block]) -> None:
        context = self.context
        media: list[dict[str, Any]] = []
        for response in blocks:
            assert isinstance(response, ToolResponse)
            parts: list[dict[str, Any]] = []
            for part in self._parts(context.result_parts(response)):
                moved = part.get("type") == "image_url" and context.moves_media()
                (media if moved else parts).append(part)
            # A string wherever there is only text, as on the chat wire.
            if all(part.get("type") == "text" for part in parts):
                content = json_text(result_text(response, [part["text"] for part in parts], bool(media)))
            else:
                content = json_value(parts)
            wire_id = json_text(context.ids.resolve_tool_response_id(response))
            self._add(b"tool", content, b',"tool_call_id":' + wire_id)
        if media:
            self._add(b"user", json_value([{"type": "text", "text": MEDIA_FOLLOWS}, *media]))


def _thought(text: str) -> dict[str, str]:
    return {"type": "thinking", "thinking": text}


def _compact(parts: list[dict[str, Any]]) -> bytes:
    """One plain text is a string."""
    if len(parts) == 1 and parts[0].get("type") == "text" and len(parts[0]) == 2:
        return json_text(parts[0]["text"])
    return json_value(parts)
