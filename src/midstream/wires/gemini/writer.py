"""Lawful turns -> Gemini contents: alternating `user` and `model`, each part encoded once.

The last content stays open as a list of encoded parts, so that a turn of the same role joins it and encoding stays O(new turn).
All results of a turn stand in one user content, in call order. Signatures go back only to the model that made them; the first
call of a turn without one gets the documented bypass where the model demands a signature. Blank text is never sent unsigned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from ...core.blocks import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResponse, Turn
from ...core.dialect import Dialect, Options
from ...core.errors import MissingReasoning
from ...core.handoff import Action, Note
from ...core.ids import ToolIdMapper, scheme_for
from ..json_border import json_text, json_value, object_text
from ..reasoning import belongs_to, is_own, same_origin
from ..stand_ins import SEE_MEDIA, call_arguments, omitted
from ..tool_names import ToolNames
from .media import media_part

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
