"""Drivers: they own the clock, the settings and the tasks, and carry out what the domains decide."""
