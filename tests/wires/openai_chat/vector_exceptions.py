"""Vectors of other projects where the chat wire's rule differs from what they record, and why."""

from __future__ import annotations

_OTHER_CHOICE = "the text comes as choice 1, another answer than choice 0, which is the one we read"
_METADATA = (
    "the caller's own fields go into the body with `extra_body`; parts and messages carry what the core has words for"
)
_NO_IMAGES = "DeepSeek's dialect reads no images: a line of text stands in, with a note"

ANSWERS = {
    "vercel-groq-dostream-should-not-duplicate-tool-calls-when-there-is-an-additional-empty-chunk-after-the": (
        "usage counts wherever Groq puts it, not only in `x_groq`"
    ),
    "vercel-xai-reasoning-models-should-deduplicate-repetitive-reasoning-deltas": (
        "equal deltas are words said twice and are kept; reasoning is added to the output only where the total holds it"
    ),
    "vercel-xai-dostream-with-raw-chunks-should-stream-raw-chunks-when-includerawchunks-is-true": (
        "text is one block though every chunk has another id"
    ),
    "vercel-openai-dostream-should-stream-text-deltas": _OTHER_CHOICE,
    "vercel-openai-dostream-should-stream-annotations-citations": _OTHER_CHOICE,
    "vercel-openai-reasoning-models-should-stream-text-delta": _OTHER_CHOICE,
    "vercel-openai-reasoning-models-should-send-reasoning-tokens": _OTHER_CHOICE,
    "tracker-missing-id": "a call without an id gets a canonical one",
}

TRACKER_WITHOUT_INPUT = {"tracker-mistral-incremental": "its stream is in a fixture that the vector only names"}

_COMPATIBLE = "vercel-openai-compatible-messages-should-"
REQUESTS = {
    f"{_COMPATIBLE}convert-video-data-parts-to-video-url-data-urls": _METADATA,
    f"{_COMPATIBLE}merge-system-message-metadata": _METADATA,
    f"{_COMPATIBLE}merge-user-message-content-metadata": _METADATA,
    f"{_COMPATIBLE}prioritize-content-level-metadata-when-merging": _METADATA,
    f"{_COMPATIBLE}handle-tool-calls-with-metadata": _METADATA,
    f"{_COMPATIBLE}handle-image-content-with-metadata": _METADATA,
    f"{_COMPATIBLE}handle-a-user-message-with-multiple-content-parts-text-image-": _METADATA,
    f"{_COMPATIBLE}handle-an-assistant-message-with-text-plus-multiple-tool-calls": _METADATA,
    f"{_COMPATIBLE}handle-multiple-content-parts-with-multiple-metadata-layers": _METADATA,
    f"{_COMPATIBLE}handle-different-tool-metadata-vs-message-level-metadata": _METADATA,
    f"{_COMPATIBLE}handle-metadata-collisions-and-overwrites-in-tool-calls": _METADATA,
    f"{_COMPATIBLE}convert-text-file-url-to-string": "an address is not the file: a line of text stands in, with a note",
    f"{_COMPATIBLE}send-empty-string-content-for-assistant-messages-with-no-tool-calls": (
        "an answer that says nothing is not replayed: hosts refuse empty content"
    ),
    f"{_COMPATIBLE}handle-a-single-tool-role-message-with-multiple-tool-result-parts": "a call has exactly one result",
    "vercel-mistral-messages-should-convert-messages-with-pdf-file-parts-using-url": (
        "Mistral's dialect reads images only; `document_url` is not spoken yet, a note says so"
    ),
    "vercel-mistral-messages-should-convert-messages-with-pdf-file-parts-from-uint8array": (
        "Mistral's dialect reads images only; `document_url` is not spoken yet, a note says so"
    ),
    "vercel-mistral-messages-should-convert-messages-with-reasoning-content": (
        "Mistral does not ask for its reasoning back"
    ),
    "vercel-mistral-messages-should-handle-content-output-format": (
        "an image of a tool result goes to a user message behind it, not as JSON text into the result"
    ),
    "vercel-mistral-messages-should-handle-error-output-format": (
        "the wire has no error flag: a failed result says in its text that it failed"
    ),
    "vercel-deepseek-messages-should-convert-image-data-to-an-image-url-content-part": _NO_IMAGES,
    "vercel-deepseek-messages-should-convert-an-image-url-to-an-image-url-content-part": _NO_IMAGES,
    "vercel-deepseek-messages-should-convert-an-image-provider-reference-to-a-file-content-part": _NO_IMAGES,
    "vercel-deepseek-messages-should-warn-about-unsupported-non-image-file-parts": (
        "a line of text stands in where a file was, beside the note"
    ),
    "vercel-deepseek-messages-should-filter-out-reasoning-content-from-turns-before-the-last-user-message": (
        "every tool-call turn carries its reasoning, old ones too, as the host demands while it thinks"
    ),
    "vercel-deepseek-messages-should-back-fill-empty-reasoning-content-for-deepseek-v4-assistant-messages-with-no-reason": (
        "a stand-in is sent beside tool calls, where it is demanded, and nowhere else"
    ),
    "vercel-groq-messages-should-send-reasoning-if-present": (
        "Groq does not ask for reasoning back, but from the models that need it (Kimi)"
    ),
    "kosong-openai_legacy-tool_call_with_image": (
        "OpenAI's chat wire takes no image in a tool message: it follows in a user message"
    ),
    "kosong-ts-thinking-high": "Kimi's public API has no effort in `thinking`; who wants it sends it with `extra_body`",
}

