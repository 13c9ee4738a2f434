"""Who made a block of reasoning, whether a model will think, and how hard: questions every wire asks."""

from __future__ import annotations

from ..core.blocks import Origin, Thinking
from ..core.dialect import EFFORTS, Dialect, Options


def thinking_on(dialect: Dialect, options: Options) -> bool:
    """Whether the model will think in this request."""
    rules = dialect.reasoning
    if options.thinking == "off":
        return rules.default_on and not rules.can_disable
    return options.thinking == "on" or options.effort is not None or rules.default_on


def is_own(thinking: Thinking, dialect: Dialect, model: str) -> bool:
    """Whether this reader made the block: the host and wire for plain text, the very model where it is signed."""
    origin = thinking.origin
    if origin is None:
        return False
    if origin.provider == dialect.provider and origin.wire in dialect.reasoning.wires:
        return True
    return same_origin(origin, dialect, model if dialect.reasoning.signed else None)


def maker(thinking: Thinking) -> str:
    """Whose it is, for a sentence."""
    origin = thinking.origin
    return (origin.model or origin.provider if origin else "") or "another model"


def same_origin(origin: Origin, dialect: Dialect, model: str | None = None) -> bool:
    if origin.provider != dialect.provider or origin.wire != dialect.wire:
        return False
    return model is None or not origin.model or origin.model == model


def nearest_effort(effort: str, known: tuple[str, ...]) -> str:
    """The level a model knows that is nearest to the one asked for, ties to the lower."""
    if not known or effort in known:
        return effort
    wanted = EFFORTS.index(effort)
    named = [level for level in EFFORTS if level in known]  # a dialect may know words of its own besides
    return min(named, key=lambda level: abs(EFFORTS.index(level) - wanted)) if named else known[-1]
