"""The paths that ask no model: models, token counts, stored responses, health, metrics, telemetry.

Paths that need no key are marked: a load balancer and a client that is starting have none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..core.errors import BadRequest, MidstreamError, NotFound
from ..wires.answer import AnswerContext, make_writer
from ..wires.lenient_json import json_value
from ..wires.request import parse_request
from .body import ANSWERING, PASSED, read_body
from .metrics import CONTENT_TYPE
from .refusals import Refusal, as_told, refusal_headers
from .tenants import Tenant

if TYPE_CHECKING:
    from .app import Gateway
    from .routing import ListedModel

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
ESTIMATE = {"x-midstream-estimate": "true"}
"""Tells that a count was not made by the model's own tokenizer."""
# Clients want a date and show it to nobody; a fixed one keeps the answers comparable.
_CREATED = 1_790_000_000
_DATE = "2026-09-21T00:00:00Z"


def small_routes(gateway: Gateway) -> Starlette:
    """An application for every path that does not answer with a model's words."""
    routes = _Routes(gateway)
    found = [
        Route("/health", routes.health),
        # Names that other gateways use, so that the settings of a balancer need not change.
        Route("/health/liveliness", routes.health),
        Route("/health/liveness", routes.health),
        Route("/health/readiness", routes.readiness),
        Route("/metrics", routes.metrics),
        Route("/api/hello", routes.hello, methods=["GET", "HEAD", "POST"]),
    ]
    for prefix in ("/v1", ""):
        found += [
            Route(f"{prefix}/messages/count_tokens", routes.guarded(routes.count_messages), methods=["POST"]),
            Route(f"{prefix}/responses/input_tokens", routes.guarded(routes.count_input), methods=["POST"]),
            Route(f"{prefix}/responses/{{id}}", routes.guarded(routes.response), methods=["GET", "DELETE"]),
            Route(f"{prefix}/responses/{{id}}/input_items", routes.guarded(routes.input_items), methods=["GET"]),
            Route(f"{prefix}/models", routes.guarded(routes.models), methods=["GET"]),
            Route(f"{prefix}/models/{{model:path}}", routes.guarded(routes.model), methods=["GET"]),
        ]
        found += [
            Route(prefix + path, routes.hello, methods=["POST"]) for path in (*ANSWERING, *PASSED)
        ]  # for a 405 to any other method
        found += [
            Route(f"{prefix}/{signal}", routes.telemetry, methods=["POST"]) for signal in ("metrics", "logs", "traces")
        ]
    for prefix in ("/v1beta", "/v1alpha", "/v1beta1", "/v1", ""):
        path = f"{prefix}/models/{{model:path}}:countTokens"
        found.append(Route(path, routes.guarded(routes.count_contents), methods=["POST"]))
    for prefix in ("/v1beta", "/v1alpha", "/v1beta1"):
        found.append(Route(f"{prefix}/models", routes.guarded(routes.models), methods=["GET"]))
        found.append(Route(f"{prefix}/models/{{model:path}}", routes.guarded(routes.model), methods=["GET"]))
    return Starlette(routes=found, exception_handlers={404: routes.unknown, 405: routes.wrong_method})


