"""What a raw dialect says of its answers is what its template says."""

from __future__ import annotations

import pytest

from midstream.core.blocks import Conversation
from midstream.dialects.completion import FAMILIES, Family
from midstream.templates.registry import get_template


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.template)
def test_a_family_ends_and_begins_as_its_template_says(family: Family) -> None:
    prompt = get_template(family.template).render(Conversation(), thinking=family.reasoning.default_on)
    assert family.starts_inside is prompt.starts_inside_thinking
    assert family.stop[: len(prompt.stop)] == prompt.stop
