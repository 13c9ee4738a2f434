"""What the user settled in files: `~/.config/midstream/config.toml`, then the project's `.midstream.toml` over it.

    default_model = "moonshot/kimi-k2.5"

    [providers.work]                      # a host of your own, or another address for a known one
    like = "openai-compatible"            # whose dialects it speaks
    base_url = "http://127.0.0.1:8080/v1"
    api_key_env = "WORK_API_KEY"          # the name of a variable, never a key

    [aliases]
    fast = "groq/moonshotai/kimi-k2-instruct-0905"

    [models."work/kimi-k2.5"]
    context = 262144
    input_price = 0.6                     # dollars a million tokens
    output_price = 3.0

Every value remembers the file it came from. A file that cannot be read says what is wrong and where. A project's file may
come with somebody else's code: it may send keys to other hosts only if the user's own file lists it in `trusted_projects`.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..core.dialect import without_header_values
from ..core.errors import ConfigError
from ..transport.loopback import leads_to_loopback

PROJECT_FILE = ".midstream.toml"


class ProviderConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    like: str = "openai-compatible"
    base_url: str = ""
    api_key_env: str | None = None
    headers: dict[str, str] = {}

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return without_header_values(self)

    def __repr__(self) -> str:
        return f"ProviderConfig({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"


class ModelConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    context: int | None = None
    input_price: float | None = None
    output_price: float | None = None
    cache_read_price: float | None = None
    cache_write_price: float | None = None


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    default_model: str = ""
    providers: dict[str, ProviderConfig] = {}
    aliases: dict[str, str] = {}
    models: dict[str, ModelConfig] = {}
    trusted_projects: tuple[str, ...] = ()
    """Folders whose project file may name hosts and key variables; only the user's own file may say so."""


class LoadedConfig(msgspec.Struct, frozen=True):
    """The merged configuration; `origins` says for each dotted name which file set it."""

    config: Config = Config()
    origins: dict[str, str] = {}
    files: tuple[str, ...] = ()


def config_home(environ: Mapping[str, str] | None = None) -> Path:
    """Where the user's own file is: MIDSTREAM_HOME, XDG_CONFIG_HOME/midstream, or ~/.config/midstream."""
    env = os.environ if environ is None else environ
    if env.get("MIDSTREAM_HOME"):
        return Path(env["MIDSTREAM_HOME"]).expanduser()
    base = env.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "midstream"


def load_config(directory: Path | None = None, environ: Mapping[str, str] | None = None) -> LoadedConfig:
    """The user's file with the project's over it; neither has to be there. The project's is the nearest one upwards."""
    start = (directory or Path.cwd()).resolve()
    project = next(
        (folder / PROJECT_FILE for folder in (start, *start.parents) if (folder / PROJECT_FILE).is_file()), None
    )
    files = [config_home(environ) / "config.toml", *([project] if project else [])]
    merged: dict[str, Any] = {}
    origins: dict[str, str] = {}
    found: list[str] = []
    for path in files:
        if not path.is_file():
            continue
        values = _read(path)
        checked = _check(values, path)
        if path == project:
            _check_trust(checked, path, merged.get("trusted_projects", ()))
        _merge(merged, values, str(path), origins, "")
        found.append(str(path))
    return LoadedConfig(msgspec.convert(merged, Config), origins, tuple(found))


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None


def _check(values: dict[str, Any], path: Path) -> Config:
    try:
        return msgspec.convert(values, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}. Known settings: {', '.join(Config.__struct_fields__)}") from None


def _check_trust(config: Config, path: Path, trusted: Sequence[str]) -> None:
    """A project that is not trusted may not lead a key away: to another host, or out of another variable."""
    folder = path.parent
    if config.trusted_projects:
        raise ConfigError(f"{path}: trusted_projects belongs into your own file, not into a project's")
    if any(Path(each).expanduser().resolve() == folder for each in trusted):
        return
    for name, provider in config.providers.items():
        if provider.base_url and leads_to_loopback(provider.base_url):
            continue
        for setting in ("base_url", "api_key_env"):
            if getattr(provider, setting):
                raise ConfigError(
                    f"{path}: providers.{name}.{setting} decides where a key is sent, and this project is not trusted: "
                    f'move it to your own config.toml, or put trusted_projects = ["{folder}"] there'
                )


def _merge(into: dict[str, Any], values: Mapping[str, Any], origin: str, origins: dict[str, str], prefix: str) -> None:
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            _merge(into.setdefault(key, {}), value, origin, origins, f"{name}.")
        else:
            into[key] = value
            origins[name] = origin
