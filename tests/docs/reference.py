"""The pages below docs/reference that are made from the code: `python -m tests.docs.reference` writes them anew."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, get_args, get_origin

import click

from midstream.cli import commands as _registers  # noqa: F401
from midstream.cli.main import COMMANDS, code_for, main
from midstream.cli.slash import COMMANDS as SLASH
from midstream.cli.slash import short_forms
from midstream.client import config
from midstream.client.catalog import FIXED_FIELDS
from midstream.core import dialect, errors, events
from midstream.dialects.registry import REGISTRY
from midstream.sim.faults import FAULTS
from midstream.store import schema
from midstream.verify.checks import CHECKS
from midstream.verify.suites import SUITES
from midstream.verify.verified import FACTS, Verified, VerifiedHost
from tests.verify.faults_table import FOUND_BY

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
_MADE = "This page is made from the code"


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    return f"`{cell(text)}`" if text else ""


def table(*head: str) -> str:
    return f"| {' | '.join(head)} |\n|{'---|' * len(head)}"


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


_BOUNDS = re.compile(r"Annotated\[(\w+), msgspec\.Meta\([^)]*\)\]")
"""The bounds of a number, which are for the program that checks them; a reader of the type wants the type."""


def fields(kind: type) -> Iterator[tuple[str, str, str, str]]:
    """The fields of a struct as they are written: name, type, default, and the words below it."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(tree, ast.ClassDef)
    for place, node in enumerate(tree.body):
        if (
            not isinstance(node, ast.AnnAssign)
            or not isinstance(node.target, ast.Name)
            or node.target.id.startswith("_")
        ):
            continue
        below = tree.body[place + 1] if place + 1 < len(tree.body) else None
        words = ""
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            words = below.value.value
        said = _spelled(_BOUNDS.sub(r"\1", ast.unparse(node.annotation)))
        yield node.target.id, said, ast.unparse(node.value) if node.value else "", words


def _spelled(annotation: str) -> str:
    """The annotation with the words themselves for a name that stands for a few of them."""
    for name, words in vars(dialect).items():
        if get_origin(words) is Literal:
            annotation = re.sub(rf"\b{name}\b", f"Literal{list(get_args(words))}", annotation)
    return annotation


def words_of(kind: object) -> str:
    """The first paragraph of a docstring."""
    return cell((inspect.getdoc(kind) or "").partition("\n\n")[0])


def command_pages() -> Iterator[tuple[str, str]]:
    yield "commands/index.md", "\n".join(_commands_index())
    for name in [*COMMANDS, *main.commands]:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        yield f"commands/{name}.md", "\n".join(_command(name, command))


def _commands_index() -> Iterator[str]:
    yield f"# Commands\n\n{_MADE}, as `--help` prints it.\n"
    yield table("command", "does")
    own = {name: command.get_short_help_str(100) for name, command in main.commands.items()}
    for name, words in {**COMMANDS, **own}.items():
        yield row(f"[`midstream {name}`]({name}.md)", cell(words))
    yield "\n## Exit codes\n\n| code | means |\n|---|---|\n| 0 | success |\n| 1 | failure |\n| 2 | usage error, or a model that is not known |"
    yield "| 75 | temporary: the same command may work in a while |\n| 130 | interrupted |"
    yield "\nIn the chat: [slash commands](../slash-commands.md). What is read from the environment: [environment variables](../environment.md).\n"


def _command(name: str, command: click.Command, level: int = 1) -> Iterator[str]:
    yield f"{'#' * level} midstream {name}\n"
    if level == 1:
        yield f"{_MADE}: `midstream {name} --help` prints the same.\n"
    context = click.Context(command, info_name=f"midstream {name}", max_content_width=100, terminal_width=100)
    yield f"```text\n{command.get_help(context).rstrip()}\n```\n"
    if isinstance(command, click.Group):
        for each in sorted(command.commands):
            yield from _command(f"{name} {each}", command.commands[each], level + 1)


def slash_commands() -> str:
    lines = [
        f"# Slash commands\n\n{_MADE}: `/help` in the chat prints the same. A beginning that fits only one is enough (`/und`); {short_forms()}.\n"
    ]
    lines += [table("command", "does"), *[row(code(each.usage), cell(each.help)) for each in SLASH], ""]
    return "\n".join(lines)


