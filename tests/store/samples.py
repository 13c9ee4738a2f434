"""Conversations and texts that the store tests share."""

from __future__ import annotations

from hypothesis import strategies as st

from midstream.core.blocks import (
    Compacted,
    Conversation,
    Media,
    Opaque,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResponse,
    Turn,
    Usage,
    human,
)

KIMI = Origin("moonshot", "openai-chat", "kimi-k2.5")
CLAUDE = Origin("anthropic", "anthropic", "claude-sonnet-4-5")

CALL = ToolCall("hist_tool_" + "a" * 24, "get_weather", '{"city": "Zürich"}', "functions.get_weather:0", "moonshot")

TOOL_TALK = Conversation(
    (
        human("What is the weather in Zürich?", Media("image/png", "aGk=")),
        Turn(
            "ai",
            (Thinking("", "reasoning_content", origin=KIMI), Text("Looking."), CALL),
            key="t1",
            origin=KIMI,
            usage=Usage(10, 3, raw={"prompt_tokens": 10}),
            stop_reason="tool_use",
            latency_ms=12.5,
            ttft_ms=3.25,
            answered_at=1_700_000_000.5,
        ),
        Turn("tool", (ToolResponse(CALL.id, "get_weather", (Text("Sunny, 21 °C"), Media("image/png", "aGk="))),), "t2"),
        Turn(
            "ai",
            (
                Thinking("hm", signature="sig", origin=CLAUDE),
                Text("It is sunny."),
                Opaque("citation", {"n": [1]}, CLAUDE),
            ),
            key="t3",
            origin=CLAUDE,
        ),
    ),
    (Text("Be brief.", {"cache": True}), Text("Be kind.")),
    extra={"theme": "dark"},
)

HOSTILE = {
    "sql": "'); DROP TABLE turns; --",
    "quotes": "\"'`´''\"\"",
    "nul": "before\x00after",
    "controls": "\x1b[31mred\x07\r\n\x7f\x85\u2028",
    "bidi": "\u202eevil\u202c\u200b\ufeff",
    "astral": "🎉👩‍👩‍👧 𝒳 \U0010ffff",
    "noncharacter": "\ufffe\uffff",
    "fts": 'NEAR("a" b) OR a* AND NOT ^c : {x} - +',
    "like": "100% _under_ \\ [a-z]*?",
    "empty": "",
    "space": " \t\n ",
    "long": "x" * 300_000,
    "json": '{"type": "text", "text": "\\u0000"}',
}

_short = [text for name, text in HOSTILE.items() if name != "long"]
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=30) | st.sampled_from(_short)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
origins = st.none() | st.builds(Origin, texts, texts, texts)
extras = st.none() | st.dictionaries(texts, json_values, max_size=2)
text_blocks = st.builds(Text, texts, extras)
blocks = st.one_of(
    text_blocks,
    st.builds(Thinking, texts, texts, st.none() | texts, st.none() | texts, st.booleans(), origins, extras),
    st.builds(ToolCall, texts, texts, texts, st.none() | texts, texts, extras),
    st.builds(Media, texts, st.none() | texts, st.none() | texts, st.none() | texts, extras),
    st.builds(Opaque, texts, json_values, origins),
    st.builds(
        ToolResponse,
        texts,
        texts,
        st.lists(text_blocks, max_size=2).map(tuple),
        st.booleans(),
        st.none() | texts,
        extras,
    ),
)
turns = st.builds(
    Turn,
    st.sampled_from(["human", "ai", "tool"]),
    st.lists(blocks, max_size=4).map(tuple),
    key=texts,
    role=texts,
    origin=origins,
    failure=texts,
    extra=extras,
    compacted=st.none()
    | st.builds(
        Compacted,
        st.sampled_from(["summary", "undo", "failure"]),
        st.integers(0, 9),
        st.lists(texts, max_size=2).map(tuple),
        texts,
    ),
)
conversations = st.builds(
    Conversation,
    st.lists(turns, max_size=4).map(tuple),
    texts | st.lists(text_blocks, min_size=1, max_size=2).map(tuple),
    extra=extras,
)
