"""Every setting in force, with where it comes from: a file, a variable, or the default. Keys are named, never shown."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ..core.blocks import Value
from ..core.secret import hide_url_secrets
from .catalog import Catalog
from .config import LoadedConfig, load_config

MODEL_VARIABLE = "MIDSTREAM_MODEL"
HIDDEN = "(hidden)"
IS_SET = "(set)"


class Setting(Value, frozen=True):
    """`origin` is the path of a file, `$VARIABLE`, or `default`."""

    name: str
    value: Any
    origin: str


def list_settings(loaded: LoadedConfig | None = None, environ: Mapping[str, str] | None = None) -> list[Setting]:
    """Every setting, by precedence: environment, project file, user file, default. Flags are the caller's."""
    environ = os.environ if environ is None else environ
    loaded = load_config(environ=environ) if loaded is None else loaded
    settings = {setting.name: setting for setting in _settled(loaded)}
    # Always listed, so that whoever looks for it learns its name.
    settings.setdefault("default_model", Setting("default_model", "", "default"))
    for setting in _from_environment(Catalog(loaded, environ=environ), environ):
        settings[setting.name] = setting  # the environment takes precedence over the files
    return sorted(settings.values(), key=lambda setting: setting.name)


def _settled(loaded: LoadedConfig) -> Iterator[Setting]:
    values = msgspec.to_builtins(loaded.config)
    for name, origin in loaded.origins.items():
        # A header may carry a secret, and so may a command or a variable for one.
        hidden = ".headers." in name or ".env." in name or name.endswith(".api_key_command")
        yield Setting(name, HIDDEN if hidden else _shown(_value(values, name)), origin)


def _from_environment(catalog: Catalog, environ: Mapping[str, str]) -> Iterator[Setting]:
    if environ.get(MODEL_VARIABLE):
        yield Setting("default_model", environ[MODEL_VARIABLE], f"${MODEL_VARIABLE}")
    for provider in catalog.registry.providers.values():
        key = catalog.key_variable(provider)
        if key is not None:
            yield Setting(f"providers.{provider.name}.api_key", IS_SET, f"${key}")
        elif (place := catalog.stored_in(provider.name)) is not None:
            yield Setting(f"providers.{provider.name}.api_key", IS_SET, place)
        base = catalog.base_variable(provider)
        if base is not None:
            yield Setting(f"providers.{provider.name}.base_url", _shown(environ[base]), f"${base}")


def _shown(value: Any) -> Any:
    """An address may hold a user and a password."""
    return hide_url_secrets(value, HIDDEN) if isinstance(value, str) else value


def _value(node: Any, dotted: str) -> Any:
    """The value a dotted name leads to; names may hold dots themselves (`models.work/kimi-k2.5.context`)."""
    while dotted:
        # The longest key that fits: `a.b` may be one key or two, and the longer one is the more specific.
        key = max((key for key in node if f"{dotted}.".startswith(f"{key}.")), key=len)
        node, dotted = node[key], dotted[len(key) + 1 :]
    return node
