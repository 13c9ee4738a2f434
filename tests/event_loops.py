"""The event loops that midstream is tested on. `run` uses the one a test is at; a module that states
`pytestmark = pytest.mark.usefixtures("each_loop")` has every test on each of them."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
LoopFactory = Callable[[], asyncio.AbstractEventLoop]

_factory: LoopFactory | None = None


def _factory_of(name: str) -> LoopFactory:
    if name == "asyncio":
        return asyncio.new_event_loop
    if importlib.util.find_spec("uvloop") is None:
        pytest.skip("uvloop is not installed (there is none for Windows): this did NOT run on it")
    import uvloop

    return uvloop.new_event_loop


@pytest.fixture(scope="module", params=["asyncio", "uvloop"])
def each_loop(request: pytest.FixtureRequest) -> Iterator[str]:
    global _factory
    _factory = _factory_of(request.param)
    try:
        yield request.param
    finally:
        _factory = None


def run(main: Coroutine[Any, Any, T], limit: float = 60) -> T:
    """Run it, but never for longer than a broken test deserves."""

    async def bounded() -> T:
        async with asyncio.timeout(limit):
            return await main

    with asyncio.Runner(loop_factory=_factory) as runner:
        return runner.run(bounded())
