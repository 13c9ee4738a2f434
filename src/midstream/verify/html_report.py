"""The report as one HTML page: no script, nothing from elsewhere, every word of a host escaped. The plots are inline SVG."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from ..core.plural import pluralize
from .checks import ABSENT, CHECKS, FAIL, PASS, UNSURE, Result, Verdict
from .report import HostSection, Report, counted, is_comparison
from .statistics import percent

_COLORS: dict[Verdict, str] = {PASS: "#2e7d5b", FAIL: "#c0392b", ABSENT: "#8a8f98", UNSURE: "#c98a1b"}
_STYLE = """
:root{color-scheme:light dark;--ink:#1d2126;--soft:#5c636d;--line:#d9dde3;--back:#fff}
@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--soft:#a0a7b1;--line:#3a4048;--back:#15181c}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--back);max-width:70rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}
table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.35rem .6rem;border-bottom:1px solid var(--line)}
td.verdict{white-space:nowrap;font-weight:600}td.check{white-space:nowrap;font-family:ui-monospace,monospace}
p,td.small,td.evidence span{color:var(--soft)}td.evidence{overflow-wrap:anywhere}svg{display:block;max-width:100%}svg text{fill:currentColor;font:12px system-ui,sans-serif}
"""
_WIDTH = 640
_ROW = 18


def html_report(report: Report) -> str:
    """The page."""
    host = report.host
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        # Nothing of a host can become active, even if an escape were forgotten.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(host.model)}: does this host keep its word?</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(host.model)}</h1>",
        f"<p>{escape(', '.join(report.suites))}; {pluralize(host.tally.requests, 'request')}, "
        f"{pluralize(report.runs, 'run')}; {escape(report.created)}</p>",
        _verdict_bar(host),
        *([_verdict_bar(report.against)] if report.against is not None else []),
        *_failures(host),
        "<h2>Checks</h2>",
        _table(report),
        "<h2>Rates, with their 95 % intervals</h2>",
        _rates(host),
        *_samples(report),
        "<h2>Requests</h2>",
        f"<p>{host.tally.first_try} answered at the first try, {host.tally.later_try} at a later one, {host.tally.refused} "
        f"refused, {host.tally.failed} failed.</p>",
        *[f"<p>Not finished: {escape(why)}</p>" for why in report.unfinished],
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _verdict_bar(host: HostSection) -> str:
    """How many checks came out in which way, as one bar."""
    total = max(1, len(host.results))
    at = 0.0
    pieces = []
    for verdict in (PASS, FAIL, UNSURE, ABSENT):
        count = host.count(verdict)
        width = _WIDTH * count / total
        if count:
            pieces.append(
                f'<rect x="{at:.1f}" y="0" width="{width:.1f}" height="22" fill="{_COLORS[verdict]}"><title>{count} {verdict}</title></rect>'
            )
        at += width
    words = ", ".join([f"{host.count(verdict)} {verdict}" for verdict in (PASS, FAIL, UNSURE, ABSENT)])
    label = escape(f"{host.model}: {words}")
    return (
        f'<svg viewBox="0 0 {_WIDTH} 44" width="{_WIDTH}" height="44" role="img" aria-label="{label}">{"".join(pieces)}'
        f'<text x="0" y="40">{label}</text></svg>'
    )


def _failures(host: HostSection) -> Iterator[str]:
    """What is wrong, and what follows from it, before everything that is right."""
    failed = [result for result in host.results if result.verdict == FAIL]
    if not failed:
        return
    yield "<h2>What is wrong</h2>"
    rows = [
        f'<tr><td class="check" style="color:{_COLORS[FAIL]}">{escape(result.check)}</td>'
        f'<td class="evidence">{escape(result.evidence)}<br><span>{escape(CHECKS[result.check].why)}</span></td></tr>'
        for result in failed
    ]
    yield f"<table>{''.join(rows)}</table>"


def _table(report: Report) -> str:
    other = report.against
    head = "<tr><th>verdict</th><th>check</th><th>what it proves, and the evidence</th><th>judged</th>"
    head += f"<th>{escape(other.model)}</th></tr>" if other is not None else "</tr>"
    return f"<table>{head}{''.join(_rows(report.host, other))}</table>"


def _rows(host: HostSection, other: HostSection | None) -> Iterator[str]:
    for result in host.results:
        beside = ""
        if other is not None:
            beside = f"<td>{escape(other.verdict(result.check) or '')}</td>"
        yield (
            f'<tr><td class="verdict" style="color:{_COLORS[result.verdict]}">{result.verdict}</td>'
            f'<td class="check">{escape(result.check)}</td>'
            f'<td class="evidence">{escape(CHECKS[result.check].proves)}<br><span>{escape(result.evidence)}</span></td>'
            f'<td class="small">{escape(counted(result))}</td>{beside}</tr>'
        )


def _rates(host: HostSection) -> str:
    """A dot for each rate and a line for its interval; checks that were judged once have none."""
    shown = [result for result in host.results if result.passed + result.failed > 1 and not is_comparison(result)]
    rows = [_rate_row(result, number) for number, result in enumerate(shown)]
    height = _ROW * (len(shown) + 1)
    scale = "".join(
        [f'<text x="{_x(share):.0f}" y="{height - 4}" text-anchor="middle">{share:.0%}</text>' for share in (0, 0.5, 1)]
    )
    return f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img" aria-label="rates">{"".join(rows)}{scale}</svg>'


def _x(share: float) -> float:
    return 180 + share * (_WIDTH - 200)


def _rate_row(result: Result, number: int) -> str:
    interval, y = result.rate.interval, _ROW * number + 10
    color = _COLORS[result.verdict]
    return (
        f'<text x="0" y="{y + 4}">{escape(result.check)}</text>'
        f'<line x1="{_x(interval.low):.1f}" x2="{_x(interval.high):.1f}" y1="{y}" y2="{y}" stroke="{color}" stroke-width="2"/>'
        f'<circle cx="{_x(result.rate.value or 0):.1f}" cy="{y}" r="4" fill="{color}"><title>{escape(str(result.rate))}</title></circle>'
    )


def _samples(report: Report) -> Iterator[str]:
    told = report.host.samples
    if told is None:
        return
    yield f"<h2>The file: {pluralize(told.lines, 'line')}, {pluralize(told.runs, 'run')}</h2>"
    rows = (
        ("answered", str(told.answered)),
        ("at the first try", str(told.first_try)),
        ("tools called", str(told.called)),
        ("arguments fit", str(told.schema)),
        ("finish reasons agree", str(told.finish_fits)),
        *_compared(report),
    )
    yield f"<table>{''.join([f'<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in rows])}</table>"
    yield _bars("finish reasons", told.finishes)
    yield _bars("calls in an answer", {str(calls): count for calls, count in told.calls_each.items()})


def _compared(report: Report) -> Iterator[tuple[str, str]]:
    """Beside the reference, on the lines that both answered."""
    found = report.comparison
    if found is None:
        return
    if found.f1 is not None:
        floor = "not measured, for that takes two runs" if found.floor is None else f"at least {percent(found.floor)}"
        yield (
            "F1 of tool calls",
            f"{percent(found.f1)} on {pluralize(found.lines, 'line')} (95 %: {found.interval}); the reference against itself: {floor}",
        )
    for name, told in (
        ("called only here, only there", found.triggers),
        ("arguments fit only here, only there", found.schemas),
    ):
        yield name, f"{told.only_first}, {told.only_second} (McNemar: p = {told.p:.3g})"


def _bars(title: str, counts: dict[str, int]) -> str:
    most = max([*counts.values(), 1])
    rows = [
        f'<text x="0" y="{_ROW * number + 32}">{escape(name)}</text>'
        f'<rect x="180" y="{_ROW * number + 22}" width="{(_WIDTH - 240) * count / most:.1f}" height="12" fill="#4a7fb5"/>'
        f'<text x="{185 + (_WIDTH - 240) * count / most:.1f}" y="{_ROW * number + 32}">{count}</text>'
        for number, (name, count) in enumerate(counts.items())
    ]
    height = _ROW * len(counts) + 26
    return f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img" aria-label="{escape(title)}"><text x="0" y="14">{escape(title)}</text>{"".join(rows)}</svg>'
