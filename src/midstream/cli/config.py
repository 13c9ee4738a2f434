"""`midstream config`: the settings in force and where each comes from. Keys are never shown, only their names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import click
import msgspec

from ..client.catalog import Catalog
from ..client.config import LoadedConfig, config_home, load_config
from ..core.visible import visible
from ..store.places import database_path
from .terminal import color_option
from .workspace import default_model

_EPILOG = """\b
Files, the later over the earlier:
  ~/.config/midstream/config.toml        yours (MIDSTREAM_HOME or XDG_CONFIG_HOME move it)
  .midstream.toml                        the project's: the nearest one upwards

\b
A file may look like this:
  default_model = "moonshot/kimi-k2.5"
  [aliases]
  fast = "groq/moonshotai/kimi-k2-instruct-0905"
  [providers.work]
  base_url = "http://127.0.0.1:8080/v1"
  api_key_env = "WORK_API_KEY"

Order everywhere: flag, environment, project file, user file, default."""


@click.group(epilog=_EPILOG)
@color_option
def config() -> None:
    """Settings and where they come from."""


@config.command()
@click.option("--origin", is_flag=True, help="Say where each value comes from.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def show(origin: bool, as_json: bool) -> None:
    """The settings in force."""
    rows = list(_rows(load_config()))
    if as_json:
        found = {name: {"value": value, "origin": where} if origin else value for name, value, where in rows}
        click.echo(msgspec.json.encode(found).decode())
        return
    for name, value, where in rows:
        shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        click.echo(visible(f"{name} = {shown}" + (f"    # {where}" if origin else "")))


@config.command()
def path() -> None:
    """Where your own file is, or would be."""
    click.echo(str(config_home() / "config.toml"))


def _rows(loaded: LoadedConfig) -> Iterator[tuple[str, Any, str]]:
    model, where = default_model(loaded, os.environ)
    yield "default_model", model, where
    for name, origin in sorted(loaded.origins.items()):
        if name != "default_model":
            yield name, _value(loaded, name), origin
    yield "store", str(database_path()), _place_origin()
    registry = Catalog(loaded).registry
    for provider in registry.providers.values():
        endpoint = provider.endpoint
        for variable in (*endpoint.key_env, *endpoint.bearer_env):
            if os.environ.get(variable):
                yield f"keys.{provider.name}", "(set)", f"${variable}"
                break
        for variable in endpoint.base_env:
            if os.environ.get(variable):
                yield f"providers.{provider.name}.base_url", os.environ[variable], f"${variable}"
                break


def _value(loaded: LoadedConfig, dotted: str) -> Any:
    """The value a dotted name leads to. Names may hold dots themselves (`models.work/kimi-k2.5.context`)."""
    node: Any = msgspec.to_builtins(loaded.config)
    rest = dotted
    while rest:
        key = next((key for key in node if rest == key or rest.startswith(f"{key}.")), None)
        if key is None:
            return None
        node, rest = node[key], rest[len(key) + 1 :]
    if ".headers." in f".{dotted}.":
        return "(hidden)"  # a header may carry a secret
    return node


def _place_origin() -> str:
    for variable in ("MIDSTREAM_HOME", "XDG_DATA_HOME"):
        if os.environ.get(variable):
            return f"${variable}"
    return "default"
