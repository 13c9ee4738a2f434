"""Vectors of rendered prompts that we render differently on purpose.

Each entry says why, and which words of the recorded prompt are ours instead: with those replaced the rest is equal, byte
for byte.
"""

from __future__ import annotations

_ORDER = "results stand in call order by the law of history (core/history.py); the vector keeps the order of arrival"
_MISLABELLED = (
    "llama.cpp's copy pairs results with calls by position and files ROME under :0 (field-guide/kimi-formats.md#which-reasoning-is-kept); "
    "ours carry the id of their call, in call order"
)
_KEPT = "llama.cpp's copy lost its `break` and keeps R2; upstream blanks all up to the last answer (field-guide/kimi-formats.md#which-reasoning-is-kept)"
_TYPESCRIPT = "rendered without `tools_ts_str`, which the model's tokenizer always makes: tools are TypeScript (field-guide/kimi-formats.md#typescript-tools)"
_TWICE = (
    "the first template encodes arguments given as text a second time; servers parse them first, and the dict vector "
    "shows what the model then sees, which is what we print"
)
_PER_MESSAGE = (
    "the first template invents the id of a call but not of its result; ours agree, both from the request's ids"
)

_RETURN = "<|im_end|><|im_system|>tool<|im_middle|>## Return of functions.get_weather:"
_ARRIVAL = (f"{_RETURN}1\nROME{_RETURN}0\nOSLO", f"{_RETURN}0\nOSLO{_RETURN}1\nROME")
_POSITION = (f"{_RETURN}0\nROME{_RETURN}1\nOSLO", f"{_RETURN}0\nOSLO{_RETURN}1\nROME")
_ARRIVAL_0711 = (f"{_RETURN}1\\nROME{_RETURN}0\\nOSLO", f"{_RETURN}0\\nOSLO{_RETURN}1\\nROME")
_OSLO = (r'"{\"city\": \"Oslo\"}"', '{"city": "Oslo"}')
_ROME = (r'"{\"city\": \"Rome\"}"', '{"city": "Rome"}')
_DECLARED = (
    '[{"type":"function","function":{"name":"get_weather","description":"Get weather","parameters":{"type":"object",'
    '"properties":{"city":{"type":"string"}},"required":["city"]}}}]',
    "# Tools\n\n## functions\nnamespace functions {\n// Get weather\ntype get_weather = (_: {\n  city: string\n}) => any;\n}\n",
)

Replacement = tuple[str, str]

DIFFERENT: dict[str, tuple[str, tuple[Replacement, ...]]] = {
    "chat-template-renders-006": (_MISLABELLED, (_POSITION,)),
    "chat-template-renders-017": (_MISLABELLED, (_POSITION,)),
    "chat-template-renders-018": (_KEPT, (("<think>R2</think>", "<think></think>"),)),
    "chat-template-renders-025": (_TWICE, (_OSLO,)),
    "chat-template-renders-026": (
        f"{_TWICE}; {_PER_MESSAGE}",
        (_OSLO, ("begin|>functions.get_weather:0<", "begin|>call_abc123<")),
    ),
    "chat-template-renders-027": (_TWICE, (_OSLO,)),
    "chat-template-renders-028": (f"{_TWICE}; {_ORDER}", (_OSLO, _ROME, _ARRIVAL_0711)),
    "chat-template-renders-029": (_TWICE, (_OSLO,)),
    "chat-template-renders-046": (_ORDER, (_ARRIVAL,)),
    "chat-template-renders-047": (_ORDER, (_ARRIVAL,)),
} | {f"chat-template-renders-{number:03}": (_TYPESCRIPT, (_DECLARED,)) for number in range(37, 44)}
