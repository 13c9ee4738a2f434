"""`midstream verify`: ask a host what it should be able to do, and report what it does."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import click
import msgspec

from ..client.catalog import Catalog
from ..client.config import load_config
from ..core.plural import pluralize
from ..core.visible import terminal_safe
from ..sim.providers import SIM, sim_provider
from ..sim.server import Sim
from ..store.paths import data_dir
from ..transport.target import leads_to_loopback
from ..verify import (
    Journal,
    ProbeRecorder,
    Report,
    Verdicts,
    Verification,
    html_report,
    make_client,
    text_lines,
    to_toml,
)
from ..verify.run import Progress
from .model_name import find_model
from .options import complete_model
from .running import run
from .sessions import write_file
from .terminal import Paint, color_choice, color_option, is_terminal, wants_color

_EPILOG = """\b
Examples:
  midstream verify sim/kimi-k2.5                         a double: free, to see what it looks like
  midstream verify together/moonshotai/Kimi-K2.5 --suite contract --suite loop --max-cost 1
  midstream verify work/my-model --suite contract --toml verified.toml
  midstream models add work2 --from verified.toml        use what was found, if you want to
  midstream verify groq/moonshotai/kimi-k2-instruct --suite samples.jsonl --against moonshot/kimi-k2-0905-preview --runs 2

\b
Suites: quick (15 requests), contract (about 65), loop (9), or a file with one chat request on each line, as
K2-Vendor-Verifier and MiniMax-Provider-Verifier have them. Verdicts: ok, FAIL, - (not offered), ? (not sure).

