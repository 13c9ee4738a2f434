"""One request of a client, from its body to the last byte of its answer.

The body becomes a conversation, the conversation a request of the model that the route names, its events the stream or the body
that the client's wire knows. Until the first byte of a stream is sent, a failure is a status; after it, it is the stream's last
event. A client that leaves cancels the task, and with it the upstream.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from ..client.attempts import Attempt, Report, Reporter
from ..client.tokens import estimate_text
from ..core.blocks import Conversation, Origin, Turn, Usage
from ..core.dialect import Options
from ..core.errors import Aborted, BadRequest, LocalError, MidstreamError, Overloaded, ProviderError, StoreError
from ..core.events import Done, ErrorEvent, Event, Start, TextDelta, ThinkingDelta, ToolCallDelta
from ..core.handoff import Note, summarize_notes
from ..dialects.registry import Resolved
from ..transport.secrets import Secrets
from ..wires.answer import AnswerContext, AnswerWriter, Habits, answer_notes, answer_to, make_writer, write_events
from ..wires.carry import without_forbidden
from ..wires.door import fit_request
from ..wires.lenient_json import json_value
from ..wires.registry import get_wire
from ..wires.request import ParsedRequest, Request
from ..wires.server_tools import answer_search
from .body import Message, Receive, read_body, sent_json
from .history import read_request, take_in
from .issued_ids import IssuedIds
from .refusals import Headers, as_told, refusal_headers
from .sealed_answer import SealedAnswer

if TYPE_CHECKING:
    from ..web.traffic import Exchange as Record
    from .app import Gateway, Send
    from .routing import Route
    from .tenants import Tenant

# The second is for nginx, which otherwise holds a stream back until its buffer is full.
_SSE: Headers = [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
_DELTAS = (TextDelta, ThinkingDelta, ToolCallDelta)
_CHARACTERS = 4
"""About how many make a token."""
# The prefixes that clients of each wire know.
_IDS = {"openai-chat": "chatcmpl-", "openai-responses": "resp_", "anthropic": "msg_", "gemini": ""}
_ISSUED = {wire: IssuedIds(wire) for wire in _IDS}  # they remember nothing, so one serves all answers


class Exchange:
    """What is known of one request, and what its log line will say."""

    __slots__ = (
        "_begun", "_client_gone", "_gateway", "_heard", "_last_sent", "_ready", "_send", "_sending", "_task", "_turn_key", "_writer", "asked", "began", "conversation",
        "cost", "error", "first", "habits", "id", "key", "live", "notes", "passed", "record", "request", "scope", "status", "stream", "target", "tenant", "tried", "turn", "usage", "wire",
    )  # fmt: skip

    def __init__(self, gateway: Gateway, wire: str, scope: Message, send: Send, tenant: Tenant) -> None:
        self._gateway = gateway
        self._send = send
        self._begun = False  # whether the response's head is sent
        self._sending = False
        self._client_gone = False
        self._heard = 0  # characters of the answer that came
        self._writer: AnswerWriter | None = None
        self._ready: list[Event] | None = None  # the answer, where no model is asked
        self._task: asyncio.Task[Any] | None = None  # what is cancelled when the client leaves
        self._last_sent = self.began = time.monotonic()
        self.scope = scope
        self.wire = wire
        self.tenant = tenant
        # 24 hexadecimal characters: short enough for a log, and
        # `gateway/responses.py` finds it again in the ids of items.
        drawn = os.urandom(28).hex()
        self.id, self._turn_key = drawn[:24], drawn[24:]
        self.key: Any = None
        self.live: Record | None = None  # where live traffic is shown
        self.record: Record | None = None  # and its contents are
        self.passed = ""  # the host's path, where the request goes on as it is
        self.asked = ""
        self.habits = _PLAIN
        self.conversation: Conversation | None = None  # where contents are traced or shown
        self.target: Resolved | None = None
        self.request: Request | None = None
        self.tried: list[Attempt] = []  # the attempts that are over
        self.notes: list[Note] = []
        self.stream = False
        self.status = 0
        self.first: float | None = None
        self.turn: Turn | None = None
        self.usage: Usage | None = None
        self.cost: float | None = None
        self.error = ""

    async def run(self, receive: Receive, *, model: str = "", stream: bool = False, array: bool = False) -> None:
        """Answer the request; `model`, `stream` and `array` are what the path says, on wires that say it there."""
        gateway = self._gateway
        try:
            headers = dict(self.scope["headers"])
            self.habits = _habits(self.wire, headers)
            body = await read_body(receive, headers.get(b"content-encoding", b""), gateway.settings.max_body)
            if self.record is not None:
                self.record.client.add(self.began, body)
            if self.passed:
                await self._pass_on(body, receive)
                return
            parsed, route = await self._read(body, headers, model, stream)
            # A body may be many megabytes, and the answer may take minutes.
            del body
            if self._ready is not None:
                await self._answer_ready(parsed, self._ready, array)
            elif parsed.options.stream:
                await self._stream(parsed, route, receive, array)
            else:
                await self._whole(parsed, route, receive)
        except MidstreamError as error:
            await self._refuse(error)
        except asyncio.CancelledError:
            # Cancelled by the server's end, not by the client: the task must end as cancelled.
            if not self._client_gone:
                self.error = "cancelled"
                raise
            self._left()

    async def _read(
        self, body: bytes, headers: dict[bytes, bytes], model: str, stream: bool
    ) -> tuple[ParsedRequest, Route]:
        gateway, wire, tenant = self._gateway, self.wire, self.tenant
        stored = None
        # A look at the bytes first: parsing every body twice would be felt, and nearly none has these.
        if wire == "openai-responses" and (b'"previous_response_id"' in body or b'"item_reference"' in body):
            body, stored = await gateway.responses.completed(tenant.id, body, gateway.settings.max_body)
        # Only this header belongs to the request; the others are about the connection or are secrets.
        betas = {"anthropic-beta": value.decode("latin-1")} if (value := headers.get(b"anthropic-beta")) else None
        parsed = read_request(wire, body, headers=betas, model=model, stream=stream)
        if stored is not None:
            asked = parsed.requested
            parsed = replace(
                parsed, requested=replace(asked, echo={**(asked.echo or {}), "previous_response_id": stored})
            )
        self.asked, self.stream = parsed.model, parsed.options.stream
        if gateway.keep_contents or self.record is not None:
            self.conversation = parsed.conversation
        # Refused here, in the client's own wire: every host refuses it too, each in its own words.
        if not parsed.conversation.turns and not parsed.conversation.system:
            raise BadRequest("the request has no messages", status=400)
        # After reading, because the model's name is in the body on
        # most wires, and before the vault, which needs the target.
        router = gateway.router
        conversation = _conversation_key(headers, parsed) if router.weighs else ""
        route = router.route(parsed.model, tenant, conversation, own_key=self.key is not None)
        target = self.target = gateway.client.catalog.resolve(route.models[0])
        parsed, notes = await take_in(
            parsed,
            wire=wire,
            tenant=tenant.id,
            vault=gateway.vault,
            sealer=gateway.sealer,
            target=Origin(target.dialect.provider, target.dialect.wire, target.model),
        )
        self.notes += notes
        # What is kept is the client's own input, before anything below changes it for the reader.
        if wire == "openai-responses" and parsed.requested.store is not False:
            gateway.responses.remember(self, body)
        ready = answer_search(parsed, wire, target.dialect, self._turn_key)
        if ready is not None:
            self._ready, notes = ready
            self.notes += notes
            return parsed, route
        parsed, notes = fit_request(
            parsed,
            wire,
            [gateway.client.catalog.resolve(name).dialect for name in route.models],
            allowed=route.fields,
            # Bytes again, for the same reason.
            has_marks=b'"cache_control"' in body,
        )
        self.notes += notes
        first_byte, idle, total = route.waits
        options = replace(
            parsed.options,
            text_calls=route.text_calls,
            missing_reasoning=route.missing_reasoning,
            first_byte=first_byte,
            idle=idle,
            total=total,
        )
        return replace(parsed, options=options), route

    async def _pass_on(self, body: bytes, receive: Receive) -> None:
        """Send a request for embeddings, moderation and the like on to an OpenAI-compatible host. Only the model's name changes on
        the way. The answer is read whole, within limits."""
        client = self._gateway.client
        value = sent_json(body)
        if not isinstance(value, dict) or not isinstance(value.get("model"), str):
            raise BadRequest("expected a JSON object with a `model`", status=400)
        self.asked = value["model"]
        # Streams of these paths have shapes of their own, which nothing here could end properly.
        if value.get("stream"):
            raise BadRequest(f"{self.passed} cannot be streamed here; leave out `stream`", status=400)
        route = self._gateway.router.route(self.asked, self.tenant, "", own_key=self.key is not None)
        target = self.target = client.catalog.resolve(route.models[0])
        if target.dialect.wire not in _PASSED_WIRES:
            raise BadRequest(
                f"{self.passed} is passed on only to OpenAI-compatible hosts, and {target.name} is not on one: "
                "name a model of a host that has it",
                status=400,
            )
        # The same fields as on the paths that answer: where a request goes is not the client's to say.
        value, self.notes = without_forbidden(value)
        head = {"content-type": "application/json"}
        sent = Request("POST", self.passed, head, json_value({**value, "model": target.model}), model=target.model)
        first_byte, idle, total = route.waits
        waits = Options(first_byte=first_byte, idle=idle, total=total)
        reporter = Reporter(target, self.tried.append)
        stop_watching = self._watch(receive)
        try:
            async with await client.send(target, sent, api_key=self.key, options=waits, reporter=reporter) as answer:
                try:
                    read = await answer.read()
                except MidstreamError as error:
                    reporter.ended(answer, error.kind)
                    raise
        except asyncio.CancelledError:
            # As for an answer: who leaves before the counts come pays for what was read.
            self.cost = self._gateway.cost(target, Usage(estimate_text(body.decode("utf-8", "replace")), 0))
            raise
        finally:
            stop_watching()
        reporter.ended(answer)
        kind = answer.headers.get("content-type", "application/json")
        self.usage = _counted(read) if "json" in kind else None
        if self.usage is not None:
            self.cost = self._gateway.cost(target, self.usage)
        await self._send_body(read, header_value(kind))

    def _context(self, parsed: ParsedRequest, **fields: Any) -> AnswerContext:
        context = answer_to(
            parsed,
            response_id=_IDS[self.wire] + self.id,
            created=int(time.time()),
            request_id=self.id,
            ids=_ISSUED[self.wire],
            habits=self.habits,
            **fields,
        )
        return context if self.habits is _PLAIN else replace(context, usage=True)

    def _sent(self, target: Resolved, request: Request) -> Report:
        self.target, self.request = target, request
        return self.tried.append

    async def _stream(self, parsed: ParsedRequest, route: Route, receive: Receive, array: bool) -> None:
        gateway = self._gateway
        # Anthropic's stream begins with the count of input tokens (field-guide/anthropic-messages.md#stream), which
        # no other host has told by then; the right count follows at the end.
        estimate = gateway.estimate(parsed) if self.wire == "anthropic" else 0
        context = self._context(parsed, array=array, input_tokens=estimate)
        writer = self._writer = make_writer(self.wire, context)
        sealed = SealedAnswer(self.wire, self.tenant.id, gateway.sealer, parsed.requested)
        batches = gateway.client.batches(
            route.models,
            parsed.conversation,
            tools=parsed.tools,
            options=parsed.options,
            turn_key=self._turn_key,
            api_key=self.key,
            sending=self._sent,
        )
        stop_watching = self._watch(receive)
        gateway.open_streams.add(self)
        ended = False
        try:
            async with aclosing(batches):
                async for batch in batches:
                    last = batch[-1]
                    if type(last) is Done:
                        # Before the last bytes: a client that sees the end may come
                        # back at once, and must find its reasoning and its response.
                        await self._settle(sealed, context, last.turn)
                    elif type(last) is ErrorEvent:
                        self._failed(last)
                    ended = type(last) is Done or type(last) is ErrorEvent
                    if not ended:
                        # Counted for a client that leaves: then no host tells what was used.
                        self._heard += sum([len(event.delta) for event in batch if isinstance(event, _DELTAS)])
                    data = write_events(writer, sealed.events(batch))
                    await self._write(data, more=not ended, with_next=type(last) is Start)
                    if self.first is None and type(last) is not Start:
                        self.first = time.monotonic()
            if not ended:
                await self._write(b"", more=False)
        except asyncio.CancelledError:
            self._charge_for_leaving(parsed)
            raise
        finally:
            gateway.open_streams.discard(self)
            stop_watching()
            self.notes += writer.notes  # too late for the header, but not for the log

    async def _write(self, data: bytes, *, more: bool = True, with_next: bool = False) -> None:
        self._sending = True
        try:
            if not self._begun:
                await self._begin()
            if data or not more:
                self._last_sent = time.monotonic()
                if self.record is not None:
                    self.record.sent.add(self._last_sent, data)
                message = {"type": "http.response.body", "body": data, "more_body": more}
                if with_next:
                    message["with_next"] = True
                await self._send(message)
        finally:
            self._sending = not more  # nothing comes behind the end

    async def _begin(self) -> None:
        """The head of a stream: when the upstream has accepted, or when the client has waited long enough."""
        # Set before sending: whatever fails from here on can no longer become a status.
        self._begun = True
        self.status = 200
        writer = self._writer
        assert writer is not None
        kind = writer.media_type.encode()
        if kind == b"text/event-stream":
            kind += b"; charset=utf-8"
        await self._send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind), *_SSE, *self._told()]}
        )

    def is_silent(self, now: float, silence: float) -> bool:
        """Whether the client has heard nothing for `silence` seconds, and nothing is on its way."""
        return not self._sending and now - self._last_sent >= silence

    async def keep_alive(self, now: float) -> None:
        """Say something that means nothing. A stream that has not begun begins with it: what fails later fails inside."""
        # Two writers at once would mix their bytes; whoever is writing has broken the silence anyway.
        if self._sending or self._writer is None:
            return
        self._last_sent = now
        await self._write(self._writer.keep_alive())

    async def _whole(self, parsed: ParsedRequest, route: Route, receive: Receive) -> None:
        gateway = self._gateway
        sealed = SealedAnswer(self.wire, self.tenant.id, gateway.sealer, parsed.requested)
        context = self._context(parsed)
        stop_watching = self._watch(receive)
        try:
            turn = await self._complete(parsed, route)
        except asyncio.CancelledError:
            self._charge_for_leaving(parsed)
            raise
        finally:
            stop_watching()
        await self._settle(sealed, context, turn)
        writer = make_writer(self.wire, context)
        body = writer.body(sealed.turn(turn))
        self.notes += writer.notes
        await self._send_body(body)

    async def _answer_ready(self, parsed: ParsedRequest, events: list[Event], array: bool) -> None:
        """Send an answer that no model was asked for."""
        self.target = None
        last = events[-1]
        assert isinstance(last, Done)
        self.turn = last.turn
        writer = self._writer = make_writer(self.wire, self._context(parsed, array=array))
        if parsed.options.stream:
            await self._write(write_events(writer, events), more=False)
        else:
            await self._send_body(writer.body(last.turn))

    async def _send_body(self, body: bytes, kind: bytes = b"application/json") -> None:
        self.status = 200
        if self.record is not None:
            self.record.sent.add(time.monotonic(), body)
        headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body)), *self._told()]
        if self.cost is not None:
            headers.append((b"x-midstream-cost", b"%.8f" % self.cost))
        start: Message = {"type": "http.response.start", "status": 200, "headers": headers}
        # Our own server takes head and body together. Any other one passes over what it does not know, so it is asked.
        if "midstream" in (self.scope.get("extensions") or ()):
            await self._send({**start, "whole": body})
        else:
            await self._send(start)
            await self._send({"type": "http.response.body", "body": body})

    async def _complete(self, parsed: ParsedRequest, route: Route) -> Turn:
        """A whole answer. Nothing was sent yet, so the next model is asked also where one broke off in the middle."""
        names = list(route.models)
        while True:
            asked: list[str] = []

            def sent(target: Resolved, request: Request, asked: list[str] = asked) -> Report:
                asked.append(target.name)
                return self._sent(target, request)

            try:
                turn = await self._gateway.client.complete(
                    names,
                    parsed.conversation,
                    tools=parsed.tools,
                    options=parsed.options,
                    turn_key=self._turn_key,
                    api_key=self.key,
                    sending=sent,
                )
                # A turn that broke off is an error here, because the next model may still be asked.
                return turn.raise_for_failure()
            except MidstreamError as error:
                names = names[len(asked) :]
                if not names or not error.retryable:
                    raise

    async def _settle(self, sealed: SealedAnswer, context: AnswerContext, turn: Turn) -> None:
        """What must be safe before the client learns that its answer is whole."""
        gateway = self._gateway
        self.turn = turn
        self.notes += answer_notes(turn)
        self._count(turn)
        if gateway.vault is not None and sealed.for_vault(turn):
            await gateway.vault.put(self.tenant.id, turn)
        if self.wire == "openai-responses":
            await gateway.responses.keep(self, context, sealed.turn(turn))

    def _charge_for_leaving(self, parsed: ParsedRequest) -> None:
        """What a host says an answer cost comes with its end. Who leaves before it pays what was read and heard, by estimate: else
        whoever leaves early would pay nothing, ever."""
        if self.cost is None and self.request is not None and self.target is not None:
            if self.turn is not None:  # its end had come, without any word of what it cost
                self._heard = len(self.turn.text) + len(self.turn.thinking)
                self._heard += sum([len(call.arguments) for call in self.turn.tool_calls])
            usage = Usage(self._gateway.estimate(parsed), self._heard // _CHARACTERS + 1 if self._heard else 0)
            self.cost = self._gateway.cost(self.target, usage)

    def all_notes(self) -> list[Note]:
        """What was changed or left out on the way to the model, and what there is to say of its answer."""
        sent = self.request.notes if self.request is not None else ()
        return [note for note in (*self.notes, *sent) if note.is_news]

    def _told(self) -> Headers:
        """What every answer tells about itself."""
        id = self.id.encode()
        headers: Headers = [(b"x-request-id", id), (b"request-id", id)]
        if self.target is not None:
            headers.append((b"x-midstream-model", header_value(self.target.name)))
        if summary := summarize_notes(self.all_notes()):
            headers.append((b"x-midstream-notes", summary.encode()))
        # With the one that is under way: a stream's head goes out before its answer is over.
        attempts = len(self.tried) + (self.turn is None and not self.error)
        if attempts > 1:
            headers.append((b"x-midstream-attempts", b"%d" % attempts))
        return headers

    def _failed(self, event: ErrorEvent) -> None:
        self.error = event.error.kind
        self.turn = event.turn
        self._count(event.turn)

    def _count(self, turn: Turn) -> None:
        self.usage = turn.usage
        if turn.usage is not None and self.target is not None:
            self.cost = self._gateway.cost(self.target, turn.usage)

    async def _refuse(self, error: MidstreamError) -> None:
        if isinstance(error, Aborted) or self._client_gone:
            self._left()
            return
        self.error = error.kind
        told = as_told(error, own_key=self.key is not None)
        writer = self._writer or make_writer(self.wire, AnswerContext(self.asked, request_id=self.id))
        # The status is out; the error becomes the stream's last event, in the wire's own form.
        if self._begun:
            _, data = writer.error(told, mid_stream=True)
            data = self._scrubbed(data, error)
            if self.record is not None:
                self.record.sent.add(time.monotonic(), data)
            await self._send({"type": "http.response.body", "body": data})
            return
        self.status, body = writer.error(told)
        body = self._scrubbed(body, error)
        if self.record is not None:
            self.record.sent.add(time.monotonic(), body)
        await send_refusal(self._send, self.status, body, [*refusal_headers(told), *self._told()])

    def secrets(self) -> Secrets:
        """Every key that what was said here may hold."""
        return self._gateway.secrets(self.scope)

    def _scrubbed(self, body: bytes, error: MidstreamError) -> bytes:
        """An error's bytes without the client's key, if they may hold words of an upstream. That takes longer than an answer,
        so a refusal of ours goes as it is: it quotes nothing but this request, to whom it came from."""
        ours = isinstance(error, (LocalError, StoreError)) or (isinstance(error, ProviderError) and not error.provider)
        return body if ours else self._gateway.scrubbed(body, self.scope)

    async def fail(self, error: Exception) -> None:
        """A defect of ours: the client gets an error of its wire, and nothing of the details."""
        # The id is the bridge: the client reports it, the operator finds the traceback by it.
        await self._refuse(Overloaded(f"the gateway failed; its log names the request {self.id}", status=500))
        self.error = type(error).__name__

    def _left(self) -> None:
        # nginx's number for a client that closed the request; it
        # is only for the log, since nobody is there to read it.
        self.status = self.status or 499
        self.error = "client_gone"

    def _watch(self, receive: Receive) -> Callable[[], object]:
        """Cancel this task when the client leaves. Gives what ends the watching."""
        self._task = asyncio.current_task()
        extension = (self.scope.get("extensions") or {}).get("midstream")
        # Our own server calls back without a task. Under another ASGI server a task waits for the disconnect.
        if extension is not None:
            extension["on_disconnect"](self._gone)
            return self._stop_watching
        watcher = asyncio.ensure_future(receive())
        watcher.add_done_callback(lambda done: None if done.cancelled() else self._gone())
        return watcher.cancel

    def _gone(self) -> None:
        assert self._task is not None
        self._client_gone = True
        self._task.cancel()

    def _stop_watching(self) -> None:
        self.scope["extensions"]["midstream"]["on_disconnect"](None)
        self._task = None


_PASSED_WIRES = ("openai-chat", "openai-responses")


class _Counted(msgspec.Struct):
    usage: dict[str, Any] | None = None


def _counted(body: bytes) -> Usage | None:
    """What an answer that was passed on says that it used."""
    try:
        usage = msgspec.json.decode(body, type=_Counted).usage
    except (msgspec.DecodeError, RecursionError):
        return None
    read: Callable[[dict[str, Any]], Usage] = get_wire(_PASSED_WIRES[0]).room("decode").read_usage
    return read(usage) if usage is not None else None


async def send_refusal(send: Send, status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
    head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


def header_value(text: str) -> bytes:
    """A text that a client may have chosen, as a header can hold it."""
    if text.isascii() and text.isprintable():
        return text.encode()
    return _UNPRINTABLE.sub(b"?", text.encode("ascii", "replace"))


_UNPRINTABLE = re.compile(rb"[^ -~]")


# Libraries that were made for one host and read nothing else. Mistral's sends all calls of an answer whole, in its last
# chunk, and the counts with them, asked or not (field-guide/clients.md#libraries).
_MISTRAL = Habits(calls_together=True, usage="finish")
_LIBRARIES = {"openai-chat": ((b"mistral-client-", _MISTRAL), (b"ai-sdk/mistral/", _MISTRAL))}
"""By the client's wire: a word of its user agent, and how the host writes that it knows."""
_AGENTS = (b"user-agent", b"x-mistral-user-agent")  # in a browser a library may not set the first
_PLAIN = Habits()


def _habits(wire: str, headers: dict[bytes, bytes]) -> Habits:
    """How the host writes its answers that this client's library was made for."""
    for name in _AGENTS if wire in _LIBRARIES else ():
        agent = headers.get(name, b"")
        for word, habits in _LIBRARIES[wire]:
            if word in agent:
                return habits
    return _PLAIN


# Headers by which clients name their session; the first that
# is there counts. Only for routing: anybody can send anything.
_HINTS = (
    b"x-claude-code-session-id",
    b"x-session-id",
    b"session-id",
    b"session_id",
    b"x-session-affinity",
    b"x-midstream-conversation",
)


def _conversation_key(headers: dict[bytes, bytes], parsed: ParsedRequest) -> str:
    """What holds a conversation together for the choice of an upstream: the client's own word, else how it began. It is a hint,
    and nobody's right to anything."""
    for name in _HINTS:
        if name in headers:
            return headers[name].decode("latin-1")
    extra = parsed.options.extra_body
    if extra and isinstance(extra.get("prompt_cache_key"), str):
        return str(extra["prompt_cache_key"])
    for turn in parsed.conversation.turns:
        if turn.speaker == "human":
            return turn.text[:200]
    return ""
