"""Raw completion: one prompt in, one text out, in the forms hosts speak it (DeepInfra native, OpenAI's, llama.cpp's)."""
