"""`midstream sessions`: the stored conversations, listed, searched, shown, exported, imported, deleted."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from ..core.visible import terminal_safe, visible
from ..store import ConversationInfo, SqliteStore, import_file, to_jsonl, to_markdown
from .terminal import Paint, color_choice, color_option, is_terminal, wants_color
from .view import shortened
from .workspace import find_session

_EPILOG = """\b
Examples:
  midstream sessions                      the last ones
  midstream sessions search kimi ids
  midstream sessions export 3f2a > chat.md
  midstream sessions export --all --format jsonl > all.jsonl
  midstream sessions import all.jsonl

The beginning of an id is enough, as long as only one fits."""


def session_line(info: ConversationInfo, now: float) -> str:
    """One conversation in one line."""
    models = ", ".join(info.models) or "no answer yet"
    title = " ".join(info.title.split()) or "(untitled)"
    return f"{info.id[:8]}  {_ago(now - info.updated):>8}  {info.turns:>3} turns  {shortened(title, 60)}  [{models}]"


def _ago(seconds: float) -> str:
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return "now"


@contextmanager
def _store() -> Iterator[SqliteStore]:
    store = SqliteStore()
    try:
        yield store
    finally:
        store.close()


@click.group(invoke_without_command=True, epilog=_EPILOG)
@click.option("-n", "--limit", default=20, show_default=True, type=click.IntRange(1), help="How many to list.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@color_option
@click.pass_context
def sessions(ctx: click.Context, limit: int, as_json: bool) -> None:
    """Stored conversations, the last changed first."""
    if ctx.invoked_subcommand is not None:
        return
    with _store() as store:
        infos = store.list(limit)
    now = time.time()
    for info in infos:
        click.echo(msgspec.json.encode(info).decode() if as_json else visible(session_line(info, now)))
    if not infos and not as_json:
        click.echo("no conversation is stored yet: start one with `midstream chat`", err=True)


@sessions.command()
@click.argument("words", nargs=-1, required=True)
def search(words: tuple[str, ...]) -> None:
    """Find turns that hold all these words."""
    paint = Paint(wants_color(color_choice(), sys.stdout))
    with _store() as store:
        hits = store.search(" ".join(words))
    for hit in hits:
        line = visible(" ".join(hit.snippet.split()))
        click.echo(f"{paint(hit.conversation[:8], 'cyan')} {hit.speaker:>5}  {line}", color=paint.on)


@sessions.command()
@click.argument("session_id", metavar="ID")
@click.option("--thinking", is_flag=True, help="With the reasoning.")
def show(session_id: str, thinking: bool) -> None:
    """Show a conversation as Markdown."""
    with _store() as store:
        entry = store.entry(find_session(store, session_id))
    _write(to_markdown(entry, thinking=thinking))


@sessions.command()
@click.argument("session_id", metavar="[ID]", required=False)
@click.option("--all", "everything", is_flag=True, help="All conversations (as JSONL).")
@click.option("--format", "kind", type=click.Choice(["md", "jsonl"]), help="md to read, jsonl to import again.")
@click.option("--thinking", is_flag=True, help="With the reasoning (md; jsonl always holds it).")
def export(session_id: str | None, everything: bool, kind: str | None, thinking: bool) -> None:
    """Write a conversation (the last one, if none is named) to standard output."""
    with _store() as store:
        if everything and kind != "md":
            offset = 0
            while infos := store.list(100, offset):
                offset += len(infos)
                for info in infos:
                    _write(b"".join(to_jsonl([store.entry(info.id)])).decode())
            return
        if everything:
            raise click.UsageError("--all writes jsonl: leave out --format md")
        entry = store.entry(find_session(store, session_id))
    _write(b"".join(to_jsonl([entry])).decode() if kind == "jsonl" else to_markdown(entry, thinking=thinking))


@sessions.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--provider", help="Who made these histories, where the files do not say.")
def import_(files: tuple[Path, ...], provider: str | None) -> None:
    """Store histories made elsewhere: OpenAI, Anthropic, Responses, kimi-cli, llm, or our own JSONL."""
    with _store() as store:
        for file in files:
            for conversation_id in import_file(store, file, provider=provider):
                click.echo(conversation_id)


@sessions.command()
@click.argument("session_id", metavar="ID")
@click.confirmation_option("-y", "--yes", prompt="Delete this conversation for good?")
def delete(session_id: str) -> None:
    """Delete a conversation for good."""
    with _store() as store:
        found = find_session(store, session_id)
        store.delete(found)
    click.echo(f"deleted {found}", err=True)


def _write(text: str) -> None:
    """Exactly where it is data, safe where it is a terminal."""
    sys.stdout.write(terminal_safe(text) if is_terminal(sys.stdout) else text)
