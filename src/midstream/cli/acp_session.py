"""One conversation with an editor: its prompts, what is shown of the answers, and what is asked.

Events become updates: text and thoughts as they arrive, a tool call when it is whole, then its progress, its diff and its
result. Approval goes to the editor. Files that are open there are read and written there, if the editor offers it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from concurrent.futures import TimeoutError as NotInTime
from contextlib import aclosing
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from acp import RequestError
from acp.helpers import (
    text_block,
    tool_content,
    tool_diff_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_available_commands,
    update_tool_call,
    update_user_message_text,
)
from acp.interfaces import Client
from acp.schema import (
    AvailableCommand,
    AvailableCommandInput,
    ClientCapabilities,
    ConfigOptionUpdate,
    ImageContentBlock,
    PermissionOption,
    PromptResponse,
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    ToolCallLocation,
    ToolCallStart,
    ToolCallUpdate,
    ToolKind,
    UnstructuredCommandInput,
    Usage,
)
from msgspec.structs import replace

from ..agent.approval import ALWAYS, ONCE, Decision
from ..agent.approval_request import ApprovalRequest
from ..client.mcp_server import McpServer, literal, server_name
from ..core.blocks import Media, Opaque, Text, Thinking, ToolCall, ToolResponse, Turn
from ..core.errors import LocalError, MidstreamError
from ..core.events import (
    AgentEvent,
    CompactionStarted,
    ErrorEvent,
    Stopped,
    TextDelta,
    ThinkingDelta,
    ToolCallEnd,
    ToolFinished,
    ToolStarted,
)
from ..core.plural import pluralize
from ..core.tools import parse_arguments
from ..sim.providers import MODELS, SIM
from .attachment import MAX_TEXT, fenced, human_text
from .editor_chat import COMMANDS, EditorChat
from .mention import written
from .model_name import find_model
from .models import key_state
from .options import EFFORTS, Settings, parse_thinking
from .view import call_line, shortened
from .workspace import Workspace

FOLDER = "acp_folder"
"""Where a conversation with an editor took place, among the stored settings."""
_KINDS: dict[str, ToolKind] = {
    "read_file": "read",
    "glob": "search",
    "grep": "search",
    "write_file": "edit",
    "edit_file": "edit",
    "bash": "execute",
    "skill": "read",
}
_STOPS = {"text": "end_turn", "max_tokens": "max_tokens", "refusal": "refusal"}
_EDITOR_SECONDS = 20.0
_AFTER_ANSWER = 0.05  # seconds until the editor has read the answer that names the session
_MODEL, _THINKING = "model", "thinking"


class EditorFiles:
    """The files that are open in the editor, for tools that run in threads."""

    def __init__(
        self, editor: Client, session_id: str, loop: asyncio.AbstractEventLoop, can: ClientCapabilities
    ) -> None:
        self._editor = editor
        self._session_id = session_id
        self._loop = loop
        self._reads = bool(can.fs and can.fs.read_text_file)
        self._writes = bool(can.fs and can.fs.write_text_file)

    def read(self, path: str) -> str | None:
        if not self._reads:
            return None
        answer = self._asked(self._editor.read_text_file(session_id=self._session_id, path=path))
        return None if answer is None else str(answer.content)

    def write(self, path: str, text: str) -> bool:
        if not self._writes:
            return False
        return self._asked(self._written(path, text)) is not None

    async def _written(self, path: str, text: str) -> bool:
        await self._editor.write_text_file(session_id=self._session_id, path=path, content=text)
        return True

    def _asked(self, question: Any) -> Any:
        asked = asyncio.run_coroutine_threadsafe(question, self._loop)
        try:
            return asked.result(_EDITOR_SECONDS)
        except (RequestError, NotInTime, ConnectionError):
            asked.cancel()
            return None  # the disk has it too


class EditorSession:
    """A conversation in a folder, shown by an editor."""

    def __init__(self, editor: Client, settings: Settings, folder: Path, can: ClientCapabilities) -> None:
        self._editor = editor
        self._folder = folder
        self.id = settings.session or secrets.token_hex(8)
        opened = EditorFiles(editor, self.id, asyncio.get_running_loop(), can)
        self.workspace = Workspace(settings, ask=self._approve, folder=folder, opened=opened)
        self._chat = EditorChat(self.workspace)
        self._answering: asyncio.Task[str] | None = None
        self._advertising: asyncio.Task[None] | None = None
        self._told: list[AvailableCommand] = []
        self._cancelled = False
        self._failed: MidstreamError | None = None
        self._shown: set[str] = set()
        self._open: dict[str, None] = {}  # calls whose end the editor has not seen, in their order
        self._changed: set[str] = set()
        self._updating: set[asyncio.Task[None]] = set()

    async def open(self, mcp_servers: Sequence[Any]) -> None:
        """Open the workspace and start the servers that the editor names."""
        await self.workspace.__aenter__()
        try:
            toolbox = self.workspace.agent.toolbox
            toolbox.watch = self._show_change
            toolbox.progress = self._progress
            if servers := _servers(mcp_servers, self._folder):
                found = await self.workspace.open_mcp(always=True)
                assert found is not None
                for server in servers:
                    if server.name not in found.running.connections:
                        found.running.add(server)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        self.cancel()
        for task in (self._answering, self._advertising):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait((task,))
        await self.workspace.__aexit__(None, None, None)

    def cancel(self) -> None:
        """Stop the answer; what has arrived is kept."""
        if self._answering is not None and not self._answering.done():
            self._cancelled = True
            self._answering.cancel()

    async def prompt(self, blocks: Sequence[Any]) -> PromptResponse:
        """Answer a message of the user."""
        if self._answering is not None and not self._answering.done():
            raise RequestError(-32600, "this session is still answering; cancel that first")
        self._cancelled, self._failed = False, None
        first = len(self.workspace.session.conversation.turns)
        content = _content(blocks)
        text = "".join([part for part in content if isinstance(part, str)]).strip()
        work = self._command(text) if text.startswith("/") and self._chat.knows(text) else self._answer(content)
        self._answering = asyncio.create_task(work)
        try:
            stopped = await self._answering
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._cancelled or (task is not None and task.cancelling()):
                raise
            stopped = "cancelled"
            await self._finish_interrupted()
        except MidstreamError as error:
            raise RequestError(-32603, str(error)) from None
        finally:
            self.workspace.store_settings()
        await self._tell_notices()
        return PromptResponse(stop_reason=stopped, usage=self._usage(first))  # type: ignore[arg-type]

    async def replay(self) -> None:
        """Show the editor the turns that there are."""
        for turn in self.workspace.session.conversation.turns:
            await self._replay(turn)

    def config_options(self) -> list[Any]:
        """What the user can choose in the editor: the model, and how hard it thinks."""
        options = self.workspace.session.options
        thinking = options.effort or options.thinking or "auto"
        efforts = [("auto", "The model's default"), ("on", "On"), ("off", "Off"), *[(each, each) for each in EFFORTS]]
        return [
            SessionConfigOptionSelect(
                type="select",
                id=_MODEL,
                name="Model",
                description="Who answers next; the conversation goes on",
                category="model",
                current_value=self.workspace.session.model,
                options=[SessionConfigSelectOption(value=name, name=name) for name in self._models()],
            ),
            SessionConfigOptionSelect(
                type="select",
                id=_THINKING,
                name="Thinking",
                category="thought_level",
                current_value=thinking,
                options=[SessionConfigSelectOption(value=value, name=name) for value, name in efforts],
            ),
        ]

    async def set_option(self, config_id: str, value: str) -> None:
        """Change one of the options; what another model will see of the conversation is told as a thought."""
        session = self.workspace.session
        if config_id == _MODEL:
            report = await self.workspace.use(value)
            if session.conversation.turns:
                lines = [f"Switched to {session.model}.", *report.lines()]
                await self._update(update_agent_thought_text("\n".join(lines) + "\n"))
        elif config_id == _THINKING:
            thinking, effort = (None, None) if value == "auto" else parse_thinking(value)
            session.options = replace(session.options, thinking=thinking, effort=effort)
            self.workspace.store_settings()
        else:
            raise LocalError(f"no option {config_id!r}; expected {_MODEL} or {_THINKING}")

    def advertise_later(self) -> None:
        """Tell the editor of the commands, once it knows the session."""
        self._advertising = asyncio.create_task(self._advertise())

    async def _advertise(self) -> None:
        await asyncio.sleep(_AFTER_ANSWER)
        await self._tell_commands()
        if self.workspace.mcp is not None:
            # Prompts of servers are known when these have started.
            await self.workspace.mcp.running.ready()
            await self._tell_commands()

    async def _tell_commands(self) -> None:
        """Tell the editor which commands there are, if that is news."""
        rows = self._commands()
        if rows != self._told:
            self._told = rows
            await self._update(update_available_commands(rows))

    def _commands(self) -> list[AvailableCommand]:
        rows = [
            AvailableCommand(
                name=each.name,
                description=each.help,
                input=AvailableCommandInput(
                    root=UnstructuredCommandInput(hint=each.usage.partition(" ")[2] or "nothing")
                ),
            )
            for each in COMMANDS
        ]
        if self.workspace.mcp is not None:
            for called, (_, prompt) in self.workspace.mcp.running.prompts().items():
                hint = " ".join([each.name for each in prompt.arguments]) or "nothing"
                rows.append(
                    AvailableCommand(
                        name=called,
                        description=prompt.description or f"A prompt of {called}",
                        input=AvailableCommandInput(root=UnstructuredCommandInput(hint=hint)),
                    )
                )
        return rows

    async def _answer(self, content: Sequence[str | Media]) -> str:
        await self._keep()
        stopped = "text"
        async with aclosing(self.workspace.agent.run(*content)) as events:
            async for event in events:
                await self._show(event)
                if isinstance(event, ErrorEvent):
                    self._failed = event.to_exception()
                elif isinstance(event, Stopped):
                    stopped = event.reason
        if stopped == "failed" and self._failed is not None:
            raise self._failed
        # Limits of ours: the editor has one word for all of them.
        return _STOPS.get(stopped, "max_turn_requests")

    async def _command(self, text: str) -> str:
        before = self.workspace.session.model
        content, lines = await self._chat.run(text)
        if lines:
            await self._update(update_agent_message_text("\n".join(lines) + "\n"))
        if self.workspace.session.model != before:
            options = ConfigOptionUpdate(session_update="config_option_update", config_options=self.config_options())
            await self._update(options)
        return await self._answer(content) if content else "end_turn"

    async def _keep(self) -> None:
        """Store the conversation under the id that the editor knows, when there is something to store."""
        session, store = self.workspace.session, self.workspace.writable_store
        if store is None or session.conversation.id:
            return
        named = replace(session.conversation, id=self.id)
        await asyncio.to_thread(store.create, named)
        await asyncio.to_thread(store.set_meta, self.id, FOLDER, str(self._folder))
        session.conversation = named

    async def _show(self, event: AgentEvent) -> None:
        if isinstance(event, TextDelta):
            await self._update(update_agent_message_text(event.delta))
        elif isinstance(event, ThinkingDelta):
            await self._update(update_agent_thought_text(event.delta))
        elif isinstance(event, ToolCallEnd):
            await self._start(event.block)
        elif isinstance(event, ToolStarted):
            # A call that was written as text is first seen here.
            await self._start(event.call)
            await self._update(update_tool_call(event.call.id, status="in_progress"))
        elif isinstance(event, ToolFinished):
            await self._finish(event.response)
        elif isinstance(event, CompactionStarted):
            await self._update(update_agent_thought_text(f"Summarising {pluralize(event.turns, 'earlier turn')} …\n"))

    async def _start(self, call: ToolCall) -> None:
        if call.id in self._shown:
            return
        self._shown.add(call.id)
        self._open[call.id] = None
        arguments = parse_arguments(call)
        path = arguments.get("path")
        places = [ToolCallLocation(path=str(self._folder / path))] if isinstance(path, str) else []
        await self._update(
            ToolCallStart(
                session_update="tool_call",
                tool_call_id=call.id,
                title=shortened(call_line(call), 120),
                kind=_KINDS.get(call.name, "other"),
                status="pending",
                locations=places,
                raw_input=arguments,
            )
        )

    async def _finish_interrupted(self) -> None:
        """Show the end of calls that were stopped; an editor would show them as running for ever."""
        turns = self.workspace.session.conversation.turns
        results = {block.call_id: block for turn in turns for block in turn.blocks if isinstance(block, ToolResponse)}
        for call_id in tuple(self._open):
            if call_id in results:
                await self._finish(results[call_id])
            else:
                await self._update(update_tool_call(call_id, status="failed"))
        self._open.clear()

    async def _finish(self, response: ToolResponse) -> None:
        self._open.pop(response.call_id, None)
        failed = response.is_error or response.failed
        parts = [tool_content(_block(part)) for part in response.content]
        # The diff of an edit that was made stays; what the tool says of it adds nothing.
        keeps_diff = response.call_id in self._changed and not failed
        await self._update(
            update_tool_call(
                response.call_id,
                status="failed" if failed else "completed",
                content=None if keeps_diff else parts,
                raw_output=response.text,
            )
        )

    async def _approve(self, request: ApprovalRequest) -> Decision:
        options = [PermissionOption(option_id="once", name="Allow", kind="allow_once")]
        if request.scope:
            what = {"command": "this exact command", "arguments": "exactly these arguments", "tool": "this tool"}[
                request.scope
            ]
            options.append(PermissionOption(option_id="always", name=f"Always allow {what}", kind="allow_always"))
        options.append(PermissionOption(option_id="no", name="Reject", kind="reject_once"))
        asked = ToolCallUpdate(
            tool_call_id=request.call_id,
            title=shortened(" ".join(request.shown().split("\n")[0].split()), 120),
            kind=_KINDS.get(request.tool, "other"),
            status="pending",
            content=self._shown_request(request),
            raw_input=request.arguments,
        )
        try:
            answer = await self._editor.request_permission(session_id=self.id, tool_call=asked, options=options)
        except RequestError as error:
            return Decision(False, reason=f"the editor could not ask the user: {error}")
        chosen = getattr(answer.outcome, "option_id", None)
        if chosen == "always" and request.scope:
            return ALWAYS
        return ONCE if chosen == "once" else Decision(False, reason="" if chosen == "no" else "the user cancelled")

    async def _show_change(self, request: ApprovalRequest) -> None:
        """The diff of a call that is allowed and about to run, asked about or not."""
        if request.change is not None and request.change.before != request.change.after:
            self._changed.add(request.call_id)
            await self._update(update_tool_call(request.call_id, content=self._shown_request(request)))

    def _shown_request(self, request: ApprovalRequest) -> list[Any]:
        change = request.change
        if change is None:
            return [tool_content(text_block(request.shown()))]
        parts: list[Any] = [tool_diff_content(str(self._folder / change.path), change.after, change.before)]
        remarks = [f"caution: {request.caution}"] if request.caution else []
        if change.unread:
            remarks.append(change.summary())
        return [*parts, *[tool_content(text_block(remark)) for remark in remarks]]

    def _progress(self, call: ToolCall, text: str) -> None:
        update = update_tool_call(call.id, status="in_progress", content=[tool_content(text_block(text))])
        task = asyncio.get_running_loop().create_task(self._update(update))
        self._updating.add(task)
        task.add_done_callback(self._updating.discard)

    async def _replay(self, turn: Turn) -> None:
        if turn.speaker == "human":
            await self._update(update_user_message_text(human_text(turn)))
            return
        for block in turn.blocks:
            if isinstance(block, ToolCall):
                await self._start(block)
            elif isinstance(block, ToolResponse):
                await self._finish(block)
            elif isinstance(block, Thinking) and block.text:
                await self._update(update_agent_thought_text(block.text))
            elif isinstance(block, Text) and turn.speaker == "ai" and block.text:
                await self._update(update_agent_message_text(block.text))

    async def _tell_notices(self) -> None:
        servers = self.workspace.mcp
        if servers is None:
            return
        for line in servers.running.take_notices():
            await self._update(update_agent_thought_text(f"{line}\n"))
        # What a server offers may have changed meanwhile.
        await self._tell_commands()

    async def _update(self, update: Any) -> None:
        await self._editor.session_update(session_id=self.id, update=update)

    def _models(self) -> list[str]:
        """The models that can be used now: those with a key, and the doubles, the current one first."""
        catalog = self.workspace.catalog
        ready = {
            row.name for row in catalog.registry.providers.values() if row.name != SIM and key_state(catalog, row)[1]
        }
        names = [name for name in catalog.names() if catalog.resolve(find_model(catalog, name)).provider in ready]
        return list(dict.fromkeys([self.workspace.session.model, *names, *[f"{SIM}/{model}" for model in MODELS]]))

    def _usage(self, first: int) -> Usage | None:
        costs = self.workspace.session.costs(first)
        if not costs:
            return None
        read, written = sum(each.usage.read for each in costs), sum(each.usage.output for each in costs)
        return Usage(total_tokens=read + written, input_tokens=read, output_tokens=written)


def _content(blocks: Sequence[Any]) -> list[str | Media]:
    """A message of the editor: one text, what it takes along in fences below it, and the media behind it."""
    said: list[str] = []
    attached: list[str] = []
    media: list[Media] = []
    for block in blocks:
        kind = block.type
        if kind == "text":
            said.append(block.text)
        elif kind in ("image", "audio"):
            media.append(Media(block.mime_type, block.data))
        elif kind == "resource_link":
            path = _path(block.uri)
            said.append(f"@{path}" if path == block.uri else written(path))
        elif getattr(block.resource, "text", None) is not None:
            attached.append(fenced("file", _path(str(block.resource.uri)), block.resource.text[:MAX_TEXT]))
        else:
            media.append(
                Media(block.resource.mime_type or "", block.resource.blob, name=_path(str(block.resource.uri)))
            )
    text = "\n\n".join([part for part in ("".join(said), *attached) if part])
    return [*([text] if text else []), *media]


def _path(uri: str) -> str:
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else uri


def _block(part: Text | Media | Opaque) -> Any:
    if isinstance(part, Text):
        return text_block(part.text)
    if isinstance(part, Opaque):
        return text_block("[something that only its host can read]")
    if part.kind == "image" and part.data:
        return ImageContentBlock(type="image", data=part.data, mime_type=part.mime)
    return text_block(f"[{part.kind}: {part.name or part.mime}]")


def _servers(given: Sequence[Any], folder: Path) -> list[McpServer]:
    """The MCP servers that the editor passes on; they are its user's own."""
    found: list[McpServer] = []
    for each in given:
        name = server_name(each.name)
        if getattr(each, "command", None):
            # The editor has put its own variables in by now.
            command = tuple([literal(word) for word in (each.command, *each.args)])
            env = {variable.name: literal(variable.value) for variable in each.env}
            found.append(McpServer(name, command=command, env=env, cwd=str(folder)))
        elif getattr(each, "url", None) and getattr(each, "type", "") == "http":
            headers = {header.name: literal(header.value) for header in each.headers}
            found.append(McpServer(name, url=str(each.url), headers=headers))
        else:
            raise LocalError(f"MCP server {each.name!r}: only stdio and http servers are supported")
    return found
