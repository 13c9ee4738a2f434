"""A `Model` for pydantic-ai: `Agent(MidstreamModel("moonshot/kimi-k2.5"))`, whole and streamed.

Tools, all modes of structured output, settings and usage work as with pydantic-ai's own models. Each answer travels whole in
the `provider_details` of its response, which pydantic-ai stores with the messages: so a history that was saved, or that
another model went on with, gives every model its own reasoning back. See docs/adapters/pydantic-ai.md.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ..client.catalog import Catalog
from ..core.blocks import Block, Conversation, Media, Opaque, Text, Thinking, ToolCall, ToolResponse, Turn, Usage
from ..core.dialect import Options
from ..core.errors import MidstreamError, ProviderError
from ..core.events import Done, ErrorEvent, Event, TextDelta, ThinkingDelta, ToolCallDelta, ToolCallStart
from ..core.secret import Secret
from ..core.tools import ToolSpec
from .answer_memory import packed
from .backend import Backend, last_attempt
from .history import HistoryBuilder
from .needed import needed
from .open_stream import OpenStream

with needed("pydantic-ai", "2.66"):
    from pydantic_ai import exceptions, messages
    from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse, download_item
    from pydantic_ai.profiles import ModelProfile
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.usage import RequestUsage

_OURS = "midstream"
"""What our models call themselves, and the key of our data in a response's `provider_details`."""
_FINISH = {"end_turn": "stop", "tool_use": "tool_call", "max_tokens": "length", "refusal": "content_filter"}
_SETTINGS = (
    "max_tokens",
    "temperature",
    "top_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "parallel_tool_calls",
)
"""Settings that are options of ours under the same name."""
_PROFILE = ModelProfile(
    supports_json_schema_output=True,
    supports_json_object_output=True,
    supports_inline_system_prompts=True,
    supports_thinking=True,
)


