"""The agent that an editor talks to (ACP): its sessions, each a workspace of its own in the editor's folder.

A session's id is that of its stored conversation, so `session/load` opens whatever `midstream sessions` lists, and `midstream chat
--session ID` continues what was begun in an editor. This module imports the protocol's library, and is itself imported by
`midstream acp` alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, RequestError, run_agent
from acp.interfaces import Client
from acp.schema import (
    AgentCapabilities,
    ClientCapabilities,
    CloseSessionResponse,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpCapabilities,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionResumeCapabilities,
    SetSessionConfigOptionResponse,
)
from msgspec.structs import replace

from .. import __version__
from ..core.errors import MidstreamError, MissingKey
from ..store import open_store
from .acp_session import FOLDER, EditorSession
from .options import Settings

MAX_SESSIONS = 32
PAGE = 50


class EditorAgent:
    """What the protocol asks of an agent."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._sessions: dict[str, EditorSession] = {}
        self._editor: Client | None = None
        self._can = ClientCapabilities()

    def on_connect(self, conn: Client) -> None:
        self._editor = conn

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: ClientCapabilities | None = None,
        client_info: Implementation | None = None,
        **_: Any,
    ) -> InitializeResponse:
        self._can = client_capabilities or ClientCapabilities()
        return InitializeResponse(
            protocol_version=min(protocol_version, PROTOCOL_VERSION),
            agent_info=Implementation(name="midstream", title="midstream", version=__version__),
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, audio=True, embedded_context=True),
                mcp_capabilities=McpCapabilities(http=True),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(),
                    resume=SessionResumeCapabilities(),
                    close=SessionCloseCapabilities(),
                ),
            ),
        )

    async def new_session(self, cwd: str, mcp_servers: Sequence[Any] | None = None, **_: Any) -> NewSessionResponse:
        session = await self._open(cwd, None, mcp_servers)
        return NewSessionResponse(session_id=session.id, config_options=session.config_options())

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Sequence[Any] | None = None, **_: Any
    ) -> LoadSessionResponse:
        session = await self._open(cwd, session_id, mcp_servers)
        await session.replay()
        return LoadSessionResponse(config_options=session.config_options())

    async def resume_session(
        self, session_id: str, cwd: str, mcp_servers: Sequence[Any] | None = None, **_: Any
    ) -> ResumeSessionResponse:
        """Like `load_session`, for an editor that still shows the conversation."""
        session = await self._open(cwd, session_id, mcp_servers)
        return ResumeSessionResponse(config_options=session.config_options())

    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None, **_: Any) -> ListSessionsResponse:
        offset = int(cursor) if cursor and cursor.isdecimal() else 0
        rows, more = await asyncio.to_thread(self._stored, cwd, offset)
        return ListSessionsResponse(sessions=rows, next_cursor=str(offset + PAGE) if more else None)

    async def close_session(self, session_id: str, **_: Any) -> CloseSessionResponse:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            await session.close()
        return CloseSessionResponse()

    async def prompt(self, session_id: str, prompt: Sequence[Any], **_: Any) -> PromptResponse:
        return await self._session(session_id).prompt(prompt)

    async def cancel(self, session_id: str, **_: Any) -> None:
        session = self._sessions.get(session_id)
        if session is not None:
            session.cancel()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> SetSessionConfigOptionResponse:
        session = self._session(session_id)
        try:
            await session.set_option(config_id, str(value))
        except MidstreamError as error:
            raise _refused(error) from None
        return SetSessionConfigOptionResponse(config_options=session.config_options())

    async def close(self) -> None:
        """End everything that sessions have started."""
        sessions, self._sessions = self._sessions, {}
        await asyncio.gather(*[session.close() for session in sessions.values()], return_exceptions=True)

    async def _open(self, cwd: str, session_id: str | None, mcp_servers: Sequence[Any] | None) -> EditorSession:
        if not Path(cwd).is_absolute() or not await asyncio.to_thread(Path(cwd).is_dir):
            raise RequestError(-32602, f"cwd must be the absolute path of a folder, got {cwd!r}")
        if session_id is not None and (before := self._sessions.pop(session_id, None)) is not None:
            await before.close()
        if len(self._sessions) >= MAX_SESSIONS:
            # An editor that never closes a session must not fill the machine with servers.
            oldest = next(iter(self._sessions))
            await self._sessions.pop(oldest).close()
        settings = self._settings if session_id is None else replace(self._settings, model=None, session=session_id)
        try:
            session = await self._opened(settings, cwd, mcp_servers)
        except MissingKey as error:
            # The model of a stored conversation may be out of reach here; the one of the command line is not.
            if session_id is None or self._settings.model is None:
                raise _refused(error) from None
            session = await self._opened(replace(settings, model=self._settings.model), cwd, mcp_servers)
        except MidstreamError as error:
            raise (_refused(error) if session_id is None else RequestError(-32002, str(error))) from None
        self._sessions[session.id] = session
        session.advertise_later()
        return session

    async def _opened(self, settings: Settings, cwd: str, mcp_servers: Sequence[Any] | None) -> EditorSession:
        assert self._editor is not None
        session = EditorSession(self._editor, settings, Path(cwd), self._can)
        await session.open(mcp_servers or ())
        return session

    def _session(self, session_id: str) -> EditorSession:
        session = self._sessions.get(session_id)
        if session is None:
            raise RequestError(-32602, f"no session {session_id!r} is open; session/new or session/load opens one")
        return session

    def _stored(self, cwd: str | None, offset: int) -> tuple[list[SessionInfo], bool]:
        store = open_store(self._settings.store_at)
        try:
            rows = store.list(PAGE, offset)
            folders = {row.id: store.get_meta(row.id, FOLDER) for row in rows}
        finally:
            store.close()
        found = [
            SessionInfo(
                session_id=row.id,
                cwd=folders[row.id] or cwd or str(Path.cwd()),
                title=row.title or None,
                updated_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(row.updated)),
            )
            for row in rows
            # What was begun in a terminal belongs to no folder, and is offered in each.
            if cwd is None or folders[row.id] in (None, cwd)
        ]
        return found, len(rows) == PAGE


def _refused(error: MidstreamError) -> RequestError:
    """An error of ours in the protocol's shape; the words are what the editor shows."""
    return RequestError(-32603 if error.retryable else -32602, str(error))


async def serve(settings: Settings) -> None:
    """Serve the editor that started us, until it closes our input."""
    agent = EditorAgent(settings)
    try:
        with suppress(ConnectionError):
            await run_agent(agent, use_unstable_protocol=True)  # type: ignore[arg-type]
    finally:
        await agent.close()
