"""midstream as an MCP server: other agents ask any model, have a history examined, and search the stored conversations.

Nobody sits here to be asked. So approvals are those of `midstream ask` without a terminal: a model that is asked gets only the tools
that `midstream mcp serve -T` names, and what writes or runs happens only if a pattern of `--allow` covers it. An agent cannot
approve for the user by way of the protocol. This module imports the SDK, and is itself imported by `midstream mcp serve` alone.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from contextlib import aclosing, closing
from typing import Any

import click
import msgspec
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from msgspec.structs import replace

from .. import __version__
from ..core.errors import LocalError, MidstreamError
from ..core.events import ErrorEvent, Stopped, TextDelta
from ..doctor import examine
from ..store import Entry, open_store
from ..store.importing import read_history
from .options import Settings
from .workspace import Workspace, find_session

INSTRUCTIONS = (
    "midstream keeps one conversation that any model can continue. ask_model asks a model (provider/model) and returns the id of the "
    "conversation; pass that id with another model to continue it there. search_conversations finds earlier ones, doctor says what is "
    "broken in a history."
)
MAX_LIMIT = 50
MAX_HISTORY = 8 << 20
_TICK = 0.5  # seconds between two reports of progress


class Answered(msgspec.Struct, frozen=True):
    """What `ask_model` found out."""

    text: str
    model: str
    conversation: str
    stopped: str
    switch: tuple[str, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None


class Desk:
    """Where other agents' requests are answered: the settings of `midstream mcp serve`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def ask(self, prompt: str, model: str, conversation: str, system: str, tell: Any) -> Answered:
        """One answer, in a new conversation or an earlier one; `tell` gets the text so far now and then."""
        if not prompt.strip():
            raise LocalError("the prompt is empty")
        if system and conversation:
            raise LocalError("system is for a new conversation; leave it out to continue one")
        settings = replace(
            self._settings,
            model=model or self._settings.model,
            session=conversation or None,
            system=system or self._settings.system,
        )
        async with Workspace(settings) as workspace:
            session = workspace.session
            report = session.preview() if session.conversation.turns else None
            first = len(session.conversation.turns)
            failed: MidstreamError | None = None
            stopped = ""
            said, told = "", time.monotonic()
            async with aclosing(workspace.agent.run(prompt)) as events:
                async for event in events:
                    if isinstance(event, TextDelta):
                        said += event.delta
                        if time.monotonic() - told > _TICK:
                            told = time.monotonic()
                            await tell(len(said), said[-200:])
                    elif isinstance(event, ErrorEvent):
                        failed = event.to_exception()
                    elif isinstance(event, Stopped):
                        stopped = event.reason
            workspace.store_settings()
            if stopped == "failed" and failed is not None:
                raise failed
            turns = session.conversation.turns[first:]
            answers = [turn for turn in turns if turn.speaker == "ai" and not turn.failure]
            costs = session.costs(first)
            return Answered(
                answers[-1].text if answers else "",
                session.model,
                session.conversation.id,
                stopped,
                tuple(report.lines()) if report is not None else (),
                sum(each.usage.read for each in costs),
                sum(each.usage.output for each in costs),
                None
                if not costs or any(each.cost is None for each in costs)
                else sum(each.cost or 0 for each in costs),
            )

    def search(self, query: str, limit: int) -> list[dict[str, Any]]:
        """Turns of stored conversations that contain all words of the query."""
        if not query.strip():
            raise LocalError("the query is empty")
        with closing(open_store(self._settings.store_at)) as store:
            hits = store.search(query, limit=max(1, min(limit, MAX_LIMIT)))
            infos = {each: store.info(each) for each in dict.fromkeys([hit.conversation for hit in hits])}
        return [
            {
                "conversation": hit.conversation,
                "title": infos[hit.conversation].title,
                "updated": time.strftime("%Y-%m-%d", time.localtime(infos[hit.conversation].updated)),
                "models": list(infos[hit.conversation].models),
                "speaker": hit.speaker,
                "text": hit.snippet,
            }
            for hit in hits
        ]

    def diagnose(self, conversation: str, history: str, format: str) -> dict[str, Any]:
        """What is broken in a stored conversation or in a history that is given, and who would refuse it."""
        if bool(conversation) == bool(history):
            raise LocalError("expected either the id of a stored conversation or a history")
        entries = self._stored(conversation) if conversation else self._given(history, format)
        found = [examine(entry.conversation, entry.original) for entry in entries]
        return {
            "broken": any(each.broken for each in found),
            "conversations": [
                {
                    "findings": [str(finding) for finding in each.findings],
                    "cautions": [str(caution) for caution in each.cautions],
                    "refused_by": {
                        verdict.host: [problem.message for problem in verdict.problems]
                        for verdict in each.verdicts
                        if verdict.problems
                    },
                }
                for each in found
            ],
        }

    def _stored(self, conversation: str) -> list[Entry]:
        with closing(open_store(self._settings.store_at)) as store:
            return [replace(store.entry(find_session(store, conversation)), original=None)]

    def _given(self, history: str, format: str) -> list[Entry]:
        if len(history) > MAX_HISTORY:
            raise LocalError(
                f"the history is larger than {MAX_HISTORY >> 20} MB; save it to a file and run midstream doctor"
            )
        return list(read_history(history.encode(), format or None))


