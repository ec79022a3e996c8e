"""Outbound engines, one file a kind, and the programs that run as their child processes."""
