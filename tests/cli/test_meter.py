"""The meter: what the status bar shows at which width."""

from __future__ import annotations

import pytest

from midstream.cli.context_line import used
from midstream.cli.view import Meter
from midstream.client.catalog import Catalog
from midstream.client.client import Client
from midstream.client.compaction import ContextUse
from midstream.client.config import Config
from midstream.client.session import Session
from midstream.core.blocks import Conversation, Origin, Text, Turn, Usage, human
from tests.long_run import each_kind

USED = [
    (ContextUse(0), "~0 tokens", "~0 tokens"),
    (ContextUse(950, 262_144), "~950 of 262,144 tokens (<1%)", "~950/262k <1%"),
    (ContextUse(9_940, 32_768, exact=True), "9,940 of 32,768 tokens (30%)", "9.9k/33k 30%"),
    (ContextUse(104_310, 262_144), "~104,310 of 262,144 tokens (40%)", "~104k/262k 40%"),
    (ContextUse(1_200_000, 1_048_576), "~1,200,000 of 1,048,576 tokens (114%)", "~1.2M/1.0M 114%"),
    (ContextUse(12_345), "~12,345 tokens", "~12k tokens"),
]


@pytest.mark.parametrize(("use", "long", "short"), USED, ids=[row[1] for row in USED])
def test_how_much_is_used(use: ContextUse, long: str, short: str) -> None:
    assert (used(use), used(use, short=True)) == (long, short)


CLAUDE = Origin("anthropic", "anthropic", "claude-sonnet-4-5")
SAID = (human("Hello"), Turn("ai", (Text("Hi."),), origin=CLAUDE, usage=Usage(12_000, 345)))
OTHERS = ("3f2a91c0", "2 turns")

# the model, the columns, the bar
BARS = [
    (
        "anthropic/claude-sonnet-4-5",
        200,
        "anthropic/claude-sonnet-4-5 · 3f2a91c0 · 2 turns · 12,345 of 200,000 tokens (6%) · $0.0412",
    ),
    (
        "anthropic/claude-sonnet-4-5",
        88,
        "anthropic/claude-sonnet-4-5 · 3f2a91c0 · 12,345 of 200,000 tokens (6%) · $0.0412",
    ),
    ("anthropic/claude-sonnet-4-5", 75, "anthropic/claude-sonnet-4-5 · 12,345 of 200,000 tokens (6%) · $0.0412"),
    ("anthropic/claude-sonnet-4-5", 60, "anthropic/claude-sonnet-4-5 · 12k/200k 6% · $0.0412"),
    ("anthropic/claude-sonnet-4-5", 45, "claude-sonnet-4-5 · 12k/200k 6% · $0.0412"),
    ("anthropic/claude-sonnet-4-5", 40, "claude-sonnet-4… · 12k/200k 6% · $0.0412"),
    ("anthropic/claude-sonnet-4-5", 32, "claude-… · 12k/200k 6% · $0.0412"),
    ("anthropic/claude-sonnet-4-5", 30, "claude-sonnet-4… · 12k/200k 6%"),
    ("anthropic/claude-sonnet-4-5", 12, "12k/200k 6%"),
    ("moonshot/kimi-k2.5", 40, "kimi-k2.5 · ~4/262k <1% · $0.0412"),
]


def test_a_wide_title_counts_by_its_cells() -> None:
    session = Session("moonshot/kimi-k2.5", client=Client(Catalog(Config(), environ={})), conversation=Conversation())
    title = "河" * 20
    assert title in Meter().bar(session, 89, title) and title not in Meter().bar(session, 88, title)


@pytest.mark.parametrize(("model", "width", "bar"), BARS, ids=[f"{row[0]} in {row[1]}" for row in BARS])
def test_the_bar_fits(model: str, width: int, bar: str) -> None:
    session = Session(model, client=Client(Catalog(Config(), environ={})), conversation=Conversation(SAID))
    shown = Meter().bar(session, width, *OTHERS)
    assert len(shown) <= width
    if "~" not in bar:
        assert shown == bar
    else:
        assert shown.startswith("kimi-k2.5 · ~") and "/262k <1% · $0.0412" in shown


EDGES = {1, 2, 13, 14, 15, 20, 30, 40, 50, 60, 80, 119}


@each_kind("width", range(1, 120), lambda width: width if width in EDGES else 0)
def test_it_is_never_wider_than_the_terminal(width: int) -> None:
    client = Client(Catalog(Config(), environ={}))
    meter = Meter()
    for turns in ((), SAID):
        session = Session("moonshot/kimi-k2.5", client=client, conversation=Conversation(turns))
        shown = meter.bar(session, width, *OTHERS)
        assert 0 < len(shown) <= width
        assert width < 14 or "/262k" in shown or "of 262,144 tokens" in shown


def test_it_follows_the_conversation_and_the_model() -> None:
    meter = Meter()
    session = Session("anthropic/claude-sonnet-4-5", client=Client(Catalog(Config(), environ={})))
    assert "~0 of 200,000 tokens" in meter.bar(session, 100)
    session.conversation = Conversation(SAID)
    assert "12,345 of 200,000 tokens (6%) · $0.0412" in meter.bar(session, 100)
    session.switch_model("moonshot/kimi-k2.5")
    assert "of 262,144 tokens" in meter.bar(session, 100)