def configuration() -> str:
    lines = [
        f"# Configuration file\n\n{_MADE}. `~/.config/midstream/config.toml` (or `$MIDSTREAM_HOME/config.toml`), and over it a project's "
        "`.midstream.toml`. `midstream config show` prints what is in force and where each value comes from. An unknown key is an error that names "
        "it. How to describe a host: [a host of my own](../guides/own-host.md).\n"
    ]
    for title, kind in (
        ("At the top", config.Config),
        ("`[providers.NAME]`", config.ProviderConfig),
        ('`[models."PROVIDER/MODEL"]`', config.ModelConfig),
        ("`[chat]`", config.ChatConfig),
        ("`[sandbox]`", config.SandboxConfig),
        ("`[mcp.NAME]`", config.McpServer),
    ):
        lines += [f"## {title}\n", *_field_table(kind)]
    return "\n".join(lines)


def dialect_fields() -> str:
    lines = [
        f"# Fields of a dialect\n\n{_MADE}. `[providers.NAME.dialect]` in the [configuration file](configuration.md) says what a host does "
        "differently from the provider that it is like. Give only the fields that differ. The defaults here are those of a plain "
        "OpenAI-compatible host. An example: [a host of my own](../guides/own-host.md#what-the-host-does-differently). What goes into "
        "`reasoning`: [fields of reasoning](dialect-reasoning.md).\n",
        *_field_table(dialect.Dialect, FIXED_FIELDS),
        "## `limits = { … }`\n",
        *_field_table(dialect.Limits),
    ]
    return "\n".join(lines)


def reasoning_fields() -> str:
    lines = [
        f"# Fields of reasoning\n\n{_MADE}. `reasoning = {{ … }}` in a [dialect](dialect.md) says how a host carries reasoning, wants it back, "
        "and is asked for it.\n",
        *_field_table(dialect.Reasoning),
        "## `control`\n",
        table("wire", "values"),
        *[row(code(wire), ", ".join(map(code, words))) for wire, words in dialect.WIRES.items()],
        "\n## `keep`\n",
        table("wire", "values"),
        *[row(code(wire), ", ".join(code(word) or "empty" for word in words)) for wire, words in dialect.KEEPS.items()],
    ]
    return "\n".join(lines)


def _field_table(kind: type, without: tuple[str, ...] = ()) -> list[str]:
    rows = [
        row(code(name), code(type), code(default), cell(words))
        for name, type, default, words in fields(kind)
        if name not in without
    ]
    return [table("key", "type", "default", ""), *rows, ""]


def options() -> str:
    lines = [
        f"# Options\n\n{_MADE}. `Session(options=Options(…))`, `Client.complete(…, options=…)`.\n\n{words_of(dialect.Options)}\n"
    ]
    lines.append(table("field", "type", "default", ""))
    lines += [
        row(code(name), code(type), code(default), cell(words))
        for name, type, default, words in fields(dialect.Options)
    ]
    return "\n".join([*lines, ""])


def error_page() -> str:
    lines = [
        f"# Errors\n\n{_MADE}. All are in `midstream.errors`. *Retry*: whether the same request may succeed in a while (`error.retryable`); the exit "
        "code is that of `midstream ask`. `kind` is what `ErrorInfo.kind` and `Turn.failure` hold.\n"
    ]
    lines.append(table("class", "kind", "base", "retry", "exit", "means"))
    for name, kind in errors.KINDS.items():
        if kind.__module__ != errors.__name__:
            continue
        error = kind.__new__(kind)
        lines.append(
            row(
                code(kind.__name__),
                code(name),
                code(kind.__mro__[1].__name__),
                "yes" if kind.retryable else "no",
                str(code_for(error)),
                words_of(kind),
            )
        )
    return "\n".join(
        [
            *lines,
            "",
            "From the words of a host's error to its cause: [Why did I get this 400?](../field-guide/why-400.md)",
            "",
        ]
    )


