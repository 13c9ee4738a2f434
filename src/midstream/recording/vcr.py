"""Recordings as a cassette of vcrpy (and of VCR in other languages): one YAML file, in the part of YAML that is JSON.

Such a cassette knows whole answers only: no chunks, no times, and no answer that broke off.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from ..core.patterns import late_pattern
from .exchange import RecordedExchange

# What a reader of YAML refuses as it is (YAML 1.2 §5.1), and JSON writes as it is.
_UNPRINTABLE = late_pattern("[\x7f-\x84\x86-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")

_BINARY = "\0binary "
"""Stands for bytes until the whole is written."""


def can_be_said(exchange: RecordedExchange) -> bool:
    """Whether a cassette of vcrpy can hold this exchange: it has an answer, and that came to its end."""
    return exchange.head is not None and exchange.ending == "clean"


def to_vcr(exchanges: Iterable[RecordedExchange]) -> str:
    """The YAML of a cassette with these exchanges; those that it cannot say are left out."""
    binary: list[str] = []
    interactions = [_interaction(each, binary) for each in exchanges if can_be_said(each)]
    text = json.dumps({"version": 1, "interactions": interactions}, ensure_ascii=False, indent=1)
    text = _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    # A tag is the one thing here that JSON does not have: YAML says so that a text is bytes in base64.
    return re.sub(r'"\\u0000binary (\d+)"', lambda found: f'!!binary "{binary[int(found[1])]}"', text) + "\n"


def _interaction(exchange: RecordedExchange, binary: list[str]) -> dict[str, Any]:
    head, request = exchange.head, exchange.request
    assert head is not None
    return {
        "request": {
            "method": request.method,
            "uri": request.url,
            "body": None if request.body is None else _said(request.body.data, binary),
            "headers": {name: [value] for name, value in request.headers.items()},
        },
        "response": {
            "status": {"code": head.status, "message": _phrase(head.status)},
            "headers": {name: [value] for name, value in head.headers.items()},
            "body": {"string": _said(exchange.body, binary)},
        },
    }


def _said(data: bytes, binary: list[str]) -> str:
    try:
        # A text that looks like our mark is said in bytes as well.
        if not data.startswith(_BINARY.encode()):
            return data.decode()
    except UnicodeDecodeError:
        pass
    binary.append(b64encode(data).decode())
    return f"{_BINARY}{len(binary) - 1}"


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
