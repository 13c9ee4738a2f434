"""`midstream config`: the current settings and where each comes from. Keys are never shown, only their names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import click
import msgspec

from ..agent.project import Project
from ..client.config import LoadedConfig, config_home, load_config
from ..client.settings import list_settings
from ..core.visible import visible
from ..store.paths import database_path, shown_address
from .named_prompt import MARK, prompt_files, prompt_folders
from .options import default_model
from .terminal import color_option

_EPILOG = """\b
Files; the second overrides the first:
  ~/.config/midstream/config.toml        for you (elsewhere with MIDSTREAM_HOME or XDG_CONFIG_HOME)
  .midstream.toml                        for a project: in this folder or the nearest parent, if you own it

\b
Example:
  default_model = "moonshot/kimi-k2.5"
  instructions = false                   # do not tell models AGENTS.md; memory and skills likewise
  [aliases]
  fast = "groq/moonshotai/kimi-k2-instruct-0905"
  [providers.work]
  base_url = "http://127.0.0.1:8080/v1"
  api_key_env = "WORK_API_KEY"

Precedence: flag, environment, project file, user file, default."""


@click.group(epilog=_EPILOG, invoke_without_command=True)
@color_option
@click.pass_context
def config(ctx: click.Context) -> None:
    """Show the settings and where they come from."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(show)


@config.command()
@click.option("--origin", is_flag=True, help="Show where each value comes from.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def show(origin: bool, as_json: bool) -> None:
    """Show the current settings."""
    loaded = load_config()
    for told in loaded.ignored:
        click.echo(visible(f"midstream: ignored: {told}"), err=True)
    rows = list(_rows(loaded))
    if as_json:
        found = {name: {"value": value, "origin": where} if origin else value for name, value, where in rows}
        click.echo(msgspec.json.encode(found).decode())
        return
    for name, value, where in rows:
        shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        click.echo(visible(f"{name} = {shown}" + (f"    # {where}" if origin else "")))


@config.command()
def path() -> None:
    """Print the path of your configuration file, whether it exists or not."""
    click.echo(str(config_home() / "config.toml"))


@config.command()
def prompts() -> None:
    """List the system prompts that --system @NAME finds."""
    project = Project()
    files = prompt_files(project)
    for name, path in files.items():
        click.echo(visible(f"{MARK}{name}    # {project.shown(path)}"))
    if not files:
        own, shared = prompt_folders(project)
        click.echo(
            visible(f"no system prompts; write one to {own / 'reviewer.md'} or {shared / 'reviewer.md'}"), err=True
        )


def _rows(loaded: LoadedConfig) -> Iterator[tuple[str, Any, str]]:
    model, where = default_model(loaded, os.environ)
    yield "default_model", model, where
    for setting in list_settings(loaded):
        if setting.name != "default_model":  # given above: the command line also looks at which key is set
            yield setting.name, setting.value, setting.origin
    if address := os.environ.get("MIDSTREAM_STORE"):
        yield "store", shown_address(address), "$MIDSTREAM_STORE"
    else:
        yield "store", str(database_path()), _place_origin()


def _place_origin() -> str:
    for variable in ("MIDSTREAM_HOME", "XDG_DATA_HOME"):
        if os.environ.get(variable):
            return f"${variable}"
    return "default"
