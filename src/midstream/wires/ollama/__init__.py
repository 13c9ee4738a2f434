"""Ollama's own chat wire: lines of JSON."""
