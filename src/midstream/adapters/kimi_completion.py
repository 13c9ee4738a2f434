"""Kimi as a plain completion function: a prompt in, one result out, Anthropic-shaped tool use.

A thin layer over the chat wire for programs that were written against such adapters. Text comes as text; calls come as the
JSON text of `tool_use` blocks. Arguments that are not valid JSON become `{"_parse_error", "_raw"}`. 429, 5xx and lost
connections are tried again after 100, 200 and 400 ms; then the error has the code KIMI_RETRIES_EXHAUSTED. The environment is
read at each call. `send`, `delay`, `logger` and `clock` can be replaced. The three `map_` functions are the mappings alone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypedDict, Unpack

import msgspec
from msgspec.structs import replace

from ..client.catalog import Catalog
from ..client.config import Config
from ..codec import decode_response, encode_request
from ..core.blocks import Conversation, ToolCall, Turn, Value, human
from ..core.dialect import Options
from ..core.errors import (
    ConnectFailed,
    MidstreamError,
    MissingKey,
    ProviderError,
    RemoteError,
    TimedOut,
    TransportError,
)
from ..core.secret import Secret, SecretEnvironment, SecretHeaders, hide
from ..core.tools import ToolSpec, parse_arguments
from ..dialects.registry import REGISTRY, Resolved
from ..toolformats.format import wrapped
from ..transport import RetryPolicy, Transport, TransportOptions
from ..transport.secrets import Secrets
from ..transport.target import warn_of_clear_text
from ..wires.provider_errors import provider_error
from ..wires.request import Request

DEFAULT_BASE_URL = REGISTRY.providers["moonshot"].endpoint.base_url
DEFAULT_MODEL = "kimi-k2.5"
"""Moonshot ended the K2 previews in 2026. Of the models it serves now, this one has K2's tool calls and ids."""
DEFAULT_MAX_TOKENS = 16384
"""The model thinks unless told not to, and its reasoning counts towards the limit: Moonshot advises 16000 or more."""
# The figures of the adapters that this stands in for.
MAX_RETRIES = 3
BASE_DELAY_MS = 100
KIMI_RETRIES_EXHAUSTED = "KIMI_RETRIES_EXHAUSTED"
KEY_VARIABLE = "COLIBRI_KIMI_API_KEY"
"""Read before the usual names (MOONSHOT_API_KEY …)."""

# Anthropic's words for the same ends, since callers of such adapters were written against its answers.
_STOP_REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}
_log = logging.getLogger("midstream.kimi")


class KimiConfigError(MissingKey):
    """No key was given and none is in the environment."""

    kind = "kimi_config"


class KimiApiError(ProviderError):
    """Kimi refused the request or could not be reached; `status` and `code` say which."""

    kind = "kimi_api"


class KimiResponse(Value, frozen=True):
    """What `send` returns: the status and the whole body."""

    status: int
    body: bytes


class CompletionResult(Value, frozen=True):
    """The text of an answer, or the JSON of its `tool_use` blocks, with its figures."""

    content: str
    model: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    stop_reason: str = "unknown"
    latency_ms: float = 0.0


class AnthropicTool(Value, frozen=True):
    """A tool as Anthropic's API declares it."""

    name: str
    input_schema: dict[str, Any]
    description: str = ""


Send: TypeAlias = Callable[[str, str, Mapping[str, str], bytes], Awaitable[KimiResponse]]
"""(method, url, headers, body) -> the response; TransportError, OSError or TimeoutError where there is none."""
Delay: TypeAlias = Callable[[float], Awaitable[None]]
"""Waits so many milliseconds."""
Log: TypeAlias = Callable[[str], None]


class KimiCompletionOptions(TypedDict, total=False):
    """The options of `create_kimi_completion` and `create_kimi_completion_with_tools`, which has their defaults."""

    system: str
    model: str
    max_tokens: int
    temperature: float | None
    api_key: str | Secret | None
    base_url: str | None
    send: Send | None
    delay: Delay | None
    logger: Log
    clock: Callable[[], float]
    environ: Mapping[str, str] | None


def create_kimi_completion(
    prompt: str, **options: Unpack[KimiCompletionOptions]
) -> Coroutine[Any, Any, CompletionResult]:
    """Kimi's answer to a prompt. KimiConfigError without a key, KimiApiError if Kimi refuses or cannot be reached."""
    return create_kimi_completion_with_tools(prompt, (), **options)


