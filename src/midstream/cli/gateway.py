"""`midstream gateway`, and `midstream serve` for short: run the gateway, make keys for it, check its configuration."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import shlex
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec
from msgspec.structs import replace

from ..client.catalog import Catalog
from ..client.config import config_home, old_words
from ..client.config import load_config as load_client_config
from ..core.dialect import TextCalls
from ..core.errors import ConfigError, LocalError, MidstreamError, MissingKey
from ..core.plural import pluralize
from ..gateway.api_key import last_four, make_key
from ..gateway.config import DEFAULT_PORT, Alias, GatewayConfig, LogFormat, load_config
from ..gateway.routing import Router, tell_unpriced
from ..gateway.spend import MICRO, Budget, parse_budget, show_budget, show_dollars, window_key
from ..gateway.state import GatewayState, KeyRecord, open_state, state_path
from ..gateway.tenants import LOCAL, tenant_of
from ..sim.providers import MODELS, SIM, sim_providers
from ..store.paths import is_postgres, shown_address
from .client_setup import CLAUDES, KEY_VARIABLE, SETUPS, Address, exports, overview
from .main import OK

if TYPE_CHECKING:
    from ..gateway.assembly import AppOptions, GatewayApp

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

CONFIG_FILE = "gateway.toml"

_SERVE_EPILOG = f"""\b
Examples:
  midstream serve                                  no key, no configuration: the sim/ models
  MOONSHOT_API_KEY=… midstream serve               every model of the providers whose keys are set
  midstream serve --config gateway.toml            aliases, fallbacks, limits: docs/gateway-config.md
  eval "$(midstream serve --print claude)"; claude     in another terminal: Claude Code through it
  midstream serve --host 0.0.0.0 --store postgresql://… --workers 4

