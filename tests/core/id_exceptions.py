"""Where our ids differ from the vectors, which record another project, and why."""

_SEED = "the hash differs: turn key and index are always in our seed, raw ids are taken whole"
_SUFFIX = "a suffix with characters outside [A-Za-z0-9_-] is hashed, not stripped: stripping makes distinct ids equal"
_LONG = "a suffix that would pass 40 characters is hashed: Responses and Anthropic take 64, old OpenAI 40"
_EMPTY = "an empty suffix is hashed: a bare prefix is shared by every empty id"

CANONICAL = {
    **{f"id_canonical-{n:03}": _SEED for n in range(1, 16)},
    "id_canonical-013": "an id of ours is recognised by from_own_id, which wants the whole shape; the seed never looks inside",
}

NORMALIZATION = {
    "id_normalization-004": _EMPTY,
    "id_normalization-005": _SUFFIX,
    "id_normalization-010": _SUFFIX,
    "id_normalization-011": _SUFFIX,
    "id_normalization-012": _SUFFIX,
    "id_normalization-015": _SUFFIX,
    "id_normalization-016": _EMPTY,
    "id_normalization-017": _EMPTY,
    "id_normalization-019": _LONG,
}

_MISTRAL = "the nine characters come from our own hash of the canonical id; their shape is checked"
STRATEGY = {
    "id_strategy-011": _SUFFIX,
    "id_strategy-012": _MISTRAL,
    "id_strategy-014": _MISTRAL,
    "id_strategy-015": _MISTRAL,
    "id_strategy-016": _MISTRAL,
    "id_strategy-022": "two calls of one canonical id are one call to a mapper and the first wins; repair re-keys them before",
    "id_strategy-024": _MISTRAL,
    "id_strategy-027": _MISTRAL,
    "id_strategy-033": "the anthropic format goes with toolu_ ids; the other project does that in its provider",
}

DETECTION = {
    "model_detection-024": "an override that is no string is a type error, not something to pass over",
    "model_detection-025": "a wrong override raises and lists the valid formats, so that a misspelling is seen",
    "model_detection-026": "a wrong override raises and lists the valid formats, so that a misspelling is seen",
    "model_detection-048": "every DeepSeek model was taught the deepseek format",
    "model_detection-049": "every DeepSeek model was taught the deepseek format",
    "model_detection-050": "every GLM version speaks as glm-4 does, on any wire",
    "model_detection-052": "k3-256k is Kimi K3",
    "model_detection-053": "magistral is Mistral's",
    "model_detection-054": "mixtral is Mistral's",
}
