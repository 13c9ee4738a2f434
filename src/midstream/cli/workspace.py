"""All that a conversation in the terminal needs, opened and closed together: catalog, client, store, session, tools, agent.

A model named `sim/…` starts the loopback doubles inside this process, once. What the user settles in a conversation (model,
tool format, thinking, reasoning) is kept beside it in the store, and holds again when it is resumed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TypeAlias, cast, get_args

import click
from msgspec.structs import replace

from ..agent.approval import Approval, Ask
from ..agent.functions import Tool
from ..agent.loop import Agent
from ..agent.paths import Folder
from ..agent.toolbox import BUILTIN, Toolbox, builtin_tools
from ..client.catalog import Catalog
from ..client.client import Client
from ..client.config import LoadedConfig, load_config
from ..client.session import Session
from ..client.settings import MODEL_VARIABLE
from ..core.blocks import Conversation
from ..core.dialect import MissingReasoning, Options
from ..core.errors import ConfigError, LocalError
from ..core.handoff import SwitchReport
from ..core.ids import valid_tool_format
from ..core.visible import visible
from ..dialects.registry import Resolved
from ..store import SqliteStore, Store
from .options import EFFORTS, Settings

SIM = "sim"
SIM_DELAY = "0.02"  # seconds before each piece: one sees the tokens arrive
SIM_DELAY_VARIABLE = "MIDSTREAM_SIM_DELAY"
FALLBACK_MODEL = "moonshot/kimi-k2.5"
POLICIES: tuple[str, ...] = get_args(MissingReasoning)

Chosen: TypeAlias = tuple[str, str]
"""A model's name, and who chose it."""


class Workspace:
    """`async with Workspace(settings) as workspace`: then `workspace.agent.run(text)`."""

    agent: Agent

    def __init__(self, settings: Settings, *, ask: Ask | None = None) -> None:
        self.settings = settings
        self._ask = ask
        self._stack = AsyncExitStack()
        self._loaded = load_config()
        for told in self._loaded.ignored:
            click.echo(visible(f"midstream: ignored: {told}"), err=True)
        self._client = Client(Catalog(self._loaded))
        self._has_sim = False
        self.store: Store | None = None
        self.tools: tuple[Tool, ...] = ()

    async def __aenter__(self) -> Workspace:
        async with self._stack:
            await self._open()
            self._stack = self._stack.pop_all()  # from here on, it is closed at the end and not now
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, traceback)

    async def _open(self) -> None:
        settings = self.settings
        self._stack.push_async_callback(self._client.aclose)
        if settings.store:
            self.store = SqliteStore()
            self._stack.callback(self.store.close)
        conversation, kept = self._conversation()
        model = settings.model or kept.get("model") or default_model(self._loaded, os.environ)[0]
        await self.reach(model)
        options = _options({**kept, **_asked(settings)})
        self.tools = _tools(settings.tools)
        toolbox = Toolbox(self.tools, approve=Approval(self._ask, yolo=settings.yolo, allow=settings.allow))
        session = Session(
            model,
            store=self.store,
            tools=toolbox.specs(),
            conversation=conversation,
            options=options,
            client=self._client,
        )
        self.agent = Agent(session, toolbox)

    @property
    def session(self) -> Session:
        return self.agent.session

    @property
    def catalog(self) -> Catalog:
        return self._client.catalog

    def names(self) -> list[str]:
        """Models to offer."""
        return _names(self.catalog)

    async def reach(self, model: str) -> Resolved:
        """Make sure that this model can be talked to: the doubles are up, its key is there."""
        name = self.catalog.config.aliases.get(model, model)
        if not self._has_sim and _is_sim(name):
            await self._start_sim()
        target = self.catalog.resolve(model)
        check_key(self.catalog, target)
        return target

    async def use(self, model: str) -> SwitchReport:
        """Change the model of the conversation."""
        await self.reach(model)
        report = self.session.use(model)
        self.keep_settings()
        return report

    def keep_settings(self) -> None:
        """Write down what the user settled, if the conversation is stored already."""
        conversation_id = self.session.conversation.id
        if self.store is None or not conversation_id:
            return
        options = self.session.options
        kept = {
            "model": self.session.model,
            "tool_format": options.tool_format,
            "thinking": options.thinking,
            "effort": options.effort,
            "missing_reasoning": options.missing_reasoning if options.missing_reasoning != POLICIES[0] else None,
        }
        for key, value in kept.items():
            if self.store.get_meta(conversation_id, key) != value:
                self.store.set_meta(conversation_id, key, value)

    async def resume(self, conversation_id: str) -> SwitchReport | None:
        """Go on with a stored conversation, with the settings it had."""
        store = self.needed_store()
        entry = store.entry(conversation_id)
        model = entry.meta.get("model") or self.session.model
        await self.reach(model)
        self.session.conversation = entry.conversation
        self.session.options = _options(entry.meta)
        return self.session.use(model) if entry.conversation.turns else None

    def needed_store(self) -> Store:
        if self.store is None:
            raise LocalError("nothing is stored in this conversation: start it without --no-store")
        return self.store

    def _conversation(self) -> tuple[Conversation, Mapping[str, str]]:
        settings = self.settings
        if settings.session is None and not settings.resume:
            return Conversation(system=settings.system), {}
        store = self.needed_store()
        found = find_session(store, settings.session)
        entry = store.entry(found)
        return entry.conversation, entry.meta

    async def _start_sim(self) -> None:
        from ..sim.server import Sim  # the doubles bring a web server: paid for when one is wanted

        sim = await self._stack.enter_async_context(Sim(delay=_sim_delay()))
        # Only `sim` itself: the user's other names keep leading to the real hosts.
        rows = [row for row in sim.providers() if row.name == SIM]
        self._client.catalog = Catalog(self._loaded, providers=rows)
        self._has_sim = True