\b
Other machines may ask only with a key: midstream gateway keys create --name me
Signals: SIGTERM ends when open answers have ended (at most `drain` seconds), SIGHUP reads the configuration again.
--print takes {", ".join(SETUPS)}."""

_KEYS_EPILOG = """\b
Examples:
  midstream gateway keys create --name me
  midstream gateway keys create --name ci --models 'claude-*' --rate 60 --concurrency 4 --spend 20/month --expires 90d
  midstream gateway keys list
  midstream gateway keys revoke key_8sJ2kQ0x_Zb4T"""


@click.group(epilog=_KEYS_EPILOG.replace("Examples:\n", "Examples:\n  midstream gateway check gateway.toml\n"))
def gateway() -> None:
    """Run the gateway (any client, any model), make keys for it, check its configuration."""


_CONFIG = click.option(
    "--config",
    "config_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"The gateway's configuration.  [default: {CONFIG_FILE} beside config.toml, if there is one]",
)
_STORE = click.option(
    "--store",
    metavar="PATH|postgresql://…",
    help="Where keys, limits and kept reasoning are.  [default: [state] url of the configuration, or gateway.db in the data folder]",
)


@gateway.command(epilog=_SERVE_EPILOG)
@_CONFIG
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option(
    "--port", type=click.IntRange(0, 65535), help=f"Port to listen on; 0 for any free one.  [default: {DEFAULT_PORT}]"
)
@_STORE
@click.option("--workers", type=click.IntRange(1, 256), help="Processes to serve with.  [default: 1]")
@click.option("--print", "print_name", metavar="CLIENT", help="Print what points a client here, for eval, and end.")
@click.option("-m", "--model", help="With --print: the model that the client is to use.")
@click.option(
    "--page/--no-page",
    default=None,
    help="Print the address of the page at /, or do not serve it.  [default: printed on a terminal]",
)
@click.option(
    "--log-format",
    type=click.Choice(["json", "text", "none"]),
    help="The access log on standard output.  [default: json]",
)
@click.option(
    "--record",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Record every exchange with a host in this folder: contents included, keys left out.",
)
def serve(
    config_path: Path | None,
    host: str | None,
    port: int | None,
    store: str | None,
    workers: int | None,
    print_name: str | None,
    model: str | None,
    log_format: LogFormat | None,
    record: str | None,
    page: bool | None,
) -> int:
    """Serve models to other programs: Claude Code, Codex, Gemini CLI, SDKs …, each in its own protocol."""
    if print_name is not None and print_name not in SETUPS:
        raise click.BadParameter(f"no client {print_name!r}; expected {', '.join(SETUPS)}", param_hint="--print")
    if print_name is None and model is not None:
        raise click.UsageError("--model goes with --print: without it, each request names its own model")
    path = _config_path(config_path)
    config = load_config(path)
    given = {"host": host, "port": port, "workers": workers, "log_format": log_format, "record": record}
    server = replace(config.server, **{name: value for name, value in given.items() if value is not None})
    config = replace(config, server=server)
    # Asked before anything is opened: `--print` and the server must speak of the same models.
    sim = needs_doubles(config, Catalog())
    router = Router(config, _catalog(sim))
    if print_name is not None:
        click.echo(exports(print_name, _address(_url(server.host, server.port), router, model)))
        return OK
    for told in old_words(load_client_config()):
        click.echo(f"midstream: {told}", err=True)
    url = _state_url(store, config)
    loopback = binds_loopback(server.host)
    keys = _run_with_state(url, lambda state: state.keys())
    usable = [key for key in keys if _fault(key, time.time()) is None]
    # Refused at the start. A gateway that others can reach and nobody may use would look as if it worked.
    if not loopback and not usable:
        raise LocalError(
            f"{server.host} can be reached from other machines, and there is no key yet: create one with "
            f"`midstream gateway keys create --name me{_place(config_path, store)}`, "
            "or listen on 127.0.0.1"
        )
    closed = not loopback or bool(config.keys.required) or (config.keys.required is None and bool(keys))
    if closed and not usable:
        click.echo(
            "midstream: every request needs a key, and there is none: "
            f"midstream gateway keys create --name me{_place(config_path, store)}",
            err=True,
        )

    if page is None and not config.page.enabled:
        page = False

    def ready(where: str, app: GatewayApp | None = None) -> None:
        _tell_ready(where, router, sim, closed, _flags(config_path, host, where))
        # Its key is in it, so it does not go where nobody looks and logs are kept.
        if app is not None and (page or (page is None and sys.stderr.isatty())):

            def tell_address() -> None:
                click.echo(f"See it: {app.page_address(_local_url(where))}", err=True)

            tell_address()
            app.guard.on_locked_out = tell_address

    return _serve(config, path, url, loopback, sim, page is not False, ready)


def _serve(
    config: GatewayConfig,
    path: Path | None,
    url: str,
    loopback: bool,
    sim: bool,
    page: bool,
    ready: Callable[..., None],
) -> int:
    """Run the server until it is told to end; the one place that loads it."""
    try:
        from ..gateway.assembly import AppOptions
        from ..gateway.protocol import Limits
        from ..gateway.server import ServerOptions, serve_workers
        from ..gateway.server import serve as serve_here
    except ModuleNotFoundError as error:
        raise LocalError(f"the gateway needs {error.name}: pip install '.[gateway]' in midstream's checkout") from None
    server = config.server
    several = server.workers > 1
    options = ServerOptions(
        host=server.host,
        port=server.port,
        drain=server.drain,
        workers=server.workers,
        limits=Limits(
            head=server.max_header_kb * 1024,
            body=server.max_body_mb * 1024 * 1024,
            connections=server.max_connections,
            head_time=server.header_timeout,
            body_time=server.body_timeout,
            write_time=server.write_timeout,
        ),
    )
    app_options = AppOptions(
        config=path,
        state=url,
        loopback=loopback,
        # A PostgreSQL address may have other gateways on other machines, of which this one knows nothing.
        shared=several or is_postgres(url),
        sim=sim,
        record=server.record,
        log_format=server.log_format,
        page=page and not several,
        hosts=(server.host,),
    )
    factory = partial(_make_app, app_options)
    if not several:
        app = factory()
        return serve_here(app, options, ready=lambda where: ready(where, app))
    if not is_postgres(url):
        click.echo(
            f"midstream: {server.workers} processes on one SQLite file, so only on this machine: a key's rate may be exceeded "
            f"by up to {server.workers} twentieths of it in a minute, and its concurrency counts in each process",
            err=True,
        )
    return serve_workers(factory, options, ready=ready)


def _make_app(options: AppOptions) -> GatewayApp:
    """The application of one process, whose log goes to standard error."""
    from ..gateway.assembly import make_app

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("midstream: %(message)s"))
    log = logging.getLogger("midstream.gateway")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    return make_app(options)


def _local_url(where: str) -> str:
    """The address of a listening socket, for a client on this machine."""
    host, _, port = where.removeprefix("http://").rpartition(":")
    return _url(host.strip("[]"), int(port))


def _tell_ready(where: str, router: Router, sim: bool, closed: bool, flags: str) -> None:
    url = _local_url(where)
    need = f"every request needs a key (here: in {KEY_VARIABLE})" if closed else "no key is needed on this machine"
    click.echo(f"midstream gateway at {url}; {need}.", err=True)
    # Doubles that the configuration names stand beside real hosts.
    if sim and not router.config.aliases and router.config.models.allow is None:
        click.echo(
            "No provider's key is set, so it serves the scripted sim/ models: nothing leaves this machine.", err=True
        )
    if told := tell_unpriced(router):
        click.echo(f"midstream: {told}", err=True)
    click.echo(overview(_address(url, router, None), flags, closed), err=True)
    click.echo(f"Models: {url}/v1/models. Press Ctrl-C to stop.", err=True)


@gateway.command()
@click.argument("config_path", metavar="CONFIG", type=click.Path(dir_okay=False, path_type=Path))
def check(config_path: Path) -> int:
    """Check a configuration, and show where each name leads.

    \b
    Example:
      midstream gateway check gateway.toml
    """
    config = load_config(config_path)
    catalog = _catalog(needs_doubles(config, Catalog()))
    router = Router(config, catalog)
    click.echo(f"{config_path} is valid.")
    rows = [(alias.name, _shown_chain(alias)) for alias in config.aliases]
    width = max([len(name) for name, _ in rows], default=0)
    for name, chain in rows:
        click.echo(f"  {name:<{width}}  ->  {chain}")
    direct = [each.id for each in router.listed(LOCAL) if not each.alias]
    if direct:
        more = f" and {len(direct) - 8} more" if len(direct) > 8 else ""
        click.echo(f"By their own names: {', '.join(direct[:8])}{more}")
    if not binds_loopback(config.server.host):
        click.echo(f"{config.server.host} can be reached from other machines: every request needs a key.")
    if told := tell_unpriced(router):
        click.echo(f"{told[:1].upper()}{told[1:]}.")
    for problem in _unreachable(config, catalog):
        click.secho(f"warning: {problem}", fg="yellow", err=True)
    return OK


def _shown_chain(alias: Alias) -> str:
    if not alias.weights:
        return ", then ".join(alias.models)
    total = sum(alias.weights)
    shares = [
        f"{model} ({100 * weight / total:.0f} %)" for model, weight in zip(alias.models, alias.weights, strict=True)
    ]
    return f"{', '.join(shares)}; {'one for each conversation' if alias.sticky else 'chosen for each request'}"


def _unreachable(config: GatewayConfig, catalog: Catalog) -> list[str]:
    """What keeps models behind aliases from being asked."""
    problems: dict[str, list[str]] = {}
    for alias in config.aliases:
        for model in alias.models:
            try:
                catalog.check_key(catalog.resolve(model), otherwise="give it in config.toml")
            except (MissingKey, ConfigError) as error:
                problems.setdefault(str(error), []).append(alias.name)
    return [f"{problem} (needed by {', '.join(dict.fromkeys(names))})" for problem, names in problems.items()]


@gateway.group(epilog=_KEYS_EPILOG)
def keys() -> None:
    """Create, list and revoke the keys with which clients use the gateway."""


def _with_store(command: F) -> F:
    return _CONFIG(_STORE(command))


def _budget(_: click.Context, __: click.Parameter, value: str | None) -> Budget | None:
    try:
        return None if value is None else parse_budget(value)
    except ConfigError as error:
        raise click.BadParameter(str(error)) from None


_SPANS = {"h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}


def _expiry(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """`12h`, `90d`, `4w` from now, or the end of a day such as 2027-01-31."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d{1,5})([hdw])", value)
    if match and int(match[1]):
        return time.time() + int(match[1]) * _SPANS[match[2]]
    try:
        when = datetime.strptime(value, "%Y-%m-%d").replace(tzinfo=UTC).timestamp() + _SPANS["d"]
    except ValueError:
        when = 0.0
    if when <= time.time():
        raise click.BadParameter(f"invalid time {value!r}; expected 12h, 90d, 4w or a day to come, such as 2030-01-31")
    return when


