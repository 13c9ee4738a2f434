"""Commands about the model: which one, at whom, how it thinks and how it is told of tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from ...core.dialect import MissingReasoning
from ...core.errors import LocalError
from ...core.handoff import SwitchReport
from ...core.ids import TOOL_FORMATS
from ...core.nearest import nearest
from ...dialects.provider import Provider
from ..models import key_state
from ..options import EFFORTS, POLICIES, model_names, parse_thinking
from ..slash import Words, command, words_of
from ..view import current_mark

if TYPE_CHECKING:
    from ..chat import Chat


# What each tool format is for; docs/tool-formats.md has the details.
_FORMATS: dict[str, str] = {
    "auto": "the model's own way; right unless you know better",
    "native": "the host's own tool calls with its own ids",
    "openai": "tool calls of OpenAI's wires, ids call_…",
    "anthropic": "tool calls of Anthropic's Messages, ids toolu_…",
    "kimi": "tool calls of OpenAI's wires, ids functions.name:0",
    "mistral": "tool calls of OpenAI's wires, ids of nine characters",
    "qwen": "tool calls of OpenAI's wires, for Qwen and GLM; stored as qwen-json",
    "deepseek": "tool calls of OpenAI's wires, for DeepSeek; stored as deepseek-json",
    "gemma": "tool calls of OpenAI's wires, for Gemma; stored as gemma-json",
    "qwen-json": "the same as qwen: declared to the host, never as text",
    "deepseek-json": "the same as deepseek: declared to the host, never as text",
    "gemma-json": "the same as gemma: declared to the host, never as text",
    "hermes": "plain text: JSON in <tool_call>; most models know it",
    "qwen-text": "plain text, for Qwen 2.5 and 3",
    "qwen3-coder": "plain text, for Qwen3-Coder",
    "glm": "plain text, for GLM",
    "xml": "plain text: <invoke> and <parameter>, for models that write XML well",
    "llama": "plain text, for Llama 3",
    "gemma-text": "plain text, for Gemma",
    "deepseek-text": "plain text, for DeepSeek",
    "kimi-text": "plain text, for Kimi K2",
    "kimi-k3-text": "plain text, for Kimi K3",
    "mistral-text": "plain text, for Mistral",
}


def models(chat: Chat) -> Words:
    """The completions where a model is named."""
    return [(name, "") for name in model_names(chat.workspace.catalog)]


def _providers(chat: Chat) -> Words:
    catalog = chat.workspace.catalog
    return [(row.name, key_state(catalog, row)[0]) for row in catalog.registry.providers.values()]


@command("/model [NAME]", "change the model, and show what it will see", models, short="m")
async def _model(chat: Chat, name: str) -> None:
    if not name:
        chat.view.notice(f"model: {chat.session.model} (/model NAME changes it; Tab completes)")
        return
    report = await chat.workspace.use(name)
    chat.view.notice(f"model: {chat.session.model}", *report_lines(report))
    chat.attachments.warn(chat)


@command("/provider [NAME]", "list the providers, or use the same model at another one", _providers, short="p")
async def _provider(chat: Chat, name: str) -> None:
    catalog = chat.workspace.catalog
    providers = catalog.registry.providers
    if not name:
        for row in providers.values():
            chat.view.notice(
                f"{current_mark(row.name == chat.session.target.provider)}{row.name}: {key_state(catalog, row)[0]}"
            )
        return
    chosen = providers.get(name)
    if chosen is None:
        near = nearest(name, providers, 1)
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


@command("/toolformat [NAME|auto]", "show or set how tools are spoken of, and why", words_of("auto", *TOOL_FORMATS))
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
    if not name:
        current = "auto" if choice.automatic else choice.name
        chat.view.notice("/toolformat NAME sets another:")
        chat.view.notice(*[f"{current_mark(each == current)}{each}: {_FORMATS[each]}" for each in _FORMATS])


@command(
    "/thinking [on|off|auto|EFFORT|show|fold]",
    "set whether and how hard the model thinks, or how thinking is shown",
    words_of("on", "off", "auto", *EFFORTS, "show", "fold"),
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
    words_of(*POLICIES),
)
async def _reasoning(chat: Chat, policy: str) -> None:
    if policy and policy not in POLICIES:
        raise LocalError(f"invalid policy {policy!r}; expected one of {', '.join(POLICIES)}")
    if policy:
        chat.session.set_missing_reasoning(cast(MissingReasoning, policy))
        chat.workspace.store_settings()
    chat.view.notice(f"missing reasoning: {chat.session.options.missing_reasoning}")


def report_lines(report: SwitchReport | None) -> list[str]:
    """What the next model will see, as lines below a notice."""
    return [f"  {line}" for line in report.lines()] if report is not None else []
