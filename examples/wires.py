"""One conversation as every wire sees it: the id of one call, in six requests. Nothing is sent."""

import re

from midstream import Conversation, ToolCall, Turn, encode_request, human, tool_result

call = ToolCall("hist_tool_AAAABBBBCCCCDDDDEEEEFFFF", "read_file", '{"path": "plan.md"}')
conversation = Conversation(
    (
        human("Read plan.md"),
        Turn("ai", (call,)),
        Turn("tool", (tool_result(call, "Night train on Friday."),)),
        human("And?"),
    )
)

for model in (
    "moonshot/kimi-k2.5",
    "anthropic/claude-sonnet-4-5",
    "mistral/mistral-large-latest",
    "openai-responses/gpt-5.2",
    "gemini/gemini-3-pro-preview",
    "ollama/qwen3",
):
    request = encode_request(model, conversation)
    body = request.body.decode()
    ids = re.findall(r'"(?:id|call_id|tool_use_id|tool_call_id)":"([^"]+)"', body)
    print(f"{model:32} {request.path[:34]:34} {ids[0] if ids else '(no id on this wire)'}")
    for note in request.notes:
        print(f"{'':32} {note}")