async def create_kimi_completion_with_tools(
    prompt: str,
    tools: Sequence[AnthropicTool | Mapping[str, Any]],
    *,
    system: str = "",
    model: str = DEFAULT_MODEL,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    temperature: float | None = None,
    api_key: str | Secret | None = None,
    base_url: str | None = None,
    send: Send | None = None,
    delay: Delay | None = None,
    logger: Log = _log.warning,
    clock: Callable[[], float] = time.monotonic,
    environ: Mapping[str, str] | None = None,
) -> CompletionResult:
    """Kimi's answer to a prompt; if it calls tools, `content` is the JSON of its `tool_use` blocks."""
    # Wrapped, because the locals of a frame may be shown, and the environment holds keys.
    environ = SecretEnvironment(os.environ if environ is None else environ)
    # No configuration file: callers of such a function expect the environment and their arguments to decide.
    catalog = Catalog(Config(), environ=environ)
    target = catalog.resolve(f"moonshot/{model}")
    if base_url:
        target = replace(target, endpoint=replace(target.endpoint, base_url=base_url.rstrip("/")))
    api_key = hide(api_key or environ.get(KEY_VARIABLE) or None)
    headers = await _auth(catalog, target, api_key)
    request = encode_request(
        target,
        Conversation((human(prompt),), system=system),
        tools=_specs(tools),
        options=Options(max_tokens=max_tokens, temperature=temperature, stream=False),
        cache=None,
    )
    for note in request.notes:
        # Adaptations are silent here; what was left out altogether is worth a line in the log.
        if note.action == "dropped":
            logger(f"kimi: not sent: {note.why}")
    warn_of_clear_text(target.endpoint.base_url, headers)
    began = clock()
    call = _Call(request, target, headers)
    body = await _attempt(call, send or _send, delay or _delay, logger)
    turn = _read(body, request, call.secrets)
    if isinstance(turn, KimiApiError):
        del body  # it may echo the key, and the locals of a frame may be shown
        raise turn
    return _result(turn, model, (clock() - began) * 1000)


class _Call:
    """A request ready to be sent. A plain class: no repr shows its key."""

    def __init__(self, request: Request, target: Resolved, auth: SecretHeaders) -> None:
        self.url = target.endpoint.base_url + request.path
        self.method = request.method
        secret = SecretHeaders({**(target.endpoint.headers or {}), **auth})
        self.headers = SecretHeaders({**request.headers, **secret})
        self.body = request.body
        # Of the endpoint's and the key's headers only: scrubbing "application/json" out of errors would help nobody.
        self.secrets = Secrets(secret)


async def _auth(catalog: Catalog, target: Resolved, api_key: Secret | None) -> SecretHeaders:
    try:
        return await catalog.authorize(target, api_key)
    except MissingKey as error:
        raise KimiConfigError(f"{error} ({KEY_VARIABLE} is read too)") from None


