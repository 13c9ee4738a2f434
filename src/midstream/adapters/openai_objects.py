"""The client of `openai_sdk` where the `openai` package is not installed: the same calls, objects and streams, no more.

Objects have the fields of OpenAI's JSON as attributes; a field that the package always has is None where the answer lacks
it. They can be sent back as messages. Errors are midstream's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any, Self

from ..core.errors import LocalError, MalformedStream, ProviderError, TimedOut
from ..wires.lenient_json import decode_leniently, encode_json
from ..wires.sse import DONE
from .open_stream import OpenStream, SyncOpenStream
from .openai_wires import CHAT, RESPONSES, OpenAIWires

_OPTIONAL = frozenset(
    "annotations arguments audio content delta encrypted_content error function function_call id incomplete_details instructions logprobs name "
    "previous_response_id refusal role service_tier status system_fingerprint tool_calls type usage".split()
)
"""Fields that the package's types have even if an answer does not bring them."""


class OpenAIObject:
    """A JSON object of an answer, its fields as attributes."""

    __slots__ = ("_fields",)

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def __getattr__(self, name: str) -> Any:
        fields = object.__getattribute__(self, "_fields")
        if name in fields:
            return _wrapped(fields[name])
        if name == "output_text" and isinstance(fields.get("output"), list):
            return _output_text(fields["output"])
        if name in _OPTIONAL:
            return None
        raise AttributeError(f"this object has no field {name!r}; it has {', '.join(fields)}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpenAIObject) and self._fields == other._fields

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"OpenAIObject({', '.join(f'{name}={value!r}' for name, value in self._fields.items())})"

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._fields})

    def model_dump(self, *, exclude_none: bool = False, **_: object) -> dict[str, Any]:
        """The object as plain data."""
        plain: dict[str, Any] = _plain(self._fields, exclude_none)
        return plain

    def model_dump_json(self, *, exclude_none: bool = False, **_: object) -> str:
        return encode_json(self.model_dump(exclude_none=exclude_none)).decode()

    to_dict = model_dump
    to_json = model_dump_json


def _wrapped(value: Any) -> Any:
    if isinstance(value, dict):
        return OpenAIObject(value)
    return [_wrapped(each) for each in value] if isinstance(value, list) else value


def _plain(value: Any, exclude_none: bool) -> Any:
    if isinstance(value, dict):
        return {
            name: _plain(each, exclude_none) for name, each in value.items() if each is not None or not exclude_none
        }
    return [_plain(each, exclude_none) for each in value] if isinstance(value, list) else value


def _output_text(output: list[Any]) -> str:
    parts = [part for item in output if item.get("type") == "message" for part in item.get("content") or ()]
    return "".join([part.get("text", "") for part in parts if part.get("type") == "output_text"])


def _body(arguments: dict[str, Any]) -> bytes:
    """The arguments of `create` as a request's body; objects of an answer may stand in it, also the package's."""
    given = {**arguments, **(arguments.get("extra_body") or {})}
    for name in ("extra_body", "extra_headers", "extra_query"):
        given.pop(name, None)
    return encode_json(_sendable(given))


def _sendable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sendable(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sendable(each) for each in value]
    dump = getattr(value, "model_dump", None)
    return _sendable(dump(exclude_none=True)) if callable(dump) else value


