"""Where our repair differs from the vectors of the neutral layer, which record another project, and why."""

DIFFERENT = {
    "history_repair-004": "what stands beside results (media) stays where it stood, as a human turn; the tool turn holds results only",
    "history_repair-005": "what stands beside results (media) stays where it stood, as a human turn; the tool turn holds results only",
    "history_repair-006": "a result without a call is dropped with a note; no call is made up that the model never made",
    "history_repair-007": "a call in a tool turn was made by no model and is dropped with its result",
    "history_repair-009": "a repeated id gets its own, so the second call keeps its result, which the other project loses",
    "history_repair-010": "results stand in call order, made-up ones in their place",
}

LATER = (
    "openai chat messages (validateToolMessageSequence)",
    "neutral -> openai chat message",
    "anthropic messages",
    "openai responses input",
    "gemini contents",
)
"""Layers that belong to a wire and are tested there."""
