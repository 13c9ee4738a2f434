"""Everything a conversation in the terminal needs, opened and closed together: catalog, client, store, session, tools, agent.

A model named `sim/…` starts the loopback doubles inside this process, once. The settings of a conversation (model, tool
format, thinking, reasoning) are stored with it and apply again when it is resumed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from ..agent.approval import Approval, Ask
from ..agent.loop import Agent
from ..agent.run import RunLimits
from ..agent.tool import Tool
from ..agent.toolbox import Toolbox
from ..client.catalog import Catalog
from ..client.client import Client
from ..client.compaction import Compaction
from ..client.config import ChatConfig, explain_old_word, load_config, old_words
from ..client.session import Session
from ..core.blocks import Conversation
from ..core.errors import ConfigError, LocalError
from ..core.handoff import SwitchReport
from ..core.ids import OLD_WORDS
from ..core.modules import late_module
from ..core.visible import visible
from ..sim.providers import SIM, sim_provider
from ..store import Entry, Store, database_path, open_store
from ..store.paths import shown_address
from .model_name import find_model
from .options import POLICIES, Settings, default_model, stored_options
from .sandbox import chosen_sandbox
from .system_prompt import Guidance, SystemPrompt

if TYPE_CHECKING:
    from .. import recording
    from ..agent.files import OpenFiles
    from ..agent.sandbox import Sandbox
    from ..recording import Recorder
    from .mcp_servers import FoundServers
else:
    recording = late_module("..recording", globals())  # few conversations are recorded, and every start would pay

OWN_PROMPT = "own_system_prompt"  # what the user said of it; files said the rest
SIM_DELAY = "0.02"  # seconds before each piece, so that the tokens are seen arriving
SIM_DELAY_VARIABLE = "MIDSTREAM_SIM_DELAY"
MCP_FILE = ".mcp.json"


class Workspace:
    """`async with Workspace(settings) as workspace`: then `workspace.agent.run(text)`. `folder` is where its tools work and
    whose files count, `opened` a program that has files of it open."""

    agent: Agent
    sandbox: Sandbox | None = None
    mcp: FoundServers | None = None

    def __init__(
        self,
        settings: Settings,
        *,
        ask: Ask | None = None,
        folder: str | os.PathLike[str] = ".",
        opened: OpenFiles | None = None,
        limits: RunLimits = RunLimits(),  # noqa: B008  (frozen)
    ) -> None:
        self.settings = settings
        self._ask = ask
        self._folder = Path(folder).resolve()
        self._opened = opened
        self.limits = limits
        self._stack = AsyncExitStack()
        self._loaded = load_config(self._folder)
        for told in self._loaded.ignored:
            click.echo(visible(f"midstream: ignored: {told}"), err=True)
        for told in old_words(self._loaded):
            click.echo(visible(f"midstream: {told}"), err=True)
        # Known from the beginning, so that it is listed and suggested; started when it is used.
        self._recorder = _recorder(settings.record, settings.scrub)
        self._client = Client(
            Catalog(self._loaded, providers=[sim_provider("http://127.0.0.1")]), recorder=self._recorder
        )
        self._has_sim = False
        self.guidance = Guidance(settings, self._loaded.config, self._folder)
        self.told = SystemPrompt("")
        self._own_prompt: str | None = None
        self.store: Store | None = None

    async def __aenter__(self) -> Workspace:
        async with self._stack:
            await self._open()
            self._stack = self._stack.pop_all()  # opened without an error: closed by __aexit__, not here
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, traceback)
        for problem in () if self._recorder is None else self._recorder.problems:
            click.echo(visible(f"midstream: {problem}"), err=True)

    async def _open(self) -> None:
        settings = self.settings
        self._stack.push_async_callback(self._client.aclose)
        if settings.store:
            self.store = open_store(settings.store_at)
            self._stack.callback(self.store.close)
            if self._read_only:
                where = shown_address(settings.store_at) if settings.store_at else str(database_path())
                click.echo(visible(f"midstream: {where} is read-only: nothing of this is stored"), err=True)
        # The command line wins over what was stored with the conversation, and that over the configuration.
        conversation, stored = self._conversation()
        _explain_stored_word(stored)
        model = await self.reach(settings.model or stored.get("model") or default_model(self._loaded, os.environ)[0])
        toolbox = self._toolbox()
        await self._open_servers(toolbox)
        session = Session(
            model,
            store=self.writable_store,
            tools=toolbox.specs(),
            conversation=conversation,
            options=settings.options(stored),
            client=self._client,
            compaction=_compaction(self._loaded.config.chat),
        )
        self.agent = Agent(session, toolbox, self.limits)

    def _toolbox(self) -> Toolbox:
        settings = self.settings
        approve = Approval(
            self._ask,
            yolo=settings.yolo,
            unattended=settings.unattended,
            allow=settings.allow,
            advice="--yolo allows everything",
        )
        self.sandbox = chosen_sandbox(settings, self._loaded.config.sandbox, self._folder)
        self._open_skills()
        return Toolbox(
            self.guidance.tools(settings.tools),
            approve=approve,
            workdir=self._folder,
            sandbox=self.sandbox,
            opened=self._opened,
        )

    async def open_mcp(self, *, always: bool = False) -> FoundServers | None:
        """The MCP servers there are, started; None if none is named anywhere and `always` is not said."""
        await self._open_servers(self.agent.toolbox, always=always)
        return self.mcp

    async def _open_servers(self, toolbox: Toolbox, *, always: bool = False) -> None:
        named = bool(self._loaded.config.mcp) or (self.guidance.project.root / MCP_FILE).is_file()
        if self.mcp is not None or not (always or ("mcp" in self.settings.tools and named)):
            return
        from .mcp_servers import FoundServers  # most conversations have none

        # A question may never come to a server's tools; a chat will be at a prompt for a while.
        self.mcp = FoundServers(self._loaded, self.guidance.project, lazy=not self.settings.is_chat)
        await self._stack.enter_async_context(self.mcp.running)
        toolbox.add(self.mcp.running)
        toolbox.approve.allow(*self.mcp.patterns())

    def _open_skills(self) -> None:
        """Let sandboxed commands read the skills there are, since their scripts run through bash."""
        if self.sandbox is not None:
            self.sandbox.read = (*self._loaded.config.sandbox.read, *self.guidance.skill_folders())

    @property
    def session(self) -> Session:
        return self.agent.session

    @property
    def catalog(self) -> Catalog:
        return self._client.catalog

    async def reach(self, word: str) -> str:
        """The model that a word means, once it can be used: the doubles are running, its key is set."""
        model = find_model(self.catalog, word)
        if not self._has_sim and self.catalog.resolve(model).provider == SIM:
            await self._start_sim()
        target = self.catalog.resolve(model)
        ways = f"store one with `midstream keys set {target.provider}`, or try a model that needs none: {SIM}/kimi-k2.5"
        self.catalog.check_key(target, otherwise=ways)
        return model

    async def use(self, word: str) -> SwitchReport:
        """Change the model of the conversation."""
        report = self.session.use(await self.reach(word))
        self.store_settings()
        return report

    def store_settings(self) -> None:
        """Store the settings with the conversation, if it is stored already."""
        conversation_id = self.session.conversation.id
        if self.store is None or not conversation_id:
            return
        options = self.session.options
        current = {
            "model": self.session.model,
            "tool_format": options.tool_format,
            "thinking": options.thinking,
            "effort": options.effort,
            "missing_reasoning": options.missing_reasoning if options.missing_reasoning != POLICIES[0] else None,
        }
        # Only if files added something to it, and only while the
        # conversation still has the prompt that was made here.
        if self.told.own != self.told.text == self.session.conversation.system:
            current[OWN_PROMPT] = self.told.own
        for key, value in current.items():
            # Read first: mostly nothing has changed, and a write waits for the disk.
            if self.store.get_meta(conversation_id, key) != value:
                self.store.set_meta(conversation_id, key, value)

    def new_conversation(self) -> Conversation:
        """An empty conversation, told what the files say now; `told` says what that is."""
        self.told = self.guidance.system_prompt(self._own_prompt)
        return Conversation(system=self.told.text)

    def start_new(self) -> None:
        """Continue with a new conversation."""
        self.session.conversation = self.new_conversation()
        self._open_skills()
        for tool in self.guidance.tools(("skill",)):  # the first skill may have come since the chat began
            if isinstance(tool, Tool) and tool.name not in self.agent.toolbox:
                self.agent.toolbox.add(tool)
                self.session.tools = (*self.session.tools, tool.spec)

    async def resume(self, conversation_id: str) -> SwitchReport | None:
        """Continue a stored conversation with its settings."""
        store = self.require_store()
        entry = store.entry(conversation_id)
        model = await self.reach(entry.meta.get("model") or self.session.model)
        _explain_stored_word(entry.meta)
        self._note_own_prompt(entry)
        self.session.conversation = self._continued(entry.conversation)
        self.session.options = stored_options(entry.meta)
        return self.session.use(model) if entry.conversation.turns else None

    def require_store(self) -> Store:
        if self.store is None:
            raise LocalError("this chat stores nothing: start it without --no-store")
        return self.store

    def _conversation(self) -> tuple[Conversation, Mapping[str, str]]:
        settings = self.settings
        if settings.session is None and not settings.resume:
            return self.new_conversation(), {}
        store = self.require_store()
        found = find_session(store, settings.session)
        entry = store.entry(found)
        self._note_own_prompt(entry)
        return self._continued(entry.conversation), entry.meta

    @property
    def writable_store(self) -> Store | None:
        """Where conversations are kept; None if nowhere."""
        return None if self._read_only else self.store

    @property
    def _read_only(self) -> bool:
        """Whether the store can only be read: what is said now is then kept nowhere."""
        return bool(getattr(self.store, "read_only", False))

    def _continued(self, conversation: Conversation) -> Conversation:
        """A stored conversation to go on with; of a read-only store, as one that is not stored."""
        return replace(conversation, id="") if self._read_only else conversation

    def _note_own_prompt(self, entry: Entry) -> None:
        """A new conversation after a resumed one keeps the user's part of its system prompt."""
        self._own_prompt = entry.meta.get(OWN_PROMPT, entry.conversation.system_text)

    async def _start_sim(self) -> None:
        from ..sim.server import Sim  # imports a web server

        sim = await self._stack.enter_async_context(Sim(delay=_sim_delay()))
        # Only `sim` itself: all other providers keep their real hosts.
        self._client.catalog = Catalog(self._loaded, providers=[sim_provider(sim.url)])
        self._has_sim = True