def event_page() -> str:
    lines = [
        f"# Events\n\n{_MADE}. All are in `midstream.events`. Their order is drawn in [the lifecycle](../lifecycle.md): start, blocks that never nest, and "
        "exactly one `Done` or `ErrorEvent`.\n",
        table("event", "fields", ""),
    ]
    kinds = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, events._Event)]
    for kind in kinds:
        if kind is not events._Event:
            names = ", ".join([code(name) for name, *_ in fields(kind)])
            lines.append(row(code(kind.__name__), names, words_of(kind) if kind.__doc__ else ""))
    return "\n".join([*lines, ""])


def providers() -> str:
    lines = [
        f"# Providers\n\n{_MADE}. A model is named `provider/model`. Keys and addresses come from the first of the variables that is set. Any model name works, also one that is not "
        "listed in [models](models.md); how the large clouds are reached: [providers](../providers.md).\n",
        table("provider", "wire", "address", "key", "address from"),
    ]
    for each in REGISTRY.providers.values():
        endpoint = each.endpoint
        wire = each.dialect_for(each.models[0] if each.models else "any-model").wire
        keys = " ".join([code(name) for name in (*endpoint.key_env, *endpoint.bearer_env)]) or "none"
        lines.append(
            row(
                code(each.name),
                wire,
                code(endpoint.base_url),
                keys,
                " ".join([code(name) for name in endpoint.base_env]),
            )
        )
    return "\n".join([*lines, ""])


def models() -> str:
    lines = [
        f"# Models\n\n{_MADE}: the models that are known by name, and what midstream knows of each. *Ids*: the shape of tool-call ids; *format*: the [tool format](../tool-formats.md); *reasoning*: the field it is "
        "sent back in, and how thinking is switched; *reads*: what it takes besides text.\n",
        table("provider", "models", "ids", "format", "reasoning", "reads"),
    ]
    for each in REGISTRY.providers.values():
        alike: dict[tuple[str, ...], list[str]] = {}
        for model in each.models:
            spoken = each.dialect_for(model)
            rules = spoken.reasoning
            sent = f"{rules.field or rules.echo}{', no switch' if rules.control == 'none' else ', by ' + rules.control}"
            ways = (spoken.ids, spoken.tool_format, cell(sent), ", ".join(spoken.media) or "text")
            alike.setdefault(ways, []).append(model)
        for ways, names in alike.items():
            lines.append(row(code(each.name), " ".join([code(name) for name in names]), *ways))
    return "\n".join([*lines, ""])


_ENVIRONMENT = {
    "MIDSTREAM_HOME": "the folder of the configuration and of stored conversations, instead of `~/.config/midstream` and `~/.local/share/midstream`",
    "MIDSTREAM_MODEL": "the model, where none is named",
    "MIDSTREAM_MCP_TOKEN": "what clients of `midstream mcp serve --http` must send",
    "MIDSTREAM_STORE": "where conversations are stored: a path or `postgresql://…`",
    "MIDSTREAM_KEY": "the gateway's key, in what `midstream serve --print` prints",
    "MIDSTREAM_DEBUG": "`1` shows tracebacks",
    "MIDSTREAM_SIM_DELAY": "seconds before each piece of a `sim/` model's answer",
}
_COMMON = {
    "XDG_CONFIG_HOME": "instead of `~/.config`", "XDG_DATA_HOME": "instead of `~/.local/share`",
    "HTTPS_PROXY": "a proxy for requests; `HTTP_PROXY` and `NO_PROXY` too, in either case", "SSL_CERT_FILE": "certificates to trust; `SSL_CERT_DIR` too",
    "NO_COLOR": "no colour", "FORCE_COLOR": "colour also where the output is no terminal", "TERM": "`dumb`: no cursor movements", "COLUMNS": "the width of the output",
    "VISUAL": "the editor; `EDITOR` too",
}  # fmt: skip
_INTERNAL = {"MIDSTREAM_COMPLETE", "MIDSTREAM_RUN"}
"""Set by midstream itself: for the shell's completion, and for the processes of a command that an agent runs."""


