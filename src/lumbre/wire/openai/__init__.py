"""The OpenAI API: what a request asks, what a reply says, and the shape of its errors. Pure."""
