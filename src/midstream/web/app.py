"""The ASGI application of the page: static files, and a JSON API under `/web/api/` that only a session may use.

Work that reads a store or encodes a long history runs in a thread, so that a stream beside it goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from ..client.catalog import Catalog
from ..client.client import Client
from ..core.blocks import Conversation
from ..core.errors import (
    LocalError,
    MidstreamError,
    NotFound,
    ProviderError,
    StoreError,
    Unauthorized,
    UnknownConversation,
)
from ..core.secret import Secret
from ..store.export import to_jsonl, to_markdown
from .archive import Archive, Filter
from .checkup import MOST_BYTES, examined
from .guard import API, HEADERS, SESSION, Guard, Message, Receive, Send, Visitor
from .model_cards import model_cards
from .request_view import PICTURE, RequestView, known_tools, spine
from .talk import Talk, waits
from .traffic import Exchange, Traffic
from .transcript import report_of, report_rows, window
from .veil import StreamVeil, in_pieces, json_without_keys, without_key

Endpoint: TypeAlias = Callable[[Request, Visitor], Awaitable[Response]]

_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_OWN = "/web/"
_WITHHELD = "Not shown: this answer contains one of your keys."
_MOST_ROWS = 500
_MOST_BODY = 1024 * 1024
_MOST_EXAMINED = 4  # files that the doctor has or that wait for it


class WebApp:
    """The page. `archive` and `talk` are the owner's alone; a visitor who is only a tenant has the rest."""

    def __init__(
        self,
        *,
        guard: Guard,
        client: Client,
        archive: Archive | None = None,
        traffic: Traffic | None = None,
        talk: Talk | None = None,
        title: str = "midstream",
    ) -> None:
        self.guard = guard
        self.client = client
        self.archive = archive
        self.traffic = traffic
        self.talk = talk
        self.title = title
        self._files = static_files()
        self._doctor_free = asyncio.Lock()
        self._examining: set[asyncio.Task[dict[str, Any]]] = set()
        self._routes = self._make_routes()

    @property
    def catalog(self) -> Catalog:
        return self.client.catalog

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        fault = self.guard.fault(scope)
        if fault:
            await _refusal(403, fault)(scope, receive, sending)
            return
        path = scope["path"]
        file = self._files.get(path)
        if file is None:
            await self._routes(scope, receive, sending)
        elif scope["method"] in ("GET", "HEAD"):
            data, kind = file
            await Response(data, media_type=kind)(scope, receive, sending)
        else:
            await _refusal(405, "this is a file: only GET")(scope, receive, sending)

    def serves(self, path: str) -> bool:
        """Whether a path is the page's, for an application that has others beside it."""
        return path == "/" or path.startswith(_OWN)

    async def close(self) -> None:
        if self.archive is not None:
            await self.archive.close()

    def _make_routes(self) -> Starlette:
        for_owner, for_all = partial(self._guarded, owner=True), self._guarded
        routes = [
            Route(f"{API}session", self._open_session, methods=["POST"]),
            Route(f"{API}me", for_all(self._me), methods=["GET"]),
            Route(f"{API}models", for_all(self._models), methods=["GET"]),
            Route(f"{API}doctor", for_all(self._doctor), methods=["POST"]),
            Route(f"{API}live", for_all(self._live), methods=["GET"]),
            Route(f"{API}live/clear", for_all(self._clear), methods=["POST"]),
            Route(f"{API}live/{{number}}", for_all(self._exchange), methods=["GET"]),
            Route(f"{API}conversations", for_owner(self._list), methods=["GET"]),
            Route(f"{API}facets", for_owner(self._facets), methods=["GET"]),
            Route(f"{API}conversations/{{id}}", for_owner(self._conversation), methods=["GET"]),
            Route(f"{API}conversations/{{id}}/turns", for_owner(self._turns), methods=["GET"]),
            Route(f"{API}conversations/{{id}}/seams/{{turn}}", for_owner(self._seam), methods=["GET"]),
            Route(f"{API}conversations/{{id}}/wires/{{turn}}", for_owner(self._wires), methods=["GET"]),
            Route(f"{API}conversations/{{id}}/export", for_owner(self._export), methods=["GET"]),
            Route(f"{API}conversations/{{id}}/fork", for_owner(self._fork), methods=["POST"]),
            Route(f"{API}usage", for_owner(self._usage), methods=["GET"]),
            Route(f"{API}talk", for_owner(self._talk), methods=["POST"]),
            Route(f"{API}talk/preview", for_owner(self._preview), methods=["GET"]),
            Route(f"{API}talk/answers/{{question}}", for_owner(self._decide), methods=["POST"]),
        ]

        async def unknown(request: Request, error: Exception) -> Response:
            return _refusal(getattr(error, "status_code", 404), "nothing is here")

        return Starlette(routes=routes, exception_handlers={404: unknown, 405: unknown})

    def _guarded(self, endpoint: Endpoint, owner: bool = False) -> Callable[[Request], Awaitable[Response]]:
        """The endpoint for those who may use it; errors as JSON."""

        async def answer(request: Request) -> Response:
            try:
                visitor = await self.guard.visitor(request.headers.get(SESSION, ""))
                if owner and not visitor.owner:
                    return _refusal(403, "only whoever runs this program sees that")
                if self.archive is not None:
                    self.archive.asked()
                return await endpoint(request, visitor)
            except MidstreamError as error:
                return self._json({"error": _words(error), "kind": error.kind}, status_of(error))

        return answer

    def _json(self, value: Any, status: int = 200, secrets: Iterable[Secret] = ()) -> Response:
        return Response(self._scrubbed(msgspec.json.encode(value), secrets), status, media_type="application/json")

    def _scrubbed(self, data: bytes, secrets: Iterable[Secret] = ()) -> bytes:
        """Without these and the keys of providers, should one have been pasted into a conversation or be echoed by a host."""
        return json_without_keys(data, [*self.catalog.keys_at_hand().values(), *secrets])

    @property
    def _archive(self) -> Archive:
        if self.archive is None:
            raise NotFound("no conversations are stored here", status=404)
        return self.archive

    async def _open_session(self, request: Request) -> Response:
        try:
            body = await _body(request)
            token = body.get("token")
            session = await self.guard.open_session(request.scope, token if isinstance(token, str) else "")
        except MidstreamError as error:
            return self._json({"error": str(error), "kind": error.kind}, status_of(error))
        return self._json({"session": session})

    async def _me(self, request: Request, visitor: Visitor) -> Response:
        owner = visitor.owner
        screens = [
            *(["conversations"] if owner and self.archive is not None else []),
            *(["live"] if self.traffic is not None else []),
            *(["talk"] if owner and self.talk is not None else []),
            "doctor",
            *(["usage"] if owner and self.archive is not None else []),
            "models",
        ]
        return self._json(
            {
                "title": self.title,
                "owner": owner,
                "tenant": visitor.tenant,
                "screens": screens,
                "tools": list(self.talk.tools) if owner and self.talk is not None else [],
                "dialects": [{"label": label, "model": model} for label, model in PICTURE],
            }
        )

    async def _models(self, request: Request, visitor: Visitor) -> Response:
        return self._json(await asyncio.to_thread(model_cards, self.catalog))

    async def _list(self, request: Request, visitor: Visitor) -> Response:
        query = request.query_params
        wanted = Filter(
            query.get("q", ""),
            query.get("model", ""),
            query.get("provider", ""),
            query.get("day", ""),
            _number(query.get("cost")),
            bool(query.get("thorough")),
        )
        offset, limit = _whole(query.get("offset"), 0), min(_whole(query.get("limit"), 100), _MOST_ROWS)
        found = await asyncio.to_thread(self._archive.listed, wanted, offset, limit)
        self._archive.start_digesting()
        return self._json(found)

    async def _facets(self, request: Request, visitor: Visitor) -> Response:
        return self._json(await asyncio.to_thread(self._archive.facets))

    async def _conversation(self, request: Request, visitor: Visitor) -> Response:
        conversation_id = request.path_params["id"]

        def read() -> dict[str, Any]:
            archive = self._archive
            conversation, info = archive.load(conversation_id), archive.info(conversation_id)
            digest = archive.digest(conversation.turns, info)
            return {
                "id": info.id,
                "title": info.title,
                "created": info.created,
                "updated": info.updated,
                "turns": info.turns,
                "models": info.models,
                "system": conversation.system_text,
                "cost": digest.cost,
                "waits": waits(conversation.turns),
                "forks": archive.forks(conversation_id),
                "tools": [tool.qualified_name for tool in known_tools(conversation)],
            }

        return self._json(await asyncio.to_thread(read))

    async def _turns(self, request: Request, visitor: Visitor) -> Response:
        start = _whole(request.query_params.get("from"), 0)
        end = min(_whole(request.query_params.get("to"), start + 50), start + _MOST_ROWS)

        def read() -> list[dict[str, Any]]:
            return window(self._archive, self._load(request), start, end)

        return self._json(await asyncio.to_thread(read))

    async def _seam(self, request: Request, visitor: Visitor) -> Response:
        turn = _whole(request.path_params["turn"], 0)

        def read() -> list[dict[str, str]]:
            conversation = self._load(request)
            origin = conversation.turns[turn].origin if turn < len(conversation.turns) else None
            if origin is None or not turn:
                raise NotFound(f"turn {turn} has no model", status=404)
            before = msgspec.structs.replace(conversation, turns=conversation.turns[:turn])
            target = self.catalog.resolve(_asked_as(self.catalog, origin.name, origin.wire))
            request_ = self.client.encode(target, before, known_tools(before))
            return report_rows(report_of(target.name, before, request_.notes))

        return self._json(await asyncio.to_thread(read))

    async def _wires(self, request: Request, visitor: Visitor) -> Response:
        models = request.query_params.getlist("model")[:2]
        turn = _whole(request.path_params["turn"], -1)
        if not models:
            raise LocalError("for which model? expected ?model=NAME, once or twice")

        def read() -> dict[str, Any]:
            conversation = self._load(request)
            stops = spine(conversation, turn)
            return {"turn": turn, "spine": stops, "views": [self._view(conversation, turn, model) for model in models]}

        return self._json(await asyncio.to_thread(read))

    def _view(self, conversation: Conversation, turn: int, model: str) -> dict[str, Any]:
        try:
            return RequestView(self.catalog, conversation, turn, model).json()
        except LocalError as error:  # what one wire cannot say, another can
            return {"model": model, "refused": _words(error), "kind": error.kind}

    async def _export(self, request: Request, visitor: Visitor) -> Response:
        entry = await asyncio.to_thread(
            lambda: self._archive.store_of(request.path_params["id"]).entry(request.path_params["id"])
        )
        if request.query_params.get("format") == "markdown":
            said = to_markdown(entry, thinking=True).encode()
            for secret in self.catalog.keys_at_hand().values():
                said = without_key(said, secret)
            return Response(said, media_type="text/markdown")
        return Response(self._scrubbed(b"".join(to_jsonl([entry]))), media_type="application/jsonl")

    async def _fork(self, request: Request, visitor: Visitor) -> Response:
        at = (await _body(request)).get("at")
        if at is not None and (type(at) is not int or at < 0):
            raise LocalError("`at` is not a number of turns")

        def fork() -> str:
            store, source = self._archive.store_of(request.path_params["id"]), request.path_params["id"]
            if at is not None and at > (turns := store.info(source).turns):
                raise LocalError(f"cannot fork at turn {at}: there are {turns}")
            return store.fork(source, at)

        made = await asyncio.to_thread(fork)
        self._archive.changed()
        return self._json({"id": made})

    async def _usage(self, request: Request, visitor: Visitor) -> Response:
        self._archive.start_digesting()
        return self._json(await asyncio.to_thread(self._archive.usage))

    async def _doctor(self, request: Request, visitor: Visitor) -> Response:
        data = await _bytes(request, MOST_BYTES)
        if len(self._examining) >= _MOST_EXAMINED:
            raise LocalError("the doctor has enough to do: try again in a moment")
        work = asyncio.create_task(self._examine(data, request.query_params.get("name", "the file")[:200]))
        self._examining.add(work)
        work.add_done_callback(self._examined)
        await asyncio.wait([work])  # not the task itself: whoever leaves would else make room that is not there
        try:
            return self._json(work.result())
        except StoreError as error:
            raise LocalError(
                str(error)
            ) from None  # a file that cannot be read is the visitor's, and no fault of a store here

    async def _examine(self, data: bytes, name: str) -> dict[str, Any]:
        # A thread cannot be stopped, and a file can be work for minutes: one after the other, so that everybody else's goes on.
        async with self._doctor_free:
            return await asyncio.to_thread(examined, data, name)

    def _examined(self, work: asyncio.Task[dict[str, Any]]) -> None:
        self._examining.discard(work)
        if not work.cancelled():
            work.exception()  # told to whoever still waits for it, and to nobody else

    async def _live(self, request: Request, visitor: Visitor) -> Response:
        batches = self._traffic.events(visitor, _whole(request.headers.get("last-event-id"), 0))
        first = await anext(batches)  # too many listeners are a status, not an event
        session = request.headers.get(SESSION, "")

        async def stream() -> AsyncGenerator[bytes, None]:
            async with aclosing(batches):
                yield self._scrubbed(first)
                async for batch in batches:
                    try:
                        if await self.guard.visitor(session) != visitor:
                            return  # what it may see has changed: it asks again, and is told by what holds now
                    except Unauthorized:
                        return  # its key was revoked while it listened
                    yield self._scrubbed(batch)

        return _event_stream(stream())

    async def _clear(self, request: Request, visitor: Visitor) -> Response:
        self._traffic.clear(visitor)
        return self._json({})

    async def _exchange(self, request: Request, visitor: Visitor) -> Response:
        exchange = self._traffic.find(_whole(request.path_params["number"], 0), visitor)
        return await asyncio.to_thread(self._detail, exchange)

    def _detail(self, exchange: Exchange) -> Response:
        detail = exchange.detail()
        own = exchange.secrets()
        known = [*self.catalog.keys_at_hand().values(), *own]
        # On the wire the pieces of a key are far apart, where no search finds them.
        for half, name in ((detail["answer"], "text"), (detail["upstream"], "answer")):
            if half is not None and in_pieces(half[name], known):
                half[name] = _WITHHELD
        return self._json(detail, secrets=own)

    async def _talk(self, request: Request, visitor: Visitor) -> Response:
        try:
            body = msgspec.convert(await _body(request), _Saying)
        except msgspec.ValidationError as error:
            raise LocalError(f"not a message: {error}") from None
        happenings = self._talking.say(body.text, body.model, body.conversation, body.tools)
        # The first step raises what keeps the message from being sent: it is a status, not an event.
        first = await anext(happenings)
        veil = StreamVeil(self.catalog.keys_at_hand().values())

        async def stream() -> AsyncGenerator[bytes, None]:
            try:
                yield self._event(first)
                async for happening in happenings:
                    for told in veil.pass_on(happening):
                        yield self._event(told)
            finally:
                await happenings.aclose()

        return _event_stream(stream())

    async def _preview(self, request: Request, visitor: Visitor) -> Response:
        query = request.query_params
        report = await asyncio.to_thread(self._talking.preview, query.get("conversation", ""), query.get("model", ""))
        return self._json({"model": report.model, "rows": report_rows(report)})

    async def _decide(self, request: Request, visitor: Visitor) -> Response:
        self._talking.decide(request.path_params["question"], (await _body(request)).get("allow") is True)
        return self._json({})

    @property
    def _talking(self) -> Talk:
        if self.talk is None:
            raise NotFound("nobody can talk to a model here", status=404)
        return self.talk

    @property
    def _traffic(self) -> Traffic:
        if self.traffic is None:
            raise NotFound("live traffic is not recorded here", status=404)
        return self.traffic

    def _load(self, request: Request) -> Conversation:
        return self._archive.load(request.path_params["id"])

    def _event(self, value: Any) -> bytes:
        return b"data: %b\n\n" % self._scrubbed(msgspec.json.encode(value))


