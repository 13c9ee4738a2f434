"""A loopback server that stands for every provider: `async with Sim() as sim`, then send requests to `sim.url`.

A request that breaks its provider's rules is refused with that provider's error; any other is answered by the scripted model
in the format of its wire, or in the text format in which the system prompt declares tools. The first part of the path names the provider (`/moonshot/chat/completions`), the rest is its own
path; `/sim/…` chooses the provider by the model's name. `seen` keeps the last requests, for tests.

`faults` and `inject` make the next answers go wrong, `always` all of them; sim/faults.py has the table of what can go wrong.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from types import TracebackType
from typing import Any, Protocol
from urllib.parse import parse_qsl

import msgspec

from ..core.blocks import Conversation
from ..core.dialect import Options
from ..core.errors import MidstreamError, UnknownModel
from ..core.tools import ToolSpec
from ..dialects.provider import Provider
from ..dialects.registry import Registry, Resolved
from ..wires.request import ParsedRequest, parse_request
from .answer import Answer, Style
from .faults import (
    FaultContext,
    changes_bytes,
    check_fault,
    counted_request,
    faulty_answer,
    faulty_body,
    faulty_request,
    faulty_stream,
    own_ids,
)
from .http_server import JSON, HTTPRequest, HTTPServer, Responder
from .model_lists import model_list, one_model, shown_model
from .obedience import obedient_answer
from .players import Player
from .providers import PLAYED, SIM, played_providers, sim_providers
from .routes import Found, find_route, owner_of, wires_of
from .rules.hosts import HOSTS, Host, Strict, host_for, judge, read_strict
from .rules.rule import Problem
from .scripted_model import count_tokens, next_answer, read_prompt
from .speech import SPEAKERS, counted, requested_choices, speak, speak_whole, streamed_choices, whole_choices
from .stranger import Stranger
from .text_tools import read_text_tools
from .window import count_request, too_long

_STORED = 200
"""So many responses are kept for GET and DELETE by id."""
# By size as well as by number: a thousand requests with images would be gigabytes.
_SEEN_BYTES = 64 * 1024 * 1024


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
    headers: dict[str, str] = {}
    """By their names in lower case; of several with one name, the last."""

    def __repr__(self) -> str:
        # a program under test may have sent a real key; `headers` itself gives it to whoever asks for it
        return f"Seen(path={self.path!r}, body={self.body!r}, status={self.status!r}, headers={sorted(self.headers)!r})"


class Sim:
    """The doubles on one port. `delay` is the pause before each streamed piece, in seconds; `strict` what to refuse: what is
    "documented" or observed of a host, "paranoid" also what is assumed, False nothing (True is "documented");
    `always` are faults of every answer, and `strangers` hosts that the registry does not know; `toolless` are the providers that take no tools; a request with another key than `key` is refused, unless it is None, and so
    is one that has more tokens than `window`."""

    def __init__(
        self,
        *,
        port: int = 0,
        delay: float = 0.0,
        faults: Iterable[str | int] = (),
        always: Iterable[str | int] = (),
        strangers: Iterable[Stranger] = (),
        strict: Strict = "documented",
        script: Script = next_answer,
        keep: int = 1000,
        toolless: Collection[str] = (),
        key: str | None = None,
        window: int | None = None,
    ) -> None:
        self.port = port
        self.delay = delay
        self.strict = read_strict(strict)
        self._toolless = frozenset(toolless)
        self._key = key
        self.window = window
        self.seen: deque[Seen] = deque(maxlen=keep)
        self._script = script
        self._faults: deque[str] = deque()
        for fault in [faults] if isinstance(faults, str) else faults:
            self.inject(fault)
        self._always = frozenset([check_fault(fault) for fault in always])
        self._strangers = {stranger.name: stranger for stranger in strangers}
        self.requests = 0
        self.refusals = 0
        """How many problems there were; `refused` has the last of them."""
        self.refused: list[Problem] = []
        self._kept = keep
        self._sizes: deque[int] = deque(maxlen=keep)
        self._stored: dict[str, _Stored] = {}
        self._server = HTTPServer(self._handle)
        self._registry: Registry | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def guarded(self) -> bool:
        """Whether a key is asked for."""
        return self._key is not None

    def providers(self) -> list[Provider]:
        """The providers at this address, for a Catalog."""
        return sim_providers(self.url)

    def inject(self, fault: str | int, times: int = 1) -> None:
        """Make the next `times` requests go wrong; sim/faults.py names the faults."""
        self._faults.extend([check_fault(fault)] * times)

    async def __aenter__(self) -> Sim:
        await self._server.start(port=self.port)
        self.port = self._server.port
        strange = [stranger.provider(self.url) for stranger in self._strangers.values()]
        self._registry = Registry([*played_providers(self.url), *strange])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._server.close()

    async def _handle(self, request: HTTPRequest, responder: Responder) -> None:
        # `/openai` without anything behind it still has a provider and an empty path.
        _, provider, path = (request.path if request.path.count("/") > 1 else request.path + "/").split("/", 2)
        host = HOSTS["openai"]
        if request.path == "/":
            bases = {row.provider: f"{self.url}/{row.provider}" for row in PLAYED}
            await responder.send(200, msgspec.json.encode({"midstream": "doubles", "base_urls": bases}), JSON)
            return
        try:
            found = self._find(provider, f"/{path}", request)
            host = self._host(provider, found.wire)
            if found.methods:
                unfit = Problem("method", f"{request.method} is not allowed here", 405, code="method_not_allowed")
                await _refuse(responder, unfit, host, {"allow": ", ".join(found.methods)})
            elif found.action == "answer":
                await self._take(responder, request, provider, found)
            elif self._lets_in(request, host):
                await self._tell(responder, request, provider, found, host)
            else:
                await _refuse(responder, _bad_key(host), host)
        except (UnknownModel, _NoRoute) as error:
            host = error.host if isinstance(error, _NoRoute) else host
            code = "model_not_found" if host.traits.wire != "anthropic" else None
            await _refuse(responder, Problem("known model", str(error), 404, "not_found_error", code), host)
        except MidstreamError as error:
            await _refuse(responder, Problem("request", str(error)), host)
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            unread = Problem("JSON", f"could not parse the JSON body of your request: {error}")
            await _refuse(responder, unread, host)

    def _find(self, provider: str, path: str, request: HTTPRequest) -> Found:
        assert self._registry is not None
        if provider not in self._registry.providers:
            raise UnknownModel(f"unknown provider {provider!r}; the first part of the path names one")
        wires = wires_of(provider)
        if request.header("anthropic-version") and "anthropic" in wires:  # several wires have a list of models
            wires = tuple(sorted(wires, key=lambda wire: wire != "anthropic"))
        found = find_route(provider, request.method, path, wires)
        if found is None:
            raise _NoRoute(f"{provider} has no path {path}", self._host(provider, wires[0]))
        return found

    def _host(self, provider: str, wire: str) -> Host:
        """The double whose errors answer what names no model."""
        assert self._registry is not None
        if provider in self._strangers:
            return self._strangers[provider].host
        dialects = [dialect for _, dialect in self._registry.providers[owner_of(provider, wire)].dialects]
        natives = [dialect.native for dialect in dialects if dialect.native is not None]
        return next((host_for(dialect) for dialect in (*dialects, *natives) if dialect.wire == wire), HOSTS["openai"])

    async def _take(self, responder: Responder, request: HTTPRequest, provider: str, found: Found) -> None:
        """A request for an answer: let in, judged, answered."""
        self.requests += 1
        host = self._host(provider, found.wire)
        # The key first, as at the hosts: who has none is not told what is wrong with the request.
        if not self._lets_in(request, host):
            body = _object(request.body, fails=False)
            problem = _bad_key(host)
            self._see(request, body, problem.status)
            await _refuse(responder, problem, host)
            return
        exchange = self._exchange(provider, found, request)
        # Taken before the request is judged: an injected failure is of the host, not of the request.
        faults = self._always | exchange.stranger_faults
        if self._faults:
            faults |= {self._faults.popleft()}
        failure = next((fault for fault in ("429", "500") if fault in faults), None)
        if failure is not None:
            self._see(request, exchange.body, int(failure))
            await _fail(responder, failure, exchange.host)
            return
        # A host that refuses the shape never counts the tokens.
        problems = [] if "accept-anything" in faults else _judged(exchange, self.strict) or self._oversized(exchange)
        if "refuse-own-ids" in faults:
            problems += _own_ids(exchange, self.requests)
        self._see(request, exchange.body, problems[0].status if problems else 200)
        if problems:
            self.refusals += len(problems)
            self.refused += problems
            del self.refused[: -self._kept]
            # Hosts tell the first problem only; `refused` has all of them for whoever debugs a test.
            await _refuse(responder, problems[0], exchange.host)
            return
        await self._answer(responder, exchange, faults)

    def _oversized(self, exchange: _Exchange) -> list[Problem]:
        """The refusal of a request that does not fit the window."""
        if self.window is None:
            return []
        tokens = count_request(exchange.parsed())
        return [too_long(exchange.wire, tokens, self.window)] if tokens > self.window else []

    async def _tell(self, responder: Responder, request: HTTPRequest, provider: str, found: Found, host: Host) -> None:
        """What is asked for beside an answer: models, counts, answers of before."""
        wire, name = found.wire, owner_of(provider, found.wire)
        told: dict[str, Any] | None = None
        match found.action:
            case "models":
                told = model_list(wire, name, dict(parse_qsl(request.query)))
            case "model":
                told = one_model(wire, name, found.model)
            case "show":
                body = _object(request.body)
                model = str(body.get("model") or body.get("name") or "")
                told = shown_model(model) if one_model(wire, name, model) else None
            case "count":
                told = counted(wire, self._counted(provider, found, request))
            case "stored" | "items" | "delete":
                await self._recall(responder, found, host)
                return
            case _:
                if request.path.endswith("/version"):
                    told = {"version": "0.0.0-sim"}
                else:
                    await responder.send(200, b"Ollama is running", {"content-type": "text/plain; charset=utf-8"})
                    return
        if told is None:
            raise UnknownModel(f"model {found.model!r} not found")
        await responder.send(200, msgspec.json.encode(told), JSON)

    def _counted(self, provider: str, found: Found, request: HTTPRequest) -> int:
        body = _object(request.body)
        inner = body.get("generateContentRequest")
        raw = msgspec.json.encode(inner) if isinstance(inner, dict) else request.body
        parsed = parse_request(found.wire, raw, provider=provider)
        return count_tokens(parsed.conversation, parsed.tools)

    async def _recall(self, responder: Responder, found: Found, host: Host) -> None:
        """A response of before, by its id."""
        stored = self._stored.get(found.id)
        if stored is None:
            missing = Problem("known response", f"Response with id '{found.id}' not found.", 404)
            await _refuse(responder, missing, host)
            return
        match found.action:
            case "delete":
                del self._stored[found.id]
                gone = {"id": found.id, "object": "response", "deleted": True}
                await responder.send(200, msgspec.json.encode(gone), JSON)
            case "items":
                await responder.send(200, msgspec.json.encode(_item_list(stored.items)), JSON)
            case _:
                await responder.send(200, stored.body, JSON)

    def _keep(self, exchange: _Exchange, body: bytes) -> None:
        """Keep a response for those who ask for it again; the oldest makes room."""
        given = exchange.body.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        name = msgspec.json.decode(body)["id"]
        self._stored[name] = _Stored(body, [item for item in items or () if isinstance(item, dict)])
        while len(self._stored) > _STORED:
            del self._stored[next(iter(self._stored))]

    def _see(self, request: HTTPRequest, body: dict[str, Any], status: int) -> None:
        """Remember a request, within bounds of number and size."""
        if len(self.seen) == self.seen.maxlen and self._sizes:
            self._sizes.popleft()
        self.seen.append(Seen(request.path, body, status, dict(request.headers)))
        self._sizes.append(len(request.body))
        while len(self.seen) > 1 and sum(self._sizes) > _SEEN_BYTES:
            self.seen.popleft()
            self._sizes.popleft()

    def _lets_in(self, request: HTTPRequest, host: Host) -> bool:
        return host.traits.bad_key_status is None or self._admits(request)

    def _admits(self, request: HTTPRequest) -> bool:
        """Whether a request has the right key, wherever its client puts it."""
        if self._key is None:
            return True
        bearer = request.header("authorization").removeprefix("Bearer ")
        given = (bearer, request.header("x-api-key"), request.header("x-goog-api-key"))
        return self._key in given or f"key={self._key}" in request.query.split("&")

    def _exchange(self, provider: str, found: Found, request: HTTPRequest) -> _Exchange:
        assert self._registry is not None
        raw, wire = request.body, found.wire
        body = _object(raw)
        model = found.model or str(body.get("model") or "")
        stream = found.stream if wire == "gemini" else bool(body.get("stream", SPEAKERS[wire].streams))
        # The same resolution as in a client, so a double can never
        # serve a model under other rules than the client expects.
        target = self._registry.resolve(f"{owner_of(provider, wire)}/{model}")
        dialect = target.dialect
        if provider in self._toolless:
            dialect = msgspec.structs.replace(dialect, native_tools=False)
        # A model may have one wire only at this host; its name at another path is a 404 there too.
        if wire not in ("completion", dialect.wire):
            raise UnknownModel(f"{model} is not served at {request.path}")
        stranger = self._strangers.get(provider)
        if stranger is not None:
            return _Exchange(target, stranger.host, wire, body, stranger.read(raw), stream, stranger=stranger)
        host = HOSTS["deepinfra-native"] if wire == "completion" else host_for(dialect)
        array = wire == "gemini" and "alt=sse" not in request.query.split("&")
        return _Exchange(target, host, wire, body, raw, stream, array)

    async def _answer(self, responder: Responder, exchange: _Exchange, faults: frozenset[str]) -> None:
        try:
            answer, style, asked = exchange.answer(self._script, self.requests, faults)
        except MidstreamError as error:  # the script has no answer
            await _refuse(responder, Problem("script", str(error)), exchange.host)
            return
        if self.window is not None:
            answer = msgspec.structs.replace(answer, input_tokens=count_request(exchange.parsed()))
        # Stored unless told otherwise: `store: false` leaves the history to the caller
        # (field-guide/openai-responses.md#shape).
        if exchange.wire == "openai-responses" and asked.requested.store is not False:
            self._keep(exchange, speak_whole(exchange.wire, answer, style, asked))
        count = requested_choices(exchange.wire, exchange.body)
        if exchange.stream:
            await responder.start(200, {"content-type": exchange.media_type})
            pieces = list(streamed_choices(speak(exchange.wire, answer, style, asked, array=exchange.array), count))
            spoiled = faulty_stream(pieces, faults) if exchange.spoils(faults) else pieces
            await self._stream(responder, spoiled, faults)
        else:
            whole = whole_choices(speak_whole(exchange.wire, answer, style, asked), count)
            await responder.send(200, faulty_body(whole, faults) if exchange.spoils(faults) else whole, JSON)

    async def _stream(self, responder: Responder, pieces: Sequence[bytes], faults: Collection[str]) -> None:
        breaks = "cut" in faults or "stall" in faults
        for number, piece in enumerate(pieces):
            if breaks and number == max(1, len(pieces) // 2):
                # Longer than any limit of a client, and ended by the client's leaving.
                if "stall" in faults:
                    await asyncio.sleep(3600)
                responder.abort()
                return
            if self.delay:
                await asyncio.sleep(self.delay)
            await responder.write(piece)
        await responder.finish()


async def _refuse(responder: Responder, problem: Problem, host: Host, headers: dict[str, str] | None = None) -> None:
    await responder.send(problem.status, host.refusal(problem), {**JSON, **(headers or {})})


async def _fail(responder: Responder, fault: str, host: Host) -> None:
    if fault == "500":
        await _refuse(responder, Problem("fault", "internal error", 500, "server_error"), host)
        return
    too_many = Problem("fault", "too many requests, please slow down", 429, host.traits.rate_limit_type)
    await _refuse(responder, too_many, host, {"retry-after": "0"})


# Everything about a request that the steps after it need, so that none of them looks at the HTTP request again.
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
    stranger: Stranger | None = None

    @property
    def stranger_faults(self) -> frozenset[str]:
        return frozenset(self.stranger.faults) if self.stranger is not None else frozenset()

    def spoils(self, faults: Collection[str]) -> bool:
        """Whether these faults change the bytes of its answer: only a chat wire's are changed."""
        return self.wire == "openai-chat" and changes_bytes(faults)

    @property
    def media_type(self) -> str:
        return "application/json" if self.array else SPEAKERS[self.wire].media_type

    def answer(self, script: Script, number: int, faults: Collection[str] = ()) -> tuple[Answer, Style, ParsedRequest]:
        parsed = self.parsed()
        player = Player(self.target, self.host)
        opened = self._prompt.endswith("<think>")
        # Over a raw path the prompt decides: a prompt that ends in an open tag has begun the thinking. Elsewhere the
        # request's words count, then the model's default.
        thinks = opened
        if self.wire != "completion":
            options = parsed.options
            off = options.thinking == "off" or options.effort == "none" or _thinking_off(self.body)
            on = _thinking_on(self.body) or (player.style().thinking_parts and bool(options.effort))
            thinks = not off and (player.thinks or on)
        # A client without native tools declares them in the system prompt, and gets its calls in the text.
        spoken = read_text_tools(parsed) if not parsed.tools else None
        read = parsed if spoken is None else spoken.parsed
        if script is next_answer:
            answer = obedient_answer(faulty_request(read, faults), model=self.target.model, thinks=thinks)
            counts = counted_request(parsed, faults)
            answer = msgspec.structs.replace(answer, input_tokens=count_tokens(counts.conversation, counts.tools))
        else:
            answer = script(read.conversation, read.tools, model=self.target.model, thinks=thinks)
        calls = sum(len(turn.tool_calls) for turn in read.conversation.turns)
        style = player.style(number=number, first_call=calls)
        style = msgspec.structs.replace(
            style, starts_inside=opened, prices=style.prices and self.target.provider != SIM
        )
        if self.stranger is not None:
            style = msgspec.structs.replace(style, **self.stranger.style)
        answer = faulty_answer(answer, faults, FaultContext(read, style, number))
        return answer if spoken is None else spoken.answer(answer, style), style, parsed

    @property
    def _prompt(self) -> str:
        """The prompt of a raw completion; the model thinks if the prompt opens its thinking."""
        return str(self.body.get("input") or self.body.get("prompt") or "")

    def parsed(self) -> ParsedRequest:
        if self.wire == "completion":
            return msgspec.structs.replace(read_prompt(self._prompt), options=_raw_options(self.body))
        return parse_request(self.wire, self.raw, provider=self.target.dialect.provider)


