"""The loop that lets a model work with tools, and the tools."""
