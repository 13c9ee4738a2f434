"""The sandbox in the terminal: its flags, which one is used, and what is said about it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..client.config import SandboxConfig
from ..core.errors import ConfigError
from ..core.modules import late_module
from ..core.visible import visible

if TYPE_CHECKING:
    from ..agent import sandbox
    from ..agent.sandbox import Sandbox
    from .options import Settings
else:
    # Most conversations run no commands.
    sandbox = late_module("..agent.sandbox", globals())

sandbox_options = (
    click.option(
        "--sandbox/--no-sandbox",
        default=None,
        help="Run commands in a sandbox: they read the system, write only this folder and a temporary one, and have no network. "
        "Needs bubblewrap or Landlock (Linux). [config: sandbox.use]",
    ),
    click.option(
        "--sandbox-network",
        is_flag=True,
        help="Let commands in the sandbox reach the network. [config: sandbox.network]",
    ),
    click.option(
        "--unattended",
        is_flag=True,
        help="With --sandbox: run commands and change files in this folder without asking. Files that run code later "
        "(hooks, build files, settings of editors …) are still asked about.",
    ),
)


def chosen_sandbox(settings: Settings, config: SandboxConfig, folder: Path) -> Sandbox | None:
    """The sandbox that the flags and the configuration ask for. None: none was asked for, or `auto` found none."""
    use = config.use if settings.sandbox is None else "on" if settings.sandbox else "off"
    if use == "off":
        if settings.unattended:
            raise ConfigError("--unattended runs commands without asking, so it needs a sandbox: add --sandbox")
        if settings.sandbox_network:
            raise ConfigError("--sandbox-network is about the network of a sandbox: add --sandbox")
    if use == "off" or "bash" not in settings.tools:
        return None
    try:
        found = sandbox.Sandbox.find(network=settings.sandbox_network or config.network, read=config.read)
        found.check(str(folder))
    except ConfigError as error:
        # Asked for and not to be had is an error; `auto` goes on without, and says so.
        if use == "on" or settings.unattended:
            raise
        click.echo(visible(f"midstream: commands run without a sandbox: {error}"), err=True)
        return None
    return found


def sandbox_lines(sandbox: Sandbox | None, *, unattended: bool) -> list[str]:
    """Where commands run, for /tools."""
    if sandbox is None:
        return ["bash runs without a sandbox; start the chat with --sandbox to have one"]
    lines = [f"bash runs in a sandbox ({sandbox.way}): {sandbox.described}"]
    if unattended:
        lines.append("unattended: only files that run code later are asked about")
    return lines