def find_session(store: Store, wanted: str | None) -> str:
    """The id that starts with `wanted`; None means the last conversation in which a model has answered."""
    if wanted is None:
        return _last_answered(store)
    offset, found = 0, list[str]()
    # An id that is typed may be any of them, also an old one.
    while rows := store.list(200, offset):
        found += [row.id for row in rows if row.id.startswith(wanted)]
        offset += len(rows)
    if wanted in found:
        return wanted
    if len(found) != 1:
        many = f"{len(found)} conversation ids start" if found else "no conversation id starts"
        raise LocalError(f"{many} with {wanted!r}; `midstream sessions` lists them")
    return found[0]


def _last_answered(store: Store) -> str:
    unanswered = 0
    while rows := store.list(50, unanswered):
        for row in rows:
            # An imported answer may not say which model gave it.
            if row.models or any(turn.speaker == "ai" for turn in store.load(row.id).turns):
                return row.id
            unanswered += 1
    if unanswered:
        raise LocalError("no conversation has an answer to continue from; --session ID continues one without")
    raise LocalError("no conversation to continue: start one with `midstream chat`")


def _explain_stored_word(stored: Mapping[str, str]) -> None:
    """Say once what a tool format means that an earlier version stored; the next message stores it by its new name."""
    word = stored.get("tool_format", "")
    if word in OLD_WORDS:
        click.echo(f"midstream: tool format of this conversation: {explain_old_word(word)}", err=True)


def _compaction(config: ChatConfig) -> Compaction | None:
    return Compaction(config.compact_at, model=config.compact_model) if config.compact == "auto" else None


def _sim_delay() -> float:
    given = os.environ.get(SIM_DELAY_VARIABLE) or SIM_DELAY
    try:
        return max(0.0, float(given))
    except ValueError:
        raise ConfigError(
            f"{SIM_DELAY_VARIABLE}={given!r}: expected a number of seconds, such as {SIM_DELAY}"
        ) from None


def _recorder(folder: str | None, patterns: Sequence[str]) -> Recorder | None:
    return None if folder is None else recording.Recorder(folder, scrub=recording.Scrub(patterns=patterns))