def _patterns(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([part.strip() for value in values for part in value.split(",") if part.strip()]))


def _name(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None and (not value.strip() or not value.isprintable() or len(value) > 100):
        raise click.BadParameter("expected 1 to 100 printable characters")
    return value


@keys.command(epilog=_KEYS_EPILOG)
@click.option("--name", required=True, callback=_name, help="What the key is for; shown in lists and logs.")
@click.option("--tenant", callback=_name, help="Whose key it is: tenants share nothing.  [default: the name]")
@click.option(
    "--models",
    multiple=True,
    metavar="PATTERNS",
    callback=_patterns,
    help="What it may use, such as 'claude-*,best'; repeatable.",
)
@click.option("--rate", type=click.IntRange(1), help="Requests a minute.")
@click.option("--concurrency", type=click.IntRange(1), help="Requests at once.")
@click.option("--spend", metavar="20/month", callback=_budget, help="US dollars a day, a month or in total.")
@click.option(
    "--expires", metavar="90d", callback=_expiry, help="When it ends: 12h, 90d, 4w, or after a day such as 2030-01-31."
)
@click.option(
    "--text-calls",
    type=click.Choice(["show", "reask", "execute"]),
    help="What becomes of tool calls that a model writes as text.  [default: as the alias or the configuration says]",
)
@_with_store
def create(
    name: str,
    tenant: str | None,
    models: tuple[str, ...],
    rate: int | None,
    concurrency: int | None,
    spend: Budget | None,
    expires: float | None,
    text_calls: TextCalls | None,
    config_path: Path | None,
    store: str | None,
) -> None:
    """Create a key, and print it: the only time it is shown."""
    made = make_key()
    record = KeyRecord(
        made.id,
        tenant or name,
        made.digest,
        name,
        created=time.time(),
        expires=expires,
        models=models,
        rate=rate,
        concurrency=concurrency,
        spend=None if spend is None else spend.dollars,
        spend_window="month" if spend is None else spend.window,
        text_calls=text_calls or "",
    )

    async def add(state: GatewayState) -> None:
        taken = {LOCAL.id, *[key.tenant for key in await state.keys()]}
        # Two people who happen to choose one name would otherwise read each other's kept reasoning.
        if tenant is None and name in taken:
            raise LocalError(
                f"there is already a tenant {name!r}, and keys of one tenant share what is kept for them: choose another "
                f"--name, or say --tenant {name} if that is meant"
            )
        await state.add_key(record)

    _run_with_state(_state_url(store, load_config(_config_path(config_path))), add)
    # Alone on standard output, so that a script can catch it; the words for people go to standard error.
    click.echo(made.key.reveal())
    click.echo(
        f"{made.id}: {_limits(record)}. The key is not stored and not shown again.\n"
        f"Put it into {KEY_VARIABLE} where `midstream serve --print` sets up a client.",
        err=True,
    )


@keys.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@_with_store
def list_keys(as_json: bool, config_path: Path | None, store: str | None) -> None:
    """List the keys, with their limits and what they have spent. The keys themselves are not stored."""
    now = time.time()
    config = load_config(_config_path(config_path))

    async def read(state: GatewayState) -> list[tuple[KeyRecord, int]]:
        found = [_with_defaults(key, config) for key in await state.keys()]
        return [(key, await state.spend(key.id, window_key(key.spend_window, now))) for key in found]

    found = _run_with_state(_state_url(store, config), read)
    unpriced = _unpriced_models(config, [key for key, _ in found])
    if as_json:
        for key, spent in found:
            click.echo(msgspec.json.encode({**_key_row(key, spent, now), "unpriced": unpriced.get(key.id, [])}))
        return
    if not found:
        click.echo(f"There are no keys: midstream gateway keys create --name me{_place(config_path, store)}", err=True)
        return
    rows = [("ID", "NAME", "TENANT", "ENDS IN", "SPENT", "LIMITS")]
    for key, spent in found:
        limits = "; ".join([each for each in (_fault(key, now), _limits(key)) if each])
        rows.append((key.id, key.name, key.tenant, f"…{last_four(key.id)}", show_dollars(spent / MICRO), limits))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)]
        click.echo(f"{'  '.join(cells)}  {row[-1]}".rstrip())
    for id, models in unpriced.items():
        more = f" and {len(models) - 8} more" if len(models) > 8 else ""
        click.echo(
            f"{id} has a budget, and no price is known of {', '.join(models[:8])}{more} (unpriced = {config.keys.unpriced!r})"
        )


