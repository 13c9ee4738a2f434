"""The models of the plugin for Simon Willison's `llm` (0.32 or newer): `llm -m midstream/moonshot/kimi-k2.5`, sync and async.

Tools, schemas, attachments, options and `-c` work as with any model of llm. Every answer travels whole in the metadata of its
parts, which llm stores with the conversation: so reasoning and ids are kept across turns, processes and models. See
docs/adapters/llm.md.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Generator, Iterator
from typing import Any, cast

from ..core.blocks import Block, Conversation, Media, Text, Thinking, ToolCall, ToolResponse, Turn
from ..core.dialect import Options
from ..core.errors import MidstreamError
from ..core.events import Done, ErrorEvent, Event, TextDelta, ThinkingDelta, ToolCallDelta, ToolCallStart
from ..core.secret import Secret
from ..core.tools import ToolSpec, parse_arguments
from .answer_memory import packed
from .backend import Backend
from .history import HistoryBuilder
from .needed import needed

with needed("llm", "0.32"):
    import llm
    from llm.parts import AttachmentPart, Message, ReasoningPart, StreamEvent, TextPart, ToolCallPart, ToolResultPart
    from pydantic import Field

PREFIX = "midstream/"
_OURS = "midstream"
"""The key of our data in a part's `provider_metadata`."""
_USED = "midstream-models.json"
"""A file of llm's folder, with the names that were used and are in no list: `llm -c` looks a model up by its name."""
_MEDIA = {
    "image": ("image/png", "image/jpeg", "image/webp", "image/gif"),
    "audio": ("audio/wav", "audio/mpeg", "audio/mp3", "audio/ogg", "audio/flac"),
    "video": ("video/mp4", "video/mpeg", "video/quicktime", "video/webm"),
    "file": ("application/pdf",),
}

_backend: Backend | None = None


def backend() -> Backend:
    """What is behind all models of the plugin, made when it is first needed."""
    global _backend  # noqa: PLW0603  (llm makes a model for each name, and connections are shared)
    if _backend is None:
        _backend = Backend()
    return _backend


class ModelOptions(llm.Options):
    """The options of `llm -o NAME VALUE`."""

    max_tokens: int | None = Field(default=None, description="How many tokens the answer may have")
    temperature: float | None = Field(default=None, description="How much chance is in the choice of words")
    top_p: float | None = Field(default=None, description="The share of likely words to choose from")
    stop: str | None = Field(default=None, description="A text at which the answer ends")
    seed: int | None = Field(default=None, description="The same seed gives the same answer, where the host can")
    presence_penalty: float | None = Field(default=None, description="Avoid words that were used")
    frequency_penalty: float | None = Field(default=None, description="Avoid words that were used often")
    thinking: bool | None = Field(default=None, description="Whether the model thinks before it answers")
    reasoning_effort: str | None = Field(
        default=None, description="How hard it thinks: minimal, low, medium, high, xhigh or max"
    )
    thinking_budget: int | None = Field(default=None, description="How many tokens it may think")
    parallel_tool_calls: bool | None = Field(default=None, description="Whether it may call several tools at once")

    def as_options(self, schema: dict[str, Any] | None, stream: bool) -> Options:
        given = self.model_dump(exclude_none=True)
        stop = given.pop("stop", None)
        effort = given.pop("reasoning_effort", None)
        return Options(stream=stream, schema=schema, effort=effort, stop=(stop,) if stop else (), **given)


