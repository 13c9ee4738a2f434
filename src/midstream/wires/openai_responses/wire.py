"""This wire as the registry knows it."""

from ...core.dialect import Dialect
from ..wire import Wire, without_text
from .decoder import ResponsesDecoder
from .encoder import encode_responses
from .reader import read_responses_request

_PLAIN = Dialect("openai-responses", "openai-responses", system_role="instructions", tool_result_media="inline")

WIRE = Wire("openai-responses", encode_responses, without_text(ResponsesDecoder), _PLAIN, read_responses_request)