def make_server(desk: Desk) -> MCPServer:
    """The server of the SDK, with three tools."""
    server: MCPServer = MCPServer("midstream", instructions=INSTRUCTIONS, version=__version__, log_level="CRITICAL")
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)

    def result(value: Any, *texts: str) -> CallToolResult:
        plain = msgspec.to_builtins(value)
        return CallToolResult(
            content=[TextContent(type="text", text=text) for text in texts if text], structured_content=plain
        )

    async def ask_model(
        ctx: Context, prompt: str, model: str = "", conversation: str = "", system: str = ""
    ) -> CallToolResult:
        """Ask a model one question and get its answer. `model` is provider/model or an alias, such as moonshot/kimi-k2.5
        (sim/kimi-k2.5 needs no key); without it, the user's default. With the id of an earlier `conversation`, it is
        continued, with any model: the switch report says what that model gets of it."""

        async def tell(done: int, text: str) -> None:
            await ctx.report_progress(done, None, text)

        try:
            found = await desk.ask(prompt, model, conversation, system, tell)
        except MidstreamError as error:
            raise ToolError(str(error)) from None
        lines = [f"model: {found.model}", f"conversation: {found.conversation or '(not stored)'}", *found.switch]
        return result(found, found.text, "\n".join(lines))

    async def search_conversations(query: str, limit: int = 10) -> CallToolResult:
        """Find turns of the user's stored conversations that contain all these words."""
        try:
            found = await asyncio.to_thread(desk.search, query, limit)
        except MidstreamError as error:
            raise ToolError(str(error)) from None
        lines = [
            f"{row['conversation'][:8]} {row['updated']} {row['speaker']}: {' '.join(row['text'].split())}"
            for row in found
        ]
        return result({"matches": found}, "\n".join(lines) or "no matches")

    async def doctor(conversation: str = "", history: str = "", format: str = "") -> CallToolResult:
        """Say what is broken in a conversation and which hosts would refuse it: a stored one by its id, or a `history` as
        JSON text (OpenAI chat messages, Anthropic messages, Responses items, Gemini contents, midstream's own; `format` if it is not
        recognised). Nothing is written."""
        try:
            found = await asyncio.to_thread(desk.diagnose, conversation, history, format)
        except MidstreamError as error:
            raise ToolError(str(error)) from None
        lines = [finding for each in found["conversations"] for finding in (*each["findings"], *each["cautions"])]
        return result(found, "\n".join(lines) or "nothing is broken")

    server.add_tool(ask_model, structured_output=False)
    server.add_tool(search_conversations, annotations=reads, structured_output=False)
    server.add_tool(doctor, annotations=reads, structured_output=False)
    return server


async def serve_stdio(settings: Settings) -> None:
    """Serve whoever started us, until they close our input."""
    await make_server(Desk(settings)).run_stdio_async()


async def serve_http(settings: Settings, port: int, token: str | None) -> None:
    """Serve this machine, for whoever has the token."""
    key = token or secrets.token_urlsafe(24)
    app = _guarded(make_server(Desk(settings)).streamable_http_app(), key)
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="critical", ws="none")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    if server.started:
        where = server.servers[0].sockets[0].getsockname()[1]
        click.echo(f"midstream listens on http://127.0.0.1:{where}/mcp", err=True)
        click.echo("  header: Authorization: Bearer " + (key if token is None else "(the token you gave)"), err=True)
        sys.stderr.flush()
    await serving


def _guarded(app: Any, key: str) -> Any:
    """Only with the token: other users and every page in a browser can reach a port on loopback."""
    wanted = f"Bearer {key}".encode()

    async def check(scope: Any, receive: Any, send: Any) -> None:
        given = dict(scope.get("headers", ())).get(b"authorization", b"")
        if scope["type"] == "http" and not secrets.compare_digest(given, wanted):
            await send({"type": "http.response.start", "status": 401, "headers": [(b"content-type", b"text/plain")]})
            await send(
                {"type": "http.response.body", "body": b"the header Authorization: Bearer TOKEN is missing or wrong\n"}
            )
        else:
            await app(scope, receive, send)

    return check