def check_key(catalog: Catalog, target: Resolved) -> None:
    """MissingKey, worded for the command line, if the provider wants a key and there is none."""
    catalog.check_key(target, otherwise=f"try without a key: -m {SIM}/kimi-k2.5")


def default_model(loaded: LoadedConfig, environ: Mapping[str, str]) -> Chosen:
    """The model to use when none is named: the environment's, the configuration's, or one whose key is set."""
    if environ.get(MODEL_VARIABLE):
        return environ[MODEL_VARIABLE], f"${MODEL_VARIABLE}"
    if loaded.config.default_model:
        return loaded.config.default_model, loaded.origins.get("default_model", "configuration")
    catalog = Catalog(loaded, environ=environ)
    for provider in catalog.registry.providers.values():
        variable = next((name for name in provider.endpoint.key_env if environ.get(name)), None)
        if variable and provider.models:
            return f"{provider.name}/{provider.models[0]}", f"${variable} is set"
    return FALLBACK_MODEL, "default"


def find_session(store: Store, wanted: str | None) -> str:
    """The id that begins so; with None, the last conversation."""
    newest = store.list(1)
    if wanted is None:
        if not newest:
            raise LocalError("there is no conversation to continue yet: start one with `midstream chat`")
        return newest[0].id
    offset, found = 0, list[str]()
    while rows := store.list(200, offset):
        found += [row.id for row in rows if row.id.startswith(wanted)]
        offset += len(rows)
    if wanted in found:
        return wanted
    if len(found) != 1:
        many = f"{len(found)} conversations begin" if found else "no conversation begins"
        raise LocalError(f"{many} with {wanted!r}: `midstream sessions` lists them")
    return found[0]


def known_names() -> list[str]:
    return _names(Catalog(load_config()))


def _names(catalog: Catalog) -> list[str]:
    from ..sim.providers import MODELS

    return list(dict.fromkeys([*catalog.names(), *[f"{SIM}/{model}" for model in MODELS]]))


def _tools(names: Sequence[str]) -> tuple[Tool, ...]:
    """The built-in tools of these names, working in the current folder."""
    unknown = next((name for name in names if name not in BUILTIN), None)
    if unknown is not None:
        raise click.UsageError(f"no tool {unknown!r}: there are {', '.join(BUILTIN)}, and all")
    made = {tool.name: tool for tool in builtin_tools(Folder("."))} if names else {}
    return tuple([made[name] for name in names])


def _is_sim(name: str) -> bool:
    return name.strip().lower().startswith((f"{SIM}/", f"{SIM}:"))


def _sim_delay() -> float:
    given = os.environ.get(SIM_DELAY_VARIABLE) or SIM_DELAY
    try:
        return max(0.0, float(given))
    except ValueError:
        raise ConfigError(f"{SIM_DELAY_VARIABLE}={given!r}: expected seconds, such as {SIM_DELAY}") from None


def _asked(settings: Settings) -> dict[str, str]:
    """The flags, as they would be kept beside a conversation."""
    asked: dict[str, str] = {}
    if settings.thinking is not None:
        asked |= thinking_words(settings.thinking)
    if settings.tool_format is not None:
        asked["tool_format"] = settings.tool_format
    return asked


def thinking_words(word: str) -> dict[str, str]:
    """`on`, `off` or an effort, as settings; an empty one is not set."""
    word = word.strip().lower()
    if word in ("on", "off"):
        return {"thinking": word, "effort": ""}
    if word in EFFORTS:
        return {"thinking": "on", "effort": word}
    raise LocalError(f"no thinking {word!r}: choose on, off, or an effort: {', '.join(EFFORTS)}")


def _options(kept: Mapping[str, str]) -> Options:
    format = kept.get("tool_format")
    policy = kept.get("missing_reasoning")
    thinking = kept.get("thinking")
    options = Options(
        thinking="on" if thinking == "on" else "off" if thinking == "off" else None,
        effort=kept.get("effort") or None,
        tool_format=None if not format or format.strip().lower() == "auto" else valid_tool_format(format),
    )
    if policy in POLICIES:
        options = replace(options, missing_reasoning=cast(MissingReasoning, policy))
    return options
