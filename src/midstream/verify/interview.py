"""One host under questions: requests sent, answers read byte by byte, tries counted, costs kept below a limit.

Retries are made here and not in the transport, so that a first try can be told from a later one. A refusal (4xx) is an answer
and is never tried again. A host that cannot be reached, or keeps failing, ends the probe with `Unfinished`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from ..client.catalog import Catalog
from ..client.client import Client
from ..client.prices import Price
from ..client.tokens import estimate_text
from ..codec import mint_turn_key
from ..core.blocks import Conversation, Turn, Value, human
from ..core.dialect import Dialect, Options
from ..core.errors import MidstreamError, ProviderError, RateLimited, RemoteError, TransportError, TruncatedStream
from ..core.events import Done, ErrorEvent
from ..core.plural import pluralize
from ..core.secret import Secret
from ..core.tools import ToolSpec
from ..dialects.registry import Resolved
from ..transport import RetryPolicy, TransportOptions
from ..transport.secrets import Secrets
from ..wires.decode_context import DecodeContext
from ..wires.request import Request
from ..wires.stream_decoder import StreamDecoder
from .observation import Observation, observe

TRIES = 3
_WAIT = 1.0
_LONGEST_WAIT = 120.0
EXPECTED_OUTPUT = 300
"""Tokens that an answer is expected to have, for the estimate before the first request."""


class Unfinished(Exception):
    """A probe could not be carried out: the host failed, or the limit of costs was reached."""


class OverBudget(Unfinished):
    """The next request might cost more than is left."""


class Exchange(msgspec.Struct, frozen=True):
    """One request and what came of it: a turn, or an error; `seen` is what was really sent."""

    request: Request
    status: int
    turn: Turn | None = None
    error: MidstreamError | None = None
    seen: Observation = Observation()
    tries: int = 1
    first_failure: str = ""
    """What went wrong at the first try, where there was a second."""
    seconds: float = 0.0
    stop_reason: str = ""
    """How the answer ended, in midstream's words; told of an answer without a word, too."""

    @property
    def refused(self) -> bool:
        return isinstance(self.error, ProviderError)

    @property
    def why(self) -> str:
        """The words of a refusal, or of what else went wrong."""
        return "" if self.error is None else f"{self.status or 'no answer'}: {self.error.summary}"

    @property
    def tokens(self) -> int | None:
        """How many tokens the prompt had, as the host counts."""
        return self._counted("prompt_tokens")

    @property
    def written(self) -> int | None:
        """The same of the answer."""
        return self._counted("completion_tokens")

    def _counted(self, name: str) -> int | None:
        # By what was sent, since an answer without a word is no turn and has been counted all the same.
        counts = [usage.get(name) for _, usage in self.seen.usages]
        told = [count for count in counts if isinstance(count, int) and count > 0]
        return told[-1] if told else None

    @property
    def is_cut(self) -> bool:
        """Whether the answer ran into its limit of tokens."""
        return self.stop_reason == "max_tokens"

    @property
    def called(self) -> list[str]:
        """The names of the tools that were called; calls that were read back out of the text count."""
        return [call.name for call in self.turn.tool_calls] if self.turn is not None else []

    def note(self, code: str) -> str:
        """Why something of the request was left out or changed, by the code of the note; empty if it was not."""
        return next((note.why for note in self.request.notes if note.code == code), "")


class Tally(Value, frozen=True):
    """How the requests went, each counted once: answered at the first try or at a later one, refused, or failed for good."""

    requests: int = 0
    """All that were sent, retries among them."""
    first_try: int = 0
    later_try: int = 0
    refused: int = 0
    failed: int = 0

    def plus(self, exchange: Exchange, attempt: int) -> Tally:
        if exchange.refused:
            return replace(self, refused=self.refused + 1)
        if attempt == 1:
            return replace(self, first_try=self.first_try + 1)
        return replace(self, later_try=self.later_try + 1)


