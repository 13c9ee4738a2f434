"""One conversation, any order of models, never a 400."""
