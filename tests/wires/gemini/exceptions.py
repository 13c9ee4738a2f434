"""Recordings and vectors of the Gemini wire where our result differs from what is recorded, and why."""

CORPUS = {
    "google-gemini-3-flash-preview-stream-ptools-reason-bf7e72": (
        "calls streamed value by value (`partialArgs`) are four calls to us; the reference counts thirteen pieces as calls"
    ),
}

NO_FINISH = {
    "google-none-stream-ddb8dc": "an answer of the Interactions API, another wire: error(truncated), the turn is equal",
}

EMPTY: dict[str, str] = {}
"""Recordings whose answer is nothing at all: error(empty), the turn is equal."""

REQUESTS: dict[str, str] = {}

_RESULT = "a plain text result goes under `result`, as Google's own client writes it; kosong writes `output`"
VECTORS = {
    "kosong-google_genai-tool_call": _RESULT,
    "kosong-google_genai-parallel_tool_calls": f"{_RESULT}, and joins several texts without a line break",
    "kosong-google_genai-tool_call_with_thought_signature": (
        "a call without a result gets one that says so, for Gemini refuses a call turn without its responses"
    ),
    "openclaw-policy-google": (
        "signatures are kept or dropped by who made them, not by looking like base64; ids are ours in every request"
    ),
}
