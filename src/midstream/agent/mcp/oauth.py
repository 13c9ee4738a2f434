"""OAuth for remote servers: the SDK's flow, with tokens kept where keys are kept.

`midstream mcp login NAME` opens the flow: an address for the browser, and a listener on loopback for the answer. Tokens and the
registration of the client are one entry of the key store, `mcp:oauth:NAME`, bound to the server's address: a configuration
that leads elsewhere later does not get them. A running connection refreshes them; it never opens a browser by itself.

The SDK keeps two things in memory only, without which a later process cannot refresh: when a token expires, and what the
authorization server says of itself (its token endpoint, which may be on another host). So both are kept beside the tokens.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from ...client.cancellation import in_daemon_thread
from ...client.key_store import KeyStore
from ...client.mcp_server import SECRET_PREFIX, McpServer
from ...core.errors import ConfigError, ToolFailed
from ...core.secret import Secret

if TYPE_CHECKING:
    import httpx2

LOGIN_SECONDS = 300.0
_MAX_REQUEST = 16 * 1024
_EARLY = 30.0  # seconds before its end at which a token is refreshed: clocks differ, and a request takes time
_DONE = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n"
    b"midstream is logged in; this page can be closed.\r\n"
)
_WRONG = b"HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\n"


class _Record(msgspec.Struct, frozen=True):
    url: str
    tokens: dict[str, Any] | None = None
    client: dict[str, Any] | None = None
    expires: float | None = None
    """When the access token expires, by this machine's clock; None if that was not said."""
    authority: dict[str, Any] | None = None
    """What the authorization server says of itself."""
    resource: dict[str, Any] | None = None
    """What the MCP server says of itself and of its authorization server."""


class TokenStore:
    """The tokens of one server, in the form in which the SDK wants to keep them. `learn` hears of each token that is used."""

    def __init__(
        self, server: McpServer, keys: KeyStore | None = None, learn: Callable[..., None] = lambda *_: None
    ) -> None:
        self._name = f"{SECRET_PREFIX}oauth:{server.name}"
        self._url = server.url
        self._keys = keys or KeyStore()
        self._learn = learn
        self._context: Any = None

    async def attach(self, context: Any) -> None:
        """Give the SDK's memory of a flow what a process before this one has found out, and keep what it finds out."""
        from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata

        self._context = context
        record = await self._load()
        if record.tokens is None:
            return
        if record.expires is not None:
            context.token_expiry_time = record.expires - _EARLY
        elif "refresh_token" in record.tokens:
            # It may have expired since: a refresh is cheaper than a refusal, which only a login mends.
            context.token_expiry_time = 1.0
        if record.authority is not None:
            context.oauth_metadata = OAuthMetadata.model_validate(record.authority)
        if record.resource is not None:
            context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(record.resource)
            context.auth_server_url = str(context.protected_resource_metadata.authorization_servers[0])

    async def exists(self) -> bool:
        """Whether there are tokens for this address."""
        return (await self._load()).tokens is not None

    def remove(self) -> bool:
        """Forget them; False if there were none."""
        return self._keys.remove(self._name) is not None

    async def get_tokens(self) -> Any:
        from mcp.shared.auth import OAuthToken

        tokens = (await self._load()).tokens
        if tokens is None:
            return None
        found = OAuthToken.model_validate(tokens)
        self._learn(found.access_token, found.refresh_token or "")
        return found

    async def set_tokens(self, tokens: Any) -> None:
        self._learn(tokens.access_token, tokens.refresh_token or "")
        context = self._context
        authority = None if context is None else context.oauth_metadata
        resource = None if context is None else context.protected_resource_metadata
        await self._save(
            tokens=_plain(tokens),
            expires=None if tokens.expires_in is None else time.time() + tokens.expires_in,
            # Only what a refresh asks of them: an entry of the key store is small, and lists of scopes are not.
            authority=_plain(authority, {"issuer", "authorization_endpoint", "token_endpoint"}),
            resource=_plain(resource, {"resource", "authorization_servers"}),
        )

    async def get_client_info(self) -> Any:
        from mcp.shared.auth import OAuthClientInformationFull

        client = (await self._load()).client
        return None if client is None else OAuthClientInformationFull.model_validate(client)

    async def set_client_info(self, client_info: Any) -> None:
        await self._save(client=_plain(client_info))

    async def _load(self) -> _Record:
        # A keyring may wait for its user.
        return await in_daemon_thread(self._read, "mcp-tokens")

    async def _save(self, **changes: Any) -> None:
        record = msgspec.structs.replace(await self._load(), **changes)
        # A key of the store is one word of ASCII.
        word = base64.urlsafe_b64encode(msgspec.json.encode(record)).decode()
        await in_daemon_thread(lambda: self._keys.set(self._name, Secret(word)), "mcp-tokens")

    def _read(self) -> _Record:
        stored = self._keys.get(self._name)
        if stored is None:
            return _Record(self._url)
        try:
            record = msgspec.json.decode(base64.urlsafe_b64decode(stored.reveal()), type=_Record)
        except (ValueError, msgspec.DecodeError):
            return _Record(self._url)
        return record if record.url == self._url else _Record(self._url)


