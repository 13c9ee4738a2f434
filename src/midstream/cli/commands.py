"""The slash commands of the chat.

To add one, write its function here, under `@command(usage, help, words)`: nothing else needs to change. /help, completion
and abbreviations come from that line. A command changes the settings of the conversation or shows something; none of them
talks to a model, and none removes anything from the store.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias, cast

import msgspec
from msgspec.structs import replace

from ..client.catalog import Catalog
from ..client.session import Session
from ..core.blocks import Conversation, human
from ..core.dialect import MissingReasoning
from ..core.errors import LocalError
from ..core.handoff import SwitchReport
from ..core.ids import TOOL_FORMATS
from ..core.secret import hide_url_secrets
from ..dialects.provider import Provider
from ..dialects.registry import REGISTRY, Resolved
from ..store import Entry, to_jsonl, to_markdown
from .models import key_state
from .options import EFFORTS, POLICIES, model_names, parse_thinking
from .sessions import session_line, write_file
from .view import money, shortened, total_cost
from .workspace import find_session

if TYPE_CHECKING:
    from .chat import Chat

Words: TypeAlias = Iterable[tuple[str, str]]
"""Completions, each with its meaning."""
Run: TypeAlias = Callable[["Chat", str], Awaitable[None]]

_NEXT = "(your next message)"


class Command(msgspec.Struct, frozen=True):
    """`run` gets what follows the name; `words` gives the completions of it."""

    name: str
    usage: str
    help: str
    run: Run
    words: Callable[[Chat], Words]


COMMANDS: list[Command] = []
"""In the order of /help."""


def command(usage: str, help: str, words: Callable[[Chat], Words] = lambda chat: ()) -> Callable[[Run], Run]:
    """Make a function a slash command. It is called with the chat and what follows the name."""

    def register(run: Run) -> Run:
        COMMANDS.append(Command(usage.split()[0].removeprefix("/"), usage, help, run, words))
        return run

    return register


async def dispatch(chat: Chat, line: str) -> None:
    """Run the command at the start of a line; its name may be abbreviated as long as it is unambiguous."""
    name, _, rest = line[1:].partition(" ")
    await _find(name.strip().lower()).run(chat, rest.strip())


def is_command(line: str) -> bool:
    """Whether a line is a command: `/etc/hosts has …` goes to the model."""
    first = line.split(maxsplit=1)[0] if line.strip() else ""
    return first.startswith("/") and "/" not in first[1:] and len(first) > 1


def complete(chat: Chat, line: str) -> Words:
    """The completions of a line that starts with a slash."""
    name, space, rest = line[1:].partition(" ")
    if not space:
        return [(f"/{each.name}", each.help) for each in COMMANDS if each.name.startswith(name.lower())]
    found = next((each for each in COMMANDS if each.name == name.lower()), None)
    if found is None or " " in rest:
        return ()
    wanted = rest.lower()
    return [(word, meaning) for word, meaning in found.words(chat) if wanted in word.lower()]


def _find(name: str) -> Command:
    fits = [each for each in COMMANDS if each.name == name] or [each for each in COMMANDS if each.name.startswith(name)]
    if len(fits) == 1:
        return fits[0]
    near = difflib.get_close_matches(name, [each.name for each in COMMANDS], 1)
    if fits:
        raise LocalError(f"/{name} is ambiguous: {', '.join(f'/{each.name}' for each in fits)}")
    raise LocalError(f"no command /{name}; " + (f"did you mean /{near[0]}?" if near else "/help lists them all"))


def _models(chat: Chat) -> Words:
    return [(name, "") for name in model_names(chat.workspace.catalog)]


def _providers(chat: Chat) -> Words:
    catalog = chat.workspace.catalog
    return [(row.name, key_state(catalog, row)[0]) for row in catalog.registry.providers.values()]


def _stored_sessions(chat: Chat) -> Words:
    store = chat.workspace.store
    return [(info.id, shortened(info.title, 50)) for info in store.list(50)] if store is not None else ()


def _of(*words: str) -> Callable[[Chat], Words]:
    return lambda chat: [(word, "") for word in words]


@command("/model [NAME]", "change the model, and show what it will see", _models)
async def _model(chat: Chat, name: str) -> None:
    if not name:
        chat.view.notice(f"model: {chat.session.model} (/model NAME changes it; Tab completes)")
        return
    chat.view.notice(f"model: {name}", *_report(await chat.workspace.use(name)))


@command("/provider [NAME]", "list the providers, or use the same model at another one", _providers)
async def _provider(chat: Chat, name: str) -> None:
    catalog = chat.workspace.catalog
    providers = catalog.registry.providers
    if not name:
        for row in providers.values():
            chat.view.notice(
                f"{_current(row.name == chat.session.target.provider)}{row.name}: {key_state(catalog, row)[0]}"
            )
        return
    chosen = providers.get(name)
    if chosen is None:
        near = difflib.get_close_matches(name, providers, 1)
        hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(providers)}"
        raise LocalError(f"no provider {name!r}; {hint}")
    await _model(chat, f"{chosen.name}/{_same_model(chat.session.target.model, chosen)}")


def _same_model(model: str, provider: Provider) -> str:
    """This provider's name for the model, or the first model it offers."""
    short = model.rpartition("/")[2].lower()
    same = next((each for each in provider.models if each.rpartition("/")[2].lower() == short), None)
    if same is None and not provider.models:
        return model
    return same or provider.models[0]


