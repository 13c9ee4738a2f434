"""How to point other programs at a gateway: one row for each, shown at its start and printed by `serve --print`.

What is printed can be given to `eval` by any POSIX shell. A key is never printed: clients get what is in MIDSTREAM_KEY, or a
word that is no key, which is enough for a gateway that is open.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import NamedTuple

KEY_VARIABLE = "MIDSTREAM_KEY"
NO_KEY = "midstream"
# A word for the shell, expanded by `eval`: the key itself never passes through our output.
_KEY = f'"${{{KEY_VARIABLE}:-{NO_KEY}}}"'


CLAUDES = {family: f"claude-{family}-4-5" for family in ("sonnet", "opus", "haiku")}
"""The families of models that Claude Code asks for by itself, each with a name of it."""


class Address(NamedTuple):
    """Where the gateway is, and a model to begin with. `claudes` are those of CLAUDES whose names are served."""

    url: str
    model: str
    claudes: tuple[str, ...] = ()


class ClientSetup(NamedTuple):
    """A program: what it is called, its variables (their values are words for a shell), and how it is started. `before` are
    further lines for `eval`, `clears` variables that would lead it elsewhere."""

    title: str
    variables: Callable[[Address], dict[str, str]]
    command: Callable[[Address], str] = lambda _: ""
    before: Callable[[Address], str] = lambda _: ""
    clears: tuple[str, ...] = ()
    is_sdk: bool = False


def _quoted(text: str) -> str:
    return shlex.quote(text)


def _claude(to: Address) -> dict[str, str]:
    # It asks for all three unasked (Opus by default, Haiku in the background): one that is not served would be its first error.
    instead = CLAUDES[to.claudes[0]] if to.claudes else to.model
    models = {} if to.claudes else {"ANTHROPIC_MODEL": _quoted(to.model)}
    models |= {
        f"ANTHROPIC_DEFAULT_{each.upper()}_MODEL": _quoted(instead) for each in CLAUDES if each not in to.claudes
    }
    listing = {"CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY": "1"}  # /model lists what the gateway serves
    return {"ANTHROPIC_BASE_URL": _quoted(to.url), "ANTHROPIC_AUTH_TOKEN": _KEY, **models, **listing}


def _codex(to: Address) -> str:
    provider = {"name": "midstream", "base_url": f"{to.url}/v1", "env_key": KEY_VARIABLE, "wire_api": "responses"}
    settings = [
        "model_provider=midstream",
        *[f"model_providers.midstream.{name}={each}" for name, each in provider.items()],
    ]
    return " ".join(["codex", "-m", _quoted(to.model), *[f"-c {_quoted(each)}" for each in settings]])


def _opencode(to: Address) -> dict[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "midstream",
        "options": {"baseURL": f"{to.url}/v1", "apiKey": f"{{env:{KEY_VARIABLE}}}"},
        # The line about reasoning makes it send a model's reasoning back.
        "models": {to.model: {"interleaved": {"field": "reasoning_content"}}},
    }
    config = {"provider": {"midstream": provider}, "model": f"midstream/{to.model}"}
    return {KEY_VARIABLE: _KEY, "OPENCODE_CONFIG_CONTENT": _quoted(json.dumps(config))}


_FOLDER = "${XDG_STATE_HOME:-$HOME/.local/state}/midstream"
"""Where files for clients are written that take no variable: the user's own stay as they are."""


def _pi(to: Address) -> str:
    provider = {
        "baseUrl": f"{to.url}/v1",
        "api": "openai-completions",
        "apiKey": KEY_VARIABLE,
        "models": [{"id": to.model}],
    }
    file = _quoted(json.dumps({"providers": {"midstream": provider}}))
    return f'mkdir -p "$PI_CODING_AGENT_DIR"\nprintf %s {file} > "$PI_CODING_AGENT_DIR/models.json"'


def _gemini(to: Address) -> dict[str, str]:
    return {
        "GOOGLE_GEMINI_BASE_URL": _quoted(to.url),
        "GEMINI_API_KEY": _KEY,
        "GEMINI_MODEL": _quoted(to.model),
        "GEMINI_CLI_HOME": f'"{_FOLDER}/gemini"',
    }


def _gemini_settings(_: Address) -> str:
    # With another address it takes no key unless its settings say so.
    file = _quoted(json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}}))
    path = '"$GEMINI_CLI_HOME/.gemini/settings.json"'
    return f'mkdir -p "$GEMINI_CLI_HOME/.gemini"\n[ -e {path} ] || printf %s {file} > {path}'


