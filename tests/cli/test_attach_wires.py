"""Attachments on every wire: the medium is in the request, or a line of text and a warning before it; and never a 400."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Sequence

import pytest

from midstream.cli.attachment import attach, content_of, fenced, from_bytes, unread
from midstream.client.catalog import Catalog
from midstream.client.client import Client
from midstream.client.config import Config
from midstream.client.session import Session
from midstream.core.blocks import Conversation, Media, human
from midstream.dialects.registry import REGISTRY
from midstream.sim.providers import MODELS, SIM
from midstream.sim.server import Sim
from tests.long_run import each_kind

from .test_attachment import JPEG, PDF, PNG

PICTURE = from_bytes(PNG, "photo.png", "photo.png")
PHOTO = from_bytes(JPEG, "photo.jpg", "photo.jpg")
PAPER = from_bytes(PDF, "notes.pdf", "notes.pdf")
NOTE = from_bytes(b"buy milk\n", "notes.txt", "notes.txt")
AWAY = attach("https://example.com/far.png")
READERS = [f"{SIM}/{model}" for model in MODELS]
EVERY = [f"{row.name}/{row.models[0]}" for row in REGISTRY.providers.values() if row.models]


def _media(content: Sequence[object]) -> list[Media]:
    return [part for part in content if isinstance(part, Media)]


def _reads(model: str) -> tuple[object, ...]:
    """A medium goes into a request by the wire, and as far as the model reads its kind and type."""
    dialect = REGISTRY.resolve(model).dialect
    return dialect.wire, dialect.media, dialect.image_types, dialect.native is None


def _prefixes(bodies: list[dict[str, object]]) -> None:
    """The messages of each request begin with those of the one before to the same reader, byte for byte."""
    field = next(name for name in ("messages", "contents", "input", "prompt") if name in bodies[0])
    texts = [json.dumps(body[field], ensure_ascii=False).rstrip("]") for body in bodies]
    for one, next_one in itertools.pairwise(texts):
        assert next_one.startswith(one)


@pytest.mark.parametrize("model", READERS)
def test_each_model_gets_the_medium_or_a_line_and_the_user_is_told_which(model: str) -> None:
    """Two messages with attachments, another model's answer in between: nothing is refused, and the warning is right."""
    first = content_of("What is on it?", [PICTURE, NOTE, PAPER])
    other = f"{SIM}/deepseek-chat" if model != f"{SIM}/deepseek-chat" else f"{SIM}/claude-sonnet-4-5"

    async def talk() -> tuple[list[dict[str, object]], list[str], int]:
        async with (
            Sim(strict="paranoid") as sim,
            Client(Catalog(Config(), environ={}, providers=sim.providers())) as client,
        ):
            session = Session(model, client=client)
            told = unread(session, _media(first))
            (await session.send(*first)).raise_for_failure()
            (await session.send("And now?")).raise_for_failure()
            session.switch_model(other)
            (await session.send(*content_of("You?", [PHOTO]))).raise_for_failure()
            session.switch_model(model)
            (await session.send("Back again")).raise_for_failure()
            return [seen.body for seen in sim.seen], told, sim.refusals

    bodies, told, refusals = asyncio.run(talk())
    assert refusals == 0
    own = [bodies[0], bodies[1], bodies[3]]
    sent = json.dumps(own[0], ensure_ascii=False)
    for media in _media(first):
        omitted = f"omitted: {media.name}]" in sent
        assert omitted != ((media.data or "?") in sent), f"{media.name}: sent or omitted, not both, not neither"
        assert omitted == any((media.name or "") in line for line in told)
    assert "[attached file: notes.txt]" in sent and "buy milk" in sent
    for body in own[1:]:
        assert ("photo.png" in json.dumps(body)) == ("photo.png" in sent)
    _prefixes(own[:2])
    _prefixes(own[1:])


@each_kind("model", EVERY, _reads)
def test_the_warning_agrees_with_the_request_at_every_provider(model: str) -> None:
    """Also for a medium by its address, and with no history: no double needed."""
    catalog = Catalog(Config(), environ={})
    session = Session(model, client=Client(catalog))
    for item in (PICTURE, PAPER, AWAY):
        assert item.media is not None
        told = unread(session, [item.media])
        session.conversation = Conversation((human("What is it?", item.media),))
        body = session.request().body
        reads = (item.media.data or item.media.url or "").encode() in body.replace(b"\\/", b"/")
        assert reads == (not told), (model, item.name, told)
        assert all(session.target.name in line and "line of text" in line for line in told)


def test_text_alone_is_one_plain_text_on_every_wire() -> None:
    content = content_of("Sum it up", [NOTE, NOTE])
    assert content == ("Sum it up" + 2 * ("\n\n" + fenced("file", "notes.txt", "buy milk\n")),)