@command("/toolformat [NAME|auto]", "show or set how tools are spoken of, and why", _of("auto", *TOOL_FORMATS))
async def _toolformat(chat: Chat, name: str) -> None:
    session = chat.session
    if name:
        session.set_tool_format(name)
        chat.workspace.store_settings()
    choice = session.tool_format_choice
    if choice.automatic:
        how = f"automatic, for {session.model}"
    elif choice.note is not None:
        how = f"you asked for {session.options.tool_format}; /toolformat auto undoes it"
    else:
        how = "set by you; /toolformat auto undoes it"
    chat.view.notice(f"tool format: {choice.name} ({how})")
    chat.view.notice(choice.why)


@command(
    "/thinking [on|off|auto|EFFORT|show|fold]",
    "set whether and how hard the model thinks, or how thinking is shown",
    _of("on", "off", "auto", *EFFORTS, "show", "fold"),
)
async def _thinking(chat: Chat, word: str) -> None:
    if word.lower() in ("show", "fold"):
        chat.view.unfolded = word.lower() == "show"
    elif word.lower() == "auto":
        chat.session.options = replace(chat.session.options, thinking=None, effort=None)
    elif word:
        thinking, effort = parse_thinking(word)
        chat.session.options = replace(chat.session.options, thinking=thinking, effort=effort)
    chat.workspace.store_settings()
    options = chat.session.options
    asked = options.thinking or "auto (the model's default)"
    how = f", effort {options.effort}" if options.effort else ""
    chat.view.notice(f"thinking: {asked}{how}; shown {'in full' if chat.view.unfolded else 'folded'} (Ctrl-T)")


@command(
    f"/reasoning [{'|'.join(POLICIES)}]",
    "set what to send if a model requires reasoning that is missing",
    _of(*POLICIES),
)
async def _reasoning(chat: Chat, policy: str) -> None:
    if policy and policy not in POLICIES:
        raise LocalError(f"invalid policy {policy!r}; expected one of {', '.join(POLICIES)}")
    if policy:
        chat.session.set_missing_reasoning(cast(MissingReasoning, policy))
        chat.workspace.store_settings()
    chat.view.notice(f"missing reasoning: {chat.session.options.missing_reasoning}")


@command("/tools", "list the tools and which of them ask first")
async def _tools(chat: Chat, _: str) -> None:
    toolbox = chat.workspace.agent.toolbox
    if not toolbox:
        chat.view.notice("no tools; start the chat without --no-tools to have some")
    for tool in toolbox:
        first = (tool.spec.description.strip().splitlines() or [""])[0]
        asks = "asks first" if tool.writes or tool.runs else "does not ask"
        chat.view.notice(f"  {tool.name} ({asks}): {shortened(first, 90)}")


@command("/sessions [WORDS]", "list or search stored conversations")
async def _sessions(chat: Chat, words: str) -> None:
    store = chat.workspace.require_store()
    if words:
        hits = store.search(words)
        chat.view.notice(
            *[f"  {hit.conversation[:8]} {' '.join(hit.snippet.split())}" for hit in hits] or ["no matches"]
        )
        return
    infos = store.list(20)
    now = time.time()
    current = chat.session.conversation.id
    chat.view.notice(
        *[_current(info.id == current) + session_line(info, now) for info in infos] or ["no conversation is stored yet"]
    )


@command("/resume [ID]", "continue a stored conversation", _stored_sessions)
async def _resume(chat: Chat, wanted: str) -> None:
    store = chat.workspace.require_store()
    if not wanted:
        await _sessions(chat, "")
        chat.view.notice("/resume ID continues one of them")
        return
    report = await chat.workspace.resume(find_session(store, wanted))
    chat.show_history()
    chat.view.notice(f"model: {chat.session.model}", *_report(report))


@command("/new", "start a new conversation")
async def _new(chat: Chat, _: str) -> None:
    chat.session.conversation = Conversation(system=chat.session.conversation.system)
    chat.view.notice("started a new conversation")


@command("/fork", "continue in a copy of this conversation")
async def _fork(chat: Chat, _: str) -> None:
    store = chat.workspace.require_store()
    conversation = chat.session.conversation
    if not conversation.id:
        raise LocalError("this conversation is not stored yet: say something first")
    chat.session.conversation = store.load(store.fork(conversation.id))
    chat.view.notice(f"continuing in a copy, {chat.session.conversation.id[:8]}; {conversation.id[:8]} stays unchanged")


