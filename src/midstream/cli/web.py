"""`midstream web`: the page in a browser on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from ..core.errors import LocalError
from ..store import Store
from .demo import TOUR, perform_tour
from .demo_stage import QuietStage
from .options import store_option

DEFAULT_PORT = 4040
_TITLE = "The demo: one trip, handed from Kimi to Claude to Mistral to GPT and back"

_EPILOG = """\b
Examples:
  midstream web                     print an address to open in a browser on this machine
  midstream web --open              open it in the browser as well
  midstream web --store work.db     show the conversations of another store
  midstream web --tools             let models ask for tools in this folder; you approve each call in the page

\b
The page has your conversations, any turn as each wire receives it, a chat box, the doctor, costs and models.
Without conversations it shows the demo's; without a key the sim/ models answer.
The address works in one browser: the part after # is a key that works once. Open the page without it, and a new one is printed
here. Nothing is loaded from other sites."""


@click.command(epilog=_EPILOG)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port to listen on (loopback only); 0 for any free one.",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in the browser.")
@click.option(
    "--tools",
    is_flag=True,
    help="Offer tools that work in this folder. They are off until you turn them on, and ask before they change anything.",
)
@store_option
def web(port: int, opens: bool, tools: bool, store_at: str | None) -> int:
    """Show conversations in your browser as each wire receives them, with a chat, the doctor and more."""
    try:
        from ..gateway.server import ServerOptions, serve
        from ..web.local import LocalPage
    except ModuleNotFoundError as error:
        raise LocalError(f"the page needs {error.name}: pip install '.[gateway]' in midstream's checkout") from None
    page = LocalPage(store_at=store_at, folder=Path.cwd() if tools else None, sample=add_demo)

    def ready(url: str) -> None:
        address = page.address(url)
        page.guard.on_locked_out = lambda: click.echo(
            f"for another browser, or after a long pause: {page.address(url)}"
        )
        click.echo(f"midstream web at {address}")
        click.echo("It works once, in a browser on this machine. Press Ctrl-C to stop.", err=True)
        if opens:
            import webbrowser

            webbrowser.open(address)

    return serve(page, ServerOptions(port=port, drain=1.0), ready=ready)


async def add_demo(store: Store) -> None:
    """Play the demo into a store."""
    await perform_tour(QuietStage(), TOUR, live=False, delay=0.0, store=store)
    for info in store.list(limit=1):
        store.set_meta(info.id, "title", _TITLE)
