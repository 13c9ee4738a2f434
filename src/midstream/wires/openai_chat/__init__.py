"""OpenAI's chat-completions wire, as many hosts speak it."""
