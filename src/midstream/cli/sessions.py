"""`midstream sessions`: list, search, show, export, import and delete stored conversations."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import click
import msgspec

from ..core.errors import LocalError
from ..core.plural import pluralize
from ..core.visible import terminal_safe, visible
from ..store import FORMATS, ConversationInfo, Store, import_file, open_store, to_jsonl, to_markdown
from ..store.paths import write_private_file
from ..store.programs import PROGRAMS, Place
from ..store.search import searchable
from .options import store_option
from .terminal import Paint, color_choice, color_option, is_terminal, wants_color
from .view import shortened
from .workspace import find_session

_EPILOG = """\b
Examples:
  midstream sessions                      the latest ones
  midstream sessions search kimi ids
  midstream sessions export 3f2a -o chat.md       readable by you only
  midstream sessions export --all -o all.jsonl
  midstream sessions import all.jsonl
  midstream sessions export 3f2a --to claude-code   to continue it there; prints the command

The first characters of an id are enough if they are unambiguous."""


def session_line(info: ConversationInfo, now: float) -> str:
    """One conversation in one line."""
    models = ", ".join(info.models) or "no answer yet"
    title = shortened(title_of(info), 60)
    return f"{info.id[:8]}  {ago(now - info.updated):>8}  {pluralize(info.turns, 'turn'):>9}  {title}  [{models}]"


def title_of(info: ConversationInfo) -> str:
    return " ".join(info.title.split()) or "(untitled)"


def ago(seconds: float) -> str:
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return "now"


def search_lines(store: Store, words: str, paint: Callable[..., str] = lambda text, *_: text) -> list[str]:
    """The turns that contain these words, below the conversations they are in."""
    lines: list[str] = []
    hits = store.search(words)
    for conversation_id in dict.fromkeys([hit.conversation for hit in hits]):
        info = store.info(conversation_id)
        day = time.strftime("%Y-%m-%d", time.localtime(info.updated))
        title = visible(" ".join(info.title.split())) or "(untitled)"
        lines.append(f"{paint(conversation_id[:8], 'cyan')}  {day}  {paint(shortened(title, 60), 'bold')}")
        # Once per conversation, for the marks that tell whether a snippet was cut.
        turns = store.load(conversation_id).turns
        for hit in hits:
            if hit.conversation == conversation_id:
                excerpt = _excerpt(hit.snippet, searchable(turns[hit.position]))
                lines.append(f"  {hit.speaker:>6}  {visible(excerpt)}")
    return lines


def _excerpt(snippet: str, whole: str) -> str:
    """The snippet in one line, with a mark where it was cut out of the whole."""
    before, _, after = whole.partition(snippet)
    return f"{'…' if before else ''}{' '.join(snippet.split())}{'…' if after else ''}"


_limit_option = click.option(
    "-n", "--limit", default=20, show_default=True, type=click.IntRange(1), help="How many to list."
)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")


@click.group(invoke_without_command=True, epilog=_EPILOG)
@_limit_option
@_json_option
@store_option
@color_option
@click.pass_context
def sessions(ctx: click.Context, limit: int, as_json: bool, store_at: str | None) -> None:
    """List stored conversations, the latest first, or work with one of them."""
    ctx.obj = store_at
    if ctx.invoked_subcommand is None:
        _list(store_at, limit, as_json)


@sessions.command("list")
@_limit_option
@_json_option
@click.pass_obj
def list_(store_at: str | None, limit: int, as_json: bool) -> None:
    """List stored conversations, the latest first: the same as `midstream sessions`."""
    _list(store_at, limit, as_json)


def _list(store_at: str | None, limit: int, as_json: bool) -> None:
    with closing(open_store(store_at)) as store:
        infos = store.list(limit)
    now = time.time()
    for info in infos:
        click.echo(msgspec.json.encode(info).decode() if as_json else visible(session_line(info, now)))
    if not infos and not as_json:
        click.echo("no conversation is stored yet; start one with `midstream chat`", err=True)


@sessions.command()
@click.argument("words", nargs=-1, required=True)
@click.pass_obj
def search(store_at: str | None, words: tuple[str, ...]) -> None:
    """Find turns that contain all these words."""
    paint = Paint(wants_color(color_choice(), sys.stdout))
    with closing(open_store(store_at)) as store:
        lines = search_lines(store, " ".join(words), paint)
    for line in lines:
        click.echo(line, color=paint.on)
    if not lines:
        click.echo("no matches", err=True)


@sessions.command()
@click.argument("session_id", metavar="ID")
@click.option("--thinking", is_flag=True, help="Include the reasoning.")
@click.pass_obj
def show(store_at: str | None, session_id: str, thinking: bool) -> None:
    """Show a conversation as Markdown."""
    with closing(open_store(store_at)) as store:
        entry = store.entry(find_session(store, session_id))
    _write(to_markdown(entry, thinking=thinking))


@sessions.command()
@click.argument("session_id", metavar="[ID]", required=False)
@click.option("--all", "everything", is_flag=True, help="Export all conversations (as JSONL).")
@click.option("--format", "kind", type=click.Choice(["md", "jsonl"]), help="md for reading, jsonl for importing again.")
@click.option("--thinking", is_flag=True, help="Include the reasoning (jsonl always does).")
@click.option(
    "--to",
    "program",
    metavar="PROGRAM",
    help="Write it where another program finds it as a session of this folder; one of: "
    f"{', '.join([name for name, each in PROGRAMS.items() if each.write is not None])}.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to this new file, which only you can read. A name with .jsonl at its end means --format jsonl.",
)
@click.pass_obj
def export(
    store_at: str | None,
    session_id: str | None,
    everything: bool,
    kind: str | None,
    thinking: bool,
    program: str | None,
    output: Path | None,
) -> None:
    """Write a conversation (the last one by default) to standard output, to a file, or as a session of another program."""
    if program is not None:
        if everything or kind or output or thinking:
            raise click.UsageError(
                "--to writes one conversation in the other program's format; give only an ID with it"
            )
        _export_to(store_at, session_id, program)
        return
    if everything and kind == "md":
        raise click.UsageError("--all writes jsonl; it cannot be combined with --format md")
    # Markdown cannot be imported again, so what is meant as a backup is JSONL.
    if everything or (kind is None and output is not None and output.suffix == ".jsonl"):
        kind = "jsonl"
    parts = _exported(store_at, session_id, everything, kind, thinking)
    if output is None:
        for part in parts:
            _write(part.decode())
        return
    path = write_file(output, b"".join(parts), "choose another name for --output")
    click.echo(f"written: {path}", err=True)


def _export_to(store_at: str | None, session_id: str | None, name: str) -> None:
    write = PROGRAMS[name].write if name in PROGRAMS else None
    if write is None:
        writable = ", ".join([known for known, each in PROGRAMS.items() if each.write is not None])
        raise click.UsageError(f"cannot write sessions of {name!r}; expected one of {writable}")
    with closing(open_store(store_at)) as store:
        conversation = store.load(find_session(store, session_id))
    exported = write(conversation, Place.of_this_user(), Path.cwd())
    for path, data in exported.files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        click.echo(f"written: {write_file(path, data, 'try again')}", err=True)
    for code, count in Counter([note.code for note in exported.notes]).items():
        why = next(note.why for note in exported.notes if note.code == code)
        click.echo(f"  {visible(why)}{f' ({count} times)' if count > 1 else ''}", err=True)
    click.echo(exported.resume)


def _exported(
    store_at: str | None, session_id: str | None, everything: bool, kind: str | None, thinking: bool
) -> Iterator[bytes]:
    with closing(open_store(store_at)) as store:
        if everything:
            offset = 0
            # Page by page: a store may hold years of conversations.
            while infos := store.list(100, offset):
                offset += len(infos)
                for info in infos:
                    yield from to_jsonl([store.entry(info.id)])
            return
        entry = store.entry(find_session(store, session_id))
    if kind == "jsonl":
        yield from to_jsonl([entry])
    else:
        yield to_markdown(entry, thinking=thinking).encode("utf-8", "replace")


@sessions.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--provider", help="The provider of these histories, if the files do not name it.")
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), help="The format of the files, if it cannot be detected."
)
@click.pass_obj
def import_(store_at: str | None, files: tuple[Path, ...], provider: str | None, format_: str | None) -> None:
    """Import histories: OpenAI, Anthropic, Responses, kimi-cli, llm, or our own JSONL."""
    with closing(open_store(store_at)) as store:
        for file in files:
            for conversation_id in import_file(store, file, format_, provider=provider):
                click.echo(conversation_id)


@sessions.command()
@click.argument("session_id", metavar="ID")
@click.confirmation_option("-y", "--yes", prompt="Delete this conversation for good?")
@click.pass_obj
def delete(store_at: str | None, session_id: str) -> None:
    """Delete a conversation for good."""
    with closing(open_store(store_at)) as store:
        found = find_session(store, session_id)
        store.delete(found)
    click.echo(f"deleted {found}", err=True)


def write_file(name: str | Path, data: bytes, hint: str, *, overwrite: bool = False) -> Path:
    """Write an export, readable by its owner only; a file that exists already is left alone, and the error gives the hint."""
    path = Path(name).expanduser()
    try:
        write_private_file(path, data, overwrite=overwrite)
    except FileExistsError:
        raise LocalError(f"{path} exists already; {hint}") from None
    except OSError as error:
        raise LocalError(f"cannot write {path}: {error.strerror}") from None
    return path


def _write(text: str) -> None:
    """Write unchanged where it is data, and made safe where it goes to a terminal."""
    sys.stdout.write(terminal_safe(text) if is_terminal(sys.stdout) else text)