class MidstreamModel(Model):
    """Any model that midstream knows, by its name (`moonshot/kimi-k2.5`).

    Names, addresses and keys come from the user's configuration and the environment (`catalog`); `api_key` is used instead.
    A `backend` may be shared by several models, so that they share connections and the memory of answers.
    """

    unsupported_settings = frozenset({"timeout", "top_k", "logit_bias", "extra_headers", "service_tier"})

    def __init__(
        self,
        name: str,
        *,
        catalog: Catalog | None = None,
        api_key: str | Secret | None = None,
        backend: Backend | None = None,
        settings: ModelSettings | None = None,
        profile: Any = None,
    ) -> None:
        super().__init__(settings=settings, profile=profile or _PROFILE)
        self._name = name
        self._backend = backend or Backend(catalog, api_key=api_key)

    @property
    def model_name(self) -> str:
        return self._name

    @property
    def system(self) -> str:
        return _OURS

    @property
    def provider(self) -> None:
        return None

    async def request(
        self,
        messages: list[messages.ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> messages.ModelResponse:
        model_settings, parameters = self.prepare_request(model_settings, model_request_parameters)
        conversation, tools, options = await self._read(messages, model_settings, parameters)
        try:
            turn = await self._backend.complete(self._name, conversation, tools, options)
        except MidstreamError as error:
            raise _told(error, self._name) from error
        return _response(turn, self._name)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[messages.ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: Any = None,
    ) -> AsyncGenerator[StreamedResponse, None]:
        model_settings, parameters = self.prepare_request(model_settings, model_request_parameters)
        conversation, tools, options = await self._read(messages, model_settings, parameters)
        batches = OpenStream(self._backend.batches(self._name, conversation, tools, options))
        async with aclosing(batches):
            try:
                # A host that refuses does so before the first batch, and that is an error of the request.
                first = await anext(batches)
            except MidstreamError as error:
                raise _told(error, self._name) from error
            yield MidstreamStream(parameters, _name=self._name, _first=first, _rest=batches)

    async def _read(
        self, history: Sequence[Any], settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> tuple[Conversation, tuple[ToolSpec, ...], Options]:
        """The conversation, the tools and the options of one request."""
        given: dict[str, Any] = dict(settings or {})
        tools, choice = _tools(given.get("tool_choice"), parameters)
        if parameters.native_tools:
            names = ", ".join([type(tool).__name__ for tool in parameters.native_tools])
            raise exceptions.UserError(f"a midstream model has no native tools; got {names}")
        thinking, schema = parameters.thinking, None
        if parameters.output_mode == "native" and parameters.output_object is not None:
            schema = parameters.output_object.json_schema
        extra = given.get("extra_body")
        options = Options(
            **{name: given[name] for name in _SETTINGS if given.get(name) is not None},
            stop=tuple(given.get("stop_sequences") or ()),
            tool_choice=choice if tools else None,
            thinking=("on" if thinking else "off") if isinstance(thinking, bool) else None,
            effort=thinking if isinstance(thinking, str) else None,
            schema=schema,
            extra_body=dict(extra) if isinstance(extra, dict) else None,
        )
        conversation = await read_messages(history, self._backend, self._get_instruction_parts(history, parameters))
        return conversation, tools, options


def _tools(asked: Any, parameters: ModelRequestParameters) -> tuple[tuple[ToolSpec, ...], str | None]:
    """The tools to offer, and whether one must be called: pydantic-ai's own tools for outputs are always there."""
    offered = [*parameters.declared_function_tools, *parameters.output_tools]
    outputs = {tool.name for tool in parameters.output_tools}
    choice = None if parameters.allow_text_output else "required"
    if asked == "none" or asked == []:
        # Outputs are the framework's own, and stay; the caller's functions are still declared, for the history has them.
        if outputs:
            offered = list(parameters.output_tools)
        else:
            choice = "none"
    elif asked == "required":
        choice = "required"
    elif isinstance(asked, list):
        offered, choice = [tool for tool in offered if tool.name in asked], "required"
    elif asked not in (None, "auto"):
        wanted = {*asked.function_tools, *outputs}
        offered = [tool for tool in offered if tool.name in wanted]
    specs = [ToolSpec(tool.name, tool.description or "", tool.parameters_json_schema, tool.strict) for tool in offered]
    return tuple(specs), choice


async def read_messages(
    history: Sequence[Any], backend: Backend, instructions: Iterable[messages.InstructionPart] | None = None
) -> Conversation:
    """pydantic-ai's messages as a conversation."""
    reader = HistoryBuilder(backend.memory)
    for message in history:
        if isinstance(message, messages.ModelResponse):
            blocks = [block for part in message.parts for block in _answered(part)]
            reader.answer(blocks, (message.provider_details or {}).get(_OURS))
        else:
            for part in message.parts:
                await _requested(part, reader)
    for part in instructions or ():
        reader.system(part.content, standing=True)
    return reader.conversation()


async def _requested(part: Any, reader: HistoryBuilder) -> None:
    match part.part_kind:
        case "system-prompt":
            reader.system(part.content)
        case "user-prompt":
            reader.human(await _said(part.content))
        case "tool-return":
            files = [await _media(file) for file in part.files]
            text = Text(part.model_response_str(wrap_if_error=False))
            content: tuple[Text | Media, ...] = (text, *files)
            failed = part.outcome in ("failed", "retried")
            reader.results([ToolResponse(part.tool_call_id, part.tool_name, content, is_error=failed)])
        case "retry-prompt" if part.tool_name is not None:
            told = (Text(part.model_response()),)
            reader.results([ToolResponse(part.tool_call_id, part.tool_name, told, is_error=True)])
        case "retry-prompt" | "retry-feedback":
            reader.human([Text(part.model_response())])
        case "compaction":
            reader.human([Text(part.content)] if part.content else ())
        case kind:
            # An agent's own preparation has turned everything else into one of these.
            raise exceptions.UserError(f"a part of kind {kind!r} reached the model: run it through an Agent")


async def _said(content: Any) -> list[Text | Media]:
    if isinstance(content, str):
        return [Text(content)] if content else []
    found: list[Text | Media] = []
    for item in content:
        if isinstance(item, str):
            found.append(Text(item))
        elif isinstance(item, messages.TextContent):
            found.append(Text(item.content))
        elif not isinstance(item, messages.CachePoint):
            found.append(await _media(item))
    return found


async def _media(item: Any) -> Media:
    if isinstance(item, messages.BinaryContent):
        return Media.from_bytes(item.data, item.media_type)
    if isinstance(item, messages.UploadedFile):
        return Media(item.media_type, url=item.file_id)
    if item.force_download:
        loaded = await download_item(item, data_format="bytes")
        return Media.from_bytes(loaded["data"], item.media_type)
    return Media(item.media_type, url=item.url)


def _answered(part: Any) -> list[Block]:
    """What a part of an answer says to any model. Reasoning and what a host ran by itself come back only as the whole
    answer, to the model that made them."""
    if isinstance(part, messages.TextPart):
        return [Text(part.content)] if part.content else []
    if isinstance(part, messages.ToolCallPart):
        return [ToolCall(part.tool_call_id, part.tool_name, part.args_as_json_str())]
    if isinstance(part, messages.FilePart):
        return [Media.from_bytes(part.content.data, part.content.media_type)]
    return []


def _response(turn: Turn, name: str) -> messages.ModelResponse:
    parts: list[Any] = []
    for block in turn.blocks:
        match block:
            case Text():
                parts.append(messages.TextPart(block.text))
            case Thinking():
                parts += [messages.ThinkingPart(block.text)] if block.text else []
            case ToolCall():
                parts.append(messages.ToolCallPart(block.name, block.arguments, block.id))
            case Media() if block.data is not None:
                parts.append(
                    messages.FilePart(messages.BinaryContent.from_data_uri(f"data:{block.mime};base64,{block.data}"))
                )
            case Media() | Opaque() | ToolResponse():
                pass  # only in the whole answer: pydantic-ai has no part for it
    return messages.ModelResponse(
        parts,
        usage=_usage(turn.usage),
        model_name=turn.response_model or name,
        provider_name=_OURS,
        provider_details=_details(turn),
        provider_response_id=turn.response_id,
        finish_reason=_FINISH.get(turn.stop_reason),
    )


def _details(turn: Turn) -> dict[str, Any]:
    # Through JSON: pydantic-ai writes it as such, and what it cannot write would fail there, far from here.
    whole: dict[str, Any] = json.loads(json.dumps(packed(turn)))
    return {_OURS: whole, "finish_reason": turn.raw_stop or turn.stop_reason}


def _usage(usage: Usage | None) -> RequestUsage:
    if usage is None:
        return RequestUsage(unmeasured_requests=1)
    return RequestUsage(
        input_tokens=usage.read,
        output_tokens=usage.output,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
        details={"reasoning_tokens": usage.reasoning} if usage.reasoning else {},
    )


def _told(error: MidstreamError, name: str) -> exceptions.ModelAPIError:
    """An error of ours as pydantic-ai's, which its retries and fallbacks know."""
    last = last_attempt(error)
    status = last.status if isinstance(last, ProviderError) else None
    if status is not None:
        return exceptions.ModelHTTPError(status, name, body=str(error))
    return exceptions.ModelAPIError(name, str(error))


@dataclass
class MidstreamStream(StreamedResponse):
    """A streamed answer."""

    _name: str
    _first: list[Event]
    _rest: OpenStream[list[Event]]
    _timestamp: datetime = field(default_factory=lambda: datetime.now(tz=UTC))

    async def _get_event_iterator(self) -> AsyncIterator[messages.ModelResponseStreamEvent]:
        for told in self._events(self._first):
            yield told
        try:
            async for batch in self._rest:
                for told in self._events(batch):
                    yield told
        except MidstreamError as error:
            raise _told(error, self._name) from error

    def _events(self, batch: list[Event]) -> Iterable[messages.ModelResponseStreamEvent]:
        parts = self._parts_manager
        for event in batch:
            match event:
                case TextDelta():
                    yield from parts.handle_text_delta(vendor_part_id=event.index, content=event.delta)
                case ThinkingDelta():
                    yield from parts.handle_thinking_delta(vendor_part_id=event.index, content=event.delta)
                case ToolCallStart():
                    yield from parts.handle_tool_call_delta_events(
                        vendor_part_id=event.index, tool_name=event.name, args="", tool_call_id=event.id
                    )
                case ToolCallDelta():
                    yield from parts.handle_tool_call_delta_events(vendor_part_id=event.index, args=event.delta)
                case Done():
                    turn = event.turn
                    self._usage = _usage(turn.usage)
                    self.finish_reason = _FINISH.get(turn.stop_reason)
                    self.provider_response_id = turn.response_id
                    self.provider_details = _details(turn)
                case ErrorEvent():
                    raise event.to_exception()
                case _:
                    pass

    async def close_stream(self) -> None:
        await self._rest.aclose()

    @property
    def model_name(self) -> str:
        return self._name

    @property
    def provider_name(self) -> str:
        return _OURS

    @property
    def provider_url(self) -> None:
        return None

    @property
    def timestamp(self) -> datetime:
        return self._timestamp
