"""A chat model for LangChain: `ChatMidstream(model="moonshot/kimi-k2.5")`, on langchain-core alone.

Invoking, streaming, batches, tools, structured output and LangGraph's agents work as with any chat model. Each answer travels
whole in `additional_kwargs` of its message, which LangChain serialises and LangGraph's checkpoints store: so a history that
was saved, or that another model went on with, gives every model its own reasoning back. See docs/adapters/langchain.md.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, Literal, cast

from ..client.catalog import Catalog
from ..client.tokens import estimate_conversation, estimate_text, estimate_tool
from ..core.blocks import Block, Conversation, Media, Text, ToolCall, ToolResponse, Turn, Usage
from ..core.dialect import Options
from ..core.errors import (
    BadRequest,
    ContentFiltered,
    ContextTooLong,
    IdleTimeout,
    LocalError,
    MidstreamError,
    MissingKey,
    NotFound,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    TimedOut,
    TransportError,
    TruncatedStream,
    Unauthorized,
    UnknownModel,
)
from ..core.events import Done, ErrorEvent, Event, TextDelta, ThinkingDelta, ToolCallDelta, ToolCallStart
from ..core.tools import ToolSpec, parse_arguments
from ..wires.carry import with_schema
from .answer_memory import packed
from .backend import Backend, last_attempt
from .history import HistoryBuilder
from .needed import needed

with needed("langchain-core", "1.7"):
    from langchain_core.exceptions import (
        ContextOverflowError,
        ModelAPIError,
        ModelAuthenticationError,
        ModelConnectionError,
        ModelError,
        ModelInvalidRequestError,
        ModelNotFoundError,
        ModelPermissionDeniedError,
        ModelRateLimitError,
        ModelTimeoutError,
    )
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, SystemMessage, ToolMessage
    from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
    from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
    from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
    from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
    from langchain_core.utils.pydantic import is_basemodel_subclass
    from pydantic import ConfigDict, Field, PrivateAttr, SecretStr

_OURS = "midstream"
"""The key of our data in a message's `additional_kwargs`."""
_OPTIONS = (
    "max_tokens", "temperature", "top_p", "seed", "presence_penalty", "frequency_penalty", "thinking", "effort",
    "thinking_budget", "parallel_tool_calls", "response_format", "schema",
)  # fmt: skip
"""Fields of the model, or arguments of a call, that are options of ours under the same name."""
_ALIASES = {"reasoning_effort": "effort", "max_completion_tokens": "max_tokens"}
"""Other names of these in a call, as LangChain's models for OpenAI have them."""
_FINISH = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}
_ERRORS: tuple[tuple[type[Exception], tuple[type[MidstreamError], ...]], ...] = (
    (ContextOverflowError, (ContextTooLong,)),
    (ModelAuthenticationError, (Unauthorized, MissingKey)),
    (ModelNotFoundError, (NotFound, UnknownModel)),
    (ModelInvalidRequestError, (BadRequest, ContentFiltered, LocalError)),
    (ModelRateLimitError, (RateLimited, QuotaExceeded)),
    (ModelAPIError, (ProviderError,)),
    (ModelTimeoutError, (TimedOut, IdleTimeout)),
    (ModelConnectionError, (TransportError, TruncatedStream)),
)
"""LangChain's errors and ours that are such errors; the first that fits counts."""


