"""`midstream ask`: one question, one answer on standard output; everything else on standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import aclosing
from typing import IO, TYPE_CHECKING, Any

import click
import msgspec

from ..agent.approval import Ask, Decision
from ..agent.approval_request import ApprovalRequest
from ..agent.run import RunLimits
from ..core.blocks import Media, Turn
from ..core.errors import LocalError, MidstreamError
from ..core.events import AgentEvent, ErrorEvent, ErrorInfo, Stopped
from ..core.modules import late_module
from ..core.visible import terminal_safe, visible
from ..wires.lenient_json import json_value
from .attachment import STDIN, Attachment, attach, content_of, read_stdin, secret_question, unread
from .line_input import LineInput
from .main import FAILED, OK, RETRY, code_for
from .options import TOOLS, Settings, complete_file, conversation_options, tool_option
from .plain_view import PlainView
from .running import run
from .schema_option import schema_given
from .terminal import Paint, color_choice, is_terminal, wants_color
from .view import Gate, Status, summary, total_cost
from .workspace import Workspace

if TYPE_CHECKING:
    import json
else:
    # Only where the answer is printed as JSON.
    json = late_module("json", globals())

_MAX_STDIN = 64 * 1024 * 1024
_GOOD_ENDS = ("text", "max_tokens")
_EPILOG = """\b
Examples:
  midstream ask "Name three rivers" -m moonshot/kimi-k2.5
  cat notes.txt | midstream ask "Summarise this"
  midstream ask "List the files, then read README.md" -T glob -T read_file -m sim/kimi-k2.5
  midstream ask "And the next one?" --continue -m anthropic/claude-sonnet-4-5
  midstream ask "What is on these?" -a photo.png -a notes.pdf -m anthropic/claude-sonnet-4-5
  midstream ask "Ping" --json | jq -r .text
  midstream ask "Invent a dog" --schema 'name, age int, tags list[str]: what it likes, owner str?'
  cat letter.txt | midstream ask "Who is named here?" --schema-multi person.json | jq -r '.[].name'
  midstream ask "Tell me a story" --jsonl | jq -j 'select(.type == "text_delta").delta'

