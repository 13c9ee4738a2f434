"""OpenAI's Responses wire, as several hosts speak it."""

from .decoder import ResponsesDecoder
from .encoder import encode_responses
from .reader import read_items, read_responses_request

__all__ = ["ResponsesDecoder", "encode_responses", "read_items", "read_responses_request"]
