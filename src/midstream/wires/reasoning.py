"""Who made a block of reasoning, whether a model will think, and how hard: questions every wire asks."""

from __future__ import annotations

from ..core.blocks import Origin, Thinking
from ..core.dialect import EFFORTS, Dialect, Options, Reasoning


def thinking_on(dialect: Dialect, options: Options) -> bool:
    """Whether the model will think in this request."""
    rules = dialect.reasoning
    if asked_off(options):
        # A model that always thinks does so whatever was asked, and its rules for thinking hold.
        return rules.default_on and not rules.can_disable
    return options.thinking == "on" or options.effort is not None or rules.default_on


def asked_off(options: Options) -> bool:
    """Whether the caller wants no thinking; the effort `none` says so too."""
    return options.thinking == "off" or (options.thinking is None and options.effort == "none")


def keeps_thinking(dialect: Dialect, options: Options) -> bool:
    """Whether the host is asked to keep the reasoning of all turns."""
    rules = dialect.reasoning
    # Such a model is not asked: there is no word for it, or it keeps everything anyway.
    if rules.keep in ("", "always"):
        return False
    return rules.keeps if options.keep_thinking is None else options.keep_thinking


def requires_every_turn(dialect: Dialect, options: Options) -> bool:
    """Whether the host refuses any assistant message without reasoning, not only those with calls."""
    rules = dialect.reasoning
    return rules.required_kept and (rules.keep == "always" or keeps_thinking(dialect, options))


def is_own(thinking: Thinking, dialect: Dialect, model: str) -> bool:
    """Whether this reader made the block: the host and wire for plain text, the very model where it is signed."""
    origin = thinking.origin
    if origin is None:
        return False
    # Reasoning in clear that the same host made over another of its wires.
    if origin.provider == dialect.provider and origin.wire in dialect.reasoning.wires:
        return True
    # A signature is bound to its model; plain text of the same host may be read by any of its models
    # (field-guide/reasoning.md#who-refuses-what-is-not-its-own).
    return same_origin(origin, dialect, model if dialect.reasoning.signed else None)


def maker(thinking: Thinking) -> str:
    """Whose it is, for a sentence."""
    origin = thinking.origin
    return (origin.model or origin.provider if origin else "") or "another model"


def same_origin(origin: Origin, dialect: Dialect, model: str | None = None) -> bool:
    if origin.provider != dialect.provider or origin.wire != dialect.wire:
        return False
    # An older record may lack the model. It is given the benefit of the doubt, since provider and wire agree.
    return model is None or not origin.model or origin.model == model


def effort_for(asked: str, rules: Reasoning) -> str:
    """What is sent for an effort: itself, the word the model has for it, or the nearest level, ties to the lower; some thinking
    is never sent as none."""
    known = rules.efforts
    if not known or asked in known:
        return asked
    if rules.effort_words and asked in rules.effort_words:
        return rules.effort_words[asked]
    wanted = EFFORTS.index(asked)
    # To be asked for some thinking and send none would be the opposite, however near it is in the list.
    some = [level for level in known if level != "none"] or known
    return min(some, key=lambda level: (abs(EFFORTS.index(level) - wanted), EFFORTS.index(level)))
