"""Live traffic: the last exchanges, kept in memory within bounds of number, size and age, and told to whoever listens.

Recording an exchange costs a few appends: bytes are kept as they came, and nothing is encoded, parsed or compared until somebody
looks. A listener gets summaries in batches, by an increasing number, so one that was cut off goes on where it was.
"""

from __future__ import annotations

import asyncio
import time
from base64 import b64decode
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from ..core.blocks import Conversation, Turn, Value
from ..core.errors import LocalError, MidstreamError, NotFound
from ..core.handoff import Note
from ..core.secret import PLAIN_QUERY, Secret, hide_url_secrets, is_key, is_secret_header
from ..transport.encoding import inflated
from ..transport.tap import Ending, ExchangeTap, Tap
from ..transport.target import Target
from ..wires.request import Request
from .guard import Visitor

serving: ContextVar[Callable[[], Exchange] | None] = ContextVar("serving", default=None)
"""Gives the exchange that a request of this task belongs to; set by whoever serves it."""
_FIGURES = 1_000  # bytes that an exchange takes without its contents, about
_CHUNK = 96  # bytes that a chunk takes in addition to its own: an object, its time, and its places in two lists
_FLUSH = 0.2  # a person sees no difference, and each batch costs the gateway
_NEWS = 100  # rows that are told at once, in a flood
_CALM = 25  # news in one flush with which a flood is over, and those that were left out are told
_PULSE = 15.0
_MOST_LISTENERS = 64
_MOST_OF_ONE = 8  # so that one visitor cannot keep the others out
_MOST_WAITING = 5_000
_LONGEST_SETTING = 24
_MOST_PARTS = 50  # of a cookie or a query: each is searched in megabytes
HIDDEN = "‹hidden›"


class TrafficLimits(Value, frozen=True):
    """How much is remembered."""

    count: int = 2_000
    bytes: int = 64 * 1024 * 1024
    age: float = 3_600.0
    """Seconds."""
    contents: int = 20
    """Exchanges a second whose contents are kept. Of a flood only the figures are: nobody could read more, and keeping it would
    be felt."""
    body: int = 4 * 1024 * 1024
    """Bytes of one request or answer; what is larger is cut, and says so."""


class Half:
    """The bytes of one direction, as they came: when, and what. A host that sends one byte at a time must not cost more than it
    sends, so every chunk counts as more than its bytes."""

    __slots__ = ("chunks", "cut", "held", "most", "size", "times")

    def __init__(self, most: int) -> None:
        self.most = most
        self.times: list[float] = []
        self.chunks: list[bytes] = []
        self.size = 0
        """Bytes that came."""
        self.held = 0
        """Bytes of memory that are held, about."""
        self.cut = False
        """Whether more came than is kept."""

    def add(self, now: float, data: bytes) -> None:
        size, room = len(data), self.most - self.held
        self.size += size
        if size > room:
            if self.cut:
                return
            self.cut, data = True, data[: max(0, room)]
        self.held += size + _CHUNK
        self.times.append(now)
        self.chunks.append(data)

    def text(self, encoding: str = "") -> str:
        """What came, decoded from this Content-Encoding."""
        return b"".join(inflated(self.chunks, encoding, self.most)).decode("utf-8", "replace")

    def timeline(self, began: float) -> list[list[float]]:
        """When each chunk came, in milliseconds, and its size."""
        # Asked by another thread while more comes, of which only the time may be there yet.
        pairs = zip(self.times, self.chunks, strict=False)
        return [[round((at - began) * 1000, 2), len(data)] for at, data in pairs]


_EMPTY = Half(0)


class Summary(msgspec.Struct, frozen=True, gc=False):
    """One row of the list. `when` is the time of day in seconds, `ttft` and `ms` are milliseconds."""

    number: int
    id: str
    when: float
    wire: str
    path: str
    asked: str
    model: str
    status: int
    stream: bool
    error: str
    input: int
    output: int
    cost: float | None
    ttft: float | None
    ms: float | None
    notes: int
    attempts: int
    tenant: str
    open: bool
    kept: bool


