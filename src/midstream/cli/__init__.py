"""The terminal: one-shot questions, a chat that switches models, and what shows what is stored and configured."""
