"""A loopback server that stands for every provider: `async with Sim() as sim`, then send requests to `sim.url`.

A request that breaks its provider's rules is refused with that provider's error; any other is answered by the scripted model
in the format of its wire, or in the text format in which the system prompt declares tools. The first part of the path names the provider (`/moonshot/chat/completions`), the rest is its own
path; `/sim/…` chooses the provider by the model's name. `seen` keeps the last requests, for tests.

`faults` and `inject` make the next answers go wrong:

| name | what happens |
|---|---|
| `429` | refused with Retry-After |
| `500` | an internal error |
| `cut` | the stream breaks off in the middle |
| `stall` | the stream goes silent in the middle |
| `leak` | tool calls come as the model's own markers in the text |
| `repeat-ids` | every call has the same id |
| `restart-index` | every call has index 0 |
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from types import TracebackType
from typing import Any, Protocol

import msgspec

from ..core.blocks import Conversation
from ..core.errors import LocalError, MidstreamError, UnknownModel
from ..core.tools import ToolSpec
from ..dialects.provider import Provider
from ..dialects.registry import Registry, Resolved
from ..wires.request import ParsedRequest, parse_request
from .answer import Answer, Style
from .http_server import JSON, HTTPRequest, HTTPServer, Responder
from .players import Player
from .providers import MODELS, sim_providers
from .rules.hosts import HOSTS, Host, host_for, judge
from .rules.rule import Problem
from .scripted_model import next_answer, read_prompt
from .speech import SPEAKERS, speak, speak_whole
from .text_tools import read_text_tools

FAULTS = ("429", "500", "cut", "stall", "leak", "repeat-ids", "restart-index")


class Script(Protocol):
    """Decides what is answered next."""

    def __call__(
        self, conversation: Conversation, tools: Sequence[ToolSpec], *, model: str, thinks: bool
    ) -> Answer: ...


class Seen(msgspec.Struct, frozen=True):
    """A request as it arrived, and the status of its answer."""

    path: str
    body: dict[str, Any]
    status: int


class Sim:
    """The doubles on one port. `delay` is the pause before each streamed piece, in seconds; `strict=False` refuses nothing;
    `toolless` are the providers that take no tools; a request with another key than `key` is refused, unless it is None."""

    def __init__(
        self,
        *,
        port: int = 0,
        delay: float = 0.0,
        faults: Iterable[str] = (),
        strict: bool = True,
        script: Script = next_answer,
        keep: int = 1000,
        toolless: Collection[str] = (),
        key: str | None = None,
    ) -> None:
        self.port = port
        self.delay = delay
        self.strict = strict
        self._toolless = frozenset(toolless)
        self._key = key
        self.seen: deque[Seen] = deque(maxlen=keep)
        self._script = script
        self._faults: deque[str] = deque()
        for fault in faults:
            self.inject(fault)
        self.requests = 0
        self.refused: list[Problem] = []
        self._server = HTTPServer(self._handle)
        self._registry: Registry | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def providers(self) -> list[Provider]:
        """The providers at this address, for a Catalog."""
        return sim_providers(self.url)

    def inject(self, fault: str, times: int = 1) -> None:
        """Make the next `times` requests go wrong; the table above names the faults."""
        if fault not in FAULTS:
            raise LocalError(f"unknown fault {fault!r}; expected one of {', '.join(FAULTS)}")
        self._faults.extend([fault] * times)

    async def __aenter__(self) -> Sim:
        await self._server.start(port=self.port)
        self.port = self._server.port
        self._registry = Registry(self.providers())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._server.close()

    async def _handle(self, request: HTTPRequest, responder: Responder) -> None:
        if request.method != "POST":
            models = [{"id": model, "object": "model"} for model in MODELS]
            await responder.send(200, msgspec.json.encode({"object": "list", "data": models}), JSON)
            return
        self.requests += 1
        _, provider, path = (request.path if request.path.count("/") > 1 else request.path + "/").split("/", 2)
        try:
            exchange = self._exchange(provider, f"/{path}", request)
        except MidstreamError as error:
            await _refuse(responder, Problem("known model", str(error), 404, "not_found_error"), HOSTS["openai"])
            return
        except msgspec.DecodeError as error:
            unread = Problem("JSON", f"could not parse the JSON body of your request: {error}")
            await _refuse(responder, unread, HOSTS["openai"])
            return
        status = exchange.host.traits.bad_key_status
        if status is not None and not self._admits(request):
            self.seen.append(Seen(request.path, exchange.body, status))
            words = exchange.host.traits.bad_key_message
            await _refuse(responder, Problem("key", words, status, code="invalid_api_key"), exchange.host)
            return
        fault = self._faults.popleft() if self._faults else None
        if fault in ("429", "500"):
            self.seen.append(Seen(request.path, exchange.body, int(fault)))
            await _fail(responder, fault, exchange.host)
            return
        problems = judge(exchange.body, exchange.host) if self.strict else []
        self.seen.append(Seen(request.path, exchange.body, problems[0].status if problems else 200))
        if problems:
            self.refused += problems
            await _refuse(responder, problems[0], exchange.host)
            return
        await self._answer(responder, exchange, fault)

    def _admits(self, request: HTTPRequest) -> bool:
        """Whether a request has the right key, wherever its client puts it."""
        if self._key is None:
            return True
        bearer = request.header("authorization").removeprefix("Bearer ")
        given = (bearer, request.header("x-api-key"), request.header("x-goog-api-key"))
        return self._key in given or f"key={self._key}" in request.query.split("&")

    def _exchange(self, provider: str, path: str, request: HTTPRequest) -> _Exchange:
        assert self._registry is not None
        raw = request.body
        body = msgspec.json.decode(raw)
        if not isinstance(body, dict):
            raise msgspec.DecodeError("expected an object")
        wire, model, stream = _route(path, body)
        target = self._registry.resolve(f"{provider}/{model}")
        dialect = target.dialect
        if provider in self._toolless:
            dialect = msgspec.structs.replace(dialect, native_tools=False)
        if wire not in ("completion", dialect.wire):
            raise UnknownModel(f"{model} is not served at {path}")
        host = HOSTS["deepinfra-native"] if wire == "completion" else host_for(dialect)
        array = wire == "gemini" and "alt=sse" not in request.query.split("&")
        return _Exchange(target, host, wire, body, raw, stream, array)

    async def _answer(self, responder: Responder, exchange: _Exchange, fault: str | None) -> None:
        try:
            answer, style, asked = exchange.answer(self._script, self.requests)
        except MidstreamError as error:  # the script has no answer
            await _refuse(responder, Problem("script", str(error)), exchange.host)
            return
        if fault == "leak":
            answer = _leaked(answer, style.first_call)
        if exchange.stream:
            await responder.start(200, {"content-type": SPEAKERS[exchange.wire].media_type})
            await self._stream(responder, list(speak(exchange.wire, answer, style, asked, array=exchange.array)), fault)
        else:
            await responder.send(200, speak_whole(exchange.wire, answer, style, asked), JSON)

    async def _stream(self, responder: Responder, pieces: Sequence[bytes], fault: str | None) -> None:
        for number, piece in enumerate(pieces):
            if fault in ("cut", "stall") and number == max(1, len(pieces) // 2):
                if fault == "stall":
                    await asyncio.sleep(3600)
                responder.abort()
                return
            if self.delay:
                await asyncio.sleep(self.delay)
            await responder.write(_spoiled(piece, fault))
        await responder.finish()


async def _refuse(responder: Responder, problem: Problem, host: Host, headers: dict[str, str] | None = None) -> None:
    await responder.send(problem.status, host.refusal(problem), {**JSON, **(headers or {})})


async def _fail(responder: Responder, fault: str, host: Host) -> None:
    if fault == "500":
        await _refuse(responder, Problem("fault", "internal error", 500, "server_error"), host)
        return
    too_many = Problem("fault", "too many requests, please slow down", 429, host.traits.rate_limit_type)
    await _refuse(responder, too_many, host, {"retry-after": "0"})


class _Exchange(msgspec.Struct, frozen=True):
    """One request, and what is known about who must answer it."""

    target: Resolved
    host: Host
    wire: str
    body: dict[str, Any]
    raw: bytes
    stream: bool
    array: bool = False
    """Whether a stream is one JSON array."""

    def answer(self, script: Script, number: int) -> tuple[Answer, Style, ParsedRequest]:
        parsed = self._parsed()
        player = Player(self.target, self.host)
        opened = self._prompt.endswith("<think>")
        thinks = opened
        if self.wire != "completion":
            thinks = (player.thinks and not _thinking_off(self.body)) or _thinking_on(self.body)
        spoken = read_text_tools(parsed) if not parsed.tools else None
        read = parsed if spoken is None else spoken.parsed
        said = script(read.conversation, read.tools, model=self.target.model, thinks=thinks)
        calls = sum(len(turn.tool_calls) for turn in read.conversation.turns)
        style = player.style(number=number, first_call=calls)
        style = msgspec.structs.replace(style, starts_inside=opened)
        return said if spoken is None else spoken.answer(said, style), style, parsed

    @property
    def _prompt(self) -> str:
        """The prompt of a raw completion; the model thinks if the prompt opens its thinking."""
        return str(self.body.get("input") or self.body.get("prompt") or "")

    def _parsed(self) -> ParsedRequest:
        if self.wire == "completion":
            return read_prompt(self._prompt)
        return parse_request(self.wire, self.raw, provider=self.target.dialect.provider)


def _route(path: str, body: dict[str, Any]) -> tuple[str, str, bool]:
    """The wire, the model, and whether to stream."""
    if ":generateContent" in path or ":streamGenerateContent" in path:
        model, _, method = path.rpartition("/models/")[2].partition(":")
        return "gemini", model, method.startswith("stream")
    if "/inference/" in path:
        return "completion", path.rpartition("/inference/")[2], bool(body.get("stream"))
    for wire, speaker in SPEAKERS.items():
        if speaker.path and path.endswith(speaker.path):
            return wire, str(body.get("model") or ""), bool(body.get("stream", speaker.streams))
    raise UnknownModel(f"no wire has the path {path}")


def _thinking_on(body: dict[str, Any]) -> bool:
    thinking = body.get("thinking")
    if isinstance(thinking, dict):
        return thinking.get("type") in ("enabled", "adaptive")
    return bool(body.get("think") or body.get("reasoning") or body.get("enable_thinking"))


def _thinking_off(body: dict[str, Any]) -> bool:
    thinking = body.get("thinking")
    return (isinstance(thinking, dict) and thinking.get("type") == "disabled") or body.get("think") is False


def _leaked(answer: Answer, first_call: int) -> Answer:
    """The answer with its calls as Kimi's markers in the text, as some hosts let them through."""
    if not answer.calls:
        return answer
    calls = "".join(
        [
            f"<|tool_call_begin|>functions.{call.name}:{first_call + number}<|tool_call_argument_begin|>{call.json}<|tool_call_end|>"
            for number, call in enumerate(answer.calls)
        ]
    )
    text = f"{answer.text}<|tool_calls_section_begin|>{calls}<|tool_calls_section_end|>"
    return Answer(text, answer.thinking, input_tokens=answer.input_tokens)


def _spoiled(piece: bytes, fault: str | None) -> bytes:
    """A piece of a chat stream with its call ids repeated or its indexes restarted."""
    if fault not in ("repeat-ids", "restart-index") or not piece.startswith(b"data: {"):
        return piece
    chunk = msgspec.json.decode(piece[6:])
    for choice in chunk.get("choices", ()):
        for call in choice.get("delta", {}).get("tool_calls", ()):
            if fault == "repeat-ids" and "id" in call:
                call["id"] = "call_0"
            if fault == "restart-index":
                call["index"] = 0
    return b"data: " + msgspec.json.encode(chunk) + b"\n\n"