def environment() -> str:
    lines = [
        f"# Environment variables\n\n{_MADE}. A flag wins over the environment, the environment over the configuration.\n",
        table("variable", "means"),
    ]
    lines += [row(code(name), words) for name, words in {**_ENVIRONMENT, **_COMMON}.items()]
    lines.append(
        "\nKeys and addresses of providers: [providers](providers.md). The gateway's state and PostgreSQL's own variables: [stores](../stores.md).\n"
    )
    return "\n".join(lines)


def said_in_the_source() -> set[str]:
    source = Path(inspect.getfile(config)).parents[1]
    text = "".join([path.read_text("utf-8") for path in source.rglob("*.py")])
    return set(re.findall(r"\bMIDSTREAM_[A-Z_]+[A-Z]\b", text)) - _INTERNAL


def store_schema() -> str:
    folder = Path(inspect.getfile(schema)).parent / "migrations"
    lines = [
        f"# Store schema\n\n{_MADE}: the steps by which a database reaches today's form. A database written by any earlier version is brought forward when it is opened; the number of the last step "
        "is its `user_version`. What a store promises: [stores](../stores.md).\n"
    ]
    lines += [
        f"## {path.stem}\n\n```sql\n{path.read_text('utf-8').strip()}\n```\n" for path in sorted(folder.glob("*.sql"))
    ]
    return "\n".join(lines)


def verify_checks() -> str:
    lines = [
        f"# Checks of a host\n\n{_MADE}: what [`midstream verify`](../guides/verify-a-host.md) judges, and by which check each fault of a double is found.\n",
        "Exit codes: 0 if no check failed, 1 if one did, 75 if the run could not be finished and nothing failed in it.\n",
        table("check", "what it proves", "otherwise"),
    ]
    lines += [row(code(name), cell(check.proves), cell(check.why)) for name, check in CHECKS.items()]
    lines += ["\n## The suites\n", table("suite", "probes, with the number of their requests")]
    lines += [
        row(suite, ", ".join([f"{code(probe.name)} {probe.requests}" for probe in probes]))
        for suite, probes in SUITES.items()
    ]
    return "\n".join([*lines, ""])


def verified_toml() -> str:
    lines = [
        f"# verified.toml\n\n{_MADE}. `midstream verify --toml` writes it, `midstream models add` reads it, and nothing else does ([guide](../guides/verify-a-host.md)).\n"
    ]
    for title, kind in (("At the top", Verified), ("[host]", VerifiedHost)):
        lines += [f"## {title}\n", *_field_table(kind)]
    lines += ["## [facts]\n", table("key", "what it says")]
    lines += [row(code(name), cell(words)) for name, words in FACTS.items()]
    lines.append(
        "\n`[dialect]` has the fields of `midstream.core.dialect.Dialect` that follow from them, `[checks]` every check and its verdict."
    )
    return "\n".join([*lines, ""])


def fault_page() -> str:
    lines = [
        f"# Faults of the doubles\n\n{_MADE}. `sim_server(faults=[…])` and `midstream sim serve --fault` spoil the next requests, `--always` all of them.\n",
        "Each is found by a check of [`midstream verify`](../guides/verify-a-host.md); a host that does not answer at all ends it as unfinished.\n",
        table("fault", "what happens", "found by"),
    ]
    lines += [
        row(code(name), cell(fault.description), code(FOUND_BY[name].check) if name in FOUND_BY else "")
        for name, fault in FAULTS.items()
    ]
    return "\n".join([*lines, ""])


SINGLE: dict[str, Callable[[], str]] = {
    "verify-checks.md": verify_checks,
    "verified-toml.md": verified_toml,
    "faults.md": fault_page,
    "slash-commands.md": slash_commands,
    "configuration.md": configuration,
    "dialect.md": dialect_fields,
    "dialect-reasoning.md": reasoning_fields,
    "options.md": options,
    "errors.md": error_page,
    "events.md": event_page,
    "providers.md": providers,
    "models.md": models,
    "environment.md": environment,
    "store-schema.md": store_schema,
}


def made() -> dict[str, str]:
    return dict(command_pages()) | {name: write() for name, write in SINGLE.items()}


if __name__ == "__main__":
    for name, text in made().items():
        path = REFERENCE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.rstrip("\n") + "\n", "utf-8")
        sys.stdout.write(f"{name}: {len(text.split())} words\n")
