"""Gemini at Google's AI Studio and at Vertex.

Sources: field-guide/gemini.md#thought-signatures, field-guide/gemini.md#thinking. The generations
differ in how they think (not at all, by a budget, by a level), in whether the first call of a turn must be signed, and in
where media of a tool result stand.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..core.dialect import Dialect, Endpoint, Place
from ..wires.gemini.wire import DEFAULT
from . import efforts
from .provider import Provider

_replace = msgspec.structs.replace


def _levels(name: str, levels: dict[str, Any]) -> Dialect:
    return _replace(DEFAULT, name=name, reasoning=_replace(DEFAULT.reasoning, **levels))


# From 3 on a level, before that a budget (field-guide/gemini.md#thinking); and from 3 on the first call of a step
# must be signed, which `required` in the wire's default says (field-guide/gemini.md#thought-signatures).
GEMINI_3 = _levels("gemini", efforts.GEMINI_3)
GEMINI_3_PRO = _levels("gemini-3-pro", efforts.GEMINI_3_PRO)
GEMINI_31_PRO = _levels("gemini-3.1-pro", efforts.GEMINI_31_PRO)
_BUDGET = _replace(DEFAULT.reasoning, required=False, control="thinkingBudget", efforts=(), effort_words=None)
GEMINI_25_PRO = _replace(DEFAULT, name="gemini-2.5-pro", reasoning=_BUDGET, tool_result_media="user")
GEMINI_25_FLASH = _replace(GEMINI_25_PRO, name="gemini-2.5-flash", reasoning=_replace(_BUDGET, can_disable=True))
GEMINI_25_LITE = _replace(
    GEMINI_25_PRO, name="gemini-2.5-flash-lite", reasoning=_replace(_BUDGET, can_disable=True, default_on=False)
)
GEMINI_2 = _replace(
    GEMINI_25_PRO, name="gemini-2", reasoning=_replace(_BUDGET, can_disable=True, default_on=False, control="none")
)

# `gemini-2.5-flash-lite` before `-flash` before `2.5`. The rest is the newest generation, since an unknown
# name is most likely a model that came after this table.
_GENERATIONS = (
    (r"gemini-2\.5-flash-lite", GEMINI_25_LITE),
    (r"gemini-2\.5-flash", GEMINI_25_FLASH),
    (r"gemini-2\.5", GEMINI_25_PRO),
    (r"gemini-(?:[12]\.|pro|exp)|gemma|learnlm", GEMINI_2),
    (r"gemini-3-pro", GEMINI_3_PRO),
    (r"gemini-[3-9].*pro", GEMINI_31_PRO),
    ("", GEMINI_3),
)
_MODELS = (
    "gemini-3-pro-preview", "gemini-3-flash-preview", "gemini-2.5-pro", "gemini-2.5-flash", "gemini-2.5-flash-lite",
)  # fmt: skip

GOOGLE = Provider(
    "gemini",
    Endpoint(
        "https://generativelanguage.googleapis.com/v1beta",
        key_env=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        base_env=("GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"),
        auth="x-goog-api-key",
    ),
    _GENERATIONS,
    models=_MODELS,
    family=r"gemini|gemma|learnlm|^tunedmodels/",
    names=("google", "google-ai", "googleai"),
)


def _at_vertex(dialect: Dialect) -> Dialect:
    # A provider of its own: that a signature made at one of the two doors is valid at the other is not known.
    return _replace(dialect, name=dialect.name.replace("gemini", "vertex", 1), provider="vertex")


# A key is taken at one address for everybody, a token at the project's own.
_VERTEX = "aiplatform.googleapis.com/v1beta1"
VERTEX = Provider(
    "vertex",
    Endpoint(
        f"https://{_VERTEX}/publishers/google",
        key_env=("VERTEX_API_KEY",),
        bearer_env=("VERTEX_ACCESS_TOKEN",),
        base_env=("VERTEX_BASE_URL",),
        auth="x-goog-api-key",
        bearer_base=f"https://{{location-}}{_VERTEX}/projects/{{project}}/locations/{{location}}/publishers/google",
        places={
            "project": Place(("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT", "VERTEX_PROJECT")),
            "location": Place(("GOOGLE_CLOUD_LOCATION", "VERTEX_LOCATION", "CLOUD_ML_REGION"), "global"),
        },
        command_bearer=True,
    ),
    tuple((pattern, _at_vertex(dialect)) for pattern, dialect in _GENERATIONS),
    models=_MODELS,
    family=r"gemini|gemma",
    names=("google-vertex", "vertexai"),
)

PROVIDERS = (GOOGLE, VERTEX)
