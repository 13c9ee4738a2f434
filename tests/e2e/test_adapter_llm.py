"""The plugin inside of llm itself: its command as a process of its own for each turn, and its Python API."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from midstream.core.ids import PREFIX as CANONICAL
from midstream.testing import Answer, SimServer, sim_server
from tests.adapters.tour import MODELS, errand, judge, weather
from tests.e2e.doubles_environment import doubles_environment

llm = pytest.importorskip("llm", reason="llm is not installed: run `make test-e2e`, which installs it")
LLM = Path(sys.executable).with_name("llm")
KIMI = MODELS[0]
FUNCTIONS = """
def get_weather(city: str) -> str:
    "The weather in a city."
    return f"It rains in {city}."
"""
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Dog(BaseModel):
    """The schema of llm's documentation."""

    name: str
    age: int
    bio: str


@pytest.fixture
def sim() -> Iterator[SimServer]:
    with sim_server(strict="paranoid") as server:
        yield server


@pytest.fixture
def environ(sim: SimServer, tmp_path: Path) -> dict[str, str]:
    return doubles_environment(sim, tmp_path)


@pytest.fixture
def here(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """llm in this process, at the doubles."""
    from midstream.adapters import llm_model

    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(llm_model, "_backend", None)
    yield llm_model
    llm_model.backend().close()


def run(environ: dict[str, str], *words: str, stdin: str = "") -> str:
    done = subprocess.run(
        [str(LLM), *words], env=environ, input=stdin, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_conversation_goes_through_every_model(sim: SimServer, environ: dict[str, str]) -> None:
    """Each turn in a process of its own: what the next one knows, llm has stored."""
    for number, model in enumerate(MODELS):
        words = ["-m", f"midstream/{model}", "--functions", FUNCTIONS, "-o", "reasoning_effort", "medium"]
        words += (["-c"] if number else []) + (["--no-stream"] if number % 2 else [])
        assert weather(f"Town {number}") in run(environ, *words, errand(number))
    judge(sim, requests=2 * len(MODELS))
    logged = run(environ, "logs", "-n", "0", "--json")
    assert CANONICAL in logged


def test_models_are_listed_and_any_other_name_works(sim: SimServer, environ: dict[str, str]) -> None:
    assert f"midstream/{KIMI}" in run(environ, "models", "list")
    odd = "midstream/openrouter/moonshotai/kimi-k2-made-up"
    assert run(environ, "-m", odd, "hello")
    assert run(environ, "-c", "and again"), "the name is known without being said again"
    assert run(environ, "aliases", "set", "odd", odd) == ""
    assert run(environ, "-m", "odd", "hello")
    assert [seen.body["model"] for seen in sim.seen] == ["moonshotai/kimi-k2-made-up"] * 3


def test_schemas(environ: dict[str, str]) -> None:
    for model in MODELS[:2]:
        said = run(environ, "-m", f"midstream/{model}", "--schema", "name, age int, bio", "invent a dog")
        assert isinstance(json.loads(said)["age"], int), model


def test_attachments_system_and_options(sim: SimServer, environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(PIXEL)
    run(
        environ, "-m", f"midstream/{MODELS[1]}", "-s", "Be brief.", "-a", str(tmp_path / "dot.png"),
        "-o", "max_tokens", "77", "-o", "temperature", "0.5", "what is this?",
    )  # fmt: skip
    body = sim.seen[-1].body
    assert body["system"] and body["max_tokens"] == 77 and body["temperature"] == 0.5
    assert [part["type"] for part in body["messages"][0]["content"]] == ["text", "image"]


def test_an_error_is_a_sentence(environ: dict[str, str]) -> None:
    done = subprocess.run(
        [str(LLM), "-m", "midstream/nobody/x", "hello"], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "unknown provider 'nobody'" in done.stderr and "Traceback" not in done.stderr


def test_the_python_api(sim: SimServer, here: Any) -> None:
    """As llm's documentation shows it: tools in a chain, a conversation, a schema, and serialised answers."""
    model = llm.get_model(f"midstream/{KIMI}")

    def get_weather(city: str) -> str:
        """The weather in a city."""
        return weather(city)

    chain = model.conversation(tools=[get_weather]).chain(errand(1))
    assert weather("Town 1") in chain.text()
    [call] = chain._responses[0].tool_calls_or_raise()
    assert call.tool_call_id.startswith(CANONICAL) and call.arguments == {"city": "Town 1"}
    assert chain._responses[0].usage().input
    assert json.loads(model.prompt("invent a dog", schema=Dog).text()).keys() == {"name", "age", "bio"}

    response = model.prompt("hello")
    assert {event.type for event in response.stream_events()} == {"text", "reasoning"}
    again = llm.Response.from_dict(json.loads(json.dumps(response.to_dict())))
    other = llm_reply(again, "and now?", here.model(MODELS[1]))
    assert other and sim.refused == []


def llm_reply(response: Any, text: str, model: Any) -> str:
    history = [*response.prompt.messages, *response.messages()]
    return str(model.prompt(text, messages=history).text())


def test_async(sim: SimServer, here: Any) -> None:
    async def ask() -> None:
        model = llm.get_async_model(f"midstream/{MODELS[1]}")
        text = "".join([chunk async for chunk in model.prompt("hello")])
        assert text == await model.prompt("hello", stream=False).text()

        async def get_weather(city: str) -> str:
            """The weather in a city."""
            return weather(city)

        chain = model.chain(errand(2), tools=[get_weather])
        assert weather("Town 2") in await chain.text()
        await here.backend().aclose()

    asyncio.run(ask())
    assert sim.refused == []


def test_keys(tmp_path: Path) -> None:
    """`--key`, and a key that llm keeps for the provider."""
    with sim_server(Answer("one"), Answer("two"), key="k-1") as sim:
        given = doubles_environment(sim, tmp_path)
        environ = {name: value for name, value in given.items() if not name.endswith("_API_KEY")}
        assert run(environ, "-m", f"midstream/{KIMI}", "--key", "k-1", "hello") == "one"
        run(environ, "keys", "set", "moonshot", "--value", "k-1")
        assert run(environ, "-m", f"midstream/{KIMI}", "hello") == "two"
        assert all(
            "k-1" not in path.read_text() for path in (tmp_path / "llm").glob("*.json") if path.name != "keys.json"
        )


OLD = """
import sys, warnings
import llm
from llm.plugins import load_plugins
load_plugins()
sys.modules["llm.parts"] = None  # which llm 0.31 does not have
warnings.simplefilter("always")
print(len([model for model in llm.get_models() if model.model_id.startswith("midstream/")]), len(llm.get_models()) > 0)
"""


def test_an_llm_that_is_too_old_still_starts(environ: dict[str, str]) -> None:
    done = subprocess.run([sys.executable, "-c", OLD], env=environ, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["0", "True"], done.stderr
    assert "need llm 0.32 or newer" in done.stderr


def test_llm_starts_without_our_client(environ: dict[str, str]) -> None:
    """Every command of llm loads every plugin, also those that ask for no model."""
    code = "import sys; from llm.plugins import load_plugins; load_plugins(); print('midstream.adapters.llm_plugin' in sys.modules, 'midstream.client.client' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]
