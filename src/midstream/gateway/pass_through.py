"""Requests that are no conversation (embeddings, moderation …): passed on as they are to an OpenAI-compatible host, or refused.

Only the model's name changes on the way, and the key is the operator's. The answer is JSON, read within limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from ..core.errors import BadRequest
from ..wires.lenient_json import json_value
from ..wires.request import Request as Upstream
from .body import read_body, sent_json
from .carry import FORBIDDEN
from .exchange import header_value
from .tenants import Tenant

if TYPE_CHECKING:
    from .app import Gateway

# Listed, never "anything": an unknown path of a host with the operator's key could do anything that key may do.
PASSED = ("embeddings", "moderations", "rerank", "completions", "images/generations", "audio/speech")
_WIRES = ("openai-chat", "openai-responses")


async def pass_through(gateway: Gateway, request: Request, tenant: Tenant) -> Response:
    path = "/" + request.scope["path"].removeprefix("/v1").strip("/")
    encoding = request.headers.get("content-encoding", "").encode("latin-1")
    admission = await gateway.limiter.enter(tenant)
    try:
        value = sent_json(await read_body(request.receive, encoding, gateway.settings.max_body))
        if not isinstance(value, dict) or not isinstance(value.get("model"), str):
            raise BadRequest("expected a JSON object with a `model`", status=400)
        # Streams of these paths have shapes of their own, which nothing here could end properly.
        if value.get("stream"):
            raise BadRequest(f"{path} is not streamed here: leave out `stream`", status=400)
        route = gateway.router.route(value["model"], tenant, "")
        target = gateway.client.catalog.resolve(route.models[0])
        if target.dialect.wire not in _WIRES:
            raise BadRequest(
                f"{path} is passed on to OpenAI-compatible hosts only, and {target.name} is none: "
                "name a model of a host that has it",
                status=400,
            )
        # The same fields as on the paths that answer: where a request goes is not the client's to say.
        kept = {name: each for name, each in value.items() if name not in FORBIDDEN}
        sent = Upstream(
            "POST",
            path,
            {"content-type": "application/json"},
            json_value({**kept, "model": target.model}),
            stream=False,
            model=target.model,
        )
        async with await gateway.client.send(target, sent) as answer:
            read = await answer.read()
    finally:
        admission.release()
    kind = answer.headers.get("content-type", "application/json")
    return Response(read, 200, {"x-midstream-model": header_value(target.name).decode()}, kind)
