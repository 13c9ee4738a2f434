"""Which of a host's paths a request takes, where it has two to the same model.

`native` is the raw one: the prompt is written here and nothing of a chat can be said beside it. `auto`, the default, takes
it for what a prompt can carry whole; tools, media, a response format and the caller's own fields go to the chat.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ..core.blocks import Conversation, Media, ToolResponse
from ..core.dialect import Dialect, Options
from ..core.errors import ConfigError
from ..core.tools import ToolSpec


def choose_dialect(
    dialect: Dialect, conversation: Conversation, tools: Sequence[ToolSpec], options: Options
) -> Dialect:
    """The dialect for this request: the model's own, or its native one."""
    path = options.path or "auto"
    native = dialect.native
    if native is None:
        # Asked for by name and not there: silently taking the other path would hide that what was asked is not done.
        if path == "native" and dialect.template is None:
            raise ConfigError(f"{dialect.name} has no native path, because its chat template is not known")
        return dialect
    if path == "chat" or (path == "auto" and not _fits_a_prompt(conversation, tools, options, native)):
        return dialect
    if path == "auto" and options.schema is not None and native.answer_ways != dialect.answer_ways:
        return dialect  # the chat has a better way to hold an answer to a schema
    # A configured provider that is like another has its name: reasoning made there belongs there.
    return native if native.provider == dialect.provider else replace(native, provider=dialect.provider)


def _fits_a_prompt(conversation: Conversation, tools: Sequence[ToolSpec], options: Options, native: Dialect) -> bool:
    # A raw prompt has no place for these: the host's own path takes no tools
    # (field-guide/raw-completion.md#deepinfras-native-path).
    if tools or options.response_format is not None or options.extra_body:
        return False
    for turn in conversation.turns:
        for block in turn.blocks:
            parts = block.content if type(block) is ToolResponse else (block,)
            if any(type(part) is Media and part.kind not in native.media for part in parts):
                return False
    return True
