"""Ollama's own chat wire: lines of JSON."""

from .decoder import OllamaDecoder
from .encoder import encode_ollama
from .plain import PLAIN
from .reader import read_ollama_request

__all__ = ["PLAIN", "OllamaDecoder", "encode_ollama", "read_ollama_request"]
