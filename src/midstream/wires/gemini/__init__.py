"""Google's Gemini wire: generateContent, and streamGenerateContent as server-sent events or as one JSON array."""
