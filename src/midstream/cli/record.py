"""`midstream record`: keep what hosts answer, look at it, and make tests of it."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any

import click
import msgspec

from ..client.catalog import Catalog
from ..client.config import load_config
from ..core.command_line import path_word
from ..core.errors import LocalError
from ..core.plural import pluralize
from ..core.visible import terminal_safe
from ..doctor import RecordedAnswer, read_answer
from ..recording.cassette import SUFFIX, Cassette, read_exchange
from ..recording.corpus import from_case, to_case
from ..recording.exchange import RecordedExchange
from ..recording.scrub import Scrub
from ..recording.vcr import can_be_said, to_vcr
from ..testing.recording_server import RecordServer
from .options import scrub_option
from .running import run
from .sessions import write_file

_FOLDER = click.Path(path_type=Path, file_okay=False)
_FILE = click.Path(path_type=Path, exists=True)


@click.group()
def record() -> None:
    """Record what hosts answer, chunk by chunk, and make tests of it.

    `midstream ask --record DIR` and `midstream chat --record DIR` record their own requests; `midstream replay` plays recordings back.
    """


_SERVE_EPILOG = """\b
Examples:
  midstream record serve openai --into cassettes
  midstream record serve https://api.host.example/v1 --into cassettes --port 9000
  midstream record serve moonshot --into cassettes --scrub 'acct_[a-z0-9]+'"""


@record.command(epilog=_SERVE_EPILOG)
@click.argument("upstream", metavar="PROVIDER|URL")
@click.option("--into", "folder", type=_FOLDER, required=True, help="The folder for the recordings.")
@click.option("--port", default=8766, show_default=True, help="Port to listen on; 0 for any free one.")
@scrub_option
def serve(upstream: str, folder: Path, port: int, scrub: tuple[str, ...]) -> None:
    """Pass requests of another program on to a host, and record them.

    Point the program at the address that is shown instead of the host's; it goes on using its own key, which is in no file. Stop with Ctrl-C.
    """
    url = upstream if "://" in upstream else _base_url(upstream)
    server = RecordServer(url, folder, port=port, scrub=Scrub(patterns=scrub), on_saved=_saved)
    try:
        run(_serve(server, url))
    except KeyboardInterrupt:
        pass  # the way to end it
    except OSError as error:
        raise click.ClickException(f"cannot listen on 127.0.0.1:{port}: {error.strerror or error}") from None
    server.recorder.check()


def _base_url(provider: str) -> str:
    """Where the provider is, for this user: its address may be in the configuration or the environment."""
    catalog = Catalog(load_config())
    row = catalog.registry.provider(provider)
    return catalog.resolve(f"{row.name}/{row.models[0] if row.models else 'any'}").endpoint.base_url


async def _serve(server: RecordServer, upstream: str) -> None:
    async with server:
        click.echo(f"Recording to {server.recorder.cassette.folder}. Base URL, instead of {upstream}: {server.url}")
        click.echo("Press Ctrl-C to stop.")
        told = 0
        while True:
            await asyncio.sleep(0.5)
            for problem in server.recorder.problems[told:]:
                click.secho(terminal_safe(str(problem)), fg="red", err=True)
            told = len(server.recorder.problems)


def _saved(path: Path) -> None:
    click.echo(_line(path, read_exchange(path)))


@record.command()
@click.argument("target", metavar="FILE|DIR", type=_FILE)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each recording.")
def show(target: Path, as_json: bool) -> None:
    """List recordings: what was asked, and how the answer ended."""
    for path, exchange in _recordings(target):
        answer = _read(exchange)
        if as_json:
            click.echo(msgspec.json.encode(_summary(path, exchange, answer)))
            continue
        click.echo(_line(path, exchange))
        if answer is not None and answer.turn is not None and answer.turn.text:
            click.echo(f"    {terminal_safe(_short(answer.turn.text))}")
        for call in () if answer is None or answer.turn is None else answer.turn.tool_calls:
            click.echo(f"    calls {terminal_safe(_short(call.name + ' ' + call.arguments))}")
        if answer is not None and answer.error is not None:
            click.secho(f"    {answer.error.kind}: {terminal_safe(_short(answer.error.message))}", fg="red")


def _line(path: Path, exchange: RecordedExchange) -> str:
    status = exchange.status or "no answer"
    size, chunks = len(exchange.body), len(exchange.chunks)
    asked = exchange.model or f"{exchange.request.method} {exchange.request.url.partition('?')[0]}"
    return f"{path.name}  {terminal_safe(asked)}  {status}, {pluralize(size, 'byte')} in {pluralize(chunks, 'chunk')}, {exchange.ended_us / 1e6:.2f} s, {exchange.ending}"


def _summary(path: Path, exchange: RecordedExchange, answer: RecordedAnswer | None) -> dict[str, Any]:
    return {
        "file": str(path),
        "model": exchange.model,
        "wire": exchange.wire if answer is None else answer.wire,
        "status": exchange.status,
        "bytes": len(exchange.body),
        "chunks": len(exchange.chunks),
        "seconds": exchange.ended_us / 1e6,
        "ending": exchange.ending,
        "turn": None if answer is None else answer.turn,
        "error": None if answer is None else answer.error,
    }


_TEST_EPILOG = """\b
Examples:
  midstream record test cassettes/0003-api.moonshot.ai-chat-completions.jsonl
  midstream record test cassettes/0003-*.jsonl -o tests/test_cut_answer.py --name cut_answer"""


@record.command(epilog=_TEST_EPILOG)
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="The test's file.")
@click.option("--name", help="What the test is called; by default after the recording.")
@click.option(
    "-m", "--model", default="", metavar="MODEL", help="Read the answer as this model's, if not the recorded one."
)
def test(file: Path, output: Path | None, name: str | None, model: str) -> None:
    """Make a test of a recording: a file for pytest that reads the answer and expects what midstream makes of it now.

    If that is wrong, correct what the test expects: it fails until midstream is mended.
    """
    exchange = read_exchange(file)
    name = re.sub(r"\W+", "_", name or file.name.removesuffix(SUFFIX)).strip("_").lower()
    output = output or Path(f"test_{name}.py")
    source = _test_source(name, file, output, read_answer(exchange, model=model), model)
    write_file(output, source.encode(), "choose another name with --output")
    click.echo(f"{output}: run it with pytest {path_word(output)}")


def _test_source(name: str, file: Path, output: Path, answer: RecordedAnswer, model: str) -> str:
    place = Path(
        os.path.relpath(file.resolve(), output.resolve().parent)
    )  # Path's own goes up only from Python 3.12 on
    # All that a recording says goes in as a literal: the file may come from anybody, and a test is run.
    lines = [
        repr(
            f"What midstream makes of the answer of {answer.model or answer.wire} in {place.name}; made by `midstream record test`."
        ),
        "",
        "from pathlib import Path",
        "",
        "import pytest",
        "",
        "from midstream.testing import read_recording",
        "",
        f"RECORDING = Path(__file__).parent / {place.as_posix()!r}",
        "",
        "",
        '@pytest.mark.parametrize("pace", ["chunks", "bytes", "random"])',
        f"def test_{name}(pace: str) -> None:",
        f"    answer = read_recording(RECORDING, pace=pace{f', model={model!r}' if model else ''})",
    ]
    if answer.error is None:
        lines.append("    assert answer.error is None")
    else:
        lines += [
            "    assert answer.error is not None",
            f"    assert answer.error.kind == {answer.error.kind!r}",
            f"    assert answer.error.message == {answer.error.message!r}",
        ]
    turn = answer.turn
    if turn is None:
        lines.append("    assert answer.turn is None")
    else:
        calls = [(call.name, call.arguments) for call in turn.tool_calls]
        lines += [
            "    assert answer.turn is not None",
            f"    assert answer.turn.text == {turn.text!r}",
            f"    assert answer.thinking == {answer.thinking!r}",
            f"    assert [(call.name, call.arguments) for call in answer.turn.tool_calls] == {calls!r}",
            f"    assert answer.turn.stop_reason == {turn.stop_reason!r}",
        ]
    return "\n".join([*lines, ""])


@record.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--into", "folder", type=_FOLDER, required=True, help="The folder for the recordings.")
def import_(files: tuple[Path, ...], folder: Path) -> None:
    """Make recordings of corpus cases (JSON objects with request and response)."""
    cassette = Cassette(folder)
    for file in files:
        try:
            case = msgspec.json.decode(file.read_bytes())
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise LocalError(f"{file} is not JSON: {error}") from None
        cassette.add(from_case(case, str(file)))
    click.echo(f"{len(files)} recordings in {folder}")


@record.command()
@click.argument("target", metavar="FILE|DIR", type=_FILE)
@click.option(
    "--as", "form", type=click.Choice(("vcr", "corpus")), required=True, help="One vcrpy cassette, or corpus cases."
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="A file for vcr, a folder for corpus."
)
def export(target: Path, form: str, output: Path) -> None:
    """Write recordings for other programs: a cassette of vcrpy, or corpus cases.

    Neither can say all that a recording does. What one cannot hold (of vcrpy: answers that never came or broke off) is left out and named.
    """
    found = list(_recordings(target))
    if form == "vcr":
        kept = [exchange for _, exchange in found if can_be_said(exchange)]
        for path, exchange in found:
            if not can_be_said(exchange):
                click.echo(
                    f"left out {path.name}: it ended with {exchange.ending}, which a VCR cassette cannot say", err=True
                )
        write_file(output, to_vcr(kept).encode(), "choose another name with --output")
        click.echo(f"{len(kept)} of {len(found)} recordings in {output}")
        return
    output.mkdir(parents=True, exist_ok=True)
    written = 0
    for path, exchange in found:
        name = path.name.removesuffix(SUFFIX)
        try:
            case = to_case(exchange, name, _expected(exchange))
        except LocalError as error:
            click.echo(f"left out {path.name}: {error}", err=True)
            continue
        write_file(
            output / f"{name}.json",
            msgspec.json.format(msgspec.json.encode(case)),
            "choose another folder with --output",
        )
        written += 1
    click.echo(f"{written} of {len(found)} recordings in {output}")


def _expected(exchange: RecordedExchange) -> dict[str, Any] | None:
    answer = _read(exchange)
    if answer is None:
        return None
    error = answer.error
    if answer.turn is None:
        return {
            "error": None
            if error is None
            else {"status": error.status, "type": error.type, "code": error.code, "message": error.message}
        }
    return {
        "text": answer.turn.text,
        "reasoning": answer.thinking,
        "tool_calls": [{"name": call.name, "arguments": _arguments(call.arguments)} for call in answer.turn.tool_calls],
    }


def _arguments(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _recordings(target: Path) -> list[tuple[Path, RecordedExchange]]:
    found = list(Cassette(target).read())
    if not found:
        raise LocalError(f"there are no recordings (*{SUFFIX}) in {target}")
    return found


def _read(exchange: RecordedExchange) -> RecordedAnswer | None:
    """None for what is not an answer of a model: a list of models, say."""
    try:
        return read_answer(exchange)
    except LocalError:
        return None


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 100 else text[:99] + "…"