class Exchange:
    """One request and its answer, as far as they are known. Most of it stays as it is until the end: what is never set costs
    nothing, so the rest are the class's own."""

    id = ""
    version = 0
    counted = 0  # bytes that are counted in the ring's
    forgotten = False  # no longer in the ring, although it may not be over
    headers: Sequence[tuple[bytes, bytes]] = ()
    query = b""
    ended: float | None = None
    first: float | None = None
    asked = ""
    model = ""
    status = 0
    stream = False
    attempts = 0
    error = ""
    cost: float | None = None
    input = 0
    output = 0
    notes: Sequence[Note] = ()
    request: Request | None = None
    earlier: Sequence[tuple[str, int, str]] = ()
    """The attempts before the one that is shown: who was asked, with which status it answered, 0 for none, and the kind of error,
    where it is known."""
    upstream_url = ""
    upstream_secrets: Mapping[str, Secret] = MappingProxyType({})
    """The headers that went to the model's host."""
    upstream_status = 0
    upstream_headers: Mapping[str, str] = MappingProxyType({})
    """Those that came from there."""
    conversation: Conversation | None = None
    """What the client sent, as it was understood."""
    turn: Turn | None = None
    kept = False
    """Whether its contents are kept."""
    client: Half = _EMPTY
    """What the client sent."""
    sent: Half = _EMPTY
    """What it was sent."""
    upstream: Half | None = None
    """What the model's host sent."""

    def __init__(self, number: int, tenant: str, wire: str, method: str, path: str, began: float) -> None:
        self.number = number
        self.tenant = tenant
        self.wire = wire
        self.method = method
        self.path = path
        self.began = began

    def itself(self) -> Exchange:
        return self

    def answered(self, turn: Turn, cost: float | None) -> None:
        """The answer, decoded."""
        self.turn = turn
        self.cost = cost
        if turn.usage is not None:
            self.input, self.output = turn.usage.read, turn.usage.output

    def size(self) -> int:
        """About how many bytes it holds."""
        upstream, request = self.upstream, self.request
        held = self.client.held + self.sent.held + (len(request.body) if request is not None else 0)
        if self.conversation is not None:  # the same words once more
            held += max(self.client.held, len(request.body) if request is not None else 0)
        return _FIGURES + held + (upstream.held if upstream is not None else 0)

    def summary(self, ago: float) -> Summary:
        """A row of the list; `ago` is what makes a time of day of this clock's time."""
        began, first, ended = self.began, self.first, self.ended
        return Summary(
            self.number, self.id, began + ago, self.wire, self.path, self.asked, self.model, self.status, self.stream, self.error,
            self.input, self.output, self.cost, None if first is None else (first - began) * 1000,
            None if ended is None else (ended - began) * 1000, len(self.notes), self.attempts, self.tenant, ended is None, self.kept,
        )  # fmt: skip

    def secrets(self) -> list[Secret]:
        """The keys of both sides. Whoever echoes one, or was sent one in a prompt, does not make it public."""
        sent = [
            (name.encode("latin-1", "replace"), value.reveal().encode())
            for name, value in self.upstream_secrets.items()
        ]
        query = urlsplit(self.upstream_url).query.encode("latin-1", "replace")
        found = [*secrets_in(self.headers, self.query), *secrets_in(sent, query)]
        # What a model that answered is called is no key, also where a client gives it as one.
        answered = self.model if 200 <= self.status < 400 else ""
        return [secret for secret in found if secret.reveal() not in answered]

    def detail(self) -> dict[str, Any]:
        """All that is known. A key may be in it where somebody repeats one: see `secrets`."""
        summary = msgspec.to_builtins(self.summary(time.time() - time.monotonic()))
        request, upstream = self.request, self.upstream or _EMPTY
        query = f"?{self.query.decode('latin-1')}" if self.query else ""
        return {
            **summary,
            "method": self.method,
            "address": hide_url_secrets(self.path + query, HIDDEN, PLAIN_QUERY),
            "headers": shown_headers(self.headers),
            "client": {"text": self.client.text(), "bytes": self.client.size, "cut": self.client.cut},
            "answer": {"text": self.sent.text(), "bytes": self.sent.size, "cut": self.sent.cut},
            "timeline": self.sent.timeline(self.began),
            "upstream": None
            if request is None
            else {
                "line": f"{request.method} {hide_url_secrets(self.upstream_url, HIDDEN, PLAIN_QUERY)}",
                "headers": {
                    **{name: HIDDEN for name in self.upstream_secrets if is_secret_header(name)},
                    **request.headers,
                },
                "text": request.body.decode("utf-8", "replace"),
                "status": self.upstream_status,
                "answer_headers": shown_headers(_encoded(self.upstream_headers)),
                "answer": upstream.text(self.upstream_headers.get("content-encoding", "")),
                "bytes": upstream.size,
                "cut": upstream.cut,
                "timeline": upstream.timeline(self.began),
            },
            "earlier": [{"model": model, "status": status, "error": error} for model, status, error in self.earlier],
            "notes": [msgspec.to_builtins(note) for note in self.notes],
            "conversation": None if self.conversation is None else msgspec.to_builtins(self.conversation),
            "turn": None if self.turn is None else msgspec.to_builtins(self.turn),
        }


