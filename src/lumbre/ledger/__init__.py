"""The append-only record of what ran where and what it cost: `records` makes it, `store` keeps it, `scan` reads it."""
