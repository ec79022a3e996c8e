"""OpenAI's Responses API as words, told to engines that speak chat completions. Pure."""