class _Shared:
    """What the sync and the async model have in common."""

    can_stream = True
    supports_schema = True
    supports_tools = True
    Options = ModelOptions

    def __init__(self, name: str) -> None:
        self.name = name
        self.model_id = PREFIX + name

    @property
    def attachment_types(self) -> set[str]:
        kinds = backend().resolve(self.name).dialect.media
        return {mime for kind in kinds for mime in _MEDIA.get(kind, ())}

    def get_key(self, explicit_key: str | None = None) -> str | None:
        """`--key`, or a key that llm has for the provider (`llm keys set moonshot`), where midstream has none."""
        if explicit_key is not None:
            return llm.get_key(input=explicit_key)
        catalog = backend().catalog
        target = catalog.resolve(self.name)
        return None if catalog.key_source(target) else llm.get_key(alias=target.provider)

    def _request(self, prompt: Any, stream: bool, key: str | None) -> dict[str, Any]:
        remember_name(self.name)
        tools = tuple([ToolSpec(each.name, each.description or "", each.input_schema) for each in prompt.tools])
        return {
            "model": self.name,
            "conversation": read_messages(prompt.messages),
            "tools": tools,
            "options": prompt.options.as_options(prompt.schema, stream),
            "api_key": Secret(key) if key else None,
        }

    def _ended(self, turn: Turn, response: Any) -> None:
        """Tell llm what it has a place for beside the text."""
        for call in turn.tool_calls:
            response.add_tool_call(llm.ToolCall(call.name, parse_arguments(call), call.id))
        usage = turn.usage
        if usage is not None:
            details = {
                name: count
                for name, count in {
                    "cache_read": usage.cache_read, "cache_write": usage.cache_write, "reasoning": usage.reasoning,
                }.items() if count
            }  # fmt: skip
            response.set_usage(input=usage.read, output=usage.output, details=details or None)
        if turn.response_model:
            response.set_resolved_model(turn.response_model)
        response.response_json = {"id": turn.response_id, "stop_reason": turn.stop_reason}


class MidstreamModel(_Shared, llm.KeyModel):
    """A model of llm."""

    def execute(
        self, prompt: Any, stream: bool, response: Any, conversation: Any = None, key: str | None = None
    ) -> Iterator[StreamEvent]:
        behind = backend()
        try:
            request = self._request(prompt, stream, key)
            if not stream:
                turn = behind.run(behind.complete(**request))
                yield from _whole(turn)
                self._ended(turn, response)
                return
            reader = _Reader()
            for batch in behind.iterate(behind.batches(**request)):
                yield from reader.read(batch)
            self._ended(reader.answer(), response)
        except MidstreamError as error:
            raise llm.ModelError(str(error)) from error


class AsyncMidstreamModel(_Shared, llm.AsyncKeyModel):
    """The same for llm's async API."""

    async def execute(
        self, prompt: Any, stream: bool, response: Any, conversation: Any = None, key: str | None = None
    ) -> AsyncGenerator[StreamEvent, None]:
        behind = backend()
        try:
            request = self._request(prompt, stream, key)
            if not stream:
                turn = await behind.complete(**request)
                for event in _whole(turn):
                    yield event
                self._ended(turn, response)
                return
            reader = _Reader()
            async for batch in behind.batches(**request):
                for event in reader.read(batch):
                    yield event
            self._ended(reader.answer(), response)
        except MidstreamError as error:
            raise llm.ModelError(str(error)) from error


class _Reader:
    """Our events as llm's."""

    def __init__(self) -> None:
        self._calls: dict[int, str] = {}
        self._turn: Turn | None = None

    def read(self, batch: list[Event]) -> Generator[StreamEvent, None, None]:
        for event in batch:
            match event:
                case TextDelta():
                    yield StreamEvent("text", event.delta)
                case ThinkingDelta():
                    yield StreamEvent("reasoning", event.delta)
                case ToolCallStart():
                    self._calls[event.index] = event.id
                    yield StreamEvent("tool_call_name", event.name, tool_call_id=event.id)
                case ToolCallDelta():
                    yield StreamEvent("tool_call_args", event.delta, tool_call_id=self._calls[event.index])
                case Done():
                    self._turn = event.turn
                    yield _carrying(event.turn)
                case ErrorEvent():
                    raise event.to_exception()
                case _:
                    pass

    def answer(self) -> Turn:
        assert self._turn is not None  # a stream ends with done or an error
        return self._turn


def _whole(turn: Turn) -> Generator[StreamEvent, None, None]:
    for block in turn.blocks:
        if isinstance(block, Text):
            yield StreamEvent("text", block.text)
        elif isinstance(block, Thinking):
            yield StreamEvent("reasoning", block.text)
        elif isinstance(block, ToolCall):
            yield StreamEvent("tool_call_name", block.name, tool_call_id=block.id)
            yield StreamEvent("tool_call_args", block.arguments, tool_call_id=block.id)
    yield _carrying(turn)


