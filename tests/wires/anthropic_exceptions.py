"""Recordings and vectors of Anthropic's wire where our result differs from what is recorded, and why."""

CORPUS: dict[str, str] = {}

EMPTY = {
    "anthropic-claude-haiku-4-5-20251001-json-08375c": "`content: []` at a normal stop: the turn is equal, and failed as empty",
}

REQUESTS = {
    "anthropic-claude-haiku-4-5-20251001-err400-mt-f46cbf": "refused as recorded (text behind a tool call, assistant first): repaired",
    "anthropic-claude-haiku-4-5-err400-1212bb": "refused as recorded (empty content): we refuse to send it",
}
