"""Google's Gemini wire: generateContent, and streamGenerateContent as server-sent events or as one JSON array."""

from .decoder import GeminiDecoder
from .encoder import encode_gemini
from .plain import PLAIN
from .reader import read_gemini_request

__all__ = ["PLAIN", "GeminiDecoder", "encode_gemini", "read_gemini_request"]
