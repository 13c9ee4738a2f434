"""The command `midstream`: a group whose commands are imported when they are used.

`midstream --version` and `--help` import none of them. Every error ends in one line that says what to do and in an exit
code (see `code_for`), never in a traceback, unless MIDSTREAM_DEBUG=1 is set.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from keyword import iskeyword
from typing import Any

import click

from .. import __version__
from ..core.errors import MidstreamError, UnknownModel, UnknownToolFormat
from ..core.visible import visible
from .terminal import color_option

# 75 is EX_TEMPFAIL (rate limits, overload, timeouts, a broken stream): a script may simply run the same command again.
# 141 is what a shell reports of a program that SIGPIPE ended.
OK = 0
FAILED = 1
USAGE = 2
RETRY = 75
INTERRUPTED = 130
PIPE_CLOSED = 141
TERMINATED = 143


def code_for(error: MidstreamError) -> int:
    """The exit code for an error."""
    if isinstance(error, UnknownModel | UnknownToolFormat):
        return USAGE
    # A script can act on this without reading the message (field-guide/names.md#exit-codes).
    return RETRY if error.retryable else FAILED


# The commands that are imported when they are used, each from the module of its name, and their lines in the help.
COMMANDS = {
    "chat": "Chat with a model, and switch to another at any time with /model.",
    "ask": "Ask one question; the answer goes to standard output.",
    "models": "List the known models and whether their keys are set; add a verified host.",
    "sessions": "List, search, show, export or import stored conversations.",
    "import": "Continue a session of Claude Code, Codex or another program here.",
    "keys": "Store, list or remove the keys of providers.",
    "config": "Show the settings and where they come from.",
    "doctor": "Report what is broken in a history, and write a healed copy.",
    "verify": "Check whether a host behaves as it should.",
    "demo": "Watch one conversation go through many models; needs no key.",
    "acp": "Run as an agent in Zed and other editors.",
    "mcp": "Manage the MCP servers of a chat, or serve other agents over MCP.",
    "record": "Record what hosts answer, and turn recordings into tests.",
    "replay": "Play recordings back to programs in any language.",
    "sim": "Run doubles of the providers on loopback.",
    "serve": "Run the gateway: any client, any model.",
    "gateway": "Run the gateway, make keys for it, check its configuration.",
    "web": "Show conversations in a browser, as each provider receives them.",
}
# Commands that live in a module of another name: another command's, or their own where Python keeps the name for itself.
_HOMES = {"serve": "gateway", "import": "importing"}

_EPILOG = """\b
Examples:
  midstream ask "What is a monad?" -m moonshot/kimi-k2.5
  git diff | midstream ask "Write a commit message" -m anthropic/claude-sonnet-4-5
  midstream chat -m sim/kimi-k2.5            needs no key: a scripted model
  midstream chat --continue                  continue the last conversation
  midstream serve                            for Claude Code, Codex and other clients

\b
Exit codes: 0 success, 1 failure, 2 usage error, 75 temporary failure (try again), 130 interrupted,
141 nobody reads the output any more.
MIDSTREAM_DEBUG=1 shows tracebacks."""


class LazyGroup(click.Group):
    """Imports a command when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        # Here and not above: `midstream ask` must not wait for the import of a gateway or a terminal library.
        module = importlib.import_module(f"midstream.cli.{_HOMES.get(cmd_name, cmd_name)}")
        command = getattr(module, f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = [(name, command.get_short_help_str(100)) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl([*COMMANDS.items(), *own])

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _leaving_closed_pipes():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _leaving_closed_pipes():
            return super().invoke(ctx)

    # click has more arguments here, and an overload for standalone mode; they are passed through.
    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any) -> Any:  # type: ignore[override]
        """Run, and turn whatever happens into an exit code and at most one line."""
        # click would print and exit by itself, with its own codes.
        extra["standalone_mode"] = False
        _lenient_output()
        warnings.showwarning = _show_warning
        try:
            code = super().main(args=args, prog_name=prog_name, **extra)
            _flush()
            sys.exit(code if isinstance(code, int) else OK)
        except click.ClickException as error:
            error.show()
            sys.exit(error.exit_code)
        except (KeyboardInterrupt, click.Abort):
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            _discard_output()
            sys.exit(PIPE_CLOSED)
        except MidstreamError as error:
            _tell(str(error))
            _debug()
            sys.exit(code_for(error))
        except Exception as error:
            # The edge of the program: a defect of ours must not print a traceback on the user's terminal.
            _tell(
                f"unexpected {type(error).__name__}: {error} (a bug: please report it; MIDSTREAM_DEBUG=1 shows where)"
            )
            _debug()
            sys.exit(FAILED)


@contextmanager
def _leaving_closed_pipes() -> Iterator[None]:
    """Exit if the reader of our output is gone (`| head`). click would do it too, and say 1, as for any failure."""
    try:
        yield
    except BrokenPipeError:
        raise click.exceptions.Exit(PIPE_CLOSED) from None


def _discard_output() -> None:
    """Nobody reads what is left to write: say nothing of it, also not when Python flushes at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            # Python flushes once more at its end, and would print a traceback for a pipe that is closed.
            os.dup2(nowhere, stream.fileno())


def _tell(message: str) -> None:
    click.echo(f"midstream: {' '.join(visible(message).split())}", err=True)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """A warning is one line too, without the place in the code."""
    _tell(f"warning: {message}")


def _debug() -> None:
    if os.environ.get("MIDSTREAM_DEBUG"):
        import traceback

        traceback.print_exc()


def _lenient_output() -> None:
    """Write a question mark for a character that the terminal cannot show, instead of raising."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        # The event loop closes what it was given to write to, as `midstream acp` gives it its output.
        if not stream.closed:
            stream.flush()


@click.group(
    cls=LazyGroup, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, prog_name="midstream")
@color_option
def main() -> None:
    """One conversation, any order of models, never a 400.

    Ask or chat with models of many providers, and switch models in the middle of a conversation: tool calls, results
    and reasoning are translated into the form each model needs.
    """


_COMPLETION_EPILOG = """\b
To install it:
  bash:  midstream completion bash > ~/.local/share/bash-completion/completions/midstream
  zsh:   midstream completion zsh > "${fpath[1]}/_midstream"
  fish:  midstream completion fish > ~/.config/fish/completions/midstream.fish"""


@main.command(epilog=_COMPLETION_EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for bash, zsh or fish."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "midstream", "_MIDSTREAM_COMPLETE").source())


if __name__ == "__main__":
    main()
