"""The door for programs: HTTP in, the gateway behind it."""