def map_tools_to_kimi(tools: Iterable[AnthropicTool | Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Anthropic's tool declarations as functions. A request also adapts names and schemas to what Moonshot accepts."""
    return [wrapped(tool) for tool in _specs(tools)]


def map_kimi_tool_calls_to_anthropic(tool_calls: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The `tool_calls` of a message as `tool_use` blocks, under the names and ids they came with."""
    found = [(call.get("id") or "", call["function"]) for call in tool_calls]
    return [_tool_use(ToolCall(id, function["name"], function.get("arguments") or "")) for id, function in found]


def map_finish_reason(finish_reason: str | None) -> str:
    """Kimi's finish reason as Anthropic's stop reason; one without a counterpart stays as it is."""
    return "unknown" if finish_reason is None else _STOP_REASONS.get(finish_reason, finish_reason)


def _specs(tools: Iterable[AnthropicTool | Mapping[str, Any]]) -> list[ToolSpec]:
    known = [tool if isinstance(tool, AnthropicTool) else msgspec.convert(dict(tool), AnthropicTool) for tool in tools]
    return [ToolSpec(tool.name, tool.description, tool.input_schema) for tool in known]


async def _attempt(call: _Call, send: Send, delay: Delay, logger: Log) -> bytes:
    """Send until there is an answer, or until another attempt would not help."""
    for attempt in range(MAX_RETRIES + 1):
        failure: ProviderError | TransportError
        response: KimiResponse | None
        try:
            response = await send(call.method, call.url, call.headers.reveal(), call.body)
        except (TransportError, OSError) as error:  # TimeoutError is an OSError
            failure = call.secrets.scrub_error(_transport_error(error))
        else:
            if response.status < 400:
                return response.body
            failure = provider_error(response.status, call.secrets.scrub(response.body), provider="moonshot")
            failure = call.secrets.scrub_error(failure)
            response = None  # its body may echo the key, and the locals of a frame may be shown
            # A fixed rule, simpler than the library's own: programs were written against exactly these retries.
            if failure.status != 429 and (failure.status or 0) < 500:
                raise _api_error(failure, failure.code)
        if attempt < MAX_RETRIES:
            wait = BASE_DELAY_MS * 2**attempt
            logger(f"kimi: attempt {attempt + 1} of {MAX_RETRIES + 1} failed ({failure}); again in {wait} ms")
            await delay(wait)
    raise _api_error(failure, KIMI_RETRIES_EXHAUSTED)


def _transport_error(error: TransportError | OSError) -> TransportError:
    """What an injected `send` raised, in this library's words."""
    if isinstance(error, TransportError):
        return error
    kind = TimedOut if isinstance(error, TimeoutError) else ConnectFailed
    return kind(str(error) or type(error).__name__)


def _api_error(error: MidstreamError, code: str | None) -> KimiApiError:
    if isinstance(error, ProviderError):
        made = KimiApiError(
            error.message,
            status=error.status,
            code=code,
            type=error.type,
            provider="moonshot",
            retry_after=error.retry_after,
        )
    else:
        made = KimiApiError(str(error), code=code, provider="moonshot")
    made.__cause__ = error
    return made


def _read(body: bytes, request: Request, secrets: Secrets) -> Turn | KimiApiError:
    try:
        turn = decode_response(body, request=request)  # which knows the names that had to be changed
    except (RemoteError, ProviderError) as error:
        return _api_error(secrets.scrub_error(error), "KIMI_BAD_RESPONSE")
    if turn.failure == "truncated":  # the caller runs what it is given: nothing of an answer that has no end
        return KimiApiError("the answer was cut off", code="KIMI_BAD_RESPONSE", provider="moonshot")
    return turn


def _result(turn: Turn, model: str, latency_ms: float) -> CompletionResult:
    usage = turn.usage
    blocks = [_tool_use(call) for call in turn.tool_calls]
    reason = map_finish_reason(turn.raw_stop)
    # A host may say `stop` beside calls, and `tool_calls` without any: what came decides what a caller looks for in `content`.
    return CompletionResult(
        content=msgspec.json.encode(blocks).decode() if blocks else turn.text,
        model=turn.origin.model if turn.origin is not None else model,
        prompt_tokens=usage.read if usage is not None else 0,
        completion_tokens=usage.output if usage is not None else 0,
        stop_reason=("tool_use" if blocks else "end_turn") if reason in ("tool_use", "end_turn") else reason,
        latency_ms=latency_ms,
    )


def _tool_use(call: ToolCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.raw_id or call.id, "name": call.name, "input": parse_arguments(call)}


async def _send(method: str, url: str, headers: Mapping[str, str], body: bytes) -> KimiResponse:
    """Over the library's own transport, once: the retries are counted here."""
    request = _Outgoing(method, headers, body)
    # Everything but the content type is treated as secret, so no error of the transport can quote it.
    secret = {name: value for name, value in headers.items() if name not in request.headers}
    async with Transport(TransportOptions(retry=RetryPolicy(max_retries=0))) as transport:
        try:
            async with await transport.open(request, url.removesuffix(request.path), secret) as answer:
                return KimiResponse(answer.status, await answer.read())
        except ProviderError as error:
            told = {"error": {"message": error.message, "type": error.type, "code": error.code}}
            return KimiResponse(error.status or 500, msgspec.json.encode(told))


class _Outgoing:
    path = "/chat/completions"
    stream = False

    def __init__(self, method: str, headers: Mapping[str, str], body: bytes) -> None:
        self.method = method
        self.body = body
        self.headers = {name: value for name, value in headers.items() if name.lower() == "content-type"}


async def _delay(milliseconds: float) -> None:
    await asyncio.sleep(milliseconds / 1000)
