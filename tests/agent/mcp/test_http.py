"""Remote servers: the official server over streamable HTTP, its headers, its OAuth, its end and its floods."""

from __future__ import annotations

import asyncio
import base64
import secrets
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    ProviderTokenVerifier,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import Context
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from starlette.applications import Starlette

from midstream.agent.mcp.connection import Connection
from midstream.agent.mcp.oauth import TokenStore, log_in
from midstream.agent.mcp.offer_cache import OfferCache
from midstream.agent.mcp.servers import McpServers
from midstream.cli.mcp import log_in_to
from midstream.client.mcp_server import McpServer
from midstream.core.errors import ToolFailed

from .remote_server import remote

KEY = "Bearer canary-0123456789abcdef"


def toy(**options: Any) -> MCPServer:
    server: MCPServer = MCPServer("remote", version="2.0", **options)

    @server.tool()
    def echo(text: str) -> str:
        """Say it again."""
        return text

    @server.tool()
    def flood() -> str:
        """Far too much."""
        return "x" * (20 << 20)

    async def grow(ctx: Context) -> str:
        server.add_tool(lambda: "grown up", name="grown")
        await ctx.notify_tools_changed()
        return "grew"

    async def reveal(ctx: Context) -> str:
        """Fail in the words of the request."""
        raise MCPError(-32603, f"bad header: {dict(ctx.headers or {})['authorization']}")

    server.add_tool(grow)
    server.add_tool(reveal)
    return server