class Traffic:
    """The ring of exchanges, and those who listen to it."""

    def __init__(self, limits: TrafficLimits | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits or TrafficLimits()
        self.clock = clock
        self._ring: deque[Exchange] = deque()
        self._numbers = 0
        self._second = 0
        self._kept = 0
        # Not from one: a page that comes back to a program that was started again has numbers of its life before. In
        # microseconds, since no life has as many changes as that: the numbers of the next one begin behind all of its own.
        self._first = self._changes = time.time_ns() // 1000
        self._bytes = 0
        self._changed: dict[int, Exchange] = {}
        self._told = self._first
        """The last change that listeners were told of."""
        self._listeners: set[_Listener] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._aging: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._ring)

    def open(self, tenant: str, wire: str, method: str = "POST", path: str = "") -> Exchange:
        """A request that has come in."""
        self._numbers += 1
        now = self.clock()
        if int(now) != self._second:
            self._second, self._kept = int(now), 0
        self._kept += 1
        exchange = Exchange(self._numbers, tenant, wire, method, path, now)
        if self._kept <= self.limits.contents:
            exchange.kept = True
            exchange.client, exchange.sent = Half(self.limits.body), Half(self.limits.body)
            self.tell(exchange)  # those of a flood are told when they are over
        self._ring.append(exchange)
        return exchange

    def close(self, exchange: Exchange) -> None:
        """Its answer is over: nothing is added to it from now on."""
        exchange.ended = self.clock()
        if not exchange.forgotten:
            exchange.counted = exchange.size() if exchange.kept else _FIGURES
            self._bytes += exchange.counted
            self._evict()
            if self._aging is None:
                self._aging = asyncio.get_running_loop().call_later(self.limits.age, self._grow_old)
        self.tell(exchange)

    def clear(self, visitor: Visitor) -> None:
        """Forget what this visitor may see and is over; what still runs will be told when it ends."""
        kept = [each for each in self._ring if each.ended is None or not may_see(visitor, each)]
        self._bytes = sum([each.counted for each in kept])
        self._ring = deque(kept)

    def tell(self, exchange: Exchange) -> None:
        """Something about an exchange changed: listeners hear of it with the next batch."""
        self._changes += 1
        exchange.version = self._changes
        if not self._listeners:
            return
        self._changed[exchange.number] = exchange
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_FLUSH, self._flush)

    def find(self, number: int, visitor: Visitor) -> Exchange:
        """One exchange, if this visitor may see it; NotFound says the same of one that is not there, or was for too long."""
        self._evict()
        for exchange in self._ring:
            if exchange.number == number and may_see(visitor, exchange):
                return exchange
        raise NotFound(f"no exchange {number}: it is older than what is remembered, or not yours", status=404)

    def since(self, version: int, visitor: Visitor) -> list[Exchange]:
        """What changed after `version`, in the order of the changes."""
        self._evict()
        found = [each for each in self._ring if each.version > version and may_see(visitor, each)]
        return sorted(found, key=lambda each: each.version)

    async def events(self, visitor: Visitor, last: int) -> AsyncGenerator[bytes, None]:
        """Server-sent events: what is there after the number `last`, then what comes."""
        listener = _Listener(visitor)
        same = sum([1 for each in self._listeners if each.visitor == visitor])
        # Tenants without number do not keep those out who look after all of them.
        if same >= _MOST_OF_ONE or (len(self._listeners) >= _MOST_LISTENERS and not visitor.admin):
            raise LocalError("too many pages listen to the live traffic: close one")
        self._listeners.add(listener)
        try:
            # A number that was never given here is none to go on from: everything, and what the page has is of another life.
            known = self._first <= last <= self._changes
            yield encode_batch(self.since(last if known else 0, visitor), self._changes, anew=not known)
            while True:
                try:
                    async with asyncio.timeout(_PULSE):
                        await listener.woken.wait()
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                listener.woken.clear()
                waiting, listener.waiting = listener.waiting, {}
                if listener.caught_up is not None:
                    since, listener.caught_up = listener.caught_up, None
                    waiting |= {each.number: each for each in self.since(since, visitor)}
                if waiting:
                    # Not the newest change: what came since the last batch is not in this one. Nor what was left out: a page
                    # that was cut off in a flood asks for it.
                    last = self._told if listener.behind is None else listener.behind
                    yield encode_batch(waiting.values(), last)
        finally:
            self._listeners.discard(listener)

    def _flush(self) -> None:
        self._timer = None
        changed, self._changed = self._changed, {}
        before, self._told = self._told, self._changes
        for listener in self._listeners:
            listener.hear(changed.values(), before)
        # Also where nothing comes any more: whoever was left behind catches up.
        if any(listener.behind is not None for listener in self._listeners):
            self._timer = asyncio.get_running_loop().call_later(_FLUSH, self._flush)

    def _grow_old(self) -> None:
        """Forget what is too old, also where nobody asks and nothing comes."""
        self._aging = None
        self._evict()
        if self._ring:
            wait = self._ring[0].began + self.limits.age - self.clock()
            self._aging = asyncio.get_running_loop().call_later(max(1.0, wait), self._grow_old)

    def _evict(self) -> None:
        limits, ring = self.limits, self._ring
        oldest = self.clock() - limits.age
        while ring and (len(ring) > limits.count or self._bytes > limits.bytes or ring[0].began < oldest):
            exchange = ring.popleft()
            exchange.forgotten = True
            self._bytes -= exchange.counted


