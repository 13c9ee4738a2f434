"""A language model of a few thousand random weights, as a GGUF file that llama.cpp loads: it talks nonsense, but it is real.

Its vocabulary is the 256 bytes and Kimi's special tokens, marked as control tokens as Kimi's own are. One channel of the
embedding is constant, so that the output matrix holds a bias for every token: letters are likely, special tokens are not.
"""

from __future__ import annotations

import random
import struct
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SPECIALS = (
    "[BOS]", "[EOS]", "<|im_end|>", "<|im_user|>", "<|im_assistant|>", "<|im_system|>", "<|im_middle|>", "<think>",
    "</think>", "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>", "<|tool_call_end|>",
)  # fmt: skip
_WIDTH, _HEADS, _INNER = 32, 2, 64
_NORMAL, _CONTROL = 1, 3
_ALIGNMENT = 32

# Enough of Kimi K2's rules for the server's own chat path: messages, declared tools, calls and results.
CHAT_TEMPLATE = """\
{%- if tools -%}<|im_system|>tool_declare<|im_middle|>{{ tools | tojson }}<|im_end|>{%- endif -%}
{%- for message in messages -%}
{%- if message.role == 'user' -%}<|im_user|>user<|im_middle|>{{ message.content }}
{%- elif message.role == 'assistant' -%}<|im_assistant|>assistant<|im_middle|>{{ message.content or '' }}
{%- if message.tool_calls -%}<|tool_calls_section_begin|>
{%- for call in message.tool_calls -%}
<|tool_call_begin|>{{ call.id }}<|tool_call_argument_begin|>
{%- if call.function.arguments is string -%}{{ call.function.arguments }}
{%- else -%}{{ call.function.arguments | tojson }}{%- endif -%}<|tool_call_end|>
{%- endfor -%}<|tool_calls_section_end|>{%- endif -%}
{%- elif message.role == 'tool' -%}<|im_system|>tool<|im_middle|>## Return of {{ message.tool_call_id }}
{{ message.content }}
{%- else -%}<|im_system|>system<|im_middle|>{{ message.content }}{%- endif -%}<|im_end|>
{%- endfor -%}
{%- if add_generation_prompt -%}<|im_assistant|>assistant<|im_middle|>{%- endif -%}
"""


def token_number(token: str) -> int:
    """The place of a special token, or of a character of ASCII, in the vocabulary."""
    return 256 + SPECIALS.index(token) if token in SPECIALS else ord(token)