def _unpriced_models(config: GatewayConfig, keys: Sequence[KeyRecord]) -> dict[str, list[str]]:
    """For each key with a budget, the models without a price that it may use."""
    limited = [key for key in keys if key.spend is not None and key.revoked is None]
    if not limited:
        return {}
    try:
        router = Router(config, _catalog(needs_doubles(config, Catalog())))
    except MidstreamError as error:  # the keys are to be seen all the same
        click.echo(f"midstream: {error}", err=True)
        return {}
    found = {key.id: router.unpriced(tenant_of(key, config.keys)) for key in limited}
    return {id: models for id, models in found.items() if models}


@keys.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@_with_store
def revoke(ids: tuple[str, ...], config_path: Path | None, store: str | None) -> None:
    """Revoke keys. Every gateway on the same store refuses them within 5 seconds."""

    async def revoke_all(state: GatewayState) -> list[str]:
        return [id for id in ids if not await state.revoke_key(id, time.time())]

    place = _place(config_path, store)
    unknown = _run_with_state(_state_url(store, load_config(_config_path(config_path))), revoke_all)
    for id in ids:
        if id not in unknown:
            click.echo(f"{id} is revoked.")
    if unknown:
        raise LocalError(
            f"no key in force has the ID {' or '.join(unknown)}; `midstream gateway keys list{place}` shows each ID, and what "
            "is revoked already"
        )


