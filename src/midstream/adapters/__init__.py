"""The shapes other programs speak: Kimi behind a plain completion function, the AI SDK's messages."""
