"""The agent: the loop that lets a model work with tools, the built-in tools, and approval."""
