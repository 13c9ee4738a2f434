"""Raw completion: one prompt in, one text out, in the forms hosts speak it (DeepInfra native, OpenAI's, llama.cpp's)."""

from .decoder import CompletionDecoder
from .encoder import encode_completion

__all__ = ["CompletionDecoder", "encode_completion"]