class ChatMidstream(BaseChatModel):
    """Any model that midstream knows, by its name.

    Names, addresses and keys come from the user's configuration and the environment (`catalog`); `api_key` is used instead.
    """

    model_config = ConfigDict(populate_by_name=True, arbitrary_types_allowed=True)

    model: str = Field(alias="model_name")
    """The model, as midstream names it: `moonshot/kimi-k2.5`. A call may name another (`invoke(…, model=…)`)."""
    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: list[str] | None = Field(default=None, alias="stop_sequences")
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    thinking: bool | None = None
    """Whether the model thinks; None leaves it to the model."""
    effort: str | None = Field(default=None, alias="reasoning_effort")
    thinking_budget: int | None = None
    api_key: SecretStr | None = None
    extra_body: dict[str, Any] | None = None
    """Fields that are put into the body of the request as they are."""
    catalog: Catalog | None = Field(default=None, exclude=True, repr=False)
    backend: Backend | None = Field(default=None, exclude=True, repr=False)
    """Shared by several models, so that they share connections and the memory of answers."""

    _own_backend: Backend | None = PrivateAttr(default=None)

    @property
    def _behind(self) -> Backend:
        if self.backend is not None:
            return self.backend
        if self._own_backend is None:
            key = None if self.api_key is None else self.api_key.get_secret_value()
            self._own_backend = Backend(self.catalog, api_key=key)
        return self._own_backend

    @property
    def _llm_type(self) -> str:
        return _OURS

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self.model, **self._given({})}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        found = super()._get_ls_params(stop=stop, **kwargs)
        provider, _, model = str(kwargs.get("model") or self.model).rpartition("/")
        found["ls_provider"], found["ls_model_name"] = provider or _OURS, model
        return found

    def get_num_tokens(self, text: str) -> int:
        """Roughly how many tokens a text has: LangChain would load a tokenizer of another model."""
        return estimate_text(text)

    def get_num_tokens_from_messages(self, messages: list[BaseMessage], tools: Sequence[Any] | None = None) -> int:
        """Roughly how many tokens a model would read, for `trim_messages(token_counter=model)`."""
        declared = [_tool_spec(convert_to_openai_tool(tool)) for tool in tools or ()]
        return estimate_conversation(read_messages(messages, self._behind)) + sum(map(estimate_tool, declared))

    def close(self) -> None:
        """Close the connections of calls without an event loop."""
        if self._own_backend is not None:
            self._own_backend.close()

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        if self._own_backend is not None:
            await self._own_backend.aclose()

    def _given(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The options of one call: its own, else the model's."""
        # pydantic has attributes of its own under some of these names.
        own = {name: getattr(self, name) for name in _OPTIONS if name in type(self).model_fields}
        asked = {ours: kwargs[name] for name, ours in _ALIASES.items() if name in kwargs}
        given = {**own, **asked, **{name: kwargs[name] for name in _OPTIONS if name in kwargs}}
        return {name: value for name, value in given.items() if value is not None}

    def _request(
        self, messages: list[BaseMessage], stop: list[str] | None, stream: bool, kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        tools = tuple([_tool_spec(tool) for tool in kwargs.get("tools") or ()])
        options = Options(
            stream=stream,
            stop=tuple(stop or kwargs.get("stop_sequences") or self.stop or ()),
            tool_choice=kwargs.get("tool_choice") if tools else None,
            extra_body={**(self.extra_body or {}), **(kwargs.get("extra_body") or {})} or None,
            **self._given(kwargs),
        )
        model = kwargs.get("model") or self.model
        # An agent's `ProviderStrategy` gives the schema in OpenAI's words, and its hosts' schemas are not everybody's.
        options = with_schema(options, "", (self._behind.resolve(model).dialect,))
        return {
            "model": model,
            "conversation": read_messages(messages, self._behind),
            "tools": tools,
            "options": options,
        }

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        behind = self._behind
        with _langchain_errors():
            request = self._request(messages, stop, False, kwargs)
            turn = behind.run(behind.complete(**request))
        return ChatResult(generations=[ChatGeneration(message=_message(turn, request["model"]))])

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        with _langchain_errors():
            request = self._request(messages, stop, False, kwargs)
            turn = await self._behind.complete(**request)
        return ChatResult(generations=[ChatGeneration(message=_message(turn, request["model"]))])

    def _stream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        behind = self._behind
        with _langchain_errors():
            request = self._request(messages, stop, True, kwargs)
            for batch in behind.iterate(behind.batches(**request)):
                for chunk in _chunks(batch, request["model"]):
                    if run_manager is not None:
                        run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk

    async def _astream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        with _langchain_errors():
            request = self._request(messages, stop, True, kwargs)
            async for batch in self._behind.batches(**request):
                for chunk in _chunks(batch, request["model"]):
                    if run_manager is not None:
                        await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | Any],
        *,
        tool_choice: str | bool | dict[str, Any] | None = None,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[Any, AIMessage]:
        """The model with these tools. `tool_choice` is `auto`, `none`, `any`, or the name of a tool."""
        declared = [convert_to_openai_tool(tool, strict=strict) for tool in tools]
        for tool in declared:
            _tool_spec(tool)  # what is no function is refused here, where it was given
        choice = _choice(tool_choice, declared)
        return super().bind(tools=declared, **({"tool_choice": choice} if choice else {}), **kwargs)

    def with_structured_output(
        self,
        schema: dict[str, Any] | type,
        *,
        method: Literal["json_schema", "function_calling", "json_mode"] = "json_schema",
        include_raw: bool = False,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[Any, Any]:
        """Answers that follow the schema. By `json_schema`, each host is held to it in the best way that it has."""
        if method == "function_calling":
            return super().with_structured_output(schema, include_raw=include_raw, **kwargs)
        asked = convert_to_json_schema(schema, strict=strict)
        told: dict[str, Any] = {"schema": {name: value for name, value in asked.items() if name != "strict"}}
        if method == "json_mode":
            told = {"response_format": {"type": "json_object"}}
        format = {"kwargs": {"method": method}, "schema": asked}
        llm = self.bind(**told, ls_structured_output_format=format, **kwargs)
        parser: Any = (
            PydanticOutputParser(pydantic_object=schema)
            if isinstance(schema, type) and is_basemodel_subclass(schema)
            else JsonOutputParser()
        )
        if not include_raw:
            return llm | parser
        read = RunnablePassthrough.assign(parsed=itemgetter("raw") | parser, parsing_error=lambda _: None)
        unread = RunnablePassthrough.assign(parsed=lambda _: None)
        return RunnableMap(raw=llm) | read.with_fallbacks([unread], exception_key="parsing_error")


@contextmanager
def _langchain_errors() -> Iterator[None]:
    """Errors of ours are LangChain's, too: its middleware retries, falls back and summarises by their classes."""
    try:
        yield
    except MidstreamError as error:
        last = last_attempt(error)
        theirs: type[Exception] = next((each for each, ours in _ERRORS if isinstance(last, ours)), ModelError)
        if theirs is ModelAuthenticationError and getattr(last, "status", None) == 403:
            theirs = ModelPermissionDeniedError
        raise _told(type(error), theirs, error.args, {**vars(error), "is_retryable": last.retryable}) from error


def _told(
    ours: type[MidstreamError], theirs: type[Exception], args: tuple[Any, ...], attributes: dict[str, Any]
) -> MidstreamError:
    kind = _classes.get((ours, theirs)) or _classes.setdefault((ours, theirs), _both(ours, theirs))
    error = kind.__new__(kind, *args)
    vars(error).update(attributes)
    return error


_classes: dict[tuple[type, type], type[MidstreamError]] = {}
"""Those that are both, made once: whoever counts errors by their classes counts them together."""


def _both(ours: type[MidstreamError], theirs: type[Exception]) -> type[MidstreamError]:
    """A class that is both, with our name. It stands in no module, so a pickle of its errors says how they are made."""

    def reduced(self: MidstreamError) -> tuple[Any, ...]:
        return _told, (ours, theirs, self.args, vars(self))

    named = {"__doc__": ours.__doc__, "__module__": ours.__module__, "__reduce__": reduced}
    return type(ours.__name__, (ours, theirs), named)


def _tool_spec(tool: dict[str, Any]) -> ToolSpec:
    function = tool.get("function") or tool
    if tool.get("type", "function") != "function" or "name" not in function:
        raise LocalError(
            f"ChatMidstream offers functions to models, not tools that a host runs itself; got {tool.get('type') or tool!r}"
        )
    return ToolSpec(
        function["name"], function.get("description", ""), function.get("parameters"), function.get("strict")
    )


def _choice(asked: str | bool | dict[str, Any] | None, tools: list[dict[str, Any]]) -> str | None:
    if isinstance(asked, dict):
        # OpenAI's two forms of a named tool, Anthropic's, and Anthropic's of a choice without a name.
        asked = (asked.get("function") or asked).get("name") or asked.get("type")
    if asked is True:
        return "required" if len(tools) != 1 else str(tools[0]["function"]["name"])
    return "required" if asked == "any" else asked or None


def read_messages(messages: Sequence[BaseMessage], backend: Backend) -> Conversation:
    """LangChain's messages as a conversation."""
    history = HistoryBuilder(backend.memory)
    for message in messages:
        if isinstance(message, AIMessage):
            history.answer(_answered(message), message.additional_kwargs.get(_OURS))
        elif isinstance(message, ToolMessage):
            content = tuple(_said(message))
            failed = message.status == "error"
            history.results([ToolResponse(message.tool_call_id, message.name or "", content, is_error=failed)])
        elif isinstance(message, SystemMessage) or getattr(message, "role", "") in ("system", "developer"):
            history.system(str(message.text))
        elif getattr(message, "role", "") in ("assistant", "ai"):
            history.answer(_said(message))
        else:
            history.human(_said(message))
    return history.conversation()


def _answered(message: AIMessage) -> list[Block]:
    text = str(message.text)
    calls = [
        ToolCall(call["id"] or "", call["name"], json.dumps(call["args"], ensure_ascii=False))
        for call in message.tool_calls
    ]
    broken = [ToolCall(call["id"] or "", call["name"] or "", call["args"] or "") for call in message.invalid_tool_calls]
    return [*([Text(text)] if text else []), *calls, *broken]


def _said(message: BaseMessage) -> list[Text | Media]:
    found: list[Text | Media] = []
    for block in message.content_blocks:
        part = cast("dict[str, Any]", block)
        match part["type"]:
            case "text" | "text-plain" if part.get("text") is not None:
                found.append(Text(part["text"]))
            case "image" | "audio" | "video" | "file" | "text-plain":
                found.append(_media(part))
            case "non_standard" if isinstance(address := (part.get("value") or {}).get("image_url"), str):
                # OpenAI's block, with the address itself where an object with it belongs.
                found.append(Media("image/*", url=address))
            case "non_standard" if (value := part.get("value") or {}).get("type") == "media" and value.get("data"):
                # Google's block for anything that is no text.
                found.append(_media({"base64": value["data"], **value}))
            case _:
                # A block of some provider's own, or of a tool: as it stands, any model can read it.
                found.append(Text(json.dumps(part.get("value", part), ensure_ascii=False, default=str)))
    return found


def _media(part: dict[str, Any]) -> Media:
    mime = part.get("mime_type") or {"file": "application/octet-stream"}.get(part["type"], f"{part['type']}/*")
    if part.get("base64") is not None:
        return Media(mime, part["base64"])
    return Media(mime, url=part.get("url") or part.get("file_id") or part.get("id"))


def _message(turn: Turn, model: str) -> AIMessage:
    calls, broken = [], []
    for call in turn.tool_calls:
        arguments = parse_arguments(call)
        if "_parse_error" in arguments:
            broken.append(
                {"name": call.name, "args": call.arguments, "id": call.id, "error": arguments["_parse_error"], "type": "invalid_tool_call"}
            )  # fmt: skip
        else:
            calls.append({"name": call.name, "args": arguments, "id": call.id, "type": "tool_call"})
    return AIMessage(
        turn.text,
        tool_calls=calls,
        invalid_tool_calls=broken,
        usage_metadata=_usage(turn.usage),
        response_metadata=_metadata(turn, model),
        additional_kwargs={**({"reasoning_content": turn.thinking} if turn.thinking else {}), **_carried(turn)},
    )


def _carried(turn: Turn) -> dict[str, Any]:
    # Through JSON: it is what LangChain's own serialisers make of it, and equal before and after.
    return {_OURS: json.loads(json.dumps(packed(turn)))}


def _metadata(turn: Turn, model: str) -> dict[str, Any]:
    return {
        "model_name": model,  # as it was asked for: what another call can be given
        **({"response_model": turn.response_model} if turn.response_model else {}),
        "model_provider": _OURS,
        "finish_reason": _FINISH.get(turn.stop_reason, turn.stop_reason),
        **({"id": turn.response_id} if turn.response_id else {}),
    }


def _usage(usage: Usage | None) -> Any:
    if usage is None:
        return None
    return {
        "input_tokens": usage.read,
        "output_tokens": usage.output,
        "total_tokens": usage.total,
        "input_token_details": {"cache_read": usage.cache_read, "cache_creation": usage.cache_write},
        "output_token_details": {"reasoning": usage.reasoning},
    }


def _chunks(batch: list[Event], model: str) -> Iterator[ChatGenerationChunk]:
    for event in batch:
        match event:
            case TextDelta():
                yield _chunk(event.delta)
            case ThinkingDelta():
                yield _chunk("", additional_kwargs={"reasoning_content": event.delta})
            case ToolCallStart():
                yield _call_chunk(event.index, event.name, "", event.id)
            case ToolCallDelta():
                yield _call_chunk(event.index, None, event.delta, None)
            case Done():
                turn = event.turn
                yield _chunk(
                    "",
                    usage_metadata=_usage(turn.usage),
                    response_metadata=_metadata(turn, model),
                    additional_kwargs=_carried(turn),
                    chunk_position="last",
                )
            case ErrorEvent():
                raise event.to_exception()
            case _:
                pass


def _chunk(text: str, **fields: Any) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(text, **fields))


def _call_chunk(index: int, name: str | None, arguments: str, call_id: str | None) -> ChatGenerationChunk:
    piece = {"name": name, "args": arguments, "id": call_id, "index": index, "type": "tool_call_chunk"}
    return _chunk("", tool_call_chunks=[piece])
