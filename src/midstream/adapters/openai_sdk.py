"""A client for code that is written against `client.chat.completions.create(…)`, with any model behind it, in this process.

With the `openai` package installed it is that package's own client, whose requests never leave the process: types, streams,
errors, `parse` and `with_options` are the package's. Without it, a small client takes its place, with objects of the same
shape and midstream's errors. Tool calls have canonical ids, reasoning is given back to the model that made it, and `model=`
may change from request to request: see docs/adapters/openai.md.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from ..client.catalog import Catalog
from ..core.secret import Secret, hide
from ..transport import TransportOptions
from .backend import Backend
from .openai_wires import OpenAIWires

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI  # type: ignore[import-not-found, unused-ignore]

_BASE_URL = "http://midstream.invalid/v1"
"""Never reached: the name is reserved for addresses that lead nowhere (RFC 2606)."""
_NO_KEY = "none"
"""The package refuses to be made without a key, and this one is never sent."""


def openai_client(
    *,
    catalog: Catalog | None = None,
    api_key: str | Secret | None = None,
    transport: TransportOptions | None = None,
    backend: Backend | None = None,
    carry: bool = False,
) -> OpenAI:
    """A client in the shape of `openai.OpenAI`: `chat.completions` and `responses`, with models as `provider/name`.

    Names, addresses and keys come from the user's configuration and the environment (`catalog`); `api_key` is used for every
    host instead. With `carry`, the reasoning items of a response hold every model's reasoning, for histories that are stored.
    Close it, or use `with`.
    """
    wires = OpenAIWires(backend or Backend(catalog, api_key=hide(api_key), transport=transport), carry=carry)
    if not _has_sdk():
        from .openai_objects import LightClient

        return LightClient(wires)
    import openai  # type: ignore[import-not-found, unused-ignore]

    from .openai_transport import sync_http_client

    return openai.OpenAI(api_key=_NO_KEY, base_url=_BASE_URL, max_retries=0, http_client=sync_http_client(wires))


def async_openai_client(
    *,
    catalog: Catalog | None = None,
    api_key: str | Secret | None = None,
    transport: TransportOptions | None = None,
    backend: Backend | None = None,
    carry: bool = False,
) -> AsyncOpenAI:
    """The same in the shape of `openai.AsyncOpenAI`. It may be used from several event loops."""
    wires = OpenAIWires(backend or Backend(catalog, api_key=hide(api_key), transport=transport), carry=carry)
    if not _has_sdk():
        from .openai_objects import AsyncLightClient

        return AsyncLightClient(wires)
    import openai  # type: ignore[import-not-found, unused-ignore]

    from .openai_transport import async_http_client

    return openai.AsyncOpenAI(api_key=_NO_KEY, base_url=_BASE_URL, max_retries=0, http_client=async_http_client(wires))


def _has_sdk() -> bool:
    try:
        return importlib.util.find_spec("openai") is not None
    except ValueError:  # None in sys.modules: somebody said that there is none
        return False