class Budget:
    """What the requests may cost together. Without a price nothing can be counted, and a limit of None lets everything pass.

    A request is sent if it cannot cost more than is left: with as many tokens as its answer may have, and beside all that are
    under way. Most answers are far shorter, so one that does not fit waits for the others to be paid before it is given up.
    """

    def __init__(self, price: Price | None = None, limit: float | None = None) -> None:
        self.price = price
        self.limit = limit
        self.spent = 0.0
        self._reserved = 0.0
        self._under_way = 0
        self._settled = asyncio.Event()

    async def reserve(self, request: Request, most: int) -> float:
        """Keep back what a request may cost, with `most` tokens in its answer; OverBudget if that is more than is left."""
        cost = self._cost(estimate_text(request.body.decode("utf-8", "replace")), most)
        while self.limit is not None and self.spent + self._reserved + cost > self.limit:
            if not self._under_way:
                raise OverBudget(
                    f"${self.spent:.4f} of ${self.limit:.4f} is spent, and the next request may cost ${cost:.4f}: "
                    "raise --max-cost, or lower --max-tokens, and go on with --resume"
                )
            self._settled.clear()
            await self._settled.wait()
        self._reserved += cost
        self._under_way += 1
        return cost

    def settle(self, reserved: float, request: Request, exchange: Exchange | None) -> None:
        """What it did cost; of an answer without a count, what its words come to, and of one that broke off, all that was kept back."""
        self._under_way -= 1
        self._reserved = self._reserved - reserved if self._under_way else 0.0
        self._settled.set()
        if exchange is None or exchange.status != 200:
            return  # a refusal costs nothing
        usage = exchange.turn.usage if exchange.turn is not None else None
        if usage is not None and usage.cost is not None:
            self.spent += usage.cost
        elif usage is not None and self.price is not None:
            self.spent += self.price.cost(usage)
        elif not exchange.seen.ended:
            self.spent += reserved
        else:
            seen = exchange.seen
            words = [seen.text, *seen.reasoning.values(), *[call.arguments for call in seen.calls]]
            read = estimate_text(request.body.decode("utf-8", "replace"))
            self.spent += self._cost(read, estimate_text("".join(words)))

    def _cost(self, read: int, written: int) -> float:
        if self.price is None:
            return 0.0
        return (read * self.price.input + written * self.price.output) / 1_000_000


