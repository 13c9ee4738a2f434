"""Text <-> tool calls: streaming filters over text, and how tools, calls and results are written into a prompt."""
