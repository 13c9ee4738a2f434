"""Recordings and vectors of the chat wire where our result differs from what is recorded, and why."""

CORPUS = {
    "openai-gpt-4-json-08a4c4": "a legacy `function_call` is a call to us; the reference counts `tool_calls` only",
    "openai-gpt-4o-stream-76e793": "a refusal is text to us (marked as such): a person must see it",
    "openrouter-gpt-4o-stream-46464f": "a refusal is text to us (marked as such): a person must see it",
    "openrouter-gpt-4o-stream-e5437e": "a refusal is text to us (marked as such): a person must see it",
}

NO_FINISH = {
    "openrouter-qwen3-coder-stream-95a464": "the stream ends without a finish reason: error(truncated), the turn is equal",
    "snowflake-claude-sonnet-4-6-stream-96363c": "the host sends an empty finish reason only: error(truncated), the turn is equal",
}

REASONING_APART = "xai"
"""The provider whose output_tokens leave out reasoning; ours hold it (reasoning is a part of output)."""
