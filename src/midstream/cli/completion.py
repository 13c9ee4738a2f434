"""`midstream completion`: the script that makes a shell complete commands, options and model names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_EPILOG = """\b
To install:
  bash:  midstream completion bash > ~/.local/share/bash-completion/completions/midstream
  zsh:   midstream completion zsh > "${fpath[1]}/_midstream"
  fish:  midstream completion fish > ~/.config/fish/completions/midstream.fish"""


@click.command(epilog=_EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "midstream", "_MIDSTREAM_COMPLETE").source())