class _Saying(msgspec.Struct, frozen=True):
    """A message from the page."""

    text: str
    model: str
    conversation: str = ""
    tools: tuple[str, ...] = ()


def static_files() -> dict[str, tuple[bytes, str]]:
    """The files of the page by their paths; they are few and small, so they are read once."""
    folder = Path(str(files("midstream.web") / "static"))
    found = {
        f"/web/{path.relative_to(folder).as_posix()}": (path.read_bytes(), _TYPES[path.suffix])
        for path in sorted(folder.rglob("*"))
        if path.suffix in _TYPES
    }
    return {"/": found["/web/index.html"], **found}


def status_of(error: MidstreamError) -> int:
    """The status with which an error is told."""
    if isinstance(error, (UnknownConversation, NotFound)):
        return 404
    if isinstance(error, Unauthorized) and error.provider is None:
        return 401
    if isinstance(error, ProviderError):
        return 502
    return 500 if isinstance(error, StoreError) and not isinstance(error, UnknownConversation) else 400


def _words(error: MidstreamError) -> str:
    """What a visitor is told of an error: of a conversation that is gone, without the call that would list the others."""
    if isinstance(error, UnknownConversation):
        return f"there is no conversation {error.conversation_id!r} here; it may have been deleted"
    return str(error)


