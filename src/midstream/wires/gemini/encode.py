"""Conversation -> one generateContent request, as exact as Gemini wants it.

The history is written by ContentsWriter (and kept in the cache); this module adds what stands around it: system instruction,
tools, tool choice, generation config. The model stands in the path, not in the body. What would be refused is left out or
bent, and noted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, assert_never

from ...core.blocks import Block, Conversation, Media, Opaque, Text, Thinking, ToolCall, ToolResponse, Turn
from ...core.dialect import Dialect, Options
from ...core.errors import InvalidHistory, MissingReasoning
from ...core.handoff import Action, Note
from ...core.ids import ToolIdMapper, scheme_for
from ...core.tools import ToolSpec
from ..encode_context import EncodeContext
from ..lenient_json import json_text, json_value, object_text
from ..placeholders import SEE_MEDIA, call_arguments, omitted
from ..reasoning import belongs_to, is_own, same_origin
from ..request import Request, join_body, merge_body, sampling_fields, token_limit
from ..tool_declarations import ToolNames, declare, within_limit
from .media import media_part
from .thinking import thinking_config

BUILTINS = frozenset({
    "googleSearch", "googleSearchRetrieval", "codeExecution", "urlContext", "fileSearch", "computerUse", "googleMaps",
    "enterpriseWebSearch", "retrieval",
})  # fmt: skip
MAX_STOPS = 5
_UNSAFE = re.compile(rb"[^A-Za-z0-9/._~@-]")
_SPELLED = {"top_p": "topP", "presence_penalty": "presencePenalty", "frequency_penalty": "frequencyPenalty"}


def encode_gemini(asking: EncodeContext) -> Request:
    options = asking.options
    key = (options.missing_reasoning, options.foreign_thinking, options.tool_format)
    return _GeminiRequest(asking, asking.history(ContentsWriter, *key)).build()


def model_path(model: str, stream: bool) -> str:
    """`/models/x:streamGenerateContent?alt=sse`; a name that says its collection (`tunedModels/x`) keeps it."""
    name = model if model.startswith(("models/", "tunedModels/", "endpoints/")) else f"models/{model}"
    spelled = _UNSAFE.sub(lambda found: f"%{found[0][0]:02X}".encode(), name.encode("utf-8", "replace")).decode()
    return f"/{spelled}:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}"


class _GeminiRequest:
    def __init__(self, asking: EncodeContext, writer: ContentsWriter) -> None:
        self.asking = asking
        self.dialect = asking.dialect
        self.options = asking.options
        self.writer = writer
        self.notes: list[Note] = []

    def build(self) -> Request:
        body: dict[str, Any] = {}
        system = self._system(self.asking.conversation)
        if system:
            body["systemInstruction"] = {"parts": system}
        described, functions = self._tools(self.asking.tools)
        if described:
            body["tools"] = described
        choice = self._choice() if functions else {}
        if choice:
            body["toolConfig"] = {"functionCallingConfig": choice}
        config = self._generation()
        if config:
            body["generationConfig"] = config
        for extra in (self.dialect.extra_body, self.options.extra_body):
            merge_body(body, extra)
        head = json_value(body)[:-1] + (b"," if body else b"")
        return self.asking.request(
            model_path(self.asking.model, self.options.stream),
            join_body(head + b'"contents":[', self._contents(), b"]}"),
            (*self.writer.notes, *self.notes),
            tool_names=self.writer.names.changed,
        )

    def _note(self, action: Action, what: str, why: str) -> None:
        self.notes.append(Note(action, what, why))

    def _contents(self) -> list[bytes]:
        writer = self.writer
        contents = writer.closed.copy()
        role, parts, prefill = writer.role, writer.parts, self.options.prefill
        if prefill and role == "model":
            parts = [*parts, encode_text(prefill)]
        if role:
            contents.append(encode_content(role, parts))
        if not contents:
            raise InvalidHistory("the conversation is empty: add a human turn first")
        if prefill and role != "model":
            contents.append(encode_content("model", [encode_text(prefill)]))
        return contents

    @staticmethod
    def _system(conversation: Conversation) -> list[dict[str, Any]]:
        system = conversation.system
        texts = [system] if isinstance(system, str) else [part.text for part in system]
        return [{"text": text} for text in texts if text.strip()]

    def _tools(self, tools: Sequence[ToolSpec]) -> tuple[list[dict[str, Any]], bool]:
        """The tools of the body, and whether there are functions among them."""
        functions: list[dict[str, Any]] = []
        described: list[dict[str, Any]] = []
        for tool in tools:
            if tool.builtin is None:
                functions.append(self._function(tool))
            elif tool.builtin in BUILTINS:
                described.append({tool.builtin: (tool.extra or {}).get("config", {})})
            else:
                self._note("dropped", "tool", f"{tool.builtin} is another host's built-in tool")
        if functions:
            described.append({"functionDeclarations": within_limit(functions, self.dialect, self.notes)})
        return described, bool(functions)

    def _function(self, tool: ToolSpec) -> dict[str, Any]:
        described = declare(tool, self.dialect, self.writer.names, self.notes)
        if not described["parameters"].get("properties"):
            del described["parameters"]  # an object without any is refused; leaving it out says the same
        extra = tool.extra or {}
        return {**described, **{key: extra[key] for key in ("behavior", "response") if key in extra}}

    def _choice(self) -> dict[str, Any]:
        options, dialect = self.options, self.dialect
        asked = options.tool_choice
        if options.parallel_tool_calls is not None:
            self._note("dropped", "option", "parallel_tool_calls is not understood here")
        if asked is None:
            return {}
        if asked in ("auto", "none"):
            return {"mode": asked.upper()}
        kind = "required" if asked == "required" else "named"
        if kind not in dialect.forced_choice:
            self._note("adapted", "option", f"a {kind} tool choice is refused here; sent as auto")
            return {"mode": "AUTO"}
        if kind == "required":
            return {"mode": dialect.required_word}
        return {"mode": dialect.required_word, "allowedFunctionNames": [self.writer.names.wire(asked)]}

    def _generation(self) -> dict[str, Any]:
        options, dialect = self.options, self.dialect
        config: dict[str, Any] = {}
        limit = token_limit(options, dialect, self.notes)
        if limit is not None:
            config[dialect.max_tokens_field] = limit
        config |= sampling_fields(options, dialect, self.notes, spelled=_SPELLED)
        if options.stop:
            if len(options.stop) > MAX_STOPS:
                self._note("dropped", "option", f"only {MAX_STOPS} stop sequences are taken here")
            config["stopSequences"] = options.stop[:MAX_STOPS]
        thinking = thinking_config(options, dialect, self.notes)
        if thinking:
            config["thinkingConfig"] = thinking
        self._format(config)
        return config

    def _format(self, config: dict[str, Any]) -> None:
        asked = self.options.response_format
        if asked is None or asked.get("type") == "text":
            return
        config["responseMimeType"] = "application/json"
        inner = asked.get("json_schema", asked)
        schema = inner.get("schema") if asked.get("type") == "json_schema" and isinstance(inner, dict) else None
        if schema is not None:
            config["responseJsonSchema"] = schema


FIRST_WORDS = "(The conversation begins with the model.)"
_SIGNATURE = "thoughtSignature"
_RESPONSE_KEYS = ("willContinue", "scheduling")


def encode_text(text: str) -> bytes:
    return b'{"text":%b}' % json_text(text)


def encode_content(role: str, parts: Sequence[bytes]) -> bytes:
    return b'{"role":"%b","parts":[%b]}' % (role.encode(), b",".join(parts))


class ContentsWriter:
    """`closed` are finished contents; `role` and `parts` are the open one."""

    def __init__(self, dialect: Dialect, options: Options, model: str) -> None:
        self.notes: list[Note] = []
        self.closed: list[bytes] = []
        self.role = ""
        self.parts: list[bytes] = []
        self.names = ToolNames(dialect.limits)
        self._dialect = dialect
        self._options = options
        self._model = model
        scheme = scheme_for(dialect.ids, options.tool_format)
        self._ids: ToolIdMapper = scheme.create_mapper()
        self._called: dict[str, str] = {}  # the names of the last turn's calls, for their results
        self._size = 0
        self._turn = 0

    @property
    def size(self) -> int:
        return self._size

    def write(self, turns: Sequence[Turn], offset: int) -> None:
        for number, turn in enumerate(turns, offset):
            self._turn = number
            if turn.speaker == "human":
                self._human(turn)
            elif turn.speaker == "ai":
                self._assistant(turn)
            else:
                self._results(turn.blocks)

    def _note(self, action: Action, what: str, why: str) -> None:
        self.notes.append(Note(action, what, why, self._turn))

    def _say(self, role: str, parts: Sequence[bytes]) -> None:
        """Add parts to the open content, or begin the next one."""
        if role != self.role or not self._dialect.merge_turns:
            if self.role:
                self.closed.append(encode_content(self.role, self.parts))
            elif role == "model" and self._dialect.first_speaker_user:
                self._note("adapted", "turn", "the first content must be the user's; a line of text stands in")
                self.closed.append(encode_content("user", [encode_text(FIRST_WORDS)]))
            self.role = role
            self.parts = []
        self.parts += parts
        self._size += sum(map(len, parts)) + 32

    def _human(self, turn: Turn) -> None:
        if turn.role in ("system", "developer"):
            self._note("adapted", "turn", f"a {turn.role} message inside the conversation is sent as the user's")
        said = turn.blocks
        if len(said) == 1 and type(said[0]) is Text and said[0].extra is None:
            parts = [encode_text(said[0].text)] if said[0].text else []
        else:
            parts = self._content(said)
        if parts:
            self._say("user", parts)
        else:
            self._note("dropped", "turn", "it holds nothing but blank text")

    def _content(self, blocks: Sequence[Block]) -> list[bytes]:
        """The parts of a user content."""
        out: list[bytes] = []
        for block in blocks:
            match block:
                case Text():
                    if block.text:
                        out.append(encode_text(block.text))
                case Media():
                    out.append(self._media(block))
                case Opaque():
                    self._opaque(block, out, own_model=False)
                case Thinking() | ToolCall() | ToolResponse():
                    tag = str(block.__struct_config__.tag)
                    self._note("dropped", tag, "it cannot stand in a user content")
                case _:
                    assert_never(block)
        return out

    def _media(self, media: Media, signature: str | None = None) -> bytes:
        part = media_part(media, self._dialect.media)
        if part is None:
            self._note("dropped", "media", f"{media.mime or media.kind} is not read here; a line of text stands in")
            return encode_text(omitted(media))
        return json_value({**part, _SIGNATURE: signature} if signature else part)

    def _opaque(self, block: Opaque, out: list[bytes], *, own_model: bool) -> None:
        if block.origin is None or not same_origin(block.origin, self._dialect) or not isinstance(block.data, dict):
            self._note("dropped", "opaque", f"{block.kind} belongs to the host that made it")
            return
        data = block.data
        if _SIGNATURE in data and not own_model:
            data = {key: value for key, value in data.items() if key != _SIGNATURE}
        out.append(json_value(data))

    def _assistant(self, turn: Turn) -> None:
        own_model = turn.origin is not None and same_origin(turn.origin, self._dialect, self._model)
        own_host = turn.origin is not None and same_origin(turn.origin, self._dialect)
        parts: list[bytes] = []
        calls: dict[str, str] = {}
        for block in turn.blocks:
            match block:
                case Text():
                    signature = self._signature(block.extra, own_model)
                    if signature:
                        parts.append(b'{"text":%b,"%b":%b}' % (
                            json_text(block.text), _SIGNATURE.encode(), json_text(signature),
                        ))  # fmt: skip
                    elif block.text:
                        parts.append(encode_text(block.text))
                case ToolCall():
                    signature = self._signature(block.extra, own_model)
                    if signature is None and not calls and self._dialect.reasoning.required:
                        signature = self._stand_in()
                    calls[block.id] = block.name
                    parts.append(self._call(block, signature))
                case Thinking():
                    self._thinking(block, parts)
                case Opaque():
                    self._opaque(block, parts, own_model=own_model)
                case Media():
                    if own_host:
                        parts.append(self._media(block, self._signature(block.extra, own_model)))
                    else:
                        self._note("dropped", "media", "a model's content carries only its own media")
                case ToolResponse():
                    self._note("dropped", "tool_response", "it cannot stand in a model's content")
                case _:
                    assert_never(block)
        if not parts:
            self._note("dropped", "turn", "the answer holds nothing this wire can say")
            return
        self._called = calls
        self._say("model", parts)

    def _signature(self, extra: dict[str, Any] | None, own_model: bool) -> str | None:
        signature = extra.get(_SIGNATURE) if extra else None
        if not isinstance(signature, str) or not signature:
            return None
        if not own_model:
            self._note("dropped", "signature", "it is read only by the model that made it")
            return None
        return signature

    def _stand_in(self) -> str:
        """The first call of a turn must be signed: `Function call is missing a thought_signature` is a 400."""
        if self._options.missing_reasoning == "fail":
            raise MissingReasoning(
                f"turn {self._turn} calls a tool without the signature {self._dialect.name} demands: set missing_reasoning "
                "to placeholder"
            )
        self._note("adapted", "tool_call", "it has no signature of this model; the documented bypass stands in")
        return self._dialect.reasoning.placeholder

    def _thinking(self, block: Thinking, parts: list[bytes]) -> None:
        rules = self._dialect.reasoning
        own = is_own(block, self._dialect, self._model) and rules.echo != "never"
        if own or (self._options.foreign_thinking == "keep" and block.text):
            signature = block.signature if own else None
            if block.text or signature:
                part: dict[str, Any] = {"text": block.text, "thought": True}
                parts.append(json_value({**part, _SIGNATURE: signature} if signature else part))
        elif self._options.foreign_thinking == "text" and block.text.strip():
            self._note("adapted", "thinking", "another model's thinking is sent as plain text")
            parts.append(encode_text(block.text))
        else:
            self._note("dropped", "thinking", belongs_to(block))

    def _call(self, call: ToolCall, signature: str | None) -> bytes:
        arguments = call_arguments(call, self._note)
        sealed = b',"%b":%b' % (_SIGNATURE.encode(), json_text(signature)) if signature else b""
        return b'{"functionCall":{"id":%b,"name":%b,"args":%b}%b}' % (
            json_text(self._ids.resolve_tool_call_id(call)),
            json_text(self.names.wire(call.name)),
            arguments.encode(),
            sealed,
        )

    def _results(self, responses: Sequence[Block]) -> None:
        parts: list[bytes] = []
        moved: list[bytes] = []
        for response in responses:
            assert isinstance(response, ToolResponse)
            parts.append(self._result(response, moved))
        self._say("user", parts + moved)

    def _result(self, response: ToolResponse, moved: list[bytes]) -> bytes:
        name = self._called.get(response.call_id) or response.name  # the two names must match, or it is a 400
        inside: list[bytes] = []
        texts: list[str] = []
        for part in response.content:
            if type(part) is Text:
                texts.append(part.text)
            elif self._dialect.tool_result_media == "inline":
                inside += self._content([part])
            else:
                self._note("adapted", "media", "media of a tool result follow behind the results")
                moved += self._content([part])
        said = "\n".join(texts)
        if not texts and inside:
            body = b"{}"
        else:
            body = self._response(said or (SEE_MEDIA if moved else ""), response.is_error)
        fields = [
            b'"id":' + json_text(self._ids.resolve_tool_response_id(response)),
            b'"name":' + json_text(self.names.wire(name)),
            b'"response":' + body,
        ]
        if inside:
            fields.append(b'"parts":[' + b",".join(inside) + b"]")
        kept = {key: value for key, value in (response.extra or {}).items() if key in _RESPONSE_KEYS}
        if kept:
            fields.append(json_value(kept)[1:-1])
        return b'{"functionResponse":{' + b",".join(fields) + b"}}"

    @staticmethod
    def _response(text: str, is_error: bool) -> bytes:
        """`response` must be an object: text that is one goes as it is, other text under a key that says what it is."""
        whole = object_text(text)
        if whole is None:
            return b'{"%b":%b}' % (b"error" if is_error else b"result", json_text(text))
        if is_error and '"error"' not in whole:
            return b'{"error":%b}' % whole.encode()
        return whole.encode()
