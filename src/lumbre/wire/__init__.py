"""Bytes to words and back: SSE, the OpenAI API. Pure."""
