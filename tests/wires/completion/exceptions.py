"""Vectors that record behaviour we do not share, and why."""

_ENUM = "the vendor's page leaks a Python enum into the role headers; the model was taught `user` and `system`"
_SEPARATOR = "its middleware joins sections with a line break; ours adds nothing that the model did not say"

EXCEPTIONS = {
    "deepinfra-native-prompt-basic": _ENUM,
    "deepinfra-native-prompt-assistant-plain": f"{_ENUM}; and its template pairs the tags: `<think></think>`",
    "deepinfra-native-prompt-assistant-think": f"{_ENUM}; and tags typed into text are text, not thinking",
    "deepinfra-native-prompt-tool-dropped": f"{_ENUM}; and nothing is dropped silently: media are named in the text",
    "deepinfra-native-request-url-has-model": "the base URL is the host's; a model is named in one place",
    "deepinfra-native-stream-malformed": "a malformed line is an error, not skipped: it would hide a truncation",
    "think-tags-multi": _SEPARATOR,
    "think-tags-nonstream-multi": _SEPARATOR,
    "think-tags-unclosed-nonstream": "thinking that never closes is thinking; it is not turned into text",
    "think-tags-token-only": "a tag is a tag however it is cut",
}
