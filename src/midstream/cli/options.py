"""The options that the commands share, the settings they make, and the models that can be named with `-m`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, get_args

import click
import msgspec
from msgspec.structs import replace

from ..agent.approval import AllowPattern
from ..agent.project import Project
from ..agent.toolbox import BUILTIN
from ..client.catalog import Catalog
from ..client.config import LoadedConfig, load_config
from ..client.settings import MODEL_VARIABLE
from ..core.dialect import EFFORTS as ALL_EFFORTS
from ..core.dialect import MissingReasoning, Options
from ..core.errors import LocalError, MidstreamError
from ..core.ids import OLD_WORDS, chosen_tool_format
from ..sim.providers import MODELS, SIM
from ..wires.tool_format import TEXT_FORMATS
from .named_prompt import MARK, prompt_files
from .sandbox import sandbox_options
from .terminal import color_option

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])

TOOLS = (*BUILTIN, "remember", "skill", "mcp")
"""The tools of the terminal by name: the built-in ones, those of memory and skills (system_prompt.py), and all of MCP servers."""
FALLBACK_MODEL = "moonshot/kimi-k2.5"
POLICIES: tuple[str, ...] = get_args(MissingReasoning)
EFFORTS = tuple([effort for effort in ALL_EFFORTS if effort != "none"])  # `none` is written `off`


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says about a conversation."""

    model: str | None = None
    system: str = ""
    session: str | None = None
    resume: bool = False
    tools: tuple[str, ...] = ()
    yolo: bool = False
    allow: tuple[str, ...] = ()
    sandbox: bool | None = None
    sandbox_network: bool = False
    unattended: bool = False
    store: bool = True
    store_at: str | None = None
    thinking: str | None = None
    tool_format: str | None = None
    instructions: bool | None = None
    memory: bool | None = None
    skills: bool | None = None
    record: str | None = None
    scrub: tuple[str, ...] = ()
    is_chat: bool = False

    def __post_init__(self) -> None:
        if self.resume and self.session is not None:
            raise click.UsageError(
                "--continue and --session were both given: use --session ID for that conversation, or --continue for the last one"
            )

    def options(self, stored: Mapping[str, str]) -> Options:
        """The settings stored with a conversation, overridden by the flags."""
        flags: dict[str, str] = {}
        if self.thinking is not None:
            thinking, effort = parse_thinking(self.thinking)
            flags = {"thinking": thinking, "effort": effort or ""}
        if self.tool_format is not None:
            flags["tool_format"] = chosen_tool_format(self.tool_format) or "auto"
        return stored_options({**stored, **flags})


def stored_options(stored: Mapping[str, str]) -> Options:
    """The options that `Workspace.store_settings` wrote, in this version or an earlier one."""
    format = stored.get("tool_format")
    policy = stored.get("missing_reasoning")
    thinking = stored.get("thinking")
    options = Options(
        thinking="on" if thinking == "on" else "off" if thinking == "off" else None,
        effort=stored.get("effort") or None,
        tool_format=OLD_WORDS.get(format or "", format),
    )
    return replace(options, missing_reasoning=cast(MissingReasoning, policy)) if policy in POLICIES else options


def parse_thinking(word: str) -> tuple[Literal["on", "off"], str | None]:
    """`on`, `off` or an effort, which means on: whether to think, and the effort if one was given."""
    word = word.strip().lower()
    if word in EFFORTS:
        return "on", word
    if word in ("on", "off"):
        return ("on" if word == "on" else "off"), None
    raise LocalError(f"invalid thinking {word!r}; expected on, off, {', '.join(EFFORTS)}")


def default_model(loaded: LoadedConfig, environ: Mapping[str, str]) -> tuple[str, str]:
    """The model to use when none is named (the environment's, the configuration's, or one whose key is set), and its origin."""
    if environ.get(MODEL_VARIABLE):
        return environ[MODEL_VARIABLE], f"${MODEL_VARIABLE}"
    if loaded.config.default_model:
        return loaded.config.default_model, loaded.origins.get("default_model", "configuration")
    catalog = Catalog(loaded, environ=environ)
    # Variables before stored keys, as everywhere else.
    for provider in catalog.registry.providers.values():
        variable = next((name for name in provider.endpoint.key_env if environ.get(name)), None)
        if variable and provider.models:
            return f"{provider.name}/{provider.models[0]}", f"${variable} is set"
    for provider in catalog.registry.providers.values():
        if provider.models and catalog.stored_in(provider.name) is not None:
            return f"{provider.name}/{provider.models[0]}", f"the key of {provider.name} is stored"
    return FALLBACK_MODEL, "default"


def model_names(catalog: Catalog) -> list[str]:
    """The models to offer for completion."""
    return list(dict.fromkeys([*catalog.names(), *[f"{SIM}/{model}" for model in MODELS]]))