# What each client reads, from its own documentation or a capture of it (field-guide/clients.md#who-calls-what).
# `clears` matters: a variable that is left over from real use leads the client back to its vendor.
SETUPS: dict[str, ClientSetup] = {
    "claude": ClientSetup("Claude Code", _claude, lambda _: "claude", clears=("ANTHROPIC_API_KEY",)),
    "codex": ClientSetup(
        "Codex",
        lambda _: {KEY_VARIABLE: _KEY},
        lambda _: "codex",
        lambda to: f'codex() {{ command {_codex(to)} "$@"; }}',  # it takes its host from flags, not from variables
    ),
    "gemini": ClientSetup(
        "Gemini CLI",
        _gemini,
        lambda _: "gemini",
        _gemini_settings,
        clears=("GOOGLE_API_KEY",),
    ),
    "kimi": ClientSetup(
        "Kimi Code",
        lambda to: {
            "KIMI_MODEL_NAME": _quoted(to.model),
            "KIMI_MODEL_BASE_URL": _quoted(f"{to.url}/v1"),
            "KIMI_MODEL_API_KEY": _KEY,
            "KIMI_MODEL_MAX_CONTEXT_SIZE": "128000",
        },
        lambda _: "kimi",
    ),
    "opencode": ClientSetup("opencode", _opencode, lambda _: "opencode"),
    "pi": ClientSetup(
        "pi",
        lambda _: {
            KEY_VARIABLE: _KEY,
            "PI_CODING_AGENT_DIR": f'"{_FOLDER}/pi"',
        },
        lambda to: f"pi --provider midstream --model {_quoted(to.model)}",
        _pi,
    ),
    "qwen": ClientSetup(
        "Qwen Code",
        lambda to: {
            "OPENAI_BASE_URL": _quoted(f"{to.url}/v1"),
            "OPENAI_API_KEY": _KEY,
            "OPENAI_MODEL": _quoted(to.model),
        },
        lambda _: "qwen --auth-type openai",
    ),
    "openai": ClientSetup(
        "openai SDK",
        lambda to: {"OPENAI_BASE_URL": _quoted(f"{to.url}/v1"), "OPENAI_API_KEY": _KEY},
        lambda to: f'OpenAI(base_url="{to.url}/v1", api_key="{NO_KEY}")',
        is_sdk=True,
    ),
    "anthropic": ClientSetup(
        "anthropic SDK",
        lambda to: {"ANTHROPIC_BASE_URL": _quoted(to.url), "ANTHROPIC_API_KEY": _KEY},
        lambda to: f'Anthropic(base_url="{to.url}", api_key="{NO_KEY}")',
        clears=("ANTHROPIC_AUTH_TOKEN",),
        is_sdk=True,
    ),
    "google": ClientSetup(
        "google-genai SDK",
        lambda to: {"GOOGLE_GEMINI_BASE_URL": _quoted(to.url), "GEMINI_API_KEY": _KEY},
        lambda to: f'genai.Client(api_key="{NO_KEY}", http_options={{"base_url": "{to.url}"}})',
        clears=("GOOGLE_API_KEY",),
        is_sdk=True,
    ),
}


def exports(name: str, to: Address) -> str:
    """Lines for `eval` that point this program at the gateway."""
    setup = SETUPS[name]
    lines = [f"unset {variable}" for variable in setup.clears]
    lines += [f"export {variable}={value}" for variable, value in setup.variables(to).items()]
    before = setup.before(to)
    return "\n".join([*lines, *([before] if before else [])])


def overview(to: Address, flags: str, closed: bool) -> str:
    """What the gateway shows at its start. `flags` are those with which `--print` speaks of the same gateway; `closed` says
    that it wants a key."""
    question = json.dumps({"model": to.model, "messages": [{"role": "user", "content": "Hello"}]})
    header = f' -H "Authorization: Bearer ${KEY_VARIABLE}"' if closed else ""
    rows = [("curl", f"curl {to.url}/v1/chat/completions{header} -d {_quoted(question)}")]
    for name, setup in SETUPS.items():
        if setup.is_sdk:
            shown = setup.command(to)
            rows.append(
                (setup.title, shown.replace(f'"{NO_KEY}"', f'os.environ["{KEY_VARIABLE}"]') if closed else shown)
            )
        else:
            rows.append((setup.title, f'eval "$(midstream serve{flags} --print {name})"; {setup.command(to)}'))
    width = max(len(title) for title, _ in rows)
    return "\n".join([f"  {title:<{width}}  {line}" for title, line in rows])