_FAILED = "an answer that failed is not replayed, its results neither"
_KEPT = "no call of a history is left out for its name or arguments: the name is rewritten to what the host takes"
_RAW = "what is no JSON object goes back as it came, under `_raw`"
_STRICT = (
    "arguments are parsed strictly; what would have to be guessed goes to the model as `_parse_error`, nothing runs"
)
_SCHEMA = "schemas go as they were written to a host that takes them so; wrong keywords are not guessed right"

HISTORY = {
    "pydantic-dangling": "results stand in call order, made-up ones in their place",
    "pydantic-thinking-foreign-tags": "thinking sent as text has no tags: models imitate them",
    "pydantic-backfill": "the stand-in is one space, for reports conflict on the empty string",
    "openclaw-repair-error-turn": _FAILED,
    "openclaw-repair-aborted-turn": _FAILED,
    "openclaw-repair-aborted-orphan-result": _FAILED,
    "openclaw-inputs-no-args": "a call without arguments is a call",
    "openclaw-inputs-blank": _KEPT,
    "openclaw-inputs-malformed-name": _KEPT,
    "openclaw-inputs-allowlist": "a call of a tool that is no longer offered stays in the history",
    "openclaw-deepinfra-off": "`off` is said: the model thinks by default",
    "openclaw-deepinfra-level-adaptive": "`adaptive` is no effort level, and is refused where it is said",
    "openclaw-deepinfra-level-max": "the dialect names no levels, so `max` goes as it is asked",
    "openclaw-deepinfra-strip-flat": "what the caller puts into `extra_body` is sent",
    "openclaw-deepinfra-keep-max": "what the caller puts into `extra_body` joins what the options say",
    "reasoning_context-004": "an answer of thinking only is not replayed, and Kimi's calls never go without the field",
    "reasoning_context-007": "a host that wants its reasoning back gets all of it; no policy keeps the last only",
    "history_repair-016": "a result without a call is dropped with a note",
    "history_repair-017": "text beside calls is kept",
    "tool_formats-011": "Mistral's tools are declared; the recorded client refuses",
    "tool_formats-014": "a tool without a schema is one without parameters",
    "tool_formats-017": _SCHEMA,
    "tool_formats-018": _SCHEMA,
    "tool_formats-021": _SCHEMA,
    "tool_formats-025": "a call with empty arguments is a call without any",
    "tool_formats-030": _RAW,
    "tool_formats-031": _RAW,
    "tool_formats-033": _RAW,
    "tool_formats-034": _RAW,
    "tool_formats-037": _STRICT,
    "tool_formats-038": _STRICT,
}

ELSEWHERE = {
    "pydantic-parts-dovetail": "two texts that interleave by vendor ids: no chat host sends such",
    "pydantic-anthropic-foreign": "Anthropic's wire",
    "pydantic-gemini-dummy-signature": "Gemini's wire",
    "transcript_policy": "names of that project's own switches; what they do is tested by kind",
    "anthropic": "Anthropic's wire",
    "anthropic messages": "Anthropic's wire",
    "openai responses input": "the Responses wire",
    "gemini contents": "Gemini's wire",
    "neutral history": "the core: tests/core/test_history.py",
    "neutral history -> provider-ready history": "the core: tests/core/test_history.py",
    "text format": "tests/toolformats/test_declarations.py",
    "normalizeToolName": "tests/toolformats/test_declarations.py",
}
"""Where the other vectors of the shared files are at home, by what `home` says of them."""
