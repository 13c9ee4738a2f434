"""OpenAI's Responses wire, as several hosts speak it."""
