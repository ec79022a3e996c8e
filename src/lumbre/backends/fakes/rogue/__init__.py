"""An OpenAI-like server that misbehaves on purpose: `python -m lumbre.backends.fakes.rogue --port 0`.

The request itself says what to do, in a `rogue` object of its body (see `rogue.wish`) or by a model name such
as `rogue-stall`. Under `/rogue/` it tells what it saw and sent, and waits for a test's word.
"""
