"""A loopback server that stands for every provider: `async with Sim() as sim`, then send requests to `sim.url`.

A request that breaks its provider's rules is refused with that provider's error; any other is answered by the scripted model
in the format of its wire. The first part of the path names the provider (`/moonshot/chat/completions`), the rest is its own
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
from collections.abc import Iterable, Sequence
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
from .players import Player
from .providers import MODELS, sim_providers
from .rules.hosts import HOSTS, Host, host_for, judge
from .rules.rule import Problem
from .scripted_model import next_answer, read_prompt
from .speech import SPEAKERS, speak, speak_whole

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
    """The doubles on one port. `delay` is the pause before each streamed piece, in seconds; `strict=False` refuses nothing."""

    def __init__(
        self,
        *,
        port: int = 0,
        delay: float = 0.0,
        faults: Iterable[str] = (),
        strict: bool = True,
        script: Script = next_answer,
        keep: int = 1000,
    ) -> None:
        self.port = port
        self.delay = delay
        self.strict = strict
        self.seen: deque[Seen] = deque(maxlen=keep)
        self._script = script
        self._faults: deque[str] = deque()
        for fault in faults:
            self.inject(fault)
        self.requests = 0
        self.refused: list[Problem] = []
        self._runner: Any = None
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
        from aiohttp import web  # slow to import: only when a server is started

        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_get("/", self._hello)
        app.router.add_get("/{provider}/{path:.*}", self._hello)
        app.router.add_post("/{provider}/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self._registry = Registry(self.providers())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    async def _hello(self, request: Any) -> Any:
        from aiohttp import web

        models = [{"id": model, "object": "model"} for model in MODELS]
        return web.json_response({"object": "list", "data": models})

    async def _handle(self, request: Any) -> Any:
        self.requests += 1
        raw = await request.read()
        path = "/" + request.match_info["path"]
        try:
            exchange = self._exchange(request.match_info["provider"], path, raw)
        except MidstreamError as error:
            return self._refuse(Problem("known model", str(error), 404, "not_found_error"), HOSTS["openai"])
        except msgspec.DecodeError as error:
            return self._refuse(
                Problem("JSON", f"could not parse the JSON body of your request: {error}"), HOSTS["openai"]
            )
        fault = self._faults.popleft() if self._faults else None
        if fault in ("429", "500"):
            self.seen.append(Seen(request.path, exchange.body, int(fault)))
            return self._fail(fault, exchange.host)
        problems = judge(exchange.body, exchange.host) if self.strict else []
        self.seen.append(Seen(request.path, exchange.body, problems[0].status if problems else 200))
        if problems:
            self.refused += problems
            return self._refuse(problems[0], exchange.host)
        return await self._answer(request, exchange, fault)

    def _exchange(self, provider: str, path: str, raw: bytes) -> _Exchange:
        assert self._registry is not None
        body = msgspec.json.decode(raw)
        if not isinstance(body, dict):
            raise msgspec.DecodeError("expected an object")
        wire, model, stream = _route(path, body)
        target = self._registry.resolve(f"{provider}/{model}")
        dialect = target.dialect
        if wire not in ("completion", dialect.wire):
            raise UnknownModel(f"{model} is not served at {path}")
        host = HOSTS["deepinfra-native"] if wire == "completion" else host_for(dialect)
        return _Exchange(target, host, wire, body, raw, stream)

    async def _answer(self, request: Any, exchange: _Exchange, fault: str | None) -> Any:
        from aiohttp import web

        try:
            answer, style = exchange.answer(self._script, self.requests)
        except MidstreamError as error:  # the script has no answer
            return self._refuse(Problem("script", str(error)), exchange.host)
        if fault == "leak":
            answer = _leaked(answer, style.first_call)
        if not exchange.stream:
            return web.Response(body=speak_whole(exchange.wire, answer, style), content_type="application/json")
        response = web.StreamResponse(headers={"content-type": SPEAKERS[exchange.wire].media_type})
        try:
            await self._stream(request, response, list(speak(exchange.wire, answer, style)), fault)
        except ConnectionError:  # the client has gone
            pass
        return response

    async def _stream(self, request: Any, response: Any, pieces: Sequence[bytes], fault: str | None) -> None:
        await response.prepare(request)
        for number, piece in enumerate(pieces):
            if fault in ("cut", "stall") and number == max(1, len(pieces) // 2):
                if fault == "stall":
                    await asyncio.sleep(3600)
                request.transport.abort()
                return
            if self.delay:
                await asyncio.sleep(self.delay)
            await response.write(_spoiled(piece, fault))
        await response.write_eof()

    def _refuse(self, problem: Problem, host: Host) -> Any:
        from aiohttp import web

        return web.Response(status=problem.status, body=host.refusal(problem), content_type="application/json")

    def _fail(self, fault: str, host: Host) -> Any:
        if fault == "500":
            return self._refuse(Problem("fault", "internal error", 500, "server_error"), host)
        too_many = Problem("fault", "too many requests, please slow down", 429, host.traits.rate_limit_type)
        response = self._refuse(too_many, host)
        response.headers["retry-after"] = "0"
        return response


class _Exchange(msgspec.Struct, frozen=True):
    """One request, and what is known about who must answer it."""

    target: Resolved
    host: Host
    wire: str
    body: dict[str, Any]
    raw: bytes
    stream: bool

    def answer(self, script: Script, number: int) -> tuple[Answer, Style]:
        parsed = self._parsed()
        reasoning = self.target.dialect.reasoning
        opened = self._prompt.endswith("<think>")
        thinks = opened
        if self.wire != "completion":
            thinks = (reasoning.default_on and not _thinking_off(self.body)) or _thinking_on(self.body)
        said = script(parsed.conversation, parsed.tools, model=self.target.model, thinks=thinks)
        calls = sum(len(turn.tool_calls) for turn in parsed.conversation.turns)
        style = Player(self.target, self.host).style(number=number, first_call=calls)
        return said, msgspec.structs.replace(style, starts_inside=opened)

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