\b
Exit codes: 0 no check failed, 1 a check failed, 75 it could not be finished (run it again with --resume)."""


@click.command(epilog=_EPILOG)
@click.argument("model", shell_complete=complete_model)
@click.option(
    "--suite",
    "suites",
    multiple=True,
    metavar="NAME|FILE.jsonl",
    help="quick, contract, loop or a file; repeatable. [default: quick]",
)
@click.option(
    "--against",
    metavar="MODEL",
    default="",
    help="Ask another host the same, and compare.",
    shell_complete=complete_model,
)
@click.option("--runs", type=click.IntRange(1, 1000), default=1, show_default=True, help="How often to ask everything.")
@click.option(
    "--max-cost",
    type=click.FloatRange(0),
    metavar="USD",
    help="Stop before more than this is spent at a host; no question is asked then.",
)
@click.option("--concurrency", type=click.IntRange(1, 64), default=5, show_default=True, help="Requests at a time.")
@click.option(
    "--max-tokens", type=click.IntRange(64), default=4096, show_default=True, help="Tokens that an answer may have."
)
@click.option("--resume", is_flag=True, help="Go on with the last run of this model that was not finished.")
@click.option("--json", "as_json", metavar="FILE", help="Write the report as JSON; - for standard output.")
@click.option("--html", "as_html", metavar="FILE", help="Write the report as a web page with plots.")
@click.option("--toml", "as_toml", metavar="FILE", help="Write what the host does, for `midstream models add`.")
@click.option("--record", metavar="DIR", help="Keep every raw answer, chunk by chunk, in a folder for each probe.")
@click.option(
    "--outcomes",
    metavar="FILE",
    help="Write the outcome of each line of a file, without texts: the reference of another run.",
)
@click.option(
    "--reference",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True),
    help="Compare with outcomes that were written before.",
)
@color_option
def verify(
    model: str,
    suites: tuple[str, ...],
    against: str,
    runs: int,
    max_cost: float | None,
    concurrency: int,
    max_tokens: int,
    resume: bool,
    as_json: str | None,
    as_html: str | None,
    as_toml: str | None,
    record: str | None,
    outcomes: str | None,
    reference: Path | None,
) -> int:
    """Find out whether a host keeps its word: calls, ids, reasoning, usage, schemas, limits."""
    catalog = Catalog(load_config(), providers=[sim_provider("http://127.0.0.1")])
    named = find_model(catalog, model)
    other = find_model(catalog, against) if against else ""
    verification = Verification(named, suites or ("quick",), other, runs, max_cost, concurrency, reference, max_tokens)
    for each in verification.models:
        catalog.check_key(catalog.resolve(each), otherwise=f"try a double: {SIM}/kimi-k2.5")
    _agree(verification, catalog)
    journal = Journal(_journal_path(named), resume=resume)
    recorder = ProbeRecorder(Path(record)) if record else None
    verdicts = run(_verify(verification, journal, recorder))
    report = verdicts.report
    if as_json == "-":
        click.echo(report.to_json(), nl=False)
    else:
        _show(report)
    written: dict[str | None, bytes] = {
        as_html: html_report(report).encode(),
        as_toml: to_toml(verdicts.verified).encode(),
        outcomes: _lines(verdicts),
        None if as_json == "-" else as_json: report.to_json(),
    }
    for name, data in written.items():
        if name:
            click.echo(f"Wrote {write_file(name, data, '', overwrite=True)}.", err=True)
    if recorder is not None:
        _tell_recordings(recorder, record or "")
    if not report.unfinished:
        _journal_path(named).unlink(missing_ok=True)
    return report.exit_code


def _lines(verdicts: Verdicts) -> bytes:
    return b"".join([msgspec.json.encode(outcome) + b"\n" for outcome in verdicts.outcomes])


def _tell_recordings(recorder: ProbeRecorder, folder: str) -> None:
    click.echo(f"Recorded {pluralize(sum(recorder.saved.values()), 'exchange')} in {folder}.", err=True)
    for problem in recorder.problems[:3]:
        click.echo(f"Not recorded: {problem}", err=True)


def _agree(verification: Verification, catalog: Catalog) -> None:
    """Ask before anything that costs money is sent; a limit is an answer beforehand."""
    estimate = verification.estimate(catalog)
    limit = verification.max_cost
    cost = "at a price that is not known here" if estimate.dollars is None else f"about ${estimate.dollars:.4f}"
    told = f"{pluralize(estimate.requests, 'request')}, {cost}"
    if limit is not None and estimate.dollars is not None and estimate.dollars > limit * len(verification.models):
        raise click.UsageError(
            f"{told}: more than --max-cost {limit:g} allows; choose fewer suites or runs, or raise it"
        )
    if limit is not None and estimate.dollars is None:
        click.echo(
            "midstream: no price is known, so --max-cost cannot be watched: set input_price and output_price", err=True
        )
    click.echo(f"midstream: {told}", err=True)
    free = estimate.dollars == 0 or all(
        leads_to_loopback(catalog.resolve(model).endpoint.base_url) for model in verification.models
    )
    if limit is not None or free:
        return
    if not is_terminal(sys.stdin):
        raise click.UsageError(f"{told}: say --max-cost USD, since nobody can be asked here")
    click.confirm("Send them?", abort=True, err=True)


def _journal_path(model: str) -> Path:
    folder = data_dir() / "verify"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder / (re.sub(r"[^A-Za-z0-9._-]+", "-", model) + ".jsonl")


async def _verify(verification: Verification, journal: Journal, recorder: ProbeRecorder | None) -> Verdicts:
    async with AsyncExitStack() as stack:
        rows = []
        if any(model.startswith(f"{SIM}/") for model in verification.models):
            rows = [sim_provider((await stack.enter_async_context(Sim())).url)]
        catalog = Catalog(load_config(), providers=rows)
        client = await stack.enter_async_context(make_client(catalog, recorder=recorder))
        with _progress(verification.estimate(catalog).requests) as progress:
            return await verification.run(client, journal=journal, progress=progress, sleep=asyncio.sleep)


@contextlib.contextmanager
def _progress(total: int) -> Iterator[Progress | None]:
    if not is_terminal(sys.stderr):
        yield None
        return
    with click.progressbar(length=total, label="Asking", file=sys.stderr) as bar:
        yield bar.update


_COLORS = {"ok  ": "green", "FAIL": "red", "?   ": "yellow", "-   ": "dim"}


def _show(report: Report) -> None:
    paint = Paint(wants_color(color_choice(), sys.stdout))
    for line in text_lines(report):
        mark, rest = line[:4], terminal_safe(line[4:])
        click.echo(paint(mark, _COLORS[mark]) + rest if mark in _COLORS else terminal_safe(line), color=paint.on)
