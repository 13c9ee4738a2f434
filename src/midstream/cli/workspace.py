"""Everything a conversation in the terminal needs, opened and closed together: catalog, client, store, session, tools, agent.

A model named `sim/…` starts the loopback doubles inside this process, once. The settings of a conversation (model, tool
format, thinking, reasoning) are stored with it and apply again when it is resumed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import TracebackType

import click

from ..agent.approval import Approval, Ask
from ..agent.loop import Agent
from ..agent.run import RunLimits
from ..agent.toolbox import Toolbox
from ..client.catalog import Catalog
from ..client.client import Client
from ..client.config import load_config
from ..client.session import Session
from ..core.blocks import Conversation
from ..core.errors import ConfigError, LocalError
from ..core.handoff import SwitchReport
from ..core.visible import visible
from ..dialects.registry import Resolved
from ..sim.providers import SIM
from ..store import Store, open_store
from .options import POLICIES, Settings, default_model, stored_options

SIM_DELAY = "0.02"  # seconds before each piece, so that the tokens are seen arriving
SIM_DELAY_VARIABLE = "MIDSTREAM_SIM_DELAY"


class Workspace:
    """`async with Workspace(settings) as workspace`: then `workspace.agent.run(text)`."""

    agent: Agent

    def __init__(
        self,
        settings: Settings,
        *,
        ask: Ask | None = None,
        limits: RunLimits = RunLimits(),  # noqa: B008  (frozen)
    ) -> None:
        self.settings = settings
        self._ask = ask
        self._limits = limits
        self._stack = AsyncExitStack()
        self._loaded = load_config()
        for told in self._loaded.ignored:
            click.echo(visible(f"midstream: ignored: {told}"), err=True)
        self._client = Client(Catalog(self._loaded))
        self._has_sim = False
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

    async def _open(self) -> None:
        settings = self.settings
        self._stack.push_async_callback(self._client.aclose)
        if settings.store:
            self.store = open_store(settings.store_at)
            self._stack.callback(self.store.close)
        conversation, stored = self._conversation()
        model = settings.model or stored.get("model") or default_model(self._loaded, os.environ)[0]
        await self.reach(model)
        toolbox = Toolbox(settings.tools, approve=Approval(self._ask, yolo=settings.yolo, allow=settings.allow))
        session = Session(
            model,
            store=self.store,
            tools=toolbox.specs(),
            conversation=conversation,
            options=settings.options(stored),
            client=self._client,
        )
        self.agent = Agent(session, toolbox, self._limits)

    @property
    def session(self) -> Session:
        return self.agent.session

    @property
    def catalog(self) -> Catalog:
        return self._client.catalog

    async def reach(self, model: str) -> Resolved:
        """Make sure that this model can be used: the doubles are running, its key is set."""
        name = self.catalog.config.aliases.get(model, model)
        if not self._has_sim and _is_sim(name):
            await self._start_sim()
        target = self.catalog.resolve(model)
        self.catalog.check_key(target, otherwise=f"try without a key: -m {SIM}/kimi-k2.5")
        return target

    async def use(self, model: str) -> SwitchReport:
        """Change the model of the conversation."""
        await self.reach(model)
        report = self.session.use(model)
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
        for key, value in current.items():
            if self.store.get_meta(conversation_id, key) != value:
                self.store.set_meta(conversation_id, key, value)

    async def resume(self, conversation_id: str) -> SwitchReport | None:
        """Continue a stored conversation with its settings."""
        store = self.require_store()
        entry = store.entry(conversation_id)
        model = entry.meta.get("model") or self.session.model
        await self.reach(model)
        self.session.conversation = entry.conversation
        self.session.options = stored_options(entry.meta)
        return self.session.use(model) if entry.conversation.turns else None

    def require_store(self) -> Store:
        if self.store is None:
            raise LocalError("this chat stores nothing: start it without --no-store")
        return self.store

    def _conversation(self) -> tuple[Conversation, Mapping[str, str]]:
        settings = self.settings
        if settings.session is None and not settings.resume:
            return Conversation(system=settings.system), {}
        store = self.require_store()
        found = find_session(store, settings.session)
        entry = store.entry(found)
        return entry.conversation, entry.meta

    async def _start_sim(self) -> None:
        from ..sim.server import Sim  # imports a web server

        sim = await self._stack.enter_async_context(Sim(delay=_sim_delay()))
        # Only `sim` itself: all other providers keep their real hosts.
        rows = [row for row in sim.providers() if row.name == SIM]
        self._client.catalog = Catalog(self._loaded, providers=rows)
        self._has_sim = True


def find_session(store: Store, wanted: str | None) -> str:
    """The id that starts with `wanted`; None means the last conversation."""
    newest = store.list(1)
    if wanted is None:
        if not newest:
            raise LocalError("no conversation to continue: start one with `midstream chat`")
        return newest[0].id
    offset, found = 0, list[str]()
    while rows := store.list(200, offset):
        found += [row.id for row in rows if row.id.startswith(wanted)]
        offset += len(rows)
    if wanted in found:
        return wanted
    if len(found) != 1:
        many = f"{len(found)} conversation ids start" if found else "no conversation id starts"
        raise LocalError(f"{many} with {wanted!r}; `midstream sessions` lists them")
    return found[0]


def _is_sim(name: str) -> bool:
    return name.strip().lower().startswith((f"{SIM}/", f"{SIM}:"))


def _sim_delay() -> float:
    given = os.environ.get(SIM_DELAY_VARIABLE) or SIM_DELAY
    try:
        return max(0.0, float(given))
    except ValueError:
        raise ConfigError(
            f"{SIM_DELAY_VARIABLE}={given!r}: expected a number of seconds, such as {SIM_DELAY}"
        ) from None
