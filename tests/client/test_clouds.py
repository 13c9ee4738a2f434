"""Azure, Bedrock and Vertex: the exact path, query, header and address of a request, over loopback."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import msgspec
import pytest

from midstream.client.catalog import Catalog
from midstream.client.client import Client
from midstream.client.config import Config, ProviderConfig
from midstream.core.errors import ConfigError, ContentFiltered, MidstreamError, MissingKey
from midstream.transport import RetryPolicy, TransportOptions
from tests.transport.loopback import Seen, Server, Wire

HERE = "http://127.0.0.1:{port}"
SECRETS = ("authorization", "api-key", "x-api-key", "x-goog-api-key")

# model, environment, configuration of its provider -> request line, secret header
CASES: list[tuple[str, dict[str, str], dict[str, Any], str, dict[str, str]]] = [
    (
        "azure/gpt-4.1",
        {"AZURE_OPENAI_ENDPOINT": f"{HERE}/", "AZURE_OPENAI_API_KEY": "K", "OPENAI_API_VERSION": "2025-01-01"},
        {},
        "POST /openai/v1/chat/completions HTTP/1.1",
        {"api-key": "K"},
    ),
    (
        "azure/my-deployment",
        {"AZURE_OPENAI_BASE_URL": f"{HERE}/openai/v1/", "AZURE_OPENAI_AD_TOKEN": "T"},
        {},
        "POST /openai/v1/chat/completions HTTP/1.1",
        {"authorization": "Bearer T"},
    ),
    (
        "azure-deployment/my deployment",
        {"AZURE_OPENAI_ENDPOINT": HERE, "AZURE_OPENAI_API_KEY": "K"},
        {},
        "POST /openai/deployments/my%20deployment/chat/completions?api-version=2024-10-21 HTTP/1.1",
        {"api-key": "K"},
    ),
    (
        "azure-deployment/gpt-4o",
        {"AZURE_OPENAI_ENDPOINT": HERE, "AZURE_OPENAI_API_KEY": "K", "OPENAI_API_VERSION": "2025-04-01-preview"},
        {},
        "POST /openai/deployments/gpt-4o/chat/completions?api-version=2025-04-01-preview HTTP/1.1",
        {"api-key": "K"},
    ),
    (
        "azure-deployment/gpt-4o",
        {"AZURE_OPENAI_API_KEY": "K"},
        {"base_url": f"{HERE}/openai", "query": {"api-version": "2023-05-15"}},
        "POST /openai/deployments/gpt-4o/chat/completions?api-version=2023-05-15 HTTP/1.1",
        {"api-key": "K"},
    ),
    (
        "azure-responses/gpt-5.1",
        {"AZURE_OPENAI_ENDPOINT": HERE, "AZURE_OPENAI_API_KEY": "K"},
        {},
        "POST /openai/v1/responses HTTP/1.1",
        {"api-key": "K"},
    ),
    (
        "bedrock/openai.gpt-oss-120b-1:0",
        {"BEDROCK_BASE_URL": f"{HERE}/openai/v1", "AWS_BEARER_TOKEN_BEDROCK": "B"},
        {},
        "POST /openai/v1/chat/completions HTTP/1.1",
        {"authorization": "Bearer B"},
    ),
    (
        "vertex/gemini-2.5-flash",
        {"VERTEX_BASE_URL": f"{HERE}/v1/projects/p/locations/l/publishers/google", "VERTEX_ACCESS_TOKEN": "T"},
        {},
        "POST /v1/projects/p/locations/l/publishers/google/models/gemini-2.5-flash:generateContent HTTP/1.1",
        {"authorization": "Bearer T"},
    ),
    (
        "vertex/gemini-2.5-flash",
        {},
        {"base_url": f"{HERE}/v1/p", "api_key_command": (sys.executable, "-c", "print('from-command')")},
        "POST /v1/p/models/gemini-2.5-flash:generateContent HTTP/1.1",
        {"authorization": "Bearer from-command"},
    ),
    (
        "azure/gpt-4.1",
        {"AZURE_OPENAI_ENDPOINT": HERE},
        {"api_key_command": (sys.executable, "-c", """print('{"accessToken": "from-command", "expires_on": 9e9}')""")},
        "POST /openai/v1/chat/completions HTTP/1.1",
        {"authorization": "Bearer from-command"},
    ),
    (
        "azure/gpt-4.1",
        {"AZURE_OPENAI_ENDPOINT": HERE},
        {"api_key_command": (sys.executable, "-c", "print('from-vault')"), "auth": "api-key"},
        "POST /openai/v1/chat/completions HTTP/1.1",
        {"api-key": "from-vault"},
    ),
]


@pytest.mark.parametrize("model, environ, settings, line, header", CASES, ids=[case[0] for case in CASES])
def test_a_request_reaches_its_cloud_as_documented(
    model: str, environ: dict[str, str], settings: dict[str, Any], line: str, header: dict[str, str]
) -> None:
    seen = asyncio.run(sent(model, environ, settings))[0]
    assert seen.line == line
    assert {name: seen.headers[name] for name in SECRETS if name in seen.headers} == header
    body = msgspec.json.decode(seen.body)
    assert body.get("model", model.partition("/")[2]) == model.partition("/")[2]


async def sent(model: str, environ: dict[str, str], settings: dict[str, Any], answer: bytes = b"{}") -> list[Seen]:
    """What a server saw of one request; its answer is no matter here."""

    async def serve(wire: Wire, seen: Seen) -> None:
        await wire.answer(answer, 400, "content-type: application/json")

    async with Server(serve) as server:
        here = {name: value.replace("{port}", str(server.port)) for name, value in environ.items()}
        if "base_url" in settings:
            settings = {**settings, "base_url": settings["base_url"].replace("{port}", str(server.port))}
        provider = model.partition("/")[0]
        catalog = Catalog(Config(providers={provider: ProviderConfig(**settings)} if settings else {}), environ=here)
        options = TransportOptions(retry=RetryPolicy(max_retries=0))
        async with Client(catalog, transport=options) as client:
            with pytest.raises(MidstreamError) as caught:
                await client.complete(model, "hello")
        assert not any(secret in str(caught.value) for secret in ("from-command", "from-vault"))
        return server.seen


ADDRESSES = [
    ("azure/x", {"AZURE_RESOURCE_NAME": "acme"}, "https://acme.openai.azure.com"),
    ("azure/x", {"AZURE_API_BASE": "https://acme.services.ai.azure.com/"}, "https://acme.services.ai.azure.com"),
    ("azure-responses/x", {"AZURE_OPENAI_ENDPOINT": "https://a.example/openai"}, "https://a.example"),
    ("bedrock/x", {"AWS_REGION": "eu-west-1"}, "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1"),
    ("bedrock/x", {"AWS_DEFAULT_REGION": "eu-west-1"}, "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1"),
    ("bedrock-mantle/x", {"AWS_REGION": "us-east-2"}, "https://bedrock-mantle.us-east-2.api.aws/v1"),
    ("vertex/gemini-2.5-pro", {"VERTEX_API_KEY": "k", "GOOGLE_CLOUD_PROJECT": "p"},
     "https://aiplatform.googleapis.com/v1beta1/publishers/google"),
    ("vertex/gemini-2.5-pro", {"VERTEX_ACCESS_TOKEN": "t", "GOOGLE_CLOUD_PROJECT": "p"},
     "https://aiplatform.googleapis.com/v1beta1/projects/p/locations/global/publishers/google"),
    ("vertex/gemini-2.5-pro",
     {"VERTEX_ACCESS_TOKEN": "t", "GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "europe-west4"},
     "https://europe-west4-aiplatform.googleapis.com/v1beta1/projects/p/locations/europe-west4/publishers/google"),
]  # fmt: skip


@pytest.mark.parametrize("model, environ, base", ADDRESSES)
def test_an_address_is_made_of_what_the_environment_says(model: str, environ: dict[str, str], base: str) -> None:
    assert Catalog(Config(), environ=environ).resolve(model).endpoint.base_url == base


def test_an_address_nobody_set_says_what_to_set_and_is_listed_all_the_same() -> None:
    for model, environ, told in (
        ("azure/x", {"AZURE_OPENAI_API_KEY": "k"}, "set AZURE_OPENAI_ENDPOINT or AZURE_OPENAI_RESOURCE"),
        ("bedrock/x", {"AWS_BEARER_TOKEN_BEDROCK": "k"}, "set BEDROCK_BASE_URL or AWS_REGION or AWS_DEFAULT_REGION"),
        ("vertex/gemini-2.5-pro", {"VERTEX_ACCESS_TOKEN": "k"}, "GOOGLE_CLOUD_PROJECT or GCLOUD_PROJECT"),
    ):
        catalog = Catalog(Config(), environ=environ)
        with pytest.raises(ConfigError) as caught:
            catalog.auth_headers(catalog.resolve(model))
        assert told in str(caught.value)
    bare = Catalog(Config(), environ={})
    with pytest.raises(MissingKey, match="set AZURE_OPENAI_API_KEY"):
        bare.check_key(bare.resolve("azure/x"))


@pytest.mark.parametrize("value", ["evil.example/", "a@evil.example", "x#", "../..", "a b", "é"])
def test_a_place_cannot_lead_a_key_to_another_host(value: str) -> None:
    with pytest.raises(ConfigError, match="AWS_REGION: invalid region"):
        Catalog(Config(), environ={"AWS_REGION": value}).resolve("bedrock/x")


def test_azures_first_chunk_without_choices_and_its_filter_fields_are_read() -> None:
    chunks: list[dict[str, Any]] = [
        {"choices": [], "id": "", "model": "", "object": "", "created": 0,
         "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {"hate": {"filtered": False}}}]},
        {"id": "c1", "model": "gpt-4.1-2025", "choices": [
            {"index": 0, "delta": {"role": "assistant", "content": "Hi"}, "content_filter_results": {}}]},
        {"id": "c1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "content_filter_offsets": {}}]},
    ]  # fmt: skip
    stream = b"".join([b"data: " + msgspec.json.encode(chunk) + b"\n\n" for chunk in chunks]) + b"data: [DONE]\n\n"
    turn = asyncio.run(streamed(200, stream))
    assert turn.text == "Hi" and not turn.failure
    assert turn.origin is not None and turn.origin.provider == "azure"


def test_azures_content_filter_is_a_refusal_of_the_content() -> None:
    body = {"error": {"message": "The response was filtered", "code": "content_filter", "status": 400,
                      "innererror": {"code": "ResponsibleAIPolicyViolation"}}}  # fmt: skip
    with pytest.raises(ContentFiltered):
        asyncio.run(streamed(400, msgspec.json.encode(body)))


async def streamed(status: int, body: bytes) -> Any:
    async def serve(wire: Wire, seen: Seen) -> None:
        await wire.answer(body, status, f"content-type: {'text/event-stream' if status == 200 else 'application/json'}")

    async with Server(serve) as server:
        environ = {"AZURE_OPENAI_ENDPOINT": f"http://127.0.0.1:{server.port}", "AZURE_OPENAI_API_KEY": "K"}
        async with Client(Catalog(Config(), environ=environ)) as client:
            return await client.stream("azure/gpt-4.1", "hello")
