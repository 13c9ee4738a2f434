"""The result as data: `verified.toml` says what a host does, and with which dialect midstream would speak to it.

Nothing reads it by itself. `midstream models add NAME --from verified.toml` makes a provider of it in the user's configuration,
when the user says so. It holds no key, only the name of the variable that has one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from ..client.config import ProviderConfig
from ..core.dialect import Dialect, Endpoint
from ..core.errors import ConfigError
from ..dialects.registry import Resolved
from .checks import FAIL, Result
from .discovery import changed
from .probes import echo_rules
from .run import HostRun

VERSION = 1
_SCHEMES = {"functions.name:n": "kimi", "nine": "mistral", "name_n": "kimi-k3", "toolu_": "anthropic"}
"""The id scheme that writes ids of a shape."""


class VerifiedHost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the host was reached, and whom it was taken for."""

    model: str
    """The model, as it was named."""
    like: str
    """The provider whose dialects it speaks, but for what [dialect] says."""
    wire: str
    base_url: str
    auth: str = "bearer"
    """How a key is sent: the header, or `none`."""
    api_key_env: str = ""
    """The variable that holds the key; never the key."""


class Verified(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `midstream verify` found out about a host."""

    version: int
    """Of this format."""
    host: VerifiedHost
    suites: tuple[str, ...] = ()
    """What was asked."""
    checked: str = ""
    """When, in UTC."""
    facts: dict[str, Any] = {}
    """What the host does."""
    dialect: dict[str, Any] = {}
    """The fields of the dialect that follow from the facts and differ from those of `like`."""
    checks: dict[str, str] = {}
    """Every check and its verdict."""


FACTS = {
    "id_shape": "what the ids of calls look like: `call_`, `toolu_`, `functions.name:n`, `name:n`, `name_n`, `n`, `nine`, or another prefix",
    "ids_repeat": "whether ids begin again in the next answer",
    "reasoning_field": "the field in which reasoning comes",
    "reasoning_echo": "whether reasoning that comes back is accepted",
    "reasoning_required": "whether a call without its reasoning is refused",
    "reasoning_used": "whether reasoning that comes back is read, by the number of tokens",
    "reasoning_blank": "whether blank reasoning is accepted",
    "think_tags": "the tags between which reasoning stands in the text",
    "starts_inside": "whether only the closing tag comes",
    "usage_place": "where a stream counts tokens: `top`, `choice`, `x_groq`",
    "usage_place_plain": "the same for an answer without a stream",
    "leaks": "the text format in which calls leak into the text",
    "sends_finish": "false if no finish reason is ever said",
    "parallel_calls": "how many calls came where two were asked for",
    "parallel_option": "false if `parallel_tool_calls` is not taken",
    "required_word": "the word that stands for `required` here, if it is another",
    "choice_required": "whether `tool_choice: required` is kept",
    "choice_named": "whether a named tool is called",
    "temperature": "whether `temperature` is taken",
    "caches": "whether tokens read from a cache are counted",
    "hello_tokens": "the tokens of the shortest prompt",
    "prompt_tokens": "the tokens of four prompts, each with one thing more",
    "unsolved": "the words of a refusal that no change of the dialect cured",
}
"""The keys of [facts], and what each says."""


def dialect_changes(run: HostRun, known: Dialect, results: Mapping[str, Result]) -> dict[str, Any]:
    """The fields of the dialect that follow from what was found, and that differ from what is known."""
    facts = run.facts
    changes: dict[str, Any] = dict(facts.get("dialect") or {})
    failed = {name for name, result in results.items() if result.verdict == FAIL}
    scheme = _SCHEMES.get(str(facts.get("id_shape")))
    # The host refuses nothing, but its model loses calls behind ids that are not its own.
    if "ids" not in changes and "ids.echo-rewritten" in failed and "ids.echo-given" not in failed and scheme:
        changes["ids"] = scheme
    if facts.get("leaks"):
        changes["leaks"] = facts["leaks"]
    # Only if none ever came: else a cut stream would pass for a whole one.
    if facts.get("sends_finish") is False and "finish.said" in failed and not results["finish.said"].passed:
        changes["sends_finish"] = False
    changes.update(_reasoning(facts, known, changes))
    # A refusal of everything says nothing about an option.
    if facts.get("unsolved") or facts.get("hello_refused"):
        return _differing(known, changes)
    changes.update(_choices(facts, known))
    if facts.get("parallel_option") is False:
        changes["parallel_option"] = False
    if facts.get("required_word"):
        changes["required_word"] = facts["required_word"]
    if facts.get("temperature") is False and "temperature" in known.sampling:
        changes["sampling"] = [word for word in known.sampling if word not in ("temperature", "top_p")]
    return _differing(known, changes)


def _differing(known: Dialect, changes: Mapping[str, Any]) -> dict[str, Any]:
    new = changed(known, changes)
    return {name: value for name, value in changes.items() if getattr(new, name) != getattr(known, name)}


def _reasoning(facts: Mapping[str, Any], known: Dialect, changes: Mapping[str, Any]) -> dict[str, Any]:
    rules = known.reasoning
    told = dict(changes.get("reasoning") or {})
    field = facts.get("reasoning_field")
    if field and known.wire == "openai-chat" and rules.echo == "never":
        # Echoed where it is missed, or where it is read; a host that throws it away is spared it.
        if facts.get("reasoning_required") or (facts.get("reasoning_echo") and facts.get("reasoning_used")):
            new = echo_rules(rules, field, required=bool(facts.get("reasoning_required")))
            told |= {
                name: msgspec.to_builtins(getattr(new, name))
                for name in new.__struct_fields__
                if getattr(new, name) != getattr(rules, name)
            }
        elif field not in rules.fields:
            told["fields"] = [*rules.fields, field]
    if facts.get("think_tags") and rules.tags is None:
        told["tags"] = facts["think_tags"]
        told["starts_inside"] = bool(facts.get("starts_inside"))
    return {"reasoning": told} if told else {}


def _choices(facts: Mapping[str, Any], known: Dialect) -> dict[str, Any]:
    lost = [word for word in known.forced_choice if facts.get(f"choice_{word}") is False]
    if not lost:
        return {}
    return {
        "forced_choice": [word for word in known.forced_choice if word not in lost],
        "forced_choice_thinking": [word for word in known.forced_choice_thinking if word not in lost],
    }


def make_verified(
    run: HostRun,
    target: Resolved,
    own: ProviderConfig | None,
    results: Mapping[str, Result],
    suites: tuple[str, ...],
    checked: str,
) -> Verified:
    facts = {name: value for name, value in run.facts.items() if name in FACTS}
    endpoint = target.endpoint
    like = target.provider if own is None else own.like
    address = without_password(endpoint.base_url)
    host = VerifiedHost(target.model, like, target.dialect.wire, address, endpoint.auth, _variable(endpoint))
    verdicts = {name: str(result.verdict) for name, result in results.items()}
    # What the user had settled before counts as well: a new provider is made from `like` alone.
    settled = _joined({} if own is None else own.dialect, dialect_changes(run, target.dialect, results))
    return Verified(VERSION, host, suites, checked, facts, settled, verdicts)


def _joined(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    joined = {**before, **changes}
    for name in before.keys() & changes.keys():
        if isinstance(before[name], Mapping) and isinstance(changes[name], Mapping):
            joined[name] = {**before[name], **changes[name]}
    return joined


def without_password(url: str) -> str:
    """An address without the name and password that may stand before its host: the file is passed on."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _variable(endpoint: Endpoint) -> str:
    return endpoint.key_env[0] if endpoint.key_env and endpoint.auth != "none" else ""


def to_toml(verified: Verified) -> str:
    """The file's text."""
    value = msgspec.to_builtins(verified)
    top = {name: each for name, each in value.items() if not isinstance(each, dict)}
    tables = [
        ("host", value["host"]),
        ("facts", value["facts"]),
        ("dialect", value["dialect"]),
        ("checks", value["checks"]),
    ]
    lines = [
        "# What `midstream verify` found out about a host. Nothing reads this file by itself;",
        "# `midstream models add NAME --from` this file makes a provider of it, if you say so.",
        *toml_lines(top),
    ]
    for name, table in tables:
        lines += ["", f"[{name}]", *toml_lines(table)]
    return "\n".join(lines) + "\n"


def toml_lines(table: Mapping[str, Any]) -> list[str]:
    """One line for each key; what is null has none, as TOML has no word for it."""
    return [f"{_key(name)} = {_value(value)}" for name, value in table.items() if value is not None]


def _key(name: str) -> str:
    return (
        name
        if name and all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in name)
        else _value(name)
    )


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for DEL, which TOML does not allow as it is.
        return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(toml_lines(value)) + " }" if value else "{}"
    return "[" + ", ".join([_value(each) for each in value if each is not None]) + "]"


def read_verified(path: Path) -> Verified:
    """A file that `midstream verify` wrote; ConfigError if it is anything else."""
    try:
        values = tomllib.loads(path.read_text("utf-8"))
        verified = msgspec.convert(values, Verified)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path}: expected a file that `midstream verify --toml` wrote: {error}") from None
    if verified.version != VERSION:
        raise ConfigError(f"{path}: version {verified.version} is not known here; expected {VERSION}: verify again")
    return verified