def _with_defaults(key: KeyRecord, config: GatewayConfig) -> KeyRecord:
    """The key with the limits that hold for it."""
    tenant = tenant_of(key, config.keys)
    return replace(
        key, rate=tenant.rate, concurrency=tenant.concurrency, spend=tenant.spend, spend_window=tenant.spend_window
    )


def _key_row(key: KeyRecord, spent: int, now: float) -> dict[str, Any]:
    told = msgspec.structs.asdict(key)
    del told["digest"]
    return {**told, "last_four": last_four(key.id), "spent": spent / MICRO, "state": _fault(key, now) or "active"}


def _fault(key: KeyRecord, now: float) -> str | None:
    """Why a key cannot be used."""
    if key.revoked is not None:
        return f"revoked {datetime.fromtimestamp(key.revoked, UTC):%Y-%m-%d}"
    if key.expires is not None and key.expires <= now:
        return f"expired {datetime.fromtimestamp(key.expires, UTC):%Y-%m-%d}"
    return None


def _limits(key: KeyRecord) -> str:
    told = [
        f"models {', '.join(key.models)}" if key.models else "all models",
        f"{pluralize(key.rate, 'request')} a minute" if key.rate is not None else "",
        f"{key.concurrency} at once" if key.concurrency is not None else "",
        show_budget(key.spend, key.spend_window) if key.spend is not None else "",
        f"text calls: {key.text_calls}" if key.text_calls else "",
        f"until {datetime.fromtimestamp(key.expires, UTC):%Y-%m-%d %H:%M} UTC" if key.expires is not None else "",
    ]
    return ", ".join([each for each in told if each])


