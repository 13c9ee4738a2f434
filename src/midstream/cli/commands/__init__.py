"""The slash commands, a module for each subject. Importing this package registers them, in the order of /help.

A command changes the settings of the conversation or shows something; it removes nothing from the store.
"""

# ruff: noqa: F401
from __future__ import annotations

# In the order of /help.
# isort: off
from . import model
from . import context
from . import sessions
from . import answers
from . import files
from . import memory
from . import mcp
from . import inspect
