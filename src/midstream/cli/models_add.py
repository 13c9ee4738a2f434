"""`midstream models add NAME --from verified.toml`: a provider in the user's configuration, made from what was found out about a host."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from ..client.catalog import Catalog
from ..client.config import Config, ProviderConfig, config_home, load_config
from ..core.errors import ConfigError
from ..core.visible import terminal_safe
from ..dialects.registry import REGISTRY
from ..verify.verified import Verified, read_verified, toml_lines
from .terminal import is_terminal

_EPILOG = """\b
Example:
  midstream verify work/my-model --suite contract --toml verified.toml
  midstream models add acme --from verified.toml
  midstream ask Hello -m acme/my-model"""


@click.command(epilog=_EPILOG)
@click.argument("name")
@click.option(
    "--from", "source", required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE",
    help="The file that `midstream verify --toml` wrote.",
)  # fmt: skip
@click.option("--base-url", metavar="URL", help="Use this address instead of the verified one.")
@click.option("--api-key-env", metavar="VARIABLE", help="The variable that holds the key; never the key itself.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def add(name: str, source: Path, base_url: str | None, api_key_env: str | None, yes: bool) -> None:
    """Add a verified host to your configuration under a name of your choice.

    You see what will be written first. The host gets the dialect that its verification found, and its models are named
    NAME/MODEL.
    """
    verified = read_verified(source)
    settings = _settings(verified, base_url, api_key_env)
    path = config_home() / "config.toml"
    _check(name, settings)
    block = _block(name, settings, verified)
    click.echo(f"This will be added to {path}:\n\n{terminal_safe(block)}")
    if not yes:
        if not is_terminal(sys.stdin):
            raise click.UsageError("cannot ask for confirmation here; add --yes to write it")
        click.confirm("Write it?", abort=True)
    _append(path, block)
    click.echo(f"Added. Name its models as {name}/{terminal_safe(verified.host.model)} and the like.")


def _settings(verified: Verified, base_url: str | None, api_key_env: str | None) -> dict[str, Any]:
    host = verified.host
    variable = api_key_env or host.api_key_env
    settings: dict[str, Any] = {"like": host.like, "base_url": base_url or host.base_url}
    if variable:
        settings["api_key_env"] = variable
    known = REGISTRY.providers.get(host.like)
    if known is not None and host.auth != known.endpoint.auth:
        settings["auth"] = host.auth
    return {**settings, "dialect": verified.dialect}


def _check(name: str, settings: dict[str, Any]) -> None:
    """The same errors that the next start would give, before anything is written."""
    if name in REGISTRY.providers or any(name in row.names for row in REGISTRY.providers.values()):
        raise ConfigError(f"{name} is a provider that midstream already knows; choose another name")
    if not name or "/" in name or ":" in name or not name.isprintable() or " " in name:
        raise ConfigError(f"invalid name {name!r}: expected letters, digits, '-' and '_', such as 'acme'")
    if name in load_config().config.providers:
        raise ConfigError(
            f"[providers.{name}] is already in your configuration; choose another name, or remove it first"
        )
    Catalog(Config(providers={name: ProviderConfig(**settings)}), environ={})


def _block(name: str, settings: dict[str, Any], verified: Verified) -> str:
    key = toml_lines({name: 0})[0].removesuffix(" = 0")
    top = {word: value for word, value in settings.items() if word != "dialect"}
    lines = [
        f"# {verified.host.model}, verified {verified.checked}: {', '.join(verified.suites)}".replace("\n", " "),
        f"[providers.{key}]",
        *toml_lines(top),
    ]
    if settings["dialect"]:
        lines += ["", f"[providers.{key}.dialect]", *toml_lines(settings["dialect"])]
    return "\n".join(lines) + "\n"


def _append(path: Path, block: str) -> None:
    """At the end, so that not a letter of what the user wrote changes; whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    before = path.read_text("utf-8") if path.exists() else ""
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    # A link to a file kept elsewhere stays a link.
    real = path.resolve()
    fresh = real.with_name(f".{real.name}.{os.getpid()}")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(before + gap + block)
    fresh.replace(real)