\b
Piped input is put before the question; without a question, it is the question. -a - attaches it instead.
Exit codes: 0 success, 1 failure, 2 usage error, 75 temporary failure (try again), 130 interrupted,
141 nobody reads the output any more."""
JSONL_VERSION = 1


@click.command(epilog=_EPILOG)
@click.argument("question", nargs=-1)
@click.option(
    "-a",
    "--attach",
    "files",
    multiple=True,
    metavar="FILE",
    shell_complete=complete_file,
    help="Send this file along: an image, a PDF, sound, video or text, by its content; - is standard input; repeatable.",
)
@tool_option(f"A tool the model may use: {', '.join(TOOLS)}, or all; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object when the answer is complete.")
@click.option("--jsonl", is_flag=True, help="Print every event as one line of JSON while it happens.")
@click.option(
    "--schema",
    metavar="SCHEMA",
    help="Answer with JSON that follows a JSON schema: a file, JSON, or fields such as 'name, age int, tags list[str]'.",
)
@click.option("--schema-multi", metavar="SCHEMA", help="The same for a list of such answers.")
@click.option(
    "--no-stream",
    is_flag=True,
    help="Print the answer when it is complete; one that breaks off is then requested again.",
)
@click.option("-R", "--hide-reasoning", is_flag=True, help="Do not show thinking.")
@conversation_options
def ask(
    question: tuple[str, ...],
    files: tuple[str, ...],
    tools: tuple[str, ...],
    as_json: bool,
    jsonl: bool,
    schema: str | None,
    schema_multi: str | None,
    no_stream: bool,
    hide_reasoning: bool,
    **given: Any,
) -> int:
    """Ask a model one question.

    The answer goes to standard output; thinking, tool calls and their results go to standard error. Tools that write files
    or run commands ask for approval on the terminal; without a terminal they are refused (see --allow and --yolo).
    """
    attachments = _attachments(files)
    text = _question(question, STDIN in files, bool(files))
    settings = Settings(tools=tools, **given)
    if as_json and jsonl:
        raise click.UsageError("--json and --jsonl exclude each other")
    if schema is not None and schema_multi is not None:
        raise click.UsageError("--schema and --schema-multi exclude each other")
    wanted = schema_multi if schema is None else schema
    answer = None if wanted is None else schema_given(wanted, many=schema is None)
    # Only plain text can be written piece by piece; of everything else the end decides what is printed.
    whole = no_stream or as_json or jsonl or answer is not None
    lines = EventLines(sys.stdout) if jsonl else None
    try:
        return run(
            _ask(
                text,
                attachments,
                settings,
                as_json=as_json,
                lines=lines,
                schema=answer,
                whole=whole,
                thinking=not hide_reasoning,
            )
        )
    except MidstreamError as error:
        if lines is None:
            raise
        lines.begin(settings.model, "")  # what keeps a conversation from opening is told in the same form
        lines.error(msgspec.structs.replace(ErrorInfo.of(error), message=str(error)))
        return code_for(error)


def _attachments(files: tuple[str, ...]) -> list[Attachment]:
    if files.count(STDIN) > 1:
        raise click.UsageError("-a - is standard input, which can be read only once")
    return [read_stdin() if file == STDIN else attach(file) for file in files]


def _question(words: tuple[str, ...], stdin_is_attached: bool, has_attachments: bool) -> str:
    parts = [" ".join(words).strip()]
    if not stdin_is_attached and sys.stdin is not None and not is_terminal(sys.stdin):
        piped = sys.stdin.read(_MAX_STDIN + 1)
        if len(piped) > _MAX_STDIN:
            raise click.UsageError(
                f"standard input is larger than {_MAX_STDIN >> 20} MiB, more than any model can read"
            )
        # The material first, so that the question stands last.
        parts.insert(0, piped.strip("\n"))
    text = "\n\n".join([part for part in parts if part.strip()])
    if not text and not has_attachments:
        raise click.UsageError('no question given; use midstream ask "your question", or pipe it in')
    return text


async def _ask(
    text: str,
    attachments: Sequence[Attachment],
    settings: Settings,
    *,
    as_json: bool,
    lines: EventLines | None,
    schema: dict[str, Any] | None,
    whole: bool,
    thinking: bool,
) -> int:
    out, err = sys.stdout, sys.stderr
    for_programs = as_json or lines is not None
    view = PlainView(
        out, err, Paint(wants_color(color_choice(), err)), thinking=thinking and not for_programs, quiet_answer=whole
    )
    gate = Gate(view)
    outcome = _Outcome()
    content = content_of(text, attachments)
    # What is written as it arrives cannot be taken back, neither from a terminal nor from a program that reads it.
    limits = RunLimits(retry_text=not view.streams and lines is None)
    async with Workspace(settings, ask=_asker(gate), limits=limits) as workspace:
        session = workspace.session
        first = len(session.conversation.turns)
        status = Status(session.model)
        await _check_secrets(attachments, session.model)
        for line in unread(session, [part for part in content if isinstance(part, Media)]):
            view.notice(line)
        _say_sources(view, workspace, for_programs)
        if workspace.mcp is not None:
            view.notice(*workspace.mcp.greeting())
        if lines is not None:
            lines.begin(session.model, session.conversation.id)
        view.begin(status)
        try:
            async with aclosing(workspace.agent.run(*content, schema=schema)) as answering:
                async for event in answering:
                    outcome.note(event)
                    if lines is not None:
                        lines.event(event)
                    gate.show(event)
            outcome.value = answering.outcome().value
        except MidstreamError as error:
            if not for_programs:
                raise
            outcome.error = msgspec.structs.replace(ErrorInfo.of(error), message=str(error))
            outcome.code = code_for(error)
            if lines is not None:
                lines.error(outcome.error)
        finally:
            view.end()
            workspace.store_settings()
            if workspace.mcp is not None:
                view.notice(*workspace.mcp.running.take_notices())
        turns = session.conversation.turns[first:]
        if for_programs:
            found = _as_json(turns, session.conversation.id, session.model, outcome, total_cost(session.costs(first)))
            if schema is not None:
                found["value"] = outcome.value
            if lines is not None:
                del found["turns"]  # the events have told them
                lines.result(found)
            else:
                # A terminal gets ASCII only, because JSON leaves C1 controls as they are.
                out.write(json.dumps(found, ensure_ascii=is_terminal(out)) + "\n")
        elif schema is not None:
            _show_value(outcome, turns)
        elif whole:
            answer = _text(turns)
            out.write((terminal_safe(answer) if is_terminal(out) else answer).rstrip("\n") + "\n")
        if is_terminal(err) and not for_programs:
            view.notice(summary(session, first, status.seconds))
    return outcome.code


def _say_sources(view: PlainView, workspace: Workspace, as_json: bool) -> None:
    """On standard error: what the model is told beside the question, and what was left out."""
    told = workspace.told
    if is_terminal(sys.stderr) and not as_json:
        view.notice(*told.sources)
    view.notice(*[f"ignored: {each}" for each in told.ignored])


class _Outcome:
    """How the run ended, as an exit code and an error."""

    def __init__(self) -> None:
        self.code = OK
        self.reason = ""
        self.error: ErrorInfo | None = None
        self.value: Any = None

    def note(self, event: AgentEvent) -> None:
        if isinstance(event, ErrorEvent):
            self.error = event.error
        elif isinstance(event, Stopped):
            self.reason = event.reason
            if event.reason == "failed":
                self.code = RETRY if self.error is not None and self.error.retryable else FAILED
            else:
                self.error = None  # of an answer that failed and was requested again
                self.code = OK if event.reason in _GOOD_ENDS else FAILED


async def _check_secrets(attachments: Sequence[Attachment], model: str) -> None:
    """Ask before a file is sent that looks like keys; with nobody to ask, it is not."""
    for each in [each for each in attachments if each.secret]:
        lines = _terminal_lines()
        if lines is None:
            raise LocalError(
                f"{each.name} was not sent: {each.secret}, and there is nobody to ask; if you mean it, pipe it in with -a -"
            )
        warning, question = secret_question(each, model)
        click.echo(visible(warning), err=True)
        if not await lines.confirm(question):
            raise LocalError("not sent")


def _terminal_lines() -> LineInput | None:
    """The human at the terminal, even if standard input is a pipe; None if nobody is there."""
    try:
        # Standard input may be the material; the person is at the terminal all the same.
        terminal = os.open("/dev/tty", os.O_RDONLY) if is_terminal(sys.stderr) else None
    except OSError:
        terminal = None
    return None if terminal is None else LineInput(terminal, sys.stderr, interactive=True)


def _asker(gate: Gate) -> Ask | None:
    """How to ask the human; None if nobody is there."""
    lines = _terminal_lines()
    if lines is None:
        return None

    async def approve(request: ApprovalRequest) -> Decision:
        with gate.closed():
            return await lines.approve(request)

    return approve


def _show_value(outcome: _Outcome, turns: tuple[Turn, ...]) -> None:
    """The value on standard output; what came instead of one on standard error."""
    if outcome.code == OK:
        shown = is_terminal(sys.stdout)
        form: dict[str, Any] = {"indent": 2} if shown else {"separators": (",", ":")}
        text = json.dumps(outcome.value, ensure_ascii=False, **form)
        sys.stdout.write((terminal_safe(text) if shown else text) + "\n")
    elif said := [turn.text for turn in turns if turn.speaker == "ai" and turn.text]:
        raw = terminal_safe(said[-1]) if is_terminal(sys.stderr) else said[-1]
        sys.stderr.write(raw.rstrip("\n") + "\n")


def _text(turns: tuple[Turn, ...]) -> str:
    """The text of the answers, without those that broke off and were requested again."""
    answers = [turn for turn in turns if turn.speaker == "ai"]
    return "\n".join([turn.text for turn in answers if turn.text and (not turn.failure or turn is answers[-1])])


def _as_json(
    turns: tuple[Turn, ...], session: str, model: str, outcome: _Outcome, cost: float | None
) -> dict[str, Any]:
    answers = [turn for turn in turns if turn.speaker == "ai"]
    usage = [turn.usage for turn in answers if turn.usage is not None]
    found: dict[str, Any] = {
        "text": answers[-1].text if answers else "",
        "model": model,
        "session": session or None,
        "stopped": outcome.reason or "failed",
        "stop_reason": answers[-1].stop_reason if answers else "",
        "usage": {"input": sum(each.read for each in usage), "output": sum(each.output for each in usage)},
        "cost": cost,
        "turns": msgspec.to_builtins(turns),
    }
    if outcome.error is not None:
        found["error"] = {
            "kind": outcome.error.kind,
            "message": outcome.error.message,
            "retryable": outcome.error.retryable,
        }
    return found


class EventLines:
    """`--jsonl`: the run as lines of JSON, one event each, for programs that read along.

    The first line is `{"type": "midstream", "version": 1, …}`, the last `{"type": "result", …}`; between them are the events
    of the run as midstream.events names them (docs/structured-output.md lists the fields). Each line is written whole and at
    once. The version changes when a field changes its meaning or is removed; new types and fields may be added.
    """

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        # A terminal gets ASCII, because JSON leaves C1 controls as they are; so does whatever cannot take UTF-8.
        utf8 = (getattr(out, "encoding", None) or "utf-8").lower().replace("_", "-") in ("utf-8", "utf8")
        self._ascii = is_terminal(out) or not utf8
        self._begun = False

    def begin(self, model: str | None, session: str) -> None:
        """The first line; once is enough."""
        if self._begun:
            return
        self._begun = True
        self._line({"type": "midstream", "version": JSONL_VERSION, "model": model, "session": session or None})

    def event(self, event: AgentEvent) -> None:
        self._line(msgspec.to_builtins(event))

    def error(self, error: ErrorInfo) -> None:
        """What kept an answer from starting: an `error` without a turn."""
        self._line({"type": "error", "error": msgspec.to_builtins(error)})

    def result(self, found: dict[str, Any]) -> None:
        self._line({"type": "result", **found})

    def _line(self, value: Any) -> None:
        text = json_value(value).decode()
        if self._ascii and not text.isascii():
            text = json.dumps(json.loads(text), separators=(",", ":"))
        self._out.write(text + "\n")
        # At once: whoever reads along wants each event when it happens.
        self._out.flush()