class _Routes:
    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway

    def guarded(self, endpoint: Callable[[Request, Tenant], Awaitable[Response]]) -> Endpoint:
        """The endpoint for those who may ask; errors are in the shape that the client's wire has."""

        async def answer(request: Request) -> Response:
            tenant = None
            try:
                tenant = await self.gateway.authenticator.tenant(
                    request.scope["headers"], request.scope["query_string"]
                )
                return await endpoint(request, tenant)
            except MidstreamError as error:
                return self.refuse(request, error, tenant)

        return answer

    async def health(self, request: Request) -> Response:
        return _json({"status": "ok"})

    # Two questions of a balancer: is the process alive (`health`,
    # which never asks anything else), and should it get requests.
    async def readiness(self, request: Request) -> Response:
        try:
            await self.gateway.state.ping()
        except MidstreamError:
            return _json({"status": "not ready", "reason": "the database cannot be reached"}, 503)
        return _json(
            {"status": "ready", "streams": len(self.gateway.open_streams), "in_flight": self.gateway.limiter.in_flight}
        )

    async def metrics(self, request: Request) -> Response:
        metrics = self.gateway.metrics
        if metrics is None:
            return self.refuse(request, NotFound("this gateway counts nothing", status=404, code="unknown_url"))
        return Response(metrics.exposition(), media_type=CONTENT_TYPE)

    async def hello(self, request: Request) -> Response:
        """What Claude Code asks before its first turn, without a key."""
        return _json({"status": "ok"})

    async def telemetry(self, request: Request) -> Response:
        """Clients post their telemetry to the base URL and log an error for each refusal: it is taken, and forgotten."""
        return _json({"partialSuccess": {}})

    async def models(self, request: Request, tenant: Tenant) -> Response:
        listed = self.gateway.router.listed(tenant)
        return _json(model_list(wire_of(request), listed, request.query_params))

    async def model(self, request: Request, tenant: Tenant) -> Response:
        listed = self.gateway.router.listed(tenant)
        found = one_model(wire_of(request), listed, request.path_params["model"])
        if found is None:
            raise NotFound(f"the model {request.path_params['model'][:100]!r} is not served here", status=404)
        return _json(found)

    async def count_messages(self, request: Request, tenant: Tenant) -> Response:
        return _json({"input_tokens": await self._count(request, tenant, "anthropic")}, headers=ESTIMATE)

    async def count_input(self, request: Request, tenant: Tenant) -> Response:
        tokens = await self._count(request, tenant, "openai-responses")
        return _json({"object": "response.input_tokens", "input_tokens": tokens}, headers=ESTIMATE)

    async def count_contents(self, request: Request, tenant: Tenant) -> Response:
        return _json({"totalTokens": await self._count(request, tenant, "gemini")}, headers=ESTIMATE)

    async def _count(self, request: Request, tenant: Tenant, wire: str) -> int:
        """About how many tokens a request has. It takes no slot, but counts for the key's rate: reading a large body is work."""
        gateway = self.gateway
        # Claude Code counts 25 requests at once (field-guide/clients.md#claude-code);
        # with slots they would push out answers.
        await gateway.limiter.enter(tenant, slot=False)
        encoding = request.headers.get("content-encoding", "").encode("latin-1")
        body = await read_body(request.receive, encoding, gateway.settings.max_body)
        return gateway.estimate(parse_request(wire, body, model=request.path_params.get("model", "")))

    async def response(self, request: Request, tenant: Tenant) -> Response:
        kept, id = self.gateway.responses, request.path_params["id"]
        return _json(await (kept.delete if request.method == "DELETE" else kept.response)(tenant.id, id))

    async def input_items(self, request: Request, tenant: Tenant) -> Response:
        return _json(await self.gateway.responses.items(tenant.id, request.path_params["id"]))

    async def unknown(self, request: Request, error: Exception) -> Response:
        path = request.url.path
        # The commonest mistake with a base URL: some clients add the version, others want it given.
        if path.startswith(("/v1/v1/", "/v1/v1beta/")):
            advice = "this client adds the /v1 itself, so leave it out of the base URL"
        else:
            advice = (
                "see /v1/models, /v1/chat/completions, /v1/responses, /v1/messages and /v1beta/models/…:generateContent"
            )
        # OpenAI's code for it: `model_not_found` would send people looking for another name.
        told = NotFound(f"nothing is served at {request.method} {path[:200]}: {advice}", status=404, code="unknown_url")
        return self.refuse(request, told)

    async def wrong_method(self, request: Request, error: Exception) -> Response:
        allowed = getattr(error, "headers", None) or {}
        told = BadRequest(f"{request.method} is not answered at {request.url.path[:200]}", status=405)
        response = self.refuse(request, told)
        response.headers.update(allowed)
        return response

    def refuse(self, request: Request, error: MidstreamError, tenant: Tenant | None = None) -> Response:
        told, wire = as_told(error), wire_of(request)
        status, body = make_writer(wire, AnswerContext("")).error(told)
        self.gateway.note_refusal(Refusal(wire, request.scope["path"], status, error.kind, tenant), request.scope, body)
        headers = {name.decode(): value.decode() for name, value in refusal_headers(told)}
        return Response(body, status, headers, "application/json")


def wire_of(request: Request) -> str:
    """The wire that a client of a shared path speaks, by what only such a client sends."""
    path = request.url.path
    if path.startswith(("/v1beta", "/v1alpha")) or "x-goog-api-key" in request.headers:
        return "gemini"
    if "messages" in path or "anthropic-version" in request.headers:
        return "anthropic"
    return "openai-responses" if "responses" in path else "openai-chat"


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(json_value(value), status, headers, "application/json")


def model_list(wire: str, models: Sequence[ListedModel], query: Mapping[str, str]) -> dict[str, Any]:
    """The models that a client may ask for, in the shape of its wire.

    Claude Code lists only ids that begin with `claude` or `anthropic`, so a client of that wire gets every model under such
    an id, with a name for people; the router knows the way back.
    """
    if wire == "gemini":
        return {"models": [_gemini(each.id, each.display_name) for each in models]}
    if wire != "anthropic":
        return {"object": "list", "data": [_openai(each.id) for each in models]}
    names = [(each.claude_id, each.display_name) for each in models]
    ids = [name for name, _ in names]
    after = query.get("after_id")
    # An id that is not listed any more begins from the start; an error would stop a client's listing for good.
    start = ids.index(after) + 1 if after in ids else 0
    size = int(query["limit"]) if query.get("limit", "").isdigit() and len(query["limit"]) < 6 else 1000
    page = [_anthropic(*name) for name in names[start : start + max(1, size)]]
    ends = {"first_id": page[0]["id"] if page else None, "last_id": page[-1]["id"] if page else None}
    return {"data": page, "has_more": start + len(page) < len(names), **ends}


def one_model(wire: str, models: Sequence[ListedModel], name: str) -> dict[str, Any] | None:
    """The entry of one model; None if it is not listed."""
    plain = name.removeprefix("models/")
    for each in models:
        if plain in (each.id, each.claude_id):
            if wire == "gemini":
                return _gemini(each.id, each.display_name)
            return _anthropic(plain, each.display_name) if wire == "anthropic" else _openai(each.id)
    return None


def _openai(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": _CREATED, "owned_by": "midstream"}


def _anthropic(name: str, display: str) -> dict[str, Any]:
    shown = {"type": "model", "id": name, "display_name": display or name, "created_at": _DATE}
    return {**shown, "lifecycle": "active", "deprecated_at": None, "retires_at": None}


def _gemini(name: str, display: str) -> dict[str, Any]:
    methods = ["generateContent", "streamGenerateContent", "countTokens"]
    return {
        "name": f"models/{name}", "version": "001", "displayName": display or name, "description": display or name,
        "inputTokenLimit": 131_072, "outputTokenLimit": 65_536, "supportedGenerationMethods": methods,
    }  # fmt: skip
