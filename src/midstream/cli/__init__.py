"""The command line: one-shot questions, a chat that switches models, and commands for what is stored and configured."""