class Interview:
    """Asks one model. `sleep` and `clock` can be replaced, for tests."""

    def __init__(
        self,
        client: Client,
        model: str,
        *,
        options: Options | None = None,
        concurrency: int = 5,
        tries: int = TRIES,
        budget: Budget | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client = client
        self.model = model
        self.target = client.catalog.resolve(model)
        self.options = options or Options(max_tokens=4096)
        self.tries = tries
        self.budget = budget or Budget(client.catalog.price(self.target))
        self.tally = Tally()
        self._room = asyncio.Semaphore(concurrency)
        self._sleep = sleep
        self._clock = clock
        self._secrets = Secrets()
        self._resting = 0.0  # until when a Retry-After holds, for all requests

    @property
    def dialect(self) -> Dialect:
        return self.target.dialect

    def use(self, dialect: Dialect) -> None:
        """From here on, speak to the host in this dialect."""
        self.target = replace(self.target, dialect=dialect)

    async def ask(
        self,
        asked: str | Conversation | Sequence[Turn],
        tools: Sequence[ToolSpec] = (),
        *,
        stream: bool = True,
        dialect: Dialect | None = None,
        edit: Callable[[bytes], bytes] | None = None,
        system: str = "",
        **options: Any,
    ) -> Exchange:
        """One answer. `dialect` writes the request in another way than is known of this host, `edit` changes its bytes."""
        conversation = _conversation(asked, system)
        target = self.target if dialect is None else replace(self.target, dialect=dialect)
        chosen = replace(self.options, stream=stream, **options)
        request = self.client.encode(target, conversation, tools, chosen)
        if edit is not None:
            request = replace(request, body=edit(request.body))
        return await self.send(target, request, chosen.max_tokens)

    async def send(self, target: Resolved, request: Request, most: int | None = None) -> Exchange:
        """Send a request until it is answered, refused, or has failed often enough. Its answer has `most` tokens at most."""
        first = ""
        for attempt in range(1, self.tries + 1):
            exchange = await self._paid(target, request, most or self.options.max_tokens or EXPECTED_OUTPUT)
            failed = _failure(exchange)
            if failed is None:
                self.tally = self.tally.plus(exchange, attempt)
                return replace(exchange, tries=attempt, first_failure=first)
            first = first or failed.kind
            wait = failed.retry_after if isinstance(failed, ProviderError) else None
            if wait is not None and wait > _LONGEST_WAIT:
                raise Unfinished(f"the host asks to wait {wait:.0f} s: {failed.summary}")
            if attempt < self.tries:
                await self._pause(wait, attempt)
        self.tally = replace(self.tally, failed=self.tally.failed + 1)
        raise Unfinished(f"failed {pluralize(self.tries, 'time')}: {exchange.why}")

    async def _paid(self, target: Resolved, request: Request, most: int) -> Exchange:
        reserved = await self.budget.reserve(request, most)
        exchange = None
        try:
            async with self._room:
                await self._rest()
                exchange = await self._once(target, request)
        finally:
            # Whatever happened: others may wait for it.
            self.budget.settle(reserved, request, exchange)
        return exchange

    async def _rest(self) -> None:
        left = self._resting - self._clock()
        if left > 0:
            await self._sleep(left)

    async def _pause(self, asked: float | None, attempt: int) -> None:
        wait = asked if asked is not None and asked > 0 else _WAIT * 2 ** (attempt - 1)
        # A Retry-After is for the key, not for one request: the others wait as well.
        if asked is not None:
            self._resting = max(self._resting, self._clock() + wait)
        await self._sleep(wait)

    async def _once(self, target: Resolved, request: Request) -> Exchange:
        began = self._clock()
        self.tally = replace(self.tally, requests=self.tally.requests + 1)
        chunks: list[bytes] = []
        try:
            response = await self.client.send(target, request)
            self._secrets = response.secrets
            async with response:
                # One by one: what came before a connection broke is looked at, too.
                async for chunk in response.chunks():
                    chunks.append(chunk)  # noqa: PERF401
        except MidstreamError as error:
            status = error.status if isinstance(error, ProviderError) and error.status else 200 if chunks else 0
            if status != 200:
                return Exchange(request, status, error=error, seconds=self._clock() - began)
            return _read(request, chunks, self._clock() - began, cut=error)
        return _read(request, chunks, self._clock() - began)

    def clean(self, text: str) -> str:
        """A text without the key: a host may repeat what it was sent, and reports are passed on."""
        return self._secrets.scrub_text(text)


def make_client(catalog: Catalog | None, api_key: str | Secret | None = None, **options: Any) -> Client:
    """A client that tries everything once: what is tried again, and how often, is counted by the interview."""
    # A connection for each request: one that the host closed while it was unused would look like a failed first try.
    transport = TransportOptions(
        retry=RetryPolicy(max_retries=0), first_byte=300.0, idle=120.0, total=900.0, keep_alive=0.0, max_unused=0
    )
    # No breaker: a host that fails is the very thing to be looked at.
    return Client(catalog, transport=transport, api_key=api_key, breaker=None, remember=False, **options)


def _read(request: Request, chunks: list[bytes], seconds: float, cut: MidstreamError | None = None) -> Exchange:
    last = _decoded(request.decoder(mint_turn_key()), request, chunks)
    bare = _decoded(_bare_decoder(request), request, chunks).turn
    error = last.to_exception() if isinstance(last, ErrorEvent) else None
    # A turn that failed is never sent again; here it is looked at, and the conversation goes on with it.
    turn = replace(last.turn, failure="") if last.turn.blocks else None
    ended = not isinstance(error, TruncatedStream)
    seen = observe(request.wire, chunks, stream=request.stream, turn=bare, ended=ended)
    if cut is not None:
        error, seen = cut, replace(seen, ended=False)
    return Exchange(request, 200, turn, error, seen, seconds=seconds, stop_reason=last.turn.stop_reason)


def _conversation(asked: str | Conversation | Sequence[Turn], system: str) -> Conversation:
    if isinstance(asked, Conversation):
        return asked
    turns = (human(asked, key="ask"),) if isinstance(asked, str) else tuple(asked)
    return Conversation(turns, system)


def _bare_decoder(request: Request) -> StreamDecoder:
    """A decoder that leaves leaked calls where they are; a raw completion has nothing but text, so there it reads them."""
    assert request.dialect is not None
    dialect = request.dialect if request.wire == "completion" else replace(request.dialect, leaks=None)
    return DecodeContext(
        dialect, "bare", request.model, request.tools, request.tool_names or {}, text_format=request.text_format
    ).decoder()


def _decoded(decoder: StreamDecoder, request: Request, chunks: Sequence[bytes]) -> Done | ErrorEvent:
    """The last event of an answer, which has all of it."""
    if request.stream:
        events = [*[each for chunk in chunks for each in decoder.feed(chunk)], *decoder.close()]
    else:
        events = decoder.read_body(b"".join(chunks))
    last = events[-1]
    assert isinstance(last, Done | ErrorEvent)
    return last


def _failure(exchange: Exchange) -> MidstreamError | None:
    """What is worth another try; None for an answer and for a refusal. What a host says wrongly is an answer, too."""
    error = exchange.error
    if isinstance(error, ProviderError):
        passing = isinstance(error, RateLimited) or (error.status or 500) >= 500
        return error if passing and error.retryable else None
    if isinstance(error, TransportError):
        return error
    # The protocol's end did not come: the connection was cut. With it, an answer that lacks something is complete.
    cut = exchange.status == 0 or not exchange.seen.ended
    return error if isinstance(error, RemoteError) and cut else None