class TrafficTap:
    """A transport's tap (`transport/tap.py`): what goes to a model's host and comes back belongs to the exchange of this task."""

    def __init__(self, traffic: Traffic, *, beside: Tap | None = None) -> None:
        self._traffic = traffic
        self._beside = beside
        """Another one who listens, such as a recorder."""

    def sent(self, target: Target) -> ExchangeTap | None:
        """A request goes out. One that nobody waits for in this task is not ours to show."""
        ours = self._shown(target)
        theirs = None if self._beside is None else self._beside.sent(target)
        return ours or theirs if ours is None or theirs is None else _Both(ours, theirs)

    def _shown(self, target: Target) -> ExchangeTap | None:
        begin = serving.get()
        if begin is None:
            return None
        exchange = begin()
        exchange.attempts += 1
        if not exchange.kept:
            return None
        if exchange.upstream is not None:  # another attempt: what is shown is the last
            asked = exchange.request.model if exchange.request is not None else ""
            exchange.earlier = (*exchange.earlier, (asked, exchange.upstream_status, ""))
        request = target.request
        if isinstance(request, Request):
            exchange.request = request
            exchange.model = exchange.model or request.model
        exchange.upstream_url, exchange.upstream_secrets = target.url, target.headers
        traffic = self._traffic
        exchange.upstream = Half(traffic.limits.body)
        exchange.upstream_status, exchange.upstream_headers = 0, {}
        return _UpstreamTap(exchange, exchange.upstream, traffic.clock)


class _UpstreamTap:
    """Keeps the head and the chunks of one answer, with their times."""

    __slots__ = ("_clock", "_exchange", "_half")

    def __init__(self, exchange: Exchange, half: Half, clock: Callable[[], float]) -> None:
        self._exchange = exchange
        self._half = half
        self._clock = clock

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        self._exchange.upstream_status, self._exchange.upstream_headers = status, headers

    def chunk(self, data: bytes) -> None:
        self._half.add(self._clock(), data)

    def end(self, ending: Ending, error: MidstreamError | None) -> None: ...