def needs_doubles(config: GatewayConfig, catalog: Catalog) -> bool:
    """Whether the `sim/` models are to be served: they are named, or there is nothing else."""
    named = [model for alias in config.aliases for model in alias.models] + list(config.models.allow or ())
    if any(model.startswith(f"{SIM}/") for model in named):
        return True
    if named or config.models.allow is not None or catalog.config.providers or catalog.config.aliases:
        return False
    rows = catalog.registry.providers.values()
    return not any(
        catalog.key_variable(row) or catalog.base_variable(row) or catalog.stored_in(row.name) for row in rows
    )


def _catalog(sim: bool) -> Catalog:
    """The operator's catalog, for checking names; the doubles' address is not known yet."""
    rows = [row for row in sim_providers("http://127.0.0.1") if row.name == SIM] if sim else []
    return Catalog(providers=rows)


def binds_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens there. 0.0.0.0 is every address, and a name may be anything."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _url(host: str, port: int) -> str:
    """The address for a client on this machine."""
    # "Every address" is no address that a client could connect to.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _place(config_path: Path | None, store: str | None) -> str:
    """The flags with which another command finds the same keys."""
    given = (("--config", config_path), ("--store", None if store is None else shown_address(store)))
    return "".join([f" {flag} {shlex.quote(str(value))}" for flag, value in given if value is not None])


def _flags(config_path: Path | None, host: str | None, where: str) -> str:
    """The flags with which `--print` speaks of this gateway."""
    port = where.rpartition(":")[2]
    return "".join(
        [
            f" --config {shlex.quote(str(config_path))}" if config_path is not None else "",
            f" --host {shlex.quote(host)}" if host is not None else "",
            f" --port {port}" if port != str(DEFAULT_PORT) else "",
        ]
    )


def _address(url: str, router: Router, model: str | None) -> Address:
    """Where clients go, and the model they ask for: the one that was named, else the first that is served."""
    served = router.served()
    first = f"{SIM}/{MODELS[0]}" if f"{SIM}/{MODELS[0]}" in served else served[0] if served else f"{SIM}/{MODELS[0]}"
    if model is not None:
        router.route(model, LOCAL)
        return Address(url, model)
    claudes = tuple([family for family, name in CLAUDES.items() if _is_served(name, router)])
    return Address(url, (router.config.aliases and served[0]) or first, claudes)


def _is_served(name: str, router: Router) -> bool:
    try:
        return bool(router.route(name, LOCAL, "").models)
    except MidstreamError:
        return False


def _config_path(given: Path | None) -> Path | None:
    if given is not None:
        return given
    own = config_home() / CONFIG_FILE
    return own if own.is_file() else None


def _state_url(store: str | None, config: GatewayConfig) -> str:
    return store or config.state.url or str(state_path())


def _run_with_state(url: str, work: Callable[[GatewayState], Awaitable[T]]) -> T:
    async def run() -> T:
        state = open_state(url)
        await state.open()
        try:
            return await work(state)
        finally:
            await state.close()

    return asyncio.run(run())