def _carrying(turn: Turn) -> StreamEvent:
    """An event that adds nothing to the last part of an answer but the whole of it, for llm to keep."""
    data = {_OURS: packed(turn)}
    last = turn.blocks[-1] if turn.blocks else None
    if isinstance(last, ToolCall):
        return StreamEvent("tool_call_args", "", tool_call_id=last.id, provider_metadata=data)
    kind = "text" if isinstance(last, Text) and last.text else "reasoning"
    return StreamEvent(kind, "", provider_metadata=data)


def read_messages(messages: list[Message]) -> Conversation:
    """llm's messages as a conversation."""
    history = HistoryBuilder(backend().memory)
    for message in messages:
        if message.role == "system":
            history.system("\n\n".join([part.text for part in message.parts if isinstance(part, TextPart)]))
        elif message.role == "assistant":
            data = [part.provider_metadata[_OURS] for part in message.parts if _OURS in (part.provider_metadata or {})]
            history.answer([_block(part) for part in message.parts if _is_said(part)], data[-1] if data else None)
        else:
            history.results([_result(part) for part in message.parts if isinstance(part, ToolResultPart)])
            said = [_block(part) for part in message.parts if isinstance(part, TextPart | AttachmentPart)]
            history.human(cast("list[Text | Media]", said))
    return history.conversation()


def _is_said(part: Any) -> bool:
    """Whether a part of an answer has words or a call. What a host ran by itself belongs to that host, and another
    model's reasoning to that model."""
    if isinstance(part, ToolCallPart):
        return not part.server_executed
    return isinstance(part, AttachmentPart) or (isinstance(part, TextPart) and bool(part.text))


def _block(part: Any) -> Block:
    if isinstance(part, ToolCallPart):
        return ToolCall(part.tool_call_id or "", part.name, json.dumps(part.arguments, ensure_ascii=False))
    if isinstance(part, AttachmentPart):
        return _media(part.attachment)
    assert isinstance(part, TextPart | ReasoningPart)
    return Text(part.text)


def _media(attachment: Any) -> Media:
    if attachment.url and not attachment.content:
        return Media(attachment.resolve_type() or "", url=attachment.url)
    return Media.from_bytes(attachment.content_bytes(), attachment.resolve_type() or "")


def _result(part: ToolResultPart) -> ToolResponse:
    text = part.output or part.exception or ""
    content: tuple[Text | Media, ...] = (Text(text), *[_media(each) for each in part.attachments])
    return ToolResponse(part.tool_call_id or "", part.name, content, is_error=part.exception is not None)


def model(name: str) -> MidstreamModel:
    """A model by any name that midstream knows, also one that is in no list."""
    return MidstreamModel(name.removeprefix(PREFIX))


def async_model(name: str) -> AsyncMidstreamModel:
    """The same for llm's async API."""
    return AsyncMidstreamModel(name.removeprefix(PREFIX))


def remember_name(name: str) -> None:
    """Keep a name that is in no list where `llm -c` will look for it."""
    if name in backend().catalog.names() or name in _used_names():
        return
    path = llm.user_dir() / _USED
    path.write_text(json.dumps([*_used_names(), name], indent=1), "utf-8")


def _used_names() -> list[str]:
    try:
        found = json.loads((llm.user_dir() / _USED).read_text("utf-8"))
    except (OSError, ValueError):
        return []
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _named_elsewhere() -> list[str]:
    """Names on this command line, of the default model and behind aliases. llm looks names up in a list and asks no plugin
    about a name that is not there, and hosts have more models than any list."""
    words = [*sys.argv, llm.get_default_model()]
    try:
        words += json.loads((llm.user_dir() / "aliases.json").read_text("utf-8")).values()
    except (AttributeError, OSError, ValueError):
        pass  # there are no aliases
    found = [word for word in words if isinstance(word, str)]
    # `-mNAME` and `--model=NAME` are words that end with it.
    return [
        word.partition(PREFIX)[2] for word in found if word.startswith((PREFIX, f"-m{PREFIX}", f"--model={PREFIX}"))
    ]


def known_names() -> list[str]:
    """Every name that llm is told of."""
    return list(dict.fromkeys([*backend().catalog.names(), *_used_names(), *_named_elsewhere()]))