def write_tiny_model(
    path: Path,
    *,
    seed: int = 7,
    context: int = 32768,
    likely: Mapping[str, float] | None = None,
    follows: Mapping[str, Mapping[str, float]] | None = None,
    template: str = CHAT_TEMPLATE,
    vocabulary: Sequence[str] = (),
) -> Path:
    """`likely` adds to the bias of some tokens, for endpoints that take no logit_bias; `follows` adds to it behind one token
    only; `vocabulary` are words that are one token behind a space, so that long prompts are fewer tokens."""
    parts = list(dict.fromkeys([f"Ġ{word[:length]}" for word in vocabulary for length in range(1, len(word) + 1)]))
    words = [*_byte_tokens(), *SPECIALS, "th", *parts]
    kinds = [_NORMAL] * 256 + [_CONTROL] * len(SPECIALS) + [_NORMAL] * (1 + len(parts))
    keys: list[tuple[str, Any]] = [
        ("general.architecture", "llama"),
        ("general.name", "midstream tiny"),
        ("general.file_type", 0),
        ("llama.context_length", context),
        ("llama.embedding_length", _WIDTH),
        ("llama.block_count", 1),
        ("llama.feed_forward_length", _INNER),
        ("llama.attention.head_count", _HEADS),
        ("llama.attention.head_count_kv", _HEADS),
        ("llama.attention.layer_norm_rms_epsilon", 1e-5),
        ("llama.rope.dimension_count", _WIDTH // _HEADS),
        ("tokenizer.ggml.model", "gpt2"),
        ("tokenizer.ggml.pre", "gpt-2"),
        ("tokenizer.ggml.tokens", words),
        ("tokenizer.ggml.token_type", kinds),
        ("tokenizer.ggml.merges", [*[f"{part[:-1]} {part[-1]}" for part in parts], "t h"]),
        ("tokenizer.ggml.bos_token_id", token_number("[BOS]")),
        ("tokenizer.ggml.eos_token_id", token_number("[EOS]")),
        ("tokenizer.ggml.eot_token_id", token_number("<|im_end|>")),
        ("tokenizer.ggml.add_bos_token", False),
        ("tokenizer.chat_template", template),
    ]
    path.write_bytes(_gguf(keys, _tensors(random.Random(seed), len(words), likely or {}, follows or {})))
    return path


def _byte_tokens() -> list[str]:
    """GPT-2's spelling of the 256 bytes: printable ones stand for themselves, the others are moved above U+0100."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    moved = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(moved)) for byte in range(256)]


def _tensors(
    dice: random.Random, vocabulary: int, likely: Mapping[str, float], follows: Mapping[str, Mapping[str, float]]
) -> list[tuple[str, tuple[int, ...], array[float]]]:
    def noise(*shape: int, scale: float) -> tuple[tuple[int, ...], array[float]]:
        size = shape[0] * (shape[1] if len(shape) > 1 else 1)
        return shape, array("f", [dice.gauss(0, scale) for _ in range(size)])

    def ones() -> tuple[tuple[int, ...], array[float]]:
        return (_WIDTH,), array("f", [1.0] * _WIDTH)

    embedding, output = noise(_WIDTH, vocabulary, scale=0.5), noise(_WIDTH, vocabulary, scale=0.25)
    biases = {token_number(special): bias for special, bias in likely.items()}
    for token in range(vocabulary):
        embedding[1][token * _WIDTH] = 3.0
        output[1][token * _WIDTH] = (_bias(token) + biases.get(token, 0.0)) / 3
    for channel, (first, seconds) in enumerate(follows.items(), start=1):
        weights = {token_number(special): weight for special, weight in seconds.items()}
        for token in range(vocabulary):  # the channel says whether the last token is this one, and nothing else
            embedding[1][token * _WIDTH + channel] = 3.0 if token == token_number(first) else 0.0
            output[1][token * _WIDTH + channel] = weights.get(token, 0.0) / 3
    named = {
        "token_embd": embedding,
        "blk.0.attn_norm": ones(),
        "blk.0.attn_q": noise(_WIDTH, _WIDTH, scale=0.1),
        "blk.0.attn_k": noise(_WIDTH, _WIDTH, scale=0.1),
        "blk.0.attn_v": noise(_WIDTH, _WIDTH, scale=0.1),
        "blk.0.attn_output": noise(_WIDTH, _WIDTH, scale=0.1),
        "blk.0.ffn_norm": ones(),
        "blk.0.ffn_gate": noise(_WIDTH, _INNER, scale=0.1),
        "blk.0.ffn_up": noise(_WIDTH, _INNER, scale=0.1),
        "blk.0.ffn_down": noise(_INNER, _WIDTH, scale=0.1),
        "output_norm": ones(),
        "output": output,
    }
    return [(f"{name}.weight", *tensor) for name, tensor in named.items()]


def _bias(token: int) -> float:
    if token >= 256:
        return -2.0
    char = chr(token)
    if char in '"}]':
        return 1.5  # strings and objects should end some time
    return 0.0 if token < 128 and (char.isalnum() or char == " ") else -4.0


def _gguf(keys: list[tuple[str, Any]], tensors: list[tuple[str, tuple[int, ...], array[float]]]) -> bytes:
    head = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(keys))]
    head += [_text(key) + _typed(value) for key, value in keys]
    data: list[bytes] = []
    offset = 0
    for name, shape, values in tensors:
        head.append(_text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, offset))
        raw = values.tobytes()
        data.append(raw + _padding(len(raw)))
        offset += len(data[-1])
    before = b"".join(head)
    return before + _padding(len(before)) + b"".join(data)


def _typed(value: Any) -> bytes:
    match value:
        case bool():
            return struct.pack("<I?", 7, value)
        case int():
            return struct.pack("<II", 4, value)
        case float():
            return struct.pack("<If", 6, value)
        case str():
            return struct.pack("<I", 8) + _text(value)
        case [str(), *_]:
            return struct.pack("<IIQ", 9, 8, len(value)) + b"".join([_text(item) for item in value])
        case _:
            return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _padding(size: int) -> bytes:
    return bytes(-size % _ALIGNMENT)