@asynccontextmanager
async def serving(app: Any, port: int = 0) -> AsyncIterator[str]:
    """An application on loopback, in this event loop; its address."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=0, ws="none"))
    task = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        listener.close()


def guarded(app: Any) -> Any:
    """Only with the header."""

    async def check(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        if scope["type"] == "http" and headers.get(b"authorization") != KEY.encode():
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": KEY.encode()})
        else:
            await app(scope, receive, send)

    return check


@pytest.mark.parametrize("json_response", [False, True])
def test_a_remote_server_is_used_with_its_headers(tmp_path: Path, json_response: bool) -> None:
    async def main() -> None:
        async with serving(guarded(toy().streamable_http_app(json_response=json_response))) as address:
            headers = {"Authorization": "${REMOTE_KEY}"}
            server = McpServer("far", url=f"{address}/mcp", headers=headers)
            async with McpServers([server], cache=OfferCache(tmp_path), environ={"REMOTE_KEY": KEY}) as servers:
                connection = servers.connections["far"]
                content = await connection.call("echo", {"text": "over there"})
                assert content[0].text == "over there"  # type: ignore[union-attr]
                assert connection.described == "remote 2.0"
                with pytest.raises(ToolFailed, match="flood"):
                    await connection.call("flood", {})
                # Whatever became of that call, the server is there for the next one.
                assert (await connection.call("echo", {"text": "still"}))[0].text == "still"  # type: ignore[union-attr]

    asyncio.run(main())


def test_a_remote_server_that_refuses_or_is_not_there(tmp_path: Path) -> None:
    async def main() -> list[str]:
        async with serving(guarded(toy().streamable_http_app())) as address:
            wrong = McpServer("wrong", url=f"{address}/mcp", headers={"Authorization": "${REMOTE_KEY}"})
            away = McpServer("away", url="http://127.0.0.1:9/mcp", start_timeout=5)
            environ = {"REMOTE_KEY": "Bearer wrong-canary-0123456789"}
            async with McpServers([wrong, away], cache=OfferCache(tmp_path), environ=environ) as servers:
                await servers.ready()
                return [each.fault for each in servers.connections.values()]

    faults = asyncio.run(main())
    assert all(faults) and "canary" not in "".join(faults), faults
    assert "401" in faults[0] or "nauthorized" in faults[0]


@pytest.mark.parametrize("how", ["says it in words", "says it as the protocol wants", "does not know it any more"])
def test_a_session_that_has_expired_is_opened_again(tmp_path: Path, how: str) -> None:
    """A call that was refused because of it has done nothing, and is made again."""

    async def main() -> tuple[str, list[str]]:
        async with serving(remote("forgets the session once", how)) as address:
            server = McpServer("far", url=f"{address}/mcp")
            async with McpServers([server], cache=OfferCache(tmp_path)) as servers:
                content = await servers.connections["far"].call("echo", {})
                return content[0].text, servers.take_notices()  # type: ignore[union-attr]

    assert asyncio.run(main()) == ("hello", ["MCP server far: it has forgotten the session; it is started again"])


REFUSED = [
    ("429", "refused the call of echo: HTTP 429 (Too Many Requests)"),
    ("401", "it refuses us (HTTP 401): set its headers, or log in with `midstream mcp login far`"),
    ("nonsense", "refused the call of echo: Failed to parse JSON response"),
    ("packed", "it sent an answer of more than 16 MB"),
]


@pytest.mark.parametrize(("how", "words"), REFUSED)
def test_what_a_remote_server_refuses_is_told_with_its_status(tmp_path: Path, how: str, words: str) -> None:
    async def main() -> str:
        async with (
            serving(remote("refuses", how)) as address,
            McpServers([McpServer("far", url=f"{address}/mcp")], cache=OfferCache(tmp_path)) as servers,
        ):
            with pytest.raises(ToolFailed) as caught:
                await servers.connections["far"].call("echo", {})
            return str(caught.value)

    assert words in asyncio.run(main()).partition(". Whether")[0]


def test_a_server_that_comes_back_is_used_again(tmp_path: Path) -> None:
    async def main() -> None:
        told: list[str] = []
        async with serving(toy().streamable_http_app()) as address:
            port = int(address.rpartition(":")[2])
            server = McpServer("far", url=f"{address}/mcp", start_timeout=10)
            connection = Connection(server, on_offer=lambda _: None, tell=told.append)
            connection.start()
            await connection.ready()
        with pytest.raises(ToolFailed):
            await connection.call("echo", {"text": "x"})
        async with serving(toy().streamable_http_app(), port):
            if connection.state == "failed":
                await connection.restart()
            assert (await connection.call("echo", {"text": "back"}))[0].text == "back"  # type: ignore[union-attr]
            await connection.close()

    asyncio.run(main())


def test_changes_are_heard_over_the_newest_protocol(tmp_path: Path) -> None:
    """It has no notifications without a subscription."""

    async def main() -> list[str]:
        async with serving(toy().streamable_http_app()) as address:
            server = McpServer("far", url=f"{address}/mcp")
            async with McpServers([server], cache=OfferCache(tmp_path)) as servers:
                await servers.connections["far"].call("grow", {})
                while "mcp__far__grown" not in [each.name for each in servers.tools()]:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
                return servers.take_notices()

    assert asyncio.run(main()) == ["MCP server far: its tools have changed: +grown"]


class Authority:
    """An authorization server that says yes to everybody, for tests of the client."""

    def __init__(self, lifetime: int = 3600) -> None:
        self.lifetime = lifetime
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, AccessToken] = {}
        self.refreshed = 0
        self.forgets = False

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id is not None
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = AuthorizationCode(
            code=secrets.token_hex(20),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id or "",
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client: Any, authorization_code: AuthorizationCode) -> OAuthToken:
        return self._issued(client.client_id, authorization_code.resource)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        return None if self.forgets else RefreshToken(token=refresh_token, client_id=client.client_id, scopes=[])

    async def exchange_refresh_token(self, client: Any, refresh_token: RefreshToken, scopes: list[str]) -> OAuthToken:
        self.refreshed += 1
        return self._issued(client.client_id, None)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.tokens.get(token)

    async def revoke_token(self, token: Any) -> None:
        self.tokens.pop(token.token, None)

    def _issued(self, client: str, resource: str | None) -> OAuthToken:
        token = f"canary-{secrets.token_hex(16)}"
        self.tokens[token] = AccessToken(token=token, client_id=client, scopes=[], resource=resource)
        return OAuthToken(
            access_token=token,
            token_type="Bearer",
            expires_in=self.lifetime,
            refresh_token=f"canary-{secrets.token_hex(16)}",
        )


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@asynccontextmanager
async def behind_a_login(authority: Any) -> AsyncIterator[McpServer]:
    """A server that wants a token of this authority, which has an address of its own, as most have."""
    port, own = free_port(), free_port()
    issuer, address = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{own}/mcp"
    registration = ClientRegistrationOptions(enabled=True)
    settings = AuthSettings.model_validate(
        {"issuer_url": issuer, "resource_server_url": address, "validate_token_resource": False}
    )
    app = toy(auth=settings, token_verifier=ProviderTokenVerifier(authority)).streamable_http_app()
    routes = create_auth_routes(authority, settings.issuer_url, client_registration_options=registration)
    async with serving(Starlette(routes=routes), port), serving(app, own):
        yield McpServer("far", url=address, start_timeout=20)


async def browse(url: str) -> None:
    async with httpx2.AsyncClient(follow_redirects=True) as browser:
        assert "logged in" in (await browser.get(url)).text


async def logged_in(server: McpServer) -> None:
    opened: list[asyncio.Task[None]] = []
    auth = await log_in(server, lambda url: opened.append(asyncio.create_task(browse(url))))
    first = Connection(server, on_offer=lambda _: None, tell=lambda _: None, auth=auth)
    first.start()
    await first.ready()
    await first.close()
    await asyncio.gather(*opened)
    assert len(opened) == 1


async def echoed(server: McpServer, tool: str = "echo") -> str:
    """What the server says to a new connection, as in a new process."""
    connection = Connection(server, on_offer=lambda _: None, tell=lambda _: None)
    connection.start()
    try:
        return (await connection.call(tool, {"text": "in"}))[0].text  # type: ignore[union-attr]
    finally:
        await connection.close()


def test_a_login_is_kept_with_the_keys_and_used_from_then_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIDSTREAM_HOME", str(tmp_path))

    async def main() -> None:
        authority = Authority()
        async with behind_a_login(authority) as far:
            with pytest.raises(ToolFailed, match="midstream mcp login far"):
                await echoed(far)
            await logged_in(far)
            # From now on no browser is needed.
            assert await echoed(far) == "in" and authority.refreshed == 0
            # A server that repeats its token does not get it into what is shown.
            with pytest.raises(ToolFailed, match="bad header") as caught:
                await echoed(far, "reveal")
            assert "canary" not in str(caught.value)
            # The tokens are where keys are, for their owner only, and nowhere else.
            (file,) = token_files(tmp_path)
            assert file.name == "keys.json" and file.stat().st_mode & 0o077 == 0
            # The same name with another address does not get the tokens.
            assert not await TokenStore(McpServer("far", url="https://elsewhere.example/mcp")).exists()
            assert TokenStore(far).remove() and not await TokenStore(far).exists()
            assert not token_files(tmp_path)

    asyncio.run(main())


def test_a_login_at_an_address_with_a_variable_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIDSTREAM_HOME", str(tmp_path))

    async def main() -> None:
        async with behind_a_login(Authority()) as far:
            monkeypatch.setenv("FAR_ADDRESS", far.url)
            named = McpServer("far", url="${FAR_ADDRESS}", start_timeout=20)
            opened: list[asyncio.Task[None]] = []
            said = await log_in_to(named, lambda url: opened.append(asyncio.create_task(browse(url))))
            await asyncio.gather(*opened)
            assert said == "logged in to far" and await echoed(named) == "in"

    asyncio.run(main())


def token_files(folder: Path) -> list[Path]:
    """The files that hold a token, also as base64, at whatever place it begins."""
    words = [base64.b64encode(b"x" * shift + b"canary-")[4 if shift else 0 : -4] for shift in range(3)]
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if any(word in path.read_bytes() for word in (b"canary-", *words))]


@pytest.mark.parametrize("said", [True, False], ids=["expired, as was said", "nobody said when it expires"])
def test_a_login_that_has_expired_is_refreshed_by_a_later_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: bool
) -> None:
    monkeypatch.setenv("MIDSTREAM_HOME", str(tmp_path))

    async def main() -> None:
        authority = Authority(lifetime=20)  # less than the margin: it counts as expired
        async with behind_a_login(authority) as far:
            await logged_in(far)
            authority.lifetime = 3600
            if not said:
                await TokenStore(far)._save(expires=None)
            authority.tokens.clear()
            before = authority.refreshed
            assert await echoed(far) == "in" and authority.refreshed == before + 1
            # What it got is kept: the next process has no need to refresh.
            assert await echoed(far) == "in" and authority.refreshed == before + 1

    asyncio.run(main())


def test_a_login_that_cannot_be_refreshed_is_told_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIDSTREAM_HOME", str(tmp_path))

    async def main() -> None:
        authority = Authority(lifetime=20)
        async with behind_a_login(authority) as far:
            await logged_in(far)
            authority.tokens.clear()
            authority.forgets = True
            with pytest.raises(ToolFailed, match="its login has expired: midstream mcp login far") as caught:
                await echoed(far)
            assert "canary" not in str(caught.value)

    asyncio.run(main())
