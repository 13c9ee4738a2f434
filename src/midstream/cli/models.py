"""`midstream models`: the known models, their wires and prices, and whether their keys are set; `add` adds a verified host."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click
import msgspec

from ..client.catalog import Catalog
from ..client.config import load_config
from ..client.key_store import FILE, KEYRING
from ..core.errors import MissingKey, UnknownModel
from ..dialects.provider import Provider
from ..dialects.registry import Resolved
from ..sim.providers import SIM, sim_providers
from ..wires.tool_format import resolve_tool_format
from .terminal import Paint, color_choice, color_option, wants_color

_EPILOG = """\b
Examples:
  midstream models               all of them
  midstream models kimi          those with "kimi" in their names
  midstream models --json | jq -r 'select(.key) | .name'
  midstream models add work --from verified.toml

A model need not be listed: openrouter/vendor/model, for example, works with any name."""


class ModelsGroup(click.Group):
    """Lists the models unless a command is named: `midstream models kimi` are those with a word in their names."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in (*self.list_commands(ctx), *ctx.help_option_names)):
            args = ["list", *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return ["list", "add"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name != "add":
            return super().get_command(ctx, cmd_name)
        # When it is used: it reads what the verifier writes, and a list of models has no use for a verifier.
        command = importlib.import_module("midstream.cli.models_add").add
        assert isinstance(command, click.Command)
        return command


@click.group(cls=ModelsGroup, epilog=_EPILOG)
def models() -> None:
    """List the known models, or add a verified host. Providers accept other models too."""


@models.command(name="list", epilog=_EPILOG)
@click.argument("words", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@color_option
def list_models(words: tuple[str, ...], as_json: bool) -> None:
    """List the known models whose names contain all of the given words."""
    loaded = load_config()
    doubles = [row for row in sim_providers("http://127.0.0.1") if row.name == SIM]
    catalog = Catalog(loaded, providers=doubles)
    names = [name for name in catalog.names() if all(word.lower() in name.lower() for word in words)]
    rows = [_row(catalog, name) for name in dict.fromkeys(names)]
    paint = Paint(wants_color(color_choice(), sys.stdout))
    for row in rows:
        click.echo(msgspec.json.encode(row).decode() if as_json else _line(row, paint), color=paint.on)
    if not rows:
        raise UnknownModel(
            f"no listed model has {' and '.join(words)!r} in its name; `midstream models` lists them all"
        )


def _row(catalog: Catalog, name: str) -> dict[str, Any]:
    target = catalog.resolve(name)
    price = catalog.price(target)
    words, ready = key_state(catalog, catalog.registry.providers[target.provider])
    return {
        "name": name,
        "model": target.name,
        "wire": target.dialect.wire,
        "tool_format": resolve_tool_format(target.dialect).name,
        "context": catalog.context_window(target),
        "input_price": price.input if price else None,
        "output_price": price.output if price else None,
        "price_source": price.source if price else None,
        "price_is_estimate": price is not None and price.is_estimate,
        "key": catalog.key_variable(target),
        "key_state": words,
        "ready": ready,
    }


def _line(row: dict[str, Any], paint: Paint) -> str:
    key = paint(row["key_state"], "green" if row["ready"] else "dim")
    price = "" if row["input_price"] is None else f"${row['input_price']:g}/{row['output_price']:g}"
    if row["price_is_estimate"]:
        price = f"~{price}"
    shown = row["name"] if row["name"] == row["model"] else f"{row['name']} = {row['model']}"
    return f"{shown:<46} {row['wire']:<17} {row['tool_format']:<10} {price:<11} {key}".rstrip()


def key_state(catalog: Catalog, provider: Provider) -> tuple[str, bool]:
    """Whether a provider has its key, in words (`MOONSHOT_API_KEY is set`, `set MOONSHOT_API_KEY` or `needs no key`), and
    whether a request can be sent. The key itself is never looked at."""
    target = Resolved(provider.name, "", provider.dialects[0][1], provider.endpoint)
    source = catalog.key_source(target)
    if source is not None:
        stored = source in (KEYRING, FILE)
        return f"stored in {'the keyring' if source == KEYRING else source}" if stored else f"{source} is set", True
    try:
        catalog.check_key(target)
    except MissingKey:
        names = (*provider.endpoint.key_env, *provider.endpoint.bearer_env)
        return f"set {names[0]}" if names else "pass a key", False
    return "needs no key", True  # a host on this machine