class _Both:
    """Two who are told of one exchange."""

    __slots__ = ("_one", "_other")

    def __init__(self, one: ExchangeTap, other: ExchangeTap) -> None:
        self._one = one
        self._other = other

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        self._one.head(status, headers)
        self._other.head(status, headers)

    def chunk(self, data: bytes) -> None:
        self._one.chunk(data)
        self._other.chunk(data)

    def end(self, ending: Ending, error: MidstreamError | None) -> None:
        self._one.end(ending, error)
        self._other.end(ending, error)


class _Listener:
    """One open event stream. What waits for it is bounded: an exchange that changes twice waits once."""

    __slots__ = ("behind", "caught_up", "visitor", "waiting", "woken")

    def __init__(self, visitor: Visitor) -> None:
        self.visitor = visitor
        self.waiting: dict[int, Exchange] = {}
        self.behind: int | None = None
        """The last change before the first that was left out."""
        self.caught_up: int | None = None
        """The same once the flood is over: all since then is told."""
        self.woken = asyncio.Event()

    def hear(self, changed: Iterable[Exchange], before: int) -> None:
        """News, all of them after the change `before`."""
        news = [each for each in changed if may_see(self.visitor, each)]
        # Of a thousand rows a second nobody sees more than the newest; the others follow when it is over.
        if len(news) > _NEWS and self.behind is None:
            self.behind = before
        elif len(news) <= _CALM and self.behind is not None:
            self.behind, self.caught_up = None, self.behind
        for exchange in news[-_NEWS:]:
            self.waiting[exchange.number] = exchange
        # A page that does not read, such as one in a tab that sleeps, loses the oldest and not our memory.
        while len(self.waiting) > _MOST_WAITING:
            del self.waiting[next(iter(self.waiting))]
        if self.waiting or self.caught_up is not None:
            self.woken.set()


def may_see(visitor: Visitor, exchange: Exchange) -> bool:
    """Whether an exchange is this visitor's business."""
    return visitor.admin or (bool(visitor.tenant) and visitor.tenant == exchange.tenant)


def encode_batch(exchanges: Iterable[Exchange], version: int, *, anew: bool = False) -> bytes:
    """One event with the summaries of many exchanges; its id is where a listener goes on. `anew` if they are all there are."""
    ago = time.time() - time.monotonic()
    data = msgspec.json.encode([exchange.summary(ago) for exchange in exchanges])
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (version, b"anew" if anew else b"exchanges", data)


def shown_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers to look at: those that hold keys show nothing, and an address in another one shows no key."""
    decoded = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
    return {
        name: HIDDEN if is_secret_header(name) or _scheme(value) else hide_url_secrets(value, HIDDEN, PLAIN_QUERY)
        for name, value in decoded
    }


def secrets_in(headers: Iterable[tuple[bytes, bytes]], query: bytes) -> list[Secret]:
    """What the hidden headers and parameters of a request hold, as it may be repeated elsewhere."""
    found: list[str] = []
    for raw_name, raw in headers:
        name, value = raw_name.decode("latin-1"), raw.decode("latin-1")
        scheme = _scheme(value)
        # A session's id stands in many bodies, and opens nothing.
        if not scheme and (not is_secret_header(name) or "session" in name.lower()):
            continue
        value = value[len(scheme) :].strip()
        found.append(value)
        if scheme.lower() == "basic":
            with suppress(ValueError):
                plain = b64decode(value, validate=True).decode()
                found += [plain, plain.partition(":")[2]]
        elif name.lower() == "cookie":
            found += _keys_in(value, ";")
    for value in _keys_in(query.decode("latin-1"), "&"):
        found += [value, unquote(value)]
    return [Secret(value) for value in dict.fromkeys(found)]


def _keys_in(pairs: str, between: str) -> list[str]:
    """What may be a key in a cookie or a query: a language or a region is in many texts that have nothing to do with it."""
    named = [pair.partition("=") for pair in pairs.split(between, _MOST_PARTS)[:_MOST_PARTS]]
    return [value.strip() for name, _, value in named if len(value) > _LONGEST_SETTING or is_key(name.strip(), value)]


def _scheme(value: str) -> str:
    """How a key is announced in the value of a header, whatever the header is called; "" if none is."""
    scheme = value.partition(" ")[0]
    return scheme if scheme.lower() in ("bearer", "basic") and " " in value else ""


def _encoded(headers: Mapping[str, str]) -> Iterable[tuple[bytes, bytes]]:
    return [(name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in headers.items()]
