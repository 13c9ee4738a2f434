"""Conversation -> one generateContent request, as exact as Gemini wants it.

The history is written by ContentsWriter (and kept in the cache); the rest adds what stands around it: system instruction,
tools, tool choice, generation config. The model stands in the path, not in the body. What would be refused is left out or
bent, and noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, assert_never

from ...core.blocks import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResponse, Turn
from ...core.json_progress import object_text
from ...core.patterns import late_pattern
from ...core.tools import ToolSpec
from ..encode_context import EncodeContext, write_turns
from ..lenient_json import json_text, json_value
from ..media import SEE_MEDIA
from ..merged_messages import MergedMessages
from ..reasoning import is_own
from ..request import Request, RequestDraft, join_body, merge_body
from .media import media_part
from .thinking import thinking_config

# Tools that the host runs, by the key they are asked for with.
BUILTINS = frozenset({
    "googleSearch", "googleSearchRetrieval", "codeExecution", "urlContext", "fileSearch", "computerUse", "googleMaps",
    "enterpriseWebSearch", "retrieval",
})  # fmt: skip
# More are refused.
MAX_STOPS = 5
_UNSAFE = late_pattern(rb"[^A-Za-z0-9/._~@-]")
_SPELLED = {"top_p": "topP", "presence_penalty": "presencePenalty", "frequency_penalty": "frequencyPenalty"}


def encode_request(draft: RequestDraft) -> Request:
    options = draft.options
    # What changes the bytes of old contents.
    key = (options.missing_reasoning, options.foreign_thinking, options.tool_format)
    return _GeminiRequest(draft, draft.history(ContentsWriter, *key)).build()


def model_path(model: str, stream: bool) -> str:
    """`/models/x:streamGenerateContent?alt=sse`; a name that says its collection (`tunedModels/x`) keeps it."""
    name = model if model.startswith(("models/", "tunedModels/", "endpoints/")) else f"models/{model}"
    spelled = _UNSAFE.sub(lambda found: f"%{found[0][0]:02X}".encode(), name.encode("utf-8", "replace")).decode()
    return f"/{spelled}:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}"


class _GeminiRequest:
    def __init__(self, draft: RequestDraft, writer: ContentsWriter) -> None:
        self.draft, self.writer = draft, writer
        self.dialect, self.options = draft.dialect, draft.options
        self.context = writer.context.around(draft.options)

    def build(self) -> Request:
        body: dict[str, Any] = {}
        system = self._system()
        if system:
            body["systemInstruction"] = {"parts": system}
        described, functions = self._tools()
        if described:
            body["tools"] = described
        choice = self._choice() if functions else {}
        if choice:
            body["toolConfig"] = {"functionCallingConfig": choice}
        config = self._generation()
        if config:
            body["generationConfig"] = config
        merge_body(body, self.dialect.extra_body, self.options.extra_body)
        head = json_value(body)[:-1] + (b"," if body else b"")
        contents = self.writer.contents
        prefill = encode_text(self.options.prefill) if self.options.prefill else None
        return self.draft.request(
            model_path(self.draft.model, self.options.stream),
            join_body(head + b'"contents":[', contents.all(contents.parts, prefill), b"]}"),
            self.writer.context,
            self.context,
        )

    def _system(self) -> list[dict[str, Any]]:
        system = self.draft.conversation.system
        texts = [system] if isinstance(system, str) else [part.text for part in system]
        return [{"text": text} for text in texts if text.strip()]

    def _tools(self) -> tuple[list[dict[str, Any]], bool]:
        """The tools of the body, and whether there are functions among them."""
        functions: list[dict[str, Any]] = []
        described: list[dict[str, Any]] = []
        for tool in self.draft.tools:
            # A tool of another wire: noted there.
            if self.context.host_tool(tool) is not None:
                continue
            if tool.builtin is None:
                functions.append(self._function(tool))
            elif tool.builtin in BUILTINS:
                described.append({tool.builtin: (tool.extra or {}).get("config", {})})
            else:
                self.context.foreign_builtin(tool)
        if functions:
            described.append({"functionDeclarations": self.context.within_limit(functions)})
        return described, bool(functions)

    def _function(self, tool: ToolSpec) -> dict[str, Any]:
        described = self.context.declare(tool)
        if not described["parameters"].get("properties"):
            del described["parameters"]  # an object without any is refused; leaving it out says the same
        extra = tool.extra or {}
        return {**described, **{key: extra[key] for key in ("behavior", "response") if key in extra}}

    def _choice(self) -> dict[str, Any]:
        self.context.parallel_calls()  # no word for it here: noted
        asked = self.options.tool_choice
        if asked is None or asked in ("auto", "none"):
            return {"mode": asked.upper()} if asked else {}
        kind = self.context.forced_choice(asked)
        if kind == "auto":
            return {"mode": "AUTO"}
        choice: dict[str, Any] = {"mode": self.dialect.required_word}
        return choice if kind == "required" else {**choice, "allowedFunctionNames": [self.context.names.wire(asked)]}

    def _generation(self) -> dict[str, Any]:
        options, context = self.options, self.context
        config: dict[str, Any] = {}
        limit = context.token_limit()
        if limit is not None:
            config[self.dialect.max_tokens_field] = limit
        config |= context.sampling(spelled=_SPELLED)
        if options.stop and context.takes("stop"):
            if len(options.stop) > MAX_STOPS:
                context.option_dropped("stop", f"stop: only the first {MAX_STOPS} sequences are sent, the most allowed")
            config["stopSequences"] = options.stop[:MAX_STOPS]
        thinking = thinking_config(context, limit)
        if thinking:
            config["thinkingConfig"] = thinking
        kind, schema = context.answer_schema()
        if kind:
            config["responseMimeType"] = "application/json"
        if schema is not None:
            config["responseJsonSchema"] = schema
        context.user()  # no place for it here: noted
        return config


FIRST_WORDS = "(The conversation begins with the model.)"
# See `field-guide/gemini.md#thought-signatures`: it goes back on the part it came with.
_SIGNATURE = "thoughtSignature"
_RESPONSE_KEYS = ("willContinue", "scheduling")


def encode_text(text: str) -> bytes:
    return b'{"text":%b}' % json_text(text)


def encode_content(role: str, parts: Sequence[bytes]) -> bytes:
    return b'{"role":"%b","parts":[%b]}' % (role.encode(), b",".join(parts))


class ContentsWriter:
    def __init__(self, context: EncodeContext) -> None:
        self.context = context
        self.contents = MergedMessages(context, encode_content, "model", encode_text(FIRST_WORDS))
        self._called: dict[str, str] = {}  # the names of the last turn's calls, for their results

    @property
    def size(self) -> int:
        return self.contents.size

    def clone(self) -> ContentsWriter:
        twin = copy(self)
        twin.context = self.context.clone()
        twin.contents = self.contents.clone(twin.context)
        return twin

    def write(self, turns: Sequence[Turn], offset: int) -> None:
        write_turns(self, turns, offset)

    def human(self, turn: Turn) -> None:
        said = turn.blocks
        # The everyday message.
        if len(said) == 1 and type(said[0]) is Text and said[0].extra is None:
            parts = [encode_text(said[0].text)] if said[0].text else []
        else:
            parts = self._content(said)
        if parts:
            self.contents.say("user", parts)
        else:
            self.context.blank_turn()

    def system(self, turn: Turn) -> None:
        """This wire has no role for it: a dialect that claims one is answered as any other."""
        self.human(self.context.folded(turn))

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
                    self.context.misplaced(block)
                case _:
                    assert_never(block)
        return out

    def _media(self, media: Media, signature: str | None = None) -> bytes:
        found = self.context.readable(media)
        part = media_part(found) if found is not None else None
        if part is None:
            return encode_text(self.context.unreadable(media))
        return json_value({**part, _SIGNATURE: signature} if signature else part)

    def _opaque(self, block: Opaque, out: list[bytes], *, own_model: bool) -> None:
        if not self.context.made_here(block.origin) or not isinstance(block.data, dict):
            self.context.foreign_block(block)
            return
        data = block.data
        # A signature is bound to its model, the rest of the part to the host.
        if _SIGNATURE in data and not own_model:
            data = {key: value for key, value in data.items() if key != _SIGNATURE}
        out.append(json_value(data))

    def answer(self, turn: Turn) -> None:
        context = self.context
        own_model = context.made_here(turn.origin, same_model=True)
        own_host = context.made_here(turn.origin)
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
                    # Only the first call of a step is checked
                    # (field-guide/gemini.md#thought-signatures); parallel ones need none.
                    if signature is None and not calls and context.dialect.reasoning.required:
                        # "Function call is missing a thought_signature" is a 400 for the first call of a turn.
                        signature = context.missing_reasoning("the thought signature", "tool_call")
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
                        context.misplaced(block, "another model's answer")
                case ToolResponse():
                    context.misplaced(block, "an answer")
                case _:
                    assert_never(block)
        if not parts:
            context.blank_turn()
            return
        # Results have to name their function, and stored ones may lack it.
        self._called = calls
        self.contents.say("model", parts)

    def _signature(self, extra: dict[str, Any] | None, own_model: bool) -> str | None:
        signature = extra.get(_SIGNATURE) if extra else None
        if not isinstance(signature, str) or not signature:
            return None
        if not own_model:
            why = "a signature can be read only by the model that made it"
            self.context.note("dropped", "signature", "foreign_signature", why)
            return None
        return signature

    def _thinking(self, block: Thinking, parts: list[bytes]) -> None:
        context = self.context
        own = is_own(block, context.dialect, context.model)
        # Parts marked as thoughts do not go back as input to some
        # models; signatures do (field-guide/gemini.md#thinking).
        fate = context.thinking_fate(block, own=own)
        if fate == "text":
            parts.append(encode_text(block.text))
        signature = block.signature if own else None
        if fate == "keep" and (block.text or signature):
            part: dict[str, Any] = {"text": block.text, "thought": True}
            parts.append(json_value({**part, _SIGNATURE: signature} if signature else part))

    def _call(self, call: ToolCall, signature: str | None) -> bytes:
        context = self.context
        arguments = context.arguments(call)
        sealed = b',"%b":%b' % (_SIGNATURE.encode(), json_text(signature)) if signature else b""
        return b'{"functionCall":{"id":%b,"name":%b,"args":%b}%b}' % (
            json_text(context.ids.resolve_tool_call_id(call)),
            json_text(context.names.wire(call.name)),
            arguments.encode(),
            sealed,
        )

    def results(self, blocks: Sequence[Block]) -> None:
        parts: list[bytes] = []
        moved: list[bytes] = []
        for response in blocks:
            assert isinstance(response, ToolResponse)
            parts.append(self._result(response, moved))
        self.contents.say("user", parts + moved)

    def _result(self, response: ToolResponse, moved: list[bytes]) -> bytes:
        name = self._called.get(response.call_id, response.name)  # the two names must match, or it is a 400
        inside: list[bytes] = []
        texts: list[str] = []
        for part in self.context.result_parts(response):
            if type(part) is Text:
                texts.append(part.text)
            else:
                where = moved if type(part) is Media and self.context.moves_media() else inside
                where += self._content([part])
        said = "\n".join(texts)
        # Media alone: the object may be empty, and `{}` is read back as nothing said.
        if not texts and inside:
            body = b"{}"
        else:
            body = self._response(said or (SEE_MEDIA if moved else ""), response.is_error)
        fields = [
            b'"id":' + json_text(self.context.ids.resolve_tool_response_id(response)),
            b'"name":' + json_text(self.context.names.wire(name)),
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
