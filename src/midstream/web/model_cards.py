"""What each model's dialect demands, from the registry: for the table of models, and for choosing one."""

from __future__ import annotations

from typing import Any

from ..client.catalog import Catalog
from ..core.dialect import Dialect
from ..core.errors import MidstreamError
from ..dialects.registry import Resolved
from ..sim.providers import SIM
from ..wires.tool_format import resolve_tool_format

_IDS = {
    "standard": "call_…",
    "anthropic": "toolu_…",
    "kimi": "functions.name:0",
    "kimi-k3": "name_0",
    "mistral": "nine characters",
}


def model_cards(catalog: Catalog) -> list[dict[str, Any]]:
    """Every model that is worth offering: those with a key, the doubles, hosts of this machine that may run, the rest."""
    return sorted([_card(catalog, name) for name in catalog.names()], key=_rank)


def _rank(card: dict[str, Any]) -> int:
    if not card["ready"]:
        return 3
    return 0 if card["key"] else 1 if card["name"].startswith(f"{SIM}/") else 2


def _card(catalog: Catalog, name: str) -> dict[str, Any]:
    target = catalog.resolve(name)
    dialect = target.dialect
    price = catalog.price(target)
    return {
        "name": name,
        "model": target.name,
        "wire": dialect.wire,
        "dialect": dialect.name,
        "ids": _IDS.get(dialect.ids, dialect.ids),
        "tool_format": resolve_tool_format(dialect).name,
        "reasoning": _reasoning(dialect),
        "schema": dialect.schema,
        "system": dialect.system_role if not dialect.mid_system else f"{dialect.system_role}, also inside",
        "media": list(dialect.media),
        "limits": {"tools": dialect.limits.max_tools, "output": dialect.limits.max_output},
        "context": catalog.context_window(target),
        "input_price": None if price is None else price.input,
        "output_price": None if price is None else price.output,
        "price_is_estimate": price is not None and price.is_estimate,
        "key": catalog.key_source(target) or "",
        "ready": _is_ready(catalog, target),
    }


def _reasoning(dialect: Dialect) -> str:
    """What becomes of reasoning, in words."""
    said = {"never": "not sent back", "calls": "sent back with calls", "always": "always sent back"}[
        dialect.reasoning.echo
    ]
    marks = [said, *(["signed"] if dialect.reasoning.signed else [])]
    return ", ".join([*marks, *(["required"] if dialect.reasoning.required else [])])


def _is_ready(catalog: Catalog, target: Resolved) -> bool:
    try:
        catalog.check_key(target)
    except MidstreamError:
        return False
    return True