class _Stored(msgspec.Struct, frozen=True):
    """A response that can be asked for again, and the items it answered."""

    body: bytes
    items: list[dict[str, Any]]


class _NoRoute(Exception):
    """A path that the provider does not have; `host` is whose error says so."""

    def __init__(self, message: str, host: Host) -> None:
        super().__init__(message)
        self.host = host


def _object(raw: bytes, *, fails: bool = True) -> dict[str, Any]:
    """The body as a JSON object; where it must not fail, an empty one for what is none."""
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        if fails:
            raise
        return {}
    if isinstance(body, dict):
        return body
    if fails:
        raise msgspec.DecodeError("expected an object")
    return {}


def _judged(exchange: _Exchange, strict: Strict) -> list[Problem]:
    """What the host refuses about a request; one whose shape no rule could read is refused for that."""
    try:
        return judge(exchange.body, exchange.host, strict)
    # Rules read bodies that may be anything. What they stumble
    # over is a malformed request, not an error of the double.
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        return [Problem("shape", f"the request has a field of another type than it must have: {error}")]


def _bad_key(host: Host) -> Problem:
    return Problem("key", host.traits.bad_key_message, host.traits.bad_key_status or 401, code="invalid_api_key")


def _item_list(items: list[dict[str, Any]]) -> dict[str, Any]:
    named = [{"id": f"item_{number}", "type": "message", **item} for number, item in enumerate(items)]
    ends = {"first_id": named[0]["id"] if named else None, "last_id": named[-1]["id"] if named else None}
    return {"object": "list", "data": named, "has_more": False, **ends}


