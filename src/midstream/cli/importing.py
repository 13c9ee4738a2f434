"""`midstream import`: continue a session of another program here, with any model."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import click

from ..core.errors import LocalError, StoreError
from ..core.plural import pluralize
from ..core.visible import visible
from ..store import open_store
from ..store.programs import PROGRAMS, Imported, Place, Program, SessionFile
from .options import TOOLS, complete_model, store_option
from .sessions import ago
from .view import shortened

_SHOWN = 20
_EPILOG = """\b
Examples:
  midstream import                                    which programs have sessions here
  midstream import claude-code                        the latest sessions of Claude Code
  midstream import claude-code --last                 import the last one
  midstream import codex 01a1e87a                     the session whose id begins like this
  midstream import claude-code --last -m moonshot/kimi-k2.5      import it and continue it with Kimi

\b
The other program's files are only read. You are told what is not carried over; the original is stored with the
conversation. `midstream sessions export --to PROGRAM` goes the other way."""


@click.command("import", epilog=_EPILOG)
@click.argument("program", type=click.Choice(list(PROGRAMS)), required=False)
@click.argument("wanted", metavar="[ID|FILE]", required=False)
@click.option("--last", is_flag=True, help="Import the latest session.")
@click.option("--all", "everything", is_flag=True, help="Import every session.")
@click.option("--here", "only_here", is_flag=True, help="Only sessions that were started in this folder.")
@click.option(
    "-m",
    "--model",
    metavar="MODEL",
    shell_complete=complete_model,
    help="Continue the imported session in a chat with this model.",
)
@store_option
@click.pass_context
def import_(
    ctx: click.Context,
    program: str | None,
    wanted: str | None,
    last: bool,
    everything: bool,
    only_here: bool,
    model: str | None,
    store_at: str | None,
) -> None:
    """Import sessions of Claude Code, Codex, Gemini CLI, Kimi Code, opencode and llm, and continue them with any model."""
    if sum([last, everything, wanted is not None]) > 1:
        raise click.UsageError("give one of --last, --all, or the id of a session")
    if program is None:
        if last or everything:
            raise click.UsageError(f"name the program: one of {', '.join(PROGRAMS)}")
        _list_programs(only_here)
        return
    chosen = PROGRAMS[program]
    if not (last or everything or wanted):
        if model is not None:
            raise click.UsageError("-m continues one session: give its id or --last")
        _list_sessions(chosen, only_here)
        return
    if everything and model is not None:
        raise click.UsageError("-m continues one session, but --all imports many; leave out one of them")
    sessions = _chosen(chosen, wanted, everything, only_here)
    if everything:
        _import_all(chosen, sessions, store_at)
        return
    (session,) = sessions
    own = _add(chosen, session, chosen.read(session), store_at)
    if model is not None:
        from .chat import chat  # only a session that is continued needs the chat

        ctx.exit(ctx.invoke(chat, tools=TOOLS, session=own, model=model, store_at=store_at))


def _sessions(program: Program, only_here: bool) -> Iterator[SessionFile]:
    folder = str(Path.cwd())
    return (session for session in program.find(Place.of_this_user()) if not only_here or session.folder == folder)


def _list_programs(only_here: bool) -> None:
    found = False
    for program in PROGRAMS.values():
        try:
            count = sum(1 for _ in _sessions(program, only_here))
        except StoreError as error:
            # The sessions of one program are no reason not to list the others.
            click.echo(visible(f"{program.name:12}  {error}"), err=True)
            found = True
            continue
        if count:
            found = True
            click.echo(f"{program.name:12}  {pluralize(count, 'session')}  (midstream import {program.name})")
    if not found:
        names = ", ".join([program.title for program in PROGRAMS.values()])
        click.echo(f"no sessions of {names} were found in {Path.home()}", err=True)


def _list_sessions(program: Program, only_here: bool) -> None:
    now = time.time()
    rows = list(islice(_sessions(program, only_here), _SHOWN))
    for session in rows:
        title = shortened(session.title, 70)
        about = f"  [{session.folder}]" if session.folder else ""
        click.echo(visible(f"{session.id}  {ago(now - session.updated):>8}  {title}{about}"))
    if rows:
        click.echo(f"to import one: midstream import {program.name} ID, or --last for the first one listed", err=True)
    else:
        raise LocalError(_none(program, only_here))


def _none(program: Program, only_here: bool) -> str:
    about = " about this folder" if only_here else ""
    where = program.folder(Place.of_this_user())
    return (
        f"no sessions of {program.title}{about} were found in {where};"
        f" to import a file from elsewhere: midstream import {program.name} FILE"
    )


def _chosen(program: Program, wanted: str | None, everything: bool, only_here: bool) -> list[SessionFile]:
    # A file that is named need not stand where the program keeps its own.
    if wanted is not None and _is_file(wanted):
        if program.find_in is not None:
            # One file holds all of them: the latest is meant, as with --last.
            found = list(islice(program.find_in(Path(wanted)), 1))
            if not found:
                raise LocalError(f"there are no sessions of {program.title} in {wanted}")
            return found
        return [SessionFile(program.name, Path(wanted).stem, str(Path(wanted).absolute()))]
    sessions = _sessions(program, only_here)
    if wanted is None:
        found = list(sessions) if everything else list(islice(sessions, 1))
        if not found:
            raise LocalError(_none(program, only_here))
        return found
    found = [session for session in sessions if session.id.startswith(wanted)]
    if len(found) != 1:
        many = f"{len(found)} sessions of {program.title} start" if found else f"no session of {program.title} starts"
        raise LocalError(f"{many} with {wanted!r}; `midstream import {program.name}` lists them")
    return found


def _is_file(wanted: str) -> bool:
    try:
        return Path(wanted).is_file()
    except (OSError, ValueError):
        return False  # too long for a name, or in a folder that is closed to us: then it is no id either, which is said


def _import_all(program: Program, sessions: list[SessionFile], store_at: str | None) -> None:
    """Import what can be imported, and say at the end what could not."""
    failed = 0
    for session in sessions:
        try:
            imported = program.read(session)
        except StoreError as error:
            failed += 1
            click.echo(visible(f"not imported: {session.id}: {error}"), err=True)
        else:
            _add(program, session, imported, store_at)
    if failed:
        raise LocalError(f"{failed} of {len(sessions)} sessions of {program.title} were not imported; see above")


def _add(program: Program, session: SessionFile, imported: Imported, store_at: str | None) -> str:
    """Store it, say what came of it, and give its id."""
    with closing(open_store(store_at)) as store:
        own = store.add(imported.entry)
    turns = len(imported.entry.conversation.turns)
    click.echo(own)
    title = visible(shortened(session.title or imported.entry.meta.get("title", ""), 70))
    click.echo(f"imported {pluralize(turns, 'turn')} of {program.title}: {title}", err=True)
    for left_out in imported.left_out:
        click.echo(f"  not carried over: {visible(left_out)}", err=True)
    click.echo(f"  continue with: midstream chat --session {own[:8]} -m MODEL", err=True)
    return own
