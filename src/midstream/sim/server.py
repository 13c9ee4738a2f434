"""One loopback server that plays every provider: `async with Sim() as sim`, then talk to `sim.url`.

A request is held to its provider's rules and refused in its words, or answered by the scripted model, piece by piece, on the
wire it came on. The first part of the path names the provider (`/moonshot/chat/completions`), the rest its own path;
`/sim/…` finds it by the model's name. `seen` keeps the last requests, for tests that want to look at them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Protocol

import msgspec

from ..core.blocks import Conversation
from ..core.errors import MidstreamError, UnknownModel
from ..core.tools import ToolSpec
from ..dialects.provider import Provider
from ..dialects.registry import Registry, Resolved
from ..wires.registry import get_wire
from ..wires.wire import ParsedRequest
from .answer import Answer, Voice
from .fault import FaultQueue, leaked, spoiled
from .players import Player
from .prompt import read_prompt
from .providers import sim_rows
from .refusal import refusal
from .rules.hosts import HOSTS, Host, host_for, judge
from .rules.rule import Problem
from .script import perform
from .speech import speak, speak_whole

_PATHS = (
    ("/chat/completions", "openai-chat"),
    ("/messages", "anthropic"),
    ("/responses", "openai-responses"),
    ("/api/chat", "ollama"),
)
_MEDIA = {"gemini": "text/event-stream", "ollama": "application/x-ndjson"}


class Script(Protocol):
    """Who decides what is said next."""

    def __call__(
        self, conversation: Conversation, tools: Sequence[ToolSpec], *, model: str, thinks: bool
    ) -> Answer: ...


class Seen(msgspec.Struct, frozen=True):
    """A request as it came, and the status it was answered with."""

    path: str
    body: dict[str, Any]
    status: int


class Sim:
    """The doubles on one port. `delay` is the pause before each streamed piece, in seconds."""

    def __init__(
        self,
        *,
        port: int = 0,
        delay: float = 0.0,
        faults: Iterable[str] = (),
        strict: bool = True,
        script: Script = perform,
        keep: int = 1000,
    ) -> None:
        self.port = port
        self.delay = delay
        self.strict = strict
        self.seen: deque[Seen] = deque(maxlen=keep)
        self._script = script
        self.faults = FaultQueue(tuple(faults))
        self.requests = 0
        self.refused: list[Problem] = []
        self._runner: Any = None
        self._registry: Registry | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def providers(self) -> list[Provider]:
        """Registry rows that lead here: give them to a Catalog."""
        return sim_rows(self.url)

    def inject(self, fault: str, times: int = 1) -> None:
        """Let something go wrong with the next `times` requests (see midstream.sim.fault)."""
        self.faults.put(fault, times)

    async def __aenter__(self) -> Sim:
        from aiohttp import web  # aiohttp is heavy: paid for when a server is wanted

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

        models = [
            {"id": model, "object": "model"} for row in self.providers() if row.name == "sim" for model in row.models
        ]
        return web.json_response({"object": "list", "data": models})

    async def _handle(self, request: Any) -> Any:
        self.requests += 1
        raw = await request.read()
        path = "/" + request.match_info["path"]
        try:
            scene = self._scene(request.match_info["provider"], path, raw)
        except MidstreamError as error:
            return self._refuse(Problem("known model", str(error), 404, "not_found_error"), HOSTS["openai"])
        except msgspec.DecodeError as error:
            return self._refuse(
                Problem("JSON", f"could not parse the JSON body of your request: {error}"), HOSTS["openai"]
            )
        fault = self.faults.take()
        if fault in ("429", "500"):
            self.seen.append(Seen(request.path, scene.body, int(fault)))
            return self._fail(fault, scene.host)
        problems = judge(scene.body, scene.host) if self.strict else []
        self.seen.append(Seen(request.path, scene.body, problems[0].status if problems else 200))
        if problems:
            self.refused += problems
            return self._refuse(problems[0], scene.host)
        return await self._answer(request, scene, fault)

    def _scene(self, provider: str, path: str, raw: bytes) -> _Scene:
        assert self._registry is not None
        body = msgspec.json.decode(raw)
        if not isinstance(body, dict):
            raise msgspec.DecodeError("expected an object")
        wire, model, stream = _route(path, body)
        target = self._registry.resolve(f"{provider}/{model}")
        dialect = target.dialect
        if wire == "completion":
            host = HOSTS["deepinfra-native"]
        else:
            if dialect.wire != wire:
                raise UnknownModel(f"{model} is not served on {path}")
            host = host_for(dialect.name, wire, dialect.provider, dialect.ids)
        return _Scene(target, host, wire, body, raw, stream)

    async def _answer(self, request: Any, scene: _Scene, fault: str | None) -> Any:
        from aiohttp import web

        try:
            answer, voice = scene.answer(self._script, self.requests)
        except MidstreamError as error:  # a script that has nothing to say to this says so
            return self._refuse(Problem("script", str(error)), scene.host)
        if fault == "leak":
            answer = leaked(answer, voice.first_call)
        if not scene.stream:
            return web.Response(body=speak_whole(scene.wire, answer, voice), content_type="application/json")
        response = web.StreamResponse(headers={"content-type": _MEDIA.get(scene.wire, "text/event-stream")})
        try:
            await self._stream(request, response, list(speak(scene.wire, answer, voice)), fault)
        except ConnectionError:  # the client has left: nobody is there to tell
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
            await response.write(spoiled(piece, fault))
        await response.write_eof()

    def _refuse(self, problem: Problem, host: Host) -> Any:
        from aiohttp import web

        body = refusal(problem, host.traits)
        return web.Response(status=problem.status, body=body, content_type="application/json")

    def _fail(self, fault: str, host: Host) -> Any:
        if fault == "500":
            return self._refuse(Problem("fault", "internal error", 500, "server_error"), host)
        too_many = Problem("fault", "too many requests, please slow down", 429, host.traits.rate_limit_type)
        response = self._refuse(too_many, host)
        response.headers["retry-after"] = "0"
        return response


class _Scene:
    """One request on its way to an answer."""

    def __init__(self, target: Resolved, host: Host, wire: str, body: dict[str, Any], raw: bytes, stream: bool) -> None:
        self.target = target
        self.host = host
        self.wire = wire
        self.body = body
        self.stream = stream
        self._raw = raw

    def answer(self, script: Script, number: int) -> tuple[Answer, Voice]:
        parsed = self._parsed()
        reasoning = self.target.dialect.reasoning
        opened = self._prompt.endswith("<think>")
        thinks = opened
        if self.wire != "completion":
            thinks = (reasoning.default_on and not _thinking_off(self.body)) or _thinking_on(self.body)
        said = script(parsed.conversation, parsed.tools, model=self.target.model, thinks=thinks)
        calls = sum(len(turn.tool_calls) for turn in parsed.conversation.turns)
        voice = Player(self.target, self.host).voice(number=number, first_call=calls)
        return said, msgspec.structs.replace(voice, starts_inside=opened)

    @property
    def _prompt(self) -> str:
        """What a raw completion is to go on with; the model thinks where the prompt opened its thinking."""
        return str(self.body.get("input") or self.body.get("prompt") or "")

    def _parsed(self) -> ParsedRequest:
        if self.wire == "completion":
            return read_prompt(self._prompt)
        reader = get_wire(self.wire).read_request
        assert reader is not None
        return reader(self._raw, provider=self.target.dialect.provider)


def _route(path: str, body: dict[str, Any]) -> tuple[str, str, bool]:
    """Wire, model and whether a stream is wanted."""
    if ":generateContent" in path or ":streamGenerateContent" in path:
        model, _, method = path.rpartition("/models/")[2].partition(":")
        return "gemini", model, method.startswith("stream")
    if "/inference/" in path:
        return "completion", path.rpartition("/inference/")[2], bool(body.get("stream"))
    for ending, wire in _PATHS:
        if path.endswith(ending):
            stream = body.get("stream", wire == "ollama")
            return wire, str(body.get("model") or ""), bool(stream)
    raise UnknownModel(f"no double answers at {path}")


def _thinking_on(body: dict[str, Any]) -> bool:
    thinking = body.get("thinking")
    if isinstance(thinking, dict):
        return thinking.get("type") in ("enabled", "adaptive")
    return bool(body.get("think") or body.get("reasoning") or body.get("enable_thinking"))


def _thinking_off(body: dict[str, Any]) -> bool:
    thinking = body.get("thinking")
    return (isinstance(thinking, dict) and thinking.get("type") == "disabled") or body.get("think") is False
