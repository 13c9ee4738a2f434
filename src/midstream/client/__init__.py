"""One turn with a model, sessions that switch models, and what they need: keys, configuration, prices, fallback."""
