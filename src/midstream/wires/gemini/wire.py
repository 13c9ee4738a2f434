"""This wire as the registry knows it."""

from ..wire import Wire, without_text
from .decoder import GeminiDecoder
from .encoder import encode_gemini
from .plain import PLAIN
from .reader import read_gemini_request

WIRE = Wire("gemini", encode_gemini, without_text(GeminiDecoder), PLAIN, read_gemini_request)
