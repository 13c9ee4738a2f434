"""`midstream doctor`: report what is broken in a history and who would refuse it, and write a healed copy."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click
import msgspec
from msgspec.structs import replace

from ..codec import encode_request
from ..core.blocks import Conversation
from ..core.command_line import path_word
from ..core.errors import LocalError
from ..core.plural import pluralize
from ..core.visible import terminal_safe
from ..doctor import Diagnosis, RecordedAnswer, examine, read_answer, refusals
from ..recording.cassette import Cassette
from ..recording.exchange import is_recording
from ..store import open_store
from ..store.export import to_jsonl
from ..store.importing import FORMATS, read_file
from ..store.paths import database_path
from ..store.protocol import Entry, Original
from .main import FAILED, OK
from .options import store_option
from .sessions import write_file
from .workspace import find_session

_EPILOG = """\b
Examples:
  midstream doctor history.json                    report, and write history.json.healed.jsonl beside it
  midstream doctor history.json --look             only report
  midstream doctor history.json --for mistral/mistral-large-latest
  midstream doctor odd.txt --format openai         if the format is not recognised
  midstream doctor cassettes                       recordings: what was sent, and how midstream reads each answer
  midstream doctor 3f2a                            a stored conversation, by the beginning of its id"""


@click.command(epilog=_EPILOG)
@click.argument("target", metavar="FILE|DIR|ID")
@click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    help="The format of the file, if it cannot be detected or was detected wrongly.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where to write the healed copy, if not beside the file. Only you can read it.",
)
@click.option("--for", "model", metavar="MODEL", help="Write the copy as a request to this model.")
@click.option("--look", is_flag=True, help="Only report; write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@store_option
def doctor(
    target: str,
    format_: str | None,
    output: Path | None,
    model: str | None,
    look: bool,
    as_json: bool,
    store_at: str | None,
) -> int:
    """Report what is broken in a history and which providers would refuse it, and write a repaired copy.

    FILE contains midstream's JSONL or Conversation JSON, OpenAI chat messages, Anthropic messages, Responses items, Gemini contents, kimi-cli's
    context or llm's logs; ID is that of a stored conversation. A recording, or a folder of them, is read as the history that was sent and
    the answer that came back. FILE itself is not changed. The exit code is 1 if something was broken.
    """
    recorded = _recorded(Path(target)) if format_ is None else {}
    entries = [entry for entry, _ in recorded.values()] if recorded else _entries(target, format_, store_at)
    diagnoses = [examine(entry.conversation, entry.original) for entry in entries]
    wrong = {number for number, each in enumerate(diagnoses) if refusals(each.healed)}
    broken = any(diagnosis.broken for diagnosis in diagnoses)
    wanted = not look and (broken or output is not None or model is not None)
    place = _write(target, entries, diagnoses, output, model) if wanted else None
    if as_json:
        shown = [
            {"findings": each.findings, "cautions": each.cautions, "verdicts": each.verdicts} for each in diagnoses
        ]
        click.echo(msgspec.json.encode({"conversations": shown, "healed": place and str(place)}))
    else:
        told = list(recorded.items())
        for number, diagnosis in enumerate(diagnoses):
            if recorded:
                _show_answer(told[number][0], told[number][1][1])
            elif len(diagnoses) > 1:
                click.secho(f"conversation {number + 1}", bold=True)
            _show(diagnosis, healthy=number not in wrong)
        if place is not None:
            click.echo(f"The healed copy is {place}.")
            if model is None and len(entries) == 1:
                click.echo(
                    f"Continue it: midstream chat --session $(midstream sessions import {path_word(place)}) -m MODEL"
                )
    return FAILED if broken or wrong else OK


def _entries(target: str, format_: str | None, store_at: str | None) -> list[Entry]:
    """What to examine. Of our own files, that is the conversation, not the original it was once imported from."""
    path = Path(target)
    if path.exists() and not path.is_file():
        raise LocalError(f"{target!r} is not a regular file; save the history to one first")
    if path.exists():
        own = _conversation_json(path) if format_ in (None, "midstream") else None
        entries = own if own is not None else list(read_file(path, format_))
        # An id means that it was stored by us: what goes on is the conversation, not the file it once came from.
        return [_as_ours(entry) if format_ == "midstream" or entry.conversation.id else entry for entry in entries]
    missing = f"no such file: {target!r}"
    if "/" in target or (store_at is None and not database_path().exists()):
        raise LocalError(f"{missing}; give the path of a history, or the id of a stored conversation")
    with closing(open_store(store_at)) as store:
        try:
            found = find_session(store, target)
        except LocalError as error:
            raise LocalError(f"{missing}; and {error}") from None
        return [_as_ours(store.entry(found))]


# A request is judged as it was sent where the doctor knows its format.
_FORMATS = {"openai-chat": "openai", "anthropic": "anthropic", "openai-responses": "responses"}


def _recorded(path: Path) -> dict[Path, tuple[Entry, RecordedAnswer]]:
    """The histories in recordings, each with what midstream makes of the answer; none if there are no recordings here."""
    if not (path.is_dir() or (path.is_file() and is_recording(path))):
        return {}
    found = {}
    for file, exchange in Cassette(path).read():
        answer = read_answer(exchange)
        if answer.conversation is None:
            continue
        conversation = answer.conversation if answer.turn is None else answer.conversation.add(answer.turn)
        body = exchange.request.body
        format_ = _FORMATS.get(answer.wire, "")
        original = Original(format_, body.data) if body is not None and format_ else None
        found[file] = Entry(conversation, original=original), answer
    if not found:
        raise LocalError(f"there are no recordings of answers in {str(path)!r}; name a file with a history")
    return found


def _show_answer(path: Path, answer: RecordedAnswer) -> None:
    click.secho(f"{path.name}: {terminal_safe(answer.model or answer.wire)}", bold=True)
    if answer.error is not None:
        click.secho(f"The answer: {answer.error.kind}: {terminal_safe(answer.error.message)}", fg="red")
    elif answer.turn is not None:
        calls = len(answer.turn.tool_calls)
        click.echo(
            f"The answer: {pluralize(len(answer.turn.text), 'character')}, {pluralize(calls, 'tool call')}, ended with {answer.turn.stop_reason}."
        )


def _as_ours(entry: Entry) -> Entry:
    return replace(entry, original=None)


def _conversation_json(path: Path) -> list[Entry] | None:
    """A Conversation as one JSON value, which only we write; None for anything else."""
    try:
        value = msgspec.json.decode(path.read_bytes())
        return [Entry(msgspec.convert(value, Conversation))] if isinstance(value, dict) and "turns" in value else None
    except (msgspec.MsgspecError, ValueError, RecursionError, OSError):
        return None  # the importer says what is wrong with the file


def _write(
    target: str, entries: list[Entry], diagnoses: list[Diagnosis], output: Path | None, model: str | None
) -> Path:
    suffix = ".healed.json" if model else ".healed.jsonl"
    given = Path(target)
    path = output or given.with_name(given.name + suffix)
    # By inode: a link or another spelling of the same file must not be overwritten either.
    if given.exists() and path.exists() and path.samefile(given):
        raise LocalError(f"{path} is the history itself, which stays as it is; choose another name for --output")
    if model:
        bodies = [encode_request(model, each.healed, cache=None).body for each in diagnoses]
        data = b"\n".join([msgspec.json.format(body) if len(bodies) == 1 else body for body in bodies]) + b"\n"
    else:
        healed = [
            replace(entry, conversation=diagnosis.healed, original=None)
            for entry, diagnosis in zip(entries, diagnoses, strict=True)
        ]
        data = b"".join(to_jsonl(healed))
    hint = "choose another place for the copy with --output, or remove it"
    return write_file(path, data, hint, overwrite=output is not None)


def _show(diagnosis: Diagnosis, healthy: bool) -> None:
    if diagnosis.broken:
        click.secho(f"{len(diagnosis.findings)} broken:", fg="red", bold=True)
        for finding in diagnosis.findings:
            click.echo(f"  {terminal_safe(str(finding))}")
    else:
        click.secho("Nothing is broken.", fg="green", bold=True)
    for caution in diagnosis.cautions:
        click.secho(f"  caution: {terminal_safe(str(caution))}", fg="yellow")
    click.echo("Sent unchanged:")
    width = max(len(verdict.host) for verdict in diagnosis.verdicts)
    for verdict in diagnosis.verdicts:
        click.echo(f"  {verdict.host:{width}}  ", nl=False)
        if verdict.problems:
            first = verdict.problems[0]
            more = f" (and {len(verdict.problems) - 1} more)" if len(verdict.problems) > 1 else ""
            click.secho(f"{first.status} ({first.basis}) {terminal_safe(first.message)}{more}", fg="red")
        else:
            click.secho("accepted", fg="green")
    if healthy:
        click.secho("Healed and sent by midstream: accepted by every double.", fg="green")
    else:
        click.secho("Refused even when healed: please report this history.", fg="red", bold=True)
