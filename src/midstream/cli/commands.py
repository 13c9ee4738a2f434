"""The slash commands: a table of names, what they do and what may follow them.

A command changes the conversation's settings or shows something; none of them talks to a model, and none removes anything
from the store.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
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
from .sessions import session_line
from .view import money, shortened, total_cost
from .workspace import find_session

if TYPE_CHECKING:
    from .chat import Chat


_NEXT = "(your next message)"


def wire_lines(session: Session, text: str = "") -> Iterator[str]:
    """Request line, headers, body and notes. With nothing said yet, a stand-in takes the place of the next message."""
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
    """The headers of this address; one that the user configured may hold a secret, whatever it is called."""
    row = REGISTRY.providers.get(target.provider)
    known = (row.endpoint.headers if row is not None else None) or {}
    headers = target.endpoint.headers or {}
    return {name: value if known.get(name) == value else "‹hidden›" for name, value in headers.items()}


def _key_header(catalog: Catalog, target: Resolved) -> dict[str, str]:
    """The header that will carry the key, and the variable it comes from instead of the key."""
    endpoint = target.endpoint
    if endpoint.auth == "none":
        return {}
    source = catalog.key_source(target)
    stand_in = f"‹{source}›" if source else "‹no key set›"
    if catalog.sends_bearer(target):
        return {"authorization": f"Bearer {stand_in}"}
    return {endpoint.auth: stand_in}


Words: TypeAlias = Iterable[tuple[str, str]]


def _nothing(chat: Chat) -> Words:
    return ()


class Command(msgspec.Struct, frozen=True):
    """`run` gets what stands behind the name; `words` are what may stand there, each with its meaning."""

    name: str
    usage: str
    help: str
    run: Callable[[Chat, str], Awaitable[None]]
    words: Callable[[Chat], Words] = _nothing


async def dispatch(chat: Chat, line: str) -> None:
    """Run the command that a line begins with; a name may be cut short where only one fits."""
    name, _, rest = line[1:].partition(" ")
    await _find(name.strip().lower()).run(chat, rest.strip())


def is_command(line: str) -> bool:
    """Whether a line is meant for us: `/etc/hosts has …` is said to the model."""
    first = line.split(maxsplit=1)[0] if line.strip() else ""
    return first.startswith("/") and "/" not in first[1:] and len(first) > 1


def complete(chat: Chat, line: str) -> Words:
    """What may stand at the end of a line that begins with a slash."""
    name, space, rest = line[1:].partition(" ")
    if not space:
        return [(f"/{each.name}", each.help) for each in COMMANDS if each.name.startswith(name.lower())]
    command = next((each for each in COMMANDS if each.name == name.lower()), None)
    if command is None or " " in rest:
        return ()
    wanted = rest.lower()
    return [(word, meaning) for word, meaning in command.words(chat) if wanted in word.lower()]


def _find(name: str) -> Command:
    fits = [each for each in COMMANDS if each.name == name] or [each for each in COMMANDS if each.name.startswith(name)]
    if len(fits) == 1:
        return fits[0]
    near = difflib.get_close_matches(name, [each.name for each in COMMANDS], 1)
    if fits:
        raise LocalError(f"/{name} may be {' or '.join(f'/{each.name}' for each in fits)}")
    raise LocalError(f"no command /{name}" + (f": did you mean /{near[0]}?" if near else ": /help lists them"))


async def _model(chat: Chat, name: str) -> None:
    if not name:
        chat.view.notice(f"model: {chat.session.model} (/model NAME changes it; Tab completes)")
        return
    chat.view.notice(f"model: {name}", *_report(await chat.workspace.use(name)))


async def _provider(chat: Chat, name: str) -> None:
    catalog = chat.workspace.catalog
    providers = catalog.registry.providers
    if not name:
        for row in providers.values():
            chat.view.notice(
                f"{_current(row.name == chat.session.target.provider)}{row.name}: {key_state(catalog, row)}"
            )
        return
    chosen = providers.get(name)
    if chosen is None:
        near = difflib.get_close_matches(name, providers, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(providers)}"
        raise LocalError(f"no provider {name!r}: {hint}")
    await _model(chat, f"{chosen.name}/{_same_model(chat.session.target.model, chosen)}")


def _same_model(model: str, provider: Provider) -> str:
    """What this provider calls the model; else the first it offers."""
    short = model.rpartition("/")[2].lower()
    same = next((each for each in provider.models if each.rpartition("/")[2].lower() == short), None)
    if same is None and not provider.models:
        return model
    return same or provider.models[0]


def _report(report: SwitchReport | None) -> list[str]:
    return [f"  {line}" for line in report.lines()] if report is not None else []


async def _toolformat(chat: Chat, name: str) -> None:
    if name:
        chat.session.set_tool_format(name)
        chat.workspace.store_settings()
    format, automatic = chat.session.tool_format
    how = f"automatic, for {chat.session.model}" if automatic else "chosen by hand; /toolformat auto undoes it"
    chat.view.notice(f"tool format: {format} ({how})")


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
    asked = options.thinking or "auto: as the model does by itself"
    how = f", effort {options.effort}" if options.effort else ""
    chat.view.notice(f"thinking: {asked}{how}; shown {'whole' if chat.view.unfolded else 'folded'} (Ctrl-T)")


async def _reasoning(chat: Chat, policy: str) -> None:
    if policy and policy not in POLICIES:
        raise LocalError(f"no policy {policy!r} for missing reasoning: choose one of {', '.join(POLICIES)}")
    if policy:
        chat.session.set_missing_reasoning(cast(MissingReasoning, policy))
        chat.workspace.store_settings()
    chat.view.notice(f"missing reasoning: {chat.session.options.missing_reasoning}")


async def _tools(chat: Chat, _: str) -> None:
    toolbox = chat.workspace.agent.toolbox
    if not toolbox:
        chat.view.notice("no tools: start with -T NAME or without --no-tools")
    for tool in toolbox:
        first = (tool.spec.description.strip().splitlines() or [""])[0]
        asks = "asks first" if tool.writes or tool.runs else "free"
        chat.view.notice(f"  {tool.name} ({asks}): {shortened(first, 90)}")


async def _sessions(chat: Chat, words: str) -> None:
    store = chat.workspace.require_store()
    if words:
        hits = store.search(words)
        chat.view.notice(
            *[f"  {hit.conversation[:8]} {' '.join(hit.snippet.split())}" for hit in hits] or ["nothing found"]
        )
        return
    infos = store.list(20)
    now = time.time()
    current = chat.session.conversation.id
    chat.view.notice(*[_current(info.id == current) + session_line(info, now) for info in infos] or ["none stored yet"])


async def _resume(chat: Chat, wanted: str) -> None:
    store = chat.workspace.require_store()
    if not wanted:
        await _sessions(chat, "")
        chat.view.notice("/resume ID goes on with one of them")
        return
    report = await chat.workspace.resume(find_session(store, wanted))
    chat.show_history()
    chat.view.notice(f"model: {chat.session.model}", *_report(report))


async def _fork(chat: Chat, _: str) -> None:
    conversation = _stored(chat)
    store = chat.workspace.require_store()
    chat.session.conversation = store.load(store.fork(conversation.id))
    chat.view.notice(f"this is now a copy, {chat.session.conversation.id[:8]}; {conversation.id[:8]} stays as it is")


async def _undo(chat: Chat, _: str) -> None:
    """Go on from before the last exchange; the conversation with it stays in the store."""
    before = chat.session.conversation
    said = [place for place, turn in enumerate(before.turns) if turn.speaker == "human" and not turn.role]
    if not said:
        raise LocalError("nothing to undo")
    store = chat.workspace.store
    if store is not None and before.id:
        chat.session.conversation = store.load(store.fork(before.id, said[-1]))
        kept = f"; all of it is still in {before.id[:8]}"
    else:
        chat.session.conversation = replace(before, turns=before.turns[: said[-1]])
        kept = ""
    undone = " ".join(before.turns[said[-1]].text.split())
    chat.view.notice(f"undone: {shortened(undone, 60)}{kept}")


async def _new(chat: Chat, _: str) -> None:
    chat.session.conversation = Conversation(system=chat.session.conversation.system)
    chat.view.notice("a new conversation")


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
    chat.view.notice(f"written: {_written(name or default, data)}")


def _written(name: str, data: bytes) -> Path:
    """The path of a new file with this content; one that is there is left alone."""
    path = Path(name).expanduser()
    try:
        with path.open("xb") as file:
            file.write(data)
    except FileExistsError:
        raise LocalError(f"{path} is there already: give another name, e.g. /export md NAME") from None
    except OSError as error:
        raise LocalError(f"cannot write {path}: {error.strerror}") from None
    return path


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
    chat.view.notice(f"total: {money(total) if total is not None else 'no cost known'}", f"  {report.lines()[-1]}")


async def _wire(chat: Chat, text: str) -> None:
    chat.view.notice(*wire_lines(chat.session, text))


async def _help(chat: Chat, _: str) -> None:
    width = max(len(each.usage) for each in COMMANDS)
    chat.view.notice(
        *[f"  {each.usage:<{width}}  {each.help}" for each in COMMANDS],
        "Enter sends; Alt-Enter, or a backslash before Enter, makes a new line. Esc stops an answer, Ctrl-T unfolds thinking.",
        "Ctrl-C twice or Ctrl-D quits.",
    )


async def _exit(chat: Chat, _: str) -> None:
    chat.leave()


def _stored(chat: Chat) -> Conversation:
    if not chat.session.conversation.id:
        raise LocalError("nothing is stored of this conversation yet")
    return chat.session.conversation


def _current(is_it: bool) -> str:
    return "* " if is_it else "  "


def _models(chat: Chat) -> Words:
    return [(name, "") for name in model_names(chat.workspace.catalog)]


def _providers(chat: Chat) -> Words:
    catalog = chat.workspace.catalog
    return [(row.name, key_state(catalog, row)) for row in catalog.registry.providers.values()]


def _stored_sessions(chat: Chat) -> Words:
    store = chat.workspace.store
    return [(info.id, shortened(info.title, 50)) for info in store.list(50)] if store is not None else ()


def _of(*words: str) -> Callable[[Chat], Words]:
    return lambda chat: [(word, "") for word in words]


COMMANDS = (
    Command("model", "/model [NAME]", "change the model; shows what it will see", _model, _models),
    Command("provider", "/provider [NAME]", "list providers, or take the same model elsewhere", _provider, _providers),
    Command("toolformat", "/toolformat [NAME|auto]", "the tool format", _toolformat, _of("auto", *TOOL_FORMATS)),
    Command(
        "thinking",
        "/thinking [on|off|auto|EFFORT|show|fold]",
        "whether and how hard it thinks, and how that is shown",
        _thinking,
        _of("on", "off", "auto", *EFFORTS, "show", "fold"),
    ),
    Command(
        "reasoning",
        f"/reasoning [{'|'.join(POLICIES)}]",
        "what to do where a model demands reasoning that is not there",
        _reasoning,
        _of(*POLICIES),
    ),
    Command("tools", "/tools", "the tools, and which of them ask first", _tools),
    Command("sessions", "/sessions [WORDS]", "list or search stored conversations", _sessions),
    Command("resume", "/resume [ID]", "go on with a stored conversation", _resume, _stored_sessions),
    Command("new", "/new", "begin a new conversation", _new),
    Command("fork", "/fork", "go on in a copy", _fork),
    Command("undo", "/undo", "go on from before the last exchange", _undo),
    Command("export", "/export [md|jsonl] [FILE]", "write the conversation to a file", _export, _of("md", "jsonl")),
    Command("usage", "/usage", "tokens and cost, by model", _usage),
    Command("wire", "/wire [TEXT]", "the exact request the model would get next, without secrets", _wire),
    Command("help", "/help", "this list", _help),
    Command("exit", "/exit", "leave (also /quit)", _exit),
    Command("quit", "/quit", "leave", _exit),
)
