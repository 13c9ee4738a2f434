"""A conversation as the AI SDK's model messages, and back, so that a web front end built on it can share one.

The messages hold what the format can express: text, reasoning, files, tool calls and tool results. The rest (the canonical
id, who made a block, signatures, a turn's key and usage, opaque blocks) travels in `providerOptions.midstream`, which the SDK
carries along untouched; where a front end changed a plain field, the plain field wins. Tool ids come from a ToolIdStrategy, or
a mapper, as on any wire. Messages that midstream did not write are read too: their ids become canonical.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from ..core.blocks import (
    Block,
    Conversation,
    Media,
    Opaque,
    Origin,
    Speaker,
    Text,
    Thinking,
    ToolCall,
    ToolResponse,
    Turn,
)
from ..core.compaction import sent_turns
from ..core.errors import InvalidHistory, InvalidValue
from ..core.history import canonicalize
from ..core.ids import ToolIdMapper, ToolIdStrategy, standard_strategy
from ..wires.lenient_json import json_value

Json: TypeAlias = dict[str, Any]

NAMESPACE = "midstream"
# Marks parts of this format that the core cannot say; they go back here as they came, and to no host.
_ORIGIN = Origin(wire="ai-sdk")
_SPEAKERS: dict[str, Speaker] = {"user": "human", "system": "system", "assistant": "ai", "tool": "tool"}
_FILE = "application/octet-stream"
_MEDIA_FIELDS = ("mime", "data", "url", "name")

T = TypeVar("T")


def to_model_messages(
    conversation: Conversation, ids: ToolIdStrategy | ToolIdMapper = standard_strategy, *, private: bool = True
) -> list[Json]:
    """The conversation as model messages. Without `private`, only what the format itself can express, and a summary in place of
    the turns it stands for."""
    # With `private` the messages can be read back into the same conversation, so nothing may be summarised away.
    turns = conversation.turns if private else sent_turns(conversation.turns).turns
    mapper = ids.create_mapper(turns) if isinstance(ids, ToolIdStrategy) else ids
    system = conversation.system
    messages: list[Json] = []
    for text in system if isinstance(system, tuple) else [Text(system)] if system else ():
        message = {"role": "system", "content": text.text}
        messages.append(_with_options(message, _rest(text, "type", "text"), text.extra, private))
    # The format wants a tool's name on every result, and not every host gives one.
    names = {call.id: call.name for turn in turns for call in turn.tool_calls}
    writer = _Writer(mapper, names, private)
    try:
        messages += [writer.message(turn) for turn in turns]
    except (TypeError, RecursionError) as error:  # in an `extra`
        raise InvalidValue(f"the conversation cannot be written as JSON: {error}") from None
    return messages


def from_model_messages(messages: Iterable[Json], provider: str = "") -> Conversation:
    """Model messages as a conversation with canonical ids; leading system messages are its system prompt."""
    system: list[Text] = []
    turns: list[Turn] = []
    reader = _Reader()
    for number, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in _SPEAKERS:
            raise InvalidHistory(f"message {number} has no known role: expected one of {', '.join(_SPEAKERS)}")
        mine, others = _options(message)
        # A system turn of ours says so in its options; any other system message at the beginning is the prompt.
        if message["role"] == "system" and not turns and "turn" not in mine:
            system.append(Text(str(message.get("content") or ""), _extra(mine, others)))
        else:
            turns.append(reader.turn(message))
    plain = len(system) == 1 and system[0].extra is None
    conversation = Conversation(tuple(turns), system[0].text if plain else tuple(system) or "")
    return canonicalize(conversation, provider)


class _Writer:
    def __init__(self, ids: ToolIdMapper, names: dict[str, str], private: bool) -> None:
        self._ids = ids
        self._names = names
        self._private = private

    def message(self, turn: Turn) -> Json:
        role = {"human": "user", "ai": "assistant", "tool": "tool", "system": "user"}[turn.speaker]
        held: list[list[Any]] = []
        parts: list[Json] = []
        for place, block in enumerate(turn.blocks):
            part = self._part(block)
            if part is None or not _may_stand(part["type"], role):
                # What the format has no part for, or not under this role, travels
                # in our options with its place, and is put back on reading.
                held.append([place, msgspec.to_builtins(block)])
            else:
                parts.append(part)
        message: Json = {"role": role, "content": parts}
        # A message of one plain text is a string, as front ends write it themselves.
        only = turn.blocks[0] if len(turn.blocks) == 1 else None
        mine: Json = {"turn": _rest(turn, "speaker", "blocks")}
        if isinstance(only, Text) and (turn.role or turn.is_instruction):
            message, held = {"role": "system", "content": only.text}, []
            mine["text"] = only.extra
        elif turn.is_instruction and all(isinstance(block, Text) for block in turn.blocks):
            # The format has only one text for a system message.
            message, held = {"role": "system", "content": "\n\n".join([part["text"] for part in parts])}, []
            mine["texts"] = list(msgspec.to_builtins(turn.blocks))
        elif isinstance(only, Text) and only.extra is None and parts:
            message["content"] = only.text
        # Only where the role does not tell it: the fewer fields of ours
        # there are, the fewer can contradict a front end's changes.
        if _SPEAKERS[message["role"]] != turn.speaker:
            mine["turn"]["speaker"] = turn.speaker
        if held:
            mine["held"] = held
        return _with_options(message, mine, turn.extra, self._private)

    def _part(self, block: Block) -> Json | None:
        """A block as a part, or None where the format has none for it."""
        part: Json
        match block:
            case Text():
                part = {"type": "text", "text": block.text}
                return self._finished(part, block, "text")
            case Thinking():
                part = {"type": "reasoning", "text": block.text}
                return self._finished(part, block, "text")
            case Media():
                if block.data is None and block.url is None:
                    return None
                part = _media_part(block)
                mine = {**_unsaid(block, part), **_rest(block, "type", *_MEDIA_FIELDS)}
                return _with_options(part, mine, block.extra, self._private)
            case ToolCall():
                part = {
                    "type": "tool-call",
                    "toolCallId": self._ids.resolve_tool_call_id(block),
                    "toolName": block.name,
                    "input": _input(block.arguments),
                }
                # Arguments are kept as text only where parsing loses
                # something (spaces, the order of keys, invalid JSON).
                said = ["arguments"] if _arguments(part["input"]) == block.arguments else []
                return self._finished(part, block, "name", *said)
            case ToolResponse():
                part = {
                    "type": "tool-result",
                    "toolCallId": self._ids.resolve_tool_response_id(block),
                    "toolName": block.name or self._names.get(block.call_id, ""),
                    "output": _output(block),
                }
                kind = part["output"]["type"]
                said = [] if kind == "content" else ["is_error"]
                if kind in ("json", "error-json", "execution-denied"):
                    said.append("output")
                return self._finished(part, block, "name", "content", *said)
            case Opaque():
                return _own_part(block)

    def _finished(self, part: Json, block: Text | Thinking | Media | ToolCall | ToolResponse, *told: str) -> Json:
        return _with_options(part, _rest(block, "type", *told), block.extra, self._private)


# Everything comes from a front end, which may have changed or dropped any of it: what cannot be converted is read
# from the plain fields, and nothing raises but a message without a role.
class _Reader:
    def __init__(self) -> None:
        self._known: dict[str, str] = {}  # tool ids of the messages -> canonical ids they stand for

    def turn(self, message: Json) -> Turn:
        mine, others = _options(message)
        content = message.get("content")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        blocks = [self._block(part) for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
        if message["role"] == "system" and isinstance(content, str):
            blocks = [Text(content, mine["text"] if isinstance(mine.get("text"), dict) else None)]
            texts = mine.get("texts")
            kept: list[Text | None] = [_converted(each, Text) for each in texts] if isinstance(texts, list) else []
            whole = [text for text in kept if text is not None]
            # Unchanged: the blocks as they were. Changed by the front end: its text counts.
            if whole and "\n\n".join([text.text for text in whole]) == content:
                blocks = list(whole)
        for place, value in _held(mine):
            block: Block | None = _converted(value, Block)
            if block is not None:
                # In ascending order, so each place is right when its turn comes.
                blocks.insert(place, block)
        fields = mine.get("turn") if isinstance(mine.get("turn"), dict) else {}
        assert isinstance(fields, dict)
        speaker = _SPEAKERS[message["role"]]
        given = {"speaker": speaker, **fields, "extra": _extra(fields, others)}
        turn = _converted(given, Turn) or Turn(speaker)
        return msgspec.structs.replace(turn, blocks=tuple(blocks))

    def _block(self, part: Json) -> Block:
        mine, others = _options(part)
        extra = _extra(mine, others)
        kind = part.get("type")
        if kind == "text" and isinstance(part.get("text"), str):
            return Text(part["text"], extra)
        if kind == "reasoning" and isinstance(part.get("text"), str):
            made = _converted({**mine, "type": "thinking", "text": part["text"], "extra": extra}, Thinking)
            return made or Thinking(part["text"], extra=extra)
        if kind in ("image", "file") and isinstance(part.get("image", part.get("data")), str):
            return _read_media(part, mine, extra)
        if kind == "tool-call":
            return self._call(part, mine, extra)
        if kind == "tool-result":
            return self._response(part, mine, extra)
        return Opaque("part", part, _ORIGIN)

    def _call(self, part: Json, mine: Json, extra: Json | None) -> ToolCall:
        wire_id = str(part.get("toolCallId") or "")
        arguments = _arguments(part.get("input"))
        kept = mine.get("arguments")
        if isinstance(kept, str) and _input(kept) == part.get("input"):
            arguments = kept  # the same value, in the words it came in
        if isinstance(mine.get("id"), str):
            # Results come without our options more often than calls; they follow their call's id.
            self._known[wire_id] = mine["id"]
        fields = {"id": wire_id, **mine, "name": str(part.get("toolName") or ""), "arguments": arguments}
        made = _converted({**fields, "type": "tool_call", "extra": extra}, ToolCall)
        return made or ToolCall(wire_id, fields["name"], arguments, extra=extra)

    def _response(self, part: Json, mine: Json, extra: Json | None) -> ToolResponse:
        wire_id = str(part.get("toolCallId") or "")
        call_id = self._known.get(wire_id, wire_id)
        output = part.get("output")
        content, is_error, shape = _read_output(
            output if isinstance(output, dict) else {"type": "json", "value": output}
        )
        if shape:
            extra = {**(extra or {}), "output": shape}
        fields = {"call_id": call_id, **mine, "name": str(part.get("toolName") or "")}
        fields["is_error"] = is_error or bool(mine.get("is_error"))
        made = _converted({**fields, "type": "tool_response", "extra": extra}, ToolResponse)
        made = made or ToolResponse(call_id, fields["name"], is_error=is_error, extra=extra)
        return msgspec.structs.replace(made, content=content)


def _own_part(block: Opaque) -> Json | None:
    """A part of this format that the core has no word for."""
    data: Any = block.data
    return data if block.origin == _ORIGIN and isinstance(data, dict) and isinstance(data.get("type"), str) else None


# The SDK checks messages before it sends them; one part in the wrong place refuses the whole conversation.
def _may_stand(kind: str, role: str) -> bool:
    """Which parts a message of a role may hold; the format refuses others."""
    if kind == "text":
        return role != "tool"
    if kind in ("image", "file"):
        return role == "user" or (role == "assistant" and kind == "file")
    if kind in ("reasoning", "tool-call"):
        return role == "assistant"
    return role in ("assistant", "tool") if kind == "tool-result" else True


def _media_part(media: Media) -> Json:
    where = media.data if media.data is not None else media.url or ""
    if media.kind == "image":
        part = {"type": "image", "image": where}
        return {**part, "mediaType": media.mime} if media.mime != "image/*" else part
    part = {"type": "file", "data": where, "mediaType": media.mime or _FILE}
    return {**part, "filename": media.name} if media.name else part


def _unsaid(media: Media, part: Json) -> Json:
    """The fields of a media block that reading its part would not give again."""
    read = _read_media(part, {}, None)
    return {name: getattr(media, name) for name in _MEDIA_FIELDS if getattr(read, name) != getattr(media, name)}


def _read_media(part: Json, mine: Json, extra: Json | None) -> Media:
    where = part.get("image", part.get("data"))
    assert isinstance(where, str)
    # The format has one field for both. Base64 has no colon, so this is never wrong about data.
    by_url = "://" in where[:32] or where.startswith("data:")
    fields = {
        "mime": part.get("mediaType") or ("image/*" if part.get("type") == "image" else ""),
        "data": None if by_url else where,
        "url": where if by_url else None,
        "name": part.get("filename"),
    }
    if where not in ({**fields, **mine}["data"], {**fields, **mine}["url"]):
        mine = {name: value for name, value in mine.items() if name not in ("data", "url")}  # changed since
    made = _converted({**fields, **mine, "type": "media", "extra": extra}, Media)
    return made or Media(data=fields["data"], url=fields["url"], extra=extra)


def _input(arguments: str) -> Any:
    """Arguments as a value; text that is no JSON stays text."""
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError, ValueError):
        return arguments


def _arguments(value: Any) -> str:
    return "{}" if value is None else json_value(value).decode()


def _output(response: ToolResponse) -> Json:
    shape = response.extra.get("output") if response.extra else None
    content = response.content
    if len(content) == 1 and type(content[0]) is Text and content[0].extra is None:
        text = content[0].text
        if shape == "denied" and response.is_error:
            return {"type": "execution-denied", "reason": text}
        value = _input(text) if shape == "json" else None
        if shape == "json" and _arguments(value) == text:
            return {"type": "error-json" if response.is_error else "json", "value": value}
        return {"type": "error-text" if response.is_error else "text", "value": text}
    return {"type": "content", "value": [_output_part(part) for part in content]}


def _output_part(part: Text | Media | Opaque) -> Json:
    plain: Json | None = None
    if isinstance(part, Text):
        plain = {"type": "text", "text": part.text}
    elif isinstance(part, Media) and part.data is not None:
        plain = {"type": "media", "data": part.data, "mediaType": part.mime or _FILE}
    elif isinstance(part, Media) and part.url is not None:
        plain = {"type": "image-url" if part.kind == "image" else "file-url", "url": part.url}
    elif isinstance(part, Opaque):
        plain = _own_part(part)
    plain = plain or {"type": "text", "text": f"[{part.kind if isinstance(part, Opaque) else 'media'}]"}
    # Our options only where the plain form would not be read back as the same value.
    if _read_output_part(plain) == part:
        return plain
    return _with_options(plain, {"block": msgspec.to_builtins(part)}, None, True)


def _read_output(output: Json) -> tuple[tuple[Text | Media | Opaque, ...], bool, str]:
    """Content, whether it is an error, and the shape to remember: `json`, `denied` or nothing."""
    kind, value = str(output.get("type")), output.get("value")
    if kind == "execution-denied":
        return (Text(str(output.get("reason") or "")),), True, "denied"
    if kind == "content" and isinstance(value, list):
        return tuple([_read_output_part(part) for part in value if isinstance(part, dict)]), False, ""
    error = kind.startswith("error")
    if kind.endswith("text") and isinstance(value, str):
        return (Text(value),), error, ""
    return (Text(_arguments(value) if value is not None else "null"),), error, "json"


def _read_output_part(part: Json) -> Text | Media | Opaque:
    mine, _ = _options(part)
    kept: Text | Media | Opaque | None = _converted(mine.get("block"), Text | Media | Opaque)
    kind = part.get("type")
    if isinstance(kept, Text) and kind == "text":
        return Text(str(part.get("text") or ""), kept.extra)
    if kept is not None:
        return kept
    if kind == "text" and isinstance(part.get("text"), str):
        return Text(part["text"])
    if kind in ("media", "image-data", "file-data") and isinstance(part.get("data"), str):
        return Media(str(part.get("mediaType") or ""), part["data"], name=part.get("filename"))
    if kind in ("image-url", "file-url") and isinstance(part.get("url"), str):
        return Media("image/*" if kind == "image-url" else "", url=part["url"])
    return Opaque("part", part, _ORIGIN)


# What would be lost in the plain form. Computed by leaving out what was told, so that a new field of a block is
# carried along without a change here.
def _rest(value: msgspec.Struct, *told: str) -> Json:
    """The fields of a value that its message or part does not say."""
    fields = msgspec.to_builtins(value)
    assert isinstance(fields, dict)
    kept = {key: field for key, field in fields.items() if key not in told}
    if isinstance(kept.get("extra"), dict):
        # `providerOptions` go where they came from; `output` is the shape of a result, which told itself.
        gone = ("providerOptions", "output") if "output" in told else ("providerOptions",)
        kept["extra"] = {key: field for key, field in kept["extra"].items() if key not in gone}
        if not kept["extra"]:
            del kept["extra"]
    return kept


def _with_options(target: Json, mine: Json, extra: Json | None, private: bool) -> Json:
    """A message or part with its options: those of other providers as they came, and ours."""
    others = extra.get("providerOptions") if extra else None
    options = dict(others) if isinstance(others, dict) else {}
    if private and mine:
        options[NAMESPACE] = mine
    return {**target, "providerOptions": options} if options else target


def _options(holder: Json) -> tuple[Json, Json]:
    """Our options of a message or part, and those of everybody else."""
    options = holder.get("providerOptions")
    if not isinstance(options, dict):
        return {}, {}
    mine = options.get(NAMESPACE)
    others = {name: value for name, value in options.items() if name != NAMESPACE}
    return mine if isinstance(mine, dict) else {}, others


def _extra(mine: Json, others: Json) -> Json | None:
    kept = mine.get("extra") if isinstance(mine.get("extra"), dict) else {}
    assert isinstance(kept, dict)
    return {**kept, **({"providerOptions": others} if others else {})} or None


def _held(mine: Json) -> Sequence[tuple[int, Any]]:
    held = mine.get("held")
    pairs = held if isinstance(held, list) else ()
    return [(pair[0], pair[1]) for pair in pairs if isinstance(pair, list) and len(pair) == 2 and type(pair[0]) is int]


def _converted(value: Any, kind: type[T] | Any) -> T | None:
    """What came back from a front end as our type; None for what is not."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError, ValueError):
        return None
