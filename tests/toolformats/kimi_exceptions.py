"""Vectors of other engines' parsers where midstream does otherwise on purpose, by id: why."""

KIMI: dict[str, str] = {
    "vllm-kimi-k2-parser-029": "vLLM drops the text after the section; we keep it: what the model said is never lost",
    "vllm-rust-kimi-k2-parser-001": "drops the text after the section; we keep it",
    "vllm-rust-kimi-k2-parser-009": "fails the whole answer on a truncated call; we give the call with the arguments that came, which "
    "are no JSON, so nothing runs and the model is told",
}

TEXT_EXTRACTION: dict[str, str] = {
    "text_extraction-004": "the line number before the object stays text: a filter that deletes stray numbers deletes answers",
    "text_extraction-005": "the sparkle key-value form has no end and no quoting rules, and no model is trained on it: not offered",
    "text_extraction-007": "the call is read; a sparkle and a tag in the text are the text's own",
    "text_extraction-008": "the call is read; a sparkle and a tag in the text are the text's own",
    "text_extraction-011": "a whole call whose end tag a stop sequence ate is a call",
    "text_extraction-013": "inconsistent with -012 over one space; we report the fragment in both cases and keep it out of the text",
    "text_extraction-032": "recorded as a bug of the source: the real call is foo(x=1)",
    "text_extraction-033": "recorded as a bug of the source: the real call is get_weather(city=Paris)",
    "text_extraction-034": "the source documents this form and does not read it; we do",
    "text_extraction-035": "the source documents this form and does not read it; we do",
    "text_extraction-036": "the source documents this form and does not read it; we do",
    "text_extraction-037": "the source documents this form and does not read it; we do",
    "text_extraction-052": "tokens without a section are a call all the same; the source leaves its remains in the text",
}

TOOL_NAMES: dict[str, str] = {
    "tool_formats-042": "functions_list, where list is declared, can only mean it",
    "tool_formats-043": "functionslist_directory, where list_directory is declared, can only mean it",
    "tool_formats-046": "names keep the case they are declared in",
    "tool_formats-048": "an empty id names no tool: reported",
    "tool_formats-050": "names keep the case they are declared in",
}
