"""The same schemas as the doubles get, at a real engine: its grammar gives a value that follows each, or there is a typed error.

The weights are random, so all that makes an answer right is the grammar; an answer may be endless, and reach its limit.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from msgspec.structs import replace

from midstream.client.catalog import Catalog
from midstream.client.client import Client
from midstream.client.config import Config
from midstream.client.session import Session
from midstream.core.dialect import Options
from midstream.core.errors import SchemaMismatch
from tests.e2e.conftest import served_model
from tests.e2e.tiny_model import write_tiny_model

DATA = Path(__file__).parents[1] / "data" / "schemas"
CASES = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(DATA.glob("*.json"))}
LIMIT = Options(seed=3, max_tokens=400)
# The engine's own reader of Kimi's template makes no grammar of a response format, so its chat is asked with another one.
TEMPLATE = """\
{%- for message in messages -%}[{{ message.role }}] {{ message.content }}
{% endfor -%}
{%- if add_generation_prompt -%}[assistant] {%- endif -%}
"""
# The grammar of a raw prompt lets white space go on for ever, and these weights like it as well as anything.
_SOBER = {"logit_bias": [[ord(blank), -50] for blank in " \t\n\r"]}
PATHS = {
    "chat": ("llamacpp/some-model", LIMIT),
    "compatible chat": ("openai-compatible/some-model", LIMIT),
    "raw prompt": ("llamacpp/kimi-k2-instruct", replace(LIMIT, path="native", extra_body=_SOBER)),
}


@pytest.fixture(scope="module")
def plain_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    model = write_tiny_model(tmp_path_factory.mktemp("engine") / "plain.gguf", template=TEMPLATE)
    with served_model(model) as address:
        yield address


@pytest.mark.parametrize("path", PATHS)
def test_every_schema_gives_a_valid_value_or_a_typed_error(plain_engine: str, path: str) -> None:
    environ = {"LLAMACPP_BASE_URL": plain_engine, "OPENAI_COMPATIBLE_BASE_URL": f"{plain_engine}/v1"}
    model, options = PATHS[path]
    valid: list[str] = []

    async def main() -> None:
        async with Client(Catalog(Config(), environ=environ)) as client:
            for name, case in CASES.items():
                session = Session(model, client=client, options=options)
                try:
                    value = await session.send("Invent one.", schema=case["schema"]).value()
                except SchemaMismatch as error:
                    assert error.places
                    print(f"{path}: {name}: {error}"[:200])
                else:
                    assert Draft202012Validator(case["schema"]).is_valid(value), (name, value)
                    valid.append(name)

    asyncio.run(main())
    print(f"{path}: {len(valid)} of {len(CASES)} valid")
    assert len(valid) >= 20