def _asked_as(catalog: Catalog, name: str, wire: str) -> str:
    """The name by which a model that made an answer is found again: a host with two wires has two names."""
    provider, _, model = name.partition("/")
    for row in catalog.registry.providers.values():
        dialect = row.dialect_for(model) if row.name.partition("-")[0] == provider else None
        if dialect is not None and dialect.wire == wire:
            return f"{row.name}/{model}"
    return name


def _event_stream(events: AsyncGenerator[bytes, None]) -> Response:
    return StreamingResponse(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


def _refusal(status: int, why: str) -> Response:
    return Response(msgspec.json.encode({"error": why, "kind": "refused"}), status, media_type="application/json")


async def _bytes(request: Request, most: int) -> bytes:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > most:
            raise LocalError(f"more than {most >> 20} MiB: too large for the page")
    return bytes(data)


async def _body(request: Request) -> dict[str, Any]:
    # A form of another site can post plain text, but not this type without being asked for leave first.
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise LocalError("expected application/json")
    try:
        value = msgspec.json.decode(await _bytes(request, _MOST_BODY))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise LocalError("the body is not JSON") from None
    if not isinstance(value, dict):
        raise LocalError("expected a JSON object")
    return value


def _whole(text: str | None, otherwise: int) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 18 else otherwise


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
