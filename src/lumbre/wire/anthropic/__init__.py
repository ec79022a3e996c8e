"""Anthropic's Messages API: a request in chat words, a reply in this API's, its errors and its list of models. Pure."""
