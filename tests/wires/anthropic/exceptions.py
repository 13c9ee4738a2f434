"""Recordings and vectors of Anthropic's wire where our result differs from what is recorded, and why."""

CORPUS: dict[str, str] = {}

EMPTY = {
    "anthropic-claude-haiku-4-5-20251001-json-08375c": "`content: []` at a normal stop: the turn is equal, and failed as empty",
}

REQUESTS = {
    "anthropic-claude-haiku-4-5-20251001-err400-mt-f46cbf": "refused as recorded (text behind a tool call, assistant first): repaired",
    "anthropic-claude-haiku-4-5-err400-1212bb": "refused as recorded (empty content): we refuse to send it",
}

_JSON_TOOL = "their tool named json stands for a schema of the answer and is shown as text; to us it is the call it is"
_TWO = "two messages in one stream; ours ends at the first message_stop"
VECTORS = {
    "vercel-anthropic-json-schema-response-format-unsupported-model-should-stream-the-response": _JSON_TOOL,
    "vercel-anthropic-json-schema-response-format-with-text-content-prefix-should-stream-the-response": _JSON_TOOL,
    "vercel-anthropic-regex-variant-should-stream-tool-search-regex-results": _TWO,
    "vercel-anthropic-bm25-variant-should-stream-tool-search-bm25-results": _TWO,
    "vercel-anthropic-messages-should-wrap-non-object-invalid-tool-call-input-in-an-object": "we call the key _raw",
    "vercel-anthropic-messages-should-set-cache-control-on-tool-result-with-content-output-cache-control": (
        "they lift the mark from the part to the result; ours stays where it was put"
    ),
    "history_repair-023": "an empty conversation is the caller's mistake: InvalidHistory, not a made-up greeting",
    "history_repair-025": "an answer without content goes, with a Note; nothing is put into the model's mouth",
    "reasoning_context-012": "a request of ours always names its model, so a signature can always be judged",
}
