"""Recordings and vectors of the Responses wire where our result differs from what is recorded, and why."""

CORPUS = {
    "openai-gpt-5-2-2025-12-11-stream-8a64ca": "a trimmed fixture: its deltas say less than its final text; what was "
    "streamed cannot be taken back",
}

REQUESTS = {
    "copilot-gpt-5-3-codex-json-mt-bfa4f8": "a reasoning item with a foreign id, no text and no encrypted content: "
    "it says nothing, and is dropped with a Note",
}

KOSONG = {
    "kosong-openai_responses-parallel_tool_calls": "a result of text parts only is one string here: not every host takes "
    "a list (field-guide/openai-responses.md#outputs)",
}

REPAIR = {
    "history_repair-026": "a call without a result gets a made-up error result on every wire; it is not dropped",
}

_ALONE = "the answer ends in reasoning, which may not stand alone in a request"
REPLAYS = {
    "azure-codex-mini-stream-0782d3": _ALONE,
    "openai-gpt-5-nano-stream-reason-1c3c7b": _ALONE,
    "openrouter-gemini-3-flash-preview-json-reason-937da4": _ALONE,
    "openrouter-gemini-3-flash-preview-stream-reason-cc6094": _ALONE,
    "copilot-gpt-5-3-codex-json-tools-c60a2f": "its reasoning has a foreign id, no text and no encrypted content",
    "openai-gpt-4-1-stream-c914ea": "two items are done only in the final output; we have them too",
    "openai-gpt-5-2-2025-12-11-stream-8a64ca": "a trimmed fixture: its deltas say less than its final text",
    "openai-gpt-5-6-stream-tools-dcd88a": "cut arguments are no JSON object and go back as {_raw}",
    "openrouter-gpt-oss-20b-stream-reason-87d23c": "reasoning streams first and is done last; it goes back first",
}
