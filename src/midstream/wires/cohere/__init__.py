"""Cohere's chat wire, version 2."""