def _raw_options(body: dict[str, Any]) -> Options:
    """What a raw completion asks of its answer: a limit and stop words, by the names that hosts have for them."""
    limit = next((body[name] for name in ("max_new_tokens", "max_tokens", "n_predict") if name in body), None)
    stop = body.get("stop")
    words = [stop] if isinstance(stop, str) else stop if isinstance(stop, list) else []
    return Options(
        max_tokens=limit if isinstance(limit, int) and limit > 0 else None,
        stop=tuple([word for word in words if isinstance(word, str)]),
    )


def _thinking_on(body: dict[str, Any]) -> bool:
    thinking = body.get("thinking")
    if isinstance(thinking, dict):
        return thinking.get("type") in ("enabled", "adaptive")
    return bool(body.get("think") or body.get("reasoning") or body.get("enable_thinking"))


def _thinking_off(body: dict[str, Any]) -> bool:
    thinking = body.get("thinking")
    return (isinstance(thinking, dict) and thinking.get("type") == "disabled") or body.get("think") is False


def _own_ids(exchange: _Exchange, number: int) -> list[Problem]:
    """A refusal of ids that have the shape of those this double gives."""
    own = own_ids(Player(exchange.target, exchange.host).style(number=number))
    calls = [call for turn in exchange.parsed().conversation.turns for call in turn.tool_calls]
    back = [wire_id for call in calls if own.fullmatch(wire_id := call.raw_id or call.id)]
    return [Problem("own ids", f"tool_call_id {wire_id} is not found", basis="observed") for wire_id in back]
