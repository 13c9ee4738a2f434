"""`midstream replay`: answer requests from recordings, for programs in any language."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast, get_args

import click

from ..core.visible import terminal_safe
from ..recording.replay import Pace
from ..recording.scrub import Scrub
from ..testing.recording_server import ReplayServer
from .options import scrub_option
from .running import run


@click.group()
def replay() -> None:
    """Play recordings back, without a host and without a key."""


_EPILOG = """\b
Examples:
  midstream replay serve cassettes
  midstream replay serve cassettes --pace bytes --port 0
  OPENAI_BASE_URL=http://127.0.0.1:8767/v1 OPENAI_API_KEY=any python my_program.py"""


@replay.command(epilog=_EPILOG)
@click.argument("cassette", metavar="FILE|DIR", type=click.Path(path_type=Path, exists=True))
@click.option("--port", default=8767, show_default=True, help="Port to listen on; 0 for any free one.")
@click.option(
    "--pace",
    type=click.Choice(get_args(Pace)),
    default="chunks",
    show_default=True,
    help="chunks: as it was cut, at once. original: when it came. fast: all together. bytes: one at a time. random: cut anew.",
)
@click.option("--seed", default=0, show_default=True, help="Where --pace random cuts.")
@click.option("--once", is_flag=True, help="Refuse a request that was asked more often than it was recorded.")
@scrub_option
def serve(cassette: Path, port: int, pace: str, seed: int, once: bool, scrub: tuple[str, ...]) -> None:
    """Serve recordings until Ctrl-C.

    A request must be the one that was recorded: its method, its path and its body, but for ids of tool calls and the order of names. Any other
    is answered with 404, and what differs is shown here. Several recordings of one request are given in their order. What was taken out
    with --scrub when they were recorded has to be taken out of the requests as well: say the same here.
    """
    server = ReplayServer(
        cassette,
        port=port,
        pace=cast(Pace, pace),
        seed=seed,
        scrub=Scrub(patterns=scrub),
        repeat=not once,
        on_refused=_refused,
    )
    try:
        run(_serve(server))
    except KeyboardInterrupt:
        pass  # the way to end it
    except OSError as error:
        raise click.ClickException(f"cannot listen on 127.0.0.1:{port}: {error.strerror or error}") from None


async def _serve(server: ReplayServer) -> None:
    async with server:
        click.echo(f"Replaying {len(server.replay)} recordings at {server.url}, with the paths that were recorded:")
        for path in server.replay.paths:
            click.echo(f"  {server.url}{terminal_safe(path)}")
        click.echo("Press Ctrl-C to stop.")
        await asyncio.Event().wait()


def _refused(why: str) -> None:
    click.secho(terminal_safe(why), fg="red", err=True)
