"""What a field means that nobody said: in a stored conversation, in a row of the table of hosts, in a configuration, in a caller's options.

The defaults are promises, since databases and files of earlier versions leave out what they had no words for. They are listed in
tests/data/defaults.json; `python -m tests.test_defaults` adds those of new fields, and changes none that is there.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

DATA = Path(__file__).parent / "data" / "defaults.json"
MODULES = (
    "core.blocks",
    "core.dialect",
    "core.events",
    "core.handoff",
    "core.kept_turn",
    "client.config",
    "agent.approval",
    "agent.approval_request",
    "agent.run",
    "agent.tool",
    "store.protocol",
    "transport.options",
    "wires.answer",
    "wires.decode_context",
)
LISTED: dict[str, dict[str, Any]] = json.loads(DATA.read_text("utf-8")) if DATA.exists() else {}


def defaults(name: str) -> dict[str, Any]:
    """The fields of a struct that need not be said, as JSON; those that are no values of JSON by how they are written."""
    module, _, struct = name.rpartition(".")
    fields = msgspec.structs.fields(getattr(importlib.import_module(f"midstream.{module}"), struct))
    found = {field.name: field.default for field in fields if field.default is not msgspec.NODEFAULT}
    found |= {field.name: field.default_factory() for field in fields if field.default_factory is not msgspec.NODEFAULT}
    return {field: json.loads(msgspec.json.encode(value, enc_hook=repr)) for field, value in found.items()}


def structs() -> list[str]:
    modules = {name: importlib.import_module(f"midstream.{name}") for name in MODULES}
    return [
        f"{name}.{each}"
        for name, module in modules.items()
        for each, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__module__ == module.__name__
    ]


@pytest.mark.parametrize("name", LISTED)
def test_what_is_not_said_means_what_it_meant(name: str) -> None:
    found = defaults(name)
    assert {field: found.get(field, "no default") for field in LISTED[name]} == LISTED[name]


def main() -> None:
    every = {name: {**defaults(name), **LISTED.get(name, {})} for name in structs()}
    rows = [f"  {json.dumps(name)}: {json.dumps(fields)}" for name, fields in every.items() if fields]
    DATA.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()
