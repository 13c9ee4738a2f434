"""`midstream sim`: the strict doubles as a server, and the hand-off matrix they judge."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from functools import cache
from typing import Literal

import click

from ..dialects.registry import REGISTRY, Registry
from ..doctor import SCENES, HandOff, hand_offs, table
from ..sim.faults import FAULTS
from ..sim.players import make_players
from ..sim.providers import MODELS, PLAYED, SIM, sim_providers
from ..sim.server import Sim
from .main import FAILED, OK
from .running import run

_ALSO = ("vllm-kimi-k2.5",)  # Kimi's own ids, which none of the played hosts demands


@click.group()
def sim() -> None:
    """Run doubles of the providers on loopback, which refuse what the real ones refuse."""


@sim.command()
@click.option("--port", default=8765, show_default=True, help="Port to listen on; 0 for any free one.")
@click.option("--delay", default=0.02, show_default=True, help="Seconds to wait before each streamed piece.")
@click.option(
    "--fault",
    "faults",
    multiple=True,
    type=click.Choice(tuple(FAULTS)),
    metavar="NAME",
    help="Answer the next request with this fault; repeatable. docs/reference/faults.md lists them.",
)
@click.option(
    "--always",
    multiple=True,
    type=click.Choice(tuple(FAULTS)),
    metavar="NAME",
    help="Answer every request with this fault; repeatable.",
)
@click.option(
    "--strict",
    type=click.Choice(("documented", "paranoid")),
    default="documented",
    show_default=True,
    help="Refuse what is documented of a host or was observed at it, or also what is only assumed.",
)
@click.option("--lenient", is_flag=True, help="Accept every request.")
@click.option("--key", help="Refuse every other key than this, and none; without it any key works.")
def serve(
    port: int,
    delay: float,
    faults: tuple[str, ...],
    always: tuple[str, ...],
    strict: Literal["documented", "paranoid"],
    lenient: bool,
    key: str | None,
) -> None:
    """Run the doubles until Ctrl-C."""
    try:
        run(
            _serve(
                Sim(port=port, delay=delay, faults=faults, always=always, strict=False if lenient else strict, key=key)
            )
        )
    except KeyboardInterrupt:
        pass  # the way to end it
    except OSError as error:
        raise click.ClickException(f"cannot listen on 127.0.0.1:{port}: {error.strerror or error}") from None


async def _serve(server: Sim) -> None:
    async with server:
        click.echo(
            f"The doubles are running at {server.url}; {'only your key works' if server.guarded else 'any key works'}. "
            "Base URLs, and the variables from which midstream takes them:"
        )
        hosts = {row.who: row.provider for row in PLAYED} | {"any of them, by the model's name": SIM}
        width, address = max(len(who) for who in hosts), max(len(f"{server.url}/{name}") for name in hosts.values())
        for who, provider in hosts.items():
            variable = "" if provider == SIM else REGISTRY.providers[provider].endpoint.base_env[0]
            variable = variable.replace("_API_BASE", "_BASE_URL")  # both spellings are read
            click.echo(f"  {who:{width}}  {f'{server.url}/{provider}':{address}}  {variable}".rstrip())
        click.echo(f"For example: MOONSHOT_BASE_URL={server.url}/moonshot midstream ask Hello -m moonshot/kimi-k2.5")
        click.echo(f"Models under /sim: {', '.join(MODELS)}")
        click.echo("Press Ctrl-C to stop.")
        told = 0
        while True:
            await asyncio.sleep(0.5)
            new = server.refusals - told
            for problem in server.refused[-new:] if new else ():
                click.secho(f"refused {problem.status} ({problem.basis}): {problem.message}", fg="red")
            told += new


@sim.command()
@click.option("--all", "everything", is_flag=True, help="All dialects, not only the best known: a million hand-offs.")
@click.option(
    "--jobs", type=click.IntRange(1, 64), help="Processes to work in with --all; one for each core if not given."
)
def matrix(everything: bool, jobs: int | None) -> int:
    """Encode the histories of each dialect for every other, and check them by its rules."""
    names = list(make_players()) if everything else _best_known()
    found = _judged_in_parallel(names, jobs) if everything else [_judged(maker, names) for maker in names]
    refused = [each for _, bad in found for each in bad]
    if not everything:
        click.echo(table(names, refused))
    for each in refused[:20]:
        click.secho(f"{each.maker} -> {each.reader}, {each.scene}: {each.problems[0].message}", fg="red")
    total = sum(count for count, _ in found)
    click.echo(f"{total} hand-offs, {len(names)} x {len(names)} dialects, {len(refused)} refused")
    click.echo(f"Each pair hands over {len(SCENES)} histories: {', '.join(SCENES)}.")
    return FAILED if refused else OK


def _judged(maker: str, readers: Sequence[str]) -> tuple[int, list[HandOff]]:
    """How many histories of one maker were handed over, and those that were refused."""
    players = _players()
    found = list(hand_offs({maker: players[maker]}, readers={name: players[name] for name in readers}))
    return len(found), [each for each in found if each.problems]


_players = cache(make_players)


def _judged_in_parallel(names: Sequence[str], jobs: int | None) -> list[tuple[int, list[HandOff]]]:
    from concurrent.futures import ProcessPoolExecutor  # late: nothing else here starts a process
    from multiprocessing import get_context

    found = []
    with (
        ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool,
        click.progressbar(length=len(names), label="Handing over", file=sys.stderr) as bar,
    ):
        for judged in pool.map(_judged, names, [names] * len(names)):
            found.append(judged)
            bar.update(1)
    return found


def _best_known() -> list[str]:
    """The dialects of the models that `sim/…` offers."""
    played = Registry(sim_providers(""))
    return [*[played.resolve(f"{SIM}/{model}").dialect.name for model in MODELS], *_ALSO]
