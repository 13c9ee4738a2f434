"""`midstream sim`: the strict doubles as a server, and the hand-off matrix they judge."""

from __future__ import annotations

import asyncio
import sys

import click

from ..core.errors import MidstreamError
from ..doctor import SCENES, hand_offs, report
from ..sim.players import make_players
from ..sim.providers import MODELS
from ..sim.server import FAULTS, Sim

_SHOWN = (
    ("Kimi, by OpenAI's client", "moonshot"),
    ("GPT, by OpenAI's client", "openai"),
    ("Mistral", "mistral"),
    ("DeepSeek", "deepseek"),
    ("Claude, by Anthropic's client", "anthropic"),
    ("Gemini", "gemini"),
    ("Ollama", "ollama"),
    ("Cohere", "cohere"),
    ("DeepInfra, both paths", "deepinfra"),
    ("any of them, by the model's name", "sim"),
)
_CORE = (
    "moonshot-k2", "moonshot-k2-thinking", "moonshot-k2.5", "moonshot-k3", "vllm-kimi-k2.5", "deepinfra-kimi-k2.5",
    "openai", "mistral", "deepseek-reasoner", "claude", "openai-responses-5", "gemini-3-pro", "ollama", "cohere", "cohere-reasoning",
)  # fmt: skip


@click.group()
def sim() -> None:
    """Provider doubles on loopback: they refuse what the real ones refuse."""


@sim.command()
@click.option("--port", default=8765, show_default=True, help="0 for any free port.")
@click.option("--delay", default=0.02, show_default=True, help="Seconds before each streamed piece.")
@click.option("--fault", "faults", multiple=True, type=click.Choice(FAULTS), help="For the next request; repeatable.")
@click.option("--lenient", is_flag=True, help="Refuse nothing.")
def serve(port: int, delay: float, faults: tuple[str, ...], lenient: bool) -> None:
    """Run the doubles until Ctrl-C."""
    try:
        asyncio.run(_serve(Sim(port=port, delay=delay, faults=faults, strict=not lenient)))
    except KeyboardInterrupt:
        pass
    except OSError as error:
        raise click.ClickException(f"cannot listen on 127.0.0.1:{port}: {error.strerror or error}") from None


async def _serve(server: Sim) -> None:
    async with server:
        click.echo(f"The doubles are at {server.url}; any key will do. Give a client its provider's base URL:")
        width = max(len(who) for who, _ in _SHOWN)
        for who, provider in _SHOWN:
            click.echo(f"  {who:{width}}  {server.url}/{provider}")
        click.echo(f"Such as: MOONSHOT_BASE_URL={server.url}/moonshot midstream ask Hello -m moonshot/kimi-k2.5")
        click.echo(f"Models under /sim: {', '.join(MODELS)}")
        click.echo("Ctrl-C ends it.")
        told = 0
        while True:
            await asyncio.sleep(0.5)
            for problem in server.refused[told:]:
                click.secho(f"refused {problem.status}: {problem.message}", fg="red")
            told = len(server.refused)


@sim.command()
@click.option("--all", "everything", is_flag=True, help="Every dialect of the registry, not only the best known.")
def matrix(everything: bool) -> None:
    """Every dialect's histories, encoded for every other and judged by its rules."""
    players = make_players()
    chosen = players if everything else {name: players[name] for name in _CORE if name in players}
    try:
        found = list(hand_offs(chosen))
    except MidstreamError as error:
        raise click.ClickException(str(error)) from None
    click.echo(report(found))
    bad = [each for each in found if each.problems]
    for each in bad[:20]:
        click.secho(f"{each.maker} -> {each.reader}, {each.scene}: {each.problems[0].message}", fg="red")
    click.echo(f"Each pair hands over {len(SCENES)} histories: {', '.join(SCENES)}.")
    if bad:
        sys.exit(1)


if __name__ == "__main__":
    sim()
