"""Anthropic's Messages wire, as Claude and its look-alikes speak it."""