@command("/undo", "continue from before the last exchange")
async def _undo(chat: Chat, _: str) -> None:
    """Continue from before the last exchange; the full conversation stays in the store."""
    before = chat.session.conversation
    said = [place for place, turn in enumerate(before.turns) if turn.speaker == "human" and not turn.role]
    if not said:
        raise LocalError("nothing to undo")
    store = chat.workspace.store
    if store is not None and before.id:
        chat.session.conversation = store.load(store.fork(before.id, said[-1]))
        kept = f"; the full conversation is still stored as {before.id[:8]}"
    else:
        chat.session.conversation = replace(before, turns=before.turns[: said[-1]])
        kept = ""
    undone = " ".join(before.turns[said[-1]].text.split())
    chat.view.notice(f"undone: {shortened(undone, 60)}{kept}")


@command("/export [md|jsonl] [FILE]", "write the conversation to a file", _of("md", "jsonl"))
async def _export(chat: Chat, rest: str) -> None:
    conversation = chat.session.conversation
    words = rest.split(maxsplit=1)
    kind = words[0] if words and words[0] in ("md", "jsonl") else ""
    name = (words[1] if len(words) > 1 else "") if kind else rest
    kind = kind or ("jsonl" if name.endswith(".jsonl") else "md")
    store = chat.workspace.store
    entry = store.entry(conversation.id) if store is not None and conversation.id else Entry(conversation)
    data = b"".join(to_jsonl([entry])) if kind == "jsonl" else to_markdown(entry).encode("utf-8", "replace")
    default = f"midstream-{conversation.id[:8] or 'chat'}.{kind}"
    path = write_file(name or default, data, "give another name, as in /export md NAME")
    chat.view.notice(f"written: {path}")


@command("/usage", "show tokens and cost by model")
async def _usage(chat: Chat, _: str) -> None:
    costs = chat.session.costs()
    for model in dict.fromkeys(each.model for each in costs):
        mine = [each for each in costs if each.model == model]
        read, written = sum(each.usage.read for each in mine), sum(each.usage.output for each in mine)
        cached = sum(each.usage.cache_read for each in mine)
        cost = total_cost(mine)
        chat.view.notice(
            f"  {model}: {len(mine)} answers, {read:,} tokens in ({cached:,} from the cache), {written:,} out, "
            + (money(cost) if cost is not None else "price unknown")
        )
    total = total_cost(costs)
    report = chat.session.preview()
    chat.view.notice(f"total: {money(total) if total is not None else 'unknown'}", f"  {report.lines()[-1]}")


@command("/wire [TEXT]", "show the exact request the model would get next, without secrets")
async def _wire(chat: Chat, text: str) -> None:
    chat.view.notice(*wire_lines(chat.session, text))


@command("/help", "show this list")
async def _help(chat: Chat, _: str) -> None:
    width = max(len(each.usage) for each in COMMANDS)
    chat.view.notice(
        *[f"  {each.usage:<{width}}  {each.help}" for each in COMMANDS],
        "Enter sends; Alt-Enter, or a backslash before Enter, starts a new line. Esc stops an answer, Ctrl-T unfolds thinking.",
        "Ctrl-D, or Ctrl-C twice, quits.",
    )


@command("/quit", "leave the chat")
@command("/exit", "leave the chat")
async def _exit(chat: Chat, _: str) -> None:
    chat.leave()


def _report(report: SwitchReport | None) -> list[str]:
    return [f"  {line}" for line in report.lines()] if report is not None else []


def _current(is_it: bool) -> str:
    return "* " if is_it else "  "


def wire_lines(session: Session, text: str = "") -> Iterator[str]:
    """The request line, headers, body and notes of the next request; a placeholder stands for a message not yet written."""
    before = session.conversation
    last = before.turns[-1].speaker if before.turns else ""
    try:
        if text or last in ("", "ai"):
            session.conversation = before.add(human(text or _NEXT))
        request = session.request()
    finally:
        session.conversation = before
    target = session.target
    address = hide_url_secrets(target.endpoint.base_url, "‹hidden›")
    yield f"{request.method} {address}{target.endpoint.at(request.path)}"
    for name, value in {
        **request.headers,
        **_own_headers(target),
        **_key_header(session.client.catalog, target),
    }.items():
        yield f"{name}: {value}"
    yield ""
    yield from msgspec.json.format(request.body, indent=2).decode().split("\n")
    for note in request.notes:
        yield f"# {note}"


def _own_headers(target: Resolved) -> dict[str, str]:
    """The headers of this endpoint; values that the user configured are hidden, because any of them may be a secret."""
    row = REGISTRY.providers.get(target.provider)
    known = (row.endpoint.headers if row is not None else None) or {}
    headers = target.endpoint.headers or {}
    return {name: value if known.get(name) == value else "‹hidden›" for name, value in headers.items()}


def _key_header(catalog: Catalog, target: Resolved) -> dict[str, str]:
    """The header for the key, with the name of the variable instead of the key."""
    endpoint = target.endpoint
    if endpoint.auth == "none":
        return {}
    source = catalog.key_source(target)
    placeholder = f"‹{source}›" if source else "‹no key set›"
    if catalog.sends_bearer(target):
        return {"authorization": f"Bearer {placeholder}"}
    return {endpoint.auth: placeholder}
