"""Your own HTTP client, our codec: encode a request, send it as you like, decode the answer."""

import os
import urllib.request

from midstream import Conversation, decode_stream, encode_request, human, reduce

conversation = Conversation((human("Why is the sky blue?"),))
request = encode_request("moonshot/kimi-k2.5", conversation)
base = os.environ.get("MOONSHOT_BASE_URL", "https://api.moonshot.ai/v1")
key = os.environ.get("MOONSHOT_API_KEY", "")
sent = urllib.request.Request(
    base + request.path, request.body, {**request.headers, "authorization": f"Bearer {key}"}, method=request.method
)
with urllib.request.urlopen(sent, timeout=60) as answer:
    turn = reduce(decode_stream(answer.read(), dialect="moonshot/kimi-k2.5"))
print(turn.text)