async def stored_auth(server: McpServer, learn: Callable[..., None]) -> httpx2.Auth | None:
    """The tokens of an earlier login, refreshed when they have expired; None if there are none. `learn` hears of each."""
    tokens = TokenStore(server, learn=learn)
    if any(name.lower() == "authorization" for name in server.headers) or not await tokens.exists():
        return None

    async def refuse(_: str) -> None:
        raise ToolFailed(f"its login has expired: midstream mcp login {server.name}")

    async def unasked() -> Any:
        raise AssertionError(
            "nobody was sent to a browser"
        )  # the SDK wants to be given one before it asks for anything

    return await _provider(server, tokens, "http://127.0.0.1/callback", refuse, unasked)


async def log_in(server: McpServer, show: Callable[[str], None], *, seconds: float = LOGIN_SECONDS) -> httpx2.Auth:
    """Authentication that asks the user: `show` gets the address to open in a browser."""
    if not server.url:
        raise ConfigError(f"MCP server {server.name} is a program; a login is for servers with a url")
    answered: asyncio.Future[tuple[str, str | None, str | None]] = asyncio.get_running_loop().create_future()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = (await reader.readuntil(b"\r\n"))[:_MAX_REQUEST].decode("latin-1").split(" ")
            query = parse_qs(urlsplit(line[1] if len(line) > 1 else "").query)
            code = query.get("code", [""])[0]
            if code and not answered.done():
                answered.set_result((code, query.get("state", [None])[0], query.get("iss", [None])[0]))
            elif "error" in query and not answered.done():
                answered.set_exception(ToolFailed(f"the login was refused: {query['error'][0][:200]}"))
            writer.write(_DONE if code else _WRONG)
            await writer.drain()
        except (ValueError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever else speaks to this port
        finally:
            writer.close()

    listener = await asyncio.start_server(handle, "127.0.0.1", 0, limit=_MAX_REQUEST)
    port = listener.sockets[0].getsockname()[1]

    async def redirect(url: str) -> None:
        show(url)

    async def callback() -> Any:
        from mcp.shared.auth import AuthorizationCodeResult

        try:
            async with asyncio.timeout(seconds):
                code, state, issuer = await answered
        except TimeoutError:
            raise ToolFailed(f"nobody logged in within {seconds:g} s") from None
        finally:
            listener.close()
        return AuthorizationCodeResult(code=code, state=state, iss=issuer)

    tokens = TokenStore(server)
    # The last registration named the port of the last listener, and servers compare the address to the letter.
    tokens.remove()
    return await _provider(server, tokens, f"http://127.0.0.1:{port}/callback", redirect, callback)


async def _provider(server: McpServer, tokens: TokenStore, address: str, redirect: Any, callback: Any) -> httpx2.Auth:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientMetadata

    metadata = OAuthClientMetadata.model_validate({"client_name": "midstream", "redirect_uris": [address]})
    provider = OAuthClientProvider(server.url, metadata, tokens, redirect, callback)
    await tokens.attach(provider.context)
    return provider


def _plain(value: Any, fields: set[str] | None = None) -> dict[str, Any] | None:
    """A model of the SDK as JSON has it; of some only these fields."""
    return None if value is None else value.model_dump(mode="json", exclude_none=True, include=fields)