async def _objects(pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[OpenAIObject, None]:
    """The objects of a stream. A failure inside of it is raised."""
    try:
        async for piece in pieces:
            # Our own writer made it: whole events, with one `data` line each.
            for event in piece.split(b"\n\n"):
                data = event.rpartition(b"data: ")[2]
                if not data or data == DONE:
                    continue
                fields = decode_leniently(data)
                failure = fields.get("error") if isinstance(fields, dict) else None
                if isinstance(failure, dict) and "choices" not in fields:
                    raise ProviderError(str(failure.get("message") or "the answer failed"), code=failure.get("code"))
                if not isinstance(fields, dict):
                    raise MalformedStream("expected a JSON object in the stream")
                yield OpenAIObject(fields)
    finally:
        await pieces.aclose()


class ObjectStream:
    """A streamed answer. Leave early with `close`, or use `with`."""

    def __init__(self, objects: SyncOpenStream[OpenAIObject]) -> None:
        self._objects = objects

    def __iter__(self) -> Iterator[OpenAIObject]:
        return self._objects

    def __next__(self) -> OpenAIObject:
        return next(self._objects)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._objects.close()


class AsyncObjectStream:
    """A streamed answer. Leave early with `close`, or use `async with`."""

    def __init__(self, objects: AsyncGenerator[OpenAIObject, None]) -> None:
        self._objects = OpenStream(objects)

    def __aiter__(self) -> AsyncIterator[OpenAIObject]:
        return self._objects

    async def __anext__(self) -> OpenAIObject:
        return await anext(self._objects)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._objects.aclose()


async def _created(wires: OpenAIWires, wire: str, arguments: dict[str, Any]) -> AsyncGenerator[bytes, None] | bytes:
    limit = arguments.pop("timeout", None)
    try:
        async with asyncio.timeout(limit):
            reading = wires.read(wire, _body(arguments))
            if not reading.parsed.options.stream:
                return await wires.whole(reading)
            pieces = wires.stream(reading)
            return _with_first(await anext(pieces), pieces)
    except TimeoutError:
        raise TimedOut(f"no answer within {limit:g} s") from None


async def _with_first(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    try:
        yield first
        async for piece in rest:
            yield piece
    finally:
        await rest.aclose()


class _Creator:
    """`completions` of `chat`, or `responses`."""

    def __init__(self, wires: OpenAIWires, wire: str) -> None:
        self._wires = wires
        self._wire = wire

    def create(self, **arguments: Any) -> OpenAIObject | ObjectStream:
        """One answer, with the arguments that OpenAI's API has."""
        backend = self._wires.backend
        made = backend.run(_created(self._wires, self._wire, arguments))
        if isinstance(made, bytes):
            return OpenAIObject(decode_leniently(made))
        return ObjectStream(backend.iterate(_objects(made)))


class _AsyncCreator:
    def __init__(self, wires: OpenAIWires, wire: str) -> None:
        self._wires = wires
        self._wire = wire

    async def create(self, **arguments: Any) -> OpenAIObject | AsyncObjectStream:
        """One answer, with the arguments that OpenAI's API has."""
        made = await _created(self._wires, self._wire, arguments)
        return OpenAIObject(decode_leniently(made)) if isinstance(made, bytes) else AsyncObjectStream(_objects(made))


class _Models:
    def __init__(self, wires: OpenAIWires) -> None:
        self._wires = wires

    def list(self) -> OpenAIObject:
        """The models that are known by name, under `data`."""
        return OpenAIObject(decode_leniently(self._wires.models()))

    def retrieve(self, model: str) -> OpenAIObject:
        """One model."""
        return OpenAIObject(decode_leniently(self._wires.model(model)))


class _AsyncModels(_Models):
    async def list(self) -> OpenAIObject:  # type: ignore[override]
        return super().list()

    async def retrieve(self, model: str) -> OpenAIObject:  # type: ignore[override]
        return super().retrieve(model)


class _Chat:
    def __init__(self, completions: _Creator | _AsyncCreator) -> None:
        self.completions = completions


def _missing(name: str) -> LocalError:
    return LocalError(
        f"the client has chat.completions.create, responses.create and models.list, not {name!r}; "
        "with the openai package installed it has all that the package makes of these two"
    )


class LightClient:
    """`chat.completions.create` and `responses.create`. Close it, or use `with`."""

    def __init__(self, wires: OpenAIWires) -> None:
        self._wires = wires
        self.chat = _Chat(_Creator(wires, CHAT))
        self.responses = _Creator(wires, RESPONSES)
        self.models = _Models(wires)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise _missing(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._wires.backend.close()


class AsyncLightClient:
    """`await chat.completions.create` and `responses.create`. Close it, or use `async with`."""

    def __init__(self, wires: OpenAIWires) -> None:
        self._wires = wires
        self.chat = _Chat(_AsyncCreator(wires, CHAT))
        self.responses = _AsyncCreator(wires, RESPONSES)
        self.models = _AsyncModels(wires)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise _missing(name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._wires.backend.aclose()
