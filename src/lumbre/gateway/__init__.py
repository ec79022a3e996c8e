"""Domain one: decision, hints, admission, health, the engine's lifecycle. Pure: values in, values out."""
