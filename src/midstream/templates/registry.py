"""The templates by name."""

from __future__ import annotations

from ..core.errors import ConfigError
from .chatml import CHATML, QWEN
from .deepseek import DEEPSEEK
from .gemma import GEMMA
from .kimi_k2 import KIMI_K2, KIMI_K2_0711, KIMI_K2_THINKING, KIMI_K25, KIMI_K26, KIMI_K27_CODE
from .kimi_k3 import KIMI_K3
from .llama3 import LLAMA3
from .mistral import MISTRAL
from .prompt import Template

_ALL = (
    KIMI_K2_0711,
    KIMI_K2,
    KIMI_K2_THINKING,
    KIMI_K25,
    KIMI_K26,
    KIMI_K27_CODE,
    KIMI_K3,
    CHATML,
    QWEN,
    LLAMA3,
    GEMMA,
    MISTRAL,
    DEEPSEEK,
)
# Loaded together, unlike the text formats: they are small, and most of their code is shared.
TEMPLATES: dict[str, Template] = {template.name: template for template in _ALL}


def get_template(name: str) -> Template:
    """The template of this name, or ConfigError listing the valid ones."""
    template = TEMPLATES.get(name.strip().lower())
    if template is None:
        raise ConfigError(f"unknown chat template {name!r}; expected one of {', '.join(TEMPLATES)}")
    return template