def complete_model(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of models that begin so, for the shell."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in model_names(Catalog(load_config())) if name.startswith(incomplete)]


def complete_file(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The shell completes the names of files."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def _complete_prompt(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    names = [f"{MARK}{name}" for name in prompt_files(Project())]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _checked(check: Callable[[str], object]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback for an option whose every value must pass a check of ours."""

    def callback(_: click.Context, __: click.Parameter, value: Any) -> Any:
        try:
            for each in (value,) if isinstance(value, str) else value or ():
                check(each)
        except MidstreamError as error:
            raise click.BadParameter(str(error)) from None
        return value

    return callback


def _tools(_: click.Context, __: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    """Each tool once, `all` spelled out."""
    unknown = next((name for name in names if name not in (*TOOLS, "all")), None)
    if unknown is not None:
        raise click.BadParameter(f"no tool {unknown!r}; expected {', '.join(TOOLS)}, or all")
    return TOOLS if "all" in names else tuple(dict.fromkeys(names))


def tool_option(help: str, default: tuple[str, ...] = ()) -> Callable[[F], F]:
    """`-T NAME`, as often as one likes."""
    return click.option(
        "-T", "--tool", "tools", multiple=True, default=default, callback=_tools, metavar="NAME", help=help
    )


store_option = click.option(
    "--store",
    "store_at",
    metavar="ADDRESS",
    envvar="MIDSTREAM_STORE",
    help="Where conversations are stored: the path of a file, or postgresql://user@host/database. [env: MIDSTREAM_STORE]",
)


def _checked_pattern(text: str) -> None:
    try:
        re.compile(text)
    except re.error as error:
        raise LocalError(f"not a regular expression: {error}") from None


scrub_option = click.option(
    "--scrub",
    multiple=True,
    metavar="REGEX",
    callback=_checked(_checked_pattern),
    help="Take this out of recordings too, or its first group; repeatable.",
)
_SESSION = (
    click.option("-c", "--continue", "resume", is_flag=True, help="Continue the last conversation that has an answer."),
    click.option(
        "--session", metavar="ID", help="Continue this conversation; the first characters of its id are enough."
    ),
)
_CONVERSATION = (
    click.option(
        "-m",
        "--model",
        metavar="MODEL",
        shell_complete=complete_model,
        help="provider/model or an alias, such as moonshot/kimi-k2.5; sim/kimi-k2.5 needs no key. [env: MIDSTREAM_MODEL]",
    ),
    click.option(
        "-s",
        "--system",
        default="",
        metavar="TEXT|@NAME",
        shell_complete=_complete_prompt,
        help="System prompt for a new conversation; @reviewer is the file prompts/reviewer.md in your configuration or in "
        "the project's .midstream/ (`midstream config prompts` lists them), @@ begins a text with @.",
    ),
    click.option(
        "--instructions/--no-instructions",
        default=None,
        help="Tell the model what AGENTS.md (or CLAUDE.md) says, from this folder upwards. Default: in a chat and with tools.",
    ),
    click.option(
        "--memory/--no-memory",
        default=None,
        help="Tell the model your notes (/remember). Default: in a chat and with tools.",
    ),
    click.option(
        "--skills/--no-skills",
        default=None,
        help="Offer the skills of the project and of your configuration. Default: with tools.",
    ),
    *_SESSION,
    click.option(
        "--allow",
        multiple=True,
        metavar="PATTERN",
        callback=_checked(AllowPattern),
        help="Allow without asking, such as write_file or 'bash:git status*'; repeatable.",
    ),
    click.option("-y", "--yolo", is_flag=True, help="Allow every tool call without asking."),
    *sandbox_options,
    click.option(
        "--thinking",
        metavar="on|off|EFFORT",
        callback=_checked(parse_thinking),
        help=f"Turn thinking on or off, or set an effort: {', '.join(EFFORTS)}.",
    ),
    click.option(
        "--tool-format",
        metavar="NAME",
        callback=_checked(chosen_tool_format),
        help="How tools are spoken of. auto: the host's own way. openai, anthropic, mistral, kimi, qwen, deepseek, gemma: "
        f"declared to the host, with that family's ids. For a model without tool calls, as plain text: {', '.join(TEXT_FORMATS)}.",
    ),
    click.option(
        "--record",
        type=click.Path(file_okay=False),
        metavar="DIR",
        help="Record every exchange with a host in this folder, chunk by chunk and without keys (see midstream replay).",
    ),
    scrub_option,
    store_option,
    click.option("--no-store", "store", flag_value=False, default=True, help="Do not save the conversation."),
    color_option,
)


def conversation_options(command: F) -> F:
    """The options of every command that talks to a model."""
    return _with(_CONVERSATION, command)


def agent_options(command: F) -> F:
    """Those of them for an agent whose conversations somebody else opens."""
    return _with([option for option in _CONVERSATION if option not in _SESSION], command)


def _with(options: Sequence[Callable[[F], F]], command: F) -> F:
    # Decorators apply from the inside out; reversed, --help lists them in the order above.
    for option in reversed(options):
        command = option(command)
    return command
