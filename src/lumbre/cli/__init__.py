"""The shell door and the composition root."""
