"""`--schema`: a JSON schema from a file, as JSON, or in short: `name, age int, tags list[str], email str?`.

In short, fields stand in lines or between commas, each a name, a type if it is not text, and a description behind a colon. A
type with `?` may be missing.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from ..core.errors import LocalError, MalformedStream
from ..core.refs import admit
from ..wires.lenient_json import decode_leniently

_TYPES: dict[str, dict[str, Any]] = {
    "str": {"type": "string"},
    "string": {"type": "string"},
    "text": {"type": "string"},
    "int": {"type": "integer"},
    "integer": {"type": "integer"},
    "float": {"type": "number"},
    "number": {"type": "number"},
    "bool": {"type": "boolean"},
    "boolean": {"type": "boolean"},
    "date": {"type": "string", "format": "date"},
    "datetime": {"type": "string", "format": "date-time"},
}
_NAME = re.compile(r"[^\W\d][\w-]*")
_LIST = re.compile(r"list\[(.+)\]")
_MAX_FILE = 4 * 1024 * 1024
_HINT = "write fields such as 'name, age int, tags list[str], email str?', a JSON schema, or the name of a file that holds one"


def schema_given(text: str, *, many: bool) -> dict[str, Any]:
    """The schema that `--schema` or, if `many` are wanted, `--schema-multi` names."""
    schema = _schema(text)
    return {"type": "array", "items": schema} if many else schema


def _schema(text: str) -> dict[str, Any]:
    said = text.strip()
    if said.startswith("{"):
        return _json(said, "--schema")
    path = Path(said) if said and "\n" not in said and len(said) < 4096 else None
    try:
        if path is not None and path.is_file():
            if path.stat().st_size > _MAX_FILE:
                raise click.UsageError(f"--schema: {said} is larger than {_MAX_FILE >> 20} MiB")
            return _json(path.read_text("utf-8", "replace"), said)
    except OSError as error:
        raise click.UsageError(f"--schema: cannot read {said}: {error.strerror or error}") from None
    # It was meant as a file: reading it as a field would give an error about names.
    if said.endswith(".json") or "/" in said.split(":")[0]:
        raise click.UsageError(f"--schema: there is no file {said}; {_HINT}")
    return short_schema(said)


def _json(text: str, where: str) -> dict[str, Any]:
    try:
        return admit(decode_leniently(text))
    except LocalError as error:
        raise click.UsageError(f"{where}: {error}") from None
    except MalformedStream as error:
        raise click.UsageError(f"{where} is not JSON: {error}") from None


def short_schema(text: str) -> dict[str, Any]:
    """The schema of an object whose fields are written in short."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    for part in _parts(text):
        head, _, about = part.partition(":")
        name, _, kind = head.strip().partition(" ")
        if not _NAME.fullmatch(name):
            raise click.UsageError(f"--schema: {name or part!r} is no name of a field; {_HINT}")
        if name in properties:
            raise click.UsageError(f"--schema: the field {name} is there twice")
        schema, optional = _type(kind.strip())
        properties[name] = {**schema, "description": about.strip()} if about.strip() else schema
        if not optional:
            required.append(name)
    if not properties:
        raise click.UsageError(f"--schema is empty; {_HINT}")
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _parts(text: str) -> list[str]:
    """The fields: in lines, or between the commas that stand outside of brackets."""
    # A comma inside brackets belongs to a type; in lines, commas belong to descriptions.
    parts = text.splitlines() if "\n" in text else re.split(r",(?![^\[\]]*\])", text)
    return [part.strip() for part in parts if part.strip()]


def _type(word: str) -> tuple[dict[str, Any], bool]:
    """What a type means, and whether it may be missing."""
    bare = word.removesuffix("?").strip()
    inner = _LIST.fullmatch(bare)
    if inner is not None:
        return {"type": "array", "items": _type(inner[1].strip())[0]}, bare != word
    if bare == "list":
        return {"type": "array", "items": {"type": "string"}}, bare != word
    if bare and bare not in _TYPES:
        known = ", ".join(dict.fromkeys(("str", "int", "float", "bool", "date", "datetime", "list[…]")))
        raise click.UsageError(f"--schema: unknown type {bare!r}; expected one of {known}, with ? if it may be missing")
    return dict(_TYPES[bare or "str"]), bare != word
