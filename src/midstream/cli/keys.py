"""`midstream keys`: store, list and remove the keys of providers. A key is read from hidden input, never from an argument."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
import msgspec

from ..client.catalog import Catalog
from ..client.config import load_config
from ..client.key_store import FILE, KEYRING, MAX_KEY, KeyStore, key_fault, keyring_name, usable_keyring
from ..client.mcp_server import SECRET_PREFIX
from ..core.errors import UnknownModel
from ..core.secret import Secret
from ..core.visible import visible
from ..dialects.provider import Provider
from ..dialects.registry import Resolved
from .terminal import color_option, is_terminal

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_EPILOG = """\b
Examples:
  midstream keys set moonshot                          asks for the key; what is typed is not shown
  pass show moonshot | midstream keys set moonshot --stdin
  midstream keys                                       which providers have a key, and from where
  midstream keys remove moonshot

\b
Keys are stored in the system's keyring if there is one (pip install '.[keyring]' in midstream's checkout),
else in keys.json in your configuration folder, which only you can read (0600).
A key in the environment, such as MOONSHOT_API_KEY, comes first; then api_key_command of config.toml."""


def _complete_provider(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    rows = Catalog(load_config()).registry.providers.values()
    return [CompletionItem(row.name) for row in rows if _takes_key(row) and row.name.startswith(incomplete.lower())]


def _complete_stored(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in KeyStore().providers() if name.startswith(incomplete.lower())]


@click.group(invoke_without_command=True, epilog=_EPILOG)
@color_option
@click.pass_context
def keys(ctx: click.Context) -> None:
    """Store, list or remove the keys of providers; alone, list them."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_keys)


@keys.command("set")
@click.argument("provider", shell_complete=_complete_provider)
@click.argument("surplus", nargs=-1, metavar="")
@click.option("--stdin", "piped", is_flag=True, help="Read the key from standard input, for scripts.")
@click.option("--file", "in_file", is_flag=True, help="Store it in keys.json even if there is a keyring.")
def set_key(provider: str, surplus: tuple[str, ...], piped: bool, in_file: bool) -> None:
    """Store the key of a provider. It is asked for, and not shown while you type."""
    if surplus:
        # Click's own error would repeat it, and so would our log of it.
        raise click.UsageError(
            "a key is not given as an argument: the shell keeps it in its history, and other users see it in the list "
            "of processes. Leave it out to be asked for it, or pipe it in with --stdin. If it was a real key, replace it"
        )
    catalog = Catalog(load_config())
    row = catalog.registry.provider(provider)
    if not _takes_key(row):
        raise click.UsageError(f"{row.name} needs no key")
    key = piped_key() if piped else typed_key(row.name)
    fault = key_fault(key)
    if fault:
        raise click.UsageError(f"this is not a key: {fault}; nothing was stored")
    place = KeyStore().set(row.name, key, in_file=in_file)
    private = " in plain text, in a file that only you can read" if place == FILE else ""
    click.echo(visible(f"stored the key of {row.name} in {_described(place)}{private}"))
    if place == FILE and not in_file:
        click.echo(f"({_why_no_keyring()})")
    first = catalog.key_source(_target(row))
    if first not in (None, KEYRING, FILE):
        click.echo(visible(f"note: {first} comes first, so the stored key is not used while that is set"))


@keys.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def list_keys(as_json: bool = False) -> None:
    """List the providers that have a key, and where it comes from. Keys are never shown."""
    catalog = Catalog(load_config())
    rows = [found for row in catalog.registry.providers.values() if (found := _row(catalog, row)) is not None]
    known = {row["provider"] for row in rows}
    # A provider may have left the configuration; its key is still on this machine, and should be seen.
    stored = KeyStore().providers()
    strangers = [name for name in stored if name not in known and not name.startswith(SECRET_PREFIX)]
    for row in rows:
        click.echo(msgspec.json.encode(row).decode() if as_json else visible(_line(row)))
    if as_json:
        return
    for name in strangers:
        click.echo(visible(f"{name:<20} stored, but no provider has this name any more; midstream keys remove {name}"))
    if not rows and not strangers:
        click.echo("no keys; `midstream keys set PROVIDER` stores one, or set a variable such as MOONSHOT_API_KEY")


@keys.command("remove")
@click.argument("provider", shell_complete=_complete_stored)
def remove_key(provider: str) -> None:
    """Remove the stored key of a provider."""
    store = KeyStore()
    catalog = Catalog(load_config())
    try:
        name = catalog.registry.provider(provider).name
    except UnknownModel:
        name = provider  # of a provider that was in the configuration when its key was stored
        if name not in store.providers():
            raise
    place = store.remove(name)
    if place is None:
        others = ", ".join(store.providers()) or "none"
        raise click.UsageError(
            f"no key of {name} is stored (stored: {others}); variables are removed where they are set"
        )
    click.echo(visible(f"removed the key of {name} from {_described(place)}"))
    left = catalog.key_source(_target(catalog.registry.providers[name])) if name in catalog.registry.providers else None
    if left is not None:
        click.echo(visible(f"note: {left} still gives {name} a key"))


def _takes_key(row: Provider) -> bool:
    return row.endpoint.auth != "none"


def _target(row: Provider) -> Resolved:
    return Resolved(row.name, "", row.dialects[0][1], row.endpoint)


def _row(catalog: Catalog, row: Provider) -> dict[str, Any] | None:
    source = catalog.key_source(_target(row))
    stored = catalog.stored_in(row.name)
    return None if source is None else {"provider": row.name, "from": source, "stored": stored}


def _line(row: dict[str, Any]) -> str:
    source, stored = row["from"], row["stored"]
    unused = f" (also stored in {_described(stored)}, not used)" if stored and source != stored else ""
    return f"{row['provider']:<20} {_described(source)}{unused}"


def _described(source: str) -> str:
    if source == KEYRING:
        backend = usable_keyring()
        return f"the system's keyring ({keyring_name(backend)})" if backend is not None else "the system's keyring"
    if source == FILE:
        return str(KeyStore().path)
    return source if source == "api_key_command" else f"${source}"


def _why_no_keyring() -> str:
    try:
        import keyring  # noqa: F401  (only whether it can be imported)
    except ImportError:
        return (
            "not in a keyring: the package keyring is not installed; pip install '.[keyring]' in midstream's checkout"
        )
    return "not in a keyring: this system has none that can be used here"


def typed_key(provider: str) -> Secret:
    """A key that is typed at the terminal, without being shown."""
    if not is_terminal(sys.stdin):
        raise click.UsageError("standard input is not a terminal: pipe the key in and add --stdin")
    return Secret(
        click.prompt(f"Key of {provider} (not shown)", hide_input=True, default="", show_default=False).strip()
    )


def piped_key() -> Secret:
    """A key from standard input."""
    if sys.stdin is None or is_terminal(sys.stdin):
        raise click.UsageError("--stdin reads the key from a pipe; leave it out to type the key")
    # Two more, so that a key with its line end fits and one that is too long is noticed.
    return Secret(sys.stdin.read(MAX_KEY + 2).strip())
